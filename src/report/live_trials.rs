//! Trials as rows that change while they run.

use serde::Serialize;

use super::{blocks_text, number, words};
use crate::trial::analysis::analyse;
use crate::trial::blocks::BlocksRecord;
use crate::trial::record::{MetricResult, Phase, TrialRecord};

/// A trial, finished or not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrialRow {
    /// Its id.
    pub id: String,
    /// The verdict in a few words.
    pub headline: &'static str,
    /// What was done so far, in a line.
    pub progress: String,
    /// The margin: smaller changes do not count (0.03 = 3 %).
    pub margin: f64,
    /// The metrics, the primary first; none for trials in blocks.
    pub metrics: Vec<MetricRow>,
}

/// The change of a metric from arm A to arm B, as a fraction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricRow {
    /// What is measured.
    pub title: String,
    /// The change and its interval in words.
    pub text: String,
    /// The estimate; `None` if there is none yet.
    pub mid: Option<f64>,
    /// Lower end; `None` = no bound yet.
    pub low: Option<f64>,
    /// Upper end; `None` = no bound yet.
    pub high: Option<f64>,
}

impl TrialRow {
    /// A trial in pairs.
    pub fn of_pairs(record: &TrialRecord) -> Self {
        let so_far;
        let analysis = match &record.analysis {
            Some(analysis) => analysis,
            None => {
                so_far = analyse(record);
                &so_far
            }
        };
        let progress = match record.analysis {
            Some(_) => format!("{} pairs, started {}", analysis.pairs, record.started),
            None if analysis.pairs == 0 => format!("calibrating, started {}", record.started),
            None => format!(
                "{} of at most {} pairs, started {}",
                analysis.pairs, record.max_pairs, record.started
            ),
        };
        let is_measured = record.slots.iter().any(|slot| slot.phase == Phase::Comparison);
        let metrics = analysis.metrics.iter().filter(|_| is_measured).map(metric).collect();
        Self {
            id: record.id.clone(),
            headline: words::headline(record),
            progress,
            margin: record.margin,
            metrics,
        }
    }

    /// A trial in blocks.
    pub fn of_blocks(record: &BlocksRecord) -> Self {
        Self {
            id: record.id.clone(),
            headline: blocks_text::headline(record),
            progress: format!("{} slots, started {}", record.slots.len(), record.started),
            margin: record.margin,
            metrics: Vec::new(),
        }
    }
}

fn metric(result: &MetricResult) -> MetricRow {
    let effect = result.effect.as_ref().filter(|effect| effect.mid.is_finite());
    MetricRow {
        title: result.metric.title.clone(),
        text: effect.map_or_else(|| "not known yet".to_owned(), number::effect),
        mid: effect.map(|effect| effect.mid),
        low: effect.filter(|effect| number::has_low(effect)).map(|effect| effect.low),
        high: effect.map(|effect| effect.high).filter(|high| high.is_finite()),
    }
}
