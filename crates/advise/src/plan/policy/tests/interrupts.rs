//! Where interrupts go: nodes, cores, CPUs that others fill or that are kept clean.

use std::collections::BTreeSet;

use super::{of_nics, only, plan_of, planned, simulate, texts};
use crate::plan::expected::Work;
use crate::plan::machine::Machine;
use crate::plan::policy::{Options, Policy, Variable};
use crate::plan::topology::CpuTopology;
use rxlab_base::units::{CpuId, CpuMask, IrqId, Need};
use rxlab_path::model::{Fact, Irq, IrqRates, Model, Rates, TxQueue};
use rxlab_path::sketch::{Sketch, cpus};

/// The load was read from the CPU that the interrupt was to go to: its hyper-thread stayed in the mask, and the next
/// plan took it out.
#[test]
fn the_load_of_a_queue_goes_where_its_interrupt_goes() {
    // Of the packets of both queues, one has 90 %.
    let sketch = Sketch::new(8).smt().device("eth0", &[2, 2]).queue_traffic("eth0", &[1.8e4, 2e3]);
    let (model, rates) = sketch.receives(2, 0.98, 4e4).receives(6, 0.9, 10.0).build();
    let plan =
        |model: &Model, rates: &Rates| Policy::NumaLocal.plan(model, rates, &Options::default(), None).plan;
    let first = plan(&model, &rates);
    assert_eq!(only(&first, "irq_affinity"), ["eth0/rx-0 = 0", "eth0/rx-1 = 2"][..1]);
    assert_eq!(only(&first, "rps"), ["eth0/rx-0 = 1,3,5,7"], "without CPU 4, and CPU 6 is full");
    let after = simulate(&model, &first);
    let mut moved = rates.clone();
    (moved.cpus[0].softirq, moved.cpus[2].softirq) = (0.88, 0.1);
    (moved.cpus[0].idle, moved.cpus[2].idle) = (0.1, 0.88);
    assert_eq!(texts(&plan(&after, &moved)), [""; 0]);
    // RPS has taken half of it away: what was not to be in the masks need not come in now.
    moved.cpus[0].softirq = 0.4;
    assert_eq!(texts(&plan(&after, &moved)), [""; 0]);
}

/// A virtual function's packets are also counted above it: the CPU of the idle channel there seemed to be busy.
#[test]
fn packets_count_at_the_device_that_carries_them() {
    let host = Sketch::new(2).device("eth1", &[0]).traffic("eth1", 1.2e5).receives(0, 0.7, 1.2e5);
    let host = host.device("eth0", &[1]).channels("eth0", &[1]).traffic("eth0", 1.2e5);
    let host = host.edit("eth0", |nic| nic.stack.lower.push("eth1".parse().expect("a name"))).build();
    assert_eq!(only(&plan_of(Policy::Spread, &host), "rps"), ["eth1/rx-0 = 1"]);
}

/// The idle backup of a bond got flow tables, and its interrupt a CPU that the other device could use.
#[test]
fn the_idle_device_of_a_bond_is_left_alone() {
    let sketch = Sketch::new(8).device("eth0", &[0]).device("eth1", &[0]).veth("bond0");
    let sketch = sketch.traffic("eth0", 4e4).traffic("bond0", 4e4).receives(0, 0.8, 4e4);
    let host = sketch.edit("bond0", |nic| {
        nic.stack.kind = Some("bond".to_owned());
        nic.stack.physical = ["eth0", "eth1"].map(|name| name.parse().expect("a name")).to_vec();
    });
    let plan = planned(Policy::Spread, &host.build(), &of_nics(&["bond0"])).plan;
    assert_eq!(texts(&plan), ["rps eth0/rx-0 = 1-7"]);
}

