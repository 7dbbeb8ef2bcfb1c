//! Files and directories below a descriptor: the few system calls of the live host.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::buffer::spare_capacity;
use rustix::fs::{
    FileType, Mode, OFlags, RawDir, RawDirEntry, ResolveFlags, fstat, openat, openat2, readlinkat,
};
use rustix::io::{Errno, retry_on_intr};

use super::Entry;

/// Each try takes microseconds; renames that hit every one of so many would be an attack.
const EAGAIN_TRIES: u32 = 1000;

/// Buffer for the first read of a file: an attribute of sysfs is never longer than a page.
const FIRST_READ: usize = 4096;

/// Buffer for one listing of names in a directory: a name and its data take 280 bytes
/// at most, and a large machine has thousands of processes.
const ENTRIES: usize = 16 * 1024;

/// An open file that is not a directory, FIFO or device.
pub(super) struct Opened {
    pub(super) file: OwnedFd,
    /// True if its file system reports sizes: procfs and cgroups report zero for every file.
    sized: bool,
}

/// Opens `path` below `root` and nowhere else, regardless of symbolic links.
pub(super) fn open(root: &OwnedFd, path: impl AsRef<OsStr>, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = path.as_ref();
    let flags = flags | OFlags::CLOEXEC;
    let open = || openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT);
    // EAGAIN: somewhere a rename or mount happened while a `..` was resolved, and the kernel
    // cannot be sure that the path stayed inside the root (openat2(2)). That may have nothing to do
    // with this file: try again.
    let mut opened = open();
    for _ in 0..EAGAIN_TRIES {
        if !matches!(opened, Err(Errno::AGAIN)) {
            break;
        }
        opened = open();
    }
    match opened {
        // A seccomp filter forbids the call, such as that of `DynamicUser=`. Below the root of this process every path
        // is confined anyway.
        Err(Errno::NOSYS | Errno::PERM) if is_own_root(root) => {
            let path = [b"./", path.as_bytes()].concat();
            openat(root, OsStr::from_bytes(&path), flags, Mode::empty())
        }
        opened => opened,
    }
}

/// True for the root directory of this process.
fn is_own_root(root: &OwnedFd) -> bool {
    let identity = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    let own = rustix::fs::stat("/").map(identity);
    own.is_ok() && fstat(root).map(identity) == own
}

/// Opens a file to read or write it. Those of procfs and sysfs are regular ones; a captured tree
/// may contain a FIFO, which waits for its other end, or a device.
pub(super) fn open_file(root: &OwnedFd, path: &str, flags: OFlags) -> Result<Opened, Errno> {
    let file = open(root, path, flags | OFlags::NONBLOCK)?;
    let stat = fstat(&file)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(Opened { file, sized: stat.st_size > 0 }),
        FileType::Directory => Err(Errno::ISDIR),
        _ => Err(Errno::INVAL),
    }
}

/// The whole content of a file, regardless of its reported size: procfs does not know it, and sysfs reports a
/// page for every attribute.
///
/// Only for some files is a short read known to be the last. A regular file returns less than requested at
/// its end only, and sysfs makes the whole text of an attribute before it returns any (its binary ones, such
/// as CPU lists, are read at most one page at a time, and fill it): both have a size. procfs and cgroups
/// return as many whole records as fit, which says nothing about the rest: they are read until nothing comes.
pub(super) fn content(opened: &Opened) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::with_capacity(FIRST_READ);
    while retry_on_intr(|| rustix::io::read(&opened.file, spare_capacity(&mut bytes)))? > 0 {
        if bytes.len() == bytes.capacity() {
            bytes.reserve(bytes.len());
        } else if opened.sized && bytes.capacity() == FIRST_READ {
            break;
        }
    }
    Ok(bytes)
}

/// The target of one symbolic link of a directory.
pub(super) fn target(directory: impl AsFd, name: &str) -> Result<String, Errno> {
    Ok(readlinkat(directory, name, Vec::new())?.to_string_lossy().into_owned())
}

