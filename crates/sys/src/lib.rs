//! The machine as files and answers: the only door to procfs, sysfs, netlink and ioctls, on any root.
//!
//! A [`Host`] is live ([`LiveHost`], any root and any network namespace), recorded ([`RecordedHost`]), or fails on purpose
//! ([`FlakyHost`]). Paths are relative to the root and have no leading slash (`proc/stat`,
//! `sys/class/net/eth0/queues/rx-0/rps_cpus`); their resolution never leaves it.
//!
//! Never: parses a file, or knows what a value means.
//!
//! ```
//! use rxlab_sys::{Host, RecordedHost};
//!
//! let host = RecordedHost::new().with("proc/sys/net/core/rps_sock_flow_entries", "32768\n");
//! assert_eq!(host.read_text("proc/sys/net/core/rps_sock_flow_entries")?, "32768\n");
//! # Ok::<(), rxlab_sys::HostError>(())
//! ```

mod action;
mod apart;
mod capabilities;
mod clock;
pub mod datagrams;
mod ethtool;
mod ethtool_ioctl;
mod files;
mod flaky;
mod handle;
mod irqbalance;
mod kernel;
mod limits;
mod live;
mod netlink;
mod netns;
mod numbering;
mod open_files;
mod overlay;
mod process_id;
mod query;
mod recorded;
mod recording;
mod scheduler;
mod shell;
mod shown;
mod signals;
pub mod socket;
mod thread;
mod view;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use action::{Action, EthtoolChange};
pub use capabilities::use_capabilities_of_file;
pub use clock::clock_ns;
pub use flaky::{Failpoint, Fault, FlakyHost, Rule};
pub use limits::{lift_limits, outlast_others};
pub use live::{LiveHost, OpenError};
pub use netns::{
    Hidden, INITIAL_PID_NAMESPACE, INITIAL_USER_NAMESPACE, Namespace, Namespaces, enter_netns, lasting_netns,
    loopback_up, netns_path, new_netns,
};
pub use netns::{in_netns, is_in_group_namespace, is_in_pid_namespace, is_pid};
pub use numbering::{Numbering, OtherNumbers, OwnNumbering, boottime_ns};
pub use open_files::allow_files;
pub use overlay::OverlayHost;
pub use process_id::ProcessId;
pub use query::{EthtoolGet, Query, values_in_words};
pub use recorded::{RecordedHost, Recording};
pub use recording::{Notes, RecordingHost};
pub use shell::{DirectoryId, inherit_no_files, signal_at_our_end};
pub use shown::unless_ended;
pub use signals::{await_children, outlast_signals};
pub use thread::{
    allowed_cpus, pin_thread, thread_cpu_seconds, thread_ran_and_waited_ns, thread_user_and_system_ticks,
};
pub use view::OtherView;

/// True for a file of `proc/sys/net` that each network namespace has, with a value of its own (`netns_core_table` in
/// net/core/sysctl_net_core.c, `ipv4_net_table`). The others that rxlab reads exist only in the initial one, for the whole machine.
pub fn is_namespaced_sysctl(path: &str) -> bool {
    const CORE: [&str; 2] = ["proc/sys/net/core/rps_default_mask", "proc/sys/net/core/somaxconn"];
    path.starts_with("proc/sys/net/ipv4/") || CORE.contains(&path)
}

/// A machine: live, another root, or a recording of one.
///
/// Paths must be relative to the root, without a leading slash. Implementations must never leave their root,
/// regardless of symbolic links, and must report what is absent as [`Cause::Missing`], not as an empty answer.
pub trait Host: Send + Sync {
    /// The whole content of a file, read in one go: it may change between two calls.
    fn read(&self, path: &str) -> Result<Vec<u8>, HostError>;

    /// Writes `value` with one `write(2)`, as sysfs and procfs require. The kernel may keep another value: the
    /// caller must read it back. Only code that the journal of `change` covers may call this.
    fn write(&self, path: &str, value: &[u8]) -> Result<(), HostError>;

    /// True if the file is on a file system that is mounted read-only, so that no write can succeed; false if that is not
    /// known.
    fn is_read_only(&self, path: &str) -> bool {
        let _ = path;
        false
    }

    /// The names in a directory, sorted. One that is not UTF-8 is escaped, as `\\xff`: no file is found by it.
    fn list(&self, path: &str) -> Result<Vec<String>, HostError>;

