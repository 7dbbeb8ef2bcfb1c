//! The manipulation check: did the work go where the setting says? A slot in which it did not is
//! void: comparing it would test nothing.

use crate::model::{Model, Rates};
use crate::plan::{Setting, Target};
use crate::units::{CpuMask, IrqId, NicName};

/// Below this many packets or interrupts a second placement cannot be judged.
const ENOUGH: f64 = 50.0;

/// Share of the events that has to be on the CPUs of the setting. Half, because other interfaces,
/// other queues and other traffic share the counters.
const SHARE: f64 = 0.5;

/// What the counters have to show while a setting holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Expectation {
    /// Packets of `nic` go up the stack on `cpus`.
    Packets {
        /// Whose packets.
        nic: NicName,
        /// Where they belong.
        cpus: CpuMask,
    },
    /// Interrupts land on `cpus`.
    Interrupts {
        /// Which one.
        irq: IrqId,
        /// Where it belongs.
        cpus: CpuMask,
    },
}

/// What `settings` should make visible. Settings without a visible placement (RFS follows the
/// application) give nothing; their values are read back by apply. With RFS among the settings, RPS
/// masks give nothing either, since RFS sends a flow past the mask.
pub fn expectations(settings: &[Setting], model: &Model) -> Vec<Expectation> {
    let steered_by_flow = settings.iter().any(|setting| setting.knob.starts_with("rfs"));
    settings
        .iter()
        .flat_map(|setting| {
            let Target::Queue { nic, queue } = &setting.target else { return Vec::new() };
            let Ok(cpus) = setting.value.parse::<CpuMask>() else { return Vec::new() };
            match setting.knob.as_str() {
                "rps" if !steered_by_flow => vec![Expectation::Packets { nic: nic.clone(), cpus }],
                "irq_affinity" => {
                    let queues = model.nic(nic).map(|nic| nic.rx.as_slice()).unwrap_or_default();
                    let irqs = queues.iter().filter(|rx| rx.index == queue.index).flat_map(|rx| &rx.irqs);
                    irqs.map(|irq| Expectation::Interrupts { irq: irq.number, cpus: cpus.clone() }).collect()
                }
                _ => Vec::new(),
            }
        })
        .collect()
}

/// Why `rates` contradict `expectations`, or `None`.
pub fn contradiction(expectations: &[Expectation], rates: &Rates) -> Option<String> {
    expectations.iter().find_map(|expectation| match expectation {
        Expectation::Packets { nic, cpus } => {
            let total = rates.nic(nic)?.rx_packets;
            let there: f64 =
                rates.cpus.iter().filter(|cpu| cpus.contains(cpu.cpu)).map(|cpu| cpu.packets).sum();
            (total >= ENOUGH && there < SHARE * total)
                .then(|| format!("{there:.0} of {total:.0} packets/s of {nic} were received on CPU {cpus}"))
        }
        Expectation::Interrupts { irq, cpus } => {
            let counts = &rates.irqs.iter().find(|rates| rates.irq == *irq)?.per_cpu;
            let total: f64 = counts.values().sum();
            let there: f64 =
                counts.iter().filter(|(cpu, _)| cpus.contains(**cpu)).map(|(_, rate)| rate).sum();
            (total >= ENOUGH && there < SHARE * total)
                .then(|| format!("{there:.0} of {total:.0} interrupts/s of IRQ {irq} landed on CPU {cpus}"))
        }
    })
}
