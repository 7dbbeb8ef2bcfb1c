//! Smaller machines on which the same is wrong.

use super::generate::generate;
use super::losses::{Loss, Place};
use super::request::{Request, request};
use super::truth::{Damage, Truth};
use super::{Violation, check};

/// The smallest machine found on which the same property does not hold, with the reason, as text.
pub fn explain(seed: u64, violation: Violation) -> String {
    let truth = generate(seed);
    let request = request(seed, &truth);
    let (truth, request, violation) = shrink(&truth, &request, violation);
    format!("{truth}{request:?}\n{violation}")
}

/// Removes parts while the same property stays violated.
fn shrink(truth: &Truth, request: &Request, violation: Violation) -> (Truth, Request, Violation) {
    let mut best = (truth.clone(), request.clone(), violation);
    'smaller: loop {
        for (smaller, request) in smaller(&best.0, &best.1) {
            match check(&smaller, &request) {
                Err(violation) if violation.property == best.2.property => {
                    best = (smaller, request, violation);
                    continue 'smaller;
                }
                _ => {}
            }
        }
        return best;
    }
}

/// True if the machine still has the place of the loss.
fn has_place(truth: &Truth, loss: &Loss) -> bool {
    let is_there =
        |name: &str| truth.nic(name).is_some() || truth.uppers.iter().any(|upper| upper.name == name);
    let has_cpu = match loss.place {
        Place::Backlog { cpu, .. } => truth.online().contains(cpu),
        _ => true,
    };
    has_cpu && loss.place.nic().is_none_or(is_there)
}

fn smaller(truth: &Truth, request: &Request) -> Vec<(Truth, Request)> {
    let mut found = Vec::new();
    let mut with = |change: &dyn Fn(&mut Truth, &mut Request)| {
        let (mut truth, mut request) = (truth.clone(), request.clone());
        change(&mut truth, &mut request);
        let all = truth.clone();
        truth.losses.retain(|loss| has_place(&all, loss));
        found.push((truth, request));
    };
    with(&|_, request| request.options = Default::default());
    with(&|truth, _| truth.damage = Damage::Nothing);
    with(&|truth, _| truth.irqbalance = None);
    with(&|truth, _| truth.foreign.clear());
    with(&|truth, _| {
        truth.uppers.clear();
        truth.veths.clear();
    });
    with(&|truth, _| truth.losses.clear());
    for at in 0..truth.losses.len() {
        with(&|truth, _| drop(truth.losses.remove(at)));
    }
    with(&|truth, _| truth.nics.iter_mut().for_each(|nic| nic.harmless.clear()));
    with(&|truth, _| truth.cpuset = None);
    with(&|truth, _| truth.exclusive = Default::default());
    with(&|truth, _| truth.nohz = Default::default());
    with(&|truth, _| truth.sock_flows = 0);
    with(&|truth, _| truth.cpus.iter_mut().for_each(|cpu| cpu.capacity = None));
    with(&|truth, _| truth.nics.iter_mut().for_each(|nic| (nic.has_xdp, nic.is_fixed) = (false, false)));
    with(&|truth, _| truth.nics.iter_mut().for_each(|nic| nic.is_split = false));
    with(&|truth, _| truth.cpus.iter_mut().for_each(|cpu| cpu.isolated = false));
    with(&|truth, _| truth.cpus.iter_mut().for_each(|cpu| cpu.program = 0.02));
    for at in 0..truth.nics.len() {
        if truth.nics.len() > 1 && truth.uppers.is_empty() {
            with(&|truth, _| drop(truth.nics.remove(at)));
        }
        with(&|truth, _| truth.nics[at].rx.iter_mut().for_each(|queue| queue.rps = Default::default()));
        with(&|truth, _| truth.nics[at].rx.iter_mut().for_each(|queue| queue.flows = 0));
        with(&|truth, _| truth.nics[at].tx.iter_mut().for_each(|queue| queue.xps = Default::default()));
        with(&|truth, _| truth.nics[at].table.clear());
        with(&|truth, _| truth.nics[at].delay = None);
        with(&|truth, _| truth.nics[at].max_queues = truth.nics[at].rx.len() as u32);
        if truth.nics[at].rx.len() > 1 {
            with(&|truth, _| {
                let nic = &mut truth.nics[at];
                let last = nic.rx.len() - 1;
                nic.rx.truncate(last);
                nic.tx.truncate(last);
                nic.table.clear();
            });
        }
    }
    let irqs =
        truth.nics.iter().flat_map(|nic| &nic.irqs).chain(truth.foreign.iter().map(|foreign| &foreign.irq));
    let signals = truth.nics.iter().flat_map(|nic| &nic.rx).filter_map(|queue| queue.signal);
    let taken: Vec<_> = irqs.map(|irq| irq.lands).chain(signals).collect();
    for cpu in truth.cpus.iter().rev().filter(|cpu| !taken.contains(&cpu.id) && cpu.id.0 != 0) {
        with(&|truth, _| {
            truth.cpus.retain(|own| own.id != cpu.id);
            for irq in truth.nics.iter_mut().flat_map(|nic| &mut nic.irqs) {
                irq.affinity.remove(cpu.id);
                if irq.affinity.is_empty() {
                    irq.affinity.insert(irq.lands);
                }
            }
            for nic in &mut truth.nics {
                nic.rx.iter_mut().for_each(|queue| queue.rps.remove(cpu.id));
                nic.tx.iter_mut().for_each(|queue| queue.xps.remove(cpu.id));
            }
            truth.nohz.remove(cpu.id);
            truth.exclusive.remove(cpu.id);
            truth.cpuset.iter_mut().for_each(|own| own.remove(cpu.id));
        });
    }
    let before = format!("{truth:?} {request:?}");
    found.retain(|(truth, request)| format!("{truth:?} {request:?}") != before);
    found.retain(|(truth, _)| !truth.usable().is_empty());
    // No CPU of the machines has more work than time.
    found.retain(|(smaller, _)| smaller.hottest() <= truth.hottest().max(1.0));
    found
}
