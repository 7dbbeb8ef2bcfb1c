//! Cost of starting to hand packets to other CPUs, measured on this host.
//!
//! On a device, the CPU that receives now keeps the work before the point where RPS chooses a CPU; a virtual
//! interface has no such work, its packets go to the other CPU's backlog at once. The CPU sends an
//! inter-processor interrupt whenever that backlog is empty: once per poll of a device, once per packet of a
//! virtual interface, but not again before the other CPU has finished the previous one. The target gets the
//! remaining work, and the cost of being interrupted. Waking a reader there no longer takes a separate
//! interrupt.

use super::moves::{Cost, Measured, Move};
use rxlab_base::number::count;
use rxlab_base::units::CpuId;
use rxlab_path::model::{HandOver, NicKind, Rates, StackWork};

/// Part of a packet's protocol work that the handing CPU spends on hashing and queueing: an assumption.
pub(super) const ENQUEUE: f64 = 0.1;

/// Sending programs make system calls: the loads that this was fitted to left this many times more time
/// between interrupts than the stream that it was measured with.
const CYCLE: f64 = 1.35;

/// Error of the predicted interrupt cost in these loads: count times unit cost (docs/prediction.md).
const INTERRUPTS: [f64; 2] = [0.5, 1.7];
/// The same for the work that moves.
const MOVED: [f64; 2] = [0.5, 1.8];

/// Cost of a move as fractions of the time that its packets take now, which is `part` of the CPU's receive
/// `time`; `None` if it was not measured.
pub(super) fn of_move(step: &Move, time: f64, part: f64, rates: &Rates) -> Option<Measured> {
    let costs = rates.costs.as_ref()?;
    let (stack, hand_over) = (costs.cpus.get(&step.from)?, costs.hand_over?);
    let runs = rates.cpu(step.from)?.net_rx * part;
    let time = time * part;
    if time <= 0.0 || step.packets < 1.0 || step.to.is_empty() {
        return None;
    }
    let is_device = step.kind == NicKind::Device;
    let moves = if is_device { time * stack.part } else { time };
    let interrupts = |moved: f64| interrupts(step, (moves * moved, runs), &hand_over);
    let packets = step.packets / 1e9;
    let queueing = if is_device { ENQUEUE * hand_over.packet_ns * packets } else { 0.0 };
    // The more work moves, the busier the target; a busy target is interrupted less often, and a full one
    // never.
    let kept = |factor: f64, moved: f64| {
        time - moves + queueing + factor * interrupts(moved) * hand_over.send_ns / 1e9
    };
    let waking = waking(stack, time, packets, &hand_over);
    // Waking a reader on the target is cheap; if several CPUs take packets, half of the readers may be
    // elsewhere.
    let local = if step.to.len() == 1 { 1.0 } else { 0.5 };
    let least = hand_over.packet_ns * packets;
    let handed = |factor: f64, local: f64| {
        factor * (moves - local * waking).max(least.min(moves)) + interrupts(1.0) * hand_over.take_ns / 1e9
    };
    let cost = |kept: f64, handed: f64| Cost { kept: kept / time, handed: handed / time };
    let far = if local < 1.0 { 0.0 } else { local };
    let ends = [handed(MOVED[0], 1.0), handed(MOVED[1], far)];
    let kept_ends = [kept(INTERRUPTS[0], MOVED[1]), kept(INTERRUPTS[1], MOVED[0])];
    Some(Measured {
        likely: cost(kept(1.0, 1.0), handed(1.0, local)),
        ends: kept_ends.map(|kept| ends.map(|handed| cost(kept, handed))).concat(),
    })
}

/// Inter-processor interrupts per second, where `moves` of a CPU's time goes to the targets in so many `runs`
/// of NET_RX.
fn interrupts(step: &Move, (moves, runs): (f64, f64), hand_over: &HandOver) -> f64 {
    let batches = if step.kind == NicKind::Device { runs.clamp(1.0, step.packets) } else { step.packets };
    let of_a_batch = step.packets / batches;
    let to = |(_, weight): &(CpuId, f64)| {
        let batches = batches * (1.0 - (1.0 - weight).powf(of_a_batch));
        let idle = (1.0 - moves * weight).max(0.0);
        batches.min(1e9 / (CYCLE * hand_over.cycle_ns)) * idle
    };
    step.to.iter().map(to).sum()
}

/// Part of a CPU's time spent on interrupts that wake readers on other CPUs.
pub(super) fn waking(stack: &StackWork, time: f64, packets: f64, hand_over: &HandOver) -> f64 {
    let measured = stack.waking.map(|part| part * time);
    let counted = || stack.interrupts.map(|each| each * packets * hand_over.send_ns);
    measured.or_else(counted).unwrap_or_default().min(stack.part * time)
}

