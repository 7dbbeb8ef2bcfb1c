//! Drivers by what tells them apart: the bus, the names of interrupts and of statistics.

/// The bus of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bus {
    Pci,
    Virtio,
    Vmbus,
    Xen,
}

/// Channels as ethtool counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pairs {
    Combined,
    /// Receive and transmit queues apart.
    Apart,
}

/// Facts that a driver names its interrupts with.
pub(crate) struct Named<'a> {
    pub(crate) nic: &'a str,
    pub(crate) function: &'a str,
    pub(crate) number: u32,
    /// Index of the queue.
    pub(crate) queue: u32,
    /// Number of queues of the device.
    pub(crate) queues: u32,
}

/// A name of an interrupt.
type Name = fn(&Named<'_>) -> String;

#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) name: &'static str,
    pub(crate) bus: Bus,
    pub(crate) pairs: Pairs,
    pub(crate) most: u32,
    pub(crate) rx: Name,
    /// For drivers whose transmit queues have interrupts of their own.
    pub(crate) tx: Option<Name>,
    /// The interrupt of the device itself.
    pub(crate) own: Option<Name>,
    /// False if the name of an interrupt does not say which queue it belongs to.
    pub(crate) names_queues: bool,
    /// Text around the queue's number in the statistic that counts its packets.
    pub(crate) statistic: Option<(&'static str, &'static str)>,
    /// True for virtual functions only.
    pub(crate) is_virtual: bool,
}

const PCI: Driver = Driver {
    name: "",
    bus: Bus::Pci,
    pairs: Pairs::Combined,
    most: 64,
    rx: |of| format!("{}-TxRx-{}", of.nic, of.queue),
    tx: None,
    own: Some(|of| of.nic.to_owned()),
    names_queues: true,
    statistic: None,
    is_virtual: false,
};

