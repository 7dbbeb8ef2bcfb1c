//! The write-ahead journal: the old value is on disk before it changes.
//!
//! One transaction is one file below `STATE/journal/`; the lines of the file are [`Record`]s. The
//! journal does not know about knobs or how values are written; it hands out [`Armed`], the
//! proof that a write may happen, and keeps the records. `docs/journal.md` gives the format.

mod command;
mod disk;
mod environment;
mod flaky;
mod holder;
mod kept;
mod log;
mod memory;
mod notice;
mod record;
mod recover;
mod registry;
mod reserve;
mod storage;
mod store;
mod unreadable;

pub use command::{BackCommand, PendingCommand};
pub use disk::Disk;
pub use disk::{claim_directory, make_directory, make_private_directory, sync_directory};
pub use environment::{DeviceThen, Environment};
pub use flaky::{FlakyStorage, Trouble};
pub use holder::lock_holder;
pub(crate) use kept::{Held, kept};
pub use log::{Armed, Journal};
pub use memory::Memory;
pub use notice::{Lapse, Notice, UndoOutcome};
pub use record::{Begin, Displaced, GroupId, Intent, Object, Outcome, Part, Record, Seen, SysfsIds};
pub(crate) use recover::Effect;
pub use recover::{Damage, History, Touched};
pub use storage::{Folder, Lock, LockError, Storage};
pub use store::{Archived, Entry, JournalError, Open, Store};
pub use unreadable::{Unread, Unreadable};
