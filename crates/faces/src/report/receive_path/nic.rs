//! Everything about one interface.

mod about;

use super::cells::{Footnotes, Marks, irq_file, not_applicable, ranges};
use super::queues::{Queue, idle_runs, queues};
use super::{contradictions, kind, placed, steered_by_first, unknown_interrupt};
use crate::report::text::{BAD, Cell, STRONG, Table, left, paragraph, right, styled, wrapping};
use rxlab_path::model::{Irq, Model, Nic, RxQueue};

/// The interface, its device and driver, its position in the stack, and each queue.
pub fn nic(model: &Model, nic: &Nic) -> String {
    let mut notes = Footnotes::default();
    let state = if nic.up { "up" } else { "down" };
    let what = nic.driver.as_deref().unwrap_or_else(|| kind(nic));
    let mut out = format!("{} {what}, {state}\n", styled(STRONG, &format!("{}:", nic.name)));
    out += &about::table(model, nic, &mut notes).render();
    out.push('\n');
    out += &steering(model, nic, &mut notes);
    out += &(steered_by_first(nic) + &contradictions(nic));
    out + &notes.render()
}

/// The table of queues, with interrupt columns if the interface has interrupts.
fn steering(model: &Model, nic: &Nic, notes: &mut Footnotes) -> String {
    let queues = queues(nic);
    if queues.is_empty() {
        return "no queues\n".to_owned();
    }
    let has_place = |queue: &RxQueue| {
        !queue.irqs.is_empty()
            || queue.napi.is_some()
            || queue.channel_cpu.is_some()
            || nic.hides_interrupt(queue)
    };
    let interrupts = nic.rx.iter().any(has_place);
    let marks = Marks::new([nic]);
    let mut columns = vec![left("queue")];
    if interrupts {
        columns.extend([right("NAPI"), right("IRQ"), wrapping("CPU"), wrapping("may go to")]);
    }
    columns.extend([wrapping("RPS CPUs"), left("RFS"), wrapping("XPS")]);
    if interrupts {
        columns.push(wrapping("action"));
    }
    let mut table = Table::new(columns);
    for run in &idle_runs(nic) {
        let queue = &run.first();
        let id = queue.title(nic, run.name());
        let [rps, rfs, xps] = queue.steering(nic, &queue.xps(), notes);
        if !interrupts {
            table.row([id, rps, rfs, xps]);
            continue;
        }
        let [irq, cpu, may, action] = match (queue.irqs().first(), queue.channel_cpu()) {
            (None, _) if queue.rx.is_some_and(|rx| nic.hides_interrupt(rx)) => {
                let (irq, cpu) = unknown_interrupt(model, nic, notes);
                [irq, cpu, not_applicable(), not_applicable()]
            }
            (None, Some(cpu)) => ["VMBus".into(), cpu.to_string().into(), not_applicable(), not_applicable()],
            (irq, _) => interrupt(nic, irq, &marks, notes),
        };
        table.row([id, napi_id(queue), irq, cpu, may, rps, rfs, xps, action]);
        for irq in queue.irqs().iter().skip(1) {
            let [irq, cpu, may, action] = interrupt(nic, Some(irq), &marks, notes);
            let empty = Cell::default;
            table.row([empty(), empty(), irq, cpu, may, empty(), empty(), empty(), action]);
        }
    }
    let mut out = table.render() + &marks.legend();
    for queue in &queues {
        if let Some(thread) = queue.rx.and_then(|rx| rx.napi.as_ref()?.thread) {
            out += &paragraph("", &format!("{} is polled by the kernel thread {thread}", queue.id()));
        }
    }
    let pending = queues.iter().flat_map(Queue::irqs).filter(|irq| irq.is_pending()).map(|irq| irq.number.0);
    let pending: Vec<u32> = pending.collect();
    if !pending.is_empty() {
        let text = "still outside its affinity; an interrupt moves when it next fires";
        out += &paragraph("! ", &format!("IRQ {}: {text}", ranges(pending)));
    }
    out
}

fn napi_id(queue: &Queue<'_>) -> Cell {
    let napi = queue.rx.and_then(|rx| rx.napi.as_ref());
    napi.map_or_else(not_applicable, |napi| napi.id.to_string().into())
}

/// Number, CPU, allowed CPUs and action name.
fn interrupt(nic: &Nic, irq: Option<&Irq>, marks: &Marks, notes: &mut Footnotes) -> [Cell; 4] {
    let Some(irq) = irq else { return std::array::from_fn(|_| not_applicable()) };
    let may = notes.cell(&irq.affinity, &irq_file(irq, "smp_affinity_list"), |cpus| cpus.to_string().into());
    let cpu = placed(irq, notes);
    let cpu = match irq.effective.known() {
        Some(cpus) if irq.is_pending() => Cell::styled(BAD, format!("{cpus} !")),
        _ => cpu,
    };
    // Some drivers append the address of the device, which is in the table above.
    let action = irq.action.replace(&format!("@{}", nic.address), "");
    [marks.number(irq).into(), cpu, may, action.into()]
}

#[cfg(test)]
mod tests {
    use super::nic;
    use crate::report::sample_model::{large, name, rich};
    use crate::report::text;
    use rxlab_path::model::Model;
    use rxlab_path::sketch::Sketch;

    fn plain(model: &Model, of: &str) -> String {
        text::plain(&nic(model, model.nic(&name(of)).expect("there")))
    }

    #[test]
    fn a_virtual_function_with_everything() {
        insta::assert_snapshot!(plain(&rich(), "eth0"));
    }

    #[test]
    fn a_device_that_tells_little() {
        insta::assert_snapshot!(plain(&rich(), "ens3"));
    }

    #[test]
    fn a_veth_into_a_container() {
        insta::assert_snapshot!(plain(&rich(), "veth0"));
    }

    #[test]
    fn each_of_many_queues_has_its_row() {
        let text = plain(&large(), "ens1f0np0");
        let rows = text.lines().filter(|line| line.starts_with("rx-")).count();
        assert_eq!(rows, 64, "{text}");
    }

    #[test]
    fn one_mask_for_all_queues_is_said() {
        let (mut model, _) = Sketch::new(4).device("eth0", &[0, 1]).rps("eth0", "2-3").build();
        let said = |model: &Model| {
            let text = plain(model, "eth0").split_whitespace().collect::<Vec<_>>().join(" ");
            text.contains(
                "eth0: tg3 does not report the queue of a packet, so the RPS mask and RFS table of rx-0 apply to all queues",
            )
        };
        assert!(!said(&model));
        model.nics[0].driver = Some("tg3".to_owned());
        assert!(said(&model), "{}", plain(&model, "eth0"));
    }
}
