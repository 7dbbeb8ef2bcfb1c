//! The receive path of one machine at one moment: NIC -> queue -> IRQ -> CPU -> RPS and RFS.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::address::DeviceAddress;
use super::interrupts::{self, Others, Polls};
use super::listeners::{self, Listener};
use super::stack::{self, Stack};
use crate::constraints;
use crate::drivers::{self, Driver, Kind};
use crate::sample::{
    Cpu, Function, Hardware, Identity, Inventory, Irq, Irqbalance, NapiSettings, NetNamespace, RawNic,
    RxQueue, Settings, TxQueue, pci_function,
};
use rxlab_base::parse::Xdp;
use rxlab_base::units::{CpuId, CpuMask, Fact, IrqId, NicName, QueueId, find_by_name};

/// A machine's receive path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Model {
    /// `rxlab.model/2`.
    pub schema: String,
    /// The machine.
    pub identity: Identity,
    /// Every present CPU, by number.
    pub cpus: Vec<Cpu>,
    /// The reason that the CPUs are unknown, if so: then `cpus` is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_cpus: Option<String>,
    /// Every interface of the sampled network namespace, by name, including `lo`.
    pub nics: Vec<Nic>,
    /// Interfaces whose names are not UTF-8, escaped (`eth\xff`): nothing else is known about them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable_nics: Vec<String>,
    /// Known if the interrupts of devices could be read: without them, none is attached to any queue.
    #[serde(default)]
    pub interrupts: Fact<()>,
    /// Known if the kernel listed queues and NAPIs: without them, no queue has a NAPI or a thread.
    #[serde(default)]
    pub napis: Fact<()>,
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
    /// The schema of this version.
    pub const SCHEMA: &'static str = "rxlab.model/2";

    /// The receive path of `inventory`.
    pub fn new(inventory: &Inventory) -> Self {
        let mut nics = nics(inventory);
        stack::place(
            &mut nics,
            inventory.links.known().map(Vec::as_slice).unwrap_or_default(),
            inventory.namespaces.known().map(|seen| &seen.by_id).unwrap_or(&BTreeMap::new()),
        );
        Self {
            schema: Self::SCHEMA.to_owned(),
            identity: inventory.identity.clone(),
            cpus: inventory.cpus.known().cloned().unwrap_or_default(),
            unknown_cpus: match &inventory.cpus {
                Fact::Broken(why) => Some(why.clone()),
                _ => None,
            },
            nics,
            unreadable_nics: inventory.unreadable_nics.clone(),
            interrupts: inventory.irqs.clone().map(|_| ()),
            napis: inventory.queues.clone().and_then(|_| inventory.napis.clone().map(|_| ())),
            rps_sock_flow_entries: inventory.rps_sock_flow_entries.clone(),
            irqbalance: inventory.irqbalance.clone(),
            settings: inventory.settings.clone(),
            listeners: inventory.listeners.clone().map(|raw| listeners::group(&raw)),
            namespaces: inventory.namespaces.clone().and_then(stack::namespaces),
            all_namespaces_seen: inventory.namespaces.clone().and_then(|namespaces| namespaces.all_seen),
        }
    }

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

    /// CPUs that interrupts were assigned to at boot (`irqaffinity=`): none by a list of all that are online, which is no choice.
    pub fn assigned_at_boot(&self) -> CpuMask {
        let named = self.settings.irqaffinity.known();
        let some = named.filter(|named| !self.online().difference(named).is_empty());
        some.cloned().unwrap_or_default()
    }

    /// CPUs that may take receive work, by the list of [`crate::constraints`].
    pub fn usable(&self) -> CpuMask {
        constraints::usable(self)
    }

    /// All hyper-threads of these CPUs' cores, including the CPUs themselves if their siblings are known.
    pub fn siblings(&self, cpus: &CpuMask) -> CpuMask {
        let of = cpus.iter().filter_map(|cpu| self.cpu(cpu));
        of.fold(CpuMask::new(), |all, cpu| all.union(&cpu.siblings))
    }

    /// The reason why the interrupts of an interface are not known, if they are not and it has some.
    pub fn unknown_interrupts(&self, nic: &Nic) -> Option<&Fact<()>> {
        (is_unknown(&self.interrupts) && nic.kind == NicKind::Device).then_some(&self.interrupts)
    }

    /// The reason why the NAPIs of queues are not known, if the kernel may have some.
    pub fn unknown_napis(&self) -> Option<&Fact<()>> {
        is_unknown(&self.napis).then_some(&self.napis)
    }

    /// The devices that carry the packets of an interface, through any number of steps: members of a bond, the
    /// parent of a VLAN, the virtual function below a paravirtual device. Without the interface itself. Of the two below
    /// a `net_failover`, the one in use: the paravirtual one stands by while the other is up. A virtual function that is down
    /// carries nothing: the paravirtual device itself receives.
    pub fn carriers(&self, nic: &Nic) -> Vec<&Nic> {
        let (mut found, mut open) = (BTreeSet::new(), vec![nic]);
        while let Some(next) = open.pop() {
            let below = next.stack.lower.iter().chain(&next.stack.physical).filter_map(|name| self.nic(name));
            let below = below.filter(|lower| lower.kind == NicKind::Device && lower.name != nic.name);
            let stands_in = next.hardware.function == Function::Paravirtual && !next.is_failover();
            let below: Vec<&Nic> = below.filter(|lower| lower.up || !stands_in).collect();
            let below = if next.is_failover() { in_use(below) } else { below };
            for lower in below {
                if found.insert(&lower.name) {
                    open.push(lower);
                }
            }
        }
        found.into_iter().filter_map(|name| self.nic(name)).collect()
    }

    /// One CPU by number.
    pub fn cpu(&self, id: CpuId) -> Option<&Cpu> {
        self.cpus.iter().find(|cpu| cpu.id == id)
    }

    /// One interface by name.
    pub fn nic(&self, name: &NicName) -> Option<&Nic> {
        find_by_name(&self.nics, |nic| &nic.name, name)
    }
}