#[test]
fn a_node_with_one_cpu_gets_all_queues_only_while_that_has_time_for_them() {
    let host = |cpu| Sketch::new(8).nodes(2).device("eth0", &[cpu; 3]).on_node("eth0", 0);
    let (model, rates) = host(0).receives(0, 0.8, 5e4).build();
    let options = Options { isolated: cpus("1-3"), ..Options::default() };
    let policed = Policy::NumaLocal.plan(&model, &rates, &options, None);
    assert_eq!(only(&policed.plan, "irq_affinity"), ["eth0/rx-1 = 4", "eth0/rx-2 = 6"]);
    let why = &policed.plan.settings[0].why;
    let share = "because the interrupts would share the CPUs of the device's node 0 and keep them busy";
    assert_eq!(*why, format!("node 1, {share}; its own core"));
    let after = simulate(&model, &policed.plan);
    let topology = CpuTopology::new(&model);
    let rates = Work::new(&model, &rates, &topology).rates(&after, &topology);
    assert_eq!(texts(&Policy::NumaLocal.plan(&after, &rates, &options, None).plan), [""; 0]);
    let only_two = Options { isolated: cpus("1-3,5-7"), ..Options::default() };
    let plan = planned(Policy::NumaLocal, &host(1).build(), &only_two).plan;
    assert!(plan.settings[0].why.ends_with("shared: more queues than CPUs left for them"), "{plan:?}");
}

/// The estimate of what they cost changes with them: they went home, out and home again.
#[test]
fn interrupts_that_left_a_busy_node_stay_while_it_would_be_nearly_as_busy() {
    let moved = |homes: [u32; 3], time: f64| {
        let host = Sketch::new(8).nodes(2).device("eth0", &homes).on_node("eth0", 0).traffic("eth0", 6e4);
        let host = homes.into_iter().collect::<BTreeSet<u32>>().into_iter().fold(host, |host, cpu| {
            let part = homes.iter().filter(|home| **home == cpu).count() as f64 / 3.0;
            host.receives(cpu, time * part, 6e4 * part)
        });
        let options = Options { isolated: cpus("1-3"), ..Options::default() };
        only(&planned(Policy::NumaLocal, &host.build(), &options).plan, "irq_affinity")
    };
    assert_eq!(moved([0, 4, 6], 0.42), [""; 0], "outside");
    assert_eq!(moved([0, 0, 0], 0.42), [""; 0], "at home");
    assert_eq!(moved([0, 4, 6], 0.24), ["eth0/rx-1 = 0", "eth0/rx-2 = 0"]);
    assert_eq!(moved([0, 0, 0], 0.8), ["eth0/rx-1 = 4", "eth0/rx-2 = 6"]);
}

/// An interrupt that had to leave its CPU went to a slow core of the next node, and fast ones were free there.
#[test]
fn what_leaves_a_node_goes_to_fast_cores_first() {
    let host = Sketch::new(4).nodes(2).device("eth0", &[0, 1]).traffic("eth0", 2e4).tune(|model| {
        for (cpu, capacity) in model.cpus.iter_mut().zip([1024, 1024, 530, 1024]) {
            cpu.capacity = Some(capacity);
        }
    });
    let options = Options { isolated: cpus("0"), ..of_nics(&["eth0"]) };
    let plan =
        planned(Policy::Spread, &host.receives(0, 0.1, 1e4).receives(1, 0.1, 1e4).build(), &options).plan;
    assert_eq!(only(&plan, "irq_affinity"), ["eth0/rx-0 = 3"]);
}

/// The interrupts of a disk were taken for those of an interface elsewhere: a queue had to leave their CPUs, one after the other.
#[test]
fn interrupts_of_disks_keep_no_queue_away() {
    let disk = |action: &str, cpu: u32| IrqRates {
        irq: IrqId(900 + cpu),
        action: action.to_owned(),
        per_cpu: [(CpuId(cpu), 4e3)].into(),
    };
    let moved = |action: &str| {
        let host = Sketch::new(8).device("eth0", &[0, 1]).queue_traffic("eth0", &[9e4, 1.1e5]);
        let host = host.receives(0, 0.55, 9e4).receives(1, 0.7, 1.1e5);
        let host = host.measured(|rates| rates.irqs.extend((0..8).map(|cpu| disk(action, cpu))));
        only(&plan_of(Policy::Spread, &host.build()), "irq_affinity")
    };
    assert_eq!(moved("virtio0-request"), [""; 0]);
    assert_eq!(moved("nvme0q1"), [""; 0]);
    assert_ne!(moved("eth7-TxRx-1"), [""; 0]);
}

