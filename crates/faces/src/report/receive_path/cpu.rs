//! The receive path as seen from one CPU, for text and JSON.

use serde::{Deserialize, Serialize};

use super::cells::irq_file;
use super::processes::{service, waiting};
use rxlab_base::units::{CpuId, CpuMask, IrqId, NicName, QueueId};
use rxlab_path::model::{Cpu, Fact, Identity, Model, Nic};

/// Some CPUs of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CpuReport {
    /// `rxlab.cpus/1`.
    pub schema: String,
    /// The machine.
    pub identity: Identity,
    /// The requested CPUs, by number.
    pub cpus: Vec<CpuView>,
    /// Unknown facts, any of which may concern these CPUs.
    pub unknown: Vec<Unknown>,
}

/// One CPU and the work that arrives there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CpuView {
    /// The CPU, and the CPUs that share a core or cache with it.
    pub cpu: Cpu,
    /// True if it is in `nohz_full` (runs without the tick).
    pub nohz_full: Fact<bool>,
    /// Interrupts delivered to it.
    pub irqs: Vec<QueueIrq>,
    /// Receive queues whose RPS mask contains it.
    pub rps: Vec<NicQueue>,
    /// Transmit queues whose XPS mask contains it.
    pub xps: Vec<NicQueue>,
    /// Processes with listening sockets that last ran on it or may run on it.
    pub processes: Fact<Vec<CpuProcess>>,
}

/// An interrupt of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QueueIrq {
    /// The interface.
    pub nic: NicName,
    /// Its queue; `None` for interrupts that serve no receive queue.
    pub queue: Option<QueueId>,
    /// The interrupt.
    pub irq: IrqId,
    /// Its action name.
    pub action: String,
}

/// A queue of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NicQueue {
    /// The interface.
    pub nic: NicName,
    /// Its queue.
    pub queue: QueueId,
}

/// A process with listening sockets, from the perspective of one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CpuProcess {
    /// Its process ID.
    pub pid: u32,
    /// Its name.
    pub command: String,
    /// Its container or systemd unit.
    pub service: Option<String>,
    /// Its sockets, such as `tcp 0.0.0.0:80`.
    pub sockets: Vec<String>,
    /// True if one of its threads last ran on this CPU.
    pub ran: Fact<bool>,
    /// True if it may run on this CPU.
    pub allowed: Fact<bool>,
    /// True if its affinity excludes an online CPU.
    pub bound: Fact<bool>,
}

/// An unknown fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Unknown {
    /// Name of the fact, such as `eth0/rx-1 rps_cpus`.
    pub what: String,
    /// Reason.
    pub fact: Fact<()>,
}

impl Unknown {
    fn new<T: Clone>(what: String, fact: &Fact<T>) -> Self {
        Self { what, fact: fact.clone().map(|_| ()) }
    }
}

impl CpuReport {
    pub const SCHEMA: &'static str = "rxlab.cpus/1";

    /// The CPUs of `model` that are in `wanted`.
    pub fn new(model: &Model, wanted: &CpuMask) -> Self {
        let mut cpus: Vec<&Cpu> = model.cpus.iter().filter(|cpu| wanted.contains(cpu.id)).collect();
        cpus.sort_by_key(|cpu| cpu.id);
        Self {
            schema: Self::SCHEMA.to_owned(),
            identity: model.identity.clone(),
            cpus: cpus.into_iter().map(|cpu| view(cpu, model)).collect(),
            unknown: unknown(model),
        }
    }
}

fn view(cpu: &Cpu, model: &Model) -> CpuView {
    let id = cpu.id;
    let nics = &model.nics;
    CpuView {
        cpu: cpu.clone(),
        nohz_full: model.settings.nohz_full.clone().map(|cpus| cpus.contains(id)),
        irqs: nics.iter().flat_map(|nic| irqs(nic, id)).collect(),
        rps: nics.iter().flat_map(|nic| rps(nic, id)).collect(),
        xps: nics.iter().flat_map(|nic| xps(nic, id)).collect(),
        processes: model.listeners.clone().map(|_| processes(model, id)),
    }
}

fn has(fact: &Fact<CpuMask>, cpu: CpuId) -> bool {
    fact.known().is_some_and(|cpus| cpus.contains(cpu))
}

fn irqs(nic: &Nic, cpu: CpuId) -> Vec<QueueIrq> {
    let own = nic.rx.iter().flat_map(|rx| rx.irqs.iter().map(|irq| (Some(QueueId::rx(rx.index)), irq)));
    let other = nic.other_irqs.iter().map(|irq| (None, irq));
    let here = own.chain(other).filter(|(_, irq)| has(&irq.effective, cpu));
    here.map(|(queue, irq)| QueueIrq {
        nic: nic.name.clone(),
        queue,
        irq: irq.number,
        action: irq.action.clone(),
    })
    .collect()
}

