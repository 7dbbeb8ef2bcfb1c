//! Every policy on random machines: up to 8 nodes, 1,024 CPUs, 8 devices, 64 queues each.

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};

use super::{follow, texts};
use crate::diagnose::sketch::{Sketch, cpus};
use crate::model::{Fact, Irq, Irqbalance, Model, Nic, Rates, TxQueue};
use crate::parse::ethtool::{Channels, Coalesce, Count, Rss};
use crate::plan::ground::usable;
use crate::plan::policy::{Options, Policy};
use crate::plan::{Plan, Target, interrupts};
use crate::units::{CpuId, CpuMask, IrqId};

/// What a random machine is made of.
#[derive(Debug, Clone)]
struct Dice {
    nodes: u32,
    per_node: u32,
    smt: bool,
    queues: Vec<(u32, Option<u32>, u32)>,
    seed: Vec<u8>,
    balanced: bool,
}

/// A machine by the dice: CPUs that are offline or isolated, interrupts anywhere, values of any kind.
fn machine(dice: &Dice) -> (Model, Rates) {
    let count = dice.nodes * dice.per_node;
    let throw = |at: usize, sides: u32| {
        u32::from(dice.seed[at % dice.seed.len()]).wrapping_mul(at as u32 + 7) % sides
    };
    let mut sketch = Sketch::new(count).nodes(dice.nodes);
    if dice.smt && count.is_multiple_of(2) {
        sketch = sketch.smt();
    }
    for (at, (queues, _, packets)) in dice.queues.iter().enumerate() {
        let irqs: Vec<u32> = (0..*queues).map(|queue| throw(at * 97 + queue as usize, count)).collect();
        sketch = sketch.device(&format!("eth{at}"), &irqs).traffic(&format!("eth{at}"), f64::from(*packets));
    }
    let (mut model, rates) = sketch.build();
    if dice.balanced {
        let banned_irqs = Fact::Known(Vec::new());
        model.irqbalance = Fact::Known(Some(Irqbalance { pid: 7, banned_irqs, ..Irqbalance::default() }));
    }
    for (at, cpu) in model.cpus.iter_mut().enumerate() {
        cpu.online = throw(at, 9) > 0 || at == 0;
        cpu.isolated = throw(at * 3 + 1, 7) == 0;
    }
    let online = model.online();
    for (at, (nic, (_, node, _))) in model.nics.iter_mut().zip(&dice.queues).enumerate() {
        nic.node = node.map(|node| node % dice.nodes);
        furnish(nic, at, &throw, count);
        // An interrupt does not land on a CPU that is offline.
        for irq in nic.rx.iter_mut().flat_map(|queue| &mut queue.irqs).chain(&mut nic.other_irqs) {
            if irq.effective.known().is_some_and(|mask| mask.intersection(&online).is_empty()) {
                irq.effective = Fact::Known(cpus("0"));
            }
        }
    }
    (model, rates)
}

/// Gives a device what a driver may have.
fn furnish(nic: &mut Nic, at: usize, throw: &impl Fn(usize, u32) -> u32, count: u32) {
    nic.driver = Some(["ixgbe", "virtio_net"][throw(at, 2) as usize].to_owned());
    let queues = nic.rx.len() as u32;
    let all = Count { now: queues, max: queues + throw(at + 1, 9) };
    nic.hardware.channels = match throw(at + 2, 3) {
        0 => Fact::Unsupported,
        1 => Fact::Known(Channels { combined: Some(all), ..Channels::default() }),
        _ => Fact::Known(Channels { rx: Some(all), tx: Some(all), ..Channels::default() }),
    };
    nic.hardware.coalesce = Fact::Known(Coalesce {
        rx_usecs: [None, Some(0), Some(8)][throw(at + 3, 3) as usize],
        adaptive_rx: [None, Some(false), Some(true)][throw(at + 4, 3) as usize],
        ..Coalesce::default()
    });
    let table = (0..128).map(|entry| throw(at + entry, queues)).collect();
    nic.hardware.rss = Fact::Known(Rss { table, ..Rss::default() });
    nic.napi.gro_flush_timeout_ns = Fact::Known(u64::from(throw(at + 5, 3)));
    let one = |cpu: u32| [CpuId(cpu % count)].into_iter().collect::<CpuMask>();
    for queue in &mut nic.rx {
        let own = at + 11 * queue.index as usize;
        let range = (throw(own, count)..count.min(throw(own, count) + 9)).map(CpuId);
        queue.rps_cpus = Fact::Known(if throw(own, 3) == 0 { range.collect() } else { CpuMask::new() });
        queue.rps_flow_cnt = Fact::Known([0, 512][throw(own + 1, 2) as usize]);
    }
    for index in 0..queues {
        let xps = if throw(at, 2) == 0 { one(throw(at + index as usize, count)) } else { CpuMask::new() };
        nic.tx.push(TxQueue {
            index,
            xps_cpus: if queues == 1 { Fact::Unsupported } else { Fact::Known(xps) },
        });
        if throw(at + 6, 2) == 0 {
            nic.other_irqs.push(Irq {
                number: IrqId(100_000 + (at as u32) * 1000 + index),
                action: format!("virtio{at}-output.{index}"),
                affinity: Fact::Known(one(index)),
                effective: Fact::Known(one(index)),
                ..Irq::default()
            });
        }
    }
    let number = IrqId(200_000 + at as u32);
    let affinity = Fact::Known(one(throw(at, count)));
    let action = format!("virtio{at}-config");
    nic.other_irqs.push(Irq { number, action, effective: affinity.clone(), affinity, ..Irq::default() });
}

