//! The receive path as text: the CPU that each queue interrupts, and where packets go from there.
//!
//! Views of a model: the machine, one interface, CPUs, the tree from interface to process, and one flow. Lines fit 80
//! columns; each kind of absence is a word.

mod cells;
mod cpu;
mod cpu_text;
mod device;
mod flow;
mod machine;
mod nic;
mod place;
mod processes;
mod queues;
mod tree;

use std::collections::BTreeSet;

use cells::{Footnotes, Marks, grouped, irq_file, list, not_applicable};
pub use cpu::{CpuReport, CpuView, NicQueue, QueueIrq};
pub use cpu_text::cpus;
pub use flow::flow;
pub use nic::nic;
use queues::{Run, runs};
pub use tree::tree;

use crate::report::text::{CAUTION, Cell, FAINT, Table, left, paragraph, right, wrapping};
use rxlab_base::units::{CpuMask, NicName};
use rxlab_path::model::{Fact, Irq, Model, Nic, NicKind};

/// Contradictions between sources about an interface, one paragraph each.
fn contradictions(nic: &Nic) -> String {
    let line = |found: &rxlab_path::model::Contradiction| {
        let text = format!(
            "{}/{} {}: {} (used), but {}",
            nic.name, found.queue, found.what, found.believed, found.other
        );
        paragraph("! ", &text)
    };
    nic.contradictions.iter().map(line).collect()
}

/// Whose mask and table apply, where not each queue has its own.
fn steered_by_first(nic: &Nic) -> String {
    if !nic.is_steered_by_first() {
        return String::new();
    }
    let driver = nic.driver.as_deref().unwrap_or_default();
    let text = format!(
        "{}: {driver} does not report the queue of a packet, so the RPS mask and RFS table of rx-0 apply to all queues",
        nic.name
    );
    paragraph("", &text)
}

/// Virtual interfaces of one kind without steering share a line if there are more than this.
const ALIKE: usize = 4;

/// The machine in a few lines, then one row for each queue (one more for each further interrupt of it), at most 80
/// columns wide. Absence is a word: `-` for not applicable, `needs root`, or `broken` with a numbered footnote.
///
/// On an interface with many queues, neighbours with the same steering share a row; virtual interfaces without
/// steering share a line. Interfaces with a setting always have a row.
pub fn overview(model: &Model) -> String {
    let mut notes = Footnotes::default();
    let mut out = machine::lines(model, &mut notes);
    out.push('\n');
    if model.nics.is_empty() {
        return out + "no network interfaces\n" + &notes.render();
    }
    let plain = fold(model);
    let folded: BTreeSet<&NicName> = plain.iter().flat_map(|(_, nics)| nics).map(|nic| &nic.name).collect();
    let shown = || model.nics.iter().filter(|nic| !folded.contains(&nic.name));
    let marks = Marks::new(shown());
    let mut table = Table::new([
        left("NIC"),
        left("driver"),
        left("queue"),
        right("IRQ"),
        wrapping("CPU"),
        wrapping("RPS CPUs"),
        left("RFS"),
        wrapping("XPS"),
    ]);
    let mut has_runs = false;
    for nic in shown() {
        has_runs |= rows(model, nic, &marks, &mut table, &mut notes);
    }
    out += &table.render();
    plain.iter().for_each(|(kind, nics)| out += &paragraph("", &folded_line(kind, nics)));
    if has_runs {
        out += &paragraph("a..b ", "queues with the same RPS and RFS; --nic NIC shows each");
    }
    out += &marks.legend();
    shown().for_each(|nic| out += &(steered_by_first(nic) + &contradictions(nic)));
    for name in &model.unreadable_nics {
        out += &paragraph(
            "! ",
            &format!("interface {name}: its name is not UTF-8, so nothing else can be read"),
        );
    }
    out + &notes.render()
}

