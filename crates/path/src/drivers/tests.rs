use std::collections::BTreeSet;

use rxlab_base::parse::ethtool::{Counted, QueueStatistics};

use super::{DRIVERS, Driver, Limit, UNKNOWN, facts, limit, names, names_a_queue, statistics};

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
            let first = row.irqs.iter().find(|other| other.numbers_in(name.example).is_some());
            assert_eq!(first, Some(name), "{}: {}", row.names[0], name.example);
        }
    }
}

#[test]
fn limits_by_statistic() {
    assert_eq!(limit(Some("ena"), "pps_allowance_exceeded"), Some(Limit::Packets));
    assert_eq!(limit(Some("ixgbe"), "pps_allowance_exceeded"), None);
    assert_eq!(limit(Some("ena"), "conntrack_allowance_available"), None, "what is left");
    assert_eq!(limit(None, "rx-hw-drop-ratelimits"), Some(Limit::RateIn), "of the kernel");
}

#[test]
fn names_of_queues_and_of_other_devices() {
    for name in ["eth1-TxRx-0", "mlx5_comp3@pci:0000:17:00.0", "virtio2-input.1", "i40e-ens1-TxRx-7"] {
        assert!(names_a_queue(name), "{name}");
    }
    for name in ["arch_timer", "nvme0q3", "xhci_hcd", "xhci-hcd:usb1", "ahci-3", "eth0", "virtio3-req.0"] {
        assert!(!names_a_queue(name), "{name}");
    }
}

/// Texts for people list drivers in the order of the table.
#[test]
fn rows_by_what_they_have() {
    assert_eq!(names(|row| row.has_atr), ["ixgbe", "i40e", "txgbe"]);
    assert_eq!(names(|row| row.rss_queues.is_some()), ["ixgbe"]);
    assert_eq!(names(|row| row.channels.keep_link), ["virtio_net"]);
    let shared = names(Driver::has_one_irq_for_all);
    assert!(shared.contains(&"rtsn") && shared.contains(&"fsl-gianfar"), "{shared:?}");
    assert!(
        !shared.contains(&"virtio_net") && !shared.contains(&"xgene-enet"),
        "one of each queue as a rule"
    );
    let silent = names(|row| !row.records_queue);
    for driver in ["xen_netfront", "ixgbevf", "tg3", "mvneta", "hns-nic"] {
        assert!(silent.contains(&driver), "{driver}");
    }
}

/// The counters from each driver's names, with the values 100, 101, 102, ...
fn counters(names: &[&str], queues: u32) -> Vec<(u32, u64, Option<u64>, Option<u64>)> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let values: Vec<u64> = (100..).take(names.len()).collect();
    let counters =
        QueueStatistics::new(statistics(None), &names, queues).counters(&values).expect("as many values");
    counters.into_iter().map(|(queue, of)| (queue, of.packets, of.bytes, of.drops)).collect()
}

/// Without the driver's name as well: its names must not fit the statistics of another driver.
#[test]
fn a_row_s_statistics_fit_their_example() {
    for row in DRIVERS {
        let names: Vec<String> = row.statistics_example.iter().map(|(name, _)| (*name).to_owned()).collect();
        let counting = row.statistics_example.iter().enumerate();
        let counting = counting.filter_map(|(position, (_, counted))| Some((position, 0, (*counted)?)));
        let expected: Vec<(usize, u32, Counted)> = counting.collect();
        for driver in [Some(row.names[0]), None] {
            let found = QueueStatistics::new(statistics(driver), &names, 1).entries;
            let found: Vec<_> = found.iter().map(|at| (at.position, at.queue, at.counted)).collect();
            assert_eq!(found, expected, "{}", row.names[0]);
        }
        let counts_packets = expected.iter().any(|(.., counted)| *counted == Counted::Packets);
        assert_eq!(counts_packets, !row.statistics.is_empty(), "{}", row.names[0]);
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
        "  drv dropped rx total",
        "Rx Queue#",
        "  LRO pkts rx",
        "  ucast pkts rx",
        "  ucast bytes rx",
    ];
    assert_eq!(counters(&names, 2), [(0, 104 + 105, None, Some(106)), (1, 109, Some(110), None)]);
}

#[test]
fn what_is_no_queue_is_not_counted() {
    // Sizes of frames, queues that the driver once had, and no count of packets at all.
    assert_eq!(counters(&["rx_64_packets", "rx0_xdp_packets", "rx_packets"], 8), []);
    assert_eq!(counters(&["rx0_packets", "rx1_packets"], 1), [(0, 100, None, None)]);
    assert_eq!(counters(&["rx0_drops", "rx0_kicks"], 1), []);
    assert_eq!(counters(&["rx_bytes[0]", "rx_completed_desc[0]"], 1), []);
}
