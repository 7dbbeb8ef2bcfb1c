//! CPUs and scheduling of threads of any process. Unsafe code: sched_setscheduler(2), sched_getscheduler(2) and
//! sched_getattr(2), which neither rustix nor every C library has.

#![allow(unsafe_code)] // System calls with numbers and a structure of ours.

use rustix::io::Errno;
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, Pid, sched_setaffinity};

use super::numbering::OwnNumbering;
use super::socket::last_error;
use rxlab_base::parse::Scheduling;
use rxlab_base::units::CpuMask;

/// A bit in the policy (include/uapi/linux/sched.h): children of the thread start with the default scheduling. It is cleared
/// unless it is set again.
const SCHED_RESET_ON_FORK: libc::c_int = 0x4000_0000;

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

/// Sets policy, priority and nice value of a thread. Its slice (since Linux 6.12) stays, and whether its children start with
/// the default scheduling: sched_setattr(2) would set both, and under a realtime policy it does not show the slice
/// (`_sched_setscheduler` of kernel/sched/syscalls.c). A realtime thread, which does not use its nice value, gets that first, others
/// their policy: see [`Scheduling::halfway`].
pub(super) fn set_policy(tid: u32, scheduling: &Scheduling) -> Result<(), Errno> {
    let thread = thread(tid)?;
    let number = thread.as_raw_nonzero().get();
    // SAFETY: it reads and writes no memory of ours.
    let now = unsafe { libc::syscall(libc::SYS_sched_getscheduler, number) };
    let now = libc::c_int::try_from(now).map_err(|_| Errno::INVAL)?;
    if now < 0 {
        return Err(last_error());
    }
    let policy = libc::c_int::try_from(scheduling.policy).map_err(|_| Errno::INVAL)?;
    let policy = policy | now & SCHED_RESET_ON_FORK;
    // All of the kernel's struct sched_param.
    let priority = libc::c_int::try_from(scheduling.priority).map_err(|_| Errno::INVAL)?;
    let set_nice = || setpriority_process(Some(thread), scheduling.nice);
    let is_realtime = [libc::SCHED_FIFO, libc::SCHED_RR].contains(&(now & !SCHED_RESET_ON_FORK));
    if is_realtime {
        set_nice()?;
    }
    // SAFETY: the kernel reads a number that outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, number, policy, &raw const priority) };
    if result != 0 {
        return Err(last_error());
    }
    if is_realtime { Ok(()) } else { set_nice() }
}

/// Flags of a thread and its slice in nanoseconds, which is 0 under a realtime policy and before Linux 6.12.
pub(super) fn attributes(tid: u32) -> Result<Vec<u8>, Errno> {
    // SAFETY: a structure of numbers, of which 0 is a value.
    let mut found: libc::sched_attr = unsafe { std::mem::zeroed() };
    // A constant of 48.
    let size = u32::try_from(size_of::<libc::sched_attr>()).map_err(|_| Errno::INVAL)?;
    let (number, none) = (thread(tid)?.as_raw_nonzero().get(), 0 as libc::c_uint);
    // SAFETY: the kernel writes at most `size` bytes to a structure that outlives the call.
    match unsafe { libc::syscall(libc::SYS_sched_getattr, number, &raw mut found, size, none) } {
        0 => Ok([found.sched_flags, found.sched_runtime].map(u64::to_ne_bytes).concat()),
        _ => Err(last_error()),
    }
}

/// A thread of `/proc` for a system call. EXDEV: its number may be another thread's there.
fn thread(tid: u32) -> Result<Pid, Errno> {
    OwnNumbering::get().map_err(|_| Errno::XDEV)?;
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

    /// The kernel takes the nice value of an idle thread in a second step, and sched_setattr(2) would forget what it is not told.
    #[test]
    fn a_thread_goes_to_another_policy_and_back_with_its_slice_and_flag() {
        on_a_thread(|tid| {
            // SAFETY: a structure of numbers, of which 0 is a value.
            let nice = (now(tid).nice + 2).min(19);
            let attributes = libc::sched_attr {
                size: u32::try_from(size_of::<libc::sched_attr>()).expect("48"),
                sched_policy: 0,
                sched_flags: 1,
                sched_nice: nice,
                sched_priority: 0,
                sched_runtime: 10_000_000,
                sched_deadline: 0,
                sched_period: 0,
            };
            // SAFETY: the kernel reads a structure that outlives the call.
            let set = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
            assert_eq!(set, 0);
            let of_thread = || super::attributes(tid).expect("it runs");
            let before = of_thread();
            // Before Linux 6.12 it has no slice.
            let possible = [0u64, 10_000_000].map(|slice| [1, slice].map(u64::to_ne_bytes).concat());
            assert!(possible.contains(&before), "{before:?}");
            let [batch, idle] = [3, 5].map(|policy| Scheduling { policy, priority: 0, nice });
            for wanted in [batch, idle, Scheduling { nice: 19, ..idle }] {
                set_policy(tid, &wanted).expect("allowed");
                assert_eq!((now(tid), of_thread()), (wanted, before.clone()));
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
