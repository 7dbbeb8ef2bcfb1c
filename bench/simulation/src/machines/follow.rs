//! Effects of settings in kernel and driver: the machine once a plan is applied.

use rxlab_base::units::{CpuId, CpuMask, Direction};
use rxlab_setting::{Setting, Target, set_of};

use super::truth::{INTERRUPTS, Irq, Nic, Rx, Truth, Tx};

/// The machine after these settings.
pub(crate) fn follow<'s>(truth: &Truth, settings: impl IntoIterator<Item = &'s Setting>) -> Truth {
    let mut after = truth.clone();
    let mut banned: Vec<usize> = (0..truth.nics.len()).filter(|at| is_banned(truth, *at)).collect();
    for setting in settings {
        one(&mut after, setting);
        after.nics.iter_mut().for_each(Nic::share_first);
        banned.extend((0..after.nics.len()).filter(|at| is_banned(&after, *at)));
    }
    // A ban covers the interrupts of new queues as well: it is set again once they are there.
    banned.into_iter().for_each(|at| ban(&mut after, at));
    after
}

fn is_banned(truth: &Truth, nic: usize) -> bool {
    let irqs = &truth.nics[nic].irqs;
    let banned = truth.irqbalance.as_ref().map(|irqbalance| &irqbalance.banned);
    banned.is_some_and(|banned| !irqs.is_empty() && irqs.iter().all(|irq| banned.contains(&irq.number)))
}

fn ban(truth: &mut Truth, nic: usize) {
    // Those of a function whose names are no interface's are every port's.
    let ports = truth.nics.iter().filter(|port| port.function == truth.nics[nic].function);
    let own: Vec<u32> = ports.flat_map(|port| &port.irqs).map(|irq| irq.number).collect();
    if let Some(irqbalance) = &mut truth.irqbalance {
        irqbalance.banned.retain(|irq| !own.contains(irq));
        irqbalance.banned.extend(own);
    }
}

/// Sets a value of a queue without traffic of its own.
fn without_packets(truth: &mut Truth, Setting { knob, target, value }: &Setting) {
    let Target::Queue { nic, queue } = target else { return };
    let key = (nic.to_string(), queue.index);
    match knob.as_str() {
        "rps" => drop(truth.masks.insert(key, cpus(value))),
        "rfs" => drop(truth.flows.insert(key, number(value))),
        _ => {}
    }
}

fn one(truth: &mut Truth, setting: &Setting) {
    let Setting { knob, target, value } = setting;
    let online = truth.online();
    if knob == "rfs_entries" {
        truth.sock_flows = number(value).next_power_of_two();
        return;
    }
    let named = |nic: &Nic| target.nic().is_some_and(|name| *name.as_str() == nic.name);
    let Some(at) = truth.nics.iter().position(named) else {
        return without_packets(truth, setting);
    };
    if knob == "irqbalance" {
        return ban(truth, at);
    }
    let full = truth.full.clone();
    let moved: Vec<u32> = irqs(truth, &truth.nics[at], target).iter().map(|irq| irq.number).collect();
    let nic = &mut truth.nics[at];
    // The second queues that mlx5 shows on 5.15 take no packets.
    let is_real =
        |queues: usize| matches!(target, Target::Queue { queue, .. } if (queue.index as usize) < queues);
    match (knob.as_str(), target) {
        ("rps" | "rfs", _) if !is_real(nic.rx.len()) => without_packets(truth, setting),
        ("xps_cpus", _) if !is_real(nic.tx.len()) => {}
        ("rps", Target::Queue { queue, .. }) => nic.rx[queue.index as usize].rps = cpus(value),
        ("rfs", Target::Queue { queue, .. }) => nic.rx[queue.index as usize].flows = number(value),
        ("xps_cpus", Target::Queue { queue, .. }) => nic.tx[queue.index as usize].xps = cpus(value),
        ("irq_affinity", _) => {
            let all = truth.nics.iter_mut().flat_map(|nic| &mut nic.irqs);
            all.filter(|irq| moved.contains(&irq.number)).for_each(|irq| {
                irq.affinity = cpus(value);
                let may = irq.affinity.intersection(&online);
                // An interrupt that may stay on its CPU does, and one that finds no vector.
                let goes = may.difference(&full).first().filter(|_| !may.contains(irq.lands));
                irq.lands = goes.unwrap_or(irq.lands);
            });
        }
        ("channels", _) => {
            let before = nic.rx.len();
            resize(nic, &online, value);
            if nic.rx.len() < before && !nic.keeps_vectors {
                free_vectors(truth);
            }
        }
        ("rss", _) => spread_table(nic),
        ("adaptive_rx", _) => nic.delay = nic.delay.map(|(usecs, _)| (usecs, value == "on")),
        ("rx_usecs", _) => nic.delay = nic.delay.map(|(_, adapts)| (number(value), adapts)),
        _ => {}
    }
}

fn cpus(value: &str) -> CpuMask {
    set_of(value).expect("a set of CPUs")
}

fn number(value: &str) -> u32 {
    value.parse().expect("a number")
}

