//! The effect of each metric with its interval, against no effect and the margin.

use crate::report::words::Tone;
use crate::report::{number, words};
use crate::trial::record::{Better, MetricResult};

use super::axis::{self, Axis};
use super::markup::{Markup, percent, px, typeset};
use super::tone_class;

const ROW: f64 = 42.0;
const MIDDLE: f64 = ROW / 2.0;

/// One row per metric: title, interval on a common axis, figures.
pub(super) fn plot(m: &mut Markup, results: &[MetricResult], margin: f64) {
    let all = results.iter().filter_map(|result| result.effect.as_ref()).flat_map(|effect| {
        let (low, high) = axis::ends(effect);
        [low, axis::log(effect.mid), high]
    });
    let axis = Axis::over(all, margin);
    m.element("div", &[("class", "effects")], |m| {
        for result in results {
            row(m, result, &axis, margin);
        }
        scale(m, &axis);
    });
}

fn row(m: &mut Markup, result: &MetricResult, axis: &Axis, margin: f64) {
    let figures = result.effect.as_ref().map_or_else(|| "not measured".to_owned(), number::effect);
    let call = words::call(result.call);
    m.element("div", &[("class", "effect")], |m| {
        m.element("div", &[("class", "what")], |m| {
            m.inline("span", &[("class", "title")], &result.metric.title);
            let better = match result.metric.better {
                Better::Higher => "higher is better",
                Better::Lower => "lower is better",
            };
            m.inline("small", &[], better);
        });
        let title = typeset(&format!("{}: {figures}, {call}", result.metric.title));
        m.drawing("plot", ROW, &title, |m| {
            m.leaf("title", &[], &title);
            background(m, axis, margin);
            interval(m, result, axis);
        });
        m.element("div", &[("class", "figures")], |m| {
            let class = format!("number {}", tone_class(words::call_tone(result.call)));
            m.inline("span", &[("class", &class)], &typeset(&figures));
            m.inline("small", &[], call);
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

fn interval(m: &mut Markup, result: &MetricResult, axis: &Axis) {
    let Some(effect) = result.effect.as_ref().filter(|effect| effect.mid.is_finite()) else { return };
    let tone = words::call_tone(result.call);
    let (low, high) = axis::ends(effect);
    let (left, right) = (axis.at(low), axis.at(high));
    let bounded = low.is_finite() && high.is_finite();
    let line = |m: &mut Markup, x1: f64, x2: f64, y1: f64, y2: f64, class: &str| {
        let ends = [("x1", percent(x1)), ("x2", percent(x2)), ("y1", px(y1)), ("y2", px(y2))];
        let mut attributes = vec![("class", class)];
        attributes.extend(ends.iter().map(|(name, value)| (*name, value.as_str())));
        m.empty("line", &attributes);
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
            let place = [("class", "beyond"), ("x", x), ("y", &px(MIDDLE + 5.0)), ("text-anchor", anchor)];
            m.leaf("text", &place, sign);
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
                m.leaf(
                    "text",
                    &[("x", &percent(tick.at)), ("y", "15"), ("text-anchor", "middle")],
                    &typeset(&tick.label),
                );
            }
        });
        m.leaf("div", &[("class", "figures")], "");
    });
}
