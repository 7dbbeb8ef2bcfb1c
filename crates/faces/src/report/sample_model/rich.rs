//! A machine with something of everything.

use super::{cpus, device, lo, machine, name, virtual_nic};
use rxlab_base::parse::ethtool::{
    Channels, Coalesce, Count, DriverInfo, Feature, FlowAction, FlowRule, FlowSpec, Rings, Rss,
};
use rxlab_base::units::{CpuMask, Fact, IrqId, Need, QueueId};
use rxlab_path::model::{
    Container, Contradiction, DeviceAddress, Function, Hardware, Irq, Irqbalance, Listener, Model, Napi,
    NetNamespace, Nic, Peer, Process, Source, Stack, Transport, TxQueue,
};

/// Something of everything: a virtual function and a paravirtual device in two nodes, a bond with a
/// VLAN, a bridge with veths into containers, listeners, contradictions, and every kind of absence.
pub(crate) fn rich() -> Model {
    let mut model = machine(16, 2);
    model.cpus[15].online = false;
    for cpu in 12..15 {
        model.cpus[cpu].isolated = true;
    }
    model.settings.nohz_full = Fact::Known(cpus("12-14"));
    model.settings.netdev_budget = Fact::Known(600);
    model.settings.busy_poll = Fact::Known(50);
    model.settings.tuned_profile = Fact::Known("network-latency".into());
    model.irqbalance = Fact::Known(Some(Irqbalance {
        pid: 512,
        banned_irqs: Fact::Known([40, 41, 42, 43, 77].map(IrqId).into()),
        banned_cpus: Fact::Known(cpus("12-15")),
        ..Irqbalance::default()
    }));
    model.nics = vec![bond(), vlan(), bridge(), ens3(), eth0(), lo(), veth(0), veth(1)];
    model.listeners = Fact::Known(listeners());
    model.namespaces = Fact::Known(vec![NetNamespace {
        inode: 4_026_532_281,
        pid: 4242,
        command: "redis-server".into(),
        container: Some(container()),
    }]);
    model
}

fn eth0() -> Nic {
    let mut nic = device("eth0", "mlx5_core", 4, 40, 8);
    nic.node = Some(1);
    nic.hardware = vf_hardware();
    nic.rx[0].rps_cpus = Fact::Known(cpus("9-11"));
    nic.rx[0].rps_flow_cnt = Fact::Known(4096);
    nic.rx[1].rps_cpus = Fact::Broken("`zz` is not a group of 1 to 8 hexadecimal digits".into());
    nic.rx[1].irqs[0].source = Source::MsiName;
    nic.rx[2].irqs[0].effective = Fact::Denied(Need::Root);
    nic.rx[3].irqs[0].affinity = Fact::Known(cpus("8-11"));
    nic.rx[3].irqs[0].effective = Fact::Known(cpus("0"));
    nic.rx[3].napi = Some(Napi { id: 8196, irq: None, thread: Some(933) });
    nic.tx[1].xps_cpus = Fact::Denied(Need::NetAdmin);
    nic.tx.push(TxQueue { index: 4, xps_cpus: Fact::Known(CpuMask::new()), xps_by_rxq: Fact::Unsupported });
    nic.other_irqs = vec![Irq {
        number: IrqId(39),
        action: "mlx5_async0@pci:0000:28:00.0".into(),
        effective: Fact::Known(cpus("0")),
        ..Irq::default()
    }];
    nic.napi.threaded = Fact::Known(false);
    nic.napi.defer_hard_irqs = Fact::Known(2);
    nic.napi.gro_flush_timeout_ns = Fact::Known(200_000);
    nic.stack = Stack { upper: vec![name("bond0")], ..Stack::default() };
    nic.contradictions = vec![Contradiction {
        queue: QueueId::rx(1),
        what: "IRQ".into(),
        believed: "netlink: 41".into(),
        other: "name eth0-TxRx-1: 44".into(),
    }];
    nic
}