    /// The directories in a directory and the links to directories, sorted by name. Includes names that are not UTF-8,
    /// and may include plain files.
    fn entries(&self, path: &str) -> Result<Vec<Entry>, HostError> {
        let entry = |name: String| {
            let inode = match self.inode(&format!("{path}/{name}")) {
                Ok(inode) => Some(inode),
                Err(error) if error.cause == Cause::Missing => None,
                Err(error) => return Err(error),
            };
            Ok(Entry { name, is_text: true, inode })
        };
        self.list(path)?.into_iter().map(entry).collect()
    }

    /// The target of a symbolic link, as it is stored.
    fn link(&self, path: &str) -> Result<String, HostError>;

    /// The names and the targets of all symbolic links in a directory, sorted by name. Links that go away
    /// meanwhile are left out; one that may not be followed is an error.
    fn links(&self, path: &str) -> Result<Vec<(String, String)>, HostError> {
        let mut links = Vec::new();
        for name in self.list(path)? {
            match self.link(&format!("{path}/{name}")) {
                Ok(target) => links.push((name, target)),
                Err(error) if error.cause == Cause::Missing => {}
                Err(error) => return Err(error),
            }
        }
        Ok(links)
    }

    /// The answer to a query, as bytes; `Missing` if this machine cannot give it.
    fn query(&self, query: &Query) -> Result<Vec<u8>, HostError>;

    /// Makes a change by other means than writing to a file. The same duties as for [`Host::write`] hold.
    fn act(&self, action: &Action) -> Result<(), HostError>;

    /// Nanoseconds since boot (CLOCK_BOOTTIME); a recording's clock stands still, so nothing may wait for it.
    fn now_ns(&self) -> u64;

    /// The inode of a directory. In sysfs no other directory has it before the next boot, and a device keeps
    /// it under another name and in another network namespace (64-bit kernfs ids, Linux 5.5). Recordings have
    /// none.
    fn inode(&self, path: &str) -> Result<u64, HostError> {
        Err(HostError::new(Operation::List, path, Cause::Missing))
    }

    /// The same machine, on which the directory `path` with this inode, files below it, and what is asked and changed of the
    /// interface that it is of, are reached whatever has its name meanwhile. An error (ESTALE) if `path` leads to another
    /// directory. `None` if nothing has inodes here: the name is all there is.
    fn pinned(&self, path: &str, inode: u64) -> Result<Option<Box<dyn Host + '_>>, HostError> {
        let _ = (path, inode);
        Ok(None)
    }

    /// The path of the control group with this inode, below the directory `mount`, where its file system is mounted;
    /// starts with a slash, or is empty. `None` if the file system has no such group any more. An error if that cannot
    /// be determined.
    fn find_group(&self, mount: &str, inode: u64) -> Result<Option<String>, HostError> {
        let mut open = vec![String::new()];
        while let Some(path) = open.pop() {
            for entry in self.entries(&format!("{mount}{path}"))?.into_iter().filter(|e| e.inode.is_some()) {
                let path = format!("{path}/{}", entry.name);
                if entry.inode == Some(inode) {
                    return Ok(Some(path));
                }
                open.push(path);
            }
        }
        Ok(None)
    }

    /// An error unless the files in `sys` and the sockets of this view are known to be of one network namespace, and those
    /// below a root other than `/` of no running kernel. Must be checked before a change: a name found in one may be of
    /// another interface in the other, and undo reads one journal of each machine.
    fn check_view(&self) -> Result<(), OtherView> {
        Ok(())
    }

    /// The numbering of the processes below `proc`, which system calls share; `None` where there are only files. An error unless
    /// that is proven: before anything is done to a process by its number, and before it is taken for gone.
    fn numbering(&self) -> Result<Option<OwnNumbering>, OtherNumbers> {
        Ok(None)
    }

    /// The network namespace of this view; `None` below any root but `/`, where there are only files.
    fn namespace(&self) -> Option<&Namespace> {
        None
    }

    /// Every network namespace of the machine, including this view's. Must say so if some may not be visible: undo takes a
    /// device that is in none of them for gone.
    fn namespaces(&self) -> Namespaces {
        Namespaces::default()
    }

    /// The same machine in another of its network namespaces. `home` must be the one whose machine-wide
    /// `proc/sys/net` counts: some files in there exist in the initial namespace only.
    fn seen_from(&self, namespace: &Namespace, home: Option<&Namespace>) -> Result<Box<dyn Host>, OpenError> {
        let _ = home;
        Err(OpenError::Namespace { path: namespace.path.clone(), errno: rustix::io::Errno::NOENT })
    }

    /// A file as text. Those below `sys` and `proc/sys` have values, which may have to be written again: one that is not UTF-8
    /// is an error. All others may have names of other programs, which are any bytes: those that are not UTF-8 are replaced
    /// (U+FFFD), so that a name hides nothing else in the file.
    fn read_text(&self, path: &str) -> Result<String, HostError> {
        let is_value = ["sys/", "proc/sys/"].iter().any(|values| path.starts_with(values));
        match String::from_utf8(self.read(path)?) {
            Err(_) if is_value => Err(HostError::new(Operation::Read, path, Cause::NotText)),
            text => Ok(text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())),
        }
    }
}

