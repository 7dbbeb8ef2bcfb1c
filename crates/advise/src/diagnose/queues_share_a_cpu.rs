//! Interrupts of several busy queues land on one CPU while CPUs with room have none.

use std::collections::BTreeMap;

use super::figures::{Evidence, Subject};
use super::places::{Loaded, loaded, node, of_node};
use super::{Check, Finding, Rule, Severity};
use crate::family::PlanName;
use rxlab_base::number::{cpus_text, percent, plural};
use rxlab_base::units::{CpuId, CpuMask, NicName};
use rxlab_path::constraints::is_movable;
use rxlab_path::evidence::{busy, rarely_interrupts};
use rxlab_path::model::{Model, Rates};

/// Receive time of the shared CPU from which its queues compete. Field case B put eight queues on two CPUs
/// that were 0 to 3 % busy, where it could not matter.
const CROWDED: f64 = 0.5;

/// Part of the CPU's packets that each queue must bring: moving a queue with little traffic gains nothing.
const PART: f64 = 0.1;

/// Busy fraction up to which a CPU has room for a queue.
pub(super) const ROOM: f64 = 0.5;

/// Part of the crowded CPU's packets that the other CPU may have at most once it takes a queue: with more, the
/// crowd would only move.
const EVENER: f64 = 0.8;

pub(super) const RULE: Rule = Rule {
    id: "queues-share-a-cpu",
    asks: "Do interrupts of several busy queues land on one CPU while others have room?",
    fires: || {
        format!(
            "at least two queues land on a CPU that each bring it {} of the packets of the busiest one, it spends {} of its time \
             in interrupts and softirq, and a CPU of its node that is at most {} busy handles no busy queue's \
             interrupt, or would have at most {} of its packets with one of these queues",
            percent(PART),
            percent(CROWDED),
            percent(ROOM),
            percent(EVENER)
        )
    },
    silent: "no interrupt of these queues can be moved, every CPU of the node has its share of busy queues, \
             the CPU has time to spare, all but one of its queues bring hardly any packets or, if they are not counted, rarely \
             interrupt, or the other CPUs \
             are busy with processes that are kept apart from interrupts",
    evidence: "the queues and their traffic, the CPU's time in interrupts and softirq, the CPUs with room",
    cause: "Interrupts were placed by hand, by a driver that starts at the same CPU for each device, or were \
            not moved when queues were added.",
    remedy: "Give each queue's interrupt its own CPU.",
    source: "Documentation/networking/scaling.rst (RSS IRQ Configuration); \
             Documentation/core-api/irq/irq-affinity.rst",
    check: Check::Machine(check),
};

/// A CPU that is short of time, with the interrupts of several busy queues.
pub(crate) struct Crowd<'a> {
    pub(crate) cpu: CpuId,
    /// The queues, most packets first; those of one interrupt as one, with the packets of all.
    pub(crate) queues: Vec<Loaded<'a>>,
    /// Packets/s that interrupts bring to each CPU that takes any.
    on_cpus: BTreeMap<CpuId, f64>,
    /// Usable CPUs of its node with time for a queue.
    near: CpuMask,
}

impl Crowd<'_> {
    /// The CPUs of its node with room for a queue of so many packets/s: those that no busy queue's interrupt
    /// lands on, or if there are none, those that would have clearly fewer packets than this CPU has now.
    pub(crate) fn room_for(&self, packets: f64) -> CpuMask {
        let free: CpuMask = self.near.iter().filter(|cpu| !self.on_cpus.contains_key(cpu)).collect();
        if !free.is_empty() {
            return free;
        }
        let most = self.on_cpus[&self.cpu] * EVENER;
        self.near.iter().filter(|cpu| self.brought_to(*cpu) + packets <= most).collect()
    }

    /// Packets/s that interrupts bring to a CPU.
    pub(crate) fn brought_to(&self, cpu: CpuId) -> f64 {
        self.on_cpus.get(&cpu).copied().unwrap_or_default()
    }

    /// The CPUs with room for the smallest of the queues.
    fn room(&self) -> CpuMask {
        self.queues.last().map(|queue| self.room_for(queue.packets)).unwrap_or_default()
    }
}

