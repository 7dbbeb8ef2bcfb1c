//! Machines with one CPU short of time, lost packets, or incomplete steering.

use super::{Host, moves, receives};
use rxlab_path::model::ThrottledRates;
use rxlab_path::sketch::Sketch;

pub(super) fn hosts() -> Vec<Host> {
    let one_queue = || Sketch::new(8).device("eth0", &[2]).traffic("eth0", 4e4);
    let shared = |irq: f64, mask: &str| {
        let all = (0..8).fold(one_queue(), |host, cpu| host.receives(cpu, 0.3, 5e3));
        all.receives(2, irq, 5e3).rps("eth0", mask)
    };
    let after_the_fix = [0.24, 0.33, 0.4851, 0.28, 0.27, 0.25, 0.31, 0.3];
    let case_a_after = (0..)
        .zip(after_the_fix)
        .fold(Sketch::case_a(), |host, (cpu, softirq)| host.receives(cpu, softirq, 6e3));
    let two_queues = || Sketch::new(8).device("eth0", &[2, 3]).traffic("eth0", 4e4);
    let modest = || Sketch::new(4).device("eth0", &[1]).traffic("eth0", 2e4).receives(1, 0.15, 2e4);
    let disks = |softirq: f64| {
        let host = one_queue().receives(2, 0.1, 4e4).softirqs(5, "BLOCK", 41e3);
        host.receives(5, softirq, 40.0)
    };
    let storm = |vector: &str| {
        let host = one_queue().receives(2, 0.1, 4e4).receives(5, 0.93, 8e3);
        host.softirqs(5, vector, 4e4)
    };
    let limited = |serves: bool| {
        let throttled = ThrottledRates {
            group: "/web.slice".to_owned(),
            limit: Some((1.5, 100.0)),
            throttled: 20,
            periods: 50,
            waited: 0.4,
        };
        let host = modest().program("web", 1.4, "0-3").last(|process| process.throttled = Some(throttled));
        if serves { host.tcp(80, 0, 0, None) } else { host }
    };
    vec![
        Host::new("idle: 8 CPUs, one queue", Sketch::new(8).device("eth0", &[2]).irqbalance(), &[]),
        Host::new("case A", Sketch::case_a(), &["backlog-drops", "single-queue-no-rps"]),
        Host::new("case A, dropping", Sketch::case_a().drops(2, 812.0), &[]),
        Host::new("case A, kept as it was fixed", case_a_after.rps("eth0", "0-7"), &["one-core-hotspot"])
            .lacks("one-core-hotspot", "CPU 2 drowns, unlike the others", |_, rates| {
                rates.cpus[2].user = 0.0;
                receives(rates, 2, 0.95);
            }),
        Host::new("one queue at a sixth of a CPU", modest(), &["one-core-hotspot"]),
        Host::new("the same with RPS", modest().rps("eth0", "0,2-3"), &["single-queue-no-rps"]),
        Host::new("RPS to all CPUs, the interrupt's at half", shared(0.49, "0-7"), &["one-core-hotspot"]),
        Host::new("RPS without the interrupt's CPU", shared(0.49, "0-1,3-7"), &["rps-mask-contains-irq-cpu"]),
        Host::new("disk requests drown a CPU", disks(0.93), &["one-core-hotspot"]).lacks(
            "one-core-hotspot",
            "a third of the packets is there",
            |_, rates| {
                rates.cpus[5].packets = 2e4;
                rates.cpus[5].net_rx = 2e4;
            },
        ),
        Host::new("disk requests and few packets", disks(0.93).receives(5, 0.93, 3e3), &["one-core-hotspot"])
            .lacks("one-core-hotspot", "NET_RX runs as often", |_, rates| rates.cpus[5].net_rx = 41e3),
        Host::new("disk requests drown a CPU, packets another", disks(0.93).receives(2, 0.85, 4e4), &[]),
        Host::new(
            "disk requests rob a pinned program",
            disks(0.8).works(5, 0.19).program("postgres", 0.19, "5"),
            &["receive-interference"],
        )
        .lacks(
            "receive-interference",
            "the interrupt of eth0 and its packets are there",
            |model, rates| {
                moves(model, rates, 0, 5);
                rates.cpus[5].packets = 4e4;
            },
        ),
        Host::new("a throttled server", limited(true), &[]),
        Host::new("a throttled batch job", limited(false), &["throttled-server"]),
        Host::new("RCU drowns a CPU with packets", storm("RCU"), &["one-core-hotspot"]).lacks(
            "one-core-hotspot",
            "many more packets are there",
            |_, rates| rates.cpus[5].packets = 9e4,
        ),
        Host::new("timers drown a CPU with packets", storm("TIMER"), &["one-core-hotspot"]),
        Host::new("disk requests take half of a CPU", disks(0.5), &["softirq-not-receive"]).lacks(
            "softirq-not-receive",
            "they take most of it",
            |_, rates| receives(rates, 5, 0.9),
        ),
        Host::new("RFS, global table only", two_queues().rfs(32768, "eth0", 0), &[]),
        Host::new("RFS complete", two_queues().rfs(32768, "eth0", 16384), &["rfs-half-configured"]),
        Host::new(
            "irqbalance, RPS around the interrupt",
            one_queue().rps("eth0", "0-1,3-7").irqbalance(),
            &["rps-mask-contains-irq-cpu"],
        ),
        Host::new(
            "irqbalance, a queue for each CPU",
            Sketch::new(8).device("eth0", &[0, 1, 2, 3, 4, 5, 6, 7]).traffic("eth0", 4e4).irqbalance(),
            &["irqbalance-fights-manual-affinity"],
        ),
        Host::new(
            "most packets on lo, those of eth0 drown a CPU",
            Sketch::case_a().loopback().traffic("lo", 3e5),
            &["single-queue-no-rps"],
        ),
        Host::new(
            "most packets on lo, hardly any on eth0",
            Sketch::case_a().traffic("eth0", 4e3).loopback().traffic("lo", 3e5),
            &["one-core-hotspot", "single-queue-no-rps"],
        )
        .lacks("one-core-hotspot", "eth0 brings ten times as many", |_, rates| {
            rates
                .nics
                .iter_mut()
                .filter(|nic| nic.name.as_str() == "eth0")
                .for_each(|nic| nic.rx_packets *= 10.0);
        }),
    ]
}
