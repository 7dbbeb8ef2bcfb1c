//! Time that passes on the machine of `tree.rs`, for benches that sample.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::tree::DEVICE;

/// Lets time pass: at each further `moment` the CPUs have been busy, and packets have come in over eth0.
/// A reader sees the files of one moment or the next.
pub(crate) fn advance(root: &Path, cpus: u32, moment: u64) {
    let mut stat = "cpu  1 2 3 4 5 6 7 8 0 0\n".to_owned();
    for cpu in 0..cpus {
        let (idle, softirq) = (622_625_063 + moment, 22 + moment);
        writeln!(stat, "cpu{cpu} 2255314 34 2290113 {idle} 11 22 {softirq} 44 0 0").expect("text");
    }
    let packets = format!("{}\n", 123_456_789 + moment * 1_000);
    let eth0 = format!("{DEVICE}/virtio0/net/eth0/statistics/rx_packets");
    for (path, content) in [("proc/stat".to_owned(), stat), (eth0, packets)] {
        let (next, path) = (root.join("next"), root.join(path));
        fs::write(&next, content).expect("written");
        fs::rename(next, path).expect("renamed");
    }
}
