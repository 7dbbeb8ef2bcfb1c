//! Receive queues in interrupt action names, by the names that the driver's row of `drivers` has.
//!
//! A name is the weakest source: it is used only for interrupts that are known to belong to the
//! device, or that carry the device's own name or address. Names of drivers without a row mean nothing.

use crate::drivers::{self, IrqNumber};
use crate::sample::{address, pci_function};

/// Purpose of an interrupt, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Serves {
    /// The queues from the first to the last.
    Queues(u32, u32),
    /// Interrupts by number ([`IrqNumber::Order`]).
    Order(u32),
    /// Queues from the lowest number ([`IrqNumber::FromLowest`]).
    FromLowest(u32),
    /// Queues in turn, by the number of the first ([`IrqNumber::Cyclic`]).
    Cyclic(u32),
    /// A block by number ([`IrqNumber::Block`]).
    Block(u32),
    /// Every receive queue.
    All,
    /// The whole device: the name is its own, the interface's or that of its USB host.
    Device,
    /// No receive queue: the link's, or a transmit queue's.
    Other,
}

/// Purpose of an interrupt by its action name; `None` for names that the driver's row does not have, or that say nothing.
pub(super) fn serves(action: &str, device: &Device<'_>) -> Option<Serves> {
    let name = without_address(action);
    if name == device.nic || device.is_own_name(name) {
        // e1000, r8169, tg3 with one vector; virtio without MSI; devices of a SoC.
        return Some(Serves::Device);
    }
    if is_phy(name) {
        return Some(Serves::Other);
    }
    let (number, (first, last)) = numbers(name, device.driver)?;
    Some(match number {
        IrqNumber::Receive(from) => match (first.checked_sub(from), last.checked_sub(from)) {
            (Some(first), Some(last)) if first <= last => Serves::Queues(first, last),
            _ => Serves::Other,
        },
        IrqNumber::FromLowest => Serves::FromLowest(first),
        IrqNumber::Order => Serves::Order(first),
        IrqNumber::Cyclic => Serves::Cyclic(first),
        IrqNumber::Block => Serves::Block(first),
        IrqNumber::All => Serves::All,
        IrqNumber::Transmit(_) | IrqNumber::NoQueue => Serves::Other,
        IrqNumber::Unclear => return None,
    })
}

/// The transmit queue that an interrupt of this name belongs to exclusively.
pub(super) fn sends(action: &str, driver: Option<&str>) -> Option<u32> {
    match numbers(without_address(action), driver)? {
        (IrqNumber::Transmit(first), (number, _)) => number.checked_sub(first),
        _ => None,
    }
}

/// The one receive queue that a name refers to.
pub(super) fn receives(action: &str, driver: Option<&str>) -> Option<u32> {
    match numbers(without_address(action), driver)? {
        (IrqNumber::Receive(first), (number, _)) => number.checked_sub(first),
        (IrqNumber::Cyclic, (number, _)) => Some(number),
        _ => None,
    }
}

/// True if an interrupt of this name may be a receive queue's.
pub(super) fn may_receive(action: &str, driver: &str) -> bool {
    let number = numbers(without_address(action), Some(driver)).map(|(number, _)| number);
    number.is_some_and(|number| !matches!(number, IrqNumber::NoQueue | IrqNumber::Transmit(_)))
}

/// True if an interrupt of this name is known to be no receive queue's.
pub(super) fn is_of_no_queue(action: &str, driver: Option<&str>) -> bool {
    let name = without_address(action);
    let number = numbers(name, driver).map(|(number, _)| number);
    is_phy(name) || matches!(number, Some(IrqNumber::NoQueue | IrqNumber::Transmit(_)))
}

/// Names of some drivers carry the PCI address behind an @.
fn without_address(action: &str) -> &str {
    action.split('@').next().unwrap_or(action)
}

