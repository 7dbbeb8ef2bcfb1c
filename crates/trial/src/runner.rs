//! The loop of a trial: calibrate, flip in random order, stop when decided. It drives a [`Bench`],
//! so that the same loop runs on a live machine and on simulated noise.

use std::collections::BTreeMap;

use super::analysis;
use super::metrics::name::THROUGHPUT;
use super::monitor::Monitor;
use super::record::{Slot, TrialRecord};
use super::spec::Kind;
use rxlab_base::units::CpuId;
use rxlab_probe::Cost;
use rxlab_stats::design;
use rxlab_stats::design::{Arm, Phase};

/// This many void slots of one arm in a row end the trial: the change does not take hold.
pub(super) const VOIDS_IN_A_ROW: usize = 3;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measured {
    /// Seconds since the trial began.
    pub start_s: f64,
    /// Length of the measured interval in seconds.
    pub seconds: f64,
    /// Metric values by name.
    pub values: BTreeMap<String, f64>,
    /// Names of the values that are lower bounds.
    pub at_least: Vec<String>,
    /// Reasons for missing values.
    pub absent: BTreeMap<String, String>,
    /// NET_RX runs per second by CPU.
    pub net_rx: BTreeMap<CpuId, f64>,
    /// Packets per second that went up the stack, by CPU.
    pub packets: BTreeMap<CpuId, f64>,
    /// Softirq share of each CPU's time.
    pub softirq: BTreeMap<CpuId, f64>,
    /// CPU time of the probe's programs.
    pub probe_cost: Option<Cost>,
    /// Reason why the slot does not count.
    pub void: Option<String>,
    /// Values set from outside, with expected and found values: the slot does not count.
    pub changed: Option<String>,
    pub guard: Option<String>,
    /// Sign that the load generator was the limit.
    pub client_limited: Option<String>,
}

impl Measured {
    /// Reason why the slot does not count; `interrupted`: the user stopped it.
    pub(super) fn reason(&self, interrupted: bool) -> Option<String> {
        let changed = self.changed.as_ref().map(|what| format!("changed from outside: {what}"));
        changed.or_else(|| self.void.clone()).or_else(|| interrupted.then(|| "interrupted".to_owned()))
    }
}

/// The system that a trial with the given record runs on.
pub trait Bench<Record> {
    /// Reason why it cannot continue; the trial ends with it and the caller must revert the change.
    type Error;

    /// Sets the arm with the number `arm`, waits for the washout and measures one slot. Arm 0 is the baseline.
    ///
    /// A slot that does not count must say so in [`Measured::void`]. If a guard trips, the bench must have reverted
    /// the change when this returns.
    fn slot(&mut self, arm: usize) -> Result<Measured, Self::Error>;

    /// Saves the last slot of the record. Called after every slot; a trial must be resumable from what it saved.
    fn save(&mut self, record: &Record) -> Result<(), Self::Error>;

    /// True if the user asked to stop.
    fn stopped(&self) -> bool;

    /// True shortly before the guard would revert the change and kill the trial: slots took far longer than planned, as on a
    /// machine whose CPUs are full.
    fn is_late(&self) -> bool {
        false
    }
}

/// End of a trial, in addition to its slots.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ending {
    /// Values set from outside, with expected and found values.
    pub changed: Option<String>,
    pub guard: Option<String>,
    /// Observation of the manipulation check, if the change did not take hold.
    pub not_applied: Option<String>,
    /// Stopped by the user.
    pub interrupted: bool,
    /// Sign that the load generator was the limit, in most slots.
    pub client_limited: Option<String>,
}

/// Runs or resumes a trial: `record` must hold the request and the finished slots. The slot of an
/// unfinished pair is voided, since its neighbour is lost. `calibration`: pairs with nothing flipped, before the
/// others. The caller must undo or keep the change afterwards: an arm is still set.
pub fn run<B: Bench<TrialRecord>>(
    record: &mut TrialRecord,
    calibration: usize,
    bench: &mut B,
) -> Result<Ending, B::Error> {
    if void_unfinished(record) {
        bench.save(record)?;
    }
    let done = record.slots.len();
    let mut run = Run { record, bench, limited: Vec::new(), voids: [0; 2] };
    let ending = match (run.calibrate(calibration)?, run.record.design) {
        (Some(ending), _) => ending,
        (None, Kind::BeforeAfter) => run.before_and_after()?,
        (None, _) => run.compare()?,
    };
    // A single slot may hit a hiccup of the machine; a trial is client-limited if most slots indicate it.
    // The signs of an earlier run's slots are not in the record: those of this run stand for all.
    let slots = run.record.slots[done..].iter().filter(|slot| slot.void.is_none()).count();
    let limited = (2 * run.limited.len() > slots).then(|| run.limited.pop()).flatten();
    Ok(Ending { client_limited: limited, ..ending })
}

struct Run<'a, B> {
    record: &'a mut TrialRecord,
    bench: &'a mut B,
    limited: Vec<String>,
    /// Void slots of arm A and of arm B since the last one that counted.
    voids: [usize; 2],
}

