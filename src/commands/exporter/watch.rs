//! The samples behind findings, and what is applied and tried.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

use super::board::Board;
use crate::commands::look::Intervals;
use crate::commands::trial::schedule;
use crate::commands::{Global, output, place, status, top};
use crate::error::CommandError;
use rxlab_advise::doctor::{Alerts, doctor};
use rxlab_base::units::rfc3339;
use rxlab_faces::report::metrics::Judged;
use rxlab_path::evidence::receive_time;
use rxlab_path::model::{Model, Rates};
use rxlab_probe::Budget;
use rxlab_sys::LiveHost;
use rxlab_trial::schedule::Standing as Scheduled;
use rxlab_trial::summary::Summaries;

/// Length of the first sample: findings are there soon.
const FIRST: Duration = Duration::from_secs(3);

/// Samples until `stop` is set.
pub(super) fn watch(
    global: &Global,
    host: &LiveHost,
    board: &Board<'_>,
    (every, budget): (Duration, Budget),
    stop: &AtomicBool,
) {
    let (mut alerts, mut trials, mut reported) = (Alerts::default(), Summaries::default(), None);
    stand(global, board, &mut trials);
    let mut intervals = Intervals::begin(host, budget, Duration::ZERO);
    board.add_sample(intervals.inventory(), &intervals.model, intervals.counters());
    let mut length = FIRST.min(every);
    loop {
        let rates = intervals.next(|| place::sleep(length, stop));
        length = every;
        if stop.load(Ordering::SeqCst) {
            return;
        }
        board.add_sample(intervals.inventory(), &intervals.model, intervals.counters());
        stand(global, board, &mut trials);
        match rates {
            Ok(rates) => {
                let judged = judged(global, &intervals.model, &rates, &mut alerts);
                board.update(|shown| shown.judged = Some(judged));
                reported = None;
            }
            Err(error) => {
                board.update(|shown| shown.failures += 1);
                report(&error, &mut reported);
            }
        }
    }
}

fn judged(global: &Global, model: &Model, rates: &Rates, alerts: &mut Alerts) -> Judged {
    let report = doctor(model, rates, &global.program());
    alerts.update(&report.findings, &rfc3339(Timestamp::now()));
    Judged {
        ended: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64()),
        seconds: rates.seconds,
        receive_time: rates.cpus.iter().map(|cpu| (cpu.cpu, receive_time(cpu))).collect(),
        headroom: report.load.headroom,
        findings: alerts.standing(),
        gaps: report.gaps.len(),
    }
}

/// Reports a failure on standard error, once until it ends or changes.
fn report(error: &CommandError, reported: &mut Option<String>) {
    if reported.as_ref() != Some(&error.message) {
        // Without standard error, the counter of failures still shows it.
        let _ = writeln!(output::stderr(), "rxlab: findings unknown: {}", error.message);
        *reported = Some(error.message.clone());
    }
}

/// Shows what the state directory says.
fn stand(global: &Global, board: &Board<'_>, trials: &mut Summaries) {
    let checkpoints = schedule::open(global).unwrap_or_default();
    let now = Timestamp::now();
    let in_state = |is: fn(&Scheduled<'_>) -> bool| {
        checkpoints.iter().filter(|(_, scheduled)| is(&scheduled.standing(now))).count() as u64
    };
    let applied = top::applied(status::of_machine(global));
    let trials = trials.refresh(&global.state_dir).unwrap_or_default();
    let checkpoints = vec![
        ("waiting", in_state(|standing| matches!(standing, Scheduled::Waiting))),
        ("missed", in_state(|standing| matches!(standing, Scheduled::Missed))),
        ("failed", in_state(|standing| matches!(standing, Scheduled::Failed(_)))),
    ];
    board.update(|shown| (shown.applied, shown.trials, shown.checkpoints) = (applied, trials, checkpoints));
}
