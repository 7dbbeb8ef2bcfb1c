//! Machines on which a plan would do harm: each has something that a rule of thumb misses.

use super::{able, of_nics, only, plan_of, planned, texts};
use crate::plan::policy::{Options, Policed, Policy, Variable};
use rxlab_base::parse::ethtool::{Coalesce, Rss};
use rxlab_path::model::{Fact, Model, Xdp, XdpMode};
use rxlab_path::sketch::{Sketch, cpus};
use rxlab_setting::Risk;

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

/// The interface with most packets was planned, while a CPU was full with those of another.
#[test]
fn spread_plans_the_interface_of_the_hot_cpu() {
    let host = Sketch::new(8).device("eth0", &[0, 1, 2, 3]).device("eth1", &[4]).traffic("eth0", 2e5);
    let host = (0..4).fold(host, |host, cpu| host.receives(cpu, 0.2, 5e4));
    let host = host.traffic("eth1", 5e4).receives(4, 0.9, 5e4).build();
    assert_eq!(only(&plan_of(Policy::Spread, &host), "rps"), ["eth1/rx-0 = 5-7"]);
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

/// The interrupt of mvneta is one of each CPU: its masks are the driver's own, and what a CPU sends completes there.
#[test]
fn transmit_queues_with_an_interrupt_of_every_cpu_keep_their_cpus() {
    let of_each = |effective: &'static str| {
        let host = Sketch::new(2).device("eth0", &[0, 0, 0, 0]).traffic("eth0", 6e4);
        host.xps("eth0", &["0", "1", "0", "1"]).edit("eth0", move |nic| {
            let irqs = nic.rx.iter_mut().flat_map(|queue| &mut queue.irqs);
            irqs.for_each(|irq| irq.effective = Fact::Known(cpus(effective)));
        })
    };
    let policed = |host: Sketch| planned(Policy::NumaLocal, &host.build(), &Options::default());
    let own = policed(of_each(""));
    assert_eq!(only(&own.plan, "xps_cpus"), [""; 0]);
    let why = "xps: cannot tell which CPUs take the interrupts of eth0";
    assert!(own.reasons.contains(&why.to_owned()), "{:?}", own.reasons);
    assert!(!only(&policed(of_each("0")).plan, "xps_cpus").is_empty());
}
