//! What any plan should do to the CPUs, by the costs of this host where they were measured.
//!
//! RPS masks and RFS tables are in the model. Other settings are not: a plan that has some is predicted without them,
//! and says so.

use std::collections::BTreeMap;

use super::cost::Costs;
use super::prediction::{DEVICE, Move, Prediction, VIRTUAL, predict_each};
use super::spread::{even, readers};
use super::{Plan, Setting, Target, rps};
use crate::diagnose::evidence::{irq_cpus, queue_packets};
use crate::model::{Model, Nic, NicKind, Rates};
use crate::probe::Tier;
use crate::units::{CpuId, CpuMask, QueueId};

/// The prediction for `plan`; `None` when it moves no receive work by this model.
pub fn forecast(model: &Model, rates: &Rates, plan: &Plan, costs: &Costs) -> Option<Prediction> {
    let rates = costs.exact(rates);
    let nics = model.nics.iter().filter(|nic| nic.kind != NicKind::Loopback);
    let concerned: Vec<&Nic> = nics.filter(|nic| is_about(plan, nic)).collect();
    let moves: Vec<(NicKind, Move)> =
        concerned.iter().flat_map(|nic| moves(model, &rates, nic, plan)).collect();
    let kinds: BTreeMap<CpuId, NicKind> = moves.iter().map(|(kind, step)| (step.from, *kind)).collect();
    let steps: Vec<Move> = moves.into_iter().map(|(_, step)| step).collect();
    let mut all_measured = costs.tier == Tier::Ebpf;
    let measured: Vec<bool> =
        steps.iter().map(|step| costs.of_move(step, kinds[&step.from], &rates).is_some()).collect();
    all_measured &= measured.iter().all(|one| *one);
    let prediction = predict_each(&rates, &steps, |step| {
        let kind = kinds[&step.from];
        let fixed = if kind == NicKind::Device { DEVICE } else { VIRTUAL };
        costs.of_move(step, kind, &rates).filter(|_| all_measured).unwrap_or(fixed)
    })?;
    let packets = concerned.iter().filter_map(|nic| rates.nic(&nic.name)).map(|nic| nic.rx_packets).sum();
    let mut prediction = prediction.at(packets);
    prediction.basis = match (costs.tier, all_measured) {
        (Tier::Ebpf, false) => format!(
            "receive time by eBPF, costs not measured ({}): {}",
            costs.missing.join("; "),
            prediction.basis
        ),
        _ => costs.basis(),
    };
    let others = plan.settings.iter().filter(|planned| !in_model(&planned.set)).count();
    if others > 0 {
        prediction.basis += &format!("; {others} settings of the plan are not in the model");
    }
    Some(prediction)
}

fn in_model(set: &Setting) -> bool {
    matches!(set.knob.as_str(), "rps" | "rfs" | "rfs_entries")
}

fn is_about(plan: &Plan, nic: &Nic) -> bool {
    plan.settings.iter().any(|planned| planned.set.target.nic() == Some(&nic.name))
}

/// The value that the plan gives a queue.
fn value<'a>(plan: &'a Plan, knob: &str, nic: &Nic, queue: u32) -> Option<&'a str> {
    let target = Target::Queue { nic: nic.name.clone(), queue: QueueId::rx(queue) };
    let found =
        plan.settings.iter().rev().find(|planned| planned.set.knob == knob && planned.set.target == target);
    found.map(|planned| planned.set.value.as_str())
}

fn moves(model: &Model, rates: &Rates, nic: &Nic, plan: &Plan) -> Vec<(NicKind, Move)> {
    let table = |text: &str| text.parse::<u32>().is_ok_and(|entries| entries > 0);
    let global = plan.settings.iter().rev().find(|planned| planned.set.knob == "rfs_entries");
    let global = match global {
        Some(planned) => table(&planned.set.value),
        None => model.rps_sock_flow_entries.known().is_some_and(|entries| *entries > 0),
    };
    let mut found: Vec<(Move, f64)> = Vec::new();
    for queue in &nic.rx {
        let Some(from) = irq_cpus(queue, model, rates).first().or_else(|| rps::hottest(rates)) else {
            continue;
        };
        let flows = match value(plan, "rfs", nic, queue.index) {
            Some(text) => table(text),
            None => queue.rps_flow_cnt.known().is_some_and(|entries| *entries > 0),
        };
        let mask = value(plan, "rps", nic, queue.index).and_then(|text| text.parse::<CpuMask>().ok());
        // Where the reader of a flow is known RFS decides, so the readers' CPUs get the work.
        let readers = (global && flows).then(|| readers(model, rates, nic)).flatten();
        let to = readers.or_else(|| mask.filter(|mask| !mask.is_empty()).map(|mask| even(&mask)));
        let current = queue.rps_cpus.known().cloned().unwrap_or_default();
        let Some(to) = to else { continue };
        found.push((Move { from, part: 1.0, current, to }, queue_packets(nic, queue, rates)));
    }
    // Queues that land on one CPU share its receive time by their packets.
    let sums = found.iter().fold(BTreeMap::<CpuId, (f64, f64)>::new(), |mut sums, (step, packets)| {
        let sum = sums.entry(step.from).or_default();
        (sum.0, sum.1) = (sum.0 + packets, sum.1 + 1.0);
        sums
    });
    let part = |step: &Move, packets: f64| match sums[&step.from] {
        (all, _) if all > 0.0 => packets / all,
        (_, count) => 1.0 / count,
    };
    found.into_iter().map(|(step, packets)| (nic.kind, Move { part: part(&step, packets), ..step })).collect()
}

