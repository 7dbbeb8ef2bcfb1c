//! The receive path as a diagram: interface, queues, CPUs of the interrupts, CPUs that RPS hands packets to; before and
//! after a change.

use rxlab_advise::doctor::{NicQueues, QueuePath};
use rxlab_base::units::{CpuMask, Fact};

use super::markup::{Markup, px, typeset};
use super::{figure, tables};

/// Width of the drawing, in units of its own: about pixels on a phone.
const WIDTH: f64 = 360.0;
const BOX: f64 = 76.0;
const TALL: f64 = 26.0;
/// From one row to the next.
const PITCH: f64 = 34.0;
/// Room for the titles of the columns.
const TOP: f64 = 20.0;
/// Rows of one diagram; the table has all.
const ROWS: usize = 12;
/// Characters that fit into a box.
const FITS: usize = 11;

pub(super) struct Side<'a> {
    pub(super) title: &'a str,
    /// CSS class: `a` or `b`.
    pub(super) class: &'a str,
    /// Its interfaces, in the order of the other side.
    pub(super) nics: Vec<NicQueues>,
}

/// Queues that are drawn as one row, because their packets take the same way.
struct Row<'a> {
    queues: &'a [QueuePath],
    /// Number of the first among the interface's queues.
    first: usize,
}

/// The diagrams of both sides with their table; nothing without queues. `caption` says what the sides are.
pub(super) fn section(m: &mut Markup, caption: &str, sides: &[Side<'_>; 2]) {
    if sides[0].nics.iter().all(|nic| nic.queues.is_empty()) {
        return;
    }
    figure(m, "Receive path", caption, |m| {
        m.element("div", &[("class", "paths")], |m| {
            for (side, other) in sides.iter().zip([None, Some(&sides[0])]) {
                m.element("div", &[("class", side.class)], |m| {
                    m.leaf("p", &[("class", "side-title")], side.title);
                    for (index, nic) in side.nics.iter().enumerate() {
                        diagram(m, side.title, nic, other.and_then(|side| side.nics.get(index)));
                    }
                });
            }
        });
        tables::behind(m, "Receive path as a table", |m| table(m, sides));
    });
}

/// Neighbouring queues with the same RPS CPUs.
fn rows(nic: &NicQueues) -> Vec<Row<'_>> {
    let mut first = 0;
    let groups = nic.queues.chunk_by(|a, b| a.rps_cpus == b.rps_cpus);
    let rows = groups.map(|queues| {
        let row = Row { queues, first };
        first += queues.len();
        row
    });
    rows.collect()
}

impl Row<'_> {
    fn name(&self) -> String {
        match self.queues {
            [one] => one.queue.to_string(),
            [first, .., last] => format!("{} to {}", first.queue, last.queue.index),
            [] => String::new(),
        }
    }

    fn irq_cpus(&self) -> CpuMask {
        self.queues.iter().fold(CpuMask::new(), |all, queue| all.union(&queue.irq_cpus))
    }

    /// True if a part of the path differs from that of the same queues of `before`.
    fn is_changed(&self, before: &NicQueues, part: fn(&QueuePath) -> String) -> bool {
        let before = before.queues.get(self.first..self.first + self.queues.len()).unwrap_or(&[]);
        before.len() != self.queues.len() || before.iter().zip(self.queues).any(|(a, b)| part(a) != part(b))
    }
}

/// `CPU 2`, `CPUs 0-3`; `none` without CPUs.
fn cpus(mask: &CpuMask) -> String {
    match mask.len() {
        0 => "none".to_owned(),
        1 => format!("CPU {mask}"),
        _ => format!("CPUs {mask}"),
    }
}

fn rps(mask: &Fact<CpuMask>) -> String {
    match mask {
        Fact::Known(mask) if mask.is_empty() => "off".to_owned(),
        Fact::Known(mask) => cpus(mask),
        _ => "unknown".to_owned(),
    }
}