/// Adds an interface; returns true if a row stands for several queues.
fn rows(model: &Model, nic: &Nic, marks: &Marks, table: &mut Table, notes: &mut Footnotes) -> bool {
    let mut head = [name(nic), driver(nic)];
    let runs = runs(nic);
    if runs.is_empty() {
        table.row(std::mem::take(&mut head).into_iter().chain((0..6).map(|_| not_applicable())));
    }
    for run in &runs {
        let queue = run.first();
        let [rps, rfs, xps] = queue.steering(nic, &run.xps(), notes);
        let (irq, cpu) = if queue.rx.is_some_and(|rx| nic.hides_interrupt(rx)) {
            unknown_interrupt(model, nic, notes)
        } else {
            interrupt(run, marks, notes)
        };
        let id = queue.title(nic, run.name());
        let [nic_cell, driver_cell] = std::mem::take(&mut head);
        table.row([nic_cell, driver_cell, id, irq, cpu, rps, rfs, xps]);
        for irq in queue.irqs().iter().skip(1) {
            let cpu = placed(irq, notes);
            table.row(["".into(), "".into(), "".into(), marks.number(irq).into(), cpu]);
        }
    }
    runs.iter().any(Run::is_folded)
}

/// An interrupt that is not known, and its CPU.
fn unknown_interrupt(model: &Model, nic: &Nic, notes: &mut Footnotes) -> (Cell, Cell) {
    let unknown = Cell::styled(CAUTION, "unknown");
    let why = model.unknown_interrupts(nic).map(|why| notes.cell(why, "interrupts", |()| not_applicable()));
    (why.unwrap_or_else(|| unknown.clone()), unknown)
}

fn interrupt(run: &Run<'_>, marks: &Marks, notes: &mut Footnotes) -> (Cell, Cell) {
    match run.first().irqs().first() {
        None if run.first().channel_cpu().is_some() => ("VMBus".into(), list(&run.places()).into()),
        None => (not_applicable(), not_applicable()),
        Some(_) if run.is_folded() => (run.irqs().into(), list(&run.places()).into()),
        Some(irq) => (marks.number(irq).into(), placed(irq, notes)),
    }
}

/// CPU of an interrupt.
fn placed(irq: &Irq, notes: &mut Footnotes) -> Cell {
    notes.cell(&irq.effective, &irq_file(irq, "effective_affinity_list"), |cpus| list(cpus).into())
}

fn name(nic: &Nic) -> Cell {
    if nic.up { nic.name.to_string().into() } else { Cell::styled(FAINT, format!("{} (down)", nic.name)) }
}

fn driver(nic: &Nic) -> Cell {
    match (&nic.driver, nic.kind) {
        (Some(driver), _) => driver.clone().into(),
        (None, NicKind::Device) => not_applicable(),
        (None, _) => Cell::styled(FAINT, kind(nic)),
    }
}

/// The driver, or for other interfaces the kernel's link kind if known.
fn kind(nic: &Nic) -> &str {
    match nic.kind {
        NicKind::Loopback => "loopback",
        NicKind::Device => "device",
        NicKind::Virtual => nic.stack.kind.as_deref().unwrap_or("virtual"),
    }
}

/// The line that several virtual interfaces of one kind share.
fn folded_line(kind: &str, nics: &[&Nic]) -> String {
    let [first, second, .., last] = nics else { unreachable!("more than two share a line") };
    let down = match nics.iter().filter(|nic| !nic.up).count() {
        0 => String::new(),
        down => format!(" ({down} down)"),
    };
    format!(
        "and {} {kind} with RPS, RFS and XPS off{down}: {} {} ... {}",
        nics.len(),
        first.name,
        second.name,
        last.name
    )
}

/// Virtual interfaces that carry no setting, by kind, where they are many.
fn fold(model: &Model) -> Vec<(&str, Vec<&Nic>)> {
    let plain = model.nics.iter().filter(|nic| without_settings(nic));
    let mut folds = grouped(plain.map(|nic| (kind(nic), nic)));
    folds.retain(|(_, nics)| nics.len() > ALIKE);
    folds
}

fn without_settings(nic: &Nic) -> bool {
    let off = |cpus: &Fact<CpuMask>| match cpus {
        Fact::Known(cpus) => cpus.is_empty(),
        Fact::NotAsked | Fact::Unsupported => true,
        Fact::Denied(_) | Fact::Broken(_) => false,
    };
    let no_flows = |flows: &Fact<u32>| matches!(flows, Fact::Known(0) | Fact::NotAsked | Fact::Unsupported);
    nic.kind == NicKind::Virtual
        && nic.contradictions.is_empty()
        && nic.napi.threaded != Fact::Known(true)
        && nic.rx.iter().all(|rx| off(&rx.rps_cpus) && no_flows(&rx.rps_flow_cnt) && rx.irqs.is_empty())
        && nic.tx.iter().all(|tx| off(&tx.xps_cpus))
}

