//! One CPU does far more than its share of the receive work, and is short of time.

mod cause;

use super::figures::{Evidence, Subject};
use super::hash_imbalance::says_few_flows;
use super::places::{Loaded, fits, loaded, spreading, steal, with_part};
use super::{Check, Finding, Rule, Severity, elsewhere};
use crate::doctor::place_of;
use crate::family::PlanName;
use cause::cause;
use rxlab_base::number::{count, percent, plural};
use rxlab_base::units::{CpuId, CpuMask};
use rxlab_path::evidence::{
    DROWNING, FULL, MAX_PACKET_COST, SUBSTANTIAL, TRAFFIC, arrival_cpus, brought, busy, carrier, foreign,
    foreign_nic, irq_cpus, is_counted, is_measured, is_redirected, may_be_lo, of_another_namespace,
    queue_packets, received, receiving, takes_unknown,
};
use rxlab_path::model::{CpuRates, Model, Nic, NicKind, Rates, RxQueue};

/// Minimum receive work relative to the average of the other CPUs. On 2 CPUs that is a share of 75 %,
/// on 8 CPUs 30 %. Field case A after the fix had 1.7.
const MIN_RATIO: f64 = 3.0;

/// The same for a CPU that drowns, relative to all others and to those that receive from the same interface:
/// if they do half of its work they have room enough. Seen with RPS on 8 CPUs: the one that polls the queue
/// at 95 %, the others below a third.
const ODDS_OF_DROWNING: f64 = 2.0;

/// Part of the hot CPU's receive time from which another CPU counts as receiving. Others are not compared
/// with a drowning one: on 128 CPUs, 16 queues leave 112 idle, however even they are.
const RECEIVES: f64 = 0.1;

/// A CPU below [`DROWNING`] must also do most of the machine's receive work: 16 balanced queues on
/// 128 CPUs are not a hotspot.
pub(super) const MAJORITY: f64 = 0.5;

/// Without [`SUBSTANTIAL`] softirq time (short runs inside a sender's system call slip between the ticks),
/// a full CPU that takes this many packets/s from an interface without an interrupt also counts ...
const PACKETS: f64 = 20_000.0;

pub(super) const RULE: Rule = Rule {
    id: "one-core-hotspot",
    asks: "Does one CPU do far more than its share of the receive work, and is it short of time?",
    fires: || {
        format!(
            "one CPU does at least {MIN_RATIO:.0} times as much receive work as the average of the others, spends \
             {} of its time on it and does {} of all; or it does {ODDS_OF_DROWNING:.0} times as much as the \
             average of the others, and of those that receive from its interface, and spends {} of its time \
             on it; or, if softirq time is sampled by ticks, a CPU that is {} busy takes {} packets/s of an \
             interface without an interrupt, and an equally uneven share of both packets and NET_RX runs",
            percent(SUBSTANTIAL),
            percent(MAJORITY),
            percent(DROWNING),
            percent(FULL),
            count(PACKETS)
        )
    },
    silent: "the load is balanced, the CPU is busy with other work (softirq-not-receive), the packets may \
             come from `lo`, the machine has two CPUs and RPS already moved the work to the other one, which no other NIC \
             interrupts, or RPS is on and has too few flows to spread (hash-imbalance)",
    evidence: "the hot CPU's share of receive time, packets and NET_RX runs next to the others', its \
               ksoftirqd, steal time, its queue, interrupt and RPS mask, the headroom",
    cause: "Packets are processed where their interrupt lands, or where RPS hands them: one queue without \
            RPS, or a mask of one CPU, puts all the work on one CPU. If kernel threads poll, packets are \
            processed where the queue's thread runs; if an XDP program redirects them to CPUs, where it chooses.",
    remedy: "Spread the receive work: RPS, RFS, more queues.",
    source: "Documentation/networking/scaling.rst (RSS, RPS)",
    check: Check::Machine(check),
};

/// A CPU and its share of the receive work, by the more reliable measure.
struct Hot<'a> {
    cpu: &'a CpuRates,
    share: f64,
    /// Number of others that receive, and their mean receive time.
    others: (usize, f64),
}

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    if rates.cpus.len() < 2 {
        return Vec::new();
    }
    let receive = elsewhere::without(model, rates);
    let hot = by_time(model, &receive).filter(|hot| !may_be_lo(model, rates, hot.cpu.cpu));
    let Some(hot) = hot.or_else(|| by_packets(model, rates)) else { return Vec::new() };
    let carrier = carrier(model, rates, hot.cpu.cpu);
    let is_told = |(nic, queue): (&Nic, &RxQueue)| {
        moved_to_the_other_of_two(model, rates, (nic, queue), hot.cpu.cpu)
            || says_few_flows(model, rates, nic, queue)
    };
    if carrier.is_some_and(is_told) {
        return Vec::new();
    }
    vec![finding(model, rates, &hot, carrier)]
}