/// What must hold of a plan and of the machine that follows it.
fn sound(policy: Policy, model: &Model, plan: &Plan, after: &Model, clean: &CpuMask) -> Result<(), String> {
    let may = usable(model).difference(clean);
    let mut masks: Vec<(String, CpuMask)> = Vec::new();
    for planned in &plan.settings {
        let set = &planned.set;
        let Some(nic) = set.target.nic().and_then(|name| after.nic(name)) else { continue };
        if planned.device.as_ref() != Some(&nic.address) || planned.why.is_empty() || planned.risk.is_none() {
            return Err(format!("{set}: without a device, a reason or a risk"));
        }
        if !["rps", "irq_affinity"].contains(&set.knob.as_str()) || set.value == "off" {
            continue;
        }
        let mask = cpus(&set.value);
        if mask.is_empty() || !mask.difference(&may).is_empty() {
            return Err(format!("{set}: not of {may}"));
        }
        if set.knob == "irq_affinity" {
            continue;
        }
        let Target::Queue { nic: name, queue } = &set.target else { return Err(format!("{set}: no queue")) };
        let target = Target::Queue { nic: name.clone(), queue: *queue };
        for irq in interrupts(nic, &target) {
            let takes = irq.effective.known().cloned().unwrap_or_default();
            if !mask.intersection(&takes).is_empty() {
                return Err(format!("{set}: holds the CPU of its interrupt"));
            }
        }
        if let Some((other, _)) = masks.iter().find(|(_, other)| !other.intersection(&mask).is_empty())
            && policy != Policy::Spread
        {
            return Err(format!("{set}: overlaps with {other}"));
        }
        masks.push((set.to_string(), mask));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn sound_on_any_machine(
        nodes in 1u32..=8,
        per_node in 1u32..=128,
        smt in any::<bool>(),
        queues in vec((1u32..=64, proptest::option::of(0u32..8), 0u32..1_000_000), 1..=8),
        seed in vec(any::<u8>(), 64),
        balanced in any::<bool>(),
        cpus_per_queue in proptest::option::of(1usize..9),
        clean in proptest::option::of(0u32..600),
        policy in 0usize..6,
    ) {
        let policy = Policy::ALL[policy].1;
        let (model, rates) = machine(&Dice { nodes, per_node, smt, queues, seed, balanced });
        let keep_clean: CpuMask = (0..clean.unwrap_or_default()).map(CpuId).collect();
        let options = Options { cpus_per_queue, keep_clean, ..Options::default() };
        let plan = |model: &Model| policy.plan(model, &rates, &options, None).plan;
        let first = plan(&model);
        prop_assert_eq!(&first, &plan(&model), "the same twice");
        let after = follow(&model, &first);
        prop_assert_eq!(sound(policy, &model, &first, &after, &options.keep_clean), Ok(()));
        prop_assert_eq!(texts(&plan(&after)), Vec::<String>::new(), "nothing left to do");
        for (at, planned) in first.settings.iter().enumerate() {
            let twice = first.settings[..at].iter().any(|other| {
                other.set.knob == planned.set.knob && other.set.target == planned.set.target
            });
            prop_assert!(!twice, "{} is set twice", planned.set);
        }
    }
}