impl<B: Bench<TrialRecord>> Run<'_, B> {
    fn calibrate(&mut self, pairs: usize) -> Result<Option<Ending>, B::Error> {
        for pair in next_pair(self.record, Phase::Calibration)..pairs {
            if let Some(ending) = self.pair(Phase::Calibration, pair, [Arm::A, Arm::A])? {
                return Ok(Some(ending));
            }
        }
        self.record.calibration = analysis::calibrate(self.record);
        Ok(None)
    }

    fn compare(&mut self) -> Result<Ending, B::Error> {
        let monitor = Monitor::new(self.record);
        // A trial that was resumed after its time was over has none left either.
        self.record.time_is_over = false;
        let mut pair = next_pair(self.record, Phase::Comparison);
        // Void pairs are repeated with fresh coins, up to a limit.
        while pair < 2 * self.record.max_pairs {
            if analysis::primary_decision(self.record, &monitor).is_some() {
                break;
            }
            if self.record.has_no_time() || self.bench.is_late() {
                self.record.time_is_over = true;
                break;
            }
            let order = design::order(self.record.seed, Phase::Comparison, pair);
            if let Some(ending) = self.pair(Phase::Comparison, pair, order)? {
                return Ok(ending);
            }
            pair += 1;
        }
        Ok(Ending::default())
    }

    /// Runs the slots of arm A, then those of arm B. Void ones are repeated, up to as many again.
    fn before_and_after(&mut self) -> Result<Ending, B::Error> {
        for (position, arm) in [(0, Arm::A), (1, Arm::B)] {
            loop {
                let of_arm = || self.record.slots.iter().filter(|slot| slot.arm == arm);
                let valid = of_arm().filter(|slot| slot.void.is_none()).count();
                let is_over = valid >= self.record.max_pairs || of_arm().count() >= 2 * self.record.max_pairs;
                if is_over || self.bench.is_late() {
                    break;
                }
                if let Some(ending) = self.slot(Phase::Comparison, valid, position, arm)? {
                    return Ok(ending);
                }
            }
        }
        Ok(Ending::default())
    }

    /// Runs the two slots of a pair; returns an ending if the trial is over early.
    fn pair(&mut self, phase: Phase, pair: usize, order: [Arm; 2]) -> Result<Option<Ending>, B::Error> {
        for (position, arm) in (0..).zip(order) {
            if let Some(ending) = self.slot(phase, pair, position, arm)? {
                return Ok(Some(ending));
            }
        }
        Ok(None)
    }

    fn slot(
        &mut self,
        phase: Phase,
        pair: usize,
        position: u8,
        arm: Arm,
    ) -> Result<Option<Ending>, B::Error> {
        if self.bench.stopped() {
            return Ok(Some(Ending { interrupted: true, ..Ending::default() }));
        }
        let measured = self.bench.slot(arm.index())?;
        let interrupted = self.bench.stopped();
        let void = measured.reason(interrupted);
        let (changed, guard) = (measured.changed, measured.guard);
        self.limited.extend(measured.client_limited.filter(|_| void.is_none()));
        self.record.slots.push(Slot {
            pair,
            phase,
            position,
            arm,
            start_s: measured.start_s,
            seconds: measured.seconds,
            values: measured.values,
            at_least: measured.at_least,
            absent: measured.absent,
            net_rx: measured.net_rx,
            packets: measured.packets,
            softirq: measured.softirq,
            probe_cost: measured.probe_cost,
            void: void.clone(),
        });
        self.bench.save(self.record)?;
        if changed.is_some() {
            return Ok(Some(Ending { changed, guard, interrupted, ..Ending::default() }));
        }
        let works = self.record.slots.iter().map(|slot| (slot.arm.index(), &slot.values, &slot.void));
        let guard = guard.or_else(|| standstill(works));
        if guard.is_some() {
            return Ok(Some(Ending { guard, ..Ending::default() }));
        }
        if interrupted {
            return Ok(Some(Ending { interrupted, ..Ending::default() }));
        }
        let voids = &mut self.voids[arm.index()];
        *voids = if void.is_some() { *voids + 1 } else { 0 };
        let not_applied = void.filter(|_| *voids >= VOIDS_IN_A_ROW);
        Ok(not_applied.map(|why| Ending { not_applied: Some(why), ..Ending::default() }))
    }
}

/// Slots of one arm in a row without any work that show that the change stops it: a single one is chance.
const IDLE_IN_A_ROW: usize = 2;

/// Detects an arm that stops all work: it has no log ratio, so no interval would ever show it. Intermittent
/// traffic pauses in the baseline too, and one pause there says as little as one here. `slots`: number of the arm, values, and reason why it does not count.
pub(super) fn standstill<'a>(
    slots: impl Iterator<Item = (usize, &'a BTreeMap<String, f64>, &'a Option<String>)>,
) -> Option<String> {
    let works: Vec<(usize, f64)> = slots
        .filter(|(_, _, void)| void.is_none())
        .filter_map(|(arm, values, _)| Some((arm, *values.get(THROUGHPUT)?)))
        .collect();
    let (arm, _) = works.last().filter(|(arm, _)| *arm != 0)?;
    let of = |arm: usize| works.iter().filter(move |(other, _)| *other == arm).map(|(_, work)| *work);
    let idle = of(*arm).collect::<Vec<_>>().iter().rev().take_while(|work| **work == 0.0).count();
    let worked = of(0).next().is_some() && of(0).all(|work| work > 0.0);
    (idle >= IDLE_IN_A_ROW && worked).then(|| "nothing got through while the change was set".to_owned())
}

fn next_pair(record: &TrialRecord, phase: Phase) -> usize {
    record.slots.iter().filter(|slot| slot.phase == phase).map(|slot| slot.pair + 1).max().unwrap_or(0)
}

/// Voids a lone last slot, whose neighbour is lost, and returns true if there is one. Before and after there are no
/// neighbours.
fn void_unfinished(record: &mut TrialRecord) -> bool {
    let is_paired = record.design != Kind::BeforeAfter;
    let last = record.slots.last_mut().filter(|slot| is_paired && slot.position == 0 && slot.void.is_none());
    let Some(last) = last else { return false };
    last.void = Some("the run stopped before the other slot of its pair".to_owned());
    true
}

#[cfg(test)]
mod tests;
