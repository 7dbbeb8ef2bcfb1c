//! Network namespaces: naming and identifying them, and moving a thread into one.

#![allow(clippy::disallowed_methods)] // Looks for namespaces in /proc.

mod search;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use serde::{Deserialize, Serialize};

use super::OpenError;
use super::apart::apart;
use super::socket::{last_error, netns_cookie};

pub(super) use search::all;
pub use search::{Hidden, Namespaces};

/// The namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";

/// Inode of the initial PID namespace (`PROC_PID_INIT_INO` of include/linux/proc_ns.h). A process in another
/// one sees only part of the processes of the machine.
pub const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Inode of the initial user namespace (`PROC_USER_INIT_INO`).
pub const INITIAL_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

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
    std::fs::read("/proc/1/cgroup").is_ok_and(|text| is_above(&String::from_utf8_lossy(&text)))
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

/// Opens the file of a network namespace, which lives at least as long. EINVAL for any other file: that is not opened, because
/// below the root of a process its user chooses what is there, such as a FIFO, which waits for a writer, or a link to a file
/// of root's.
pub(super) fn open_netns(path: &Path) -> Result<OwnedFd, OpenError> {
    let failed = |errno| OpenError::Namespace { path: path.to_owned(), errno };
    let open = |path: &Path, flags| rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty());
    let found = open(path, OFlags::PATH).map_err(failed)?;
    match open_found(&found) {
        // Without procfs there are no such roots.
        Err(Errno::NOENT) => open(path, OFlags::RDONLY),
        opened => opened,
    }
    .map_err(failed)
}

/// Opens what an `O_PATH` descriptor leads to if it is a namespace.
fn open_found(found: &OwnedFd) -> Result<OwnedFd, Errno> {
    let known =
        rustix::fs::statx(found, "", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, StatxFlags::INO)?;
    if !is_of_nsfs(&known)? {
        return Err(Errno::INVAL);
    }
    let again = format!("/proc/self/fd/{}", found.as_raw_fd());
    rustix::fs::open(again, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// True for a file of the file system of namespaces. Asks no other file system: one of a user's may never answer (FUSE).
fn is_of_nsfs(known: &Statx) -> Result<bool, Errno> {
    let own = rustix::fs::statx(CWD, OWN, AtFlags::STATX_DONT_SYNC, StatxFlags::INO)?;
    Ok((known.stx_dev_major, known.stx_dev_minor) == (own.stx_dev_major, own.stx_dev_minor))
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
    use super::{Namespace, is_above};

    #[test]
    fn the_groups_of_process_1_are_above_those_of_a_container() {
        assert!(is_above("0::/../../../init.scope\n"));
        assert!(is_above("5:devices:/\n4:memory:/../..\n"));
        assert!(!is_above("0::/init.scope\n") && !is_above("4:memory:/\n0::/\n") && !is_above(""));
        assert!(!is_above("1:name=systemd:/a:/..b\n"), "a group of that name");
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
