//! Receive work that moves between CPUs: each queue's part of a CPU's receive time, and its destination.
//!
//! The model: the CPU that takes a queue's interrupt does all of the work of its packets, or with RPS a fixed
//! part of it (interrupt, polling, hashing, the inter-processor interrupt), and the remaining work costs more
//! where it is done. Queues share the receive time of a CPU by their packets, so that no CPU can give away
//! more than it has. All receive time of a CPU is attributed to the queues that are known to bring it, and
//! traffic is assumed to stay the same; a CPU that is full now will do more work, not the same work in less
//! time.

use std::collections::BTreeMap;
use std::rc::Rc;

use rxlab_base::units::CpuId;
use rxlab_path::model::NicKind;

/// Cost of the hand-over, as fractions of the receive time before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cost {
    /// On the CPU that received; above 1 if the interrupts take more than what moves.
    pub(super) kept: f64,
    /// On the CPUs that the packets go to, together.
    pub(super) handed: f64,
}

/// Cost measured on this host.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measured {
    /// Cost in the expected case.
    pub(super) likely: Cost,
    /// Costs in the extreme cases, which bound the range.
    pub(super) ends: Vec<Cost>,
}

/// A device with interrupts: field case A went from 98 % to 48.5 %, so about half stays. One
/// inter-processor interrupt serves a whole poll of up to 64 packets: little extra, an assumption.
const DEVICE: Cost = Cost { kept: 0.48, handed: 0.5408 };

/// A virtual interface hands over almost packet by packet. Measured on a veth pair of a 2-CPU virtual
/// machine, per packet: half stays, and all CPUs together take 1.8 times as much.
const VIRTUAL: Cost = Cost { kept: 0.5, handed: 1.3 };

/// Costs seen in our runs and in field case A (docs/prediction.md).
const DEVICES_SEEN: [Cost; 2] = [Cost { kept: 0.27, handed: 0.7592 }, Cost { kept: 0.60, handed: 0.416 }];
/// The first had expensive packets and a reader that had to be woken from another CPU; the next two had cheap
/// packets, where an inter-processor interrupt costs several times as much; the last had such packets a few
/// at a time, whose reader was on the CPU that received them.
const VIRTUAL_SEEN: [Cost; 5] = [
    Cost { kept: 0.0, handed: 0.34 },
    VIRTUAL,
    Cost { kept: 0.86, handed: 0.63 },
    Cost { kept: 0.90, handed: 0.75 },
    Cost { kept: 4.2, handed: 3.5 },
];

impl Cost {
    /// Cost if nothing was measured.
    pub(super) fn fixed(kind: NicKind) -> Self {
        if kind == NicKind::Device { DEVICE } else { VIRTUAL }
    }

    /// Every cost that was seen.
    fn seen(kind: NicKind) -> &'static [Self] {
        if kind == NicKind::Device { &DEVICES_SEEN } else { &VIRTUAL_SEEN }
    }

    /// Part that is handed over, relative to its previous cost.
    fn dearer(self) -> f64 {
        self.handed / (1.0 - self.kept).max(0.01)
    }
}

/// CPUs that take the packets of a queue up the stack, in their order, and their parts, adding up to 1; none
/// = the CPU of its interrupt. Shared: each of 64 queues may go to the same thousand CPUs.
pub(super) type Steering = Rc<[(CpuId, f64)]>;

/// The packets of a queue that arrive on one CPU: their current and future destination.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Move {
    /// Interface kind of the queue.
    pub(super) kind: NicKind,
    pub(super) packets: f64,
    /// The CPU that takes them off the queue now.
    pub(super) from: CpuId,
    /// The CPU that takes them then.
    pub(super) then: CpuId,
    pub(super) now: Steering,
    /// Steering after the change.
    pub(super) to: Steering,
    /// Cost of starting to steer, if it was measured.
    pub(super) cost: Option<Measured>,
}

impl Move {
    /// True if it changes anything; without packets nothing does.
    pub(super) fn changes(&self) -> bool {
        self.packets > 0.0 && (self.from != self.then || self.now != self.to)
    }

    /// True if it hands over packets that were not handed over before: their cost is the open question.
    pub(super) fn begins_to_steer(&self) -> bool {
        self.packets > 0.0 && self.now.is_empty() && !self.to.is_empty()
    }

    /// Expected cost of starting to steer.
    pub(super) fn likely(&self) -> Cost {
        self.cost.as_ref().map_or(Cost::fixed(self.kind), |cost| cost.likely)
    }

    /// Possible costs: by the measurement, or all that were seen.
    pub(super) fn ends(&self) -> &[Cost] {
        self.cost.as_ref().map_or(Cost::seen(self.kind), |cost| &cost.ends)
    }

    /// Packets that are already handed on go to other CPUs then, or are no longer handed on.
    pub(super) fn is_resteered(&self) -> bool {
        self.packets > 0.0 && !self.now.is_empty() && self.now != self.to
    }

