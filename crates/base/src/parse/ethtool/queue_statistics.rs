//! Patterns of the driver statistics that count the packets of a receive queue.

use std::collections::BTreeMap;

use crate::parse::{QueueCounters, WireError, digits};

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
    pub counted: Counted,
}

/// Positions of the counters of receive queues in a driver's statistics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueStatistics {
    /// Total number of the driver's statistics; another number means that positions have moved.
    pub total: usize,
    /// Those of the receive queues. Several of one queue with the same unit are added up.
    pub entries: Vec<QueueStatistic>,
    /// Positions of statistics that count losses, and the name of the sum to which each belongs.
    pub losses: Vec<(usize, String)>,
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
        Self { total: names.len(), entries: entries.unwrap_or_default(), losses: Vec::new() }
    }

    /// Adds the positions of losses that no queue has: `counted_as` says to which sum a statistic belongs, if to any.
    #[must_use]
    pub fn with_losses(self, counted_as: impl Fn(&str) -> Option<String>, names: &[String]) -> Self {
        let is_of_queue = |at: usize| self.entries.iter().any(|entry| entry.position == at);
        let others = names.iter().enumerate().filter(|(at, _)| !is_of_queue(*at));
        let losses = others.filter_map(|(at, name)| Some((at, counted_as(name.trim())?))).collect();
        Self { losses, ..self }
    }

    /// Counts of losses by the name of their sum, from the statistics' values.
    pub fn lost(&self, values: &[u64]) -> Result<BTreeMap<String, u64>, WireError> {
        self.check(values)?;
        let mut lost = BTreeMap::new();
        for (position, name) in &self.losses {
            let sum: &mut u64 = lost.entry(name.clone()).or_default();
            *sum = sum.wrapping_add(values.get(*position).copied().unwrap_or_default());
        }
        Ok(lost)
    }

    fn check(&self, values: &[u64]) -> Result<(), WireError> {
        if values.len() == self.total {
            return Ok(());
        }
        Err(WireError::new(format!("{} statistics, expected {}", values.len(), self.total)))
    }

    /// The counters of each queue, from the statistics' values. Queues without a packet count are
    /// left out.
    pub fn counters(&self, values: &[u64]) -> Result<BTreeMap<u32, QueueCounters>, WireError> {
        self.check(values)?;
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
                // A number may be padded: `Rx ring  7 frames`.
                (None, Some((before, after))) => {
                    digits(name.strip_prefix(before)?.strip_suffix(after)?.trim_start_matches(' '))
                }
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

    use super::{QueueNames, QueueStatistics};

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
    fn losses_of_all_queues_are_added_up() {
        let names = ["rx_overruns", " rx0_bad", "rx1_bad", "rx_packets", "rx0_packets", "rx0_drops"];
        let names: Vec<String> = names.map(str::to_owned).into();
        let counted_as = |name: &str| match name {
            "rx_overruns" | "rx0_drops" => Some(name.to_owned()),
            "rx0_bad" | "rx1_bad" => Some("rx#_bad".to_owned()),
            _ => None,
        };
        let lost = |patterns: &[QueueNames]| {
            let statistics = QueueStatistics::new(patterns, &names, 1).with_losses(counted_as, &names);
            assert!(statistics.lost(&[7]).is_err());
            let lost = statistics.lost(&[7, 20, 3, 1000, 900, 5]).expect("as many values");
            lost.into_iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>()
        };
        assert_eq!(lost(&[]), ["rx#_bad 23", "rx0_drops 5", "rx_overruns 7"]);
        assert_eq!(lost(&[NUMBERED]), ["rx#_bad 23", "rx_overruns 7"], "the queue has its drops");
    }

    #[test]
    fn statistics_that_moved_count_nothing() {
        let names = ["rx0_packets".to_owned(), "rx0_bytes".to_owned()];
        assert!(QueueStatistics::new(&[NUMBERED], &names, 1).counters(&[1, 2, 3]).is_err());
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