/// The CPUs that several busy queues share, those with most receive time first.
pub(crate) fn crowds<'a>(model: &'a Model, rates: &Rates) -> Vec<Crowd<'a>> {
    let mut on_cpus: BTreeMap<CpuId, Vec<Loaded<'a>>> = BTreeMap::new();
    for queue in loaded(model, rates) {
        let here = on_cpus.entry(queue.cpu).or_default();
        let irq = |queue: &Loaded<'_>| queue.queue.irqs.first().map(|irq| irq.number);
        match here.iter_mut().find(|other| irq(other) == irq(&queue)) {
            Some(same) => same.packets += queue.packets,
            None => here.push(queue),
        }
    }
    let packets = |queues: &Vec<Loaded<'_>>| queues.iter().map(|queue| queue.packets).sum::<f64>();
    let brought: BTreeMap<CpuId, f64> = on_cpus.iter().map(|(cpu, queues)| (*cpu, packets(queues))).collect();
    let roomy: CpuMask =
        model.usable().iter().filter(|cpu| rates.cpu(*cpu).is_some_and(|cpu| busy(cpu) <= ROOM)).collect();
    let crowd = |(cpu, mut queues): (CpuId, Vec<Loaded<'a>>)| {
        let most = queues.iter().map(|queue| queue.packets).fold(0.0, f64::max);
        let is_busy = |queue: &Loaded<'_>| {
            queue.packets >= most * PART && !rarely_interrupts(queue.nic, queue.queue, rates)
        };
        queues.retain(|queue| queue.load >= CROWDED && is_busy(queue));
        queues.sort_by(|a, b| b.packets.total_cmp(&a.packets));
        let mut near =
            node(model, cpu).map_or(roomy.clone(), |node| of_node(model, node).intersection(&roomy));
        near.remove(cpu);
        (queues.len() > 1).then(|| Crowd { cpu, queues, on_cpus: brought.clone(), near })
    };
    let mut crowds: Vec<Crowd<'a>> = on_cpus.into_iter().filter_map(crowd).collect();
    crowds.sort_by(|a, b| b.queues[0].load.total_cmp(&a.queues[0].load));
    crowds
}

/// The crowds of which a queue can move to another CPU.
pub(super) fn movable<'a>(model: &'a Model, rates: &Rates) -> impl Iterator<Item = Crowd<'a>> {
    let crowds = crowds(model, rates).into_iter();
    crowds.filter(|crowd| !crowd.room().is_empty() && crowd.queues.iter().any(can_move))
}

fn can_move(queue: &Loaded<'_>) -> bool {
    queue.queue.irqs.iter().any(|irq| is_movable(queue.nic, irq))
}

/// An interface, and after it the others that have queues in its crowds which can move.
pub(crate) fn crowded_with(model: &Model, rates: &Rates, nic: &NicName) -> Vec<NicName> {
    let of = |crowd: &Crowd<'_>, name: &NicName| crowd.queues.iter().any(|queue| queue.nic.name == *name);
    let own: Vec<Crowd<'_>> = movable(model, rates).filter(|crowd| of(crowd, nic)).collect();
    let others = model.nics.iter().map(|other| &other.name).filter(|other| *other != nic);
    let others = others.filter(|other| {
        own.iter().flat_map(|crowd| &crowd.queues).any(|queue| queue.nic.name == **other && can_move(queue))
    });
    [nic].into_iter().chain(others).cloned().collect()
}

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    // One finding: about the CPU with most to lose, and those with as many queues.
    let crowds: Vec<Crowd<'_>> = movable(model, rates).collect();
    let Some(first) = crowds.first() else { return Vec::new() };
    let alike = crowds.iter().filter(|crowd| crowd.queues.len() == first.queues.len());
    vec![finding(rates, first, &alike.map(|crowd| crowd.cpu).collect())]
}

