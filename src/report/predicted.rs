//! The prediction for a plan next to the result of its trial.

use std::collections::BTreeMap;

use crate::plan::Prediction;
use crate::trial::metrics::name;
use crate::trial::record::{Arm, Phase, Slot, TrialRecord};
use crate::units::CpuId;

/// Half of the resolution that a range is printed with, as a part of a CPU's time.
const ROUNDING: f64 = 0.005;

/// Two lines to compare.
pub(super) struct PredictedAndMeasured {
    /// The prediction.
    pub(super) predicted: String,
    /// The measurement.
    pub(super) measured: String,
}

/// Softirq time of each CPU and packets per second, means over the slots of an arm.
struct Means {
    time: BTreeMap<CpuId, f64>,
    packets: f64,
}

/// Returns the lines; `None` without a prediction, or without slots of both arms that have packets.
pub(super) fn compare(record: &TrialRecord) -> Option<PredictedAndMeasured> {
    let prediction = record.prediction.as_ref()?;
    let (a, b) = (means(record, Arm::A)?, means(record, Arm::B)?);
    // Scaled to the packets of arm A: a change that lets more packets through takes more time, and is not worse for it.
    let same_traffic = a.packets / b.packets;
    let of = |cpu: CpuId| {
        let time = |means: &Means| means.time.get(&cpu).copied().unwrap_or_default();
        (time(&a), time(&b) * same_traffic)
    };
    let sum = |means: &Means| means.time.values().sum::<f64>();
    let total = sum(&b) * same_traffic / sum(&a) - 1.0;
    // Traffic may have differed in the sample that the prediction was made from.
    let scale = scale(prediction, &a);
    let mut cpus = vec![(prediction.cpu, prediction.after)];
    if prediction.busiest != prediction.cpu {
        cpus.push((prediction.busiest, prediction.busiest_after));
    }
    let shown = |(cpu, _): &(CpuId, f64)| {
        let (before, after) = of(*cpu);
        format!("CPU {cpu} {:.0} -> {:.0} %", before * 100.0, after * 100.0)
    };
    let error =
        |(cpu, after): &(CpuId, f64)| format!("CPU {cpu} {:+.0}", (of(*cpu).1 - after * scale) * 100.0);
    let list = |one: &dyn Fn(&(CpuId, f64)) -> String| cpus.iter().map(one).collect::<Vec<_>>().join(", ");
    let verdict = match prediction.range {
        // A predicted range is either right or wrong.
        Some(range) => {
            let scaled = |[low, high]: [f64; 2], value: f64| {
                (low * scale - ROUNDING..=high * scale + ROUNDING).contains(&value)
            };
            let holds =
                scaled(range.after, of(prediction.cpu).1) && scaled(range.busiest, of(prediction.busiest).1);
            if holds { "inside the range".to_owned() } else { "outside the range".to_owned() }
        }
        None => format!(
            "off by, in points of a CPU: {}; total {:+.0}",
            list(&error),
            (total - prediction.total_change) * 100.0
        ),
    };
    Some(PredictedAndMeasured {
        predicted: prediction.to_string(),
        measured: format!(
            "{}, total {:+.0} % (softirq time for the packets of arm A); {verdict}",
            list(&shown),
            total * 100.0,
        ),
    })
}

/// Receive work of arm A relative to the sample.
fn scale(prediction: &Prediction, a: &Means) -> f64 {
    let now = a.time.get(&prediction.cpu).copied().unwrap_or_default();
    if prediction.before > 0.0 && now > 0.0 { now / prediction.before } else { 1.0 }
}

fn means(record: &TrialRecord, arm: Arm) -> Option<Means> {
    let counts = |slot: &&Slot| slot.phase == Phase::Comparison && slot.arm == arm && slot.void.is_none();
    let slots: Vec<(&Slot, f64)> = record
        .slots
        .iter()
        .filter(counts)
        .filter_map(|slot| {
            let each = *slot.values.get(name::SOFTIRQ_PER_PACKET).filter(|each| **each > 0.0)?;
            Some((slot, slot.softirq.values().sum::<f64>() * 1e6 / each))
        })
        .collect();
    let count = slots.len() as f64;
    let packets = slots.iter().map(|(_, packets)| packets).sum::<f64>() / count;
    let mut time = BTreeMap::new();
    for (slot, _) in &slots {
        for (cpu, part) in &slot.softirq {
            *time.entry(*cpu).or_insert(0.0) += part / count;
        }
    }
    (packets > 0.0).then_some(Means { time, packets })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::compare;
    use crate::diagnose::sketch::Sketch;
    use crate::plan::spread;
    use crate::report::sample_record;
    use crate::trial::metrics::name;
    use crate::trial::record::{Arm, TrialRecord};
    use crate::units::CpuId;

    /// Arm A: CPU 0 at 46 %. Arm B, with a quarter more packets: 25 and 75 %.
    fn record() -> TrialRecord {
        let (model, rates) = Sketch::new(2)
            .veth("veth0")
            .traffic("veth0", 5e5)
            .receives(0, 0.46, 5.4e5)
            .receives(1, 0.0, 0.0)
            .build();
        let mut record = sample_record::rps();
        record.prediction = spread(&model, &rates, None).proposals.remove(0).plan.prediction;
        assert!(record.prediction.is_some());
        for slot in &mut record.slots {
            let (times, packets) = match slot.arm {
                Arm::A => ([0.46, 0.0], 1e5),
                Arm::B => ([0.25, 0.75], 1.25e5),
            };
            slot.softirq = BTreeMap::from([(CpuId(0), times[0]), (CpuId(1), times[1])]);
            let each = times.iter().sum::<f64>() * 1e6 / packets;
            slot.values.insert(name::SOFTIRQ_PER_PACKET.to_owned(), each);
        }
        record
    }

    #[test]
    fn measured_for_the_same_packets() {
        let both = compare(&record()).expect("both are there");
        assert_eq!(
            both.predicted,
            "CPU 0 46 -> 0 to over 100 %, CPU 1 0 -> 16 to over 100 %, total -66 to +670 %"
        );
        assert_eq!(
            both.measured,
            "CPU 0 46 -> 20 %, CPU 1 0 -> 60 %, total +74 % (softirq time for the packets of arm A); inside the range"
        );
    }

    #[test]
    fn no_comparison_without_a_prediction_or_without_both_arms() {
        assert!(compare(&sample_record::rps()).is_none(), "no prediction");
        let mut record = record();
        record.slots.retain(|slot| slot.arm == Arm::A);
        assert!(compare(&record).is_none(), "no arm B");
    }
}
