//! Every policy on random machines: up to 8 nodes, 1,024 CPUs, 8 devices, 64 queues each.

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};

use super::{simulate, texts};
use crate::diagnose::sketch::{Sketch, cpus};
use crate::model::{DeviceAddress, Fact, Irq, Irqbalance, Model, Nic, NicKind, Rates, TxQueue};
use crate::parse::ethtool::{Channels, Coalesce, Count, Rss};
use crate::plan::carried::carried;
use crate::plan::policy::{Options, Policy};
use crate::plan::topology::CpuTopology;
use crate::plan::{Plan, Target, interrupts};
use crate::units::{CpuId, CpuMask, IrqId};

/// Parameters of a random machine.
#[derive(Debug, Clone)]
struct Dice {
    nodes: u32,
    per_node: u32,
    smt: bool,
    queues: Vec<(u32, Option<u32>, u32)>,
    seed: Vec<u8>,
    balanced: bool,
}

/// A random machine: offline and isolated CPUs, interrupts anywhere, values of any kind.
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
    let (mut model, mut rates) = sketch.build();
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
    for (at, nic) in model.nics.iter_mut().enumerate() {
        astray(nic, at, &throw, count);
        // A signal does not come to one either.
        for cpu in nic.rx.iter_mut().filter_map(|queue| queue.channel_cpu.as_mut()) {
            *cpu = if online.contains(*cpu) { *cpu } else { CpuId(0) };
        }
    }
    let all: CpuMask = (0..count).map(CpuId).collect();
    let some = |at: usize| all.iter().filter(|cpu| throw(at + cpu.0 as usize, 12) > 0).collect::<CpuMask>();
    if throw(5, 3) == 0 {
        model.settings.nohz_full = Fact::Known(all.difference(&some(5)));
        model.settings.cpuset = Fact::Known(some(9));
    }
    busy(&model, &mut rates, &throw);
    if throw(3, 2) == 0 {
        bond(&mut model);
    }
    (model, rates)
}

/// Packets by queue, and receive time where interrupts of busy devices land; none anywhere else.
fn busy(model: &Model, rates: &mut Rates, throw: &impl Fn(usize, u32) -> u32) {
    for cpu in &mut rates.cpus {
        cpu.softirq = 0.0;
    }
    for (at, nic) in model.nics.iter().enumerate() {
        let counts = rates.nics.iter_mut().find(|rates| rates.name == nic.name).expect("each has rates");
        let packets = counts.rx_packets;
        if throw(at + 13, 2) == 0 {
            let weight = |queue: u32| f64::from(1 + throw(at + 7 * queue as usize, 50));
            let sum: f64 = nic.rx.iter().map(|queue| weight(queue.index)).sum();
            counts.queues =
                nic.rx.iter().map(|queue| (queue.index, packets * weight(queue.index) / sum)).collect();
        }
        let time = match packets {
            50_000.0.. => 0.98,
            2_000.0.. => [0.1, 0.6][throw(at + 17, 2) as usize],
            _ => 0.0,
        };
        for irq in nic.rx.iter().flat_map(|queue| &queue.irqs) {
            let lands = irq.effective.known().and_then(CpuMask::first).expect("it lands somewhere");
            let cpu = &mut rates.cpus[lands.0 as usize];
            cpu.softirq = cpu.softirq.max(time);
        }
        for cpu in nic.rx.iter().filter_map(|queue| queue.channel_cpu) {
            let cpu = &mut rates.cpus[cpu.0 as usize];
            cpu.softirq = cpu.softirq.max(time);
        }
    }
    for cpu in &mut rates.cpus {
        let program = [0.0, 0.0, 0.4, 0.95][throw(cpu.cpu.0 as usize + 29, 4) as usize];
        cpu.idle = (1.0 - cpu.softirq) * (1.0 - program);
    }
}

/// Interrupts that were sent elsewhere and have not moved, and queues with Hyper-V channels instead of
/// interrupts.
fn astray(nic: &mut Nic, at: usize, throw: &impl Fn(usize, u32) -> u32, count: u32) {
    let has_channels = throw(at + 21, 4) == 0;
    for queue in &mut nic.rx {
        // By interrupt, as two queues may share one.
        let own = queue.irqs.first().map_or(0, |irq| irq.number.0 as usize);
        let elsewhere = CpuId(throw(own + 2, count));
        match queue.irqs.first_mut() {
            Some(_) if has_channels => {
                queue.irqs.clear();
                queue.channel_cpu = Some(elsewhere);
            }
            Some(irq) if throw(own + 1, 3) == 0 => {
                irq.affinity = Fact::Known([elsewhere].into_iter().collect());
            }
            _ => {}
        }
    }
}

/// CPU of an interrupt once it has fired.
fn lands(irq: &Irq, online: &CpuMask) -> CpuMask {
    let [sent, now] = [&irq.affinity, &irq.effective].map(|mask| mask.known().cloned().unwrap_or_default());
    let goes = sent.len() == 1 && sent.difference(online).is_empty();
    if goes { sent } else { now }
}

