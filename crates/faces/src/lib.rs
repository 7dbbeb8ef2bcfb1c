//! Everything that is shown.
//!
//! [`report`] renders values as text, JSON, Markdown, one self-contained HTML file and metrics; [`tui`] is the screen of
//! `rxlab top`: its state, what keys do to it, and how it is drawn; [`web`] serves pages and metrics that only read.
//!
//! Never: decides, samples or writes to a machine. A renderer sees no sample, only models and records.
//!
//! ```
//! use rxlab_faces::report::text::wrap;
//!
//! assert_eq!(wrap("CPU 2 is full", 8), ["CPU 2 is", "full"]);
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod report;
pub mod tui;
pub mod web;