/// Two cards with more queues than their node has CPUs: all interrupts of the second one went to the other node, while the
/// CPUs of their own were 5 % busy.
#[test]
fn interrupts_of_quiet_devices_never_leave_their_node() {
    let spread: Vec<u32> = (0..16).collect();
    let two = Sketch::new(16).nodes(2).device("eth0", &[0; 16]).on_node("eth0", 0);
    let two = two.device("eth1", &spread).on_node("eth1", 0);
    let host = (0..8).fold(two, |host, cpu| host.receives(cpu, 0.05, 1e3)).build();
    for policy in [Policy::NumaLocal, Policy::Latency, Policy::Full] {
        let options = of_nics(&["eth0", "eth1"]);
        let plan = planned(policy, &host, &options).plan;
        let followed = simulate(&host.0, &plan);
        let homes = followed
            .nics
            .iter()
            .flat_map(|nic| &nic.rx)
            .filter_map(|queue| queue.irqs.first()?.affinity.known()?.first());
        let mut on = [0; 8];
        homes.for_each(|cpu| on[cpu.0 as usize] += 1);
        assert_eq!(on, [4; 8], "{policy}");
        assert_eq!(
            only(&planned(policy, &(followed, host.1.clone()), &options).plan, "irq_affinity"),
            [""; 0],
            "{policy}"
        );
    }
}

/// Interrupts once went to CPUs that a program filled.
#[test]
fn no_interrupt_moves_to_a_full_cpu() {
    let host = |busy: f64| Sketch::new(8).device("eth0", &[1, 1, 1]).works(0, busy).works(5, busy).build();
    let plan = |busy| plan_of(Policy::NumaLocal, &host(busy));
    assert_eq!(only(&plan(0.5), "irq_affinity"), ["eth0/rx-0 = 0", "eth0/rx-1 = 2", "eth0/rx-2 = 5"]);
    assert_eq!(only(&plan(0.97), "irq_affinity"), ["eth0/rx-1 = 3", "eth0/rx-2 = 6"]);
}

#[test]
fn interrupts_that_are_well_placed_stay() {
    let plan = |sketch: Sketch| plan_of(Policy::NumaLocal, &sketch.build());
    assert_eq!(only(&plan(Sketch::new(8).device("eth0", &[2])), "irq_affinity"), [""; 0]);
    let two = Sketch::new(8).nodes(2).device("eth0", &[3, 5, 3]).on_node("eth0", 0);
    assert_eq!(only(&plan(two), "irq_affinity"), ["eth0/rx-0 = 0", "eth0/rx-1 = 1", "eth0/rx-2 = 2"]);
    let one = Sketch::new(8).nodes(2).device("eth0", &[3, 5]).on_node("eth0", 0);
    assert_eq!(only(&plan(one), "irq_affinity"), ["eth0/rx-1 = 0"], "CPU 3 is as near as any");
}

/// Those of alx without a receive queue were all sent to the CPU of the only one.
#[test]
fn transmit_queues_without_a_receive_queue_stay_near() {
    let sent = |cpu: u32| {
        let (mut model, rates) = Sketch::new(8).nodes(2).device("eth0", &[1]).traffic("eth0", 5e3).build();
        let tx = |index: u32| rxlab_path::model::Irq {
            number: IrqId(900 + index),
            action: format!("virtio0-output.{index}"),
            affinity: Fact::Known(cpus(&cpu.to_string())),
            effective: Fact::Known(cpus(&cpu.to_string())),
            ..rxlab_path::model::Irq::default()
        };
        model.nics[0].tx = (0..2)
            .map(|index| TxQueue { index, xps_cpus: Fact::Unsupported, xps_by_rxq: Fact::Unsupported })
            .collect();
        model.nics[0].other_irqs = (0..2).map(tx).collect();
        only(&Policy::NumaLocal.plan(&model, &rates, &Options::default(), None).plan, "irq_affinity")
    };
    assert_eq!(sent(3), ["eth0/tx-0 = 1"], "tx-1 is in this node");
    assert_eq!(sent(7), ["eth0/tx-0 = 1", "eth0/tx-1 = 1"]);
}

