//! Machines on which a plan would do harm: each has something that a rule of thumb misses.

use std::collections::BTreeSet;

use super::{able, of_nics, only, plan_of, planned, simulate, texts};
use crate::plan::expected::Work;
use crate::plan::machine::Machine;
use crate::plan::policy::{Options, Policed, Policy, Variable};
use crate::plan::topology::CpuTopology;
use rxlab_base::parse::ethtool::{Coalesce, Rss};
use rxlab_base::units::{CpuId, IrqId, Need};
use rxlab_path::model::{Fact, Holder, Irq, IrqRates, Model, Rates, TxQueue, Xdp, XdpMode};
use rxlab_path::sketch::{Sketch, cpus};
use rxlab_setting::Risk;

/// The queues may outnumber the CPUs and all land on one of them: then only RPS spreads their work.
#[test]
fn many_queues_on_one_cpu_are_no_reason_to_switch_rps_off() {
    let crowded = || {
        let sketch = Sketch::new(8).device("eth0", &[0; 8]).queue_traffic("eth0", &[1e4; 8]);
        sketch.receives(0, 0.5, 1e4).all_receive("1-7", 0.4, 1e4).rps("eth0", "1-7")
    };
    let plan = |policy: Policy, variables: Option<&[Variable]>, sketch: Sketch| {
        let (model, rates) = sketch.build();
        policy.plan(&model, &rates, &Options::default(), variables).plan
    };
    assert_eq!(only(&plan(Policy::Minimal, None, crowded()), "rps"), [""; 0], "it moves no interrupt");
    let rps = plan(Policy::NumaLocal, Some(&[Variable::Rps]), crowded());
    assert_eq!(only(&rps, "rps"), [""; 0], "queues of one CPU may have one mask");
    let holding = plan(Policy::NumaLocal, Some(&[Variable::Rps]), crowded().rps("eth0", "0-7"));
    assert_eq!(
        only(&holding, "rps"),
        (0..8).map(|queue| format!("eth0/rx-{queue} = 1-7")).collect::<Vec<_>>()
    );
    let both = plan(Policy::NumaLocal, None, crowded());
    assert_eq!(only(&both, "irq_affinity").len(), 7, "each has a CPU of its own then");
    assert_eq!(only(&both, "rps"), (0..8).map(|queue| format!("eth0/rx-{queue} = off")).collect::<Vec<_>>());

    let apart = || Sketch::new(8).device("eth0", &[0, 1, 2, 3, 4, 5, 6, 7]).rps("eth0", "0-7");
    assert_eq!(only(&plan(Policy::Minimal, None, apart()), "rps").len(), 8);
    let few = apart().edit("eth0", |nic| {
        nic.hardware.rss = Fact::Known(Rss { table: vec![0, 1, 2, 3], ..Rss::default() });
    });
    assert_eq!(only(&plan(Policy::Minimal, None, few), "rps"), [""; 0], "the table leads to four of them");
    let uneven = apart().queue_traffic("eth0", &[7e4, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    assert_eq!(
        only(&plan(Policy::Minimal, None, uneven), "rps"),
        [""; 0],
        "one flow has most of the packets"
    );
}

/// One CPU was at 98 % with fewer than 50,000 packets a second, and masks had prevented that.
#[test]
fn latency_leaves_work_where_its_cpu_cannot_take_it() {
    let policed = |sketch: Sketch| planned(Policy::Latency, &sketch.build(), &Options::default());
    assert_eq!(only(&policed(Sketch::case_a()).plan, "rps"), ["eth0/rx-0 = 0-1,3-7"]);
    let spread = Sketch::new(8).device("eth0", &[2]).traffic("eth0", 4.2e4).rps("eth0", "0-1,3-7");
    let spread = spread.all_receive("0-1,3-7", 0.1, 6e3).receives(2, 0.45, 4.2e4);
    let kept = policed(spread);
    assert_eq!(only(&kept.plan, "rps"), [""; 0]);
    assert!(kept.reasons.contains(&"rps: nothing to change".to_owned()), "{:?}", kept.reasons);
    let calm = Sketch::new(8).device("eth0", &[2]).traffic("eth0", 4e3).rps("eth0", "0-1,3-7");
    assert_eq!(only(&policed(calm.receives(2, 0.1, 4e3)).plan, "rps"), ["eth0/rx-0 = off"]);
}

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

/// Where every core has an interrupt, the other threads got the packets of CPUs that receive for a tenth of their time.
#[test]
fn the_other_threads_of_all_cores_get_nothing() {
    for packets in [8e5, 8e3] {
        let host = Sketch::new(8).smt().device("eth0", &[0, 1, 2, 3]).traffic("eth0", packets);
        let host = host.all_receive("0-3", 0.1, packets / 4.0).build();
        for policy in [Policy::Spread, Policy::Full] {
            assert_eq!(only(&plan_of(policy, &host), "rps"), [""; 0], "{policy}, {packets} packets/s");
        }
    }
}

/// The mask that a driver has for all queues had the other threads of the cores of some.
#[test]
fn one_mask_for_all_queues_has_no_thread_of_their_cores() {
    let rps = |packets: f64| {
        let host = Sketch::new(8).smt().device("eth0", &[0, 1, 2]).driver("eth0", "xen_netfront");
        only(&plan_of(Policy::Full, &host.traffic("eth0", packets).build()), "rps")
    };
    assert_eq!(rps(8e5), ["eth0/rx-0 = 3,7"]);
    assert_eq!(rps(8e3), ["eth0/rx-0 = 3-7"], "these cores have time");
}

/// Quiet queues got the CPUs, and the hot one none, or the other thread of its core.
#[test]
fn quiet_queues_get_nothing_while_one_is_hot() {
    let queues = |hot: f64, quiet: f64| [quiet, quiet, quiet, hot, quiet, quiet, quiet, quiet];
    let traffic = |sketch: Sketch| {
        sketch.traffic("eth0", 2.42e5).queue_traffic("eth0", &queues(2e5, 6e3)).receives(3, 0.84, 2e5)
    };
    let homes = [0, 1, 2, 3, 4, 5, 6, 7];
    let threads = traffic(Sketch::new(16).smt().device("eth0", &homes)).build();
    let every_cpu = traffic(Sketch::new(8).device("eth0", &homes)).build();
    for policy in [Policy::Spread, Policy::NumaLocal, Policy::Latency, Policy::Full] {
        assert_eq!(only(&plan_of(policy, &threads), "rps"), ["eth0/rx-3 = 8-10,12-15"], "{policy}");
        assert_eq!(only(&plan_of(policy, &every_cpu), "rps"), ["eth0/rx-3 = 0-2,4-7"], "{policy}");
    }
}

/// The hot queue had 2.85 times the average, which counted as even, and the CPUs of the others as full.
#[test]
fn a_hot_queue_gets_the_cpus_of_cooler_ones() {
    let host = (0..8).fold(Sketch::new(8).device("eth0", &[0, 1, 2, 3, 4, 5, 6, 7]), |host, cpu| {
        host.receives(cpu, if cpu == 3 { 0.95 } else { 0.31 }, if cpu == 3 { 1.9e5 } else { 6.2e4 })
    });
    let packets = [6.2e4, 6.2e4, 6.2e4, 1.9e5, 6.2e4, 6.2e4, 6.2e4, 6.2e4];
    let host = host.traffic("eth0", 6.24e5).queue_traffic("eth0", &packets).build();
    for policy in [Policy::Spread, Policy::NumaLocal, Policy::Latency, Policy::Full] {
        assert_eq!(only(&plan_of(policy, &host), "rps"), ["eth0/rx-3 = 0-2,4-7"], "{policy}");
    }
}

/// Masks for some of several even queues left the hottest CPU as hot, and gave others the work of a second queue.
#[test]
fn spreading_that_makes_no_cpu_cooler_is_left_out() {
    let host = |time: f64| {
        let sketch = Sketch::new(5).nodes(2).device("eth0", &[0, 1, 3]).queue_traffic("eth0", &[1e4; 3]);
        [0, 1, 3].into_iter().fold(sketch, |host, cpu| host.receives(cpu, time, 1e4)).build()
    };
    let rps = |host: &(Model, Rates)| {
        let policed = Policy::Spread.plan(&host.0, &host.1, &Options::default(), Some(&[Variable::Rps]));
        (only(&policed.plan, "rps"), policed.reasons)
    };
    let (masks, reasons) = rps(&host(0.3));
    assert_eq!(masks, [""; 0]);
    let why = "rps: left alone: CPU 1 would have no less receive work";
    assert!(reasons.contains(&why.to_owned()), "{reasons:?}");
    assert_eq!(rps(&host(0.8)).0, ["eth0/rx-2 = 2"], "a busy CPU gets cooler");
    let foreign = Sketch::new(2).device("eth0", &[0]).traffic("eth0", 2e3).receives(0, 0.02, 2e3);
    let foreign = foreign.receives(1, 0.3, 5e4).measured(|rates| rates.irqs.push(of_another_namespace(1)));
    assert_eq!(rps(&foreign.build()).0, [""; 0], "CPU 1 has more to do already");
}

/// The CPU that an interrupt of another network namespace keeps busy was idle to plans.
#[test]
fn the_cpu_of_another_namespace_is_not_free() {
    let host = Sketch::new(8).device("eth0", &[0]).traffic("eth0", 4e4).receives(0, 0.9, 4e4);
    let host = host.receives(5, 0.86, 4e4).measured(|rates| rates.irqs.push(of_another_namespace(5)));
    assert_eq!(only(&plan_of(Policy::Spread, &host.build()), "rps"), ["eth0/rx-0 = 1-4,6-7"]);
}

/// CPU 3 is full of packets whose interrupt nothing shows, and got those of eth0.
#[test]
fn a_cpu_full_of_unknown_packets_is_not_free() {
    let host = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 9e4).receives(0, 0.9, 9e4);
    let host = host.device("wwan0", &[3]).traffic("wwan0", 3e4).receives(3, 0.85, 3e4);
    let host = host.edit("wwan0", |nic| nic.rx[0].irqs.clear()).build();
    for policy in [Policy::Spread, Policy::NumaLocal, Policy::Full] {
        let rps = only(&plan_of(policy, &host), "rps");
        assert_eq!(rps[0], "eth0/rx-0 = 1-2", "{policy}");
        assert!(rps[1..].iter().all(|set| *set == "wwan0/rx-0 = 0-2"), "{policy}: by guess: {rps:?}");
    }
}

/// The queue of the hottest CPU got nothing, as its own packets are few.
#[test]
fn packets_of_another_namespace_make_a_cpu_hot() {
    let host = Sketch::new(4).device("eth0", &[0, 1, 2]).queue_traffic("eth0", &[3e5, 3e5, 1e5]);
    let host = host.receives(0, 0.6, 3e5).receives(1, 0.6, 3e5).receives(2, 0.9, 4e5);
    let host = host.measured(|rates| rates.irqs.push(of_another_namespace(2)));
    let (model, rates) = host.build();
    let plan = |only| Policy::Spread.plan(&model, &rates, &Options::default(), Some(&[only])).plan;
    assert_eq!(only(&plan(Variable::Irq), "irq_affinity"), ["eth0/rx-2 = 3"]);
    assert_eq!(only(&plan(Variable::Rps), "rps"), ["eth0/rx-2 = 3"]);
}

/// A mask that is left over from a test: only `spread` made it wider.
#[test]
fn a_mask_whose_cpu_drowns_becomes_wider() {
    let host = Sketch::new(8).device("eth0", &[0]).traffic("eth0", 2e5).rps("eth0", "1");
    let host = host.receives(0, 0.42, 0.0).receives(1, 0.97, 1.6e5).build();
    for policy in [Policy::Spread, Policy::NumaLocal, Policy::Full] {
        assert_eq!(only(&plan_of(policy, &host), "rps"), ["eth0/rx-0 = 1-7"], "{policy}");
    }
}

/// Packets went to CPUs that programs fill, next to an idle one.
#[test]
fn full_cpus_get_no_packets_while_others_are_free() {
    let host = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 1.4e5).receives(0, 0.84, 1.4e5);
    let host = host.works(1, 0.97).works(2, 0.97).build();
    for policy in [Policy::Spread, Policy::NumaLocal, Policy::Full] {
        assert_eq!(only(&plan_of(policy, &host), "rps"), ["eth0/rx-0 = 3"], "{policy}");
    }
}

