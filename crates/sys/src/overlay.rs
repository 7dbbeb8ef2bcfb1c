//! A machine on which every change stays in memory: changes are read back, and the machine
//! below is only ever read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rustix::io::Errno;

use super::{Action, Host, HostError, Namespace, OpenError, Operation, Query, is_namespaced_sysctl};

/// Files and answers that differ between network namespaces.
const OF_NAMESPACE: [&str; 6] =
    ["sys/class/net/", "sys/devices/", "proc/net/", "proc/self/net/", "netlink/", "ioctl/"];

/// Files of the network namespace of the reading process, unless each namespace has them.
const OF_HOME: &str = "proc/sys/net/";

/// Another host with changes laid over it. It accepts any value, unlike a kernel, but
/// no write to a file system that is mounted read-only.
pub struct OverlayHost<'a> {
    below: Below<'a>,
    // Inode of the network namespace whose machine-wide sysctls count.
    home: Option<u64>,
    changed: Arc<Mutex<BTreeMap<Place, Vec<u8>>>>,
}

/// Files and answers by path; those that differ between network namespaces also by the inode of theirs.
type Place = (Option<u64>, String);

enum Below<'a> {
    Borrowed(&'a dyn Host),
    Owned(Box<dyn Host>),
}

impl<'a> OverlayHost<'a> {
    /// `below`, unchanged so far.
    pub fn new(below: &'a dyn Host) -> Self {
        let home = below.namespace().map(|namespace| namespace.inode);
        Self { below: Below::Borrowed(below), home, changed: Arc::default() }
    }

    fn below(&self) -> &dyn Host {
        match &self.below {
            Below::Borrowed(below) => *below,
            Below::Owned(below) => &**below,
        }
    }

    fn place(&self, path: &str) -> Place {
        let is_of_namespace =
            is_namespaced_sysctl(path) || OF_NAMESPACE.iter().any(|prefix| path.starts_with(prefix));
        let namespace = if is_of_namespace {
            self.namespace().map(|namespace| namespace.inode)
        } else if path.starts_with(OF_HOME) {
            self.home
        } else {
            None
        };
        (namespace, path.to_owned())
    }

    fn changed(&self, path: &str) -> Option<Vec<u8>> {
        self.changed.lock().expect("no writer panicked").get(&self.place(path)).cloned()
    }

    fn change(&self, path: &str, value: Vec<u8>) {
        self.changed.lock().expect("no writer panicked").insert(self.place(path), value);
    }
}

impl Host for OverlayHost<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        self.changed(path).map_or_else(|| self.below().read(path), Ok)
    }

    fn write(&self, path: &str, value: &[u8]) -> Result<(), HostError> {
        // A file that cannot be read may not exist.
        self.read(path).map_err(|error| HostError::new(Operation::Write, path, error.cause))?;
        if self.below().is_read_only(path) {
            return Err(HostError::new(Operation::Write, path, Errno::ROFS));
        }
        self.change(path, value.to_vec());
        Ok(())
    }

    fn links(&self, path: &str) -> Result<Vec<(String, String)>, HostError> {
        self.below().links(path)
    }

    fn query(&self, query: &Query) -> Result<Vec<u8>, HostError> {
        self.changed(&query.path()).map_or_else(|| self.below().query(query), Ok)
    }

    // A shell command is not run: its effect is unknown.
    fn act(&self, action: &Action) -> Result<(), HostError> {
        if matches!(action, Action::Shell { .. }) {
            return Ok(());
        }
        let after = action.outcome(self)?;
        self.change(&action.path(), after);
        Ok(())
    }

    crate::pass_on!([below()] list, link, now_ns, inode, namespaces);

    fn seen_from(&self, namespace: &Namespace, home: Option<&Namespace>) -> Result<Box<dyn Host>, OpenError> {
        let below = Below::Owned(self.below().seen_from(namespace, home)?);
        let home = home.map_or(self.home, |home| Some(home.inode));
        Ok(Box::new(OverlayHost { below, home, changed: Arc::clone(&self.changed) }))
    }
}

#[cfg(test)]
mod tests {
    use super::OverlayHost;
    use crate::{Action, Cause, EthtoolGet, Host, Query, RecordedHost};
    use rxlab_base::parse::{attribute, one_message};
    use rxlab_base::units::NicName;

    #[test]
    fn changes_are_read_back_and_stay_above() {
        let below = RecordedHost::new().with("sys/a", "1\n");
        let host = OverlayHost::new(&below);
        host.write("sys/a", b"2").expect("written");
        assert_eq!((host.read("sys/a"), below.read("sys/a")), (Ok(b"2".to_vec()), Ok(b"1\n".to_vec())));
        assert_eq!(host.write("sys/b", b"2").expect_err("not there").cause, Cause::Missing);
    }

    struct ReadOnly(RecordedHost);

    impl Host for ReadOnly {
        crate::pass_on!([0] read, write, list, link, query, act, now_ns);

        fn is_read_only(&self, _path: &str) -> bool {
            true
        }
    }

    /// A rehearsal once succeeded where the change could not.
    #[test]
    fn a_file_that_no_write_can_change_is_refused() {
        let below = ReadOnly(RecordedHost::new().with("sys/a", "1\n"));
        let refused = OverlayHost::new(&below).write("sys/a", b"2").expect_err("read-only");
        assert_eq!(refused.cause, Cause::from(rustix::io::Errno::ROFS));
    }

    #[test]
    fn an_answer_changes_like_a_file() {
        let answer = |value: &[u8]| one_message(&attribute(9, value));
        let nic: NicName = "eth0".parse().expect("a name");
        let query = Query::Ethtool(EthtoolGet::Channels, nic.clone());
        let action = Action::Ethtool { get: EthtoolGet::Channels, nic, attributes: attribute(9, b"new!") };
        let below = RecordedHost::new().with(&action.path(), answer(b"old!"));
        let host = OverlayHost::new(&below);
        host.act(&action).expect("done");
        assert_eq!(host.query(&query), Ok(answer(b"new!")));
        assert_eq!(below.query(&query), Ok(answer(b"old!")));
    }

    #[test]
    fn a_shell_command_is_not_run() {
        let command = "touch /tmp/rxlab-overlay-test".to_owned();
        let action = Action::Shell { command, directory: None, directory_id: None, interruptible: false };
        let below = RecordedHost::new();
        assert!(below.act(&action).is_err(), "a recording has no shell");
        assert_eq!(OverlayHost::new(&below).act(&action), Ok(()));
    }

    #[test]
    fn a_thread_is_moved_above_and_stays_below() {
        let status = |list: &str| format!("Name:\tx\u{fffd}\nCpus_allowed_list:\t{list}\n");
        let action = Action::ThreadCpus { pid: 7, tid: 8, cpus: "1".parse().expect("a list") };
        let below =
            RecordedHost::new().with("proc/7/task/8/status", b"Name:\tx\xff\nCpus_allowed_list:\t0-3\n");
        let host = OverlayHost::new(&below);
        host.act(&action).expect("done");
        assert_eq!(host.read_text(&action.path()), Ok(status("1")));
        assert_eq!(below.read_text(&action.path()), Ok(status("0-3")));
    }
}
