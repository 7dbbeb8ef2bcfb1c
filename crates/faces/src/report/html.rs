//! A report as one self-contained HTML file: no network, no script that runs, no font.
//!
//! All drawings are inline SVG, each with its figures in a table. Colours come from the style sheet, light or dark as
//! the reader prefers; colour is never the only sign. The page holds its own records as data.

mod axis;
mod bars;
mod course;
mod doctor;
mod effects;
mod fleet;
mod grid;
mod heatmap;
mod lanes;
mod latency;
mod load;
mod lost;
mod markup;
mod pairs;
mod path;
mod phases;
mod side_by_side;
mod tables;
mod trial;

pub use fleet::fleet_page;
pub use lanes::picture;
pub use load::load_page;
use markup::{Markup, typeset};
use rxlab_advise::doctor::DoctorReport;
use rxlab_base::number;

use super::document::{Document, Part};
use super::findings::Answer;
use super::summary::{Summary, machine};
use super::words::{self, Tone};
use super::{blocks_text, compare, heat, status, trace};
use rxlab_trial::recommendation::Recommendation;
use rxlab_trial::record::TrialRecord;
use rxlab_trial::spec::Kind;

/// Maximum number of cells of all heatmaps of one file; bounds the size of the file.
const CELLS: usize = 40_000;

/// Explains the judgement of trials in pairs.
const METHOD: &str = "Each pair is two neighbouring slots, one with arm A and one with arm B, in an order drawn from \
    the seed. Intervals allow for looking early. An interval wholly inside the margin means no measurable effect, or a \
    negligible one when it excludes 0.";

/// Explains comparisons before and after.
const BEFORE_AFTER: &str = "All slots with arm A came first, then those with arm B. Nothing was randomised, so whatever \
    else changed in between is part of the differences: they prove nothing about the change. The intervals allow for \
    slots that depend on the ones before them, not for that.";

/// The whole file. `program` is the start of suggested commands: `rxlab` with its global options; `None` = no commands,
/// because the machine they would act on is gone.
pub fn render(document: &Document, program: Option<&str>) -> String {
    let title = title(document);
    page(&title, |m| {
        m.element("main", &[], |m| body(m, document, program, &title));
        m.data(document);
    })
}