/// CPUs of both nodes shared four transmit queues, four had none, and the reason named one node.
#[test]
fn cpus_of_a_node_without_interrupts_send_through_queues_that_are_left() {
    let xps = |queues: usize| {
        let homes: Vec<u32> = (0..queues as u32).map(|queue| queue % 4).collect();
        let host = Sketch::new(8).nodes(2).device("eth0", &homes).on_node("eth0", 0).traffic("eth0", 8e3);
        let plan = plan_of(Policy::NumaLocal, &host.xps("eth0", &vec![""; queues]).build());
        let own = plan.settings.into_iter().filter(|planned| planned.set.knob == "xps_cpus");
        own.map(|planned| (planned.set.value, planned.why)).collect::<Vec<_>>()
    };
    let own = "CPUs of the NUMA node where its interrupt is handled";
    let far = "CPUs of NUMA nodes where no queue's interrupt is handled";
    let both = "CPUs of the NUMA node where its interrupt is handled, and of nodes where no queue's is";
    let expected = (0..8).map(|cpu| (cpu.to_string(), if cpu < 4 { own } else { far }.to_owned()));
    assert_eq!(xps(8), expected.collect::<Vec<_>>());
    let expected = (0..4).map(|cpu| (format!("{cpu},{}", cpu + 4), both.to_owned()));
    assert_eq!(xps(4), expected.collect::<Vec<_>>());
}

