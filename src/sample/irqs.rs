//! Numbered interrupts: their action names, allowed and effective CPUs.

use super::read;
use crate::host::Host;
use crate::parse;
use crate::units::{CpuMask, Fact, IrqId};

/// One interrupt that at least one driver uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawIrq {
    /// Its number.
    pub number: IrqId,
    /// Action names in `/proc/interrupts`.
    pub actions: Vec<String>,
    /// `/proc/irq/N/smp_affinity_list`.
    pub affinity: Fact<CpuMask>,
    /// `/proc/irq/N/effective_affinity_list`.
    pub effective: Fact<CpuMask>,
}

pub(super) fn take(host: &dyn Host) -> Fact<Vec<RawIrq>> {
    read::parsed(host, "proc/interrupts", parse::interrupt_actions).map(|irqs| {
        let used = irqs.into_iter().filter(|(_, actions)| !actions.is_empty());
        used.map(|(number, actions)| RawIrq {
            number,
            actions,
            affinity: read::cpu_list(host, &format!("proc/irq/{number}/smp_affinity_list")),
            effective: read::cpu_list(host, &format!("proc/irq/{number}/effective_affinity_list")),
        })
        .collect()
    })
}
