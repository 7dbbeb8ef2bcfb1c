//! Prediction of the effect of moves. The calculation is in `moves`.

use std::collections::BTreeMap;

use super::moves::{Cost, Move, Shares};
use rxlab_base::units::CpuId;
use rxlab_path::evidence::{Headroom, busy, fullest, headroom, receiving, room};
use rxlab_path::model::{Model, Rates};
use rxlab_setting::{CHANGE, CpuLoad, Overfull, Prediction, Range};

/// Smallest receive time that is listed.
const SOME: f64 = 0.005;

/// Busy part of a CPU's time from which it counts as full.
const SATURATED: f64 = 0.95;

/// Basis of predictions without measured costs.
pub(super) const FIXED: &str = "a rough guess, because these costs were not measured: about half of the \
                                receive work stays on its CPU; in rxlab's own runs it was 27 to 60 % on a \
                                device, 0 to 420 % on a virtual interface";

/// Receive time of CPUs and capacity after the plan.
struct Then {
    times: BTreeMap<CpuId, f64>,
    /// Change for all CPUs together.
    extra: f64,
    headroom: Headroom,
    /// The same if the other work of a full CPU does not grow with the packets.
    at_most: Headroom,
}

/// Calculates the effect of the moves, by fixed fractions where costs were not measured. `moves` has all
/// queues that bring the CPUs work. `None` if nothing moves in this model.
pub(super) fn predict(model: &Model, rates: &Rates, moves: &[Move]) -> Option<Prediction> {
    let before: BTreeMap<CpuId, f64> = rates.cpus.iter().map(|cpu| (cpu.cpu, receiving(cpu))).collect();
    let shares = Shares::new(before.clone(), moves);
    let sum = |times: &BTreeMap<CpuId, f64>| times.values().sum::<f64>();
    let (all_busy, cpus) = fullest(model, rates);
    let hottest = most(&before).map(|(cpu, _)| cpu);
    let full = hottest.and_then(|cpu| rates.cpu(cpu)).filter(|cpu| busy(cpu) >= SATURATED);
    // Other work of a full CPU may be sending or reading as much as it gets to: it need not grow with the
    // packets.
    let elastic = full.map_or(0.0, |cpu| busy(cpu) - before[&cpu.cpu]);
    let work_out = |cost: &dyn Fn(&Move) -> Cost| {
        let times = shares.after(moves, cost);
        let extra = sum(&times) - sum(&before);
        let hottest = room(most(&times).map_or(0.0, |(_, time)| time));
        let machine = |busy: f64| room((busy + extra) / cpus);
        let headroom = Headroom { hottest, machine: machine(all_busy) };
        let at_most = Headroom { hottest, machine: machine(all_busy - elastic) };
        Then { times, extra, headroom, at_most }
    };
    let then = work_out(&Move::likely);
    if before.iter().all(|(cpu, time)| (then.times[cpu] - time).abs() < 1e-6) {
        return None;
    }
    let moving = moves.iter().filter(|step| step.changes() && before.contains_key(&step.from));
    let cpu = moving.map(|step| step.from).max_by(|a, b| before[a].total_cmp(&before[b]))?;
    let (busiest, busiest_after) = most(&then.times)?;
    let cases =
        moves.iter().filter(|step| step.begins_to_steer()).map(|step| step.ends().len()).max().unwrap_or(0);
    let ends: Vec<Then> =
        (0..cases).map(|at| work_out(&|step| step.ends()[at % step.ends().len()])).collect();
    let among = |of: &dyn Fn(&Then) -> f64| {
        let values = ends.iter().chain([&then]).map(of);
        values
            .fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], value| [low.min(value), high.max(value)])
    };
    let all_before = sum(&before);
    let range = (cases > 0).then(|| Range {
        after: among(&|then| then.times[&cpu]),
        busiest: among(&|then| then.times[&busiest]),
        total: among(&|then| then.extra / all_before),
        hottest: among(&|then| then.headroom.hottest),
        machine: [among(&|then| then.headroom.machine)[0], among(&|then| then.at_most.machine)[1]],
        fits: [among(&|then| then.headroom.fits())[0], among(&|then| then.at_most.fits())[1]],
    });
    // Reported only if all cases agree.
    let overfull = rates.cpus.iter().map(|cpu| {
        let [least, _] = among(&|then| then.times[&cpu.cpu]);
        Overfull { cpu: cpu.cpu, busy: busy(cpu) - before[&cpu.cpu] + least }
    });
    let overfull = overfull.max_by(|a, b| a.busy.total_cmp(&b.busy)).filter(|full| full.busy > 1.0 + CHANGE);
    let now = headroom(model, rates);
    let loads = then.times.iter().map(|(cpu, after)| {
        let range = (cases > 0).then(|| among(&|then| then.times[cpu]));
        CpuLoad { cpu: *cpu, before: before[cpu], after: *after, range }
    });
    Some(Prediction {
        cpus: loads.filter(|load| load.before.max(load.after) >= SOME).collect(),
        packets: 0.0,
        most_before: 0.0,
        most_after: 0.0,
        rate: None,
        limit: None,
        basis: FIXED.to_owned(),
        cpu,
        before: before[&cpu],
        after: then.times[&cpu],
        busiest,
        busiest_before: before[&busiest],
        busiest_after,
        hottest,
        hottest_as_it_runs: full.map_or(now.hottest, |cpu| room(busy(cpu))),
        overfull,
        range,
        left_out: Vec::new(),
        total_change: then.extra / all_before,
        headroom_before: now,
        headroom_after: then.headroom,
    })
}

