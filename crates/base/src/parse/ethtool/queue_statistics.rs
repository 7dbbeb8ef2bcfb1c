//! Patterns of the driver statistics that count the packets of a receive queue.

use std::collections::BTreeMap;

use crate::parse::{QueueCounters, WireError, digits};

/// Unit of a statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Packets.
    Packets,
    /// Bytes.
    Bytes,
    /// Dropped packets.
    Drops,
}

/// One statistic of one receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueStatistic {
    /// Its position among the driver's statistics.
    pub position: usize,
    /// The receive queue.
    pub queue: u32,
    /// Its unit.
    pub counted: Counted,
}

/// Positions of the counters of receive queues in a driver's statistics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueStatistics {
    /// Total number of the driver's statistics; another number means that positions have moved.
    pub total: usize,
    /// Those of the receive queues. Several of one queue with the same unit are added up.
    pub entries: Vec<QueueStatistic>,
}

/// Text before and after the queue's number in a name.
type Name = (&'static str, &'static str);

/// Naming of a receive queue's statistics by some drivers.
struct Shape {
    /// Drivers known to use it; others may do the same.
    drivers: &'static [&'static str],
    /// A heading whose count gives the queue of the names after it, which then have no number.
    heading: Option<&'static str>,
    packets: &'static [Name],
    bytes: &'static [Name],
    drops: &'static [Name],
}

/// No names.
const PLAIN: Shape = Shape { drivers: &[], heading: None, packets: &[], bytes: &[], drops: &[] };

/// gve has no shape: it counts descriptors, of which a packet may take several.
const SHAPES: [Shape; 13] = [
    Shape {
        // virtio_net up to 6.8; later ones count for the kernel, see `qstats-get`.
        drivers: &["virtio_net", "ixgbe", "ixgbevf", "igb", "ice", "hv_netvsc"],
        packets: &[("rx_queue_", "_packets")],
        bytes: &[("rx_queue_", "_bytes")],
        drops: &[("rx_queue_", "_drops")],
        ..PLAIN
    },
    Shape {
        drivers: &["mlx5_core", "mlx4_en", "virtio_net"],
        packets: &[("rx", "_packets")],
        bytes: &[("rx", "_bytes")],
        drops: &[("rx", "_dropped"), ("rx", "_drops")],
        ..PLAIN
    },
    Shape { drivers: &["mana"], packets: &[("rx_", "_packets")], bytes: &[("rx_", "_bytes")], ..PLAIN },
    Shape {
        drivers: &["i40e", "iavf"],
        packets: &[("rx-", ".packets")],
        bytes: &[("rx-", ".bytes")],
        ..PLAIN
    },
    Shape {
        // i40e up to 4.17.
        drivers: &["i40e", "sfc"],
        packets: &[("rx-", ".rx_packets")],
        bytes: &[("rx-", ".rx_bytes")],
        ..PLAIN
    },
    Shape {
        drivers: &["ena"],
        packets: &[("queue_", "_rx_cnt")],
        bytes: &[("queue_", "_rx_bytes")],
        ..PLAIN
    },
    Shape { drivers: &["ionic"], packets: &[("rx_", "_pkts")], bytes: &[("rx_", "_bytes")], ..PLAIN },
    Shape { drivers: &["atlantic"], packets: &[("Queue[", "] InPackets")], ..PLAIN },
    Shape { drivers: &["nfp"], packets: &[("rvec_", "_rx_pkts")], ..PLAIN },
    Shape { drivers: &["qede"], packets: &[("", ": rcv_pkts")], ..PLAIN },
    Shape {
        drivers: &["be2net"],
        packets: &[("rxq", ": rx_pkts")],
        bytes: &[("rxq", ": rx_bytes")],
        ..PLAIN
    },
    Shape {
        drivers: &["bnxt_en", "bnx2x"],
        packets: &[("[", "]: rx_ucast_packets"), ("[", "]: rx_mcast_packets"), ("[", "]: rx_bcast_packets")],
        bytes: &[("[", "]: rx_ucast_bytes"), ("[", "]: rx_mcast_bytes"), ("[", "]: rx_bcast_bytes")],
        drops: &[("[", "]: rx_discards")],
        ..PLAIN
    },
    Shape {
        drivers: &["vmxnet3"],
        heading: Some("Rx Queue#"),
        packets: &[("ucast pkts rx", ""), ("mcast pkts rx", ""), ("bcast pkts rx", "")],
        bytes: &[("ucast bytes rx", ""), ("mcast bytes rx", ""), ("bcast bytes rx", "")],
        drops: &[("pkts rx OOB", ""), ("drv dropped rx total", "")],
    },
];

impl QueueStatistics {
    /// Positions of the counters of the first `queues` receive queues, from the statistics' names: by the
    /// shapes of this driver, else by those of others. No entries if no known shape fits.
    pub fn new(driver: Option<&str>, names: &[String], queues: u32) -> Self {
        let (its, others): (Vec<&Shape>, Vec<&Shape>) =
            SHAPES.iter().partition(|shape| driver.is_some_and(|driver| shape.drivers.contains(&driver)));
        let mut fitting = its.into_iter().chain(others).map(|shape| shape.entries(names, queues));
        // One shape only: a driver with a count under two names must not count twice.
        let entries = fitting.find(|entries| entries.iter().any(|entry| entry.counted == Counted::Packets));
        Self { total: names.len(), entries: entries.unwrap_or_default() }
    }