/// A name as text; bytes that are not UTF-8 are escaped, as `\\xff`. No file is found by such a text.
fn escaped(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        text += chunk.valid();
        chunk.invalid().iter().for_each(|byte| text += &format!("\\x{byte:02x}"));
    }
    text
}

/// The names in a directory, sorted. Reads the descriptor to its end, so it must have been opened for this call.
pub(super) fn names(directory: &OwnedFd) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    each(directory, |entry| names.push(escaped(entry.file_name().to_bytes())))?;
    names.sort();
    Ok(names)
}

/// The directories in the directory `path` below `root`, and the links to directories, sorted by name.
pub(super) fn entries(root: &OwnedFd, path: &str) -> Result<Vec<Entry>, Errno> {
    let mut found = Vec::new();
    each(&open(root, path, OFlags::RDONLY | OFlags::DIRECTORY)?, |entry| {
        let inode = (entry.file_type() == FileType::Directory).then(|| entry.ino());
        if inode.is_some() || entry.file_type() != FileType::RegularFile {
            found.push((entry.file_name().to_bytes().to_vec(), inode));
        }
    })?;
    found.sort();
    let mut entries = Vec::new();
    for (name, inode) in found {
        let inode = match inode {
            Some(inode) => Some(inode),
            None => {
                let at = [path.as_bytes(), b"/", &name].concat();
                match open(root, OsStr::from_bytes(&at), OFlags::PATH | OFlags::DIRECTORY) {
                    Ok(directory) => Some(fstat(&directory)?.st_ino),
                    Err(Errno::NOENT | Errno::NOTDIR) => None,
                    Err(errno) => return Err(errno),
                }
            }
        };
        entries.push(Entry { is_text: std::str::from_utf8(&name).is_ok(), name: escaped(&name), inode });
    }
    Ok(entries)
}

/// Calls `take` with each entry of a directory but `.` and `..`.
fn each(directory: &OwnedFd, mut take: impl FnMut(&RawDirEntry<'_>)) -> Result<(), Errno> {
    let mut room = [MaybeUninit::uninit(); ENTRIES];
    let mut entries = RawDir::new(directory, &mut room);
    while let Some(entry) = entries.next() {
        match entry {
            Ok(entry) if matches!(entry.file_name().to_bytes(), b"." | b"..") => {}
            Ok(entry) => take(&entry),
            Err(Errno::INTR) => {}
            // The directory disappeared meanwhile, as that of a process that ends: no more names.
            Err(Errno::NOENT) => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(unsafe_code)] // A filter of system calls for one thread.
mod tests {
    use std::os::fd::OwnedFd;

    use rustix::fs::{Mode, OFlags};
    use rustix::io::Errno;

    use super::{content, open_file};

    /// Forbids openat2(2) in the calling thread, as systemd does for `DynamicUser=` and `RestrictSUIDSGID=`.
    fn forbid_openat2() {
        let statement = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
        let mut filter = [
            // The number of the call.
            statement(0x20, 0),
            libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: libc::SYS_openat2 as u32 },
            statement(0x06, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
            statement(0x06, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: the kernel copies the program during the call.
        let code = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
        };
        assert_eq!(code, 0, "a filter");
    }

    #[test]
    fn only_the_own_root_is_read_without_openat2() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let directory = |path: &std::path::Path| -> OwnedFd {
            rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).expect("opened")
        };
        let (own, other) = (directory("/".as_ref()), directory(folder.path()));
        std::thread::spawn(move || {
            forbid_openat2();
            for path in ["proc/self/stat", "/proc/self/stat", "../proc/self/stat"] {
                let file = open_file(&own, path, OFlags::RDONLY).expect(path);
                assert!(!content(&file).expect("read").is_empty(), "{path}");
            }
            assert_eq!(open_file(&other, "x", OFlags::RDONLY).err(), Some(Errno::NOSYS));
        })
        .join()
        .expect("passed");
    }
}
