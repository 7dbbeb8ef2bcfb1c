//! Why one CPU gets the packets, and what else could take them.

use super::queues_here;
use crate::diagnose::elsewhere::FEW;
use crate::diagnose::hash_imbalance::{PARTLY, may_be_one_flow, recipient};
use crate::diagnose::one_outer_flow;
use crate::diagnose::places::{can_part, irqs_of, may_use_more_queues, node, of_node};
use crate::family::PlanName;
use rxlab_base::number::{cpus_text, plural};
use rxlab_base::units::{CpuId, CpuMask};
use rxlab_path::constraints::has_more_queues;
use rxlab_path::evidence::{
    ORIGIN, arrival_cpus, by_threads, candidates, foreign_nic, irq_cpus, is_redirected, of_another_namespace,
    rarely_interrupts, reach_every_cpu,
};
use rxlab_path::model::{Model, Nic, NicKind, Rates, RxQueue};

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

pub(super) type Cause = (String, String, &'static [PlanName]);

/// What is known of a CPU without a [`carrier`](rxlab_path::evidence::carrier).
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

/// Why a CPU gets the packets, what to do about it, and the plans that do it.
pub(super) fn cause(model: &Model, rates: &Rates, cpu: CpuId, carrier: Option<(&Nic, &RxQueue)>) -> Cause {
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
        None if nic.kind != NicKind::Device => match nic.receives_where_sent() {
            Some(false) => format!("{name} has no interrupt and no RPS: nothing spreads its packets"),
            _ => format!(
                "{name} has no interrupt and no RPS: its packets are received in softirq on the CPU that sends \
                 them"
            ),
        },
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
