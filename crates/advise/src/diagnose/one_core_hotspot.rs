//! One CPU does far more than its share of the receive work, and is short of time.

use super::elsewhere::FEW;
use super::figures::{Evidence, Subject};
use super::hash_imbalance::{PARTLY, may_be_one_flow, recipient, says_few_flows};
use super::places::{
    Loaded, can_part, fits, irqs_of, loaded, may_use_more_queues, node, of_node, spreading, steal, with_part,
};
use super::{Check, Finding, Rule, Severity, elsewhere, one_outer_flow};
use crate::doctor::place_of;
use crate::family::PlanName;
use rxlab_base::number::{count, cpus_text, percent, plural};
use rxlab_base::units::{CpuId, CpuMask};
use rxlab_path::constraints::has_more_queues;
use rxlab_path::evidence::{
    DROWNING, FULL, MAX_PACKET_COST, ORIGIN, SUBSTANTIAL, TRAFFIC, arrival_cpus, brought, busy, by_threads,
    candidates, carrier, foreign, foreign_nic, irq_cpus, is_counted, is_measured, is_redirected, may_be_lo,
    of_another_namespace, queue_packets, rarely_interrupts, reach_every_cpu, received, receiving,
    takes_unknown,
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

/// Several threads that poll queues and may run on this CPU only, while others are idle.
fn pinned_threads(model: &Model, rates: &Rates, cpu: CpuId) -> Option<Cause> {
    let by_them = rates.cpu(cpu).is_some_and(by_threads);
    let threads = rates.pinned_napi.get(&cpu).filter(|threads| by_them && threads.len() > 1)?;
    let others: CpuMask = model.usable().iter().filter(|other| *other != cpu).collect();
    let why = format!(
        "{} that poll queues (threaded NAPI) may run on CPU {cpu} only, and share it",
        plural(threads.len(), "thread")
    );
    let first: Vec<String> = threads.iter().take(SHOWN_THREADS).map(ToString::to_string).collect();
    let more = if threads.len() > first.len() { ", and so on" } else { "" };
    let remedy = format!(
        "let them run on other CPUs too, or each on one of its own: taskset -pc {} PID, for PID {}{more}",
        others.union(&cpu.into()),
        first.join(", ")
    );
    (!others.is_empty()).then_some((why, remedy, &[]))
}

/// Threads whose process ids are shown.
const SHOWN_THREADS: usize = 6;

type Cause = (String, String, &'static [PlanName]);

/// What is known of a CPU without a [`carrier`].
fn unknown(model: &Model, rates: &Rates, cpu: CpuId) -> Cause {
    let may_land = |queue: &RxQueue| {
        let lands = arrival_cpus(queue, model, rates);
        lands.is_empty() || lands.contains(cpu)
    };
    let is_switch_s = |nic: &&Nic| nic.driver_facts().counts_forwarded && nic.rx.iter().any(may_land);
    if let Some(nic) = model.nics.iter().find(is_switch_s) {
        let driver = nic.driver.as_deref().unwrap_or_default();
        return (
            format!(
                "the ports of {driver} count what the device forwards: how many of their packets come here is not known"
            ),
            "find out which packets the device sends to the CPU: `devlink -s trap show`, `ethtool -S`".into(),
            &[],
        );
    }
    let found = candidates(model, rates, cpu);
    let names: Vec<String> = found.iter().map(|nic| nic.name.to_string()).collect();
    let masks = || found.iter().flat_map(|nic| &nic.rx).map(|queue| queue.rps_cpus.known());
    let is_idle = !rates.uncounted && rates.cpu(cpu).is_some_and(|cpu| cpu.packets < FEW);
    let (why, remedy) = if of_another_namespace(model, rates, cpu).is_some() {
        (
            "the interfaces of this network namespace bring this CPU less than half of its packets: the others probably \
             (inferred, not counted) arrive at a NIC in another namespace"
                .to_owned(),
            "run `rxlab doctor` in the namespace of that NIC (--netns NAME)".to_owned(),
        )
    } else if names.is_empty() && is_idle && foreign_nic(model, rates, cpu).is_none() {
        let why = "its NET_RX runs receive hardly any packets: they complete sent packets, hand packets to XDP programs or to \
                   other CPUs, or poll in vain";
        (why.to_owned(), format!("find out what runs there: `perf top -C {cpu}`"))
    } else if names.is_empty() {
        (
            "the interfaces of this network namespace bring this CPU fewer packets than it receives: the path of the \
             rest is unknown"
                .to_owned(),
            "if another network namespace receives them, run `rxlab doctor` there (--netns NAME)".to_owned(),
        )
    } else {
        let more = match names.len().saturating_sub(SHOWN_NICS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let names = names[..names.len().min(SHOWN_NICS)].join(", ");
        (
            format!("any of these interfaces may bring its packets: {names}{more}"),
            match masks().collect::<Option<Vec<_>>>() {
                Some(masks) if masks.iter().any(|mask| mask.len() > 1 && mask.contains(cpu)) => {
                    format!("take CPU {cpu} out of the RPS masks of these interfaces")
                }
                Some(masks) if masks.iter().all(|mask| !mask.is_empty() && !mask.contains(cpu)) => {
                    "RPS is on for them: only interrupts and polling are left here, which RPS cannot move"
                        .to_owned()
                }
                _ => "let other CPUs process the packets of these interfaces (RPS)".to_owned(),
            },
        )
    };
    (why, remedy, &[])
}

/// Interfaces that are named if any of them may be the cause.
const SHOWN_NICS: usize = 4;

/// The devices whose interrupts land at unknown CPUs and may bring a CPU a part of its packets: `eth1, eth0`.
fn hidden(model: &Model, rates: &Rates, nic: &Nic, cpu: CpuId) -> String {
    let least = rates.cpu(cpu).map_or(0.0, |cpu| cpu.packets) * ORIGIN;
    let is_hidden = |other: &&Nic| {
        other.kind == NicKind::Device
            && other.name != nic.name
            && rates.rx_packets(&other.name) >= least
            && other.rx.iter().all(|queue| arrival_cpus(queue, model, rates).is_empty())
    };
    let others = candidates(model, rates, cpu).into_iter().filter(is_hidden).take(SHOWN_NICS - 1);
    let names: Vec<&str> = [nic].into_iter().chain(others).map(|nic| nic.name.as_str()).collect();
    names.join(", ")
}

/// The mask to try where no plan is made: which of a device's queues brings a CPU its packets is inferred from their interrupts.
fn by_hand(model: &Model, rates: &Rates, (nic, queue): (&Nic, &RxQueue), cpu: CpuId) -> Option<String> {
    nic.rx.iter().find(|other| rarely_interrupts(nic, other, rates))?;
    let steers = if nic.is_steered_by_first() { nic.rx.first()? } else { queue };
    let near = node(model, cpu).map_or_else(|| model.usable(), |node| of_node(model, node));
    let mut others = near.intersection(&model.usable());
    others.remove(cpu);
    let for_all = if nic.is_steered_by_first() { ", the mask of all its queues" } else { "" };
    let name = &nic.name;
    let mask = format!("`rps {name}/rx-{} = {others}`{for_all}", steers.index);
    (!others.is_empty()).then(|| format!("try RPS by hand, as {name} counts no packets by queue: {mask}"))
}

fn cause(model: &Model, rates: &Rates, cpu: CpuId, carrier: Option<(&Nic, &RxQueue)>) -> Cause {
    const SPREAD: &[PlanName] = &[PlanName::Rps, PlanName::Rfs];
    if let Some(cause) = pinned_threads(model, rates, cpu) {
        return cause;
    }
    if rates.cpu(cpu).is_some_and(is_redirected) {
        let why = format!(
            "an XDP program redirects packets to CPU {cpu}, where a kernel thread (cpumap/{cpu}) takes them up the stack: the \
             program has chosen this CPU, no interrupt or mask"
        );
        let remedy = "let the XDP program redirect to more CPUs, or choose them more evenly: see its own configuration";
        return (why, remedy.to_owned(), &[]);
    }
    if rates.cpu(cpu).is_some_and(by_threads) {
        let why = "kernel threads poll queues here (threaded NAPI): a queue's packets are received where its \
                   thread runs, and a thread uses at most one CPU";
        // Steering is not simulated for threads.
        let remedy = match carrier {
            Some((nic, _)) if nic.rx.len() == 1 || !has_more_queues(nic) => format!(
                "{} has {}: RPS may hand the rest of the work to other CPUs; try it by hand, its effect on threads is not \
                 predicted",
                nic.name,
                match nic.rx.len() {
                    1 => "one queue, so one thread".to_owned(),
                    most if nic.napi.threaded.known() == Some(&true) => {
                        format!("{most} queues at most, a thread for each")
                    }
                    // From kernel 6.17 on, single NAPIs may be threaded.
                    most => format!("{most} queues at most"),
                }
            ),
            _ => "more queues, each with its own thread on its own CPU".to_owned(),
        };
        return (why.into(), remedy, &[]);
    }
    let Some((nic, queue)) = carrier else { return unknown(model, rates, cpu) };
    let (name, index) = (&nic.name, queue.index);
    let mask = queue.rps_cpus.known().filter(|mask| !mask.is_empty());
    let lands = arrival_cpus(queue, model, rates);
    let by_hand = by_hand(model, rates, (nic, queue), cpu).filter(|_| mask.is_none());
    let mut remedy = by_hand
        .unwrap_or_else(|| "let other CPUs process the packets (RPS), near the reader (RFS)".to_owned());
    if let Some(why) = one_outer_flow(model, rates, nic).filter(|_| mask.is_none()) {
        remedy = why;
    } else if mask.is_none() && may_be_one_flow(rates, nic, queue) {
        remedy = format!("{remedy}; {PARTLY}");
    }
    let why = match mask {
        None if queue.rps_cpus.known().is_none() => {
            format!(
                "the RPS mask of {name}/rx-{index} cannot be read, so it is unknown whether RPS hands its packets over"
            )
        }
        mask if nic.kind == NicKind::Device
            && !lands.contains(cpu)
            && mask.map_or(!lands.is_empty(), |mask| !mask.contains(cpu)) =>
        {
            // By RFS, for example.
            format!(
                "packets of {name}/rx-{index} probably (inferred, not counted) come here: no interrupt or mask is known to \
                 bring them"
            )
        }
        None if nic.kind != NicKind::Device => format!(
            "{name} has no interrupt and no RPS: its packets are received in softirq on the CPU that sends \
             them"
        ),
        None if lands.is_empty() => format!(
            "no RPS: packets of {} are processed where their interrupts land, probably here (inferred: where they land is not \
             known)",
            hidden(model, rates, nic, cpu)
        ),
        None if nic.rx.len() == 1 => {
            let irq = match (&queue.irqs[..], irq_cpus(queue, model, rates)) {
                ([irq], lands) if lands.len() == 1 => format!(", IRQ {} -> CPU {lands}", irq.number),
                _ => String::new(),
            };
            format!("one queue{irq}, RPS off: nothing spreads the packets")
        }
        None if irqs_of(&queues_here(model, rates, cpu)) > 1 => {
            let queues = irqs_of(&queues_here(model, rates, cpu));
            let why = format!("the interrupts of {queues} queues land here, and RPS is off for them");
            return (
                why,
                "give each queue's interrupt its own CPU, or let other CPUs help (RPS)".into(),
                SPREAD,
            );
        }
        None => match queue.channel_cpu.filter(|_| queue.irqs.is_empty()) {
            Some(signalled) => format!(
                "no RPS: every packet of {name}/rx-{index} is processed on CPU {signalled}, which Hyper-V signals"
            ),
            None => {
                format!("no RPS: every packet of {name}/rx-{index} is processed where its interrupt lands")
            }
        },
        Some(mask) if lands.contains(cpu) && !mask.contains(cpu) => {
            let queues = queues_here(model, rates, cpu);
            let left = match irqs_of(&queues) {
                0 | 1 => "the interrupt and the polling of the queue are".to_owned(),
                many => format!("the interrupts and the polling of {many} queues are"),
            };
            let why = format!(
                "RPS hands the packets of {name}/rx-{index} to {}; only {left} left here, which RPS cannot move",
                cpus_text(mask)
            );
            if can_part(&queues) {
                let remedy = "move the interrupts of some of these queues to other CPUs, or have fewer interrupts by \
                              coalescing, if supported";
                return (why, remedy.to_owned(), &[PlanName::SeparateIrqs]);
            }
            let more = if may_use_more_queues(model, nic) { "more queues, or " } else { "" };
            return (why, format!("{more}fewer interrupts by coalescing, if supported"), &[]);
        }
        Some(mask) if recipient(model, rates, queue) == Some(cpu) => {
            let why = format!(
                "RPS hands the packets of {name}/rx-{index} to {}, but a flow stays on one CPU: few \
                 flows carry most packets",
                cpus_text(mask)
            );
            return (why, "use more flows; a mask cannot split one".into(), &[]);
        }
        Some(mask) if mask.contains(cpu) && mask.len() > 1 => {
            let to = format!("RPS hands the packets of {name}/rx-{index} to {}", cpus_text(mask));
            let few = "but a flow stays on one CPU: few flows carry most packets";
            let why = if lands.contains(cpu) {
                format!(
                    "{to}, and its interrupt lands here as well: polling comes on top of this CPU's part, or few flows carry most packets"
                )
            } else if lands.is_empty() {
                format!("{to}, {few}, or the interrupt lands here as well")
            } else {
                format!("{to}, {few}")
            };
            return (
                why,
                "remove the interrupt's CPU from the mask; one large flow cannot be split".into(),
                SPREAD,
            );
        }
        Some(mask) => {
            let same = nic.rx.iter().filter(|other| other.rps_cpus.known() == Some(mask)).count();
            let whose = match same {
                1 => format!("{name}/rx-{index}"),
                _ => format!("{same} queues of {name}"),
            };
            let why = format!("RPS hands the packets of {whose} to {} only", cpus_text(mask));
            if reach_every_cpu(nic, model, rates) {
                return (why, "switch RPS off: every CPU has a queue".to_owned(), &[PlanName::RpsOff]);
            }
            why
        }
    };
    let why = match of_another_namespace(model, rates, cpu) {
        Some((irq, _)) => format!("{why}; IRQ {} of another network namespace lands here too", irq.irq),
        None => why,
    };
    (why, remedy, SPREAD)
}

#[cfg(test)]
#[path = "one_core_hotspot/tests.rs"]
mod tests;