/// A bond of all devices, with the packets of all.
fn bond(model: &mut Model) {
    let mut bond =
        Nic::new("bond0".parse().expect("a name"), DeviceAddress("virtual:bond0".into()), NicKind::Virtual);
    bond.stack.kind = Some("bond".to_owned());
    bond.stack.physical = model.nics.iter().map(|nic| nic.name.clone()).collect();
    bond.rx = vec![crate::model::RxQueue { rps_cpus: Fact::Known(CpuMask::new()), ..Default::default() }];
    model.nics.push(bond);
}

/// Gives a device random driver features.
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
    nic.napi.threaded = Fact::Known(throw(at + 8, 6) == 0);
    if throw(at + 9, 4) == 0 {
        // Two queues on one interrupt, as some drivers do when vectors are short.
        for pair in nic.rx.chunks_exact_mut(2) {
            pair[1].irqs = pair[0].irqs.clone();
        }
    }
    let one = |cpu: u32| [CpuId(cpu % count)].into_iter().collect::<CpuMask>();
    for queue in &mut nic.rx {
        let own = at + 11 * queue.index as usize;
        let range = (throw(own, count)..count.min(throw(own, count) + 9)).map(CpuId);
        queue.rps_cpus = Fact::Known(if throw(own, 3) == 0 { range.collect() } else { CpuMask::new() });
        queue.rps_flow_cnt = Fact::Known([0, 512][throw(own + 1, 2) as usize]);
    }
    for index in 0..queues + throw(at + 10, 4) {
        let xps = if throw(at, 2) == 0 { one(throw(at + index as usize, count)) } else { CpuMask::new() };
        nic.tx.push(TxQueue {
            index,
            xps_cpus: if queues == 1 { Fact::Unsupported } else { Fact::Known(xps) },
            xps_by_rxq: Fact::Unsupported,
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

/// Checks the invariants of a plan and of the machine that follows it.
fn sound(model: &Model, plan: &Plan, after: &Model, clean: &CpuMask) -> Result<(), String> {
    let may = model.usable().difference(clean);
    let mut masks: Vec<(String, CpuMask, CpuMask)> = Vec::new();
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
        let target = Target::queue(name, *queue);
        for irq in interrupts(nic, &target) {
            if !mask.intersection(&lands(irq, &after.online())).is_empty() {
                return Err(format!("{set}: holds the CPU of its interrupt"));
            }
        }
        // Queues that have only one CPU together may have one mask.
        let rx = nic.rx.iter().find(|rx| rx.index == queue.index);
        let home = rx.map_or(CpuMask::new(), |rx| match rx.irqs.first() {
            Some(irq) => lands(irq, &after.online()),
            None => rx.channel_cpu.into_iter().collect(),
        });
        let overlaps = |(_, other, of): &&(String, CpuMask, CpuMask)| {
            *of != home && !other.intersection(&mask).is_empty()
        };
        if let Some((other, ..)) = masks.iter().find(overlaps) {
            return Err(format!("{set}: overlaps with {other}"));
        }
        masks.push((set.to_string(), mask, home));
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
        names in 0usize..3,
    ) {
        let policy = Policy::ALL[policy].1;
        let (model, rates) = machine(&Dice { nodes, per_node, smt, queues, seed, balanced });
        let keep_clean: CpuMask = (0..clean.unwrap_or_default()).map(CpuId).collect();
        let mut names: Vec<_> = model.nics.iter().take([0, 2, 9][names]).map(|nic| nic.name.clone()).collect();
        if names.len() > 2 && model.nics.iter().any(|nic| nic.stack.kind.is_some()) {
            names = vec!["bond0".parse().expect("a name")];
        }
        let options = Options { nics: names, cpus_per_queue, keep_clean };
        let plan = |model: &Model, rates: &Rates| policy.plan(model, rates, &options, None).plan;
        let first = plan(&model, &rates);
        prop_assert_eq!(&first, &plan(&model, &rates), "the same twice");
        let after = simulate(&model, &first);
        prop_assert_eq!(sound(&model, &first, &after, &options.keep_clean), Ok(()));
        if let Some(prediction) = &first.prediction {
            let takes = |cpu: CpuId| {
                let mut queues = model.nics.iter().flat_map(|nic| &nic.rx);
                queues.any(|queue| {
                    let lands = queue.irqs.first().and_then(|irq| irq.effective.known());
                    queue.channel_cpu == Some(cpu) || lands.is_some_and(|cpus| cpus.contains(cpu))
                })
            };
            prop_assert!(takes(prediction.cpu), "nothing comes in on CPU {}", prediction.cpu);
        }
        let rates = carried(&model, &rates, &after, &CpuTopology::new(&after));
        prop_assert_eq!(texts(&plan(&after, &rates)), Vec::<String>::new(), "nothing left to do");
        for (at, planned) in first.settings.iter().enumerate() {
            let twice = first.settings[..at].iter().any(|other| {
                other.set.knob == planned.set.knob && other.set.target == planned.set.target
            });
            prop_assert!(!twice, "{} is set twice", planned.set);
        }
    }
}