#[test]
fn isolation_takes_all_interrupts_along_and_leaves_something() {
    let (mut model, rates) =
        Sketch::new(8).device("eth0", &[0]).device("eth1", &[1]).traffic("eth0", 5e3).build();
    let tx = |index: u32| rxlab_path::model::Irq {
        number: IrqId(900 + index),
        action: format!("virtio0-output.{index}"),
        affinity: Fact::Known(cpus("0")),
        effective: Fact::Known(cpus("0")),
        ..rxlab_path::model::Irq::default()
    };
    model.nics[0].tx = (0..3)
        .map(|index| TxQueue { index, xps_cpus: Fact::Unsupported, xps_by_rxq: Fact::Unsupported })
        .collect();
    model.nics[0].other_irqs = (0..3).map(tx).collect();
    let plan = Policy::Isolate.plan(&model, &rates, &Options::default(), None).plan;
    assert_eq!(
        only(&plan, "irq_affinity"),
        ["eth0/rx-0 = 7", "eth0/tx-0 = 7", "eth0/tx-1 = 7", "eth0/tx-2 = 7", "eth1/rx-0 = 7"],
        "the idle one too"
    );
    let threads = Sketch::new(2).smt().device("eth0", &[0]).build();
    let refused = planned(Policy::Isolate, &threads, &Options::default());
    assert_eq!(texts(&refused.plan), [""; 0]);
    assert!(refused.reasons[0].contains("leaves none to isolate"), "{:?}", refused.reasons);
    assert_eq!(refused.plan.notes.iter().filter(|note| note.contains("CPU ,")).count(), 0);
    let two = Sketch::new(16).nodes(2).device("eth0", &[0, 1]).device("eth1", &[8, 9]);
    let plan = plan_of(Policy::Isolate, &two.on_node("eth0", 0).on_node("eth1", 1).build());
    assert_eq!(
        only(&plan, "irq_affinity"),
        ["eth0/rx-0 = 6", "eth0/rx-1 = 7", "eth1/rx-0 = 14", "eth1/rx-1 = 15"],
        "each in its node"
    );
}

/// One CPU was once given the receive work of more than one, without a word.
#[test]
fn receive_work_that_few_cpus_cannot_take_is_named() {
    let host = |load: f64| {
        let sketch = Sketch::new(8).device("eth0", &[0]).traffic("eth0", 1.5e5).rps_of("eth0", 0, "1-7");
        (1..8).fold(sketch.receives(0, 0.3, 1.5e5), |sketch, cpu| sketch.receives(cpu, load, 2e4)).build()
    };
    let options = Options { isolated: cpus("0-6"), ..Options::default() };
    let plan = planned(Policy::Isolate, &host(0.12), &options).plan;
    assert_eq!(
        plan.notes[1],
        "receive work takes the time of 1.1 CPUs now, and CPU 7 has too little room for bursts: packets may be lost; \
         leave it 2 CPUs with --isolated"
    );
    let is_named =
        |plan: &rxlab_setting::Plan| plan.notes.iter().any(|note| note.contains("room for bursts"));
    assert!(is_named(&plan_of(Policy::Isolate, &host(0.5))));
    let options = Options { isolated: cpus("0-5"), ..Options::default() };
    assert!(!is_named(&planned(Policy::Isolate, &host(0.12), &options).plan));
}

/// An idle interrupt stays where it was until it fires: it was once sent back there.
#[test]
fn an_interrupt_that_was_sent_counts_where_it_goes() {
    let idle = || {
        let sketch = Sketch::new(8).device("eth0", &[0, 4]);
        sketch.edit("eth0", |nic| nic.rx[1].irqs[0].effective = Fact::Known(cpus("2")))
    };
    let plan = |policy: Policy, sketch: Sketch| plan_of(policy, &sketch.build());
    assert_eq!(only(&plan(Policy::NumaLocal, idle()), "irq_affinity"), [""; 0]);
    let apart = idle().edit("eth0", |nic| nic.rx[0].irqs[0] = nic.rx[1].irqs[0].clone());
    let apart = apart.edit("eth0", |nic| nic.rx[1].irqs[0].number = IrqId(7));
    assert_eq!(only(&plan(Policy::Spread, apart), "irq_affinity"), ["eth0/rx-1 = 0"], "both go to CPU 4");
}

