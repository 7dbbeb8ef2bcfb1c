//! Trial records as one self-contained HTML file: no network, no script, no font.
//!
//! All drawings are inline SVG. Colours come from the style sheet, light or dark as the reader prefers; colour is
//! never the only sign.

mod axis;
mod effects;
mod grid;
mod heatmap;
mod markup;
mod pairs;
mod tables;

use markup::{Markup, typeset};

use super::action::heading;
use super::recommendation::Recommendation;
use super::words::{self, Tone};
use crate::trial::arms::{AS_IS, arms};
use crate::trial::checkpoint::Checkpoint;
use crate::trial::record::TrialRecord;
use crate::trial::spec::Kind;

/// Maximum number of cells of all heatmaps of one file; bounds the size of the file.
const CELLS: usize = 40_000;

/// How trials in pairs are judged.
const METHOD: &str = "Each pair is two neighbouring slots, one with arm A and one with arm B, in an order drawn from \
    the seed. Intervals allow for looking early. An interval wholly inside the margin means no measurable effect, or a \
    negligible one when it excludes 0.";

/// How comparisons before and after are to be read.
const BEFORE_AFTER: &str = "All slots with arm A came first, then those with arm B. Nothing was randomised, so whatever \
    else changed in between is in the differences: they prove nothing about the change. The intervals take the slots for \
    independent.";

/// A finding from before the trials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The finding in one line.
    pub title: String,
    /// Its evidence, one line per figure.
    pub evidence: Vec<String>,
}

/// Content of a page.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// Heading of the page and title of the browser window.
    pub title: &'a str,
    /// Findings; may be empty.
    pub observations: &'a [Observation],
    /// The trials, in the order of the report.
    pub trials: &'a [TrialRecord],
    /// Checkpoints of the trials, in the order in which they were taken.
    pub checkpoints: &'a [Checkpoint],
    /// Start of suggested commands: `rxlab` with its global options. `None` = no commands, because the machine they
    /// would act on is gone.
    pub program: Option<&'a str>,
}

