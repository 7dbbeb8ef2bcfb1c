//! Packets dropped because a CPU's backlog queue was full.

use super::figures::{Evidence, Subject};
use super::{Check, Finding, Rule, Severity};
use crate::family::PlanName;
use rxlab_base::number::{count, plural};
use rxlab_path::evidence::{LOST, carrier, may_be_lo, receive_time};
use rxlab_path::model::{Model, Rates};

/// Part of the packets from which connections notice the loss, as for rings.
const NOTICEABLE_LOSS: f64 = 1e-4;

/// Part of the drops due to flow limit from which the backlog is not what is full.
const LIMITED: f64 = 0.5;

pub(super) const RULE: Rule = Rule {
    id: "backlog-drops",
    asks: "Are packets lost between the interface and the stack?",
    fires: || {
        format!(
            "the kernel dropped {} packet/s or more at backlogs (softnet column 2) during the sample; \
             critical at {:.2} % of the packets or more",
            count(LOST),
            NOTICEABLE_LOSS * 100.0
        )
    },
    silent: "drops happened before the sample but not during it, or are too few to notice",
    evidence: "drops/s and packets/s by CPU, its softirq time, drops due to flow limit (column 11)",
    cause: "The backlog (net.core.netdev_max_backlog) of a CPU is full: packets arrive faster than its \
            softirq removes them. Or it is half full, and flow limit drops packets of a flow that brings \
            most of them.",
    remedy: "Relieve the CPU that drops (RPS); a longer backlog (net.core.netdev_max_backlog) only covers \
             bursts. Drops due to flow limit protect the other flows.",
    source: "Documentation/admin-guide/sysctl/net.rst (netdev_max_backlog); net/core/dev.c \
             enqueue_to_backlog, skb_flow_limit; Documentation/networking/scaling.rst (RPS Flow Limit)",
    check: Check::Machine(check),
};

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    let mut dropping: Vec<_> = rates.cpus.iter().filter(|cpu| cpu.dropped > 0.0).collect();
    dropping.sort_by(|a, b| b.dropped.total_cmp(&a.dropped));
    let Some(worst) = dropping.first() else { return Vec::new() };
    let total: f64 = dropping.iter().map(|cpu| cpu.dropped).sum();
    if total < LOST {
        return Vec::new();
    }
    let part = total / (total + rates.cpus.iter().map(|cpu| cpu.packets).sum::<f64>());
    let limited: f64 = rates.cpus.iter().map(|cpu| cpu.flow_limit).sum();
    let line = |cpu: &&rxlab_path::model::CpuRates| {
        Evidence::about(Subject::Cpu(cpu.cpu), |seen| {
            format!(
                "CPU {}: {} drops/s and {} packets/s, {} of its time in softirq ({})",
                cpu.cpu,
                seen.packets("dropped", cpu.dropped),
                seen.packets("packets", cpu.packets),
                seen.percent("receive_time", receive_time(cpu)),
                seen.tier(rates)
            )
        })
    };
    const SHOWN: usize = 4;
    let mut evidence: Vec<Evidence> = dropping.iter().take(SHOWN).map(line).collect();
    if dropping.len() > SHOWN {
        evidence.push(Evidence::about(Subject::Machine, |seen| {
            format!("and {} more", plural(seen.count("more", dropping.len() - SHOWN), "CPU"))
        }));
    }
    if limited > 0.0 {
        evidence.push(Evidence::about(Subject::Machine, |seen| {
            let (limited, total) = (seen.packets("flow_limit", limited), seen.packets("dropped", total));
            format!("{limited} of {total} drops/s are due to flow limit")
        }));
    }
    let by_flow = limited >= total * LIMITED;
    let carrier = carrier(model, rates, worst.cpu);
    let steered = carrier.and_then(|(_, queue)| queue.rps_cpus.known()).is_some_and(|mask| !mask.is_empty());
    let why = if by_flow {
        "flow limit drops packets of one flow, which fills most of a half-full backlog"
    } else if steered {
        "RPS hands packets to this CPU faster than it processes its backlog"
    } else {
        "packets reach this CPU's backlog faster than it processes them"
    };
    // On `lo` the sender fills the backlog itself: steering does not help.
    let plans = match carrier {
        Some(_) if !by_flow && !may_be_lo(model, rates, worst.cpu) => vec![PlanName::Rps],
        _ => Vec::new(),
    };
    let remedy = if by_flow {
        "it protects the other flows; a mask cannot split a flow: give that flow's queue its own CPU"
    } else if model.online().len() < 2 {
        "no other CPU can take them: fewer packets, or a machine with more CPUs; a longer net.core.netdev_max_backlog only \
         covers bursts"
    } else {
        "relieve that CPU; a longer net.core.netdev_max_backlog only covers bursts"
    };
    vec![Finding {
        severity: if part >= NOTICEABLE_LOSS { Severity::Critical } else { Severity::Warning },
        nic: carrier.map(|(nic, _)| nic.name.clone()),
        cpu: Some(worst.cpu),
        title: format!(
            "{} packets/s are dropped at the backlog of {}",
            count(total),
            plural(dropping.len(), "CPU")
        ),
        evidence,
        why: why.to_owned(),
        remedy: remedy.to_owned(),
        plans,
        ..RULE.finding()
    }]
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::Severity;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use crate::family::PlanName;

    #[test]
    fn drops_are_given_by_cpu_worst_first() {
        let found = Sketch::case_a().drops(2, 812.0).drops(5, 0.4).finding(&RULE);
        assert_eq!(found.title, "812 packets/s are dropped at the backlog of 2 CPUs");
        assert!(found.seen()[0].starts_with("CPU 2: 812 drops/s and 42,000 packets/s, 98 %"));
        assert!(found.seen()[1].starts_with("CPU 5: 0.4 drops/s"));
        assert_eq!(found.plans, [PlanName::Rps]);
    }

    #[test]
    fn a_single_cpu_is_not_told_to_give_work_away() {
        let one = Sketch::new(1).device("eth0", &[0]).traffic("eth0", 1e5).receives(0, 0.7, 1e5);
        let found = one.drops(0, 700.0).finding(&RULE);
        assert!(found.remedy.starts_with("no other CPU can take them"), "{}", found.remedy);
    }

    /// Two packets in five seconds were once as critical as a thousand per second.
    #[test]
    fn few_drops_are_no_alarm() {
        let found = |drops| {
            let found = Sketch::case_a().drops(2, drops).findings(&RULE);
            found.into_iter().map(|finding| finding.severity).collect::<Vec<_>>()
        };
        assert_eq!(
            (found(0.4), found(2.0), found(40.0)),
            (vec![], vec![Severity::Warning], vec![Severity::Critical])
        );
    }

    /// The CPU that hands on counts the flow limit, the target CPU counts the drop.
    #[test]
    fn a_flow_that_is_limited_is_no_full_backlog() {
        let sketch = Sketch::case_a().rps("eth0", "0-1,3-7").drops(5, 300.0);
        let sketch = sketch.measured(|rates| rates.cpus[2].flow_limit = 290.0);
        let found = &sketch.finding(&RULE);
        assert!(found.why.starts_with("flow limit drops") && found.plans.is_empty(), "{found:?}");
        assert_eq!(found.seen()[1], "290 of 300 drops/s are due to flow limit");
    }

    #[test]
    fn a_drowning_cpu_that_drops_nothing_is_silent_here() {
        Sketch::case_a().silent(&RULE, "no drops");
    }

    #[test]
    fn drops_on_loopback_are_told_without_a_plan() {
        let sketch = Sketch::new(2).loopback().traffic("lo", 1e5).receives(0, 0.9, 1e5);
        let found = sketch.drops(0, 9.0).finding(&RULE);
        assert!(found.plans.is_empty() && found.nic.is_none());
    }
}
