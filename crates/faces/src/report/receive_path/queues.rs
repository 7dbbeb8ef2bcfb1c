//! Queues of an interface, and runs of similar queues that share a line.

use super::cells::{Footnotes, entries, mask, not_applicable};
use crate::report::text::{CAUTION, Cell};
use rxlab_base::units::{CpuId, CpuMask, QueueId};
use rxlab_path::model::{Fact, Irq, Nic, RxQueue, TxQueue};

/// On an interface with more queues than this, runs of similar queues share a line.
const MANY: usize = 16;

/// A queue number of an interface: a receive queue, a transmit queue, or both.
#[derive(Clone, Copy)]
pub(super) struct Queue<'a> {
    pub(super) index: u32,
    pub(super) rx: Option<&'a RxQueue>,
    pub(super) tx: Option<&'a TxQueue>,
}

impl<'a> Queue<'a> {
    /// Name of the receive queue, or of the transmit queue if there is no receive queue.
    pub(super) fn id(&self) -> QueueId {
        if self.rx.is_some() { QueueId::rx(self.index) } else { QueueId::tx(self.index) }
    }

    pub(super) fn irqs(&self) -> &'a [Irq] {
        self.rx.map_or(&[], |queue| &queue.irqs)
    }

    /// True if two sources contradict each other about it.
    pub(super) fn contradicted(&self, nic: &Nic) -> bool {
        let own = [QueueId::rx(self.index), QueueId::tx(self.index)];
        nic.contradictions.iter().any(|contradiction| own.contains(&contradiction.queue))
    }

    /// `name` as a cell, marked if two sources contradict each other about the queue.
    pub(super) fn title(&self, nic: &Nic, name: String) -> Cell {
        if self.contradicted(nic) { Cell::styled(CAUTION, format!("{name} !")) } else { name.into() }
    }

    /// RPS, RFS and XPS as cells; `xps` may be that of several queues.
    pub(super) fn steering(&self, nic: &Nic, xps: &Fact<CpuMask>, notes: &mut Footnotes) -> [Cell; 3] {
        let at = |what: &str| format!("{}/{} {what}", nic.name, self.id());
        let rps = self.rx.map_or_else(not_applicable, |rx| notes.cell(&rx.rps_cpus, &at("rps_cpus"), mask));
        let rfs = self
            .rx
            .map_or_else(not_applicable, |rx| notes.cell(&rx.rps_flow_cnt, &at("rps_flow_cnt"), entries));
        [rps, rfs, notes.cell(xps, &format!("{}/tx-{} xps_cpus", nic.name, self.index), mask)]
    }

    /// True if no interrupt, channel or NAPI is known, and nothing is set.
    fn is_idle(&self) -> bool {
        let off = |cpus: &Fact<CpuMask>| match cpus {
            Fact::Known(cpus) => cpus.is_empty(),
            absent => *absent == Fact::Unsupported,
        };
        self.rx.is_none_or(|rx| {
            rx.irqs.is_empty()
                && rx.napi.is_none()
                && rx.channel_cpu.is_none()
                && off(&rx.rps_cpus)
                && matches!(rx.rps_flow_cnt, Fact::Known(0) | Fact::Unsupported)
        }) && self.tx.is_none_or(|tx| off(&tx.xps_cpus))
    }

    /// XPS CPUs of the transmit queue.
    pub(super) fn xps(&self) -> Fact<CpuMask> {
        self.tx.map_or(Fact::Unsupported, |queue| queue.xps_cpus.clone())
    }

    /// The CPU that the hypervisor signals for its VMBus channel, which has no interrupt.
    pub(super) fn channel_cpu(&self) -> Option<CpuId> {
        self.rx?.channel_cpu
    }

    /// CPUs of its only interrupt; `None` if it has several or the CPUs are unknown.
    fn place(&self) -> Option<&'a CpuMask> {
        let [irq] = self.irqs() else { return None };
        irq.effective.known()
    }
}

