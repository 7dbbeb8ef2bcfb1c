//! Drivers by what tells them apart: the bus, the names of interrupts and of statistics. Most are written here; the
//! others, [`TABLE`], take the names from rxlab's own table, and [`STRANGE`] have names that no row has.

use std::sync::LazyLock;

use rxlab_path::drivers::{Bare, DRIVERS as ROWS, Driver as Row, IrqName, IrqNumber, Kind};

use Name::{InTable, Of};

/// The bus of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bus {
    Pci,
    Virtio,
    Vmbus,
    Xen,
    /// The host of Xen.
    XenHost,
    Platform,
    /// The bus of virtual devices of POWER.
    Vio,
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
    /// Number of the first interrupt where a driver counts vectors, and the distance between two.
    pub(crate) counts: (u32, u32),
}

impl Bus {
    /// The directory of a device on its bus.
    pub(crate) fn device(self, number: u32, function: &str) -> String {
        match self {
            Bus::Pci => function.to_owned(),
            Bus::Virtio => format!("virtio{number}"),
            Bus::Vmbus => format!("{number:08x}"),
            Bus::Xen => format!("vif-{number}"),
            Bus::XenHost => format!("vif-{}-0", number + 1),
            Bus::Platform => format!("{:x}.ethernet", 0x4600_0000 + 0x1_0000 * number),
            Bus::Vio => format!("{:x}", 0x3000_0000 + number),
        }
    }
}

