//! The receive path of one machine at one moment: NIC -> queue -> IRQ -> CPU -> RPS and RFS.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::hardware::Hardware;
use super::listeners::Listener;
use super::stack::{NetNamespace, Stack};
use crate::sample::{Cpu, Identity, Irqbalance, NapiSettings, Settings};
use crate::units::{CpuId, CpuMask, Fact, IrqId, NicName, QueueId};

/// A machine's receive path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Model {
    /// `rxlab.model/2`.
    pub schema: String,
    /// The machine.
    pub identity: Identity,
    /// Every present CPU, by number.
    pub cpus: Vec<Cpu>,
    /// Every interface of the sampled network namespace, by name, including `lo`.
    pub nics: Vec<Nic>,
    /// `net.core.rps_sock_flow_entries`: size of the global RFS table, 0 = RFS off.
    pub rps_sock_flow_entries: Fact<u32>,
    /// `irqbalance`, if it runs; its absence is known only if all processes are visible.
    pub irqbalance: Fact<Option<Irqbalance>>,
    /// Kernel settings.
    pub settings: Settings,
    /// Listening sockets of the sampled network namespace, by transport, port and address.
    pub listeners: Fact<Vec<Listener>>,
    /// Network namespaces of running processes, other than the sampled one. Denied if none was found and not
    /// every process could be asked.
    pub namespaces: Fact<Vec<NetNamespace>>,
    /// Known if every process of the machine could be asked for its namespace; otherwise there may be more.
    pub all_namespaces_seen: Fact<()>,
}

impl Model {
    /// CPUs that are online.
    pub fn online(&self) -> CpuMask {
        self.cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect()
    }

    /// CPUs taken from the scheduler at boot (`isolcpus`); the kernel drops them from RPS masks.
    pub fn isolated(&self) -> CpuMask {
        self.cpus.iter().filter(|cpu| cpu.isolated).map(|cpu| cpu.id).collect()
    }

    /// CPUs taken from the scheduler, at boot or by a partition of the control groups.
    pub fn set_apart(&self) -> CpuMask {
        match &self.settings.cpuset_isolated {
            Fact::Known(partitions) => self.isolated().union(partitions),
            _ => self.isolated(),
        }
    }

    /// CPUs that any program may run on: online, and not set apart.
    pub fn scheduled(&self) -> CpuMask {
        self.online().difference(&self.set_apart())
    }

    /// CPUs that may take receive work: those not reserved. The kernel silently drops CPUs of `isolcpus` and
    /// `nohz_full` from RPS masks (`rps_cpumask_housekeeping`); those of another cpuset partition are
    /// reserved for its processes.
    pub fn usable(&self) -> CpuMask {
        let scheduled = self.scheduled();
        let usable = match &self.settings.nohz_full {
            Fact::Known(quiet) => scheduled.difference(quiet),
            _ => scheduled,
        };
        match &self.settings.cpuset {
            // A root group always has CPUs.
            Fact::Known(own) if !own.is_empty() => usable.intersection(own),
            _ => usable,
        }
    }

    /// All hyper-threads of these CPUs' cores, including the CPUs themselves if their siblings are known.
    pub fn siblings(&self, cpus: &CpuMask) -> CpuMask {
        let of = cpus.iter().filter_map(|cpu| self.cpu(cpu));
        of.fold(CpuMask::new(), |all, cpu| all.union(&cpu.siblings))
    }

    /// One CPU by number.
    pub fn cpu(&self, id: CpuId) -> Option<&Cpu> {
        self.cpus.iter().find(|cpu| cpu.id == id)
    }

    /// One interface by name.
    pub fn nic(&self, name: &NicName) -> Option<&Nic> {
        self.nics.iter().find(|nic| nic.name == *name)
    }
}

/// A device identity that survives renames and reboots: `pci:0000:00:03.0`, with `/port-1` and so on for
/// further ports of one function, or `virtual:veth0` without a bus address. Unique among the interfaces of a
/// machine. `process:812@5137` is a process by its number and its start.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct DeviceAddress(pub String);

impl DeviceAddress {
    /// Identity of a process: its number may be reused in the same boot, but not with the same start (in
    /// clock ticks since boot).
    pub fn of_process(pid: u32, start: u64) -> Self {
        Self(format!("process:{pid}@{start}"))
    }

    /// True for an interface without hardware, whose values are lost when it is removed.
    pub fn is_virtual(&self) -> bool {
        self.0.starts_with("virtual:")
    }
}

impl fmt::Display for DeviceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Kind of an interface, as far as steering cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NicKind {
    /// Has a device on a bus: it takes interrupts.
    Device,
    /// Virtual: veth, bridge, bond, tunnel. No interrupts of its own.
    Virtual,
    /// `lo`: receives inside the sender's system call; steering verdicts on it are refused.
    Loopback,
}

