//! Properties of an interface, one row each.

use crate::report::receive_path::cells::{Footnotes, irq_file, words};
use crate::report::receive_path::{device, place};
use crate::report::text::{Cell, FAINT, Table, left, wrapping};
use rxlab_base::units::CpuMask;
use rxlab_path::model::{Fact, Model, Nic, NicKind};

/// Labels and values; facts that are unsupported share one row, facts that were not asked another.
struct About {
    table: Table,
    unsupported: Vec<&'static str>,
    not_asked: Vec<&'static str>,
}

impl About {
    fn row(&mut self, label: &str, cell: impl Into<Cell>) {
        self.table.row([Cell::styled(FAINT, label), cell.into()]);
    }

    fn fact<T>(
        &mut self,
        nic: &Nic,
        label: &'static str,
        fact: &Fact<T>,
        notes: &mut Footnotes,
        show: impl FnOnce(&T) -> String,
    ) {
        match fact {
            Fact::NotAsked => self.not_asked.push(label),
            Fact::Unsupported => self.unsupported.push(label),
            fact => {
                let cell = notes.cell(fact, &format!("{} {label}", nic.name), |value| show(value).into());
                self.row(label, cell);
            }
        }
    }
}

/// One row per known property of an interface.
pub(super) fn table(model: &Model, nic: &Nic, notes: &mut Footnotes) -> Table {
    let table = Table::new([left(""), wrapping("")]).indented(2).without_titles();
    let mut about = About { table, unsupported: Vec::new(), not_asked: Vec::new() };
    let hardware = &nic.hardware;
    about.row("address", nic.address.to_string());
    about.fact(nic, "driver info", &hardware.driver, notes, device::driver);
    if let Some(function) = device::function(&hardware.function) {
        about.row("function", function);
    }
    if nic.kind == NicKind::Device {
        about.row("node", node(model, nic));
    }
    let stack = place::stack(model, nic);
    if !stack.is_empty() {
        about.row("stack", stack);
    }
    if let Some(peer) = &nic.stack.peer {
        about.row("peer", place::peer(model, peer, notes));
    }
    about.fact(nic, "channels", &hardware.channels, notes, device::channels);
    about.fact(nic, "rings", &hardware.rings, notes, device::rings);
    about.fact(nic, "coalescing", &hardware.coalesce, notes, device::coalesce);
    about.fact(nic, "RSS", &hardware.rss, notes, device::rss);
    match &hardware.rss_contexts {
        Fact::Known(contexts) if !contexts.is_empty() => {
            contexts
                .iter()
                .for_each(|found| about.row(&format!("RSS {}", found.context), device::rss(found)));
        }
        fact => about.fact(nic, "RSS contexts", fact, notes, |_| "none".to_owned()),
    }
    match &hardware.rules {
        Fact::Known(rules) if !rules.is_empty() => {
            let labels = std::iter::once("flow rules").chain(std::iter::repeat(""));
            labels.zip(rules).for_each(|(label, rule)| about.row(label, device::rule(rule)));
        }
        fact => about.fact(nic, "flow rules", fact, notes, |_| "none".to_owned()),
    }
    about.fact(nic, "offloads", &hardware.features, notes, |found| device::features(found));
    if let Some(xdp) = &nic.xdp {
        let program = xdp.program.map(|id| format!(", program {id}")).unwrap_or_default();
        about.row("XDP", format!("{}{program}", xdp.mode));
    }
    let held = nic.rx.iter().filter_map(|queue| Some(format!("rx-{} {}", queue.index, queue.held_by?)));
    let held = held.collect::<Vec<_>>().join(", ");
    if !held.is_empty() {
        about.row("held queues", held);
    }
    about.fact(nic, "threaded NAPI", &nic.napi.threaded, notes, |on| {
        if *on { "on" } else { "off" }.to_owned()
    });
    about.fact(nic, "napi_defer_hard_irqs", &nic.napi.defer_hard_irqs, notes, u32::to_string);
    let flush = &nic.napi.gro_flush_timeout_ns;
    about.fact(nic, "gro_flush_timeout", flush, notes, |ns| format!("{ns} ns"));
    let others = nic.other_irqs.iter().map(|irq| {
        let cpus = notes.word(&irq.effective, &irq_file(irq, "effective_affinity_list"), CpuMask::to_string);
        format!("{} {} -> CPU {cpus}", irq.number, irq.action)
    });
    let others = others.collect::<Vec<_>>().join(", ");
    if !others.is_empty() {
        about.row("other IRQs", others);
    }
    if let Some(known) = known_by(nic) {
        about.row("IRQs known by", known);
    }
    for (label, all) in
        [("unsupported", about.unsupported.join(", ")), ("not queried", about.not_asked.join(", "))]
    {
        if !all.is_empty() {
            about.row(label, Cell::styled(FAINT, all));
        }
    }
    about.table
}

fn node(model: &Model, nic: &Nic) -> String {
    let Some(node) = nic.node else { return "unknown".to_owned() };
    let cpus: CpuMask = model.cpus.iter().filter(|cpu| cpu.node == Some(node)).map(|cpu| cpu.id).collect();
    if cpus.is_empty() { format!("{node}, without CPUs") } else { format!("{node}, CPUs {cpus}") }
}

/// The source of all links between queues and interrupts, or a remark that there are several.
fn known_by(nic: &Nic) -> Option<String> {
    let mut sources = nic.rx.iter().flat_map(|queue| &queue.irqs).map(|irq| irq.source);
    let first = sources.next()?;
    let same = sources.all(|source| source == first);
    Some(if same { words(first).to_owned() } else { "more than one source, marked below".to_owned() })
}
