//! Machines whose devices, drivers and clocks could do more, and untuned containers.

use super::Host;
use rxlab_base::units::Fact;
use rxlab_path::model::{Function, Napi, RxQueue, Xdp, XdpMode};
use rxlab_path::sketch::{Sketch, cpus};

pub(super) fn hosts() -> Vec<Host> {
    let large = |on: bool, size: f64| {
        let sketch =
            Sketch::new(4).device("eth0", &[0, 1]).traffic("eth0", 1.6e5).offload("eth0", "rx-gro", on);
        sketch.volume("eth0", 1.6e5 * size, 100.0).all_receive("0-1", 0.4, 8e4)
    };
    let threads = |threaded| {
        let sketch = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 5e4).rps("eth0", "1-3");
        let napi = Napi { id: 8193, irq: None, thread: Some(812) };
        let sketch = sketch.edit("eth0", |nic| {
            nic.napi.threaded = Fact::Known(threaded);
            nic.rx[0].napi = Some(napi);
        });
        sketch.all_receive("1-3", 0.1, 1.6e4).ipis(1, 8e3)
    };
    let polled = |time: f64| {
        let sketch = Sketch::new(8).device("eth0", &[0]).traffic("eth0", 4e5);
        sketch.receives(3, 0.0, 4e5).net_rx(3, 0.0).polls(3, time)
    };
    let containers = |second: f64, rps: &str| {
        let sketch = Sketch::new(8).container("veth1", 2e4, rps).container("veth2", second, "");
        sketch.all_receive("0-7", 0.1, 4e3)
    };
    let sends = |xps: &[&str]| {
        let sketch = Sketch::new(8).nodes(2).device("eth0", &[0, 2, 4, 6]).traffic("eth0", 8e4);
        sketch.volume("eth0", 8e6, 5e4).xps("eth0", xps).all_work("0-7", 0.4)
    };
    let steers = |on, readers: &str| {
        let sketch = Sketch::new(8).nodes(2).device("eth0", &[0, 1]).rfs(32768, "eth0", 16384);
        let sketch = sketch.driven_by("eth0", "ice", Function::Plain).offload("eth0", "rx-ntuple-filter", on);
        sketch.traffic("eth0", 2e5).all_receive("0-1", 0.4, 1e5).all_work(readers, 0.4)
    };
    let both = |traffic| {
        let sketch = Sketch::new(8).device("eth0", &[0, 2]).device("eth1", &[1]).traffic("eth1", traffic);
        let sketch = sketch.driven_by("eth0", "xen_netfront", Function::Paravirtual);
        let function = Function::Virtual { physical: None };
        sketch
            .driven_by("eth1", "ixgbevf", function)
            .traffic("eth0", 5e4)
            .receives(0, 0.3, 5e4)
            .receives(2, 0.3, 5e4)
    };
    let clock = |current, others: &[&str]| {
        let sketch = Sketch::new(4).device("eth0", &[0, 1]).traffic("eth0", 5e4).clock(current, others);
        sketch.all_receive("0-1", 0.2, 2.5e4)
    };
    let apart = |list: &str| {
        Sketch::new(8).device("eth0", &[1, 5]).traffic("eth0", 200.0).interrupts("eth0", 150.0).isolate(list)
    };
    let queues = |masks: &[&str]| {
        let sketch = Sketch::new(8).container("veth1", 2e4, "0-1").edit("veth1", |nic| {
            let queue = |(index, list): (u32, &&str)| RxQueue {
                index,
                rps_cpus: Fact::Known(cpus(list)),
                ..RxQueue::default()
            };
            nic.rx = (0..).zip(masks).map(queue).collect();
        });
        sketch.set(|settings| settings.rps_default_mask = Fact::Known(cpus("0-1")))
    };
    let tunnel = |kind: &str| {
        let sketch =
            Sketch::new(8).device("eth0", &[0, 1, 2, 3]).queue_traffic("eth0", &[1e3, 1e3, 9e4, 1e3]);
        let sketch = sketch.receives(2, 0.8, 9e4).veth("tun0").traffic("tun0", 8e4);
        sketch.edit("tun0", |nic| nic.stack.kind = Some(kind.to_owned()))
    };
    let taken = |processed| {
        let xdp = Xdp { mode: XdpMode::Driver, program: Some(17) };
        let sketch = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 5e5).volume("eth0", 3.2e7, 0.0);
        sketch.receives(0, 0.1, processed).edit("eth0", |nic| nic.xdp = Some(xdp))
    };
    vec![
        Host::new("GRO off, packets of 1,448 bytes", large(false, 1448.0), &["too-few-queues"]),
        Host::new("GRO off, packets of 120 bytes", large(false, 120.0), &["gro-off"]),
        Host::new("threaded NAPI and RPS", threads(true), &[]),
        Host::new("the same without threads", threads(false), &["threaded-napi-with-rps"]),
        Host::new("threads poll, and one CPU is full of it", polled(0.98), &["app-on-irq-cpu"]),
        Host::new("threads poll, with room", polled(0.15), &["one-core-hotspot"]),
        Host::new("a new container next to a tuned one", containers(1.5e4, "1-7"), &[]),
        Host::new("containers, none tuned", containers(1.5e4, ""), &["untouched-containers"]),
        Host::new("a mask on the first queue only", queues(&["0-1", ""]), &[]),
        Host::new("a mask on both queues", queues(&["0-1", "0-1"]), &["queues-without-default-mask"]).lacks(
            "queues-without-default-mask",
            "a queue without a mask",
            |model, _| {
                model.nics[0].rx[1].rps_cpus = Fact::Known(cpus(""));
            },
        ),
        Host::new("XPS, completions on the other node", sends(&["4-5", "2-3", "0-1", "6-7"]), &[]),
        Host::new(
            "XPS, completions on the next CPU",
            sends(&["2-3", "0-1", "6-7", "4-5"]),
            &["xps-mismatch"],
        ),
        Host::new("RFS, and the device could do it", steers(false, "0-3"), &["arfs-pointless"]),
        Host::new("RFS by the device", steers(true, "0-3"), &["arfs-possible", "arfs-pointless"]),
        Host::new("RFS by the device, readers on the other node", steers(true, "4-7"), &["arfs-possible"]),
        Host::new("case C as it began: a paravirtual NIC, a VF idle", both(0.0), &[]),
        Host::new("accelerated networking: both carry it", both(5e4), &["paravirtual-nic"]),
        Host::new("an interrupt on an isolated CPU", apart("5"), &[]),
        Host::new("no interrupt on the isolated CPU", apart("4"), &["irq-on-isolated-cpu"]),
        Host::new("WireGuard on one of four queues", tunnel("wireguard"), &["hash-imbalance"]),
        Host::new("a veth next to a busy queue", tunnel("veth"), &["tunnel-one-flow"]).lacks(
            "tunnel-one-flow",
            "it is a tunnel",
            |model, _| model.nics[1].stack.kind = Some("gre".to_owned()),
        ),
        Host::new("XDP takes most packets", taken(2e4), &[]),
        Host::new("XDP lets most packets pass", taken(4e5), &["xdp-before-stack"]),
        Host::new("clock hpet, tsc offered", clock("hpet", &["tsc"]), &[]),
        Host::new("clock hpet, tsc found unstable", clock("hpet", &["acpi_pm"]), &["slow-clocksource"]),
        Host::new("clock kvm-clock, tsc offered", clock("kvm-clock", &["tsc"]), &["slow-clocksource"]),
    ]
}
