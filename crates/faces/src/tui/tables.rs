//! Queues, interfaces, CPUs and programs as rows.

use std::cmp::Reverse;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Row, Table};

use super::app::{App, Order, Spot};
use super::look::Look;
use crate::report::interference::{LEAST, by, who};
use crate::report::live::{CpuRow, LiveFrame, NicRow, ProgramRow, QueueRow};
use crate::report::text::clean;
use rxlab_base::number::share;
use rxlab_base::number::{count, percent};
use rxlab_base::units::{CpuMask, NicName};
use rxlab_path::model::Fact;
use rxlab_probe::Interference;

const GAP: u16 = 2;

/// A column: its title, its width, and how it is aligned.
pub(super) struct Column {
    title: &'static str,
    /// Columns of text that it needs.
    least: u16,
    /// Its part of what is left; 0 for none.
    grows: u16,
    is_right: bool,
    /// The order that sorts by it.
    order: Option<Order>,
}

impl Column {
    fn right(title: &'static str, least: u16, order: Option<Order>) -> Self {
        Self { title, least, grows: 0, is_right: true, order }
    }

    fn left(title: &'static str, least: u16, grows: u16) -> Self {
        Self { title, least, grows, is_right: false, order: None }
    }

    fn width(&self) -> Constraint {
        if self.grows == 0 { Constraint::Length(self.least) } else { Constraint::Fill(self.grows) }
    }
}

/// Rows below a line of titles.
pub(super) struct Rows {
    columns: Vec<Column>,
    /// Titles of columns that are left out where there is too little room, the first of them first.
    spare: &'static [&'static str],
    rows: Vec<Vec<String>>,
    /// The interface of each row; empty for other rows.
    nics: Vec<NicName>,
}

impl Rows {
    /// Draws as many rows as fit, from `first` on, which is kept within the rows. Returns the first row drawn.
    pub(super) fn draw(
        &self,
        frame: &mut Frame<'_>,
        area: Rect,
        first: usize,
        app: &mut App,
        look: Look,
    ) -> usize {
        let room = usize::from(area.height.saturating_sub(1));
        let first = first.min(self.rows.len().saturating_sub(room));
        let shown = self.fitting(area.width);
        let titles = shown.iter().map(|at| {
            let column = &self.columns[*at];
            let is_sorted = column.order.is_some() && column.order == app.order();
            let title = format!("{}{}", column.title, if is_sorted { " v" } else { "" });
            cell(title, column.is_right).style(look.strong())
        });
        let rows = self.rows.iter().skip(first).take(room).map(|row| {
            Row::new(shown.iter().map(|at| {
                let text = &row[*at];
                let is_nothing = ["0", "-", "off"].contains(&text.as_str());
                let style = if is_nothing { look.faint() } else { Style::new() };
                cell(text.clone(), self.columns[*at].is_right).style(style)
            }))
        });
        let widths = || shown.iter().map(|at| self.columns[*at].width());
        let table = Table::new(rows, widths()).header(Row::new(titles)).column_spacing(GAP);
        frame.render_widget(table, area);
        let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
        // As the table places its columns.
        let places = Layout::horizontal(widths()).spacing(GAP).split(head);
        for (at, place) in shown.iter().zip(places.iter()) {
            if let Some(order) = self.columns[*at].order {
                app.spots.push((*place, Spot::Order(order)));
            }
        }
        for (nic, row) in self.nics.iter().skip(first).zip(body.rows()) {
            app.spots.push((row, Spot::Nic(nic.clone())));
        }
        first
    }

    /// Positions of the columns that are shown in `width`.
    fn fitting(&self, width: u16) -> Vec<usize> {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        for title in self.spare {
            let needed: u16 = shown.iter().map(|at| self.columns[*at].least + GAP).sum();
            if needed <= width.saturating_add(GAP) {
                break;
            }
            shown.retain(|at| self.columns[*at].title != *title);
        }
        shown
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }
}

