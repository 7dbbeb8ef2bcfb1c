//! Values of tunables, and plans made of them.
//!
//! A [`Setting`] is one value for one tunable, written `rps eth0/rx-0 = 2-7`; a [`Plan`] has settings in their order
//! with reasons and a prediction. [`TUNABLES`] has a row for each tunable with everything that needs no machine.
//! [`export`] writes a plan in the formats of other programs.
//!
//! Never: decides a value, or touches a machine.
//!
//! ```
//! use rxlab_setting::Setting;
//!
//! let setting: Setting = "rps eth0/rx-0 = 2-7".parse()?;
//! assert_eq!((setting.knob.as_str(), setting.value.as_str()), ("rps", "2-7"));
//! # Ok::<(), rxlab_setting::SettingError>(())
//! ```

pub mod command_line;
mod constraint;
pub mod export;
mod file;
pub mod prediction;
mod setting;
pub mod simulation;
mod target;
pub mod tunable;
mod words;

pub use command_line::{set_flags, trial_of, trial_of_file, trial_of_plan};
pub use constraint::forbids;
pub use file::PlanFileError;
pub use prediction::{CHANGE, CpuLoad, Overfull, Prediction, Range, predicted_percent};
pub use setting::{Plan, PlannedSetting, Setting, SettingError, set_of, set_text};
pub use simulation::{is_to_come, set_queues, simulate};
pub use target::{Target, common_interrupt, interrupts, queueless_targets, sent_elsewhere};
pub use tunable::{
    Encoding, EthtoolGroup, Owner, Risk, TUNABLES, Tunable, Upkeep, apply_order, discarded_by, is_of_napi,
    may_discard, risk_and_upkeep, tunable,
};
pub use words::in_words;
