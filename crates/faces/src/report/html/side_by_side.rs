//! Several trials side by side: the change of each metric in each trial, on one axis per metric.

use super::markup::{Markup, typeset};
use super::{effects, figure, tables};
use crate::report::words;
use rxlab_base::number;
use rxlab_trial::record::{Metric, TrialRecord};

/// Metrics with a chart; the articles have all.
const METRICS: usize = 6;

/// The section; `trials` has at least two.
pub(super) fn section(m: &mut Markup, trials: &[&TrialRecord]) {
    let metrics = shared(trials);
    m.element("section", &[("class", "side"), ("aria-label", "Side by side")], |m| {
        m.leaf("h2", &[], "Side by side");
        let heads = ["Trial", "Host", "Kernel", "Change", "Verdict"];
        let rows = trials.iter().map(|record| {
            vec![
                record.name.clone(),
                record.host.hostname.clone(),
                record.host.kernel.clone(),
                record.change.join("; "),
                words::headline(record).to_owned(),
            ]
        });
        tables::figures(m, &heads, rows);
        for metric in metrics.iter().take(METRICS) {
            let rows: Vec<effects::Row<'_>> = trials
                .iter()
                .filter_map(|record| effects::Row::of_trial(record, metric, arms(record)))
                .collect();
            let margin = trials.iter().map(|record| record.margin).fold(0.0, f64::max);
            let caption = format!("Change from A to B; the shaded band is \u{b1}{}.", number::share(margin));
            figure(m, &metric.title, &typeset(&caption), |m| effects::rows(m, &rows, margin));
        }
    });
}

/// Metrics that at least two trials have, in the order of the first trial that has them.
fn shared<'a>(trials: &[&'a TrialRecord]) -> Vec<&'a Metric> {
    let mut found: Vec<(&Metric, usize)> = Vec::new();
    for metric in trials.iter().flat_map(|record| &record.metrics) {
        match found.iter_mut().find(|(known, _)| known.name == metric.name) {
            Some((_, count)) => *count += 1,
            None => found.push((metric, 1)),
        }
    }
    found.into_iter().filter(|(_, count)| *count > 1).map(|(metric, _)| metric).collect()
}

fn arms(record: &TrialRecord) -> String {
    format!("{}, {}", record.host.hostname, number::plural(record.cpus, "CPU"))
}