    /// The counters of each queue, from the statistics' values. Queues without a packet count are
    /// left out.
    pub fn counters(&self, values: &[u64]) -> Result<BTreeMap<u32, QueueCounters>, WireError> {
        if values.len() != self.total {
            let moved = format!("{} statistics, expected {}", values.len(), self.total);
            return Err(WireError::new(moved));
        }
        let mut queues: BTreeMap<u32, [Option<u64>; 3]> = BTreeMap::new();
        for entry in &self.entries {
            let value = values.get(entry.position);
            let value = value.ok_or_else(|| WireError::new(format!("no statistic {}", entry.position)))?;
            let sums = queues.entry(entry.queue).or_default();
            let sum = &mut sums[entry.counted as usize];
            *sum = Some(sum.unwrap_or(0).wrapping_add(*value));
        }
        let counters = |[packets, bytes, drops]: [Option<u64>; 3]| {
            Some(QueueCounters { packets: packets?, bytes, drops })
        };
        Ok(queues.into_iter().filter_map(|(queue, sums)| Some((queue, counters(sums)?))).collect())
    }
}

impl Shape {
    fn entries(&self, names: &[String], queues: u32) -> Vec<QueueStatistic> {
        let kinds =
            [(Counted::Packets, self.packets), (Counted::Bytes, self.bytes), (Counted::Drops, self.drops)];
        let mut entries = Vec::new();
        let mut headings = 0u32;
        for (position, name) in names.iter().enumerate() {
            let name = name.trim();
            if Some(name) == self.heading {
                headings += 1;
                continue;
            }
            let queue = |(before, after): &Name| match self.heading {
                Some(_) => (name == *before).then(|| headings.checked_sub(1)).flatten(),
                None => digits(name.strip_prefix(before)?.strip_suffix(after)?),
            };
            let counted =
                |(counted, shapes): &(Counted, &[Name])| Some((shapes.iter().find_map(queue)?, *counted));
            if let Some((queue, counted)) =
                kinds.iter().find_map(counted).filter(|(queue, _)| *queue < queues)
            {
                entries.push(QueueStatistic { position, queue, counted });
            }
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{QueueStatistics, SHAPES};

    /// The counters from each driver's names, with the values 100, 101, 102, ...
    fn counters(names: &[&str], queues: u32) -> Vec<(u32, u64, Option<u64>, Option<u64>)> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let values: Vec<u64> = (100..).take(names.len()).collect();
        let counters = QueueStatistics::new(None, &names, queues).counters(&values).expect("as many values");
        counters.into_iter().map(|(queue, of)| (queue, of.packets, of.bytes, of.drops)).collect()
    }

    /// Packets, bytes, drops.
    type Counts = (u64, Option<u64>, Option<u64>);

    /// Names as in these drivers' sources.
    const DRIVERS: [(&str, &[&str], Counts); 20] = [
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
        (
            "hv_netvsc",
            &["rx_queue_0_packets", "rx_queue_0_bytes", "rx_queue_0_xdp_drop"],
            (100, Some(101), None),
        ),
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
        for (driver, names, (packets, bytes, drops)) in DRIVERS {
            assert_eq!(counters(names, 1), [(0, packets, bytes, drops)], "{driver}");
        }
    }

    /// A name may fit two drivers' shapes, one of which counts something else.
    #[test]
    fn a_driver_s_own_shape_comes_first() {
        let names = ["rx_queue_0_packets", "rx_0_packets"].map(str::to_owned);
        let position = |driver| QueueStatistics::new(driver, &names, 1).entries[0].position;
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
    fn every_driver_of_a_shape_has_an_example() {
        let mut drivers = SHAPES.iter().flat_map(|shape| shape.drivers);
        let example =
            |driver: &str| driver == "vmxnet3" || DRIVERS.iter().any(|(named, ..)| *named == driver);
        assert_eq!(drivers.find(|driver| !example(driver)), None);
    }

    #[test]
    fn what_is_no_queue_is_not_counted() {
        // Sizes of frames, queues that the driver once had, and no count of packets at all.
        assert_eq!(counters(&["rx_64_packets", "rx0_xdp_packets", "rx_packets"], 8), []);
        assert_eq!(counters(&["rx0_packets", "rx1_packets"], 1), [(0, 100, None, None)]);
        assert_eq!(counters(&["rx0_drops", "rx0_kicks"], 1), []);
        assert_eq!(counters(&["rx_bytes[0]", "rx_completed_desc[0]"], 1), []);
    }

    #[test]
    fn statistics_that_moved_count_nothing() {
        let names = ["rx0_packets".to_owned(), "rx0_bytes".to_owned()];
        assert!(QueueStatistics::new(None, &names, 1).counters(&[1, 2, 3]).is_err());
    }

    proptest! {
        #[test]
        fn only_queues_that_exist_are_counted(names in proptest::collection::vec("[rxqueu_0-9\\[\\]:. pactsbyte-]{0,24}", 0..8), values in proptest::collection::vec(any::<u64>(), 0..8)) {
            let counters = QueueStatistics::new(None, &names, 4).counters(&values);
            prop_assert_eq!(counters.is_ok(), names.len() == values.len());
            prop_assert!(counters.is_ok_and(|counters| counters.keys().all(|queue| *queue < 4)) || names.len() != values.len());
        }
    }
}
