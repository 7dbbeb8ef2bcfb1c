//! Latency by percentile, on an axis that gives each further nine the same room: of both arms of a trial, or of one load.

use std::fmt::Write;

use rxlab_base::number;
use rxlab_load::Report;
use rxlab_stats::design::Arm;
use rxlab_trial::record::TrialRecord;

use super::markup::{Markup, percent, px, typeset};
use super::{figure, tables};

const HEIGHT: f64 = 200.0;
/// Free room above and below the values, as a part of the height.
const ROOM: f64 = 0.06;

/// A percentile over the slots of an arm, in the unit of the metric.
#[derive(Debug, Clone, PartialEq)]
struct Point {
    /// Name such as `p99.9`.
    label: String,
    /// log10(1 / (1 - q)): 1 for p90, 2 for p99.
    nines: f64,
    /// A tenth of the slots are below, half, and a tenth above.
    slots: [f64; 3],
    /// Slots in which the value is only a lower bound.
    bounds: usize,
}

/// Percentiles, all in one unit.
#[derive(Debug)]
struct Percentiles {
    unit: &'static str,
    curves: Vec<Curve>,
}

/// Percentiles of an arm, or of a load.
#[derive(Debug)]
struct Curve {
    /// `A` or `B`; `None` if there is no other.
    arm: Option<&'static str>,
    points: Vec<Point>,
}

impl Curve {
    fn class(&self) -> String {
        self.arm.unwrap_or("A").to_lowercase()
    }
}

/// The chart with its table; nothing if the slots hold fewer than two percentiles.
pub(super) fn section(m: &mut Markup, record: &TrialRecord) {
    let Some(found) = Percentiles::new(record) else { return };
    let caption = "Median of the slots of each arm by percentile; each further nine has the same room. The tint holds \
                   the middle 80 % of the slots.";
    figure(m, "Latency percentiles", caption, |m| {
        plot(m, &found);
        tables::behind(m, "Percentiles as a table", |m| table(m, &found));
    });
}

/// The latencies of a load; nothing with too few requests.
pub(super) fn of_load(m: &mut Markup, report: &Report) {
    let point = |point: &rxlab_load::CurvePoint| Point {
        label: format!("p{}", (1e6 * point.quantile).round() / 1e4),
        nines: -(1.0 - point.quantile).log10(),
        slots: [point.us; 3],
        bounds: usize::from(point.at_least),
    };
    let points: Vec<Point> = report.latency_curve().iter().map(point).collect();
    if points.len() < 2 {
        return;
    }
    let found = Percentiles { unit: "us", curves: vec![Curve { arm: None, points }] };
    let caption = "Latency by percentile; each further nine has the same room. Requests without a response count with their age.";
    figure(m, "Latency percentiles", caption, |m| {
        plot(m, &found);
        tables::behind(m, "Percentiles as a table", |m| {
            let rows = found.points().map(|point| vec![point.label.clone(), value(point, 1, found.unit)]);
            tables::figures(m, &["Percentile", "Latency"], rows);
        });
    });
}

/// `p99_9_us` is the quantile 0.999 in `us`; `None` for other names.
fn percentile(name: &str) -> Option<(f64, &'static str)> {
    let (digits, unit) = name.strip_prefix('p')?.rsplit_once('_')?;
    let unit = ["us", "ms", "ns"].into_iter().find(|known| *known == unit)?;
    let percent: f64 = digits.replacen('_', ".", 1).parse().ok()?;
    (0.0..100.0).contains(&percent).then_some((percent / 100.0, unit))
}

impl Percentiles {
    fn new(record: &TrialRecord) -> Option<Self> {
        let names = record.slots.iter().flat_map(|slot| slot.values.keys());
        let mut known: Vec<(f64, &'static str, &str)> =
            names.filter_map(|name| percentile(name).map(|(q, unit)| (q, unit, name.as_str()))).collect();
        known.sort_by(|a, b| a.0.total_cmp(&b.0));
        known.dedup_by(|a, b| a.2 == b.2);
        let unit = known.first()?.1;
        let curve = |name: &'static str, arm: Arm| -> Curve {
            let in_unit = known.iter().filter(|(_, found, _)| *found == unit);
            let points = in_unit.filter_map(|(q, _, name)| point(record, arm, *q, name)).collect();
            Curve { arm: Some(name), points }
        };
        let curves = vec![curve("A", Arm::A), curve("B", Arm::B)];
        curves.iter().all(|curve| curve.points.len() >= 2).then_some(Self { unit, curves })
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.curves.iter().flat_map(|curve| &curve.points)
    }
}

