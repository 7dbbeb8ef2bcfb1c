//! Plans applied to a model: its state once a setting holds. Policies use it between two steps, and tests
//! plan again on it.
//!
//! Only the settings that policies make are known here. `knob` knows what the kernel does with a value.

use super::tunable::tunable;
use super::{Setting, Target, interrupts, set_of};
use rxlab_base::parse::ethtool::Channels;
use rxlab_base::units::{CpuMask, Fact, IrqId, NicName};
use rxlab_path::constraints::rss_reach;
use rxlab_path::model::{Irq, Model, Nic, RxQueue, TxQueue};

/// First number for interrupts of future queues; no machine has such numbers.
const TO_COME: u32 = 1 << 31;
/// Numbers reserved per interface: two interfaces must not share an interrupt number.
const OF_ONE: u32 = 1 << 12;

/// True if it is the interrupt of a queue that a setting will create: nothing about it is decided yet.
pub fn is_to_come(irq: &Irq) -> bool {
    irq.number.0 >= TO_COME
}

/// Updates a model for a target and a value; those that the knob does not have change nothing.
pub(super) type Simulation = fn(&mut Model, &Target, &str);

/// Updates `model` to its state when `setting` holds. Settings must be simulated in the order in which they are
/// applied. Unknown ones change nothing.
pub fn simulate(model: &mut Model, setting: &Setting) {
    if let Some(simulation) = tunable(&setting.knob).and_then(|row| row.simulation) {
        simulation(model, &setting.target, &setting.value);
    }
}

pub(super) fn irqbalance(model: &mut Model, target: &Target, _: &str) {
    if let Target::Nic(name) = target {
        ban(model, name);
    }
}

pub(super) fn channels(model: &mut Model, target: &Target, value: &str) {
    let Target::Nic(name) = target else { return };
    let at = model.nics.iter().position(|nic| nic.name == *name).unwrap_or_default();
    let first = TO_COME + u32::try_from(at).unwrap_or_default() % OF_ONE * OF_ONE;
    let was_banned = is_banned(model, name);
    on_nic(model, target, |nic| resize(nic, value, first));
    // A ban is restored after the queues have changed, and then covers all interrupts.
    if was_banned {
        ban(model, name);
    }
}

pub(super) fn rss(model: &mut Model, target: &Target, value: &str) {
    if value == "default" {
        on_nic(model, target, spread_table);
    }
}

pub(super) fn adaptive_rx(model: &mut Model, target: &Target, value: &str) {
    on_nic(model, target, |nic| {
        if let Fact::Known(coalesce) = &mut nic.hardware.coalesce {
            coalesce.adaptive_rx = Some(value == "on");
        }
    });
}

pub(super) fn rx_usecs(model: &mut Model, target: &Target, value: &str) {
    on_nic(model, target, |nic| {
        if let Fact::Known(coalesce) = &mut nic.hardware.coalesce {
            coalesce.rx_usecs = value.parse().ok();
        }
    });
}

pub(super) fn napi_defer_hard_irqs(model: &mut Model, target: &Target, value: &str) {
    on_nic(model, target, |nic| nic.napi.defer_hard_irqs = Fact::Known(value.parse().unwrap_or_default()));
}

pub(super) fn gro_flush_timeout(model: &mut Model, target: &Target, value: &str) {
    on_nic(model, target, |nic| {
        nic.napi.gro_flush_timeout_ns = Fact::Known(value.parse().unwrap_or_default());
    });
}

pub(super) fn irq_affinity(model: &mut Model, target: &Target, value: &str) {
    let (Ok(mask), Some(nic)) = (value.parse(), target.nic().and_then(|name| model.nic(name))) else {
        return;
    };
    let moved: Vec<IrqId> = interrupts(nic, target).iter().map(|irq| irq.number).collect();
    let online = model.online();
    // One interrupt may serve several interfaces.
    model.nics.iter_mut().for_each(|nic| send(nic, &moved, &mask, &online));
}

pub(super) fn xps_cpus(model: &mut Model, target: &Target, value: &str) {
    let (Target::Queue { queue, .. }, Some(mask)) = (target, set_of(value)) else { return };
    on_nic(model, target, |nic| {
        if let Some(tx) = nic.tx.iter_mut().find(|tx| tx.index == queue.index) {
            tx.xps_cpus = Fact::Known(mask);
        }
    });
}