fn cell(text: String, is_right: bool) -> Cell<'static> {
    let line = Line::from(clean(&text));
    Cell::from(Text::from(if is_right { line.right_aligned() } else { line }))
}

pub(super) fn queues(app: &App, frame: &LiveFrame) -> Rows {
    let mut rows: Vec<&QueueRow> = frame.queues.iter().filter(|row| app.passes(frame, &row.nic)).collect();
    match app.order() {
        Some(Order::Interrupts) => largest_first(&mut rows, |row| row.interrupts.unwrap_or_default()),
        Some(Order::Dropped) => largest_first(&mut rows, |row| row.dropped.unwrap_or_default()),
        Some(Order::Name) => {}
        _ => largest_first(&mut rows, |row| row.packets),
    }
    let row = |row: &QueueRow| {
        vec![
            format!("{}/{}", row.nic, row.queue),
            format!("{}{}", if row.is_counted { "" } else { "~" }, count(row.packets)),
            row.interrupts.map_or_else(nothing, count),
            row.dropped.map_or_else(nothing, count),
            if row.cpus.is_empty() { nothing() } else { row.cpus.to_string() },
            fact(&row.rps_cpus, mask),
            fact(
                &row.rps_flow_cnt,
                |entries| if *entries == 0 { "off".to_owned() } else { entries.to_string() },
            ),
        ]
    };
    Rows {
        spare: &["RFS", "DROPS/s", "IRQS/s"],
        columns: vec![
            Column::left("QUEUE", 10, 1),
            Column::right("PACKETS/s", 11, Some(Order::Packets)),
            Column::right("IRQS/s", 9, Some(Order::Interrupts)),
            Column::right("DROPS/s", 9, Some(Order::Dropped)),
            Column::right("CPU", 6, None),
            Column::left("RPS", 8, 1),
            Column::right("RFS", 5, None),
        ],
        nics: rows.iter().map(|row| row.nic.clone()).collect(),
        rows: rows.into_iter().map(row).collect(),
    }
}

pub(super) fn nics(app: &App, frame: &LiveFrame) -> Rows {
    let mut rows: Vec<&NicRow> = frame.nics.iter().filter(|row| app.passes(frame, &row.nic)).collect();
    largest_first(&mut rows, |row| row.rx_packets);
    let row = |row: &NicRow| {
        vec![
            row.nic.to_string(),
            row.driver.clone().unwrap_or_else(nothing),
            count(row.rx_packets),
            count(row.rx_bytes * 8.0 / 1e6),
            count(row.rx_missed),
            count(row.rx_dropped),
        ]
    };
    Rows {
        spare: &["DRIVER", "Mbit/s"],
        columns: vec![
            Column::left("INTERFACE", 10, 1),
            Column::left("DRIVER", 10, 0),
            Column::right("PACKETS/s", 11, None),
            Column::right("Mbit/s", 8, None),
            Column::right("NO BUFFER/s", 11, None),
            Column::right("DROPS/s", 9, None),
        ],
        nics: rows.iter().map(|row| row.nic.clone()).collect(),
        rows: rows.into_iter().map(row).collect(),
    }
}

pub(super) fn cpus(app: &App, frame: &LiveFrame) -> Rows {
    let mut rows: Vec<&CpuRow> = frame.cpus.iter().collect();
    match app.order() {
        Some(Order::Packets) => largest_first(&mut rows, |row| row.packets),
        Some(Order::Dropped) => largest_first(&mut rows, |row| row.dropped),
        Some(Order::Name) => {}
        _ => largest_first(&mut rows, |row| row.receive_time),
    }
    let row = |row: &CpuRow| {
        vec![
            row.cpu.to_string(),
            percent(row.receive_time),
            percent(row.busy),
            percent(row.steal),
            count(row.packets),
            count(row.dropped),
            count(row.time_squeeze),
            count(row.rps_ipis),
        ]
    };
    Rows {
        spare: &["STEAL", "RPS IPIs/s", "SQUEEZES/s"],
        columns: vec![
            Column::right("CPU", 5, Some(Order::Name)),
            Column::right("RECEIVE", 9, Some(Order::Receiving)),
            Column::right("BUSY", 6, None),
            Column::right("STEAL", 6, None),
            Column::right("PACKETS/s", 11, Some(Order::Packets)),
            Column::right("DROPS/s", 9, Some(Order::Dropped)),
            Column::right("SQUEEZES/s", 10, None),
            Column::right("RPS IPIs/s", 10, None),
        ],
        nics: Vec::new(),
        rows: rows.into_iter().map(row).collect(),
    }
}