fn by_time<'a>(model: &Model, rates: &'a Rates) -> Option<Hot<'a>> {
    let (hottest, share) = rates.hottest(receiving)?;
    let cpu = rates.cpu(hottest)?;
    // As much as packets can account for, or runs that receive none.
    let arrive = brought(model, rates).get(&hottest).copied().unwrap_or_default();
    let time = receiving(cpu).min((arrive + cpu.packets + cpu.net_rx) * MAX_PACKET_COST);
    // Softirq time also includes timers and block work. It is receive work if the CPU has its share
    // of the packets or of the runs, threads poll there, or it handles the interrupt of a queue with traffic:
    // with RPS a drowning CPU counts no packets, and few but long runs.
    let part = 1.0 / rates.cpus.len() as f64;
    let takes_interrupts = || {
        let queues = model.nics.iter().flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)));
        queues
            .filter(|(nic, queue)| queue_packets(nic, queue, rates) >= TRAFFIC)
            .any(|(_, queue)| arrival_cpus(queue, model, rates).contains(hottest))
    };
    let receives = cpu.packets.max(cpu.net_rx) >= TRAFFIC / 2.0
        && (share_of(rates, cpu, |c| c.packets) >= part
            || share_of(rates, cpu, |c| c.net_rx) >= part
            || cpu.napi >= SUBSTANTIAL
            || takes_interrupts());
    let drowns = time >= DROWNING
        && lopsided(rates, share, ODDS_OF_DROWNING)
        && time >= ODDS_OF_DROWNING * of_receivers(rates, cpu, &equals(model, rates, hottest)).1;
    let lopsided = drowns || (share >= MAJORITY && lopsided(rates, share, MIN_RATIO));
    let others = of_receivers(rates, cpu, &model.online());
    (time >= SUBSTANTIAL && receives && lopsided).then_some(Hot { cpu, share, others })
}

/// True if a CPU receives for longer than ticks show: time they charge to programs may be receive work.
pub(super) fn is_hidden(model: &Model, rates: &Rates) -> bool {
    by_packets(model, rates).is_some()
}

fn by_packets<'a>(model: &Model, rates: &'a Rates) -> Option<Hot<'a>> {
    // Measured times miss nothing: what is left of a full CPU's time is programs'.
    if is_measured(rates) {
        return None;
    }
    let (hottest, share) = rates.hottest(|cpu| cpu.packets)?;
    let cpu = rates.cpu(hottest)?;
    // With RPS, packets are counted on the target CPU, runs on both: only both together show that
    // nothing spreads them.
    let runs = share_of(rates, cpu, |cpu| cpu.net_rx);
    let lopsided = [share, runs].iter().all(|share| *share >= MAJORITY && lopsided(rates, *share, MIN_RATIO));
    // After an interrupt, of this network namespace or another, receive work runs long enough for ticks to hit it.
    let stands_on_devices = |nic: &Nic| nic.kind == NicKind::Device || !model.carriers(nic).is_empty();
    let rings = carrier(model, rates, hottest).is_some_and(|(nic, _)| stands_on_devices(nic))
        || takes_unknown(model, rates, hottest);
    let own = !rings && !may_be_lo(model, rates, hottest);
    let others = of_receivers(rates, cpu, &model.online());
    (cpu.packets >= PACKETS && busy(cpu) >= FULL && lopsided && own).then_some(Hot { cpu, share, others })
}

/// The CPUs that take packets, by interrupt or mask, of the device that brings a CPU its work: the CPU is
/// compared with these, not with those of another device. All CPUs if no interrupt or mask brings it packets.
fn equals(model: &Model, rates: &Rates, cpu: CpuId) -> CpuMask {
    let device = carrier(model, rates, cpu).filter(|(nic, _)| nic.kind == NicKind::Device);
    let queues = device.into_iter().flat_map(|(nic, _)| nic.rx.iter().map(move |queue| (nic, queue)));
    let cpus = queues.filter(|(nic, queue)| queue_packets(nic, queue, rates) >= TRAFFIC).fold(
        CpuMask::new(),
        |all, (_, queue)| {
            let mask = queue.rps_cpus.known().cloned().unwrap_or_default();
            all.union(&arrival_cpus(queue, model, rates)).union(&mask)
        },
    );
    if cpus.contains(cpu) { cpus } else { model.online() }
}

/// Number of other CPUs of these that receive, and their mean receive time (0 if there are none).
fn of_receivers(rates: &Rates, hot: &CpuRates, cpus: &CpuMask) -> (usize, f64) {
    let others = rates.cpus.iter().filter(|cpu| cpu.cpu != hot.cpu && cpus.contains(cpu.cpu)).map(receiving);
    let receive: Vec<f64> = others.filter(|time| *time >= RECEIVES * receiving(hot)).collect();
    (receive.len(), receive.iter().sum::<f64>() / receive.len().max(1) as f64)
}

