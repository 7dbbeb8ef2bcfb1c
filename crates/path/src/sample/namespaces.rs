//! Network namespaces of running processes, other than the sampled one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::processes::{self, Seen};
use super::read;
use rxlab_base::parse::{self, Container};
use rxlab_base::units::Fact;
use rxlab_sys::{Cause, Host, Query};

/// The namespaces of visible processes, by inode.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawNamespaces {
    /// Those other than the sampled one.
    pub others: Vec<NetNamespace>,
    /// Positions in `others` of those that have a number in the sampled namespace, by this number.
    pub by_id: BTreeMap<u32, usize>,
    /// Known if every process of the machine could be asked for its namespace; otherwise the reason.
    pub all_seen: Fact<()>,
}

/// A network namespace of running processes, other than the sampled one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetNamespace {
    /// Its number in `/proc/PID/ns/net`: `4026532281` of `net:[4026532281]`.
    pub inode: u64,
    /// The process with the lowest number in it.
    pub pid: u32,
    /// That process's name.
    pub command: String,
    /// That process's container, if its control group names one.
    pub container: Option<Container>,
}

pub(super) fn take(host: &dyn Host, seen: &Seen) -> Fact<RawNamespaces> {
    let inode = |link: String| {
        parse::namespace_inode(&link).ok_or_else(|| format!("`{link}` is not a network namespace"))
    };
    let namespace_of = |process: &str| {
        let link = host.link(&format!("proc/{process}/ns/net"));
        link.map(|link| Fact::Known(link).parse(inode))
    };
    let own = match namespace_of("self") {
        Ok(Fact::Known(own)) => own,
        Ok(absent) => return absent.map(|_| RawNamespaces::default()),
        Err(error) => return read::absence(&error),
    };
    let mut first = BTreeMap::new();
    let mut all_seen = seen.everybody.clone();
    for pid in &seen.programs {
        match namespace_of(&pid.to_string()) {
            Ok(Fact::Known(inode)) => {
                first.entry(inode).or_insert(*pid);
            }
            Ok(absent) => return absent.map(|_| RawNamespaces::default()),
            Err(error) if error.cause == Cause::Denied => all_seen = read::absence(&error),
            // It ended meanwhile.
            Err(_) => {}
        }
    }
    let others = first.into_iter().filter(|(inode, _)| *inode != own);
    let others: Vec<NetNamespace> = others.map(|(inode, pid)| one(host, seen, inode, pid)).collect();
    let numbered = others.iter().enumerate().rev();
    let by_id = numbered.filter_map(|(at, other)| Some((number(host, other.pid)?, at))).collect();
    Fact::Known(RawNamespaces { others, by_id, all_seen })
}

fn one(host: &dyn Host, seen: &Seen, inode: u64, pid: u32) -> NetNamespace {
    let control_group = processes::control_group(host, pid);
    NetNamespace {
        inode,
        pid,
        command: seen.command(host, pid).unwrap_or_default(),
        container: control_group.known().and_then(|path| parse::container(path)),
    }
}

/// The number in the sampled namespace of the one that `pid` is in, if it has one.
fn number(host: &dyn Host, pid: u32) -> Option<u32> {
    read::asked(host, &Query::NamespaceId { pid }, parse::namespace_id).known().copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::take;
    use crate::sample::processes::Seen;
    use crate::sample::processes::tests::seen;
    use rxlab_base::units::{Fact, Need};
    use rxlab_sys::{Cause, RecordedHost};

    fn host() -> RecordedHost {
        let mut host = RecordedHost::new().with_link("proc/self/ns/net", "net:[1]");
        for (pid, inode) in [(1, 1), (40, 9), (41, 9), (52, 4)] {
            host = host.with_link(&format!("proc/{pid}/ns/net"), &format!("net:[{inode}]"));
        }
        host.with("proc/40/comm", "sh\n").with("proc/40/cgroup", "0::/lxc.payload.web\n")
    }

    #[test]
    fn one_entry_a_namespace_without_our_own() {
        let found = take(&host(), &seen(&[1, 40, 41, 52, 99]));
        let found = found.known().expect("known");
        let namespaces = &found.others;
        assert_eq!(found.all_seen, Fact::Known(()));
        let shown: Vec<_> = namespaces.iter().map(|n| (n.inode, n.pid, n.command.as_str())).collect();
        assert_eq!(shown, [(4, 52, ""), (9, 40, "sh")]);
        let container = namespaces[1].container.clone().expect("reported");
        assert_eq!((container.engine.as_str(), container.id.as_str()), ("lxc", "web"));
        assert!(found.by_id.is_empty(), "{:?}", found.by_id);
    }

    #[test]
    fn one_closed_process_leaves_the_list_open() {
        let host = host().with_failure("proc/41/ns/net", Cause::Denied);
        let found = take(&host, &seen(&[1, 40, 41]));
        let found = found.known().expect("known");
        assert_eq!((found.others.len(), &found.all_seen), (1, &Fact::Denied(Need::SysPtrace)));
        let part = Seen { everybody: Fact::Denied(Need::AllProcesses), ..seen(&[1, 40]) };
        let found = take(&self::host(), &part);
        assert_eq!(found.known().expect("known").all_seen, Fact::Denied(Need::AllProcesses));
        assert_eq!(take(&RecordedHost::new(), &seen(&[1])), Fact::Unsupported);
        let odd = RecordedHost::new().with_link("proc/self/ns/net", "uts:[1]");
        assert!(matches!(take(&odd, &seen(&[])), Fact::Broken(_)));
    }
}
