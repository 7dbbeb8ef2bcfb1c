//! `/proc/locks`: owners of file locks.

/// PIDs of the processes that took a write lock of flock(2) on a file with this inode, on any file system.
///
/// A line is `1: FLOCK  ADVISORY  WRITE 708 fe:00:13 0 EOF`, with device and inode of the file after the PID; lines of
/// processes that only wait have a `->` (proc_locks(5)). The device is that of the superblock, which on btrfs and
/// overlayfs is not the one of stat(2), so the caller must check that the process has the file open. The kernel lists
/// no owner that is not visible from the PID namespace of procfs.
pub fn lock_owners(text: &str, inode: u64) -> Vec<u32> {
    let owner = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", owner, file, ..] = fields[..] else { return None };
        let is_it = file.rsplit(':').next()?.parse() == Ok(inode);
        // 0 stands for an owner that has ended, -1 for a lock of a descriptor.
        owner.parse().ok().filter(|pid| is_it && *pid > 0)
    };
    text.lines().filter_map(owner).collect()
}

#[cfg(test)]
mod tests {
    use super::lock_owners;

    /// Captured on Linux 6.18.
    const LOCKS: &str = "\
1: FLOCK  ADVISORY  WRITE 708 00:19:13 0 EOF
1: -> FLOCK  ADVISORY  WRITE 709 00:19:13 0 EOF
2: POSIX  ADVISORY  WRITE 710 00:19:14 0 EOF
3: FLOCK  ADVISORY  WRITE 0 00:19:15 0 EOF
4: OFDLCK ADVISORY  WRITE -1 00:19:15 0 EOF
5: FLOCK  ADVISORY  WRITE 711 00:1a:13 0 EOF
";

    #[test]
    fn who_waits_does_not_own() {
        assert_eq!(lock_owners(LOCKS, 13), [708, 711], "of two file systems");
        assert_eq!(lock_owners(LOCKS, 14), [0; 0], "a lock of another kind");
        assert_eq!(lock_owners(LOCKS, 15), [0; 0], "no process");
    }
}
