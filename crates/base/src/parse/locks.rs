//! `/proc/locks`: holders of file locks.

/// True if process `pid` holds an flock(2) on the file with this inode. A line is
/// `1: FLOCK  ADVISORY  WRITE 708 fe:00:13 0 EOF`, with the inode after the device; lines of processes that
/// only wait have a `->` (proc_locks(5)).
pub fn holds_lock(text: &str, pid: u32, inode: u64) -> bool {
    text.lines().any(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", holder, file, ..] = fields[..] else { return false };
        let of_file = file.rsplit(':').next().and_then(|inode| inode.parse().ok());
        holder.parse() == Ok(pid) && of_file == Some(inode)
    })
}

#[cfg(test)]
mod tests {
    use super::holds_lock;

    /// Captured on Linux 6.18.
    const LOCKS: &str = "\
1: FLOCK  ADVISORY  WRITE 708 00:19:13 0 EOF
1: -> FLOCK  ADVISORY  WRITE 709 00:19:13 0 EOF
2: POSIX  ADVISORY  WRITE 710 00:19:14 0 EOF
";

    #[test]
    fn who_waits_does_not_hold() {
        assert!(holds_lock(LOCKS, 708, 13));
        assert!(!holds_lock(LOCKS, 709, 13), "it waits");
        assert!(!holds_lock(LOCKS, 710, 14), "a lock of another kind");
        assert!(!holds_lock(LOCKS, 708, 14));
    }
}