/// A directory, or a link to one, in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name, as [`Host::list`] has it.
    pub name: String,
    /// False for an escaped name, which leads nowhere.
    pub is_text: bool,
    /// Inode of the directory (see [`Host::inode`]); `None` if it is gone or is not a directory, and in recordings.
    pub inode: Option<u64>,
}

/// Operations of a [`Host`] that the implementation leaves to another one: `pass_on!([inner] read, list);` leaves them to
/// `self.inner`. A wrapper should also pass on `inode` and `namespaces`: their defaults answer that there are none. `entries`
/// and `find_group` go with the first, `check_view` and `numbering` with the second.
#[macro_export]
macro_rules! pass_on {
    ($to:tt $($operation:ident),+) => { $($crate::pass_on!(@ $operation $to);)+ };
    (@ read [$($to:tt)+]) => {
        fn read(&self, path: &str) -> Result<Vec<u8>, $crate::HostError> { self.$($to)+.read(path) }
    };
    (@ write [$($to:tt)+]) => {
        fn write(&self, path: &str, value: &[u8]) -> Result<(), $crate::HostError> {
            self.$($to)+.write(path, value)
        }
    };
    (@ list [$($to:tt)+]) => {
        fn list(&self, path: &str) -> Result<Vec<String>, $crate::HostError> { self.$($to)+.list(path) }
    };
    (@ link [$($to:tt)+]) => {
        fn link(&self, path: &str) -> Result<String, $crate::HostError> { self.$($to)+.link(path) }
    };
    (@ query [$($to:tt)+]) => {
        fn query(&self, query: &$crate::Query) -> Result<Vec<u8>, $crate::HostError> {
            self.$($to)+.query(query)
        }
    };
    (@ act [$($to:tt)+]) => {
        fn act(&self, action: &$crate::Action) -> Result<(), $crate::HostError> {
            self.$($to)+.act(action)
        }
    };
    (@ now_ns [$($to:tt)+]) => { fn now_ns(&self) -> u64 { self.$($to)+.now_ns() } };
    (@ inode [$($to:tt)+]) => {
        fn inode(&self, path: &str) -> Result<u64, $crate::HostError> { self.$($to)+.inode(path) }

        fn entries(&self, path: &str) -> Result<Vec<$crate::Entry>, $crate::HostError> {
            self.$($to)+.entries(path)
        }

        fn find_group(&self, mount: &str, inode: u64) -> Result<Option<String>, $crate::HostError> {
            self.$($to)+.find_group(mount, inode)
        }
    };
    (@ namespaces [$($to:tt)+]) => {
        fn namespace(&self) -> Option<&$crate::Namespace> { self.$($to)+.namespace() }

        fn namespaces(&self) -> $crate::Namespaces { self.$($to)+.namespaces() }

        fn check_view(&self) -> Result<(), $crate::OtherView> { self.$($to)+.check_view() }

        fn numbering(&self) -> Result<Option<$crate::OwnNumbering>, $crate::OtherNumbers> {
            self.$($to)+.numbering()
        }
    };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Read,
    Write,
    List,
    /// Resolving a symbolic link.
    Link,
    /// Asking over a socket.
    Ask,
    /// Changing over a socket.
    Act,
    /// Running a shell command.
    Run,
}

impl Operation {
    fn verb(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::List => "list",
            Operation::Link => "follow",
            Operation::Ask => "query",
            Operation::Act => "set",
            Operation::Run => "run",
        }
    }
}

