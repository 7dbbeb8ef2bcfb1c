//! Which families of settings are worth a trial when receive work matters.
//!
//! The order: what takes work away before what moves it, and of the latter hardware before software. That is
//! the order in which field case C gained: 95k to 120k by a virtual function, 250k by moderation, 670k by RPS.

use super::{CpuRegime, Family, Worth};
use crate::diagnose::evidence::{carrier, irq_cpus};
use crate::diagnose::figures::{count, percent, plural};
use crate::diagnose::places::{node, of_node, siblings, usable};
use crate::model::{CpuRates, Function, Model, Nic, NicKind, Rates, RxQueue};
use crate::units::CpuMask;

const ALL: [Family; 6] = [
    Family::VirtualFunction,
    Family::Moderation,
    Family::Queues,
    Family::IrqPlacement,
    Family::Rps,
    Family::Rfs,
];

/// Drivers of devices whose hypervisors have virtual functions to give as well.
const HAVE_VIRTUAL_FUNCTIONS: [&str; 3] = ["vif", "xen_netfront", "hv_netvsc"];

/// Packets for each interrupt from which moderation has little left to save.
const MODERATED: f64 = 8.0;

/// Time in processes from which a CPU counts as shared with the application.
const SHARED: f64 = 0.1;

/// Nothing is, for one reason.
pub(super) fn none(why: &str) -> Vec<Worth> {
    ALL.map(|knob| Worth { knob, trial: false, why: why.to_owned() }).to_vec()
}

/// Each family by what the hottest CPU's queue and its interface have.
pub(super) fn judged(model: &Model, rates: &Rates, hot: &CpuRegime) -> Vec<Worth> {
    let Some((nic, queue)) = carrier(model, rates, hot.cpu) else {
        return none("no interface of this namespace brings these packets");
    };
    let rps = rps(model, rates, nic, queue);
    let rps_helps = rps.is_ok();
    let judged = [
        virtual_function(model, nic),
        moderation(nic, hot),
        queues(model, nic),
        placement(model, rates, nic, hot),
        rps,
        rfs(model, nic, rps_helps, handed_over(model, rates, queue)),
    ];
    let mut worth: Vec<Worth> = ALL
        .into_iter()
        .zip(judged)
        .map(|(knob, judged)| match judged {
            Ok(why) => Worth { knob, trial: true, why },
            Err(why) => Worth { knob, trial: false, why },
        })
        .collect();
    worth.sort_by_key(|worth| !worth.trial);
    worth
}

/// A family in a list of things to try; RPS with the CPUs that it is for.
pub(super) fn called(worth: &Worth) -> String {
    match (worth.knob, worth.why.strip_prefix("on CPU")) {
        (Family::Rps, Some(_)) => format!("RPS {}", worth.why.split(':').next().unwrap_or_default()),
        _ => worth.knob.name().to_owned(),
    }
}

/// Worth a trial, or not, and why.
type Judged = Result<String, String>;

fn virtual_function(model: &Model, nic: &Nic) -> Judged {
    let driver = nic.driver.as_deref().unwrap_or("no driver");
    let has_one =
        model.nics.iter().any(|nic| nic.up && matches!(nic.hardware.function, Function::Virtual { .. }));
    match () {
        () if has_one => Err("there is one".to_owned()),
        () if HAVE_VIRTUAL_FUNCTIONS.contains(&driver) => {
            Ok(format!("{driver} takes each packet through the hypervisor; ask the provider for SR-IOV"))
        }
        () => Err(format!("{} ({driver}) has none to ask for, as far as is known", nic.name)),
    }
}

fn moderation(nic: &Nic, hot: &CpuRegime) -> Judged {
    let Some(coalesce) = nic.hardware.coalesce.known() else {
        return Err(format!("{} tells of none", nic.name));
    };
    if coalesce.adaptive_rx.is_none() && coalesce.rx_usecs.is_none() {
        return Err(format!("the driver of {} cannot hold interrupts back", nic.name));
    }
    let each = hot.interrupts.filter(|rate| *rate > 0.0).map(|rate| hot.packets / rate);
    let now = match (coalesce.adaptive_rx, coalesce.rx_usecs) {
        (Some(true), _) => return Err("it is adaptive already".to_owned()),
        (_, Some(usecs)) => format!("fixed at {usecs} us"),
        _ => "not adaptive".to_owned(),
    };
    match each {
        Some(each) if each >= MODERATED => {
            Err(format!("{each:.0} packets an interrupt: little is left to save"))
        }
        Some(each) => Ok(format!(
            "{now}, {each:.1} packets an interrupt, {} interrupts/s on CPU {}",
            count(hot.interrupts.unwrap_or_default()),
            hot.cpu
        )),
        None => Ok(now.to_string()),
    }
}

