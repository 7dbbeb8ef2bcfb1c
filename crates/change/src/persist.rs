//! Values that survive a boot: the files for systemd and udev, their installation and
//! removal.
//!
//! [`texts`] creates the files, and [`find`] maps a persisted plan to the interfaces of a machine. [`folder`] writes
//! the files, [`trust`] reports who else can change what root runs and reads at boot, and [`restore`] applies the plan.

mod find;
mod folder;
mod record;
mod restore;
mod seal;
mod texts;
mod timer;
mod trust;

pub use find::{Found, found, lasting, permanent_mac};
pub use folder::{Folder, PersistError, Written};
pub use record::{RECORD_UNIT, record_files};
pub use restore::{Checked, Made, Refusal, Restorer, Round};
pub use texts::{OFF, PLAN, Restore, files};
pub use timer::{timer_files, unit_name};
pub use trust::{Exposed, Walked, walk};
