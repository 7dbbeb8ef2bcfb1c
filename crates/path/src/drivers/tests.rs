use std::collections::BTreeSet;

use rxlab_base::parse::ethtool::QueueStatistics;

use super::{DRIVERS, Driver, IrqName, UNKNOWN, facts, irq_names, names, statistics};

#[test]
fn names_are_unique_and_rows_have_sources() {
    let mut all = BTreeSet::new();
    for row in DRIVERS {
        assert!(!row.names.is_empty() && !row.sources.is_empty(), "{row:?}");
        for name in row.names {
            assert!(all.insert(name), "{name} has two rows");
            assert_eq!(facts(Some(name)), row);
        }
        for source in row.sources {
            let (file, functions) = source.split_once(": ").expect("a file and functions");
            assert!(file.ends_with(".c") && !functions.is_empty(), "{source}");
        }
    }
    assert_eq!((*facts(None), *facts(Some("no-such-driver"))), (UNKNOWN, UNKNOWN));
}

#[test]
fn a_row_s_interrupt_names_fit_their_examples() {
    for row in DRIVERS {
        for name in row.irqs {
            let first = irq_names(Some(row.names[0])).find(|other| other.number_in(name.example).is_some());
            assert_eq!(first, Some(name), "{}: {}", row.names[0], name.example);
        }
    }
}

/// A driver without a row is judged by the first of equal names.
#[test]
fn a_shared_name_has_one_meaning() {
    let shared: Vec<&IrqName> = irq_names(None).collect();
    for name in DRIVERS.iter().flat_map(|row| row.irqs).filter(|name| name.is_shared) {
        let fitting: Vec<_> = shared.iter().filter(|other| other.number_in(name.example).is_some()).collect();
        let meanings: Vec<_> = fitting.iter().map(|other| (other.ending, other.number)).collect();
        assert_eq!(meanings, [(name.ending, name.number)], "{}", name.example);
    }
}

/// Texts for people list drivers in the order of the table.
#[test]
fn rows_by_what_they_have() {
    assert_eq!(names(|row| row.has_atr), ["ixgbe", "i40e"]);
    assert_eq!(names(|row| row.rss_queues.is_some()), ["ixgbe"]);
    assert_eq!(names(|row| row.channels.keep_link), ["virtio_net", "ena"]);
}

/// The counters from each driver's names, with the values 100, 101, 102, ...
fn counters(names: &[&str], queues: u32) -> Vec<(u32, u64, Option<u64>, Option<u64>)> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let values: Vec<u64> = (100..).take(names.len()).collect();
    let counters =
        QueueStatistics::new(statistics(None), &names, queues).counters(&values).expect("as many values");
    counters.into_iter().map(|(queue, of)| (queue, of.packets, of.bytes, of.drops)).collect()
}

/// Packets, bytes, drops.
type Counts = (u64, Option<u64>, Option<u64>);