/// The whole file.
pub fn render(page: &Page<'_>) -> String {
    let mut m = Markup::default();
    m.fixed("<!DOCTYPE html>\n");
    m.element("html", &[("lang", "en")], |m| {
        m.element("head", &[], |m| {
            m.empty("meta", &[("charset", "utf-8")]);
            m.empty("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
            m.empty("meta", &[("name", "color-scheme"), ("content", "light dark")]);
            m.leaf("title", &[], page.title);
            m.element("style", &[], |m| m.fixed(include_str!("html/page.css")));
        });
        m.element("body", &[], |m| m.element("main", &[], |m| body(m, page)));
    });
    m.finish()
}

fn body(m: &mut Markup, page: &Page<'_>) {
    m.element("header", &[], |m| {
        m.leaf("h1", &[], page.title);
        if let Some(first) = page.trials.first() {
            let host = &first.host;
            let cpus = words::count(first.cpus, "CPU");
            let line = format!(
                "{} \u{b7} Linux {} \u{b7} {cpus} \u{b7} {}",
                host.hostname, host.kernel, first.started
            );
            m.leaf("p", &[("class", "where")], &line);
        }
    });
    m.element("section", &[("class", "verdicts"), ("aria-label", "Verdicts")], |m| {
        for (index, record) in page.trials.iter().enumerate() {
            verdict(m, index, record, page.program);
        }
    });
    glossary(m);
    if !page.observations.is_empty() {
        m.element("section", &[("class", "observations")], |m| {
            m.leaf("h2", &[], "What was found");
            for observation in page.observations {
                m.leaf("h3", &[], &typeset(&observation.title));
                m.element("ul", &[], |m| {
                    observation.evidence.iter().for_each(|line| m.leaf("li", &[], &typeset(line)));
                });
            }
        });
    }
    let cells = CELLS / page.trials.len().max(1);
    for (index, record) in page.trials.iter().enumerate() {
        let later: Vec<&Checkpoint> =
            page.checkpoints.iter().filter(|checkpoint| checkpoint.trial == record.id).collect();
        trial(m, index, record, &later, cells);
    }
    m.element("footer", &[], |m| {
        let is_random = page.trials.iter().all(|record| record.design == Kind::Pairs);
        m.leaf("p", &[], if is_random { METHOD } else { BEFORE_AFTER });
    });
}

/// The verdict of a trial.
fn verdict(m: &mut Markup, index: usize, record: &TrialRecord, program: Option<&str>) {
    let tone = words::tone(record);
    m.element("div", &[("class", &format!("verdict {}", tone_class(tone)))], |m| {
        m.element("p", &[("class", "badge")], |m| {
            m.inline("span", &[("aria-hidden", "true")], glyph(tone));
            m.text(" ");
            m.inline("a", &[("href", &format!("#trial-{index}"))], &record.name);
            m.text(": ");
            m.text(words::headline(record));
        });
        m.leaf("p", &[("class", "sentence")], &typeset(&words::sentence(record)));
        recommendation(m, record, program);
        if let Some(both) = super::predicted::compare(record) {
            let lines = format!("Predicted: {}. Measured: {}.", both.predicted, both.measured);
            m.leaf("p", &[("class", "basis")], &typeset(&lines));
        }
        m.leaf("p", &[("class", "basis")], &typeset(&words::basis(record)));
    });
}

/// The recommendation and its command.
fn recommendation(m: &mut Markup, record: &TrialRecord, program: Option<&str>) {
    let recommended = Recommendation::new(record, program.unwrap_or("rxlab"));
    m.element("p", &[("class", "recommended")], |m| {
        m.inline("strong", &[], "Recommended: ");
        m.text(&typeset(&recommended.sentence()));
    });
    if let Some(command) = recommended.command.filter(|_| program.is_some()) {
        m.element("pre", &[], |m| m.inline("code", &[], &command));
    }
}

/// Terms of the report that a reader may not know.
const GLOSSARY: [(&str, &str); 8] = [
    ("Arm", "One of the two states that are compared: A is the machine as it was, B has the change."),
    ("Slot, pair", "A slot is a few seconds in one arm. A pair is two neighbouring slots, one of each arm."),
    ("Interval", "The range in brackets, such as [+2, +38]: the true change lies in it in 19 of 20 trials."),
    ("Margin", "Changes smaller than this do not matter."),
    (
        "Softirq, NET_RX",
        "The part of the kernel that receives packets. Its time is lost to programs on that CPU.",
    ),
    ("Hottest CPU", "The CPU that spends most of its time on this. When it is full, packets are lost."),
    ("RPS", "Receive packet steering: one CPU takes packets off the queue and hands them to other CPUs."),
    ("RFS", "Receive flow steering: packets are handed to the CPU on which their program runs."),
];

fn glossary(m: &mut Markup) {
    m.element("section", &[("class", "glossary"), ("aria-label", "Terms")], |m| {
        m.element("dl", &[], |m| {
            for (term, meaning) in GLOSSARY {
                m.element("div", &[], |m| {
                    m.leaf("dt", &[], term);
                    m.leaf("dd", &[], &typeset(meaning));
                });
            }
        });
    });
}

fn trial(m: &mut Markup, index: usize, record: &TrialRecord, later: &[&Checkpoint], cells: usize) {
    m.element("article", &[("id", &format!("trial-{index}"))], |m| {
        m.leaf("h2", &[], &heading(record));
        m.leaf("p", &[("class", "basis")], &format!("Trial {}", record.name));
        m.element("dl", &[("class", "arms")], |m| {
            m.leaf("dt", &[("class", "a")], "A");
            let [a, b] = arms(record);
            match a.as_slice() {
                [words] if words == AS_IS => m.leaf("dd", &[], words),
                lines => m.element("dd", &[], |m| lines.iter().for_each(|line| m.leaf("code", &[], line))),
            }
            m.leaf("dt", &[("class", "b")], "B");
            m.element("dd", &[], |m| b.iter().for_each(|line| m.leaf("code", &[], line)));
        });
        let results = record.analysis.as_ref().map_or(&[][..], |analysis| &analysis.metrics);
        if !results.is_empty() {
            let margin = super::number::share(record.margin);
            let caption = format!("Change from A to B. Bars are intervals; the shaded band is the margin of \u{b1}{margin}.");
            figure(m, "Effects", &caption, |m| effects::plot(m, results, record.margin));
        }
        if !later.is_empty() {
            let primary = record.metrics.first().map_or("the primary metric", |primary| &primary.title);
            let caption = format!(
                "Change of {primary} from arm A in the trial. Checkpoints are not randomised: other traffic is in them too."
            );
            figure(m, "Checkpoints", &caption, |m| effects::timeline(m, record, later));
        }
        let is_paired = record.design == Kind::Pairs;
        if is_paired && results.iter().any(|result| !result.ratios.is_empty()) {
            let caption = "B against A in each pair, in time order. Line and tint: estimate and interval; \u{d7}: void pair.";
            figure(m, "Pairs", caption, |m| pairs::panels(m, record, results));
        }
        figure(m, "Receive work by CPU", "Each column is a slot, in time order.", |m| {
            heatmap::plot(m, record, cells);
        });
        if !results.is_empty() {
            m.leaf("h3", &[], "Metrics");
            tables::metrics(m, results);
        }
        m.element("div", &[("class", "columns")], |m| {
            m.element("section", &[], |m| {
                m.leaf("h3", &[], "Settings");
                tables::settings(m, record);
            });
            m.element("section", &[], |m| tables::remarks(m, record));
        });
    });
}

fn figure(m: &mut Markup, title: &str, caption: &str, body: impl FnOnce(&mut Markup)) {
    m.element("figure", &[], |m| {
        m.element("figcaption", &[], |m| {
            m.leaf("h3", &[], title);
            m.leaf("p", &[], &typeset(caption));
        });
        body(m);
    });
}

fn tone_class(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Neutral => "neutral",
        Tone::Caution => "caution",
    }
}

