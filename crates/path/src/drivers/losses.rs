//! Losses among drivers' own statistics (`ethtool -S`) that the interface's common counters lack or do not tell apart.
//!
//! A name has one meaning in all drivers that use it, so each is looked for whatever the driver. Those of one queue are in
//! the rows of [`super::DRIVERS`]. A driver counts losses under more names than any table has: the words of a name without a row
//! say whether it may be one.

use crate::sample::{DEVICE_ERRORS, DEVICE_LOSSES, VIRTUAL_LOSSES};

/// One statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// Its name; `#` is a number, such as that of a queue, and those of all numbers are added up.
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
    /// Frames that arrived damaged or with a wrong length: they are lost, but not by this machine.
    Damaged,
    /// Buffers that could not be allocated: the ring runs empty if this goes on, nothing is lost so far.
    Allocation,
    /// Pause frames that the device sent while its buffers were full: the sender waits, nothing is lost.
    Paused,
    /// Losses by their name, but it is not known whether of received packets, or whether packets are counted at all.
    Unclear,
    /// Nothing that anyone here misses, although the name has a word for it: packets for others, broken frames, events.
    Harmless,
}

impl LossKind {
    /// True if each event is a lost packet.
    pub fn is_lost(self) -> bool {
        matches!(self, Ring | Device | Damaged)
    }
}

const fn loss(name: &'static str, kind: LossKind, source: &'static str) -> Loss {
    Loss { name, kind, source }
}

use LossKind::{Allocation, Damaged, Device, Harmless, Paused, Ring, Unclear};

