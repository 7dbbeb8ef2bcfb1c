//! Who paid for received packets, as text: CPUs, processes, and what was inferred beside what was measured.

use super::container::container;
use super::measured::{ROWS, cost, polls, section};
use super::number::{grouped, share};
use super::text::{CAUTION, Cell, Column, FAINT, STRONG, Table, clean, paragraph, styled};
use crate::probe::{Class, CpuSteal, Inference, Method, Steal, Tier, Victim};
use crate::units::{CpuMask, Fact};

/// What is shorter than this part of the look is not listed as a victim's loss.
const LEAST: f64 = 0.0005;

/// The whole report; ends with a line break.
pub fn text(steal: &Steal) -> String {
    let mut out = head(steal);
    out += &cpus(steal);
    if let Fact::Known(victims) = &steal.victims {
        out += &section("who paid", &victims_table(steal, victims));
    }
    out += &threads(steal);
    if let Fact::Known(irqs) = &steal.irqs {
        let mut table = Table::new([
            Column::right("IRQ"),
            Column::left("name").wrapping(),
            Column::right("CPU"),
            Column::right("count"),
            Column::right("handlers"),
            Column::right("NET_RX caused"),
        ])
        .indented(2);
        for irq in irqs.iter().filter(|irq| irq.net_rx_ns > 0).take(ROWS) {
            let name =
                irq.queue.iter().cloned().chain([irq.actions.join(", ")]).collect::<Vec<_>>().join(" ");
            table.row([
                irq.irq.to_string().into(),
                clean(&name).into(),
                irq.cpu.to_string().into(),
                grouped(irq.count).into(),
                share(steal.share(irq.ns)).into(),
                share(steal.share(irq.net_rx_ns)).into(),
            ]);
        }
        if irqs.iter().any(|irq| irq.net_rx_ns > 0) {
            out += &section("interrupts that brought packets", &table.render());
        }
    }
    if let Fact::Known(napis) = &steal.napis {
        out += &polls(napis);
    }
    for inference in &steal.inference {
        out += &inferred(inference);
    }
    out += &foot(steal);
    out
}

fn head(steal: &Steal) -> String {
    let tier = match steal.tier {
        Tier::Ebpf => "measured with eBPF".to_owned(),
        Tier::Procfs => format!("from /proc, {}", accounting(&steal.exact_softirq_time)),
    };
    let mut out =
        format!("{}\n", styled(STRONG, &format!("receive time over {:.1} s, {tier}", steal.seconds)));
    if let Some(missing) = &steal.missing {
        out += &paragraph(&format!("{CAUTION}no eBPF:{CAUTION:#} "), missing);
    }
    out
}

fn accounting(exact: &Fact<bool>) -> &'static str {
    match exact {
        Fact::Known(true) => "softirq time exact",
        Fact::Known(false) => "softirq time sampled by ticks",
        _ => "accuracy not known",
    }
}

/// Part of the look that a time is; `-` for what is not known.
fn part(steal: &Steal, ns: &Fact<u64>) -> Cell {
    match ns {
        Fact::Known(0) => Cell::styled(FAINT, "0 %"),
        Fact::Known(ns) => share(steal.share(*ns)).into(),
        _ => Cell::styled(FAINT, "-"),
    }
}

/// The columns of the table of CPUs, and the classes that each adds up.
const COLUMNS: [(&str, &[Class]); 7] = [
    ("NIC IRQ", &[Class::NicIrq]),
    ("RPS IPI", &[Class::RpsIpi]),
    ("self", &[Class::SelfInflicted, Class::BusyPoll]),
    ("ksoftirqd", &[Class::Ksoftirqd]),
    ("threads", &[Class::ThreadedNapi, Class::IrqThread]),
    ("idle", &[Class::Idle]),
    ("other", &[Class::OtherIrq, Class::OtherSoftirq, Class::Unknown]),
];