#[cfg(test)]
mod tests {
    use super::overview;
    use crate::report::sample_model::{cpus, device, large, machine, rich, virtual_nic};
    use crate::report::text;
    use rxlab_base::units::Need;
    use rxlab_path::model::{Fact, Model};

    fn plain(model: &Model) -> String {
        text::plain(&overview(model))
    }

    #[test]
    fn something_of_everything() {
        insta::assert_snapshot!(plain(&rich()));
    }

    #[test]
    fn a_large_machine_stays_readable() {
        let text = plain(&large());
        let squeezed: String = text.split_whitespace().collect();
        assert!(squeezed.contains("113,115,117,119,121,123,125,127"), "nothing is left out: {text}");
        assert!(text.contains("veth0011"), "what carries RPS has a row");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn nothing_unread_is_folded() {
        let mut model = machine(2, 1);
        model.nics = (0..6).map(|index| virtual_nic(&format!("veth{index}"), "veth")).collect();
        assert!(plain(&model).contains("and 6 veth with RPS, RFS and XPS off: veth0 veth1 ... veth5\n"));
        model.nics[0].rx[0].rps_cpus = Fact::Denied(Need::Root);
        model.nics[1].tx[0].xps_cpus = Fact::Known(cpus("1"));
        model.nics[2].napi.threaded = Fact::Known(true);
        let text = plain(&model);
        assert!(!text.contains("and "), "three alike are not many: {text}");
        assert!(text.contains("veth0") && text.contains("needs root"), "{text}");
    }

    #[test]
    fn links_are_marked_only_where_they_differ() {
        let mut model = machine(4, 1);
        model.nics = vec![device("eth0", "ice", 2, 24, 0)];
        assert!(!plain(&model).contains("unmarked"));
        model.nics[0].rx[1].irqs[0].source = rxlab_path::model::Source::Name;
        let text = plain(&model);
        assert!(
            text.contains("?25")
                && text.contains("? queue known by the device's name in that of the interrupt"),
            "{text}"
        );
    }

    /// hv_netvsc: the hypervisor signals CPUs, and there are more transmit queues than channels.
    #[test]
    fn channels_have_their_cpus_and_idle_queues_share_a_row() {
        let mut model = machine(8, 1);
        let mut nic = device("eth0", "hv_netvsc", 8, 24, 0);
        for queue in &mut nic.rx {
            queue.irqs.clear();
            queue.channel_cpu = Some(rxlab_base::units::CpuId(7 - queue.index));
        }
        let more = (8..64).map(|index| rxlab_path::model::TxQueue { index, ..nic.tx[0].clone() });
        nic.tx.extend(more.collect::<Vec<_>>());
        model.nics = vec![nic];
        insta::assert_snapshot!(plain(&model));
    }

    /// Wi-Fi and USB: no interrupt has their name. It was once shown as none.
    #[test]
    fn an_interrupt_that_is_not_known_is_not_none() {
        let mut model = machine(4, 1);
        model.nics = vec![device("wlan0", "iwlwifi", 1, 24, 0), virtual_nic("veth0", "veth")];
        model.nics[0].rx[0].irqs.clear();
        let text = plain(&model);
        let cells = |nic: &str| -> Vec<&str> {
            let row = text.lines().find(|line| line.starts_with(nic)).expect("it has a row");
            row.split_whitespace().skip(3).take(2).collect()
        };
        assert_eq!((cells("wlan0"), cells("veth0")), (vec!["unknown"; 2], vec!["-"; 2]), "{text}");
        let nic = text::plain(&super::nic(&model, &model.nics[0]));
        assert!(nic.contains("unknown  unknown"), "{nic}");
    }

    #[test]
    fn a_machine_without_interfaces() {
        assert!(plain(&machine(1, 1)).ends_with("\nno network interfaces\n"));
    }
}