pub(super) fn rps(model: &mut Model, target: &Target, value: &str) {
    let Some(mask) = set_of(value) else { return };
    let mask = mask.intersection(&model.online().difference(&model.isolated()));
    on_rx_queue(model, target, |queue| queue.rps_cpus = Fact::Known(mask));
}

pub(super) fn rfs(model: &mut Model, target: &Target, value: &str) {
    on_rx_queue(model, target, |queue| queue.rps_flow_cnt = flows(value));
}

pub(super) fn rfs_entries(model: &mut Model, target: &Target, value: &str) {
    if *target == Target::Host {
        model.rps_sock_flow_entries = flows(value);
    }
}

pub(super) fn clocksource(model: &mut Model, _: &Target, value: &str) {
    if let Fact::Known(clock) = &mut model.settings.clocksource {
        value.clone_into(&mut clock.current);
    }
}

fn on_nic(model: &mut Model, target: &Target, change: impl FnOnce(&mut Nic)) {
    if let Some(nic) = model.nics.iter_mut().find(|nic| Some(&nic.name) == target.nic()) {
        change(nic);
    }
}

fn on_rx_queue(model: &mut Model, target: &Target, change: impl FnOnce(&mut RxQueue)) {
    let Target::Queue { queue, .. } = target else { return };
    on_nic(model, target, |nic| {
        if let Some(rx) = nic.rx.iter_mut().find(|rx| rx.index == queue.index) {
            change(rx);
        }
        nic.apply_steering();
    });
}

/// The kernel rounds sizes of flow tables up to a power of two.
fn flows(value: &str) -> Fact<u32> {
    let number: u32 = value.parse().unwrap_or_default();
    Fact::Known(if number == 0 { 0 } else { number.next_power_of_two() })
}

/// irqbalance receives every number of the interface.
fn ban(model: &mut Model, name: &NicName) {
    let Some(own) = model.nic(name).map(all_irqs) else { return };
    if let Fact::Known(Some(irqbalance)) = &mut model.irqbalance
        && let Fact::Known(banned) = &mut irqbalance.banned_irqs
    {
        banned.extend(own);
        banned.sort_unstable();
        banned.dedup();
    }
}

fn is_banned(model: &Model, name: &NicName) -> bool {
    let Fact::Known(Some(irqbalance)) = &model.irqbalance else { return false };
    let Fact::Known(banned) = &irqbalance.banned_irqs else { return false };
    let own = model.nic(name).map(all_irqs).unwrap_or_default();
    !own.is_empty() && own.iter().all(|irq| banned.contains(irq))
}

