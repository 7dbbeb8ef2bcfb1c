//! Answers of a machine, including that something is missing: an earlier sample may still have had it.

use std::collections::BTreeMap;

use super::tick::CLOCK_NS;
use rxlab_sys::{Cause, Notes};

/// Kind of an entry: the first byte of its key. The path follows.
pub(super) const FILE: char = 'f';
/// Target of a symbolic link.
pub(super) const LINK: char = 'l';
/// Names in a directory, each with a NUL after it.
pub(super) const LIST: char = 'd';
/// Cause of a failure, as JSON.
pub(super) const FAILURE: char = 'x';

/// Contents of what was read, by key; `None` for what is missing.
pub(super) type Observed = BTreeMap<String, Option<Vec<u8>>>;

/// The answers of a machine.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) observed: Observed,
    /// The clock at the last time it was read.
    pub(super) now_ns: u64,
}

/// The lines of a file that samples use. The others have counters of their own, which would take up space.
fn used(path: &str, bytes: &[u8]) -> Vec<u8> {
    let keeps: fn(&[u8]) -> bool = match path {
        "proc/stat" => |line| line.starts_with(b"cpu") && line.get(3).is_some_and(u8::is_ascii_digit),
        // Numbered interrupts, and the header.
        "proc/interrupts" => |line| {
            let name = line.trim_ascii_start();
            name.starts_with(b"CPU") || name.first().is_some_and(u8::is_ascii_digit)
        },
        _ => return bytes.to_vec(),
    };
    bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| keeps(line)).flatten().copied().collect()
}

impl Notes for Seen {
    fn bytes(&mut self, path: &str, bytes: &[u8]) {
        self.observed.insert(format!("{FILE}{path}"), Some(used(path, bytes)));
    }

    fn names(&mut self, path: &str, names: &[String]) {
        let bytes = names.iter().flat_map(|name| name.bytes().chain([0])).collect();
        self.observed.insert(format!("{LIST}{path}"), Some(bytes));
    }

    fn target(&mut self, path: &str, target: &str) {
        self.observed.insert(format!("{LINK}{path}"), Some(target.as_bytes().to_vec()));
    }

    fn failure(&mut self, path: &str, cause: Cause) {
        if cause == Cause::Missing {
            self.observed.extend([FILE, LINK, LIST].map(|kind| (format!("{kind}{path}"), None)));
        } else {
            let cause = serde_json::to_vec(&cause).expect("a cause is plain JSON");
            self.observed.insert(format!("{FAILURE}{path}"), Some(cause));
        }
    }

    fn time(&mut self, now_ns: u64) -> u64 {
        self.now_ns = now_ns / CLOCK_NS * CLOCK_NS;
        self.now_ns
    }
}

#[cfg(test)]
mod tests {
    use super::used;
    use rxlab_base::parse::{interrupts, stat};

    #[test]
    fn lines_that_samples_use_are_kept() {
        let text = "cpu  9 0 0 9\ncpu0 4 0 0 4\ncpu1 5 0 0 5\nintr 7 7\nctxt 5\n";
        let kept = String::from_utf8(used("proc/stat", text.as_bytes())).expect("text");
        assert_eq!(kept, "cpu0 4 0 0 4\ncpu1 5 0 0 5\n");
        assert_eq!(stat(&kept), stat(text));
        let text = "           CPU0       CPU1\n 25:  1  2  PCI-MSI 1-edge  eth0\nLOC:  8  9  Local timer interrupts\n";
        let kept = String::from_utf8(used("proc/interrupts", text.as_bytes())).expect("text");
        assert!(!kept.contains("LOC") && kept.ends_with("eth0\n"));
        assert_eq!(interrupts(&kept), interrupts(text));
        assert_eq!(used("proc/net/dev", b"cpu\n"), b"cpu\n");
    }
}