/// Basis of predictions, in one line.
pub fn basis(rates: &Rates) -> String {
    match rates.costs.as_ref().map(|costs| (costs.hand_over, costs.missing.join("; "))) {
        Some((Some(cost), _)) => format!(
            "measured by eBPF: a hand-over takes {:.1} us of the CPU that hands over and {:.1} us of \
             its target, at most {} hand-overs/s",
            cost.send_ns / 1e3,
            cost.take_ns / 1e3,
            count(1e9 / (CYCLE * cost.cycle_ns))
        ),
        Some((None, missing)) => format!("{} ({missing})", super::prediction::FIXED),
        None => super::prediction::FIXED.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::of_move;
    use crate::plan::moves::{Cost, Move, Steering};
    use rxlab_base::units::CpuId;
    use rxlab_path::model::{Costs, HandOver, NicKind, Rates, StackWork};
    use rxlab_path::sketch::Sketch;

    /// CPU 0 receives 50 % of the time, 100,000 packets a second, and 90 % of that can be handed over.
    fn rates(count: u32, runs: f64, waking: Option<f64>) -> Rates {
        let (_, mut rates) = Sketch::new(count).receives(0, 0.5, 1e5).build();
        rates.cpus[0].net_rx = runs;
        let work = StackWork { part: 0.9, interrupts: Some(0.1), waking };
        let hand_over =
            HandOver { send_ns: 12_000.0, take_ns: 1_000.0, packet_ns: 500.0, cycle_ns: 40_000.0 };
        let cpus = [(CpuId(0), work)].into();
        rates.costs = Some(Costs { cpus, hand_over: Some(hand_over), missing: Vec::new() });
        rates
    }

    fn step(kind: NicKind, packets: f64, targets: &[u32]) -> Move {
        let even = |cpu: &u32| (CpuId(*cpu), 1.0 / targets.len() as f64);
        let (now, to) = (Steering::default(), targets.iter().map(even).collect());
        Move { kind, packets, from: CpuId(0), then: CpuId(0), now, to, cost: None }
    }

    fn likely(step: &Move, rates: &Rates) -> Cost {
        of_move(step, 0.5, 1.0, rates).expect("measured").likely
    }

    #[test]
    fn a_device_keeps_taking_packets_off_its_queue() {
        let likely_by = |runs| likely(&step(NicKind::Device, 1e5, &[1]), &rates(4, runs, Some(0.0)));
        // 10 % stay, a tenth of 0.5 us of each packet for queueing, and an interrupt for each poll that finds
        // the target idle.
        let cost = likely_by(1_000.0);
        let kept = 0.1 + (1e5 * 50e-9 + 1_000.0 * 0.55 * 12e-6) / 0.5;
        assert!((cost.kept - kept).abs() < 1e-9, "{cost:?} {kept}");
        assert!((cost.handed - (0.9 + 550.0 * 1e-6 / 0.5)).abs() < 1e-9, "{cost:?}");
        assert!(likely_by(10_000.0).kept > cost.kept, "smaller polls make more interrupts");
    }

    /// However many packets arrive, the other CPU is interrupted again only when it has finished.
    #[test]
    fn a_virtual_interface_pays_for_interrupts_only() {
        let likely_by =
            |packets| likely(&step(NicKind::Virtual, packets, &[1]), &rates(2, packets, Some(0.0))).kept;
        let one = 12e-6 * 0.5 / 0.5;
        assert!((likely_by(1e4) - 1e4 * one).abs() < 1e-9, "{}", likely_by(1e4));
        assert!((likely_by(1e5) - 1e9 / 54_000.0 * one).abs() < 1e-9, "{}", likely_by(1e5));
    }

    #[test]
    fn more_targets_make_more_interrupts() {
        let of =
            |targets: &[u32]| likely(&step(NicKind::Device, 1e5, targets), &rates(8, 5e3, Some(0.0))).kept;
        assert!(of(&[1]) < of(&[1, 2, 3, 4, 5]));
    }

    /// A reader that was woken by interrupts from the CPU that received no longer is.
    #[test]
    fn waking_a_reader_elsewhere_ends() {
        let likely_by = |waking| likely(&step(NicKind::Virtual, 1e5, &[1]), &rates(2, 1e5, waking)).handed;
        assert!((likely_by(Some(0.0)) - likely_by(Some(0.4)) - 0.4).abs() < 1e-9);
        // Without a measurement it is estimated: a tenth of the packets, 12 us each.
        assert!((likely_by(Some(0.0)) - likely_by(None) - 1e4 * 12e-6 / 0.5).abs() < 1e-9);
    }

    #[test]
    fn what_is_not_known_makes_no_cost() {
        let step = step(NicKind::Virtual, 1e5, &[1]);
        let mut unknown = rates(2, 1e5, None);
        unknown.costs.as_mut().expect("set").hand_over = None;
        assert_eq!(of_move(&step, 0.5, 1.0, &unknown), None);
        unknown.costs = None;
        assert_eq!(of_move(&step, 0.5, 1.0, &unknown), None);
        let elsewhere = Move { from: CpuId(1), ..step };
        assert_eq!(of_move(&elsewhere, 0.5, 1.0, &rates(2, 1e5, None)), None);
    }
}
