//! Interrupts: where they may go and where they go. Their counts are with the other counters.

use rxlab_base::units::CpuMask;
use rxlab_sys::{Cause, RecordedHost};

use super::super::truth::{Damage, Irq, Nic, Truth};
use super::mask;

/// CPUs that the kernel notes for an interrupt.
fn noted(truth: &Truth, irq: &Irq) -> CpuMask {
    let is_fixed = |nic: &Nic| nic.is_fixed && nic.irqs.iter().any(|own| own.number == irq.number);
    if truth.nics.iter().any(is_fixed) { CpuMask::new() } else { irq.lands.into() }
}

/// Every interrupt of the machine.
pub(super) fn all(truth: &Truth) -> impl Iterator<Item = &Irq> {
    truth.nics.iter().flat_map(|nic| &nic.irqs).chain(truth.foreign.iter().map(|foreign| &foreign.irq))
}

pub(super) fn render(mut host: RecordedHost, truth: &Truth) -> RecordedHost {
    for irq in all(truth) {
        let path = |file: &str| format!("proc/irq/{}/{file}", irq.number);
        host = host
            .with(&path("smp_affinity"), mask(truth, &irq.affinity))
            .with(&path("smp_affinity_list"), format!("{}\n", irq.affinity));
        host = match truth.damage {
            Damage::NoEffectiveAffinity => host,
            Damage::AffinityDenied => ["smp_affinity", "smp_affinity_list", "effective_affinity_list"]
                .iter()
                .fold(host, |host, file| host.with_failure(&path(file), Cause::Denied)),
            _ => host
                .with(&path("effective_affinity"), mask(truth, &noted(truth, irq)))
                .with(&path("effective_affinity_list"), format!("{}\n", noted(truth, irq))),
        };
    }
    host.with("proc/irq/default_smp_affinity", mask(truth, &truth.online()))
}