/// RPS was planned for packets that never reach it.
#[test]
fn what_xdp_takes_is_not_steered() {
    let host = |processed| {
        let host = Sketch::new(8).device("eth0", &[0]).traffic("eth0", 5e5).receives(0, 0.9, processed);
        host.volume("eth0", 5e5 * 64.0, 0.0)
            .edit("eth0", |nic| nic.xdp = Some(Xdp { mode: XdpMode::Driver, program: Some(17) }))
            .build()
    };
    for policy in [Policy::Spread, Policy::NumaLocal, Policy::Latency, Policy::Full] {
        let Policed { plan, reasons, .. } = planned(policy, &host(2e4), &Options::default());
        assert_eq!((only(&plan, "rps"), only(&plan, "rfs")), (vec![], vec![]), "{policy}");
        let why = "XDP program 17 takes most packets of eth0 before the stack: RPS and RFS never see them";
        assert!(reasons.iter().any(|reason| reason.ends_with(why)), "{policy}: {reasons:?}");
    }
    assert_eq!(
        only(&plan_of(Policy::Spread, &host(5e5)), "rps"),
        ["eth0/rx-0 = 1-7"],
        "it only looks at them"
    );
}

/// The queue that AF_XDP holds got the mask.
#[test]
fn a_held_queue_gets_no_mask() {
    let host = Sketch::new(8).device("eth0", &[0, 1]).queue_traffic("eth0", &[2e5, 2e5]);
    let host = host.receives(0, 0.9, 2e5).receives(1, 0.9, 2e5);
    let host = host.edit("eth0", |nic| nic.rx[1].held_by = Some(Holder::AfXdp)).build();
    for policy in [Policy::Spread, Policy::NumaLocal] {
        assert_eq!(only(&plan_of(policy, &host), "rps"), ["eth0/rx-0 = 2-7"], "{policy}");
    }
}