/// True if a fact may exist and could not be read.
fn is_unknown(fact: &Fact<()>) -> bool {
    matches!(fact, Fact::Denied(_) | Fact::Broken(_))
}

/// The device of a `net_failover` that has its packets (net_failover_start_xmit): the primary while it is up, else the
/// standby.
fn in_use(below: Vec<&Nic>) -> Vec<&Nic> {
    let is_primary = |nic: &&&Nic| nic.up && nic.hardware.function != Function::Paravirtual;
    let is_standby = |nic: &&&Nic| nic.hardware.function == Function::Paravirtual;
    let one = below.iter().find(is_primary).or_else(|| below.iter().find(is_standby)).copied();
    one.map_or(below, |one| vec![one])
}

/// Kind of an interface, as far as steering cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NicKind {
    /// Has a device on a bus: it takes interrupts.
    Device,
    /// Virtual: veth, bridge, bond, tunnel, port of a switch. No interrupts of its own.
    Virtual,
    /// `lo`: receives inside the sender's system call; steering verdicts on it are refused.
    Loopback,
}

/// One network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Nic {
    /// Its current name.
    pub name: NicName,
    /// Its lasting identity.
    pub address: DeviceAddress,
    /// Its kind.
    pub kind: NicKind,
    /// Its number in netlink; `None` if it could not be read: then the kernel's queues and NAPIs are not found to be its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ifindex: Option<u32>,
    /// Driver name; `None` for virtual interfaces, which do not name theirs in sysfs.
    pub driver: Option<String>,
    /// NUMA node of the device; `None` = unknown (the kernel's -1), which is not node 0.
    pub node: Option<u32>,
    /// False if `operstate` is `down`, or `lowerlayerdown`: the other end, or what it stands on, is down.
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
    /// The XDP program that takes its packets first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xdp: Option<Xdp>,
    /// Contradictions between two sources on one queue.
    pub contradictions: Vec<Contradiction>,
}