/// All queues of an interface, by number.
pub(super) fn queues(nic: &Nic) -> Vec<Queue<'_>> {
    let numbers = nic.rx.iter().map(|queue| queue.index).chain(nic.tx.iter().map(|queue| queue.index));
    let numbers: std::collections::BTreeSet<u32> = numbers.collect();
    let queue = |index| Queue {
        index,
        rx: nic.rx.iter().find(|queue| queue.index == index),
        tx: nic.tx.iter().find(|queue| queue.index == index),
    };
    numbers.into_iter().map(queue).collect()
}

/// Neighbouring queues with the same steering, all on different CPUs or all on the same one. More than one queue only
/// on an interface with many. Queues with absent facts or contradictions stay separate.
pub(super) struct Run<'a>(Vec<Queue<'a>>);

impl<'a> Run<'a> {
    /// The first queue, equal to the others except for its CPUs.
    pub(super) fn first(&self) -> Queue<'a> {
        self.0[0]
    }

    pub(super) fn is_folded(&self) -> bool {
        self.0.len() > 1
    }

    /// Name of one queue or of a run: `rx-0`, `rx-0..15`.
    pub(super) fn name(&self) -> String {
        match self.0.as_slice() {
            [one] => one.id().to_string(),
            run => format!("{}..{}", run[0].id(), run[run.len() - 1].index),
        }
    }

    /// The interrupts of all queues: `24`, `24..39`, or their number if they are not ascending.
    pub(super) fn irqs(&self) -> String {
        let numbers: Vec<u32> = self.0.iter().flat_map(Queue::irqs).map(|irq| irq.number.0).collect();
        match numbers.as_slice() {
            [] => "-".to_owned(),
            [one] => one.to_string(),
            all if all.is_sorted_by(|a, b| a < b) => format!("{}..{}", all[0], all[all.len() - 1]),
            all if all.iter().all(|irq| *irq == all[0]) => all[0].to_string(),
            all => format!("{} IRQs", all.len()),
        }
    }

    /// The CPUs of all interrupts and channels.
    pub(super) fn places(&self) -> CpuMask {
        let signalled = self.0.iter().filter_map(Queue::channel_cpu).collect();
        self.0.iter().filter_map(Queue::place).fold(signalled, |all: CpuMask, one| all.union(one))
    }

    /// The XPS CPUs of all transmit queues.
    pub(super) fn xps(&self) -> Fact<CpuMask> {
        let masks = self.0.iter().filter_map(|queue| queue.tx?.xps_cpus.known());
        self.first().xps().map(|first| masks.fold(first, |all, one| all.union(one)))
    }

    fn takes(&self, nic: &Nic, next: &Queue<'_>) -> bool {
        let first = self.first();
        let last = self.0[self.0.len() - 1];
        let alike = match (first.rx, next.rx) {
            (Some(a), Some(b)) => {
                same_known(&a.rps_cpus, &b.rps_cpus)
                    && same_known(&a.rps_flow_cnt, &b.rps_flow_cnt)
                    && a.irqs.len() == b.irqs.len()
                    && a.irqs.iter().zip(&b.irqs).all(|(a, b)| a.source == b.source)
            }
            (None, None) => true,
            _ => false,
        };
        let sends_alike = match (first.tx, next.tx) {
            (Some(a), Some(b)) => match (&a.xps_cpus, &b.xps_cpus) {
                (Fact::Known(a), Fact::Known(b)) => a.is_empty() == b.is_empty(),
                (Fact::Unsupported, Fact::Unsupported) => true,
                _ => false,
            },
            (None, None) => true,
            _ => false,
        };
        let odd = first.contradicted(nic) || next.contradicted(nic);
        alike && sends_alike && !odd && next.index == last.index + 1 && self.has_room_at(next)
    }

    /// True if the run remains all on one CPU, or all on different CPUs, with `next`.
    fn has_room_at(&self, next: &Queue<'_>) -> bool {
        if self.first().irqs().is_empty() {
            return true;
        }
        let (Some(first), Some(place)) = (self.first().place(), next.place()) else { return false };
        let together = self.0.len() == 1 || self.places() == *first;
        let apart = self.0.len() == 1 || !together;
        (together && place == first) || (apart && self.places().intersection(place).is_empty())
    }
}

