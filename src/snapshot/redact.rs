//! Stand-ins for what names a machine and those it talks to.
//!
//! Rewritten is what `sample` reads today: a test of every path that is recorded on a live machine
//! holds [`class`] to it, so that a new source cannot slip through unlooked-at.

mod links;
mod sockets;
mod standin;

use std::collections::BTreeMap;

use crate::host::RecordedHost;
use standin::StandIns;

/// What is done with the content of a file or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Names nobody: numbers, CPU lists, names of interfaces, drivers and processes.
    Harmless,
    HostName,
    BootId,
    /// `/proc/net/tcp` and its like: addresses of this machine and of those it talks to.
    Sockets,
    /// Answers of `RTM_GETLINK`: MAC addresses, tunnel ends, altnames.
    Links,
    /// Not known here: left out, rather than given away.
    Unknown,
}

/// Replaces names and addresses. The same original always gets the same stand-in.
pub(super) struct Redaction {
    name: String,
    stand_ins: StandIns,
}

impl Redaction {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), stand_ins: StandIns::default() }
    }

    pub(super) fn machine(&mut self, machine: RecordedHost) -> RecordedHost {
        let (files, rest) = machine.into_parts();
        let files: BTreeMap<String, Vec<u8>> = files
            .into_iter()
            .filter_map(|(path, content)| Some((path.clone(), self.file(&path, content)?)))
            .collect();
        RecordedHost::from_parts(files, rest)
    }

    /// The content without names; `None` when nothing of it may be kept.
    fn file(&mut self, path: &str, content: Vec<u8>) -> Option<Vec<u8>> {
        match class(path) {
            Class::Harmless => Some(content),
            Class::HostName => Some(format!("{}\n", self.name).into_bytes()),
            Class::BootId => Some(b"00000000-0000-4000-8000-000000000001\n".to_vec()),
            // What cannot be understood cannot be cleaned either.
            Class::Sockets => sockets::redacted(&content, &mut self.stand_ins),
            Class::Links => links::redacted(&content),
            Class::Unknown => None,
        }
    }
}

/// The first rule that fits decides.
fn class(path: &str) -> Class {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["proc", "sys", "kernel", "hostname"] => Class::HostName,
        ["proc", "sys", "kernel", "random", "boot_id"] => Class::BootId,
        ["proc", .., "net", "tcp" | "tcp6" | "udp" | "udp6"] => Class::Sockets,
        ["proc", .., "net", "softnet_stat"] => Class::Harmless,
        ["proc", "sys" | "irq" | "pressure", ..] => Class::Harmless,
        ["proc", "stat" | "softirqs" | "interrupts"] => Class::Harmless,
        ["proc", _, "comm" | "schedstat" | "cgroup" | "status"] => Class::Harmless,
        ["proc", _, "task", _, "stat"] => Class::Harmless,
        ["sys", "class", "net", _, "address" | "broadcast" | "phys_port_id" | "phys_switch_id"] => {
            Class::Unknown
        }
        ["sys", "class" | "devices" | "bus" | "fs", ..] => Class::Harmless,
        ["boot", config] if config.starts_with("config-") => Class::Harmless,
        ["netlink", "netdev", _] => Class::Harmless,
        ["netlink", "route", "link-get"] => Class::Links,
        ["netlink", "route", "nsid-get", _] => Class::Harmless,
        _ => Class::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::{Class, class};
    use crate::host::{LiveHost, RecordingHost};
    use crate::sample::{Counters, Inventory};

    /// A source that `class` does not know would be missing from every redacted snapshot.
    #[test]
    fn every_path_that_is_read_has_a_class() {
        let live = LiveHost::open("/".as_ref()).expect("this machine");
        let recording = RecordingHost::new(&live);
        let inventory = Inventory::take(&recording);
        Counters::take(&recording, &inventory);
        let (files, _) = recording.finish().into_parts();
        assert!(files.len() > 20);
        let unknown: Vec<&String> = files.keys().filter(|path| class(path) == Class::Unknown).collect();
        assert_eq!(unknown, [""; 0]);
    }
}