/// What the firmware counts, for the receive direction only.
const MYRI10GE: &str = "myricom/myri10ge/myri10ge.c: myri10ge_gstrings_main_stats";

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
    loss("rxq#: rx_drops_no_frags", Ring, "emulex/benet/be_ethtool.c: et_rx_stats"),
    loss("rxq#: rx_drops_no_skbs", Device, "emulex/benet/be_ethtool.c: et_rx_stats"),
    loss("rx_drops_no_erx_descr", Ring, "emulex/benet/be_ethtool.c: et_stats"),
    loss("rx_drops_no_pbuf", Device, "emulex/benet/be_ethtool.c: et_stats"),
    loss("rx_input_fifo_overflow_drop", Device, "emulex/benet/be_ethtool.c: et_stats"),
    loss("rxpp_fifo_overflow_drop", Device, "emulex/benet/be_ethtool.c: et_stats"),
    loss("pmem_fifo_overflow_drop", Device, "emulex/benet/be_ethtool.c: et_stats"),
    loss("rx_dropped_runt", Harmless, "emulex/benet/be_ethtool.c: et_stats"),
    loss("rx_dropped_too_short", Harmless, "emulex/benet/be_ethtool.c: et_stats"),
    loss("rx_dropped_too_small", Harmless, "emulex/benet/be_ethtool.c: et_stats"),
    loss("rx_dropped_tcp_length", Harmless, "emulex/benet/be_ethtool.c: et_stats"),
    loss("rx_dropped_header_too_small", Harmless, "emulex/benet/be_ethtool.c: et_stats"),
    loss("[hw] rx nobuffer discards", Ring, "freescale/dpaa2/dpaa2-ethtool.c: dpaa2_ethtool_stats"),
    loss("[hw] rx discarded frames", Device, "freescale/dpaa2/dpaa2-ethtool.c: dpaa2_ethtool_stats"),
    loss("rx-overrun-errors", Device, "freescale/gianfar_ethtool.c: stat_gstrings"),
    // Interrupts for frames without a buffer, each for one or more.
    loss("rx-busy-errors", Unclear, "freescale/gianfar.c: gfar_error (IEVENT_BSY)"),
    loss(
        "IEEE_rx_macerr",
        Device,
        "freescale/fec_main.c: fec_stats (IEEE_R_MACERR, the receive FIFO overflowed)",
    ),
    loss("IEEE_rx_drop", Harmless, "freescale/fec_main.c: fec_stats (IEEE_R_DROP, frames without a start)"),
    loss("rx_discard", Ring, "marvell/mvneta.c: mvneta_statistics (MVNETA_RX_DISCARD_FRAME_COUNT)"),
    loss("rx_overrun", Device, "marvell/mvneta.c: mvneta_statistics (MVNETA_OVERRUN_FRAME_COUNT)"),
    loss("rxq_#_queue_full_drops", Ring, "marvell/mvpp2/mvpp2_main.c: mvpp2_ethtool_rxq_regs"),
    loss("rxq_#_packets_early_drops", Device, "marvell/mvpp2/mvpp2_main.c: mvpp2_ethtool_rxq_regs"),
    loss("rxq_#_packets_bm_drops", Ring, "marvell/mvpp2/mvpp2_main.c: mvpp2_ethtool_rxq_regs"),
    loss("rx_fifo_or_parser_overrun_drops", Device, "marvell/mvpp2/mvpp2_main.c: mvpp2_ethtool_port_regs"),
    loss("rx_classifier_drops", Harmless, "marvell/mvpp2/mvpp2_main.c: mvpp2_ethtool_port_regs"),
    loss("mmc_rx_fifo_overflow", Device, "stmicro/stmmac/stmmac_ethtool.c: stmmac_mmc"),
    loss(
        "mtl_rx_fifo_fill_level_full",
        Harmless,
        "stmicro/stmmac/stmmac_ethtool.c: stmmac_mac_debug, a state",
    ),
    loss("rx_no_bufs", Ring, "cisco/enic/enic_ethtool.c: enic_rx_stats"),
    loss("port_rx_nodesc_drops", Ring, "sfc/ef10.c: efx_ef10_stat_desc"),
    loss("rx_nodesc_drops", Ring, "sfc/ef10.c: efx_ef10_stat_desc"),
    loss("rx_noskb_drops", Device, "sfc/ef10.c: efx_ef10_stat_desc (GENERIC_SW_STAT)"),
    loss("port_rx_overflow", Device, "sfc/ef10.c: efx_ef10_stat_desc"),
    loss("port_rx_pm_discard_bb_overflow", Device, "sfc/ef10.c: efx_ef10_stat_desc"),
    loss("port_rx_pm_discard_vfifo_full", Device, "sfc/ef10.c: efx_ef10_stat_desc"),
    loss("port_rx_dp_di_dropped_packets", Harmless, "sfc/ef10.c: efx_ef10_stat_desc, dropped by a filter"),
    loss("no_buff_discards", Ring, "qlogic/qede/qede_ethtool.c: qede_stats_arr"),
    loss("brb_discards", Device, "qlogic/qede/qede_ethtool.c: qede_stats_arr"),
    loss("pkts rx OOB", Ring, "../vmxnet3/vmxnet3_ethtool.c: vmxnet3_rq_dev_stats (pktsRxOutOfBuf)"),
    loss("rx_resource_errors", Ring, "cadence/macb_main.c: gem_get_stats, gem_statistics"),
    loss("rx_no_buffer", Ring, "ibm/ibmvnic.c: ibmvnic_stats"),
    loss("rx_bg#_frames_dropped", Device, "chelsio/cxgb4/cxgb4_ethtool.c: stats_strings"),
    loss("outbound_pci_buffer_overflow", Device, "mellanox/mlx5/core/en_stats.c: pcie_perf_stats_desc64"),
    loss("rx_prio#_buf_discard", Device, "mellanox/mlx5/core/en_stats.c: pport_per_tc_prio_stats_desc"),
    loss(
        "rx_prio#_cong_discard",
        Device,
        "mellanox/mlx5/core/en_stats.c: pport_per_tc_congest_prio_stats_desc",
    ),
    loss("dropped_no_small_buffer", Ring, MYRI10GE),
    loss("dropped_no_big_buffer", Ring, MYRI10GE),
    loss("dropped_overrun", Device, MYRI10GE),
    loss("dropped_link_overflow", Device, MYRI10GE),
    // Also packets for others.
    loss("dropped_link_error_or_filtered", Unclear, MYRI10GE),
    loss("dropped_bad_phy", Damaged, MYRI10GE),
    loss("dropped_bad_crc#", Damaged, MYRI10GE),
    loss("dropped_runt", Harmless, MYRI10GE),
    loss("dropped_pause", Harmless, MYRI10GE),
    loss("dropped_unicast_filtered", Harmless, MYRI10GE),
    loss("dropped_multicast_filtered", Harmless, MYRI10GE),
    loss(
        "rx_steer_missed_packets",
        Harmless,
        "mellanox/mlx5/core/en_stats.c: vnic_env_stats_desc, for others",
    ),
    // Frames that wait in the device's own buffer and may still be received.
    loss("rx_no_buffer_count", Harmless, "intel/igb/igb_main.c: igb_update_stats (RNBC); e1000, e1000e, igc"),
    loss(
        "dev_rx_discards",
        Unclear,
        "netronome/nfp: Documentation, device statistics: also packets for others",
    ),
    loss(
        "tx_flow_control_xoff",
        Paused,
        "intel/ixgbe/ixgbe_ethtool.c: ixgbe_gstrings_stats; e1000, e1000e, igb, igc",
    ),
    loss("port.link_xoff_tx", Paused, "intel/i40e/i40e_ethtool.c: i40e_gstrings_stats"),
    loss("link_xoff_tx.nic", Paused, "intel/ice/ice_ethtool.c: ice_gstrings_pf_stats"),
    loss("tx_pause_ctrl_phy", Paused, "mellanox/mlx5/core/en_stats.c: pport_802_3_stats_desc"),
    loss("tx_xoff_sent", Paused, "broadcom/tg3.c: ethtool_stats_keys"),
    // Of the interface; drivers repeat them.
    loss("rx_missed_errors", Ring, "include/uapi/linux/if_link.h: rtnl_link_stats64"),
    loss("rx_fifo_errors", Ring, "include/uapi/linux/if_link.h: rtnl_link_stats64"),
    loss("rx_over_errors", Device, "include/uapi/linux/if_link.h: rtnl_link_stats64"),
    // Some drivers add those without a buffer.
    loss("rx_errors", Damaged, "include/uapi/linux/if_link.h: rtnl_link_stats64"),
    loss("rx_crc_errors", Damaged, "include/uapi/linux/if_link.h: rtnl_link_stats64"),
    loss("rx_frame_errors", Damaged, "include/uapi/linux/if_link.h: rtnl_link_stats64"),
    loss("rx_length_errors", Damaged, "include/uapi/linux/if_link.h: rtnl_link_stats64"),
];

