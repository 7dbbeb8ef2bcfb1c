//! Limits that a process inherits, for one that has to finish whatever its parent may.

#![allow(clippy::disallowed_methods)] // Asks the kernel to kill other processes first.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::allow_files;

/// Limits that could end an undo or stop its writes.
const IN_THE_WAY: [Resource; 5] =
    [Resource::Fsize, Resource::Cpu, Resource::As, Resource::Data, Resource::Nproc];

/// Open files that an undo needs, with a margin.
const FILES: u64 = 1024;

/// Lifts the limits of file size, CPU time, memory, processes and open files: all the way with CAP_SYS_RESOURCE, else
/// up to the hard limits. Programs started later inherit that.
pub fn lift_limits() {
    for resource in IN_THE_WAY {
        let maximum = getrlimit(resource).maximum;
        if setrlimit(resource, Rlimit { current: None, maximum: None }).is_err() {
            // Never above the hard limit, so always allowed.
            let _ = setrlimit(resource, Rlimit { current: maximum, maximum });
        }
    }
    if let Err(most) = allow_files(FILES) {
        let _ = allow_files(most);
    }
}

/// Has the kernel kill other processes first when memory is short. Without CAP_SYS_RESOURCE nothing changes.
pub fn outlast_others() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
}
