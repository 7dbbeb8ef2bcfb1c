//! CPUs that a plan's masks leave out, and why, as far as the machine shows it.

use serde::{Deserialize, Serialize};

use crate::plan::Proposal;
use rxlab_base::units::{CpuMask, NicName, QueueId};
use rxlab_path::evidence::{TRAFFIC, irq_cpus, nic_irq_cpus, receive_time};
use rxlab_path::model::{Model, Nic, Rates, RxQueue};
use rxlab_setting::{Target, set_of};

/// CPUs that a mask leaves out for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpusLeftOut {
    /// The interface of the plan.
    pub nic: NicName,
    /// The plan's name.
    pub plan: String,
    /// The CPUs.
    pub cpus: CpuMask,
    /// The reason, as the end of a sentence about them: `shares CPU 2's core`.
    pub why: String,
}

/// CPUs that plans with one RPS mask for all their queues leave out. A CPU whose reason is not known is not named.
pub(super) fn of_plans(model: &Model, rates: &Rates, plans: &[Proposal]) -> Vec<CpusLeftOut> {
    plans.iter().flat_map(|proposal| of_plan(model, rates, proposal)).collect()
}

fn of_plan(model: &Model, rates: &Rates, proposal: &Proposal) -> Vec<CpusLeftOut> {
    let masks = proposal.plan.settings.iter().filter(|planned| planned.set.knob == "rps");
    let mut masks: Vec<CpuMask> = masks.filter_map(|planned| set_of(&planned.set.value)).collect();
    masks.dedup();
    let (Some(nic), [mask]) = (model.nic(&proposal.nic), &masks[..]) else { return Vec::new() };
    if mask.is_empty() {
        return Vec::new();
    }
    let all = nic_irq_cpus(nic, model, rates);
    let homes = homes(model, rates, nic, proposal);
    let mut rest = model.online().difference(mask);
    let mut found = Vec::new();
    let mut take = |cpus: &CpuMask, why: &dyn Fn(bool) -> String| {
        let cpus = rest.intersection(cpus);
        if !cpus.is_empty() {
            rest = rest.difference(&cpus);
            let why = why(cpus.len() == 1);
            found.push(CpusLeftOut { nic: nic.name.clone(), plan: proposal.plan.name.clone(), cpus, why });
        }
    };
    let core = match homes.len() {
        1 => format!("CPU {homes}'s core"),
        _ => "their cores".to_owned(),
    };
    take(&model.set_apart(), &|_| "isolated".to_owned());
    take(&homes, &|one| if one { "receives" } else { "receive" }.to_owned());
    take(&model.siblings(&homes), &|one| format!("{} {core}", if one { "shares" } else { "share" }));
    // A mask may have CPUs of its other queues: then these are no reason.
    if mask.intersection(&all).is_empty() {
        take(&all, &|one| if one { "takes other interrupts" } else { "take other interrupts" }.to_owned());
    }
    for other in model.nics.iter().filter(|other| rates.rx_packets(&other.name) >= TRAFFIC) {
        let cpus = nic_irq_cpus(other, model, rates);
        take(&cpus, &|one| format!("{} {}", if one { "receives" } else { "receive" }, other.name));
    }
    found
}

/// The CPUs that take packets before masks of the plan apply.
fn homes(model: &Model, rates: &Rates, nic: &Nic, proposal: &Proposal) -> CpuMask {
    let is_set = |queue: &&RxQueue| {
        let target = Target::queue(&nic.name, QueueId::rx(queue.index));
        let mut sets = proposal.plan.settings.iter().map(|planned| &planned.set);
        nic.is_steered_by_first() || sets.any(|set| set.knob == "rps" && set.target == target)
    };
    let set = nic.rx.iter().filter(is_set).map(|queue| irq_cpus(queue, model, rates));
    let interrupts = set.fold(CpuMask::new(), |all, one| all.union(&one));
    let hottest = || rates.hottest(|cpu| cpu.packets).or_else(|| rates.hottest(receive_time));
    if interrupts.is_empty() { hottest().map(|(cpu, _)| cpu).into_iter().collect() } else { interrupts }
}

#[cfg(test)]
mod tests {
    use crate::doctor::diagnosed;
    use rxlab_path::sketch::Sketch;

    #[test]
    fn each_cpu_that_a_mask_leaves_out_has_its_reason() {
        let said = |sketch: Sketch| {
            let report = diagnosed(sketch);
            let of_rps =
                report.left_out.into_iter().filter(|one| one.nic.as_str() == "eth0" && one.plan == "rps");
            of_rps.map(|one| format!("{} {}", one.cpus, one.why)).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(said(Sketch::case_a()), "2 receives");
        assert_eq!(said(Sketch::case_a().smt()), "2 receives, 6 shares CPU 2's core");
        assert_eq!(said(Sketch::case_a().isolate("5-6")), "5-6 isolated, 2 receives");
        let two = Sketch::case_a().device("eth1", &[1]).traffic("eth1", 2e4).receives(1, 0.3, 2e4);
        assert_eq!(said(two), "2 receives, 1 receives eth1");
        let hot = Sketch::new(8).smt().device("eth0", &[0, 1, 2, 3, 4, 5, 6, 7]);
        let hot = hot.queue_traffic("eth0", &[1e5, 2e3, 2e3, 2e3, 2e3, 2e3, 2e3, 2e3]).receives(0, 0.95, 1e5);
        assert_eq!(
            said(hot),
            "0 receives, 4 shares CPU 0's core",
            "the others receive as well, and get more"
        );
    }
}