/// The kernel's hash reads no more of the outer packets than the device's.
#[test]
fn one_flow_of_a_tunnel_is_steered_behind_it() {
    let host = |kind: &str| {
        let host = Sketch::new(8).device("eth0", &[0, 1, 2, 3]).queue_traffic("eth0", &[1e3, 1e3, 9e4, 1e3]);
        let host = host.receives(2, 0.9, 9e4).veth("tun0").traffic("tun0", 8.5e4);
        host.edit("tun0", |nic| nic.stack.kind = Some(kind.to_owned())).build()
    };
    let of = |kind, nic: &str| {
        let nics = vec![nic.parse().expect("a name")];
        let policed = planned(Policy::Spread, &host(kind), &Options { nics, ..Options::default() });
        (only(&policed.plan, "rps"), policed.reasons)
    };
    let (masks, reasons) = of("wireguard", "eth0");
    assert_eq!(masks, [""; 0]);
    assert!(
        reasons.iter().any(|why| why.contains("RPS on tun0 spreads the connections inside")),
        "{reasons:?}"
    );
    assert_eq!(of("wireguard", "tun0").0, ["tun0/rx-0 = 0-1,3-7"]);
    assert_eq!(of("gre", "eth0").0, ["eth0/rx-2 = 4-7"], "it reads the inner headers");
    let (mut model, rates) = host("wireguard");
    model.nics[0].rx[2].rps_cpus = Fact::Known(cpus("4-7"));
    let clean = Options { isolated: cpus("0-1,4-7"), ..Options::default() };
    let plan = planned(Policy::Isolate, &(model, rates), &clean).plan;
    assert_eq!(only(&plan, "rps"), ["eth0/rx-2 = 3"], "the mask leaves them at any cost");
}

/// Two hot queues got nothing where one CPU is free.
#[test]
fn the_hottest_queues_get_the_free_cpus() {
    let host = |times: [f64; 3], rps: [&str; 3]| {
        let sketch =
            Sketch::new(4).device("eth0", &[0, 1, 2]).traffic("eth0", 2e5 * times.iter().sum::<f64>());
        let sketch = sketch.queue_traffic("eth0", &times.map(|time| 2e5 * time));
        let sketch = (0..3).fold(sketch, |sketch, cpu| sketch.receives(cpu, times[cpu as usize], 1e5));
        (0..3).fold(sketch, |sketch, queue| sketch.rps_of("eth0", queue, rps[queue])).build()
    };
    let planned = |times, rps| {
        let host = host(times, rps);
        let policed = Policy::Spread.plan(&host.0, &host.1, &Options::default(), Some(&[Variable::Rps]));
        only(&policed.plan, "rps")
    };
    assert_eq!(planned([0.8, 0.95, 0.7], ["", "", ""]), ["eth0/rx-1 = 3"]);
    assert_eq!(planned([0.8, 0.95, 0.1], ["", "", ""]), ["eth0/rx-0 = 2", "eth0/rx-1 = 3"], "CPU 2 has room");
    assert_eq!(planned([0.8, 0.95, 0.9], ["", "", ""]), [""; 0], "the hottest CPUs are equally hot");
    assert_eq!(planned([0.8, 0.95, 0.7], ["", "3", ""]), [""; 0]);
}

/// A virtual function's packets are also counted above it: the CPU of the idle channel there seemed to be busy.
#[test]
fn packets_count_at_the_device_that_carries_them() {
    let host = Sketch::new(2).device("eth1", &[0]).traffic("eth1", 1.2e5).receives(0, 0.7, 1.2e5);
    let host = host.device("eth0", &[1]).channels("eth0", &[1]).traffic("eth0", 1.2e5);
    let host = host.edit("eth0", |nic| nic.stack.lower.push("eth1".parse().expect("a name"))).build();
    assert_eq!(only(&plan_of(Policy::Spread, &host), "rps"), ["eth1/rx-0 = 1"]);
}

/// All masks lead to one CPU, and every CPU has a queue: no plan of `spread` removed them.
#[test]
fn masks_without_use_are_removed() {
    let host = (0..4).fold(Sketch::new(4).device("eth0", &[0, 1, 2, 3]), |host, cpu| {
        host.receives(cpu, if cpu == 1 { 0.92 } else { 0.17 }, if cpu == 1 { 2.8e5 } else { 0.0 })
    });
    let host = host.traffic("eth0", 2.8e5).queue_traffic("eth0", &[7e4; 4]).rps("eth0", "1").build();
    let off = ["eth0/rx-0 = off", "eth0/rx-1 = off", "eth0/rx-2 = off", "eth0/rx-3 = off"];
    assert_eq!(only(&plan_of(Policy::Spread, &host), "rps"), off);
}

