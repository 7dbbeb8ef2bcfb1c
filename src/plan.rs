//! Plans: which value each tunable should have, and why. A plan decides; `knob` knows how.
//!
//! One policy a file. Nothing here reads or writes a machine.

mod care;
mod cost;
pub mod export;
mod file;
mod forecast;
mod irqs;
mod prediction;
mod rfs;
mod rps;
mod setting;
mod spread;
mod target;

pub use care::{Risk, Upkeep, care, place};
pub use cost::{Costs, CpuCost};
pub use file::PlanFileError;
pub use forecast::forecast;
pub use irqs::interrupts;
pub use prediction::{CpuLoad, Prediction};
pub use setting::{Plan, PlannedSetting, Setting, SettingError};
pub use spread::{Proposal, Spread, spread};
pub use target::Target;
