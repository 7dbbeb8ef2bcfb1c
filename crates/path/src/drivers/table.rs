//! The rows, in the order in which texts list drivers.
//!
//! A new row needs examples of its names and the sources of its facts; the tests of this module check all rows.

use rxlab_base::parse::ethtool::{Counted, QueueNames};

use super::IrqNumber::{All, Block, Cyclic, FromLowest, NoQueue, Order, Receive, Transmit, Unclear};
use super::Kind::{Failover, Pair, Paravirtual, VirtualFunction};
use super::{
    Bare, Channels, Driver, Hash, IrqName, IrqNumber, KEEPS_RULES, Limit, Moderation, RssQueues, RuleLoss,
    UNKNOWN, XdpQueues,
};

/// An interrupt's name by its example and its end.
const fn irq(example: &'static str, ending: &'static str, number: IrqNumber) -> IrqName {
    IrqName { example, ending, number }
}

/// A driver whose interrupts have names that say nothing about queues.
const fn without_queues(names: &'static [&'static str], sources: &'static [&'static str]) -> Driver {
    Driver { names, sources, ..UNKNOWN }
}

/// A driver that does not report which queue a packet came from.
const fn without_record(driver: Driver) -> Driver {
    Driver { records_queue: false, ..driver }
}

/// A driver of devices without RSS.
const fn without_rss(driver: Driver) -> Driver {
    Driver { spreads_flows: false, ..driver }
}

/// What a statistic counts, for the examples.
const PACKETS: Option<Counted> = Some(Counted::Packets);
const BYTES: Option<Counted> = Some(Counted::Bytes);
const DROPS: Option<Counted> = Some(Counted::Drops);
const OTHER: Option<Counted> = None;

/// Statistics without counts.
const NO_NAMES: QueueNames = QueueNames { heading: None, packets: &[], bytes: &[], drops: &[] };

const RX_QUEUE: QueueNames = QueueNames {
    packets: &["rx_queue_#_packets"],
    bytes: &["rx_queue_#_bytes"],
    drops: &["rx_queue_#_drops"],
    ..NO_NAMES
};
const RX: QueueNames = QueueNames {
    packets: &["rx#_packets"],
    bytes: &["rx#_bytes"],
    drops: &["rx#_dropped", "rx#_drops"],
    ..NO_NAMES
};
const RX_NUMBER: QueueNames = QueueNames { packets: &["rx_#_packets"], bytes: &["rx_#_bytes"], ..NO_NAMES };
const I40E: QueueNames = QueueNames { packets: &["rx-#.packets"], bytes: &["rx-#.bytes"], ..NO_NAMES };
const RX_DASH: QueueNames =
    QueueNames { packets: &["rx-#.rx_packets"], bytes: &["rx-#.rx_bytes"], ..NO_NAMES };
const BROADCOM: QueueNames = QueueNames {
    packets: &["[#]: rx_ucast_packets", "[#]: rx_mcast_packets", "[#]: rx_bcast_packets"],
    bytes: &["[#]: rx_ucast_bytes", "[#]: rx_mcast_bytes", "[#]: rx_bcast_bytes"],
    drops: &["[#]: rx_discards"],
    ..NO_NAMES
};

const PKT_N: QueueNames = QueueNames { packets: &["q#_rx_pkt_n"], ..NO_NAMES };
const PKT_N_EXAMPLE: &[(&str, Option<Counted>)] =
    &[("rx_pkt_n", OTHER), ("q0_tx_pkt_n", OTHER), ("q0_rx_pkt_n", PACKETS), ("q0_rx_irq_n", OTHER)];

/// Moderation of Intel's older devices: 1 and 3 mean low latency and bulk, by their documentation.
const BY_1_OR_3: Moderation = Moderation { adaptive_usecs: &[1, 3], only_spaces: true, ..UNKNOWN.moderation };
/// Any other number is a time.
const BY_1: Moderation = Moderation { adaptive_usecs: &[1], only_spaces: true, ..UNKNOWN.moderation };
const SPACED: Moderation = Moderation { only_spaces: true, ..UNKNOWN.moderation };

/// Without `set_channels`.
const FIXED: Channels = Channels { are_fixed: true, ..UNKNOWN.channels };

const WITHOUT_PORTS: Hash = Hash { has_ports: false, ..UNKNOWN.hash };

const SFC: &[IrqName] = &[
    irq("enp1s0f0-rx-5", "-rx-#", Receive(0)),
    irq("enp1s0f0-tx-5", "-tx-#", Transmit(0)),
    irq("enp1s0f0-xdp-5", "-xdp-#", NoQueue),
    // A channel with or without a transmit queue.
    irq("enp1s0f0-5", "-#", Receive(0)),
];

