//! Trials as rows that change while they run.

use rxlab_trial::effect::Effect;
use serde::Serialize;

use super::{blocks_text, words};
use rxlab_trial::analysis::analyse;
use rxlab_trial::blocks::BlocksRecord;
use rxlab_trial::record::{Better, MetricResult, TrialRecord};

/// A trial, finished or not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrialRow {
    pub id: String,
    /// The verdict in a few words.
    pub headline: &'static str,
    /// Progress in one line.
    pub progress: String,
    /// The margin: smaller changes do not count (0.03 = 3 %).
    pub margin: f64,
    /// The metrics, the primary first; none for trials in blocks.
    pub metrics: Vec<MetricRow>,
}

/// The change of a metric from arm A to arm B, as a fraction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricRow {
    pub title: String,
    /// The better direction of its values.
    pub better: Better,
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
    pub fn of_pairs(record: &TrialRecord) -> Self {
        let analysis = record.analysis.clone().unwrap_or_else(|| analyse(record));
        let progress = match record.analysis {
            Some(_) => format!("{} pairs, started {}", analysis.pairs, record.started),
            None if analysis.pairs == 0 => format!("calibrating, started {}", record.started),
            None => format!(
                "{} of at most {} pairs, started {}",
                analysis.pairs, record.max_pairs, record.started
            ),
        };
        let metrics = analysis.metrics.iter().map(metric).collect();
        Self {
            id: record.id.clone(),
            headline: words::headline(record),
            progress,
            margin: record.margin,
            metrics,
        }
    }

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
        better: result.metric.better,
        text: effect.map_or_else(|| "not yet known".to_owned(), Effect::in_words),
        mid: effect.map(|effect| effect.mid),
        low: effect.filter(|effect| effect.has_low()).map(|effect| effect.low),
        high: effect.map(|effect| effect.high).filter(|high| high.is_finite()),
    }
}

#[cfg(test)]
mod tests {
    use super::TrialRow;
    use rxlab_trial::sample_record;

    #[test]
    fn a_trial_that_runs_shows_its_intervals_so_far() {
        let ended = sample_record::rps();
        let mut runs = ended.clone();
        runs.analysis = None;
        runs.slots.truncate(2 * 6 + 2 * 16);
        let [ended, runs] = [&ended, &runs].map(TrialRow::of_pairs);
        assert!(ended.progress.starts_with("21 pairs"), "{}", ended.progress);
        assert!(runs.progress.contains("of at most"), "{}", runs.progress);
        let widths = [&runs, &ended].map(|row| {
            let primary = &row.metrics[0];
            primary.high.expect("bounded") - primary.low.expect("bounded")
        });
        assert!(widths[0] > widths[1], "more pairs narrow the interval: {widths:?}");
    }

    #[test]
    fn a_trial_without_a_pair_says_that_it_calibrates() {
        let mut begun = sample_record::rps();
        (begun.analysis, begun.slots) = (None, Vec::new());
        let row = TrialRow::of_pairs(&begun);
        assert!(row.progress.starts_with("calibrating"), "{}", row.progress);
        assert!(row.metrics.iter().all(|metric| metric.mid.is_none() && metric.text == "not yet known"));
    }
}
