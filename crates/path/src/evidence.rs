//! Questions that several rules and plans ask of a model and its rates: where receive work happens,
//! where a queue's interrupt lands, how much headroom is left. No verdicts here.

mod loopback;
mod origin;
mod room;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::model::{CpuRates, Irq, Model, Nic, NicRates, Rates, RxQueue};
use rxlab_base::units::{CpuId, CpuMask};

pub use loopback::{brought, devices_account, loopback_share, may_be_lo, received, through_lo};
pub use origin::{
    ORIGIN, candidates, carrier, foreign, foreign_nic, may_be_foreign, may_come, of_another_namespace,
    of_device, rounds, takes_unknown,
};
pub use room::{Headroom, LINK, LinkUse, full_link, fullest, headroom, room};

/// Packets/s from which an interface counts as carrying traffic. Below it, even at 10 us per packet,
/// receive work takes less than 1 % of one CPU and no setting can matter.
pub const TRAFFIC: f64 = 1_000.0;

/// Lost packets/s from which it counts as a loss: fewer are a single burst.
pub const LOST: f64 = 1.0;

/// Share of all packets from which a CPU's receive work may come from `lo`: `lo` receives inside the
/// sender's system call, so its work happens where the sender runs, not where an interrupt lands.
pub const LOOPBACK_SHARE: f64 = 0.5;

/// Receive time of a CPU from which it is worth saving. At half of it, even twice the traffic causes no hotspot.
pub const NOTICEABLE: f64 = 0.10;

/// Receive time of a CPU from which its work is worth moving: a quarter of a CPU that no scheduler can reassign. Field
/// case B, where steering could not matter, had 0 to 3 %.
pub const SUBSTANTIAL: f64 = 0.25;

/// Receive time of a CPU from which twice the traffic does not fit.
pub const NO_DOUBLING: f64 = 0.5;

/// Receive time from which a CPU drowns: what is left has no room for a burst.
pub const DROWNING: f64 = 0.8;

/// Fraction of wall time from which a CPU is full.
pub const FULL: f64 = 0.9;

/// Upper bound on the cost of one packet, in seconds: reached on emulated machines, a tenth of it on real
/// ones, without a firewall of thousands of rules. Softirq time beyond it is spent on timers, disks or `lo`.
pub const MAX_PACKET_COST: f64 = 100e-6;

/// Time a CPU spends on receive work, as a fraction of wall time.
///
/// Softirq time already contains what runs in ksoftirqd; the thread's own time is exact where
/// softirq time is a tick sample, so the larger of the two is the better estimate. Other vectors
/// (timers, block) are in it too, so rules check packets as well. The time of threads that poll
/// queues is system time, not softirq time: it is added.
pub fn receive_time(cpu: &CpuRates) -> f64 {
    (in_softirq(cpu) + cpu.napi).min(1.0)
}

/// Time of a CPU in softirqs or its ksoftirqd. Excludes threads that poll queues.
pub fn in_softirq(cpu: &CpuRates) -> f64 {
    cpu.softirq.max(cpu.ksoftirqd).min(1.0)
}

/// True if threads do most of a CPU's receive work, instead of softirqs: no interrupt or mask brought it there.
pub fn by_threads(cpu: &CpuRates) -> bool {
    cpu.napi > 0.0 && cpu.napi >= cpu.softirq
}

/// True if these threads take what XDP programs redirect to the CPU (cpumap): the program has chosen it.
pub fn is_redirected(cpu: &CpuRates) -> bool {
    by_threads(cpu) && cpu.cpumap > cpu.napi / 2.0
}

/// Receive time plus hard interrupts: work that no scheduler can move away from a CPU. Where the kernel does
/// not account interrupts separately, they are in neither.
pub fn receiving(cpu: &CpuRates) -> f64 {
    (receive_time(cpu) + cpu.irq).min(1.0)
}

/// Fraction of wall time in which a CPU was not idle; includes time taken by the hypervisor, which is not available.
pub fn busy(cpu: &CpuRates) -> f64 {
    (1.0 - cpu.idle).clamp(0.0, 1.0)
}

