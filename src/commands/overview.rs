//! `rxlab` alone: what the doctor says, in ten lines.

use std::time::Duration;

use super::machine::Source;
use super::{Global, elsewhere, look, output, place, status};
use crate::error::{CommandError, Result};
use rxlab_advise::doctor::{busiest_paths, doctor};
use rxlab_faces::report::findings;

/// Length of the sample: a first answer has to come at once.
const SAMPLE: Duration = Duration::from_secs(1);

pub(super) fn run(global: &Global) -> Result {
    let source = Source::Live(Box::new(super::machine::readable(global)?));
    let stop = place::stop_flag()?;
    let (model, rates) = look::look(&source, SAMPLE, rxlab_probe::Budget::default(), &stop)?;
    let program = global.program();
    let mut report = doctor(&model, &rates, &program);
    (report.taken, report.recorded) = source.taken();
    elsewhere::complete(global, &source, &mut report);
    // Without permission to read the journal, the rest is still true.
    let applied = status::transactions(global, &source).map_or(0, |(all, _)| all.len());
    let paths = busiest_paths(&model, &rates);
    let printed = output::print(global, &report, || findings::overview(&report, &paths, applied, &program));
    CommandError::after_output(look::ended(&stop, Ok(())), printed)
}
