//! rxlab finds which CPU the network receive work lands on, says why one core drowns in softirq
//! while others idle, plans a change, tries it on the live machine one variable at a time, and
//! keeps it only if it is proven to help.
//!
//! The program is one pipeline of values. Every arrow is an artefact that can be saved as JSON:
//!
//! ```text
//! Host -> Sample -> Model(previous, current) -> Findings -> Plan -> Journal -> Trial record -> Report
//! ```
//!
//! Modules import only leftward along that line (plus [`units`] and [`error`]); `tests/layering.rs`
//! enforces it. I/O is confined to [`host`] and the few modules that ARCHITECTURE.md names; everything
//! else is functions from values to values.

// Everything printed goes through `commands::output`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod apply;
pub mod atomic;
pub mod commands;
pub mod diagnose;
pub mod doctor;
pub mod error;
pub mod host;
pub mod journal;
pub mod knob;
pub mod lab;
pub mod load;
pub mod model;
pub mod parse;
pub mod persist;
pub mod plan;
pub mod probe;
pub mod recorder;
pub mod report;
pub mod sample;
pub mod snapshot;
pub mod target;
pub mod trial;
pub mod tui;
pub mod units;
pub mod web;
