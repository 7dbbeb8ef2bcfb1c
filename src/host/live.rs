//! A root directory as a machine. `/` is this machine; with a network namespace, `sys` is a private
//! sysfs of that namespace.

#![allow(clippy::disallowed_methods)] // The host is where files are touched.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, ResolveFlags, openat2, readlinkat, statat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::time::{ClockId, clock_gettime};
use thiserror::Error;

use super::kernel::Kernel;
use super::{Host, HostError, Operation, Question, enter_netns};

/// What one read of procfs gives at most, as a rule.
const CHUNK: usize = 4096;

/// Each try takes microseconds; renames that hit every one of so many would be an attack.
const EAGAIN_TRIES: u32 = 1000;

/// A machine below a directory of this one.
///
/// Path resolution is confined by `openat2(RESOLVE_IN_ROOT)` (kernel 5.6): an absolute or `..`
/// symbolic link in a recorded tree stays inside the tree.
#[derive(Debug)]
pub struct LiveHost {
    root: OwnedFd,
    // A detached sysfs mount of another network namespace. It has no mount point, so nothing has
    // to be cleaned up: it goes away with this descriptor.
    namespace_sys: Option<OwnedFd>,
    // Sockets speak of the running kernel, so only of the root `/`. Below any other root answers are
    // files.
    kernel: Option<Kernel>,
}

/// The root or the network namespace cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The root directory.
    #[error("cannot open the root {path}: {errno}")]
    Root {
        /// As given.
        path: PathBuf,
        /// Why.
        errno: Errno,
    },
    /// The network namespace file.
    #[error("cannot enter the network namespace {path}: {errno}")]
    Namespace {
        /// As given.
        path: PathBuf,
        /// Why.
        errno: Errno,
    },
}

impl OpenError {
    /// Whether a privilege is what is missing.
    pub fn is_denied(&self) -> bool {
        let (OpenError::Root { errno, .. } | OpenError::Namespace { errno, .. }) = self;
        matches!(*errno, Errno::PERM | Errno::ACCESS)
    }
}

impl LiveHost {
    /// The machine whose files are below `path`.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|errno| OpenError::Root { path: path.to_owned(), errno })?;
        let kernel = (path == Path::new("/")).then(|| Kernel::new(None));
        Ok(Self { root, namespace_sys: None, kernel })
    }

    /// This machine as seen from a network namespace: `sys` comes from there, `proc` stays ours
    /// (so `proc/sys/net` is that of our own namespace, where `rps_sock_flow_entries` lives).
    ///
    /// `namespace` is a namespace file such as `/run/netns/NAME` or `/proc/PID/ns/net`. Needs
    /// CAP_SYS_ADMIN.
    pub fn open_in_namespace(root: &Path, namespace: &Path) -> Result<Self, OpenError> {
        let mut host = Self::open(root)?;
        let sys = std::thread::scope(|scope| {
            // A thread of its own: only it changes namespace, and it ends here.
            scope.spawn(|| sysfs_of(namespace)).join().expect("the namespace thread does not panic")
        });
        host.namespace_sys = Some(sys?);
        host.kernel = host.kernel.map(|_| Kernel::new(Some(namespace.to_owned())));
        Ok(host)
    }

    fn place<'a>(&self, path: &'a str) -> (&OwnedFd, &'a str) {
        match (&self.namespace_sys, path.strip_prefix("sys/")) {
            (Some(sys), Some(rest)) => (sys, rest),
            _ => (&self.root, path),
        }
    }

    fn open_file(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let (root, path) = self.place(path);
        let open = || openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT);
        // EAGAIN: somewhere a rename or mount happened while a `..` was resolved, and the kernel
        // cannot be sure that the path stayed inside the root (openat2(2)). The file knows nothing
        // of that: ask again.
        let mut opened = open();
        for _ in 0..EAGAIN_TRIES {
            if !matches!(opened, Err(Errno::AGAIN)) {
                break;
            }
            opened = open();
        }
        opened
    }
}

