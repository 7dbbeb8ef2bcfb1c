//! Patterns of the driver statistics that count the packets of a receive queue.

use std::collections::BTreeMap;

use crate::parse::{QueueCounters, WireError, digits};

/// Unit of a statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    Packets,
    Bytes,
    /// Packets that the device or the driver dropped.
    Drops,
}

/// One statistic of one receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueStatistic {
    /// Its position among the driver's statistics.
    pub position: usize,
    pub queue: u32,
    /// Unit of the counter.
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

/// Names of the statistics of a receive queue. `#` in a name is the queue's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueNames {
    /// A heading whose count gives the queue of the names after it, which then have no number.
    pub heading: Option<&'static str>,
    /// Statistics that count packets; those of one queue are added up.
    pub packets: &'static [&'static str],
    /// Statistics that count bytes.
    pub bytes: &'static [&'static str],
    /// Statistics that count dropped packets.
    pub drops: &'static [&'static str],
}

impl QueueStatistics {
    /// Positions of the counters of the first `queues` receive queues, from the statistics' names: by the
    /// first of `patterns` that fits. No entries if none does.
    pub fn new<'a>(
        patterns: impl IntoIterator<Item = &'a QueueNames>,
        names: &[String],
        queues: u32,
    ) -> Self {
        let mut fitting = patterns.into_iter().map(|pattern| pattern.entries(names, queues));
        // One pattern only: a driver with a count under two names must not count twice.
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
            Some(QueueCounters { packets: packets?, bytes, drops, limited: None })
        };
        Ok(queues.into_iter().filter_map(|(queue, sums)| Some((queue, counters(sums)?))).collect())
    }
}

/// Positions of single statistics among those of a driver.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamedStatistics {
    total: usize,
    positions: Vec<(usize, &'static str)>,
}

impl NamedStatistics {
    /// Positions of the statistics among `names` that are also in `wanted`.
    pub fn new(wanted: impl Iterator<Item = &'static str> + Clone, names: &[String]) -> Self {
        let position = |(position, name): (usize, &String)| {
            Some((position, wanted.clone().find(|wanted| name.trim() == *wanted)?))
        };
        Self { total: names.len(), positions: names.iter().enumerate().filter_map(position).collect() }
    }

    /// True if the driver has none of them.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The counters by name, from the values of all statistics; none if their number changed.
    pub fn counters(&self, values: &[u64]) -> BTreeMap<&'static str, u64> {
        let same = self.positions.iter().filter(|_| values.len() == self.total);
        same.filter_map(|(position, name)| Some((*name, *values.get(*position)?))).collect()
    }
}

impl QueueNames {
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
            let queue = |pattern: &&str| match (self.heading, pattern.split_once('#')) {
                (Some(_), _) => (name == *pattern).then(|| headings.checked_sub(1)).flatten(),
                (None, Some((before, after))) => digits(name.strip_prefix(before)?.strip_suffix(after)?),
                (None, None) => None,
            };
            let counted =
                |(counted, patterns): &(Counted, &[&str])| Some((patterns.iter().find_map(queue)?, *counted));
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

    use super::{NamedStatistics, QueueNames, QueueStatistics};

    const NUMBERED: QueueNames =
        QueueNames { heading: None, packets: &["rx#_packets"], bytes: &["rx#_bytes"], drops: &["rx#_drops"] };
    const BY_CAST: QueueNames =
        QueueNames { packets: &["[#]: rx_ucast_packets", "[#]: rx_mcast_packets"], ..NUMBERED };
    const HEADED: QueueNames = QueueNames {
        heading: Some("Rx Queue#"),
        packets: &["ucast pkts rx"],
        bytes: &["ucast bytes rx"],
        drops: &["pkts rx OOB"],
    };

    /// The counters by these patterns, with the values 100, 101, 102, ...
    fn counters(
        patterns: &[QueueNames],
        names: &[&str],
        queues: u32,
    ) -> Vec<(u32, u64, Option<u64>, Option<u64>)> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let values: Vec<u64> = (100..).take(names.len()).collect();
        let statistics = QueueStatistics::new(patterns, &names, queues);
        let counters = statistics.counters(&values).expect("as many values");
        counters.into_iter().map(|(queue, of)| (queue, of.packets, of.bytes, of.drops)).collect()
    }

    #[test]
    fn numbers_and_headings() {
        let names = ["rx_packets", "rx0_packets", "rx0_bytes", "rx0_drops", "rx1_packets"];
        let both = [(0, 101, Some(102), Some(103)), (1, 104, None, None)];
        assert_eq!(counters(&[NUMBERED], &names, 2), both);
        assert_eq!(counters(&[NUMBERED], &names, 1), both[..1], "queues that the driver once had");
        let names = ["[0]: rx_ucast_packets", "[0]: rx_mcast_packets"];
        assert_eq!(counters(&[BY_CAST], &names, 1), [(0, 201, None, None)], "added up");
        let names =
            ["Tx Queue#", "Rx Queue#", "  ucast pkts rx", "Rx Queue#", "  ucast pkts rx", "  pkts rx OOB"];
        assert_eq!(counters(&[HEADED], &names, 2), [(0, 102, None, None), (1, 104, None, Some(105))]);
    }

    #[test]
    fn the_first_pattern_that_counts_packets_decides() {
        let names = ["rx0_packets", "[0]: rx_ucast_packets", "rx0_bytes"];
        assert_eq!(counters(&[NUMBERED, BY_CAST], &names, 1), [(0, 100, Some(102), None)]);
        assert_eq!(counters(&[BY_CAST, NUMBERED], &names, 1), [(0, 101, Some(102), None)]);
        assert_eq!(counters(&[HEADED, NUMBERED], &names, 1), [(0, 100, Some(102), None)]);
        assert_eq!(counters(&[NUMBERED], &["rx0_drops", "rx0_kicks"], 1), [], "no count of packets");
        assert_eq!(counters(&[], &names, 1), []);
    }

    #[test]
    fn statistics_that_moved_count_nothing() {
        let names = ["rx0_packets".to_owned(), "rx0_bytes".to_owned()];
        assert!(QueueStatistics::new(&[NUMBERED], &names, 1).counters(&[1, 2, 3]).is_err());
    }

    #[test]
    fn single_statistics_by_name() {
        let names = ["suspend", "pps_exceeded", " bw_exceeded", "queue_0_tx_cnt"].map(str::to_owned);
        let wanted = ["bw_exceeded", "pps_exceeded", "other_exceeded"];
        let named = NamedStatistics::new(wanted.into_iter(), &names);
        assert_eq!(named.counters(&[1, 2, 3, 4]), [("bw_exceeded", 3), ("pps_exceeded", 2)].into());
        assert_eq!(named.counters(&[1, 2, 3]), [].into(), "their number changed");
        assert!(NamedStatistics::new(wanted.into_iter(), &names[3..]).is_empty());
    }

    proptest! {
        #[test]
        fn only_queues_that_exist_are_counted(names in proptest::collection::vec("[rxqueu_0-9\\[\\]:. pactsbyte-]{0,24}", 0..8), values in proptest::collection::vec(any::<u64>(), 0..8)) {
            let counters = QueueStatistics::new(&[NUMBERED, BY_CAST, HEADED], &names, 4).counters(&values);
            prop_assert_eq!(counters.is_ok(), names.len() == values.len());
            prop_assert!(counters.is_ok_and(|counters| counters.keys().all(|queue| *queue < 4)) || names.len() != values.len());
        }
    }
}
