//! Machines whose RPS masks contain the wrong CPUs.

use super::{Host, receives};
use rxlab_base::units::Fact;
use rxlab_path::sketch::{Sketch, cpus};

pub(super) fn hosts() -> Vec<Host> {
    let threads = |mask: &str, packets: f64| {
        let sketch = Sketch::new(8).smt().device("eth0", &[2]).traffic("eth0", packets);
        let sketch = sketch.all_receive("0-1,3-7", 0.2, packets / 7.0);
        sketch.receives(2, packets / 200e3, 0.0).net_rx(2, packets / 10.0).rps("eth0", mask)
    };
    // Field case C: the interrupt on CPU 16 of 32.
    let case_c = |mask: &str| {
        let sketch = Sketch::new(32).nodes(2).device("eth0", &[16]).traffic("eth0", 9e4).on_node("eth0", 1);
        let sketch = cpus(mask).iter().fold(sketch, |sketch, cpu| sketch.receives(cpu.0, 0.2, 4e3));
        sketch.receives(16, 0.3, 0.0).net_rx(16, 9e3).rps("eth0", mask).all_work("0-31", 0.3)
    };
    let two = |second: &str| {
        let sketch = Sketch::new(8).device("eth0", &[0]).device("eth1", &[1]).rps("eth0", "2-3");
        let sketch = sketch.traffic("eth0", 5e4).traffic("eth1", 3e4).all_receive("0-1", 0.3, 0.0);
        sketch.rps("eth1", second).all_receive("2-3", 0.7, 4e4)
    };
    let least = |irq: f64| {
        let sketch = Sketch::new(8).device("eth0", &[2]).traffic("eth0", 4e4).rps("eth0", "0-7");
        sketch.all_receive("0-1,3-7", 0.45, 5e3).receives(2, irq, 5e3)
    };
    let around = || Sketch::new(8).device("eth0", &[2]).traffic("eth0", 4e4).rps("eth0", "0-1,3-7");
    let isolated = || Fact::Known(cpus("6-7"));
    vec![
        Host::new(
            "RPS to the interrupt's core, 90,000 packets/s",
            threads("0-1,3-7", 9e4),
            &["rps-mask-contains-irq-cpu"],
        ),
        Host::new(
            "the same at 20,000 packets/s",
            threads("0-1,3-7", 2e4),
            &["rps-mask-contains-irq-sibling"],
        ),
        Host::new("RPS to other cores only", threads("0-1,3-5,7", 9e4), &["rps-mask-contains-irq-sibling"]),
        Host::new(
            "case C, RPS to all CPUs but the interrupt's",
            case_c("0-15,17-31"),
            &["rps-mask-contains-irq-cpu"],
        ),
        Host::new("case C, RPS to 7 CPUs of the node", case_c("17-23"), &["rps-mask-crosses-nodes"]),
        Host::new("RPS to all, the interrupt's CPU least busy", least(0.26), &["rps-mask-contains-irq-cpu"])
            .lacks("rps-mask-contains-irq-cpu", "it is the busiest", |_, rates| receives(rates, 2, 0.55)),
        Host::new("RPS to all, the interrupt's CPU busiest", least(0.6), &["one-core-hotspot"]),
        Host::new("RPS to CPUs that went offline", around().offline("6-7"), &[]),
        Host::new(
            "RPS to isolated CPUs",
            around().set(|settings| settings.cpuset_isolated = isolated()),
            &[],
        ),
        Host::new(
            "RPS, and other CPUs are offline",
            around().rps("eth0", "0-1").offline("6-7"),
            &["rps-mask-unusable-cpus"],
        ),
        Host::new("two interfaces with one mask", two("2-3"), &["queues-share-a-cpu"]),
        Host::new("two interfaces with masks of their own", two("4-5"), &["rps-masks-overlap"]),
    ]
}