pub(crate) static DRIVERS: [Driver; 27] = [
    Driver {
        name: "virtio_net",
        bus: Bus::Virtio,
        rx: |of| format!("virtio{}-input.{}", of.number, of.queue),
        tx: Some(|of| format!("virtio{}-output.{}", of.number, of.queue)),
        own: Some(|of| format!("virtio{}-config", of.number)),
        statistic: Some(("rx_queue_", "_packets")),
        ..PCI
    },
    Driver { name: "ixgbe", statistic: Some(("rx_queue_", "_packets")), ..PCI },
    Driver { name: "ixgbevf", statistic: Some(("rx_queue_", "_packets")), is_virtual: true, most: 4, ..PCI },
    Driver { name: "igb", statistic: Some(("rx_queue_", "_packets")), most: 8, ..PCI },
    Driver { name: "igc", most: 4, ..PCI },
    Driver {
        name: "i40e",
        rx: |of| format!("i40e-{}-TxRx-{}", of.nic, of.queue),
        own: Some(|of| format!("i40e-{}:misc", of.function)),
        statistic: Some(("rx-", ".packets")),
        ..PCI
    },
    Driver {
        name: "iavf",
        rx: |of| format!("iavf-{}-TxRx-{}", of.nic, of.queue),
        own: Some(|of| format!("iavf-{}:mbx", of.function)),
        is_virtual: true,
        most: 16,
        ..PCI
    },
    Driver {
        name: "ice",
        rx: |of| format!("ice-{}-TxRx-{}", of.nic, of.queue),
        own: Some(|of| format!("ice-{}:misc", of.function)),
        statistic: Some(("rx_queue_", "_packets")),
        ..PCI
    },
    Driver {
        name: "idpf",
        rx: |of| format!("idpf-{}-TxRx-{}", of.nic, of.queue),
        own: Some(|of| format!("idpf-{}-Mailbox-0", of.function)),
        pairs: Pairs::Apart,
        ..PCI
    },
    Driver { name: "bnxt_en", own: None, statistic: Some(("[", "]: rx_ucast_packets")), ..PCI },
    Driver {
        name: "ena",
        rx: |of| format!("{}-Tx-Rx-{}", of.nic, of.queue),
        own: Some(|of| format!("ena-mgmnt@pci:{}", of.function)),
        statistic: Some(("queue_", "_rx_cnt")),
        most: 32,
        ..PCI
    },
    Driver {
        name: "mlx5_core",
        rx: |of| format!("mlx5_comp{}@pci:{}", of.queue, of.function),
        own: Some(|of| format!("mlx5_async0@pci:{}", of.function)),
        statistic: Some(("rx", "_packets")),
        ..PCI
    },
    Driver {
        name: "mlx4_core",
        rx: |of| format!("mlx4-{}@{}", of.queue + 1, of.function),
        own: Some(|of| format!("mlx4-async@pci:{}", of.function)),
        names_queues: false,
        pairs: Pairs::Apart,
        most: 16,
        ..PCI
    },
    Driver {
        name: "vmxnet3",
        rx: |of| format!("{}-rxtx-{}", of.nic, of.queue),
        own: Some(|of| format!("{}-event-{}", of.nic, of.queues)),
        pairs: Pairs::Apart,
        most: 16,
        ..PCI
    },
    Driver {
        name: "gve",
        rx: |of| format!("gve-ntfy-blk{}@pci:{}", of.queue + of.queues, of.function),
        tx: Some(|of| format!("gve-ntfy-blk{}@pci:{}", of.queue, of.function)),
        own: Some(|of| format!("gve-mgmnt@pci:{}", of.function)),
        pairs: Pairs::Apart,
        most: 16,
        ..PCI
    },
    Driver {
        name: "tg3",
        rx: |of| format!("{}-rx-{}", of.nic, of.queue + 1),
        own: Some(|of| format!("{}-0", of.nic)),
        pairs: Pairs::Apart,
        most: 4,
        ..PCI
    },
    Driver { name: "bnx2x", rx: |of| format!("{}-fp-{}", of.nic, of.queue), most: 16, ..PCI },
    Driver {
        name: "mana",
        rx: |of| format!("mana_q{}@pci:{}", of.queue, of.function),
        own: Some(|of| format!("mana_hwc@pci:{}", of.function)),
        statistic: Some(("rx_", "_packets")),
        is_virtual: true,
        most: 16,
        ..PCI
    },
    Driver {
        name: "sfc",
        rx: |of| format!("{}-{}", of.nic, of.queue),
        own: None,
        statistic: Some(("rx-", ".rx_packets")),
        ..PCI
    },
    Driver {
        name: "ionic",
        rx: |of| format!("ionic-{}-L0-rx{}", of.nic, of.queue),
        own: Some(|of| format!("ionic-{}-L0-adminq0", of.function)),
        statistic: Some(("rx_", "_pkts")),
        ..PCI
    },
    Driver {
        name: "cxgb4",
        rx: |of| format!("{}-Rx{}", of.nic, of.queue),
        own: Some(|of| format!("{}-FWeventq", of.nic)),
        ..PCI
    },
    Driver {
        name: "atlantic",
        rx: |of| of.nic.to_owned(),
        own: None,
        statistic: Some(("Queue[", "] InPackets")),
        most: 8,
        ..PCI
    },
    Driver {
        // Counts by two.
        name: "hns3",
        rx: |of| format!("hns3-{}-TxRx-{}", of.function, 2 * of.queue),
        own: Some(|of| format!("hclge-misc-{}", of.function)),
        ..PCI
    },
    Driver {
        // Vectors that send come first.
        name: "niu",
        rx: |of| format!("{}-rx-{}", of.nic, of.queue),
        tx: Some(|of| format!("{}-tx-{}", of.nic, of.queue)),
        own: Some(|of| format!("{}:MAC", of.nic)),
        ..PCI
    },
    Driver {
        // No row has it, and its numbers are not those of the queues.
        name: "no-such-driver",
        rx: |of| format!("{}-TxRx-{}", of.nic, of.queues - 1 - of.queue),
        names_queues: false,
        ..PCI
    },
    Driver {
        name: "hv_netvsc",
        bus: Bus::Vmbus,
        own: None,
        statistic: Some(("rx_queue_", "_packets")),
        ..PCI
    },
    Driver {
        name: "vif",
        bus: Bus::Xen,
        rx: |of| format!("{}-q{}-rx", of.nic, of.queue),
        tx: Some(|of| format!("{}-q{}-tx", of.nic, of.queue)),
        own: None,
        most: 8,
        ..PCI
    },
];

/// The driver of this name.
pub(crate) fn driver(name: &str) -> &'static Driver {
    DRIVERS.iter().find(|driver| driver.name == name).expect("in the list")
}
