//! Values that hold over a boot: the files that say so to systemd and udev, how they get to disk and how
//! they go again.
//!
//! [`texts`] makes the files and [`find`] brings a persisted plan back to the interfaces of a machine;
//! both are functions of values. Only [`folder`] touches a disk.

mod find;
mod folder;
mod seal;
mod texts;

pub use find::{Found, found, lasting};
pub use folder::{Folder, PersistError, Written, replace};
pub use texts::{PLAN, Restore, files};
