//! The receive path as a table: which queue interrupts which CPU, and where packets go from there.

use super::text::{BAD, CAUTION, Cell, Column, FAINT, STRONG, Table, paragraph, styled};
use crate::model::{Fact, Irq, Model, Nic, NicKind};
use crate::units::{CpuMask, QueueId};

/// The machine in two lines, then one row for each queue (one more for each further interrupt of
/// it), at most 80 columns wide. What is absent is a word: `-` for not applicable, `needs root`, or
/// `broken` with a numbered footnote that says what was found.
pub fn render(model: &Model) -> String {
    let mut out = machine(model);
    out.push('\n');
    if model.nics.is_empty() {
        out += "no network interfaces\n";
        return out;
    }
    let mut table = Table::new([
        Column::left("NIC").wrapping(),
        Column::left("driver").wrapping(),
        Column::left("queue"),
        Column::right("IRQ"),
        Column::left("CPU").wrapping(),
        Column::left("RPS CPUs").wrapping(),
        Column::left("RFS"),
        Column::left("XPS").wrapping(),
    ]);
    let mut footnotes = Footnotes::default();
    for nic in &model.nics {
        rows(nic, &mut table, &mut footnotes);
    }
    out += &table.render();
    for (index, text) in footnotes.0.iter().enumerate() {
        out += &paragraph(&format!("[{}] ", index + 1), text);
    }
    out
}

fn machine(model: &Model) -> String {
    let cpus = format!("CPUs {}", list(&model.online(), "none"));
    let isolated = model.isolated();
    let mut first = vec![format!("kernel {}", model.identity.kernel), cpus];
    if !isolated.is_empty() {
        first.push(format!("isolated {isolated}"));
    }
    let entries = match &model.rps_sock_flow_entries {
        Fact::Known(0) => "0 (RFS off)".to_owned(),
        Fact::Known(entries) => entries.to_string(),
        Fact::Unsupported => "-".to_owned(),
        Fact::Denied(need) => format!("needs {need}"),
        Fact::Broken(why) => format!("broken: {why}"),
    };
    let irqbalance = match &model.irqbalance {
        Some(irqbalance) => format!("running (pid {})", irqbalance.pid),
        None => "not running".to_owned(),
    };
    let host = paragraph("", &format!("{}: {}", model.identity.hostname, first.join(", ")));
    let name = super::text::clean(&model.identity.hostname);
    let host = match host.strip_prefix(&name) {
        Some(rest) => format!("{}{rest}", styled(STRONG, &name)),
        None => host,
    };
    host + &paragraph("", &format!("rps_sock_flow_entries {entries}, irqbalance {irqbalance}"))
}

/// What was broken, in the order of the table.
#[derive(Default)]
struct Footnotes(Vec<String>);

impl Footnotes {
    /// A fact as a cell; `show` gives the cell of a known value, `place` names the fact.
    fn cell<T>(&mut self, fact: &Fact<T>, place: &str, show: impl Fn(&T) -> Cell) -> Cell {
        match fact {
            Fact::Known(value) => show(value),
            Fact::Unsupported => not_applicable(),
            Fact::Denied(need) => Cell::styled(CAUTION, format!("needs {need}")),
            Fact::Broken(why) => {
                self.0.push(format!("{place}: {why}"));
                Cell::styled(BAD, format!("broken [{}]", self.0.len()))
            }
        }
    }
}

