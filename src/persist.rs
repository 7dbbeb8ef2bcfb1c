//! Values that survive a boot: the files for systemd and udev, their installation and
//! removal.
//!
//! [`texts`] creates the files, [`find`] maps a persisted plan to the interfaces of a machine, and
//! [`groups()`] groups the settings that are applied together; all are pure. [`folder`] writes the files,
//! [`trust`] reports who else can change what root runs and reads at boot; only these two access the disk.

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
