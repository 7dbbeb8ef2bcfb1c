//! A root directory as a machine. `/` is this machine: its `sys` is a private sysfs of the network namespace, because
//! what is mounted on `/sys` may show another one. With another network namespace, `proc/net`, `proc/self/ns/net` and
//! the sysctls that each namespace has are those of a thread in it.

#![allow(clippy::disallowed_methods)] // The host is where files are touched.

mod mounts;
mod pinned;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{Mode, OFlags, fstat};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use thiserror::Error;

use self::mounts::{
    PROCFS, SYSFS, is_group_file_system, is_kernels, is_mounted_read_only, is_on, own_sysfs, path_of, sysfs,
};
use self::pinned::PinnedHost;
use super::action::act_on_answer;
use super::files::{content, entries, names, open, open_file, target};
use super::handle::open_directory;
use super::kernel::Kernel;
use super::netns::{all as all_namespaces, in_netns, inside, is_in_initial_user_namespace, open_netns};
use super::signals::held_back;
use super::view::compare;
use super::{
    Action, Cause, Entry, Hidden, Host, HostError, Namespace, Namespaces, Operation, OtherNumbers, OtherView,
    OwnNumbering, Query, boottime_ns, is_namespaced_sysctl, shell,
};

/// Files of the network namespace of the reading thread.
const SYSCTLS: &str = "proc/sys/net/";

const INTERRUPTS: &str = "proc/interrupts";
/// Where a container has the file of its machine that its engine masks in `/proc`.
const UNMASKED_INTERRUPTS: &str = "host/proc/interrupts";

/// A machine below a directory of this one.
///
/// Path resolution is confined by `openat2(RESOLVE_IN_ROOT)` (kernel 5.6): an absolute or `..`
/// symbolic link in a recorded tree stays inside the tree.
#[derive(Debug)]
pub struct LiveHost {
    root: OwnedFd,
    // A sysfs mount of the namespace whose sockets are asked. It has no mount point, so no cleanup is needed: it
    // goes away with this descriptor. `None` below another root, and if it was refused: then `sys` below the root counts.
    sys: Option<OwnedFd>,
    // Result of the comparison that is needed without such a mount.
    view: OnceLock<Result<(), OtherView>>,
    entered: Option<Entered>,
    // Unknown below any root but `/`.
    namespace: Option<Box<Namespace>>,
    // The namespace whose machine-wide sysctls count, if it is not ours.
    home: Option<PathBuf>,
    // Sockets reach only the running kernel, so only for the root `/`. Below any other root answers are
    // files.
    kernel: Option<Kernel>,
}

/// Another network namespace of the running kernel.
#[derive(Debug)]
struct Entered {
    // By the time of an access, the path may lead to another namespace.
    file: Arc<OwnedFd>,
    path: PathBuf,
}

/// The root or the network namespace cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The root is missing, is no directory, or may not be opened.
    #[error("cannot open the root {path}: {errno}")]
    Root {
        /// The root as given.
        path: PathBuf,
        errno: Errno,
    },
    /// The system call that keeps paths below the root: a seccomp filter forbids it, or the kernel is older than 5.6.
    #[error("openat2(2), which keeps paths below {path}, fails: {errno}")]
    Confinement {
        /// The root, as given.
        path: PathBuf,
        errno: Errno,
    },
    /// The network namespace file.
    #[error("cannot enter the network namespace {path}: {errno}")]
    Namespace {
        /// The namespace's file as given.
        path: PathBuf,
        errno: Errno,
    },
}

impl OpenError {
    /// True if the file of the namespace is gone, or is another file by now: the number of a descriptor is used
    /// again.
    pub fn leads_nowhere(&self) -> bool {
        matches!(self, OpenError::Namespace { errno: Errno::NOENT | Errno::SRCH | Errno::INVAL, .. })
    }

    /// The error as one of a file: ENOENT if the namespace is gone. Any other one proves nothing, such as EMFILE.
    pub(super) fn errno(&self) -> Errno {
        match self {
            _ if self.leads_nowhere() => Errno::NOENT,
            OpenError::Root { errno, .. }
            | OpenError::Confinement { errno, .. }
            | OpenError::Namespace { errno, .. } => *errno,
        }
    }