fn glyph(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "\u{25cf}",
        Tone::Bad => "\u{25c6}",
        Tone::Neutral => "\u{25cb}",
        Tone::Caution => "\u{25b3}",
    }
}

#[cfg(test)]
mod tests {
    use super::{Observation, Page, render};
    use crate::report::sample_record;
    use crate::trial::checkpoint::Checkpoint;
    use crate::trial::record::{Arm, Effect, TrialRecord};

    fn page(trials: &[TrialRecord]) -> String {
        let observations = [Observation {
            title: "One CPU does nearly all receive work".into(),
            evidence: vec![
                "CPU 0 ran 99.5 % of NET_RX (820 k/s) and is 1 of 2 CPUs".into(),
                "veth0 has one receive queue and RPS is off".into(),
            ],
        }];
        render(&Page {
            title: "Practice range: receive work on one CPU",
            observations: &observations,
            trials,
            checkpoints: &[],
            program: Some("rxlab"),
        })
    }

    #[test]
    fn checks_and_queries_are_shown() {
        let mut record = sample_record::rps();
        record.checks = vec![toml::from_str("name = 'front'\nurl = 'http://10.0.0.1/'").expect("a check")];
        record.queries = vec![
            toml::from_str("name = 'lag'\nprometheus = 'http://h:9090'\nexpr = 'max(lag)'").expect("a query"),
        ];
        for (slot, arm) in record.slots.iter_mut().zip([Arm::A, Arm::B, Arm::B]) {
            slot.arm = arm;
            let values = [("check.front.requests", 10.0), ("check.front.failed", 20.0), ("query.lag", 3.0)];
            slot.values.extend(values.map(|(name, value)| (name.to_owned(), value)));
        }
        record.slots[2].values.remove("query.lag");
        record.slots[2].absent.insert("query.lag".to_owned(), "no sample".to_owned());
        let page = page(&[record]);
        let check = "front, http://10.0.0.1:80/ every 200ms; failed: 2 of 10 in A, 4 of 20 in B";
        let query = "lag, `max(lag)`: mean 3.00 in A, 3.00 in B; missing in 1 slot: no sample";
        for row in [format!("<dd>{check}"), format!("<dd>{query}")] {
            assert!(page.replace('\u{a0}', " ").contains(&row), "{row}");
        }
    }

    #[test]
    fn the_whole_page() {
        insta::assert_snapshot!(page(&[sample_record::rps(), sample_record::rfs()]));
    }

