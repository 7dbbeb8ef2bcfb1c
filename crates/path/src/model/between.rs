//! Rates between two samples: deltas that survive wrapping, hotplug and vanished interfaces.

mod cpu;

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use super::rates::{CpuRates, IrqRates, NicRates, Rates};
use crate::drivers::{LossKind, OF_DRIVER, facts, loss_kind};
use crate::sample::{Counters, Inventory, LossRates, NicCounters};
use rxlab_base::parse::{InterruptLine, QueueCounters};
use rxlab_base::units::{CpuId, CpuMask, Fact, IrqId, NicName, find_by_name};

/// Part of an interface's packets below which all of its queues have far fewer: counters of the device and of its driver are not
/// read, or updated, at one time.
const MOST_KEPT: f64 = 0.5;

/// A running machine accounts CPU time in ticks of 10 ms: over fewer than ten ticks, no change proves
/// nothing.
const TICKS_FOR_SURE: f64 = 0.1;

/// Two samples that do not form an interval.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IntervalError {
    /// The second is not later than the first.
    #[error("the second sample is not later than the first")]
    NoTime,
    /// No CPU spent any time: the files are from a recording, not from a running machine.
    #[error("CPU time does not advance between two samples: this is a recording, not a running machine")]
    Still,
    /// CPU times cannot be read.
    #[error("no {0}")]
    NoTimes(String),
}

impl Rates {
    /// Rates from `previous` to `current`, which must be of one boot and in this order.
    pub fn between(previous: &Counters, current: &Counters) -> Result<Self, IntervalError> {
        if current.taken_ns <= previous.taken_ns {
            return Err(IntervalError::NoTime);
        }
        let seconds = (current.taken_ns - previous.taken_ns) as f64 / 1e9;
        let masked = masked(previous).and(masked(current));
        let unknown = BTreeMap::new();
        let (before, after) = match (&previous.times, &current.times) {
            _ if masked.is_some() => (&unknown, &unknown),
            (Fact::Known(before), Fact::Known(after)) => (before, after),
            (Fact::Known(_), times) | (times, _) => {
                return Err(IntervalError::NoTimes(
                    gap(("CPU times", "/proc/stat"), times).unwrap_or_default(),
                ));
            }
        };
        if masked.is_none() && before == after && seconds >= TICKS_FOR_SURE {
            return Err(IntervalError::Still);
        }
        let uncounted = [previous, current].iter().any(|of| of.softnet.known().is_none());
        let received = |is_one| cpu::received(previous, current, seconds, is_one);
        let (napi, cpumap) = (received(|_| true), received(|thread| thread.is_cpumap));
        let of = |threads: &BTreeMap<CpuId, f64>, cpu| threads.get(&cpu).copied().unwrap_or_default();
        let cpus = before
            .iter()
            .filter_map(|(cpu, before)| Some(cpu::time_shares(*cpu, *before, *after.get(cpu)?)))
            .map(|rates| CpuRates { napi: of(&napi, rates.cpu), cpumap: of(&cpumap, rates.cpu), ..rates })
            .map(|rates| cpu::add_events(rates, previous, current, (seconds, !uncounted)))
            .collect();
        let nics = previous
            .nics
            .iter()
            .filter_map(|(name, before)| Some(nic(name.clone(), before, current.nics.get(name)?, seconds)));
        let (irqs, restarted) = irqs(previous, current, seconds);
        let mut gaps = gaps(current, masked.as_deref());
        if let [first, ..] = restarted[..] {
            let all = if restarted.len() > 1 {
                format!("{first} and {} more", restarted.len() - 1)
            } else {
                first.to_string()
            };
            gaps.push(format!("interrupt counts: those of IRQ {all} restarted within the sample"));
        }
        Ok(Self {
            seconds,
            cpus,
            nics: nics.collect(),
            irqs,
            pinned_napi: cpu::pinned(previous, current),
            unfired: unfired(current),
            gaps,
            uncounted,
            masked,
            losses: current
                .losses
                .clone()
                .and_then(|now| previous.losses.clone().map(|then| LossRates::between(&then, &now, seconds))),
            ..Self::default()
        })
    }

    /// What interfaces and interrupts count since boot, as if it were of one second: only their ratios mean anything.
    pub fn since_boot(counters: &Counters) -> Self {
        let nics =
            counters.nics.iter().map(|(name, now)| nic(name.clone(), &NicCounters::default(), now, 1.0));
        let irqs =
            counters.interrupts.known().into_iter().flat_map(|all| &all.irqs).map(|(irq, line)| IrqRates {
                irq: *irq,
                action: line.actions().join(", "),
                per_cpu: line.counts.iter().map(|(cpu, count)| (*cpu, *count as f64)).collect(),
            });
        Self { seconds: 1.0, nics: nics.collect(), irqs: irqs.collect(), ..Self::default() }
    }