fn vf_hardware() -> Hardware {
    let count = |now, max| Some(Count { now, max });
    let spec = |fields: &[&str]| FlowSpec {
        kind: "tcp4".into(),
        fields: fields.iter().map(|field| (*field).to_owned()).collect(),
    };
    Hardware {
        function: Function::Virtual { physical: Some("0000:28:00.1".into()) },
        driver: Fact::Known(DriverInfo {
            driver: "mlx5_core".into(),
            version: "6.12.9-amd64".into(),
            firmware: "22.31.1014 (MT_0000000436)".into(),
            bus: "0000:28:00.0".into(),
        }),
        channels: Fact::Known(Channels { combined: count(4, 11), ..Channels::default() }),
        rings: Fact::Known(Rings { rx: count(1024, 8192), tx: count(1024, 8192), ..Rings::default() }),
        coalesce: Fact::Known(Coalesce {
            rx_usecs: Some(8),
            rx_frames: Some(128),
            tx_usecs: Some(8),
            tx_frames: None,
            adaptive_rx: Some(true),
            adaptive_tx: Some(false),
        }),
        rss: Fact::Known(Rss {
            context: 0,
            table: (0..128).map(|position| position % 4).collect(),
            key: Some("6d5a".repeat(20)),
            function: Some("toeplitz".into()),
            transform: None,
        }),
        hash_fields: Fact::Unsupported,
        rss_contexts: Fact::Known(vec![Rss {
            context: 1,
            table: [2, 2, 2, 3].repeat(32),
            key: None,
            function: None,
            transform: None,
        }]),
        rules: Fact::Known(vec![
            FlowRule { location: 0, spec: spec(&["dst-port 443"]), action: FlowAction::Queue(3) },
            FlowRule {
                location: 7,
                spec: spec(&["src-ip 10.0.0.0/255.0.0.0", "dst-port 6379"]),
                action: FlowAction::Context { context: 1, queue: 0 },
            },
        ]),
        features: Fact::Known(
            [
                ("rx-checksum", true, true),
                ("rx-gro", true, true),
                ("rx-gro-hw", false, false),
                ("rx-hashing", true, true),
                ("rx-lro", false, true),
                ("rx-ntuple-filter", true, true),
                ("tx-scatter-gather", true, true),
                ("tx-tcp-segmentation", false, true),
            ]
            .map(|(name, on, changeable)| Feature { name: name.into(), on, changeable })
            .into(),
        ),
        speed_mbits: Fact::Known(25_000),
    }
}

fn ens3() -> Nic {
    let mut nic = device("ens3", "virtio_net", 1, 24, 2);
    nic.address = DeviceAddress("pci:0000:00:03.0".into());
    nic.rx[0].irqs[0].action = "virtio0-input.0".into();
    nic.rx[0].irqs[0].source = Source::Name;
    nic.rx[0].napi = None;
    nic.tx[0].xps_cpus = Fact::Unsupported;
    nic.hardware = Hardware {
        function: Function::Paravirtual,
        channels: Fact::Denied(Need::NetAdmin),
        rings: Fact::Broken("attribute 7 is 3 bytes long".into()),
        driver: Fact::Unsupported,
        coalesce: Fact::Unsupported,
        rss: Fact::Unsupported,
        hash_fields: Fact::Unsupported,
        rss_contexts: Fact::Unsupported,
        rules: Fact::Unsupported,
        features: Fact::Unsupported,
        speed_mbits: Fact::Unsupported,
    };
    nic.stack = Stack { upper: vec![name("bond0")], ..Stack::default() };
    nic
}

fn bond() -> Nic {
    let mut nic = virtual_nic("bond0", "bond");
    nic.stack.lower = vec![name("ens3"), name("eth0")];
    nic.stack.physical = nic.stack.lower.clone();
    nic.stack.upper = vec![name("bond0.100")];
    nic
}

fn vlan() -> Nic {
    let mut nic = virtual_nic("bond0.100", "vlan");
    nic.stack.lower = vec![name("bond0")];
    nic.stack.physical = vec![name("ens3"), name("eth0")];
    nic
}

fn bridge() -> Nic {
    let mut nic = virtual_nic("docker0", "bridge");
    nic.stack.lower = vec![name("veth0"), name("veth1")];
    nic
}

fn veth(index: u32) -> Nic {
    let mut nic = virtual_nic(&format!("veth{index}"), "veth");
    nic.stack.upper = vec![name("docker0")];
    let known = (index == 0).then_some(0);
    nic.stack.peer = Some(Peer { ifindex: 2, nic: None, namespace: known });
    if known.is_some() {
        nic.rx[0].rps_cpus = Fact::Known(cpus("0-3"));
    }
    nic
}

fn container() -> Container {
    Container { engine: "docker".into(), id: "3f2c9a7be01d".repeat(5) + "3f2c", pod: None }
}

fn listeners() -> Vec<Listener> {
    let process = |pid, command: &str, allowed: &str, ran: Fact<CpuMask>| Process {
        pid,
        command: command.into(),
        cgroup: None,
        unit: None,
        container: None,
        allowed: Fact::Known(cpus(allowed)),
        ran_on: ran,
    };
    let nginx = |pid, ran: &str| Process {
        unit: Some("nginx.service".into()),
        ..process(pid, "nginx", "0-14", Fact::Known(cpus(ran)))
    };
    let redis = Process {
        container: Some(container()),
        ..process(4242, "redis-server", "4-5", Fact::Known(cpus("4-5")))
    };
    let listener = |transport, address: &str, port, sockets, owners| Listener {
        transport,
        address: address.parse().expect("an address"),
        port,
        sockets,
        owners,
    };
    let web = || Fact::Known(vec![nginx(811, "9"), nginx(812, "10")]);
    vec![
        listener(Transport::Tcp, "0.0.0.0", 80, 1, web()),
        listener(Transport::Tcp, "::", 443, 2, web()),
        listener(Transport::Tcp, "127.0.0.1", 6379, 1, Fact::Known(vec![redis])),
        listener(Transport::Udp, "0.0.0.0", 53, 1, Fact::Denied(Need::SysPtrace)),
    ]
}