fn queues(model: &Model, nic: &Nic) -> Judged {
    if nic.kind != NicKind::Device {
        return Err(format!("{} has no queues in hardware", nic.name));
    }
    let (now, cpus) = (nic.rx.len(), model.online().len());
    if now >= cpus {
        return Err(format!("{} for {}", plural(now, "queue"), plural(cpus, "CPU")));
    }
    let Some(channels) = nic.hardware.channels.known() else {
        return Err(format!("{} does not say how many it could have", nic.name));
    };
    let most = channels.combined.map_or(0, |count| count.max).max(channels.rx.map_or(0, |count| count.max));
    match usize::try_from(most).is_ok_and(|most| most > now) {
        true => Ok(format!("{} of {most} that the driver can have", plural(now, "queue"))),
        false => Err(format!("the driver has no more than {}", plural(now, "queue"))),
    }
}

fn placement(model: &Model, rates: &Rates, nic: &Nic, hot: &CpuRegime) -> Judged {
    let lands = |queue: &&RxQueue| irq_cpus(queue, model, rates).contains(hot.cpu);
    let (here, all) = (nic.rx.iter().filter(lands).count(), nic.rx.len());
    let time = |of: fn(&CpuRates) -> f64| rates.cpu(hot.cpu).map_or(0.0, of);
    let application = time(|cpu| cpu.user + cpu.system);
    match (here, all) {
        (0, _) => Err(format!("no interrupt of {} lands on CPU {}", nic.name, hot.cpu)),
        (1, 1) => Err("one interrupt: it takes the hotspot along wherever it goes".to_owned()),
        (2.., _) => Ok(format!("{here} of {all} interrupts land on CPU {}", hot.cpu)),
        _ if application >= SHARED => Ok(format!(
            "CPU {} has {} of its time for the application, which could go elsewhere",
            hot.cpu,
            percent(application)
        )),
        _ => Err("each interrupt has a CPU of its own".to_owned()),
    }
}

fn rps(model: &Model, rates: &Rates, nic: &Nic, queue: &RxQueue) -> Judged {
    let usable = usable(model);
    if nic.rx.len() >= usable.len() {
        return Err(format!(
            "{} for {}: redundant",
            plural(nic.rx.len(), "queue"),
            plural(usable.len(), "CPU")
        ));
    }
    let irq = irq_cpus(queue, model, rates);
    let now = queue.rps_cpus.known().cloned().unwrap_or_default();
    if handed_over(model, rates, queue) {
        return Err(format!("on already ({now}): what is left is taking packets off the queue"));
    }
    let of_nic = nic.rx.iter().map(|queue| irq_cpus(queue, model, rates));
    let of_nic = of_nic.fold(CpuMask::new(), |all, one| all.union(&one));
    let to = same_node(model, &usable, &irq).difference(&of_nic);
    // As the planner does it: this CPU is short of time, and so is the other thread of its core.
    let apart = to.difference(&siblings(model, &of_nic));
    match (to.is_empty(), apart.is_empty()) {
        (true, _) => Err("no CPU of its node is free of interrupts".to_owned()),
        (false, _) if irq.is_empty() => Ok("the packets are received where they are sent".to_owned()),
        (false, false) if apart != to => {
            Ok(format!("on CPUs {apart}: of the same node, without the core of CPU {irq}"))
        }
        (false, _) => Ok(format!("on CPUs {to}: of the same node, without CPU {irq}")),
    }
}

/// CPUs of the node of the interrupt's CPU; all where that is not known.
fn same_node(model: &Model, usable: &CpuMask, irq: &CpuMask) -> CpuMask {
    let node = irq.first().and_then(|cpu| node(model, cpu));
    node.map_or_else(|| usable.clone(), |node| of_node(model, node).intersection(usable))
}

/// Whether RPS hands the queue's packets to other CPUs than the interrupt's.
fn handed_over(model: &Model, rates: &Rates, queue: &RxQueue) -> bool {
    let mask = queue.rps_cpus.known().cloned().unwrap_or_default();
    !mask.is_empty() && mask.intersection(&irq_cpus(queue, model, rates)).is_empty()
}

fn rfs(model: &Model, nic: &Nic, rps_helps: bool, handed_over: bool) -> Judged {
    let global = model.rps_sock_flow_entries.known().copied().unwrap_or_default() > 0;
    let tables = nic.rx.iter().all(|queue| queue.rps_flow_cnt.known().is_some_and(|table| *table > 0));
    match (global && tables, rps_helps) {
        (true, _) => Err("on already".to_owned()),
        (false, _) if handed_over => {
            Err("RPS moves that work already: RFS would choose other CPUs for it".to_owned())
        }
        (false, true) => Ok("the CPU that reads a connected socket processes its packets too".to_owned()),
        (false, false) => Ok("moves packets to the CPU that reads their connected socket".to_owned()),
    }
}
