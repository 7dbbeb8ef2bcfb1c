//! Receive interference as text: CPUs, processes, and the inferred loss next to the measured one.

use super::container::container;
use super::measured::{ROWS, foot, irq_name, more, polls, section};
use super::text::{CAUTION, Cell, FAINT, STRONG, Table, left, paragraph, right, styled, wrapping};
use rxlab_base::number::{grouped, share};
use rxlab_base::units::{CpuMask, Fact};
use rxlab_probe::{Class, CpuInterference, Inference, Interference, Method, Tier, Victim};

/// Losses below this part of the sample are not listed.
pub const LEAST: f64 = 0.0005;

/// The whole report; ends with a line break.
pub fn text(sample: &Interference) -> String {
    let mut out = head(sample);
    out += &cpus(sample);
    if let Fact::Known(victims) = &sample.victims {
        out += &section("who paid", &victims_table(sample, victims));
    }
    out += &threads(sample);
    if let Fact::Known(irqs) = &sample.irqs {
        let numbers = ["CPU", "count", "handlers", "NET_RX caused"].map(right);
        let mut table = Table::new([right("IRQ"), wrapping("name")].into_iter().chain(numbers)).indented(2);
        for irq in irqs.iter().filter(|irq| irq.net_rx_ns > 0).take(ROWS) {
            table.row([
                irq.irq.to_string().into(),
                irq_name(irq.queue.as_deref(), &irq.actions).into(),
                irq.cpu.to_string().into(),
                grouped(irq.count).into(),
                share(sample.share(irq.ns)).into(),
                share(sample.share(irq.net_rx_ns)).into(),
            ]);
        }
        if irqs.iter().any(|irq| irq.net_rx_ns > 0) {
            out += &section("interrupts that brought packets", &table.render());
        }
    }
    if let Fact::Known(napis) = &sample.napis {
        out += &polls(napis);
    }
    for inference in &sample.inference {
        out += &inferred(inference);
    }
    out + &foot(&sample.cost, |ns| sample.share(ns), &sample.notes)
}

fn head(sample: &Interference) -> String {
    let tier = match sample.tier {
        Tier::Ebpf => "measured with eBPF".to_owned(),
        Tier::Procfs => format!("from /proc, {}", accounting(&sample.exact_softirq_time)),
    };
    let mut out =
        format!("{}\n", styled(STRONG, &format!("receive time over {:.1} s, {tier}", sample.seconds)));
    if let Some(missing) = &sample.missing {
        out += &paragraph(&format!("{CAUTION}no eBPF:{CAUTION:#} "), missing);
    }
    out
}

fn accounting(exact: &Fact<bool>) -> &'static str {
    match exact {
        Fact::Known(true) => "softirq time exact",
        Fact::Known(false) => "softirq time sampled by ticks",
        _ => "accuracy unknown",
    }
}

/// A time as a part of the sample; `-` if unknown.
fn part(sample: &Interference, ns: &Fact<u64>) -> Cell {
    match ns {
        Fact::Known(0) => Cell::styled(FAINT, "0 %"),
        Fact::Known(ns) => share(sample.share(*ns)).into(),
        _ => Cell::styled(FAINT, "-"),
    }
}

/// Columns of the table of CPUs, and the classes that each sums.
const COLUMNS: [(&str, &[Class]); 7] = [
    ("NIC IRQ", &[Class::NicIrq]),
    ("RPS IPI", &[Class::RpsIpi]),
    ("self", &[Class::SelfInflicted, Class::BusyPoll]),
    ("ksoftirqd", &[Class::Ksoftirqd]),
    ("threads", &[Class::ThreadedNapi, Class::IrqThread]),
    ("idle", &[Class::Idle]),
    ("other", &[Class::OtherIrq, Class::OtherSoftirq, Class::Unknown]),
];

fn cpus(sample: &Interference) -> String {
    let titles = ["CPU", "NET_RX", "IRQs"].into_iter().chain(COLUMNS.map(|(title, _)| title));
    let mut table = Table::new(titles.map(right)).indented(2);
    // On large machines most CPUs receive nothing.
    let (shown, quiet): (Vec<&CpuInterference>, Vec<&CpuInterference>) =
        sample.cpus.iter().partition(|cpu| sample.cpus.len() <= ROWS || is_busy(sample, cpu));
    for cpu in shown {
        let classes = COLUMNS.map(|(_, classes)| part(sample, &sum(cpu, classes)));
        let first =
            [cpu.cpu.to_string().into(), part(sample, &cpu.net_rx_ns), part(sample, &cpu.hard_irq_ns)];
        table.row(first.into_iter().chain(classes));
    }
    let mut out = table.render();
    if !quiet.is_empty() {
        let quiet: CpuMask = quiet.into_iter().map(|cpu| cpu.cpu).collect();
        out += &paragraph("  almost nothing on CPUs ", &quiet.to_string());
    }
    out
}

/// Unknown times count as busy.
fn is_busy(sample: &Interference, cpu: &CpuInterference) -> bool {
    [&cpu.net_rx_ns, &cpu.hard_irq_ns]
        .into_iter()
        .any(|ns| ns.known().is_none_or(|ns| sample.share(*ns) >= LEAST))
}

/// Sum of the known times; unknown if none is known.
fn sum(cpu: &CpuInterference, classes: &[Class]) -> Fact<u64> {
    let known: Vec<u64> =
        classes.iter().filter_map(|class| cpu.by_class.get(class)?.known().copied()).collect();
    if known.is_empty() { Fact::Unsupported } else { Fact::Known(known.iter().sum()) }
}