/// A file with this title and this content of its `body`.
fn page(title: &str, body: impl FnOnce(&mut Markup)) -> String {
    let mut m = Markup::default();
    m.fixed("<!DOCTYPE html>\n");
    m.element("html", &[("lang", "en")], |m| {
        m.element("head", &[], |m| {
            m.empty("meta", &[("charset", "utf-8")]);
            // The page needs nothing from outside, and no script.
            let policy = "default-src 'none'; style-src 'unsafe-inline'";
            m.empty("meta", &[("http-equiv", "Content-Security-Policy"), ("content", policy)]);
            m.empty("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
            m.empty("meta", &[("name", "color-scheme"), ("content", "light dark")]);
            m.leaf("title", &[], title);
            m.element("style", &[], |m| {
                m.fixed(heat::CSS);
                m.fixed(include_str!("html/page.css"));
            });
        });
        m.element("body", &[], body);
    });
    m.finish()
}

/// Title of a document: its own, the names of several trials, or the heading of its first part.
pub fn title(document: &Document) -> String {
    let names: Vec<&str> = document.trials().map(|trial| trial.record.name.as_str()).collect();
    if document.title.is_none() && names.len() > 1 && names.len() == document.parts.len() {
        return format!("Trials {}", names.join(", "));
    }
    let first = || document.parts.first().map(|part| Summary::new(part).heading);
    document.title.clone().or_else(first).unwrap_or_else(|| "rxlab report".to_owned())
}

/// Machine and time of a document, in one line; `None` if no part names a machine.
pub fn place(document: &Document) -> Option<String> {
    let host = document.parts.iter().find_map(machine)?;
    let mut parts = vec![host.hostname.clone(), format!("Linux {}", host.kernel)];
    if let Some(trial) = document.trials().next() {
        parts.extend([number::plural(trial.record.cpus, "CPU"), trial.record.started.clone()]);
    } else if let Some(report) = document.parts.iter().find_map(doctors) {
        parts.extend(report.taken.clone());
    }
    Some(parts.join(", "))
}

fn doctors(part: &Part) -> Option<&DoctorReport> {
    match part {
        Part::Doctor(report) => Some(report),
        _ => None,
    }
}

fn body(m: &mut Markup, document: &Document, program: Option<&str>, title: &str) {
    m.element("header", &[], |m| {
        m.leaf("h1", &[], title);
        place(document).iter().for_each(|line| m.leaf("p", &[("class", "where")], line));
    });
    m.element("section", &[("class", "verdicts"), ("aria-label", "Verdicts")], |m| {
        for (index, part) in document.parts.iter().enumerate() {
            verdict(m, index, part, program);
        }
    });
    let trials: Vec<&TrialRecord> = document.trials().map(|trial| &trial.record).collect();
    if trials.len() > 1 {
        side_by_side::section(m, &trials);
    }
    phases::section(m, &document.trials().collect::<Vec<_>>());
    let cells = CELLS / trials.len().max(1);
    for (index, part) in document.parts.iter().enumerate() {
        m.element("article", &[("id", &format!("part-{index}"))], |m| {
            // The title of a page with one trial is that heading already.
            let heading = match part {
                Part::Trial(_) if document.parts.len() == 1 => "The trial".to_owned(),
                part => Summary::new(part).heading,
            };
            m.leaf("h2", &[], &typeset(&heading));
            match part {
                Part::Trial(trial) => trial::article(m, trial, cells, program),
                Part::Doctor(report) => doctor::article(m, report, program),
                Part::Interference(sample) => lost::article(m, sample),
                Part::Blocks(record) => screen(m, &blocks_text::render(record)),
                Part::Comparison(comparison) => screen(m, &compare::text(comparison)),
                Part::Trace(found) => screen(m, &trace::text(found)),
                Part::Tune(tuning) => course::article(m, tuning, document),
                Part::Status(report) => screen(m, &status::all(&report.transactions)),
            }
        });
    }
    glossary(m);
    if !trials.is_empty() {
        m.element("footer", &[], |m| {
            let is_random = trials.iter().all(|record| record.design != Kind::BeforeAfter);
            m.leaf("p", &[], if is_random { METHOD } else { BEFORE_AFTER });
        });
    }
}

/// The result of a part, and for a trial what to do about it.
fn verdict(m: &mut Markup, index: usize, part: &Part, program: Option<&str>) {
    let summary = Summary::new(part);
    m.element("div", &[("class", &format!("verdict {}", tone_class(summary.tone)))], |m| {
        m.element("p", &[("class", "badge")], |m| {
            m.inline("span", &[("aria-hidden", "true")], glyph(summary.tone));
            m.text(" ");
            m.inline("a", &[("href", &format!("#part-{index}"))], &summary.name);
            m.text(": ");
            m.text(&summary.call);
        });
        m.sentence("p", &[("class", "sentence")], &summary.sentence);
        if let Part::Doctor(report) = part {
            bars::cpus(m, &Answer::new(report));
        }
        let Part::Trial(trial) = part else { return };
        bars::means(m, &trial.record);
        let means = Some(words::before_and_after(&trial.record).join(", ")).filter(|means| !means.is_empty());
        let price = words::price(&trial.record).map(|price| format!("price: {price}"));
        for line in means.into_iter().chain(price) {
            m.sentence("p", &[("class", "basis")], &number::capitalized(&line));
        }
        recommendation(m, &trial.record, program);
        if let Some(both) = super::predicted::compare(&trial.record) {
            let lines = format!("Predicted: {}. Measured: {}.", both.predicted, both.measured);
            m.sentence("p", &[("class", "basis")], &lines);
        }
        m.sentence("p", &[("class", "basis")], &words::basis(&trial.record));
    });
}

fn recommendation(m: &mut Markup, record: &TrialRecord, program: Option<&str>) {
    let recommended = Recommendation::new(record, program.unwrap_or("rxlab"));
    m.element("p", &[("class", "recommended")], |m| {
        m.inline("strong", &[], "Recommended: ");
        m.prose(&recommended.sentence());
    });
    if program.is_none() {
        return;
    }
    recommended.command.iter().for_each(|command| commands(m, std::slice::from_ref(command)));
    if let Some(keep) = recommended.in_spite {
        m.element("p", &[], |m| m.prose("To keep it all the same:"));
        commands(m, &[keep]);
    }
}

fn commands(m: &mut Markup, lines: &[String]) {
    m.element("pre", &[], |m| m.inline("code", &[], &lines.join("\n")));
}

/// A record as a terminal shows it.
fn screen(m: &mut Markup, text: &str) {
    m.element("pre", &[("class", "screen"), ("tabindex", "0")], |m| {
        m.inline("code", &[], &anstream::adapter::strip_str(text).to_string())
    });
}

/// Terms of the report that a reader may not know.
const GLOSSARY: [(&str, &str); 8] = [
    ("Arm", "One of the two states that are compared: A is the machine as it was, B has the change."),
    (
        "Slot, pair",
        "A slot is a short stretch of time in one arm. A pair is two neighbouring slots, one of each arm.",
    ),
    (
        "Interval",
        "The range in brackets, such as [+2, +38]: the true change lies in it in at least 19 of 20 trials.",
    ),
    ("Margin", "Changes smaller than this do not matter."),
    (
        "Softirq, NET_RX",
        "The part of the kernel that receives packets. Programs on that CPU lose the time that it takes.",
    ),
    (
        "Hottest CPU",
        "The CPU that spends the largest part of its time on this. When it is full, packets may be lost.",
    ),
    ("RPS", "Receive packet steering: one CPU takes packets off the queue and hands them to other CPUs."),
    ("RFS", "Receive flow steering: packets are handed to the CPU on which their program last read."),
];

fn glossary(m: &mut Markup) {
    m.element("section", &[("class", "glossary"), ("aria-label", "Terms")], |m| {
        m.element("dl", &[], |m| {
            for (term, meaning) in GLOSSARY {
                m.element("div", &[], |m| {
                    m.leaf("dt", &[], term);
                    m.sentence("dd", &[], meaning);
                });
            }
        });
    });
}

/// A chart under its title.
fn figure(m: &mut Markup, title: &str, caption: &str, body: impl FnOnce(&mut Markup)) {
    m.element("figure", &[], |m| {
        m.element("figcaption", &[], |m| {
            m.leaf("h3", &[], title);
            m.sentence("p", &[], caption);
        });
        body(m);
    });
}

/// Remarks under a heading; nothing without any.
fn remarks(m: &mut Markup, heading: &str, remarks: &[impl AsRef<str>]) {
    if !remarks.is_empty() {
        m.leaf("h3", &[], heading);
        m.element("ul", &[], |m| {
            remarks.iter().for_each(|remark| m.sentence("li", &[], remark.as_ref()));
        });
    }
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
    use super::{fleet_page, render};
    use crate::report::document::{DATA, DATA_END, Document, Part, Trial};
    use crate::report::fleet::Fleet;
    use crate::report::heat;
    use crate::report::{sample_compare, sample_fleet, sample_interference, sample_trace};
    use rxlab_advise::doctor::diagnosed;
    use rxlab_path::sketch::Sketch;
    use rxlab_stats::design::Arm;
    use rxlab_trial::checkpoint::{Checkpoint, State};
    use rxlab_trial::record::{Effect, TrialRecord};
    use rxlab_trial::sample_record;

    fn document(trials: &[TrialRecord]) -> Document {
        let trials = trials.iter().map(|record| Part::Trial(Box::new(Trial::new(record.clone()))));
        Document::new(trials.collect())
    }

    fn shown(document: &Document) -> String {
        render(document, Some("rxlab"))
    }

    fn page(trials: &[TrialRecord]) -> String {
        shown(&document(trials))
    }

    /// The page without its data.
    fn visible(html: &str) -> String {
        let (before, rest) = html.split_once(DATA).expect("data");
        let (_, after) = rest.split_once(DATA_END).expect("its end");
        format!("{before}{after}")
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
        let query = "lag, <code>max(lag)</code>: mean 3.00 in A, 3.00 in B; missing in 1 slot: no sample";
        for row in [format!("<dd>{check}"), format!("<dd>{query}")] {
            assert!(page.replace('\u{a0}', " ").contains(&row), "{row}");
        }
    }

    #[test]
    fn the_whole_page() {
        insta::assert_snapshot!(visible(&page(&[sample_record::paced()])));
    }

    #[test]
    fn findings_measurements_and_two_trials() {
        let trials = [sample_record::rps(), sample_record::rfs()].map(|mut record| {
            record.slots.clear();
            Part::Trial(Box::new(Trial::new(record)))
        });
        let mut parts = vec![
            Part::Doctor(Box::new(diagnosed(Sketch::case_a()))),
            Part::Comparison(Box::new(sample_compare::steered())),
            Part::Interference(Box::new(sample_interference::measured())),
            Part::Trace(Box::new(sample_trace::traced())),
        ];
        parts.splice(1..1, trials);
        insta::assert_snapshot!(visible(&shown(&Document::new(parts))));
    }

    #[test]
    fn the_page_of_a_fleet() {
        let document = sample_fleet::whole();
        let page = fleet_page(&Fleet::new(&document), &document);
        assert_eq!(Document::read(&page).expect("a page"), document);
        insta::assert_snapshot!(visible(&page));
    }

    #[test]
    fn the_page_holds_its_records() {
        let document = document(&[sample_record::rps(), sample_record::full()]);
        assert_eq!(Document::read(&shown(&document)).expect("a page"), document);
    }

    #[test]
    fn checkpoints_stand_in_a_row_after_the_trial() {
        let record = sample_record::rps();
        let at = |taken: &str, state: State, mid: f64| Checkpoint {
            from_a: Some(Effect { mid, low: mid - 0.1, high: mid + 0.1 }),
            state,
            ..sample_record::checkpoint(&record.id, taken)
        };
        let start: jiff::Timestamp = record.started.parse().expect("a time");
        let after = |hours: i64| (start + jiff::SignedDuration::from_hours(hours)).to_string();
        let checkpoints = vec![at(&after(1), State::Holds, -0.4), at(&after(24), State::Gone, 0.01)];
        let trial = Trial { record: record.clone(), checkpoints };
        let html = shown(&Document::new(vec![Part::Trial(Box::new(trial))]));
        let figure = &html[html.find(">Checkpoints<").expect("a figure")..];
        let figure = &figure[..figure.find(">Pairs<").expect("the next")];
        let places =
            ["In the trial", "60 min later", "the effect holds", "24.0 h later", "the effect is gone"];
        let found: Vec<usize> = places
            .iter()
            .map(|text| figure.find(text).unwrap_or_else(|| panic!("{text}: {figure}")))
            .collect();
        assert!(found.is_sorted(), "{found:?}");
        assert!(!page(&[record]).contains("Checkpoints"));
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
        let seen = visible(&html);
        for banned in
            ["<script", "\" onload", "http://", "https://", "src=", "url(", "@import", "<link", "<iframe"]
        {
            assert!(!seen.contains(banned), "{banned}");
        }
        assert!(seen.contains("&lt;script&gt;"));
        assert_eq!((html.matches("<script").count(), html.matches("</script").count()), (1, 1));
    }

    #[test]
    fn forty_pairs_on_128_cpus_stay_below_a_megabyte() {
        let html = page(&[sample_record::full()]);
        assert!(html.len() < 1_000_000, "{} bytes, {} of them seen", html.len(), visible(&html).len());
        assert!(html.contains(">120<"), "the last CPUs have a label");
    }

    /// All neighbours differ: the worst case for the size of the heatmap.
    #[test]
    fn the_drawings_of_several_large_records_stay_small() {
        let mut noisy = sample_record::wide();
        for (index, slot) in noisy.slots.iter_mut().enumerate() {
            slot.net_rx.iter_mut().for_each(|(cpu, rate)| *rate = ((cpu.0 as usize + 3 * index) % 7) as f64);
        }
        let seen = visible(&page(&[noisy.clone(), TrialRecord { id: "0002-rps".to_owned(), ..noisy }]));
        assert!(seen.len() < 1_000_000, "{} bytes", seen.len());
    }

    /// Relative luminance of `#rrggbb`.
    fn luminance(colour: &str) -> f64 {
        let part = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).expect("hexadecimal")) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    /// WCAG AA asks for 4.5 : 1 between text and its ground.
    #[test]
    fn text_contrasts_with_its_ground_in_both_schemes() {
        const DARK: &str = "@media screen and (prefers-color-scheme: dark)";
        let (light, rest) = include_str!("html/page.css").split_once(DARK).expect("two");
        let dark = rest.split_once("* {").expect("an end").0;
        let scale = heat::CSS.split_once(DARK).expect("two");
        let (light, dark) = (&format!("{light}{}", scale.0), &format!("{dark}{}", scale.1));
        let mut weak = Vec::new();
        for scheme in [light, dark] {
            let colour = |name: &str| {
                let (_, value) =
                    scheme.split_once(&format!("--{name}: ")).unwrap_or_else(|| panic!("{name}"));
                luminance(&value[..7])
            };
            let names = ["ink", "soft", "good", "bad", "neutral", "caution", "a", "b"];
            let simulated = names.map(|name| (name, "paper".to_owned()));
            let on_code = ["ink", "soft"].map(|name| (name, "code".to_owned()));
            let cells = (0..8).map(|level| match level {
                0..4 => ("low", format!("l{level}")),
                4 => ("middle", format!("l{level}")),
                _ => ("high", format!("l{level}")),
            });
            for (text, ground) in simulated.into_iter().chain(on_code).chain(cells) {
                let (a, b) = (colour(text), colour(&ground));
                let contrast = (a.max(b) + 0.05) / (a.min(b) + 0.05);
                if contrast < 4.5 {
                    weak.push(format!("{text} on {ground}: {contrast:.2}"));
                }
            }
        }
        assert_eq!(weak, Vec::<String>::new());
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
        let html = visible(&page(&[odd, killed]));
        for wrong in ["NaN", "inf%", "\"inf", "\"-"] {
            assert!(!html.contains(wrong), "{wrong}: {}", &html[html.find(wrong).unwrap_or(0)..][..80]);
        }
        assert!(html.contains("too early") && html.contains("no verdict yet"));
    }
}