/// Packets/s lost for lack of a buffer on interfaces with traffic, or of room in a backlog.
pub fn lost(rates: &Rates) -> f64 {
    let used = rates.nics.iter().filter(|nic| nic.rx_packets + nic.rx_missed >= TRAFFIC);
    used.map(|nic| nic.rx_missed).chain(rates.cpus.iter().map(|cpu| cpu.dropped)).sum()
}

/// The CPUs that take no packets: few go up the stack there, and no interrupt or mask of a queue with traffic brings any. None
/// if packets are not counted by CPU, or it is not known where interrupts land.
pub fn without_packets<'a>(model: &Model, rates: &'a Rates) -> impl Iterator<Item = &'a CpuRates> {
    let brought = brought(model, rates);
    let is_known = !rates.uncounted && rates.cpus.iter().any(|cpu| cpu.packets > 0.0);
    let quiet = move |cpu: &&CpuRates| {
        cpu.packets.max(cpu.net_rx) < TRAFFIC / 2.0 && !brought.contains_key(&cpu.cpu) && cpu.napi == 0.0
    };
    rates.cpus.iter().filter(move |_| is_known).filter(quiet)
}

/// Least part of a CPU's time that is subtracted as [`baseline`]: less is within the accuracy of ticks.
const BASE: f64 = 0.05;

/// Time in interrupts and softirqs that CPUs without packets spend, as a fraction of wall time: the median. `None` if no CPU is
/// known to be without packets.
pub fn usual(model: &Model, rates: &Rates) -> Option<f64> {
    let mut quiet: Vec<f64> = without_packets(model, rates).map(receiving).collect();
    quiet.sort_by(f64::total_cmp);
    quiet.get(quiet.len().saturating_sub(1) / 2).copied()
}

/// [`usual`], if it is more than ticks may be wrong by: as much of the time of CPUs with packets is not the price of these. 0 if it
/// is small or unknown.
pub fn baseline(model: &Model, rates: &Rates) -> f64 {
    usual(model, rates).filter(|time| *time >= BASE).unwrap_or_default()
}

/// True if softirq time is exact or was timed by eBPF: unlike ticks, it then contains all receive work.
pub fn is_measured(rates: &Rates) -> bool {
    rates.exact_softirq_time == Some(true) || rates.softirq_timed.is_some()
}

/// The way softirq time was measured.
pub fn tier(rates: &Rates) -> &'static str {
    match rates.exact_softirq_time {
        _ if rates.softirq_timed.is_some() => "timed by eBPF",
        Some(true) => "exact",
        Some(false) => "tick-sampled",
        None => "accuracy unknown",
    }
}

/// What [`tier`] says, for a reader.
pub fn tier_words(tier: &str) -> &str {
    match tier {
        "tick-sampled" => "rough: timer ticks",
        other => other,
    }
}

/// The online CPUs that handle the interrupts of a queue; empty if they are not known or the queue has
/// no interrupt.
///
/// The kernel's choice (`effective_affinity`) if it is one CPU, else the CPUs that counted at least
/// half as many interrupts as the busiest one, else the affinity if it is one CPU.
pub fn irq_cpus(queue: &RxQueue, model: &Model, rates: &Rates) -> CpuMask {
    if queue.irqs.is_empty() {
        return CpuMask::new();
    }
    let cpus =
        queue.irqs.iter().map(|irq| irq_cpu(irq, rates)).fold(CpuMask::new(), |all, one| all.union(&one));
    // One by one: there are few, and making the set of all that are online takes longer.
    cpus.iter().filter(|cpu| model.cpu(*cpu).is_some_and(|cpu| cpu.online)).collect()
}

/// Part of an interrupt's count that another CPU than its present one must have for it to have moved within the sample.
const MOVED: f64 = 0.1;