    /// Cost of a packet on each CPU now, relative to one that is received and taken up the stack on one CPU.
    fn units(&self) -> impl Iterator<Item = (CpuId, f64)> {
        let cost = Cost::fixed(self.kind);
        let at_home = if self.now.is_empty() { 1.0 } else { cost.kept };
        let handed = cost.handed;
        let elsewhere = self.now.iter().map(move |(cpu, weight)| (*cpu, handed * weight));
        std::iter::once((self.from, at_home)).chain(elsewhere).map(|(cpu, part)| (cpu, part * self.packets))
    }
}

/// Receive time of CPUs, and the parts of it that the packets of queues take.
pub(super) struct Shares {
    /// Receive time now, as a fraction of wall time.
    times: BTreeMap<CpuId, f64>,
    /// Time that one unit takes on a CPU.
    unit: BTreeMap<CpuId, f64>,
}

impl Shares {
    /// `moves` has all queues that use these CPUs, including unchanged ones.
    pub(super) fn new(times: BTreeMap<CpuId, f64>, moves: &[Move]) -> Self {
        let mut units = BTreeMap::<CpuId, f64>::new();
        for (cpu, part) in moves.iter().flat_map(Move::units) {
            *units.entry(cpu).or_default() += part;
        }
        let unit = units.iter().filter(|(_, sum)| **sum > 0.0);
        let unit = unit.map(|(cpu, sum)| (*cpu, times.get(cpu).copied().unwrap_or_default() / sum)).collect();
        Self { times, unit }
    }

    fn takes(&self, (cpu, part): (CpuId, f64)) -> (CpuId, f64) {
        (cpu, part * self.unit.get(&cpu).copied().unwrap_or_default())
    }

    /// Part of the receive time of its CPU spent on taking these packets, 0 to 1.
    pub(super) fn part(&self, step: &Move) -> f64 {
        let (cpu, time) = step.units().map(|one| self.takes(one)).next().unwrap_or((step.from, 0.0));
        let all = self.times.get(&cpu).copied().unwrap_or_default();
        if all > 0.0 { (time / all).min(1.0) } else { 0.0 }
    }

    /// Receive time of each CPU after all moves.
    pub(super) fn after(&self, moves: &[Move], cost: impl Fn(&Move) -> Cost) -> BTreeMap<CpuId, f64> {
        // Indexed by number: each of 64 queues may go to a thousand CPUs.
        let cpus = self.times.last_key_value().map_or(0, |(cpu, _)| cpu.0 as usize + 1);
        let mut after = vec![None; cpus];
        self.times.iter().for_each(|(cpu, time)| after[cpu.0 as usize] = Some(*time));
        let mut add = |cpu: CpuId, more: f64| {
            if let Some(Some(time)) = after.get_mut(cpu.0 as usize) {
                *time = (*time + more).max(0.0);
            }
        };
        // All leave before any arrives, so that no remainder is ever negative.
        let moving = || moves.iter().filter(|step| step.changes());
        for (cpu, time) in moving().flat_map(Move::units).map(|one| self.takes(one)) {
            add(cpu, -time);
        }
        // Moves to the same destination are added together: with RFS that is the case for all queues.
        let mut handed_to: Vec<(&Steering, f64)> = Vec::new();
        for step in moving() {
            let mut taken = step.units().map(|one| self.takes(one).1);
            let home = taken.next().unwrap_or_default();
            let (home, handed) = split(step, home, taken.sum(), cost(step));
            add(step.then, home);
            match handed_to.iter_mut().find(|(to, _)| Rc::ptr_eq(to, &step.to)) {
                Some((_, sum)) => *sum += handed,
                None => handed_to.push((&step.to, handed)),
            }
        }
        for (to, handed) in handed_to {
            to.iter().for_each(|(cpu, weight)| add(*cpu, handed * weight));
        }
        self.times.keys().filter_map(|cpu| Some((*cpu, after[cpu.0 as usize]?))).collect()
    }
}

