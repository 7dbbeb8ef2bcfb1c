//! Questions that several rules and plans ask of a model and its rates: where receive work happens,
//! where a queue's interrupt lands, how much headroom is left. No verdicts here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::drivers::names_a_queue;
use crate::model::{CpuRates, Fact, Irq, IrqRates, Model, Nic, NicKind, NicRates, Rates, RxQueue};
use rxlab_base::units::{CpuId, CpuMask};

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

/// Part of a CPU's receive time, and of its packets, that a device must account for when `lo` is busy.
const OF_A_DEVICE: f64 = 0.5;

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

/// True if threads that poll queues do most of a CPU's receive work: no interrupt or mask brought it there.
pub fn by_threads(cpu: &CpuRates) -> bool {
    cpu.napi > 0.0 && cpu.napi >= cpu.softirq
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

/// The share of packets that came in over `lo`, if the work of the CPU that receives most may be theirs: then
/// there is no verdict on steering.
pub fn loopback_share(model: &Model, rates: &Rates) -> Option<f64> {
    let share = share_of_lo(model, rates)?;
    let hottest = rates.hottest(receive_time).map(|(cpu, _)| cpu);
    hottest.is_none_or(|cpu| !brought_by_a_device(model, rates, cpu)).then_some(share)
}

/// True if a CPU's receive work may come from `lo`: most packets do, and no queue of a device accounts for
/// its time.
pub fn may_be_lo(model: &Model, rates: &Rates, cpu: CpuId) -> bool {
    share_of_lo(model, rates).is_some() && !brought_by_a_device(model, rates, cpu)
}

/// Packets per second received on interfaces other than `lo`.
pub fn received(model: &Model, rates: &Rates) -> f64 {
    let passes = |nic: &&NicRates| model.nic(&nic.name).is_some_and(|nic| nic.kind != NicKind::Loopback);
    rates.nics.iter().filter(passes).map(|nic| nic.rx_packets).sum()
}

/// Part of the packets that CPUs receive from which the interfaces account for them: the counters are read one after another.
const ACCOUNTED: f64 = 0.9;

/// True if the devices here and `lo` receive as many packets as the CPUs: none come from another network namespace, whatever
/// interrupts fire.
pub fn devices_account(model: &Model, rates: &Rates) -> bool {
    let counted: f64 = rates.cpus.iter().map(|cpu| cpu.packets).sum();
    // A paravirtual device counts the packets of the virtual function below it.
    let devices =
        model.nics.iter().filter(|nic| nic.kind == NicKind::Device && model.carriers(nic).is_empty());
    let received: f64 = devices.map(|nic| rates.rx_packets(&nic.name)).sum();
    !rates.uncounted && counted > 0.0 && received + through_lo(model, rates) >= counted * ACCOUNTED
}

/// Packets per second received on `lo`.
pub fn through_lo(model: &Model, rates: &Rates) -> f64 {
    let loopback = model.nics.iter().filter(|nic| nic.kind == NicKind::Loopback);
    loopback.filter_map(|nic| rates.nic(&nic.name)).map(|nic| nic.rx_packets).sum()
}

fn share_of_lo(model: &Model, rates: &Rates) -> Option<f64> {
    let seen: f64 = rates.nics.iter().map(|nic| nic.rx_packets).sum();
    let lo = through_lo(model, rates);
    // The stack counts packets of every network namespace, the interfaces only those of one.
    let stack: f64 = rates.cpus.iter().map(|cpu| cpu.packets).sum();
    let share = lo / seen.max(stack);
    (lo >= TRAFFIC && share > LOOPBACK_SHARE).then_some(share)
}

/// True if the interrupts and RPS masks of devices bring a CPU packets that account for most of its receive
/// time. Work of `lo` happens wherever programs run: the mean receive time of CPUs without packets from a
/// device is taken as its part here too. The stack counts packets of `lo` where they are sent, so a device
/// must bring half of those counted.
fn brought_by_a_device(model: &Model, rates: &Rates, cpu: CpuId) -> bool {
    let brought = brought(model, rates);
    let Some(counted) = rates.cpu(cpu) else { return false };
    let (time, packets) = (receive_time(counted), brought.get(&cpu).copied().unwrap_or_default());
    let without: Vec<f64> =
        rates.cpus.iter().filter(|cpu| !brought.contains_key(&cpu.cpu)).map(receive_time).collect();
    let lo = without.iter().sum::<f64>() / without.len().max(1) as f64;
    let own = time - lo;
    let most = packets > 0.0 && packets >= counted.packets * OF_A_DEVICE;
    most && own >= time * OF_A_DEVICE && own <= packets * MAX_PACKET_COST
}

/// Packets/s that the busy queues of devices bring to each CPU, by interrupt or RPS mask.
fn brought(model: &Model, rates: &Rates) -> BTreeMap<CpuId, f64> {
    let mut brought = BTreeMap::new();
    let devices = model.nics.iter().filter(|nic| nic.kind == NicKind::Device);
    for (nic, queue) in devices.flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue))) {
        let packets = queue_packets(nic, queue, rates);
        if packets < TRAFFIC {
            continue;
        }
        let lands = irq_cpus(queue, model, rates);
        let handed = queue.rps_cpus.known().cloned().unwrap_or_default();
        for cpus in [lands, handed] {
            for cpu in cpus.iter() {
                *brought.entry(cpu).or_default() += packets / cpus.len() as f64;
            }
        }
    }
    brought
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
        let irq = rates.irqs.iter().find(|rates| rates.irq == irq.number)?;
        let most = irq.per_cpu.values().copied().fold(0.0, f64::max);
        let busy = irq.per_cpu.iter().filter(|(_, rate)| most > 0.0 && **rate >= most / 2.0);
        Some(busy.map(|(cpu, _)| *cpu).collect::<CpuMask>()).filter(|mask| !mask.is_empty())
    };
    one(irq.effective.known()).or_else(counted).or_else(|| one(irq.affinity.known())).unwrap_or_default()
}