impl Nic {
    /// The facts about its driver.
    pub fn driver_facts(&self) -> &'static Driver {
        drivers::facts(self.driver.as_deref())
    }

    /// False if its device chooses the queue by traffic class, stream or rule instead of by flow ([`Driver::spreads_flows`]).
    pub fn spreads_flows(&self) -> bool {
        let has_table = || self.hardware.rss.known().is_some_and(|rss| !rss.table.is_empty());
        self.driver_facts().spreads_flows || has_table()
    }

    /// The receive queues whose RPS mask and RFS table the kernel reads: only rx-0 if the driver does not report which queue a
    /// packet came from.
    pub fn steering_queues(&self) -> &[RxQueue] {
        if self.driver_facts().records_queue { &self.rx } else { &self.rx[..self.rx.len().min(1)] }
    }

    /// The node of a receive queue: of the function whose vector it has, if that is known, or else of the device. An interface
    /// may have queues on two functions (multi-PF).
    pub fn node_of(&self, queue: &RxQueue) -> Option<u32> {
        queue.irqs.iter().find_map(|irq| irq.node).or(self.node)
    }

    /// True if rx-0's RPS mask and RFS table apply to the packets of several queues.
    pub fn is_steered_by_first(&self) -> bool {
        self.steering_queues().len() < self.rx.len()
    }

    /// Gives every queue the RPS mask and the RFS table that apply to its packets: those of rx-0 if only these are read.
    pub fn apply_steering(&mut self) {
        if !self.is_steered_by_first() {
            return;
        }
        let (first, others) = self.rx.split_first_mut().expect("it has several");
        for queue in others {
            queue.rps_cpus.clone_from(&first.rps_cpus);
            queue.rps_flow_cnt.clone_from(&first.rps_flow_cnt);
        }
    }

    /// True for the master that `net_failover` makes of a paravirtual device and a virtual function. sysfs shows the device
    /// and the driver of the former for it too.
    fn is_failover(&self) -> bool {
        let driver = self.hardware.driver.known().map(|info| info.driver.as_str());
        drivers::facts(driver).kind == Kind::Failover
    }

    /// An interface of which only the name, address and kind are known yet.
    pub fn new(name: NicName, address: DeviceAddress, kind: NicKind) -> Self {
        Self {
            name,
            address,
            kind,
            ifindex: None,
            driver: None,
            node: None,
            up: true,
            rx: Vec::new(),
            tx: Vec::new(),
            other_irqs: Vec::new(),
            hardware: Hardware::default(),
            napi: NapiSettings::default(),
            stack: Stack::default(),
            xdp: None,
            contradictions: Vec::new(),
        }
    }
}

/// Two sources that contradict each other on one queue. The stronger one is believed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

fn nics(inventory: &Inventory) -> Vec<Nic> {
    let irqs = inventory.irqs.known().map(Vec::as_slice).unwrap_or_default();
    let polls = Polls::new(inventory);
    let raw = || inventory.nics.known().into_iter().flatten();
    let listed: BTreeSet<IrqId> = raw().flat_map(|raw| raw.msi_irqs.known()).flatten().copied().collect();
    // The packets of a switch's port come by the interrupts of the interface below it.
    let links = inventory.links.known().into_iter().flatten();
    let ports: BTreeSet<&NicName> =
        links.filter(|link| link.kind.as_deref() == Some("dsa")).map(|link| &link.name).collect();
    let mut functions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for raw in raw() {
        if let Some(function) = function(raw) {
            functions.entry(function).or_default().insert(raw.name.as_str());
        }
    }
    let spanning = interrupts::spanning(inventory, &functions.keys().copied().collect());
    functions.retain(|_, nics| nics.len() > 1);
    let misnamed = interrupts::misnamed(inventory);
    let nic = |raw: &RawNic| {
        let neighbours = function(raw).and_then(|function| functions.get(function));
        let is_in = |drivers: &BTreeSet<&str>| {
            raw.driver.known().is_some_and(|driver| drivers.contains(driver.as_str()))
        };
        let (may_span, are_misnamed) = (is_in(&spanning), is_in(&misnamed));
        let others = Others { listed: &listed, neighbours, may_span, are_misnamed };
        nic(raw, ports.contains(&raw.name), irqs, &others, &polls)
    };
    let mut nics: Vec<Nic> = raw().map(nic).collect();
    // One PCI function can have several interfaces without distinct ports (representors of a switch's
    // virtual functions). The journal could not distinguish two with one address.
    let mut users: BTreeMap<DeviceAddress, usize> = BTreeMap::new();
    for nic in &nics {
        *users.entry(nic.address.clone()).or_default() += 1;
    }
    let shared: Vec<bool> = nics.iter().map(|nic| users[&nic.address] > 1).collect();
    for (nic, _) in nics.iter_mut().zip(shared).filter(|(_, shared)| *shared) {
        nic.address = DeviceAddress(format!("{}/{}", nic.address, nic.name));
    }
    nics
}

