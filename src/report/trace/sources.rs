//! Sources of receive work: interrupts, and woken threads.

use super::length;
use crate::probe::trace::{IrqTrace, Trace};
use crate::report::measured::{ROWS, more, section};
use crate::report::number::{grouped, share};
use crate::report::text::{Cell, Column, FAINT, Table, clean};

/// Gaps between interrupts, and interrupts per packet.
pub(super) fn interrupts(trace: &Trace) -> String {
    if trace.irqs.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        Column::right("IRQ"),
        Column::left("name").wrapping(),
        Column::right("CPU"),
        Column::right("count"),
        Column::right("gap median"),
        Column::right("99 %"),
        Column::right("longest"),
        Column::right("per packet"),
    ])
    .indented(2);
    for irq in trace.irqs.iter().take(ROWS) {
        let gaps = irq.gaps;
        table.row([
            irq.irq.to_string().into(),
            clean(&name(irq)).into(),
            irq.cpu.to_string().into(),
            grouped(irq.count).into(),
            length(gaps.count, gaps.p50_ns),
            length(gaps.count, gaps.p99_ns),
            length(gaps.count, gaps.max_ns),
            irq.per_packet().map_or_else(|| Cell::styled(FAINT, "-"), |each| format!("{each:.2}").into()),
        ]);
    }
    section("interrupts", &(table.render() + &more(trace.irqs.len())))
}

fn name(irq: &IrqTrace) -> String {
    let parts: Vec<String> = irq.queue.iter().cloned().chain([irq.actions.join(", ")]).collect();
    parts.join(" ")
}

/// Wakeups of threads, and their wait for a CPU.
pub(super) fn threads(trace: &Trace) -> String {
    if trace.threads.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        Column::left("thread").wrapping(),
        Column::right("wakeups"),
        Column::right("wait median"),
        Column::right("99 %"),
        Column::right("longest"),
        Column::right("runs"),
        Column::right("time"),
    ])
    .indented(2);
    for thread in trace.threads.iter().take(ROWS) {
        let delays = thread.delays;
        table.row([
            clean(&thread.name).into(),
            grouped(thread.wakeups).into(),
            length(delays.count, delays.p50_ns),
            length(delays.count, delays.p99_ns),
            length(delays.count, delays.max_ns),
            grouped(thread.runs.count).into(),
            share(trace.share(thread.ns)).into(),
        ]);
    }
    section("threads that receive", &(table.render() + &more(trace.threads.len())))
}