/// Packets/s of one queue: the kernel's count, else an equal part of the interface's packets that are
/// counted for no queue.
pub fn queue_packets(nic: &Nic, queue: &RxQueue, rates: &Rates) -> f64 {
    let Some(rates) = rates.nic(&nic.name) else { return 0.0 };
    rates.queues.get(&queue.index).copied().unwrap_or_else(|| {
        let counted = |queue: &&RxQueue| rates.queues.contains_key(&queue.index);
        let uncounted = nic.rx.len().saturating_sub(nic.rx.iter().filter(counted).count());
        let rest = (rates.rx_packets - rates.queues.values().sum::<f64>()).max(0.0);
        rest / uncounted.max(1) as f64
    })
}

/// True if the packets of a queue are counted, by the kernel or as the only queue: otherwise
/// [`queue_packets`] is an inference, and no evidence.
pub fn is_counted(nic: &Nic, queue: &RxQueue, rates: &Rates) -> bool {
    nic.rx.len() == 1 || rates.nic(&nic.name).is_some_and(|rates| rates.queues.contains_key(&queue.index))
}

/// Part of a CPU's packets that a queue must have to be where they come from: a tenth leaves room for packets that pass several
/// interfaces (bridge, veth).
const ORIGIN: f64 = 0.1;

/// The receive queue that brings a CPU its work: the busiest one of the interface whose interrupts bring most there, else the
/// busiest queue of all (`lo` never). Queues whose interrupts are unknown count together: any of them may come here.
pub fn carrier<'a>(model: &'a Model, rates: &Rates, cpu: CpuId) -> Option<(&'a Nic, &'a RxQueue)> {
    let queues = || {
        let nics = model.nics.iter().filter(|nic| nic.kind != NicKind::Loopback);
        nics.flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)))
            .filter(|(nic, queue)| queue_packets(nic, queue, rates) > 0.0)
    };
    let packets = |(nic, queue): &(&Nic, &RxQueue)| queue_packets(nic, queue, rates);
    let landing = queues().filter(|(_, queue)| irq_cpus(queue, model, rates).contains(cpu));
    // `max_by` keeps the last of equals; reversed, the first queue wins.
    let busiest = |found: Vec<(&'a Nic, &'a RxQueue)>| {
        found.into_iter().rev().max_by(|a, b| packets(a).total_cmp(&packets(b)))
    };
    let landing: Vec<(&Nic, &RxQueue)> = landing.collect();
    let brought = |nic: &Nic| landing.iter().filter(|(of, _)| of.name == nic.name).map(packets).sum::<f64>();
    let most = landing.iter().rev().max_by(|a, b| brought(a.0).total_cmp(&brought(b.0)));
    let here = rates.cpu(cpu).map_or(0.0, |cpu| cpu.packets);
    let most = most.filter(|(nic, _)| brought(nic) >= here * ORIGIN);
    let of_most = landing.iter().filter(|(nic, _)| most.is_some_and(|(most, _)| most.name == nic.name));
    busiest(of_most.copied().collect()).or_else(|| {
        let is_unknown =
            |queue: &RxQueue| irq_cpus(queue, model, rates).is_empty() && queue.channel_cpu.is_none();
        let may_bring = |found: &(&'a Nic, &'a RxQueue)| {
            let (nic, queue) = *found;
            let sum = |is_one: &dyn Fn(&RxQueue) -> bool| {
                nic.rx.iter().filter(|queue| is_one(queue)).map(|queue| packets(&(nic, queue))).sum()
            };
            let is_handed = |queue: &RxQueue| {
                queue.rps_cpus.known().is_some_and(|mask| mask.len() == 1 && mask.contains(cpu))
            };
            if is_unknown(queue) {
                sum(&is_unknown)
            } else if is_handed(queue) {
                sum(&is_handed)
            } else {
                packets(found)
            }
        };
        let all: Vec<(f64, (&Nic, &RxQueue))> = queues().map(|found| (may_bring(&found), found)).collect();
        let most = all.iter().map(|(brings, _)| *brings).fold(0.0, f64::max);
        let first = all.into_iter().filter(|(brings, _)| *brings == most).map(|(_, found)| found).collect();
        let busiest = busiest(first).filter(|_| most >= here * ORIGIN);
        let is_less = |_: &(&Nic, &RxQueue)| most < here / 2.0;
        busiest.filter(|found| {
            !is_less(found) || is_steered(model, found.1, cpu) || !may_be_foreign(model, rates, cpu)
        })
    })
}

