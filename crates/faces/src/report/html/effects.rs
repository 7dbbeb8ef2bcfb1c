//! Effects with their intervals, against no effect and the margin: of each metric, and of the primary one later.

use crate::report::words;
use crate::report::words::Tone;
use rxlab_trial::checkpoint::Checkpoint;
use rxlab_trial::record::{Better, Effect, Metric, MetricResult, TrialRecord};

use super::axis::{self, Axis};
use super::markup::{Markup, percent, px, typeset};
use super::tone_class;

const ROW: f64 = 42.0;
const MIDDLE: f64 = ROW / 2.0;

pub(super) struct Row<'a> {
    title: String,
    note: String,
    effect: Option<&'a Effect>,
    call: &'static str,
    tone: Tone,
}

impl<'a> Row<'a> {
    fn new(result: &'a MetricResult, (call, tone): (&'static str, Tone)) -> Self {
        let better = match result.metric.better {
            Better::Higher => "higher is better",
            Better::Lower => "lower is better",
        };
        Self {
            title: result.metric.title.clone(),
            note: better.to_owned(),
            effect: result.effect.as_ref(),
            call,
            tone,
        }
    }

    /// An effect with words of its own.
    pub(super) fn named(
        title: String,
        note: String,
        effect: Option<&'a Effect>,
        said: (&'static str, Tone),
    ) -> Self {
        Self { title, note, effect, call: said.0, tone: said.1 }
    }

    /// The effect on a metric in one of several trials, with the words of that trial's own report.
    pub(super) fn of_trial(record: &'a TrialRecord, metric: &Metric, note: String) -> Option<Self> {
        let results = &record.analysis.as_ref()?.metrics;
        let at = results.iter().position(|result| result.metric.name == metric.name)?;
        let call = words::calls(results, record.margin)[at];
        Some(Self { title: record.name.clone(), note, ..Self::new(&results[at], call) })
    }
}

/// One row per metric: title, interval on a common axis, figures.
pub(super) fn plot(m: &mut Markup, results: &[MetricResult], margin: f64) {
    let each = results.iter().zip(words::calls(results, margin));
    rows(m, &each.map(|(result, call)| Row::new(result, call)).collect::<Vec<_>>(), margin);
}

/// The change of the primary metric from arm A: in the trial, then at each checkpoint.
pub(super) fn timeline(m: &mut Markup, record: &TrialRecord, checkpoints: &[Checkpoint]) {
    let primary = record.analysis.as_ref().and_then(|analysis| analysis.metrics.first());
    let trial = primary.map(|primary| Row {
        title: "In the trial".to_owned(),
        note: record.started.clone(),
        ..Row::new(primary, (words::call(primary.call), words::call_tone(primary.call)))
    });
    let checkpoints = checkpoints.iter().map(|checkpoint| Row {
        title: words::later(record, checkpoint),
        note: checkpoint.taken.clone(),
        effect: checkpoint.from_a.as_ref(),
        call: words::state(checkpoint.state),
        tone: words::state_tone(checkpoint.state),
    });
    rows(m, &trial.into_iter().chain(checkpoints).collect::<Vec<_>>(), record.margin);
}