/// Cause of a failure: the three kinds of absence that must never be confused, and the rest by errno.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// ENOENT, ENODEV, ENXIO, ENOTDIR, EOPNOTSUPP, EPROTONOSUPPORT, ESRCH: not on this machine, or no longer.
    Missing,
    /// EACCES, EPERM: it exists, but access is denied.
    Denied,
    /// The content is not UTF-8.
    NotText,
    /// It existed, and the recording is redacted.
    Withheld,
    /// A shell command failed; [`HostError::said`] has the details.
    Command,
    /// The files in `sys` may be of another network namespace than the sockets (see [`Host::check_view`]).
    OtherView,
    /// `/proc` does not show this process: it is of another PID namespace, or hides it.
    NotInProc,
    /// Any other errno, as the kernel gave it.
    Errno(i32),
}

impl From<rustix::io::Errno> for Cause {
    fn from(errno: rustix::io::Errno) -> Self {
        use rustix::io::Errno;
        match errno {
            Errno::NOENT | Errno::NODEV | Errno::NXIO | Errno::NOTDIR | Errno::SRCH => Cause::Missing,
            Errno::OPNOTSUPP | Errno::PROTONOSUPPORT => Cause::Missing,
            // ENOTSUPP of the kernel, which programs should never see but some drivers return.
            other if other.raw_os_error() == 524 => Cause::Missing,
            Errno::ACCESS | Errno::PERM => Cause::Denied,
            other => Cause::Errno(other.raw_os_error()),
        }
    }
}

/// An operation on the machine that failed, with the path below the root.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", self.in_words())]
pub struct HostError {
    pub operation: Operation,
    /// Relative to the root; for a shell command, the command.
    pub path: String,
    pub cause: Cause,
    /// For a shell command, its end status and the last line of its standard error.
    pub said: Option<String>,
}

impl HostError {
    pub fn new(operation: Operation, path: &str, cause: impl Into<Cause>) -> Self {
        Self { operation, path: path.to_owned(), cause: cause.into(), said: None }
    }

    /// A shell command that failed; `said` follows the command in a sentence.
    pub fn of_command(command: &str, said: impl Into<String>) -> Self {
        Self { said: Some(said.into()), ..Self::new(Operation::Run, command, Cause::Command) }
    }

    fn in_words(&self) -> String {
        match &self.said {
            Some(said) => format!("`{}` {said}", self.path),
            None => format!("cannot {} /{}: {}", self.operation.verb(), self.path, self.reason()),
        }
    }

    /// The cause as text.
    pub fn reason(&self) -> String {
        match self.cause {
            Cause::Missing => "not found".to_owned(),
            Cause::Denied => "permission denied".to_owned(),
            Cause::NotText => "not text".to_owned(),
            Cause::Withheld => "left out of the redacted snapshot".to_owned(),
            Cause::Command => self.said.clone().unwrap_or_else(|| "the command failed".to_owned()),
            Cause::OtherView => "it may not be of the machine that this process acts on".to_owned(),
            Cause::NotInProc => {
                "/proc does not show this process: mount a /proc of its PID namespace, or run rxlab as root with \
                 CAP_SYS_PTRACE (hidepid)"
                    .to_owned()
            }
            Cause::Errno(errno) => std::io::Error::from_raw_os_error(errno).to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cause, Host, RecordedHost};

    /// Skips like tests/it/require.rs: aloud, and not if `RXLAB_REQUIRE` names `netns`.
    pub(crate) fn have_netns(found: Result<(), String>) -> bool {
        let Err(missing) = found else { return true };
        let required = std::env::var("RXLAB_REQUIRE").unwrap_or_default();
        let is_required = required.split(',').any(|name| name == "netns");
        assert!(!is_required, "RXLAB_REQUIRE wants netns, and it is missing: {missing}");
        println!("skipped, netns is missing: {missing}");
        false
    }

    #[test]
    fn a_name_that_is_not_text_hides_nothing_and_a_value_is_exact() {
        let read = |path: &str| {
            let host = RecordedHost::new().with(path, b"a\xffb");
            host.read_text(path).map_err(|error| error.cause)
        };
        for names in ["proc/7/stat", "proc/self/mountinfo", "proc/interrupts", "etc/sysctl.conf"] {
            assert_eq!(read(names).as_deref(), Ok("a\u{fffd}b"), "{names}");
        }
        for value in ["proc/sys/net/core/default_qdisc", "sys/class/net/eth0/ifalias"] {
            assert_eq!(read(value), Err(Cause::NotText), "{value}");
        }
    }
}
