//! As many queues as there are cores for them, if the driver has them.

use crate::plan::draft::Draft;
use rxlab_base::parse::ethtool::{ChannelKind, Channels};
use rxlab_setting::Target;

/// More queues for every interface that has fewer than cores; never fewer. Hyper-threads have shown no benefit
/// (Documentation/networking/scaling.rst, "RSS: Receive Side Scaling").
pub(in crate::plan) fn more(draft: &mut Draft<'_>) {
    for name in draft.nics.clone() {
        let Some(nic) = draft.model.nic(&name) else { continue };
        let Some(channels) = nic.hardware.channels.known() else {
            draft.leave(format!("channels: {name} does not report its maximum number of queues"));
            continue;
        };
        let domains = draft.topology.domains.iter();
        let cores = domains
            .filter(|domain| nic.node.is_none() || domain.node == nic.node)
            .map(|domain| domain.cores.len());
        let cores = u32::try_from(cores.sum::<usize>()).unwrap_or(u32::MAX);
        let kind = if channels.combined.is_some() { ChannelKind::Combined } else { ChannelKind::Rx };
        let Some(count) = channels.count(kind) else { continue };
        let wanted = count.max.min(cores);
        if wanted > count.now {
            let value = text(channels, kind, wanted);
            let why = format!("{} of {} queues for {cores} cores", count.now, count.max);
            draft.set("channels", Target::Nic(name), value, why);
        }
    }
}

/// All kinds that the device has, one of them with another count.
pub(in crate::plan) fn text(channels: &Channels, changed: ChannelKind, count: u32) -> String {
    let word = |kind: ChannelKind| {
        let now = channels.count(kind)?.now;
        Some(format!("{} {}", kind.word(), if kind == changed { count } else { now }))
    };
    let kinds = [ChannelKind::Rx, ChannelKind::Tx, ChannelKind::Combined];
    kinds.into_iter().filter_map(word).collect::<Vec<_>>().join(" ")
}
