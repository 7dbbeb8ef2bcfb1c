//! CPUs as text: location of each, and the work that arrives there.

use super::cells::{Footnotes, list};
use super::cpu::{CpuProcess, CpuReport, CpuView, NicQueue};
use super::processes::names;
use crate::report::text::{Cell, FAINT, STRONG, Table, left, styled, wrapping};
use rxlab_path::model::Fact;

/// A section for each CPU; facts that could not be read are listed at the end.
pub fn cpus(report: &CpuReport) -> String {
    let mut notes = Footnotes::default();
    let interrupts_known = report.unknown.iter().all(|unknown| unknown.what != "interrupts");
    let sections: Vec<String> =
        report.cpus.iter().map(|view| section(view, interrupts_known, &mut notes)).collect();
    let mut out = sections.join("\n");
    if !report.unknown.is_empty() {
        out += "\nunknown, so possibly relevant here:\n";
        let mut table = rows();
        for unknown in &report.unknown {
            let why = match &unknown.fact {
                Fact::Known(()) => "no process found".into(),
                Fact::NotAsked => "not queried".into(),
                Fact::Unsupported => "not reported by this kernel".into(),
                fact => notes.cell(fact, &unknown.what, |()| "".into()),
            };
            table.row([unknown.what.clone().into(), why]);
        }
        out += &table.render();
    }
    out + &notes.render()
}

fn rows() -> Table {
    Table::new([left(""), wrapping("")]).indented(2).without_titles()
}

fn section(view: &CpuView, interrupts_known: bool, notes: &mut Footnotes) -> String {
    let cpu = &view.cpu;
    let mut state = vec![if cpu.online { "online" } else { "offline" }.to_owned()];
    if cpu.isolated {
        state.push("isolated".to_owned());
    }
    match &view.nohz_full {
        Fact::Known(false) | Fact::Unsupported => {}
        Fact::Known(true) => state.push("nohz_full".to_owned()),
        fact => state.push(format!("nohz_full {}", notes.word(fact, "nohz_full", |_| String::new()))),
    }
    let mut out = format!("{} {}\n", styled(STRONG, &format!("CPU {}:", cpu.id)), state.join(", "));
    let number =
        |number: Option<u32>| number.map_or_else(|| "unknown".to_owned(), |number| number.to_string());
    let set =
        |cpus: &rxlab_base::units::CpuMask| if cpus.is_empty() { "unknown".to_owned() } else { list(cpus) };
    let place =
        format!("node {}, package {}, core {}", number(cpu.node), number(cpu.package), number(cpu.core));
    let mut table = rows();
    let mut row = |label: &str, text: String| {
        let cell = if text.is_empty() { Cell::styled(FAINT, "none") } else { text.into() };
        table.row([Cell::styled(FAINT, label), cell]);
    };
    row("location", place);
    row("same core", set(&cpu.siblings));
    row("same last-level cache", set(&cpu.l3));
    let irqs = view.irqs.iter().map(|irq| match &irq.queue {
        Some(queue) => format!("{}/{queue} (IRQ {})", irq.nic, irq.irq),
        None => format!("{} (IRQ {}, {})", irq.nic, irq.irq, irq.action),
    });
    let irqs = irqs.collect::<Vec<_>>().join(", ");
    row("interrupts", if irqs.is_empty() && !interrupts_known { "unknown".to_owned() } else { irqs });
    row("in the RPS CPUs of", queues(&view.rps));
    row("in the XPS CPUs of", queues(&view.xps));
    match &view.processes {
        Fact::Known(processes) => {
            for (label, text) in listeners(processes, notes) {
                row(label, text);
            }
        }
        fact => row("listeners", notes.word(fact, "listening sockets", |_| String::new())),
    }
    out += &table.render();
    out
}

/// Processes that ran here, those that may run here, and those for which either is unknown.
fn listeners(processes: &[CpuProcess], notes: &mut Footnotes) -> Vec<(&'static str, String)> {
    let here = |fact: &Fact<bool>| *fact == Fact::Known(true);
    let (ran, others): (Vec<_>, Vec<_>) = processes.iter().partition(|one| here(&one.ran));
    let allowed = |bound| {
        let some = others.iter().filter(move |one| here(&one.allowed) && one.bound == Fact::Known(bound));
        names(some.map(|one| (one.command.as_str(), one.pid)))
    };
    let mut rows = vec![
        ("last ran here", ran.into_iter().map(long).collect::<Vec<_>>().join("; ")),
        ("may run here, pinned", allowed(true)),
        ("may run on any CPU", allowed(false)),
    ];
    for process in processes.iter().filter(|one| one.allowed.known().is_none() || one.ran.known().is_none()) {
        let ran = word(process, "CPUs", &process.ran, notes);
        let may = word(process, "allowed CPUs", &process.allowed, notes);
        rows.push(("partly unknown", format!("{}: ran here {ran}, allowed {may}", title(process))));
    }
    rows
}

/// `eth0/rx-0..3, eth1/rx-0`: neighbours are one range.
fn queues(queues: &[NicQueue]) -> String {
    let next = |a: &NicQueue, b: &NicQueue| a.nic == b.nic && a.queue.index + 1 == b.queue.index;
    let range = |run: &[NicQueue]| match run {
        [one] => format!("{}/{}", one.nic, one.queue),
        run => format!("{}/{}..{}", run[0].nic, run[0].queue, run[run.len() - 1].queue.index),
    };
    queues.chunk_by(next).map(range).collect::<Vec<_>>().join(", ")
}

fn word(process: &CpuProcess, what: &str, fact: &Fact<bool>, notes: &mut Footnotes) -> String {
    notes.word(fact, &format!("{what} of process {}", process.pid), |here| {
        if *here { "yes" } else { "no" }.to_owned()
    })
}

fn title(process: &CpuProcess) -> String {
    format!("{} {}", process.command, process.pid)
}

fn long(process: &CpuProcess) -> String {
    let service = process.service.as_ref().map_or_else(String::new, |service| format!(" ({service})"));
    format!("{}{service}: {}", title(process), process.sockets.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::cpu::CpuReport;
    use super::cpus;
    use crate::report::{sample_model, text};
    use rxlab_path::model::Model;

    fn plain(model: &Model, list: &str) -> String {
        text::plain(&cpus(&CpuReport::new(model, &sample_model::cpus(list))))
    }

    #[test]
    fn cpus_with_and_without_work() {
        insta::assert_snapshot!(plain(&sample_model::rich(), "0,5,9,15"));
    }

    #[test]
    fn many_queues_wrap() {
        insta::assert_snapshot!(plain(&sample_model::large(), "65"));
    }

    #[test]
    fn what_is_not_known_of_a_cpu_is_a_word() {
        let mut model = sample_model::machine(1, 1);
        let cpu = &mut model.cpus[0];
        (cpu.node, cpu.core, cpu.package) = (None, None, None);
        (cpu.siblings, cpu.l3) = Default::default();
        model.listeners = rxlab_path::model::Fact::Unsupported;
        model.nics = vec![sample_model::device("eth0", "ice", 1, 24, 0)];
        model.nics[0].rx[0].irqs[0].effective = rxlab_path::model::Fact::Unsupported;
        model.settings.nohz_full = rxlab_path::model::Fact::Denied(rxlab_base::units::Need::Root);
        insta::assert_snapshot!(plain(&model, "0"));
    }
}
