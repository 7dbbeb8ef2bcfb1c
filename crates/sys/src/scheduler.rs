//! CPUs and scheduling of threads of any process. Unsafe code: sched_setattr(2) and sched_getattr(2), which rustix
//! does not have.

#![allow(unsafe_code)] // A system call that reads a structure of ours.

use std::mem::size_of;

use rustix::io::Errno;
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, Pid, sched_setaffinity};

use super::socket::last_error;
use rxlab_base::parse::Scheduling;
use rxlab_base::units::CpuMask;

// Policies of include/uapi/linux/sched.h for which sched_setattr ignores the nice value (`__setscheduler_params`): realtime
// threads keep theirs for later, and idle ones show it.
const SCHED_FIFO: u32 = 1;
const SCHED_RR: u32 = 2;
const SCHED_IDLE: u32 = 5;

/// A flag of include/uapi/linux/sched.h, which sched_setattr clears unless told to set it.
const SCHED_FLAG_RESET_ON_FORK: u64 = 1;

/// Lets a thread run on these CPUs. EOVERFLOW: CPUs above 1023, which rustix cannot name.
pub(super) fn set_cpus(tid: u32, cpus: &CpuMask) -> Result<(), Errno> {
    let mut set = CpuSet::new();
    for cpu in cpus.iter() {
        let index = cpu.0 as usize;
        if index >= CpuSet::MAX_CPU {
            return Err(Errno::OVERFLOW);
        }
        set.set(index);
    }
    sched_setaffinity(Some(thread(tid)?), &set)
}

/// Sets the scheduling of a thread; whether its children start with the default one (SCHED_RESET_ON_FORK) stays. If
/// interrupted, it has the new policy and the old nice value.
pub(super) fn set_policy(tid: u32, scheduling: &Scheduling) -> Result<(), Errno> {
    let thread = thread(tid)?;
    let attributes = libc::sched_attr {
        // A constant of 48.
        size: u32::try_from(size_of::<libc::sched_attr>()).map_err(|_| Errno::INVAL)?,
        sched_policy: scheduling.policy,
        sched_flags: attributes(thread)?.sched_flags & SCHED_FLAG_RESET_ON_FORK,
        sched_nice: scheduling.nice,
        sched_priority: scheduling.priority,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    let none: libc::c_uint = 0;
    // SAFETY: the kernel reads `size` bytes of a structure that outlives the call, and writes nothing but its
    // size.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_setattr, thread.as_raw_nonzero().get(), &raw const attributes, none)
    };
    if result != 0 {
        return Err(last_error());
    }
    match scheduling.policy {
        SCHED_FIFO | SCHED_RR | SCHED_IDLE => setpriority_process(Some(thread), scheduling.nice),
        _ => Ok(()),
    }
}

/// The scheduling of a thread, with its flags, which no file shows.
fn attributes(thread: Pid) -> Result<libc::sched_attr, Errno> {
    // SAFETY: a structure of numbers, of which 0 is a value.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = u32::try_from(size_of::<libc::sched_attr>()).map_err(|_| Errno::INVAL)?;
    let none: libc::c_uint = 0;
    let pid = thread.as_raw_nonzero().get();
    // SAFETY: the kernel writes at most `size` bytes to a structure that outlives the call.
    match unsafe { libc::syscall(libc::SYS_sched_getattr, pid, &raw mut attributes, size, none) } {
        0 => Ok(attributes),
        _ => Err(last_error()),
    }
}

fn thread(tid: u32) -> Result<Pid, Errno> {
    // 0 would be the calling thread.
    i32::try_from(tid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // Reads what the kernel made of it.
mod tests {
    use rustix::io::Errno;
    use rustix::thread::gettid;

    use super::{set_cpus, set_policy};
    use crate::allowed_cpus;
    use rxlab_base::parse::{Scheduling, scheduling};
    use rxlab_base::units::CpuMask;

    /// On a separate thread: the test runner's threads are shared.
    fn on_a_thread<T: Send>(act: impl FnOnce(u32) -> T + Send) -> T {
        std::thread::scope(|scope| {
            scope.spawn(|| act(gettid().as_raw_nonzero().get().unsigned_abs())).join().expect("no panic")
        })
    }

    fn now(tid: u32) -> Scheduling {
        let text = std::fs::read_to_string("/proc/thread-self/stat").expect("readable");
        assert!(text.starts_with(&tid.to_string()));
        scheduling(&text).expect("whole")
    }

    #[test]
    fn a_thread_is_moved_and_told_how_to_run() {
        on_a_thread(|tid| {
            let before = allowed_cpus();
            let first: CpuMask = before.first().into_iter().collect();
            set_cpus(tid, &first).expect("allowed");
            assert_eq!(allowed_cpus(), first);
            set_cpus(tid, &before).expect("allowed");
            assert_eq!(allowed_cpus(), before);
            // Raising a nice value needs no privilege, but lowering it again does; the thread ends
            // here.
            let batch = Scheduling { policy: 3, priority: 0, nice: (now(tid).nice + 1).min(19) };
            set_policy(tid, &batch).expect("allowed");
            assert_eq!(now(tid), batch);
        });
    }

    /// The kernel takes the nice value of an idle thread in a second step, and forgets a flag that is not repeated.
    #[test]
    fn a_thread_goes_back_to_idle_with_its_nice_value_and_flag() {
        on_a_thread(|tid| {
            let nice = (now(tid).nice + 2).min(19);
            let [other, idle] = [0, 5].map(|policy| Scheduling { policy, priority: 0, nice });
            set_policy(tid, &other).expect("allowed");
            let attributes = || super::attributes(super::thread(tid).expect("a number")).expect("readable");
            let with_flag = libc::sched_attr { sched_flags: super::SCHED_FLAG_RESET_ON_FORK, ..attributes() };
            // SAFETY: the kernel reads a structure that outlives the call.
            let set = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const with_flag, 0) };
            assert_eq!(set, 0);
            for wanted in [idle, Scheduling { nice: 19, ..idle }] {
                set_policy(tid, &wanted).expect("allowed");
                assert_eq!((now(tid), attributes().sched_flags), (wanted, super::SCHED_FLAG_RESET_ON_FORK));
            }
        });
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let impossible = Scheduling { policy: 1, priority: 100, nice: 0 };
        assert_eq!(on_a_thread(|tid| set_policy(tid, &impossible)), Err(Errno::INVAL));
        assert_eq!(on_a_thread(|tid| set_cpus(tid, &"5000".parse().expect("a list"))), Err(Errno::OVERFLOW));
        for missing in [0, u32::MAX, i32::MAX.unsigned_abs()] {
            assert_eq!(set_cpus(missing, &"0".parse().expect("a list")), Err(Errno::SRCH), "{missing}");
        }
    }
}