/// The interrupts that a target of a device stands for.
pub(crate) fn irqs<'t>(truth: &'t Truth, nic: &'t Nic, target: &Target) -> Vec<&'t Irq> {
    let own = |at: Option<usize>| at.map(|at| &nic.irqs[at]).into_iter().collect();
    match target {
        Target::Queue { queue, .. } if queue.direction == Direction::Rx => {
            let irq = nic.rx.get(queue.index as usize).map(|queue| queue.irq);
            own(irq.unwrap_or_else(|| nic.spare_irq(queue.index)))
        }
        Target::Queue { queue, .. } => own(nic.tx.get(queue.index as usize).and_then(|tx| tx.irq)),
        Target::Irq { name, .. } => {
            // Those of a function are every port's. Those that are known to be a queue's are meant by its name only.
            let ports = truth.nics.iter().filter(|port| port.function == nic.function);
            let is_queue_s =
                |port: &Nic, at| port.is_told && port.rx.iter().any(|queue| queue.irq == Some(at));
            let of_port = |port: &'t Nic| {
                let all = port.irqs.iter().enumerate();
                all.filter(|(at, irq)| irq.action == *name && !is_queue_s(port, *at)).map(|(_, irq)| irq)
            };
            ports.flat_map(of_port).collect()
        }
        _ => Vec::new(),
    }
}

fn spread_table(nic: &mut Nic) {
    let queues = u32::try_from(nic.rx.len()).expect("few");
    (0..).zip(&mut nic.table).for_each(|(entry, queue): (u32, _)| *queue = entry % queues);
}

/// Fewer queues have freed vectors: interrupts go where they were sent.
fn free_vectors(truth: &mut Truth) {
    truth.full = CpuMask::new();
    for irq in truth.nics.iter_mut().flat_map(|nic| &mut nic.irqs) {
        if !irq.affinity.contains(irq.lands) {
            irq.lands = irq.affinity.first().unwrap_or(irq.lands);
        }
    }
}

/// Removes queues from the end with their interrupts.
fn shrink(nic: &mut Nic, receive: usize, transmit: usize) {
    let own = |nic: &Nic| {
        nic.rx.iter().filter_map(|rx| rx.irq).chain(nic.tx.iter().filter_map(|tx| tx.irq)).collect()
    };
    let (before, keeps_vectors): (Vec<usize>, bool) = (own(nic), nic.keeps_vectors);
    nic.rx.truncate(receive);
    nic.tx.truncate(transmit);
    let left: Vec<usize> = own(nic);
    let gone = |irq: usize| before.contains(&irq) && !left.contains(&irq) && !keeps_vectors;
    let moved = |irq: usize| irq - (0..irq).filter(|at| gone(*at)).count();
    nic.rx.iter_mut().for_each(|rx| rx.irq = rx.irq.map(moved));
    nic.tx.iter_mut().for_each(|tx| tx.irq = tx.irq.map(moved));
    let mut at = 0;
    nic.irqs.retain(|_| {
        at += 1;
        !gone(at - 1)
    });
}

/// The number of channels of a kind that a value asks for: `rx 4 tx 4 combined 0`.
pub(crate) fn channels(value: &str, kind: &str) -> Option<u32> {
    let mut words = value.split_whitespace();
    words.find(|word| *word == kind).and_then(|_| words.next()).map(number)
}

/// Another number of queues: their packets are spread over all of them, and new ones have interrupts where the
/// driver asks for them first: on one CPU after the other.
fn resize(nic: &mut Nic, online: &CpuMask, value: &str) {
    let count = |kind: &str| channels(value, kind).map(|count| count as usize);
    let receive = count("combined").or(count("rx")).expect("receive queues");
    let transmit = count("combined").or(count("tx")).expect("transmit queues");
    let (packets, last) = (nic.packets(), nic.irqs.last().map_or(0, |irq| irq.number));
    let queues = u32::try_from(receive).expect("few");
    shrink(nic, receive, transmit);
    let mut number = last;
    let mut irq = |nic: &mut Nic, action: String, queue: usize| {
        number += 1;
        let lands = online.iter().nth(queue % online.len()).expect("a CPU is online");
        nic.irqs.push(Irq { number, action, affinity: online.clone(), lands });
        nic.irqs.len() - 1
    };
    let driver = nic.driver;
    let index = |at: usize| u32::try_from(at).expect("few");
    while nic.rx.len() < receive {
        let action = nic.action(driver.rx, index(nic.rx.len()), queues);
        // The bus gives channels to CPUs in turn.
        let signalled = |cpu: &CpuId| nic.rx.iter().filter(|queue| queue.signal == Some(*cpu)).count();
        let fewest = online.iter().min_by_key(signalled);
        let signal = nic.rx[0].signal.and(fewest);
        let irq = match signal {
            Some(_) => None,
            None if driver.has_one_for_all => nic.rx[0].irq,
            None => nic.spare_irq(index(nic.rx.len())).or_else(|| Some(irq(nic, action, nic.rx.len()))),
        };
        nic.rx.push(Rx { irq, signal, rps: CpuMask::new(), flows: 0, packets: 0.0, interrupts: 0.0 });
    }
    while nic.tx.len() < transmit {
        let action = driver.tx.map(|name| nic.action(name, index(nic.tx.len()), queues));
        let irq = action.map(|action| irq(nic, action, nic.tx.len()));
        nic.tx.push(Tx { irq, xps: CpuMask::new() });
    }
    // Drivers that ask for vectors again give all of them other names.
    let renamed = (0..nic.rx.len()).filter(|_| !nic.keeps_vectors);
    let renamed = renamed.filter_map(|at| Some((nic.rx[at].irq?, nic.action(driver.rx, index(at), queues))));
    let renamed: Vec<(usize, String)> = renamed.collect();
    renamed.into_iter().for_each(|(irq, action)| nic.irqs[irq].action = action);
    // Whole numbers, and no packet less: counters count nothing else.
    let (each, rest) =
        (packets.div_euclid(receive as f64), packets.rem_euclid(receive as f64).round() as usize);
    for (at, queue) in nic.rx.iter_mut().enumerate() {
        queue.packets = each + if at < rest { 1.0 } else { 0.0 };
        queue.interrupts = queue.packets * INTERRUPTS;
    }
    spread_table(nic);
}
