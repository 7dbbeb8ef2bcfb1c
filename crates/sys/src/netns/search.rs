//! The search for every network namespace of the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Statx, StatxFlags, openat2, statx};
use rustix::io::Errno;
use thiserror::Error;

use super::{INITIAL_PID_NAMESPACE, Namespace, inside, is_of_nsfs, open_found, open_netns};
use crate::OpenError;
use crate::shown::all_are_listed;
use rxlab_base::parse;

const OWN_THREAD: &str = "/proc/thread-self";

/// Searches until the namespaces that are mounted stay where they were found.
const SEARCHES: u32 = 5;

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

/// Every network namespace that a process lives in or holds open, that has a name, or that is mounted where a process sees it,
/// each once.
///
/// Some may be hidden: in a container, which sees its own processes only, if `/proc` hides processes, if a process that may not
/// be inspected lives in a namespace that no other process shares, or if one is mounted where it cannot be reached, or in a mount
/// namespace that belongs to another user namespace. Namespaces that such a process holds open without living in them are not
/// found.
pub(crate) fn all() -> Namespaces {
    let mut seen = search();
    for _ in 1..SEARCHES {
        if !seen.has_changed {
            break;
        }
        seen = search();
    }
    let found = seen.found.into_values().map(|(namespace, _)| namespace);
    Namespaces { seen: found.collect(), hidden: seen.hidden }
}

fn search() -> Seen {
    let mut seen = Seen { hidden: everything_is_listed().err(), ..Seen::default() };
    // First those that have a path of our own.
    let own = mounted(OWN_THREAD.as_ref());
    for (inode, point) in seen.note(OWN_THREAD.as_ref(), own).unwrap_or_default() {
        seen.paths.entry(inode).or_default().push(Path::new("/").join(point));
    }
    let named = entries("/run/netns".as_ref());
    let added = named.and_then(|paths| paths.into_iter().try_for_each(|path| seen.add(path)));
    seen.note("/run/netns".as_ref(), added);
    let all = entries("/proc".as_ref());
    let mut processes = seen.note("/proc".as_ref(), all).unwrap_or_default();
    processes.retain(|path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()).is_some());
    for process in &processes {
        let added = seen.add_process(process);
        seen.note(process, added);
    }
    for (inode, paths) in std::mem::take(&mut seen.paths) {
        match enter_one(inode, &paths) {
            Ok(found) => seen.found.extend(found.map(|found| (inode, found))),
            Err(error) => seen.hide(error.to_string()),
        }
    }
    // Then those that are only mounted.
    let added = seen.add_mounts(OWN_THREAD.as_ref(), "/".as_ref());
    seen.note(OWN_THREAD.as_ref(), added);
    for process in &processes {
        let threads = entries(&process.join("task"));
        let added = threads.and_then(|threads| {
            threads.iter().try_for_each(|thread| seen.add_mounts(thread, &thread.join("root")))
        });
        seen.note(process, added);
    }
    // One that another mount covers, or that a process sees which may not be inspected, may have been reached otherwise.
    let mut later = BTreeMap::<PathBuf, Option<BTreeSet<_>>>::new();
    for mount in std::mem::take(&mut seen.unreached) {
        if seen.found.contains_key(&mount.inode) {
            continue;
        }
        // A user may have mounted one a hundred thousand times: one reading answers for all.
        let later = later.entry(mount.thread.clone()).or_insert_with(|| {
            let later = mounted(&mount.thread);
            seen.note(&mount.thread, later).map(BTreeSet::from_iter)
        });
        if later.as_ref().is_some_and(|later| !later.contains(&(mount.inode, mount.point))) {
            // It has gone, or the process that it was found by: another one may see the namespace.
            seen.has_changed = true;
            seen.hide("mounts of network namespaces, or the processes that see them, come and go".to_owned());
        } else {
            seen.hide(format!("the namespace mounted on {} is not visible", mount.path.display()));
        }
    }
    let marks: BTreeSet<u64> = seen.found.values().filter_map(|(_, mark)| *mark).collect();
    if let Some((thread, _)) = seen.closed.iter().find(|(_, mark)| !marks.contains(mark)) {
        let why = format!("the namespace of {} is not visible", thread.display());
        seen.hide(why);
    }
    seen
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

