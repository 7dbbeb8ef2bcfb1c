//! The bench of a real trial: this machine, its knobs, its traffic.

use std::time::{Duration, Instant};

use serde::Serialize;
use thiserror::Error;

use super::check::Checked;
use super::factor::{Factor, FactorError};
use super::guards::{self, Watch};
use super::meter::{Mark, Meter, MeterError, Metered};
use super::metrics;
use super::placement::{self, Expectation};
use super::runner::{Bench, Measured};
use super::store::{StoreError, TrialDir};
use super::workload::{Driver, WorkloadError};
use rxlab_base::units::NicName;
use rxlab_path::model::{IntervalError, Rates};
use rxlab_path::sample::{Counters, Inventory};
use rxlab_probe::{SoftirqTime, Windows};
use rxlab_sys::Host;

/// A trial that cannot continue.
#[derive(Debug, Error)]
pub enum LiveError {
    /// An arm cannot be set.
    #[error(transparent)]
    Factor(#[from] FactorError),
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The probe cannot be attached or read.
    #[error(transparent)]
    Meter(#[from] MeterError),
    /// The counters do not form an interval.
    #[error(transparent)]
    Interval(IntervalError),
    /// CPU time counts in ticks of 10 ms, and there was none.
    #[error("the slot was too short for the counters: the command must run for at least 50 ms")]
    Short,
    /// The record cannot be saved.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// This machine as a bench.
pub struct Live<'a, Record> {
    /// Source of the counters.
    pub host: &'a dyn Host,
    pub inventory: &'a Inventory,
    pub factor: Factor,
    pub driver: Driver,
    /// Settling time before each measured interval.
    pub washout: Duration,
    /// Length of the measured interval.
    pub measure: Duration,
    /// Checks the guards while slots run.
    pub watch: Watch<'a>,
    /// Interface whose packets are the throughput of live traffic.
    pub nic: Option<NicName>,
    /// Expected placement in each arm.
    pub expected: Vec<Vec<Expectation>>,
    /// Measures the metrics of the probe.
    pub meter: Option<Meter>,
    /// Measures softirq time; `None` to use the kernel's own figures.
    pub softirq_time: Option<SoftirqTime>,
    pub dir: &'a TrialDir,
    /// Start of the trial; a resumed trial continues from the last slot.
    pub began: Instant,
    /// No slot begins later: the guard reverts the change a while after it.
    pub until: Instant,
    /// Called with the record after each slot.
    pub progress: &'a mut dyn FnMut(&Record),
}

impl<Record> Live<'_, Record> {
    fn mark(&self) -> Result<Option<Mark>, MeterError> {
        self.meter.as_ref().map(Meter::mark).transpose()
    }

    /// The probe's own interval, after a slot without it; `None` when it ended early.
    fn afterwards(&mut self) -> Result<Option<Metered>, LiveError> {
        let Some(meter) = &mut self.meter else { return Ok(None) };
        meter.attach(self.host)?;
        let before = Counters::take(self.host, self.inventory);
        let first = meter.mark()?;
        // The output of a command here was measured together with the probe.
        self.driver.wait(self.measure, &mut self.watch)?;
        let last = meter.mark()?;
        let after = Counters::take(self.host, self.inventory);
        let metered = if has_ended(&self.watch) {
            None
        } else {
            Some(meter.metered(self.host, first, last, &rates(&before, &after)?))
        };
        meter.detach();
        Ok(metered)
    }

    /// Reverts the change at once, before anything is computed or saved.
    fn roll_back(&mut self, measured: Measured) -> Result<Measured, LiveError> {
        match self.factor.set(self.host, 0) {
            // Ctrl-C ends the command of arm A; the rollback at the end of the trial runs it again.
            Err(FactorError::Command { .. }) if self.watch.is_stopped() => Ok(measured),
            set => with_changed(measured, set),
        }
    }
}

/// The slot, with what another program has changed.
fn with_changed(measured: Measured, found: Result<(), FactorError>) -> Result<Measured, LiveError> {
    match found {
        Ok(()) => Ok(measured),
        Err(FactorError::Changed(what)) => Ok(Measured { changed: Some(what), ..measured }),
        Err(error) => Err(error.into()),
    }
}

/// True if a slot ended early.
fn has_ended(watch: &Watch) -> bool {
    watch.tripped().is_some() || watch.is_stopped()
}

/// The tripped guard, with the arm if it is not the change's.
fn in_arm(arm: usize, why: &str) -> String {
    match arm {
        0 => format!("{why}; the change was not set: this is about the machine or its load"),
        _ => why.to_owned(),
    }
}

pub(super) fn rates(before: &Counters, after: &Counters) -> Result<Rates, LiveError> {
    Rates::between(before, after).map_err(|error| match error {
        IntervalError::Still => LiveError::Short,
        other => LiveError::Interval(other),
    })
}

/// A record whose slots are appended to it on disk.
pub trait Slots {
    type Slot: Serialize;

