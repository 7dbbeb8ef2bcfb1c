//! Two views of the processes of one machine: the procfs that is mounted on `/proc`, and the PID namespace in which system
//! calls look up a number.
//!
//! They differ after `unshare --pid` and `nsenter --pid` without another `/proc`: a number that was read there is another
//! process here. Start times in `/proc` also depend on the time namespace of the reader.

#![allow(clippy::disallowed_methods)] // procfs of this machine; recordings have no processes to end.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

use rustix::time::ClockId;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::clock_ns;
use rxlab_base::parse;

/// The numbers in `/proc` are those of another PID namespace than this process's, or may be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "/proc may have the process numbers of another PID namespace ({0}): mount a /proc of this one, or run rxlab outside of it"
)]
pub struct OtherNumbers(String);

/// The namespaces that the numbers and start times of processes depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbering {
    /// Inode of the PID namespace.
    pub pid_namespace: u64,
    /// Nanoseconds below one clock tick by which the time namespace shifts the time since boot: two readers with the same
    /// rest round a start to the same tick.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rest_ns: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference.
fn is_zero(rest: &u64) -> bool {
    *rest == 0
}

/// `4026531836`, and with a rest `4026531836+5000000`.
impl fmt::Display for Numbering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.pid_namespace)?;
        if self.rest_ns > 0 { write!(f, "+{}", self.rest_ns) } else { Ok(()) }
    }
}

/// The numbering of `/proc` and of system calls, which is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnNumbering {
    /// Names the namespaces.
    pub numbering: Numbering,
    // Whole ticks by which our time namespace shifts the time since boot.
    shift_ticks: i64,
}

impl OwnNumbering {
    /// That of this process; the proof is made once. An error unless `/proc` and system calls have the same numbers.
    pub fn get() -> Result<Self, OtherNumbers> {
        static OWN: OnceLock<Result<OwnNumbering, OtherNumbers>> = OnceLock::new();
        OWN.get_or_init(|| {
            let unread = |error: io::Error| OtherNumbers(format!("/proc/self cannot be read: {error}"));
            let status = std::fs::read("/proc/self/status").map_err(unread)?;
            proven(&String::from_utf8_lossy(&status), std::process::id())?;
            let namespace = std::fs::metadata("/proc/self/ns/pid").map_err(unread)?.ino();
            Ok(Self::new(namespace, shift_ns().map_err(unread)?))
        })
        .clone()
    }

    /// That of a PID namespace, by its inode, and a time namespace that adds so many nanoseconds to the time since boot.
    pub fn new(pid_namespace: u64, shift_ns: i64) -> Self {
        let tick = parse::TICK_NS.cast_signed();
        let rest_ns = shift_ns.rem_euclid(tick).unsigned_abs();
        Self { numbering: Numbering { pid_namespace, rest_ns }, shift_ticks: shift_ns.div_euclid(tick) }
    }

    /// A start time of `/proc`, in clock ticks since boot, as the initial time namespace has it.
    pub fn start(self, began_ticks: u64) -> u64 {
        began_ticks.saturating_add_signed(self.shift_ticks.saturating_neg())
    }
}

/// An error unless `status`, which is `/proc/self/status`, has the number `pid` and no other one: a procfs of an outer
/// namespace lists the numbers of both.
fn proven(status: &str, pid: u32) -> Result<(), OtherNumbers> {
    match parse::process_numbers(status)[..] {
        [there] if there == pid => Ok(()),
        [there, ..] => Err(OtherNumbers(format!("this is process {pid} here and {there} in /proc"))),
        [] => Err(OtherNumbers("/proc/self/status has no number".to_owned())),
    }
}

/// Nanoseconds that our time namespace adds to the time since boot.
fn shift_ns() -> io::Result<i64> {
    let own = Path::new("/proc/self/ns");
    // The file of offsets is that of the namespace for children, which execve(2) enters since Linux 6.2.
    match (own.join("time").metadata(), own.join("time_for_children").metadata()) {
        (Ok(own), Ok(of_children)) if own.ino() != of_children.ino() => {
            return Err(io::Error::other("its time namespace is not that of its children"));
        }
        (Ok(_), Ok(_)) => {}
        // A kernel without time namespaces.
        (Err(error), _) | (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        (Err(error), _) | (_, Err(error)) => return Err(error),
    }
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets")?;
    parse::boottime_offset_ns(&offsets).map_err(io::Error::other)
}

/// Nanoseconds since boot (CLOCK_BOOTTIME) as the initial time namespace has them: also counts sleep, and is the same for
/// every process, unlike the clock itself.
pub fn boottime_ns() -> u64 {
    static SHIFT: OnceLock<i64> = OnceLock::new();
    // Unknown only in a new time namespace before Linux 6.2, without a fork.
    let shift = *SHIFT.get_or_init(|| shift_ns().unwrap_or_default());
    clock_ns(ClockId::Boottime).saturating_add_signed(shift.saturating_neg())
}

#[cfg(test)]
mod tests {
    use super::{Numbering, OwnNumbering, proven};

    #[test]
    fn one_numbering_is_told_from_two() {
        let status = |numbers: &str| format!("Name:\tx\nPid:\t812\nNSpid:\t{numbers}\n");
        assert_eq!(proven(&status("812"), 812), Ok(()));
        // Seen from outside, even if the first number is the same by chance.
        for (numbers, pid) in [("812\t4", 4), ("812\t812", 812), ("812", 4)] {
            let said = proven(&status(numbers), pid).expect_err("two numberings").to_string();
            assert!(said.contains(&format!("this is process {pid} here and 812 in /proc")), "{said}");
        }
        assert!(proven("Name:\tx\n", 1).is_err(), "not proven");
        assert_eq!(proven("Name:\tx\nPid:\t812\n", 812), Ok(()), "a kernel without PID namespaces");
    }

    /// A process of 51.37 s after boot, as the kernel shows it to readers in several time namespaces.
    #[test]
    fn a_start_is_the_same_in_every_time_namespace() {
        const TICK: i64 = 10_000_000;
        for shift in [0, 100_000_000_000_000, -40_000_000_000, -TICK] {
            let own = OwnNumbering::new(7, shift);
            let shown = (51_370_000_000 + shift) / TICK;
            assert_eq!(own.start(shown.unsigned_abs()), 5137, "{shift}");
            assert_eq!(own.numbering, Numbering { pid_namespace: 7, rest_ns: 0 });
        }
        // Rounded to another tick: not the same numbering.
        let own = OwnNumbering::new(7, -TICK - 4_000_000);
        assert_eq!(own.numbering.to_string(), "7+6000000");
    }

    #[test]
    fn this_process_has_one_numbering() {
        let own = OwnNumbering::get().expect("a /proc of this PID namespace");
        assert!(own.numbering.pid_namespace > 0);
    }
}
