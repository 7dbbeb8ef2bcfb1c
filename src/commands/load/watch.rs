//! A running load until its end: its progress on a terminal, and what each second brought.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use hdrhistogram::Histogram;

use crate::commands::files;
use crate::commands::progress::Bar;
use crate::diagnose::figures::plural;
use crate::error::CommandError;
use crate::load::{Interval, Second, Session, Spec, hdr_log_head, hdr_log_line};

/// How often the progress line changes.
const REFRESH: Duration = Duration::from_millis(250);
/// How often Ctrl-C is looked for.
const PATIENCE: Duration = Duration::from_millis(20);
const SECOND: Duration = Duration::from_secs(1);

/// Lets the load run and forgets what it measured.
pub(super) fn warm_up(session: &mut Session, time: Duration, stop: &AtomicBool) {
    let start = Instant::now();
    while start.elapsed() < time && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(PATIENCE.min(time.saturating_sub(start.elapsed())));
    }
    session.forget();
}

/// What watches a load.
pub(super) struct Watch {
    duration: Duration,
    requests: Option<u64>,
    log: Option<(PathBuf, File)>,
    /// The seconds that are over.
    pub(super) series: Vec<Second>,
}

impl Watch {
    /// For `duration`, with a log of the latencies where there is a path for one.
    pub(super) fn new(spec: &Spec, duration: Duration, log: Option<&Path>) -> Result<Self, CommandError> {
        let log = log.map(|path| match files::begin(path) {
            Ok(file) => Ok((path.to_owned(), file)),
            Err(error) => {
                let message = format!("cannot write {}: {error}", path.display());
                Err(CommandError::new((&error).into(), message))
            }
        });
        Ok(Self { duration, requests: spec.requests, log: log.transpose()?, series: Vec::new() })
    }

    /// Lets the load run to the end of its time, or until `stop`, or to its last request; gives all
    /// that was measured. `at_end` comes before the last answers are waited for.
    pub(super) fn run(
        &mut self,
        mut session: Session,
        stop: &AtomicBool,
        at_end: impl FnOnce(),
    ) -> Result<Interval, CommandError> {
        let start = Instant::now();
        self.write(|| hdr_log_head(SystemTime::now()))?;
        let bar = Bar::on_terminal(self.requests.unwrap_or(self.duration.as_millis() as u64));
        // All seconds that are over, and this one.
        let (mut total, mut second): (Option<Interval>, Option<Interval>) = (None, None);
        let mut shown = start;
        loop {
            let elapsed = start.elapsed();
            let over = elapsed >= self.duration || stop.load(Ordering::Relaxed) || session.is_done();
            let full = elapsed >= SECOND * (self.series.len() as u32 + 1);
            if !over && (full || (bar.is_some() && shown.elapsed() >= REFRESH)) {
                let interval = session.cut();
                shown = Instant::now();
                if let Some(bar) = &bar {
                    let done = [&total, &second].into_iter().flatten().map(|part| part.sent).sum::<u64>();
                    let position = self.requests.map(|_| done + interval.sent);
                    bar.set_position(position.unwrap_or(elapsed.as_millis() as u64));
                    let errors =
                        plural(usize::try_from(interval.error_count()).unwrap_or(usize::MAX), "error");
                    bar.set_message(&format!("{:.0}/s, {errors}", interval.rate()));
                }
                second = Some(joined(second, interval));
            }
            let at = total.as_ref().map_or(0.0, |total| total.seconds);
            if over {
                at_end();
                let (last, arrivals) = session.finish();
                let last = joined(second, last);
                // Nothing later has what has no answer yet.
                self.keep(at, &last, &last.latencies())?;
                if let Some(bar) = bar {
                    bar.finish_and_clear();
                }
                return Ok(joined(total, last).with_arrivals(arrivals));
            }
            if full && let Some(second) = second.take() {
                self.keep(at, &second, &second.latency)?;
                total = Some(joined(total, second));
            }
            std::thread::sleep(PATIENCE.min(self.duration.saturating_sub(elapsed)));
        }
    }

    /// Adds the second that began `at` seconds after the start, and its `latencies` to the log.
    fn keep(&mut self, at: f64, second: &Interval, latencies: &Histogram<u64>) -> Result<(), CommandError> {
        self.series.push(Second::new(at, second));
        self.write(|| hdr_log_line(at, second.seconds, latencies))
    }

    fn write(&mut self, text: impl FnOnce() -> String) -> Result<(), CommandError> {
        let Some((path, file)) = &mut self.log else { return Ok(()) };
        file.write_all(text().as_bytes())
            .map_err(|error| CommandError::failed(format!("cannot write {}: {error}", path.display())))
    }
}

/// Two intervals that follow each other, as one.
pub(super) fn joined(sum: Option<Interval>, next: Interval) -> Interval {
    match sum {
        Some(sum) => sum.then(&next),
        None => next,
    }
}
