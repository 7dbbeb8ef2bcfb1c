//! The holder of the lock, as the kernel knows it: any text in the file could be anyone's.

#![allow(clippy::disallowed_methods)] // Looks for the holder in /proc.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rxlab_base::parse;
use rxlab_sys::ProcessId;

/// The process that holds flock(2) on the file `path`: one that took it and still has the file open.
///
/// `None` if no process does, or if it is not visible: it lives in another PID namespace, or its descriptors may not be
/// read. A process that only inherited the descriptor is not found, as the kernel lists the one that took the lock.
pub fn lock_holder(path: &Path) -> Option<ProcessId> {
    let file = path.symlink_metadata().ok()?;
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let owners = parse::lock_owners(&locks, file.ino());
    // The start time is read first: a later process with this number has another one.
    let processes = owners.into_iter().filter_map(ProcessId::of);
    let mut holders = processes.filter(|process| has_open(*process, &file) && process.is_alive());
    holders.next()
}

fn has_open(process: ProcessId, file: &Metadata) -> bool {
    let entries = std::fs::read_dir(format!("/proc/{}/fd", process.pid)).into_iter().flatten();
    let mut open = entries.flatten().filter_map(|entry| std::fs::metadata(entry.path()).ok());
    open.any(|open| (open.dev(), open.ino()) == (file.dev(), file.ino()))
}
