//! Summary of a timeline as text: events seen, then long runs and their causes.

use std::path::Path;

use super::measured::{ROWS, foot, irq_name, more, polls, section};
use super::text::{CAUTION, Cell, FAINT, STRONG, Table, paragraph, right, styled, wrapping};
use super::timeline::cause_name;
use rxlab_base::number::{grouped, share};
use rxlab_base::units::Fact;
use rxlab_probe::Class;
use rxlab_probe::trace::{CpuTrace, LongRun, Run, Trace};

/// Maximum number of bursts and of runs listed.
const LONGEST: usize = 5;

/// The whole report; ends with a line break.
pub fn text(trace: &Trace) -> String {
    let mut out = head(trace);
    out += &cpus(trace);
    out += &longest(trace);
    out += &bursts(trace);
    out += &interrupts(trace);
    out += &polls(&trace.napis);
    out += &threads(trace);
    out + &foot(&trace.cost, |ns| trace.share(ns), &trace.notes)
}

/// Path and size of the timeline; `None` if none was written.
pub fn written(file: Option<(&Path, u64)>) -> String {
    match file {
        Some((path, bytes)) => {
            let (name, megabytes) = (path.display(), bytes as f64 / 1e6);
            if path.extension().is_some_and(|end| end == "svg") {
                paragraph("picture: ", &format!("{name}, {megabytes:.1} MB"))
            } else {
                paragraph("timeline: ", &format!("{name}, {megabytes:.1} MB, for https://ui.perfetto.dev"))
            }
        }
        None => paragraph("timeline: ", "not written; --out FILE writes it for https://ui.perfetto.dev"),
    }
}

fn head(trace: &Trace) -> String {
    let lost = match trace.lost {
        0 => ", none lost".to_owned(),
        lost => format!(", {CAUTION}{} lost{CAUTION:#}", grouped(lost)),
    };
    let events = if trace.events == 1 { "event" } else { "events" };
    let title = format!("{} {events} in {:.1} s", grouped(trace.events), trace.seconds);
    let mut out = format!("{}{lost}\n", styled(STRONG, &title));
    if trace.lost > 0 {
        out += &paragraph(
            &format!("{CAUTION}lost:{CAUTION:#} "),
            "the ring buffer had no room for them. Work in progress at that time is not in any length, and \
             counts are too low. A larger --buffer or fewer CPUs (--cpu) may help",
        );
    }
    if trace.cut > 0 {
        let cut = match trace.cut {
            1 => "1 piece of work was cut off and has no length".to_owned(),
            cut => format!("{} pieces of work were cut off and have no length", grouped(cut)),
        };
        out += &paragraph("", &cut);
    }
    out
}

