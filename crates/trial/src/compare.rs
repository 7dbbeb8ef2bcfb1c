//! The setup that disturbs the workload less: the answer of a trial whose metrics are receive interference.
//! A pure function of the record.

use serde::{Deserialize, Serialize};

use super::analysis::valid_pairs;
use super::monitor::Monitor;
use super::probed;
use super::record::{Call, Effect, Metric, MetricResult, ProbeUse, TrialRecord, Verdict};
use rxlab_stats::design::{Arm, Phase};
use rxlab_stats::interval::{Interval, Ratios};
use rxlab_stats::mean;

/// Compared measures, the per-second question first and the per-packet one next.
pub const MEASURES: [&str; 5] = [
    probed::INTERFERENCE,
    probed::INTERFERENCE_PER_PACKET,
    probed::NET_RX_PER_PACKET,
    probed::PACKETS,
    probed::INFERRED,
];

/// Two setups side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// `rxlab.compare/1`.
    pub schema: String,
    /// Id of the trial, for `rxlab trial show`.
    pub trial: String,
    /// Settings or commands of arm A.
    pub a: Vec<String>,
    /// Settings or commands of arm B.
    pub b: Vec<String>,
    /// The trial's verdict on B against A, by time lost per second; throughput that is proven lower outranks it.
    pub verdict: Verdict,
    /// The setup that disturbs less in the same time.
    pub per_second: Answer,
    /// The setup that disturbs less for the same packets.
    pub per_packet: Answer,
    /// Each measure in both setups.
    pub measures: Vec<Measure>,
    /// Pairs in which both slots are valid.
    pub pairs: usize,
    /// Void slots.
    pub voids: usize,
    /// Seed of the coins.
    pub seed: u64,
    /// Differences below this fraction do not matter.
    pub margin: f64,
    /// Length of a slot in seconds.
    pub measure_s: f64,
    /// The probe.
    pub probe: Option<ProbeUse>,
    /// CPU time of the eBPF programs in arm A and in arm B, as a fraction of one CPU.
    pub probe_cost: Option<(f64, f64)>,
    /// Remarks for a careful reader.
    pub notes: Vec<String>,
}

/// One question answered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// The setup that disturbs less; `None` = neither is proven to.
    pub less: Option<Arm>,
    /// Call of the interval on B against A.
    pub call: Call,
    /// The change from A to B.
    pub change: Option<Effect>,
}

/// One measure in both setups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measure {
    /// The metric.
    pub metric: Metric,
    /// Pairs that have it in both slots.
    pub pairs: usize,
    /// Mean over the slots of A, in the metric's unit.
    pub a: f64,
    /// Mean over the slots of B.
    pub b: f64,
    /// B less A; `None` with fewer than 2 pairs.
    pub difference: Option<Difference>,
    /// Call of the interval of the ratios on B against A.
    pub call: Call,
    /// The change from A to B as a ratio.
    pub change: Option<Effect>,
}

/// A difference with its interval, in the metric's unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// Mean of the pairs' differences.
    pub mid: f64,
    /// Lower end; `None` = no bound yet.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl Comparison {
    pub const SCHEMA: &'static str = "rxlab.compare/1";

    /// The comparison of a concluded record; `None` without a conclusion.
    pub fn new(record: &TrialRecord) -> Option<Self> {
        let analysis = record.analysis.as_ref()?;
        let result = |name: &str| analysis.metrics.iter().find(|result| result.metric.name == name);
        let [a, b] = record.arms();
        Some(Self {
            schema: Self::SCHEMA.to_owned(),
            trial: record.id.clone(),
            a,
            b,
            verdict: analysis.verdict.clone(),
            per_second: answer(result(probed::INTERFERENCE)),
            per_packet: answer(result(probed::INTERFERENCE_PER_PACKET)),
            measures: MEASURES
                .iter()
                .enumerate()
                .filter_map(|(place, name)| Some(measure(record, result(name)?, place)))
                .collect(),
            pairs: analysis.pairs,
            voids: analysis.voids,
            seed: record.seed,
            margin: record.margin,
            measure_s: record.measure_s,
            probe: record.probe.clone(),
            probe_cost: record.probe_cost(Arm::A).zip(record.probe_cost(Arm::B)),
            notes: analysis.notes.clone(),
        })
    }
}

fn answer(result: Option<&MetricResult>) -> Answer {
    let call = result.map_or(Call::Unmeasured, |result| result.call);
    let less = match call {
        Call::Helps => Some(Arm::B),
        Call::Hurts => Some(Arm::A),
        Call::NoEffect | Call::Negligible | Call::Inconclusive | Call::Unmeasured => None,
    };
    Answer { less, call, change: result.and_then(|result| result.effect) }
}

/// `place`: the first measure has the whole error of its interval, the others share as much.
fn measure(record: &TrialRecord, result: &MetricResult, place: usize) -> Measure {
    let name = &result.metric.name;
    let (a, b): (Vec<f64>, Vec<f64>) = valid_pairs(&record.slots, Phase::Comparison)
        .iter()
        .filter_map(|pair| {
            let (a, b) = pair.arms();
            Some((*a.values.get(name)?, *b.values.get(name)?))
        })
        .unzip();
    let differences: Vec<f64> = a.iter().zip(&b).map(|(a, b)| b - a).collect();
    let (look, ratios) = (Monitor::new(record).look_at(differences.len()), Ratios::from(&differences[..]));
    let interval = match place {
        0 => ratios.primary_interval(look, record.seed),
        _ => ratios.interval(look, MEASURES.len() - 1),
    };
    Measure {
        metric: result.metric.clone(),
        pairs: differences.len(),
        // Not the geometric means of the result: the row's difference is of these.
        a: mean(&a).unwrap_or(0.0),
        b: mean(&b).unwrap_or(0.0),
        difference: interval.map(|Interval { mid, low, high }| Difference {
            mid,
            low: low.is_finite().then_some(low),
            high: high.is_finite().then_some(high),
        }),
        call: result.call,
        change: result.effect,
    }
}

#[cfg(test)]
mod tests;
