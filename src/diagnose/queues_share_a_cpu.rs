//! Interrupts of several busy queues land on one CPU while CPUs with room have none.

use super::evidence::busy;
use super::figures::{Evidence, Subject, percent, plural};
use super::places::{Loaded, loaded, node, of_node};
use super::{Finding, Rule, Severity};
use crate::model::{Model, Rates};
use crate::units::{CpuId, CpuMask};

/// Receive time of the shared CPU from which its queues compete. Field case B put eight queues on two CPUs
/// that were 0 to 3 % busy, where it could not matter.
const CROWDED: f64 = 0.5;

/// Part of the CPU's packets that each queue must bring: moving a queue with little traffic gains nothing.
const PART: f64 = 0.1;

/// Busy fraction up to which a CPU has room for a queue.
const ROOM: f64 = 0.5;

pub(super) const RULE: Rule = Rule {
    id: "queues-share-a-cpu",
    asks: "Do interrupts of several busy queues land on one CPU while others have room?",
    fires: || {
        format!(
            "at least two queues that each bring {} of a CPU's packets land on it, it spends {} of its time \
             in interrupts and softirq, and a CPU of its node handles no queue's interrupt and is at most {} \
             busy",
            percent(PART),
            percent(CROWDED),
            percent(ROOM)
        )
    },
    silent: "there are more queues than CPUs, the CPU has time to spare, all but one of its queues bring \
             hardly any packets, or the CPUs without a queue are busy with processes that are kept apart \
             from interrupts",
    evidence: "the queues and their traffic, the CPU's time in interrupts and softirq, the CPUs with room",
    cause: "Interrupts were placed by hand, by a driver that starts at the same CPU for each device, or were \
            not moved when queues were added.",
    remedy: "Give each queue's interrupt a CPU of its own.",
    source: "Documentation/networking/scaling.rst (RSS IRQ Configuration); \
             Documentation/core-api/irq/irq-affinity.rst",
    check,
};

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    let queues = loaded(model, rates);
    let taken: CpuMask = queues.iter().map(|queue| queue.cpu).collect();
    let free = model.usable().difference(&taken);
    let has_room = |cpu: &CpuId| rates.cpu(*cpu).is_some_and(|cpu| busy(cpu) <= ROOM);
    let free: CpuMask = free.iter().filter(has_room).collect();
    // One finding: the CPU with most to lose. The next run finds the next one.
    let crowds = taken.iter().filter_map(|cpu| crowd(&queues, cpu));
    let crowds = crowds.filter_map(|crowd| {
        let near =
            node(model, crowd[0].cpu).map_or(free.clone(), |node| of_node(model, node).intersection(&free));
        (!near.is_empty()).then_some((crowd, near))
    });
    let worst = crowds.max_by(|(a, _), (b, _)| a[0].load.total_cmp(&b[0].load));
    worst.map(|(crowd, near)| finding(rates, &crowd, &near)).into_iter().collect()
}

/// The queues that share `cpu`, most packets first, if there are several and they keep it busy.
fn crowd<'a>(queues: &'a [Loaded<'a>], cpu: CpuId) -> Option<Vec<&'a Loaded<'a>>> {
    let here = || queues.iter().filter(|queue| queue.cpu == cpu && queue.load >= CROWDED);
    let all: f64 = here().map(|queue| queue.packets).sum();
    let mut crowd: Vec<&Loaded<'_>> = here().filter(|queue| queue.packets >= all * PART).collect();
    crowd.sort_by(|a, b| b.packets.total_cmp(&a.packets));
    (crowd.len() > 1).then_some(crowd)
}

fn finding(rates: &Rates, crowd: &[&Loaded<'_>], near: &CpuMask) -> Finding {
    const SHOWN: usize = 4;
    let (cpu, load) = (crowd[0].cpu, crowd[0].load);
    let shared = |seen: &mut Evidence| {
        let queues = crowd.iter().take(SHOWN).map(|queue| {
            let name = queue.name();
            format!("{name} {} packets/s", seen.packets(&name, queue.packets))
        });
        let mut queues: Vec<String> = queues.collect();
        if crowd.len() > SHOWN {
            queues.push(format!("{} more", seen.count("more", crowd.len() - SHOWN)));
        }
        format!("interrupts on CPU {cpu}: {}", queues.join(", "))
    };
    Finding {
        id: RULE.id.to_owned(),
        severity: Severity::Warning,
        nic: Some(crowd[0].nic.name.clone()),
        cpu: Some(cpu),
        title: format!("CPU {cpu} handles the interrupts of {}", plural(crowd.len(), "busy queue")),
        evidence: vec![
            Evidence::of(Subject::Cpu(cpu), shared),
            Evidence::of(Subject::Cpu(cpu), |seen| {
                let load = seen.percent("receive_work", load);
                format!("CPU {cpu}: {load} of its time in interrupts and softirq; {}", seen.tier(rates))
            }),
            Evidence::fact(
                Subject::Cpus(near.clone()),
                format!("CPUs of its node with room and no queue: {near}"),
            ),
        ],
        why: "queues spread packets only if their interrupts land on different CPUs".to_owned(),
        remedy: format!("move the interrupts of all but one of these queues to CPUs {near}"),
        plans: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::Sketch;

    fn host(softirq: f64) -> Sketch {
        let sketch = Sketch::new(4).device("eth0", &[0, 0, 1]).traffic("eth0", 9e4);
        sketch.receives(0, softirq, 6e4).receives(1, softirq / 2.0, 3e4)
    }

    #[test]
    fn two_queues_on_one_cpu() {
        let found = host(0.7).findings(&RULE);
        assert_eq!(found[0].title, "CPU 0 handles the interrupts of 2 busy queues");
        assert!(
            found[0].evidence[0].text.ends_with("eth0/rx-0 30,000 packets/s, eth0/rx-1 30,000 packets/s")
        );
        assert_eq!(found[0].remedy, "move the interrupts of all but one of these queues to CPUs 2-3");
    }

    /// Drivers that start at CPU 0 for each device.
    #[test]
    fn queues_of_two_devices_on_one_cpu() {
        let sketch = Sketch::new(4).device("eth0", &[0]).device("eth1", &[0]);
        let found = sketch.traffic("eth0", 2e4).traffic("eth1", 5e4).receives(0, 0.8, 7e4).findings(&RULE);
        assert_eq!(found[0].nic.as_ref().map(ToString::to_string).as_deref(), Some("eth1"));
    }

    #[test]
    fn near_misses() {
        assert_eq!(host(0.2).findings(&RULE), [], "time to spare");
        assert_eq!(host(0.7).all_work("2-3", 0.9).findings(&RULE), [], "the others are busy");
        assert_eq!(
            host(0.7).queue_traffic("eth0", &[6e4, 1.5e3, 3e4]).findings(&RULE),
            [],
            "little on the second one"
        );
        let more = Sketch::new(2).device("eth0", &[0, 1, 0, 1]).traffic("eth0", 9e4);
        assert_eq!(more.all_receive("0-1", 0.7, 4e4).findings(&RULE), [], "more queues than CPUs");
        let nodes = Sketch::new(4).nodes(2).device("eth0", &[0, 1, 0, 1]).traffic("eth0", 9e4);
        assert_eq!(nodes.all_receive("0-1", 0.7, 4e4).findings(&RULE), [], "the others are far away");
    }
}
