//! Counters of each receive queue: from the kernel, else from the driver's own statistics.

use std::collections::BTreeMap;

use super::{RawNic, read};
use rxlab_base::parse::{self, QueueCounters, WireError};
use rxlab_base::units::Direction;
use rxlab_sys::{EthtoolGet, Host, Query};

/// Counters of receive queues by (interface index, queue index), from the kernel.
pub(super) type ByKernel = BTreeMap<(u32, u32), QueueCounters>;

/// Asks the kernel. Older ones and most virtual interfaces do not count by queue: then it is empty.
pub(super) fn by_kernel(host: &dyn Host) -> ByKernel {
    let stats = read::asked(host, &Query::QueueStats, parse::queue_stats);
    stats
        .known()
        .into_iter()
        .flatten()
        .filter(|stats| stats.queue.direction == Direction::Rx)
        .map(|stats| ((stats.ifindex, stats.queue.index), stats.counters))
        .collect()
}

/// Counters of one interface's receive queues, by index, and of losses among the driver's own statistics, by name.
pub(super) fn receive_queues(
    host: &dyn Host,
    raw: &RawNic,
    told: &ByKernel,
) -> (BTreeMap<u32, QueueCounters>, BTreeMap<String, u64>) {
    let own = raw.ifindex.known().map(|ifindex| told.range((*ifindex, 0)..=(*ifindex, u32::MAX)));
    let own: BTreeMap<u32, QueueCounters> =
        own.into_iter().flatten().map(|((_, queue), counters)| (*queue, *counters)).collect();
    let (by_driver, losses) = by_driver(host, raw);
    (if own.is_empty() { by_driver } else { own }, losses)
}

/// The same among the driver's own statistics. None if the number of statistics changed since their names were read: then
/// they cannot be matched.
fn by_driver(host: &dyn Host, raw: &RawNic) -> (BTreeMap<u32, QueueCounters>, BTreeMap<String, u64>) {
    let places = raw.queue_statistics.known();
    let places = places.filter(|places| !places.entries.is_empty() || !places.losses.is_empty());
    let Some(places) = places else { return Default::default() };
    let query = Query::Ethtool(EthtoolGet::Stats, raw.name.clone());
    let values = read::asked(host, &query, parse::ethtool::stats);
    let both = values.parse(|values| Ok::<_, WireError>((places.counters(&values)?, places.lost(&values)?)));
    both.known().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::sample::Sample;
    use rxlab_base::parse::{QueueCounters, attribute, one_message, words};
    use rxlab_sys::RecordedHost;

    /// One interface whose driver counts by queue, with its statistics.
    fn counting(values: &[u64], told: bool) -> BTreeMap<u32, QueueCounters> {
        let mut names = words(&[0x1b, 1, 3]);
        for text in ["rx_packets", "rx_queue_0_packets", "rx_queue_0_bytes"] {
            let mut name = [0; 32];
            name[..text.len()].copy_from_slice(text.as_bytes());
            names.extend(name);
        }
        let count = u32::try_from(values.len()).expect("few");
        let mut stats = words(&[0x1d, count]);
        stats.extend(values.iter().flat_map(|value| value.to_ne_bytes()));
        let mut host = RecordedHost::new()
            .with_link("sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/net/eth0")
            .with("sys/class/net/eth0/ifindex", "4\n")
            .with("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n")
            .with("ioctl/ethtool/gstrings/eth0", one_message(&names))
            .with("ioctl/ethtool/gstats/eth0", one_message(&stats));
        for file in ["rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "rx_dropped", "rx_missed_errors"] {
            host = host.with(&format!("sys/class/net/eth0/statistics/{file}"), "9\n");
        }
        if told {
            let message = [(1, 4), (2, 0), (3, 0), (8, 77)];
            let message = message.map(|(kind, value)| attribute(kind, u32::to_ne_bytes(value))).concat();
            host = host.with("netlink/netdev/qstats-get", one_message(&message));
        }
        let mut sample = Sample::take(&host);
        sample.counters.nics.remove(&"eth0".parse().expect("a name")).expect("counted").rx_queues
    }

    #[test]
    fn the_driver_counts_where_the_kernel_does_not() {
        let packets = |counters: BTreeMap<u32, QueueCounters>| {
            counters.into_iter().map(|(queue, of)| (queue, of.packets, of.bytes)).collect::<Vec<_>>()
        };
        assert_eq!(packets(counting(&[9, 8, 700], false)), [(0, 8, Some(700))]);
        assert_eq!(packets(counting(&[9, 8, 700], true)), [(0, 77, None)]);
        assert_eq!(packets(counting(&[9, 8, 700, 1], false)), [], "their number changed");
    }
}
