//! Rates of one CPU: its time, softirqs and polling threads.

use std::collections::BTreeMap;

use crate::model::CpuRates;
use crate::sample::{Counters, CpuCounters, NapiThread};
use rxlab_base::parse::{CpuTimes, NET_RX, NET_TX, SOFTIRQS, SoftnetRow};
use rxlab_base::units::CpuId;

/// Time of threads that receive, of a kind, by CPU, as fractions of wall time.
pub(super) fn received(
    previous: &Counters,
    current: &Counters,
    seconds: f64,
    is_one: fn(&NapiThread) -> bool,
) -> BTreeMap<CpuId, f64> {
    let mut polled = BTreeMap::new();
    for (pid, now) in current.napi_threads.iter().filter(|(_, now)| is_one(now)) {
        let Some(then) = previous.napi_threads.get(pid) else { continue };
        let ran = now.ran_ns.saturating_sub(then.ran_ns) as f64 / 1e9 / seconds;
        for cpu in [then.cpu, now.cpu] {
            *polled.entry(cpu).or_default() += ran / 2.0;
        }
    }
    polled
}

/// Threads that poll queues, ran between two samples and may run on one CPU only, by that CPU.
pub(super) fn pinned(previous: &Counters, current: &Counters) -> BTreeMap<CpuId, Vec<u32>> {
    let mut pinned: BTreeMap<CpuId, Vec<u32>> = BTreeMap::new();
    for (pid, now) in current.napi_threads.iter().filter(|(_, now)| now.is_pinned && !now.is_cpumap) {
        if previous.napi_threads.get(pid).is_some_and(|then| then.ran_ns < now.ran_ns) {
            pinned.entry(now.cpu).or_default().push(*pid);
        }
    }
    pinned
}

/// Shares of the time that the CPU itself accounted: with dynamic ticks an idle CPU's sum can lag
/// behind the clock, and shares of the sum stay between 0 and 1.
pub(super) fn time_shares(cpu: CpuId, before: CpuTimes, after: CpuTimes) -> CpuRates {
    // idle and iowait of a CPU may step back (proc_stat(5)): a step back counts as 0.
    let delta = |field: fn(&CpuTimes) -> u64| field(&after).saturating_sub(field(&before)) as f64;
    let (user, system) = (delta(|t| t.user) + delta(|t| t.nice), delta(|t| t.system));
    let (irq, softirq) = (delta(|t| t.irq), delta(|t| t.softirq));
    let (steal, idle) = (delta(|t| t.steal), delta(|t| t.idle) + delta(|t| t.iowait));
    let total = user + system + irq + softirq + steal + idle;
    let share = |part: f64| if total > 0.0 { part / total } else { 0.0 };
    CpuRates {
        cpu,
        user: share(user),
        system: share(system),
        irq: share(irq),
        softirq: share(softirq),
        steal: share(steal),
        // A CPU without any tick is idle, not missing.
        idle: if total > 0.0 { share(idle) } else { 1.0 },
        ..CpuRates::default()
    }
}

/// Adds the events counted in between; those of softnet_stat only if both samples have it.
pub(super) fn add_events(
    rates: CpuRates,
    previous: &Counters,
    current: &Counters,
    (seconds, has_softnet): (f64, bool),
) -> CpuRates {
    let counters = |of: &Counters| of.cpus.known().and_then(|cpus| cpus.get(&rates.cpu).copied());
    let ran = |of: &Counters| of.ksoftirqd_ns.get(&rates.cpu).copied();
    let ksoftirqd = match (ran(previous), ran(current)) {
        (Some(before), Some(after)) => after.saturating_sub(before) as f64 / 1e9 / seconds,
        _ => 0.0,
    };
    let deep_idle = deep_idle(rates.cpu, previous, current, seconds);
    let rates = CpuRates { ksoftirqd, deep_idle, ..rates };
    let (Some(before), Some(after)) = (counters(previous), counters(current)) else { return rates };
    let wide = |field: fn(&CpuCounters) -> u64| field(&after).wrapping_sub(field(&before)) as f64 / seconds;
    // The kernel's softnet counters are 32 bits wide: their difference is right modulo 2^32.
    let narrow = |field: fn(&SoftnetRow) -> u32| {
        let grown = field(&after.softnet).wrapping_sub(field(&before.softnet));
        if has_softnet { f64::from(grown) / seconds } else { 0.0 }
    };
    CpuRates {
        net_rx: wide(|c| c.runs(NET_RX)),
        net_tx: wide(|c| c.runs(NET_TX)),
        other_softirqs: other_softirqs(&before, &after, seconds),
        packets: narrow(|c| c.processed),
        dropped: narrow(|c| c.dropped),
        time_squeeze: narrow(|c| c.time_squeeze),
        rps_ipis: narrow(|c| c.received_rps),
        flow_limit: narrow(|c| c.flow_limit),
        ..rates
    }
}

/// Entries/s of a CPU into deep idle states; a count that fell is left out.
fn deep_idle(cpu: CpuId, previous: &Counters, current: &Counters, seconds: f64) -> BTreeMap<String, f64> {
    let (Some(before), Some(after)) = (previous.deep_idle.get(&cpu), current.deep_idle.get(&cpu)) else {
        return BTreeMap::new();
    };
    let rate = |(name, entries): (&String, &u64)| {
        Some((name.clone(), entries.checked_sub(*before.get(name)?)? as f64 / seconds))
    };
    after.iter().filter_map(rate).collect()
}

/// The vectors other than the network's that ran in between.
fn other_softirqs(before: &CpuCounters, after: &CpuCounters, seconds: f64) -> BTreeMap<String, f64> {
    let runs = (0..).zip(SOFTIRQS).zip(before.softirqs.iter().zip(after.softirqs));
    let others = runs.filter(|((vector, _), _)| ![NET_RX, NET_TX].contains(vector));
    let rates = others
        .map(|((_, name), (before, after))| (name.to_owned(), after.wrapping_sub(*before) as f64 / seconds));
    rates.filter(|(_, rate)| *rate > 0.0).collect()
}
