//! A busy interface is paravirtual, while a function of a real device is idle.

use super::figures::{Evidence, Subject};
use super::places::{loaded_of, most_loaded};
use super::{Check, Finding, OWN_RULE, Rule, Severity};
use rxlab_base::number::{count, percent};
use rxlab_path::drivers::{self, Kind};
use rxlab_path::evidence::{SUBSTANTIAL, TRAFFIC};
use rxlab_path::model::{Function, Model, Nic, NicKind, Rates};

/// Part of the busy interface's packets up to which the other one is idle.
const IDLE: f64 = 0.01;

pub(super) const RULE: Rule = Rule {
    id: "paravirtual-nic",
    asks: "Does a paravirtual interface carry the load although a function of a real device is available?",
    fires: || {
        format!(
            "an interface of {} has {} packets/s, its interrupt's CPU spends {} of its time in interrupts \
             and softirq, and a virtual or SR-IOV capable function of the machine carries at most {} of that \
             traffic",
            paravirtual(),
            count(TRAFFIC),
            percent(SUBSTANTIAL),
            percent(IDLE)
        )
    },
    silent: "there is no other function, the other one carries traffic (accelerated networking: the \
             paravirtual interface counts the same packets), or the CPU has time to spare",
    evidence: "the interface's driver, traffic and CPU, the idle function and its driver",
    cause: "Each packet of a paravirtual interface passes through the hypervisor's network stack and its \
            copies.",
    remedy: "Move the traffic to the other function, if it is on the same network.",
    source: OWN_RULE,
    check: Check::Nic(of_nic),
};

/// Drivers of paravirtual devices: `a, b or c`.
fn paravirtual() -> String {
    let names = drivers::names(|row| matches!(row.kind, Kind::Paravirtual { .. }));
    match names.split_last() {
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

fn of_nic(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    if nic.hardware.function != Function::Paravirtual {
        return None;
    }
    let queues = loaded_of(model, rates, nic);
    let busiest = most_loaded(&queues).filter(|queue| queue.load >= SUBSTANTIAL)?;
    let packets = |nic: &Nic| rates.rx_packets(&nic.name);
    let mut reals = model.nics.iter().filter(|other| {
        other.kind == NicKind::Device
            && matches!(other.hardware.function, Function::Virtual { .. } | Function::Physical { .. })
    });
    // With accelerated networking the paravirtual interface represents the function below it.
    let carries = reals.clone().any(|other| packets(other) > packets(nic) * IDLE);
    let other = reals.next().filter(|_| !carries)?;
    let seen = |nic: &Nic| {
        Evidence::about(Subject::nic(nic), |seen| {
            let driver = nic.driver.as_deref().unwrap_or("unknown");
            format!("{}: driver {driver}, {} packets/s", nic.name, seen.packets("rx_packets", packets(nic)))
        })
    };
    let kind = match other.hardware.function {
        Function::Virtual { .. } => "a virtual function",
        _ => "a physical function",
    };
    Some(Finding {
        severity: Severity::Note,
        cpu: Some(busiest.cpu),
        title: format!("{} is paravirtual, {} is {kind} and idle", nic.name, other.name),
        evidence: vec![seen(nic), busiest.evidence(rates), seen(other)],
        why: "packets of a paravirtual interface also pass through the hypervisor's network stack".to_owned(),
        remedy: format!("if {} is on the same network, move the traffic there", other.name),
        ..RULE.finding()
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use rxlab_path::model::Function;

    fn host(other: Function) -> Sketch {
        let sketch = Sketch::new(8).device("eth0", &[0]).device("eth1", &[1]);
        let sketch = sketch.driven_by("eth0", "xen_netfront", Function::Paravirtual);
        sketch.driven_by("eth1", "ixgbevf", other).traffic("eth0", 5e4).receives(0, 0.6, 5e4)
    }

    /// The start of field case C.
    #[test]
    fn a_virtual_function_is_there_and_idle() {
        let found = host(Function::Virtual { physical: None }).finding(&RULE);
        assert_eq!(found.title, "eth0 is paravirtual, eth1 is a virtual function and idle");
        assert_eq!(found.seen()[2], "eth1: driver ixgbevf, 10 packets/s");
        assert_eq!(host(Function::Physical { vfs: 0, max: 8 }).findings(&RULE).len(), 1);
    }

    #[test]
    fn near_misses() {
        let function = || Function::Virtual { physical: None };
        host(Function::Plain).silent(&RULE, "an emulated device is no better");
        host(Function::Paravirtual).silent(&RULE, "two of a kind");
        host(function()).traffic("eth1", 5e4).silent(&RULE, "accelerated networking: it carries the packets");
        host(function()).receives(0, 0.1, 5e4).silent(&RULE, "time to spare");
        let alone =
            Sketch::new(8).device("eth0", &[0]).driven_by("eth0", "virtio_net", Function::Paravirtual);
        alone.traffic("eth0", 5e4).receives(0, 0.6, 5e4).silent(&RULE, "no other interface");
    }
}