fn function(nic: &RawNic) -> Option<&str> {
    nic.device_path.known().filter(|path| !path.contains("/virtual/")).and_then(|path| pci_function(path))
}

/// `is_port` is true for a port of a switch (DSA).
fn nic(raw: &RawNic, is_port: bool, irqs: &[Irq], others: &Others<'_>, polls: &Polls<'_>) -> Nic {
    let path = raw.device_path.known().map(String::as_str);
    let kind = match path {
        _ if raw.name.as_str() == "lo" => NicKind::Loopback,
        Some(path) if !path.contains("/virtual/") && !is_port => NicKind::Device,
        _ => NicKind::Virtual,
    };
    let mut rx = raw.rx.clone();
    for queue in &mut rx {
        let Some(ifindex) = raw.ifindex.known() else { continue };
        queue.napi = polls.napi(*ifindex, queue.index);
        queue.held_by = polls.holder(*ifindex, queue.index);
    }
    let (other_irqs, contradictions) = match kind {
        NicKind::Device => interrupts::attach(&mut rx, raw, path, irqs, others),
        NicKind::Virtual | NicKind::Loopback => (Vec::new(), Vec::new()),
    };
    let mut nic = Nic {
        ifindex: raw.ifindex.known().copied(),
        driver: raw.driver.known().cloned(),
        node: raw.numa_node.known().and_then(|node| u32::try_from(*node).ok()),
        up: raw.operstate.known().is_some_and(|state| !["down", "lowerlayerdown"].contains(&state.as_str())),
        rx,
        tx: raw.tx.clone(),
        other_irqs,
        hardware: raw.hardware.clone(),
        napi: raw.napi.clone(),
        contradictions,
        ..Nic::new(raw.name.clone(), DeviceAddress::of_nic(raw, path), kind)
    };
    nic.apply_steering();
    nic
}

#[cfg(test)]
mod tests {
    use super::{Model, NicKind};
    use crate::model::{Function, Irq};
    use crate::sample::{Inventory, Scope};
    use rxlab_base::units::{CpuId, Fact, IrqId, Need};
    use rxlab_sys::RecordedHost;

