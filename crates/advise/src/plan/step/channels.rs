//! As many queues as there are cores for them, if the driver has them.

use crate::plan::draft::Draft;
use rxlab_base::parse::ethtool::{ChannelKind, Channels};
use rxlab_path::model::{Model, Nic};
use rxlab_setting::Target;

/// More queues for every interface that has fewer than cores; never fewer. Hyper-threads have shown no benefit
/// (Documentation/networking/scaling.rst, "RSS: Receive Side Scaling").
pub(in crate::plan) fn more(draft: &mut Draft<'_>) {
    for name in draft.nics.clone() {
        let Some(nic) = draft.model.nic(&name) else { continue };
        let channels = match changeable(&draft.model, nic) {
            Ok(channels) => channels,
            Err(why) => {
                draft.leave(format!("channels: {why}"));
                continue;
            }
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

/// The queues of an interface, or why their number may not be changed: new queues get new interrupts, and the CPUs of the
/// old ones have to be known to be set again.
pub(in crate::plan) fn changeable<'m>(model: &Model, nic: &'m Nic) -> Result<&'m Channels, String> {
    let name = &nic.name;
    if model.unknown_interrupts(nic).is_some() {
        return Err(format!("the interrupts of {name} are unknown, so their CPUs could not be restored"));
    }
    if model.unknown_napis().is_some() {
        return Err(format!("the NAPIs of {name} are unknown, so their settings could not be restored"));
    }
    let channels = nic.hardware.channels.known();
    channels.ok_or_else(|| format!("{name} does not report its numbers of queues"))
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

#[cfg(test)]
mod tests {
    use super::changeable;
    use rxlab_base::parse::ethtool::Channels;
    use rxlab_base::units::{Fact, Need};
    use rxlab_path::sketch::Sketch;

    /// A plan that apply refuses.
    #[test]
    fn queues_stay_while_interrupts_are_unknown() {
        let (mut model, _) = Sketch::new(4).device("eth0", &[0, 1]).build();
        model.nics[0].hardware.channels = Fact::Known(Channels::default());
        assert!(changeable(&model, &model.nics[0]).is_ok());
        model.napis = Fact::Broken("too many open files".to_owned());
        let why = changeable(&model, &model.nics[0]).expect_err("unknown");
        assert_eq!(why, "the NAPIs of eth0 are unknown, so their settings could not be restored");
        model.interrupts = Fact::Denied(Need::Root);
        let why = changeable(&model, &model.nics[0]).expect_err("unknown");
        assert_eq!(why, "the interrupts of eth0 are unknown, so their CPUs could not be restored");
    }
}