/// The text itself, or the number of CPUs where it is too long for a box.
fn short(text: String, mask: Option<&CpuMask>) -> String {
    match mask {
        Some(mask) if text.chars().count() > FITS => format!("{} CPUs", mask.len()),
        _ if text.chars().count() > FITS => text.chars().take(FITS - 1).chain(['\u{2026}']).collect(),
        _ => text,
    }
}

/// Left edge of a column: interface, queue, interrupt, RPS.
fn left(column: usize) -> f64 {
    column as f64 * (WIDTH - BOX) / 3.0
}

/// Upper edge of a row.
fn top(row: usize) -> f64 {
    TOP + row as f64 * PITCH
}

fn diagram(m: &mut Markup, side: &str, nic: &NicQueues, before: Option<&NicQueues>) {
    let all = rows(nic);
    let shown = &all[..all.len().min(ROWS)];
    let more = all.len() - shown.len();
    let lines = shown.len() + usize::from(more > 0);
    let height = top(lines) - PITCH + TALL + 2.0;
    let described = shown.iter().map(|row| {
        format!(
            "{}: interrupts on {}, RPS to {}",
            row.name(),
            cpus(&row.irq_cpus()),
            rps(&row.queues[0].rps_cpus)
        )
    });
    let title = format!("{side}, {}: {}", nic.nic, described.collect::<Vec<_>>().join("; "));
    let view = format!("0 0 {} {}", px(WIDTH), px(height));
    let frame =
        [("class", "diagram"), ("viewBox", view.as_str()), ("role", "img"), ("aria-label", &typeset(&title))];
    m.element("svg", &frame, |m| {
        for (column, name) in ["NIC", "queue", "interrupt", "RPS to"].into_iter().enumerate() {
            let x = px(left(column) + BOX / 2.0);
            m.classed_label("column", (&x, "11"), "middle", name);
        }
        let middle = (top(0) + top(shown.len().max(1) - 1)) / 2.0;
        for (index, row) in shown.iter().enumerate() {
            let is_changed =
                |part: fn(&QueuePath) -> String| before.is_some_and(|before| row.is_changed(before, part));
            let changed_irq = is_changed(|queue| cpus(&queue.irq_cpus));
            let changed_rps = is_changed(|queue| rps(&queue.rps_cpus));
            link(m, 0, middle, top(index), false);
            link(m, 1, top(index), top(index), changed_irq);
            cell(m, (1, top(index)), &row.name(), None, false);
            let irq_cpus = row.irq_cpus();
            cell(m, (2, top(index)), &cpus(&irq_cpus), Some(&irq_cpus), changed_irq);
            let rps_cpus = &row.queues[0].rps_cpus;
            if !rps_cpus.known().is_some_and(CpuMask::is_empty) {
                link(m, 2, top(index), top(index), changed_rps);
            }
            cell(m, (3, top(index)), &rps(rps_cpus), rps_cpus.known(), changed_rps);
        }
        cell(m, (0, middle), nic.nic.as_str(), None, false);
        if more > 0 {
            let (x, y) = (px(left(1)), px(top(shown.len()) + 17.0));
            m.leaf("text", &[("x", &x), ("y", &y)], &format!("and {more} more rows in the table"));
        }
    });
}

/// A box with a text; thick if it changed.
fn cell(m: &mut Markup, (column, y): (usize, f64), text: &str, mask: Option<&CpuMask>, changed: bool) {
    let class = match (changed, text) {
        (true, _) => "box changed",
        (false, "off" | "none") => "box none",
        _ => "box",
    };
    let (x, middle) = (left(column), px(left(column) + BOX / 2.0));
    m.element("g", &[("class", class)], |m| {
        m.inline("title", &[], text);
        let (base, x, y, w, h) = (px(y + TALL / 2.0 + 4.0), px(x), px(y), px(BOX), px(TALL));
        m.empty("rect", &[("x", &x), ("y", &y), ("width", &w), ("height", &h), ("rx", "4")]);
        m.label((&middle, &base), "middle", &short(text.to_owned(), mask));
    });
}

