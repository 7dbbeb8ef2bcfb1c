//! The kernel's own interrupt counts as the reference for the receive path that rxlab shows.

use std::collections::{BTreeMap, BTreeSet};

use rxlab_path::model::{Irq, Model, RxQueue};

use super::guest::{self, Answer};

/// Pings sent to a queue, one by one; most cause an interrupt each, some may share one.
const PINGS: u64 = 200;

/// Too many interrupts to be a coincidence.
const MANY: u64 = 50;

/// Few enough for packets of the neighbours.
const FEW: u64 = 20;

/// Counts of each numbered interrupt, by CPU. Parsed here in the simplest way, not by the parser of the program under
/// test.
pub(super) struct Interrupts(BTreeMap<u32, Vec<u64>>);

impl Interrupts {
    pub(super) fn parse(text: &str) -> Self {
        let cpus = text.lines().next().map_or(0, |header| header.split_whitespace().count());
        let numbered = |line: &str| {
            let (number, counts) = line.split_once(':')?;
            let counts = counts.split_whitespace().take(cpus).map(|count| count.parse().expect("a count"));
            Some((number.trim().parse().ok()?, counts.collect()))
        };
        Self(text.lines().skip(1).filter_map(numbered).collect())
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        let difference = |(number, after): (&u32, &Vec<u64>)| {
            let counts = after.iter().zip(&before.0[number]).map(|(after, before)| after - before);
            (*number, counts.collect())
        };
        Self(self.0.iter().map(difference).collect())
    }

    /// Number of times an interrupt fired.
    pub(super) fn all(&self, irq: &Irq) -> u64 {
        self.0[&irq.number.0].iter().sum()
    }

    /// Number of times an interrupt fired on one CPU.
    pub(super) fn on(&self, irq: &Irq, cpu: usize) -> u64 {
        self.0[&irq.number.0][cpu]
    }
}

/// A NIC's receive queue, and a CPU whose packets leave through the transmit queue of the same number, so the replies
/// arrive on that receive queue.
#[derive(Clone, Copy)]
pub(super) struct Path {
    pub(super) nic: u32,
    pub(super) queue: usize,
    pub(super) cpu: usize,
}

impl Path {
    /// Shell code of a job that pings over the path, counting before and after. The first pings are not counted: a
    /// changed affinity takes effect only with the next interrupt.
    pub(super) fn job(self) -> String {
        let Path { nic, queue, cpu } = self;
        format!(
            "pings {nic} {cpu} 20\ncounts 'before {nic}/{queue}'\n\
             pings {nic} {cpu} {PINGS}\ncounts 'after {nic}/{queue}'\n"
        )
    }
}

/// The only interrupt of a receive queue.
pub(super) fn irq(queue: &RxQueue) -> &Irq {
    let [irq] = queue.irqs.as_slice() else { panic!("rx-{} has {:?}", queue.index, queue.irqs) };
    irq
}

/// Packets sent to one queue are counted by the interrupt that is shown for it, on the CPU that is shown for it, and
/// by no other receive interrupt of the machine.
pub(super) fn are_where_shown(answer: &Answer, model: &Model, paths: &[Path]) {
    let queues = |name: &str| model.nic(&name.parse().expect("a name")).expect("shown").rx.iter();
    let nics: BTreeSet<String> = paths.iter().map(|path| format!("eth{}", path.nic)).collect();
    let all: Vec<&Irq> = nics.iter().flat_map(|nic| queues(nic).map(irq)).collect();
    let numbers: BTreeSet<_> = all.iter().map(|irq| irq.number).collect();
    assert_eq!((numbers.len(), all.len()), (paths.len(), paths.len()), "each queue has its own: {all:?}");
    for Path { nic, queue, cpu } in paths {
        let counted = answer.interrupts(&format!("before {nic}/{queue}"), &format!("after {nic}/{queue}"));
        let own = irq(queues(&format!("eth{nic}")).nth(*queue).expect("shown"));
        let place = format!("eth{nic}/rx-{queue}, pinged from CPU {cpu}: {own:?}");
        let effective = own.effective.known().expect("readable");
        let [at] = effective.iter().collect::<Vec<_>>()[..] else { panic!("{place}: on several CPUs") };
        let (there, everywhere) = (counted.on(own, at.0 as usize), counted.all(own));
        assert!(there >= MANY && there == everywhere, "{place}: {there} of {everywhere}");
        for other in all.iter().filter(|other| other.number != own.number) {
            assert!(counted.all(other) <= FEW, "{place}: {} of {other:?}", counted.all(other));
        }
    }
}

#[test]
fn each_of_eight_queues_is_where_it_is_shown() {
    let paths: Vec<Path> = (0..8).map(|queue| Path { nic: 0, queue, cpu: queue }).collect();
    let job: String = paths.iter().map(|path| path.job()).collect();
    let job = job + "ran show rxlab show --nic eth0 --json\n";
    let Some(answer) = guest::run("8cpu-8queue", &job, None) else { return };
    let model = answer.model("show");
    let nic = &model.nics[0];
    assert_eq!((nic.driver.as_deref(), nic.node), (Some("virtio_net"), None), "on the root bus");
    assert_eq!((model.cpus.len(), nic.rx.len()), (8, 8));
    for (queue, cpu) in nic.tx.iter().zip(0..) {
        let sends = queue.xps_cpus.known().expect("readable").to_string();
        assert_eq!(sends, format!("{cpu}"), "or the pings were not sent where this test thinks");
    }
    are_where_shown(&answer, &model, &paths);
}