    fn host() -> RecordedHost {
        let device = "../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth0";
        RecordedHost::new()
            .with("sys/devices/system/cpu/online", "0-1\n")
            .with("sys/devices/system/cpu/present", "0-2\n")
            .with("sys/devices/system/cpu/isolated", "1\n")
            .with("sys/devices/system/cpu/cpu0/topology/core_id", "0\n")
            .with_link("sys/devices/system/cpu/cpu0/node0", "../../node/node0")
            .with_link("sys/class/net/eth0", device)
            .with_link("sys/class/net/eth0/device/driver", "../../../bus/virtio/drivers/virtio_net")
            .with("sys/class/net/eth0/operstate", "up\n")
            .with("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n")
            .with("sys/class/net/eth0/queues/rx-0/rps_flow_cnt", "x\n")
            .with("sys/class/net/eth0/queues/tx-0/traffic_class", "0\n")
            .with_link("sys/class/net/lo", "../../devices/virtual/net/lo")
            .with("sys/class/net/lo/operstate", "unknown\n")
            .with("sys/bus/pci/devices/0000:00:03.0/msi_irqs/37", "msix\n")
            .with("sys/bus/pci/devices/0000:00:03.0/msi_irqs/38", "msix\n")
            .with("sys/bus/pci/devices/0000:00:03.0/numa_node", "-1\n")
            .with("proc/irq/38/smp_affinity_list", "0-1\n")
            .with("proc/irq/38/effective_affinity_list", "1\n")
            .with(
                "proc/interrupts",
                "  CPU0 CPU1\n 37: 0 0 PCI-MSIX 0-edge virtio2-config\n 38: 7 360 PCI-MSIX 1-edge virtio2-input.0\n 43: 1 0 PCI-MSIX 0-edge virtio3-input.0\n",
            )
    }

    #[test]
    fn queue_to_interrupt_to_cpu() {
        let model = Model::new(&Inventory::take(&host(), Scope::All));
        let nic = model.nic(&"eth0".parse().expect("a name")).expect("there");
        assert_eq!((nic.kind, nic.address.0.as_str()), (NicKind::Device, "pci:0000:00:03.0"));
        assert_eq!(nic.node, None, "-1 is unknown, not node 0");
        assert_eq!(nic.rx[0].irqs.len(), 1, "virtio3 is another device");
        assert_eq!(nic.rx[0].irqs[0].number, IrqId(38));
        assert_eq!(nic.rx[0].irqs[0].effective.known().and_then(|mask| mask.first()), Some(CpuId(1)));
        assert_eq!(nic.other_irqs.len(), 1);
        assert!(matches!(&nic.rx[0].rps_flow_cnt, Fact::Broken(why) if why.contains("rps_flow_cnt")));
        assert_eq!(nic.tx[0].xps_cpus, Fact::Unsupported);
        assert_eq!(model.nics[1].kind, NicKind::Loopback);
    }

    /// Two ports of one function, and a third interface without a port of its own: undo would have
    /// mistaken the first for any of them.
    #[test]
    fn no_two_interfaces_share_an_address() {
        let mut host = RecordedHost::new();
        for (name, port) in [("a0", "0"), ("a1", "1"), ("a2", "0")] {
            let base = format!("sys/class/net/{name}");
            host = host
                .with_link(&base, &format!("../../devices/pci0000:00/0000:00:03.0/net/{name}"))
                .with(&format!("{base}/dev_port"), format!("{port}\n"));
        }
        let model = Model::new(&Inventory::take(&host, Scope::All));
        let addresses: Vec<&str> = model.nics.iter().map(|nic| nic.address.0.as_str()).collect();
        assert_eq!(addresses, ["pci:0000:00:03.0/a0", "pci:0000:00:03.0/port-1", "pci:0000:00:03.0/a2"]);
    }

    /// Intel's drivers give the link state interrupt the interface's bare name, next to those of the
    /// queues.
    #[test]
    fn a_bare_name_is_a_queue_only_when_it_is_the_only_one() {
        let with = |interrupts: &str| {
            let host = host().with("proc/interrupts", format!("  CPU0 CPU1\n{interrupts}"));
            let model = Model::new(&Inventory::take(&host, Scope::All));
            let numbers = |irqs: &[Irq]| irqs.iter().map(|irq| irq.number.0).collect::<Vec<_>>();
            (numbers(&model.nics[0].rx[0].irqs), numbers(&model.nics[0].other_irqs))
        };
        assert_eq!(with(" 37: 7 0 PCI-MSI 1-edge eth0\n"), (vec![37], vec![]));
        let several = " 37: 0 0 PCI-MSIX 0-edge eth0\n 38: 7 0 PCI-MSIX 1-edge virtio2-input.0\n";
        assert_eq!(with(several), (vec![38], vec![37]));
    }