/// True if RPS or RFS may hand packets of a queue to this CPU.
fn is_steered(model: &Model, queue: &RxQueue, cpu: CpuId) -> bool {
    let tables = [queue.rps_flow_cnt.known(), model.rps_sock_flow_entries.known()];
    let by_reader = tables.iter().all(|table| table.is_some_and(|entries| *entries > 0));
    by_reader || queue.rps_cpus.known().is_some_and(|mask| mask.contains(cpu))
}

/// The interrupt of a device that fires most on a CPU, with its rate there, if it fires often and belongs to no interface of
/// the model: /proc/interrupts has those of every network namespace.
pub fn foreign<'a>(model: &Model, rates: &'a Rates, cpu: CpuId) -> Option<(&'a IrqRates, f64)> {
    let own = |irq: &IrqRates| {
        let mut others = model.nics.iter().flat_map(|nic| &nic.other_irqs);
        let mut devices = model.nics.iter().filter(|nic| nic.kind == NicKind::Device);
        is_of_a_queue(model, irq)
            || others.any(|own| own.number == irq.irq)
            // Some drivers give an interrupt their own name: `mvneta`.
            || devices.any(|nic| {
                nic.driver_facts().is_portal(&irq.action) || nic.driver.as_deref() == Some(irq.action.as_str())
            })
    };
    // A device's interrupt goes to one CPU at a time: what fires on several is a timer, or the like.
    let is_device = |irq: &IrqRates| irq.per_cpu.values().filter(|rate| **rate >= TRAFFIC).count() == 1;
    let often = often(rates, cpu).filter(|(irq, _)| is_device(irq) && !own(irq));
    often.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// True if the packets of a CPU may be those of a device in another network namespace: an unknown interrupt fires often there or,
/// where interrupts cannot be seen, the interfaces here receive less than half as many.
pub fn may_be_foreign(model: &Model, rates: &Rates, cpu: CpuId) -> bool {
    if matches!(model.interrupts, Fact::Denied(_) | Fact::Broken(_)) {
        return received(model, rates) < rates.cpu(cpu).map_or(0.0, |cpu| cpu.packets) / 2.0;
    }
    foreign(model, rates, cpu).is_some()
}

/// The same for an interrupt that is a NIC's of another network namespace, as far as that can be inferred: it has the name of
/// a queue's, and the interfaces here bring less than half of the CPU's packets.
pub fn of_another_namespace<'a>(model: &Model, rates: &'a Rates, cpu: CpuId) -> Option<(&'a IrqRates, f64)> {
    let found = foreign(model, rates, cpu)?;
    let may_come = |queue: &RxQueue| {
        let lands = irq_cpus(queue, model, rates);
        lands.is_empty() || lands.contains(cpu) || is_steered(model, queue, cpu)
    };
    let nics = model.nics.iter().filter(|nic| nic.kind != NicKind::Loopback);
    let queues = nics.flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)));
    let brought: f64 = queues
        .filter(|(_, queue)| may_come(queue))
        .map(|(nic, queue)| queue_packets(nic, queue, rates))
        .sum();
    let accounted = brought >= rates.cpu(cpu)?.packets / 2.0;
    (!accounted && found.0.action.split(", ").any(names_a_queue)).then_some(found)
}

