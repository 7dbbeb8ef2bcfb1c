//! The small machine that the knobs' own tests look at.

use crate::journal::{Armed, Begin, Disk, Intent, Store};
use crate::model::{Cpu, DeviceAddress, Fact, Identity, Irq, Model, Nic, NicKind, RxQueue};
use crate::parse::ethtool::{Channels, FlowAction, FlowRule, FlowSpec, Rss};
use crate::parse::{push_attribute, push_message};
use crate::plan::Target;
use crate::units::{CpuId, CpuMask, IrqId};

/// Eight CPUs, 3 isolated and 7 offline; `eth0` with two queues (interrupts 24, and 25 with 26), an RSS
/// context and a flow rule, and `veth0` with one queue.
pub(crate) fn model() -> Model {
    let cpu = |n| Cpu {
        id: CpuId(n),
        online: n != 7,
        isolated: n == 3,
        core: None,
        package: None,
        siblings: CpuMask::new(),
        l3: CpuMask::new(),
        node: None,
    };
    let irq = |n| Irq {
        number: IrqId(n),
        action: format!("virtio0-input.{n}"),
        affinity: Fact::Known("0".parse().expect("a list")),
        effective: Fact::Unsupported,
        ..Irq::default()
    };
    let queue = |index, irqs: &[u32]| RxQueue {
        index,
        rps_cpus: Fact::Known(CpuMask::new()),
        rps_flow_cnt: Fact::Known(0),
        irqs: irqs.iter().copied().map(irq).collect(),
        napi: None,
        channel_cpu: None,
    };
    let nic = |name: &str, address: &str, kind, rx| Nic {
        rx,
        ..Nic::new(name.parse().expect("a name"), DeviceAddress(address.to_owned()), kind)
    };
    let mut eth0 =
        nic("eth0", "pci:0000:00:03.0", NicKind::Device, vec![queue(0, &[24]), queue(1, &[25, 26])]);
    eth0.hardware.rss_contexts = Fact::Known(vec![Rss { context: 1, ..Rss::default() }]);
    let spec = FlowSpec { kind: "udp4".to_owned(), fields: vec!["dst-port 53".to_owned()] };
    eth0.hardware.rules = Fact::Known(vec![FlowRule { location: 7, spec, action: FlowAction::Queue(1) }]);
    Model {
        schema: "rxlab.model/2".to_owned(),
        identity: Identity {
            hostname: "testbed".to_owned(),
            kernel: "6.1".to_owned(),
            boot_id: "boot-1".to_owned(),
        },
        cpus: (0..8).map(cpu).collect(),
        nics: vec![eth0, nic("veth0", "virtual:veth0", NicKind::Virtual, vec![queue(0, &[])])],
        rps_sock_flow_entries: Fact::Known(0),
        irqbalance: Fact::Known(None),
        ..Model::default()
    }
}

/// A target as people write it.
pub(crate) fn target(text: &str) -> Target {
    text.parse().expect("a target")
}

/// The answer of ethtool for these channels.
pub(crate) fn channels_answer(channels: &Channels) -> Vec<u8> {
    let mut message = Vec::new();
    let kinds = [(2, 6, channels.rx), (3, 7, channels.tx), (4, 8, channels.other), (5, 9, channels.combined)];
    for (max, now, count) in kinds {
        let Some(count) = count else { continue };
        push_attribute(&mut message, max, &count.max.to_ne_bytes());
        push_attribute(&mut message, now, &count.now.to_ne_bytes());
    }
    let mut answer = Vec::new();
    push_message(&mut answer, &message);
    answer
}

/// The answer of ethtool for these offloads: all that are known, those that are on, and those that stay as
/// they are.
pub(crate) fn features_answer(known: &[&str], on: &[&str], fixed: &[&str]) -> Vec<u8> {
    let mut message = Vec::new();
    for (kind, names) in [(2, known), (4, on), (5, fixed)] {
        let mut list = Vec::new();
        for name in names {
            let mut bit = Vec::new();
            push_attribute(&mut bit, 2, format!("{name}\0").as_bytes());
            push_attribute(&mut bit, 3, &[]);
            push_attribute(&mut list, 1, &bit);
        }
        let mut bits = Vec::new();
        push_attribute(&mut bits, 3, &list);
        push_attribute(&mut message, kind, &bits);
    }
    let mut answer = Vec::new();
    push_message(&mut answer, &message);
    answer
}

/// The proof that a write may happen, from a journal that nobody reads.
pub(crate) fn armed() -> Armed {
    let state = tempfile::tempdir().expect("a temporary directory");
    let store = Store::new(Disk::new(state.path()));
    let lock = store.lock(std::time::Duration::ZERO).expect("nobody else's");
    let begin = Begin {
        schema: Begin::SCHEMA.into(),
        id: String::new(),
        boot_id: "boot-1".into(),
        root: "/".into(),
        netns: None,
        started: String::new(),
        what: String::new(),
        deadline: None,
    };
    let mut journal = store.begin(lock, begin).expect("begun");
    let intent = Intent {
        seq: 0,
        knob: "test".into(),
        target: Target::Host,
        device: None,
        before: String::new(),
        after: String::new(),
        beside: Vec::new(),
        foreign: false,
    };
    journal.arm(intent).expect("armed")
}
