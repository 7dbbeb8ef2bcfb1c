//! Machines composed from the sources of drivers, by their `request_irq` and not by the rows of the table: which interrupt is
//! shown for which receive queue.

use crate::model::Model;
use crate::sample::{Inventory, Scope, pci_function};
use rxlab_sys::RecordedHost;

/// A device: its driver, its path below `/sys/devices`, its receive queues, whether its function has a list of interrupts,
/// its interrupts from number 40 on, and those of the queues (0: unknown).
struct Machine {
    driver: &'static str,
    path: &'static str,
    queues: u32,
    is_listed: bool,
    interrupts: &'static [&'static str],
    shown: &'static [u32],
}

const PCI: &str = "pci0000:00/0000:04:00.0/net/eth0";

/// A PCI function with a list.
const fn pci(
    driver: &'static str,
    queues: u32,
    interrupts: &'static [&'static str],
    shown: &'static [u32],
) -> Machine {
    Machine { driver, path: PCI, queues, is_listed: true, interrupts, shown }
}

/// A device elsewhere.
const fn on(
    path: &'static str,
    driver: &'static str,
    queues: u32,
    interrupts: &'static [&'static str],
    shown: &'static [u32],
) -> Machine {
    Machine { driver, path, queues, is_listed: false, interrupts, shown }
}