fn victims_table(sample: &Interference, victims: &[Victim]) -> String {
    let numbers = ["charged", "had", "lost"].map(right);
    let columns = [wrapping("process")].into_iter().chain(numbers).chain([wrapping("by"), right("own")]);
    let mut table = Table::new(columns).indented(2);
    let shown: Vec<&Victim> =
        victims.iter().filter(|victim| sample.share(victim.lost_ns() + victim.own_ns()) >= LEAST).collect();
    for victim in shown.iter().take(ROWS) {
        table.row([
            who(victim).into(),
            part(sample, &victim.believed_ns),
            part(sample, &victim.really_ns),
            part(sample, &Fact::Known(victim.lost_ns())),
            by(sample, victim).into(),
            part(sample, &Fact::Known(victim.own_ns())),
        ]);
    }
    match shown.len() {
        0 => "  no task lost more than 0.05 % of the time\n".to_owned(),
        rows => table.render() + &more(rows, ROWS),
    }
}

/// Processes that lost a listed part of the time, the largest first.
pub fn losers<'a>(sample: &Interference, victims: &'a [Victim]) -> Vec<&'a Victim> {
    let mut losers: Vec<&Victim> =
        victims.iter().filter(|victim| sample.share(victim.lost_ns()) >= LEAST).collect();
    losers.sort_by_key(|victim| std::cmp::Reverse(victim.lost_ns()));
    losers
}

/// Name, number and service of a process that paid.
pub fn who(victim: &Victim) -> String {
    let mut name = victim.command.clone();
    match victim.pid {
        Some(pid) => name += &format!(" {pid}"),
        None if victim.processes > 1 => name += &format!(" ({} that ended)", victim.processes),
        None => name += " (ended)",
    }
    let path = victim.control_group.known().filter(|path| *path != "/" && victim.pid.is_some());
    let whose = victim.container.as_ref().map(container).or_else(|| victim.unit.clone());
    match whose.as_ref().or(path) {
        Some(whose) => format!("{name} {whose}"),
        None => name,
    }
}

/// Causes of the process's loss, largest first.
pub fn by(sample: &Interference, victim: &Victim) -> String {
    let classes = victim.by_class.iter().filter(|(class, _)| class.interferes());
    let causes = classes.map(|(class, ns)| (class.name(), *ns));
    ranked(sample, causes.chain([("handlers", victim.hard_irq_ns)]))
}

/// Causes that took a listed part of the time, largest first: `NIC IRQ 59 %, handlers 0.3 %`.
pub fn ranked<'a>(sample: &Interference, causes: impl Iterator<Item = (&'a str, u64)>) -> String {
    let mut causes: Vec<(&str, u64)> = causes.filter(|(_, ns)| sample.share(*ns) >= LEAST).collect();
    causes.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let texts: Vec<String> =
        causes.iter().map(|(name, ns)| format!("{name} {}", share(sample.share(*ns)))).collect();
    texts.join(", ")
}

fn threads(sample: &Interference) -> String {
    let busy = sample.threads.iter().filter(|thread| sample.share(thread.ns) >= LEAST);
    let texts: Vec<String> =
        busy.map(|thread| format!("{} {}", thread.name, share(sample.share(thread.ns)))).collect();
    if texts.is_empty() {
        return String::new();
    }
    format!("\n{}", paragraph("threads that receive (scheduler time): ", &texts.join(", ")))
}

fn inferred(inference: &Inference) -> String {
    let who = match inference.method {
        Method::Spin => "integer work",
        Method::Openssl => "openssl speed",
    };
    let mut table = Table::new([left(""), right("")]).indented(2).without_titles();
    let mut row = |label: &str, value: &Fact<f64>| {
        let cell = match value {
            Fact::Known(part) => share(*part).into(),
            Fact::NotAsked => return,
            _ => Cell::styled(FAINT, "-"),
        };
        table.row([label.into(), cell]);
    };
    row("charged, as top shows it", &inference.believed);
    row("missed", &Fact::Known(inference.missing));
    row("  other tasks", &inference.waiting);
    row("  hypervisor", &inference.hypervisor);
    row("  lost (inferred)", &Fact::Known(inference.inferred));
    row("lost (measured)", &inference.exact);
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
    if let (Fact::Known(irq_overhead), Fact::Known(count)) =
        (&inference.irq_overhead, &inference.interruptions)
    {
        remarks += &paragraph(
            "  ",
            &format!(
                "{} interruptions; an interrupt without work costs {:.1} us here (measured at {}/s), and {:.1} us on \
                 the CPU that sends it",
                grouped(*count),
                irq_overhead.ns as f64 / 1e3,
                grouped(irq_overhead.rate),
                irq_overhead.sender_ns as f64 / 1e3,
            ),
        );
    }
    let title = format!("{who} on CPU {} for {:.1} s", inference.cpu, inference.seconds);
    section(&title, &(table.render() + &remarks))
}

#[cfg(test)]
mod tests {
    use super::text;
    use crate::report::sample_interference::{counted, measured};
    use rxlab_base::units::{CpuId, Fact};
    use rxlab_probe::{CpuInterference, Interference};

    /// The report without colours.
    fn plain(sample: &Interference) -> String {
        crate::report::text::plain(&text(sample))
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
        let mut sample = measured();
        let quiet = CpuInterference {
            net_rx_ns: Fact::Known(9),
            hard_irq_ns: Fact::Known(0),
            ..sample.cpus[0].clone()
        };
        sample.cpus.extend((4..128).map(|cpu| CpuInterference { cpu: CpuId(cpu), ..quiet.clone() }));
        let text = plain(&sample);
        assert!(text.contains("almost nothing on CPUs 4-127\n"), "{text}");
    }

    #[test]
    fn a_quiet_machine_has_no_victims() {
        let quiet = Interference { victims: Fact::Known(Vec::new()), ..measured() };
        assert!(plain(&quiet).contains("no task lost more than"));
    }
}