    /// Adds this kernel's accounting mode of softirq time, what interfaces count although their device keeps it, and those whose
    /// receive time is in neither softirqs nor visible threads. Should be called before receive times are judged: `inventory` must be
    /// of the same machine.
    #[must_use]
    pub fn accounted(mut self, inventory: &Inventory) -> Self {
        let unreadable = inventory.unreadable_nics.iter();
        self.gaps.extend(unreadable.map(|name| format!("interface {name}: its name is not UTF-8")));
        let sampled = inventory.nics.known().map(Vec::as_slice).unwrap_or_default();
        for nic in &mut self.nics {
            let Some(raw) = find_by_name(sampled, |raw| &raw.name, &nic.name) else { continue };
            nic.counts_forwarded = facts(raw.driver.known().map(String::as_str)).counts_forwarded;
            let all: Option<f64> = raw.rx.iter().map(|queue| nic.queues.get(&queue.index)).sum();
            nic.to_queues = all.filter(|all| !raw.rx.is_empty() && *all < nic.rx_packets * MOST_KEPT);
        }
        self.exact_softirq_time = inventory.settings.exact_softirq_time.known().copied();
        // Not every kernel lists threads by interface: a single visible one suffices. If they are visible and
        // did not run, as for a veth that lost its NAPI, softirqs have received.
        if inventory.napi_threads.known().is_none_or(Vec::is_empty) {
            let nics = inventory.nics.known().into_iter().flatten();
            let threaded = nics.filter(|nic| nic.napi.threaded.known() == Some(&true));
            let names = threaded.map(|nic| &nic.name);
            let receives = |name: &&NicName| self.nic(name).is_some_and(|nic| nic.rx_packets > 0.0);
            let unseen: Vec<NicName> = names.filter(receives).cloned().collect();
            let gap = |name| format!("{name} is polled by threads: its receive time is not visible");
            self.gaps.extend(unseen.iter().map(gap));
            self.unseen = unseen;
        }
        self
    }
}

/// The reason that CPU times are not those of the kernel's CPUs, if so. The kernel lists the online CPUs in /proc/interrupts;
/// /proc/stat has them all, and with some vendors' kernels the offline ones.
fn masked(counters: &Counters) -> Option<String> {
    match (&counters.times, &counters.interrupts) {
        (Fact::Broken(why), _) if counters.is_masked => Some(why.clone()),
        (Fact::Known(times), Fact::Known(interrupts)) => {
            let timed: CpuMask = times.keys().copied().collect();
            let online = &interrupts.cpus;
            let differs = !online.difference(&timed).is_empty();
            differs.then(|| format!("/proc/stat has CPUs {timed}, /proc/interrupts has CPUs {online}"))
        }
        _ => None,
    }
}

fn gaps(counters: &Counters, masked: Option<&str>) -> Vec<String> {
    let gaps = [
        masked.map(|why| format!("CPU times: {why}")),
        gap(("softirq counts", "/proc/softirqs"), &counters.cpus),
        gap(("packets by CPU", "/proc/net/softnet_stat"), &counters.softnet),
        gap(("interrupt counts", "/proc/interrupts"), &counters.interrupts),
    ];
    gaps.into_iter().flatten().collect()
}

fn gap<T>((what, file): (&str, &str), fact: &Fact<T>) -> Option<String> {
    match fact {
        Fact::Known(_) => None,
        Fact::NotAsked => Some(format!("{what}: not queried")),
        Fact::Unsupported => Some(format!("{what}: {file} is missing")),
        Fact::Denied(need) => Some(format!("{what}: needs {need}")),
        Fact::Broken(why) => Some(format!("{what}: {why}")),
    }
}

/// Fields of a driver that counts in 32 bits: `unsigned long` of `net_device_stats` on a 32-bit kernel.
const FIELDS: [fn(&NicCounters) -> u64; 4] =
    [|of| of.rx_packets, |of| of.rx_bytes, |of| of.tx_packets, |of| of.tx_bytes];

/// True if counters that are smaller than before began again at 2^32: they are no wider, the others went on, or, if nothing else
/// counts, the last of 32 bits were near.
fn has_wrapped(before: &NicCounters, after: &NicCounters) -> bool {
    let is_narrow = |of: &NicCounters| FIELDS.iter().all(|field| u32::try_from(field(of)).is_ok());
    let counting =
        || FIELDS.iter().map(|field| (field(before), field(after))).filter(|(before, _)| *before > 0);
    let went_on = counting().any(|(before, after)| after >= before);
    let was_near = counting().all(|(before, _)| before > u64::from(u32::MAX / 4 * 3));
    is_narrow(before) && is_narrow(after) && (went_on || was_near)
}