/// Before the name of a statistic of the driver that has the name of one of the interface's counters.
pub(crate) const OF_DRIVER: &str = "ethtool -S ";

/// Words for something lost.
const LOST: &[&str] = &[
    "drop",
    "drops",
    "dropped",
    "discard",
    "discards",
    "discarded",
    "overrun",
    "overruns",
    "overflow",
    "overflows",
    "missed",
    "lost",
];

/// Words for what may lead to a loss, or for its occasions.
const NEARLY: &[&str] = &[
    "miss",
    "full",
    "oob",
    "ovfl",
    "over",
    NO_BUFFER,
    "nobuffer",
    "nodesc",
    "noskb",
    "exhausted",
    "starved",
];

/// In place of the words for something that is not there.
const NO_BUFFER: &str = "nobuf";

/// What buffers are called.
const BUFFERS: &[&str] = &[
    "bd", "bds", "buf", "buff", "buffer", "buffers", "bufs", "desc", "descr", "descs", "frag", "frags",
    "mem", "memory", "pbuf", "skb", "skbs", "wqe",
];

/// Words for the receive direction, besides those that begin with `rx`.
const RECEIVED: &[&str] = &["in", "rcv", "recv", "receive", "received", "ingress"];

/// Words of names that count something else: what is sent, bytes, drops on purpose, pages that are used again.
const OTHERWISE: &[&str] = &[
    "tx",
    "txq",
    "txqueue",
    "out",
    "xmit",
    "transmit",
    "transmitted",
    "egress",
    "bytes",
    "octets",
    "octs",
    "range",
    "xdp",
    "xsk",
    "filter",
    "filtered",
    "nomatch",
    "pruning",
    "fdir",
    "arfs",
    "pp",
    "cache",
    "recycle",
    "irq",
    "irqs",
    "tls",
];

/// Words that change nothing about a loss, besides those for buffers.
const PLAIN: &[&str] = &[
    "bg", "ch", "cnt", "cntr", "cos", "count", "counter", "dma", "drv", "err", "error", "errors", "errs",
    "fifo", "frame", "frames", "fw", "hw", "mac", "mmc", "n", "netdev", "nic", "num", "number", "oom",
    "packet", "packets", "phy", "pkt", "pkts", "port", "pri", "prio", "q", "queue", "queues", "ring",
    "rings", "rx", "rxq", "tc", "total", "ucast",
];

