//! Counters of each receive queue, from the kernel or else the driver, and of what the host limits.

use std::collections::BTreeMap;

use super::{RawNic, read, reason};
use crate::drivers::{QUEUE_LIMITS, limit};
use rxlab_base::parse::{self, QueueCounters};
use rxlab_base::units::{Direction, Fact};
use rxlab_sys::{EthtoolGet, Host, Query};

/// Counters of queues by interface index, queue index and direction, from the kernel.
pub(super) type ByKernel = BTreeMap<(u32, u32, Direction), QueueCounters>;

/// Counters of one interface.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) rx_queues: BTreeMap<u32, QueueCounters>,
    /// What limits of the host delayed or dropped, by the name of the statistic.
    pub(super) limited: BTreeMap<String, u64>,
    /// Losses among the driver's own statistics, by name.
    pub(super) losses: BTreeMap<String, u64>,
    /// The reason that the driver's own statistics could not be read, if it has any.
    pub(super) unread: Option<String>,
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

/// Adds counters among the driver's own statistics; those of receive queues that the kernel lacks. None are added if the number
/// of statistics changed since their names were read: then they cannot be matched.
fn by_driver(host: &dyn Host, raw: &RawNic, counted: &mut Counted) {
    let places = match &raw.queue_statistics {
        Fact::Known(places) if !places.entries.is_empty() || !places.losses.is_empty() => places,
        Fact::Known(_) | Fact::NotAsked | Fact::Unsupported => return,
        unread => return counted.unread = Some(reason(unread)),
    };
    let query = Query::Ethtool(EthtoolGet::Stats, raw.name.clone());
    let values = match read::asked(host, &query, parse::ethtool::stats) {
        Fact::Known(values) => values,
        unread => return counted.unread = Some(reason(&unread)),
    };
    let lost = match places.lost(&values) {
        Ok(lost) => lost,
        Err(error) => return counted.unread = Some(error.to_string()),
    };
    let by_queue = places.counters(&values).unwrap_or_default();
    if counted.rx_queues.is_empty() {
        counted.rx_queues = by_queue;
    } else {
        for (queue, own) in by_queue {
            if let Some(told) = counted.rx_queues.get_mut(&queue) {
                told.drops = told.drops.or(own.drops);
            }
        }
    }
    let driver = raw.hardware.driver.known().map(|info| info.driver.as_str());
    for (name, count) in lost {
        let is_limit = limit(driver, &name).is_some();
        let of = if is_limit { &mut counted.limited } else { &mut counted.losses };
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

    /// be2net: the names were in no row, and the machine lost nothing.
    #[test]
    fn losses_by_any_name() {
        let names =
            ["rx_crc_errors", "rxq0: rx_drops_no_frags", "rxq1: rx_drops_no_frags", "rx_new_word_drops"];
        let counted = sampled("be2net", &names, &[9, 40, 2, 7], false);
        let lost = |name: &str| counted.losses.get(name).copied();
        assert_eq!(lost("rxq#: rx_drops_no_frags"), Some(42));
        assert_eq!((lost("rx_new_word_drops"), lost("rx_crc_errors")), (Some(7), None));
        let both = sampled("igb", &["rx_dropped"], &[70], false);
        assert_eq!((both.losses["rx_dropped"], both.losses["ethtool -S rx_dropped"]), (9, 70));
        assert_eq!(both.unread, None);
    }

    #[test]
    fn statistics_that_do_not_match_are_unread() {
        let counted = sampled("be2net", &["rx_drops_no_pbuf"], &[9, 40], false);
        assert_eq!(counted.unread.as_deref(), Some("2 statistics, expected 1"));
        assert_eq!(counted.losses.get("rx_drops_no_pbuf"), None);
    }

    /// The kernel counts the packets of a queue, and only the driver what it drops.
    #[test]
    fn drops_that_the_kernel_does_not_count_by_queue() {
        let names = ["rx_queue_0_packets", "rx_queue_0_drops"];
        let counted = sampled("igb", &names, &[8, 3], true);
        assert_eq!((counted.rx_queues[&0].packets, counted.rx_queues[&0].drops), (77, Some(3)));
        assert_eq!(counted.losses.len(), 2, "those of the interface: {:?}", counted.losses);
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
