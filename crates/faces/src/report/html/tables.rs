//! The text parts of a report: metrics, settings, remarks.

use std::collections::BTreeSet;

use crate::report::document::Trial;
use crate::report::probe_words;
use crate::report::words::{self, Tone};
use rxlab_base::number;
use rxlab_trial::outcome;
use rxlab_trial::record::{Effect, MetricResult, TrialRecord};
use rxlab_trial::spec::Kind;

use super::markup::Markup;
use super::{remarks, tone_class};

/// Column headings of the metrics table.
const FIGURES: [&str; 7] = ["Mean A", "Mean B", "Change", "Interval", "p", "Detectable", "Pairs"];

/// A table that is closed until the reader opens it.
pub(super) fn behind(m: &mut Markup, title: &str, table: impl FnOnce(&mut Markup)) {
    m.element("details", &[], |m| {
        m.leaf("summary", &[], title);
        table(m);
    });
}

/// A table that scrolls where it is too wide: its line of headings, and its rows.
fn table(m: &mut Markup, heads: impl FnOnce(&mut Markup), rows: impl FnOnce(&mut Markup)) {
    m.element("div", &[("class", "scroll"), ("tabindex", "0")], |m| {
        m.element("table", &[], |m| {
            m.element("thead", &[], |m| m.element("tr", &[], heads));
            m.element("tbody", &[], rows);
        });
    });
}

/// A table of text: the first cell of each row names it.
pub(super) fn figures(m: &mut Markup, heads: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let headings = |m: &mut Markup| heads.iter().for_each(|head| m.leaf("th", &[("scope", "col")], head));
    table(m, headings, |m| {
        for row in rows {
            m.element("tr", &[], |m| {
                for (index, (head, cell)) in heads.iter().zip(&row).enumerate() {
                    match index {
                        0 => m.sentence("th", &[("scope", "row")], cell),
                        _ => m.sentence("td", &[("data-head", head)], cell),
                    }
                }
            });
        }
    });
}

