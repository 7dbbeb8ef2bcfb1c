//! Two samples of the counters and the rates between them: the input of the doctor and of plans.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::machine::Source;
use super::progress;
use super::typed::SHORTEST_SAMPLE;
use crate::error::{CommandError, Kind, Result};
use rxlab_base::units::{CpuId, Fact};
use rxlab_path::evidence::{TRAFFIC, receive_time};
use rxlab_path::ledger::Ledger;
use rxlab_path::model::{Costs, CpuRates, IntervalError, Model, Rates};
use rxlab_path::sample::{Counters, Inventory, Scope, busiest, losing_sockets};
use rxlab_probe::{Budget, SoftirqTime, Windows, drop_reasons, hand_over, stack_work};
use rxlab_record::snapshot::Snapshot;
use rxlab_sys::{Host, allowed_cpus};

/// Bound on the cost of measuring softirq time.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct Cost {
    /// Share of a CPU's time that measuring softirqs with eBPF may take; the more packets, the shorter each
    /// measurement
    #[arg(long, value_name = "PERCENT", default_value = "1%")]
    pub(super) budget: Budget,
}

/// Returns the machine and its rates over `length`, or between the two moments of a snapshot. `stop` ends the sample
/// early; an error if it is then too short to measure anything.
pub(super) fn look(
    source: &Source,
    length: Duration,
    budget: Budget,
    stop: &AtomicBool,
) -> Result<(Model, Rates)> {
    match source {
        Source::Live(host) => {
            let begun = Instant::now();
            let seen = with_costs(&**host, length, budget, stop)?;
            if stop.load(Ordering::SeqCst) && begun.elapsed() < SHORTEST_SAMPLE {
                Err(CommandError::new(Kind::Interrupted, "interrupted before anything was measured"))
            } else {
                Ok(seen)
            }
        }
        Source::Snapshot(snapshot) => of_snapshot(snapshot),
    }
}

/// Returns the machine of a snapshot and its rates between the two moments.
pub(super) fn of_snapshot(snapshot: &Snapshot) -> Result<(Model, Rates)> {
    snapshot.interval().map_err(not_running)
}

/// Result of a command whose sample Ctrl-C may have cut short: its output is then of that shorter time.
pub(super) fn ended(stop: &AtomicBool, ended: Result) -> Result {
    let is_cut = stop.load(Ordering::SeqCst);
    match ended {
        Err(error) if error.kind != Kind::Findings => Err(error),
        _ if is_cut => Err(CommandError::new(Kind::Interrupted, "interrupted: this is the result so far")),
        ended => ended,
    }
}

/// Takes two samples and, unless `stop` is set, measures the cost of handing packets over and the reasons of losses.
pub(super) fn with_costs(
    host: &dyn Host,
    length: Duration,
    budget: Budget,
    stop: &AtomicBool,
) -> Result<(Model, Rates)> {
    let (model, rates) = for_a_while(host, length, budget, stop)?;
    if stop.load(Ordering::SeqCst) {
        return Ok((model, rates));
    }
    let costs = costs(host, &rates);
    let lost = Ledger::new(&model, &rates).per_second;
    let drop_reasons =
        if lost > 0.0 { drop_reasons(host, &model, (length, budget), stop) } else { Fact::NotAsked };
    Ok((model, Rates { costs, drop_reasons, ..rates }))
}

/// Age from which the inventory is taken again at the end of a sample. On a machine with thousands of interfaces it takes
/// most of a sample's CPU time.
const LASTS: Duration = Duration::from_secs(60);

/// Takes two samples, `length` apart, or less if `stop` is set meanwhile.
pub(super) fn for_a_while(
    host: &dyn Host,
    length: Duration,
    budget: Budget,
    stop: &AtomicBool,
) -> Result<(Model, Rates)> {
    let mut intervals = Intervals::begin(host, budget, LASTS);
    let rates = intervals.next(|| progress::wait("sampling the counters", length, stop))?;
    Ok((intervals.model, rates))
}

/// Intervals of a machine one after another: each begins with the counters that end the one before.
pub(super) struct Intervals<'a> {
    host: &'a dyn Host,
    inventory: Inventory,
    taken: Instant,
    /// Names of interfaces when the inventory was taken.
    names: Vec<String>,
    /// Age at which the inventory is taken again.
    lasts: Duration,
    /// The receive path, from the inventory.
    pub(super) model: Model,
    before: Counters,
    timer: Option<SoftirqTime>,
}