const MACHINES: &[Machine] = &[
    // Pairs of queues switched off: a vector for each.
    pci("igb", 2, &["eth0", "eth0-rx-0", "eth0-rx-1", "eth0-tx-0", "eth0-tx-1"], &[41, 42]),
    // Two vectors for four queues.
    pci("ixgbe", 4, &["eth0-TxRx-0", "eth0-TxRx-1", "eth0"], &[0, 0, 0, 0]),
    pci(
        "i40e",
        2,
        &["i40e-0000:04:00.0:misc", "i40e-eth0-TxRx-0", "i40e-eth0-TxRx-1", "i40e-0000:04:00.0:fdir-TxRx-0"],
        &[41, 42],
    ),
    pci(
        "ice",
        2,
        &[
            "ice-0000:04:00.0:misc",
            "ice-0000:04:00.0:ll_ts",
            "ice-eth0-TxRx-0",
            "ice-eth0-TxRx-1",
            "ice-0000:04:00.0:ctrl-TxRx-0",
        ],
        &[42, 43],
    ),
    // Vectors by number, of which the second sends only.
    pci(
        "idpf",
        2,
        &["idpf-0000:04:00.0-Mailbox-0", "idpf-eth0-TxRx-0", "idpf-eth0-Tx-1", "idpf-eth0-Rx-2"],
        &[41, 43],
    ),
    // The name of the interface is too long for more: -rx-0, -tx-0 and the link.
    on("pci0000:00/0000:04:00.0/net/enp134s0f0np0", "e1000e", 1, &["enp134s0f0np0"; 3], &[0]),
    // Cut at 15 characters: enp134s0f0-txrx-1 to -4.
    on(
        "pci0000:00/0000:04:00.0/net/enp134s0f0",
        "tg3",
        4,
        &["enp134s0f0-0", "enp134s0f0-txrx", "enp134s0f0-txrx", "enp134s0f0-txrx", "enp134s0f0-txrx"],
        &[0, 0, 0, 0],
    ),
    pci("tg3", 2, &["eth0-tx-0", "eth0-rx-1", "eth0-rx-2"], &[41, 42]),
    pci("bnx2", 2, &["eth0-0", "eth0-1"], &[40, 41]),
    pci("bnxt_en", 2, &["eth0-rx-0", "eth0-rx-1", "eth0-tx-2", "eth0-tx-3"], &[40, 41]),
    // A virtual function has no slow path.
    pci("bnx2x", 2, &["eth0-fp-0", "eth0-fp-1"], &[40, 41]),
    pci(
        "mlx5_core",
        2,
        &[
            "mlx5_async0@pci:0000:04:00.0",
            "mlx5_comp0@pci:0000:04:00.0",
            "mlx5_comp1@pci:0000:04:00.0",
            "mlx5_sf_comp0@pci:0000:04:00.0",
        ],
        &[41, 42],
    ),
    pci("mlx5_core", 2, &["mlx5_combined0@pci:0000:04:00.0"], &[40, 40]),
    pci("mlx4_core", 1, &["mlx4-async@pci:0000:04:00.0", "mlx4-1@0000:04:00.0"], &[0]),
    // One vector for all transmit queues.
    pci("vmxnet3", 2, &["eth0-tx-0", "eth0-rx-1", "eth0-rx-2", "eth0-event-3"], &[41, 42]),
    pci("ena", 2, &["ena-mgmnt@pci:0000:04:00.0", "eth0-Tx-Rx-0", "eth0-Tx-Rx-1"], &[41, 42]),
    pci("be2net", 2, &["eth0-q0", "eth0-q1"], &[40, 41]),
    // With the default queue; without the first interrupt, nothing says how many there are.
    pci("be2net", 5, &["eth0-q0", "eth0-q1", "eth0-q2", "eth0-q3"], &[40, 41, 42, 43, 40]),
    pci("be2net", 3, &["eth0-err", "eth0-q1", "eth0-q2"], &[0, 0, 0]),
    pci("enic", 2, &["eth0-rx-0", "eth0-rx-1", "eth0-tx-0", "eth0-err", "eth0-notify"], &[40, 41]),
    pci("qlcnic", 2, &["eth0-rx-0", "qlcnic", "eth0-tx-0"], &[0, 0]),
    pci("bna", 1, &["bna", "eth0 TXQ 0", "eth0 CQ 0", "eth0 CQ 1"], &[0]),
    // Two ports of one function: the first queues of both are on the first vectors, named after the second port.
    pci("cxgb4vf", 2, &["eth0-FWeventq", "eth0-0", "eth0-1", "eth0-3"], &[0, 0]),
    // eth0 is the second port, and eth1 is in another network namespace.
    pci("cxgb3", 2, &["cxgb3", "eth1-0", "eth1-1", "eth0-2", "eth0-3"], &[0, 0]),
    pci(
        "nicvf",
        2,
        &["eth0-rxtx-0", "eth0-rxtx-1", "eth0-rbdr-0", "eth0-qset-err-0", "NICVF Mbox"],
        &[40, 41],
    ),
    // More transmit queues than receive queues.
    pci(
        "rvu_nicpf",
        2,
        &["RVUPFAF Mbox", "eth0-qerr", "eth0-rxtx-0", "eth0-rxtx-1", "eth0-rxtx-2"],
        &[42, 43],
    ),
    pci("nfp", 2, &["eth0-exn", "eth0-lsc", "eth0-rxtx-0", "eth0-rxtx-1", "eth0-rxtx-2"], &[42, 43]),
    pci("octeon_ep", 2, &["eth0-epf_mbox_rint", "eth0-epf_oei_rint", "eth0-q0", "eth0-q1"], &[42, 43]),
    pci("fsl_enetc", 2, &["eth0-rxtx0", "eth0-rxtx1"], &[40, 41]),
    pci("funeth", 2, &["eth0-tx-0", "eth0-tx-1", "eth0-rx-0", "eth0-rx-1"], &[42, 43]),
    pci("sfc", 2, &["eth0-0", "eth0-1", "eth0-ptp"], &[40, 41]),
    pci(
        "ionic",
        2,
        &["ionic-0000:04:00.0-L0-adminq0", "ionic-eth0-L0-rx0", "ionic-eth0-L0-rx1", "ionic-eth0-L0-tx0"],
        &[41, 42],
    ),
    pci("lan743x", 4, &["lan743x"; 8], &[0, 0, 0, 0]),
    // The first interrupt is also that of the link: int0 has the bare name.
    pci("rtase", 1, &["eth0", "eth0_int1", "eth0_int2", "eth0_int3"], &[0]),
    // Radios have one receive queue, whatever receives.
    pci("iwlwifi", 1, &["iwlwifi:default_queue", "iwlwifi:queue_1", "iwlwifi:exception"], &[0]),
    pci("ath11k_pci", 1, &["bhi", "mhi", "mhi", "ce0", "ce1", "DP_EXT_IRQ", "DP_EXT_IRQ"], &[0]),
    pci("ath10k_pci", 1, &["ath10k_pci"], &[40]),
    pci("thunderbolt-net", 1, &["thunderbolt"; 4], &[0]),
    Machine {
        path: "pci0000:00/0000:04:00.0/virtio1/net/eth0",
        ..pci("virtio_net", 2, &["virtio1-config", "virtio1-virtqueues"], &[41, 41])
    },
    on("vif-1-0/net/vif1.0", "vif", 1, &["vif1.0-q0-tx", "vif1.0-q0-rx", "xen-netback-ctrl"], &[40]),
    on("vif-0/net/eth0", "vif", 2, &["vif0-q0-tx", "vif0-q0-rx", "vif0-q1-tx", "vif0-q1-rx"], &[41, 43]),
    on(
        "vio/30000003/net/env3",
        "ibmvnic",
        2,
        &[
            "ibmvnic-30000003",
            "ibmvnic-30000003-tx0",
            "ibmvnic-30000003-rx0",
            "ibmvnic-30000003-rx1",
            "ibmvnic-30000004-rx0",
        ],
        &[42, 43],
    ),
    on("vio/30000002/net/env2", "ibmveth", 1, &["env2"], &[40]),
    on(
        "ibmebus/lhea/port0/net/eth0",
        "ehea",
        2,
        &["ehea_neq", "eth0-aff", "eth0-queue0", "eth0-queue1"],
        &[42, 43],
    ),
    on(
        "platform/soc/f2000000.ethernet/net/eth0",
        "mvpp2",
        4,
        &["eth0", "eth0", "eth0", "eth0", "eth0", "eth1"],
        &[0, 0, 0, 0],
    ),
    on("platform/soc/30be0000.ethernet/net/eth0", "fec", 3, &["30be0000.ethernet"; 4], &[0, 0, 0]),
    on("platform/soc/48484000.switch/net/eth0", "cpsw-switch", 1, &["48484000.switch"; 3], &[0]),
    on(
        "platform/soc/e6800000.ethernet/net/eth0",
        "ravb",
        2,
        &[
            "e6800000.ethernet:ch22:multi",
            "e6800000.ethernet:ch24:emac",
            "e6800000.ethernet:ch0:rx_be",
            "e6800000.ethernet:ch1:rx_nc",
            "e6800000.ethernet:ch18:tx_be",
        ],
        &[42, 43],
    ),
    on(
        "platform/soc/46000000.ethernet/net/eth1",
        "am65-cpsw-nuss",
        2,
        &["46000000.ethernet-tx0", "46000000.ethernet-rx0", "46000000.ethernet-rx1", "46000000.ethernet"],
        &[41, 42],
    ),
    // Of eight channels, two are in use.
    on(
        "platform/2490000.ethernet/net/eth0",
        "nvethernet",
        2,
        &["eth0.common_irq", "eth0.rx2", "eth0.tx2", "eth0.rx3", "eth0.tx3"],
        &[41, 43],
    ),
    on(
        "platform/bus@0/6800000.ethernet/net/eth0",
        "nvethernet",
        4,
        &["eth0.common_irq", "eth0.vm0", "eth0.vm1", "eth1.vm0"],
        &[0, 0, 0, 0],
    ),
    on("platform/8001070000000.pip/net/eth0", "octeon_ethernet", 1, &["RML", "Ethernet"], &[0]),
    on("platform/soc/1f200000.ethernet/net/eth0", "xgene-enet", 1, &["eth0-rx-txc"], &[40]),
    on("platform/soc/ff0e0000.ethernet/net/eth0", "macb", 2, &["eth0, eth0"], &[40, 40]),
    // The second wakes the machine.
    on("platform/fe1c0000.ethernet/net/end1", "rk_gmac-dwmac", 2, &["end1", "end1"], &[40, 40]),
    on("platform/soc/fd580000.ethernet/net/eth0", "bcmgenet", 5, &["eth0", "eth0"], &[0; 5]),
    on(
        "platform/soc/80c000000.fsl-mc/dprc.1/dpni.1/net/eth1",
        "fsl_dpaa2_eth",
        1,
        &["dpio.1", "dpio.2", "dpni.1"],
        &[0],
    ),
    on(
        "platform/soc/1af4000.ethernet/net/eth0",
        "fsl_dpaa_mac",
        1,
        &["QMan portal 0", "QMan portal 1"],
        &[0],
    ),
    on("platform/a000000.wifi/net/wlan0", "ath10k_ahb", 1, &["ath10k_ahb", "ce0"], &[0]),
    on(
        "platform/soc/80c000000.fsl-mc/dprc.1/dpsw.0/net/sw0p0",
        "fsl_dpaa2_switch",
        1,
        &["dpio.1", "dpsw.0"],
        &[0],
    ),
    // The interrupt is that of errors if the DMA engine's driver receives.
    on(
        "platform/axi/a0040000.ethernet/net/eth0",
        "xilinx_axienet",
        1,
        &["eth0", "xilinx-dma-controller"],
        &[0],
    ),
    on("platform/axi/a0040000.ethernet/net/eth0", "xilinx_axienet", 1, &["eth0", "eth0", "eth0"], &[0]),
    on(
        "platform/soc/2188000.ethernet/net/eth0",
        "fec",
        1,
        &["2188000.ethernet", "2188000.ethernet-1:00"],
        &[40],
    ),
    on("platform/bus/80002000.eth/net/eth0", "bcm4908_enet", 1, &["enet", "tx"], &[0]),
    on("platform/soc/5c000000.ethernet/net/eth0", "davinci_emac", 1, &["eth0"; 4], &[0]),
    on("platform/ahb/19000000.eth/net/eth0", "ag71xx", 1, &["19000000.eth"], &[40]),
    on("platform/soc/28b0000.ethernet/net/eth0", "hip04-ether", 1, &["28b0000.ethernet"], &[40]),
    on("platform/soc/60000000.ethernet/net/eth0", "gmac-gemini", 1, &["eth0", "gmac0"], &[40]),
    on("platform/soc/65000000.ethernet/net/eth0", "ave", 1, &["eth0", "soc-glue"], &[40]),
    on("platform/MLNXBF17:00/net/oob_net0", "mlxbf_gige", 1, &["mlxbf_gige_error", "mlxbf_gige_rx"], &[0]),
    on("platform/soc@0/1e40000.ipa/net/rmnet_ipa0", "ipa", 1, &["ipa", "gsi"], &[0]),
    pci("forcedeth", 1, &["eth0-rx", "eth0-tx", "eth0-other"], &[40]),
    pci("netxen_nic", 4, &["eth0[0]", "eth0[1]", "eth0[2]", "eth0[3]"], &[0, 0, 0, 0]),
    pci("rocker", 1, &["rocker"; 4], &[0]),
    pci("cassini", 1, &["eth0"], &[40]),
    pci("via-velocity", 1, &["eth0"], &[40]),
    on("platform/soc/ff600000.usb/usb2/2-1/2-1:1.0/net/usb1", "cdc_ether", 1, &["xhci-hcd:usb1"], &[0]),
];

