//! Intervals of a running machine as frames.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::applied;
use crate::commands::look::Intervals;
use crate::commands::{Global, status};
use crate::error::Result;
use rxlab_advise::doctor::Alerts;
use rxlab_base::units::rfc3339;
use rxlab_faces::report::live::{Applied, LiveFrame};
use rxlab_probe::{Budget, Interference};
use rxlab_sys::LiveHost;

/// Age at which settings and what is applied are read again: both change rarely, and reading them takes longer than
/// reading all counters.
const LASTS: Duration = Duration::from_secs(10);

/// Takes one interval after another.
pub(in crate::commands) struct Sampler<'a> {
    global: &'a Global,
    intervals: Intervals<'a>,
    alerts: Alerts,
    applied: Arc<Applied>,
    /// Time of reading what is applied; `None` to read it again.
    read: Option<Instant>,
    /// The latest measurement of lost time.
    pub(super) interference: Option<Arc<Interference>>,
}

impl<'a> Sampler<'a> {
    /// Begins the first interval.
    pub(in crate::commands) fn begin(global: &'a Global, host: &'a LiveHost, budget: Budget) -> Self {
        Self {
            global,
            intervals: Intervals::begin(host, budget, LASTS),
            alerts: Alerts::default(),
            applied: Arc::default(),
            read: None,
            interference: None,
        }
    }

    /// Name of the machine.
    pub(in crate::commands) fn hostname(&self) -> &str {
        &self.intervals.model.identity.hostname
    }

    /// Reads again what is applied at the end of this interval.
    pub(super) fn forget_applied(&mut self) {
        self.read = None;
    }

    /// Ends the interval when `wait` returns, and begins the next.
    pub(in crate::commands) fn next(&mut self, wait: impl FnOnce()) -> Result<LiveFrame> {
        let rates = self.intervals.next(wait)?;
        let model = &self.intervals.model;
        let time = rfc3339(jiff::Timestamp::now());
        if self.read.is_none_or(|read| read.elapsed() >= LASTS) {
            self.applied = Arc::new(applied(status::of_machine(self.global)));
            self.read = Some(Instant::now());
        }
        let (program, applied) = (self.global.program(), Arc::clone(&self.applied));
        let frame = LiveFrame::new(model, &rates, &program, &mut self.alerts, time, applied);
        Ok(LiveFrame { interference: self.interference.clone(), ..frame })
    }
}
