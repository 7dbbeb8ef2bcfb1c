//! Horizontal bars with a label before and a figure after them: the first picture of a part.

use super::markup::{self, Markup, typeset};
use crate::report::findings::{Answer, Bar};
use rxlab_base::number::{capitalized, cpus_text, percent, value};
use rxlab_trial::outcome;
use rxlab_trial::record::TrialRecord;

/// One bar. Its parts are classes with fractions of the width, the widest first.
struct Row {
    title: String,
    words: String,
    parts: Vec<(&'static str, f64)>,
    figure: String,
}

fn rows(m: &mut Markup, rows: &[Row]) {
    m.element("div", &[("class", "effects")], |m| rows.iter().for_each(|row| one(m, row)));
}

fn one(m: &mut Markup, row: &Row) {
    m.element("div", &[("class", "effect bar")], |m| {
        m.element("div", &[("class", "what")], |m| {
            m.inline("span", &[("class", "title")], &row.title);
        });
        m.drawing("plot", 42.0, &typeset(&row.words), |m| {
            m.empty("rect", &[("class", "band"), ("y", "13"), ("width", "100%"), ("height", "16")]);
            for (class, part) in &row.parts {
                let width = markup::percent(part.clamp(0.0, 1.0));
                m.empty("rect", &[("class", class), ("y", "13"), ("width", &width), ("height", "16")]);
            }
        });
        m.element("div", &[("class", "figures")], |m| {
            m.inline("span", &[("class", "number")], &typeset(&row.figure));
        });
    });
}

pub(super) fn cpus(m: &mut Markup, answer: &Answer) {
    if answer.cpus.is_empty() {
        answer.packets.iter().for_each(|packets| m.leaf("p", &[], &typeset(packets)));
        return;
    }
    let row = |bar: &Bar| Row {
        title: cpus_text(&bar.cpus),
        words: format!(
            "{}: {} in receive work, {} busy",
            cpus_text(&bar.cpus),
            percent(bar.receive),
            percent(bar.busy)
        ),
        parts: vec![("other", bar.busy), ("lost", bar.receive)],
        figure: percent(bar.receive),
    };
    rows(m, &answer.cpus.iter().map(row).collect::<Vec<_>>());
    let rate = answer.packets.iter().map(|packets| format!(" {packets}.")).collect::<String>();
    let caption = format!("Time of each CPU in receive work (strong) and in other work (faint).{rate}");
    m.leaf("p", &[("class", "basis")], &typeset(&caption));
}

/// The deciding metric of a trial before and after; nothing without positive means.
pub(super) fn means(m: &mut Markup, record: &TrialRecord) {
    let primary = record.analysis.as_ref().and_then(|analysis| analysis.metrics.first());
    let Some(primary) = primary.filter(|primary| primary.pairs > 0) else { return };
    let (before, after) = outcome::means(primary);
    let most = before.max(after);
    if !(before >= 0.0 && after >= 0.0 && most > 0.0 && most.is_finite()) {
        return;
    }
    let row = |title: &str, class: &'static str, mean: f64| {
        let figure = format!("{} {}", value(mean), primary.metric.unit);
        let words = format!("{title}: {} {figure}", primary.metric.title);
        Row { title: capitalized(title), words, parts: vec![(class, mean / most)], figure }
    };
    rows(m, &[row("before", "lane a", before), row("after", "lane b", after)]);
    let caption = format!("{}, mean of the slots.", capitalized(&primary.metric.title));
    m.leaf("p", &[("class", "basis")], &typeset(&caption));
}