/// True if packets of an unknown queue may come to a CPU: an interrupt that is not known to be a queue's fires often there, or
/// none is counted and it is not known where those of a device with traffic land.
pub fn takes_unknown(model: &Model, rates: &Rates, cpu: CpuId) -> bool {
    let devices = model.nics.iter().filter(|nic| nic.kind == NicKind::Device);
    let mut queues = devices.flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)));
    if rates.irqs.is_empty() {
        queues.any(|(nic, queue)| {
            queue_packets(nic, queue, rates) >= TRAFFIC && irq_cpus(queue, model, rates).is_empty()
        })
    } else {
        often(rates, cpu).any(|(irq, _)| !is_of_a_queue(model, irq))
    }
}

/// The interrupts that fire often on a CPU, with their rates there.
fn often(rates: &Rates, cpu: CpuId) -> impl Iterator<Item = (&IrqRates, f64)> {
    let here = rates.irqs.iter().filter_map(move |irq| Some((irq, *irq.per_cpu.get(&cpu)?)));
    here.filter(|(_, rate)| *rate >= TRAFFIC)
}

fn is_of_a_queue(model: &Model, irq: &IrqRates) -> bool {
    let queues = model.nics.iter().flat_map(|nic| &nic.rx);
    queues.flat_map(|queue| &queue.irqs).any(|own| own.number == irq.irq)
}

/// Multiples of the current load that fit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Headroom {
    /// 1 / receive time (with hard interrupts) of the CPU with most of it: the scheduler can move everything
    /// but receive work away from that CPU. Below 1 in a prediction that exceeds the available time.
    pub hottest: f64,
    /// 1 / mean busy fraction of all CPUs: spreading does not change it.
    pub machine: f64,
}

impl Headroom {
    /// Multiples of the current load that fit until a CPU is full of receive work, or the machine of all its
    /// work.
    pub fn fits(&self) -> f64 {
        self.hottest.min(self.machine)
    }
}

/// The current headroom of the machine, capped at 1000: an idle machine has no meaningful figure, and
/// JSON no infinity.
pub fn headroom(rates: &Rates) -> Headroom {
    let hottest = rates.cpus.iter().map(receiving).fold(0.0, f64::max);
    let mean = rates.cpus.iter().map(busy).sum::<f64>() / rates.cpus.len().max(1) as f64;
    Headroom { hottest: room(hottest), machine: room(mean) }
}

/// 1 / `load`, at most 1000; below 1 if the load exceeds the available time.
pub fn room(load: f64) -> f64 {
    1.0 / load.max(0.001)
}

/// Use of a link in its busier direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkUse {
    /// Direction in words: `sends` or `receives`.
    pub way: &'static str,
    /// The part of the speed, including the framing of each packet on the wire.
    pub part: f64,
    /// The speed in bits/s, as reported by the driver.
    pub speed: f64,
}

/// Part of the link's speed from which the link is full, and above which the reported speed is wrong.
pub const LINK: f64 = 0.90;
const BEYOND: f64 = 1.10;
/// Preamble, checksum and gap of a packet on the wire, in bytes: interfaces do not count them.
const WIRE: f64 = 24.0;

