//! XPS sends through queues whose completions land on another node, or leaves busy CPUs without a queue.

use std::collections::BTreeSet;

use super::figures::{Evidence, Subject};
use super::places::{node, readers};
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::{count, cpus_text, plural};
use rxlab_base::units::{CpuId, CpuMask, QueueId};
use rxlab_path::model::{Irq, Model, Nic, Rates};

/// Sent packets/s from which a cache miss for each, up to a microsecond, is 1 % of a CPU.
const SENDS: f64 = 10_000.0;

pub(super) const RULE: Rule = Rule {
    id: "xps-mismatch",
    asks: "Do transmit queues match the CPUs that send through them?",
    fires: || {
        format!(
            "a device sends {} packets/s, XPS is set, and the completions of a queue land on a node that has \
             none of its CPUs while those of another queue land on a node of that queue's CPUs, or CPUs that run processes a quarter of the time are in no queue's mask",
            count(SENDS)
        )
    },
    silent: "XPS is off, unreadable or based on receive queues (xps_rxqs), the device has one transmit \
             queue, the queue had no interrupt during the sample, completions land on another CPU of the \
             same node, all land near the device and none where the other CPUs are, or the CPUs left out are \
             idle",
    evidence: "packets sent, the queues with their masks and the CPU of their completions, the CPUs left out",
    cause: "Interrupts were moved after XPS was set, or the driver set XPS for as many CPUs as it has \
            queues.",
    remedy: "Give every CPU one queue whose completions land on its node.",
    source: "Documentation/networking/scaling.rst (XPS: Suggested Configuration); net/core/dev.c \
             get_xps_queue",
    check: Check::Device(finding),
};

fn finding(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    // The receive queue of a flow decides first, and the CPUs only where it is not known.
    if nic.tx.len() < 2 || nic.tx.iter().any(|queue| queue.xps_by_rxq.known() == Some(&true)) {
        return None;
    }
    let sent = rates.nic(&nic.name)?.tx_packets;
    let masks: Option<Vec<(u32, &CpuMask)>> =
        nic.tx.iter().map(|queue| Some((queue.index, queue.xps_cpus.known()?))).collect();
    let masks = masks.filter(|masks| sent >= SENDS && masks.iter().any(|(_, mask)| !mask.is_empty()))?;
    let served = masks.iter().fold(CpuMask::new(), |all, (_, mask)| all.union(mask));
    let left_out = readers(rates).intersection(&model.scheduled()).difference(&served);
    let homes = nic.tx.iter().filter_map(|queue| node(model, completes(rates, nic, queue.index)?));
    let homes: BTreeSet<u32> = homes.collect();
    let far: Vec<Evidence> =
        masks.iter().filter_map(|(index, mask)| far(model, rates, nic, *index, mask, &homes)).collect();
    let name = &nic.name;
    let title = match (far.len(), left_out.len()) {
        (0, 0) => return None,
        (0, cpus) => format!("{} without a transmit queue of {name}", plural(cpus, "busy CPU")),
        (queues, _) => format!("{} of {name} completed on another node", plural(queues, "transmit queue")),
    };
    const SHOWN: usize = 3;
    let mut evidence = vec![Evidence::about(Subject::nic(nic), |seen| {
        format!("{name} sends {} packets/s", seen.packets("tx_packets", sent))
    })];
    evidence.extend(far.iter().take(SHOWN).cloned());
    if far.len() > SHOWN {
        evidence.push(Evidence::about(Subject::nic(nic), |seen| {
            format!("and {} more", plural(seen.count("more", far.len() - SHOWN), "queue"))
        }));
    }
    if !left_out.is_empty() {
        let mean = super::places::mean(rates, &left_out, |cpu| cpu.user + cpu.system);
        evidence.push(Evidence::about(Subject::Cpus(left_out.clone()), |seen| {
            let time = seen.percent("user_and_system", mean);
            format!(
                "no queue's XPS mask has {}, busy with processes for {time} of the time",
                cpus_text(&left_out)
            )
        }));
    }
    Some(Finding {
        severity: Severity::Note,
        title,
        evidence,
        why: if far.is_empty() {
            "the kernel hashes packets of these CPUs over all queues, so they contend for queue locks"
                .to_owned()
        } else {
            "a sent packet's memory is freed on another node, and its socket is woken from there".to_owned()
        },
        remedy: "give every CPU one queue whose completions land on its node (xps_cpus)".to_owned(),
        ..RULE.finding()
    })
}

