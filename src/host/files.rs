//! Files and directories below a descriptor: the few system calls that the live host is made of.

use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, readlinkat};
use rustix::io::{Errno, retry_on_intr};

/// Each try takes microseconds; renames that hit every one of so many would be an attack.
const EAGAIN_TRIES: u32 = 1000;

/// What the first read of a file has room for: an attribute of sysfs is never longer than a page.
const FIRST_READ: usize = 4096;

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
pub(super) fn open_file(root: &OwnedFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let file = open(root, path, flags | OFlags::NONBLOCK)?;
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file),
        FileType::Directory => Err(Errno::ISDIR),
        _ => Err(Errno::INVAL),
    }
}

/// The whole of a file, without asking for its size first: procfs and sysfs do not know it.
pub(super) fn content(file: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::with_capacity(FIRST_READ);
    while retry_on_intr(|| rustix::io::read(file, spare_capacity(&mut bytes)))? > 0 {
        if bytes.len() == bytes.capacity() {
            bytes.reserve(bytes.len());
        }
    }
    Ok(bytes)
}

/// The target of one symbolic link of a directory.
pub(super) fn target(directory: impl AsFd, name: &str) -> Result<String, Errno> {
    Ok(readlinkat(directory, name, Vec::new())?.to_string_lossy().into_owned())
}

/// The names in a directory, sorted.
pub(super) fn names(directory: &OwnedFd) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
