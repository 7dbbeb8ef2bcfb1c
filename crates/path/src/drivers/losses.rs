//! Losses among drivers' own statistics (`ethtool -S`) that the interface's common counters lack or do not tell apart.
//!
//! A name has one meaning in all drivers that use it, so each is looked for whatever the driver. Those of one queue are in
//! the rows of [`super::DRIVERS`].

/// One statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// Its name; `#` is the number of a queue, and those of all queues are added up.
    pub name: &'static str,
    /// Kind of loss.
    pub kind: LossKind,
    /// The file below `drivers/net/ethernet` of the kernel and its function or table, or another source.
    pub source: &'static str,
}

/// Kind of a loss that a driver counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossKind {
    /// Packets for which there was no buffer in the ring.
    Ring,
    /// Packets that the device dropped for another reason.
    Device,
    /// Buffers that could not be allocated: the ring runs empty if this goes on, nothing is lost so far.
    Allocation,
}

const fn loss(name: &'static str, kind: LossKind, source: &'static str) -> Loss {
    Loss { name, kind, source }
}

use LossKind::{Allocation, Device, Ring};

/// All that are known.
pub static LOSSES: &[Loss] = &[
    loss("rx_overruns", Ring, "amzn-drivers, ena_netdev.c: ena_keep_alive_wd"),
    loss("rx_drops", Device, "amazon/ena/ena_netdev.c: ena_keep_alive_wd"),
    loss("queue_#_rx_page_alloc_fail", Allocation, "amazon/ena/ena_ethtool.c: ena_stats_rx_strings"),
    loss("queue_#_rx_skb_alloc_fail", Allocation, "amazon/ena/ena_ethtool.c: ena_stats_rx_strings"),
    loss("rx_no_dma_resources", Ring, "intel/ixgbe/ixgbe_main.c: ixgbe_update_stats (QPRDC); txgbe, ngbe"),
    loss("alloc_rx_page_failed", Allocation, "intel/ixgbe/ixgbe_ethtool.c: ixgbe_gstrings_stats"),
    loss("alloc_rx_buff_failed", Allocation, "intel/ixgbe/ixgbe_ethtool.c: ixgbe_gstrings_stats"),
    loss("rx_dropped.nic", Ring, "intel/ice/ice_ethtool.c: ice_gstrings_pf_stats (rx_discards)"),
    loss("port.rx_dropped", Ring, "intel/i40e/i40e_ethtool.c: i40e_gstrings_stats, before 6.8"),
    loss("port.rx_discards", Ring, "intel/i40e/i40e_ethtool.c: i40e_gstrings_stats, since 6.8"),
    loss("rx_out_of_buffer", Ring, "mellanox/mlx5/core/en_main.c: mlx5e_get_stats"),
    loss("rx_discards_phy", Device, "mellanox/mlx5/core/en_stats.c: pport_2863_stats_desc"),
    loss("rx#_hw_drop_overruns", Ring, "../virtio_net.c: virtnet_stats_rx_basic_desc (part of rx#_hw_drops)"),
    loss("rx_queue_drop_cnt[#]", Device, "google/gve/gve_ethtool.c: gve_gstrings_rx_stats"),
    loss("rx_no_buffers_posted[#]", Ring, "google/gve/gve_ethtool.c: gve_gstrings_rx_stats"),
    loss("rx_drops_packet_over_mru[#]", Device, "google/gve/gve_ethtool.c: gve_gstrings_rx_stats"),
    loss("rx_drops_invalid_checksum[#]", Device, "google/gve/gve_ethtool.c: gve_gstrings_rx_stats"),
    loss("rx_desc_err_dropped_pkt", Device, "google/gve/gve_ethtool.c: gve_gstrings_main_stats"),
    loss("rx_skb_alloc_fail", Allocation, "google/gve/gve_ethtool.c: gve_gstrings_main_stats"),
    loss("rx_buf_alloc_fail", Allocation, "google/gve/gve_ethtool.c: gve_gstrings_main_stats"),
    loss("hc_rx_discards_no_wqe", Ring, "microsoft/mana/mana_ethtool.c: mana_eth_stats"),
    loss("hc_rx_err_vport_disabled", Device, "microsoft/mana/mana_ethtool.c: mana_eth_stats"),
];

/// The kind of a statistic's loss, by its name in [`LOSSES`].
pub(crate) fn kind(name: &str) -> Option<LossKind> {
    LOSSES.iter().find(|loss| loss.name == name).map(|loss| loss.kind)
}
