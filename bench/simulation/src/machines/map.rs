//! The map is the truth, or says that it does not know.

use rxlab_base::units::{CpuId, CpuMask, Fact};
use rxlab_path::drivers::facts;
use rxlab_path::evidence::irq_cpus;
use rxlab_path::model::{Model, Nic as Shown, Rates, RxQueue};

use super::drivers::Bus;
use super::look::Seen;
use super::truth::{Damage, Kernel, Nic, Rx, Truth};

/// Largest error of a part of a CPU's time: rounding to ticks.
const ROUNDED: f64 = 0.001;

pub(crate) fn check(truth: &Truth, seen: &Seen) -> Result<(), String> {
    cpus(truth, &seen.model)?;
    for nic in &truth.nics {
        let name = &nic.name;
        let shown = seen.model.nics.iter().find(|shown| shown.name.as_str() == name);
        let shown = shown.ok_or_else(|| format!("{name} is not on the map"))?;
        device(truth, nic, shown, seen).map_err(|why| format!("{name} ({}): {why}", nic.driver.name))?;
    }
    stack(truth, &seen.model)?;
    rates(truth, &seen.rates)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, shown: T, is: T) -> Result<(), String> {
    if shown == is { Ok(()) } else { Err(format!("{what} shown as {shown:?}, is {is:?}")) }
}

fn cpus(truth: &Truth, model: &Model) -> Result<(), String> {
    same("online CPUs", model.online(), truth.online())?;
    same("usable CPUs", model.usable(), truth.usable())?;
    for cpu in truth.cpus.iter().filter(|cpu| cpu.online) {
        let shown = model.cpu(cpu.id).ok_or_else(|| format!("CPU {} is not on the map", cpu.id))?;
        let node = (truth.damage != Damage::NoNodes).then_some(cpu.node);
        same(&format!("node of CPU {}", cpu.id), shown.node, node)?;
        let threads = truth.cpus.iter().filter(|other| other.online && other.core == cpu.core);
        let threads: CpuMask = match truth.damage {
            Damage::NoSiblings => CpuMask::new(),
            _ => threads.map(|other| other.id).collect(),
        };
        same(&format!("threads of the core of CPU {}", cpu.id), shown.siblings.clone(), threads)?;
    }
    Ok(())
}

fn device(truth: &Truth, nic: &Nic, of: &Shown, seen: &Seen) -> Result<(), String> {
    same("node", of.node, nic.node)?;
    let times = if is_doubled(truth, nic) { 2 } else { 1 };
    same("receive queues", of.rx.len(), nic.rx.len() * times)?;
    for (at, (queue, shown)) in nic.rx.iter().zip(&of.rx).enumerate() {
        self::queue(truth, nic, (at, queue), (of, shown), seen).map_err(|why| format!("rx-{at}: {why}"))?;
    }
    Ok(())
}

/// Only the driver says how many of its queues are real.
fn is_doubled(truth: &Truth, nic: &Nic) -> bool {
    nic.driver.name == "mlx5_core" && truth.kernel == Kernel::V5_15 && truth.damage == Damage::EthtoolDenied
}

fn queue(
    truth: &Truth,
    nic: &Nic,
    (at, queue): (usize, &Rx),
    (of, shown): (&Shown, &RxQueue),
    seen: &Seen,
) -> Result<(), String> {
    match (&shown.rps_cpus, truth.damage == Damage::MaskDenied && (at == 0 || !nic.is_recorded())) {
        (Fact::Known(mask), false) => same("RPS mask", mask, &queue.rps)?,
        (Fact::Denied(_), true) => {}
        (other, _) => return Err(format!("RPS mask shown as {other:?}")),
    }
    same("channel", shown.channel_cpu, queue.signal)?;
    let numbers: Vec<u32> = shown.irqs.iter().map(|irq| irq.number.0).collect();
    let own: Vec<u32> = queue.irq.map(|irq| nic.irqs[irq].number).into_iter().collect();
    let is_known = queue.irq.is_some_and(|irq| is_knowable(truth, nic, &nic.irqs[irq].action));
    if numbers != own && (is_known || !numbers.is_empty()) {
        return Err(format!("interrupts shown as {numbers:?}, are {own:?}"));
    }
    // The node is that of the function in the name of its interrupt.
    let node = if shown.irqs.is_empty() { nic.node } else { nic.node_of(u32::try_from(at).expect("few")) };
    same("node", of.node_of(shown), node)?;
    let home = nic.home(queue);
    let lands = irq_cpus(shown, &seen.model, &seen.rates);
    if lands.iter().any(|cpu| Some(cpu) != home) {
        return Err(format!("its interrupt is shown on CPU {lands}, is on CPU {home:?}"));
    }
    let has_place = !nic.is_fixed
        && truth.damage != Damage::NoEffectiveAffinity
        && truth.damage != Damage::AffinityDenied;
    if is_known && has_place && lands.is_empty() {
        return Err(format!("the CPU of its interrupt is shown as unknown, is {home:?}"));
    }
    Ok(())
}