/// The kind of a statistic's loss: by its row, or else by the words of its name. `None` for one that counts no losses.
pub fn kind(name: &str) -> Option<LossKind> {
    let name = name.strip_prefix(OF_DRIVER).unwrap_or(name);
    row(name).map(|loss| loss.kind).or_else(|| by_words(name))
}

/// The name of the sum to which a driver's statistic belongs, of those that count losses or may: its own, with `#` in place of
/// numbers.
pub(crate) fn counted_as(name: &str) -> Option<String> {
    if kind(name)? == Harmless {
        return None;
    }
    let sum = row(name).map_or_else(|| without_numbers(name), |loss| loss.name.to_owned());
    Some(if is_of_interface(&sum) { format!("{OF_DRIVER}{sum}") } else { sum })
}

fn is_of_interface(name: &str) -> bool {
    [&DEVICE_LOSSES[..], &DEVICE_ERRORS, &VIRTUAL_LOSSES].iter().any(|counters| counters.contains(&name))
}

fn row(name: &str) -> Option<&'static Loss> {
    let pattern = without_numbers(name);
    LOSSES.iter().find(|loss| loss.name == pattern)
}

/// A name with `#` in place of each number.
fn without_numbers(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for c in name.chars() {
        if !c.is_ascii_digit() {
            text.push(c);
        } else if !text.ends_with('#') {
            text.push('#');
        }
    }
    text
}

/// Words of a name in lower case. Anything that is no letter ends a word, and so does the capital after a small letter. `out of`
/// and `no` with something are one word.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for c in name.chars() {
        if !c.is_ascii_alphabetic() || (was_small && c.is_ascii_uppercase()) {
            words.push(String::new());
        }
        if c.is_ascii_alphabetic() {
            words.last_mut().expect("one at least").push(c.to_ascii_lowercase());
        }
        was_small = c.is_ascii_lowercase();
    }
    words.retain(|word| !word.is_empty());
    let mut joined: Vec<String> = Vec::with_capacity(words.len());
    for word in words {
        match joined.last_mut() {
            Some(last) if *last == "out" && word == "of" => *last = "oob".to_owned(),
            Some(last) if *last == "no" && BUFFERS.contains(&word.as_str()) => *last = NO_BUFFER.to_owned(),
            _ => joined.push(word),
        }
    }
    joined
}

