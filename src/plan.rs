//! Plans: which value each tunable should have, and why. A plan decides; `knob` knows how.
//!
//! Nothing here reads or writes a machine.

mod file;
mod setting;

pub use file::PlanFileError;
pub use setting::{Plan, PlannedSetting, Setting, SettingError, Target};
