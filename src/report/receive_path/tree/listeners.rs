//! The branch of processes: listeners, their sockets and CPUs.

use crate::model::{Fact, Model, Process};
use crate::report::receive_path::cells::Footnotes;
use crate::report::receive_path::processes::{Waiting, names, ownerless, service, waiting};
use crate::report::text::{Node, STRONG};
use crate::units::CpuMask;

/// All listening processes, grouped by name and service; `delivered` are the CPUs that process packets, if known.
pub(super) fn node(model: &Model, delivered: Option<&CpuMask>, notes: &mut Footnotes) -> Node {
    let text = match &model.listeners {
        Fact::Known(listeners) if listeners.is_empty() => "none",
        Fact::Known(_) => "",
        fact => &notes.word(fact, "listening sockets", |_| String::new()),
    };
    let mut node = Node::new(text).headed(STRONG, "listening:");
    let waiting = waiting(model);
    for group in groups(&waiting) {
        node.push(Node::new(line(&group, delivered, notes)));
    }
    for (socket, owners) in ownerless(model) {
        let why = notes.word(owners, &format!("owners of {socket}"), |_| "no process found".to_owned());
        node.push(Node::new(format!("{socket}: owner {why}")));
    }
    node
}

/// Workers of one service: same name, service and sockets.
fn groups<'a, 'm>(waiting: &'a [Waiting<'m>]) -> Vec<Vec<&'a Waiting<'m>>> {
    let mut groups: Vec<Vec<&Waiting<'_>>> = Vec::new();
    for one in waiting {
        let alike = |other: &Waiting<'_>| {
            other.process.command == one.process.command
                && service(other.process) == service(one.process)
                && other.sockets == one.sockets
        };
        match groups.iter_mut().find(|group| alike(group[0])) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

fn line(group: &[&Waiting<'_>], delivered: Option<&CpuMask>, notes: &mut Footnotes) -> String {
    let first = group[0];
    let name = names(group.iter().map(|one| (one.process.command.as_str(), one.process.pid)));
    let service = service(first.process).map_or_else(String::new, |service| format!(" ({service})"));
    let ran = joined(group, "CPUs", |process| &process.ran_on, notes);
    let allowed = joined(group, "allowed CPUs", |process| &process.allowed, notes);
    let known = group.iter().filter_map(|one| one.process.ran_on.known());
    let ran_on = known.fold(CpuMask::new(), |all, one| all.union(one));
    let apart = !ran_on.is_empty() && delivered.is_some_and(|there| ran_on.intersection(there).is_empty());
    let apart = if apart { ", where no device's packets arrive" } else { "" };
    format!(
        "{name}{service}: {}; last ran on CPU {ran}{apart}; may run on {allowed}",
        first.sockets.join(", ")
    )
}

/// CPUs of all processes of a group, or the word for the first unknown fact.
fn joined(
    group: &[&Waiting<'_>],
    what: &str,
    fact: impl Fn(&Process) -> &Fact<CpuMask>,
    notes: &mut Footnotes,
) -> String {
    let mut all = CpuMask::new();
    for one in group {
        match fact(one.process) {
            Fact::Known(cpus) => all = all.union(cpus),
            absent => {
                return notes.word(
                    absent,
                    &format!("{what} of process {}", one.process.pid),
                    CpuMask::to_string,
                );
            }
        }
    }
    all.to_string()
}