fn nic(name: NicName, before: &NicCounters, after: &NicCounters, seconds: f64) -> NicRates {
    let fell = after.rx_packets < before.rx_packets || after.tx_packets < before.tx_packets;
    let wrapped = fell && has_wrapped(before, after);
    // A driver reset or a re-created interface starts again from 0: then only its current counts are
    // known.
    let reset = fell && !wrapped;
    let before = if reset { NicCounters::default() } else { before.clone() };
    let rate = |field: fn(&NicCounters) -> u64| {
        let (then, now) = (field(&before), field(after));
        let grown = if wrapped {
            u64::from((now as u32).wrapping_sub(then as u32))
        } else {
            now.saturating_sub(then)
        };
        grown as f64 / seconds
    };
    // Counts of a new or re-created queue need not be from this interval.
    let queue = |(index, counters): (&u32, &QueueCounters)| {
        let old = before.rx_queues.get(index)?;
        Some((*index, counters.packets.checked_sub(old.packets)? as f64 / seconds))
    };
    let drops = |(index, counters): (&u32, &QueueCounters)| {
        let old = before.rx_queues.get(index)?.drops?;
        Some((*index, counters.drops?.checked_sub(old)? as f64 / seconds))
    };
    let limited = |(statistic, count): (&String, &u64)| {
        let old = before.limited.get(statistic)?;
        Some((statistic.clone(), count.checked_sub(*old)? as f64 / seconds))
    };
    let losses = after.losses.iter().filter_map(|(name, now)| {
        // A counter that a new interface begins with is from this interval.
        let old = if reset { 0 } else { *before.losses.get(name)? };
        Some((name.clone(), now.checked_sub(old)? as f64 / seconds))
    });
    let mut losses: BTreeMap<String, f64> = losses.collect();
    // A driver that repeats a counter of the interface counts what the interface does.
    let grew: Vec<String> =
        losses.iter().filter(|(_, rate)| **rate > 0.0).map(|(name, _)| name.clone()).collect();
    losses.retain(|name, _| {
        name.strip_prefix(OF_DRIVER).is_none_or(|repeated| !grew.iter().any(|name| name == repeated))
    });
    NicRates {
        name,
        rx_packets: rate(|c| c.rx_packets),
        counts_forwarded: false,
        to_queues: None,
        rx_bytes: rate(|c| c.rx_bytes),
        tx_packets: rate(|c| c.tx_packets),
        tx_bytes: rate(|c| c.tx_bytes),
        rx_dropped: rate(|c| c.rx_dropped),
        // A driver may count the same loss as several: only the largest one is certain.
        rx_missed: losses
            .iter()
            .filter(|(name, rate)| **rate > 0.0 && loss_kind(name) == Some(LossKind::Ring))
            .map(|(_, rate)| *rate)
            .fold(0.0, f64::max),
        losses,
        unread: before.unread.or_else(|| after.unread.clone()),
        queues: after.rx_queues.iter().filter_map(queue).collect(),
        limited: after.limited.iter().filter_map(limited).collect(),
        queue_drops: after.rx_queues.iter().filter_map(drops).collect(),
    }
}

/// Interrupts that no online CPU has counted.
fn unfired(counters: &Counters) -> BTreeSet<IrqId> {
    let lines = counters.interrupts.known().into_iter().flat_map(|all| &all.irqs);
    let never = lines.filter(|(_, line)| line.counts.values().all(|count| *count == 0));
    never.map(|(irq, _)| *irq).collect()
}

/// Interrupts/s that no CPU can take of one line: at 100 ns each it would do nothing else.
const MOST_INTERRUPTS: f64 = 1e7;

/// Rates of the interrupts, and those whose counts restarted: drivers free their vectors and allocate them again when they reset
/// a device or change its queues, and an allocated one counts from 0.
fn irqs(previous: &Counters, current: &Counters, seconds: f64) -> (Vec<IrqRates>, Vec<IrqId>) {
    let (Fact::Known(before), Fact::Known(after)) = (&previous.interrupts, &current.interrupts) else {
        return (Vec::new(), Vec::new());
    };
    // A CPU that came online has counts from earlier times.
    let cpus = before.cpus.intersection(&after.cpus);
    let (mut rates, mut restarted) = (Vec::new(), Vec::new());
    for (irq, line) in &after.irqs {
        let Some(old) = before.irqs.get(irq).filter(|old| old.text == line.text) else { continue };
        let action = line.actions().join(", ");
        if action.is_empty() {
            continue;
        }
        let count = |line: &InterruptLine, cpu| line.counts.get(&cpu).copied().unwrap_or_default();
        let counted = line.counts.keys().chain(old.counts.keys()).filter(|cpu| cpus.contains(**cpu));
        // Interrupt counts of one CPU are unsigned int in the kernel as well.
        let grown = |cpu| (count(line, cpu) as u32).wrapping_sub(count(old, cpu) as u32);
        let grown: BTreeMap<CpuId, u32> =
            counted.map(|cpu| (*cpu, grown(*cpu))).filter(|(_, grown)| *grown > 0).collect();
        let is_possible =
            |grown: &u32| *grown <= u32::MAX / 2 && f64::from(*grown) / seconds <= MOST_INTERRUPTS;
        if grown.values().all(is_possible) {
            let per_cpu = grown.into_iter().map(|(cpu, grown)| (cpu, f64::from(grown) / seconds)).collect();
            rates.push(IrqRates { irq: *irq, action, per_cpu });
        } else {
            restarted.push(*irq);
        }
    }
    (rates, restarted)
}

#[cfg(test)]
mod tests;