/// The part of a queue's packets that each CPU of its interrupts takes, 0 to 1: equal parts, or, of an interrupt that moved
/// within the sample, as often as it fired there.
pub fn arrivals(queue: &RxQueue, model: &Model, rates: &Rates) -> BTreeMap<CpuId, f64> {
    let cpus = irq_cpus(queue, model, rates);
    if let [irq] = &queue.irqs[..]
        && let Some(counted) = rates.irq(irq.number)
        && cpus.len() == 1
    {
        let all: f64 = counted.per_cpu.values().sum();
        let parts = counted.per_cpu.iter().map(|(cpu, rate)| (*cpu, rate / all));
        let parts: BTreeMap<CpuId, f64> = parts.filter(|(_, part)| *part >= MOVED).collect();
        if parts.keys().any(|cpu| !cpus.contains(*cpu)) {
            let sum: f64 = parts.values().sum();
            return parts.into_iter().map(|(cpu, part)| (cpu, part / sum)).collect();
        }
    }
    cpus.iter().map(|cpu| (cpu, 1.0 / cpus.len() as f64)).collect()
}

/// The online CPUs that take the packets of a queue off it: those of its interrupts, or the one that Hyper-V signals.
pub fn arrival_cpus(queue: &RxQueue, model: &Model, rates: &Rates) -> CpuMask {
    let mut cpus = irq_cpus(queue, model, rates);
    if let Some(cpu) = queue.channel_cpu.filter(|cpu| model.cpu(*cpu).is_some_and(|cpu| cpu.online)) {
        cpus.insert(cpu);
    }
    cpus
}

/// The online CPUs that handle interrupts of an interface's receive queues, as far as known.
pub fn nic_irq_cpus(nic: &Nic, model: &Model, rates: &Rates) -> CpuMask {
    nic.rx.iter().fold(CpuMask::new(), |all, queue| all.union(&irq_cpus(queue, model, rates)))
}

/// True if an interface has several queues, and their interrupts land on every usable CPU.
pub fn reach_every_cpu(nic: &Nic, model: &Model, rates: &Rates) -> bool {
    nic.rx.len() > 1 && model.usable().difference(&nic_irq_cpus(nic, model, rates)).is_empty()
}

fn irq_cpu(irq: &Irq, rates: &Rates) -> CpuMask {
    let one = |mask: Option<&CpuMask>| mask.filter(|mask| mask.len() == 1).cloned();
    let counted = || {
        let irq = rates.irq(irq.number)?;
        let most = irq.per_cpu.values().copied().fold(0.0, f64::max);
        let busy = irq.per_cpu.iter().filter(|(_, rate)| most > 0.0 && **rate >= most / 2.0);
        Some(busy.map(|(cpu, _)| *cpu).collect::<CpuMask>()).filter(|mask| !mask.is_empty())
    };
    one(irq.effective.known()).or_else(counted).or_else(|| one(irq.affinity.known())).unwrap_or_default()
}

/// Part of the interrupts of a device's busiest queue below which a queue interrupts rarely: more than moderation makes of
/// even traffic.
const RARELY: f64 = 0.1;

/// True if a queue is not counted and interrupts far less often than another of its interface: it brings few packets, or so many
/// that it is polled without interrupts. Equal parts are then no estimate.
pub fn rarely_interrupts(nic: &Nic, queue: &RxQueue, rates: &Rates) -> bool {
    !is_counted(nic, queue, rates) && is_rare(queue, rates, most_interrupts(nic, rates))
}

fn is_rare(queue: &RxQueue, rates: &Rates, most: f64) -> bool {
    most >= TRAFFIC && interrupts(queue, rates).is_some_and(|own| own < most * RARELY)
}

/// Interrupts/s of the queue of a device that interrupts most.
fn most_interrupts(nic: &Nic, rates: &Rates) -> f64 {
    nic.rx.iter().filter_map(|queue| interrupts(queue, rates)).fold(0.0, f64::max)
}

fn interrupts(queue: &RxQueue, rates: &Rates) -> Option<f64> {
    let rate = |irq: &Irq| Some(rates.irq(irq.number)?.per_cpu.values().sum::<f64>());
    queue.irqs.iter().map(rate).reduce(|all, one| Some(all? + one?)).flatten()
}