/// The CPU with the largest of these times, the first of equals.
fn most(times: &BTreeMap<CpuId, f64>) -> Option<(CpuId, f64)> {
    times.iter().rev().max_by(|a, b| a.1.total_cmp(b.1)).map(|(cpu, time)| (*cpu, *time))
}

#[cfg(test)]
mod tests {
    use super::predict;
    use crate::diagnose::sketch::{Sketch, cpus};
    use crate::plan::moves::{Cost, Measured, Move, Steering};
    use crate::plan::spread::even;
    use rxlab_base::units::CpuId;
    use rxlab_path::model::{Model, NicKind, Rates};
    use rxlab_setting::Prediction;

    fn step(kind: NicKind, from: u32, now: &str, to: &str) -> Move {
        let mask = |list: &str| if list.is_empty() { Steering::default() } else { even(&cpus(list)) };
        let from = CpuId(from);
        Move { kind, packets: 42_000.0, from, then: from, now: mask(now), to: mask(to), cost: None }
    }

    fn of_a_device((model, rates): &(Model, Rates), now: &str, to: &str) -> Option<Prediction> {
        predict(model, rates, &[step(NicKind::Device, 2, now, to)])
    }

    fn from_cpu_2(current: &str) -> Option<Prediction> {
        of_a_device(&Sketch::case_a().build(), current, "0-1,3-7")
    }

    /// The machine as a whole is almost full: spreading cannot do more.
    #[test]
    fn field_case_a() {
        let prediction = from_cpu_2("").expect("work moves");
        assert_eq!(prediction.to_string(), "CPU 2: 98 -> 26 to 59 %, all CPUs +2 to +3 %");
        assert_eq!(
            prediction.room("rps"),
            "CPU 2 is full at today's traffic, the whole machine at 1.2x. With rps, the whole machine is full at 1.2x: \
             this spreads the load but adds little capacity"
        );
    }

    /// Field case C went from 250k to 670k requests/s by RPS alone.
    #[test]
    fn a_full_cpu_of_an_idle_machine_held_the_host_back() {
        let host = Sketch::new(8).receives(2, 0.98, 42_000.0).build();
        let prediction = of_a_device(&host, "", "0-1,3-7").expect("work moves").at(42_000.0);
        assert_eq!(prediction.regime(), "this lets the host take 1.7x to 3.8x instead of 1.0x");
        assert!((prediction.most_after / prediction.most_before - 1.0 / 0.48).abs() < 0.01, "{prediction:?}");
    }