/// A duration in short form: `0.4 us`, `12 us`, `1.2 ms`.
pub(super) fn time(ns: u64) -> String {
    match ns {
        0..9_950 => format!("{:.1} us", ns as f64 / 1e3),
        9_950..995_000 => format!("{:.0} us", ns as f64 / 1e3),
        995_000..9_950_000 => format!("{:.1} ms", ns as f64 / 1e6),
        9_950_000..995_000_000 => format!("{:.0} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// A time, or `-` if `count` is 0.
fn length(count: u64, ns: u64) -> Cell {
    if count > 0 { time(ns).into() } else { Cell::styled(FAINT, "-") }
}

fn known(count: &Fact<u64>) -> Cell {
    count.known().map_or_else(|| Cell::styled(FAINT, "-"), |count| grouped(*count).into())
}

fn cpus(trace: &Trace) -> String {
    if trace.cpus.is_empty() {
        return "  no CPU received anything\n".to_owned();
    }
    let titles = ["CPU", "NET_RX", "runs", "median", "99 %", "longest", "polls", "full", "squeezed", "lost"];
    let mut table = Table::new(titles.map(right)).indented(2);
    let mut shown: Vec<&CpuTrace> = trace.cpus.iter().collect();
    if shown.len() > ROWS {
        shown.sort_by_key(|cpu| std::cmp::Reverse((cpu.net_rx_ns, cpu.polls)));
        shown.truncate(ROWS);
        shown.sort_by_key(|cpu| cpu.cpu);
    }
    for cpu in shown {
        let runs = cpu.runs;
        table.row([
            cpu.cpu.to_string().into(),
            share(trace.share(cpu.net_rx_ns)).into(),
            grouped(runs.count).into(),
            length(runs.count, runs.p50_ns),
            length(runs.count, runs.p99_ns),
            length(runs.count, runs.max_ns),
            grouped(cpu.polls).into(),
            grouped(cpu.full_polls).into(),
            known(&cpu.squeezed),
            grouped(cpu.lost).into(),
        ]);
    }
    let legend = "full: polls that used up their budget; squeezed: runs that ended by time or budget with \
                  work left";
    table.render() + &more(trace.cpus.len(), ROWS) + &paragraph("  ", legend)
}

fn longest(trace: &Trace) -> String {
    if trace.longest.is_empty() {
        return String::new();
    }
    let columns =
        [right("at"), right("CPU"), right("length"), wrapping("why"), right("polls"), right("packets")];
    let mut table = Table::new(columns).indented(2);
    for LongRun { cpu, at_ns, ns, run } in trace.longest.iter().take(LONGEST) {
        table.row([
            at(*at_ns).into(),
            cpu.to_string().into(),
            time(*ns).into(),
            why(run, *ns).into(),
            grouped(u64::from(run.polls)).into(),
            grouped(run.packets + run.backlog).into(),
        ]);
    }
    section("longest runs of NET_RX", &table.render())
}

/// Time since the start in milliseconds; the file has it in microseconds.
fn at(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

fn why(run: &Run, ns: u64) -> String {
    let task = match run.pid {
        0 => "idle".to_owned(),
        _ if run.task.starts_with("ksoftirqd/") => run.task.clone(),
        pid => format!("{} {pid}", run.task),
    };
    let mut why = match (run.cause.class, run.pid) {
        // An idle CPU finds work by polling, without an interrupt.
        (Class::SelfInflicted, 0) => task,
        _ => format!("{}, {task}", cause_name(run.cause)),
    };
    if run.full > 0 {
        why += &format!(", {} full", grouped(u64::from(run.full)));
    }
    // Negligible interrupt time is left out.
    if run.interrupts_ns > ns / 20 {
        why += &format!(", interrupts {}", time(run.interrupts_ns));
    }
    why
}

fn bursts(trace: &Trace) -> String {
    let total: u64 = trace.cpus.iter().map(|cpu| cpu.bursts.count).sum();
    if total == 0 {
        return String::new();
    }
    let by_cpu: Vec<String> = trace
        .cpus
        .iter()
        .filter(|cpu| cpu.bursts.count > 0)
        .map(|cpu| {
            let bursts = cpu.bursts;
            format!(
                "CPU {}: {}, median {}, 99 % {}",
                cpu.cpu,
                grouped(bursts.count),
                time(bursts.p50_ns),
                time(bursts.p99_ns)
            )
        })
        .take(ROWS)
        .collect();
    let mut table =
        Table::new([right("at"), right("CPU"), right("length"), right("runs"), right("packets")]).indented(2);
    for burst in trace.bursts.iter().take(LONGEST) {
        table.row([
            at(burst.at_ns).into(),
            burst.cpu.to_string().into(),
            time(burst.ns).into(),
            grouped(burst.runs).into(),
            grouped(burst.packets).into(),
        ]);
    }
    let title = format!("bursts: runs less than {} apart", time(trace.burst_gap_ns));
    section(&title, &(paragraph("  ", &by_cpu.join("; ")) + &table.render()))
}

/// Gaps between interrupts, and interrupts per packet.
fn interrupts(trace: &Trace) -> String {
    if trace.irqs.is_empty() {
        return String::new();
    }
    let numbers = ["CPU", "count", "gap median", "99 %", "longest", "per packet"].map(right);
    let mut table = Table::new([right("IRQ"), wrapping("name")].into_iter().chain(numbers)).indented(2);
    for irq in trace.irqs.iter().take(ROWS) {
        let gaps = irq.gaps;
        table.row([
            irq.irq.to_string().into(),
            irq_name(irq.queue.as_deref(), &irq.actions).into(),
            irq.cpu.to_string().into(),
            grouped(irq.count).into(),
            length(gaps.count, gaps.p50_ns),
            length(gaps.count, gaps.p99_ns),
            length(gaps.count, gaps.max_ns),
            irq.per_packet().map_or_else(|| Cell::styled(FAINT, "-"), |each| format!("{each:.2}").into()),
        ]);
    }
    section("interrupts", &(table.render() + &more(trace.irqs.len(), ROWS)))
}

/// Wakeups of threads, and their wait for a CPU.
fn threads(trace: &Trace) -> String {
    if trace.threads.is_empty() {
        return String::new();
    }
    let numbers = ["wakeups", "wait median", "99 %", "longest", "runs", "time"].map(right);
    let mut table = Table::new([wrapping("thread")].into_iter().chain(numbers)).indented(2);
    for thread in trace.threads.iter().take(ROWS) {
        let delays = thread.delays;
        table.row([
            thread.name.clone().into(),
            grouped(thread.wakeups).into(),
            length(delays.count, delays.p50_ns),
            length(delays.count, delays.p99_ns),
            length(delays.count, delays.max_ns),
            grouped(thread.runs.count).into(),
            share(trace.share(thread.ns)).into(),
        ]);
    }
    section("threads that receive", &(table.render() + &more(trace.threads.len(), ROWS)))
}

#[cfg(test)]
mod tests;