/// A device on a machine: its path below `/sys/devices`, its driver, its receive queues, the first and last interrupt of its
/// function's list, if that has one, and the interrupt of each queue, if that can be known.
pub(super) struct Device {
    pub(super) path: &'static str,
    pub(super) driver: &'static str,
    pub(super) queues: u32,
    pub(super) list: Option<(u32, u32)>,
    pub(super) irq: fn(u32) -> Option<u32>,
}

impl Device {
    /// The interface.
    pub(super) fn name(&self) -> &'static str {
        self.path.rsplit('/').next().expect("a name")
    }

    /// The host with its files in sysfs.
    pub(super) fn render(&self, host: RecordedHost, ifindex: u32) -> RecordedHost {
        let base = format!("sys/class/net/{}", self.name());
        let mut host = host
            .with_link(&base, &format!("../../devices/{}", self.path))
            .with(&format!("{base}/ifindex"), format!("{ifindex}\n"))
            .with(&format!("{base}/operstate"), "up\n");
        if !self.driver.is_empty() {
            let driver = format!("../../bus/drivers/{}", self.driver);
            host = host.with_link(&format!("{base}/device/driver"), &driver);
        }
        for queue in 0..self.queues {
            host = host.with(&format!("{base}/queues/rx-{queue}/rps_cpus"), "0\n");
        }
        let function = pci_function(self.path);
        for number in self.list.into_iter().flat_map(|(first, last)| first..=last) {
            let function = function.expect("a list is of a function");
            host = host.with(&format!("sys/bus/pci/devices/{function}/msi_irqs/{number}"), "msix\n");
        }
        host
    }

    /// The interrupts of each queue.
    pub(super) fn expected(&self) -> Vec<Vec<u32>> {
        (0..self.queues).map(|queue| (self.irq)(queue).into_iter().collect()).collect()
    }
}