    #[test]
    fn checkpoints_stand_in_a_row_after_the_trial() {
        let record = sample_record::rps();
        let at = |taken: &str, state: &str, mid: f64| -> Checkpoint {
            serde_json::from_value(serde_json::json!({
                "schema": Checkpoint::SCHEMA, "trial": record.id, "taken": taken, "drifted": [], "values": [],
                "from_a": { "mid": mid, "low": mid - 0.1, "high": mid + 0.1 }, "from_b": null, "state": state,
            }))
            .expect("a checkpoint")
        };
        let start: jiff::Timestamp = record.started.parse().expect("a time");
        let after = |hours: i64| (start + jiff::SignedDuration::from_hours(hours)).to_string();
        let other = Checkpoint { trial: "0009-other".to_owned(), ..at(&after(3), "unclear", 0.0) };
        let checkpoints = [at(&after(1), "holds", -0.4), other, at(&after(24), "gone", 0.01)];
        let trials = [record];
        let page =
            Page { title: "T", observations: &[], trials: &trials, checkpoints: &checkpoints, program: None };
        let html = render(&page);
        let figure =
            &html[html.find(">Checkpoints<").expect("a figure")..html.find(">Pairs<").expect("the next")];
        let places =
            ["In the trial", "60 min later", "the effect holds", "24.0 h later", "the effect is gone"];
        let found: Vec<usize> = places
            .iter()
            .map(|text| figure.find(text).unwrap_or_else(|| panic!("{text}: {figure}")))
            .collect();
        assert!(found.is_sorted() && !figure.contains("3.0 h later"), "{found:?}");
        assert!(!super::tests::page(&trials).contains("Checkpoints"));
    }

    /// Regression: both commands of a pair were shown under B, with A as an unchanged machine.
    #[test]
    fn each_arm_has_its_own_command() {
        let mut record = sample_record::rps();
        record.against = vec!["rps veth0/rx-0 = 0".into()];
        record.change.clear();
        let html = page(&[record]);
        assert!(html.contains("<code>rps veth0/rx-0 = 0</code>"), "arm A");
        assert!(html.contains("the machine as it was</code>") && !html.contains(">A: rps"), "arm B");
    }

    #[test]
    fn nothing_is_fetched_and_names_are_escaped() {
        let mut record = sample_record::rps();
        let nasty = "<script>alert(1)</script>\" onload=\"x";
        record.name = nasty.into();
        record.host.hostname = nasty.into();
        record.change.push(nasty.into());
        record.slots[20].void = Some(nasty.into());
        let analysis = record.analysis.as_mut().expect("an analysis");
        analysis.metrics[0].metric.title = nasty.into();
        analysis.notes.push(nasty.into());
        let html = page(&[record]);
        for banned in ["<script", "\" onload", "http://", "https://", "src=", "url(", "@import"] {
            assert!(!html.contains(banned), "{banned}");
        }
        assert!(html.contains("&lt;script&gt;"));
    }

    #[test]
    fn a_large_record_stays_small() {
        let mut noisy = sample_record::wide();
        for (index, slot) in noisy.slots.iter_mut().enumerate() {
            // All neighbours differ: the worst case for the size of the map.
            slot.net_rx.iter_mut().for_each(|(cpu, rate)| *rate = ((cpu.0 as usize + 3 * index) % 7) as f64);
        }
        let worst = page(&[noisy.clone(), noisy]);
        assert!(worst.len() < 1_000_000, "{} bytes", worst.len());
        let html = page(&[sample_record::wide()]);
        assert!(html.len() < 1_000_000, "{} bytes", html.len());
        assert!(html.contains(">120<"), "the last CPUs have a label");
    }

    #[test]
    fn odd_records_render_without_nan_or_infinity() {
        let mut odd = sample_record::rfs();
        let analysis = odd.analysis.as_mut().expect("an analysis");
        analysis.metrics[0].effect = Some(Effect { mid: 0.02, low: -1.0, high: f64::INFINITY });
        analysis.metrics[1].effect = None;
        analysis.metrics[1].ratios.clear();
        analysis.metrics[2].ratios[0].1 = f64::NAN;
        analysis.metrics[3].effect = Some(Effect { mid: 30.0, low: 12.0, high: 80.0 });
        analysis.metrics[4].effect = Some(Effect { mid: f64::NAN, low: f64::NAN, high: f64::NAN });
        let killed = TrialRecord { analysis: None, slots: Vec::new(), ..sample_record::rps() };
        let html = page(&[odd, killed]);
        for wrong in ["NaN", "inf%", "\"inf", "\"-"] {
            assert!(!html.contains(wrong), "{wrong}: {}", &html[html.find(wrong).unwrap_or(0)..][..80]);
        }
        assert!(html.contains("no bound yet") && html.contains("no verdict yet"));
    }
}
