//! Interrupts of receive queues arrive on CPUs that are kept free for something else.

use super::figures::{Evidence, Subject};
use super::workload::processing;
use super::{Check, Finding, Rule, Severity};
use crate::family::PlanName;
use rxlab_base::number::{count, percent};
use rxlab_base::units::{CpuId, CpuMask, Fact};
use rxlab_path::constraints::Constraints;
use rxlab_path::model::{Model, Nic, Rates};

/// Interrupts/s on these CPUs together from which they disturb: a link change causes a few.
const SOME: f64 = 100.0;

/// Part of its time that an isolated CPU spends in processes from which it counts as in use.
const USED: f64 = 0.05;

/// Number of CPUs whose interrupts are shown.
const SHOWN: usize = 4;

pub(super) const RULE: Rule = Rule {
    id: "irq-on-isolated-cpu",
    asks: "Do interrupts of an interface arrive on isolated CPUs?",
    fires: || {
        format!(
            "CPUs are isolated (isolcpus=, an isolated partition of cpusets) or tickless (nohz_full=), others \
             are not, and {} interrupts/s of one device's receive queues are counted on them; a warning if one of \
             these CPUs spends {} of its time in processes, else a note",
            count(SOME),
            percent(USED)
        )
    },
    silent: "the mask of an interrupt allows such a CPU but none is counted there, irqaffinity= names the CPU but \
             not all of them, or every online CPU is isolated",
    evidence: "the isolated CPUs, interrupts/s of the device on each of them, and the time these CPUs spend in \
               processes",
    cause: "Isolation keeps the scheduler away, not interrupts: their masks begin with all CPUs unless \
            irqaffinity= or isolcpus=managed_irq says otherwise, and drivers spread their queues over all CPUs. \
            Each interrupt takes some microseconds from the process that the CPU was isolated for, and its softirq \
            often more.",
    remedy: "Move the interrupts to other CPUs; if these have no interrupt vectors left, use fewer queues. Managed interrupts cannot be moved: use fewer queues, or \
             isolcpus=managed_irq at boot.",
    source: "Documentation/admin-guide/kernel-parameters.txt (isolcpus=, irqaffinity=, nohz_full=)",
    check: Check::Device(finding),
};

/// Online CPUs that are isolated or without a tick, unless interrupts were assigned to them at boot.
fn reserved(model: &Model) -> CpuMask {
    let known = |fact: &Fact<CpuMask>| fact.known().cloned().unwrap_or_default();
    let all = model.set_apart().union(&known(&model.settings.nohz_full));
    all.difference(&model.assigned_at_boot()).intersection(&model.online())
}

/// Interrupts/s of the device's receive queues on each of these CPUs that has some, most first.
fn counted(rates: &Rates, nic: &Nic, cpus: &CpuMask) -> Vec<(CpuId, f64)> {
    let is_own = |number| nic.rx.iter().flat_map(|queue| &queue.irqs).any(|irq| irq.number == number);
    let own: Vec<_> = rates.irqs.iter().filter(|irq| is_own(irq.irq)).collect();
    let on = |cpu: CpuId| own.iter().filter_map(|irq| irq.per_cpu.get(&cpu)).sum::<f64>();
    let mut counted: Vec<(CpuId, f64)> =
        cpus.iter().map(|cpu| (cpu, on(cpu))).filter(|(_, rate)| *rate > 0.0).collect();
    counted.sort_by(|a, b| b.1.total_cmp(&a.1));
    counted
}

