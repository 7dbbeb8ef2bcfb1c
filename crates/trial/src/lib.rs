//! Trials: flip one factor many times in random order, compare pairs of neighbouring slots.
//!
//! A [`spec`] says what is compared, [`perform`] does it, a [`record`] keeps everything that was asked and measured,
//! [`conclude`] makes a verdict of it, and [`recommendation`] the advice. The runner is the only loop: it composes apply,
//! load, sample and undo, and nothing calls back into it. It does not know the machine, only a [`runner::Bench`].
//!
//! Never: leaves a machine changed, unless asked to keep what helps.
//!
//! ```
//! use rxlab_trial::spec::Spec;
//!
//! let text = r#"
//! name = "rps"
//! [change]
//! set = ["rps eth0/rx-0 = 2-7"]
//! [workload]
//! live = true
//! "#;
//! assert_eq!(Spec::parse(text)?.design.margin, 0.03);
//! # Ok::<(), rxlab_trial::spec::SpecError>(())
//! ```

pub mod analysis;
pub mod blocks;
pub mod check;
pub mod checkpoint;
pub mod choose;
pub mod compare;
pub mod conclude;
pub mod effect;
pub mod factor;
pub mod factorial;
pub mod fleet;
pub mod guards;
pub mod halving;
pub mod harm;
pub mod live;
pub mod meter;
pub mod metrics;
pub mod monitor;
pub mod outcome;
pub mod perform;
pub mod placement;
pub mod prior;
pub mod probed;
pub mod query;
pub mod recommendation;
pub mod record;
pub mod runner;
#[cfg(any(test, feature = "testing"))]
pub mod sample_record;
pub mod schedule;
pub mod search;
pub mod setup;
pub mod simulate;
pub mod spec;
pub mod store;
pub mod summary;
pub mod sweep;
pub mod tuning;
pub mod verdict;
mod watched;
pub mod workload;
