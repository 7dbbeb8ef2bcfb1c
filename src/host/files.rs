//! Files and directories below a descriptor: the few system calls that the live host is made of.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::fs::{FileType, Mode, OFlags, RawDir, ResolveFlags, fstat, openat2, readlinkat};
use rustix::io::{Errno, retry_on_intr};

/// Each try takes microseconds; renames that hit every one of so many would be an attack.
const EAGAIN_TRIES: u32 = 1000;

/// What the first read of a file has room for: an attribute of sysfs is never longer than a page.
const FIRST_READ: usize = 4096;

/// What one question for the names in a directory has room for: a name and what comes with it take 280 bytes
/// at most, and a large machine has thousands of processes.
const ENTRIES: usize = 16 * 1024;

/// A file that was found to be one.
pub(super) struct Opened {
    pub(super) file: OwnedFd,
    /// Whether its file system knows sizes: procfs and cgroups say zero of whatever they have.
    sized: bool,
}

/// Opens `path` below `root` and nowhere else, whatever symbolic links say.
pub(super) fn open(root: &OwnedFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
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

/// Opens a file to read or write it. Those of procfs and sysfs are regular ones; in a captured tree somebody
/// may have put a FIFO, which waits for its other end, or a device.
pub(super) fn open_file(root: &OwnedFd, path: &str, flags: OFlags) -> Result<Opened, Errno> {
    let file = open(root, path, flags | OFlags::NONBLOCK)?;
    let stat = fstat(&file)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(Opened { file, sized: stat.st_size > 0 }),
        FileType::Directory => Err(Errno::ISDIR),
        _ => Err(Errno::INVAL),
    }
}

/// The whole of a file, whatever its size is said to be: procfs does not know it, and sysfs says a page of
/// every attribute.
///
/// Whether a read that left room was the last is known of some files alone. A regular file gives less than
/// asked for at its end only, and sysfs makes the whole text of an attribute before it gives any (its binary
/// ones, such as CPU lists, are asked for a page at most, and fill it): both have a size. procfs and cgroups
/// give as many whole records as fit, which says nothing of what follows: they are read until nothing comes.
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

/// The names in a directory, sorted. The descriptor is read to its end: it was opened for this.
pub(super) fn names(directory: &OwnedFd) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    let mut room = [MaybeUninit::uninit(); ENTRIES];
    let mut entries = RawDir::new(directory, &mut room);
    while let Some(entry) = entries.next() {
        match entry {
            Ok(entry) if matches!(entry.file_name().to_bytes(), b"." | b"..") => {}
            Ok(entry) => names.push(entry.file_name().to_string_lossy().into_owned()),
            Err(Errno::INTR) => {}
            // The directory went away meanwhile, as that of a process that ends: it has no more.
            Err(Errno::NOENT) => break,
            Err(errno) => return Err(errno),
        }
    }
    names.sort();
    Ok(names)
}