    /// True if a privilege is missing.
    pub fn is_denied(&self) -> bool {
        let (OpenError::Root { errno, .. } | OpenError::Namespace { errno, .. }) = self else {
            return false;
        };
        matches!(*errno, Errno::PERM | Errno::ACCESS)
    }
}

impl LiveHost {
    /// The machine whose files are below `path`.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|errno| OpenError::Root { path: path.to_owned(), errno })?;
        if let Err(errno @ (Errno::NOSYS | Errno::PERM)) = open(&root, ".", flags) {
            return Err(OpenError::Confinement { path: path.to_owned(), errno });
        }
        let is_ours = path == Path::new("/");
        let namespace = Namespace::home(path).map(Box::new);
        let cookie = namespace.as_ref().and_then(|own| own.cookie);
        let kernel = is_ours.then(|| Kernel::new(None, cookie));
        let sys = is_ours.then(own_sysfs).flatten();
        Ok(Self { root, sys, view: OnceLock::new(), entered: None, namespace, home: None, kernel })
    }

    /// This machine as seen from a network namespace: `sys`, `proc/net`, `proc/self/ns/net` and the sysctls of
    /// [`is_namespaced_sysctl`] come from there, the rest of `proc` stays ours (so the others of `proc/sys/net` are
    /// those of our own namespace, where `rps_sock_flow_entries` lives).
    ///
    /// `namespace` is a namespace file such as `/run/netns/NAME` or `/proc/PID/ns/net`. Needs
    /// CAP_SYS_ADMIN.
    pub fn open_in_namespace(root: &Path, namespace: &Path) -> Result<Self, OpenError> {
        let mut host = Self::open(root)?;
        let file = Arc::new(open_netns(namespace)?);
        let failed = |errno| OpenError::Namespace { path: namespace.to_owned(), errno };
        let sys = inside(namespace, &file, || sysfs(MountAttrFlags::empty()))?.map_err(failed)?;
        host.sys = Some(sys);
        if host.kernel.is_some() {
            let found = Namespace::of(namespace, &file)?;
            host.kernel = Some(Kernel::new(Some(Arc::clone(&file)), found.cookie));
            host.namespace = Some(Box::new(found));
        }
        host.entered = Some(Entered { file, path: namespace.to_owned() });
        Ok(host)
    }

    /// An error unless the files and the sockets are of one network namespace.
    fn proven(&self, operation: Operation, path: &str) -> Result<(), HostError> {
        self.check_view().map_err(|_| HostError::new(operation, path, Cause::OtherView))
    }

    /// The directory in which `path` is looked up, and its name there.
    fn place<'a>(&self, path: &'a str) -> (&OwnedFd, &'a str) {
        // Other file systems are mounted below these two, and a mount of sysfs alone lacks them.
        let elsewhere = |rest: &str| rest.starts_with("fs/") || rest.starts_with("kernel/");
        match (&self.sys, path.strip_prefix("sys/")) {
            (Some(sys), Some(rest)) if !elsewhere(rest) => (sys, rest),
            _ => (&self.root, path),
        }
    }

    /// Where the kernel's table of interrupts is.
    fn interrupts(&self) -> &'static str {
        let is_kernels = |path| is_on(&self.root, path, PROCFS);
        let is_masked = self.kernel.is_some() && !is_kernels(INTERRUPTS);
        if is_masked && is_kernels(UNMASKED_INTERRUPTS) { UNMASKED_INTERRUPTS } else { INTERRUPTS }
    }

    /// True if the files are those of a running kernel.
    fn is_running(&self) -> bool {
        is_on(&self.root, "sys", SYSFS) || is_on(&self.root, "proc", PROCFS)
    }

    /// True if `directory` is our own sysfs.
    fn is_own_sysfs(&self, directory: &OwnedFd) -> bool {
        self.sys.as_ref().is_some_and(|sys| std::ptr::eq(sys, directory))
    }

    /// True if a file is not to be written to: its mount is read-only, or for one of our own sysfs the one that is at that
    /// place below `/sys`. Containers may have a part of it writable (`sys:mixed` of LXC).
    fn is_protected(&self, is_own: bool, file: &OwnedFd) -> Result<bool, Cause> {
        if is_mounted_read_only(file)? {
            return Ok(true);
        }
        if !is_own || !is_on(&self.root, "sys", SYSFS) {
            return Ok(false);
        }
        let path = path_of(file).map_err(|errno| match errno {
            Errno::NOENT => Cause::NotInProc,
            errno => errno.into(),
        })?;
        for place in Path::new(&path).ancestors() {
            match open(&self.root, format!("sys{}", place.display()), OFlags::PATH) {
                // It may show another network namespace.
                Err(Errno::NOENT) => {}
                found => return Ok(is_mounted_read_only(&found?)?),
            }
        }
        Err(Cause::Missing)
    }

    /// Writes a file below a directory.
    fn write_below(&self, directory: &OwnedFd, is_own: bool, path: &str, value: &[u8]) -> Result<(), Cause> {
        // Truncation matters for a tree of plain files and is ignored by sysfs and procfs.
        let file = open_file(directory, path, OFlags::WRONLY | OFlags::TRUNC)?;
        // Undo reads one journal of each machine, which is not that of a root of files.
        if self.kernel.is_none() && is_kernels(&file.file)? {
            return Err(Cause::OtherView);
        }
        if self.is_protected(is_own, &file.file)? {
            return Err(Errno::ROFS.into());
        }
        let written = held_back(|| rustix::io::write(&file.file, value))?;
        if written == value.len() { Ok(()) } else { Err(Errno::IO.into()) }
    }

    /// Runs `act` on a path, on another thread if need be: `self` of procfs is the reading thread, which must
    /// therefore belong to the machine and the namespace of this view.
    fn with<T: Send>(
        &self,
        path: &str,
        act: impl Fn(&OwnedFd, &str) -> Result<T, Errno> + Sync,
    ) -> Result<T, Errno> {
        let own = path.strip_prefix("proc/self/").map(str::to_owned);
        let own = own.or_else(|| path.strip_prefix("proc/net/").map(|rest| format!("net/{rest}")));
        let entered = self.entered.as_ref().filter(|_| self.kernel.is_some());
        if let Some(Entered { file, path: of }) = entered.filter(|_| is_namespaced_sysctl(path)) {
            return inside(of, file, || act(&self.root, path)).map_err(|error| error.errno())?;
        }
        if let Some(home) = self.home.as_ref().filter(|_| path.starts_with(SYSCTLS)) {
            return in_netns(home, || act(&self.root, path)).map_err(|error| error.errno())?;
        }
        match (own, &self.kernel, entered) {
            (Some(rest), Some(_), Some(Entered { file, path: of }))
                if rest.starts_with("net/") || rest == "ns/net" =>
            {
                inside(of, file, || act(&self.root, &format!("proc/thread-self/{rest}")))
                    .map_err(|error| error.errno())?
            }
            // The first process stands for a machine that we see only from outside. In recordings, only the
            // files count.
            (Some(rest), None, _) => match act(&self.root, &format!("proc/1/{rest}")) {
                Err(Errno::NOENT) => act(&self.root, path),
                found => found,
            },
            _ => {
                let (root, path) = self.place(path);
                act(root, path)
            }
        }
    }
}

