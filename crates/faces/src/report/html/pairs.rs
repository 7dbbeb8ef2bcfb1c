//! Every pair in time order: its ratio as a dot, the estimate and its interval, void pairs marked.

use rxlab_trial::effect::Effect;
use std::collections::BTreeMap;

use crate::report::words;
use rxlab_base::number;
use rxlab_stats::design::Phase;
use rxlab_trial::record::{MetricResult, TrialRecord};

use super::axis::{self, Axis};
use super::markup::{Markup, percent, px, typeset};
use super::tone_class;

/// Height of the lane below the dots that marks void pairs.
const VOIDS: f64 = 14.0;
/// Maximum number of dots of a panel; with more pairs, neighbours are averaged.
const MAX_DOTS: usize = 250;

/// One panel per metric, the primary one across the whole width.
pub(super) fn panels(m: &mut Markup, record: &TrialRecord, results: &[MetricResult]) {
    let voids = voids(record);
    let compared =
        record.slots.iter().filter(|slot| slot.phase == Phase::Comparison).map(|slot| slot.pair + 1);
    let measured = results.iter().flat_map(|result| &result.ratios).map(|(pair, _)| pair + 1);
    let pairs = compared.chain(measured).max().unwrap_or(0);
    m.element("div", &[("class", "panels")], |m| {
        for (index, result) in results.iter().enumerate().filter(|(_, result)| !result.ratios.is_empty()) {
            panel(m, result, record.margin, pairs, &voids, if index == 0 { 150.0 } else { 96.0 });
        }
    });
}

/// Void pairs and the first reason of each.
fn voids(record: &TrialRecord) -> BTreeMap<usize, &str> {
    let mut voids = BTreeMap::new();
    for slot in record.slots.iter().filter(|slot| slot.phase == Phase::Comparison) {
        if let Some(reason) = &slot.void {
            voids.entry(slot.pair).or_insert(reason.as_str());
        }
    }
    voids
}

fn panel(
    m: &mut Markup,
    result: &MetricResult,
    margin: f64,
    pairs: usize,
    voids: &BTreeMap<usize, &str>,
    height: f64,
) {
    let ends = result.effect.as_ref().map(axis::ends);
    let bounds = ends.into_iter().flat_map(|(low, high)| [low, high]);
    let axis = Axis::over(result.ratios.iter().map(|(_, ratio)| *ratio).chain(bounds), margin);
    let y = |log_ratio: f64| (1.0 - axis.at(log_ratio)) * height;
    let x = |pair: usize| percent((pair as f64 + 0.5) / pairs.max(1) as f64);
    let ticks = axis.ticks(17.0 / height);
    m.element("div", &[("class", "panel")], |m| {
        m.leaf("div", &[("class", "title")], &result.metric.title);
        m.element("div", &[("class", "gutter")], |m| {
            m.scale(height, ticks.iter().map(|tick| (1.0 - tick.at, typeset(&tick.label))));
            let figures = result.effect.as_ref().map_or_else(String::new, Effect::in_words);
            let title =
                typeset(&format!("{}: ratio of each of {pairs} pairs; {figures}", result.metric.title));
            m.drawing("plot", height + VOIDS, &title, |m| {
                m.leaf("title", &[], &title);
                let band = |m: &mut Markup, class: &str, low: f64, high: f64| {
                    let (top, tall) = (px(y(high)), px(y(low) - y(high)));
                    m.empty("rect", &[("class", class), ("y", &top), ("width", "100%"), ("height", &tall)]);
                };
                band(m, "band", -axis::log(margin), axis::log(margin));
                for tick in &ticks {
                    m.rule(if tick.zero { "zero" } else { "grid" }, (1.0 - tick.at) * height);
                }
                m.element("g", &[("class", tone_class(words::call_tone(result.call)))], |m| {
                    if let (Some((low, high)), Some(effect)) = (ends, &result.effect) {
                        if low.is_finite() || high.is_finite() {
                            band(m, "interval", low, high);
                        }
                        m.rule("mean", y(axis::log(effect.mid)));
                    }
                    dots(m, result, &x, &y);
                });
                for (pair, reason) in voids {
                    let title = typeset(&format!("pair {}: void, {reason}", pair + 1));
                    let (x, y) = (x(*pair), px(height + 12.0));
                    let place = [("class", "void"), ("x", x.as_str()), ("y", &y), ("text-anchor", "middle")];
                    m.element("text", &place, |m| {
                        m.inline("title", &[], &title);
                        m.text("\u{d7}");
                    });
                }
            });
            m.leaf("div", &[], "");
            m.labels(16.0, |m| {
                let step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
                    .into_iter()
                    .find(|step| pairs <= step * 12)
                    .unwrap_or(10_000);
                let is_shown = |pair: &usize| (*pair == 0 && step > 2) || (pair + 1).is_multiple_of(step);
                for pair in (0..pairs).filter(is_shown) {
                    m.label((&x(pair), "12"), "middle", &(pair + 1).to_string());
                }
            });
        });
    });
}

fn dots(m: &mut Markup, result: &MetricResult, x: &impl Fn(usize) -> String, y: &impl Fn(f64) -> f64) {
    let each = result.ratios.len().div_ceil(MAX_DOTS).max(1);
    for group in result.ratios.chunks(each) {
        let ratio = group.iter().map(|(_, ratio)| ratio).sum::<f64>() / group.len() as f64;
        if !ratio.is_finite() {
            continue;
        }
        let (first, last) = (group[0].0, group[group.len() - 1].0);
        let name = if group.len() == 1 {
            format!("pair {}", first + 1)
        } else {
            format!("pairs {} to {}", first + 1, last + 1)
        };
        let title = typeset(&format!("{name}: {}", number::change(ratio.exp_m1())));
        let (x, y) = (x((first + last) / 2), px(y(ratio)));
        m.hinted("circle", &[("class", "dot"), ("cx", &x), ("cy", &y), ("r", "3.2")], &title);
    }
}
