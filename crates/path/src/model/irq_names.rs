//! Receive queues in interrupt action names, by the names that `drivers` knows.
//!
//! A name is the weakest source: it is used only for interrupts that are known to belong to the
//! device, or that carry the device's own name.

use crate::drivers::{IrqNumber, irq_names};
use crate::sample::pci_function;

/// Purpose of an interrupt, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Serves {
    Queue(u32),
    /// An interrupt of the device by number ([`IrqNumber::Vector`]).
    Vector(u32),
    /// A block by number ([`IrqNumber::Block`]).
    Block(u32),
    /// The whole interface: the name is the interface's.
    Interface,
}

/// Purpose of an interrupt by its action name; `None` for names that refer to no receive queue (config,
/// transmit, events) and for unknown patterns.
pub(super) fn serves(action: &str, device: &Device<'_>) -> Option<Serves> {
    let name = without_address(action);
    if name == device.nic || device.virtio() == Some(name) {
        // e1000, r8169, tg3 with one vector; virtio without MSI.
        return Some(Serves::Interface);
    }
    match number(name, device.driver)? {
        (IrqNumber::Receive(first), number) => number.checked_sub(first).map(Serves::Queue),
        (IrqNumber::Vector, number) => Some(Serves::Vector(number)),
        (IrqNumber::Block, number) => Some(Serves::Block(number)),
        (IrqNumber::Transmit(_) | IrqNumber::NoQueue, _) => None,
    }
}

/// The transmit queue that an interrupt of this name belongs to exclusively.
pub(super) fn sends(action: &str, driver: Option<&str>) -> Option<u32> {
    match number(without_address(action), driver)? {
        (IrqNumber::Transmit(first), number) => number.checked_sub(first),
        _ => None,
    }
}

/// The one receive queue that a name refers to.
pub(super) fn receives(action: &str, driver: Option<&str>) -> Option<u32> {
    match number(without_address(action), driver)? {
        (IrqNumber::Receive(first), number) => number.checked_sub(first),
        _ => None,
    }
}

/// Names of some drivers carry the PCI address behind an @.
fn without_address(action: &str) -> &str {
    action.split('@').next().unwrap_or(action)
}

/// The number in a name, and its meaning by the first pattern that fits.
fn number(name: &str, driver: Option<&str>) -> Option<(IrqNumber, u32)> {
    irq_names(driver).find_map(|pattern| Some((pattern.number, pattern.number_in(name)?)))
}

/// Names that interrupts may contain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Device<'a> {
    /// Name of the interface.
    pub(super) nic: &'a str,
    pub(super) driver: Option<&'a str>,
    /// Target of the link `/sys/class/net/NAME`.
    pub(super) path: Option<&'a str>,
}

impl<'a> Device<'a> {
    /// `virtioN` of its path.
    fn virtio(&self) -> Option<&'a str> {
        self.path.into_iter().flat_map(|path| path.split('/')).find(|part| numbered(part, "virtio"))
    }

    /// `vifN` of Xen: the device vif-0 is called vif0 here.
    fn vif(&self) -> Option<String> {
        let mut parts = self.path.into_iter().flat_map(|path| path.split('/'));
        parts.find(|part| numbered(part, "vif-")).map(|part| part.replace('-', ""))
    }
}

/// True if an action name carries the device's own name: the interface's, `virtioN`, `vifN` of Xen, or its PCI address
/// behind an @.
pub(super) fn names_device(action: &str, device: &Device<'_>) -> bool {
    if let Some((_, address)) = action.split_once('@') {
        return device.path.and_then(pci_function) == Some(address.strip_prefix("pci:").unwrap_or(address));
    }
    let begins = |name: &str| action.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
    action == device.nic
        || action.split(['-', ':']).any(|part| part == device.nic)
        || device.virtio().is_some_and(|virtio| action == virtio || begins(virtio))
        || device.vif().is_some_and(|vif| begins(&vif))
}