/// The numbers of all interrupts of an interface, each once.
pub fn all_irqs(nic: &Nic) -> Vec<IrqId> {
    let irqs = nic.rx.iter().flat_map(|queue| &queue.irqs).chain(&nic.other_irqs);
    let mut numbers: Vec<IrqId> = irqs.map(|irq| irq.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// An interrupt that may stay on its CPU does (apic_set_affinity); others go to the first CPU.
fn send(nic: &mut Nic, moved: &[IrqId], mask: &CpuMask, online: &CpuMask) {
    let may = mask.intersection(online);
    let first: CpuMask = may.first().into_iter().collect();
    let irqs = nic.rx.iter_mut().flat_map(|queue| &mut queue.irqs).chain(&mut nic.other_irqs);
    for irq in irqs.filter(|irq| moved.contains(&irq.number)) {
        irq.affinity = Fact::Known(mask.clone());
        let stays =
            irq.effective.known().is_some_and(|cpus| cpus.len() == 1 && cpus.difference(&may).is_empty());
        if !stays {
            irq.effective = Fact::Known(first.clone());
        }
    }
}

/// New queues have no mask, no table, and an interrupt that has not landed yet if the others have one. An even
/// RSS table is rebuilt for them.
fn resize(nic: &mut Nic, value: &str, first_irq: u32) {
    let words: Vec<&str> = value.split_whitespace().collect();
    let count = |kind: &str| {
        let word = words.iter().position(|word| *word == kind).and_then(|at| words.get(at + 1));
        word.and_then(|count| count.parse::<u32>().ok()).unwrap_or_default()
    };
    let was_even = is_even(nic);
    // Hyper-V has channels instead, and those of some drivers are not known: nor are those of new queues.
    let has_irqs = nic.rx.iter().any(|queue| !queue.irqs.is_empty());
    let (receive, transmit) = (count("combined") + count("rx"), count("combined") + count("tx"));
    set_queues(nic, receive, transmit, |index| RxQueue {
        index,
        rps_cpus: Fact::Known(CpuMask::new()),
        rps_flow_cnt: Fact::Known(0),
        irqs: has_irqs
            .then(|| Irq { number: IrqId(first_irq + index % OF_ONE), ..Irq::default() })
            .into_iter()
            .collect(),
        ..RxQueue::default()
    });
    if let Fact::Known(Channels { rx, tx, combined, .. }) = &mut nic.hardware.channels {
        for (kind, count) in [(rx, count("rx")), (tx, count("tx")), (combined, count("combined"))] {
            if let Some(kind) = kind {
                kind.now = count;
            }
        }
    }
    if was_even {
        spread_table(nic);
    }
}

/// Removes queues of an interface or adds new ones, until it has `receive` and `transmit` of them.
pub fn set_queues(nic: &mut Nic, receive: u32, transmit: u32, new: impl Fn(u32) -> RxQueue) {
    nic.rx.retain(|queue| queue.index < receive);
    let first = u32::try_from(nic.rx.len()).unwrap_or(u32::MAX);
    nic.rx.extend((first..receive).map(new));
    nic.tx.retain(|queue| queue.index < transmit);
    let first = u32::try_from(nic.tx.len()).unwrap_or(u32::MAX);
    nic.tx.extend((first..transmit).map(|index| TxQueue {
        index,
        xps_cpus: Fact::NotAsked,
        xps_by_rxq: Fact::NotAsked,
    }));
    nic.apply_steering();
}

/// True if each receive queue has as many entries of the default RSS table as any other, or one more. For a
/// device whose table can name only the first queues, only these count.
pub fn is_even(nic: &Nic) -> bool {
    let named = rss_reach(nic).unwrap_or(usize::MAX).min(nic.rx.len());
    [nic.rx.len(), named].into_iter().any(|first| is_even_over(nic, &nic.rx[..first]))
}

fn is_even_over(nic: &Nic, queues: &[RxQueue]) -> bool {
    let Fact::Known(rss) = &nic.hardware.rss else { return false };
    let weights = rss.weights();
    let weight = |queue: &RxQueue| weights.get(&queue.index).copied().unwrap_or_default();
    let (fewest, most) = (queues.iter().map(weight).min(), queues.iter().map(weight).max());
    queues.iter().map(weight).sum::<usize>() == rss.table.len()
        && fewest.zip(most).is_some_and(|(fewest, most)| fewest + 1 >= most)
}

fn spread_table(nic: &mut Nic) {
    let queues: Vec<u32> = nic.rx.iter().map(|queue| queue.index).collect();
    if let Fact::Known(rss) = &mut nic.hardware.rss {
        let turns = queues.iter().copied().cycle();
        rss.table.iter_mut().zip(turns).for_each(|(entry, queue)| *entry = queue);
    }
}

#[cfg(test)]
mod tests {
    use rxlab_base::units::Fact;
    use rxlab_path::sketch::{Sketch, cpus};

    /// It was taken for an interrupt of CPU 1, and a mask was made for the wrong CPU.
    #[test]
    fn an_interrupt_that_may_stay_does() {
        let lands = |mask: &str| {
            let (mut model, _) = Sketch::new(4).device("eth0", &[2]).build();
            let set = format!("irq_affinity eth0/rx-0 = {mask}").parse().expect("a setting");
            super::simulate(&mut model, &set);
            let irq = &model.nics[0].rx[0].irqs[0];
            assert_eq!(irq.affinity, Fact::Known(cpus(mask)));
            irq.effective.clone()
        };
        assert_eq!(lands("1-2"), Fact::Known(cpus("2")));
        assert_eq!(lands("1,3"), Fact::Known(cpus("1")));
    }
}