fn cpus(steal: &Steal) -> String {
    let titles = ["CPU", "NET_RX", "IRQs"].into_iter().chain(COLUMNS.map(|(title, _)| title));
    let mut table = Table::new(titles.map(Column::right)).indented(2);
    // Of many CPUs most have nothing to show.
    let (shown, quiet): (Vec<&CpuSteal>, Vec<&CpuSteal>) =
        steal.cpus.iter().partition(|cpu| steal.cpus.len() <= ROWS || is_busy(steal, cpu));
    for cpu in shown {
        let classes = COLUMNS.map(|(_, classes)| part(steal, &sum(cpu, classes)));
        let first = [cpu.cpu.to_string().into(), part(steal, &cpu.net_rx_ns), part(steal, &cpu.hard_irq_ns)];
        table.row(first.into_iter().chain(classes));
    }
    let mut out = table.render();
    if !quiet.is_empty() {
        let quiet: CpuMask = quiet.into_iter().map(|cpu| cpu.cpu).collect();
        out += &paragraph("  next to nothing on CPUs ", &quiet.to_string());
    }
    out
}

/// What is not known may be anything.
fn is_busy(steal: &Steal, cpu: &CpuSteal) -> bool {
    [&cpu.net_rx_ns, &cpu.hard_irq_ns]
        .into_iter()
        .any(|ns| ns.known().is_none_or(|ns| steal.share(*ns) >= LEAST))
}

/// The sum of those that are known; not known when none is.
fn sum(cpu: &CpuSteal, classes: &[Class]) -> Fact<u64> {
    let known: Vec<u64> =
        classes.iter().filter_map(|class| cpu.by_class.get(class)?.known().copied()).collect();
    if known.is_empty() { Fact::Unsupported } else { Fact::Known(known.iter().sum()) }
}

fn victims_table(steal: &Steal, victims: &[Victim]) -> String {
    let mut table = Table::new([
        Column::left("process").wrapping(),
        Column::right("believed"),
        Column::right("really"),
        Column::right("stolen"),
        Column::left("by").wrapping(),
        Column::right("own"),
    ])
    .indented(2);
    let shown: Vec<&Victim> =
        victims.iter().filter(|victim| steal.share(victim.stolen_ns() + victim.own_ns()) >= LEAST).collect();
    for victim in shown.iter().take(ROWS) {
        table.row([
            who(victim).into(),
            part(steal, &victim.believed_ns),
            part(steal, &victim.really_ns),
            part(steal, &Fact::Known(victim.stolen_ns())),
            by(steal, victim).into(),
            part(steal, &Fact::Known(victim.own_ns())),
        ]);
    }
    match shown.len() {
        0 => "  no task lost more than 0.05 % of the time\n".to_owned(),
        n if n > ROWS => format!("{}  and {} more (--json has all)\n", table.render(), n - ROWS),
        _ => table.render(),
    }
}

fn who(victim: &Victim) -> String {
    let mut name = clean(&victim.command);
    match victim.pid {
        Some(pid) => name += &format!(" {pid}"),
        None if victim.processes > 1 => name += &format!(" ({} that ended)", victim.processes),
        None => name += " (ended)",
    }
    let path = victim.control_group.known().filter(|path| *path != "/" && victim.pid.is_some());
    let whose = victim.container.as_ref().map(container).or_else(|| victim.unit.clone());
    match whose.as_ref().or(path) {
        Some(whose) => format!("{name} {}", clean(whose)),
        None => name,
    }
}

/// What robbed it, the greatest thief first.
fn by(steal: &Steal, victim: &Victim) -> String {
    let classes = victim.by_class.iter().filter(|(class, _)| class.robs());
    let mut thieves: Vec<(&str, u64)> = classes.map(|(class, ns)| (class.name(), *ns)).collect();
    thieves.push(("handlers", victim.hard_irq_ns));
    thieves.retain(|(_, ns)| steal.share(*ns) >= LEAST);
    thieves.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let texts: Vec<String> =
        thieves.iter().map(|(name, ns)| format!("{name} {}", share(steal.share(*ns)))).collect();
    texts.join(", ")
}

fn threads(steal: &Steal) -> String {
    let busy = steal.threads.iter().filter(|thread| steal.share(thread.ns) >= LEAST);
    let texts: Vec<String> =
        busy.map(|thread| format!("{} {}", clean(&thread.name), share(steal.share(thread.ns)))).collect();
    if texts.is_empty() {
        return String::new();
    }
    format!("\n{}", paragraph("threads that receive, by the scheduler: ", &texts.join(", ")))
}