/// Parts that stay with the interrupt and that are handed over, of what both take now.
fn split(step: &Move, home: f64, handed: f64, cost: Cost) -> (f64, f64) {
    match (step.now.is_empty(), step.to.is_empty()) {
        (true, true) => (home, 0.0),
        (true, false) => (cost.kept * home, cost.handed * home),
        (false, true) => (home + handed / cost.dearer(), 0.0),
        // The hand-over is already paid for.
        (false, false) => (home, handed),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, proptest};

    use super::{Cost, Move, Shares, Steering};
    use rxlab_base::units::CpuId;
    use rxlab_path::model::NicKind;

    fn even(cpus: &[u32]) -> Steering {
        cpus.iter().map(|cpu| (CpuId(*cpu), 1.0 / cpus.len() as f64)).collect()
    }

    fn step(packets: f64, from: u32, now: &[u32], to: &[u32]) -> Move {
        let (from, now, to) = (CpuId(from), even(now), even(to));
        Move { kind: NicKind::Device, packets, from, then: from, now, to, cost: None }
    }

    fn after(times: &[f64], moves: &[Move]) -> Vec<f64> {
        let times: BTreeMap<CpuId, f64> = (0..).map(CpuId).zip(times.iter().copied()).collect();
        let after = Shares::new(times, moves).after(moves, |step| Cost::fixed(step.kind));
        after.into_values().map(|time| (time * 1000.0).round() / 1000.0).collect()
    }

    #[test]
    fn a_queue_gives_away_its_own_part_only() {
        let quiet = step(30.0, 0, &[], &[]);
        let moved = step(10.0, 0, &[], &[1]);
        // A quarter of 0.8 is 0.2: 0.096 of it stays.
        assert_eq!(after(&[0.8, 0.0], &[moved, quiet]), [0.696, 0.108]);
    }

    /// Two interfaces on one CPU once each gave away all of it, and left it below zero.
    #[test]
    fn all_queues_of_a_cpu_share_its_time() {
        let both = [step(10.0, 0, &[], &[1]), step(10.0, 0, &[], &[2])];
        assert_eq!(after(&[0.8, 0.0, 0.0], &both), [0.384, 0.216, 0.216]);
    }

    #[test]
    fn a_mask_that_changes_takes_its_work_along() {
        // CPU 0 keeps what it does; what CPU 1 did goes to CPU 2.
        assert_eq!(after(&[0.4, 0.45, 0.0], &[step(10.0, 0, &[1], &[2])]), [0.4, 0.0, 0.45]);
        // Off: all of it comes back, without what handing over cost the other side.
        assert_eq!(after(&[0.48, 0.5408, 0.0], &[step(10.0, 0, &[1], &[])]), [1.0, 0.0, 0.0]);
        // Its own part of a mask leaves the CPU of the interrupt.
        let own = after(&[0.74, 0.27], &[step(10.0, 0, &[0, 1], &[1])]);
        assert!(own[0] < 0.5 && (own[0] + own[1] - 1.01).abs() < 0.002, "{own:?}");
    }

    #[test]
    fn an_interrupt_takes_along_what_is_done_there() {
        let moved = Move { then: CpuId(1), ..step(10.0, 0, &[], &[]) };
        assert_eq!(after(&[0.5, 0.1], &[moved]), [0.0, 0.6]);
        let behind_rps = Move { then: CpuId(1), ..step(10.0, 0, &[2], &[2]) };
        assert_eq!(after(&[0.5, 0.1, 0.5], &[behind_rps]), [0.0, 0.6, 0.5]);
    }

    #[test]
    fn a_queue_without_packets_moves_nothing() {
        assert_eq!(after(&[0.9, 0.0], &[step(0.0, 0, &[], &[1])]), [0.9, 0.0]);
    }

    proptest! {
        /// Several interfaces with several queues, steered or not, on few CPUs.
        #[test]
        fn no_cpu_gives_more_than_it_has(
            times in vec(0.0f64..1.0, 6),
            queues in vec((0u32..6, 0u32..6, 0.0f64..1e6, any::<u8>(), any::<u8>(), any::<bool>()), 0..12),
        ) {
            let mask = |bits: u8| (0..6).filter(|cpu| bits >> cpu & 1 == 1).collect::<Vec<u32>>();
            let moves: Vec<Move> = queues
                .iter()
                .map(|(from, then, packets, now, to, device)| {
                    let kind = if *device { NicKind::Device } else { NicKind::Virtual };
                    let one = step(*packets, *from, &mask(*now), &mask(*to));
                    Move { kind, then: CpuId(*then), ..one }
                })
                .collect();
            let before: BTreeMap<CpuId, f64> = (0..).map(CpuId).zip(times.iter().copied()).collect();
            let shares = Shares::new(before.clone(), &moves);
            let after = shares.after(&moves, |step| Cost::fixed(step.kind));
            let parts = before.keys().map(|cpu| {
                moves.iter().filter(|step| step.from == *cpu).map(|step| shares.part(step)).sum::<f64>()
            });
            prop_assert!(parts.into_iter().all(|sum| sum <= 1.0 + 1e-9));
            prop_assert!(after.values().all(|time| *time >= 0.0), "{after:?}");
            let sum = |times: &BTreeMap<CpuId, f64>| times.values().sum::<f64>();
            // Steering at the most costs what the dearer kind does, and saves as much when it ends.
            let most = sum(&before) * (1.0 + 0.5 * 1.6) + 1e-9;
            let least = sum(&before) / 2.6 - 1e-9;
            prop_assert!((least..=most).contains(&sum(&after)), "{} -> {}", sum(&before), sum(&after));
            prop_assert!(moves.iter().any(Move::changes) || before == after);
        }
    }
}
