//! Directories of the kernel's own file systems by inode: open_by_handle_at(2), which rustix lacks.

#![allow(unsafe_code)] // One system call that reads a structure of ours.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use super::socket::last_error;

/// `FILEID_KERNFS` of include/linux/exportfs.h.
const KERNFS: i32 = 0xfe;

/// `struct file_handle` with the identifier of a node of kernfs.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    inode: [u32; 2],
}

/// Opens the directory with this inode in the kernfs of `mount`, which must be a control group file system. ESTALE if it
/// has none. Needs CAP_DAC_READ_SEARCH.
pub(super) fn open_directory(mount: &OwnedFd, inode: u64) -> Result<OwnedFd, Errno> {
    let [low, high] = [inode as u32, (inode >> 32) as u32];
    let inode = if cfg!(target_endian = "big") { [high, low] } else { [low, high] };
    let mut handle = Handle { bytes: 8, kind: KERNFS, inode };
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the kernel reads a header and as many bytes after it as that says, all of `handle`, which outlives the
    // call.
    let opened =
        unsafe { libc::syscall(libc::SYS_open_by_handle_at, mount.as_raw_fd(), &raw mut handle, flags) };
    match i32::try_from(opened) {
        // SAFETY: the kernel has just opened it for us.
        Ok(opened) if opened >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(opened) }),
        _ => Err(last_error()),
    }
}
