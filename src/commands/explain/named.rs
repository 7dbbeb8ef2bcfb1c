//! What the kernel and its drivers name: counters of losses, statistics of drivers, drivers.

use rxlab_path::drivers::{self, Driver, IrqNumber, Kind, LossKind, XdpQueues, loss_kind};
use rxlab_path::sample::counter_in_words;

/// What is known of a counter, a statistic or a driver with this name; empty for other names.
pub(super) fn named(name: &str) -> Vec<String> {
    counter_in_words(name).or_else(|| statistic(name)).into_iter().chain(driver(name)).collect()
}

/// A statistic of `ethtool -S` that may count losses. Their names have several words.
fn statistic(name: &str) -> Option<String> {
    let meaning = match loss_kind(name).filter(|_| name.contains(['_', '.']))? {
        LossKind::Ring => "packets for which there was no buffer in the ring",
        LossKind::Device => "packets that the device dropped",
        LossKind::Damaged => "frames that arrived damaged or with a wrong length",
        LossKind::Allocation => {
            "buffers that could not be allocated: if this goes on, the ring runs empty; nothing is lost so far"
        }
        LossKind::Paused => {
            "pause frames that the device sent while its buffers were full: the sender waits, nothing is lost"
        }
        LossKind::Unclear => "a loss by its name; rxlab does not know of what",
        LossKind::Harmless => "no loss here: an event, a broken frame, or packets for others",
    };
    Some(format!("statistic {name} (ethtool -S): {meaning}"))
}

/// What rxlab knows of a driver, and from where.
fn driver(name: &str) -> Vec<String> {
    let Some(row) = drivers::row(name) else { return Vec::new() };
    let mut lines = vec![format!("driver {name}: {}", facts(row).join("; "))];
    lines.extend(row.sources.iter().map(|source| format!("source: {source}")));
    lines
}

fn facts(row: &Driver) -> Vec<String> {
    let kind = match row.kind {
        Kind::Device => "for devices",
        Kind::VirtualFunction => "for virtual functions",
        Kind::Paravirtual { .. } => "for a hypervisor's device",
        Kind::Pair => "for one end of a pair",
        Kind::Failover => "for a hypervisor's device with a virtual function below it",
    };
    let mut facts = vec![kind.to_owned()];
    let mut add = |is_so: bool, fact: &str| facts.extend(is_so.then(|| fact.to_owned()));
    let irqs: Vec<&str> =
        row.irqs.iter().filter(|irq| irq.number != IrqNumber::NoQueue).map(|irq| irq.example).collect();
    add(!irqs.is_empty(), &format!("interrupts such as {}", irqs.join(", ")));
    let counted = row.statistics_example.iter().find(|(_, counts)| counts.is_some()).map(|(name, _)| *name);
    add(counted.is_some(), &format!("counts each queue ({})", counted.unwrap_or_default()));
    add(counted.is_none(), "rxlab knows no statistics of its queues");
    let limits: Vec<&str> = row.limits.iter().map(|(name, _)| *name).collect();
    add(!limits.is_empty(), &format!("limits of the host: {}", limits.join(", ")));
    add(!row.records_queue, "packets do not carry their queue, so the RPS mask of rx-0 applies to all");
    let reached = row.rss_queues.map_or(0, |rss| rss.queues);
    add(reached > 0, &format!("RSS of some devices reaches only {reached} queues"));
    add(row.has_arfs, "accelerated RFS");
    add(row.has_atr, "steers flows by what it sends (ATR)");
    add(row.channels.are_fixed, "the number of queues cannot be changed");
    add(row.counts_forwarded, "counts what the device forwards, not what comes to a CPU");
    add(row.channels.keep_link, "the number of queues changes without a reset");
    add(row.channels.xdp == XdpQueues::Half, "an XDP program takes half of the queues");
    add(row.channels.xdp == XdpQueues::Fixed, "an XDP program fixes the number of queues");
    add(row.moderation.resets_link, "a change of the delay may reset the link");
    facts
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn names_of_the_kernel_and_of_drivers() {
        for (name, said) in [
            ("ListenOverflows", "counter TcpExtListenOverflows (/proc/net/netstat): a sign of losses"),
            (
                "TcpExtListenDrops",
                "counter TcpExtListenDrops (/proc/net/netstat): lost packets or connections",
            ),
            ("rcvbuferrors", "counter UdpRcvbufErrors (/proc/net/snmp): lost packets"),
            (
                "rx_no_dma_resources",
                "statistic rx_no_dma_resources (ethtool -S): packets for which there was no",
            ),
            ("ena", "driver ena: for devices"),
            ("ixgbe", "RSS of some devices reaches only 16 queues"),
        ] {
            let all = named(name).join("\n");
            assert!(all.contains(said), "{name}: {all}");
        }
        for other in ["drops", "drop", "entries", "queue", "xyzzy"] {
            assert_eq!(named(other), [""; 0], "{other}");
        }
    }
}
