//! The receive path of one machine at one moment: NIC -> queue -> IRQ -> CPU -> RPS and RFS.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::hardware::Hardware;
use super::listeners::Listener;
use super::stack::{NetNamespace, Stack};
use crate::sample::{Irqbalance, Settings};
use crate::units::{CpuId, CpuMask, Fact, IrqId, NicName, QueueId};

/// Which machine and which boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Identity {
    /// `/proc/sys/kernel/hostname`.
    pub hostname: String,
    /// `/proc/sys/kernel/osrelease`.
    pub kernel: String,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
}

/// A machine's receive path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Model {
    /// `rxlab.model/2`.
    pub schema: String,
    /// Which machine.
    pub identity: Identity,
    /// Every present CPU, by number.
    pub cpus: Vec<Cpu>,
    /// Every interface of the network namespace looked at, by name; `lo` too.
    pub nics: Vec<Nic>,
    /// `net.core.rps_sock_flow_entries`: size of the global RFS table, 0 = RFS off.
    pub rps_sock_flow_entries: Fact<u32>,
    /// `irqbalance`, when it runs; that it does not is known only where all processes are visible.
    pub irqbalance: Fact<Option<Irqbalance>>,
    /// Settings of the kernel.
    pub settings: Settings,
    /// Listening sockets of the network namespace looked at, by transport, port and address.
    pub listeners: Fact<Vec<Listener>>,
    /// Network namespaces that processes live in, other than the one looked at. Denied when none was seen
    /// and not every process could be asked.
    pub namespaces: Fact<Vec<NetNamespace>>,
    /// Whether every process of the machine could be asked for its namespace; if not, there may be more.
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

    /// CPUs that the scheduler gives to any program: online, and not set apart.
    pub fn scheduled(&self) -> CpuMask {
        self.online().difference(&self.set_apart())
    }

    /// CPUs that may take receive work: those that nobody has taken out. The kernel drops CPUs of `isolcpus` and
    /// `nohz_full` from RPS masks without a word (`rps_cpumask_housekeeping`); those of another cpuset partition
    /// are somebody else's.
    pub fn usable(&self) -> CpuMask {
        let scheduled = self.scheduled();
        let usable = match &self.settings.nohz_full {
            Fact::Known(quiet) => scheduled.difference(quiet),
            _ => scheduled,
        };
        match &self.settings.cpuset {
            // Nobody's root has no CPUs.
            Fact::Known(own) if !own.is_empty() => usable.intersection(own),
            _ => usable,
        }
    }

    /// The hyper-threads of the cores that these CPUs are of, themselves included where they are known.
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

/// One logical CPU and who shares what with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cpu {
    /// Its number.
    pub id: CpuId,
    /// Whether it runs.
    pub online: bool,
    /// Listed in `/sys/devices/system/cpu/isolated`.
    pub isolated: bool,
    /// `topology/core_id`; unique only within a package.
    pub core: Option<u32>,
    /// `topology/physical_package_id`.
    pub package: Option<u32>,
    /// Hyper-threads of the same core, itself included; empty when unknown.
    pub siblings: CpuMask,
    /// CPUs that share its last-level cache, itself included; empty when unknown.
    pub l3: CpuMask,
    /// NUMA node; `None` when the kernel shows none.
    pub node: Option<u32>,
}

/// A device identity that survives renames and reboots: `pci:0000:00:03.0`, with `/port-1` and so on for
/// the further ports of one function, or `virtual:veth0` for what has no bus address. No two interfaces
/// of a machine have the same. `process:812@5137` is a process by its number and its start.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct DeviceAddress(pub String);

impl DeviceAddress {
    /// That of a process: its number may be another one's later in the same boot, but not with the same start (in
    /// clock ticks since boot).
    pub fn of_process(pid: u32, start: u64) -> Self {
        Self(format!("process:{pid}@{start}"))
    }

    /// Whether it is that of an interface without hardware, which takes its values with it when it
    /// goes.
    pub fn is_virtual(&self) -> bool {
        self.0.starts_with("virtual:")
    }
}

impl fmt::Display for DeviceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What an interface is, as far as steering cares.
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
    /// Its name now.
    pub name: NicName,
    /// Its lasting identity.
    pub address: DeviceAddress,
    /// What it is.
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
    /// What device and driver have.
    pub hardware: Hardware,
    /// How its NAPI instances work.
    pub napi: NapiSettings,
    /// Its place among the other interfaces.
    pub stack: Stack,
    /// Where two sources say different things of one queue.
    pub contradictions: Vec<Contradiction>,
}

impl Nic {
    /// An interface of which nothing but its name, address and kind is known yet.
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
    /// The NAPI instance that polls the queue, as far as the kernel says.
    pub napi: Option<Napi>,
    /// The CPU to which the hypervisor signals this queue's packets, for hv_netvsc: its channels have no
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
    /// Whether `xps_rxqs` names receive queues: their flows are sent through this queue, whatever CPU sends them.
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
    /// Where it may go (`smp_affinity_list`). Can be pending: not the truth about placement.
    pub affinity: Fact<CpuMask>,
    /// Where it goes (`effective_affinity_list`).
    pub effective: Fact<CpuMask>,
    /// How it is known to be this device's and this queue's.
    pub source: Source,
}

impl Irq {
    /// Whether a new affinity has not taken effect: that takes the next interrupt.
    pub fn is_pending(&self) -> bool {
        let (Some(may), Some(goes)) = (self.affinity.known(), self.effective.known()) else { return false };
        !goes.is_empty() && may.intersection(goes).is_empty()
    }
}

/// How an interrupt is known to belong to a device and a queue, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The kernel says it: netdev netlink, queue -> NAPI -> interrupt.
    Netlink,
    /// The device's MSI list has it, and its action name tells the queue.
    MsiName,
    /// Its action name carries the device's name and tells the queue; no MSI list has it.
    #[default]
    Name,
}

/// The NAPI instance of a queue, from netdev netlink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Napi {
    /// Its number.
    pub id: u32,
    /// Its interrupt, where the driver told the kernel.
    pub irq: Option<IrqId>,
    /// Its kernel thread, when NAPI is threaded.
    pub thread: Option<u32>,
}

/// How the NAPI instances of an interface work. `NotAsked` of virtual interfaces that have none, unless all
/// about one was asked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NapiSettings {
    /// `threaded`: polled by kernel threads and not in softirq.
    pub threaded: Fact<bool>,
    /// `napi_defer_hard_irqs`: empty polls before interrupts are switched on again.
    pub defer_hard_irqs: Fact<u32>,
    /// `gro_flush_timeout`, nanoseconds.
    pub gro_flush_timeout_ns: Fact<u64>,
}

/// Two sources that say different things of one queue. The stronger one is believed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Contradiction {
    /// Which queue.
    pub queue: QueueId,
    /// What both speak of, such as `IRQ`.
    pub what: String,
    /// The source that is believed and what it says: `netlink: 41`.
    pub believed: String,
    /// The other one: `name eth0-TxRx-0: 42`.
    pub other: String,
}
