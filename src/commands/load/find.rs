//! `rxlab load --find-max`: runs at the rates that the search asks for, until it has an answer.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use indicatif::{ProgressBar, ProgressStyle};

use super::explain;
use crate::cli::Global;
use crate::error::{CommandError, Kind};
use crate::load::{Interval, LoadError, Protocol, Rate, Session, Spec};
use crate::trial::search::Search;
use crate::trial::search::found::{Found, Step, render};
use crate::trial::search::margins::{criteria, length};
use crate::trial::search::slo::Slo;

/// Part of a run that comes before the part that is measured.
const SETTLING: f64 = 0.25;
/// How often Ctrl-C is looked for.
const PATIENCE: Duration = Duration::from_millis(20);

/// Searches, and prints what was found.
pub(super) fn run(
    global: &Global,
    spec: &Spec,
    slo: &Slo,
    least: Duration,
    stop: &AtomicBool,
) -> Result<(), CommandError> {
    if spec.url.protocol == Protocol::UdpSink && slo.needs_latency() {
        return Err(CommandError::usage("a one-way load has no latency: give errors<PERCENT"));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seed = now.map_or(1, |time| time.as_nanos() as u64);
    let bar = std::io::stderr().is_terminal().then(|| {
        let style = ProgressStyle::with_template("{spinner} {msg}").expect("the template is valid");
        ProgressBar::new_spinner().with_style(style)
    });
    let say = |text: String| bar.iter().for_each(|bar| (bar.set_message(text.clone()), bar.tick()).1);

    say("closed loop".to_owned());
    let closed = Spec { rate: None, poisson: false, ..spec.clone() };
    let closed_loop = measure(&closed, least, stop).map_err(explain)?.rate();
    if stop.load(Ordering::Relaxed) {
        return Err(CommandError::silent(Kind::Interrupted));
    }
    if closed_loop <= 0.0 {
        return Err(CommandError::failed(format!("{} gave not one good answer", spec.url)));
    }
    let mut search = Search::new(closed_loop, criteria(slo), seed);
    let mut steps = Vec::new();
    while let Some(rate) = search.ask() {
        let decides = search.decides();
        say(format!("run {}: {rate:.0}/s{}", steps.len() + 1, if decides { "" } else { ", looking around" }));
        let open = Spec { rate: Some(Rate::steady(rate)), ..spec.clone() };
        let step = match measure(&open, length(slo, rate, least), stop) {
            Ok(interval) => Step::of(slo, rate, decides, &interval),
            // It took connections in the closed loop: this rate is too much for it.
            Err(LoadError::Down { .. }) => Step::refused(slo, rate, decides),
            Err(error) => return Err(explain(error)),
        };
        if stop.load(Ordering::Relaxed) {
            break;
        }
        search.tell(&step.margins);
        steps.push(step);
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let interrupted = stop.load(Ordering::Relaxed);
    let found = Found { interrupted, ..Found::new(spec, slo, seed, closed_loop, &search, steps) };
    let mut out = anstream::stdout().lock();
    if global.json {
        writeln!(out, "{}", crate::commands::json(&found)?)?;
    } else {
        write!(out, "{}", render(&found))?;
    }
    out.flush()?;
    match (interrupted, found.holds) {
        (true, _) => Err(CommandError::silent(Kind::Interrupted)),
        (false, None) => Err(CommandError::failed(format!("no rate was found that keeps {slo}"))),
        (false, Some(_)) => Ok(()),
    }
}

/// What a load of its own measures in `time`, after it has settled.
fn measure(spec: &Spec, time: Duration, stop: &AtomicBool) -> Result<Interval, LoadError> {
    let mut session = Session::start(spec)?;
    pause(time.mul_f64(SETTLING), stop);
    session.mark();
    pause(time, stop);
    Ok(session.mark())
}

fn pause(time: Duration, stop: &AtomicBool) {
    let start = Instant::now();
    while start.elapsed() < time && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(PATIENCE.min(time.saturating_sub(start.elapsed())));
    }
}