/// An interrupt once stayed on a CPU that was to be isolated, without a note.
#[test]
fn interrupts_leave_cpus_that_are_to_be_kept_clean() {
    let plan = |irqs: &[u32], clean: &str| {
        let options = Options { isolated: cpus(clean), ..Options::default() };
        planned(Policy::Spread, &Sketch::new(4).device("eth0", irqs).traffic("eth0", 6e4).build(), &options)
    };
    let moved = plan(&[1, 3], "3").plan;
    assert_eq!(only(&moved, "irq_affinity"), ["eth0/rx-1 = 0"]);
    assert_eq!(moved.settings[0].why, "CPU 3 is to be isolated");
    let full = plan(&[0, 1, 2, 3], "2-3");
    assert_eq!(only(&full.plan, "irq_affinity"), ["eth0/rx-2 = 0", "eth0/rx-3 = 1"], "they share CPUs");
}

/// All usable CPUs but one are isolated, and interrupts land there: back on it, they would be twice what it can do.
#[test]
fn interrupts_stay_where_the_cpu_for_them_could_not_take_them() {
    let host = Sketch::new(3).isolate("1-2").device("eth0", &[0, 1]).traffic("eth0", 2e5);
    let host = host.receives(0, 0.9, 1e5).receives(1, 0.9, 1e5).build();
    for policy in [Policy::NumaLocal, Policy::Latency, Policy::Full] {
        let policed = planned(policy, &host, &Options::default());
        assert_eq!(only(&policed.plan, "irq_affinity"), [""; 0], "{policy}");
        let stays = |why: &String| why.starts_with("irq: left alone: CPU 0 would receive for ");
        assert!(policed.reasons.iter().any(stays), "{policy}: {:?}", policed.reasons);
    }
    let calm = Sketch::new(3).isolate("1-2").device("eth0", &[0, 1]).traffic("eth0", 2e4);
    let calm = calm.receives(0, 0.1, 1e4).receives(1, 0.1, 1e4).build();
    assert_eq!(only(&plan_of(Policy::NumaLocal, &calm), "irq_affinity"), ["eth0/rx-1 = 0"]);
}

/// RPS spreads a queue over both CPUs. Plans said that they leave its interrupt alone, and then moved it: the CPU would
/// have received for 129 % of its time.
#[test]
fn what_the_next_plan_adds_is_judged_together_with_the_first() {
    let sketch = Sketch::new(2).nodes(2).device("eth0", &[0, 0]).traffic("eth0", 2.2e5);
    let sketch = sketch.rps_of("eth0", 0, "0").rps_of("eth0", 1, "1");
    let host = sketch.receives(0, 0.66, 2.2e5).receives(1, 0.7, 2.15e5).ipis(1, 2e5).build();
    for policy in [Policy::NumaLocal, Policy::Latency, Policy::Full] {
        let policed = planned(policy, &host, &Options::default());
        assert!(policed.plan.settings.is_empty(), "{policy}: {:?}", policed.plan);
        let why = "irq, rps: left alone: CPU 1 would receive for 129 % of its time; now no CPU does for more than 70 %";
        assert!(policed.reasons.contains(&why.to_owned()), "{policy}: {:?}", policed.reasons);
    }
}

/// Two each, and both busy queues on one CPU.
#[test]
fn busy_queues_share_cpus_by_their_packets() {
    let sketch = Sketch::new(2).device("eth0", &[0, 0, 1, 1]).queue_traffic("eth0", &[4e4, 4e4, 1e3, 1e3]);
    let host = sketch.receives(0, 0.8, 8e4).receives(1, 0.02, 2e3).build();
    let plan = plan_of(Policy::NumaLocal, &host);
    assert_eq!(only(&plan, "irq_affinity"), ["eth0/rx-1 = 1"]);
}

