//! Which queues hand packets on, and to which CPUs.

use super::{masks, of_another_namespace, of_nics, only, plan_of, planned, texts};
use crate::plan::policy::{Options, Policy, Variable};
use rxlab_base::parse::ethtool::Rss;
use rxlab_path::model::{Fact, Holder, Model, Rates};
use rxlab_path::sketch::{Sketch, cpus};

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
        assert!(rps[1..].iter().all(|set| *set == "wwan0/rx-0 = 1-2"), "{policy}: by guess: {rps:?}");
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

/// Twelve quiet queues once got masks, or took the CPUs of one with 880,000 packets/s, which got none.
#[test]
fn of_thirteen_queues_the_busy_one_gets_a_mask() {
    let host = |count: u32| {
        let mut packets = vec![500.0; 13];
        packets[4] = 8.8e5;
        let irqs: Vec<u32> = (0..13).collect();
        let sketch = Sketch::new(count).device("eth0", &irqs).queue_traffic("eth0", &packets);
        sketch.receives(4, 0.97, 8.8e5).build()
    };
    let masks = |policy, count| only(&plan_of(policy, &host(count)), "rps");
    for policy in [Policy::Latency, Policy::Spread, Policy::NumaLocal] {
        assert_eq!(masks(policy, 16), ["eth0/rx-4 = 13-15"], "{policy}");
        assert_eq!(masks(policy, 13), ["eth0/rx-4 = 0-3,5-12"], "{policy}: their CPUs have time");
    }
    assert_eq!(masks(Policy::Latency, 32), ["eth0/rx-4 = 13-31"], "enough for all, and only one needs it");
}

/// Each queue was once paired with the other thread of its own core.
#[test]
fn a_queue_is_not_handed_to_its_own_core_while_others_are_free() {
    let host = |queues: u32| {
        let irqs: Vec<u32> = (0..queues).collect();
        let sketch = Sketch::new(256).smt().device("eth0", &irqs).traffic("eth0", 8e4 * f64::from(queues));
        sketch.all_receive(&format!("0-{}", queues - 1), 0.6, 8e4).build()
    };
    let masks = |queues| masks(&plan_of(Policy::Spread, &host(queues))).collect::<Vec<_>>();
    let free = cpus("60-127,188-255");
    assert_eq!(masks(60).len(), 60);
    assert!(masks(60).iter().all(|mask| mask.difference(&free).is_empty()), "{:?}", masks(60));
    assert_eq!(masks(96), [], "32 cores for 96 CPUs");
    let packets: Vec<f64> = (0..10).map(|queue| if queue == 3 { 3e5 } else { 1e4 }).collect();
    let sketch = Sketch::new(24).smt().device("eth0", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let one_busy = sketch.queue_traffic("eth0", &packets).receives(3, 0.95, 3e5).build();
    let plan = plan_of(Policy::Spread, &one_busy);
    assert_eq!(only(&plan, "rps"), ["eth0/rx-3 = 10-14,16-23"], "every free CPU but its own core");
}

/// Two uncounted queues on one CPU, and other work where one of them would go.
#[test]
fn what_an_uncounted_queue_may_bring_counts() {
    let host = |counted: bool| {
        let sketch = Sketch::new(2).device("eth0", &[0, 0]).device("eth1", &[1]).receives(1, 0.44, 4.4e4);
        let sketch = sketch.queue_traffic("eth1", &[4.4e4]).receives(0, 0.8, 8e4);
        let sketch = match counted {
            true => sketch.queue_traffic("eth0", &[4.4e4, 3.6e4]),
            false => sketch.traffic("eth0", 8e4),
        };
        only(&planned(Policy::NumaLocal, &sketch.build(), &of_nics(&["eth0"])).plan, "irq_affinity")
    };
    assert_eq!((host(true).len(), host(false).len()), (1, 0));
}

/// One mask once stayed, and the next plan removed it: the others had been removed.
#[test]
fn masks_of_uncounted_queues_stay_or_go_together() {
    let off = |counted: bool| {
        let sketch = Sketch::new(3).device("eth0", &[0, 1, 2]).traffic("eth0", 1.2e5);
        let sketch = if counted { sketch.queue_traffic("eth0", &[4e4; 3]) } else { sketch };
        let sketch = sketch.receives(0, 0.1, 4e4).receives(1, 0.35, 8e4).receives(2, 0.9, 0.0);
        let sketch = sketch.edit("eth0", |nic| {
            for (queue, mask) in nic.rx.iter_mut().zip(["1", "0", "1"]) {
                queue.rps_cpus = Fact::Known(cpus(mask));
            }
        });
        only(&plan_of(Policy::Minimal, &sketch.build()), "rps")
    };
    assert_eq!(off(false), [""; 0], "any of them may bring what CPU 2 could not take back");
    assert_eq!(off(true), ["eth0/rx-0 = off", "eth0/rx-1 = off"]);
}

/// The kernel applies the first mask of xen_netfront to the packets of every queue, and a new queue's interrupt came to a CPU of it.
#[test]
fn one_mask_for_all_queues_waits_for_new_ones() {
    let host = |driver: &str| {
        let sketch = Sketch::new(8).device("eth0", &[0, 1]).queue_traffic("eth0", &[9e4; 2]);
        let sketch = sketch.driver("eth0", driver).queues_at_most("eth0", 3);
        let plan = plan_of(Policy::Full, &sketch.all_receive("0-1", 0.9, 9e4).build());
        (only(&plan, "channels"), only(&plan, "rps").len())
    };
    let more = vec!["eth0 = combined 3".to_owned()];
    assert_eq!((host("virtio_net"), host("xen_netfront")), ((more.clone(), 3), (more, 0)));
}

/// A new queue got a guessed mask, which had the CPU where the driver then asked for its interrupt.
#[test]
fn a_guess_is_for_queues_that_are_there() {
    let sketch = Sketch::new(4).device("eth0", &[0]).queues_at_most("eth0", 2).channels("eth0", &[0]);
    let sketch = sketch.traffic("eth0", 9e4).rps("eth0", "2").receives(0, 0.8, 0.0).receives(2, 0.9, 9e4);
    let plan = plan_of(Policy::Full, &sketch.build());
    assert_eq!(only(&plan, "channels"), ["eth0 = combined 2"]);
    assert!(only(&plan, "rps").iter().all(|set| !set.starts_with("eth0/rx-1")), "{:?}", texts(&plan));
    let why = "rps: cannot tell which CPU takes the interrupt of eth0/rx-1";
    assert!(plan.notes.contains(&why.to_owned()), "{:?}", plan.notes);
}

/// A mask once went because its queue was a little quieter in the next sample, whose times are those with the masks.
#[test]
fn a_queue_that_hands_packets_on_stays_busy_for_a_while() {
    let second = |mask: &str| {
        let sketch = Sketch::new(8).device("eth0", &[0, 1]).queue_traffic("eth0", &[9e4, 4.9e4]);
        let sketch = sketch.receives(0, 0.9, 9e4).receives(1, 0.49, 4.9e4).rps_of("eth0", 1, mask);
        let plan = plan_of(Policy::NumaLocal, &sketch.build());
        only(&plan, "rps").into_iter().filter(|set| set.starts_with("eth0/rx-1")).collect::<Vec<_>>()
    };
    assert_eq!(second(""), [""; 0], "CPU 1 has room");
    assert_eq!(second("5-7"), [""; 0], "it stays");
}
