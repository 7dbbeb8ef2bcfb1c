//! Channels of Hyper-V's bus: the CPU that the hypervisor signals for each queue.

use std::collections::BTreeMap;

use super::read;
use rxlab_base::units::CpuId;
use rxlab_sys::Host;

/// The CPU of each channel of the device at `path`, by the receive queue that it carries; channels that
/// cannot be read are missing.
///
/// `channels/N/subchannel_id` is the queue number that hv_netvsc assigns to the channel, and
/// `channels/N/cpu` the CPU it signals (Documentation/ABI/stable/sysfs-bus-vmbus).
pub(super) fn channel_cpus(host: &dyn Host, path: &str) -> BTreeMap<u32, CpuId> {
    let channels = host.list(&format!("{path}/channels")).unwrap_or_default();
    let number = |channel: &str, file: &str| {
        read::number(host, &format!("{path}/channels/{channel}/{file}")).known().copied()
    };
    let one = |channel: String| Some((number(&channel, "subchannel_id")?, CpuId(number(&channel, "cpu")?)));
    channels.into_iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::channel_cpus;
    use rxlab_base::units::CpuId;
    use rxlab_sys::RecordedHost;

    /// Synthetic, after the kernel's description: no Hyper-V machine is at hand.
    #[test]
    fn channels_are_numbered_by_the_bus_in_no_order_of_queues() {
        let base = "sys/class/net/eth0/device";
        let mut host = RecordedHost::new().with(&format!("{base}/channels/30/cpu"), "7\n");
        for (channel, queue, cpu) in [("14", "0", "6"), ("22", "2", "1"), ("9", "1", "3")] {
            host = host
                .with(&format!("{base}/channels/{channel}/subchannel_id"), format!("{queue}\n"))
                .with(&format!("{base}/channels/{channel}/cpu"), format!("{cpu}\n"));
        }
        let expected = [(0, CpuId(6)), (1, CpuId(3)), (2, CpuId(1))];
        assert_eq!(channel_cpus(&host, base), expected.into());
        assert!(channel_cpus(&RecordedHost::new(), base).is_empty());
    }
}