/// True for the name of a PHY's interrupt: its bus and its address there, `2188000.ethernet-1:00` (phy_request_interrupt).
fn is_phy(name: &str) -> bool {
    let address = name.rsplit_once(':').map(|(_, address)| address);
    address.is_some_and(|address| address.len() == 2 && address.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The numbers in a name, and their meaning by the first pattern that fits.
fn numbers(name: &str, driver: Option<&str>) -> Option<(IrqNumber, (u32, u32))> {
    let patterns = drivers::facts(driver).irqs;
    patterns.iter().find_map(|pattern| Some((pattern.number, pattern.numbers_in(name)?)))
}

/// Names that interrupts may contain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Device<'a> {
    pub(super) nic: &'a str,
    pub(super) driver: Option<&'a str>,
    /// Target of the link `/sys/class/net/NAME`.
    pub(super) path: Option<&'a str>,
    /// Buses of its USB host, if it has one and they are known.
    pub(super) usb_buses: &'a [String],
}

impl<'a> Device<'a> {
    /// The devices on its path, from the root.
    fn parts(&self) -> impl Iterator<Item = &'a str> {
        let device = self.path.and_then(|path| path.rsplit_once("/net/")).map(|(device, _)| device);
        device.into_iter().flat_map(|device| device.split('/'))
    }

    /// `virtioN` of its path.
    fn virtio(&self) -> Option<&'a str> {
        self.parts().find(|part| numbered(part, "virtio"))
    }

    /// `vifN` of Xen: the device vif-0 is called vif0 here.
    fn vif(&self) -> Option<String> {
        self.parts().find(|part| numbered(part, "vif-")).map(|part| part.replace('-', ""))
    }

    /// The device of a SoC, by its address: `46000000.ethernet`.
    fn platform(&self) -> Option<&'a str> {
        let is_address = |text: &str| text.len() >= 4 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_device = |part: &&str| part.split_once('.').is_some_and(|(address, _)| is_address(address));
        self.parts().filter(is_device).last()
    }

    /// The name of the device on its bus, if it has a number: `30000003` of a virtual device of POWER, `dpni.1`.
    fn on_bus(&self) -> Option<&'a str> {
        let has_number = |part: &&str| part.len() > 4 && part.contains(|c: char| c.is_ascii_digit());
        self.parts().last().filter(has_number)
    }

    /// True for the bare name of its device, or the interrupt of its USB host: `xhci-hcd:usb1`. A host of USB 3 has a second bus for
    /// its fast ports, without an interrupt of its own (drivers/usb/core/hcd.c: usb_add_hcd).
    fn is_own_name(&self, name: &str) -> bool {
        let is_own = |bus: &str| {
            self.parts().any(|part| part == bus) || self.usb_buses.iter().any(|other| other == bus)
        };
        let usb = || usb_bus(name).is_some_and(is_own);
        self.virtio() == Some(name) || self.platform() == Some(name) || usb()
    }
}

/// The bus of a USB host in the name of its interrupt: an interface may be called usb1 as well.
fn usb_bus(action: &str) -> Option<&str> {
    Some(action.split_once("hcd:")?.1)
}

/// True if an action name carries the device's own name: the interface's, `virtioN`, `vifN` of Xen, that of its SoC or
/// USB host, or its address on a bus.
pub(super) fn names_device(action: &str, device: &Device<'_>) -> bool {
    let function = device.path.and_then(pci_function);
    if let Some(address) = address(action) {
        return function == Some(address);
    }
    if usb_bus(action).is_some() {
        return device.is_own_name(action);
    }
    let begins = |name: &str| {
        let rest = action.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['-', ':', ' ', '_']))
    };
    let has_dot = || action.strip_prefix(device.nic).is_some_and(|rest| rest.starts_with('.'));
    device.is_own_name(action)
        || has_dot()
        || device.platform().is_some_and(begins)
        || function.is_some_and(|function| has_word(action, function))
        || has_word(action, device.nic)
        || device.on_bus().is_some_and(|name| has_word(action, name))
        || device.virtio().is_some_and(begins)
        || device.vif().is_some_and(|vif| begins(&vif))
}

/// True if a text has this between separators: `eth0` in `ice-eth0-TxRx-0`.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    words(text).any(|found| found == word)
}

