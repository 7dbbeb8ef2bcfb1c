//! Machines that others published: the lines of their network interfaces in `/proc/interrupts`, and which interrupt is whose by
//! the source of the driver. CPUs are fewer than there, and counts are left out; where a report was cut, its numbers go on.

use super::composed::Device;
use crate::model::{Model, Nic};
use crate::sample::{Inventory, Scope};
use rxlab_sys::RecordedHost;

struct Machine {
    /// Repository and number of the issue, or another source.
    source: &'static str,
    /// Lines of /proc/interrupts without counts.
    lines: &'static [&'static str],
    nics: &'static [Device],
}

/// A device whose function has a list of these interrupts, from the first to the last.
const fn listed(
    (path, driver, queues): (&'static str, &'static str, u32),
    list: (u32, u32),
    irq: fn(u32) -> Option<u32>,
) -> Device {
    Device { path, driver, queues, list: Some(list), irq }
}

/// A device elsewhere.
const fn unlisted(
    (path, driver, queues): (&'static str, &'static str, u32),
    irq: fn(u32) -> Option<u32>,
) -> Device {
    Device { path, driver, queues, list: None, irq }
}

const UNKNOWN: fn(u32) -> Option<u32> = |_| None;

const MACHINES: &[Machine] = &[
    Machine {
        source: "openwrt/openwrt#13493: a router with ixgbe and bnx2x",
        lines: &[
            "53: PCI-MSI 1605632-edge eth2-TxRx-0",
            "54: PCI-MSI 1605633-edge eth2-TxRx-1",
            "55: PCI-MSI 1605634-edge eth2-TxRx-2",
            "56: PCI-MSI 1605635-edge eth2-TxRx-3",
            "61: PCI-MSI 1605640-edge eth2",
            // The slow path; nothing requests 63.
            "62: PCI-MSI 1572864-edge eth3",
            "64: PCI-MSI 1572866-edge eth3-fp-0",
            "65: PCI-MSI 1572867-edge eth3-fp-1",
            "66: PCI-MSI 1572868-edge eth3-fp-2",
            "67: PCI-MSI 1572869-edge eth3-fp-3",
        ],
        nics: &[
            listed(("pci0000:00/0000:03:02.0/net/eth2", "ixgbe", 4), (53, 61), |rx| Some(53 + rx)),
            listed(("pci0000:00/0000:03:00.0/net/eth3", "bnx2x", 4), (62, 71), |rx| Some(64 + rx)),
        ],
    },
    Machine {
        source: "geerlingguy/raspberry-pi-pcie-devices#3: igb, a port that is down has no lines",
        lines: &[
            "18: IO-APIC 18-fasteoi ehci_hcd:usb1, uhci_hcd:usb7, uhci_hcd:usb10, i801_smbus",
            "61: PCI-MSI 2623495-edge enp5s0f1-TxRx-6",
            "62: PCI-MSI 2623496-edge enp5s0f1-TxRx-7",
            "63: PCI-MSI 2625536-edge enp5s0f2",
            "64: PCI-MSI 2625537-edge enp5s0f2-TxRx-0",
            "65: PCI-MSI 2625538-edge enp5s0f2-TxRx-1",
        ],
        nics: &[
            listed(("pci0000:00/0000:05:00.2/net/enp5s0f2", "igb", 2), (63, 65), |rx| Some(64 + rx)),
            listed(("pci0000:00/0000:05:00.3/net/enp5s0f3", "igb", 2), (66, 66), UNKNOWN),
        ],
    },
    Machine {
        source: "openwrt/openwrt#3952: MT7621, a chip column of two words",
        lines: &["22: MIPS GIC 10 1e100000.ethernet", "24: MIPS GIC 11 mt7603e", "9: MIPS GIC 63 IPI call"],
        nics: &[
            unlisted(("platform/1e100000.ethernet/net/eth0", "mtk_soc_eth", 1), |_| Some(22)),
            unlisted(("pci0000:00/0000:00:00.0/0000:01:00.0/net/wlan0", "mt7603e", 1), UNKNOWN),
        ],
    },
    Machine {
        // Every fourth transmit and every second receive interrupt of the device is in use.
        source: "openwrt/openwrt#16818: IPQ4019",
        lines: &[
            "51: GIC-0 200 Level ath10k_ahb",
            "69: GIC-0 97 Edge c080000.ethernet:txq0",
            "73: GIC-0 101 Edge c080000.ethernet:txq4",
            "77: GIC-0 105 Edge c080000.ethernet:txq8",
            "81: GIC-0 109 Edge c080000.ethernet:txq12",
            "85: GIC-0 272 Edge c080000.ethernet:rxq0",
            "87: GIC-0 274 Edge c080000.ethernet:rxq2",
            "89: GIC-0 276 Edge c080000.ethernet:rxq4",
            "91: GIC-0 278 Edge c080000.ethernet:rxq6",
        ],
        nics: &[unlisted(("platform/soc/c080000.ethernet/net/eth0", "ipqess-edma", 4), |rx| {
            Some(85 + 2 * rx)
        })],
    },
    Machine {
        source: "Irqbalance/irqbalance#258: IPQ8074, whose five ports share four rings",
        lines: &[
            "19: GIC-0 206 Level edma_txcmpl_15",
            "20: GIC-0 171 Level edma_rxdesc_12",
            "21: GIC-0 172 Level edma_rxdesc_13",
            "22: GIC-0 173 Level edma_rxdesc_14",
            "23: GIC-0 174 Level edma_rxdesc_15",
            "24: GIC-0 223 Level edma_misc",
            "30: GIC-0 347 Edge ce1",
        ],
        nics: &[
            unlisted(("platform/soc/3a001000.dp1/net/eth0", "nss-dp", 4), UNKNOWN),
            unlisted(("platform/soc/3a001200.dp2/net/eth1", "nss-dp", 4), UNKNOWN),
        ],
    },
    Machine {
        source: "openwrt/openwrt#3954: IPQ8064, stmmac",
        lines: &[
            "30: GIC-0 255 Level eth0",
            "31: GIC-0 258 Level eth1",
            "46: PCI-MSI 524288 Edge ath10k_pci",
        ],
        nics: &[
            unlisted(("platform/soc/37200000.ethernet/net/eth0", "ipq806x-gmac-dwmac", 1), |_| Some(30)),
            unlisted(("platform/soc/37400000.ethernet/net/eth1", "ipq806x-gmac-dwmac", 1), |_| Some(31)),
            listed(("pci0000:00/0000:00:00.0/0000:01:00.0/net/wlan0", "ath10k_pci", 1), (46, 46), |_| {
                Some(46)
            }),
        ],
    },
    Machine {
        source: "kaloz/mwlwifi#34: Armada XP, both interfaces' interrupts have the driver's name",
        lines: &[
            "25: armada_370_xp_irq 45 ehci_hcd:usb1",
            "26: armada_370_xp_irq 8 mvneta",
            "27: armada_370_xp_irq 10 mvneta",
        ],
        nics: &[
            unlisted(("platform/soc/f1070000.ethernet/net/eth0", "mvneta", 8), UNKNOWN),
            unlisted(("platform/soc/f1074000.ethernet/net/eth1", "mvneta", 8), UNKNOWN),
        ],
    },
    Machine {
        source: "openwrt/openwrt#13391: Armada 385 (FortiGate 50E), one interrupt of all CPUs for eight queues",
        lines: &["45: MPIC 8 Level eth0", "46: MPIC 10 Level eth1", "47: MPIC 12 Level eth2"],
        nics: &[
            unlisted(("platform/soc/f1070000.ethernet/net/eth0", "mvneta", 8), |_| Some(45)),
            unlisted(("platform/soc/f1030000.ethernet/net/eth1", "mvneta", 8), |_| Some(46)),
            unlisted(("platform/soc/f1034000.ethernet/net/eth2", "mvneta", 8), |_| Some(47)),
        ],
    },
    Machine {
        source: "openwrt/openwrt#1299: AR7161 (WNDR3800), chips without a trigger",
        lines: &["4: MIPS 4 19000000.eth", "5: MIPS 5 1a000000.eth", "12: AR71XX PCI 1 ath9k"],
        nics: &[
            unlisted(("platform/ahb/19000000.eth/net/eth0", "ag71xx", 1), |_| Some(4)),
            unlisted(("platform/ahb/1a000000.eth/net/eth1", "ag71xx", 1), |_| Some(5)),
        ],
    },
    Machine {
        source: "openwrt/openwrt#9583: MT7621, whose switch has an interrupt of its own and one for each port",
        lines: &[
            "22: MIPS GIC 10 1e100000.ethernet",
            "23: MIPS GIC 30 mt7530",
            "24: mt7530 1 mt7530-0:01",
            "25: mt7530 2 mt7530-0:02",
        ],
        nics: &[unlisted(("platform/1e100000.ethernet/net/eth0", "mtk_soc_eth", 1), |_| Some(22))],
    },
    Machine {
        source: "raspberrypi/linux#6963: CM5, of whose Ethernet only the interrupt of the PHY was shown",
        lines: &["168: pinctrl-rp1 37 Level 1f00100000.ethernet-ffffffff:00"],
        nics: &[unlisted(("platform/axi/1f00100000.ethernet/net/eth0", "macb", 1), UNKNOWN)],
    },
    Machine {
        source: "armbian/build#351: Odroid C2, a chip without a trigger",
        lines: &["30: GIC 30 arch_timer", "35: GIC 35 osd_vsync, vsync", "40: GIC 40 eth0"],
        nics: &[unlisted(("platform/c9410000.ethernet/net/eth0", "meson6-dwmac", 1), |_| Some(40))],
    },
    Machine {
        source: "rockchip-linux/kernel#27: RK3399",
        lines: &["24: GICv3 44 Level eth0"],
        nics: &[unlisted(("platform/fe300000.ethernet/net/eth0", "rk_gmac-dwmac", 1), |_| Some(24))],
    },
    Machine {
        source: "blog.51cto.com/u_15072811/3947743: Zynq UltraScale+, both queues on one line",
        lines: &[
            "3: GICv2 30 Level arch_timer",
            "22: GICv2 163 Level zynqmp-dma",
            "23: GICv2 95 Level eth0, eth0",
        ],
        nics: &[unlisted(("platform/axi/ff0e0000.ethernet/net/eth0", "macb", 2), |_| Some(23))],
    },
    Machine {
        source: "Irqbalance/irqbalance#81: xen_netfront with four queues of two event channels",
        lines: &[
            "70: xen-dyn -event vif0-q0-tx",
            "71: xen-dyn -event vif0-q0-rx",
            "72: xen-dyn -event vif0-q1-tx",
            "73: xen-dyn -event vif0-q1-rx",
            "74: xen-dyn -event vif0-q2-tx",
            "75: xen-dyn -event vif0-q2-rx",
            "76: xen-dyn -event vif0-q3-tx",
            "77: xen-dyn -event vif0-q3-rx",
        ],
        nics: &[unlisted(("vif-0/net/eth0", "vif", 4), |rx| Some(71 + 2 * rx))],
    },
    Machine {
        source: "intel/nemu#82: i40e in a second PCI domain",
        lines: &[
            "9: PCI-MSI 134463488-edge i40e-0001:00:0f.0:misc",
            "10: PCI-MSI 134463489-edge i40e-enP1s15-TxRx-0",
            "11: PCI-MSI 134463490-edge i40e-enP1s15-TxRx-1",
            "12: PCI-MSI 134463491-edge i40e-enP1s15-TxRx-2",
        ],
        nics: &[listed(("pci0001:00/0001:00:0f.0/net/enP1s15", "i40e", 3), (9, 12), |rx| Some(10 + rx))],
    },
    Machine {
        source: "metal-stack/metal-images#136: ice, the last lines of one function before those of the next",
        lines: &[
            "66: IR-PCI-MSI 52953105-edge ice-0000:65:00.0:ctrl-TxRx-0",
            "77: IR-PCI-MSI 52955136-edge ice-0000:65:00.1:misc",
            "78: IR-PCI-MSI 52955137-edge ice-lan1-TxRx-0",
            "79: IR-PCI-MSI 52955138-edge ice-lan1-TxRx-1",
            "80: IR-PCI-MSI 52955139-edge ice-lan1-TxRx-2",
        ],
        nics: &[listed(("pci0000:64/0000:64:00.0/0000:65:00.1/net/lan1", "ice", 3), (77, 80), |rx| {
            Some(78 + rx)
        })],
    },
    Machine {
        source: "open-sdr/openwifi#16: Zynq-7000",
        lines: &["26: GIC-0 58 Level e0006000.spi", "29: GIC-0 54 Level eth0", "30: GIC-0 56 Level mmc0"],
        nics: &[unlisted(("platform/axi/e000b000.ethernet/net/eth0", "macb", 1), |_| Some(29))],
    },
    Machine {
        source: "LinuxCNC/linuxcnc#4199: Xenomai 4, triggers and chips of its pipeline",
        lines: &[
            "24: SIRQC 24 in-band irq work",
            "26: IR-PCI-MSI-0000:00:19.0 0 oob-edge eno1",
            "27: IR-PCI-MSI-0000:00:14.0 0 -edge xhci_hcd",
            "524544: SIPIC 0 oob out-of-band function call IPI",
        ],
        nics: &[listed(("pci0000:00/0000:00:19.0/net/eno1", "e1000e", 1), (26, 26), |_| Some(26))],
    },
    Machine {
        source: "csrutil/OpenWrt-NIC-Drivers#4: r8125 with three receive queues and 32 vectors",
        lines: &[
            "30: PCI-MSI 262144-edge eth0-0",
            "31: PCI-MSI 262145-edge eth0-1",
            "32: PCI-MSI 262146-edge eth0-2",
            "33: PCI-MSI 262147-edge eth0-3",
            "46: PCI-MSI 262160-edge eth0-16",
        ],
        nics: &[listed(("pci0000:00/0000:00:10.0/net/eth0", "r8125", 3), (30, 61), |rx| Some(30 + rx))],
    },
    Machine {
        source: "Irqbalance/irqbalance#202: two ports of one function of cxgb4 by the vendor",
        lines: &[
            "40: IR-PCI-MSI 2629634-edge enp5s0f4 (queue 0)",
            "41: IR-PCI-MSI 2629635-edge enp5s0f4 (queue 1)",
            "75: IR-PCI-MSI 2629669-edge enp5s0f4d1 (queue 0)",
            "76: IR-PCI-MSI 2629670-edge enp5s0f4d1 (queue 1)",
        ],
        nics: &[
            listed(("pci0000:00/0000:05:00.4/net/enp5s0f4", "cxgb4", 2), (40, 76), |rx| Some(40 + rx)),
            listed(("pci0000:00/0000:05:00.4/net/enp5s0f4d1", "cxgb4", 2), (40, 76), |rx| Some(75 + rx)),
        ],
    },
    Machine {
        // Vectors of queues that are not in use have no action.
        source: "amzn/amzn-drivers#316: ENA with one queue",
        lines: &[
            "65: PCI-MSIX-0000:27:00.0 0-edge ena-mgmnt@pci:0000:27:00.0",
            "66: PCI-MSIX-0000:27:00.0 1-edge enp39s0-Tx-Rx-0",
            "67: PCI-MSIX-0000:27:00.0 2-edge",
            "68: PCI-MSIX-0000:27:00.0 3-edge",
        ],
        nics: &[listed(("pci0000:00/0000:27:00.0/net/enp39s0", "ena", 1), (65, 69), |_| Some(66))],
    },
    Machine {
        source: "scylladb/scylladb#2611: ENA in a guest of Xen",
        lines: &[
            "682: xen-pirq-msi-x     ena-mgmnt@pci:0000:00:03.0",
            "683: xen-pirq-msi-x     eth0-Tx-Rx-0",
            "684: xen-pirq-msi-x     eth0-Tx-Rx-1",
        ],
        nics: &[listed(("pci0000:00/0000:00:03.0/net/eth0", "ena", 2), (682, 684), |rx| Some(683 + rx))],
    },
    Machine {
        source: "openwrt/openwrt#14843: MT7986, whose two ports share one receive interrupt",
        lines: &[
            "82: mt-eint 66 Level mt7530",
            "130: GICv3 229 Level 15100000.ethernet",
            "131: GICv3 230 Level 15100000.ethernet",
        ],
        nics: &[
            unlisted(("platform/soc/15100000.ethernet/net/eth0", "mtk_soc_eth", 1), |_| Some(131)),
            unlisted(("platform/soc/15100000.ethernet/net/eth1", "mtk_soc_eth", 1), |_| Some(131)),
        ],
    },
    Machine {
        source: "orangepi-xunlong/openwrt#46: SpacemiT K1 and r8125",
        lines: &[
            "26: SiFive PLIC 131 Edge eth0",
            "27: SiFive PLIC 133 Edge eth1",
            "38: PCI-MSI 134742016 Edge eth2-0",
            "39: PCI-MSI 134742017 Edge eth2-1",
            "40: PCI-MSI 134742018 Edge eth2-2",
            "41: PCI-MSI 134742019 Edge eth2-3",
        ],
        nics: &[
            unlisted(("platform/soc/cac80000.ethernet/net/eth0", "k1x_emac", 1), |_| Some(26)),
            unlisted(("platform/soc/cac81000.ethernet/net/eth1", "k1x_emac", 1), |_| Some(27)),
            listed(("pci0001:00/0001:01:00.0/net/eth2", "r8125", 4), (38, 69), |rx| Some(38 + rx)),
        ],
    },
    Machine {
        source: "Irqbalance/irqbalance#93: a guest of KVM with a shared interrupt of another virtio device",
        lines: &[
            "10: IO-APIC 10-fasteoi virtio3, ehci_hcd:usb1, uhci_hcd:usb2",
            "24: PCI-MSI 49152-edge virtio0-config",
            "25: PCI-MSI 49153-edge virtio0-input.0",
            "26: PCI-MSI 49154-edge virtio0-output.0",
        ],
        nics: &[listed(("pci0000:00/0000:00:03.0/virtio0/net/ens3", "virtio_net", 1), (24, 26), |_| {
            Some(25)
        })],
    },
    Machine {
        source: "kata-containers/kata-containers#1195: queues added to a running guest",
        lines: &[
            "39: IR-PCI-MSI 163841-edge virtio5-input.0",
            "40: IR-PCI-MSI 163842-edge virtio5-output.0",
            "41: IR-PCI-MSI 163843-edge virtio5-input.1",
            "42: IR-PCI-MSI 163844-edge virtio5-output.1",
            "43: IR-PCI-MSI 163845-edge virtio5-input.2",
            "44: IR-PCI-MSI 163846-edge virtio5-output.2",
        ],
        nics: &[listed(("pci0000:00/0000:00:05.0/virtio5/net/eth0", "virtio_net", 3), (38, 44), |rx| {
            Some(39 + 2 * rx)
        })],
    },
    Machine {
        source: "scylladb/scylladb#1757: xen_netfront with one event channel",
        lines: &["76: xen-dyn-event     eth0"],
        nics: &[unlisted(("vif-0/net/eth0", "vif", 1), |_| Some(76))],
    },
    Machine {
        source: "a desktop with ConnectX-3, whose vectors both ports share",
        lines: &[
            "134: IR-PCI-MSIX-0000:07:00.0 0-edge enp7s0",
            "210: IR-PCI-MSIX-0000:09:00.0 0-edge mlx4-async@pci:0000:09:00.0",
            "211: IR-PCI-MSIX-0000:09:00.0 1-edge mlx4-1@0000:09:00.0",
            "212: IR-PCI-MSIX-0000:09:00.0 2-edge mlx4-2@0000:09:00.0",
        ],
        nics: &[
            listed(("pci0000:00/0000:07:00.0/net/enp7s0", "r8169", 1), (134, 134), |_| Some(134)),
            listed(("pci0000:00/0000:09:00.0/net/enp9s0", "mlx4_core", 2), (210, 212), UNKNOWN),
            listed(("pci0000:00/0000:09:00.0/net/enp9s0d1", "mlx4_core", 2), (210, 212), UNKNOWN),
        ],
    },
    Machine {
        source: "a storage server (SPDK) with the two ports of an HPE 562, ixgbe",
        lines: &[
            "104: IR-PCI-MSIX-0000:04:00.0 0-edge eno49-TxRx-0",
            "105: IR-PCI-MSIX-0000:04:00.0 1-edge eno49-TxRx-1",
            "128: IR-PCI-MSIX-0000:04:00.0 24-edge eno49",
            "130: IR-PCI-MSIX-0000:04:00.1 0-edge eno50-TxRx-0",
            "131: IR-PCI-MSIX-0000:04:00.1 1-edge eno50-TxRx-1",
        ],
        nics: &[
            listed(("pci0000:00/0000:04:00.0/net/eno49", "ixgbe", 2), (104, 128), |rx| Some(104 + rx)),
            listed(("pci0000:00/0000:04:00.1/net/eno50", "ixgbe", 2), (130, 154), |rx| Some(130 + rx)),
        ],
    },
    Machine {
        source: "netdev, igb_xsk_wakeup, 2026-01: igb with a vector for each direction",
        lines: &[
            "167: IR-PCI-MSIX-0000:08:00.0 0-edge eno2",
            "168: IR-PCI-MSIX-0000:08:00.0 1-edge eno2-rx-0",
            "169: IR-PCI-MSIX-0000:08:00.0 2-edge eno2-rx-1",
            "170: IR-PCI-MSIX-0000:08:00.0 3-edge eno2-tx-0",
            "171: IR-PCI-MSIX-0000:08:00.0 4-edge eno2-tx-1",
        ],
        nics: &[listed(("pci0000:00/0000:08:00.0/net/eno2", "igb", 2), (167, 171), |rx| Some(168 + rx))],
    },
    Machine {
        // Nothing shows which interrupter takes the events of an endpoint.
        source: "linux-usb, secondary interrupters, 2026: a NIC on a USB host with three vectors",
        lines: &[
            "32: IR-PCI-MSIX-0000:03:00.3 0-edge xhci_hcd",
            "33: IR-PCI-MSIX-0000:03:00.3 1-edge xhci_hcd",
            "34: IR-PCI-MSIX-0000:03:00.3 2-edge xhci_hcd",
        ],
        nics: &[listed(("pci0000:00/0000:03:00.3/usb2/2-1/2-1:1.0/net/enx0", "r8152", 1), (32, 34), UNKNOWN)],
    },
    Machine {
        source: "openwrt/openwrt#4339: Lantiq xRX200, whose DSL and Ethernet have interrupts of no device",
        lines: &[
            "63: icu 63 mei_cpe",
            "72: icu 72 xrx200_net_rx",
            "73: icu 73 xrx200_net_tx",
            "96: icu 96 ptm_mailbox_isr",
        ],
        nics: &[
            unlisted(("platform/1f203000.rcu/1e108000.switch/net/eth0", "lantiq,xrx200-net", 1), UNKNOWN),
            unlisted(("virtual/net/dsl0", "", 1), UNKNOWN),
        ],
    },
    Machine {
        source: "GoogleCloudPlatform/compute-virtual-ethernet-linux#30: gVNIC with a queue for each direction",
        lines: &[
            "24: PCI-MSI 65536-edge gve-ntfy-blk0@pci:0000:00:04.0",
            "25: PCI-MSI 65537-edge gve-ntfy-blk1@pci:0000:00:04.0",
            "26: PCI-MSI 65538-edge gve-mgmnt@pci:0000:00:04.0",
        ],
        nics: &[listed(("pci0000:00/0000:00:04.0/net/ens4", "gve", 1), (24, 26), |_| Some(25))],
    },
    Machine {
        source: "strizhechenko/netutils-linux#8: two ports of e1000e",
        lines: &[
            "27: PCI-MSI-edge eth0-rx-0",
            "28: PCI-MSI-edge eth0-tx-0",
            "29: PCI-MSI-edge eth0",
            "30: PCI-MSI-edge eth1-rx-0",
            "31: PCI-MSI-edge eth1-tx-0",
            "32: PCI-MSI-edge eth1",
        ],
        nics: &[
            listed(("pci0000:00/0000:02:00.0/net/eth0", "e1000e", 1), (27, 29), |_| Some(27)),
            listed(("pci0000:00/0000:03:00.0/net/eth1", "e1000e", 1), (30, 32), |_| Some(30)),
        ],
    },
    Machine {
        source: "raspberrypi/linux#5255: i.MX8M, three queues and four interrupts of one name",
        lines: &[
            "48: GICv3 150 Level 30be0000.ethernet",
            "49: GICv3 151 Level 30be0000.ethernet",
            "50: GICv3 152 Level 30be0000.ethernet",
            "51: GICv3 153 Level 30be0000.ethernet",
        ],
        nics: &[unlisted(("platform/soc@0/30be0000.ethernet/net/eth0", "fec", 3), UNKNOWN)],
    },
];

fn model(machine: &Machine) -> Model {
    let mut table = "  CPU0\n".to_owned();
    for line in machine.lines {
        let (number, rest) = line.split_once(' ').expect("a number");
        table += &format!(" {number} 0 {rest}\n");
    }
    let host =
        RecordedHost::new().with("proc/interrupts", table).with("proc/sys/kernel/osrelease", "6.6.0\n");
    let host = (2..).zip(machine.nics).fold(host, |host, (index, device)| device.render(host, index));
    Model::new(&Inventory::take(&host, Scope::All))
}

fn shown(nic: &Nic) -> Vec<Vec<u32>> {
    nic.rx.iter().map(|queue| queue.irqs.iter().map(|irq| irq.number.0).collect()).collect()
}

#[test]
fn interrupts_of_published_machines() {
    let mut wrong = Vec::new();
    for machine in MACHINES {
        let model = model(machine);
        for device in machine.nics {
            let nic = model.nics.iter().find(|nic| nic.name.as_str() == device.name()).expect("shown");
            let (shown, expected) = (shown(nic), device.expected());
            if shown != expected {
                wrong.push(format!("{}, {}: {shown:?}, are {expected:?}", machine.source, nic.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