/// A line from a box of `column` to one of the next.
fn link(m: &mut Markup, column: usize, from: f64, to: f64, changed: bool) {
    let (x1, x2) = (left(column) + BOX, left(column + 1));
    let (y1, y2, middle) = (from + TALL / 2.0, to + TALL / 2.0, (x1 + x2) / 2.0);
    let path = format!("M{x1:.0} {y1:.1}C{middle:.0} {y1:.1} {middle:.0} {y2:.1} {x2:.0} {y2:.1}");
    m.empty("path", &[("class", if changed { "link changed" } else { "link" }), ("d", &path)]);
}

fn table(m: &mut Markup, sides: &[Side<'_>; 2]) {
    let [before, after] = sides;
    let heads = [
        "Queue".to_owned(),
        format!("Interrupt, {}", before.title),
        format!("Interrupt, {}", after.title),
        format!("RPS to, {}", before.title),
        format!("RPS to, {}", after.title),
    ];
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let rows = before.nics.iter().zip(&after.nics).flat_map(|(old, new)| {
        old.queues.iter().zip(&new.queues).map(|(a, b)| {
            let name = format!("{}/{}", old.nic, a.queue);
            vec![name, cpus(&a.irq_cpus), cpus(&b.irq_cpus), rps(&a.rps_cpus), rps(&b.rps_cpus)]
        })
    });
    tables::figures(m, &heads, rows);
}

#[cfg(test)]
mod tests {
    use super::{Side, section};
    use crate::report::html::markup::Markup;
    use rxlab_advise::doctor::NicQueues;
    use rxlab_path::sketch::Sketch;

    fn drawn(sketch: Sketch, change: &[&str]) -> String {
        let (model, _) = sketch.build();
        let before = NicQueues::new(&model.nics[0]);
        let settings: Vec<_> = change.iter().map(|text| text.parse().expect("a setting")).collect();
        let after = before.with(&settings);
        let mut m = Markup::default();
        let sides = [
            Side { title: "A", class: "a", nics: vec![before] },
            Side { title: "B", class: "b", nics: vec![after] },
        ];
        section(&mut m, "Both arms.", &sides);
        m.finish()
    }

    #[test]
    fn what_a_change_moves_is_marked_on_its_side_only() {
        let html = drawn(Sketch::case_a(), &["rps eth0/rx-0 = 0-1,3-7"]);
        assert!(html.contains("A, eth0: rx-0: interrupts on CPU 2, RPS to off\""), "{html}");
        assert!(html.contains("rx-0: interrupts on CPU 2, RPS to CPUs 0-1,3-7\""), "{html}");
        assert_eq!((html.matches("box changed").count(), html.matches("link changed").count()), (1, 1));
        let (a, b) = html.split_once("<div class=\"b\">").expect("two sides");
        assert!(!a.contains("changed") && b.contains(">7 CPUs<"), "{html}");
        assert!(!drawn(Sketch::case_a(), &[]).contains("changed"));
    }

    #[test]
    fn queues_on_the_same_way_are_one_row_and_the_table_has_all() {
        let irqs: Vec<u32> = (0..16).collect();
        let html = drawn(Sketch::new(16).device("eth0", &irqs).rps("eth0", "4-7"), &["rps eth0/rx-3 = off"]);
        assert!(html.contains(">rx-0 to 15<") && html.contains(">CPUs 0-15<"), "{html}");
        assert!(
            html.contains(">rx-0 to 2<") && html.contains(">rx-3<") && html.contains(">rx-4 to 15<"),
            "{html}"
        );
        assert_eq!(html.matches("<tr>").count(), 17);
        let each: Vec<String> = (0..16).map(|queue| format!("rps eth0/rx-{queue} = {queue}")).collect();
        let each: Vec<&str> = each.iter().map(String::as_str).collect();
        let html = drawn(Sketch::new(16).device("eth0", &irqs), &each);
        assert!(html.contains("and 4 more rows in the table"), "{html}");
    }

    #[test]
    fn without_queues_there_is_no_diagram() {
        let mut m = Markup::default();
        section(&mut m, "", &["a", "b"].map(|title| Side { title, class: title, nics: Vec::new() }));
        assert_eq!(m.finish(), "");
    }
}