fn inferred(inference: &Inference) -> String {
    let who = match inference.method {
        Method::Spin => "integer work",
        Method::Openssl => "openssl speed",
    };
    let mut table = Table::new([Column::left(""), Column::right("")]).indented(2).without_titles();
    let mut row = |label: &str, value: &Fact<f64>| {
        let cell = match value {
            Fact::Known(part) => share(*part).into(),
            Fact::NotAsked => return,
            _ => Cell::styled(FAINT, "-"),
        };
        table.row([label.into(), cell]);
    };
    row("had, as top shows it", &inference.believed);
    row("missed", &Fact::Known(inference.missing));
    row("  other tasks", &inference.waiting);
    row("  hypervisor", &inference.hypervisor);
    row("  stolen (inferred)", &Fact::Known(inference.inferred));
    row("stolen (measured)", &inference.exact);
    row("other interrupts (measured)", &inference.other_interrupts);
    match (inference.entries(), inference.unexplained(), inference.unseen()) {
        (Some(entries), Some(left), _) => {
            row("in and out of interrupts", &Fact::Known(entries));
            row("left over", &Fact::Known(left));
        }
        (_, _, Some(unseen)) => row("not seen", &Fact::Known(unseen)),
        _ => {}
    }
    let mut remarks = match &inference.believed {
        Fact::Known(believed) => {
            format!("  top is wrong by {}\n", share((believed - (1.0 - inference.missing)).max(0.0)))
        }
        _ => String::new(),
    };
    if let (Fact::Known(bare), Fact::Known(count)) = (&inference.bare, &inference.interruptions) {
        remarks += &paragraph(
            "  ",
            &format!(
                "{} interruptions; one that brings nothing takes {:.1} us here beyond what it does, by trial \
                 with {} a second; its sender waits {:.1} us",
                grouped(*count),
                bare.ns as f64 / 1e3,
                grouped(bare.rate),
                bare.sender_ns as f64 / 1e3,
            ),
        );
    }
    let title = format!("{who} on CPU {} for {:.1} s", inference.cpu, inference.seconds);
    section(&title, &(table.render() + &remarks))
}

fn foot(steal: &Steal) -> String {
    let mut out = format!("\n{}", cost(&steal.cost, |ns| steal.share(ns)));
    for note in &steal.notes {
        out += &paragraph("note: ", note);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::text;
    use crate::probe::{CpuSteal, Steal};
    use crate::report::sample_steal::{counted, measured};
    use crate::units::{CpuId, Fact};

    /// As it comes without colours.
    fn plain(steal: &Steal) -> String {
        let text = anstream::adapter::strip_str(&text(steal)).to_string();
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{text}");
        text
    }

    #[test]
    fn measured_by_programs() {
        insta::assert_snapshot!(plain(&measured()));
    }

    #[test]
    fn counted_by_the_kernel() {
        insta::assert_snapshot!(plain(&counted()));
    }

    #[test]
    fn of_many_cpus_the_quiet_ones_are_one_line() {
        let mut steal = measured();
        let quiet =
            CpuSteal { net_rx_ns: Fact::Known(9), hard_irq_ns: Fact::Known(0), ..steal.cpus[0].clone() };
        steal.cpus.extend((4..128).map(|cpu| CpuSteal { cpu: CpuId(cpu), ..quiet.clone() }));
        let text = plain(&steal);
        assert!(text.contains("next to nothing on CPUs 4-127\n"), "{text}");
    }

    #[test]
    fn a_quiet_machine_has_no_victims() {
        let quiet = Steal { victims: Fact::Known(Vec::new()), ..measured() };
        assert!(plain(&quiet).contains("no task lost more than"));
    }

    #[test]
    fn json_reads_back() {
        let steal = measured();
        let json = crate::report::json::pretty(&steal).expect("JSON");
        assert!(json.starts_with("{\n  \"schema\": \"rxlab.steal/1\""));
        assert_eq!(serde_json::from_str::<Steal>(&json).expect("a look"), steal);
    }
}