/// An interrupt of no interface of the model that fires often on a CPU.
fn of_another_namespace(cpu: u32) -> IrqRates {
    let per_cpu = [(CpuId(cpu), 2e4)].into();
    IrqRates { irq: IrqId(5000), action: "virtio99-input.0".to_owned(), per_cpu }
}

/// The interface with most packets was planned, while a CPU was full with those of another.
#[test]
fn spread_plans_the_interface_of_the_hot_cpu() {
    let host = Sketch::new(8).device("eth0", &[0, 1, 2, 3]).device("eth1", &[4]).traffic("eth0", 2e5);
    let host = (0..4).fold(host, |host, cpu| host.receives(cpu, 0.2, 5e4));
    let host = host.traffic("eth1", 5e4).receives(4, 0.9, 5e4).build();
    assert_eq!(only(&plan_of(Policy::Spread, &host), "rps"), ["eth1/rx-0 = 5-7"]);
}

/// Queues whose interrupts may not be read got masks of all CPUs, although no CPU was busy.
#[test]
fn masks_by_guess_need_a_busy_cpu() {
    let host = |time: f64| {
        let sketch = Sketch::new(4).device("eth0", &[0, 1]).traffic("eth0", 4e4).receives(1, time, 3e4);
        sketch.edit("eth0", |nic| nic.rx.iter_mut().for_each(|queue| queue.irqs.clear())).build()
    };
    assert_eq!(only(&plan_of(Policy::Spread, &host(0.3)), "rps"), [""; 0]);
    assert_eq!(only(&plan_of(Policy::Spread, &host(0.7)), "rps"), ["eth0/rx-0 = 0,2-3", "eth0/rx-1 = 0,2-3"]);
}

/// An interrupt for each packet filled a CPU that was busy with them already.
#[test]
fn latency_leaves_delays_where_the_cpu_is_busy() {
    let policed = |time: f64| {
        let sketch = Sketch::new(8).device("eth0", &[2]).traffic("eth0", 4e4).driver("eth0", "i40e");
        let sketch = sketch.moderation("eth0", 50, true);
        planned(Policy::Latency, &sketch.receives(2, time, 4e4).build(), &Options::default())
    };
    let delays = |time| ["adaptive_rx", "rx_usecs"].map(|knob| only(&policed(time).plan, knob).len());
    assert_eq!((delays(0.4), delays(0.6)), ([1, 1], [0, 0]));
    let why = "moderation: delays of eth0 are left alone: ";
    assert!(policed(0.6).reasons.iter().any(|reason| reason.starts_with(why)));
}