/// One row per effect on a common axis.
pub(super) fn rows(m: &mut Markup, rows: &[Row<'_>], margin: f64) {
    let all = rows.iter().filter_map(|row| row.effect).flat_map(|effect| {
        let (low, high) = axis::ends(effect);
        [low, axis::log(effect.mid), high]
    });
    let axis = Axis::over(all, margin);
    m.element("div", &[("class", "effects")], |m| {
        for one in rows {
            row(m, one, &axis, margin);
        }
        scale(m, &axis);
    });
}

fn row(m: &mut Markup, row: &Row<'_>, axis: &Axis, margin: f64) {
    let figures = row.effect.map_or_else(|| "\u{2013}".to_owned(), Effect::in_words);
    m.element("div", &[("class", "effect")], |m| {
        m.element("div", &[("class", "what")], |m| {
            m.inline("span", &[("class", "title")], &row.title);
            m.inline("small", &[], &row.note);
        });
        let title = typeset(&format!("{}: {figures}, {}", row.title, row.call));
        m.drawing("plot", ROW, &title, |m| {
            m.leaf("title", &[], &title);
            background(m, axis, margin);
            interval(m, row, axis);
        });
        m.element("div", &[("class", "figures")], |m| {
            let class = format!("number {}", tone_class(row.tone));
            m.inline("span", &[("class", &class)], &typeset(&figures));
            m.inline("small", &[], row.call);
        });
    });
}

fn background(m: &mut Markup, axis: &Axis, margin: f64) {
    let (left, right) = (axis.at(-axis::log(margin)), axis.at(axis::log(margin)));
    m.empty(
        "rect",
        &[("class", "band"), ("x", &percent(left)), ("width", &percent(right - left)), ("height", &px(ROW))],
    );
    for tick in axis.ticks(0.11) {
        let x = percent(tick.at);
        let class = if tick.zero { "zero" } else { "grid" };
        m.empty("line", &[("class", class), ("x1", &x), ("x2", &x), ("y2", &px(ROW))]);
    }
}

fn interval(m: &mut Markup, row: &Row<'_>, axis: &Axis) {
    let Some(effect) = row.effect.filter(|effect| effect.mid.is_finite()) else { return };
    let tone = row.tone;
    let (low, high) = axis::ends(effect);
    let (left, right) = (axis.at(low), axis.at(high));
    let bounded = low.is_finite() && high.is_finite();
    let line = |m: &mut Markup, x1: f64, x2: f64, y1: f64, y2: f64, class: &str| {
        let (x1, x2, y1, y2) = (percent(x1), percent(x2), px(y1), px(y2));
        m.empty("line", &[("class", class), ("x1", &x1), ("x2", &x2), ("y1", &y1), ("y2", &y2)]);
    };
    m.element("g", &[("class", tone_class(tone))], |m| {
        line(m, left, right, MIDDLE, MIDDLE, if bounded { "span" } else { "span open" });
        for (end, at) in [(low, left), (high, right)] {
            if end.is_finite() {
                line(m, at, at, MIDDLE - 5.0, MIDDLE + 5.0, "span");
            }
        }
        let mid = axis::log(effect.mid);
        if axis.holds(mid) {
            mark(m, axis.at(mid), tone);
        } else {
            let (x, anchor, sign) =
                if mid < 0.0 { ("0%", "start", "\u{ab}") } else { ("100%", "end", "\u{bb}") };
            m.classed_label("beyond", (x, &px(MIDDLE + 5.0)), anchor, sign);
        }
    });
}

/// The estimate; its shape has the same meaning as its colour.
fn mark(m: &mut Markup, at: f64, tone: Tone) {
    let x = percent(at);
    match tone {
        Tone::Good => {
            m.empty("circle", &[("class", "mark"), ("cx", &x), ("cy", &px(MIDDLE)), ("r", "5.5")]);
        }
        // Path coordinates cannot be percentages, so a nested drawing positions the shape.
        Tone::Bad => m.element("svg", &[("x", &x), ("y", &px(MIDDLE)), ("overflow", "visible")], |m| {
            m.empty("path", &[("class", "mark"), ("d", "M0-7L7 0L0 7L-7 0z")]);
        }),
        Tone::Neutral | Tone::Caution => {
            m.empty("circle", &[("class", "mark hollow"), ("cx", &x), ("cy", &px(MIDDLE)), ("r", "4.5")]);
        }
    }
}

fn scale(m: &mut Markup, axis: &Axis) {
    m.element("div", &[("class", "effect scale"), ("aria-hidden", "true")], |m| {
        m.leaf("div", &[("class", "what")], "");
        m.element("svg", &[("class", "plot"), ("width", "100%"), ("height", "22")], |m| {
            for tick in axis.ticks(0.11) {
                m.label((&percent(tick.at), "15"), "middle", &typeset(&tick.label));
            }
        });
        m.leaf("div", &[("class", "figures")], "");
    });
}