fn share_of(rates: &Rates, cpu: &CpuRates, value: impl Fn(&CpuRates) -> f64) -> f64 {
    let total: f64 = rates.cpus.iter().map(&value).sum();
    if total > 0.0 { value(cpu) / total } else { 0.0 }
}

/// True if a share is at least `odds` times the average of the other CPUs.
fn lopsided(rates: &Rates, share: f64, odds: f64) -> bool {
    let others = (rates.cpus.len() - 1) as f64;
    share * others >= odds * (1.0 - share)
}

/// With two CPUs, RPS to the one without an interrupt of the interface is all that can be done, unless a NIC of another network
/// namespace interrupts that one.
fn moved_to_the_other_of_two(
    model: &Model,
    rates: &Rates,
    (nic, queue): (&Nic, &RxQueue),
    cpu: CpuId,
) -> bool {
    let lands = arrival_cpus(queue, model, rates).first();
    model.online().len() <= 2
        && !nic.rx.iter().any(|queue| arrival_cpus(queue, model, rates).contains(cpu))
        && lands.map_or(nic.kind != NicKind::Device, |lands| lands != cpu)
        && foreign_nic(model, rates, cpu).is_none()
        && queue.rps_cpus.known().is_some_and(|mask| mask.len() == 1 && mask.contains(cpu))
}

fn finding(model: &Model, rates: &Rates, hot: &Hot<'_>, carrier: Option<(&Nic, &RxQueue)>) -> Finding {
    let cpu = hot.cpu.cpu;
    let (why, remedy, plans) = cause(model, rates, cpu, carrier);
    let time = receiving(hot.cpu);
    Finding {
        severity: if time.max(busy(hot.cpu)) >= FULL { Severity::Critical } else { Severity::Warning },
        nic: carrier.map(|(nic, _)| nic.name.clone()),
        cpu: Some(cpu),
        title: match hot.others {
            (receive @ 1.., mean) if hot.share < MAJORITY => format!(
                "CPU {cpu} spends {} of its time on receive work, {} {}",
                percent(time),
                plural(receive, "other"),
                percent(mean)
            ),
            _ => {
                let does = match carrier.filter(|(nic, queue)| takes_all(model, rates, (nic, queue), cpu)) {
                    Some((nic, _)) => ("receives", format!("all packets of {}", nic.name)),
                    None => ("does", format!("{} of receive work", percent(hot.share))),
                };
                let others = of_others(rates, cpu);
                match does {
                    (does, what) if time >= FULL => format!("CPU {cpu} is full: it {does} {what}; {others}"),
                    (does, what) => {
                        format!(
                            "CPU {cpu} {does} {what}, {} busy; {others}",
                            percent(time.max(busy(hot.cpu)))
                        )
                    }
                }
            }
        },
        evidence: evidence(model, rates, hot, carrier),
        why,
        remedy,
        plans: match plans {
            [] => Vec::new(),
            [own @ (PlanName::RpsOff | PlanName::SeparateIrqs)] => vec![*own],
            _ => spreading(rates, cpu),
        },
        ..RULE.finding()
    }
}

/// True if every packet of the interface is received on this CPU: it has one queue, whose interrupt lands there, and no RPS.
fn takes_all(model: &Model, rates: &Rates, (nic, queue): (&Nic, &RxQueue), cpu: CpuId) -> bool {
    nic.kind == NicKind::Device
        && nic.rx.len() == 1
        && arrival_cpus(queue, model, rates) == cpu.into()
        && queue.rps_cpus.known().is_some_and(CpuMask::is_empty)
}

/// Time from which a part of a CPU's time is shown: it is not rounded to 0 %.
const SHOWN: f64 = 0.005;

/// Mean busy time below which CPUs count as idle.
const IDLE: f64 = 0.1;

/// `7 CPUs idle`, `1 CPU 36 % busy`, of the other CPUs.
fn of_others(rates: &Rates, hot: CpuId) -> String {
    let others: Vec<f64> = rates.cpus.iter().filter(|cpu| cpu.cpu != hot).map(busy).collect();
    let mean = others.iter().sum::<f64>() / others.len().max(1) as f64;
    match (others.len(), mean < IDLE) {
        (count, true) => format!("{} idle", plural(count, "CPU")),
        (count, false) => format!("{} {} busy", plural(count, "CPU"), percent(mean)),
    }
}

