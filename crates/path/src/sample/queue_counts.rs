//! Counters of each receive queue, from the kernel or else the driver, and of what the host limits.

use std::collections::BTreeMap;

use super::{RawNic, read};
use crate::drivers::{LOSSES, QUEUE_LIMITS};
use rxlab_base::parse::{self, QueueCounters};
use rxlab_base::units::{Direction, Fact};
use rxlab_sys::{EthtoolGet, Host, Query};

/// Counters of queues by interface index, queue index and direction, from the kernel.
pub(super) type ByKernel = BTreeMap<(u32, u32, Direction), QueueCounters>;

/// Counters of one interface.
#[derive(Default)]
pub(super) struct Counted {
    /// Receive queues by index.
    pub(super) rx_queues: BTreeMap<u32, QueueCounters>,
    /// What limits of the host delayed or dropped, by the name of the statistic.
    pub(super) limited: BTreeMap<String, u64>,
    /// Losses among the driver's own statistics, by name.
    pub(super) losses: BTreeMap<String, u64>,
}

/// Asks the kernel. Older ones and most virtual interfaces do not count by queue: then it is empty.
pub(super) fn by_kernel(host: &dyn Host) -> ByKernel {
    let stats = read::asked(host, &Query::QueueStats, parse::queue_stats);
    let stats = stats.known().into_iter().flatten();
    stats.map(|of| ((of.ifindex, of.queue.index, of.queue.direction), of.counters)).collect()
}

/// Counters of one interface, from the kernel and from its driver's statistics.
pub(super) fn counted(host: &dyn Host, raw: &RawNic, told: &ByKernel) -> Counted {
    let own = raw.ifindex.known().map(|ifindex| {
        told.range((*ifindex, 0, Direction::Rx)..).take_while(move |((of, ..), _)| of == ifindex)
    });
    let mut counted = Counted::default();
    for ((_, queue, direction), counters) in own.into_iter().flatten() {
        let statistic = match direction {
            Direction::Rx => QUEUE_LIMITS[0].0,
            Direction::Tx => QUEUE_LIMITS[1].0,
        };
        if let Some(limited) = counters.limited {
            *counted.limited.entry(statistic.to_owned()).or_default() += limited;
        }
        if *direction == Direction::Rx {
            counted.rx_queues.insert(*queue, *counters);
        }
    }
    by_driver(host, raw, &mut counted);
    counted
}

/// Adds counters among the driver's own statistics, those of receive queues if the kernel has none. None are added if the
/// number of statistics changed since their names were read: then they cannot be matched.
fn by_driver(host: &dyn Host, raw: &RawNic, counted: &mut Counted) {
    let places = raw.queue_statistics.known();
    let places = places.filter(|places| !places.entries.is_empty() || !places.losses.is_empty());
    let Some(places) = places else { return };
    let query = Query::Ethtool(EthtoolGet::Stats, raw.name.clone());
    let Fact::Known(values) = read::asked(host, &query, parse::ethtool::stats) else { return };
    if counted.rx_queues.is_empty() {
        counted.rx_queues = places.counters(&values).unwrap_or_default();
    }
    for (name, count) in places.lost(&values).unwrap_or_default() {
        let is_loss = LOSSES.iter().any(|loss| loss.name == name);
        let of = if is_loss { &mut counted.losses } else { &mut counted.limited };
        of.insert(name, count);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::sample::{NicCounters, Sample};
    use rxlab_base::parse::{QueueCounters, attribute, one_message, words};
    use rxlab_sys::RecordedHost;

    /// One interface with its driver's statistics, whose queues the kernel counts if `told`.
    fn sampled(driver: &str, names: &[&str], values: &[u64], told: bool) -> NicCounters {
        let mut strings = words(&[0x1b, 1, u32::try_from(names.len()).expect("few")]);
        for text in names {
            let mut name = [0; 32];
            name[..text.len()].copy_from_slice(text.as_bytes());
            strings.extend(name);
        }
        let count = u32::try_from(values.len()).expect("few");
        let mut stats = words(&[0x1d, count]);
        stats.extend(values.iter().flat_map(|value| value.to_ne_bytes()));
        let mut info = vec![0; 196];
        info[4..4 + driver.len()].copy_from_slice(driver.as_bytes());
        let mut host = RecordedHost::new()
            .with_link("sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/net/eth0")
            .with("sys/class/net/eth0/ifindex", "4\n")
            .with("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n")
            .with("ioctl/ethtool/gdrvinfo/eth0", one_message(&info))
            .with("ioctl/ethtool/gstrings/eth0", one_message(&strings))
            .with("ioctl/ethtool/gstats/eth0", one_message(&stats));
        for file in ["rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "rx_dropped", "rx_missed_errors"] {
            host = host.with(&format!("sys/class/net/eth0/statistics/{file}"), "9\n");
        }
        if told {
            let queue = |kind: u32, counts: [(u16, u32); 2]| {
                let message = [(1, 4), (2, kind), (3, 0)].into_iter().chain(counts);
                message.flat_map(|(kind, value)| attribute(kind, value.to_ne_bytes())).collect::<Vec<u8>>()
            };
            let queues = [queue(0, [(8, 77), (23, 5)]), queue(1, [(10, 66), (32, 6)])];
            let queues = queues.map(|queue| one_message(&queue)).concat();
            host = host.with("netlink/netdev/qstats-get", queues);
        }
        let mut sample = Sample::take(&host);
        sample.counters.nics.remove(&"eth0".parse().expect("a name")).expect("counted")
    }

    #[test]
    fn the_driver_counts_where_the_kernel_does_not() {
        let counting = |values: &[u64], told| {
            let names = ["rx_packets", "rx_queue_0_packets", "rx_queue_0_bytes"];
            sampled("igb", &names, values, told).rx_queues
        };
        let packets = |counters: BTreeMap<u32, QueueCounters>| {
            counters.into_iter().map(|(queue, of)| (queue, of.packets, of.bytes)).collect::<Vec<_>>()
        };
        assert_eq!(packets(counting(&[9, 8, 700], false)), [(0, 8, Some(700))]);
        assert_eq!(packets(counting(&[9, 8, 700], true)), [(0, 77, None)]);
        assert_eq!(packets(counting(&[9, 8, 700, 1], false)), [], "their number changed");
    }

    #[test]
    fn limits_are_counted_by_kernel_and_driver() {
        let limited = |driver: &str, told| {
            let names = ["bw_in_allowance_exceeded", "conntrack_allowance_available", "queue_0_rx_cnt"];
            sampled(driver, &names, &[40, 7, 8], told).limited.into_iter().collect::<Vec<_>>()
        };
        let own = ("bw_in_allowance_exceeded".to_owned(), 40);
        let of_queues = [("rx-hw-drop-ratelimits", 5), ("tx-hw-drop-ratelimits", 6)];
        let of_queues = of_queues.map(|(name, count)| (name.to_owned(), count));
        assert_eq!(limited("ena", false), std::slice::from_ref(&own));
        assert_eq!(limited("ena", true), [own, of_queues[0].clone(), of_queues[1].clone()]);
        assert_eq!(limited("virtio_net", true), of_queues);
        assert_eq!(limited("virtio_net", false), [], "not counted, which is not 0");
    }
}
