//! `rxlab` alone on a terminal: the receive path in about ten lines, and what to type next.

use std::io::Write;
use std::time::Duration;

use super::machine::Source;
use super::{Global, look, output, place, status};
use crate::error::Result;
use rxlab_advise::doctor::{busiest_paths, doctor};
use rxlab_faces::report::findings;

/// Length of the sample: a first answer has to come at once.
const SAMPLE: Duration = Duration::from_secs(1);

pub(super) fn run(global: &Global) -> Result {
    let source = Source::Live(Box::new(super::machine::readable(global)?));
    let stop = place::stop_flag()?;
    let (model, rates) = look::look(&source, SAMPLE, rxlab_probe::Budget::default(), &stop)?;
    let program = global.program();
    let report = doctor(&model, &rates, &program);
    // Without permission to read the journal, the rest is still true.
    let applied = status::transactions(global, &source).map_or(0, |(all, _)| all.len());
    let paths = busiest_paths(&model, &rates);
    write!(output::stdout(global), "{}", findings::overview(&report, &paths, applied, &program))?;
    look::ended(&stop, Ok(()))
}