/// Processes that lost time, as measured.
pub(super) fn losers(app: &App, sample: &Interference) -> Rows {
    let mut victims: Vec<_> = sample.victims.known().into_iter().flatten().collect();
    victims.retain(|victim| sample.share(victim.lost_ns() + victim.own_ns()) >= LEAST);
    if app.order() == Some(Order::CpuTime) {
        victims.sort_by_key(|victim| Reverse(victim.believed_ns.known().copied()));
    }
    let part = |ns: u64| share(sample.share(ns));
    let rows = victims.into_iter().map(|victim| {
        vec![
            who(victim),
            part(victim.lost_ns()),
            fact(&victim.believed_ns, |ns| part(*ns)),
            fact(&victim.really_ns, |ns| part(*ns)),
            part(victim.own_ns()),
            by(sample, victim),
        ]
    });
    Rows {
        spare: &["OWN", "HAD"],
        nics: Vec::new(),
        rows: rows.collect(),
        columns: vec![
            Column::left("PROCESS", 16, 3),
            Column::right("LOST", 6, Some(Order::Lost)),
            Column::right("CHARGED", 10, Some(Order::CpuTime)),
            Column::right("HAD", 7, None),
            Column::right("OWN", 6, None),
            Column::left("LOST TO", 12, 2),
        ],
    }
}

/// Programs that use CPU time, and the receive time of the CPUs they ran on.
pub(super) fn programs(app: &App, rows: &[ProgramRow]) -> Rows {
    let mut rows: Vec<&ProgramRow> = rows.iter().collect();
    if app.order() != Some(Order::CpuTime) {
        largest_first(&mut rows, |row| row.receive_time.unwrap_or_default());
    }
    let row = |row: &ProgramRow| {
        vec![
            format!("{} {}", row.command, row.pid),
            percent(row.cpu),
            fact(&row.ran_on, mask),
            row.receive_time.map_or_else(nothing, percent),
        ]
    };
    Rows {
        spare: &[],
        nics: Vec::new(),
        rows: rows.into_iter().map(row).collect(),
        columns: vec![
            Column::left("PROGRAM", 12, 1),
            Column::right("CPU TIME", 10, Some(Order::CpuTime)),
            Column::left("RAN ON CPUs", 12, 1),
            Column::right("RECEIVE TIME THERE", 20, Some(Order::Lost)),
        ],
    }
}

/// Sorts rows by a number. Equal ones stay in their order.
fn largest_first<T>(rows: &mut [&T], number: impl Fn(&T) -> f64) {
    rows.sort_by(|a, b| number(b).total_cmp(&number(a)));
}

fn nothing() -> String {
    "-".to_owned()
}

fn mask(cpus: &CpuMask) -> String {
    if cpus.is_empty() { "off".to_owned() } else { cpus.to_string() }
}

/// A value, or the word for its absence.
fn fact<T>(fact: &Fact<T>, show: impl FnOnce(&T) -> String) -> String {
    match fact {
        Fact::Known(value) => show(value),
        Fact::NotAsked | Fact::Unsupported => nothing(),
        Fact::Denied(need) => format!("needs {need}"),
        Fact::Broken(_) => "broken".to_owned(),
    }
}