/// True if some source says which queue the interrupt of this name serves.
fn is_knowable(truth: &Truth, nic: &Nic, action: &str) -> bool {
    if truth.damage.hides_interrupts() {
        return false;
    }
    let has_interface = action.split(['-', ':', ' ', '_']).any(|part| part == nic.name);
    let named =
        has_interface || nic.driver.bus == Bus::Virtio || action.ends_with(&format!("pci:{}", nic.function));
    let has_ports = truth.nics.iter().filter(|other| other.function == nic.function).count() > 1;
    let is_told = nic.is_told && truth.damage != Damage::NetlinkDenied;
    // As many queues again without interrupts: they may be elsewhere.
    let is_named = nic.driver.names_queues
        && !is_doubled(truth, nic)
        && (nic.is_listed || named && !facts(Some(nic.driver.name)).is_named_at_probe)
        && (has_interface || !has_ports)
        // Where one interface may span two functions, nothing but the kernel says whose an interrupt is.
        && !truth.nics.iter().any(|other| other.half.is_some() && other.driver.name == nic.driver.name);
    is_told || is_named
}

fn stack(truth: &Truth, model: &Model) -> Result<(), String> {
    let names = |name: &str| {
        let nic = model.nics.iter().find(|nic| nic.name.as_str() == name);
        let carriers = nic.map(|nic| model.carriers(nic)).unwrap_or_default();
        let mut names: Vec<String> = carriers.into_iter().map(|nic| nic.name.to_string()).collect();
        names.sort();
        names
    };
    // Without netlink, sysfs would show the relations; they are not rendered there.
    if truth.damage == Damage::NetlinkDenied {
        return Ok(());
    }
    for upper in &truth.uppers {
        let mut below = Vec::new();
        carriers(truth, &upper.lower, &mut below);
        below.sort();
        below.dedup();
        same(&format!("carriers of {}", upper.name), names(&upper.name), below)?;
    }
    Ok(())
}

/// The devices below interfaces, virtual functions included.
fn carriers(truth: &Truth, lower: &[String], found: &mut Vec<String>) {
    for name in lower {
        if let Some(upper) = truth.uppers.iter().find(|upper| upper.name == *name) {
            carriers(truth, &upper.lower, found);
        } else if truth.nic(name).is_some() {
            found.push(name.clone());
            let functions = truth.nics.iter().filter(|nic| nic.master.as_ref() == Some(name));
            found.extend(functions.map(|nic| nic.name.clone()));
        }
    }
}

fn rates(truth: &Truth, rates: &Rates) -> Result<(), String> {
    let near = |what: String, shown: f64, is: f64, error: f64| {
        if (shown - is).abs() <= error { Ok(()) } else { Err(format!("{what} shown as {shown}, is {is}")) }
    };
    for (cpu, work) in truth.work() {
        let shown = rates.cpu(cpu).ok_or_else(|| format!("CPU {cpu} has no rates"))?;
        near(format!("receive time of CPU {cpu}"), shown.softirq, work.time.min(1.0), ROUNDED)?;
        if truth.damage != Damage::SoftnetBroken {
            near(format!("packets of CPU {cpu}"), shown.packets, work.packets, 1.0)?;
        }
    }
    for nic in &truth.nics {
        let shown = rates.nics.iter().find(|shown| shown.name.as_str() == nic.name);
        let shown = shown.ok_or_else(|| format!("{} has no rates", nic.name))?;
        let is_counted = truth.counts_queues(nic);
        for (at, queue) in nic.rx.iter().enumerate() {
            let counted = shown.queues.get(&u32::try_from(at).expect("few")).copied();
            match (counted, is_counted) {
                (Some(counted), true) => {
                    near(format!("packets of {}/rx-{at}", nic.name), counted, queue.packets, 1.0)?
                }
                (None, false) => {}
                (counted, _) => return Err(format!("packets of {}/rx-{at} shown as {counted:?}", nic.name)),
            }
        }
    }
    Ok(())
}

/// The CPU with most receive work, if it stands out: 85 % of its time, and three times as much as any other.
pub(crate) fn hotspot(truth: &Truth) -> Option<CpuId> {
    let mut work: Vec<(CpuId, f64)> = truth.work().into_iter().map(|(cpu, work)| (cpu, work.time)).collect();
    work.sort_by(|a, b| b.1.total_cmp(&a.1));
    match work[..] {
        [(cpu, first), (_, second), ..] if first >= 0.85 && second * 3.0 <= first => Some(cpu),
        _ => None,
    }
}
