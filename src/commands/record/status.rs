//! `rxlab record status`: which time is recorded.

use super::{Global, ring, unreadable};
use crate::commands::output;
use crate::error::Result;
use crate::report::recording::RecordingReport;

pub(super) fn run(global: &Global) -> Result {
    let span = ring(global)?.span().map_err(|error| unreadable(global, error))?;
    let report = RecordingReport::new(span.as_ref());
    output::print(global, &report, || report.text(&global.program()))
}