    /// If the kernel counts hard interrupts separately, the CPU handles them in addition to its softirqs.
    #[test]
    fn hard_interrupts_are_receive_work() {
        let mut host = Sketch::new(8).receives(2, 0.5, 42_000.0).build();
        host.1.cpus[2].irq = 0.3;
        let prediction = of_a_device(&host, "", "0-1,3-7").expect("work moves");
        assert!((prediction.before - 0.8).abs() < 1e-9 && prediction.headroom_before.hottest < 1.3);
    }

    #[test]
    fn taking_the_cpu_out_of_a_mask_moves_only_its_own_part() {
        let prediction = from_cpu_2("0-7").expect("work moves");
        assert!((0.8..0.9).contains(&prediction.after), "{prediction:?}");
        assert!(prediction.total_change.abs() < 1e-9);
        assert_eq!(prediction.range, None, "what a hand-over costs is paid already");
    }

    #[test]
    fn a_mask_that_stays_moves_nothing() {
        assert_eq!(of_a_device(&Sketch::case_a().build(), "0-1", "0-1"), None);
    }

    /// Measured with 540,000 packets/s before and 615,000 after: CPU 0 45 -> 24.5 %, CPU 1 0 -> 68 %: for the same
    /// traffic 22 and 60 %.
    #[test]
    fn on_two_cpus_the_other_one_becomes_the_busiest() {
        let (model, rates) =
            Sketch::new(2).veth("veth0").receives(0, 0.46, 5.4e5).receives(1, 0.0, 0.0).build();
        let prediction = predict(&model, &rates, &[step(NicKind::Virtual, 0, "", "1")]).expect("work moves");
        assert_eq!(prediction.to_string(), "cannot be predicted here; a trial tells");
    }

    /// A target that gets more than there is time was once said to just fit today's traffic.
    #[test]
    fn more_than_fits_is_said() {
        let (model, rates) = Sketch::new(2).veth("veth0").works(1, 0.8).receives(0, 0.9, 5e5).build();
        let likely = Cost { kept: 0.5, handed: 1.3 };
        let cost = Some(Measured { likely, ends: vec![likely] });
        let dear = Move { cost, ..step(NicKind::Virtual, 0, "", "1") };
        let prediction = predict(&model, &rates, &[dear]).expect("work moves");
        assert!(prediction.busiest_after > 1.1 && prediction.headroom_after.hottest < 0.9, "{prediction:?}");
        assert!(prediction.to_string().contains("CPU 1: 0 -> over 100 %"), "{prediction}");
        let room = prediction.room("rps");
        assert!(room.contains("CPU 1 is full at 0.9x") && room.contains("this costs capacity"), "{room}");
        assert!(
            room.ends_with(
                "with its other work CPU 1 would then need 198 % of its time, so that work has to move"
            ),
            "{room}"
        );
    }

    /// The practice range with policy routing rules: CPU 0 sends, receives, and is full; 100,000 packets/s
    /// without RPS, 280,000 with it. The prediction was once "this costs capacity: the host can take 1.0x
    /// instead of 1.2x".
    #[test]
    fn nothing_is_said_against_what_may_win() {
        let (model, rates) =
            Sketch::new(2).veth("veth0").receives(0, 0.56, 1e5).works(0, 0.44).works(1, 0.9).build();
        let prediction = predict(&model, &rates, &[step(NicKind::Virtual, 0, "", "1")]).expect("work moves");
        let regime = prediction.regime();
        assert!(regime.starts_with("whether this adds capacity cannot be predicted"), "{regime}");
        let range = prediction.range.expect("no cost was measured");
        assert!(range.after[0] < 0.03 && range.total[0] < -0.6 && range.total[1] > 0.7, "{range:?}");
        assert!(range.fits[0] < 1.0 && range.fits[1] > 1.6, "{range:?}");
        assert_eq!(prediction.hottest_as_it_runs, 1.0, "what sends cannot leave");
        assert!(
            prediction.room("rps").starts_with("CPU 0 is full at 1.0x to 1.8x today"),
            "{}",
            prediction.room("rps")
        );
    }
}
