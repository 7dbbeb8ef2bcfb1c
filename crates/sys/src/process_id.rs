//! A process by its number and start time, a pair that no later process of its PID namespace has.

#![allow(clippy::disallowed_methods)] // procfs of this machine; recordings have no processes to end.

use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use super::{Numbering, OwnNumbering};
use rxlab_base::parse;

/// A process of this boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: u32,
    /// Its start, in clock ticks since boot (field 22 of `/proc/PID/stat`), as the initial time namespace has it.
    pub start: u64,
    /// The namespaces that both depend on; `None` in files of earlier versions and in recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbering: Option<Numbering>,
}

impl ProcessId {
    /// This process; `None` if its own procfs is not mounted.
    pub fn own() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// The process that has this number now; `None` if there is none, or if system calls have other numbers than `/proc`.
    pub fn of(pid: u32) -> Option<Self> {
        let own = OwnNumbering::get().ok()?;
        let began = parse::process_stat(&stat(pid).ok()?).ok()?.began_ticks;
        Some(Self { pid, start: own.start(began), numbering: Some(own.numbering) })
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
    /// to be alive, and so is one of another or an unknown PID namespace.
    pub fn is_alive(self) -> bool {
        self.seen_alive().unwrap_or(true)
    }

    /// As [`ProcessId::is_alive`]; `None` for a process of another or an unknown PID namespace.
    pub fn seen_alive(self) -> Option<bool> {
        let own = OwnNumbering::get().ok().filter(|own| self.numbering == Some(own.numbering))?;
        Some(match stat(self.pid) {
            Ok(stat) => {
                let began = parse::process_stat(&stat).map(|found| found.began_ticks);
                let is_it = began.is_ok_and(|began| own.start(began) == self.start);
                is_it && !parse::has_ended(&stat)
            }
            // Procfs may hide it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw)?;
                test_kill_process(pid) != Err(Errno::SRCH)
            }
            Err(_) => true,
        })
    }
}

fn stat(pid: u32) -> io::Result<String> {
    // A name may contain any bytes.
    Ok(String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/stat"))?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{Numbering, ProcessId};

    #[test]
    fn a_process_ends_once() {
        let own = ProcessId::own().expect("procfs is mounted");
        assert!(own.is_alive());
        let other = ProcessId { start: own.start + 1, ..own };
        assert!(!other.is_alive(), "another one had the number");
        // By the numbers of another namespace, or of one that is not known, no process has ended.
        for numbering in [None, Some(Numbering { pid_namespace: 1, rest_ns: 0 })] {
            assert!(ProcessId { numbering, ..other }.is_alive(), "{numbering:?}");
        }
    }
}
