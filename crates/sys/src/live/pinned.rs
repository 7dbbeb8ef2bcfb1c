//! A live machine on which one directory, and the interface that it is of, is reached whatever has its name meanwhile.

use std::os::fd::OwnedFd;

use rustix::fs::{OFlags, fstat};
use rustix::io::Errno;

use super::LiveHost;
use crate::files::{content, names, open, open_file};
use crate::signals::held_back;
use crate::{Action, Cause, Host, HostError, Operation, Query};
use rxlab_base::units::NicName;

/// Interfaces have their directories here.
const INTERFACES: &str = "sys/class/net/";

/// `host` with a directory that is held open: a name may be taken over, the directory of a device or a group not.
pub(super) struct PinnedHost<'a> {
    host: &'a LiveHost,
    /// Relative to the root.
    path: String,
    directory: OwnedFd,
    /// The directory is in our own sysfs.
    is_own: bool,
    /// Name and index of an interface. It keeps the index as long as it is in its network namespace.
    interface: Option<(NicName, u32)>,
}

impl<'a> PinnedHost<'a> {
    /// ESTALE if `path` leads to a directory with another inode.
    pub(super) fn new(host: &'a LiveHost, path: &str, inode: u64) -> Result<Self, Errno> {
        let (root, at) = host.place(path);
        let directory = open(root, at, OFlags::PATH | OFlags::DIRECTORY)?;
        if fstat(&directory)?.st_ino != inode {
            return Err(Errno::STALE);
        }
        let name = path.strip_prefix(INTERFACES).and_then(|name| name.parse().ok());
        let interface = match name.filter(|_| host.kernel.is_some()) {
            Some(name) => {
                let index = content(&open_file(&directory, "ifindex", OFlags::RDONLY)?)?;
                let index = std::str::from_utf8(&index).ok().and_then(|index| index.trim().parse().ok());
                Some((name, index.ok_or(Errno::BADMSG)?))
            }
            None => None,
        };
        let is_own = host.is_own_sysfs(root);
        Ok(Self { host, path: path.to_owned(), directory, is_own, interface })
    }

    /// A path in the directory; `None` for others, also if a link leads out of it.
    fn below<'p>(&self, path: &'p str) -> Option<&'p str> {
        let rest = path.strip_prefix(&*self.path)?.strip_prefix('/')?;
        (!rest.starts_with("device/")).then_some(rest)
    }

    /// Index of an interface, if it is the one.
    fn index(&self, nic: &NicName) -> Option<u32> {
        self.interface.as_ref().filter(|(name, _)| name == nic).map(|(_, index)| *index)
    }
}

impl Host for PinnedHost<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        let Some(rest) = self.below(path) else { return self.host.read(path) };
        let read = || content(&open_file(&self.directory, rest, OFlags::RDONLY)?);
        read().map_err(|errno: Errno| HostError::new(Operation::Read, path, errno))
    }

    fn write(&self, path: &str, value: &[u8]) -> Result<(), HostError> {
        let Some(rest) = self.below(path) else { return self.host.write(path, value) };
        self.host.proven(Operation::Write, path)?;
        let written = self.host.write_below(&self.directory, self.is_own, rest, value);
        written.map_err(|cause| HostError::new(Operation::Write, path, cause))
    }

    fn list(&self, path: &str) -> Result<Vec<String>, HostError> {
        let Some(rest) = self.below(path) else { return self.host.list(path) };
        let list = || names(&open(&self.directory, rest, OFlags::RDONLY | OFlags::DIRECTORY)?);
        list().map_err(|errno: Errno| HostError::new(Operation::List, path, errno))
    }

    fn query(&self, query: &Query) -> Result<Vec<u8>, HostError> {
        let index = match query {
            Query::Ethtool(_, nic) => self.index(nic),
            _ => None,
        };
        let (Some(index), Some(kernel)) = (index, &self.host.kernel) else { return self.host.query(query) };
        let answer = kernel.query(query, Some(index));
        answer.map_err(|errno| HostError::new(Operation::Ask, &query.path(), Cause::from(errno)))
    }

    fn act(&self, action: &Action) -> Result<(), HostError> {
        let index = match action {
            Action::Ethtool { nic, .. } | Action::EthtoolIoctl { nic, .. } | Action::Link { nic, .. } => {
                self.index(nic)
            }
            _ => None,
        };
        let (Some(index), Some(kernel)) = (index, &self.host.kernel) else { return self.host.act(action) };
        self.host.proven(Operation::Act, &action.path())?;
        let acted = held_back(|| kernel.act(action, Some(index)));
        acted.map_err(|errno| HostError::new(Operation::Act, &action.path(), errno))
    }

    // The inode of a name says what has it now.
    crate::pass_on!([host] link, now_ns, inode, namespaces);
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::io::Errno;

    use crate::{Host, LiveHost};

    #[test]
    #[allow(clippy::disallowed_methods)] // Makes a machine of files.
    fn a_directory_is_reached_whatever_has_its_name() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let base = tree.path().join("sys/class/net");
        for name in ["a", "b"] {
            fs::create_dir_all(base.join(name).join("queues/rx-0")).expect("made");
            fs::write(base.join(name).join("queues/rx-0/rps_cpus"), name).expect("written");
        }
        let host = LiveHost::open(tree.path()).expect("opened");
        let path = "sys/class/net/a";
        let inode = host.inode(path).expect("there");
        let other = host.pinned(path, inode + 1).err().expect("another one");
        assert_eq!(other.cause, Errno::STALE.into());
        let pinned = host.pinned(path, inode).expect("it is the one").expect("held");
        for (from, to) in [("a", "c"), ("b", "a")] {
            fs::rename(base.join(from), base.join(to)).expect("renamed");
        }
        let file = format!("{path}/queues/rx-0/rps_cpus");
        assert_eq!(
            (pinned.read_text(&file).as_deref(), host.read_text(&file).as_deref()),
            (Ok("a"), Ok("b"))
        );
        pinned.write(&file, b"2").expect("written");
        let left = ["a", "c"].map(|name| fs::read_to_string(base.join(name).join("queues/rx-0/rps_cpus")));
        assert_eq!(left.map(|text| text.expect("there")), ["b", "2"]);
        assert_eq!(pinned.list(&format!("{path}/queues")).as_deref(), Ok(&["rx-0".to_owned()][..]));
        assert_ne!(pinned.inode(path).expect("there"), inode, "what has the name now");
    }
}
