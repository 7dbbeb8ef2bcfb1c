//! Plans: the value each tunable should have, and the reason. A plan decides; `knob` knows how.
//!
//! The policies are in `policy`, one variable per file in `step`. Nothing here reads or writes a machine.

pub mod candidates;
mod command_line;
mod cost;
mod draft;
mod expected;
pub mod export;
mod file;
mod forecast;
mod moves;
mod paper;
mod policy;
mod prediction;
mod setting;
mod share;
mod spread;
mod step;
mod target;
mod topology;
mod tunable;

pub use command_line::{set_flags, trial_of, trial_of_plan};
pub use cost::basis;
pub use file::PlanFileError;
pub use forecast::forecast;
pub use paper::set_queues;
pub use policy::{Options, Policed, Policy, Variable};
pub use prediction::{CpuLoad, Overfull, Prediction, Range};
pub use setting::{Plan, PlannedSetting, Setting, SettingError, set_of, set_text};
pub use spread::{Proposal, Spread, spread};
pub use target::{Target, interrupts, queueless_targets};
pub use tunable::{Encoding, EthtoolGroup, Owner, Risk, TUNABLES, Tunable, Upkeep, apply_order, tunable};