/// Names with what is known of each.
pub(super) fn terms(m: &mut Markup, rows: impl IntoIterator<Item = (&'static str, String)>) {
    m.element("dl", &[("class", "settings")], |m| {
        for (name, value) in rows {
            m.leaf("dt", &[], name);
            m.sentence("dd", &[], &value);
        }
    });
}

/// The change of every metric in every pair.
pub(super) fn ratios(m: &mut Markup, results: &[MetricResult]) {
    let measured: Vec<&MetricResult> = results.iter().filter(|result| !result.ratios.is_empty()).collect();
    let heads: Vec<&str> =
        std::iter::once("Pair").chain(measured.iter().map(|result| result.metric.title.as_str())).collect();
    let pairs: BTreeSet<usize> =
        measured.iter().flat_map(|result| &result.ratios).map(|(pair, _)| *pair).collect();
    let rows = pairs.into_iter().map(|pair| {
        let change = |result: &&MetricResult| {
            let ratio = result.ratios.iter().find(|(found, _)| *found == pair).map(|(_, ratio)| *ratio);
            let ratio = ratio.filter(|ratio| ratio.is_finite());
            ratio.map_or("\u{2013}".to_owned(), |ratio| number::change(ratio.exp_m1()))
        };
        std::iter::once((pair + 1).to_string()).chain(measured.iter().map(change)).collect()
    });
    figures(m, &heads, rows);
}

pub(super) fn checkpoints(m: &mut Markup, trial: &Trial) {
    let heads = ["Taken", "Later", "Against A", "Against B", "State", "Drifted"];
    let rows = trial.checkpoints.iter().map(|checkpoint| {
        let change = |effect: &Option<Effect>| effect.as_ref().map_or("-".to_owned(), Effect::in_words);
        vec![
            checkpoint.taken.clone(),
            words::later(&trial.record, checkpoint),
            change(&checkpoint.from_a),
            change(&checkpoint.from_b),
            words::state(checkpoint.state).to_owned(),
            checkpoint.drifted.join("; "),
        ]
    });
    figures(m, &heads, rows);
}

/// One row per metric with all its results.
pub(super) fn metrics(m: &mut Markup, results: &[MetricResult], margin: f64) {
    let headings = |m: &mut Markup| {
        m.leaf("th", &[("scope", "col")], "Metric");
        for head in FIGURES {
            m.leaf("th", &[("scope", "col"), ("class", "number")], head);
        }
        m.leaf("th", &[("scope", "col")], "Effect");
    };
    let calls = words::calls(results, margin);
    table(m, headings, |m| results.iter().zip(calls).for_each(|(result, call)| metric(m, result, call)));
}

fn metric(m: &mut Markup, result: &MetricResult, (call, tone): (&'static str, Tone)) {
    let dash = || "\u{2013}".to_owned();
    let effect = result.effect.as_ref();
    let measured = result.pairs > 0;
    let mean = |value: f64| if measured { number::value(value) } else { dash() };
    let (a, b) = outcome::means(result);
    let figures = [
        mean(a),
        mean(b),
        effect.map_or_else(dash, Effect::estimate),
        effect.map_or_else(dash, |effect| effect.interval().unwrap_or_else(|| "too early".to_owned())),
        result.p.map_or_else(dash, |p| if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }),
        result.detectable.map_or_else(dash, number::share),
        number::grouped(result.pairs as u64),
    ];
    m.element("tr", &[], |m| {
        m.element("th", &[("scope", "row")], |m| {
            m.text(&result.metric.title);
            if !result.metric.unit.is_empty() {
                m.text(" ");
                m.inline("small", &[], &result.metric.unit);
            }
        });
        // On a narrow page each figure follows its heading.
        for (head, figure) in FIGURES.iter().zip(figures) {
            m.sentence("td", &[("class", "number"), ("data-head", head)], &figure);
        }
        m.leaf("td", &[("class", tone_class(tone)), ("data-head", "Effect")], call);
    });
}

/// Everything needed to repeat the trial.
pub(super) fn settings(m: &mut Markup, record: &TrialRecord) {
    let host = &record.host;
    let probe = probe_words::of_record(record).map(|words| ("Probe", words));
    let planned = record.planned.as_ref().map(|planned| ("Planned", words::planned(planned, record.margin)));
    let checks = words::checks(record).into_iter().map(|words| ("Check", words));
    let rows = [
        ("Host", format!("{}, {}", host.hostname, number::plural(record.cpus, "CPU"))),
        ("Kernel", host.kernel.clone()),
        ("Workload", record.workload.clone()),
        ("Started", record.started.clone()),
        match record.design {
            Kind::BeforeAfter => ("Design", "before and after, not randomised".to_owned()),
            _ => ("Seed", record.seed.to_string()),
        },
        ("Washout", format!("{} s before each slot", record.washout_s)),
        ("Measured", format!("{} s in each slot", record.measure_s)),
        ("Margin", format!("\u{b1}{}", number::share(record.margin))),
        match record.design {
            Kind::BeforeAfter => ("Slots of each arm", number::grouped(record.max_pairs as u64)),
            _ => ("Pairs allowed", number::grouped(record.max_pairs as u64)),
        },
        ("Calibration", words::calibration(record)),
        ("Trial", record.id.clone()),
        ("rxlab", record.version.clone()),
    ];
    let adjusted = words::adjustments(record).into_iter().map(|words| ("Adjusted", words));
    let queries = words::queries(record).into_iter().map(|words| ("Query", words));
    terms(m, rows.into_iter().chain(planned).chain(probe).chain(checks).chain(queries).chain(adjusted));
}

/// Notes, then void slots with their reasons; nothing if there are none.
pub(super) fn notes(m: &mut Markup, record: &TrialRecord) {
    let notes: Vec<&String> = record.analysis.iter().flat_map(|analysis| &analysis.notes).collect();
    remarks(m, "Notes", &notes);
    let voids: Vec<String> = record
        .slots
        .iter()
        .filter_map(|slot| {
            let reason = slot.void.as_ref()?;
            Some(format!("pair {}, arm {:?} at {:.0} s: {reason}", slot.pair + 1, slot.arm, slot.start_s))
        })
        .collect();
    remarks(m, "Void slots", &voids);
}
