//! Interfaces in sysfs.

use rxlab_base::units::CpuMask;
use rxlab_sys::{Cause, RecordedHost};

use super::super::drivers::Bus;
use super::super::truth::{Damage, Kernel, Nic, Truth};
use super::{irqs, mask};

pub(super) fn render(host: RecordedHost, truth: &Truth) -> RecordedHost {
    let mut host = truth.nics.iter().fold(host, |host, nic| device(host, truth, nic));
    let uppers = truth.uppers.iter().map(|upper| (upper.name.as_str(), upper.ifindex));
    let veths = truth.veths.iter().map(|(name, ifindex)| (name.as_str(), *ifindex));
    for (name, ifindex) in [("lo", 1)].into_iter().chain(uppers).chain(veths) {
        host = interface(host, truth, name, &format!("virtual/net/{name}"), ifindex, (1, 1));
    }
    host = ties(host, truth);
    let devices = truth.nics.iter().map(|nic| nic.name.clone());
    let uppers = truth.uppers.iter().map(|upper| upper.name.clone());
    let veths = truth.veths.iter().map(|(name, _)| name.clone());
    let others = ["lo", "bonding_masters"].map(str::to_owned);
    host.with_list("sys/class/net", devices.chain(uppers).chain(veths).chain(others).collect())
}

/// Kinds and members of interfaces and the parents of VLANs, which sysfs shows without netlink.
fn ties(mut host: RecordedHost, truth: &Truth) -> RecordedHost {
    for upper in &truth.uppers {
        let of = &upper.name;
        let kind = format!("DEVTYPE={}\nINTERFACE={of}\nIFINDEX={}\n", upper.kind, upper.ifindex);
        host = host.with(&format!("sys/class/net/{of}/uevent"), kind);
        for lower in &upper.lower {
            let base = format!("sys/class/net/{of}/lower_{lower}");
            host = host.with_link(&base, &format!("../{lower}"));
            if upper.kind != "vlan" {
                host = host.with_link(&format!("sys/class/net/{lower}/master"), &format!("../{of}"));
            }
        }
    }
    for (nic, master) in truth.nics.iter().filter_map(|nic| Some((nic, nic.master.as_ref()?))) {
        host = host.with_link(&format!("sys/class/net/{}/master", nic.name), &format!("../{master}"));
    }
    host
}

/// Path of a device below `/sys/devices`.
fn path(nic: &Nic) -> String {
    let device = nic.driver.bus.device(nic.number, &nic.function);
    match nic.driver.bus {
        Bus::Pci => format!("pci0000:00/{device}"),
        Bus::Virtio => format!("pci0000:00/{}/{device}", nic.function),
        Bus::Vmbus => format!("LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/{device}"),
        Bus::Platform => format!("platform/soc/{device}"),
        Bus::Vio => format!("vio/{device}"),
        Bus::Xen | Bus::XenHost => device,
    }
}