/// The driver of two interfaces of one function, its interrupts from number 40 on, and those of the only queue of each.
type Ports = (&'static str, &'static [&'static str], [&'static [u32]; 2]);

/// Those of which the second has no interrupts of its own, or shares all.
const PORTS: &[Ports] = &[
    // A representor of a virtual function next to the physical one.
    ("ice", &["ice-0000:04:00.0:misc", "ice-eth0-TxRx-0"], [&[41], &[]]),
    ("nfp", &["eth0-exn", "eth0-rxtx-0"], [&[41], &[]]),
    ("sky2", &["sky2@pci:0000:04:00.0"], [&[40], &[40]]),
    ("mlxsw_spectrum", &["mlxsw_spectrum"], [&[40], &[40]]),
];

fn model(machine: &Machine) -> Model {
    let Machine { driver, path, queues, is_listed, interrupts, .. } = *machine;
    let mut table = "  CPU0\n".to_owned();
    let numbered = (40..).zip(interrupts);
    for (number, action) in numbered.clone() {
        table += &format!(" {number}: 0 GICv3 {number} Level {action}\n");
    }
    let last = numbered.last().map_or(40, |(number, _)| number);
    let device = Device { path, driver, queues, list: is_listed.then_some((40, last)), irq: |_| None };
    let host =
        RecordedHost::new().with("proc/sys/kernel/osrelease", "6.12.0\n").with("proc/interrupts", table);
    Model::new(&Inventory::take(&device.render(host, 4), Scope::All))
}