fn evidence(model: &Model, rates: &Rates, hot: &Hot<'_>, carrier: Option<(&Nic, &RxQueue)>) -> Vec<Evidence> {
    let cpu = hot.cpu.cpu;
    let others = (rates.cpus.len() - 1) as f64;
    let elsewhere = rates.cpus.iter().map(receiving).sum::<f64>() - receiving(hot.cpu);
    let time = |seen: &mut Evidence| {
        let mut text =
            format!("CPU {cpu}: {} of its time in softirq", seen.percent("softirq", hot.cpu.softirq));
        if hot.cpu.ksoftirqd >= SHOWN {
            text += &format!(" (ksoftirqd/{cpu} {})", seen.percent("ksoftirqd", hot.cpu.ksoftirqd));
        }
        if hot.cpu.napi >= SHOWN {
            let threads = if is_redirected(hot.cpu) { "cpumap threads" } else { "polling threads" };
            text += &format!(", {} in {threads}", seen.percent("napi", hot.cpu.napi));
        }
        if hot.cpu.irq >= SHOWN {
            text += &format!(", {} in interrupts", seen.percent("irq", hot.cpu.irq));
        }
        let others = seen.percent("receiving_others", elsewhere / others);
        format!("{text}, the others {others} on average; {}", seen.tier(rates))
    };
    let packets = |seen: &mut Evidence| {
        let packets = if rates.uncounted {
            "packets not counted by CPU".to_owned()
        } else {
            let (here, all) = (hot.cpu.packets, share_of(rates, hot.cpu, |c| c.packets));
            let queues = loaded(model, rates).into_iter().filter(|one| one.cpu == cpu);
            let taken: f64 = queues.map(|one| one.packets).sum();
            format!(
                "{} packets/s{}, {} of all",
                seen.packets("packets", here),
                place_of(here, if taken > 0.0 { taken } else { received(model, rates) }),
                seen.percent("packets_share", all)
            )
        };
        let (runs, all) = (hot.cpu.net_rx, share_of(rates, hot.cpu, |c| c.net_rx));
        let (runs, all) = (seen.rate("net_rx", runs), seen.percent("net_rx_share", all));
        format!("CPU {cpu}: {packets}; {runs} NET_RX runs/s, {all} of all")
    };
    let mut found =
        vec![Evidence::about(Subject::Cpu(cpu), time), Evidence::about(Subject::Cpu(cpu), packets)];
    found.extend(carrier.map(|(nic, queue)| queue_and_place(model, rates, nic, queue)));
    found.extend(foreign(model, rates, cpu).map(|(irq, rate)| {
        Evidence::about(Subject::Cpu(cpu), |seen| {
            let (number, action, rate) = (irq.irq, &irq.action, seen.rate("interrupts", rate));
            let whose = match of_another_namespace(model, rates, cpu) {
                Some((other, _)) if other.irq == irq.irq => "a NIC's, of no interface here",
                _ => "its owner is unknown",
            };
            format!("IRQ {number} ({action}) fires {rate} times/s on CPU {cpu}: {whose}")
        })
    }));
    const OTHERS: usize = 3;
    let drowning =
        loaded(model, rates).into_iter().filter(|queue| queue.cpu != cpu && queue.load >= DROWNING);
    found.extend(drowning.take(OTHERS).map(|queue| queue.evidence(rates)));
    found.extend(steal(rates, &cpu.into()));
    found.push(fits(model, rates));
    found
}

fn queue_and_place(model: &Model, rates: &Rates, nic: &Nic, queue: &RxQueue) -> Evidence {
    let irqs: Vec<String> = queue.irqs.iter().map(|irq| irq.number.to_string()).collect();
    let lands = irq_cpus(queue, model, rates);
    let place = match (irqs.is_empty(), lands.is_empty(), queue.channel_cpu) {
        (true, _, Some(cpu)) => format!("VMBus -> CPU {cpu}"),
        (true, ..) if nic.kind == NicKind::Device => "interrupt unknown".to_owned(),
        (true, ..) => "no interrupt".to_owned(),
        (false, true, _) => format!("IRQ {}", irqs.join(",")),
        (false, false, _) => format!("IRQ {} -> CPU {lands}", irqs.join(",")),
    };
    Evidence::about(Subject::rx(nic, queue.index), |seen| {
        let packets = if is_counted(nic, queue, rates) {
            format!("{} packets/s", seen.packets("packets", queue_packets(nic, queue, rates)))
        } else {
            "packets not counted by queue".to_owned()
        };
        format!("{}/rx-{}: {packets}, {place}", nic.name, queue.index)
    })
}

/// The queues whose interrupts bring this CPU a part of its packets.
pub(super) fn queues_here<'a>(model: &'a Model, rates: &Rates, cpu: CpuId) -> Vec<Loaded<'a>> {
    let here = loaded(model, rates).into_iter().filter(|queue| queue.cpu == cpu).collect();
    with_part(here, rates, rates.cpu(cpu).map_or(0.0, |cpu| cpu.packets))
}

#[cfg(test)]
#[path = "one_core_hotspot/tests.rs"]
mod tests;