/// The namespace `inode` by the first of `paths` that still leads to it, with its mark if that can be read; `None` if none
/// does. A process may have ended or closed the file since, and opened another one by the same number.
fn enter_one(inode: u64, paths: &[PathBuf]) -> Result<Option<(Namespace, Option<u64>)>, OpenError> {
    for path in paths {
        match open_netns(path).and_then(|file| enter(path, &file)) {
            Ok(found) if found.0.inode == inode => return Ok(Some(found)),
            Ok(_) => {}
            Err(error) if error.leads_nowhere() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Opens nothing yet: asks no file system and no driver.
const OPEN: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

type Entered = (Namespace, Option<u64>);

/// The namespace of a file that `path` led to, with its mark if that can be read.
fn enter(path: &Path, file: &OwnedFd) -> Result<Entered, OpenError> {
    let mark = inside(path, file, || mark(OWN_THREAD.as_ref()))?;
    Ok((Namespace::of(path, file)?, mark.ok()))
}

/// The namespace mounted on `point` below a directory; `None` if something else is there. `path` is for messages.
fn enter_mount(directory: &OwnedFd, point: &Path, path: &Path) -> Result<Option<Entered>, OpenError> {
    // A mount point has no link in its path.
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let found = openat2(directory, point, OPEN, Mode::empty(), resolve).and_then(|found| open_found(&found));
    match found {
        Ok(file) => enter(path, &file).map(Some),
        Err(Errno::NOENT | Errno::INVAL | Errno::LOOP | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(OpenError::Namespace { path: path.to_owned(), errno }),
    }
}

/// Results of a search.
#[derive(Default)]
struct Seen {
    /// The files of each namespace, by inode.
    paths: BTreeMap<u64, Vec<PathBuf>>,
    /// Threads that may not be inspected, with the marks of their namespaces.
    closed: Vec<(PathBuf, u64)>,
    /// Namespaces that were entered, by inode, with their marks.
    found: BTreeMap<u64, (Namespace, Option<u64>)>,
    /// Mounts that did not lead to their namespace.
    unreached: Vec<Mounted>,
    /// Mount namespaces and roots in them whose mounts are known: inode, and device and inode of the root.
    views: BTreeSet<[u64; 3]>,
    /// First reason why there may be others.
    hidden: Option<Hidden>,
    /// Another search may find more.
    has_changed: bool,
}

/// A namespace that is mounted.
struct Mounted {
    inode: u64,
    /// The mount point below the root of the thread that sees it.
    point: PathBuf,
    thread: PathBuf,
    /// The mount point, as we reach it.
    path: PathBuf,
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
        match as_known(&path) {
            Ok(known) => {
                if is_of_nsfs(&known)? {
                    self.paths.entry(known.stx_ino).or_default().push(path);
                }
                Ok(())
            }
            Err(error) if is_gone(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The namespaces that are mounted where a thread sees them, and were not found otherwise.
    fn add_mounts(&mut self, thread: &Path, root: &Path) -> io::Result<()> {
        let view = || {
            let root = as_known(&thread.join("root"))?;
            let device = u64::from(root.stx_dev_major) << 32 | u64::from(root.stx_dev_minor);
            Ok([thread.join("ns/mnt").metadata()?.ino(), device, root.stx_ino])
        };
        match view() {
            Ok(view) if !self.views.insert(view) => return Ok(()),
            Err(error) if is_gone(&error) => return Ok(()),
            // Its list can be read all the same.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        let directory = match rustix::fs::open(thread.join("root"), OPEN, Mode::empty()) {
            Ok(directory) => Some(directory),
            Err(Errno::NOENT | Errno::SRCH) => return Ok(()),
            Err(Errno::ACCESS | Errno::PERM) => None,
            Err(errno) => return Err(errno.into()),
        };
        let mounts = mounted(thread)?;
        // A user who made the mount namespace may have laid the path through a file system that never answers (FUSE). Asked last:
        // from a user's mount namespace no thread of the user's comes back to ours.
        let directory = directory.filter(|_| is_our_users(&thread.join("ns/mnt")).unwrap_or(false));
        for (inode, point) in mounts {
            if self.found.contains_key(&inode) {
                continue;
            }
            // At once: the thread may end.
            let path = root.join(&point);
            let entered = directory.as_ref().map(|directory| enter_mount(directory, &point, &path));
            match entered.unwrap_or(Ok(None)) {
                Ok(Some(found)) if found.0.inode == inode => {
                    self.found.insert(inode, found);
                }
                Ok(_) => self.unreached.push(Mounted { inode, point, thread: thread.to_owned(), path }),
                Err(error) => self.hide(error.to_string()),
            }
        }
        Ok(())
    }

    /// The namespaces that the threads of a process are in, and those it holds open.
    fn add_process(&mut self, process: &Path) -> io::Result<()> {
        for thread in entries(&process.join("task"))? {
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

/// True if the namespace `path` belongs to our own user namespace: only who has capabilities there could change it.
#[allow(unsafe_code)]
fn is_our_users(path: &Path) -> io::Result<bool> {
    let namespace = std::fs::File::open(path)?;
    // SAFETY: the request has no argument and returns a new descriptor, or -1 (ioctl_ns(2)).
    let owner = match unsafe { libc::ioctl(namespace.as_raw_fd(), libc::NS_GET_USERNS) } {
        -1 => return Err(io::Error::last_os_error()),
        // SAFETY: nothing else has it.
        owner => unsafe { OwnedFd::from_raw_fd(owner) },
    };
    Ok(std::fs::File::from(owner).metadata()?.ino() == std::fs::metadata("/proc/self/ns/user")?.ino())
}

/// What the kernel knows of a file without asking its file system, which may not answer (FUSE).
fn as_known(path: &Path) -> io::Result<Statx> {
    let flags = AtFlags::STATX_DONT_SYNC;
    Ok(statx(CWD, path, flags, StatxFlags::INO)?)
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{Namespace, all, enter_one};
    use crate::tests::have_netns;

    fn can_enter_namespaces() -> bool {
        have_netns(all().are_all().map_err(|hidden| hidden.to_string()))
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
        // What waits for a writer is not opened.
        let directory = tempfile::tempdir().expect("a temporary directory");
        let fifo = directory.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().expect("it runs").success());
        assert!(enter_one(own.inode, &[fifo]).expect("it leads nowhere").is_none());
    }

    /// A search once failed if a process ended between two readings of its namespace, or if several times a mount that it had
    /// found was gone when it looked there.
    #[test]
    fn processes_that_end_do_not_hide_namespaces() {
        if !can_enter_namespaces() {
            return;
        }
        let own = Namespace::own().expect("every thread has one");
        // Each sees a namespace that is mounted where no other process sees it.
        let mount = ["--net", "--mount", "mount", "--bind", "/proc/self/ns/net", "/dev/null"];
        let mut short_lived =
            std::iter::repeat_with(|| Command::new("unshare").args(mount).spawn().expect("started"));
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
}