/// What rxlab knows of each driver.
pub static DRIVERS: &[Driver] = &[
    Driver {
        names: &["virtio_net"],
        kind: Paravirtual { has_virtual_functions: false },
        irqs: &[
            irq("virtio3-input.0", "-input.#", Receive(0)),
            irq("virtio3-output.0", "-output.#", Transmit(0)),
            // Fewer vectors than queues.
            irq("virtio3-virtqueues", "-virtqueues", All),
            irq("virtio3-config", "-config", NoQueue),
        ],
        spreads_irqs_on_hotplug: true,
        // Up to 6.8; later ones count for the kernel, see `qstats-get`, which has what a rate limit drops as well.
        statistics: &[RX_QUEUE, RX],
        statistics_example: &[
            ("rx_queue_0_packets", PACKETS),
            ("rx_queue_0_bytes", BYTES),
            ("rx_queue_0_drops", DROPS),
            ("rx_queue_0_xdp_packets", OTHER),
        ],
        // Seen with 6.1: the default table was reported, and the hypervisor did not know it.
        hash: Hash { may_lack_table: true, ..UNKNOWN.hash },
        channels: Channels { keep_link: true, xdp: XdpQueues::Fixed, ..UNKNOWN.channels },
        // VIRTIO_NET_F_NOTF_COAL.
        moderation: Moderation { may_be_missing: true, ..UNKNOWN.moderation },
        sources: &[
            "virtio_net.c: virtnet_find_vqs, virtnet_get_strings, virtnet_set_channels, virtnet_xdp_set, \
             virtnet_cpu_online, virtnet_get_coalesce",
            "../virtio/virtio_pci_common.c: vp_request_msix_vectors, vp_find_vqs_msix",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["vmxnet3"],
        kind: Paravirtual { has_virtual_functions: false },
        irqs: &[
            irq("eth0-rxtx-0", "-rxtx-#", Receive(0)),
            // The number of the vector, behind those that send.
            irq("eth0-rx-8", "-rx-#", Order),
            irq("eth0-tx-0", "-tx-#", Transmit(0)),
        ],
        statistics: &[QueueNames {
            heading: Some("Rx Queue#"),
            packets: &["ucast pkts rx", "mcast pkts rx", "bcast pkts rx"],
            bytes: &["ucast bytes rx", "mcast bytes rx", "bcast bytes rx"],
            // "pkts rx OOB" are those without a buffer in the ring.
            drops: &["drv dropped rx total"],
        }],
        statistics_example: &[
            ("Tx Queue#", OTHER),
            ("  ucast pkts tx", OTHER),
            ("Rx Queue#", OTHER),
            ("  LRO pkts rx", OTHER),
            ("  ucast pkts rx", PACKETS),
            ("  mcast pkts rx", PACKETS),
            ("  ucast bytes rx", BYTES),
            ("  pkts rx OOB", OTHER),
            ("  drv dropped rx total", DROPS),
        ],
        channels: FIXED,
        sources: &[
            "vmxnet3/vmxnet3_drv.c: vmxnet3_request_irqs",
            "vmxnet3/vmxnet3_ethtool.c: vmxnet3_get_strings, vmxnet3_ethtool_ops",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["xen_netfront", "vif"],
        // Such as the ixgbevf of field case C.
        kind: Paravirtual { has_virtual_functions: true },
        irqs: &[
            // Separate event channels.
            irq("vif0-q0-rx", "-q#-rx", Receive(0)),
            irq("vif0-q0-tx", "-q#-tx", Transmit(0)),
            // One event channel for both directions.
            irq("vif0-q0", "-q#", Receive(0)),
        ],
        records_queue: false,
        sources: &[
            "xen-netfront.c: setup_netfront_split, setup_netfront_single, xennet_init_queue, handle_incoming_queue",
        ],
        ..UNKNOWN
    },
    Driver {
        // Both ends are called vif in sysfs. What a guest sends, this end receives.
        names: &["xen-netback"],
        kind: Pair,
        irqs: &[
            irq("vif1.0-q0-tx", "-q#-tx", Receive(0)),
            irq("vif1.0-q0-rx", "-q#-rx", Transmit(0)),
            irq("vif1.0-q0", "-q#", Receive(0)),
        ],
        records_queue: false,
        sources: &[
            "xen-netback/xenbus.c: connect",
            "xen-netback/interface.c: xenvif_connect_data, xenvif_tx_interrupt",
            "xen-netback/netback.c: xenvif_tx_submit",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["hv_netvsc"],
        // Accelerated networking.
        kind: Paravirtual { has_virtual_functions: true },
        has_vmbus_channels: true,
        statistics: &[RX_QUEUE],
        statistics_example: &[
            ("rx_queue_0_packets", PACKETS),
            ("rx_queue_0_bytes", BYTES),
            ("rx_queue_0_xdp_drop", OTHER),
        ],
        sources: &["hyperv/netvsc_drv.c: netvsc_get_strings", "hyperv/netvsc.c: netvsc_channel_cb"],
        ..UNKNOWN
    },
    Driver {
        names: &["ena"],
        irqs: &[irq("ens5-Tx-Rx-0", "-Tx-Rx-#", Receive(0))],
        statistics: &[QueueNames { packets: &["queue_#_rx_cnt"], bytes: &["queue_#_rx_bytes"], ..NO_NAMES }],
        statistics_example: &[
            ("queue_0_tx_cnt", OTHER),
            ("queue_0_rx_cnt", PACKETS),
            ("queue_0_rx_bytes", BYTES),
            ("queue_0_rx_refil_partial", OTHER),
            ("conntrack_allowance_exceeded", OTHER),
        ],
        // conntrack_allowance_available is what is left, not a count.
        limits: &[
            ("bw_in_allowance_exceeded", Limit::BytesIn),
            ("bw_out_allowance_exceeded", Limit::BytesOut),
            ("pps_allowance_exceeded", Limit::Packets),
            ("conntrack_allowance_exceeded", Limit::Connections),
            ("linklocal_allowance_exceeded", Limit::Services),
        ],
        hash: Hash { is_toeplitz: false, ..UNKNOWN.hash },
        // ena_xdp_legal_queue_count; the vendor's 2.17 has no limit any more.
        channels: Channels { xdp: XdpQueues::Half, ..UNKNOWN.channels },
        sources: &[
            "ethernet/amazon/ena/ena_netdev.c: ena_setup_io_intr, ena_rss_init_default, ena_down",
            "ethernet/amazon/ena/ena_ethtool.c: ena_queue_strings, ena_stats_eni_strings, ena_set_channels",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["gve"],
        irqs: &[
            irq("gve-ntfy-blk3", "gve-ntfy-blk#", Block),
            // Requested before the interface has a name: eth%d-ntfy-block.3.
            irq("eth0-ntfy-block.3", "-ntfy-block.#", Block),
        ],
        // It counts descriptors, of which a packet may take several, and nothing that the host limits.
        statistics: &[],
        channels: Channels { xdp: XdpQueues::Half, ..UNKNOWN.channels },
        sources: &[
            "ethernet/google/gve/gve_main.c: gve_alloc_notify_blocks",
            "ethernet/google/gve/gve_ethtool.c: gve_get_strings, gve_set_channels",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["mana"],
        irqs: &[irq("mana_q3", "mana_q#", Receive(0)), irq("mana_hwc", "mana_hwc", NoQueue)],
        shares_irqs: true,
        statistics: &[RX_NUMBER],
        statistics_example: &[("rx_0_packets", PACKETS), ("rx_0_bytes", BYTES), ("rx_0_xdp_drop", OTHER)],
        sources: &[
            "ethernet/microsoft/mana/gdma_main.c: mana_gd_setup_irqs",
            "ethernet/microsoft/mana/mana_ethtool.c: mana_get_strings",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["mlx5_core"],
        irqs: &[
            // Some kernels since 6.5 count the vectors from 1.
            irq("mlx5_comp2", "mlx5_comp#", FromLowest),
            irq("mlx5_combined0", "mlx5_combined#", All),
            irq("mlx5_async0", "mlx5_async#", NoQueue),
        ],
        // Representors have those of their function.
        shares_irqs: true,
        spans_functions: true,
        // From 5.3 to 6.0 a second set for AF_XDP sockets, which receive from the channels of the first.
        has_spare_queues: true,
        statistics: &[RX],
        statistics_example: &[
            ("rx_packets", OTHER),
            ("rx_prio0_packets", OTHER),
            ("rx0_packets", PACKETS),
            ("rx0_bytes", BYTES),
            ("rx0_xdp_drop", OTHER),
        ],
        hash: Hash { hides_symmetry: true, ..UNKNOWN.hash },
        has_arfs: true,
        sources: &[
            "ethernet/mellanox/mlx5/core/en_fs.c: mlx5e_destroy_flow_steering",
            "ethernet/mellanox/mlx5/core/pci_irq.c: irq_set_name, irq_sf_set_name",
            "ethernet/mellanox/mlx5/core/en_main.c: mlx5e_open_channel, mlx5e_create_netdev (mlx5e_nch_2_num_rxqs)",
            "ethernet/mellanox/mlx5/core/en_stats.c: rq_stats_desc",
            "ethernet/mellanox/mlx5/core/en/tir.c: mlx5e_tir_builder_build_rss",
            "ethernet/mellanox/mlx5/core/en_arfs.c: mlx5e_rx_flow_steer",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["mlx4_core", "mlx4_en"],
        // The number of an event queue, shared by both ports and assigned to rings by load.
        irqs: &[irq("mlx4-3", "mlx4-#", Unclear)],
        statistics: &[RX],
        statistics_example: &[("rx0_packets", PACKETS), ("rx0_bytes", BYTES), ("rx0_dropped", DROPS)],
        has_arfs: true,
        // Each stops the port.
        deletes_rules: RuleLoss { channels: true, rss: true, rings: true, ..KEEPS_RULES },
        sources: &[
            "ethernet/mellanox/mlx4/eq.c: mlx4_assign_eq, mlx4_init_eq_table",
            "ethernet/mellanox/mlx4/en_ethtool.c: mlx4_en_get_strings, mlx4_en_set_channels, mlx4_en_set_rxfh, \
             mlx4_en_set_ringparam, mlx4_en_get_rxnfc",
            "ethernet/mellanox/mlx4/en_netdev.c: mlx4_en_filter_rfs, mlx4_en_stop_port, mlx4_en_start_port",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["ixgbe"],
        irqs: &[
            irq("eth0-TxRx-0", "-TxRx-#", Order),
            irq("eth0-rx-2", "-rx-#", Order),
            irq("eth0-tx-2", "-tx-#", Transmit(0)),
        ],
        statistics: &[RX_QUEUE],
        statistics_example: &[
            ("rx_packets", OTHER),
            ("rx_queue_0_packets", PACKETS),
            ("rx_queue_0_bytes", BYTES),
        ],
        // Of 82598, 82599 and X540; the table of X550 can name 64.
        rss_queues: Some(RssQueues { queues: 16, entries: 128 }),
        has_atr: true,
        deletes_rules: RuleLoss { channels: true, ..KEEPS_RULES },
        // ixgbe_set_coalesce resets the device when the delay crosses 10 us or large receive offload goes with it.
        moderation: Moderation { resets_link: true, ..BY_1 },
        sources: &[
            "ethernet/intel/ixgbe/ixgbe_main.c: ixgbe_request_msix_irqs, ixgbe_atr, ixgbe_setup_tc, ixgbe_close, \
             ixgbe_fdir_filter_exit",
            "ethernet/intel/ixgbe/ixgbe_ethtool.c: ixgbe_get_strings, ixgbe_rss_indir_tbl_max, ixgbe_rss_indir_tbl_entries, ixgbe_set_coalesce",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["ixgbevf"],
        kind: VirtualFunction,
        irqs: &[
            irq("ens4-TxRx-1", "-TxRx-#", Order),
            irq("eth0-rx-2", "-rx-#", Order),
            irq("eth0-tx-2", "-tx-#", Transmit(0)),
        ],
        statistics: &[RX_QUEUE],
        statistics_example: &[("rx_queue_0_packets", PACKETS), ("rx_queue_0_bytes", BYTES)],
        moderation: BY_1,
        records_queue: false,
        sources: &[
            "ethernet/intel/ixgbevf/ixgbevf_main.c: ixgbevf_request_msix_irqs, ixgbevf_process_skb_fields, ixgbevf_rx_skb",
            "ethernet/intel/ixgbevf/ethtool.c: ixgbevf_get_strings, ixgbevf_set_coalesce",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["igb"],
        irqs: &[
            irq("enp1s0-TxRx-3", "-TxRx-#", Receive(0)),
            irq("enp1s0-rx-1", "-rx-#", Receive(0)),
            irq("enp1s0-tx-1", "-tx-#", Transmit(0)),
        ],
        statistics: &[RX_QUEUE],
        statistics_example: &[
            ("rx_queue_0_packets", PACKETS),
            ("rx_queue_0_bytes", BYTES),
            ("rx_queue_0_drops", DROPS),
            ("rx_queue_0_csum_err", OTHER),
        ],
        hash: WITHOUT_PORTS,
        moderation: BY_1_OR_3,
        sources: &[
            "ethernet/intel/igb/igb_main.c: igb_request_msix, igb_rx_hash, igb_nfc_filter_restore",
            "ethernet/intel/igb/igb_ethtool.c: igb_get_strings, igb_set_coalesce",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["igbvf"],
        kind: VirtualFunction,
        // All have the bare name of an interface whose name is too long for more.
        irqs: &[irq("eth0-rx-0", "-rx-#", Receive(0)), irq("eth0-tx-0", "-tx-#", Transmit(0))],
        moderation: BY_1_OR_3,
        sources: &[
            "ethernet/intel/igbvf/netdev.c: igbvf_request_msix",
            "ethernet/intel/igbvf/ethtool.c: igbvf_set_coalesce",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["igc"],
        irqs: &[
            irq("enp1s0-TxRx-3", "-TxRx-#", Receive(0)),
            irq("enp1s0-rx-3", "-rx-#", Receive(0)),
            irq("enp1s0-tx-3", "-tx-#", Transmit(0)),
        ],
        moderation: BY_1_OR_3,
        sources: &[
            "ethernet/intel/igc/igc_main.c: igc_request_msix, igc_restore_nfc_rules",
            "ethernet/intel/igc/igc_ethtool.c: igc_ethtool_set_coalesce",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["e1000"],
        moderation: BY_1_OR_3,
        sources: &["ethernet/intel/e1000/e1000_ethtool.c: e1000_set_coalesce"],
        ..UNKNOWN
    },
    Driver {
        names: &["e1000e"],
        // All have the bare name of an interface whose name is too long for more.
        irqs: &[irq("enP1s1-rx-0", "-rx-#", Receive(0)), irq("eth0-tx-0", "-tx-#", Transmit(0))],
        hash: WITHOUT_PORTS,
        moderation: BY_1_OR_3,
        sources: &[
            "ethernet/intel/e1000e/netdev.c: e1000_request_msix, e1000_rx_hash",
            "ethernet/intel/e1000e/ethtool.c: e1000_set_coalesce",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["i40e"],
        irqs: &[
            irq("i40e-eth0-TxRx-7", "-TxRx-#", Order),
            irq("i40e-eth0-rx-7", "-rx-#", Order),
            irq("i40e-eth0-tx-7", "-tx-#", Transmit(0)),
        ],
        // The second up to 4.17.
        statistics: &[I40E, RX_DASH],
        statistics_example: &[("rx-0.packets", PACKETS), ("rx-0.bytes", BYTES), ("port.rx_bytes", OTHER)],
        has_atr: true,
        moderation: SPACED,
        sources: &[
            "ethernet/intel/i40e/i40e_main.c: i40e_vsi_request_irq_msix, i40e_fdir_filter_restore",
            "ethernet/intel/i40e/i40e_ethtool.c: i40e_gstrings_queue_stats, i40e_set_coalesce",
            "ethernet/intel/i40e/i40e_txrx.c: i40e_atr",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["iavf", "i40evf"],
        kind: VirtualFunction,
        irqs: &[
            irq("iavf-eth0-TxRx-0", "-TxRx-#", Order),
            irq("iavf-eth0-rx-0", "-rx-#", Order),
            irq("iavf-eth0-tx-0", "-tx-#", Transmit(0)),
        ],
        statistics: &[I40E],
        statistics_example: &[("rx-0.packets", PACKETS), ("rx-0.bytes", BYTES)],
        rings_reset_rss: true,
        moderation: SPACED,
        sources: &[
            "ethernet/intel/iavf/iavf_main.c: iavf_request_traffic_irqs, iavf_reset_task, iavf_init_rss",
            "ethernet/intel/iavf/iavf_ethtool.c: iavf_gstrings_queue_stats, iavf_set_coalesce, iavf_set_ringparam",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["ice"],
        irqs: &[
            // Versions of the vendor: from the first to the last queue of the interrupt.
            irq("ice-ens1f0-TxRx-2-3", "-TxRx-#-#", Receive(0)),
            irq("ice-ens1f0-TxRx-11", "-TxRx-#", Order),
            irq("ice-ens1f0-rx-2", "-rx-#", Order),
            irq("ice-ens1f0-tx-2", "-tx-#", Transmit(0)),
        ],
        statistics: &[RX_QUEUE],
        statistics_example: &[
            ("rx_unicast", OTHER),
            ("rx_queue_0_packets", PACKETS),
            ("rx_queue_0_bytes", BYTES),
        ],
        has_arfs: true,
        moderation: SPACED,
        sources: &[
            "ethernet/intel/ice/ice_main.c: ice_vsi_req_irq_msix",
            "ethernet/intel/ice/ice_ethtool.c: __ice_get_strings, ice_set_coalesce",
            "ethernet/intel/ice/ice_arfs.c: ice_rx_flow_steer",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["idpf"],
        // Numbers of vectors.
        irqs: &[
            irq("idpf-eth0-TxRx-4", "-TxRx-#", Order),
            irq("idpf-eth0-Rx-4", "-Rx-#", Order),
            irq("idpf-eth0-Tx-4", "-Tx-#", NoQueue),
            irq("idpf-0000:05:00.0-Mailbox-0", "-Mailbox-#", NoQueue),
        ],
        statistics: &[QueueNames { packets: &["rx_q-#_pkts"], bytes: &["rx_q-#_bytes"], ..NO_NAMES }],
        statistics_example: &[
            ("tx_q-0_pkts", OTHER),
            ("rx_q-0_pkts", PACKETS),
            ("rx_q-0_bytes", BYTES),
            ("rx_q-0_rx_gro_hw_pkts", OTHER),
        ],
        moderation: SPACED,
        sources: &[
            "ethernet/intel/idpf/idpf_txrx.c: idpf_vport_intr_req_irq, idpf_vport_intr_map_vector_to_qs",
            "ethernet/intel/idpf/idpf_ethtool.c: idpf_set_coalesce, idpf_add_qstat_strings",
        ],
        ..UNKNOWN
    },
    Driver {
        // stmmac with one interrupt for each queue.
        names: &["intel-eth-pci", "dwmac-loongson-pci"],
        irqs: &[irq("enp0s30f4:rx-2", ":rx-#", Receive(0)), irq("enp0s30f4:tx-2", ":tx-#", Transmit(0))],
        statistics: &[PKT_N],
        statistics_example: PKT_N_EXAMPLE,
        spreads_flows: false,
        sources: &[
            "ethernet/stmicro/stmmac/stmmac_ethtool.c: stmmac_get_qstats_string, stmmac_get_rxfh",
            "ethernet/stmicro/stmmac/stmmac_main.c: stmmac_request_irq_multi_msi",
            "ethernet/stmicro/stmmac/dwmac-intel.c: stmmac_config_multi_msi",
            "ethernet/stmicro/stmmac/dwmac-loongson.c: loongson_dwmac_msi_config",
        ],
        ..UNKNOWN
    },
    Driver {
        // stmmac with one interrupt, and perhaps others that wake the machine or report errors.
        names: &[
            "rk_gmac-dwmac",
            "dwmac-sun8i",
            "sun7i-dwmac",
            "meson8b-dwmac",
            "meson6-dwmac",
            "stm32-dwmac",
            "starfive-dwmac",
            "socfpga-dwmac",
            "dwmac-mediatek",
            "qcom-ethqos",
            "ipq806x-gmac-dwmac",
            "dwmac-generic",
            "dwmac-ingenic",
            "loongson1-dwmac",
            "lpc18xx-dwmac",
            "intel-dwmac",
            "visconti-eth-dwmac",
            "snps-dwc-qos",
            "thead-dwmac",
            "sophgo-dwmac",
            "s32-dwmac",
            "tegra-mgbe",
        ],
        bare: Bare::FirstForAll,
        statistics: &[PKT_N],
        statistics_example: PKT_N_EXAMPLE,
        spreads_flows: false,
        sources: &[
            "ethernet/stmicro/stmmac/stmmac_main.c: stmmac_request_irq_single",
            "ethernet/stmicro/stmmac/stmmac_platform.c: stmmac_get_platform_resources",
            "ethernet/stmicro/stmmac/stmmac_ethtool.c: stmmac_get_qstats_string, stmmac_get_rxfh",
        ],
        ..UNKNOWN
    },
    Driver {
        // The same, but some device trees have the interrupt that wakes the machine first (imx93.dtsi, imx8dxl-ss-conn.dtsi), and
        // kernels before 5.19 number in that order (of_device_alloc).
        names: &["imx-dwmac"],
        has_one_irq: true,
        statistics: &[PKT_N],
        statistics_example: PKT_N_EXAMPLE,
        spreads_flows: false,
        sources: &["ethernet/stmicro/stmmac/stmmac_main.c: stmmac_request_irq_single"],
        ..UNKNOWN
    },
    Driver {
        names: &["bnxt_en"],
        irqs: &[
            irq("enP2s1f0np0-TxRx-5", "-TxRx-#", Order),
            irq("eth0-rx-1", "-rx-#", Receive(0)),
            // Counted on from the receive queues.
            irq("eth0-tx-9", "-tx-#", NoQueue),
        ],
        statistics: &[BROADCOM],
        statistics_example: &[
            ("[0]: rx_ucast_packets", PACKETS),
            ("[0]: rx_mcast_packets", PACKETS),
            ("[0]: rx_bcast_packets", PACKETS),
            ("[0]: rx_discards", DROPS),
            ("[0]: rx_ucast_bytes", BYTES),
        ],
        has_arfs: true,
        lists_arfs: true,
        deletes_rules: RuleLoss { channels: true, rss: true, ..KEEPS_RULES },
        sources: &[
            "ethernet/broadcom/bnxt/bnxt.c: bnxt_setup_msix, bnxt_rx_flow_steer, bnxt_clear_usr_fltrs, bnxt_clear_rss_ctxs",
            "ethernet/broadcom/bnxt/bnxt_ethtool.c: bnxt_get_strings, bnxt_set_channels, bnxt_set_rxfh, bnxt_grxclsrlall",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["bnx2x"],
        irqs: &[irq("eth0-fp-5", "-fp-#", Receive(0))],
        statistics: &[BROADCOM],
        statistics_example: &[
            ("[0]: rx_bytes", OTHER),
            ("[0]: rx_ucast_packets", PACKETS),
            ("[0]: tx_ucast_packets", OTHER),
        ],
        sources: &[
            "ethernet/broadcom/bnx2x/bnx2x_cmn.c: bnx2x_req_msix_irqs",
            "ethernet/broadcom/bnx2x/bnx2x_ethtool.c: bnx2x_get_strings",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["bnx2"],
        irqs: &[irq("eno1-2", "-#", Receive(0))],
        hash: WITHOUT_PORTS,
        sources: &["ethernet/broadcom/bnx2.c: bnx2_enable_msix, bnx2_rx_int"],
        ..UNKNOWN
    },
    Driver {
        names: &["tg3"],
        // It counts interrupts: with several, the first is that of the link.
        irqs: &[
            irq("eno1-rx-1", "-rx-#", Receive(1)),
            irq("eno1-txrx-4", "-txrx-#", Receive(1)),
            irq("eno1-tx-1", "-tx-#", Transmit(1)),
        ],
        records_queue: false,
        sources: &["ethernet/broadcom/tg3.c: tg3_request_irq, tg3_rx"],
        ..UNKNOWN
    },
    Driver {
        names: &["sfc", "sfc_ef100"],
        irqs: SFC,
        statistics: &[RX_DASH],
        statistics_example: &[("rx_64", OTHER), ("tx-0.tx_packets", OTHER), ("rx-0.rx_packets", PACKETS)],
        hash: WITHOUT_PORTS,
        has_arfs: true,
        sources: &[
            "ethernet/sfc/efx_channels.c: efx_get_channel_name, efx_realloc_channels",
            "ethernet/sfc/ethtool_common.c: efx_describe_per_queue_stats",
            "ethernet/sfc/rx_common.c: efx_rx_packet_gro, efx_filter_rfs",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["sfc_siena"],
        irqs: SFC,
        hash: WITHOUT_PORTS,
        has_arfs: true,
        sources: &[
            "ethernet/sfc/siena/efx_channels.c: efx_get_channel_name",
            "ethernet/sfc/siena/rx_common.c: efx_siena_rx_packet_gro, efx_siena_filter_rfs",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["sfc_falcon"],
        irqs: SFC,
        hash: WITHOUT_PORTS,
        has_arfs: true,
        sources: &[
            "ethernet/sfc/falcon/efx.c: ef4_get_channel_name",
            "ethernet/sfc/falcon/rx.c: ef4_rx_packet_gro, ef4_filter_rfs",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["qede"],
        irqs: &[irq("eth0-fp-5", "-fp-#", Order)],
        statistics: &[QueueNames { packets: &["#: rcv_pkts"], ..NO_NAMES }],
        statistics_example: &[("0: xmit_pkts", OTHER), ("0: rcv_pkts", PACKETS), ("0: rx_hw_errors", OTHER)],
        has_arfs: true,
        // One of sixteen lists has the rules of users, and those of accelerated RFS by their hash.
        lists_arfs: true,
        // Each reloads the device.
        deletes_rules: RuleLoss { channels: true, rings: true, gro_hw: true, ..KEEPS_RULES },
        sources: &[
            "ethernet/qlogic/qede/qede_main.c: qede_init_fp, qede_unload",
            "ethernet/qlogic/qede/qede_ethtool.c: qede_get_strings_stats, qede_set_channels, qede_set_ringparam",
            "ethernet/qlogic/qede/qede_filter.c: qede_rx_flow_steer, qede_get_cls_rule_all, qede_set_features",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["enic"],
        irqs: &[irq("eth0-rx-3", "-rx-#", Receive(0)), irq("eth0-tx-3", "-tx-#", Transmit(0))],
        has_arfs: true,
        lists_arfs: true,
        channels: FIXED,
        sources: &[
            "ethernet/cisco/enic/enic_main.c: enic_request_intr",
            "ethernet/cisco/enic/enic_clsf.c: enic_rx_flow_steer",
            "ethernet/cisco/enic/enic_ethtool.c: enic_ethtool_ops",
            "ethernet/cisco/enic/enic_ethtool.c: enic_grxclsrlall",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["hns3"],
        // Counts those of both directions by two.
        irqs: &[
            irq("hns3-0000:7d:00.0-TxRx-2", "-TxRx-#", Order),
            irq("hns3-0000:7d:00.0-Rx-1", "-Rx-#", Order),
            irq("hns3-0000:7d:00.0-Tx-1", "-Tx-#", Transmit(0)),
        ],
        has_arfs: true,
        lists_arfs: true,
        sources: &[
            "ethernet/hisilicon/hns3/hns3_enet.c: hns3_nic_init_irq, hns3_rx_flow_steer",
            "ethernet/hisilicon/hns3/hns3pf/hclge_main.c: hclge_get_all_rules, hclge_add_fd_entry_by_arfs",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["cxgb4"],
        irqs: &[
            irq("enp2s0f4-Rx7", "-Rx#", Receive(0)),
            // Of the vendor, with a space.
            irq("enp5s0f4 (queue 17)", " (queue #)", Receive(0)),
            irq("enp2s0f4-FWeventq", "-FWeventq", NoQueue),
        ],
        hash: WITHOUT_PORTS,
        sources: &[
            "ethernet/chelsio/cxgb4/cxgb4_main.c: setup_sge_queues",
            "ethernet/chelsio/cxgb4/sge.c: do_gro, t4_ethrx_handler",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["ionic"],
        irqs: &[
            irq("ionic-enp9s0-L0-rx12", "-rx#", Receive(0)),
            irq("ionic-enp9s0-L0-tx12", "-tx#", Transmit(0)),
        ],
        statistics: &[QueueNames { packets: &["rx_#_pkts"], bytes: &["rx_#_bytes"], ..NO_NAMES }],
        statistics_example: &[
            ("rx_packets", OTHER),
            ("tx_0_pkts", OTHER),
            ("rx_0_pkts", PACKETS),
            ("rx_0_bytes", BYTES),
        ],
        sources: &[
            "ethernet/pensando/ionic/ionic_lif.c: ionic_request_irq",
            "ethernet/pensando/ionic/ionic_stats.c: ionic_sw_stats_get_rx_strings",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["atlantic"],
        bare: Bare::QueuesFirst,
        statistics: &[QueueNames { packets: &["Queue[#] InPackets"], ..NO_NAMES }],
        statistics_example: &[
            ("InPackets", OTHER),
            ("Queue[0] InPackets", PACKETS),
            ("Queue[0] InJumboPackets", OTHER),
        ],
        sources: &[
            "ethernet/aquantia/atlantic/aq_pci_func.c: aq_pci_func_alloc_irq",
            "ethernet/aquantia/atlantic/aq_ethtool.c: aq_ethtool_get_strings",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["nfp"],
        // A vector sends only, if it has no receive queue.
        irqs: &[irq("eth0-rxtx-3", "-rxtx-#", Receive(0))],
        statistics: &[QueueNames { packets: &["rvec_#_rx_pkts"], ..NO_NAMES }],
        statistics_example: &[("dev_rx_pkts", OTHER), ("rvec_0_rx_pkts", PACKETS), ("rvec_0_tx_pkts", OTHER)],
        sources: &[
            "ethernet/netronome/nfp/nfp_net_common.c: nfp_net_prepare_vector, nfp_net_vector_assign_rings",
            "ethernet/netronome/nfp/nfp_net_ethtool.c: nfp_vnic_get_sw_stats_strings",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["be2net"],
        // The default queue, which is no channel, comes after those of RSS and begins again.
        irqs: &[irq("eth0-q3", "-q#", Cyclic)],
        statistics: &[QueueNames { packets: &["rxq#: rx_pkts"], bytes: &["rxq#: rx_bytes"], ..NO_NAMES }],
        statistics_example: &[
            ("rxq0: rx_bytes", BYTES),
            ("rxq0: rx_pkts", PACKETS),
            ("txq0: tx_pkts", OTHER),
        ],
        hash: WITHOUT_PORTS,
        sources: &[
            "ethernet/emulex/benet/be_ethtool.c: be_get_stat_strings",
            "ethernet/emulex/benet/be_main.c: be_msix_register, be_rx_cqs_create, be_rx_compl_process",
        ],
        ..UNKNOWN
    },
    Driver {
        // One vector for each purpose: 16 that receive, then others. Not part of the kernel.
        names: &["r8125"],
        irqs: &[irq("eth2-3", "-#", Receive(0))],
        sources: &["r8125_n.c: rtl8125_alloc_irq, of Realtek (9.x)"],
        ..UNKNOWN
    },
    Driver {
        // Not part of the kernel.
        names: &["al_eth"],
        irqs: &[
            irq("al-eth-rx-comp-3", "al-eth-rx-comp-#", Receive(0)),
            irq("al-eth-tx-comp-3", "al-eth-tx-comp-#", Transmit(0)),
        ],
        sources: &["al_eth_main.c: al_eth_setup_int_mode, of Annapurna Labs"],
        ..UNKNOWN
    },
    Driver {
        names: &["hinic", "hinic3"],
        irqs: &[
            irq("ens8_rxq3", "_rxq#", Receive(0)),
            irq("ens8_txq3", "_txq#", Transmit(0)),
            irq("ens8_qp3", "_qp#", Receive(0)),
        ],
        sources: &[
            "ethernet/huawei/hinic/hinic_rx.c: hinic_init_rxq",
            "ethernet/huawei/hinic/hinic_tx.c: hinic_init_txq",
            "ethernet/huawei/hinic3/hinic3_irq.c: hinic3_qps_irq_init",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["cxgb3"],
        // Counted over the ports.
        irqs: &[irq("eth0-5", "-#", Order), irq("eth0 (queue 5)", " (queue #)", Order)],
        sources: &["ethernet/chelsio/cxgb3/cxgb3_main.c: name_msix_vecs"],
        ..UNKNOWN
    },
    Driver {
        names: &["fm10k"],
        irqs: &[
            irq("eth0-TxRx-1", "-TxRx-#", Order),
            irq("eth0-rx-2", "-rx-#", Order),
            irq("eth0-tx-2", "-tx-#", Transmit(0)),
        ],
        sources: &["ethernet/intel/fm10k/fm10k_pci.c: fm10k_qv_request_irq"],
        ..UNKNOWN
    },
    Driver {
        names: &["ngbe"],
        // The number of the vector.
        irqs: &[irq("eth0-TxRx-1", "-TxRx-#", Order)],
        sources: &["ethernet/wangxun/ngbe/ngbe_main.c: ngbe_request_msix_irqs"],
        ..UNKNOWN
    },
    Driver {
        names: &["txgbe"],
        irqs: &[irq("eth0-TxRx-1", "-TxRx-#", Order)],
        // Since 6.11.
        has_atr: true,
        deletes_rules: RuleLoss { channels: true, ..KEEPS_RULES },
        sources: &[
            "ethernet/wangxun/txgbe/txgbe_irq.c: txgbe_request_queue_irqs",
            "ethernet/wangxun/txgbe/txgbe_fdir.c: txgbe_atr, txgbe_fdir_filter_exit",
            "ethernet/wangxun/txgbe/txgbe_main.c: txgbe_sw_init, txgbe_setup_tc, txgbe_close",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["fbnic"],
        irqs: &[irq("eth0-TxRx-1", "-TxRx-#", Order), irq("eth0-Tx-1", "-Tx-#", NoQueue)],
        sources: &["ethernet/meta/fbnic/fbnic_txrx.c: fbnic_name_napi_vector"],
        ..UNKNOWN
    },
    Driver {
        names: &["amd-xgbe"],
        irqs: &[irq("eth0-TxRx-1", "-TxRx-#", Receive(0))],
        statistics: &[QueueNames { packets: &["rxq_#_packets"], bytes: &["rxq_#_bytes"], ..NO_NAMES }],
        statistics_example: &[("txq_0_packets", OTHER), ("rxq_0_packets", PACKETS), ("rxq_0_bytes", BYTES)],
        sources: &[
            "ethernet/amd/xgbe/xgbe-drv.c: xgbe_request_irqs",
            "ethernet/amd/xgbe/xgbe-ethtool.c: xgbe_get_strings",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["dwc-xlgmac"],
        irqs: &[irq("eth0-TxRx-1", "-TxRx-#", Receive(0))],
        channels: FIXED,
        sources: &[
            "ethernet/synopsys/dwc-xlgmac-net.c: xlgmac_request_irqs",
            "ethernet/synopsys/dwc-xlgmac-ethtool.c: xlgmac_ethtool_ops",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["niu"],
        irqs: &[irq("eth0-rx-1", "-rx-#", Receive(0)), irq("eth0-tx-1", "-tx-#", Transmit(0))],
        sources: &["ethernet/sun/niu.c: niu_set_irq_name, niu_ldg_init"],
        ..UNKNOWN
    },
    Driver {
        names: &["rvu_nicpf", "rvu_nicvf"],
        // A vector sends only, if it has no receive queue.
        irqs: &[irq("eth0-rxtx-1", "-rxtx-#", Receive(0)), irq("eth0-qerr", "-qerr", NoQueue)],
        sources: &["ethernet/marvell/octeontx2/nic/otx2_pf.c: otx2_open"],
        ..UNKNOWN
    },
    Driver {
        names: &["tsnep"],
        irqs: &[
            // Of the link and of the first queue, which has no other.
            irq("eth0-mac", "-mac", Receive(0)),
            irq("eth0-txrx-1", "-txrx-#", Receive(0)),
            irq("eth0-rx-1", "-rx-#", Receive(0)),
            irq("eth0-tx-1", "-tx-#", Transmit(0)),
        ],
        statistics: &[RX_NUMBER],
        statistics_example: &[
            ("rx_packets", OTHER),
            ("rx_0_packets", PACKETS),
            ("rx_0_bytes", BYTES),
            ("rx_0_multicast", OTHER),
        ],
        // Rules choose the queue.
        spreads_flows: false,
        channels: FIXED,
        sources: &[
            "ethernet/engleder/tsnep_main.c: tsnep_request_irq, tsnep_netdev_open",
            "ethernet/engleder/tsnep_ethtool.c: tsnep_rx_queue_stats_strings, tsnep_ethtool_ops",
            "ethernet/engleder/tsnep_rxnfc.c: tsnep_rxnfc_add_rule",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["am65-cpsw-nuss"],
        irqs: &[
            irq("46000000.ethernet-rx0", "-rx#", Order),
            irq("46000000.ethernet-tx0", "-tx#", Transmit(0)),
        ],
        records_queue: false,
        sources: &[
            "ethernet/ti/am65-cpsw-nuss.c: am65_cpsw_nuss_ndev_add_tx_napi, am65_cpsw_nuss_init_rx_chns, am65_cpsw_nuss_rx_packets",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["mtk_soc_eth"],
        // The first sends, if there are two.
        bare: Bare::QueueLast,
        sources: &["ethernet/mediatek/mtk_eth_soc.c: mtk_probe"],
        ..UNKNOWN
    },
    Driver {
        // Part of OpenWrt. Every second receive ring of the device is in use.
        names: &["ipqess-edma"],
        irqs: &[irq("c080000.ethernet:rxq2", ":rxq#", Order), irq("c080000.ethernet:txq4", ":txq#", NoQueue)],
        sources: &["ipqess.c: ipqess_axi_probe, ipqess_rx_ring_alloc, ipqess_rx_poll, of OpenWrt"],
        ..UNKNOWN
    },
    Driver {
        // Not part of the kernel.
        names: &["nvethernet"],
        irqs: &[
            // Of channels by number, which may begin anywhere.
            irq("eth0.rx2", ".rx#", Order),
            irq("eth0.tx2", ".tx#", NoQueue),
            // Later devices: each serves the channels that the device tree gives it.
            irq("eth0.vm0", ".vm#", Unclear),
            irq("eth0.common_irq", ".common_irq", NoQueue),
        ],
        sources: &["ether_linux.c: ether_request_irqs, of NVIDIA (nvethernet)"],
        ..UNKNOWN
    },
    Driver {
        // One work queue brings the packets of all ports.
        names: &["octeon_ethernet"],
        portals: &["Ethernet"],
        records_queue: false,
        sources: &["../staging/octeon/ethernet-rx.c: cvm_oct_rx_initialize, cvm_oct_poll"],
        ..UNKNOWN
    },
    Driver {
        // Not part of the kernel: all ports share the rings of one device.
        names: &["nss-dp"],
        // OpenWrt's versions have one queue, and no number. With the network processor packets come by its queues.
        portals: &["edma_rxdesc_#", "edma_rxdesc", "nss_queue#"],
        records_queue: false,
        sources: &[
            "edma_cfg.c: edma_irq_init, of Qualcomm (qca-nss-dp)",
            "nss_hal/ipq807x/nss_hal_pvt.c: __nss_hal_request_irq, of Qualcomm (qca-nss-drv)",
        ],
        ..UNKNOWN
    },
    Driver {
        // With the DMA engine's driver packets come by the interrupt of that, and this one reports errors.
        names: &["xilinx_axienet"],
        bare: Bare::MayBeOfErrors,
        records_queue: false,
        sources: &[
            "ethernet/xilinx/xilinx_axienet_main.c: axienet_open, axienet_init_dmaengine, axienet_rx_poll",
        ],
        ..UNKNOWN
    },
    Driver {
        // The interrupts of queues from the ninth on are other functions'.
        names: &["nicvf"],
        irqs: &[irq("eth0-rxtx-3", "-rxtx-#", Receive(0))],
        sources: &["ethernet/cavium/thunder/nicvf_main.c: nicvf_register_interrupts"],
        ..UNKNOWN
    },
    Driver {
        names: &["octeon_ep", "octeon_ep_vf"],
        irqs: &[irq("eth0-q3", "-q#", Receive(0))],
        records_queue: false,
        sources: &[
            "ethernet/marvell/octeon_ep/octep_main.c: octep_request_irqs",
            "ethernet/marvell/octeon_ep/octep_rx.c: __octep_oq_process_rx",
            "ethernet/marvell/octeon_ep_vf/octep_vf_main.c: octep_vf_request_irqs",
            "ethernet/marvell/octeon_ep_vf/octep_vf_rx.c: __octep_vf_oq_process_rx",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["LiquidIO", "LiquidIO_VF"],
        irqs: &[
            irq("LiquidIO0-pf0-rxtx-3", "-rxtx-#", Receive(0)),
            irq("LiquidIO0-pf0-aux", "-aux", NoQueue),
        ],
        sources: &["ethernet/cavium/liquidio/lio_core.c: octeon_setup_interrupt"],
        ..UNKNOWN
    },
    Driver {
        names: &["fsl_enetc", "fsl_enetc_vf"],
        irqs: &[irq("eno0-rxtx1", "-rxtx#", Receive(0))],
        // Of all 16 rings, the second only of those in use.
        statistics: &[QueueNames {
            packets: &["Rx ring # frames"],
            drops: &["Rx ring # discarded frames"],
            ..NO_NAMES
        }],
        statistics_example: &[
            ("Rx ring  0 discarded frames", DROPS),
            ("Tx ring  0 frames", OTHER),
            ("Rx ring  0 frames", PACKETS),
            ("Rx ring  0 alloc errors", OTHER),
        ],
        sources: &[
            "ethernet/freescale/enetc/enetc.c: enetc_setup_irqs",
            "ethernet/freescale/enetc/enetc_ethtool.c: rx_ring_stats, enetc_si_counters",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["funeth"],
        irqs: &[irq("eth0-rx-3", "-rx-#", Receive(0)), irq("eth0-tx-3", "-tx-#", Transmit(0))],
        sources: &["ethernet/fungible/funeth/funeth_main.c: fun_enable_irqs"],
        ..UNKNOWN
    },
    Driver {
        names: &["ibmvnic"],
        // With the address on the bus: ibmvnic-30000003-rx0.
        irqs: &[
            irq("ibmvnic-30000003-rx0", "-rx#", Receive(0)),
            irq("ibmvnic-30000003-tx0", "-tx#", Transmit(0)),
        ],
        sources: &["ethernet/ibm/ibmvnic.c: init_sub_crq_irqs, ibmvnic_poll"],
        ..UNKNOWN
    },
    Driver {
        names: &["ehea"],
        irqs: &[irq("eth0-queue3", "-queue#", Receive(0)), irq("eth0-aff", "-aff", NoQueue)],
        sources: &["ethernet/ibm/ehea/ehea_main.c: ehea_reg_interrupts"],
        ..UNKNOWN
    },
    Driver {
        names: &["myri10ge"],
        irqs: &[irq("eth0:slice-3", ":slice-#", Receive(0))],
        statistics: &[QueueNames {
            heading: Some("----------- slice ---------"),
            packets: &["rx_small_cnt", "rx_big_cnt"],
            ..NO_NAMES
        }],
        statistics_example: &[
            ("rx_packets", OTHER),
            ("dropped_no_small_buffer", OTHER),
            ("----------- slice ---------", OTHER),
            ("tx_pkt_done", OTHER),
            ("rx_small_cnt", PACKETS),
            ("rx_big_cnt", PACKETS),
        ],
        sources: &[
            "ethernet/myricom/myri10ge/myri10ge.c: myri10ge_request_irq, myri10ge_gstrings_slice_stats",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["S2IO"],
        irqs: &[
            irq("eth0:MSI-X-1-RX", ":MSI-X-#-RX", Receive(1)),
            irq("eth0:MSI-X-0-TX", ":MSI-X-#-TX", NoQueue),
        ],
        sources: &["ethernet/neterion/s2io.c: s2io_add_isr, s2io_enable_msi_x"],
        ..UNKNOWN
    },
    Driver {
        names: &["hns-nic"],
        // Cut at 15 characters: eth0-rx1 may be the eleventh queue's.
        irqs: &[irq("eth0-rx3", "-rx#", Receive(0)), irq("eth0-tx3", "-tx#", Transmit(0))],
        records_queue: false,
        statistics: &[QueueNames {
            packets: &["rx_ring#_pkt_num"],
            bytes: &["rx_ring#_bytes"],
            drops: &["rx_ring#_ppe_drop_pkt_num"],
            ..NO_NAMES
        }],
        statistics_example: &[
            ("tx_ring0_pkt_num", OTHER),
            ("rx_ring0_rcb_pkt_num", OTHER),
            ("rx_ring0_ppe_pkt_num", OTHER),
            ("rx_ring0_ppe_drop_pkt_num", DROPS),
            ("rx_ring0_fbd_num", OTHER),
            ("rx_ring0_pkt_num", PACKETS),
            ("rx_ring0_bytes", BYTES),
            ("rx_ring0_seg_pkt", OTHER),
        ],
        channels: FIXED,
        sources: &[
            "ethernet/hisilicon/hns/hns_enet.c: hns_nic_init_irq, hns_nic_rx_up_pro",
            "ethernet/hisilicon/hns/hns_ethtool.c: hns_ethtool_ops",
            "ethernet/hisilicon/hns/hns_dsaf_rcb.c: hns_rcb_get_strings",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["alx"],
        irqs: &[
            irq("enp3s0-TxRx-0", "-TxRx-#", Receive(0)),
            irq("enp3s0-rx-0", "-rx-#", Receive(0)),
            irq("enp3s0-tx-1", "-tx-#", Transmit(0)),
        ],
        sources: &["ethernet/atheros/alx/main.c: alx_request_msix, alx_alloc_napis"],
        ..UNKNOWN
    },
    Driver {
        names: &["xgene-enet"],
        irqs: &[
            irq("eth0-rx-1", "-rx-#", Receive(0)),
            irq("eth0-txc-1", "-txc-#", Transmit(0)),
            irq("eth0-rx-txc", "-rx-txc", All),
        ],
        records_queue: false,
        sources: &["ethernet/apm/xgene/xgene_enet_main.c: xgene_enet_set_irq_name, xgene_enet_rx_frame"],
        ..UNKNOWN
    },
    Driver {
        names: &["ravb"],
        // Of the device, before 6.9 of the interface.
        irqs: &[
            irq("e6800000.ethernet:ch0:rx_be", ":ch#:rx_be", Receive(0)),
            irq("e6800000.ethernet:ch1:rx_nc", ":ch#:rx_nc", Receive(0)),
            irq("e6800000.ethernet:ch18:tx_be", ":ch#:tx_be", Transmit(18)),
            irq("e6800000.ethernet:ch19:tx_nc", ":ch#:tx_nc", Transmit(18)),
            irq("e6800000.ethernet:ch22:multi", ":ch#:multi", NoQueue),
            irq("e6800000.ethernet:ch24:emac", ":ch#:emac", NoQueue),
        ],
        records_queue: false,
        // The second queue is for AVB streams (RAVB_NC).
        spreads_flows: false,
        sources: &[
            "ethernet/renesas/ravb_main.c: ravb_setup_irq, ravb_setup_irqs, ravb_rx_gbeth, ravb_rx_rcar",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["rtsn"],
        irqs: &[irq("tsn0:rx", ":rx", All), irq("tsn0:tx", ":tx", NoQueue)],
        sources: &["ethernet/renesas/rtsn.c: rtsn_request_irqs"],
        ..UNKNOWN
    },
    Driver {
        names: &["fsl-gianfar"],
        // One for each group of queues.
        irqs: &[
            irq("eth0_g0_rx", "_rx", All),
            irq("eth0_g0_tx", "_tx", NoQueue),
            irq("eth0_g0_er", "_er", NoQueue),
        ],
        is_named_at_probe: true,
        // Whatever the interfaces are called now.
        portals: &["eth#_g0_rx", "eth#_g0_tx", "eth#_g1_rx", "eth#_g1_tx"],
        sources: &["ethernet/freescale/gianfar.c: gfar_probe, register_grp_irqs"],
        ..UNKNOWN
    },
    Driver {
        names: &["pasemi_mac"],
        irqs: &[irq("eth0 rx", " rx", All), irq("eth0 tx", " tx", NoQueue)],
        sources: &["ethernet/pasemi/pasemi_mac.c: pasemi_mac_open"],
        ..UNKNOWN
    },
    Driver {
        names: &["forcedeth"],
        irqs: &[
            irq("eth0-rx", "-rx", All),
            irq("eth0-tx", "-tx", NoQueue),
            irq("eth0-other", "-other", NoQueue),
        ],
        sources: &["ethernet/nvidia/forcedeth.c: nv_request_irq"],
        ..UNKNOWN
    },
    Driver {
        // One vector for all ports.
        names: &["sky2", "skge"],
        shares_irqs: true,
        sources: &[
            "ethernet/marvell/sky2.c: sky2_setup_irq, sky2_status_intr",
            "ethernet/marvell/skge.c: skge_probe, skge_intr",
        ],
        ..UNKNOWN
    },
    Driver {
        // One vector for all ports.
        names: &["mlxsw_spectrum", "mlxsw_spectrum2", "mlxsw_spectrum3", "mlxsw_spectrum4"],
        shares_irqs: true,
        counts_forwarded: true,
        sources: &[
            "ethernet/mellanox/mlxsw/pci.c: mlxsw_pci_init, mlxsw_pci_eq_irq_handler",
            "ethernet/mellanox/mlxsw/spectrum.c: mlxsw_sp_port_get_stats64",
        ],
        ..UNKNOWN
    },
    Driver {
        // One vector for all ports.
        names: &["Prestera DX"],
        shares_irqs: true,
        counts_forwarded: true,
        sources: &[
            "ethernet/marvell/prestera/prestera_pci.c: prestera_pci_probe, prestera_pci_irq_handler",
            "ethernet/marvell/prestera/prestera_main.c: prestera_port_get_stats64",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["hibmcge"],
        irqs: &[
            irq("hibmcge-0000:84:00.1-rx", "-rx", All),
            irq("hibmcge-0000:84:00.1-tx", "-tx", NoQueue),
            irq("hibmcge-0000:84:00.1-err", "-err", NoQueue),
        ],
        sources: &["ethernet/hisilicon/hibmcge/hbg_irq.c: hbg_irq_init"],
        ..UNKNOWN
    },
    Driver {
        // The interrupt of its own is the link's.
        names: &["fsl_dpaa2_eth"],
        irqs: &[irq("dpni.1", "dpni.#", NoQueue)],
        portals: &["dpio.#"],
        channels: FIXED,
        sources: &[
            "ethernet/freescale/dpaa2/dpaa2-eth.c: dpaa2_eth_setup_irqs",
            "ethernet/freescale/dpaa2/dpaa2-ethtool.c: dpaa2_ethtool_ops",
            "../soc/fsl/dpio/dpio-driver.c: register_dpio_irq_handlers",
        ],
        ..UNKNOWN
    },
    Driver {
        // The interrupt of its own is the links'.
        names: &["fsl_dpaa2_switch"],
        irqs: &[irq("dpsw.0", "dpsw.#", NoQueue)],
        portals: &["dpio.#"],
        counts_forwarded: true,
        sources: &[
            "ethernet/freescale/dpaa2/dpaa2-switch.c: dpaa2_switch_setup_irqs, dpaa2_switch_setup_dpio, dpaa2_switch_port_get_stats",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["fsl_dpaa_mac", "fsl_dpa"],
        portals: &["QMan portal #"],
        records_queue: false,
        sources: &["../soc/fsl/qbman/qman.c: qman_create_portal"],
        ..UNKNOWN
    },
    Driver {
        names: &["lan966x-switch"],
        portals: &["fdma irq", "frame extraction"],
        counts_forwarded: true,
        sources: &[
            "ethernet/microchip/lan966x/lan966x_main.c: lan966x_probe",
            "ethernet/microchip/lan966x/lan966x_ethtool.c: lan966x_stats_get",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["ocelot-switch"],
        portals: &["frame extraction"],
        counts_forwarded: true,
        sources: &[
            "ethernet/mscc/ocelot_vsc7514.c: mscc_ocelot_probe",
            "ethernet/mscc/ocelot_stats.c: ocelot_port_get_stats64",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["sparx5-switch"],
        portals: &["sparx5-fdma", "sparx5-xtr"],
        counts_forwarded: true,
        sources: &[
            "ethernet/microchip/sparx5/sparx5_main.c: sparx5_start",
            "ethernet/microchip/sparx5/sparx5_ethtool.c: sparx5_get_stats64",
        ],
        ..UNKNOWN
    },
    Driver {
        names: &["renesas_eth_sw"],
        portals: &["rswitch: gwca0_rxtx#"],
        sources: &["ethernet/renesas/rswitch.c: rswitch_gwca_request_irqs"],
        ..UNKNOWN
    },
    Driver {
        names: &["airoha_eth"],
        portals: &["airoha_eth"],
        sources: &["ethernet/airoha/airoha_eth.c: airoha_qdma_init"],
        ..UNKNOWN
    },
    Driver {
        names: &["lantiq,xrx200-net"],
        portals: &["xrx200_net_rx"],
        sources: &["ethernet/lantiq_xrx200.c: xrx200_dma_init"],
        ..UNKNOWN
    },
    Driver {
        names: &["ltq_etop"],
        portals: &["etop_rx"],
        sources: &["ethernet/lantiq_etop.c: ltq_etop_hw_init"],
        ..UNKNOWN
    },
    // Names that do not say which queue: the bare one of the interface, of the device or of the driver for several
    // interrupts, numbers that one port overwrites for another, or several interrupts for the only queue that packets are
    // counted for.
    // Queues 1 and 2 take VLAN priorities (FEC_RCMR_1).
    without_rss(without_queues(
        &["fec"],
        &["ethernet/freescale/fec_main.c: fec_probe, fec_enet_enable_ring"],
    )),
    without_queues(&["cxgb4vf"], &["ethernet/chelsio/cxgb4vf/cxgb4vf_main.c: name_msix_vecs"]),
    without_queues(&["bna"], &["ethernet/brocade/bna/bnad.c: bnad_rx_msix_register"]),
    // A private vector for each CPU, all with the bare name. With queue_mode=0 the last is shared and may move, but has the same
    // name.
    Driver {
        pins_irqs: true,
        ..without_record(without_queues(
            &["mvpp2"],
            &[
                "ethernet/marvell/mvpp2/mvpp2_main.c: mvpp2_multi_queue_vectors_init, mvpp2_irqs_init, mvpp2_open, mvpp2_rx",
            ],
        ))
    },
    without_record(without_queues(
        &["mvneta"],
        &["ethernet/marvell/mvneta.c: mvneta_open, mvneta_rx_swbm, mvneta_rx_hwbm"],
    )),
    // Screeners only: all that no rule matches goes to queue 0.
    Driver {
        statistics: &[QueueNames {
            packets: &["q#_rx_packets"],
            bytes: &["q#_rx_bytes"],
            drops: &["q#_rx_dropped"],
            ..NO_NAMES
        }],
        statistics_example: &[
            ("rx_frames", OTHER),
            ("q0_rx_packets", PACKETS),
            ("q0_rx_bytes", BYTES),
            ("q0_rx_dropped", DROPS),
            ("q0_tx_packets", OTHER),
        ],
        ..without_rss(without_record(without_queues(
            &["macb"],
            &[
                "ethernet/cadence/macb_main.c: macb_init, gem_rx, gem_get_ethtool_strings, gem_enable_flow_filters",
            ],
        )))
    },
    Driver {
        has_one_irq: true,
        ..without_record(without_queues(
            &["cpsw", "cpsw-switch"],
            &[
                "ethernet/ti/cpsw.c: cpsw_probe, cpsw_rx_handler",
                "ethernet/ti/cpsw_new.c: cpsw_probe, cpsw_rx_handler",
                "ethernet/ti/cpsw_priv.c: cpsw_rx_interrupt, cpsw_rx_mq_poll",
            ],
        ))
    },
    without_record(without_queues(
        &["icssg-prueth", "icssg-prueth-sr1"],
        &[
            "ethernet/ti/icssg/icssg_prueth.c: emac_ndo_open",
            "ethernet/ti/icssg/icssg_common.c: emac_rx_packet",
        ],
    )),
    Driver {
        channels: FIXED,
        ..without_record(without_queues(
            &["sxgbe"],
            &[
                "ethernet/samsung/sxgbe/sxgbe_main.c: sxgbe_open, sxgbe_rx",
                "ethernet/samsung/sxgbe/sxgbe_ethtool.c: sxgbe_ethtool_ops",
            ],
        ))
    },
    without_record(without_queues(
        &["bcmgenet"],
        &["ethernet/broadcom/genet/bcmgenet.c: bcmgenet_open, bcmgenet_desc_rx"],
    )),
    without_record(without_queues(
        &["brcm-systemport"],
        &["ethernet/broadcom/bcmsysport.c: bcm_sysport_open, bcm_sysport_desc_rx"],
    )),
    without_record(without_queues(
        &["lan743x"],
        &["ethernet/microchip/lan743x_main.c: lan743x_intr_register_isr, lan743x_rx_process_buffer"],
    )),
    without_record(without_queues(
        &["qlcnic"],
        &[
            "ethernet/qlogic/qlcnic/qlcnic_main.c: qlcnic_request_irq",
            "ethernet/qlogic/qlcnic/qlcnic_io.c: qlcnic_process_rcv, qlcnic_83xx_process_rcv",
        ],
    )),
    without_record(without_queues(
        &["rtase"],
        &["ethernet/realtek/rtase/rtase_main.c: rtase_open, rtase_rx_skb"],
    )),
    without_record(without_queues(
        &["atl1c"],
        &["ethernet/atheros/atl1c/atl1c_main.c: atl1c_request_irq, atl1c_clean_rx"],
    )),
    Driver { names: &["veth"], kind: Pair, sources: &["veth.c: veth_get_drvinfo"], ..UNKNOWN },
    Driver {
        names: &["net_failover"],
        kind: Failover,
        sources: &["net_failover.c: nfo_ethtool_get_drvinfo, net_failover_create"],
        ..UNKNOWN
    },
];