/// The runs of an interface; if there are few queues, one each except for idle ones.
pub(super) fn runs(nic: &Nic) -> Vec<Run<'_>> {
    let queues = queues(nic);
    let fold = queues.len() > MANY;
    folded(nic, queues, |first, next| fold || (first.is_idle() && next.is_idle()))
}

/// One run for each queue, and for neighbours without interrupt and settings.
pub(super) fn idle_runs(nic: &Nic) -> Vec<Run<'_>> {
    folded(nic, queues(nic), |first, next| first.is_idle() && next.is_idle())
}

fn folded<'a>(
    nic: &Nic,
    queues: Vec<Queue<'a>>,
    may: impl Fn(&Queue<'_>, &Queue<'_>) -> bool,
) -> Vec<Run<'a>> {
    let mut runs: Vec<Run<'_>> = Vec::new();
    for queue in queues {
        match runs.last_mut() {
            Some(run) if may(&run.first(), &queue) && run.takes(nic, &queue) => run.0.push(queue),
            _ => runs.push(Run(vec![queue])),
        }
    }
    runs
}

fn same_known<T: PartialEq>(a: &Fact<T>, b: &Fact<T>) -> bool {
    a == b && !matches!(a, Fact::Denied(_) | Fact::Broken(_))
}

#[cfg(test)]
mod tests {
    use super::runs;
    use crate::report::sample_model::{cpus, device};
    use rxlab_base::units::{Fact, QueueId};
    use rxlab_path::model::{Contradiction, Nic};

    fn names(nic: &Nic) -> Vec<String> {
        runs(nic).iter().map(|run| format!("{} {}", run.name(), run.places())).collect()
    }

    #[test]
    fn few_queues_stand_alone() {
        assert_eq!(names(&device("eth0", "ice", 16, 24, 0)).len(), 16);
        assert_eq!(names(&device("eth0", "ice", 17, 24, 0)), ["rx-0..16 0-16"]);
    }

    #[test]
    fn all_on_one_cpu_is_one_line_and_two_on_one_cpu_are_not() {
        let mut nic = device("eth0", "ice", 20, 24, 0);
        nic.rx[7].irqs[0].effective = Fact::Known(cpus("3"));
        assert_eq!(names(&nic), ["rx-0..6 0-6", "rx-7..19 3,8-19"]);
        nic.rx.iter_mut().for_each(|queue| queue.irqs[0].effective = Fact::Known(cpus("5")));
        assert_eq!(names(&nic), ["rx-0..19 5"]);
    }

    #[test]
    fn odd_queues_stand_alone() {
        let mut nic = device("eth0", "ice", 20, 24, 0);
        nic.rx[5].rps_cpus = Fact::Broken("?".into());
        nic.rx[9].rps_flow_cnt = Fact::Known(64);
        nic.tx[12].xps_cpus = Fact::Known(cpus(""));
        nic.rx[15].irqs.clear();
        nic.contradictions.push(Contradiction {
            queue: QueueId::rx(18),
            what: "IRQ".into(),
            believed: "a".into(),
            other: "b".into(),
        });
        let text = names(&nic).join(", ");
        assert_eq!(
            text,
            "rx-0..4 0-4, rx-5 5, rx-6..8 6-8, rx-9 9, rx-10..11 10-11, rx-12 12, rx-13..14 13-14, rx-15 , \
             rx-16..17 16-17, rx-18 18, rx-19 19"
        );
    }
}