fn rps(nic: &Nic, cpu: CpuId) -> impl Iterator<Item = NicQueue> {
    let here = nic.rx.iter().filter(move |rx| has(&rx.rps_cpus, cpu));
    here.map(|rx| NicQueue { nic: nic.name.clone(), queue: QueueId::rx(rx.index) })
}

fn xps(nic: &Nic, cpu: CpuId) -> impl Iterator<Item = NicQueue> {
    let here = nic.tx.iter().filter(move |tx| has(&tx.xps_cpus, cpu));
    here.map(|tx| NicQueue { nic: nic.name.clone(), queue: QueueId::tx(tx.index) })
}

fn processes(model: &Model, cpu: CpuId) -> Vec<CpuProcess> {
    let online = model.online();
    let seen = waiting(model).into_iter().map(|waiting| {
        let process = waiting.process;
        CpuProcess {
            pid: process.pid,
            command: process.command.clone(),
            service: service(process),
            sockets: waiting.sockets,
            ran: process.ran_on.clone().map(|cpus| cpus.contains(cpu)),
            allowed: process.allowed.clone().map(|cpus| cpus.contains(cpu)),
            bound: process.allowed.clone().map(|cpus| !online.difference(&cpus).is_empty()),
        }
    });
    let elsewhere =
        |process: &CpuProcess| (&process.ran, &process.allowed) == (&Fact::Known(false), &Fact::Known(false));
    seen.filter(|process| !elsewhere(process)).collect()
}

/// Returns denied and broken facts. An unsupported mask hands nothing to any CPU; an interrupt has a CPU even if the
/// kernel does not report it.
fn unknown(model: &Model) -> Vec<Unknown> {
    let mut found = Vec::new();
    if is_unread(&model.interrupts) {
        found.push(Unknown::new("interrupts".to_owned(), &model.interrupts));
    }
    for nic in &model.nics {
        let irqs = nic.rx.iter().flat_map(|rx| &rx.irqs).chain(&nic.other_irqs);
        for irq in irqs.filter(|irq| irq.effective.known().is_none()) {
            found.push(Unknown::new(irq_file(irq, "effective_affinity_list"), &irq.effective));
        }
        for rx in nic.rx.iter().filter(|rx| is_unread(&rx.rps_cpus)) {
            found.push(Unknown::new(format!("{}/rx-{} rps_cpus", nic.name, rx.index), &rx.rps_cpus));
        }
        for tx in nic.tx.iter().filter(|tx| is_unread(&tx.xps_cpus)) {
            found.push(Unknown::new(format!("{}/tx-{} xps_cpus", nic.name, tx.index), &tx.xps_cpus));
        }
    }
    for (socket, owners) in super::processes::ownerless(model) {
        found.push(Unknown::new(format!("owners of {socket}"), owners));
    }
    found
}

fn is_unread<T>(fact: &Fact<T>) -> bool {
    matches!(fact, Fact::Denied(_) | Fact::Broken(_))
}

#[cfg(test)]
mod tests {
    use super::CpuReport;
    use crate::report::sample_model::{cpus, rich};
    use rxlab_base::units::Fact;

    #[test]
    fn every_part_of_the_path_is_found() {
        let report = CpuReport::new(&rich(), &cpus("9,0"));
        let ids: Vec<u32> = report.cpus.iter().map(|view| view.cpu.id.0).collect();
        assert_eq!(ids, [0, 9]);
        let irqs: Vec<u32> = report.cpus[0].irqs.iter().map(|irq| irq.irq.0).collect();
        assert_eq!(irqs, [43, 39], "the pending one and the one of no queue");
        assert_eq!(report.cpus[0].irqs[1].queue, None);
        let nine = &report.cpus[1];
        assert_eq!(
            nine.rps.iter().map(|at| format!("{}/{}", at.nic, at.queue)).collect::<Vec<_>>(),
            ["eth0/rx-0"]
        );
        assert_eq!(nine.xps.len(), 0, "tx-1 is denied");
        let ran: Vec<(u32, bool)> = nine
            .processes
            .known()
            .expect("known")
            .iter()
            .map(|process| (process.pid, process.ran == Fact::Known(true)))
            .collect();
        assert_eq!(ran, [(811, true), (812, false)], "redis may not run there");
    }

    #[test]
    fn unread_facts_are_listed() {
        let report = CpuReport::new(&rich(), &cpus("1"));
        let what: Vec<&str> = report.unknown.iter().map(|unknown| unknown.what.as_str()).collect();
        let expected = [
            "IRQ 42 effective_affinity_list",
            "eth0/rx-1 rps_cpus",
            "eth0/tx-1 xps_cpus",
            "owners of udp 0.0.0.0:53",
        ];
        assert_eq!(what, expected);
        let json = serde_json::to_string(&report).expect("JSON");
        assert_eq!(serde_json::from_str::<CpuReport>(&json).expect("it reads back"), report);
    }
}
