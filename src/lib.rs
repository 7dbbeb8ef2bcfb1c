//! The command line of rxlab, and the practice range that its demo and its tests share.
//!
//! The program is one pipeline of values, one crate for each part (ARCHITECTURE.md). Every arrow is an artefact that
//! can be saved as JSON:
//!
//! ```text
//! Host -> Sample -> Model(previous, current) -> Findings -> Plan -> Journal -> Trial record -> Report
//! ```

// Everything printed goes through `commands::output`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod commands;
pub mod error;
pub mod lab;
