//! Values that hold over a boot: the files that say so to systemd and udev, how they get to disk and how
//! they go again.
//!
//! [`texts`] makes the files, [`find`] brings a persisted plan back to the interfaces of a machine, and
//! [`groups()`] says what of it is set together; all are functions of values. [`folder`] writes the files,
//! [`trust`] says who else can change what root runs and reads at boot; only these two touch a disk.

mod find;
mod folder;
mod groups;
mod seal;
mod texts;
mod trust;

pub use find::{Found, found, lasting};
pub use folder::{Folder, PersistError, Written};
pub use groups::groups;
pub use texts::{OFF, PLAN, Restore, files};
pub use trust::{Exposed, Walked, walk};