/// A loss if the name says so of what is received and says nothing else; unclear if only a part of it does.
fn by_words(name: &str) -> Option<LossKind> {
    let words = words(name);
    let has = |set: &[&str]| words.iter().any(|word| set.contains(&word.as_str()));
    let is_received = has(RECEIVED) || words.iter().any(|word| word.starts_with("rx"));
    let is_known = |word: &String| {
        [LOST, NEARLY, BUFFERS, RECEIVED, PLAIN].iter().any(|set| set.contains(&word.as_str()))
    };
    match (has(LOST), is_received) {
        _ if has(OTHERWISE) => None,
        (true, true) if words.iter().all(is_known) => Some(Device),
        (true, _) => Some(Unclear),
        (false, true) if has(NEARLY) => Some(Unclear),
        (false, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::LossKind::{Allocation, Damaged, Device, Harmless, Paused, Ring, Unclear};
    use super::{LOSSES, LossKind, counted_as, kind, without_numbers};

    /// Names from the sources of drivers, by what they count.
    const NAMES: &[(&str, Option<LossKind>)] = &[
        // With a row.
        ("rx_out_of_buffer", Some(Ring)),
        ("pkts rx OOB", Some(Ring)),
        ("rxq3: rx_drops_no_frags", Some(Ring)),
        ("[hw] rx nobuffer discards", Some(Ring)),
        ("rxq_12_queue_full_drops", Some(Ring)),
        ("mmc_rx_fifo_overflow", Some(Device)),
        ("queue_7_rx_page_alloc_fail", Some(Allocation)),
        ("rx_missed_errors", Some(Ring)),
        ("rx_no_buffer_count", Some(Harmless)),
        ("rx_steer_missed_packets", Some(Harmless)),
        ("rx-busy-errors", Some(Unclear)),
        ("rx_errors", Some(Damaged)),
        ("rx_crc_errors", Some(Damaged)),
        ("rx_length_errors", Some(Damaged)),
        ("dropped_no_small_buffer", Some(Ring)),
        ("dropped_unicast_filtered", Some(Harmless)),
        ("tx_flow_control_xoff", Some(Paused)),
        // bnxt_en, r8169, tg3, iavf, atlantic, thunder, macb, gianfar, enetc, stmmac, ionic.
        ("rx_total_discard_pkts", Some(Device)),
        ("rx_missed", Some(Device)),
        ("rx_mac_missed", Some(Device)),
        ("rx_discards", Some(Device)),
        ("InDroppedDma", Some(Device)),
        ("rx_drop_overrun", Some(Device)),
        ("q1_rx_dropped", Some(Device)),
        ("rx-dropped-frames", Some(Device)),
        ("MAC rx dropped packets", Some(Device)),
        ("rx_overflow_cntr", Some(Device)),
        ("hw_rx_ucast_drop_packets", Some(Device)),
        ("rx_out_of_buffer_drops", Some(Device)),
        // Which packets, or whether packets: not known.
        ("rx_drop_bcast", Some(Unclear)),
        ("rx_total_netpoll_discards", Some(Unclear)),
        ("ttl0_discard", Some(Unclear)),
        ("eth_red_drops", Some(Unclear)),
        ("timestamp_dropped", Some(Unclear)),
        ("rx_queue_full", Some(Unclear)),
        ("rx_no_desc", Some(Unclear)),
        ("rx_out_of_bufs", Some(Unclear)),
        ("rx_bottom_fifo_drop", Some(Unclear)),
        ("roce_drops_crc", Some(Unclear)),
        // No losses, or none of what is received.
        ("rx_packets", None),
        ("rx_nohandler", None),
        ("rx_oversize_pkts", None),
        ("rx_address_filtered", None),
        ("mac_filter_discards", None),
        ("tx_dropped", None),
        ("txq0: tx_drv_drops", None),
        ("OutDropped", None),
        ("rx_xdp_drop", None),
        ("rx_queue_0_xdp_drops", None),
        ("[drv] xdp drop", None),
        ("rx3_xdp_tx_full", None),
        ("rx_pp_recycle_ring_full", None),
        ("rx0_cache_full", None),
        ("fdir_miss", None),
        ("fdir_overflow", None),
        ("[0]: missed_irqs", None),
        ("dma_readq_full", None),
        ("rx_overflow_irq", None),
        ("rx_flow_control_xoff", None),
        ("rx_pause_frames", None),
        ("rx_out_of_range_len_phy", None),
        ("no_ptp_rx_msg_type_ext", None),
        ("rx_drop_octs", None),
        ("conntrack_allowance_exceeded", None),
        ("mtl_rx_fifo_read_ctrl_idle", None),
    ];

    #[test]
    fn names_by_what_they_count() {
        for (name, expected) in NAMES {
            assert_eq!(kind(name), *expected, "{name}");
        }
    }

    #[test]
    fn a_row_is_found_by_its_name() {
        for loss in LOSSES {
            assert_eq!(kind(loss.name), Some(loss.kind), "{}", loss.name);
            let named = LOSSES.iter().filter(|other| other.name == loss.name).count();
            assert!(named == 1 && !loss.source.is_empty(), "{}", loss.name);
            assert_eq!(without_numbers(loss.name), loss.name, "its numbers are #");
        }
    }

    /// The names of sums have the kind of their parts, and never that of an interface's counter.
    #[test]
    fn sums_have_the_kind_of_their_parts() {
        assert_eq!(counted_as("rxq3: rx_drops_no_frags").as_deref(), Some("rxq#: rx_drops_no_frags"));
        assert_eq!(counted_as("q11_rx_dropped").as_deref(), Some("q#_rx_dropped"));
        assert_eq!(counted_as("rx_dropped").as_deref(), Some("ethtool -S rx_dropped"));
        assert_eq!(counted_as("rx_steer_missed_packets"), None);
        for (name, expected) in NAMES {
            let sum = counted_as(name);
            assert_eq!(sum.is_some(), expected.is_some_and(|kind| kind != Harmless), "{name}");
            assert!(sum.is_none_or(|sum| kind(&sum) == *expected), "{name}");
        }
    }
}
