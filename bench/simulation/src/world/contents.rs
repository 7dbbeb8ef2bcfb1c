//! Contents of files of the simulated kernel, and the numbers that are written to them.

use rxlab_base::units::CpuMask;

use super::kernel::{Device, Machine, list, scheduling_of};
use super::nodes::KSOFTIRQD;
use super::schedule::Slot;

pub(super) fn value_text(slot: Slot, value: u64) -> String {
    match slot {
        Slot::Rps(..) | Slot::Xps(..) | Slot::Irq(..) => format!("{value:x}\n"),
        Slot::Thread(..) | Slot::NapiCpus(..) => {
            format!("Name:\tserver\nCpus_allowed_list:\t{}\n", list(value))
        }
        Slot::Group(_) => format!("{}\n", list(value)),
        Slot::Ksoftirqd(cpu) => stat(KSOFTIRQD + u32::from(cpu), &format!("ksoftirqd/{cpu}"), value, 0),
        _ => format!("{value}\n"),
    }
}

/// The file `stat` of a thread of the kernel with this scheduling, which began at this tick.
fn stat(pid: u32, name: &str, value: u64, began: u64) -> String {
    let (policy, priority, nice) = scheduling_of(value);
    let zeros = |count| " 0".repeat(count);
    let (before, after, rest) = (zeros(14), zeros(17), zeros(11));
    format!("{pid} ({name}) S 2{before} {nice} 0 0 {began}{after} {priority} {policy}{rest}\n")
}

/// The file `stat` of the thread that polls a queue.
pub(super) fn poller_stat(machine: &Machine, slot: Slot) -> Option<String> {
    let pid = u32::try_from(machine.identity(slot)).ok()?;
    Some(stat(pid, &machine.thread_name(pid)?, machine.value(slot)?.now, machine.thread_began(slot)?))
}

/// The number that a text stands for.
pub(super) fn number(slot: Slot, bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    match slot {
        Slot::Rps(..) | Slot::Xps(..) | Slot::Irq(..) => {
            Some(CpuMask::from_hex(text).ok()?.iter().fold(0, |mask, cpu| mask | 1 << cpu.0))
        }
        Slot::Group(_) => Some(text.parse::<CpuMask>().ok()?.iter().fold(0, |mask, cpu| mask | 1 << cpu.0)),
        _ => text.parse().ok(),
    }
}

/// `/proc/interrupts`.
pub(super) fn interrupts(machine: &Machine) -> String {
    let mut text = "           CPU0       CPU1       CPU2       CPU3\n".to_owned();
    for (at, device) in machine.devices.iter().enumerate() {
        if device.pci.is_none() || device.netns == 0 {
            continue;
        }
        for (queue, number) in device.queues.iter().zip(0..device.count()) {
            text += &format!(" {}:  1  2  3  4  PCI-MSI 1-edge  virtio{at}-input.{number}\n", queue.irq);
        }
    }
    text
}

/// The link to the directory of an interface.
pub(super) fn link_of(at: usize, device: &Device) -> String {
    match device.pci {
        Some(function) => format!("../../devices/pci0000:00/{function}/virtio{at}/net/{}", device.name),
        None => format!("../../devices/virtual/net/{}", device.name),
    }
}

/// A list with an interrupt of no interface.
pub(super) const NO_INTERRUPTS: &str =
    "           CPU0       CPU1       CPU2       CPU3\n 9:  1  2  3  4  IO-APIC 9-fasteoi  acpi\n";
