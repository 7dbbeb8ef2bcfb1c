//! Sample comparisons, with metrics of receive interference.

use rxlab_base::units::CpuId;
use rxlab_probe::Cost;
use rxlab_trial::compare::Comparison;
use rxlab_trial::record::{Effect, Metric, MetricResult, ProbeSlots, ProbeUse, TrialRecord, Verdict};
use rxlab_trial::{analysis, metrics};

use rxlab_trial::sample_record;

/// A trial in which arm B multiplies each measure by its factor.
fn record(measures: &[(&str, f64, f64)], pairs: usize) -> TrialRecord {
    let mut record = sample_record::rps();
    record.name = "compare".into();
    record.id = "0004-compare".into();
    record.against = vec!["rps eth0/rx-0 = 0".into()];
    record.change.clear();
    (record.min_pairs, record.max_pairs) = (pairs, pairs);
    record.metrics = measures.iter().map(|(name, _, _)| metrics::describe(name, "")).collect::<Vec<Metric>>();
    record.slots.retain(|slot| slot.pair < pairs);
    for (index, slot) in record.slots.iter_mut().enumerate() {
        let b = slot.arm == rxlab_stats::design::Arm::B;
        // About 2 % of noise with a period of seven slots.
        let noise = 1.0 + (index % 7) as f64 / 150.0;
        let value = |a: f64, factor: f64| a * noise * if b { factor } else { 1.0 };
        slot.values =
            measures.iter().map(|(name, a, factor)| ((*name).to_owned(), value(*a, *factor))).collect();
        slot.probe_cost = Some(Cost {
            ns: if b { 18_000_000 } else { 31_000_000 },
            runs: 90_000,
            missed: 0,
            of_ns: (slot.seconds * 1e9) as u64,
        });
    }
    record.probe = Some(ProbeUse {
        slots: ProbeSlots::Attached,
        spin: Some(CpuId(0)),
        cpus: [CpuId(0)].into_iter().collect(),
        limits: Vec::new(),
    });
    record.analysis = Some(analysis::analyse(&record));
    record
}

fn compared(record: &TrialRecord) -> Comparison {
    Comparison::new(record).expect("concluded")
}

/// RPS to the victim's CPU against no RPS.
pub(super) fn steered() -> Comparison {
    compared(&record(
        &[
            ("interference.share", 31.0, 0.001),
            ("interference.ns_per_packet", 1_050.0, 0.0011),
            ("net_rx.ns_per_packet", 1_900.0, 0.71),
            ("net_rx.packets", 295_000.0, 1.09),
            ("interference.inferred", 38.0, 0.02),
        ],
        12,
    ))
}

/// Half of the packets at a higher cost per packet.
pub(super) fn fewer_packets() -> Comparison {
    compared(&record(
        &[
            ("interference.share", 12.0, 0.6),
            ("interference.ns_per_packet", 400.0, 1.2),
            ("net_rx.ns_per_packet", 800.0, 1.0),
            ("net_rx.packets", 300_000.0, 0.5),
        ],
        12,
    ))
}

/// A trial stopped after three pairs.
pub(super) fn undecided() -> Comparison {
    let mut record =
        record(&[("interference.share", 12.0, 0.99), ("interference.ns_per_packet", 400.0, 1.01)], 3);
    record.max_pairs = 40;
    let mut analysis = analysis::analyse(&record);
    analysis.verdict = Verdict::Interrupted;
    let unbounded =
        |result: &MetricResult| result.effect.is_none_or(|effect: Effect| !effect.high.is_finite());
    assert!(analysis.metrics.iter().all(unbounded));
    record.analysis = Some(analysis);
    compared(&record)
}