#[test]
fn a_bond_is_planned_on_its_devices() {
    let host = || {
        let sketch = Sketch::new(8).device("eth0", &[0]).device("eth1", &[0]).veth("bond0");
        let sketch = sketch.traffic("eth0", 4e4).traffic("eth1", 2e4).traffic("bond0", 6e4);
        let sketch = sketch.edit("bond0", |nic| {
            nic.stack.kind = Some("bond".to_owned());
            nic.stack.physical = ["eth0", "eth1"].map(|name| name.parse().expect("a name")).to_vec();
        });
        sketch.build()
    };
    for options in [Options::default(), of_nics(&["bond0"])] {
        for policy in [Policy::Spread, Policy::NumaLocal] {
            let policed = planned(policy, &host(), &options);
            let masks = only(&policed.plan, "rps");
            assert!(
                masks.len() == 2 && masks[0].starts_with("eth0") && masks[1].starts_with("eth1"),
                "{masks:?}"
            );
            let said =
                policed.plan.notes.iter().any(|note| note.starts_with("bond0 is a bond on eth0, eth1: "));
            assert!(said || (policy == Policy::NumaLocal && options.nics.is_empty()), "{policed:?}");
        }
    }
    let (model, rates) = host();
    let spread = crate::plan::spread(&model, &rates, Some(&"bond0".parse().expect("a name")));
    assert_eq!(texts(&spread.proposals[0].plan), ["rps eth0/rx-0 = 1-7"], "the one that receives most");
    assert!(spread.proposals[0].plan.notes[0].starts_with("bond0 is a bond on eth0, eth1: "));
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
fn interfaces_share_out_cpus_together() {
    let host = Sketch::new(8).device("eth0", &[0, 0]).device("eth1", &[0, 1]);
    let host = host.traffic("eth0", 4e3).traffic("eth1", 2e3).build();
    let plan = planned(Policy::Spread, &host, &of_nics(&["eth0", "eth1"])).plan;
    assert_eq!(only(&plan, "irq_affinity"), ["eth0/rx-1 = 2", "eth1/rx-0 = 3"], "CPU 1 has one of eth1");
    assert_eq!(
        only(&plan, "rps"),
        ["eth0/rx-0 = 4", "eth0/rx-1 = 6", "eth1/rx-0 = 7", "eth1/rx-1 = 5"],
        "by the order of their interrupts"
    );
}

#[test]
fn a_node_with_one_cpu_gets_all_queues_only_while_that_has_time_for_them() {
    let host = |cpu| Sketch::new(8).nodes(2).device("eth0", &[cpu; 3]).on_node("eth0", 0);
    let (model, rates) = host(0).receives(0, 0.8, 5e4).build();
    let options = Options { isolated: cpus("1-3"), ..Options::default() };
    let policed = Policy::NumaLocal.plan(&model, &rates, &options, None);
    assert_eq!(only(&policed.plan, "irq_affinity"), ["eth0/rx-1 = 4", "eth0/rx-2 = 6"]);
    let why = &policed.plan.settings[0].why;
    assert_eq!(why, "node 1, because the device's node 0 has too few CPUs for the traffic; its own core");
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

/// A quiet interface whose interrupts are unknown was taken for the one that fills a CPU.
#[test]
fn few_packets_from_an_unknown_cpu_fill_none() {
    let host = Sketch::new(4)
        .device("eth0", &[0])
        .traffic("eth0", 8.5e4)
        .device("wlan0", &[1])
        .traffic("wlan0", 100.0);
    let host = host.edit("wlan0", |nic| nic.rx[0].irqs.clear()).receives(2, 0.95, 8.5e4);
    let plan = plan_of(Policy::Spread, &host.build());
    assert!(texts(&plan).iter().all(|set| !set.contains("wlan0")), "{plan:?}");
}

/// Four fast CPUs that take the interrupts, and four slow ones: at 6 % of the fast ones' time, packets went to the slow ones.
#[test]
fn slow_cores_help_busy_queues_only() {
    let masks = |time: f64, packets: f64| {
        let host = Sketch::new(8).device("eth0", &[4, 5, 6, 7]).queue_traffic("eth0", &[packets; 4]);
        let host = host.each("4-7", |host, cpu| host.receives(cpu, time, packets)).tune(|model| {
            model.cpus.iter_mut().for_each(|cpu| cpu.capacity = Some(if cpu.id.0 < 4 { 405 } else { 1024 }));
        });
        only(&plan_of(Policy::NumaLocal, &host.build()), "rps").len()
    };
    assert_eq!((masks(0.06, 1.5e4), masks(0.9, 2e5)), (0, 4));
}

/// The interrupt of a USB host that is not known to be the interface's: the mask had the slow cores as well.
#[test]
fn packets_from_an_unknown_cpu_go_to_fast_cores() {
    let host = Sketch::new(8).device("eth0", &[7]).traffic("eth0", 6e4).receives(7, 0.6, 6e4);
    let host = host.edit("eth0", |nic| nic.rx[0].irqs.clear()).tune(|model| {
        model.cpus.iter_mut().for_each(|cpu| cpu.capacity = Some(if cpu.id.0 < 4 { 414 } else { 1024 }));
    });
    let plan = plan_of(Policy::Spread, &host.build());
    assert_eq!(only(&plan, "rps"), ["eth0/rx-0 = 4-6"]);
    assert!(plan.settings[0].why.ends_with(", and without slow cores"), "{plan:?}");
}

/// A quiet interface on the wrong node is no reason to leave the hot one alone.
#[test]
fn masks_may_make_it_matter_where_another_interface_is() {
    let host = Sketch::new(4).nodes(2).device("eth0", &[0]).device("eth1", &[1]).on_node("eth1", 1);
    let host = host.queue_traffic("eth0", &[1.5e6]).queue_traffic("eth1", &[1e4]);
    let host = host.receives(0, 0.91, 1.5e6).receives(1, 0.01, 1e4).build();
    assert_eq!(only(&plan_of(Policy::Spread, &host), "rps"), ["eth0/rx-0 = 1"]);
}

/// 16 queues that are not counted, with a mask of all CPUs: the worst case is 1 % of a CPU's time above today.
#[test]
fn an_uncertain_surplus_that_ticks_do_not_tell_apart_counts_not() {
    let irqs: Vec<u32> = (0..16).collect();
    let host = Sketch::new(128).device("eth0", &irqs).traffic("eth0", 3e6).rps("eth0", "0-127");
    let (model, rates) =
        host.each("0-15", |host, cpu| host.receives(cpu, 0.4, 1e5)).receives(3, 0.85, 1e5).build();
    let proposals = crate::plan::spread(&model, &rates, None).proposals;
    assert!(proposals.iter().any(|made| made.plan.name == "rps"), "{proposals:?}");
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

#[test]
fn threads_that_poll_go_without_rps() {
    let host = Sketch::case_a().edit("eth0", |nic| nic.napi.threaded = Fact::Known(true)).build();
    for policy in [Policy::Spread, Policy::NumaLocal, Policy::Latency] {
        let policed = planned(policy, &host, &Options::default());
        let knobs = only(&policed.plan, "rps").len() + only(&policed.plan, "rfs").len();
        assert_eq!(knobs, 0, "{policy}");
        assert!(policed.reasons.iter().any(|why| why.contains("threaded NAPI")), "{:?}", policed.reasons);
    }
}

/// Its driver resets the device when the delay crosses 10 us.
#[test]
fn minimal_resets_no_link() {
    let (mut model, _) = able();
    let (_, rates) = Sketch::new(8).device("eth0", &[0, 1]).traffic("eth0", 2e5).build();
    let nic = &mut model.nics[0];
    nic.driver = Some("ixgbe".to_owned());
    nic.hardware.coalesce = Fact::Known(Coalesce { rx_usecs: Some(0), ..Coalesce::default() });
    let policed = |policy: Policy, model: &Model| policy.plan(model, &rates, &Options::default(), None);
    let minimal = policed(Policy::Minimal, &model);
    assert_eq!(texts(&minimal.plan), [""; 0]);
    assert!(minimal.reasons[0].contains("ixgbe may reset the link"), "{:?}", minimal.reasons);
    let full = policed(Policy::Full, &model).plan;
    assert_eq!(only(&full, "rx_usecs"), ["eth0 = 1"], "adaptive, for this driver");
    let risk = |knob: &str, model: &Model| {
        let plan = policed(Policy::Full, model).plan;
        plan.settings.iter().find(|planned| planned.set.knob == knob).and_then(|planned| planned.risk)
    };
    assert_eq!(risk("rx_usecs", &model), Some(Risk::LinkReset));
    assert_eq!(risk("channels", &model), Some(Risk::LinkReset));
    model.nics[0].driver = Some("virtio_net".to_owned());
    assert_eq!(risk("channels", &model), Some(Risk::BriefStall));
    // ena_down() takes the carrier away.
    model.nics[0].driver = Some("ena".to_owned());
    assert_eq!(risk("channels", &model), Some(Risk::LinkReset));
}

#[test]
fn moderation_is_for_devices_that_ring_often() {
    let plan = |packets: f64, change: fn(&mut rxlab_path::model::Nic)| {
        let (mut model, _) = able();
        change(&mut model.nics[0]);
        let (_, rates) = Sketch::new(8).device("eth0", &[0, 1]).traffic("eth0", packets).build();
        only(&Policy::Minimal.plan(&model, &rates, &Options::default(), None).plan, "rx_usecs")
    };
    assert_eq!(plan(6e4, |_| {}), ["eth0 = 20"]);
    assert_eq!(plan(6e3, |_| {}), [""; 0], "few packets, few interrupts");
    let frames = |nic: &mut rxlab_path::model::Nic| {
        let coalesce = Coalesce { rx_usecs: Some(0), rx_frames: Some(32), ..Coalesce::default() };
        nic.hardware.coalesce = Fact::Known(coalesce);
    };
    assert_eq!(plan(6e4, frames), [""; 0], "one for 32 packets");
    let deferred = |nic: &mut rxlab_path::model::Nic| {
        (nic.napi.defer_hard_irqs, nic.napi.gro_flush_timeout_ns) = (Fact::Known(2), Fact::Known(20_000));
    };
    assert_eq!(plan(6e4, deferred), [""; 0], "the kernel holds them back");
}

/// The default table of these devices names 16 queues: resetting it would never make it even over 24.
#[test]
fn a_table_that_names_all_it_can_is_even() {
    let table = |entries: Vec<u32>, driver: &str| {
        let (mut model, rates) = Sketch::new(32).device("eth0", &(0..24).collect::<Vec<_>>()).build();
        model.nics[0].driver = Some(driver.to_owned());
        model.nics[0].hardware.rss = Fact::Known(Rss { table: entries, ..Rss::default() });
        only(&Policy::Full.plan(&model, &rates, &Options::default(), None).plan, "rss")
    };
    let sixteen = || (0..128).map(|entry| entry % 16).collect::<Vec<u32>>();
    assert_eq!(table(sixteen(), "ixgbe"), [""; 0]);
    assert_eq!(table(sixteen(), "i40e"), ["eth0 = default"]);
    assert_eq!(table((0..128).map(|entry| entry % 8).collect(), "ixgbe"), ["eth0 = default"]);
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

/// Regression: the prediction was that of the masks alone for a plan that also moves interrupts.
#[test]
fn spread_predicts_the_whole_plan() {
    let sketch = Sketch::new(8).device("eth0", &[0, 0]).traffic("eth0", 6e4).receives(0, 0.9, 6e4);
    let plan = plan_of(Policy::Spread, &sketch.build());
    assert!(!only(&plan, "irq_affinity").is_empty() && !only(&plan, "rps").is_empty());
    let prediction = plan.prediction.expect("work moves");
    assert!((prediction.after - 0.45 * 0.48).abs() < 1e-6, "half goes, and half of the rest: {prediction:?}");
}

/// In the model RFS decides for a queue with a table: the mask there has no effect.
#[test]
fn no_figure_is_better_than_none() {
    let sketch = Sketch::new(8).device("eth0", &[0, 1]).traffic("eth0", 6e4).rps("eth0", "5-7");
    let sketch = sketch.receives(0, 0.2, 3e4).receives(1, 0.6, 3e4).all_receive("2-7", 0.1, 1e4);
    let sketch = sketch.rfs(32_768, "eth0", 0).edit("eth0", |nic| {
        nic.rx[0].rps_flow_cnt = Fact::Known(16_384);
        nic.rx[0].rps_cpus = Fact::Known(cpus("0"));
    });
    let policed = planned(Policy::Spread, &sketch.build(), &Options::default());
    assert_eq!(texts(&policed.plan), ["rps eth0/rx-0 = 2-4"]);
    assert_eq!(policed.plan.prediction, None);
}

#[test]
fn a_width_is_one_for_virtual_interfaces_too() {
    let host = |rps: &str| {
        Sketch::new(8).veth("veth0").traffic("veth0", 6e4).receives(0, 0.6, 6e4).rps("veth0", rps)
    };
    let options = Options { cpus_per_queue: Some(2), ..Options::default() };
    let plan = planned(Policy::Spread, &host("").build(), &options).plan;
    assert_eq!(only(&plan, "rps"), ["veth0/rx-0 = 1-2"]);
    let why = "no interrupt: the requested number of CPUs, without CPU 0, which receives the packets now";
    assert_eq!(plan.settings[0].why, why);
    assert_eq!(
        only(&planned(Policy::Spread, &host("4-5").build(), &options).plan, "rps"),
        [""; 0],
        "these are two as well"
    );
    assert_eq!(
        only(&planned(Policy::Spread, &host("1-7").build(), &options).plan, "rps"),
        ["veth0/rx-0 = 1-2"]
    );
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

/// The doctor and the planner once had separate lists of slow clocks and of drivers that adapt by number.
#[test]
fn what_the_doctor_calls_slow_or_adaptive_the_planner_does() {
    let (mut model, rates) = able();
    for (clock, is_slow) in [("hyperv_clocksource_msr", true), ("acpi_pm", true), ("jiffies", false)] {
        let Fact::Known(clocks) = &mut model.settings.clocksource else { panic!("able has clocks") };
        clock.clone_into(&mut clocks.current);
        let plan = Policy::Full.plan(&model, &rates, &Options::default(), None).plan;
        assert_eq!(only(&plan, "clocksource").len(), usize::from(is_slow), "{clock}");
    }
    for (driver, value) in [("igc", "eth0 = 1"), ("ixgbe", "eth0 = 1"), ("tg3", "eth0 = 20")] {
        let nic = &mut model.nics[0];
        nic.driver = Some(driver.to_owned());
        nic.hardware.coalesce = Fact::Known(Coalesce { rx_usecs: Some(0), ..Coalesce::default() });
        let plan = Policy::Full.plan(&model, &rates, &Options::default(), Some(&[Variable::Moderation])).plan;
        assert_eq!(only(&plan, "rx_usecs"), [value], "{driver}");
    }
}

/// Receive queues were assigned to them by hand, and masks of CPUs would have no effect.
#[test]
fn transmit_queues_by_receive_queue_get_no_cpus() {
    let (mut model, rates) = able();
    model.nics[0].tx[1].xps_by_rxq = Fact::Known(true);
    let policed = Policy::NumaLocal.plan(&model, &rates, &Options::default(), None);
    assert_eq!(only(&policed.plan, "xps_cpus"), [""; 0]);
    let why = "xps: eth0 sends by receive queue (xps_rxqs), which takes precedence over CPU masks";
    assert!(policed.reasons.contains(&why.to_owned()), "{:?}", policed.reasons);
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

/// Two queues that no counter tells apart, each with the CPU of the other in its mask: one of them had nearly all
/// packets, and its CPU got 1.5 times what it can do.
#[test]
fn masks_stay_while_nothing_tells_which_queue_brings_the_work() {
    let crossed = || {
        let sketch = Sketch::new(2).device("eth0", &[0, 1]).traffic("eth0", 8e5).rfs(32_768, "eth0", 16_384);
        let sketch = sketch.receives(0, 0.9, 7e5).receives(1, 0.8, 1e5);
        sketch.rps_of("eth0", 0, "1").rps_of("eth0", 1, "0")
    };
    let policed = |sketch: Sketch| planned(Policy::Minimal, &sketch.build(), &Options::default());
    let kept = policed(crossed());
    assert_eq!(only(&kept.plan, "rps"), [""; 0]);
    let why = "rps: the masks of several queues of eth0 stay in use: the CPUs of their interrupts could not take that \
               work back";
    assert!(kept.reasons.contains(&why.to_owned()), "{:?}", kept.reasons);
    let one = crossed().edit("eth0", |nic| nic.rx[1].rps_cpus = Fact::Known(cpus("")));
    let why = "rps: the mask of one queue of eth0 stays in use: the CPU of its interrupt could not take that work back";
    assert!(policed(one).reasons.contains(&why.to_owned()));
    let counted = policed(crossed().queue_traffic("eth0", &[4e5, 4e5]));
    assert_eq!(only(&counted.plan, "rps"), ["eth0/rx-0 = off", "eth0/rx-1 = off"]);
}

/// What masks of others bring to a CPU is gone when these change: the next plan took its queue for a calm one.
#[test]
fn a_queue_is_busy_by_what_its_interrupts_bring() {
    let sketch = Sketch::new(8).device("eth0", &[0]).traffic("eth0", 1e4);
    let sketch = sketch.device("eth1", &[4]).traffic("eth1", 4e4).rps("eth1", "0");
    let (model, rates) = sketch.receives(0, 0.6, 5e4).receives(4, 0.4, 0.0).build();
    let plan = Policy::Latency.plan(&model, &rates, &Options::default(), Some(&[Variable::Rps])).plan;
    assert_eq!(only(&plan, "rps"), ["eth1/rx-0 = 1-3,5-7"]);
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
