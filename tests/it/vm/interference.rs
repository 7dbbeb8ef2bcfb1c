//! Time that a NIC's interrupt takes from a process that has its CPU to itself, according to the scheduler.

use rxlab_base::units::{CpuId, IrqId};
use rxlab_probe::trace::Trace;
use rxlab_probe::{Class, Interference, Tier};

use super::guest;
use crate::process::Ended;

/// The interrupt and the victim are on CPU 2. A sample that missed the finding is repeated: the guest's CPUs share
/// two that others use as well.
const JOB: &str = r#"
for look in 1 2 3; do
    rxlab interference --cpu 2 --probe --for 3s --tier ebpf --json > answer
    grep -q '"irq": '$irq answer && break
done
ran ebpf cat answer
ran procfs rxlab interference --for 2s --tier procfs --json
for look in 1 2 3; do
    rxlab trace --for 2s --json > answer
    grep -q '"irq": '$irq answer && break
done
ran trace cat answer
"#;

#[test]
fn a_queue_s_interrupt_interrupts_a_pinned_process() {
    // At a rate too high for the guest the queue is polled without further interrupts.
    let Some(answer) =
        guest::run("8cpu-1queue", &[guest::FLOODED, JOB].concat(), Some(&guest::flood(64, 1500)))
    else {
        return;
    };
    let measured: Interference = answer.ran("ebpf").json(0);
    assert_eq!((measured.tier, measured.missing.as_ref()), (Tier::Ebpf, None));
    let irq = IrqId(answer.part("irq").trim().parse().expect("a number"));
    let irqs = measured.irqs.known().expect("measured");
    let ours = irqs.iter().find(|of| (of.irq, of.cpu) == (irq, CpuId(2)));
    let ours = ours.unwrap_or_else(|| panic!("no IRQ {irq} on CPU 2: {irqs:?}"));
    assert_eq!((ours.queue.as_deref(), ours.actions[0].as_str()), (Some("eth0/rx-0"), "virtio0-input.0"));
    assert!(ours.count > 0 && ours.net_rx_ns > 0, "{ours:?}");

    let victims = measured.victims.known().expect("measured");
    let probe = victims.iter().find(|victim| victim.command == "rxlab" && victim.lost_ns() > 0);
    let probe = probe.unwrap_or_else(|| panic!("no victim: {victims:?}"));
    let by_nic = probe.by_class.get(&Class::NicIrq).copied().unwrap_or_default();
    assert!(by_nic > probe.lost_ns() / 2, "{probe:?}");
    let [inference] = measured.inference.as_slice() else { panic!("one witness: {measured:?}") };
    assert!(inference.exact.known().is_some_and(|exact| *exact > 0.01), "{inference:?}");

    // The other tier has the same columns for the same CPUs.
    let columns = |sample: &Interference| -> Vec<(CpuId, Vec<Class>)> {
        sample.cpus.iter().map(|cpu| (cpu.cpu, cpu.by_class.keys().copied().collect())).collect()
    };
    let counted: Interference = answer.ran("procfs").json(0);
    assert_eq!((counted.tier, columns(&counted)), (Tier::Procfs, columns(&measured)));

    // The timeline of the same work has the same names.
    let trace: Trace = answer.ran("trace").json(0);
    let ours = trace.irqs.iter().find(|of| (of.irq, of.cpu) == (irq, CpuId(2)));
    let ours = ours.unwrap_or_else(|| panic!("no IRQ {irq} on CPU 2: {:?}", trace.irqs));
    assert_eq!(ours.queue.as_deref(), Some("eth0/rx-0"), "{ours:?}");
    assert!(ours.count > 1 && ours.gaps.max_ns > 0 && ours.packets > 0, "{ours:?}");
    let caused = trace.longest.iter().find(|run| run.run.cause.irq == Some(irq.0)).expect("it causes runs");
    assert!(caused.run.cause.class == Class::NicIrq && caused.run.polls > 0, "{caused:?}");
    assert!(trace.napis.iter().any(|napi| napi.device == "eth0" && napi.packets > 0), "{:?}", trace.napis);
}