/// Names as in these drivers' sources.
const EXAMPLES: [(&str, &[&str], Counts); 20] = [
    (
        "virtio_net",
        &["rx_queue_0_packets", "rx_queue_0_bytes", "rx_queue_0_drops", "rx_queue_0_xdp_packets"],
        (100, Some(101), Some(102)),
    ),
    ("ixgbe", &["rx_packets", "rx_queue_0_packets", "rx_queue_0_bytes"], (101, Some(102), None)),
    ("ixgbevf", &["rx_queue_0_packets", "rx_queue_0_bytes"], (100, Some(101), None)),
    (
        "igb",
        &["rx_queue_0_packets", "rx_queue_0_bytes", "rx_queue_0_drops", "rx_queue_0_csum_err"],
        (100, Some(101), Some(102)),
    ),
    ("ice", &["rx_unicast", "rx_queue_0_packets", "rx_queue_0_bytes"], (101, Some(102), None)),
    ("hv_netvsc", &["rx_queue_0_packets", "rx_queue_0_bytes", "rx_queue_0_xdp_drop"], (100, Some(101), None)),
    (
        "mlx5_core",
        &["rx_packets", "rx_prio0_packets", "rx0_packets", "rx0_bytes", "rx0_xdp_drop"],
        (102, Some(103), None),
    ),
    ("mlx4_en", &["rx0_packets", "rx0_bytes", "rx0_dropped"], (100, Some(101), Some(102))),
    ("mana", &["rx_0_packets", "rx_0_bytes", "rx_0_xdp_drop"], (100, Some(101), None)),
    ("i40e", &["rx-0.packets", "rx-0.bytes", "port.rx_bytes"], (100, Some(101), None)),
    ("iavf", &["rx-0.packets", "rx-0.bytes"], (100, Some(101), None)),
    ("sfc", &["rx_64", "tx-0.tx_packets", "rx-0.rx_packets"], (102, None, None)),
    ("ionic", &["rx_packets", "tx_0_pkts", "rx_0_pkts", "rx_0_bytes"], (102, Some(103), None)),
    ("atlantic", &["InPackets", "Queue[0] InPackets", "Queue[0] InJumboPackets"], (101, None, None)),
    ("nfp", &["dev_rx_pkts", "rvec_0_rx_pkts", "rvec_0_tx_pkts"], (101, None, None)),
    ("qede", &["0: xmit_pkts", "0: rcv_pkts", "0: rx_hw_errors"], (101, None, None)),
    ("be2net", &["rxq0: rx_bytes", "rxq0: rx_pkts", "txq0: tx_pkts"], (101, Some(100), None)),
    ("bnx2x", &["[0]: rx_bytes", "[0]: rx_ucast_packets", "[0]: tx_ucast_packets"], (101, None, None)),
    (
        "ena",
        &["queue_0_tx_cnt", "queue_0_rx_cnt", "queue_0_rx_bytes", "queue_0_rx_refil_partial"],
        (101, Some(102), None),
    ),
    (
        "bnxt_en",
        &[
            "[0]: rx_ucast_packets",
            "[0]: rx_mcast_packets",
            "[0]: rx_bcast_packets",
            "[0]: rx_discards",
            "[0]: rx_ucast_bytes",
        ],
        (303, Some(104), Some(103)),
    ),
];

#[test]
fn names_of_drivers() {
    for (driver, names, (packets, bytes, drops)) in EXAMPLES {
        assert_eq!(counters(names, 1), [(0, packets, bytes, drops)], "{driver}");
    }
}

/// A name may fit two drivers' statistics, one of which counts something else.
#[test]
fn a_driver_s_own_statistics_come_first() {
    let names = ["rx_queue_0_packets", "rx_0_packets"].map(str::to_owned);
    let position = |driver| QueueStatistics::new(statistics(driver), &names, 1).entries[0].position;
    assert_eq!((position(Some("ixgbe")), position(Some("mana")), position(None)), (0, 1, 0));
}

#[test]
fn older_names_and_headings() {
    assert_eq!(counters(&["rx-0.rx_packets", "rx-0.rx_bytes"], 1), [(0, 100, Some(101), None)]);
    // vmxnet3: one heading per queue, transmit queues first.
    let names = [
        "Tx Queue#",
        "  ucast pkts tx",
        "Rx Queue#",
        "  LRO pkts rx",
        "  ucast pkts rx",
        "  mcast pkts rx",
        "  pkts rx OOB",
        "Rx Queue#",
        "  LRO pkts rx",
        "  ucast pkts rx",
        "  ucast bytes rx",
    ];
    assert_eq!(counters(&names, 2), [(0, 104 + 105, None, Some(106)), (1, 109, Some(110), None)]);
}

#[test]
fn every_driver_with_statistics_has_an_example() {
    let example = |row: &Driver| EXAMPLES.iter().any(|(driver, ..)| row.names.contains(driver));
    let lacking = |row: &Driver| !row.statistics.is_empty() && !example(row);
    assert_eq!(names(lacking), ["vmxnet3"], "its names follow headings");
}

#[test]
fn what_is_no_queue_is_not_counted() {
    // Sizes of frames, queues that the driver once had, and no count of packets at all.
    assert_eq!(counters(&["rx_64_packets", "rx0_xdp_packets", "rx_packets"], 8), []);
    assert_eq!(counters(&["rx0_packets", "rx1_packets"], 1), [(0, 100, None, None)]);
    assert_eq!(counters(&["rx0_drops", "rx0_kicks"], 1), []);
    assert_eq!(counters(&["rx_bytes[0]", "rx_completed_desc[0]"], 1), []);
}