fn rows(nic: &Nic, table: &mut Table, footnotes: &mut Footnotes) {
    let mut head = [name(nic), driver(nic)];
    let queues = nic.rx.iter().map(|queue| queue.index).chain(nic.tx.iter().map(|queue| queue.index));
    let indices: std::collections::BTreeSet<u32> = queues.collect();
    if indices.is_empty() {
        table.row(head.into_iter().chain((0..6).map(|_| not_applicable())));
        return;
    }
    for index in indices {
        let rx = nic.rx.iter().find(|queue| queue.index == index);
        let tx = nic.tx.iter().find(|queue| queue.index == index);
        let queue = if rx.is_some() { QueueId::rx(index) } else { QueueId::tx(index) };
        let at = |what: &str| format!("{}/{queue} {what}", nic.name);
        let irqs: &[Irq] = rx.map_or(&[], |queue| &queue.irqs);
        let [nic_cell, driver_cell] = std::mem::take(&mut head);
        let rps =
            rx.map_or_else(not_applicable, |queue| footnotes.cell(&queue.rps_cpus, &at("rps_cpus"), mask));
        let rfs = rx.map_or_else(not_applicable, |queue| {
            footnotes.cell(&queue.rps_flow_cnt, &at("rps_flow_cnt"), |entries| match entries {
                0 => off(),
                entries => entries.to_string().into(),
            })
        });
        let xps = tx.map_or_else(not_applicable, |queue| {
            footnotes.cell(&queue.xps_cpus, &format!("{}/tx-{index} xps_cpus", nic.name), mask)
        });
        let (irq, cpu) =
            irqs.first().map_or_else(|| (not_applicable(), not_applicable()), |irq| placed(irq, footnotes));
        table.row([nic_cell, driver_cell, queue.to_string().into(), irq, cpu, rps, rfs, xps]);
        for irq in irqs.iter().skip(1) {
            let (irq, cpu) = placed(irq, footnotes);
            table.row(["".into(), "".into(), "".into(), irq, cpu]);
        }
    }
}

fn placed(irq: &Irq, footnotes: &mut Footnotes) -> (Cell, Cell) {
    let place = format!("IRQ {} effective_affinity_list", irq.number);
    let cpu = footnotes.cell(&irq.effective, &place, |cpus| list(cpus, "none").into());
    (irq.number.to_string().into(), cpu)
}

fn name(nic: &Nic) -> Cell {
    if nic.up { nic.name.to_string().into() } else { Cell::styled(FAINT, format!("{} (down)", nic.name)) }
}

fn driver(nic: &Nic) -> Cell {
    match (&nic.driver, nic.kind) {
        (Some(driver), _) => driver.clone().into(),
        (None, NicKind::Device) => not_applicable(),
        (None, NicKind::Virtual) => Cell::styled(FAINT, "virtual"),
        (None, NicKind::Loopback) => Cell::styled(FAINT, "loopback"),
    }
}

fn mask(cpus: &CpuMask) -> Cell {
    if cpus.is_empty() { off() } else { cpus.to_string().into() }
}

fn list(cpus: &CpuMask, none: &str) -> String {
    if cpus.is_empty() { none.to_owned() } else { cpus.to_string() }
}

fn off() -> Cell {
    Cell::styled(FAINT, "off")
}

fn not_applicable() -> Cell {
    Cell::styled(FAINT, "-")
}

#[cfg(test)]
mod tests {
    use super::render;
    use crate::model::{
        Cpu, DeviceAddress, Fact, Identity, Irq, Irqbalance, Model, Nic, NicKind, RxQueue, TxQueue,
    };
    use crate::units::{CpuId, CpuMask, IrqId, Need};

    fn cpus(list: &str) -> CpuMask {
        list.parse().expect("a CPU list")
    }

    fn model(count: u32, isolated: u32, nics: Vec<Nic>) -> Model {
        let cpu = |id| Cpu {
            id: CpuId(id),
            online: true,
            isolated: id >= count - isolated,
            core: Some(id),
            package: Some(0),
            siblings: CpuMask::new(),
            l3: CpuMask::new(),
            node: Some(0),
        };
        Model {
            schema: "rxlab.model/2".into(),
            identity: Identity {
                hostname: "web1".into(),
                kernel: "6.1.0-18-amd64".into(),
                boot_id: "x".into(),
            },
            cpus: (0..count).map(cpu).collect(),
            nics,
            rps_sock_flow_entries: Fact::Known(32768),
            irqbalance: Some(Irqbalance { pid: 512, ..Irqbalance::default() }),
            ..Model::default()
        }
    }

