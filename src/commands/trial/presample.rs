//! Before a trial: the metric that decides, the length of slots, and what the trial will take.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::commands::Global;
use crate::commands::machine::Machine;
use crate::commands::{look, output, progress};
use crate::error::{CommandError, Kind, Result};
use rxlab_faces::report::text::paragraph;
use rxlab_faces::report::{trial_plan, words};
use rxlab_trial::metrics::{self, name};
use rxlab_trial::prior::{self, Pieces, Planned, TrialPlan};
use rxlab_trial::spec::{self, Design, Seconds, Spec};
use rxlab_trial::verdict;
use rxlab_trial::workload::Driver;

/// Length of the sample that chooses the metric, and the candidates of a search.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// Result of a sample before the trial.
#[derive(Default)]
pub(crate) struct Presample {
    /// Reason for the primary metric; `None` if it was given.
    pub(crate) why: Option<String>,
    /// Upper bound on the gain in throughput by steering, if that is below the margin.
    pub(crate) ceiling: Option<f64>,
}

/// Samples the machine under its load for a moment. Chooses the primary metric of live traffic and of a paced load, unless one is
/// given. Prints a notice if throughput decides and the receive path takes too little time for any gain to matter.
pub(crate) fn presample(
    machine: &Machine,
    spec: &mut Spec,
    driver: &mut Driver,
    stop: &AtomicBool,
) -> Result<Presample> {
    let asked = spec.design.primary.as_deref();
    // The bound is on throughput, and only traffic that already runs can be sampled.
    if asked.is_some_and(|metric| metric != name::THROUGHPUT) || spec.workload.command.is_some() {
        return Ok(Presample::default());
    }
    driver.begin().map_err(CommandError::failed)?;
    // A recording has no rates; the loop will report that.
    let Ok((_, rates)) = look::for_a_while(&machine.host, LOOK, spec.probe.budget, stop) else {
        return Ok(Presample::default());
    };
    let (work, _) = driver.end(None).map_err(CommandError::failed)?;
    let chosen = metrics::choose(spec, &rates, &work).filter(|_| asked.is_none());
    if let Some((primary, why)) = &chosen {
        let title = metrics::describe(primary, "").title;
        if progress::is_watched() {
            write!(
                output::stderr(),
                "{}",
                paragraph("", &format!("rxlab: deciding metric: {title} ({why})"))
            )?;
        }
        spec.design.primary = Some((*primary).to_owned());
    }
    let why = chosen.map(|(_, why)| why);
    let primary = spec.design.primary.as_deref();
    if primary.is_some_and(|primary| primary != name::THROUGHPUT || spec.workload.live) {
        return Ok(Presample { why, ceiling: None });
    }
    let share = rates.cpus.iter().map(|cpu| cpu.softirq).fold(0.0, f64::max);
    let margin = spec.design.margin;
    let ceiling = verdict::ceiling(share, margin);
    if let Some(ceiling) = ceiling {
        writeln!(
            output::stderr(),
            "rxlab: softirqs take {:.1} % of the hottest CPU: no steering can gain more than {:.1} % \
             throughput, below the margin of {:.0} %",
            100.0 * share,
            100.0 * ceiling,
            100.0 * margin,
        )?;
    }
    Ok(Presample { why, ceiling })
}

/// Samples the primary metric, and returns the plan that decides soonest; its slots become those of `spec` if that has
/// no length, and so does the number of pairs at which it ends. `None` if there is nothing to sample before the trial: the metric is that of a command, a check, a query
/// or the probe, or has no value.
pub(crate) fn plan(
    machine: &Machine,
    spec: &mut Spec,
    driver: &mut Driver,
    stop: &AtomicBool,
) -> Result<Option<Planned>> {
    let primary = spec.design.primary.clone().unwrap_or_else(|| name::THROUGHPUT.to_owned());
    let is_pairs = spec.design.kind == spec::Kind::Pairs;
    if !is_pairs || spec.workload.command.is_some() || spec.measures(&primary) {
        return Ok(None);
    }
    // Checks and queries need slots in which they have answers.
    let usual = !spec.checks.is_empty() || !spec.queries.is_empty();
    let slot = spec.design.measure.map(|measure| measure.0).or(usual.then_some(Design::MEASURE));
    let pieces = Pieces::new(&primary, slot, &spec.design);
    let bar = progress::clock("sampling before the trial", pieces.length.mul_f64(pieces.count as f64));
    let mut on_piece = |values: &[f64]| {
        bar.set_elapsed(pieces.length.mul_f64(values.len() as f64));
        !stop.load(Ordering::SeqCst) && !prior::is_enough(values, &pieces, &spec.design)
    };
    let (host, inventory) = (&machine.host, &machine.inventory);
    let values = prior::sample(host, inventory, spec, driver, &primary, &pieces, &mut on_piece);
    bar.finish_and_clear();
    // A recording has no rates; the loop will report that.
    let planned = values.ok().and_then(|values| prior::plan(&values, &pieces, &spec.design));
    if let (Some(planned), None) = (&planned, spec.design.measure) {
        let measure = Duration::from_secs_f64(planned.measure_s);
        if spec.design.time.is_none() {
            spec.design.pairs = Some(spec.design.pairs_at(measure));
        }
        spec.design.measure = Some(Seconds(measure));
        if progress::is_watched() {
            let lines = [
                Some(words::planned(planned, spec.design.margin)),
                words::lengths(planned, spec.design.margin),
            ];
            for line in lines.into_iter().flatten() {
                write!(output::stderr(), "{}", paragraph("", &format!("rxlab: {line}")))?;
            }
        }
    }
    if let Some(line) =
        spec.design.time.and_then(|time| words::within(time.0, spec.design.pairs(), planned.as_ref()))
    {
        write!(output::stderr(), "{}", paragraph("", &format!("rxlab: {line}")))?;
    }
    Ok(planned)
}

/// Prints the plan of a trial that is not run.
pub(super) fn print(
    global: &Global,
    spec: &Spec,
    presampled: Presample,
    planned: Option<Planned>,
    stop: &AtomicBool,
) -> Result {
    if stop.load(Ordering::SeqCst) {
        return Err(CommandError::silent(Kind::Interrupted));
    }
    let plan = TrialPlan::new(spec, presampled.why, presampled.ceiling, planned);
    output::print(global, &plan, || trial_plan::render(&plan))
}