#[test]
fn interrupts_of_two_interfaces_of_a_function() {
    for (driver, interrupts, expected) in PORTS {
        let mut table = "  CPU0\n".to_owned();
        for (number, action) in (40..).zip(*interrupts) {
            table += &format!(" {number}: 0 GICv3 {number} Level {action}\n");
        }
        let host = RecordedHost::new().with("proc/interrupts", table);
        let paths = [PCI, "pci0000:00/0000:04:00.0/net/eth1"];
        let host = (4..).zip(paths).fold(host, |host, (index, path)| {
            let list = Some((40, 49));
            Device { path, driver, queues: 1, list, irq: |_| None }.render(host, index)
        });
        let model = Model::new(&Inventory::take(&host, Scope::All));
        let shown = model.nics.iter().map(|nic| nic.rx[0].irqs.iter().map(|irq| irq.number.0).collect());
        let shown: Vec<Vec<u32>> = shown.collect();
        assert_eq!(shown, expected, "{driver}");
    }
}

#[test]
fn interrupts_of_composed_machines() {
    let mut wrong = Vec::new();
    for machine in MACHINES {
        let model = model(machine);
        let shown: Vec<Vec<u32>> = model.nics[0]
            .rx
            .iter()
            .map(|queue| queue.irqs.iter().map(|irq| irq.number.0).collect())
            .collect();
        let expected: Vec<Vec<u32>> =
            machine.shown.iter().map(|irq| Some(*irq).filter(|irq| *irq > 0).into_iter().collect()).collect();
        if shown != expected {
            wrong.push(format!("{}: shown {shown:?}, are {expected:?}", machine.driver));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