fn device(host: RecordedHost, truth: &Truth, nic: &Nic) -> RecordedHost {
    let base = format!("sys/class/net/{}", nic.name);
    let at = format!("{}/net/{}", path(nic), nic.name);
    // mlx5_core had a second set of queues for AF_XDP until 6.0.
    let surplus = nic.driver.name == "mlx5_core" && truth.kernel == Kernel::V5_15;
    let shown = nic.rx.len() * if surplus { 2 } else { 1 };
    let driver = if nic.driver.bus == Bus::XenHost { "vif" } else { nic.driver.name };
    let mut host = interface(host, truth, &nic.name, &at, nic.ifindex, (shown, nic.tx.len()))
        .with_link(&format!("{base}/device/driver"), &format!("../../../bus/drivers/{driver}"))
        .with(&format!("{base}/speed"), "25000\n");
    for (index, queue) in nic.rx.iter().enumerate() {
        let path = |file: &str| format!("{base}/queues/rx-{index}/{file}");
        // The kernel reads no mask but the first: any other value means nothing.
        let rps = match nic.is_recorded() || index == 0 {
            true => queue.rps.clone(),
            false if queue.rps.is_empty() => truth.online(),
            false => CpuMask::new(),
        };
        host = host
            .with(&path("rps_cpus"), mask(truth, &rps))
            .with(&path("rps_flow_cnt"), format!("{}\n", queue.flows));
        if index == 0 && truth.damage == Damage::MaskDenied {
            host = host.with_failure(&path("rps_cpus"), Cause::Denied);
        }
        if let Some(cpu) = queue.signal {
            // The bus numbers channels in no order of queues.
            let channel = format!("{base}/device/channels/{}", 400 - index);
            host = host
                .with(&format!("{channel}/cpu"), format!("{cpu}\n"))
                .with(&format!("{channel}/subchannel_id"), format!("{index}\n"));
        }
    }
    // The kernel answers ENOENT for the only queue of a device.
    for (index, queue) in nic.tx.iter().enumerate().filter(|_| nic.tx.len() > 1) {
        let path = |file: &str| format!("{base}/queues/tx-{index}/{file}");
        host = host.with(&path("xps_cpus"), mask(truth, &queue.xps)).with(&path("xps_rxqs"), "0\n");
    }
    let pci = format!("sys/bus/pci/devices/{}", nic.function);
    if matches!(nic.driver.bus, Bus::Pci | Bus::Virtio) && nic.is_listed {
        let node = nic.node.map_or("-1".to_owned(), |node| node.to_string());
        host = host.with(&format!("{pci}/numa_node"), format!("{node}\n"));
        let ports = truth.nics.iter().filter(|other| other.function == nic.function);
        let listed = ports.flat_map(|port| &port.irqs).filter(|irq| !irqs::is_of_half(nic, irq));
        let numbers = listed.map(|irq| irq.number.to_string()).collect();
        host = host.with_list(&format!("{pci}/msi_irqs"), numbers);
    }
    if let (Some(half), Some(node)) = (&nic.half, nic.half_node) {
        host = host.with(&format!("sys/bus/pci/devices/{half}/numa_node"), format!("{node}\n"));
    }
    if nic.driver.is_virtual && nic.number.is_multiple_of(2) {
        host = host.with_link(&format!("{pci}/physfn"), "../0000:0f:00.0");
    }
    host
}

/// Files that every interface has; `queues` are those in sysfs, receive and transmit.
fn interface(
    host: RecordedHost,
    truth: &Truth,
    name: &str,
    at: &str,
    ifindex: u32,
    queues: (usize, usize),
) -> RecordedHost {
    let base = format!("sys/class/net/{name}");
    let mut host = host
        .with_link(&base, &format!("../../devices/{at}"))
        .with(&format!("{base}/ifindex"), format!("{ifindex}\n"))
        .with(&format!("{base}/operstate"), if name == "lo" { "unknown\n" } else { "up\n" })
        .with(&format!("{base}/dev_port"), "0\n")
        .with(&format!("{base}/threaded"), "0\n")
        .with(&format!("{base}/napi_defer_hard_irqs"), "0\n")
        .with(&format!("{base}/gro_flush_timeout"), "0\n");
    for queue in 0..queues.0 {
        let key = (name.to_owned(), u32::try_from(queue).expect("few"));
        let path = |file: &str| format!("{base}/queues/rx-{queue}/{file}");
        let cpus = truth.masks.get(&key).cloned().unwrap_or_default();
        let flows = truth.flows.get(&key).unwrap_or(&0);
        host = host
            .with(&path("rps_cpus"), mask(truth, &cpus))
            .with(&path("rps_flow_cnt"), format!("{flows}\n"));
    }
    for queue in 0..queues.1 {
        host = host.with(&format!("{base}/queues/tx-{queue}/traffic_class"), "0\n");
    }
    host
}
