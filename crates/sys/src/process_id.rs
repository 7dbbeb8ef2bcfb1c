//! A process by its number and start time, a pair that no later process has.

#![allow(clippy::disallowed_methods)] // procfs of this machine; recordings have no processes to end.

use std::io;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};

use rxlab_base::parse;

/// A process of this boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: u32,
    /// Its start, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start: u64,
}

impl ProcessId {
    /// This process; `None` if procfs is not mounted.
    pub fn own() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// The process that has this number now; `None` if there is none, or procfs is not mounted.
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, start: parse::process_stat(&stat(pid).ok()?).ok()?.began_ticks })
    }

    /// Its command name, which it chooses itself, at most 15 bytes, and the user it runs as; `None` once it has ended.
    pub fn command_and_user(self) -> Option<(String, u32)> {
        let directory = format!("/proc/{}", self.pid);
        let user = std::fs::metadata(&directory).ok()?.uid();
        let command = std::fs::read(format!("{directory}/comm")).ok()?;
        let command = String::from_utf8_lossy(&command).trim_end().to_owned();
        self.is_alive().then_some((command, user))
    }

    /// True if it runs or is stopped. A zombie is not alive; a process whose state cannot be read is taken
    /// to be alive.
    pub fn is_alive(self) -> bool {
        match stat(self.pid) {
            Ok(stat) => {
                let is_it = parse::process_stat(&stat).is_ok_and(|found| found.began_ticks == self.start);
                is_it && !parse::has_ended(&stat)
            }
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }
}

fn stat(pid: u32) -> io::Result<String> {
    // A name may contain any bytes.
    Ok(String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/stat"))?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::ProcessId;

    #[test]
    fn a_process_ends_once() {
        let own = ProcessId::own().expect("procfs is mounted");
        assert!(own.is_alive());
        assert!(!ProcessId { start: own.start + 1, ..own }.is_alive(), "another one had the number");
    }
}