/// A program that takes what receiving leaves has less while its CPU receives: the next plan found the CPU free.
#[test]
fn a_program_fills_its_cpu_while_that_receives_too() {
    let (model, rates) = Sketch::new(3).receives(1, 0.5, 4e4).works(1, 0.49).works(2, 0.5).build();
    let topology = CpuTopology::new(&model);
    let machine = Machine { model: &model, rates: &rates, topology: &topology };
    assert_eq!(machine.full(), cpus("1"));
}

/// The plan could not be applied, as there was no value to put back.
#[test]
fn interrupts_whose_affinity_cannot_be_read_stay() {
    let (mut model, rates) = Sketch::new(8).device("eth0", &[0, 1]).traffic("eth0", 2e4).build();
    let denied = || Fact::Denied(Need::Root);
    let action = "virtio0-config".to_owned();
    let own = Irq { number: IrqId(90), action, affinity: denied(), effective: denied(), ..Irq::default() };
    model.nics[0].other_irqs = vec![own];
    let options = Options { isolated: cpus("0-3"), ..Options::default() };
    let policed = Policy::Isolate.plan(&model, &rates, &options, None);
    let moved = only(&policed.plan, "irq_affinity");
    assert!(moved.len() == 2 && moved.iter().all(|set| set.starts_with("eth0/rx-")), "{moved:?}");
    let why = "irq: the affinity of the interrupt of eth0/irq-virtio0-config cannot be read";
    assert!(policed.reasons.contains(&why.to_owned()), "{:?}", policed.reasons);
}

/// New queues of a device with channels instead of interrupts once had interrupts in the plan, and irqbalance was
/// to leave these alone.
#[test]
fn new_queues_of_a_device_without_interrupts_have_none() {
    let sketch = Sketch::new(8).device("eth0", &[0]).queues_at_most("eth0", 4).channels("eth0", &[0]);
    let plan = plan_of(Policy::Full, &sketch.traffic("eth0", 2e4).irqbalance().build());
    assert_eq!(only(&plan, "channels").len(), 1, "{:?}", texts(&plan));
    assert_eq!([only(&plan, "irqbalance"), only(&plan, "irq_affinity")].concat(), [""; 0]);
}

/// Quiet queues took all CPUs that were left, and a CPU that two interfaces fill, or that two busy queues do, kept both.
#[test]
fn interrupts_of_full_cpus_move_first() {
    let moves = |sketch: Sketch| {
        let (model, rates) = sketch.build();
        let options = Options { nics: vec!["eth0".parse().expect("a name")], ..Options::default() };
        only(&Policy::Spread.plan(&model, &rates, &options, Some(&[Variable::Irq])).plan, "irq_affinity")
    };
    let others = Sketch::new(4).device("eth0", &[0, 1, 1, 1]).queue_traffic("eth0", &[1.1e5, 2e4, 2e4, 2e4]);
    let others = others.device("eth1", &[0]).traffic("eth1", 1.1e5);
    let others = others.receives(0, 0.75, 2.2e5).receives(1, 0.2, 6e4);
    assert_eq!(moves(others), ["eth0/rx-0 = 2", "eth0/rx-2 = 3"]);
    let own = Sketch::new(3).device("eth0", &[0, 0, 1, 1]).queue_traffic("eth0", &[6e4, 6e4, 10.0, 7e4]);
    assert_eq!(moves(own.receives(0, 0.8, 1.2e5).receives(1, 0.47, 7e4)), ["eth0/rx-1 = 2"]);
}

/// A plan that moved one of two said that there is no CPU for them.
#[test]
fn a_plan_that_moves_interrupts_does_not_say_that_none_can_move() {
    let outcome = |quiet: f64| {
        let sketch = Sketch::new(2).device("eth0", &[0, 0, 1]).queue_traffic("eth0", &[1.7e5, 1.7e5, quiet]);
        let (model, rates) = sketch.receives(0, 0.92, 3.4e5).receives(1, 0.3, quiet).build();
        let policed = Policy::Spread.plan(&model, &rates, &Options::default(), Some(&[Variable::Irq]));
        let is_refused =
            policed.reasons.iter().any(|why| why.ends_with("and no CPU without an interrupt is left"));
        (only(&policed.plan, "irq_affinity").len(), is_refused)
    };
    assert_eq!((outcome(5e3), outcome(1.3e5)), ((1, false), (0, true)));
}