fn sysfs_of(namespace: &Path) -> Result<OwnedFd, OpenError> {
    enter_netns(namespace)?;
    let mount = || {
        let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
    };
    mount().map_err(|errno| OpenError::Namespace { path: namespace.to_owned(), errno })
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

impl Host for LiveHost {
    fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        let failed = |errno: Errno| HostError::new(Operation::Read, path, errno);
        let file = self.open_file(path, OFlags::RDONLY).map_err(failed)?;
        let mut bytes = Vec::new();
        // Thousands of files of one line are read in one look: no size is asked for, because the sizes
        // that procfs and sysfs tell mean nothing.
        loop {
            bytes.reserve(CHUNK);
            match rustix::io::read(&file, spare_capacity(&mut bytes)) {
                Ok(0) => return Ok(bytes),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
    }

    fn write(&self, path: &str, value: &[u8]) -> Result<(), HostError> {
        let failed = |errno: Errno| HostError::new(Operation::Write, path, errno);
        // Truncation matters for a tree of plain files and is ignored by sysfs and procfs.
        let file = self.open_file(path, OFlags::WRONLY | OFlags::TRUNC).map_err(failed)?;
        let written = File::from(file).write(value).map_err(|error| failed(errno(&error)))?;
        if written == value.len() { Ok(()) } else { Err(failed(Errno::IO)) }
    }

    fn list(&self, path: &str) -> Result<Vec<String>, HostError> {
        let failed = |errno: Errno| HostError::new(Operation::List, path, errno);
        let directory = self.open_file(path, OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn link(&self, path: &str) -> Result<String, HostError> {
        let failed = |errno: Errno| HostError::new(Operation::Link, path, errno);
        let link = self.open_file(path, OFlags::PATH | OFlags::NOFOLLOW).map_err(failed)?;
        statat(&link, "", AtFlags::EMPTY_PATH).map_err(failed)?;
        let target = readlinkat(&link, "", Vec::new()).map_err(failed)?;
        Ok(target.to_string_lossy().into_owned())
    }

    fn ask(&self, question: &Question) -> Result<Vec<u8>, HostError> {
        let failed = |cause| HostError { operation: Operation::Ask, path: question.path(), cause };
        match &self.kernel {
            Some(kernel) => kernel.ask(question).map_err(|errno| failed(errno.into())),
            None => self.read(&question.path()).map_err(|error| failed(error.cause)),
        }
    }

    fn now_ns(&self) -> u64 {
        let now = clock_gettime(ClockId::Boottime);
        // Boot time is never negative.
        now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use super::{Host, LiveHost};
    use crate::host::{Cause, Question};
    use crate::parse;

    #[test]
    fn a_link_cannot_leave_the_root() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(tree.path().join("sys")).expect("created");
        std::os::unix::fs::symlink("/etc/passwd", tree.path().join("sys/out")).expect("linked");
        std::os::unix::fs::symlink("../../../../etc/passwd", tree.path().join("sys/up")).expect("linked");
        let host = LiveHost::open(tree.path()).expect("opened");
        for name in ["sys/out", "sys/up", "../etc/passwd", "/etc/passwd"] {
            assert_eq!(host.read(name).expect_err(name).cause, Cause::Missing, "{name}");
        }
        assert_eq!(host.link("sys/out").expect("a link"), "/etc/passwd");
        assert_eq!(host.list("sys").expect("a directory"), ["out", "up"]);
    }

    #[test]
    fn this_machine_answers() {
        let host = LiveHost::open("/".as_ref()).expect("opened");
        assert!(host.read_text("proc/stat").expect("readable").starts_with("cpu "));
        let missing = host.read("sys/class/net/none/mtu").expect_err("no such NIC");
        assert_eq!(missing.to_string(), "cannot read /sys/class/net/none/mtu: not there");
    }

    /// The kernel's own loopback counts no queues, a real driver does; what must hold everywhere is
    /// that the kernel's answer, if it has this command, is understood.
    #[test]
    fn queue_statistics_are_understood() {
        let host = LiveHost::open("/".as_ref()).expect("opened");
        match host.ask(&Question::QueueStats) {
            Err(error) => assert_eq!(error.cause, Cause::Missing, "{error}"),
            Ok(answer) => {
                for entry in parse::queue_stats(&answer).expect("understood") {
                    let interfaces = host.list("sys/class/net").expect("listed");
                    let index = |name: &String| host.read_text(&format!("sys/class/net/{name}/ifindex"));
                    let of = |name: &String| {
                        index(name).is_ok_and(|text| text.trim() == entry.ifindex.to_string())
                    };
                    assert!(interfaces.iter().any(of), "{entry:?}");
                }
            }
        }
    }

    #[test]
    fn below_another_root_answers_are_files() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let host = LiveHost::open(tree.path()).expect("opened");
        let error = host.ask(&Question::Napis).expect_err("no such file");
        assert_eq!(error.to_string(), "cannot ask /netlink/netdev/napi-get: not there");
        std::fs::create_dir_all(tree.path().join("netlink/netdev")).expect("created");
        std::fs::write(tree.path().join("netlink/netdev/napi-get"), b"abc").expect("written");
        assert_eq!(host.ask(&Question::Napis).expect("a file"), b"abc");
    }
}
