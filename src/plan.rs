//! Plans: which value each tunable should have, and why. A plan decides; `knob` knows how.
//!
//! One policy a file. Nothing here reads or writes a machine.

pub mod export;
mod file;
mod irqs;
mod prediction;
mod rfs;
mod rps;
mod setting;
mod spread;
mod target;

pub use file::PlanFileError;
pub use irqs::interrupts;
pub use prediction::Prediction;
pub use setting::{Plan, PlannedSetting, Setting, SettingError};
pub use spread::{Proposal, Spread, spread};
pub use target::Target;
