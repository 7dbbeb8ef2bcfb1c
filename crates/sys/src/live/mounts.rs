//! What is mounted where, and a sysfs that is mounted nowhere.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{CWD, OFlags, StatVfsMountFlags, fstatvfs};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::thread::{CapabilitySet, capabilities};

use crate::files::{open, target};

/// File systems, as in include/uapi/linux/magic.h.
pub(super) const PROCFS: u64 = 0x9fa0;
pub(super) const SYSFS: u64 = 0x6265_6572;
const GROUPS: [u64; 2] = [0x0027_e0eb, 0x6367_7270];

/// A private mount of the sysfs of the calling thread's network namespace.
pub(super) fn sysfs(attributes: MountAttrFlags) -> Result<OwnedFd, Errno> {
    let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// The same in place of what is mounted on `/sys`; `None` if that is refused.
pub(super) fn own_sysfs() -> Option<OwnedFd> {
    // A seccomp filter may end a process that tries it without the privilege.
    let allowed = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
    // In a user namespace that has `/sys` read-only, the kernel allows no other one (`mnt_already_visible`).
    let mount = || sysfs(MountAttrFlags::empty()).or_else(|_| sysfs(MountAttrFlags::MOUNT_ATTR_RDONLY));
    allowed.then(|| mount().ok()).flatten()
}

/// The path of an open file from the top of its mount, as the kernel has it.
pub(super) fn path_of(file: &OwnedFd) -> Result<String, Errno> {
    target(CWD, &format!("/proc/self/fd/{}", file.as_raw_fd()))
}

pub(super) fn is_mounted_read_only(file: &OwnedFd) -> Result<bool, Errno> {
    Ok(fstatvfs(file)?.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// The kind of file system that a file is on.
fn file_system(file: &OwnedFd) -> Result<u64, Errno> {
    Ok(u64::try_from(rustix::fs::fstatfs(file)?.f_type).unwrap_or_default())
}

/// True for the file systems of control groups, of version 1 and 2.
pub(super) fn is_group_file_system(directory: &OwnedFd) -> Result<bool, Errno> {
    Ok(GROUPS.contains(&file_system(directory)?))
}

/// True for a file of the running kernel: one that rxlab writes to is a value of this machine.
pub(super) fn is_kernels(file: &OwnedFd) -> Result<bool, Errno> {
    let kind = file_system(file)?;
    Ok(kind == PROCFS || kind == SYSFS || GROUPS.contains(&kind))
}

/// True if `path` below `root` is on a file system of this kind.
pub(super) fn is_on(root: &OwnedFd, path: &str, kind: u64) -> bool {
    open(root, path, OFlags::PATH).and_then(|file| file_system(&file)) == Ok(kind)
}