impl Host for LiveHost {
    fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        let path = if path == INTERRUPTS { self.interrupts() } else { path };
        self.with(path, |root, path| content(&open_file(root, path, OFlags::RDONLY)?))
            .map_err(|errno| HostError::new(Operation::Read, path, errno))
    }

    fn write(&self, path: &str, value: &[u8]) -> Result<(), HostError> {
        let write =
            |root: &OwnedFd, path: &str| Ok(self.write_below(root, self.is_own_sysfs(root), path, value));
        self.proven(Operation::Write, path)?;
        let written = self.with(path, write).map_err(Cause::from).flatten();
        written.map_err(|cause| HostError::new(Operation::Write, path, cause))
    }

    fn is_read_only(&self, path: &str) -> bool {
        let is_protected = self.with(path, |root, path| {
            let file = open(root, path, OFlags::PATH)?;
            Ok(self.is_protected(self.is_own_sysfs(root), &file))
        });
        is_protected.is_ok_and(|is_protected| is_protected.unwrap_or(false))
    }

    fn list(&self, path: &str) -> Result<Vec<String>, HostError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        self.with(path, |root, path| names(&open(root, path, flags)?))
            .map_err(|errno| HostError::new(Operation::List, path, errno))
    }

    fn entries(&self, path: &str) -> Result<Vec<Entry>, HostError> {
        self.with(path, entries).map_err(|errno| HostError::new(Operation::List, path, errno))
    }

    fn link(&self, path: &str) -> Result<String, HostError> {
        let link =
            |root: &OwnedFd, path: &str| target(open(root, path, OFlags::PATH | OFlags::NOFOLLOW)?, "");
        self.with(path, link).map_err(|errno| HostError::new(Operation::Link, path, errno))
    }

    fn links(&self, path: &str) -> Result<Vec<(String, String)>, HostError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let links = |root: &OwnedFd, path: &str| {
            let directory = open(root, path, flags)?;
            let mut links = Vec::new();
            for name in names(&directory)? {
                match target(&directory, &name) {
                    Ok(target) => links.push((name, target)),
                    // Gone meanwhile, or not a link.
                    Err(Errno::NOENT | Errno::INVAL) => {}
                    Err(errno) => return Err(errno),
                }
            }
            Ok(links)
        };
        self.with(path, links).map_err(|errno| HostError::new(Operation::List, path, errno))
    }

    fn query(&self, query: &Query) -> Result<Vec<u8>, HostError> {
        let failed = |cause: Cause| HostError::new(Operation::Ask, &query.path(), cause);
        match &self.kernel {
            Some(kernel) => kernel.query(query, None).map_err(|errno| failed(errno.into())),
            None => self.read(&query.path()).map_err(|error| failed(error.cause)),
        }
    }

    fn act(&self, action: &Action) -> Result<(), HostError> {
        if let Action::Shell { command, directory, directory_id, interruptible } = action {
            return shell::run(command, (directory.as_deref(), *directory_id), *interruptible);
        }
        self.proven(Operation::Act, &action.path())?;
        match &self.kernel {
            Some(kernel) => held_back(|| kernel.act(action, None))
                .map_err(|errno| HostError::new(Operation::Act, &action.path(), errno)),
            None => act_on_answer(self, action),
        }
    }

    fn now_ns(&self) -> u64 {
        boottime_ns()
    }

    fn inode(&self, path: &str) -> Result<u64, HostError> {
        self.with(path, |root, path| Ok(fstat(open(root, path, OFlags::PATH | OFlags::DIRECTORY)?)?.st_ino))
            .map_err(|errno| HostError::new(Operation::List, path, errno))
    }

    fn pinned(&self, path: &str, inode: u64) -> Result<Option<Box<dyn Host + '_>>, HostError> {
        let pinned = PinnedHost::new(self, path, inode);
        let pinned = pinned.map_err(|errno| HostError::new(Operation::List, path, errno))?;
        Ok(Some(Box::new(pinned)))
    }

    fn namespace(&self) -> Option<&Namespace> {
        self.namespace.as_deref()
    }

    fn namespaces(&self) -> Namespaces {
        if self.kernel.is_some() {
            return all_namespaces();
        }
        // There are only files, unless they are those of a running kernel.
        let unseen = "--root shows a running kernel, but not its network namespaces";
        Namespaces { seen: Vec::new(), hidden: self.is_running().then(|| Hidden(unseen.to_owned())) }
    }

    fn find_group(&self, mount: &str, inode: u64) -> Result<Option<String>, HostError> {
        let found = self.with(mount, |root, at| {
            let mount = open(root, at, OFlags::RDONLY | OFlags::DIRECTORY)?;
            if !is_group_file_system(&mount)? {
                return Err(Errno::NOENT);
            }
            let group = match open_directory(&mount, inode) {
                Ok(group) => group,
                // In another user namespace, the kernel also says it of a group that may not be reached from the mount
                // (`vfs_dentry_acceptable` of fs/fhandle.c, Linux 6.11).
                Err(Errno::STALE) if is_in_initial_user_namespace() => return Ok(None),
                Err(Errno::STALE) => return Err(Errno::PERM),
                Err(errno) => return Err(errno),
            };
            let (top, path) = (path_of(&mount)?, path_of(&group)?);
            // It may be outside of the part that is mounted here.
            let below = path.strip_prefix(&top).filter(|rest| rest.is_empty() || rest.starts_with('/'));
            let below = below.ok_or(Errno::XDEV)?;
            match open(root, format!("{at}{below}"), OFlags::PATH).and_then(fstat) {
                Ok(found) if found.st_ino == inode => Ok(Some(below.to_owned())),
                // A group that has just been removed has a path while it is open.
                Err(Errno::NOENT) if below.ends_with(" (deleted)") => Ok(None),
                Ok(_) => Err(Errno::AGAIN),
                Err(errno) => Err(errno),
            }
        });
        found.map_err(|errno| HostError::new(Operation::List, mount, errno))
    }

    fn check_view(&self) -> Result<(), OtherView> {
        match (&self.sys, &self.kernel) {
            (None, Some(_)) => self.view.get_or_init(|| compare(self)).clone(),
            (_, None) if self.is_running() => Err(OtherView::Root),
            // A sysfs of the namespace itself, or nothing but files.
            _ => Ok(()),
        }
    }

    fn numbering(&self) -> Result<Option<OwnNumbering>, OtherNumbers> {
        self.kernel.as_ref().map(|_| OwnNumbering::get()).transpose()
    }

    fn seen_from(&self, namespace: &Namespace, home: Option<&Namespace>) -> Result<Box<dyn Host>, OpenError> {
        let host = Self::open_in_namespace(Path::new("/"), &namespace.path)?;
        let own = Namespace::own().ok();
        let is_own = |other: &Namespace| own.as_ref().is_some_and(|own| own.is_same(other));
        let home = home.filter(|home| !is_own(home)).map(|home| home.path.clone());
        Ok(Box::new(Self { home, ..host }))
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
    use rustix::io::Errno;

    use super::{Host, LiveHost};
    use crate::{Cause, Query};
    use rxlab_base::parse;

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
    fn files_of_any_length_are_read_in_full() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let host = LiveHost::open(tree.path()).expect("opened");
        for length in [0, 1, 4095, 4096, 4097, 100_000] {
            let content: Vec<u8> = (0..length).map(|at: u32| at.to_le_bytes()[1]).collect();
            std::fs::write(tree.path().join("file"), &content).expect("written");
            assert!(host.read("file").expect("readable") == content, "{length} bytes");
        }
    }

    /// Some files take one read and others many: attributes and CPU lists of sysfs,
    /// whose size is not their length, and tables of procfs, which come in parts and have no size.
    #[test]
    fn files_of_the_kernel_are_read_in_full() {
        let host = LiveHost::open("/".as_ref()).expect("opened");
        let cpu = "sys/devices/system/cpu";
        let attributes = ["topology/core_id", "topology/thread_siblings_list", "topology/core_siblings"];
        let mut paths: Vec<String> =
            attributes.iter().map(|attribute| format!("{cpu}/cpu0/{attribute}")).collect();
        paths.extend([format!("{cpu}/online"), "sys/class/net/lo/mtu".to_owned()]);
        paths.extend(["proc/crypto", "proc/devices", "proc/self/mountinfo"].map(str::to_owned));
        for path in paths {
            let Ok(expected) = std::fs::read(format!("/{path}")) else { continue };
            assert!(host.read(&path).expect("readable") == expected, "{path}");
        }
    }

    /// More names than one answer of the kernel has room for.
    #[test]
    fn a_directory_is_listed_to_its_end() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let expected: Vec<String> = (0..600).map(|number| format!("{number:0>200}")).collect();
        for directory in ["none", "many"] {
            std::fs::create_dir(tree.path().join(directory)).expect("created");
        }
        for name in &expected {
            std::fs::write(tree.path().join("many").join(name), "").expect("written");
        }
        let host = LiveHost::open(tree.path()).expect("opened");
        assert_eq!(host.list("none").expect("listed"), [""; 0]);
        let listed = host.list("many").expect("listed");
        assert!(listed == expected, "{} names", listed.len());
    }

    /// A FIFO in a captured tree once blocked the program forever.
    #[test]
    fn what_is_no_file_is_neither_read_nor_written() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let fifo = tree.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("made");
        std::os::unix::fs::symlink("fifo", tree.path().join("link")).expect("linked");
        std::fs::create_dir(tree.path().join("directory")).expect("created");
        let host = LiveHost::open(tree.path()).expect("opened");
        let causes = |host: &LiveHost| {
            ["fifo", "link", "directory"].map(|path| host.read(path).expect_err("not a file").cause)
        };
        let [no_file, directory] = [Errno::INVAL, Errno::ISDIR].map(Cause::from);
        assert_eq!(causes(&host), [no_file, no_file, directory]);
        // With both ends open there is nothing to wait for, and still nothing to read.
        let _ends = rustix::fs::open(&fifo, OFlags::RDWR, Mode::empty()).expect("opened");
        assert_eq!(causes(&host), [no_file, no_file, directory]);
        assert_eq!(host.write("fifo", b"1").expect_err("not a file").cause, no_file);
    }

    #[test]
    fn links_of_a_directory_are_those_asked_one_by_one() {
        let host = LiveHost::open("/".as_ref()).expect("opened");
        let links = host.links("proc/self/ns").expect("listed");
        assert!(links.iter().any(|(name, _)| name == "net"));
        for (name, target) in links {
            assert_eq!(host.link(&format!("proc/self/ns/{name}")).expect("a link"), target);
        }
    }

    /// `proc/self` below the root of another machine would be this very process.
    #[test]
    fn the_first_process_speaks_for_a_machine_seen_from_outside() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let host = LiveHost::open(tree.path()).expect("opened");
        let write = |path: &str| {
            let path = tree.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("created");
            std::fs::write(&path, path.to_str().expect("text")).expect("written");
        };
        let read = |path: &str| host.read_text(path).expect("readable");
        write("proc/net/tcp");
        assert!(read("proc/net/tcp").ends_with("/proc/net/tcp"), "a recording has no processes");
        write("proc/1/net/tcp");
        assert!(read("proc/net/tcp").ends_with("/proc/1/net/tcp"));
    }

    #[test]
    fn this_machine_answers() {
        let host = LiveHost::open("/".as_ref()).expect("opened");
        assert!(host.read_text("proc/stat").expect("readable").starts_with("cpu "));
        let missing = host.read("sys/class/net/none/mtu").expect_err("no such NIC");
        assert_eq!(missing.to_string(), "cannot read /sys/class/net/none/mtu: not found");
    }

    /// The kernel's own loopback counts no queues, a real driver does; the parser must accept the kernel's
    /// answer everywhere, if it has this command.
    #[test]
    fn queue_statistics_are_understood() {
        let host = LiveHost::open("/".as_ref()).expect("opened");
        match host.query(&Query::QueueStats) {
            Err(error) => assert_eq!(error.cause, Cause::Missing, "{error}"),
            Ok(answer) => {
                for entry in parse::queue_stats(&answer).expect("understood") {
                    let interfaces = host.list("sys/class/net").expect("listed");
                    let index = |name: &String| host.read_text(&format!("sys/class/net/{name}/ifindex"));
                    let has_index = |name: &String| {
                        index(name).is_ok_and(|text| text.trim() == entry.ifindex.to_string())
                    };
                    assert!(interfaces.iter().any(has_index), "{entry:?}");
                }
            }
        }
    }

    #[test]
    fn below_another_root_answers_are_files() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let host = LiveHost::open(tree.path()).expect("opened");
        let error = host.query(&Query::Napis).expect_err("no such file");
        assert_eq!(error.to_string(), "cannot query /netlink/netdev/napi-get: not found");
        std::fs::create_dir_all(tree.path().join("netlink/netdev")).expect("created");
        std::fs::write(tree.path().join("netlink/netdev/napi-get"), b"abc").expect("written");
        assert_eq!(host.query(&Query::Napis).expect("a file"), b"abc");
    }
}
