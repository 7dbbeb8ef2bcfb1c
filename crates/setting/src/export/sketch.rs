//! The small machine used by the tests of the formats: `eth0` on a bus with two queues, the second with two
//! interrupts and the first transmit queue with its own, and `veth0`.

use super::{Export, Format, export};
use crate::Plan;
use rxlab_base::units::IrqId;
use rxlab_path::model::{DeviceAddress, Irq, Model, Nic, NicKind, RxQueue};

pub(super) fn model() -> Model {
    let irq = |(number, action): &(u32, &str)| Irq {
        number: IrqId(*number),
        action: (*action).to_owned(),
        ..Irq::default()
    };
    let queue = |index, irqs: &[(u32, &str)]| RxQueue {
        index,
        irqs: irqs.iter().map(irq).collect(),
        ..RxQueue::default()
    };
    let nic = |name: &str, address: &str, kind, rx, other: &[(u32, &str)]| Nic {
        rx,
        other_irqs: other.iter().map(irq).collect(),
        ..Nic::new(name.parse().expect("a name"), DeviceAddress(address.to_owned()), kind)
    };
    let eth = vec![queue(0, &[(24, "eth0-TxRx-0")]), queue(1, &[(26, "eth0-rx-1"), (25, "eth0-TxRx-1")])];
    let mut eth0 = nic("eth0", "pci:0000:00:03.0", NicKind::Device, eth, &[(27, "eth0-tx-0"), (28, "eth0")]);
    eth0.driver = Some("igb".to_owned());
    Model {
        nics: vec![eth0, nic("veth0", "virtual:veth0", NicKind::Virtual, vec![queue(0, &[])], &[])],
        ..Model::default()
    }
}

pub(super) fn exported(format: Format, settings: &[&str]) -> Export {
    let settings: Vec<_> = settings.iter().map(|setting| setting.parse().expect("a setting")).collect();
    export(format, &Plan::new("spread", &settings), &model())
}

/// The only file of an export.
pub(super) fn text(format: Format, settings: &[&str]) -> String {
    let export = exported(format, settings);
    let [file] = &export.files[..] else { panic!("{:?}", export.files) };
    file.text.clone()
}
