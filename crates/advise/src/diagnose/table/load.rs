//! Machines whose devices lose packets or interrupt too often, and machines whose programs get in the way.

use super::{Host, receives};
use rxlab_base::units::Fact;
use rxlab_path::model::SocketRates;
use rxlab_path::sketch::Sketch;

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
    let sleepy = |entries| {
        let sketch = Sketch::new(8).device("eth0", &[2]).traffic("eth0", 3e3).interrupts("eth0", 2.9e3);
        sketch.receives(2, 0.03, 3e3).idle_states(&[("C1", 2), ("C6", 133)]).enters(2, "C6", entries)
    };
    let queues = |softirq| {
        let sketch =
            Sketch::new(8).device("eth0", &[0, 1, 2, 3]).queue_traffic("eth0", &[9e3, 1.1e4, 2e5, 1e4]);
        sketch.receives(2, softirq, 2e5).table("eth0", &[0, 1, 2, 3].repeat(32))
    };
    let idle_beside = || {
        let sketch = Sketch::new(8).device("eth0", &[2]).traffic("eth0", 9e4).receives(2, 0.95, 9e4);
        sketch.device("eth1", &[0, 1, 2, 3]).queue_traffic("eth1", &[10.0, 10.0, 200.0, 10.0])
    };
    let priced = |packets| {
        let sketch = Sketch::new(8).device("eth0", &[2]).traffic("eth0", packets).rps("eth0", "3-6");
        sketch.receives(2, 0.6, packets).all_receive("3-6", 0.3, packets / 4.0)
    };
    let base = |time| {
        let sketch = Sketch::new(8).device("eth0", &[0, 1]).traffic("eth0", 4e4);
        sketch.all_receive("0-1", time + 0.1, 2e4).all_receive("2-7", time, 20.0)
    };
    let over = |rate| {
        let sketch = Sketch::new(8).device("eth0", &[2]).driver("eth0", "ena").traffic("eth0", 9e4);
        sketch.receives(2, 0.45, 9e4).limited("eth0", "pps_allowance_exceeded", rate)
    };
    let containers = |sent| {
        let sketch = Sketch::new(8).device("eth0", &[0, 1]).queue_traffic("eth0", &[6e4, 6e4]);
        let sketch = sketch.all_receive("0-1,4-5", 0.9, 6e4).veth("one0").traffic("one0", sent);
        sketch.edit("one0", |nic| nic.stack.kind = Some("veth".to_owned()))
    };
    let link = |bytes| {
        let sketch = Sketch::new(32).device("eth0", &[0, 1, 2, 3]).traffic("eth0", 3e5);
        sketch.speed("eth0", 1000).bytes("eth0", bytes, 0.0)
    };
    vec![
        Host::new(
            "a ring that its CPU has no time to empty",
            ring(0.95, 4e3).squeezed(2, 3e3),
            &["time-squeeze"],
        )
        .lacks("time-squeeze", "a process has half of its time", |_, rates| {
            rates.cpus[2].user = 0.5;
            receives(rates, 2, 0.49);
        }),
        Host::new("a firewall of thousands of rules", priced(8e3), &["one-core-hotspot"]),
        Host::new("many packets that cost little each", priced(8e4), &["costly-packets"]).lacks(
            "costly-packets",
            "fewer take as long",
            |_, rates| {
                rates.nics[0].rx_packets = 8e3;
                rates.cpus.iter_mut().for_each(|cpu| cpu.packets /= 10.0);
            },
        ),
        Host::new("timers on every CPU", base(0.2), &["one-core-hotspot"]),
        Host::new("few timers on every CPU", base(0.05), &["not-packets"]).lacks(
            "not-packets",
            "they take more",
            |_, rates| (2..8).for_each(|cpu| receives(rates, cpu, 0.2)),
        ),
        Host::new("two CPUs full of what containers send", containers(1.2e5), &["one-core-hotspot"]),
        Host::new("two CPUs full of unexplained packets", containers(3e4), &["packets-of-no-device"]).lacks(
            "packets-of-no-device",
            "containers send more",
            |_, rates| {
                let sent = rates.nics.iter_mut().filter(|nic| nic.name.as_str() == "one0");
                sent.for_each(|nic| nic.rx_packets = 1.2e5);
            },
        ),
        Host::new("an instance over its packet allowance", over(1_000.0), &["one-core-hotspot"]),
        Host::new("an instance below its packet allowance", over(0.0), &["limited-by-the-host"]).lacks(
            "limited-by-the-host",
            "packets exceed it",
            |_, rates| {
                rates.nics[0].limited.values_mut().for_each(|rate| *rate = 2.0);
            },
        ),
        Host::new("a short ring and bursts", ring(0.2, 40.0), &["one-core-hotspot"]),
        Host::new("two packets lost in five seconds", ring(0.2, 0.4), &["ring-overruns"]),
        Host::new("softirq stops often, nothing is lost", squeezed(0.2, 600.0), &["ring-overruns"]),
        Host::new("softirq stops now and then", squeezed(0.2, 60.0), &["time-squeeze"]).lacks(
            "time-squeeze",
            "it stops ten times as often",
            |_, rates| rates.cpus[2].time_squeeze *= 10.0,
        ),
        Host::new("case C before moderation", rings(0.99), &[]),
        Host::new("case C's rate and time to spare", rings(0.09), &["interrupt-rate"]).lacks(
            "interrupt-rate",
            "its CPU is full",
            |_, rates| receives(rates, 16, 0.98),
        ),
        Host::new("250 us for the next packet", held(250, false), &["interrupt-rate"]),
        Host::new("250 us, adaptive", held(250, true), &["moderation-hurts-latency"]).lacks(
            "moderation-hurts-latency",
            "they are fixed",
            |model, _| {
                let Fact::Known(coalesce) = &mut model.nics[0].hardware.coalesce else {
                    unreachable!("told")
                };
                coalesce.adaptive_rx = Some(false);
            },
        ),
        Host::new("C6 between two packets", sleepy(2.8e3), &["moderation-hurts-latency"]),
        Host::new("C6 is hardly entered", sleepy(40.0), &["deep-idle-states"]).lacks(
            "deep-idle-states",
            "it is entered for each packet",
            |_, rates| {
                rates.cpus[2].deep_idle.insert("C6".to_owned(), 2.8e3);
            },
        ),
        Host::new("one large flow on four queues", queues(0.7), &["single-queue-no-rps"]),
        Host::new("one large flow and time to spare", queues(0.2), &["hash-imbalance"]).lacks(
            "hash-imbalance",
            "its CPU has none",
            |_, rates| receives(rates, 2, 0.7),
        ),
        Host::new("an idle NIC with a queue on a drowned CPU", idle_beside(), &["hash-imbalance"]).lacks(
            "hash-imbalance",
            "it brings the packets",
            |_, rates| {
                rates.nics[0].rx_packets = 10.0;
                rates.nics[1].queues.insert(2, 9e4);
            },
        ),
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
    let compute = || {
        let sketch = Sketch::new(8).device("eth0", &[2]).traffic("eth0", 3e4).receives(2, 0.03, 3e4);
        sketch.each("0-7", |sketch, cpu| sketch.works(cpu, 0.95)).program("solver", 7.6, "0-7").threads(8, 8)
    };
    let compiler = || {
        let sketch = Sketch::new(8).device("eth0", &[2]).each("0-7", |sketch, cpu| sketch.works(cpu, 0.97));
        sketch.program("cc1plus", 5.8, "0-5").threads(14, 9)
    };
    let case_e = |softirq, user| {
        let sketch = Sketch::new(16).device("eth0", &[5]).traffic("eth0", 4e5).rps("eth0", "6-15");
        sketch.receives(5, softirq, 4e5).works(5, user).program("openssl", 0.73, "5")
    };
    let one_thread = |queued: [u64; 2], ran, softirq| {
        let sketch = Sketch::new(8).device("eth0", &[0]).traffic("eth0", 4e4).receives(0, 0.05, 4e4);
        let sketch = sketch.receives(2, softirq, 2e3).works(2, 0.985 - softirq);
        let sketch = sketch.program("dns", 0.99, "0-7").thread(2, ran, 0.001);
        sketch.udp(53, queued[0], queued[1])
    };
    let four =
        || (0..3).fold(one_thread([9, 9], 0.25, 0.005), |sketch, cpu| sketch.thread(cpu + 3, 0.25, 0.0));
    let polls = || one_thread([0, 0], 0.99, 0.005);
    let workers = |cpus: &str| {
        let sketch = Sketch::new(8).device("eth0", &[0, 1, 2, 3, 4, 5, 6, 7]).traffic("eth0", 9.7e4);
        sketch.each(cpus, |sketch, cpu| {
            let sketch = sketch.receives(cpu, 0.02, 1.2e4).works(cpu, 0.97);
            sketch.program("nginx", 0.98, "0-7").thread(cpu, 0.98, 0.01).tcp(80, 9, 9, None)
        })
    };
    let victim = || {
        let pinned = Fact::Known("2".parse().expect("a list"));
        let sketch = one_thread([9, 9], 0.99, 0.22).last(|process| process.allowed = pinned);
        sketch.device("eth1", &[2]).traffic("eth1", 2e3)
    };
    let none = SocketRates { held: Vec::new(), others: false };
    let compiles = polls().last(|process| process.sockets = Fact::Known(none));
    vec![
        Host::new("one thread is the limit", one_thread([9, 9], 0.99, 0.005), &["limited-elsewhere"]),
        Host::new("one thread that polls empty queues", polls(), &["single-thread-limit"]),
        Host::new("one thread without a socket", compiles, &["single-thread-limit"]),
        Host::new("four threads that take turns", four(), &["single-thread-limit"]),
        Host::new("two workers on eight CPUs", workers("2-3"), &["limited-elsewhere"]),
        Host::new("a worker for each CPU, all full", workers("0-7"), &["single-thread-limit"]),
        Host::new("one thread, interrupted by packets", victim(), &["single-thread-limit"]),
        Host::new("redis on the CPUs of the interrupts", shared(0.45), &["receive-interference"]),
        Host::new("the same with few packets there", shared(0.1), &["app-on-irq-cpu"]),
        Host::new("case B, six cores instead of eight", case_b("0-5", 0.95), &["limited-elsewhere"]),
        Host::new("case B, six cores with room", case_b("0-5", 0.6), &["restricted-process"]),
        Host::new("case B, limited by its programs", case_b("0-7", 0.95), &["restricted-process"]),
        Host::new("programs on every CPU, 30,000 packets/s on one", compute(), &["one-core-hotspot"]),
        Host::new(
            "a compiler, and hardly a packet",
            compiler(),
            &["limited-elsewhere", "restricted-process"],
        ),
        Host::new("case E, a victim of two streams", case_e(0.8, 0.195), &["app-on-irq-cpu"]),
        Host::new("case E, and the victim rests", case_e(0.8, 0.05), &["receive-interference"]),
    ]
}
