//! The trial: flip one factor many times in random order, compare pairs of neighbouring slots.
//!
//! `docs/statistics.md` describes the method. The runner is the program's only loop: it composes apply,
//! load, sample and undo, and nothing calls back into it.

pub mod analysis;
pub mod blocks;
pub mod check;
pub mod checkpoint;
pub mod compare;
pub mod conclude;
pub mod design;
pub mod factor;
pub mod factorial;
pub mod guards;
pub mod halving;
pub mod live;
pub mod meter;
pub mod metrics;
pub mod monitor;
pub mod perform;
pub mod placement;
pub mod prior;
pub mod probed;
pub mod query;
pub mod record;
pub mod runner;
pub mod schedule;
pub mod search;
pub mod setup;
pub mod simulate;
pub mod spec;
pub mod stats;
pub mod store;
pub mod summary;
pub mod sweep;
pub mod verdict;
mod watched;
pub mod workload;
