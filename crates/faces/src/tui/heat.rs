//! The heatmap: receive time of each CPU over time.
//!
//! With few CPUs time goes to the right, one or two CPUs a row. With more than twice as many CPUs as rows, CPUs go to
//! the right, two a column, and time goes down.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::look::Look;
use crate::report::live::LiveFrame;
use rxlab_base::number::percent;

/// Receive time of a CPU; `None` while it was offline.
type Value = Option<f64>;

/// Number of columns and lines.
type Size = (usize, usize);

/// Columns of the labels of time.
const TIME: usize = 7;

/// The heatmap in at most this size. `frames` are the oldest first; the last one has the CPUs.
pub(super) fn lines(frames: &[&LiveFrame], size: Size, look: Look) -> Vec<Line<'static>> {
    let Some(last) = frames.last() else { return Vec::new() };
    let (cpus, height) = (last.cpus.len(), size.1);
    if cpus == 0 || height == 0 {
        return Vec::new();
    }
    let drawn = if cpus <= 2 * height { across } else { down };
    drawn(frames, cpus, size, look)
}

/// Receive time of the CPU at `index` of the last frame.
fn value(frame: &LiveFrame, last: &LiveFrame, index: usize) -> Value {
    let cpu = last.cpus.get(index)?.cpu;
    let same = frame.cpus.get(index).filter(|row| row.cpu == cpu);
    let row = same.or_else(|| frame.cpus.iter().find(|row| row.cpu == cpu))?;
    Some(row.receive_time)
}

/// Time to the right, the newest interval last.
fn across(frames: &[&LiveFrame], cpus: usize, (width, height): Size, look: Look) -> Vec<Line<'static>> {
    let last = frames[frames.len() - 1];
    // CPUs of a row.
    let each = if cpus > height { 2 } else { 1 };
    let label = |index: usize| -> String {
        let of = |index: usize| last.cpus.get(index);
        match (of(index), of(index + 1).filter(|_| each == 2)) {
            (Some(one), None) => format!("CPU {:>4} {:>5} ", one.cpu.to_string(), percent(one.receive_time)),
            (Some(one), Some(two)) => {
                let numbers = format!("{},{}", one.cpu, two.cpu);
                let part = |time: f64| format!("{:.0}", time * 100.0);
                format!("{numbers:>7} {:>3} {:>3} % ", part(one.receive_time), part(two.receive_time))
            }
            (None, _) => String::new(),
        }
    };
    let columns = width.saturating_sub(label(0).chars().count());
    let shown = &frames[frames.len().saturating_sub(columns)..];
    let empty = columns - shown.len();
    let row = |index: usize| {
        let mut spans = vec![Span::styled(label(index), look.faint()), Span::raw(" ".repeat(empty))];
        spans.extend(shown.iter().map(|frame| {
            let one = value(frame, last, index);
            let two = if each == 2 { value(frame, last, index + 1) } else { one };
            cell(one, two, '\u{2580}', look)
        }));
        Line::from(merged(spans))
    };
    (0..cpus).step_by(each).map(row).collect()
}

/// CPUs to the right, the newest interval on top, below a line of CPU numbers.
fn down(frames: &[&LiveFrame], cpus: usize, (width, height): Size, look: Look) -> Vec<Line<'static>> {
    let last = frames[frames.len() - 1];
    let columns = width.saturating_sub(TIME).max(1);
    // CPUs of half a column, of which the busiest is shown.
    let each = cpus.div_ceil(2 * columns);
    let used = cpus.div_ceil(2 * each);
    let mut lines = vec![numbers(last, 2 * each, used, look)];
    let mut ago = 0.0;
    for frame in frames.iter().rev().take(height - 1) {
        let label = if ago == 0.0 { "now".to_owned() } else { format!("-{ago:.0} s") };
        let mut spans = vec![Span::styled(format!("{label:>6} "), look.faint())];
        spans.extend((0..used).map(|column| {
            let busiest = |half: usize| {
                let first = (2 * column + half) * each;
                let values = (first..first + each).filter_map(|index| value(frame, last, index));
                values.reduce(f64::max)
            };
            cell(busiest(0), busiest(1), '\u{258c}', look)
        }));
        lines.push(Line::from(merged(spans)));
        ago += frame.seconds;
    }
    lines
}

/// Numbers of CPUs above the columns where they begin.
fn numbers(last: &LiveFrame, each: usize, columns: usize, look: Look) -> Line<'static> {
    let mut text = format!("{:>6} ", "CPU");
    // Room for a number of four digits and a blank, in a round number of CPUs.
    let step = (5 * each).next_power_of_two() / each.next_power_of_two();
    for column in (0..columns).step_by(step.max(5)) {
        let Some(row) = last.cpus.get(column * each) else { break };
        text += &" ".repeat((TIME + column).saturating_sub(text.chars().count()));
        text += &row.cpu.to_string();
    }
    Line::styled(text, look.faint())
}

/// Two values in one column; `half` is the block for the first of them.
fn cell(one: Value, two: Value, half: char, look: Look) -> Span<'static> {
    if look.is_coloured() {
        let (Some(first), Some(second)) = (one.or(two), two.or(one)) else { return Span::raw(" ") };
        let (first, second) = (look.heat(first), look.heat(second));
        let block = if first == second { '\u{2588}' } else { half };
        return Span::styled(block.to_string(), Style::new().fg(first).bg(second));
    }
    let busier = one.into_iter().chain(two).reduce(f64::max);
    Span::raw(busier.map_or(' ', |value| look.shade(value)).to_string())
}

/// Joins neighbours of one style.
fn merged(spans: Vec<Span<'static>>) -> Vec<Span<'static>> {
    let mut merged: Vec<Span<'static>> = Vec::new();
    for span in spans {
        match merged.last_mut() {
            Some(last) if last.style == span.style => last.content.to_mut().push_str(&span.content),
            _ => merged.push(span),
        }
    }
    merged
}

/// The scale, in one line of about 50 columns: what each colour or character begins with.
pub(super) fn legend(look: Look) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    for level in 0..crate::report::heat::LEVELS {
        let least = crate::report::heat::least(level);
        spans.push(if look.is_coloured() {
            Span::styled("\u{2588}", Style::new().fg(look.heat(least + 1e-9)))
        } else {
            Span::raw(format!("'{}'", look.shade(least + 1e-9)))
        });
        spans.push(Span::styled(format!("{:.0} ", least * 100.0), look.faint()));
    }
    spans.push(Span::styled("%", look.faint()));
    spans
}
