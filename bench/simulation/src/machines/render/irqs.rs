//! Interrupts: where they may go and where they go. Their counts are with the other counters.

use rxlab_base::units::CpuMask;
use rxlab_sys::{Cause, RecordedHost};

use super::super::drivers::Bus;
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

/// True for an interrupt of the second function of an interface.
pub(super) fn is_of_half(nic: &Nic, irq: &Irq) -> bool {
    nic.half.as_ref().is_some_and(|half| irq.action.ends_with(half))
}

/// The PCI function whose vector an interrupt is; that of something else if it is no device's here.
pub(super) fn function<'a>(truth: &'a Truth, irq: &Irq) -> Option<&'a str> {
    let Some(nic) = truth.nics.iter().find(|nic| nic.irqs.iter().any(|own| own.number == irq.number)) else {
        return Some("0000:ff:1f.7");
    };
    let of_half = nic.half.as_deref().filter(|_| is_of_half(nic, irq));
    matches!(nic.driver.bus, Bus::Pci | Bus::Virtio).then(|| of_half.unwrap_or(&nic.function))
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