    /// Its slots in time order.
    fn slots(&self) -> &[Self::Slot];
}

impl<Record: Slots> Bench<Record> for Live<'_, Record> {
    type Error = LiveError;

    fn slot(&mut self, arm: usize) -> Result<Measured, LiveError> {
        let unmeasured = Measured { start_s: self.began.elapsed().as_secs_f64(), ..Measured::default() };
        match self.factor.set(self.host, arm) {
            // Ctrl-C ends the commands of the arms too: that is the interrupt, not a failure.
            Err(FactorError::Command { .. }) if self.stopped() => return Ok(unmeasured),
            Ok(()) => {}
            failed => return with_changed(unmeasured, failed),
        }
        let measured = self.measured(arm)?;
        if measured.guard.is_some() {
            return self.roll_back(measured);
        }
        with_changed(measured, self.factor.check(self.host))
    }

    fn save(&mut self, record: &Record) -> Result<(), LiveError> {
        if let Some((at, slot)) = record.slots().iter().enumerate().next_back() {
            self.dir.append(at, slot)?;
        }
        (self.progress)(record);
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.watch.is_stopped()
    }

    fn is_late(&self) -> bool {
        Instant::now() > self.until
    }
}

impl<Record> Live<'_, Record> {
    /// One slot of the current arm.
    fn measured(&mut self, arm: usize) -> Result<Measured, LiveError> {
        self.driver.discard()?;
        self.watch.begin_slot();
        self.driver.settle(self.washout, &mut self.watch);
        let start_s = self.began.elapsed().as_secs_f64();
        if has_ended(&self.watch) {
            return Ok(self.cut_short(arm, start_s, 0.0));
        }
        self.driver.begin()?;
        self.watch.begin();
        let start_s = self.began.elapsed().as_secs_f64();
        let before = Counters::take(self.host, self.inventory);
        let first = self.mark()?;
        let mut wait = || self.driver.wait(self.measure, &mut self.watch);
        let (printed, windows) = match &mut self.softirq_time {
            Some(timer) => {
                let (printed, windows) = timer.during(wait);
                (printed?, windows.map_err(MeterError::from)?)
            }
            None => (wait()?, Windows::default()),
        };
        if has_ended(&self.watch) {
            let seconds = self.began.elapsed().as_secs_f64() - start_s;
            return Ok(self.cut_short(arm, start_s, seconds));
        }
        let last = self.mark()?;
        let after = Counters::take(self.host, self.inventory);
        let checked = self.watch.checks.end();
        let (work, trouble) = self.driver.end(printed.as_deref())?;
        let asked = self.watch.queries.end();
        let mut rates = rates(&before, &after)?;
        windows.time(&mut rates);
        let metered = match (first, last, &self.meter) {
            (Some(first), Some(last), Some(meter)) if !meter.is_detached() => {
                meter.metered(self.host, first, last, &rates)
            }
            (_, _, Some(_)) => match self.afterwards()? {
                Some(metered) => metered,
                None => return Ok(self.cut_short(arm, start_s, rates.seconds)),
            },
            _ => Metered::default(),
        };
        let mut values = metrics::values(&rates, &work, self.nic.as_ref());
        values.extend(metered.values);
        values.extend(checked.values);
        values.extend(asked.values);
        let at_least = [work.at_least, checked.at_least].concat();
        let void = placement::contradiction(&self.expected[arm], &rates);
        let guard = guards::tripped(&self.watch.guards, &trouble, &rates).or(asked.tripped);
        let guard = guard.map(|why| in_arm(arm, &why));
        Ok(Measured {
            start_s,
            seconds: rates.seconds,
            values,
            at_least,
            absent: asked.absent,
            net_rx: rates.cpus.iter().map(|cpu| (cpu.cpu, cpu.net_rx)).collect(),
            packets: rates.cpus.iter().map(|cpu| (cpu.cpu, cpu.packets)).collect(),
            softirq: rates.cpus.iter().map(|cpu| (cpu.cpu, cpu.softirq)).collect(),
            probe_cost: metered.cost,
            void,
            changed: None,
            guard,
            client_limited: trouble.client_limited,
        })
    }

    /// A slot that a guard or the user ended before its time. The runner voids one that the user ended.
    fn cut_short(&mut self, arm: usize, start_s: f64, seconds: f64) -> Measured {
        // Nothing that has to be waited for: the change is still set.
        let Checked { values, at_least } = self.watch.checks.end();
        let guard = self.watch.tripped().map(|why| in_arm(arm, why));
        let void = guard.as_ref().map(|why| format!("guard tripped: {why}"));
        Measured { start_s, seconds, values, at_least, void, guard, ..Measured::default() }
    }
}
