//! Packets dropped because a CPU's backlog queue was full.

use super::evidence::{carrier, loopback_share, receive_time, tier};
use super::figures::{count, percent, plural};
use super::{Finding, Rule, Severity};
use crate::model::{Model, Rates};

pub(super) const RULE: Rule = Rule {
    id: "backlog-drops",
    asks: "Are packets lost between the interface and the stack?",
    fires: || "the kernel counted at least one backlog drop (softnet column 2) while looking".to_owned(),
    silent: "drops happened earlier but not while looking",
    evidence: "drops and packets a second by CPU, its softirq time",
    cause: "The backlog (net.core.netdev_max_backlog) of a CPU is full: packets come faster than its softirq takes them off.",
    remedy: "Relieve the CPU that drops (RPS); a longer backlog (net.core.netdev_max_backlog) only covers bursts.",
    source: "Documentation/admin-guide/sysctl/net.rst (netdev_max_backlog); net/core/dev.c enqueue_to_backlog",
    check,
};

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    let mut dropping: Vec<_> = rates.cpus.iter().filter(|cpu| cpu.dropped > 0.0).collect();
    dropping.sort_by(|a, b| b.dropped.total_cmp(&a.dropped));
    let Some(worst) = dropping.first() else { return Vec::new() };
    let total: f64 = dropping.iter().map(|cpu| cpu.dropped).sum();
    let line = |cpu: &&crate::model::CpuRates| {
        format!(
            "CPU {}: {} drops/s beside {} packets/s, {} of its time in softirq ({})",
            cpu.cpu,
            count(cpu.dropped),
            count(cpu.packets),
            percent(receive_time(cpu)),
            tier(rates)
        )
    };
    const SHOWN: usize = 4;
    let mut evidence: Vec<String> = dropping.iter().take(SHOWN).map(line).collect();
    if dropping.len() > SHOWN {
        evidence.push(format!("and {} more", plural(dropping.len() - SHOWN, "CPU")));
    }
    let carrier = carrier(model, rates, worst.cpu);
    let steered = carrier.and_then(|(_, queue)| queue.rps_cpus.known()).is_some_and(|mask| !mask.is_empty());
    let why = if steered {
        "RPS hands this CPU packets faster than it takes them off its backlog"
    } else {
        "packets reach this CPU's backlog faster than it takes them off"
    };
    // On `lo` the sender fills the backlog itself: steering is no answer.
    let plans = match carrier {
        Some(_) if loopback_share(model, rates).is_none() => vec!["rps".to_owned()],
        _ => Vec::new(),
    };
    vec![Finding {
        id: RULE.id.to_owned(),
        severity: Severity::Critical,
        nic: carrier.map(|(nic, _)| nic.name.clone()),
        cpu: Some(worst.cpu),
        title: format!(
            "{} packets/s are dropped at the backlog of {}",
            count(total),
            plural(dropping.len(), "CPU")
        ),
        evidence,
        why: why.to_owned(),
        remedy: "relieve that CPU; a longer net.core.netdev_max_backlog only covers bursts".to_owned(),
        plans,
    }]
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::diagnose::sketch::Sketch;

    #[test]
    fn drops_are_given_by_cpu_worst_first() {
        let (model, rates) = Sketch::case_a().drops(2, 812.0).drops(5, 0.4).build();
        let found = check(&model, &rates);
        assert_eq!(found[0].title, "812 packets/s are dropped at the backlog of 2 CPUs");
        assert!(found[0].evidence[0].starts_with("CPU 2: 812 drops/s beside 42,000 packets/s, 98 %"));
        assert!(found[0].evidence[1].starts_with("CPU 5: 0.4 drops/s"));
        assert_eq!(found[0].plans, ["rps"]);
    }

    #[test]
    fn a_drowning_cpu_that_drops_nothing_is_silent_here() {
        let (model, rates) = Sketch::case_a().build();
        assert_eq!(check(&model, &rates), []);
    }

    #[test]
    fn drops_on_loopback_are_told_without_a_plan() {
        let (model, rates) =
            Sketch::new(2).loopback().traffic("lo", 1e5).receives(0, 0.9, 1e5).drops(0, 9.0).build();
        let found = check(&model, &rates);
        assert!(found[0].plans.is_empty() && found[0].nic.is_none());
    }
}