#[test]
fn interrupts_take_cores_and_at_high_rates_whole_ones() {
    let host = |packets| Sketch::new(8).smt().device("eth0", &[5, 5]).traffic("eth0", packets).build();
    let plan = |packets| plan_of(Policy::NumaLocal, &host(packets));
    assert_eq!(only(&plan(2e3), "irq_affinity"), ["eth0/rx-0 = 0", "eth0/rx-1 = 2"]);
    assert_eq!(only(&plan(2e3), "rps"), ["eth0/rx-0 = 1,4-5", "eth0/rx-1 = 3,6-7"]);
    assert_eq!(only(&plan(2e5), "rps"), ["eth0/rx-0 = 1,5", "eth0/rx-1 = 3,7"]);
}

#[test]
fn spread_moves_only_interrupts_that_share_a_cpu() {
    let crowded = Sketch::new(8).device("eth0", &[2, 2]).traffic("eth0", 9e4).build();
    let policed = planned(Policy::Spread, &crowded, &Options::default());
    assert_eq!(
        texts(&policed.plan),
        ["irq_affinity eth0/rx-1 = 0", "rps eth0/rx-0 = 5-7", "rps eth0/rx-1 = 1,3-4",]
    );
    assert_eq!(policed.plan.settings[0].why, "CPU 2 already takes another queue's interrupt");
    let apart = Sketch::new(8).device("eth0", &[2, 5]).traffic("eth0", 9e4).build();
    let plan = plan_of(Policy::Spread, &apart);
    assert_eq!(only(&plan, "irq_affinity"), [""; 0]);
    let narrow = Options { cpus_per_queue: Some(1), ..Options::default() };
    assert_eq!(
        only(&planned(Policy::Spread, &apart, &narrow).plan, "rps"),
        ["eth0/rx-0 = 0", "eth0/rx-1 = 4"]
    );
    assert!(policed.plan.notes.iter().any(|note| note.starts_with("rfs: left off for eth0")), "{policed:?}");
    let rfs = Policy::Spread.plan(&crowded.0, &crowded.1, &Options::default(), Some(&[Variable::Rfs])).plan;
    assert_eq!(
        texts(&rfs),
        ["rfs_entries host = 32768", "rfs eth0/rx-0 = 16384", "rfs eth0/rx-1 = 16384"],
        "asked for by name"
    );
}

/// A multi-PF interface: the function of its second queue is in node 1.
#[test]
fn a_vector_goes_to_the_node_of_its_function() {
    let sketch = Sketch::new(8).nodes(2).device("eth0", &[0, 1]).traffic("eth0", 4e4).on_node("eth0", 0);
    let host = sketch.edit("eth0", |nic| {
        nic.rx[0].irqs[0].node = Some(0);
        nic.rx[1].irqs[0].node = Some(1);
    });
    let plan = plan_of(Policy::NumaLocal, &host.build());
    assert_eq!(only(&plan, "irq_affinity"), ["eth0/rx-1 = 4"]);
}