/// `alike`: the CPUs of crowds with as many queues, this one included.
fn finding(rates: &Rates, crowd: &Crowd<'_>, alike: &CpuMask) -> Finding {
    const SHOWN: usize = 4;
    let (cpu, load, room) = (crowd.cpu, crowd.queues[0].load, crowd.room());
    let moves = crowd.queues.iter().find(|queue| can_move(queue)).unwrap_or(&crowd.queues[0]);
    let (nic, count) = (&moves.nic.name, crowd.queues.len());
    let shared = |seen: &mut Evidence| {
        let queues = crowd.queues.iter().take(SHOWN).map(|queue| {
            let name = queue.name();
            if queue.is_counted(rates) {
                format!("{name} {} packets/s", seen.packets(&name, queue.packets))
            } else {
                format!("{name} (packets not counted by queue)")
            }
        });
        let mut queues: Vec<String> = queues.collect();
        if count > SHOWN {
            queues.push(format!("{} more", seen.count("more", count - SHOWN)));
        }
        format!("interrupts on CPU {cpu}: {}", queues.join(", "))
    };
    let most = room.iter().map(|cpu| crowd.brought_to(cpu)).fold(0.0, f64::max);
    let are_counted = crowd.queues.iter().all(|queue| queue.is_counted(rates));
    Finding {
        severity: Severity::Warning,
        nic: Some(nic.clone()),
        cpu: Some(cpu),
        title: format!(
            "{} {} the interrupts of {}",
            cpus_text(alike),
            if alike.len() == 1 { "handles" } else { "each handle" },
            plural(count, "busy queue")
        ),
        evidence: vec![
            Evidence::about(Subject::Cpu(cpu), shared),
            Evidence::about(Subject::Cpu(cpu), |seen| {
                let load = seen.percent("receive_work", load);
                format!("CPU {cpu}: {load} of its time in interrupts and softirq; {}", seen.tier(rates))
            }),
            Evidence::about(Subject::Cpus(room.clone()), |seen| {
                if most <= 0.0 {
                    format!("CPUs of its node with room and no busy queue: {room}")
                } else if are_counted {
                    format!(
                        "CPUs of its node with room, their interrupts bring at most {} packets/s: {room}",
                        seen.packets("packets_most", most)
                    )
                } else {
                    format!("CPUs of its node with room: {room}")
                }
            }),
        ],
        why: "queues spread packets only if their interrupts land on different CPUs".to_owned(),
        remedy: format!("move the interrupts of all but one of these queues to {}", cpus_text(&room)),
        plans: vec![PlanName::SeparateIrqs],
        ..RULE.finding()
    }
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use rxlab_base::units::CpuMask;
    use rxlab_path::model::Fact;

    fn host(softirq: f64) -> Sketch {
        let sketch = Sketch::new(4).device("eth0", &[0, 0, 1]).queue_traffic("eth0", &[3e4; 3]);
        sketch.receives(0, softirq, 6e4).receives(1, softirq / 2.0, 3e4)
    }

    /// Of four CPUs with two queues each, one was named.
    #[test]
    fn equal_cpus_are_named_together() {
        let queues = [0, 1, 2, 3, 0, 1, 2, 3];
        let sketch = Sketch::new(16).device("eth0", &queues).queue_traffic("eth0", &[1e5; 8]);
        let found = sketch.all_receive("0-3", 0.7, 2e5).finding(&RULE);
        assert_eq!(found.title, "CPUs 0-3 each handle the interrupts of 2 busy queues");
    }

    /// The remedy was to move them: their controller moves none.
    #[test]
    fn interrupts_that_cannot_be_moved() {
        let fixed = |queues: usize| {
            host(0.7).edit("eth0", |nic| {
                let irqs = nic.rx.iter_mut().take(queues).flat_map(|queue| &mut queue.irqs);
                irqs.for_each(|irq| irq.effective = Fact::Known(CpuMask::new()));
            })
        };
        fixed(2).silent(&RULE, "neither of CPU 0");
        assert_eq!(fixed(1).findings(&RULE).len(), 1, "one can");
    }

    #[test]
    fn two_queues_on_one_cpu() {
        let found = host(0.7).finding(&RULE);
        assert_eq!(found.title, "CPU 0 handles the interrupts of 2 busy queues");
        assert!(found.seen()[0].ends_with("eth0/rx-0 30,000 packets/s, eth0/rx-1 30,000 packets/s"));
        assert_eq!(found.remedy, "move the interrupts of all but one of these queues to CPUs 2-3");
        let uncounted = host(0.7).traffic("eth0", 9e4).finding(&RULE);
        let queues = "eth0/rx-0 (packets not counted by queue), eth0/rx-1 (packets not counted by queue)";
        assert_eq!(uncounted.seen()[0], format!("interrupts on CPU 0: {queues}"));
        assert_eq!(uncounted.evidence[0].figures, [], "a third of all is no count");
    }

    #[test]
    fn a_cpu_with_a_quiet_interrupt_has_room() {
        let host = |quiet: f64| {
            let sketch =
                Sketch::new(2).device("eth0", &[0, 0, 1]).queue_traffic("eth0", &[1.7e5, 1.7e5, quiet]);
            sketch.receives(0, 0.92, 3.4e5).receives(1, 0.3, quiet).findings(&RULE)
        };
        assert_eq!(
            host(5e3)[0].evidence[2].text,
            "CPUs of its node with room, their interrupts bring at most \
            5,000 packets/s: 1"
        );
        assert_eq!(host(1.3e5), [], "it would be as crowded");
    }

    /// One flow was called four busy queues, as a driver that counts none had one that interrupts.
    #[test]
    fn queues_that_are_not_counted_and_rarely_interrupt_are_not_busy() {
        let host = |rest: f64| {
            let host = Sketch::new(8).device("tg0", &[0; 4]).traffic("tg0", 1e5).receives(0, 0.97, 1e5);
            let host = host.measured(|rates| {
                let queues = rates
                    .irqs
                    .iter_mut()
                    .filter(|irq| irq.action.starts_with("tg0"))
                    .zip([1.4e4, rest, rest, rest]);
                queues.for_each(|(irq, rate)| irq.per_cpu.values_mut().for_each(|value| *value = rate));
            });
            host.findings(&RULE).len()
        };
        assert_eq!([host(120.0), host(5e3)], [0, 1]);
    }

    /// Two queues of one interrupt cannot be separated.
    #[test]
    fn one_interrupt_of_two_queues_is_no_crowd() {
        assert_eq!(host(0.7).edit("eth0", |nic| nic.rx[1].irqs = nic.rx[0].irqs.clone()).findings(&RULE), []);
    }

    /// Drivers that start at CPU 0 for each device.
    #[test]
    fn queues_of_two_devices_on_one_cpu() {
        let sketch = Sketch::new(4).device("eth0", &[0]).device("eth1", &[0]);
        let found = sketch.traffic("eth0", 2e4).traffic("eth1", 5e4).receives(0, 0.8, 7e4).finding(&RULE);
        assert_eq!(found.nic.as_ref().map(ToString::to_string).as_deref(), Some("eth1"));
    }

    #[test]
    fn near_misses() {
        host(0.2).silent(&RULE, "time to spare");
        host(0.7).all_work("2-3", 0.9).silent(&RULE, "the others are busy");
        host(0.7).queue_traffic("eth0", &[6e4, 1.5e3, 3e4]).silent(&RULE, "little on the second one");
        let more = Sketch::new(2).device("eth0", &[0, 1, 0, 1]).traffic("eth0", 9e4);
        more.all_receive("0-1", 0.7, 4e4).silent(&RULE, "more queues than CPUs");
        let nodes = Sketch::new(4).nodes(2).device("eth0", &[0, 1, 0, 1]).traffic("eth0", 9e4);
        nodes.all_receive("0-1", 0.7, 4e4).silent(&RULE, "the others are far away");
    }
}