fn finding(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let reserved = reserved(model);
    if model.online().difference(&reserved).is_empty() {
        return None;
    }
    let counted = counted(rates, nic, &reserved);
    let all: f64 = counted.iter().map(|(_, rate)| rate).sum();
    let (first, _) = counted.first().filter(|_| all >= SOME)?;
    let hit: CpuMask = counted.iter().map(|(cpu, _)| *cpu).collect();
    let used = |cpu: CpuId| rates.cpu(cpu).map_or(0.0, processing);
    let is_used = counted.iter().any(|(cpu, _)| used(*cpu) >= USED);
    let isolated = model.set_apart().contains(*first);
    let mut evidence = vec![Evidence::fact(Subject::Cpus(reserved), kept_free(model))];
    evidence.extend(counted.iter().take(SHOWN).map(|(cpu, rate)| {
        Evidence::about(Subject::Cpu(*cpu), |seen| {
            format!(
                "CPU {cpu}: {} interrupts/s of {}, {} of its time in processes",
                seen.rate("interrupts", *rate),
                nic.name,
                seen.percent("processes", used(*cpu))
            )
        })
    }));
    let constraints = Constraints::measured(model, rates);
    let (why, remedy, plan) = match constraints.without_vectors() {
        Some(full) => (full.to_string(), "fewer queues, which need fewer vectors", PlanName::IsolateQueues),
        None => (
            "isolation keeps the scheduler away, not interrupts: each stops the process there, and its softirq runs \
             there too"
                .to_owned(),
            "move the interrupts to other CPUs; irqaffinity= at boot keeps new ones away",
            PlanName::IsolateIrqs,
        ),
    };
    Some(Finding {
        severity: if is_used { Severity::Warning } else { Severity::Note },
        cpu: Some(*first),
        title: format!(
            "{} interrupts/s of {} on {} {} {hit}",
            count(all.round()),
            nic.name,
            if isolated { "isolated" } else { "tickless" },
            if hit.len() == 1 { "CPU" } else { "CPUs" }
        ),
        evidence,
        why,
        remedy: remedy.to_owned(),
        plans: vec![plan],
        ..RULE.finding()
    })
}

/// `isolated: 4-7; nohz_full: 4-7`, without what is empty.
fn kept_free(model: &Model) -> String {
    let tickless = model.settings.nohz_full.known().cloned().unwrap_or_default();
    let parts = [("isolated", model.set_apart()), ("nohz_full", tickless)];
    let parts = parts.iter().filter(|(_, cpus)| !cpus.is_empty());
    parts.map(|(name, cpus)| format!("{name}: {cpus}")).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::Severity;
    use crate::diagnose::sketch::{Diagnosed, Sketch, cpus};
    use rxlab_base::units::Fact;

    /// Two queues, the second one on CPU 5.
    fn host() -> Sketch {
        Sketch::new(8).device("eth0", &[1, 5]).traffic("eth0", 200.0).interrupts("eth0", 150.0)
    }

    #[test]
    fn isolated_and_tickless_cpus() {
        let found = host().isolate("4-7").finding(&RULE);
        assert_eq!(found.title, "150 interrupts/s of eth0 on isolated CPU 5");
        assert_eq!(
            found.seen(),
            ["isolated: 4-7", "CPU 5: 150 interrupts/s of eth0, 2 % of its time in processes"]
        );
        assert_eq!(found.severity, Severity::Note, "nothing runs there");
        let tickless = || host().set(|settings| settings.nohz_full = Fact::Known(cpus("5")));
        assert_eq!(tickless().finding(&RULE).title, "150 interrupts/s of eth0 on tickless CPU 5");
        let used = tickless().works(5, 0.9).finding(&RULE);
        assert_eq!(used.severity, Severity::Warning, "the process that it is isolated for");
        let partition = host().set(|settings| settings.cpuset_isolated = Fact::Known(cpus("1,5")));
        assert_eq!(partition.finding(&RULE).title, "300 interrupts/s of eth0 on isolated CPUs 1,5");
    }

    #[test]
    fn near_misses() {
        host().silent(&RULE, "no CPU is isolated");
        host().isolate("2-4").silent(&RULE, "they arrive elsewhere");
        let chosen = host().isolate("5").set(|settings| settings.irqaffinity = Fact::Known(cpus("5")));
        chosen.silent(&RULE, "interrupts were assigned to it at boot");
        // SEAPATH issue 865: isolcpus=managed_irq,domain,4-N irqaffinity=0-15.
        let all = host().isolate("5").set(|settings| settings.irqaffinity = Fact::Known(cpus("0-15")));
        assert_eq!(all.finding(&RULE).title, host().isolate("5").finding(&RULE).title, "no choice");
        host().isolate("0-7").silent(&RULE, "all are isolated: none is kept free");
        host().isolate("5").interrupts("eth0", 90.0).silent(&RULE, "a few");
    }
}