/// `None` if no valid slot of the arm has the value.
fn point(record: &TrialRecord, arm: Arm, q: f64, name: &str) -> Option<Point> {
    let values = record.values(name, arm);
    let mut values: Vec<f64> = values.filter(|value| value.is_finite() && *value > 0.0).collect();
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    let at = |part: f64| values[(part * last as f64).round() as usize];
    let slots = record.compared().filter(|slot| slot.arm == arm);
    let bounds = slots.filter(|slot| slot.at_least.iter().any(|found| found == name)).count();
    let digits = name.rsplit_once('_').map_or(name, |(digits, _)| digits);
    Some(Point {
        label: digits.replacen('_', ".", 1),
        nines: -(1.0 - q).log10(),
        slots: [at(0.1), at(0.5), at(0.9)],
        bounds,
    })
}

/// The two axes: percentiles to the right, values upwards, both logarithmic.
struct Axes {
    first: f64,
    last: f64,
    low: f64,
    high: f64,
}

impl Axes {
    fn new(found: &Percentiles) -> Self {
        let nines = || found.points().map(|point| point.nines);
        let values = || found.points().flat_map(|point| point.slots).map(f64::ln);
        let (low, high) =
            (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
        // Values that hardly differ would fill the chart with noise.
        let more = (0.2 - (high - low)).max(0.0) / 2.0;
        Self {
            first: nines().fold(f64::INFINITY, f64::min),
            last: nines().fold(0.0, f64::max),
            low: low - more,
            high: high + more,
        }
    }

    /// 0 to 1 from the left.
    fn x(&self, nines: f64) -> f64 {
        0.04 + 0.92 * (nines - self.first) / (self.last - self.first).max(f64::MIN_POSITIVE)
    }

    /// 0 to 1 from the top.
    fn y(&self, value: f64) -> f64 {
        1.0 - (ROOM + (1.0 - 2.0 * ROOM) * (value.ln() - self.low) / (self.high - self.low))
    }

    /// Round values inside, at least `apart` (part of the height) from each other.
    fn ticks(&self, apart: f64) -> Vec<f64> {
        let decade = (self.low.exp().log10().floor() as i32)..=(self.high.exp().log10().ceil() as i32);
        let steps: [&[f64]; 4] = [
            &[1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2.0, 2.2, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
            &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
            &[1.0, 2.0, 5.0],
            &[1.0],
        ];
        let ticks = steps.iter().map(|steps| {
            let all = decade.clone().flat_map(|ten| steps.iter().map(move |step| step * 10_f64.powi(ten)));
            all.filter(|value| (0.0..=1.0).contains(&self.y(*value))).collect::<Vec<f64>>()
        });
        let is_apart =
            |ticks: &Vec<f64>| ticks.windows(2).all(|pair| self.y(pair[0]) - self.y(pair[1]) >= apart);
        let mut all: Vec<Vec<f64>> = ticks.collect();
        let fits = all.iter().position(is_apart).unwrap_or(all.len() - 1);
        all.swap_remove(fits)
    }
}

/// A round value, as short as possible.
pub(super) fn label(tick: f64) -> String {
    if tick >= 10.0 { number::grouped(tick.round() as u64) } else { format!("{tick:.1}") }
}

/// Width and height of the coordinates of areas and lines.
const UNITS: (usize, usize) = (1000, 1000);

fn plot(m: &mut Markup, found: &Percentiles) {
    let axes = Axes::new(found);
    let ticks = axes.ticks(16.0 / HEIGHT);
    if found.curves.len() > 1 {
        m.element("p", &[("class", "key"), ("aria-hidden", "true")], |m| {
            for curve in &found.curves {
                m.element("span", &[("class", &curve.class())], |m| {
                    m.inline("i", &[], "");
                    m.text(curve.arm.unwrap_or_default());
                });
            }
        });
    }
    m.element("div", &[("class", "gutter latency")], |m| {
        let labels = ticks.iter().map(|tick| (axes.y(*tick), format!("{} {}", label(*tick), found.unit)));
        m.scale(HEIGHT, labels);
        m.drawing("plot", HEIGHT, &typeset(&described(found)), |m| {
            ticks.iter().for_each(|tick| m.rule("grid", axes.y(*tick) * HEIGHT));
            for curve in &found.curves {
                let class = format!("arm {}", curve.class());
                m.element("g", &[("class", &class)], |m| draw(m, &axes, curve, found.unit));
            }
        });
        m.leaf("div", &[], "");
        m.labels(18.0, |m| {
            let longer = found.curves.iter().map(|curve| &curve.points).max_by_key(|points| points.len());
            // The median, and each further nine.
            let is_named =
                |point: &&Point| point.label == "p50" || (point.nines - point.nines.round()).abs() < 1e-6;
            for point in longer.into_iter().flatten().filter(is_named) {
                m.label((&percent(axes.x(point.nines)), "14"), "middle", &point.label);
            }
        });
    });
}

fn draw(m: &mut Markup, axes: &Axes, Curve { arm, points }: &Curve, unit: &str) {
    let at = |point: &Point, part: usize| {
        let (x, y) = (axes.x(point.nines), axes.y(point.slots[part]));
        format!("{:.0} {:.0}", x * UNITS.0 as f64, y * UNITS.1 as f64)
    };
    let line = |part: usize| points.iter().map(|point| at(point, part)).collect::<Vec<_>>().join("L");
    let back: Vec<String> = points.iter().rev().map(|point| at(point, 0)).collect();
    let view = format!("0 0 {} {}", UNITS.0, UNITS.1);
    let frame = [
        ("width", "100%"),
        ("height", &px(HEIGHT)),
        ("viewBox", view.as_str()),
        ("preserveAspectRatio", "none"),
    ];
    m.element("svg", &frame, |m| {
        if arm.is_some() {
            m.empty("path", &[("class", "spread"), ("d", &format!("M{}L{}z", line(2), back.join("L")))]);
        }
        m.empty("path", &[("class", "median"), ("d", &format!("M{}", line(1)))]);
    });
    for point in points {
        let arm = arm.map_or_else(String::new, |arm| format!("arm {arm}, "));
        let mut title = format!("{arm}{}: {} {unit}", point.label, number::value(point.slots[1]));
        if point.bounds > 0 {
            let _ = write!(title, " or more");
        }
        let (x, y) = (percent(axes.x(point.nines)), px(axes.y(point.slots[1]) * HEIGHT));
        m.hinted("circle", &[("class", "dot"), ("cx", &x), ("cy", &y), ("r", "4")], &title);
    }
}

fn described(found: &Percentiles) -> String {
    let described = |Curve { arm, points }: &Curve| {
        let values = points
            .iter()
            .map(|point| format!("{} {} {}", point.label, number::value(point.slots[1]), found.unit));
        let name = arm.map_or_else(String::new, |arm| format!("{arm}: "));
        name + &values.collect::<Vec<_>>().join(", ")
    };
    let curves: Vec<String> = found.curves.iter().map(described).collect();
    format!("Latency percentiles. {}", curves.join("; "))
}

/// A value of a point, in words if it is a lower bound.
fn value(point: &Point, part: usize, unit: &str) -> String {
    let least = if point.bounds > 0 { "at least " } else { "" };
    format!("{least}{} {unit}", number::value(point.slots[part]))
}

fn table(m: &mut Markup, found: &Percentiles) {
    let heads = ["Percentile", "Arm", "10 % of slots below", "Median", "10 % of slots above"];
    let rows = found.curves.iter().flat_map(|Curve { arm, points }| {
        points.iter().map(|point| {
            let value = |part: usize| value(point, part, found.unit);
            vec![point.label.clone(), arm.unwrap_or_default().to_owned(), value(0), value(1), value(2)]
        })
    });
    tables::figures(m, &heads, rows);
}

#[cfg(test)]
mod tests {
    use super::{Axes, Percentiles, percentile};
    use rxlab_trial::sample_record;

    #[test]
    fn percentiles_are_read_from_names() {
        assert_eq!(percentile("p99_9_us"), Some((0.9990000000000001, "us")));
        assert_eq!(percentile("p50_ms"), Some((0.5, "ms")));
        for other in ["p99", "packets_us", "p_us", "p100_us", "p99_s", "throughput", "p-1_us", "pNaN_us"] {
            assert_eq!(percentile(other), None, "{other}");
        }
    }

    #[test]
    fn each_nine_has_the_same_room_and_the_slots_spread_around_their_median() {
        let found = Percentiles::new(&sample_record::paced()).expect("percentiles");
        let labels: Vec<&str> = found.curves[0].points.iter().map(|point| point.label.as_str()).collect();
        assert_eq!((labels, found.unit), (vec!["p50", "p99", "p99.9"], "us"));
        let axes = Axes::new(&found);
        let room = |from: f64, to: f64| axes.x(to) - axes.x(from);
        assert!((room(1.0, 2.0) - room(2.0, 3.0)).abs() < 1e-9);
        for point in found.points() {
            let [low, middle, high] = point.slots;
            assert!(low < middle && middle < high, "{point:?}");
            assert!((0.0..=1.0).contains(&axes.y(high)) && axes.y(low) > axes.y(high), "{point:?}");
        }
        let (a, b) = (&found.curves[0].points[1], &found.curves[1].points[1]);
        assert!(b.slots[1] < 0.8 * a.slots[1], "p99 fell: {a:?} {b:?}");
    }

    #[test]
    fn without_percentiles_there_is_no_chart() {
        assert!(Percentiles::new(&sample_record::rfs()).is_none());
    }

    #[test]
    fn ticks_are_round_and_inside() {
        let axes = Axes { first: 0.3, last: 3.0, low: 180_f64.ln(), high: 4_200_f64.ln() };
        assert_eq!(axes.ticks(0.08), [200.0, 500.0, 1000.0, 2000.0, 5000.0]);
    }
}
