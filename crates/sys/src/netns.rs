//! Network namespaces: naming, identifying and finding them, and moving a thread into one.

#![allow(clippy::disallowed_methods)] // Looks for namespaces in /proc.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::OpenError;
use super::apart::apart;
use super::shown::all_are_listed;
use super::socket::{last_error, netns_cookie};
use rxlab_base::parse;

/// The namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";

/// File system type that statfs(2) reports for a namespace file (include/uapi/linux/magic.h).
const NSFS_MAGIC: i64 = 0x6e73_6673;

const OWN_THREAD: &str = "/proc/thread-self";

/// Inode of the initial PID namespace (`PROC_PID_INIT_INO` of include/linux/proc_ns.h). A process in another
/// one sees only part of the processes of the machine.
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Searches until the namespaces that are mounted stay where they were found.
const SEARCHES: u32 = 5;

/// Inode of the initial user namespace (`PROC_USER_INIT_INO`).
const INITIAL_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Namespace {
    /// A file through which it was entered, such as `/run/netns/lab`. `/proc/thread-self/ns/net` is the
    /// namespace of the process itself.
    pub path: PathBuf,
    /// Inode of that file. The kernel may reuse it for a later namespace once this one is gone.
    pub inode: u64,
    /// `SO_NETNS_COOKIE` (kernel 5.14): no other namespace has it before the next boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<u64>,
}

/// The network namespaces of a machine, as far as they are visible.
#[derive(Debug, Clone, Default)]
pub struct Namespaces {
    /// Those that were found, each once.
    pub seen: Vec<Namespace>,
    /// Reason why there may be others.
    pub hidden: Option<Hidden>,
}

impl Namespaces {
    /// An error if there may be others than those that were found: what is in none of these may be in another.
    pub fn are_all(self) -> Result<(), Hidden> {
        self.hidden.map_or(Ok(()), Err)
    }
}

/// Some network namespaces may not be visible: what was found in none of the others may be in them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Hidden(pub String);

impl Namespace {
    /// The namespace of the calling thread. Needs no privilege.
    pub fn own() -> io::Result<Self> {
        let inode = std::fs::metadata(OWN)?.ino();
        Ok(Self { path: PathBuf::from(OWN), inode, cookie: netns_cookie() })
    }

    /// Our own namespace, if `root` is this machine.
    pub fn home(root: &Path) -> Option<Self> {
        Self::own().ok().filter(|_| root == Path::new("/"))
    }

    /// The namespace of the file `path`. Needs CAP_SYS_ADMIN unless it is our own.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::of(path, &open_netns(path)?)
    }

    /// The namespace of `file`, which `path` led to.
    pub(super) fn of(path: &Path, file: &OwnedFd) -> Result<Self, OpenError> {
        let failed = |errno| OpenError::Namespace { path: path.to_owned(), errno };
        let path = std::path::absolute(path)
            .map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        let inode = rustix::fs::fstat(file).map_err(failed)?.st_ino;
        match Self::own() {
            Ok(own) if own.inode == inode => Ok(Self { path, ..own }),
            _ => Ok(Self { cookie: inside(&path, file, netns_cookie)?, path, inode }),
        }
    }

    /// True if both are one namespace. Without a cookie (kernels before 5.14, journals of earlier
    /// versions) the inode decides.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self.cookie, other.cookie) {
            (Some(mine), Some(theirs)) => mine == theirs,
            _ => self.inode == other.inode,
        }
    }
}

/// True if this process is in another PID namespace than the machine's first process, as in a container. When process 1
/// of that namespace ends, the kernel kills all others in it. False if procfs is not mounted.
pub fn is_in_pid_namespace() -> bool {
    std::fs::metadata("/proc/self/ns/pid").is_ok_and(|file| file.ino() != INITIAL_PID_NAMESPACE)
}

/// True if the capabilities of this process are those of the machine's; false also if procfs is not mounted.
pub(super) fn is_in_initial_user_namespace() -> bool {
    std::fs::metadata("/proc/self/ns/user").is_ok_and(|file| file.ino() == INITIAL_USER_NAMESPACE)
}