/// Every part of a text between two separators, which may contain separators: names of interfaces do.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_separator = |c: char| matches!(c, '-' | ':' | ' ' | '_' | '@' | '(' | ')');
    let starts = || std::iter::once(0).chain(text.match_indices(is_separator).map(|(at, _)| at + 1));
    let ends = move |start| {
        let found = text[start..].match_indices(is_separator).map(move |(at, _)| start + at);
        found.chain([text.len()])
    };
    starts()
        .flat_map(move |start| ends(start).map(move |end| &text[start..end]))
        .collect::<Vec<_>>()
        .into_iter()
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
        ("virtio_net", "virtio3-input.0", "eth0", Some(Serves::Queues(0, 0))),
        ("virtio_net", "virtio3-input.12", "eth0", Some(Serves::Queues(12, 12))),
        ("virtio_net", "virtio3-output.0", "eth0", None),
        ("virtio_net", "virtio3-config", "eth0", None),
        ("ixgbe", "eth0-TxRx-0", "eth0", Some(Serves::Order(0))),
        ("ixgbe", "eth0-rx-2", "eth0", Some(Serves::Order(2))),
        ("ixgbevf", "ens4-TxRx-1", "ens4", Some(Serves::Order(1))),
        ("igb", "enp1s0-TxRx-3", "enp1s0", Some(Serves::Queues(3, 3))),
        ("igb", "enp1s0-rx-1", "enp1s0", Some(Serves::Queues(1, 1))),
        ("igb", "enp1s0", "enp1s0", Some(Serves::Device)),
        ("i40e", "i40e-eth0-TxRx-7", "eth0", Some(Serves::Order(7))),
        ("i40e", "i40e-0000:3b:00.0:misc", "eth0", None),
        ("i40e", "i40e-0000:04:00.0:fdir-TxRx-0", "eth0", None),
        ("ice", "ice-0000:c4:00.0:ctrl-TxRx-0", "eth0", None),
        ("tg3", "eno1-rx-1", "eno1", Some(Serves::Queues(0, 0))),
        ("tg3", "eno1-txrx-4", "eno1", Some(Serves::Queues(3, 3))),
        ("tg3", "eno1-txrx-0", "eno1", None),
        ("tg3", "eno1", "eno1", Some(Serves::Device)),
        ("iavf", "iavf-eth0-TxRx-0", "eth0", Some(Serves::Order(0))),
        ("ice", "ice-ens1f0-TxRx-11", "ens1f0", Some(Serves::Order(11))),
        ("ice", "ice-ens1f0-rx-2", "ens1f0", Some(Serves::Order(2))),
        ("idpf", "idpf-eth0-TxRx-4", "eth0", Some(Serves::Order(4))),
        ("idpf", "idpf-0000:05:00.0-Mailbox-0", "eth0", None),
        ("bnxt_en", "enP2s1f0np0-TxRx-5", "enP2s1f0np0", Some(Serves::Order(5))),
        ("bnxt_en", "eth0-rx-1", "eth0", Some(Serves::Queues(1, 1))),
        ("ena", "ens5-Tx-Rx-3", "ens5", Some(Serves::Queues(3, 3))),
        ("ena", "ena-mgmnt@pci:0000:00:05.0", "ens5", None),
        ("vmxnet3", "eth0-rxtx-1", "eth0", Some(Serves::Queues(1, 1))),
        ("vmxnet3", "eth0-rx-0", "eth0", Some(Serves::Order(0))),
        ("vmxnet3", "eth0-event-4", "eth0", None),
        ("e1000e", "enP1s1-rx-0", "enP1s1", Some(Serves::Queues(0, 0))),
        ("e1000e", "eth0-tx-0", "eth0", None),
        ("e1000", "eth0", "eth0", Some(Serves::Device)),
        ("bnx2x", "eth0-fp-5", "eth0", Some(Serves::Queues(5, 5))),
        ("xen_netfront", "eth0-q2-rx", "eth0", Some(Serves::Queues(2, 2))),
        ("xen_netfront", "vif0-q1-rx", "eth0", Some(Serves::Queues(1, 1))),
        ("xen_netfront", "vif0-q1-tx", "eth0", None),
        ("xen_netfront", "eth0-q3", "eth0", Some(Serves::Queues(3, 3))),
        ("mlx5_core", "mlx5_comp2@pci:0000:d8:00.0", "ens1f0np0", Some(Serves::FromLowest(2))),
        ("mlx5_core", "mlx5_async0@pci:0000:d8:00.0", "ens1f0np0", None),
        ("mlx4_core", "mlx4-3@0000:04:00.0", "ens2", None),
        ("mlx4_core", "mlx4-async@pci:0000:04:00.0", "ens2", None),
        ("gve", "gve-ntfy-blk3@pci:0000:00:04.0", "ens4", Some(Serves::Block(3))),
        ("gve", "eth%d-ntfy-block.3", "ens4", Some(Serves::Block(3))),
        ("gve", "gve-mgmnt@pci:0000:00:04.0", "ens4", None),
        ("mana", "mana_q3@pci:7870:00:00.0", "enP30832s1", Some(Serves::Queues(3, 3))),
        ("mana", "mana_hwc@pci:7870:00:00.0", "enP30832s1", None),
        ("cxgb4", "enp2s0f4-Rx7", "enp2s0f4", Some(Serves::Queues(7, 7))),
        ("cxgb4", "enp2s0f4-FWeventq", "enp2s0f4", None),
        ("ionic", "ionic-enp9s0-L0-rx12", "enp9s0", Some(Serves::Queues(12, 12))),
        ("ionic", "ionic-enp9s0-L0-tx12", "enp9s0", None),
        ("ionic", "ionic-0000:09:00.0-L0-adminq0", "enp9s0", None),
        ("intel-eth-pci", "enp0s30f4:rx-2", "enp0s30f4", Some(Serves::Queues(2, 2))),
        ("intel-eth-pci", "enp0s30f4:tx-2", "enp0s30f4", None),
        ("intel-eth-pci", "enp0s30f4:mac", "enp0s30f4", None),
        ("sfc", "enp1s0f0-5", "enp1s0f0", Some(Serves::Queues(5, 5))),
        ("sfc", "enp1s0f0-rx-5", "enp1s0f0", Some(Serves::Queues(5, 5))),
        ("sfc", "enp1s0f0-tx-5", "enp1s0f0", None),
        ("sfc", "enp1s0f0-xdp-5", "enp1s0f0", None),
        ("bnx2", "eno1-2", "eno1", Some(Serves::Queues(2, 2))),
    ];

    #[test]
    fn names_as_the_drivers_give_them() {
        for (driver, action, nic, expected) in NAMES {
            let device = Device { nic, driver: Some(driver), path: None, usb_buses: &[] };
            let found = serves(action, &device).filter(|serves| *serves != Serves::Other);
            assert_eq!(found, expected, "{driver}: {action}");
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
            ("bnxt_en", "eth0-tx-1", None),
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
            let (first, last) = name.numbers_in(action).expect("numbers");
            let device = Device { nic: "eth0", driver: Some(driver), path: None, usb_buses: &[] };
            let (queue, sent) = match name.number {
                IrqNumber::Receive(from) => (Serves::Queues(first - from, last - from), None),
                IrqNumber::FromLowest => (Serves::FromLowest(first), None),
                IrqNumber::Transmit(from) => (Serves::Other, Some(first - from)),
                IrqNumber::Order => (Serves::Order(first), None),
                IrqNumber::Cyclic => (Serves::Cyclic(first), None),
                IrqNumber::Block => (Serves::Block(first), None),
                IrqNumber::All => (Serves::All, None),
                IrqNumber::NoQueue => (Serves::Other, None),
                IrqNumber::Unclear => continue,
            };
            assert_eq!(
                (serves(action, &device), sends(action, Some(driver))),
                (Some(queue), sent),
                "{driver}: {action}"
            );
        }
    }

    /// A number in a name means nothing without a row of the driver.
    #[test]
    fn names_of_other_drivers_mean_nothing() {
        for driver in [None, Some("no-such-driver"), Some("e1000")] {
            for action in ["eth0-TxRx-3", "eth0-rx-0", "virtio0-input.1", "mlx5_comp0@pci:0000:00:03.0"] {
                let device = Device { nic: "eth0", driver, path: None, usb_buses: &[] };
                assert_eq!(serves(action, &device), None, "{driver:?}: {action}");
            }
        }
    }

    #[test]
    fn devices_of_a_soc_and_on_usb() {
        let at = |nic, path| Device { nic, driver: None, path: Some(path), usb_buses: &[] };
        let soc = at("eth0", "../../devices/platform/soc/1b100000.ethernet/net/eth0");
        assert!(names_device("1b100000.ethernet", &soc) && names_device("1b100000.ethernet-tx0", &soc));
        assert!(!names_device("1b110000.ethernet", &soc) && !names_device("soc", &soc));
        assert_eq!(serves("1b100000.ethernet", &soc), Some(Serves::Device));
        let usb = at("eth1", "../../devices/platform/ff600000.usb/xhci-hcd.0.auto/usb1/1-1/1-1:1.0/net/eth1");
        assert!(names_device("xhci-hcd:usb1", &usb) && !names_device("ehci_hcd:usb3", &usb));
        assert_eq!(serves("xhci-hcd:usb1", &usb), Some(Serves::Device));
        let pci = at("eth0", "../../devices/pci0000:00/0000:04:00.0/net/eth0");
        assert!(
            names_device("i40e-0000:04:00.0:misc", &pci) && !names_device("i40e-0000:04:00.1:misc", &pci)
        );
    }

    /// It may begin with the name of the device whose MDIO bus it is on.
    #[test]
    fn the_interrupt_of_a_phy_is_no_queue_s() {
        let path = Some("../../devices/platform/soc/2188000.ethernet/net/eth0");
        let device = Device { nic: "eth0", driver: Some("fec"), path, usb_buses: &[] };
        assert!(names_device("2188000.ethernet-1:00", &device));
        assert_eq!(serves("2188000.ethernet-1:00", &device), Some(Serves::Other));
        assert_eq!(serves("2188000.ethernet", &device), Some(Serves::Device));
        let pci = Device { nic: "eth0", driver: Some("hibmcge"), path: None, usb_buses: &[] };
        assert_eq!(serves("hibmcge-0000:84:00.1-rx", &pci), Some(Serves::All), "no address of a PHY");
    }

    #[test]
    fn names_and_addresses_on_other_buses() {
        let at = |nic, path| Device { nic, driver: None, path: Some(path), usb_buses: &[] };
        let power = at("eth0", "../../devices/vio/30000003/net/eth0");
        assert!(
            names_device("ibmvnic-30000003-rx0", &power) && !names_device("ibmvnic-30000004-rx0", &power)
        );
        let dpaa = at("eth1", "../../devices/platform/soc/80c000000.fsl-mc/dprc.1/dpni.1/net/eth1");
        assert!(names_device("dpni.1", &dpaa));
        assert!(!names_device("dpni.11", &dpaa) && !names_device("dpio.1", &dpaa));
        assert_eq!(serves("dpni.1", &Device { driver: Some("fsl_dpaa2_eth"), ..dpaa }), Some(Serves::Other));
        // An interface that has the name of another bus.
        let usb = at("usb1", "../../devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/net/usb1");
        assert!(!names_device("xhci-hcd:usb1", &usb) && names_device("xhci-hcd:usb2", &usb));
        let both = ["usb1".to_owned(), "usb2".to_owned()];
        let fast = Device { usb_buses: &both, ..usb };
        assert!(names_device("xhci-hcd:usb1", &fast) && !names_device("xhci-hcd:usb3", &fast));
    }

    #[test]
    fn devices_are_told_apart() {
        let at = |nic, path| Device { nic, driver: None, path, usb_buses: &[] };
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
        assert_eq!(serves("virtio2", &virtio), Some(Serves::Device));
    }
}
