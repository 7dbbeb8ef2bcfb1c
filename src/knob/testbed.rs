//! The small machine that the knobs' own tests look at.

use crate::model::{Cpu, DeviceAddress, Fact, Identity, Irq, Model, Nic, NicKind, RxQueue};
use crate::plan::Target;
use crate::units::{CpuId, CpuMask, IrqId};

/// Eight CPUs, 3 isolated and 7 offline; `eth0` with two queues (interrupts 24, and 25 with 26)
/// and `veth0` with one.
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
    Model {
        schema: "rxlab.model/2".to_owned(),
        identity: Identity {
            hostname: "testbed".to_owned(),
            kernel: "6.1".to_owned(),
            boot_id: "boot-1".to_owned(),
        },
        cpus: (0..8).map(cpu).collect(),
        nics: vec![
            nic("eth0", "pci:0000:00:03.0", NicKind::Device, vec![queue(0, &[24]), queue(1, &[25, 26])]),
            nic("veth0", "virtual:veth0", NicKind::Virtual, vec![queue(0, &[])]),
        ],
        rps_sock_flow_entries: Fact::Known(0),
        irqbalance: Fact::Known(None),
        ..Model::default()
    }
}

/// A target as people write it.
pub(crate) fn target(text: &str) -> Target {
    text.parse().expect("a target")
}
