//! Position of an interface in the network stack, in words.

use super::cells::Footnotes;
use crate::report::container::container;
use rxlab_base::units::NicName;
use rxlab_path::model::{Fact, Model, Nic, Peer};

/// Names, separated by commas.
pub(super) fn names(nics: &[NicName]) -> String {
    nics.iter().map(NicName::as_str).collect::<Vec<_>>().join(", ")
}

/// An interface with its kind: `bond0 (bond)`.
pub(super) fn with_kind(model: &Model, name: &NicName) -> String {
    match model.nic(name).and_then(|nic| nic.stack.kind.as_deref()) {
        Some(kind) => format!("{name} ({kind})"),
        None => name.to_string(),
    }
}

/// Interfaces above and below an interface, nearest first; empty if there are none.
pub(super) fn stack(model: &Model, nic: &Nic) -> String {
    let mut parts = Vec::new();
    let stack = &nic.stack;
    if !stack.upper.is_empty() {
        let upper: Vec<String> = stack.upper.iter().map(|name| with_kind(model, name)).collect();
        parts.push(format!("below {}", upper.join(", ")));
    }
    if !stack.lower.is_empty() {
        parts.push(format!("on top of {}", names(&stack.lower)));
    }
    // Only if they are not directly below.
    if !stack.physical.is_empty() && stack.physical != stack.lower {
        parts.push(format!("devices below: {}", names(&stack.physical)));
    }
    parts.join("; ")
}

/// The other end of a veth: `veth1`, or the container or process that has it.
pub(super) fn peer(model: &Model, peer: &Peer, notes: &mut Footnotes) -> String {
    if let Some(name) = &peer.nic {
        return name.to_string();
    }
    match (&model.namespaces, peer.namespace) {
        (Fact::Known(namespaces), Some(index)) if index < namespaces.len() => {
            let namespace = &namespaces[index];
            let process = format!("{}, pid {}", namespace.command, namespace.pid);
            match &namespace.container {
                Some(of) => format!("container {} ({process})", container(of)),
                None => format!("namespace of {process}"),
            }
        }
        (Fact::Known(_) | Fact::NotAsked | Fact::Unsupported, _) => match &model.all_namespaces_seen {
            Fact::Denied(need) => format!("another namespace: needs {need}"),
            _ => "an unknown namespace".to_owned(),
        },
        (fact, _) => format!("another namespace: {}", notes.word(fact, "namespaces", |_| String::new())),
    }
}

#[cfg(test)]
mod tests {
    use super::{peer, stack};
    use crate::report::receive_path::cells::Footnotes;
    use crate::report::sample_model::{name, rich};
    use rxlab_base::units::Need;
    use rxlab_path::model::{Fact, Peer};

    #[test]
    fn places_in_words() {
        let model = rich();
        let stack_of = |nic: &str| stack(&model, model.nic(&name(nic)).expect("there"));
        assert_eq!(stack_of("eth0"), "below bond0 (bond)");
        assert_eq!(stack_of("bond0"), "below bond0.100 (vlan); on top of ens3, eth0");
        assert_eq!(stack_of("bond0.100"), "on top of bond0; devices below: ens3, eth0");
        assert_eq!(stack_of("lo"), "");
    }

    #[test]
    fn peers_in_words() {
        let mut model = rich();
        let mut notes = Footnotes::default();
        let far = |namespace| Peer { ifindex: 2, nic: None, namespace };
        let text = peer(&model, &far(Some(0)), &mut notes);
        assert_eq!(text, "container docker 3f2c9a7be01d (redis-server, pid 4242)");
        assert_eq!(peer(&model, &far(None), &mut notes), "an unknown namespace");
        assert_eq!(peer(&model, &Peer { nic: Some(name("veth9")), ..far(None) }, &mut notes), "veth9");
        // Not all namespaces were visible; the peer may be in one of the others.
        model.all_namespaces_seen = Fact::Denied(Need::AllProcesses);
        let text = peer(&model, &far(None), &mut notes);
        assert_eq!(text, "another namespace: needs visibility of all processes");
        model.namespaces = Fact::Denied(Need::SysPtrace);
        assert_eq!(peer(&model, &far(None), &mut notes), "another namespace: needs CAP_SYS_PTRACE");
    }
}
