//! Sample machines for the tests of the renderers: one with something of everything, and a large one.

mod rich;

use rxlab_base::units::{CpuId, CpuMask, Fact, IrqId, NicName};
use rxlab_change::knob::testbed::kernel_settings;
use rxlab_path::model::{
    DeviceAddress, Identity, Irq, Model, Napi, Nic, NicKind, RxQueue, Settings, Source, Stack, TxQueue,
};
use rxlab_path::sketch::Sketch;

pub(crate) use rich::rich;
pub(crate) use rxlab_path::sketch::cpus;

pub(crate) fn name(text: &str) -> NicName {
    text.parse().expect("a name")
}

/// A machine of `count` CPUs in `nodes` nodes of equal size, with hyper-threads side by side.
pub(crate) fn machine(count: u32, nodes: u32) -> Model {
    let (mut model, _) = Sketch::new(count).nodes(nodes).clock("tsc", &["hpet"]).build();
    for cpu in &mut model.cpus {
        let (id, node) = (cpu.id.0, cpu.node.expect("every CPU of a sketch has a node"));
        cpu.core = Some(id % (count / nodes) / 2);
        cpu.package = Some(node);
        cpu.siblings = (id / 2 * 2..=id / 2 * 2 + 1).map(CpuId).collect();
    }
    model.identity = Identity {
        hostname: "web1".into(),
        kernel: "6.12.9-amd64".into(),
        boot_id: "00000000-0000-4000-8000-000000000001".into(),
    };
    model.rps_sock_flow_entries = Fact::Known(32768);
    model.settings = Settings {
        exact_softirq_time: Fact::Known(false),
        nohz_full: Fact::Known(CpuMask::new()),
        cpuset: Fact::Known((0..count).map(CpuId).collect()),
        cpuset_isolated: Fact::Known(CpuMask::new()),
        tuned_profile: Fact::Unsupported,
        ..kernel_settings(count, model.settings)
    };
    model.listeners = Fact::Known(Vec::new());
    model.namespaces = Fact::Known(Vec::new());
    model.all_namespaces_seen = Fact::Known(());
    model
}

/// A virtual interface with one queue each way and no settings.
pub(crate) fn virtual_nic(text: &str, kind: &str) -> Nic {
    Nic {
        rx: vec![rx(0)],
        tx: vec![TxQueue { index: 0, xps_cpus: Fact::Unsupported, xps_by_rxq: Fact::Unsupported }],
        stack: Stack { kind: Some(kind.into()), ..Stack::default() },
        ..Nic::new(name(text), DeviceAddress(format!("virtual:{text}")), NicKind::Virtual)
    }
}

/// A device with `queues` queues: interrupts from `irq` on, each on its own CPU from `cpu` on.
pub(crate) fn device(text: &str, driver: &str, queues: u32, irq: u32, cpu: u32) -> Nic {
    let queue = |index| RxQueue {
        irqs: vec![Irq {
            number: IrqId(irq + index),
            action: format!("{text}-TxRx-{index}"),
            affinity: Fact::Known(CpuMask::from_iter([CpuId(cpu + index)])),
            effective: Fact::Known(CpuMask::from_iter([CpuId(cpu + index)])),
            source: Source::Netlink,
            ..Irq::default()
        }],
        napi: Some(Napi { id: 8193 + index, irq: Some(IrqId(irq + index)), thread: None }),
        ..rx(index)
    };
    Nic {
        driver: Some(driver.into()),
        rx: (0..queues).map(queue).collect(),
        tx: (0..queues)
            .map(|index| TxQueue {
                index,
                xps_cpus: Fact::Known([CpuId(cpu + index)].into_iter().collect()),
                xps_by_rxq: Fact::Unsupported,
            })
            .collect(),
        ..Nic::new(name(text), DeviceAddress(format!("pci:0000:{irq:02x}:00.0")), NicKind::Device)
    }
}

fn lo() -> Nic {
    Nic { kind: NicKind::Loopback, ..virtual_nic("lo", "loopback") }
}

fn rx(index: u32) -> RxQueue {
    RxQueue {
        index,
        rps_cpus: Fact::Known(CpuMask::new()),
        rps_flow_cnt: Fact::Known(0),
        ..RxQueue::default()
    }
}

/// 128 CPUs in two nodes, a device of 64 queues and one of 16, and 300 veths of which one carries RPS.
pub(crate) fn large() -> Model {
    let mut model = machine(128, 2);
    let mut wide = device("ens1f0np0", "ice", 64, 200, 0);
    wide.node = Some(0);
    for queue in &mut wide.rx[40..] {
        queue.rps_cpus = Fact::Known(cpus("64-127"));
    }
    let mut narrow = device("enp95s0f0np0", "mlx5_core", 16, 143, 112);
    let odd: CpuMask = (0..64).map(|cpu| CpuId(2 * cpu + 1)).collect();
    narrow.rx[3].rps_cpus = Fact::Known(odd);
    let mut veths: Vec<Nic> =
        (0..300).map(|index| virtual_nic(&format!("veth{index:04x}"), "veth")).collect();
    veths[17].rx[0].rps_cpus = Fact::Known(cpus("0-63"));
    veths[18].up = false;
    model.nics = vec![narrow, wide, lo()];
    model.nics.append(&mut veths);
    model
}