fn numbered(part: &str, prefix: &str) -> bool {
    part.strip_prefix(prefix).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::{Device, IrqNumber, Serves, names_device, receives, sends, serves};
    use crate::drivers::DRIVERS;

    /// Driver, action name, interface, and what that interrupt serves.
    const NAMES: [(&str, &str, &str, Option<Serves>); 60] = [
        ("virtio_net", "virtio3-input.0", "eth0", Some(Serves::Queue(0))),
        ("virtio_net", "virtio3-input.12", "eth0", Some(Serves::Queue(12))),
        ("virtio_net", "virtio3-output.0", "eth0", None),
        ("virtio_net", "virtio3-config", "eth0", None),
        ("ixgbe", "eth0-TxRx-0", "eth0", Some(Serves::Vector(0))),
        ("ixgbe", "eth0-rx-2", "eth0", Some(Serves::Queue(2))),
        ("ixgbevf", "ens4-TxRx-1", "ens4", Some(Serves::Vector(1))),
        ("igb", "enp1s0-TxRx-3", "enp1s0", Some(Serves::Vector(3))),
        ("igb", "enp1s0-rx-1", "enp1s0", Some(Serves::Queue(1))),
        ("igb", "enp1s0", "enp1s0", Some(Serves::Interface)),
        ("i40e", "i40e-eth0-TxRx-7", "eth0", Some(Serves::Vector(7))),
        ("i40e", "i40e-0000:3b:00.0:misc", "eth0", None),
        ("i40e", "i40e-0000:04:00.0:fdir-TxRx-0", "eth0", None),
        ("ice", "ice-0000:c4:00.0:ctrl-TxRx-0", "eth0", None),
        ("tg3", "eno1-rx-1", "eno1", Some(Serves::Queue(0))),
        ("tg3", "eno1-txrx-4", "eno1", Some(Serves::Queue(3))),
        ("tg3", "eno1-txrx-0", "eno1", None),
        ("tg3", "eno1", "eno1", Some(Serves::Interface)),
        ("iavf", "iavf-eth0-TxRx-0", "eth0", Some(Serves::Vector(0))),
        ("ice", "ice-ens1f0-TxRx-11", "ens1f0", Some(Serves::Vector(11))),
        ("ice", "ice-ens1f0-rx-2", "ens1f0", Some(Serves::Queue(2))),
        ("idpf", "idpf-eth0-TxRx-4", "eth0", Some(Serves::Vector(4))),
        ("idpf", "idpf-0000:05:00.0-Mailbox-0", "eth0", None),
        ("bnxt_en", "enP2s1f0np0-TxRx-5", "enP2s1f0np0", Some(Serves::Vector(5))),
        ("bnxt_en", "eth0-rx-1", "eth0", Some(Serves::Queue(1))),
        ("ena", "ens5-Tx-Rx-3", "ens5", Some(Serves::Queue(3))),
        ("ena", "ena-mgmnt@pci:0000:00:05.0", "ens5", None),
        ("vmxnet3", "eth0-rxtx-1", "eth0", Some(Serves::Queue(1))),
        ("vmxnet3", "eth0-rx-0", "eth0", Some(Serves::Queue(0))),
        ("vmxnet3", "eth0-event-4", "eth0", None),
        ("e1000e", "enP1s1-rx-0", "enP1s1", Some(Serves::Queue(0))),
        ("e1000e", "eth0-tx-0", "eth0", None),
        ("e1000", "eth0", "eth0", Some(Serves::Interface)),
        ("bnx2x", "eth0-fp-5", "eth0", Some(Serves::Queue(5))),
        ("xen_netfront", "eth0-q2-rx", "eth0", Some(Serves::Queue(2))),
        ("xen_netfront", "vif0-q1-rx", "eth0", Some(Serves::Queue(1))),
        ("xen_netfront", "vif0-q1-tx", "eth0", None),
        ("xen_netfront", "eth0-q3", "eth0", Some(Serves::Queue(3))),
        ("mlx5_core", "mlx5_comp2@pci:0000:d8:00.0", "ens1f0np0", Some(Serves::Queue(2))),
        ("mlx5_core", "mlx5_async0@pci:0000:d8:00.0", "ens1f0np0", None),
        ("mlx4_core", "mlx4-3@0000:04:00.0", "ens2", None),
        ("mlx4_core", "mlx4-async@pci:0000:04:00.0", "ens2", None),
        ("gve", "gve-ntfy-blk3@pci:0000:00:04.0", "ens4", Some(Serves::Block(3))),
        ("gve", "eth%d-ntfy-block.3", "ens4", Some(Serves::Block(3))),
        ("gve", "gve-mgmnt@pci:0000:00:04.0", "ens4", None),
        ("mana", "mana_q3@pci:7870:00:00.0", "enP30832s1", Some(Serves::Queue(3))),
        ("mana", "mana_hwc@pci:7870:00:00.0", "enP30832s1", None),
        ("cxgb4", "enp2s0f4-Rx7", "enp2s0f4", Some(Serves::Queue(7))),
        ("cxgb4", "enp2s0f4-FWeventq", "enp2s0f4", None),
        ("ionic", "ionic-enp9s0-L0-rx12", "enp9s0", Some(Serves::Queue(12))),
        ("ionic", "ionic-enp9s0-L0-tx12", "enp9s0", None),
        ("ionic", "ionic-0000:09:00.0-L0-adminq0", "enp9s0", None),
        ("intel-eth-pci", "enp0s30f4:rx-2", "enp0s30f4", Some(Serves::Queue(2))),
        ("intel-eth-pci", "enp0s30f4:tx-2", "enp0s30f4", None),
        ("intel-eth-pci", "enp0s30f4:mac", "enp0s30f4", None),
        ("sfc", "enp1s0f0-5", "enp1s0f0", Some(Serves::Queue(5))),
        ("sfc", "enp1s0f0-rx-5", "enp1s0f0", Some(Serves::Queue(5))),
        ("sfc", "enp1s0f0-tx-5", "enp1s0f0", None),
        ("sfc", "enp1s0f0-xdp-5", "enp1s0f0", None),
        ("bnx2", "eno1-2", "eno1", Some(Serves::Queue(2))),
    ];

    #[test]
    fn names_as_the_drivers_give_them() {
        for (driver, action, nic, expected) in NAMES {
            let device = Device { nic, driver: Some(driver), path: None };
            assert_eq!(serves(action, &device), expected, "{driver}: {action}");
        }
    }

    #[test]
    fn transmit_queues_with_an_interrupt_of_their_own() {
        for (driver, action, queue) in [
            ("virtio_net", "virtio3-output.12", Some(12)),
            ("virtio_net", "virtio3-input.12", None),
            ("virtio_net", "virtio3-config", None),
            ("e1000e", "eth0-tx-0", Some(0)),
            ("igb", "enp1s0-tx-1", Some(1)),
            ("vmxnet3", "eth0-tx-1", Some(1)),
            ("ixgbe", "eth0-tx-2", Some(2)),
            ("ixgbe", "eth0-TxRx-2", None),
            ("ice", "ice-ens1f0-tx-2", Some(2)),
            ("bnxt_en", "eth0-tx-1", Some(1)),
            ("tg3", "eno1-tx-1", Some(0)),
            ("tg3", "eno1-tx-0", None),
            ("tg3", "eno1-txrx-1", None),
            ("xen_netfront", "vif0-q1-tx", Some(1)),
            ("xen_netfront", "vif0-q1-rx", None),
            ("ionic", "ionic-enp9s0-L0-tx3", Some(3)),
            ("intel-eth-pci", "enp0s30f4:tx-2", Some(2)),
            ("sfc", "enp1s0f0-tx-5", Some(5)),
            ("sfc", "enp1s0f0-xdp-5", None),
        ] {
            assert_eq!(sends(action, Some(driver)), queue, "{driver}: {action}");
            assert!(queue.is_none() || receives(action, Some(driver)).is_none(), "{driver}: {action}");
        }
    }

    #[test]
    fn examples_in_the_table_of_drivers() {
        for (driver, name) in DRIVERS.iter().flat_map(|row| row.irqs.iter().map(|name| (row.names[0], name)))
        {
            let action = name.example;
            let number = name.number_in(action).expect("a number");
            let device = Device { nic: "eth0", driver: Some(driver), path: None };
            let (queue, sent) = match name.number {
                IrqNumber::Receive(first) => (Some(Serves::Queue(number - first)), None),
                IrqNumber::Transmit(first) => (None, Some(number - first)),
                IrqNumber::Vector => (Some(Serves::Vector(number)), None),
                IrqNumber::Block => (Some(Serves::Block(number)), None),
                IrqNumber::NoQueue => (None, None),
            };
            assert_eq!(
                (serves(action, &device), sends(action, Some(driver))),
                (queue, sent),
                "{driver}: {action}"
            );
        }
    }

    #[test]
    fn devices_are_told_apart() {
        let at = |nic, path| Device { nic, driver: None, path };
        let virtio = at("eth0", Some("../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth0"));
        assert!(names_device("virtio2-input.0", &virtio));
        assert!(!names_device("virtio21-input.0", &virtio));
        assert!(names_device("i40e-eth0-TxRx-7", &at("eth0", None)));
        assert!(!names_device("eth01-TxRx-7", &at("eth0", None)));
        assert!(names_device("eth0:rx-2", &at("eth0", None)));
        assert!(!names_device("i40e-0000:04:00.0:misc", &at("eth0", None)));
        let mana = at("eth0", Some("../../devices/pci7870:00/7870:00:00.0/net/eth0"));
        assert!(
            names_device("mana_q0@pci:7870:00:00.0", &mana) && names_device("mlx4-3@7870:00:00.0", &mana)
        );
        assert!(!names_device("mana_q0@pci:7870:00:02.0", &mana));
        assert!(!names_device("mana_q0@pci:7870:00:00.0", &at("eth0", None)));
        let xen = at("eth1", Some("../../devices/vif-1/net/eth1"));
        assert!(names_device("vif1-q0-rx", &xen));
        assert!(!names_device("vif0-q0-rx", &xen));
        // On a bus of its own, or without MSI: one interrupt by the device's name.
        assert!(names_device("virtio2", &virtio) && !names_device("virtio21", &virtio));
        assert_eq!(serves("virtio2", &virtio), Some(Serves::Interface));
    }
}
