//! Builds the receive path from raw facts.

use std::collections::{BTreeMap, BTreeSet};

use super::hardware::Hardware;
use super::interrupts::{self, Polls};
use super::listeners;
use super::stack::{self, Stack};
use super::topology::{DeviceAddress, Model, Nic, NicKind, RxQueue, TxQueue};
use crate::sample::{Inventory, RawIrq, RawNic, RawQueue, pci_function};
use crate::units::{Direction, IrqId};

impl Model {
    /// The schema of this version.
    pub const SCHEMA: &'static str = "rxlab.model/2";

    /// The receive path of `inventory`.
    pub fn new(inventory: &Inventory) -> Self {
        let mut nics = nics(inventory);
        stack::place(
            &mut nics,
            inventory.links.known().map(Vec::as_slice).unwrap_or_default(),
            inventory.namespaces.known().map(|seen| seen.others.as_slice()).unwrap_or_default(),
        );
        Self {
            schema: Self::SCHEMA.to_owned(),
            identity: inventory.identity.clone(),
            cpus: inventory.cpus.known().cloned().unwrap_or_default(),
            nics,
            rps_sock_flow_entries: inventory.rps_sock_flow_entries.clone(),
            irqbalance: inventory.irqbalance.clone(),
            settings: inventory.settings.clone(),
            listeners: inventory.listeners.clone().map(|raw| listeners::group(&raw)),
            namespaces: inventory.namespaces.clone().and_then(stack::namespaces),
            all_namespaces_seen: inventory.namespaces.clone().and_then(|namespaces| namespaces.all_seen),
        }
    }
}

fn nics(inventory: &Inventory) -> Vec<Nic> {
    let irqs = inventory.irqs.known().map(Vec::as_slice).unwrap_or_default();
    let polls = Polls::new(inventory);
    let raw = || inventory.nics.known().into_iter().flatten();
    let listed: BTreeSet<IrqId> = raw().flat_map(|raw| raw.msi_irqs.known()).flatten().copied().collect();
    let mut nics: Vec<Nic> = raw().map(|raw| nic(raw, irqs, &listed, &polls)).collect();
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

/// `listed` are the interrupts of all MSI lists.
fn nic(raw: &RawNic, irqs: &[RawIrq], listed: &BTreeSet<IrqId>, polls: &Polls<'_>) -> Nic {
    let path = raw.device_path.known().map(String::as_str);
    let kind = match path {
        _ if raw.name.as_str() == "lo" => NicKind::Loopback,
        Some(path) if !path.contains("/virtual/") => NicKind::Device,
        _ => NicKind::Virtual,
    };
    let queues = raw.queues.known().map(Vec::as_slice).unwrap_or_default();
    let of = |direction| queues.iter().filter(move |queue: &&RawQueue| queue.id.direction == direction);
    let mut rx: Vec<RxQueue> = of(Direction::Rx)
        .map(|queue| RxQueue {
            index: queue.id.index,
            rps_cpus: queue.rps_cpus.clone(),
            rps_flow_cnt: queue.rps_flow_cnt.clone(),
            irqs: Vec::new(),
            channel_cpu: raw.vmbus_cpus.get(&queue.id.index).copied(),
            napi: raw.ifindex.known().and_then(|ifindex| polls.napi(*ifindex, queue.id.index)),
        })
        .collect();
    let (other_irqs, contradictions) = match kind {
        NicKind::Device => interrupts::attach(&mut rx, raw, path, irqs, listed),
        NicKind::Virtual | NicKind::Loopback => (Vec::new(), Vec::new()),
    };
    Nic {
        name: raw.name.clone(),
        address: address(raw, path),
        kind,
        driver: raw.driver.known().cloned(),
        node: raw.numa_node.known().and_then(|node| u32::try_from(*node).ok()),
        up: raw.operstate.known().is_some_and(|state| state != "down"),
        rx,
        tx: of(Direction::Tx)
            .map(|queue| TxQueue {
                index: queue.id.index,
                xps_cpus: queue.xps_cpus.clone(),
                xps_by_rxq: queue.xps_by_rxq.clone(),
            })
            .collect(),
        other_irqs,
        hardware: Hardware::new(raw),
        napi: raw.napi.clone(),
        stack: Stack::default(),
        contradictions,
    }
}

fn address(raw: &RawNic, path: Option<&str>) -> DeviceAddress {
    let physical = path.filter(|path| !path.contains("/virtual/"));
    let port = raw.dev_port.known().filter(|port| **port > 0);
    match (physical.and_then(pci_function), physical) {
        (Some(function), _) => {
            let port = port.map_or_else(String::new, |port| format!("/port-{port}"));
            DeviceAddress(format!("pci:{function}{port}"))
        }
        // Not PCI: the device path without the interface's name, which may change.
        (None, Some(path)) => {
            let device = path.split("/net/").next().unwrap_or(path);
            DeviceAddress(format!("dev:{}", device.trim_start_matches("../")))
        }
        (None, None) => DeviceAddress(format!("virtual:{}", raw.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::{Model, NicKind};
    use crate::host::RecordedHost;
    use crate::model::{Function, Irq};
    use crate::sample::{Inventory, Scope};
    use crate::units::{CpuId, Fact, IrqId, Need};

    fn host() -> RecordedHost {
        let device = "../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth0";
        RecordedHost::new()
            .with("sys/devices/system/cpu/online", "0-1\n")
            .with("sys/devices/system/cpu/present", "0-2\n")
            .with("sys/devices/system/cpu/isolated", "1\n")
            .with("sys/devices/system/cpu/cpu0/topology/core_id", "0\n")
            .with_link("sys/devices/system/cpu/cpu0/node0", "../../node/node0")
            .with_link("sys/class/net/eth0", device)
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
        let several = " 37: 0 0 PCI-MSIX 0-edge eth0\n 38: 7 0 PCI-MSIX 1-edge eth0-rx-0\n";
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
}
