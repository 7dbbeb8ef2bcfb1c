//! Follows a running load to its end: progress on a terminal, and the figures of each second.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use hdrhistogram::Histogram;

use crate::commands::files;
use crate::commands::progress::{self, Bar};
use crate::error::Result;
use rxlab_base::number::plural;
use rxlab_load::{Clients, Interval, Joint, Second, Session, Spec, hdr_log_head, hdr_log_line};

/// Interval between updates of the progress line.
const REFRESH: Duration = Duration::from_millis(250);
/// Interval between checks for Ctrl-C.
const SIGNAL_POLL: Duration = Duration::from_millis(20);
const SECOND: Duration = Duration::from_secs(1);

pub(super) struct Watch {
    duration: Duration,
    requests: Option<u64>,
    log: Option<(PathBuf, File)>,
    /// Seconds that are complete.
    pub(super) series: Vec<Second>,
}

impl Watch {
    /// A watch for `duration`, with a latency log if there is a path for one.
    pub(super) fn new(spec: &Spec, duration: Duration, log: Option<&Path>) -> Result<Self> {
        let log = match log {
            Some(path) => {
                let file = files::begin(path).map_err(|error| files::cannot_write(path, &error))?;
                Some((path.to_owned(), file))
            }
            None => None,
        };
        Ok(Self { duration, requests: spec.requests, log, series: Vec::new() })
    }

    /// Runs the load to the end of its time, until `stop`, or to its last request, and returns all
    /// measurements. `at_end` is called before waiting for the last responses.
    pub(super) fn run(
        &mut self,
        mut session: Session,
        stop: &AtomicBool,
        at_end: impl FnOnce(),
    ) -> Result<Interval> {
        let start = Instant::now();
        self.write(|| hdr_log_head(SystemTime::now()))?;
        let bar = Bar::new(self.requests.unwrap_or(self.duration.as_millis() as u64));
        let is_watched = progress::is_watched();
        // All completed seconds, and this one.
        let (mut total, mut second): (Option<Interval>, Option<Interval>) = (None, None);
        let mut shown = start;
        loop {
            let elapsed = start.elapsed();
            let over = elapsed >= self.duration || stop.load(Ordering::Relaxed) || session.is_done();
            let full = elapsed >= SECOND * (self.series.len() as u32 + 1);
            if !over && (full || (is_watched && shown.elapsed() >= REFRESH)) {
                let interval = session.cut();
                shown = Instant::now();
                let done = [&total, &second].into_iter().flatten().map(|part| part.sent).sum::<u64>();
                let position = self.requests.map(|_| done + interval.sent);
                bar.set_position(position.unwrap_or(elapsed.as_millis() as u64));
                let errors = plural(usize::try_from(interval.error_count()).unwrap_or(usize::MAX), "error");
                bar.set_message(&format!("{:.0}/s, {errors}", interval.rate()));
                second = Some(joined(second, interval));
            }
            let at = total.as_ref().map_or(0.0, |total| total.seconds);
            if over {
                at_end();
                let (last, arrivals) = session.finish();
                let last = joined(second, last);
                // No later interval includes requests that are still unanswered.
                self.keep(at, &last, &last.latencies())?;
                bar.finish_and_clear();
                return Ok(joined(total, last).with_arrivals(arrivals));
            }
            if full && let Some(second) = second.take() {
                self.keep(at, &second, &second.latency)?;
                total = Some(joined(total, second));
            }
            std::thread::sleep(SIGNAL_POLL.min(self.duration.saturating_sub(elapsed)));
        }
    }

    /// Lets clients, whose interval has begun, run to the end of its time or until `stop`.
    pub(super) fn run_clients(
        &self,
        mut clients: Clients,
        stop: &AtomicBool,
        at_end: impl FnOnce(),
    ) -> Result<Joint> {
        let start = Instant::now();
        let bar = Bar::new(self.duration.as_millis() as u64);
        while start.elapsed() < self.duration && !stop.load(Ordering::Relaxed) {
            bar.set_elapsed(start.elapsed());
            std::thread::sleep(SIGNAL_POLL.min(self.duration.saturating_sub(start.elapsed())));
        }
        at_end();
        bar.finish_and_clear();
        Ok(clients.end()?)
    }

    /// Adds the second that started `at` seconds after the load, and its `latencies` to the log.
    fn keep(&mut self, at: f64, second: &Interval, latencies: &Histogram<u64>) -> Result {
        self.series.push(Second::new(at, second));
        self.write(|| hdr_log_line(at, second.seconds, latencies))
    }

    fn write(&mut self, text: impl FnOnce() -> String) -> Result {
        let Some((path, file)) = &mut self.log else { return Ok(()) };
        file.write_all(text().as_bytes()).map_err(|error| files::cannot_write(path, &error))
    }
}

/// Joins two consecutive intervals.
pub(super) fn joined(sum: Option<Interval>, next: Interval) -> Interval {
    match sum {
        Some(sum) => sum.then(&next),
        None => next,
    }
}