#[cfg(test)]
mod tests {
    use super::forecast;
    use crate::diagnose::sketch::Sketch;
    use crate::plan::{Costs, Plan, spread};
    use crate::probe::{CpuRecord, Ipi, NapiRecord, Reading};
    use crate::units::CpuId;

    fn plan(settings: &[&str]) -> Plan {
        let settings: Vec<_> = settings.iter().map(|text| text.parse().expect("a setting")).collect();
        Plan::of("own", &settings)
    }

    #[test]
    fn without_measures_it_says_what_the_planner_says() {
        let (model, rates) = Sketch::case_a().build();
        let costs = Costs::unknown("no root".to_owned());
        for proposal in spread(&model, &rates, None).proposals {
            let forecast = forecast(&model, &rates, &proposal.plan, &costs).expect("it moves work");
            let planned = proposal.plan.prediction.expect("predicted");
            assert_eq!((forecast.after, forecast.busiest), (planned.after, planned.busiest));
            assert!(forecast.basis.starts_with("not calibrated (no root)"), "{}", forecast.basis);
            assert!((forecast.packets, forecast.most_after) == (42_000.0, planned.most_after));
            assert!(forecast.most_before < forecast.most_after);
        }
    }

    #[test]
    fn measured_costs_take_the_place_of_fractions() {
        let (model, rates) = Sketch::case_a().build();
        let cpu = CpuRecord { ns: [900_000_000, 0, 0, 0, 0, 0, 0, 0, 0], ..CpuRecord::default() };
        let napi = NapiRecord { polls: 1_000, work: 42_000, ..NapiRecord::default() };
        let reading = Reading {
            cpus: [(CpuId(2), cpu)].into(),
            napis: [((CpuId(2), 5), napi)].into(),
            ..Reading::default()
        };
        let with = |protocol| {
            let ipi = Ipi { take_ns: 500.0, send_ns: 1_500.0 };
            let costs = Costs::measured(&reading, 1.0, Some(protocol), Ok(ipi));
            forecast(&model, &rates, &plan(&["rps eth0/rx-0 = 0-1,3-7"]), &costs).expect("it moves work")
        };
        let (much, little) = (with(16_000.0), with(4_000.0));
        assert!((much.before - 0.9).abs() < 1e-9 && much.after < 0.4, "{much:?}");
        assert!(little.after > 0.7, "{little:?}");
        assert!(much.basis.starts_with("measured by eBPF"), "{}", much.basis);
        // No interrupt is free: the others get a little more than what left.
        assert!(much.total_change > 0.0 && much.total_change < 0.3, "{much:?}");
        let sum: f64 = much.cpus.iter().map(|load| load.after).sum();
        assert!(sum <= 1.3 && much.cpus.len() == 8, "{:?}", much.cpus);
    }

    #[test]
    fn settings_that_the_model_does_not_know_are_counted() {
        let (model, rates) = Sketch::case_a().build();
        let costs = Costs::unknown("no root".to_owned());
        let own = plan(&["rps eth0/rx-0 = 4-7", "channels eth0 = combined 2"]);
        let basis = forecast(&model, &rates, &own, &costs).expect("RPS moves").basis;
        assert!(basis.ends_with("1 settings of the plan are not in the model"), "{basis}");
        assert_eq!(forecast(&model, &rates, &plan(&["rps eth0/rx-0 = off"]), &costs), None);
        assert_eq!(forecast(&model, &rates, &plan(&["channels eth0 = combined 2"]), &costs), None);
    }
}