    fn nic(name: &str, kind: NicKind, driver: Option<&str>) -> Nic {
        Nic {
            driver: driver.map(str::to_owned),
            ..Nic::new(name.parse().expect("a name"), DeviceAddress(format!("virtual:{name}")), kind)
        }
    }

    fn rx(index: u32, rps: Fact<CpuMask>, flows: u32, irqs: &[(u32, &str)]) -> RxQueue {
        let irq = |(number, cpu): &(u32, &str)| Irq {
            number: IrqId(*number),
            action: "x".into(),
            affinity: Fact::Known(cpus(cpu)),
            effective: Fact::Known(cpus(cpu)),
            ..Irq::default()
        };
        RxQueue {
            index,
            rps_cpus: rps,
            rps_flow_cnt: Fact::Known(flows),
            irqs: irqs.iter().map(irq).collect(),
            napi: None,
            channel_cpu: None,
        }
    }

    fn plain(model: &Model) -> String {
        let text = anstream::adapter::strip_str(&render(model)).to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        text
    }

    #[test]
    fn every_kind_of_absence_is_a_word() {
        let mut eth0 = nic("eth0", NicKind::Device, Some("virtio_net"));
        eth0.rx = vec![
            rx(0, Fact::Known(cpus("0-7")), 4096, &[(24, "2"), (25, "3")]),
            rx(1, Fact::Broken("`zz` is not a group of 1 to 8 hexadecimal digits".into()), 0, &[(26, "")]),
        ];
        eth0.rx[1].irqs[0].effective = Fact::Denied(Need::Root);
        eth0.tx = vec![
            TxQueue { index: 0, xps_cpus: Fact::Known(cpus("0-3")) },
            TxQueue { index: 1, xps_cpus: Fact::Denied(Need::Root) },
            TxQueue { index: 2, xps_cpus: Fact::Known(CpuMask::new()) },
        ];
        let mut eth1 = nic("eth1", NicKind::Device, None);
        eth1.up = false;
        let mut veth = nic("veth3f1c2aa", NicKind::Virtual, None);
        veth.rx = vec![rx(0, Fact::Known(CpuMask::new()), 0, &[])];
        veth.tx = vec![TxQueue { index: 0, xps_cpus: Fact::Unsupported }];
        insta::assert_snapshot!(plain(&model(
            8,
            2,
            vec![eth0, eth1, nic("lo", NicKind::Loopback, None), veth]
        )));
    }

    #[test]
    fn a_large_machine_stays_readable() {
        let mut nic = nic("enp95s0f0np0", NicKind::Device, Some("mlx5_core"));
        let odd: CpuMask = (0..64).map(|cpu| CpuId(2 * cpu + 1)).collect();
        nic.rx = (0..16)
            .map(|index| {
                let rps = if index == 3 { odd.clone() } else { cpus("1-7,64-71") };
                rx(index, Fact::Known(rps), 2048, &[(143 + index, &(112 + index).to_string())])
            })
            .collect();
        nic.tx = (0..16)
            .map(|index| TxQueue {
                index,
                xps_cpus: Fact::Known(cpus(&format!("{}-{}", index * 8, index * 8 + 7))),
            })
            .collect();
        let text = plain(&model(128, 16, vec![nic]));
        let squeezed: String = text.split_whitespace().collect();
        assert!(squeezed.contains("113,115,117,119,121,123,125,127"), "nothing is left out: {text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_machine_without_interfaces() {
        let mut model = model(1, 0, Vec::new());
        model.irqbalance = None;
        model.rps_sock_flow_entries = Fact::Denied(Need::Root);
        insta::assert_snapshot!(plain(&model), @r"
        web1: kernel 6.1.0-18-amd64, CPUs 0
        rps_sock_flow_entries needs root, irqbalance not running

        no network interfaces
        ");
    }
}
