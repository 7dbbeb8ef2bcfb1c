//! Renderers: from values to text, HTML and JSON.
//!
//! A renderer takes a model or a trial record and returns a `String`. It never reads a machine, measures, judges or
//! writes a file: earlier modules decide the content.

pub mod action;
pub mod blocks_text;
pub mod compare;
mod container;
pub mod document;
pub mod findings;
pub mod fleet;
pub mod forecast;
pub mod heat;
pub mod html;
pub mod interference;
pub mod live;
pub mod live_trials;
pub mod markdown;
mod measured;
pub mod metrics;
mod predicted;
pub mod printed;
mod probe_words;
pub mod receive_path;
pub mod recording;
pub mod status;
pub mod summary;
pub mod text;
pub mod timeline;
pub mod trace;
pub mod trial_plan;
pub mod trial_text;
pub mod tune_text;
pub mod validity;
pub mod words;

#[cfg(test)]
mod sample_compare;
#[cfg(test)]
pub(crate) mod sample_fleet;
#[cfg(test)]
pub(crate) mod sample_interference;
#[cfg(test)]
mod sample_model;
#[cfg(test)]
mod sample_trace;
#[cfg(test)]
mod schema;
