//! Machines whose devices lose or ring too much, and machines whose programs get in the way.

use super::Host;
use crate::diagnose::sketch::Sketch;

pub(super) fn hosts() -> Vec<Host> {
    devices().into_iter().chain(programs()).collect()
}

fn devices() -> Vec<Host> {
    let ring = |softirq, missed| {
        let sketch = Sketch::new(8).device("eth0", &[2]).traffic("eth0", 2e5).receives(2, softirq, 2e5);
        sketch.missed("eth0", missed).rings("eth0", 256, 4096).rps("eth0", "3-6")
    };
    let squeezed = |softirq, rate| {
        let sketch = Sketch::new(8).device("eth0", &[2]).traffic("eth0", 1e5).rps("eth0", "3-6");
        sketch.receives(2, softirq, 1e5).net_rx(2, 4_000.0).squeezed(2, rate)
    };
    let rings = |softirq| {
        let sketch = Sketch::new(32).nodes(2).device("eth0", &[16]).driver("eth0", "ixgbevf");
        let sketch = sketch.traffic("eth0", 1.2e5).interrupts("eth0", 8e4).receives(16, softirq, 1.2e5);
        sketch.moderation("eth0", 0, false)
    };
    let held = |usecs, adaptive| {
        let sketch = Sketch::new(8).device("eth0", &[0, 1, 2, 3]).driver("eth0", "mlx5_core");
        sketch.traffic("eth0", 4e3).interrupts("eth0", 900.0).moderation("eth0", usecs, adaptive)
    };
    let queues = |softirq| {
        let sketch =
            Sketch::new(8).device("eth0", &[0, 1, 2, 3]).queue_traffic("eth0", &[9e3, 1.1e4, 2e5, 1e4]);
        sketch.receives(2, softirq, 2e5).table("eth0", &[0, 1, 2, 3].repeat(32))
    };
    let link = |bytes| {
        let sketch = Sketch::new(32).device("eth0", &[0, 1, 2, 3]).traffic("eth0", 3e5);
        sketch.speed("eth0", 1000).bytes("eth0", bytes, 0.0)
    };
    vec![
        Host::new("a ring that its CPU has no time to empty", ring(0.95, 4e3), &["time-squeeze"]),
        Host::new("a short ring and bursts", ring(0.2, 40.0), &["one-core-hotspot"]),
        Host::new("two packets lost in five seconds", ring(0.2, 0.4), &["ring-overruns"]),
        Host::new("softirq stops often, nothing is lost", squeezed(0.2, 600.0), &["ring-overruns"]),
        Host::new("softirq stops now and then", squeezed(0.2, 60.0), &["time-squeeze"]),
        Host::new("case C before moderation", rings(0.99), &["moderation-hurts-latency"]),
        Host::new("case C's rate and time to spare", rings(0.09), &["interrupt-rate"]),
        Host::new("250 us for the next packet", held(250, false), &["interrupt-rate"]),
        Host::new("250 us, adaptive", held(250, true), &["moderation-hurts-latency"]),
        Host::new("one large flow on four queues", queues(0.7), &["single-queue-no-rps"]),
        Host::new("one large flow and time to spare", queues(0.2), &["hash-imbalance"]),
        Host::new("case C's full link", link(1.1e8), &["one-core-hotspot"]),
        Host::new("a link with room", link(1.0e8), &["limited-elsewhere"]),
    ]
}

fn programs() -> Vec<Host> {
    let shared = |softirq| {
        let sketch = Sketch::new(8).device("eth0", &[2, 3]).traffic("eth0", 1e5).rps("eth0", "4-7");
        let sketch = sketch.receives(2, softirq, 5e4).receives(3, 0.2, 5e4).works(2, 0.98 - softirq);
        sketch.program("redis-server", 0.6, "2-3")
    };
    let case_b = |cpus: &str, user| {
        let sketch = Sketch::new(8).device("eth0", &[0, 1, 2, 3, 4, 5, 6, 7]).traffic("eth0", 9.7e4);
        let sketch = sketch.each("0-7", |sketch, cpu| sketch.receives(cpu, 0.02, 1.2e4));
        let sketch = sketch.each(cpus, |sketch, cpu| sketch.works(cpu, user));
        sketch.program("server", 5.8, cpus).threads(14, 9)
    };
    let compiler = || {
        let sketch = Sketch::new(8).device("eth0", &[2]).each("0-7", |sketch, cpu| sketch.works(cpu, 0.97));
        sketch.program("cc1plus", 5.8, "0-5").threads(14, 9)
    };
    let case_e = |softirq, user| {
        let sketch = Sketch::new(16).device("eth0", &[5]).traffic("eth0", 4e5).rps("eth0", "6-15");
        sketch.receives(5, softirq, 4e5).works(5, user).program("openssl", 0.73, "5")
    };
    vec![
        Host::new("redis on the CPUs of the interrupts", shared(0.45), &["stolen-cpu"]),
        Host::new("the same with few packets there", shared(0.1), &["app-on-irq-cpu"]),
        Host::new("case B, six cores instead of eight", case_b("0-5", 0.95), &["limited-elsewhere"]),
        Host::new("case B, six cores with room", case_b("0-5", 0.6), &["restricted-process"]),
        Host::new("case B, limited by its programs", case_b("0-7", 0.95), &["restricted-process"]),
        Host::new(
            "a compiler, and hardly a packet",
            compiler(),
            &["limited-elsewhere", "restricted-process"],
        ),
        Host::new("case E, a victim of two streams", case_e(0.8, 0.195), &["app-on-irq-cpu"]),
        Host::new("case E, and the victim rests", case_e(0.8, 0.05), &["stolen-cpu"]),
    ]
}