impl<'a> Intervals<'a> {
    /// Begins the first interval. The inventory is taken again when an interval ends and it is older than `lasts`,
    /// because settings may have changed, or interfaces have come or gone.
    pub(super) fn begin(host: &'a dyn Host, budget: Budget, lasts: Duration) -> Self {
        let taken = Instant::now();
        let names = names(host);
        let inventory = Inventory::take(host, Scope::Load);
        let timer = SoftirqTime::if_needed(host, &inventory, budget);
        let before = Counters::take(host, &inventory);
        Self { host, model: Model::new(&inventory), inventory, taken, names, lasts, before, timer }
    }

    /// The inventory that the latest counters were read with.
    pub(super) fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// The counters at the end of the latest interval.
    pub(super) fn counters(&self) -> &Counters {
        &self.before
    }

    /// Ends the interval when `wait` returns, and begins the next.
    pub(super) fn next(&mut self, wait: impl FnOnce()) -> Result<Rates> {
        // Without any, the kernel's own figures are used.
        let windows = Windows::during(self.timer.as_mut(), wait);
        let names = names(self.host);
        if self.taken.elapsed() >= self.lasts || names != self.names {
            self.taken = Instant::now();
            self.names = names;
            self.inventory = Inventory::take(self.host, Scope::Load);
            self.model = Model::new(&self.inventory);
        }
        let after = Counters::take(self.host, &self.inventory);
        let rates = Rates::between(&self.before, &after).map_err(not_running)?.accounted(&self.inventory);
        self.model.refute(&rates);
        let mut rates = Rates {
            processes: busiest(self.host, &self.before, &after),
            losing: losing_sockets(self.host, &self.before, &after),
            ..rates
        };
        self.before = after;
        windows.time(&mut rates);
        Ok(rates)
    }
}

/// Names below `/sys/class/net`; none if they cannot be listed.
fn names(host: &dyn Host) -> Vec<String> {
    host.list("sys/class/net").unwrap_or_default()
}

/// Time for measuring the part of the receive work that can be handed over.
const STACK: Duration = Duration::from_millis(200);

/// Costs of packets and of handing them over; `None` on files, and if too little is received to measure them.
fn costs(host: &dyn Host, rates: &Rates) -> Option<Costs> {
    if host.namespace().is_none()
        || !rates.cpus.iter().any(|cpu| cpu.packets >= TRAFFIC && receive_time(cpu) >= 0.01)
    {
        return None;
    }
    let mut missing = Vec::new();
    let cpus = stack_work(host, STACK).map_err(|why| missing.push(why.to_string())).unwrap_or_default();
    let measured = two_idlest(rates).and_then(|(from, to)| hand_over(host, from, to));
    let hand_over = measured.map_err(|why| missing.push(why)).ok();
    missing.dedup();
    Some(Costs { cpus, hand_over, missing })
}

/// The two CPUs on which measuring disturbs least.
fn two_idlest(rates: &Rates) -> Result<(CpuId, CpuId), String> {
    let allowed = allowed_cpus();
    let mut cpus: Vec<&CpuRates> = rates.cpus.iter().filter(|cpu| allowed.contains(cpu.cpu)).collect();
    cpus.sort_by(|a, b| b.idle.total_cmp(&a.idle));
    match cpus.as_slice() {
        [to, from, ..] => Ok((from.cpu, to.cpu)),
        _ => Err("there is no second CPU".to_owned()),
    }
}

fn not_running(error: IntervalError) -> CommandError {
    CommandError::usage(error).hint("counters need a running machine")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::ended;
    use crate::error::{CommandError, Kind};

    #[test]
    fn a_sample_that_was_cut_short_ends_with_130_unless_something_failed() {
        let kind = |is_cut: bool, end: Result<(), CommandError>| {
            ended(&AtomicBool::new(is_cut), end).err().map(|error| error.kind)
        };
        let findings = || Err(CommandError::silent(Kind::Findings));
        assert_eq!((kind(false, Ok(())), kind(false, findings())), (None, Some(Kind::Findings)));
        assert_eq!(kind(true, Ok(())), Some(Kind::Interrupted));
        assert_eq!(kind(true, findings()), Some(Kind::Interrupted));
        assert_eq!(kind(true, Err(CommandError::failed("disk full"))), Some(Kind::Failed));
    }
}