    /// Synthetic: no Hyper-V machine is at hand.
    #[test]
    fn a_queue_of_hyper_v_is_where_its_channel_is() {
        let base = "sys/class/net/eth0";
        let host = RecordedHost::new()
            .with_link(base, "../../devices/LNXSYSTM:00/VMBUS:00/f8615163/net/eth0")
            .with_link(&format!("{base}/device/driver"), "../../../bus/vmbus/drivers/hv_netvsc")
            .with(&format!("{base}/device/channels/9/subchannel_id"), "1\n")
            .with(&format!("{base}/device/channels/9/cpu"), "3\n")
            .with(&format!("{base}/queues/rx-0/rps_cpus"), "0\n")
            .with(&format!("{base}/queues/rx-1/rps_cpus"), "0\n");
        let nic = Model::new(&Inventory::take(&host, Scope::All)).nics.remove(0);
        assert_eq!(nic.rx.iter().map(|rx| rx.channel_cpu).collect::<Vec<_>>(), [None, Some(CpuId(3))]);
        assert_eq!(nic.hardware.function, Function::Paravirtual);
    }

    /// Azure takes the virtual function away for maintenance: the packets come through VMBus again.
    #[test]
    fn a_virtual_function_that_is_down_carries_nothing() {
        let carriers = |up: bool| {
            let mut model = crate::sketch::Sketch::new(2).device("eth0", &[0]).device("vf0", &[1]).build().0;
            model.nics[0].hardware.function = Function::Paravirtual;
            model.nics[0].stack.lower = vec![model.nics[1].name.clone()];
            model.nics[1].up = up;
            model.carriers(&model.nics[0]).len()
        };
        assert_eq!((carriers(true), carriers(false)), (1, 0));
    }

    #[test]
    fn cpus_online_isolated_and_absent_facts() {
        let model = Model::new(&Inventory::take(&host(), Scope::All));
        assert_eq!(model.online().to_string(), "0-1");
        assert_eq!(model.isolated().to_string(), "1");
        assert_eq!(model.cpus.len(), 3);
        assert_eq!((model.cpus[0].core, model.cpus[0].node), (Some(0), Some(0)));
        assert_eq!((model.cpus[1].core, model.cpus[1].node), (None, None));
        assert_eq!(model.rps_sock_flow_entries, Fact::Unsupported);
        assert_eq!(model.irqbalance, Fact::Denied(Need::AllProcesses), "no processes are visible");
    }

    /// ixgbevf, field case C, calls no skb_record_rx_queue: get_rps_cpu reads rx-0's mask and table for all packets.
    #[test]
    fn only_the_first_mask_counts_where_packets_name_no_queue() {
        let driver = |name: &str| {
            let set = |host: RecordedHost, (queue, mask, flows): (u32, &str, &str)| {
                let path = format!("sys/class/net/eth0/queues/rx-{queue}");
                host.with(&format!("{path}/rps_cpus"), mask).with(&format!("{path}/rps_flow_cnt"), flows)
            };
            let host = host().with_link("sys/class/net/eth0/device/driver", &format!("../drivers/{name}"));
            let host = [(0, "1\n", "2048\n"), (1, "2\n", "0\n")].into_iter().fold(host, set);
            let model = Model::new(&Inventory::take(&host, Scope::All));
            let queues = model.nics[0].rx.iter();
            queues.map(|queue| (queue.rps_cpus.clone(), queue.rps_flow_cnt.clone())).collect::<Vec<_>>()
        };
        let (first, second) = (
            (Fact::Known(CpuId(0).into()), Fact::Known(2048)),
            (Fact::Known(CpuId(1).into()), Fact::Known(0)),
        );
        assert_eq!(driver("ixgbevf"), [first.clone(), first.clone()]);
        assert_eq!(driver("ixgbe"), [first.clone(), second.clone()]);
        assert_eq!(driver("no-such-driver"), [first, second]);
    }
}