/// Evidence for a queue whose completions land on a node that has none of its CPUs, although those of another
/// queue land on a node of these CPUs: `homes` are the nodes of completions.
fn far(
    model: &Model,
    rates: &Rates,
    nic: &Nic,
    index: u32,
    mask: &CpuMask,
    homes: &BTreeSet<u32>,
) -> Option<Evidence> {
    let cpu = completes(rates, nic, index)?;
    let there = node(model, cpu)?;
    let nodes: Option<Vec<u32>> = mask.iter().map(|cpu| node(model, cpu)).collect();
    let apart =
        nodes.is_some_and(|nodes| nodes.iter().any(|node| homes.contains(node)) && !nodes.contains(&there));
    let text = format!("{}/tx-{index}: XPS {mask}, completions on CPU {cpu}, node {there}", nic.name);
    let queue = Subject::Queue { nic: nic.name.clone(), queue: QueueId::tx(index) };
    apart.then(|| Evidence::fact(queue, text))
}

/// The CPU that got most interrupts for completions of transmit queue `index` during the sample: those of the
/// queue itself, else those of the receive queue that shares its interrupt.
fn completes(rates: &Rates, nic: &Nic, index: u32) -> Option<CpuId> {
    let own: Vec<&Irq> = nic.tx_irqs(index).collect();
    let shared = nic.rx.iter().filter(|queue| queue.index == index).flat_map(|queue| &queue.irqs);
    let irqs: Vec<&Irq> = if own.is_empty() { shared.collect() } else { own };
    let seen = irqs.iter().filter_map(|irq| rates.irqs.iter().find(|seen| seen.irq == irq.number));
    let counts = seen.flat_map(|seen| &seen.per_cpu);
    counts.max_by(|a, b| a.1.total_cmp(b.1)).map(|(cpu, _)| *cpu)
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};

    /// Four queues on 8 CPUs in two nodes, their interrupts on the first CPU of each pair.
    fn host(xps: &[&str]) -> Sketch {
        let sketch = Sketch::new(8).nodes(2).device("eth0", &[0, 2, 4, 6]).traffic("eth0", 8e4);
        sketch.volume("eth0", 8e6, 5e4).xps("eth0", xps).all_work("0-7", 0.4)
    }

    #[test]
    fn completions_on_the_other_node() {
        let found = host(&["4-5", "2-3", "0-1", "6-7"]).finding(&RULE);
        assert_eq!(found.title, "2 transmit queues of eth0 completed on another node");
        assert_eq!(found.seen()[1], "eth0/tx-0: XPS 4-5, completions on CPU 0, node 0");
    }

    #[test]
    fn busy_cpus_without_a_queue() {
        let found = host(&["0", "2", "4", "6"]).finding(&RULE);
        assert_eq!(found.title, "4 busy CPUs without a transmit queue of eth0");
        assert_eq!(
            found.seen()[1],
            "no queue's XPS mask has CPUs 1,3,5,7, busy with processes for 40 % of the time"
        );
    }

    #[test]
    fn near_misses() {
        host(&["0-1", "2-3", "4-5", "6-7"]).silent(&RULE, "as it should be");
        host(&["2-3", "0-1", "6-7", "4-5"]).silent(&RULE, "another CPU of the node: irqbalance does it");
        let near = Sketch::new(8).nodes(2).device("eth0", &[0, 1, 2, 3, 0, 1, 2, 3]).traffic("eth0", 8e4);
        let near = near.volume("eth0", 8e6, 5e4).all_work("0-7", 0.4);
        let one_each = near.xps("eth0", &["0", "1", "2", "3", "4", "5", "6", "7"]);
        one_each.silent(&RULE, "a queue a CPU, interrupts in the device's node");
        host(&["", "", "", ""]).silent(&RULE, "XPS is off");
        let by_rxq = host(&["4-5", "2-3", "0-1", "6-7"]);
        let by_rxq = by_rxq.edit("eth0", |nic| nic.tx[1].xps_by_rxq = rxlab_base::units::Fact::Known(true));
        by_rxq.silent(&RULE, "receive queues decide");
        host(&["0", "2", "4", "6"]).all_work("0-7", 0.05).silent(&RULE, "idle");
        host(&["4-5", "2-3", "0-1", "6-7"]).volume("eth0", 8e6, 2e3).silent(&RULE, "sends little");
        host(&["4-5"]).silent(&RULE, "one queue has nothing to choose");
        let pending = host(&["4-5", "2-3", "0-1", "6-7"])
            .measured(|rates| rates.irqs.iter_mut().for_each(|irq| irq.per_cpu.clear()));
        pending.silent(&RULE, "no interrupt was counted: its affinity may be pending");
    }
}
