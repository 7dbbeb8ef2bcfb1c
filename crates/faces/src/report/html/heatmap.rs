//! The heatmap: receive work of each CPU in each slot, with the arm of every slot above it.

use std::fmt::Write;

use crate::report::heat::{LEVELS, level};
use rxlab_base::number;
use rxlab_stats::design::{Arm, Phase};
use rxlab_trial::record::TrialRecord;

use super::grid::{Column, Grid};
use super::markup::{Markup, percent, px, typeset};
use super::tables;

/// Height of the strips of the arms.
const LANES: f64 = 10.0;

/// The heatmap with at most about `cells` cells; a remark if no slot has rates.
pub(super) fn plot(m: &mut Markup, record: &TrialRecord, cells: usize) {
    let Some(grid) = Grid::new(record, cells) else {
        m.leaf("p", &[("class", "absent")], "No slot has figures by CPU.");
        return;
    };
    let row = (360.0 / grid.rows.len() as f64).clamp(3.0, 30.0);
    let height = row * grid.rows.len() as f64;
    m.element("div", &[("class", "heatmap")], |m| {
        phases(m, &grid);
        lanes(m, &grid);
        rows(m, &grid, row, height);
        map(m, &grid, row, height);
        means(m, &grid, row, height);
        times(m, &grid);
    });
    legend(m, &grid);
    tables::behind(m, "CPUs as a table", |m| table(m, &grid));
}

/// Columns of one kind, next to each other.
struct Group {
    first: usize,
    count: usize,
    name: &'static str,
}

/// The calibration, arm A and arm B, as far as there are any.
fn groups(grid: &Grid) -> Vec<Group> {
    let mut first = 0;
    let same = |a: &Column, b: &Column| name(a) == name(b);
    let groups = grid.columns.chunk_by(same).map(|columns| {
        let group = Group { first, count: columns.len(), name: name(&columns[0]) };
        first += columns.len();
        group
    });
    groups.collect()
}

fn name(column: &Column) -> &'static str {
    match (column.phase, column.arm) {
        (Phase::Calibration, _) => "A/A",
        (_, Arm::A) => "A",
        (_, Arm::B) => "B",
    }
}

/// The name of each group above its strip.
fn phases(m: &mut Markup, grid: &Grid) {
    m.leaf("div", &[], "");
    m.element("svg", &[("class", "labels"), ("width", "100%"), ("height", "16")], |m| {
        for group in groups(grid) {
            let at = (group.first as f64 + group.count as f64 / 2.0) / grid.columns.len() as f64;
            let class = if group.name == "B" { "b" } else { "a" };
            m.classed_label(class, (&percent(at), "11"), "middle", group.name);
        }
    });
    m.leaf("div", &[("class", "head")], "mean of arm");
}

/// The strips of the arms: each slot is a block in the colour of its arm, hollow if the slot is void.
fn lanes(m: &mut Markup, grid: &Grid) {
    m.leaf("div", &[], "");
    let title = "The arm of each slot; void slots are hollow";
    m.cells("lanes", (grid.columns.len(), 10, LANES), title, |m| {
        let paths = [
            ("lane a", Arm::A, false),
            ("lane b", Arm::B, false),
            ("lane a hollow", Arm::A, true),
            ("lane b hollow", Arm::B, true),
        ];
        for (class, arm, void) in paths {
            let mut path = String::new();
            for (x, _) in grid.columns.iter().enumerate().filter(|(_, c)| c.arm == arm && c.void == void) {
                let _ = write!(path, "M{x}.08 1h.84v8h-.84z");
            }
            if !path.is_empty() {
                m.empty("path", &[("class", class), ("d", &path)]);
            }
        }
        divider(m, grid, 10);
    });
    m.labels(LANES, |m| {
        for (x, class, name) in [("25%", "a", "A"), ("75%", "b", "B")] {
            m.classed_label(class, (x, "9"), "middle", name);
        }
    });
}

/// Lines between the groups.
fn divider(m: &mut Markup, grid: &Grid, bottom: usize) {
    let path: String =
        groups(grid).iter().skip(1).map(|group| format!("M{} 0V{bottom}", group.first)).collect();
    if !path.is_empty() {
        m.empty("path", &[("class", "divider"), ("d", &path)]);
    }
}

fn rows(m: &mut Markup, grid: &Grid, row: f64, height: f64) {
    let every = (13.0 / row).ceil().max(1.0) as usize;
    // Powers of two, as in CPU topologies.
    let every = every.next_power_of_two();
    m.labels(height, |m| {
        for (index, line) in grid.rows.iter().enumerate().filter(|(index, _)| index.is_multiple_of(every)) {
            let y = if every == 1 { (index as f64 + 0.5) * row + 4.0 } else { (index as f64 * row) + 9.0 };
            let label = if every == 1 { line.label.clone() } else { line.first.to_string() };
            m.label(("100%", &px(y)), "end", &label);
        }
    });
}