/// A name of an interrupt.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Name {
    Of(fn(&Named<'_>) -> String),
    /// Like an example in rxlab's table, on this bus.
    InTable(&'static IrqName, Bus),
}

impl Name {
    pub(crate) fn of(self, named: &Named<'_>) -> String {
        match self {
            Of(name) => name(named),
            InTable(name, bus) => in_table(name, bus, named),
        }
    }
}

/// The example with the names and the number of this device.
fn in_table(name: &IrqName, bus: Bus, named: &Named<'_>) -> String {
    let mut start = name.example;
    for (at, part) in name.ending.rsplit('#').enumerate() {
        if at > 0 {
            start = start.trim_end_matches(|c: char| c.is_ascii_digit());
        }
        start = start.strip_suffix(part).expect("the example has the ending");
    }
    let (first, step) = named.counts;
    let number = match name.number {
        IrqNumber::Receive(from) | IrqNumber::Transmit(from) => named.queue + from,
        IrqNumber::FromLowest => named.queue + first.min(1),
        IrqNumber::Order => first + step * named.queue,
        IrqNumber::Block => named.queues + named.queue,
        IrqNumber::All | IrqNumber::Cyclic | IrqNumber::Unclear | IrqNumber::NoQueue => named.queue,
    };
    let end = name.ending.replace('#', &number.to_string());
    let is_interface = |word: &str| word == "vif1.0" || word.starts_with("en") || word.starts_with("eth");
    let words = || start.split(['-', ' ', ':', '_']);
    let replaced = |from: &str, to: &str| format!("{}{end}", start.replacen(from, to, 1));
    let on_bus = bus.device(named.number, named.function);
    if let Some(interface) = words().find(|word| is_interface(word)).or(words().find(|word| *word == "tsn0"))
    {
        return replaced(interface, named.nic);
    }
    // The address of a function has separators.
    if let Some(at) = start.find("0000:") {
        return replaced(&start[at..at + 12], named.function);
    }
    match bus {
        Bus::Virtio => replaced("virtio3", &on_bus),
        Bus::Xen => replaced("vif0", &format!("vif{}", named.number)),
        Bus::Platform | Bus::Vio => {
            replaced(words().find(|word| word.contains("000")).unwrap_or(start), &on_bus)
        }
        _ if start.starts_with("LiquidIO") => format!("{start}{end}"),
        _ => format!("{start}{end}@pci:{}", named.function),
    }
}

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
    /// True if one interrupt serves every receive queue.
    pub(crate) has_one_for_all: bool,
    /// True if the interfaces of a function have the same interrupts.
    pub(crate) shares: bool,
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
    rx: Of(|of| format!("{}-TxRx-{}", of.nic, of.queue)),
    tx: None,
    own: Some(Of(|of| of.nic.to_owned())),
    names_queues: true,
    has_one_for_all: false,
    shares: false,
    statistic: None,
    is_virtual: false,
};

pub(crate) static DRIVERS: [Driver; 26] = [
    Driver {
        name: "virtio_net",
        bus: Bus::Virtio,
        rx: Of(|of| format!("virtio{}-input.{}", of.number, of.queue)),
        tx: Some(Of(|of| format!("virtio{}-output.{}", of.number, of.queue))),
        own: Some(Of(|of| format!("virtio{}-config", of.number))),
        statistic: Some(("rx_queue_", "_packets")),
        ..PCI
    },
    Driver { name: "ixgbe", statistic: Some(("rx_queue_", "_packets")), ..PCI },
    Driver { name: "ixgbevf", statistic: Some(("rx_queue_", "_packets")), is_virtual: true, most: 4, ..PCI },
    Driver { name: "igb", statistic: Some(("rx_queue_", "_packets")), most: 8, ..PCI },
    Driver { name: "igc", most: 4, ..PCI },
    Driver {
        name: "i40e",
        rx: Of(|of| format!("i40e-{}-TxRx-{}", of.nic, of.queue)),
        own: Some(Of(|of| format!("i40e-{}:misc", of.function))),
        statistic: Some(("rx-", ".packets")),
        ..PCI
    },
    Driver {
        name: "iavf",
        rx: Of(|of| format!("iavf-{}-TxRx-{}", of.nic, of.queue)),
        own: Some(Of(|of| format!("iavf-{}:mbx", of.function))),
        is_virtual: true,
        most: 16,
        ..PCI
    },
    Driver {
        name: "ice",
        rx: Of(|of| format!("ice-{}-TxRx-{}", of.nic, of.queue)),
        own: Some(Of(|of| format!("ice-{}:misc", of.function))),
        statistic: Some(("rx_queue_", "_packets")),
        ..PCI
    },
    Driver {
        name: "idpf",
        rx: Of(|of| format!("idpf-{}-TxRx-{}", of.nic, of.queue)),
        own: Some(Of(|of| format!("idpf-{}-Mailbox-0", of.function))),
        pairs: Pairs::Apart,
        ..PCI
    },
    Driver { name: "bnxt_en", own: None, statistic: Some(("[", "]: rx_ucast_packets")), ..PCI },
    Driver {
        name: "ena",
        rx: Of(|of| format!("{}-Tx-Rx-{}", of.nic, of.queue)),
        own: Some(Of(|of| format!("ena-mgmnt@pci:{}", of.function))),
        statistic: Some(("queue_", "_rx_cnt")),
        most: 32,
        ..PCI
    },
    Driver {
        name: "mlx5_core",
        shares: true,
        rx: Of(|of| format!("mlx5_comp{}@pci:{}", of.queue, of.function)),
        own: Some(Of(|of| format!("mlx5_async0@pci:{}", of.function))),
        statistic: Some(("rx", "_packets")),
        ..PCI
    },
    Driver {
        name: "mlx4_core",
        shares: true,
        rx: Of(|of| format!("mlx4-{}@{}", of.queue + 1, of.function)),
        own: Some(Of(|of| format!("mlx4-async@pci:{}", of.function))),
        names_queues: false,
        pairs: Pairs::Apart,
        most: 16,
        ..PCI
    },
    Driver {
        name: "vmxnet3",
        rx: Of(|of| format!("{}-rxtx-{}", of.nic, of.queue)),
        own: Some(Of(|of| format!("{}-event-{}", of.nic, of.queues))),
        pairs: Pairs::Apart,
        most: 16,
        ..PCI
    },
    Driver {
        name: "gve",
        rx: Of(|of| format!("gve-ntfy-blk{}@pci:{}", of.queue + of.queues, of.function)),
        tx: Some(Of(|of| format!("gve-ntfy-blk{}@pci:{}", of.queue, of.function))),
        own: Some(Of(|of| format!("gve-mgmnt@pci:{}", of.function))),
        pairs: Pairs::Apart,
        most: 16,
        ..PCI
    },
    Driver {
        name: "tg3",
        rx: Of(|of| format!("{}-rx-{}", of.nic, of.queue + 1)),
        own: Some(Of(|of| format!("{}-0", of.nic))),
        pairs: Pairs::Apart,
        most: 4,
        ..PCI
    },
    Driver { name: "bnx2x", rx: Of(|of| format!("{}-fp-{}", of.nic, of.queue)), most: 16, ..PCI },
    Driver {
        name: "mana",
        shares: true,
        rx: Of(|of| format!("mana_q{}@pci:{}", of.queue, of.function)),
        own: Some(Of(|of| format!("mana_hwc@pci:{}", of.function))),
        statistic: Some(("rx_", "_packets")),
        is_virtual: true,
        most: 16,
        ..PCI
    },
    Driver {
        name: "sfc",
        rx: Of(|of| format!("{}-{}", of.nic, of.queue)),
        own: None,
        statistic: Some(("rx-", ".rx_packets")),
        ..PCI
    },
    Driver {
        name: "ionic",
        rx: Of(|of| format!("ionic-{}-L0-rx{}", of.nic, of.queue)),
        own: Some(Of(|of| format!("ionic-{}-L0-adminq0", of.function))),
        statistic: Some(("rx_", "_pkts")),
        ..PCI
    },
    Driver {
        name: "cxgb4",
        rx: Of(|of| format!("{}-Rx{}", of.nic, of.queue)),
        own: Some(Of(|of| format!("{}-FWeventq", of.nic))),
        ..PCI
    },
    Driver {
        name: "atlantic",
        rx: Of(|of| of.nic.to_owned()),
        own: None,
        statistic: Some(("Queue[", "] InPackets")),
        most: 8,
        ..PCI
    },
    Driver {
        // Counts by two.
        name: "hns3",
        rx: Of(|of| format!("hns3-{}-TxRx-{}", of.function, 2 * of.queue)),
        own: Some(Of(|of| format!("hclge-misc-{}", of.function))),
        ..PCI
    },
    Driver {
        // Vectors that send come first.
        name: "niu",
        rx: Of(|of| format!("{}-rx-{}", of.nic, of.queue)),
        tx: Some(Of(|of| format!("{}-tx-{}", of.nic, of.queue))),
        own: Some(Of(|of| format!("{}:MAC", of.nic))),
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
        rx: Of(|of| format!("{}-q{}-rx", of.nic, of.queue)),
        tx: Some(Of(|of| format!("{}-q{}-tx", of.nic, of.queue))),
        own: None,
        most: 8,
        ..PCI
    },
];

/// Names that no row has: of a driver without a row, or another version of one with a row. The number is not the queue's, or
/// it counts from the other end.
pub(crate) static STRANGE: [Driver; 8] = [
    strange("no-such-driver", Of(|of| format!("{}-TxRx-{}", of.nic, of.queues - 1 - of.queue))),
    strange("no-such-driver", Of(|of| format!("{}-{}", of.nic, of.queue + 3))),
    strange("no-such-driver", Of(|of| format!("comp{}@pci:{}", of.queues - 1 - of.queue, of.function))),
    strange("igb", Of(|of| format!("igb-{}:q{}", of.nic, of.queues - of.queue))),
    strange("ice", Of(|of| format!("ice-{}-Q{}-TxRx", of.nic, of.queues - of.queue))),
    strange(
        "mlx5_core",
        Of(|of| {
            // It may have vectors of more queues than are in use.
            let vector = of.queues.checked_sub(of.queue).unwrap_or(of.queue);
            format!("mlx5_vec_{vector}@pci:{}", of.function)
        }),
    ),
    Driver {
        bus: Bus::Virtio,
        ..strange("virtio_net", Of(|of| format!("virtio{}-rx:{}", of.number, of.queues - of.queue)))
    },
    strange("ena", Of(|of| format!("{}-{}-Tx-Rx", of.nic, of.queues - of.queue))),
];

const fn strange(name: &'static str, rx: Name) -> Driver {
    Driver { name, rx, names_queues: false, ..PCI }
}

/// The rows of rxlab's table that are not written here, once for each form of name that receives.
pub(crate) static TABLE: LazyLock<Vec<Driver>> = LazyLock::new(|| {
    let is_written = |row: &Row| DRIVERS.iter().any(|driver| row.names.contains(&driver.name));
    // An order of bare names is that of atlantic, which is written.
    let is_device =
        |row: &Row| row.kind != Kind::Failover && !row.names.contains(&"veth") && row.bare == Bare::Unordered;
    // Their devices are on buses that these machines lack.
    let is_elsewhere = |row: &Row| ["nvethernet", "octeon_ethernet", "imx-dwmac"].contains(&row.names[0]);
    // The interfaces of a switch do not count what comes to a CPU.
    let may = |row: &&Row| !is_written(row) && is_device(row) && !is_elsewhere(row) && !row.counts_forwarded;
    ROWS.iter().filter(may).flat_map(of_row).collect()
});

fn of_row(row: &'static Row) -> Vec<Driver> {
    let bus = match row.names[0] {
        "xen-netback" => Bus::XenHost,
        "ibmvnic" => Bus::Vio,
        _ if row.irqs.iter().any(|name| name.example.contains(".ethernet")) => Bus::Platform,
        _ => Bus::Pci,
    };
    let find = |is_it: fn(IrqNumber) -> bool| row.irqs.iter().find(|name| is_it(name.number));
    let tx = find(|number| matches!(number, IrqNumber::Transmit(_))).map(|name| InTable(name, bus));
    let own = find(|number| number == IrqNumber::NoQueue).map(|name| InTable(name, bus));
    let driver = |rx, number: Option<IrqNumber>| Driver {
        name: row.names[0],
        bus,
        rx,
        // Drivers with one interrupt for all have one name for what they send, too.
        tx: tx.filter(|_| number != Some(IrqNumber::All)),
        own: own.or(PCI.own),
        names_queues: number.is_some(),
        has_one_for_all: number == Some(IrqNumber::All),
        shares: row.shares_irqs,
        is_virtual: row.kind == Kind::VirtualFunction,
        most: 16,
        ..PCI
    };
    let receives =
        |number| !matches!(number, IrqNumber::Transmit(_) | IrqNumber::NoQueue | IrqNumber::Unclear);
    // One name without a number is not that of several queues.
    let is_of_each = |name: &IrqName| name.ending.contains('#') || name.number == IrqNumber::All;
    let forms = row.irqs.iter().filter(|name| receives(name.number) && is_of_each(name));
    let forms: Vec<Driver> = forms.map(|name| driver(InTable(name, bus), Some(name.number))).collect();
    // Bare names: nothing says which is whose.
    if forms.is_empty() { vec![driver(Of(|of| of.nic.to_owned()), None)] } else { forms }
}

/// The driver of this name.
pub(crate) fn driver(name: &str) -> &'static Driver {
    DRIVERS.iter().find(|driver| driver.name == name).expect("in the list")
}