/// One network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Nic {
    /// Its current name.
    pub name: NicName,
    /// Its lasting identity.
    pub address: DeviceAddress,
    /// Its kind.
    pub kind: NicKind,
    /// Driver name; `None` for virtual interfaces, which do not name theirs in sysfs.
    pub driver: Option<String>,
    /// NUMA node of the device; `None` = unknown (the kernel's -1), which is not node 0.
    pub node: Option<u32>,
    /// `operstate` is not `down`.
    pub up: bool,
    /// Receive queues, by index.
    pub rx: Vec<RxQueue>,
    /// Transmit queues, by index.
    pub tx: Vec<TxQueue>,
    /// Interrupts of the device that belong to no receive queue (config, transmit, mailbox).
    pub other_irqs: Vec<Irq>,
    /// Capabilities and settings of device and driver.
    pub hardware: Hardware,
    /// Settings of its NAPI instances.
    pub napi: NapiSettings,
    /// Its place among the other interfaces.
    pub stack: Stack,
    /// Contradictions between two sources on one queue.
    pub contradictions: Vec<Contradiction>,
}

impl Nic {
    /// An interface of which only the name, address and kind are known yet.
    pub fn new(name: NicName, address: DeviceAddress, kind: NicKind) -> Self {
        Self {
            name,
            address,
            kind,
            driver: None,
            node: None,
            up: true,
            rx: Vec::new(),
            tx: Vec::new(),
            other_irqs: Vec::new(),
            hardware: Hardware::default(),
            napi: NapiSettings::default(),
            stack: Stack::default(),
            contradictions: Vec::new(),
        }
    }
}

/// One receive queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RxQueue {
    /// N of `rx-N`.
    pub index: u32,
    /// CPUs that RPS hands packets of this queue to; empty = RPS off.
    pub rps_cpus: Fact<CpuMask>,
    /// Entries of this queue's RFS table; 0 = RFS off here.
    pub rps_flow_cnt: Fact<u32>,
    /// The queue's interrupts: one as a rule, none for virtual interfaces.
    pub irqs: Vec<Irq>,
    /// The NAPI instance that polls the queue, if the kernel reports it.
    pub napi: Option<Napi>,
    /// The CPU that the hypervisor signals for this queue's packets, for hv_netvsc: its channels have no
    /// numbered interrupts.
    pub channel_cpu: Option<CpuId>,
}

/// One transmit queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TxQueue {
    /// N of `tx-N`.
    pub index: u32,
    /// CPUs that send through this queue; `Unsupported` on one-queue devices (the kernel's ENOENT).
    pub xps_cpus: Fact<CpuMask>,
    /// True if `xps_rxqs` contains receive queues: their flows are sent through this queue, whatever CPU
    /// sends them.
    #[serde(default)]
    pub xps_by_rxq: Fact<bool>,
}

/// One interrupt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Irq {
    /// Its number in this boot.
    pub number: IrqId,
    /// The action name of `/proc/interrupts`, such as `virtio0-input.0`.
    pub action: String,
    /// CPUs it may go to (`smp_affinity_list`). May be pending: not necessarily its placement.
    pub affinity: Fact<CpuMask>,
    /// CPUs it goes to (`effective_affinity_list`).
    pub effective: Fact<CpuMask>,
    /// Source of its assignment to this device and queue.
    pub source: Source,
}

impl Irq {
    /// True if a new affinity is not effective yet: that takes the next interrupt.
    pub fn is_pending(&self) -> bool {
        let (Some(may), Some(goes)) = (self.affinity.known(), self.effective.known()) else { return false };
        !goes.is_empty() && may.intersection(goes).is_empty()
    }
}

/// Source of an interrupt's assignment to a device and a queue, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The kernel: netdev netlink, queue -> NAPI -> interrupt.
    Netlink,
    /// The device's MSI list contains it, and its action name identifies the queue.
    MsiName,
    /// Its action name contains the device's name and identifies the queue; it is in no MSI list.
    #[default]
    Name,
}

/// The NAPI instance of a queue, from netdev netlink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Napi {
    /// Its number.
    pub id: u32,
    /// Its interrupt, if the driver told the kernel.
    pub irq: Option<IrqId>,
    /// Its kernel thread, if NAPI is threaded.
    pub thread: Option<u32>,
}

/// Two sources that contradict each other on one queue. The stronger one is believed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Contradiction {
    /// The queue.
    pub queue: QueueId,
    /// The disputed property, such as `IRQ`.
    pub what: String,
    /// The believed source and its value: `netlink: 41`.
    pub believed: String,
    /// The other one: `name eth0-TxRx-0: 42`.
    pub other: String,
}
