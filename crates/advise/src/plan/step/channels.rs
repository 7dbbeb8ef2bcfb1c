//! As many queues as there are cores for them, if the driver has them.

use std::collections::BTreeSet;

use crate::plan::draft::Draft;
use crate::plan::policy::Variable;
use crate::plan::topology::Domain;
use rxlab_base::number::plural;
use rxlab_base::parse::ethtool::{ChannelKind, Channels};
use rxlab_base::units::NicName;
use rxlab_path::constraints::{QueueLimit, changeable_queues, queue_limit};
use rxlab_setting::Target;

/// More queues for every interface that has fewer than cores, as far as they are of use; never fewer. Hyper-threads have
/// shown no benefit (Documentation/networking/scaling.rst, "RSS: Receive Side Scaling").
pub(in crate::plan) fn more(draft: &mut Draft<'_>) {
    for name in draft.nics.clone() {
        let Some((channels, QueueLimit { kind, now, most, why: limit })) = queues(draft, &name) else {
            continue;
        };
        let nic = draft.model.nic(&name);
        let nodes = nic.map(|nic| nic.rx.iter().map(|queue| nic.node_of(queue)).collect::<BTreeSet<_>>());
        // Near an interface of unknown node is every node.
        let nodes = nodes.filter(|nodes| !nodes.is_empty() && !nodes.contains(&None));
        let is_near = |domain: &&Domain| nodes.as_ref().is_none_or(|nodes| nodes.contains(&domain.node));
        let cores = draft.topology.domains.iter().filter(is_near).map(|domain| domain.cores.len());
        let cores = u32::try_from(cores.sum::<usize>()).unwrap_or(u32::MAX);
        let wanted = most.min(cores);
        if wanted > now {
            let value = text(&channels, kind, wanted);
            let why = format!("{now} of {most} queues for {cores} cores");
            draft.set("channels", Target::Nic(name), value, why);
        } else if let Some(limit) = limit.filter(|_| now < cores) {
            draft.leave(Variable::Channels.because(limit.to_string()));
        } else if cores > 0 && now >= cores && now < most {
            let place = if nodes.is_some() && draft.topology.domains.len() > 1 { " of its node" } else { "" };
            let [queues, cores] =
                [(now, "queue"), (cores, "core")].map(|(count, what)| plural(count as usize, what));
            draft.leave(Variable::Channels.because(format!("{queues} for {cores}{place}")));
        }
    }
}

/// As many queues as usable CPUs for every interface that has more, where those CPUs have no vectors left for the others.
pub(in crate::plan) fn fewer(draft: &mut Draft<'_>) {
    let Some(why) = draft.no_vectors() else { return };
    let wanted = u32::try_from(draft.topology.usable.len()).unwrap_or(u32::MAX);
    for name in draft.nics.clone() {
        let Some((channels, QueueLimit { kind, now, .. })) = queues(draft, &name) else { continue };
        if now <= wanted {
            continue;
        }
        let value = text(&channels, kind, wanted);
        draft.set("channels", Target::Nic(name), value, format!("a vector for each of {now} queues: {why}"));
    }
}

/// The queues of an interface and their limit; `None`, with the reason left in the draft, if their number may not change.
fn queues(draft: &mut Draft<'_>, name: &NicName) -> Option<(Channels, QueueLimit)> {
    let nic = draft.model.nic(name)?;
    match changeable_queues(&draft.model, nic) {
        Ok(channels) => Some((*channels, queue_limit(nic)?)),
        Err(why) => {
            draft.leave(Variable::Channels.because(why.to_string()));
            None
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