/// Interrupts once went to the other node, and to a CPU that a program fills.
#[test]
fn what_shares_a_cpu_stays_in_its_node() {
    let host = |packets: &[f64], load: f64| {
        let sketch = Sketch::new(8).nodes(2).device("eth0", &[0, 0, 1, 2, 3]).queue_traffic("eth0", packets);
        let (model, rates) = sketch.receives(0, load, packets[0] + packets[1]).build();
        let policed = planned(Policy::Spread, &(model, rates), &Options::default());
        (only(&policed.plan, "irq_affinity"), policed.plan.settings.first().map(|first| first.why.clone()))
    };
    assert_eq!(host(&[5e4, 5e4, 9e3, 8e3, 9e3], 0.3).0, [""; 0], "CPU 0 has time for both");
    let (moved, why) = host(&[2e5, 1.5e5, 9e3, 8e3, 9e3], 0.9);
    assert_eq!(moved, ["eth0/rx-1 = 2"], "the CPU with fewest packets");
    assert_eq!(why.as_deref(), Some("the queues of CPU 0 fill it, and CPU 2 has room"));
    let filled = Sketch::new(3).device("eth0", &[0, 0]).traffic("eth0", 9e4).works(1, 0.95).build();
    assert_eq!(only(&plan_of(Policy::Spread, &filled), "irq_affinity"), ["eth0/rx-1 = 2"]);
    let busy_first =
        Sketch::new(3).device("eth0", &[0, 0, 0, 1]).queue_traffic("eth0", &[1e4, 1e3, 9e4, 1e3]);
    assert_eq!(only(&plan_of(Policy::Spread, &busy_first.build()), "irq_affinity"), ["eth0/rx-2 = 2"]);
}

/// An interrupt once left a fast CPU of its node for another node, which had only a slow one.
#[test]
fn no_interrupt_spills_to_a_node_of_slow_cpus() {
    let moved = |slow: u32| {
        let sketch = Sketch::new(6).nodes(2).device("eth0", &[0, 1, 2, 2]).queue_traffic("eth0", &[6e4; 4]);
        let (mut model, rates) =
            sketch.on_node("eth0", 0).receives(2, 0.98, 1.2e5).all_receive("0-1", 0.5, 6e4).build();
        for cpu in &mut model.cpus {
            cpu.capacity = Some(if cpu.id.0 >= slow { 406 } else { 1024 });
        }
        only(&planned(Policy::NumaLocal, &(model, rates), &Options::default()).plan, "irq_affinity")
    };
    assert_eq!(moved(6), ["eth0/rx-3 = 3"]);
    assert_eq!(moved(3), [""; 0]);
}

/// Their times are not known, and the next plan would move them again.
#[test]
fn an_interrupt_whose_mask_cannot_be_read_stays() {
    let host = |mask: Fact<CpuMask>| {
        let sketch = Sketch::new(8).nodes(2).device("eth0", &[0]).on_node("eth0", 1).traffic("eth0", 4e4);
        let (mut model, rates) = sketch.receives(0, 0.5, 4e4).build();
        model.nics[0].rx[0].rps_cpus = mask;
        planned(Policy::NumaLocal, &(model, rates), &Options::default()).plan
    };
    assert_eq!(only(&host(Fact::Known(CpuMask::new())), "irq_affinity"), ["eth0/rx-0 = 4"]);
    let plan = host(Fact::Broken("no mask".to_owned()));
    assert_eq!(only(&plan, "irq_affinity"), [""; 0]);
    let why = "irq: the mask of eth0/rx-0 cannot be read, so its load is not known";
    assert!(plan.notes.contains(&why.to_owned()), "{:?}", plan.notes);
}

/// Drivers that start at CPU 0 for each device: an interface moves off a CPU that another one fills.
#[test]
fn the_crowd_of_two_devices_is_relieved_by_the_planned_one() {
    let sketch = Sketch::new(4).device("eth0", &[0]).device("eth1", &[0]);
    let host = sketch.traffic("eth0", 2e4).traffic("eth1", 5e4).receives(0, 0.8, 7e4).build();
    for nic in ["eth0", "eth1"] {
        let plan = planned(Policy::Spread, &host, &of_nics(&[nic])).plan;
        assert_eq!(only(&plan, "irq_affinity"), [format!("{nic}/rx-0 = 1")]);
    }
}

/// A CPU was left with exactly the time from which it counts as crowded, and the next plan moved another interrupt.
#[test]
fn a_cpu_is_relieved_by_more_than_a_sample_can_miss() {
    let host = Sketch::new(3).device("eth0", &[2; 9]).traffic("eth0", 4.5e5).receives(2, 0.89, 4.5e5).build();
    let moved = only(&plan_of(Policy::Spread, &host), "irq_affinity");
    assert_eq!(moved.len(), 5, "four of nine queues stay: {moved:?}");
}