/// One path per colour: a cell takes a dozen bytes, and equal neighbours share them.
fn areas(m: &mut Markup, columns: &[Vec<Option<f64>>], max: f64) {
    let mut paths = vec![String::new(); LEVELS];
    let rows = columns.first().map_or(0, Vec::len);
    for y in 0..rows {
        let mut x = 0;
        while x < columns.len() {
            let Some(value) = columns[x][y] else {
                x += 1;
                continue;
            };
            let level = level(value, max);
            let same = |column: &&Vec<Option<f64>>| {
                column[y].is_some_and(|value| crate::report::heat::level(value, max) == level)
            };
            let run = columns[x..].iter().take_while(same).count();
            let _ = write!(paths[level], "M{x} {y}h{run}v1H{x}z");
            x += run;
        }
    }
    for (level, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        m.empty("path", &[("class", &format!("l{level}")), ("d", path)]);
    }
}

fn map(m: &mut Markup, grid: &Grid, row: f64, height: f64) {
    let (columns, rows) = (grid.columns.len(), grid.rows.len());
    let title = format!(
        "{}, {rows} rows of CPUs by {columns} columns of slots; most is {}",
        grid.measure.title(),
        grid.measure.value(grid.max)
    );
    m.cells("map", (columns, rows, height), &title, |m| {
        let cells: Vec<Vec<Option<f64>>> = grid.columns.iter().map(|column| column.cells.clone()).collect();
        areas(m, &cells, grid.max);
        if row >= 10.0 {
            let path: String = (1..rows).map(|y| format!("M0 {y}H{columns}")).collect();
            m.empty("path", &[("class", "divider thin"), ("d", &path)]);
        }
        divider(m, grid, rows);
        let height = rows.to_string();
        for (x, column) in grid.columns.iter().enumerate() {
            let class = if column.void { "slot void" } else { "slot" };
            let place = [("class", class), ("x", &x.to_string()), ("width", "1"), ("height", &height)];
            m.hinted("rect", &place, &typeset(&column.title));
        }
    });
}

/// The mean of each arm at the right edge: the before and after of every CPU.
fn means(m: &mut Markup, grid: &Grid, row: f64, height: f64) {
    let title = "Mean of the valid slots of arm A (left) and arm B (right) by CPU";
    m.drawing("map means", height, title, |m| {
        for (index, line) in grid.rows.iter().enumerate() {
            for (arm, (x, mean)) in ["A", "B"].iter().zip([0.0, 0.51].into_iter().zip(line.means)) {
                let Some(mean) = mean else { continue };
                let y = index as f64 * row;
                let level = level(mean, grid.max);
                let tall = if row >= 10.0 { row - 1.0 } else { row };
                let place = [("x", percent(x)), ("y", px(y)), ("width", percent(0.49)), ("height", px(tall))];
                let class = format!("l{level}");
                let mut attributes = vec![("class", class.as_str())];
                attributes.extend(place.iter().map(|(name, value)| (*name, value.as_str())));
                let rate = grid.measure.value(mean);
                m.hinted("rect", &attributes, &format!("{}, arm {arm}: {rate}", line.label));
                if row >= 16.0 {
                    let class = match level {
                        0..4 => "on low",
                        4 => "on middle",
                        _ => "on high",
                    };
                    let (x, y) = (percent(x + 0.245), px(y + row / 2.0 + 3.5));
                    m.classed_label(class, (&x, &y), "middle", rate.trim_end_matches("/s"));
                }
            }
        }
    });
}

/// Time of the first and of the last slot of each group.
fn times(m: &mut Markup, grid: &Grid) {
    m.leaf("div", &[], "");
    m.labels(18.0, |m| {
        let all = grid.columns.len() as f64;
        for group in groups(grid).iter().filter(|group| group.count as f64 / all > 0.2) {
            let at = (group.first as f64 + group.count as f64 / 2.0) / all;
            let [first, last] =
                [group.first, group.first + group.count - 1].map(|column| grid.columns[column].start_s);
            m.label((&percent(at), "13"), "middle", &format!("{first:.0} to {last:.0} s"));
        }
    });
    m.leaf("div", &[], "");
}

/// The mean of each arm by CPU.
fn table(m: &mut Markup, grid: &Grid) {
    let rows = grid.rows.iter().map(|row| {
        let [a, b] = row.means;
        let value = |mean: Option<f64>| mean.map_or("-".to_owned(), |mean| grid.measure.value(mean));
        let change = a.zip(b).filter(|(a, _)| *a > 0.0);
        let change = change.map_or("-".to_owned(), |(a, b)| number::change(b / a - 1.0));
        vec![row.label.clone(), value(a), value(b), change]
    });
    tables::figures(m, &["CPU", "Mean A", "Mean B", "Change"], rows);
}

fn legend(m: &mut Markup, grid: &Grid) {
    m.element("p", &[("class", "legend")], |m| {
        m.inline("span", &[], "0");
        m.element("svg", &[("width", "144"), ("height", "10"), ("aria-hidden", "true")], |m| {
            for level in 0..LEVELS {
                let x = (level * 18).to_string();
                m.empty(
                    "rect",
                    &[("class", &format!("l{level}")), ("x", &x), ("width", "18"), ("height", "10")],
                );
            }
        });
        let mut text =
            format!("{} {}, square-root scale", grid.measure.value(grid.max), grid.measure.title());
        if grid.merged > 1 {
            let _ =
                write!(text, "; each column averages one arm of up to {} neighbouring pairs", grid.merged);
        }
        if grid.columns.iter().any(|column| column.void) {
            text.push_str("; void slots are hollow above and pale below");
        }
        m.inline("span", &[], &text);
    });
}