/// Use of a full link; `None` if it has room or hardly any traffic, or if its speed is unknown or made up.
pub fn full_link(nic: &Nic, rates: &Rates) -> Option<LinkUse> {
    let speed = f64::from(*nic.hardware.speed_mbits.known()?) * 1e6;
    let traffic = rates.nic(&nic.name)?;
    let rx = (traffic.rx_bytes + traffic.rx_packets * WIRE) * 8.0 / speed;
    let tx = (traffic.tx_bytes + traffic.tx_packets * WIRE) * 8.0 / speed;
    let (way, part, packets) =
        if tx > rx { ("sends", tx, traffic.tx_packets) } else { ("receives", rx, traffic.rx_packets) };
    ((LINK..BEYOND).contains(&part) && packets >= TRAFFIC).then_some(LinkUse { way, part, speed })
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

#[cfg(test)]
mod tests {
    use super::{
        adapts, carrier, devices_account, foreign, headroom, irq_cpus, loopback_share, may_be_foreign,
        may_be_lo, queue_packets,
    };
    use crate::model::{Fact, IrqRates};
    use crate::sketch::Sketch;
    use rxlab_base::units::{CpuId, IrqId};

    #[test]
    fn interrupts_land_where_the_kernel_says_or_where_they_were_counted() {
        let (mut model, rates) = Sketch::new(4).device("eth0", &[3]).traffic("eth0", 5e3).build();
        let lands = |model: &crate::model::Model| irq_cpus(&model.nics[0].rx[0], model, &rates).to_string();
        assert_eq!(lands(&model), "3");
        model.nics[0].rx[0].irqs[0].effective = Fact::Unsupported;
        model.nics[0].rx[0].irqs[0].affinity = Fact::Known(model.online());
        assert_eq!(lands(&model), "3", "by the counters");
        model.cpus[3].online = false;
        assert_eq!(lands(&model), "", "an offline CPU takes none");
    }

    /// An interface with 40 packets/s, whose interrupt is known, was once said to fill the CPU.
    #[test]
    fn queues_at_unknown_cpus_count_together() {
        for queues in [1, 12, 16] {
            let cpus = vec![0; queues];
            let host = Sketch::new(32).device("eth0", &[1]).device("eth1", &cpus).traffic("eth0", 40.0);
            let host = host.traffic("eth1", 1.6e5).receives(1, 0.9, 1.5e5);
            let host = host.edit("eth1", |nic| nic.rx.iter_mut().for_each(|queue| queue.irqs.clear()));
            let (model, rates) = host.build();
            let (nic, _) = carrier(&model, &rates, CpuId(1)).expect("eth1, with all of its queues");
            assert_eq!(nic.name.as_str(), "eth1", "{queues} queues");
        }
        let quiet = Sketch::new(4).device("eth0", &[1]).traffic("eth0", 40.0).receives(1, 0.9, 1.5e5);
        let (model, rates) = quiet.build();
        assert!(carrier(&model, &rates, CpuId(1)).is_none(), "the path of the others is not known");
    }

    #[test]
    fn the_interface_with_most_packets_on_the_cpu_brings_its_work() {
        let sketch = Sketch::new(4).device("eth0", &[2, 2]).device("eth1", &[2]);
        let (model, rates) = sketch.traffic("eth0", 9e3).traffic("eth1", 6e3).build();
        let (nic, queue) = carrier(&model, &rates, CpuId(2)).expect("some interface carries it");
        assert_eq!(
            (nic.name.as_str(), queue.index),
            ("eth0", 0),
            "4,500 on each of two queues beat 6,000 on one"
        );
    }

    #[test]
    fn a_queue_without_counts_has_its_part_of_what_is_left() {
        let (model, mut rates) = Sketch::new(4).device("eth0", &[0, 1, 2]).traffic("eth0", 9e3).build();
        let nic = &model.nics[0];
        let packets =
            |rates: &_| nic.rx.iter().map(|queue| queue_packets(nic, queue, rates)).collect::<Vec<_>>();
        assert_eq!(packets(&rates), [3e3, 3e3, 3e3]);
        rates.nics[0].queues.insert(0, 8e3);
        assert_eq!(packets(&rates), [8e3, 500.0, 500.0]);
        rates.nics[0].queues.insert(1, 2e3);
        assert_eq!(packets(&rates), [8e3, 2e3, 0.0], "queues are read a moment later");
    }

    #[test]
    fn work_of_an_unseen_namespace_has_no_carrier() {
        let (model, rates) =
            Sketch::new(2).veth("veth0").traffic("veth0", 50.0).receives(0, 0.5, 2e5).build();
        assert_eq!(carrier(&model, &rates, CpuId(0)), None);
    }

    #[test]
    fn loopback_dominates_only_above_half() {
        let with = |lo: f64| {
            let (model, rates) =
                Sketch::new(2).loopback().veth("veth0").traffic("lo", lo).traffic("veth0", 1e4).build();
            loopback_share(&model, &rates)
        };
        assert_eq!((with(0.0), with(9e3)), (None, None));
        assert_eq!(with(3e4), Some(0.75));
        let (model, rates) = Sketch::new(2).loopback().traffic("lo", 90.0).build();
        assert_eq!(loopback_share(&model, &rates), None, "a quiet machine, on which most of little is on lo");
    }

    /// nginx with its upstream on 127.0.0.1: most packets are on lo, and CPU 2 drowns in those of the
    /// network.
    #[test]
    fn a_busy_loopback_hides_no_device() {
        let on_lo = |sketch: Sketch| {
            let (model, rates) = sketch.loopback().traffic("lo", 3e5).build();
            (may_be_lo(&model, &rates, CpuId(2)), loopback_share(&model, &rates).is_some())
        };
        assert_eq!(on_lo(Sketch::case_a()), (false, false));
        assert_eq!(on_lo(Sketch::case_a().traffic("eth0", 5e3)), (true, true), "5,000 cannot cost so much");
        assert_eq!(on_lo(Sketch::case_a().traffic("eth0", 50.0)), (true, true), "no traffic");
        let even =
            (0..8).fold(Sketch::case_a().ksoftirqd(2, 0.0), |sketch, cpu| sketch.receives(cpu, 0.3, 4e4));
        assert_eq!(on_lo(even), (true, true), "CPUs without the interrupt receive as much");
        let handed = Sketch::case_a().rps("eth0", "3").receives(2, 0.1, 0.0).receives(3, 0.9, 4.2e4);
        let (model, rates) = handed.loopback().traffic("lo", 3e5).build();
        assert!(!may_be_lo(&model, &rates, CpuId(3)), "RPS brings it there");
    }

    /// The device was once blamed wherever every CPU has a queue.
    #[test]
    fn a_queue_on_each_cpu_does_not_hide_lo() {
        let host = |on_lo: f64| {
            let each = Sketch::new(8).device("eth0", &[0, 1, 2, 3, 4, 5, 6, 7]).traffic("eth0", 6.4e4);
            let each = each.each("0-7", |sketch, cpu| sketch.receives(cpu, 0.03, 8e3));
            let (model, rates) = each.loopback().traffic("lo", 3e5).receives(5, 0.6, 8e3 + on_lo).build();
            may_be_lo(&model, &rates, CpuId(5))
        };
        assert!(host(3e5), "all of it is sent on CPU 5");
        assert!(!host(5e3), "elsewhere");
    }

    /// The portals of dpaa2 are on the path of no device.
    #[test]
    fn the_portals_of_a_driver_are_its_interfaces() {
        let is_foreign = |driver: &str, action: &str| {
            let sketch = Sketch::new(2).device("eth0", &[0]).driver("eth0", driver);
            let (model, mut rates) = sketch.build();
            let per_cpu = [(CpuId(1), 5e4)].into();
            rates.irqs.push(IrqRates { irq: IrqId(90), action: action.to_owned(), per_cpu });
            foreign(&model, &rates, CpuId(1)).is_some()
        };
        assert!(!is_foreign("fsl_dpaa2_eth", "dpio.3") && !is_foreign("lan966x-switch", "fdma irq"));
        assert!(is_foreign("fsl_dpaa2_eth", "dpio.x") && is_foreign("igb", "dpio.3"));
    }

    /// r8125 next to NICs of a SoC: each of its four queues takes less than the only queue of another.
    #[test]
    fn the_carrier_is_of_the_interface_that_brings_most() {
        let sketch = Sketch::new(8).device("eth0", &[0]).traffic("eth0", 5e4).device("eth2", &[0, 0, 0, 0]);
        let sketch = sketch.queue_traffic("eth2", &[3.2e4, 3.3e4, 3.2e4, 3.1e4]).receives(0, 0.97, 1.8e5);
        let (model, rates) = sketch.build();
        let found = carrier(&model, &rates, CpuId(0)).map(|(nic, queue)| (nic.name.as_str(), queue.index));
        assert_eq!(found, Some(("eth2", 1)));
    }

    /// None of ten queues has a tenth of the packets that all their masks bring there.
    #[test]
    fn queues_with_one_mask_bring_their_packets_together() {
        let sketch = Sketch::new(4).device("eth0", &[0; 12]).traffic("eth0", 1.2e5).rps("eth0", "3");
        let (model, rates) = sketch.receives(3, 0.1, 1.21e5).build();
        let found = carrier(&model, &rates, CpuId(3)).map(|(nic, queue)| (nic.name.as_str(), queue.index));
        assert_eq!(found, Some(("eth0", 0)));
    }

    /// A container without /proc/interrupts, next to one whose packets keep a CPU busy.
    #[test]
    fn packets_that_no_interface_here_receives_may_be_of_another_namespace() {
        let may = |packets: f64, interrupts: Fact<()>| {
            let sketch = Sketch::new(2).device("eth0", &[1]).traffic("eth0", packets).receives(0, 0.9, 4e5);
            let (mut model, rates) = sketch.build();
            model.interrupts = interrupts;
            may_be_foreign(&model, &rates, CpuId(0))
        };
        assert!(may(3e4, Fact::Broken("empty".to_owned())));
        assert!(!may(3e5, Fact::Broken("empty".to_owned())));
        assert!(!may(3e4, Fact::Known(())), "no unknown interrupt fires");
    }

    /// mvneta requests the interrupts of all its interfaces by its own name.
    #[test]
    fn an_interrupt_with_the_name_of_a_driver_is_its_interfaces() {
        let (model, mut rates) = Sketch::new(2).device("eth0", &[0]).driver("eth0", "mvneta").build();
        let per_cpu = [(CpuId(1), 5e4)].into();
        rates.irqs.push(IrqRates { irq: IrqId(27), action: "mvneta".to_owned(), per_cpu });
        assert!(foreign(&model, &rates, CpuId(1)).is_none());
    }

    #[test]
    fn devices_that_account_for_all_packets() {
        let accounts = |received: f64, lo: f64| {
            let sketch = Sketch::new(2).device("eth0", &[0]).traffic("eth0", received).loopback();
            let (model, rates) = sketch.traffic("lo", lo).receives(1, 0.9, 1e5).build();
            devices_account(&model, &rates)
        };
        assert!(accounts(1e5, 0.0) && accounts(6e4, 4e4) && !accounts(6e4, 0.0));
    }

    #[test]
    fn headroom_of_field_case_a() {
        let (_, rates) = Sketch::case_a().build();
        let room = headroom(&rates);
        assert!((room.hottest - 1.02).abs() < 0.01, "{room:?}");
        assert!((1.2..1.3).contains(&room.machine), "{room:?}");
        let (_, mut rates) = Sketch::new(8).receives(2, 0.6, 4e4).build();
        assert!(headroom(&rates).machine > 4.0 * headroom(&rates).hottest, "one CPU holds it back");
        rates.cpus[2].irq = 0.3;
        assert!((headroom(&rates).hottest - 1.0 / 0.9).abs() < 1e-9, "interrupts are receive work");
    }

    #[test]
    fn drivers_that_adapt_by_a_number() {
        let host = |driver: &str, usecs, adaptive| {
            let sketch = Sketch::new(2).device("eth0", &[0]).driver("eth0", driver);
            adapts(&sketch.moderation("eth0", usecs, adaptive).build().0.nics[0])
        };
        assert!(host("ixgbe", 1, false) && host("e1000e", 3, false) && host("ena", 50, true));
        assert!(!host("ixgbe", 3, false) && !host("ixgbevf", 3, false), "3 us");
        assert!(!host("ixgbe", 50, false) && !host("ixgbe", 0, false) && !host("mlx5_core", 3, false));
    }
}