/// True if a queue brings hardly any packets although it is not counted: it rarely interrupts, on a CPU that receives little, or has
/// never done so. A busy one may interrupt less often than others, by moderation or because it is polled, but its CPU then receives.
pub fn is_quiet(nic: &Nic, queue: &RxQueue, rates: &Rates) -> bool {
    !is_counted(nic, queue, rates) && is_idle(nic, queue, rates, most_interrupts(nic, rates))
}

fn is_idle(nic: &Nic, queue: &RxQueue, rates: &Rates, most: f64) -> bool {
    if defers(nic) || !is_rare(queue, rates, most) {
        return false;
    }
    let own = queue.irqs.iter().filter_map(|irq| rates.irq(irq.number));
    let mut cpus = own.flat_map(|irq| irq.per_cpu.keys()).filter_map(|cpu| rates.cpu(*cpu)).peekable();
    has_never_fired(queue, rates) || cpus.peek().is_some() && cpus.all(|cpu| receive_time(cpu) < SUBSTANTIAL)
}

/// True if the interrupts of a queue are known and have not fired since they were requested: it has brought no packets.
pub fn has_never_fired(queue: &RxQueue, rates: &Rates) -> bool {
    !queue.irqs.is_empty() && queue.irqs.iter().all(|irq| rates.unfired.contains(&irq.number))
}

/// Packets/s of one queue: the kernel's count, else an equal part of the interface's packets that are
/// counted for no queue. Queues whose interrupts have never fired have no part, unless all are such.
pub fn queue_packets(nic: &Nic, queue: &RxQueue, rates: &Rates) -> f64 {
    packets_of_queue(nic, queue, rates, &|queue| has_never_fired(queue, rates))
}

/// [`queue_packets`], where queues that are quiet have no part either. Plans do not ask this: what they move may make a queue
/// quiet, or end that.
fn packets_without_quiet(nic: &Nic, queue: &RxQueue, rates: &Rates) -> f64 {
    let most = most_interrupts(nic, rates);
    let is_silent = |queue: &RxQueue| has_never_fired(queue, rates) || is_idle(nic, queue, rates, most);
    packets_of_queue(nic, queue, rates, &is_silent)
}

fn packets_of_queue(nic: &Nic, queue: &RxQueue, rates: &Rates, is_silent: &dyn Fn(&RxQueue) -> bool) -> f64 {
    let Some(own) = rates.nic(&nic.name).filter(|own| !own.counts_forwarded) else { return 0.0 };
    own.queues.get(&queue.index).copied().unwrap_or_else(|| {
        let uncounted = nic.rx.iter().filter(|queue| !own.queues.contains_key(&queue.index));
        let (silent, busy): (Vec<_>, Vec<_>) = uncounted.partition(|queue| is_silent(queue));
        let rest = (own.rx_packets - own.queues.values().sum::<f64>()).max(0.0);
        match busy.len() {
            0 => rest / silent.len().max(1) as f64,
            _ if is_silent(queue) => 0.0,
            parts => rest / parts as f64,
        }
    })
}

/// True if the packets of a queue are counted, by the kernel or as the only queue: otherwise
/// [`queue_packets`] is an inference, and no evidence.
pub fn is_counted(nic: &Nic, queue: &RxQueue, rates: &Rates) -> bool {
    let counts = |rates: &NicRates| {
        !rates.counts_forwarded && (nic.rx.len() == 1 || rates.queues.contains_key(&queue.index))
    };
    rates.nic(&nic.name).map_or(nic.rx.len() == 1, counts)
}

/// True if the driver of a device adapts its interrupt moderation to the traffic.
pub fn adapts(nic: &Nic) -> bool {
    let Some(set) = nic.hardware.coalesce.known() else { return false };
    let numbers = nic.driver_facts().moderation.adaptive_usecs;
    let by_number = set.rx_usecs.is_some_and(|usecs| numbers.contains(&usecs));
    by_number || set.adaptive_rx == Some(true)
}

/// True if interrupts of an interface are deferred in software: both settings are needed.
pub fn defers(nic: &Nic) -> bool {
    nic.napi.defer_hard_irqs.known().is_some_and(|times| *times > 0)
        && nic.napi.gro_flush_timeout_ns.known().is_some_and(|time| *time > 0)
}