/// True if this process is in a container that has the process numbers of the machine: the control groups of process 1 are
/// above its own (cgroup_namespaces(7)). When such a container ends, its engine kills all processes in it. False where
/// the container sees all control groups, as engines made it by default before version 2 of control groups.
pub fn is_in_group_namespace() -> bool {
    std::fs::read_to_string("/proc/1/cgroup").is_ok_and(|text| is_above(&text))
}

fn is_above(groups: &str) -> bool {
    groups.lines().filter_map(|line| line.splitn(3, ':').nth(2)).any(|path| path.starts_with("/.."))
}

/// Runs `act` in the network namespace of `path` and waits for it. Sockets that `act` returns stay in that namespace.
/// Needs CAP_SYS_ADMIN.
pub fn in_netns<T: Send>(path: &Path, act: impl FnOnce() -> T + Send) -> Result<T, OpenError> {
    inside(path, &open_netns(path)?, act)
}

/// [`in_netns`] for the open `file` of a namespace. By then `path`, which is for messages, may lead to another one.
pub(super) fn inside<T: Send>(
    path: &Path,
    file: &OwnedFd,
    act: impl FnOnce() -> T + Send,
) -> Result<T, OpenError> {
    apart(|| enter(path, file).map(|()| act()))
        .unwrap_or_else(|errno| Err(OpenError::Namespace { path: path.to_owned(), errno }))
}

/// Opens the file of a network namespace, which lives at least as long.
pub(super) fn open_netns(path: &Path) -> Result<OwnedFd, OpenError> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| OpenError::Namespace { path: path.to_owned(), errno })
}

/// Every network namespace that a process lives in or holds open, that has a name, or that is mounted where a process sees it,
/// each once.
///
/// Some may be hidden: in a container, which sees its own processes only, if `/proc` hides processes, if a process that may not
/// be inspected lives in a namespace that no other process shares, or if one is mounted where it cannot be reached. Namespaces
/// that such a process holds open without living in them are not found.
pub(super) fn all() -> Namespaces {
    (0..SEARCHES).find_map(|_| search()).unwrap_or_else(|| Namespaces {
        seen: Vec::new(),
        hidden: Some(Hidden(
            "mounts of network namespaces, or the processes that see them, come and go".to_owned(),
        )),
    })
}

/// [`all`]; `None` if a mount, or the process that it was found by, has gone meanwhile: another process may see the namespace.
fn search() -> Option<Namespaces> {
    let mut seen = Seen::default();
    seen.hidden = everything_is_listed().err();
    // First those that have a path of our own.
    let added = seen.add_mounts(OWN_THREAD.as_ref(), "/".as_ref());
    seen.note(OWN_THREAD.as_ref(), added);
    let named = entries("/run/netns".as_ref());
    let added = named.and_then(|paths| paths.into_iter().try_for_each(|path| seen.add(path)));
    seen.note("/run/netns".as_ref(), added);
    let processes = entries("/proc".as_ref());
    for process in seen.note("/proc".as_ref(), processes).unwrap_or_default() {
        if process.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()).is_some() {
            let added = seen.add_process(&process);
            seen.note(&process, added);
        }
    }
    let mounts = std::mem::take(&mut seen.mounts);
    for mount in &mounts {
        if mount.is_reached() {
            seen.paths.entry(mount.inode).or_default().push(mount.path());
        }
    }
    // One that another mount covers, or that a process sees which may not be inspected, may be reached otherwise.
    if let Some(mount) = mounts.iter().find(|mount| !seen.paths.contains_key(&mount.inode)) {
        let later = mounted(&mount.thread);
        let later = seen.note(&mount.thread, later);
        if later.is_some_and(|later| !later.contains(&(mount.inode, mount.point.clone()))) {
            return None;
        }
        seen.hide(format!("the namespace mounted on {} is not visible", mount.path().display()));
    }
    let mut all = Vec::new();
    let mut marks = Vec::new();
    for (inode, paths) in std::mem::take(&mut seen.paths) {
        match enter_one(inode, &paths) {
            Ok(Some((namespace, mark))) => {
                marks.extend(mark.ok());
                all.push(namespace);
            }
            Ok(None) if mounts.iter().any(|mount| mount.inode == inode) => return None,
            Ok(None) => {}
            Err(error) => seen.hide(error.to_string()),
        }
    }
    if let Some((thread, _)) = seen.closed.iter().find(|(_, mark)| !marks.contains(mark)) {
        let why = format!("the namespace of {} is not visible", thread.display());
        seen.hide(why);
    }
    Some(Namespaces { seen: all, hidden: seen.hidden })
}

