//! Healthy machines under load: every rule must be silent.

use super::Host;
use crate::diagnose::diagnose;
use crate::diagnose::sketch::{Diagnosed, Sketch};
use rxlab_path::model::Function;

pub(super) fn hosts() -> Vec<Host> {
    let each = || {
        let sketch =
            Sketch::new(8).smt().device("eth0", &[0, 1, 2, 3, 4, 5, 6, 7]).queue_traffic("eth0", &[4e4; 8]);
        let sketch = sketch.xps("eth0", &["0", "1", "2", "3", "4", "5", "6", "7"]).volume("eth0", 4e8, 3e5);
        let sketch = sketch.all_receive("0-7", 0.6, 4e4).all_work("0-7", 0.3).queues_at_most("eth0", 8);
        sketch.offload("eth0", "rx-gro", true).clock("tsc", &["hpet", "acpi_pm"]).irqbalance()
    };
    // Field case B: eight queues on two CPUs that are 0 to 3 % busy with 97,000 packets/s, the server on six.
    let case_b = || {
        let sketch = Sketch::new(8).device("eth0", &[6, 7, 6, 7, 6, 7, 6, 7]).traffic("eth0", 97e3);
        sketch.all_receive("6-7", 0.03, 4.8e4).all_work("0-5", 0.98).queues_at_most("eth0", 8)
    };
    // Field case D: 16 queues on 128 CPUs in 4 nodes, a quarter busy.
    let case_d = || {
        let irqs: Vec<u32> = (0..16).map(|queue| queue * 8).collect();
        let masks: Vec<String> = irqs.iter().map(|cpu| format!("{cpu}-{}", cpu + 7)).collect();
        let masks: Vec<&str> = masks.iter().map(String::as_str).collect();
        let sketch =
            Sketch::new(128).nodes(4).device("eth0", &irqs).traffic("eth0", 1.6e6).xps("eth0", &masks);
        let sketch = irqs.iter().fold(sketch, |sketch, cpu| sketch.receives(*cpu, 0.26, 1e5));
        sketch.volume("eth0", 2e9, 1.6e6).all_work("0-127", 0.26).rfs(32768, "eth0", 2048)
    };
    // The end of field case C: four queues, one of each NIC on each node, each with a mask of 7 CPUs.
    let case_c = || {
        let sketch = Sketch::new(32).nodes(2).device("eth0", &[0, 16]).device("eth1", &[8, 24]);
        let sketch = sketch.on_node("eth0", 0).on_node("eth1", 0).traffic("eth0", 4e5).traffic("eth1", 4e5);
        let masks = [("eth0", 0, "1-7"), ("eth0", 1, "17-23"), ("eth1", 0, "9-15"), ("eth1", 1, "25-31")];
        let sketch = masks.iter().fold(sketch, |sketch, (nic, queue, mask)| sketch.rps_of(nic, *queue, mask));
        let sketch = sketch.all_receive("0-31", 0.45, 2.8e4).all_work("0-31", 0.5);
        let function = || Function::Virtual { physical: None };
        let sketch = sketch.driven_by("eth0", "ixgbevf", function()).driven_by("eth1", "ixgbevf", function());
        ["0", "16", "8", "24"].iter().fold(sketch, |sketch, cpu| sketch.all_receive(cpu, 0.7, 0.0))
    };
    let disks = || Sketch::new(8).device("eth0", &[2, 2]).traffic("eth0", 2.5e3).receives(2, 0.9, 100.0);
    vec![
        Host::new(
            "healthy: a queue for each of 8 CPUs, full load",
            each(),
            &["too-few-queues", "slow-clocksource"],
        ),
        Host::new("healthy: case B, tuned", case_b(), &["one-core-hotspot"]),
        Host::new("healthy: case D", case_d(), &["xps-mismatch", "rfs-half-configured"]),
        Host::new(
            "healthy: case C as it ended",
            case_c(),
            &["irq-on-wrong-node", "rps-masks-overlap", "rps-mask-crosses-nodes", "too-few-queues"],
        ),
        Host::new("healthy: disks keep the interrupts' CPU busy", disks(), &["queues-share-a-cpu"]),
    ]
}

#[test]
fn nothing_is_found() {
    for host in hosts() {
        assert_eq!(diagnose(&host.model, &host.rates), [], "{}", host.name);
    }
}

/// A CPU full of disk softirqs was once called a 90 % hotspot with "nothing to do": its packets cannot cost
/// that.
#[test]
fn what_disks_take_is_no_hotspot() {
    let disks = Sketch::new(8).device("eth0", &[2, 2]).traffic("eth0", 2.5e3).receives(2, 0.9, 100.0);
    let regime = disks.regime();
    assert!(regime.cpus[0].receive < 0.27, "{regime:?}");
    assert!(regime.summary.starts_with("receive work on CPU 2 (26 % of its time)"), "{}", regime.summary);
}