/// An error unless `/proc` lists every process of the machine.
fn everything_is_listed() -> Result<(), Hidden> {
    let own = std::fs::metadata("/proc/self/ns/pid")
        .map_err(|error| Hidden(format!("cannot look for namespaces in /proc: {error}")))?;
    if own.ino() != INITIAL_PID_NAMESPACE {
        return Err(Hidden("namespaces outside this container are not visible".to_owned()));
    }
    all_are_listed()
}

/// The namespace `inode` by the first of `paths` that still leads to it, with its mark; `None` if none does. A process
/// may have ended or closed the file since, and opened another one by the same number.
fn enter_one(inode: u64, paths: &[PathBuf]) -> Result<Option<(Namespace, io::Result<u64>)>, OpenError> {
    for path in paths {
        let found = Namespace::open(path).and_then(|found| {
            let mark = in_netns(path, || mark(OWN_THREAD.as_ref()))?;
            Ok((found, mark))
        });
        match found {
            Ok(found) if found.0.inode == inode => return Ok(Some(found)),
            Ok(_) => {}
            Err(error) if error.leads_nowhere() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Results of a search.
#[derive(Default)]
struct Seen {
    /// The files of each namespace, by inode.
    paths: BTreeMap<u64, Vec<PathBuf>>,
    /// Threads that may not be inspected, with the marks of their namespaces.
    closed: Vec<(PathBuf, u64)>,
    mounts: Vec<Mounted>,
    /// Mount namespaces and roots in them whose mounts are known: inode, and device and inode of the root.
    views: BTreeSet<[u64; 3]>,
    /// First reason why there may be others.
    hidden: Option<Hidden>,
}

/// A namespace that is mounted.
struct Mounted {
    inode: u64,
    /// The mount point below the root of the thread that sees it.
    point: PathBuf,
    thread: PathBuf,
    /// That root, as we reach it.
    root: PathBuf,
}

impl Mounted {
    /// Its file, as we reach it.
    fn path(&self) -> PathBuf {
        self.root.join(&self.point)
    }

    fn is_reached(&self) -> bool {
        std::fs::metadata(self.path()).is_ok_and(|file| file.ino() == self.inode)
    }
}

impl Seen {
    fn hide(&mut self, why: String) {
        self.hidden.get_or_insert(Hidden(why));
    }

    /// The result; `None` for an error, which may have hidden namespaces.
    fn note<T>(&mut self, place: &Path, result: io::Result<T>) -> Option<T> {
        result
            .map_err(|error| {
                self.hide(format!("cannot look for namespaces in {}: {error}", place.display()));
            })
            .ok()
    }

    /// Adds a file if it is a namespace: a crash leaves plain files in `/run/netns`. Its process may end at any moment,
    /// between two system calls too.
    fn add(&mut self, path: PathBuf) -> io::Result<()> {
        let inode = std::fs::metadata(&path)
            .and_then(|file| Ok((rustix::fs::statfs(&path)?.f_type == NSFS_MAGIC).then(|| file.ino())));
        match inode {
            Ok(inode) => {
                inode.into_iter().for_each(|inode| self.paths.entry(inode).or_default().push(path.clone()));
                Ok(())
            }
            Err(error) if is_gone(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The namespaces that are mounted where a thread sees them.
    fn add_mounts(&mut self, thread: &Path, root: &Path) -> io::Result<()> {
        let view = || {
            let (namespace, root) = (thread.join("ns/mnt").metadata()?, thread.join("root").metadata()?);
            Ok([namespace.ino(), root.dev(), root.ino()])
        };
        match view() {
            Ok(view) if !self.views.insert(view) => return Ok(()),
            Err(error) if is_gone(&error) => return Ok(()),
            // Its list can be read all the same.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        let (thread, root) = (thread.to_owned(), root.to_owned());
        let mounted = mounted(&thread)?.into_iter();
        self.mounts.extend(mounted.map(|(inode, point)| Mounted {
            inode,
            point,
            thread: thread.clone(),
            root: root.clone(),
        }));
        Ok(())
    }

    /// The namespaces that the threads of a process are in, and those it holds open.
    fn add_process(&mut self, process: &Path) -> io::Result<()> {
        for thread in entries(&process.join("task"))? {
            self.add_mounts(&thread, &thread.join("root"))?;
            match self.add(thread.join("ns/net")) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => match mark(&thread) {
                    Ok(mark) => self.closed.push((thread, mark)),
                    Err(gone) if is_gone(&gone) => {}
                    Err(_) => return Err(error),
                },
                added => added?,
            }
        }
        for file in entries(&process.join("fd"))? {
            match std::fs::read_link(&file) {
                Ok(target) if target.to_string_lossy().starts_with("net:[") => self.add(file)?,
                Ok(_) => {}
                Err(error) if is_gone(&error) || error.kind() == io::ErrorKind::PermissionDenied => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The inode of a file in the procfs of a thread's network namespace: no two existing namespaces share it.
/// Unlike `ns/net` it can be read for any process.
fn mark(thread: &Path) -> io::Result<u64> {
    Ok(std::fs::metadata(thread.join("net/dev"))?.ino())
}

/// Inodes of namespaces, and the files below the root of a thread on which they are mounted, such as those of container
/// engines. Empty if it has ended.
fn mounted(thread: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mounts = match std::fs::read(thread.join("mountinfo")) {
        // EINVAL: a zombie has no mounts.
        Err(error) if is_gone(&error) || error.kind() == io::ErrorKind::InvalidInput => return Ok(Vec::new()),
        mounts => mounts?,
    };
    let namespaces = parse::mounted_namespaces(&mounts).map_err(io::Error::other)?;
    let below = |point: Vec<u8>| PathBuf::from(OsString::from_vec(point[1..].to_vec()));
    Ok(namespaces.into_iter().map(|(inode, point)| (inode, below(point))).collect())
}

/// Entries of a directory; empty if it does not exist.
fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(directory) {
        Ok(entries) => entries
            .filter(|entry| !entry.as_ref().is_err_and(is_gone))
            .map(|entry| entry.map(|entry| entry.path()))
            .collect(),
        Err(error) if is_gone(&error) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// ENOENT, or ESRCH, which procfs returns for a process that ends.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

/// Moves only the calling thread into the network namespace of `path`: a file such as
/// `/run/netns/NAME` or `/proc/PID/ns/net`. Needs CAP_SYS_ADMIN.
///
/// Must be called before the thread opens sockets, which stay in the namespace where they were created, and
/// should be called on a thread of its own: nothing moves it back.
pub fn enter_netns(path: &Path) -> Result<(), OpenError> {
    enter(path, &open_netns(path)?)
}

fn enter(path: &Path, file: &OwnedFd) -> Result<(), OpenError> {
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|errno| OpenError::Namespace { path: path.to_owned(), errno })
}

/// Moves only the calling thread into a new network namespace, which has only a loopback interface that
/// is down. The namespace lives as long as the returned file, a thread or a socket in it: the caller must keep
/// one of them. Needs CAP_SYS_ADMIN.
#[allow(unsafe_code)]
pub fn new_netns() -> Result<File, Errno> {
    // SAFETY: the flag gives this thread another network namespace. It leaves the table of
    // descriptors shared, which is what makes other flags of unshare(2) unsound.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET)? };
    File::open(OWN).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
}

/// Brings up the loopback interface of the calling thread's network namespace (netdevice(7)). Needs
/// CAP_NET_ADMIN there.
#[allow(unsafe_code)]
pub fn loopback_up() -> Result<(), Errno> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: all zeroes is a valid value of this plain structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: the kernel reads one ifreq, which outlives the call.
    let code = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if code == 0 { Ok(()) } else { Err(last_error()) }
}

/// True if the name of a namespace is a process ID, which may be another process's in `/proc` (see [`super::OwnNumbering`]).
pub fn is_pid(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit())
}

/// The namespace file for a name of `ip netns`, a process ID, or a path (anything
/// with a `/` in it).
pub fn netns_path(name: &str) -> PathBuf {
    if name.contains('/') {
        PathBuf::from(name)
    } else if is_pid(name) {
        Path::new("/proc").join(name).join("ns/net")
    } else {
        Path::new("/run/netns").join(name)
    }
}

/// What names the namespace of [`netns_path`] later: the inverse, but `None` for the namespace of a process, whose number
/// may be another's by then.
pub fn lasting_netns(path: &Path) -> Option<String> {
    if path.starts_with("/proc") {
        return None;
    }
    let name = path.strip_prefix("/run/netns").or_else(|_| path.strip_prefix("/var/run/netns"));
    Some(name.unwrap_or(path).to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{Namespace, all, enter_one, is_above};

    #[test]
    fn the_groups_of_process_1_are_above_those_of_a_container() {
        assert!(is_above("0::/../../../init.scope\n"));
        assert!(is_above("5:devices:/\n4:memory:/../..\n"));
        assert!(!is_above("0::/init.scope\n") && !is_above("4:memory:/\n0::/\n") && !is_above(""));
        assert!(!is_above("1:name=systemd:/a:/..b\n"), "a group of that name");
    }

    /// Skips like tests/it/require.rs: aloud, and not if `RXLAB_REQUIRE` names `netns`.
    fn can_enter_namespaces() -> bool {
        let Err(missing) = all().are_all() else { return true };
        let required = std::env::var("RXLAB_REQUIRE").unwrap_or_default();
        let is_required = required.split(',').any(|name| name == "netns");
        assert!(!is_required, "RXLAB_REQUIRE wants netns, and it is missing: {missing}");
        println!("skipped, netns is missing: {missing}");
        false
    }

    /// A descriptor's number is used again by the time it is looked at: the namespace is still there.
    #[test]
    fn a_namespace_is_found_by_any_of_its_files() {
        if !can_enter_namespaces() {
            return;
        }
        let own = Namespace::own().expect("every thread has one");
        let paths = ["/proc/self/fd/999999", "/dev/null", "/proc/self/ns/net"].map(Into::into);
        let found = enter_one(own.inode, &paths).expect("it can be entered").expect("by the last");
        assert!(found.0.is_same(&own));
        assert!(enter_one(own.inode, &paths[..2]).expect("both lead nowhere").is_none());
        assert!(enter_one(own.inode + 1, &paths).expect("another namespace").is_none());
    }

    /// A search once failed if a process ended between two readings of its namespace.
    #[test]
    fn processes_that_end_do_not_hide_namespaces() {
        if !can_enter_namespaces() {
            return;
        }
        let own = Namespace::own().expect("every thread has one");
        let mut short_lived = std::iter::repeat_with(|| Command::new("true").spawn().expect("started"));
        for _ in 0..50 {
            let children: Vec<_> = short_lived.by_ref().take(8).collect();
            let found = all();
            for mut child in children {
                child.wait().expect("it ends");
            }
            assert_eq!(found.hidden, None);
            assert!(found.seen.iter().any(|namespace| namespace.is_same(&own)));
        }
    }

    #[test]
    fn a_process_has_one_namespace_under_two_names() {
        let own = Namespace::own().expect("every thread has one");
        let same = Namespace::open("/proc/self/ns/net".as_ref()).expect("the same");
        assert!(own.is_same(&same) && own.path != same.path, "{own:?} {same:?}");
        assert!(Namespace::open("/run/netns/there-is-none".as_ref()).is_err());
    }

    #[test]
    fn a_namespace_made_later_with_the_same_inode_is_another_one() {
        let first = Namespace { path: "/run/netns/x".into(), inode: 7, cookie: Some(1) };
        assert!(!first.is_same(&Namespace { cookie: Some(2), ..first.clone() }));
        assert!(first.is_same(&Namespace { cookie: None, ..first.clone() }), "written by an earlier version");
    }
}
