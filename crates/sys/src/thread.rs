//! Threads of this process: their CPU and CPU time. Measuring other
//! processes does not belong here.

#![allow(clippy::disallowed_methods)] // procfs of this very process; the host is where files are touched.

use rustix::io::Errno;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

use rxlab_base::units::{CpuId, CpuMask};

/// Pins the calling thread, and no other, to one CPU: must be called on the thread that is to run there.
/// EINVAL when that CPU is offline, absent or outside the cpuset of this process.
pub fn pin_thread(cpu: CpuId) -> Result<(), Errno> {
    let mut set = CpuSet::new();
    let index = cpu.0 as usize;
    if index >= CpuSet::MAX_CPU {
        return Err(Errno::INVAL);
    }
    set.set(index);
    sched_setaffinity(None, &set)
}

/// CPUs on which the calling thread may run; empty if the kernel does not report them.
pub fn allowed_cpus() -> CpuMask {
    let Ok(set) = sched_getaffinity(None) else { return CpuMask::new() };
    let numbers = (0u32..).take(CpuSet::MAX_CPU);
    numbers.filter(|cpu| set.is_set(*cpu as usize)).map(CpuId).collect()
}

/// CPU time that a thread of this process has taken, in seconds; `None` when it has ended.
///
/// From `/proc/self/task/TID/schedstat`, which a running thread updates at its timer tick: a busy
/// thread can be a tick (1 to 10 ms) ahead of it.
pub fn thread_cpu_seconds(thread: Pid) -> Option<f64> {
    thread_ran_and_waited_ns(thread).map(|(ran, _)| ran as f64 / 1e9)
}

/// Run time of a thread of this process, and time it waited while others ran on its CPU; `None` if
/// it has ended. Kernels that do not count waiting time report 0.
///
/// From `/proc/self/task/TID/schedstat`, in nanoseconds.
pub fn thread_ran_and_waited_ns(thread: Pid) -> Option<(u64, u64)> {
    let path = format!("/proc/self/task/{}/schedstat", thread.as_raw_nonzero());
    let text = std::fs::read_to_string(path).ok()?;
    rxlab_base::parse::ran_and_waited_ns(&text).ok()
}

/// Time of a thread of this process in user and in kernel mode, in ticks of USER_HZ (1/100 s); `None` when
/// it has ended.
///
/// From `/proc/self/task/TID/stat`, proc_pid_stat(5).
pub fn thread_user_and_system_ticks(thread: Pid) -> Option<(u64, u64)> {
    let path = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
    let stat = std::fs::read(path).ok()?;
    let stat = rxlab_base::parse::process_stat(&String::from_utf8_lossy(&stat)).ok()?;
    Some((stat.cpu_ticks - stat.system_ticks, stat.system_ticks))
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::{allowed_cpus, pin_thread, thread_cpu_seconds};
    use rxlab_base::units::CpuId;

    #[test]
    fn this_thread_has_run_and_no_thread_is_the_largest_pid() {
        let before = thread_cpu_seconds(rustix::thread::gettid()).expect("it runs");
        let mut sum = 0u64;
        while thread_cpu_seconds(rustix::thread::gettid()).expect("it runs") - before < 0.005 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(sum > 0);
        let none = rustix::thread::Pid::from_raw(i32::MAX).expect("not zero");
        assert_eq!(thread_cpu_seconds(none), None);
    }

    #[test]
    fn a_pinned_thread_may_run_on_its_cpu_alone() {
        let first = allowed_cpus().first().expect("it runs somewhere");
        // On a separate thread: the test runner's threads are shared.
        let pinned = std::thread::spawn(move || pin_thread(first).map(|()| allowed_cpus()));
        assert_eq!(pinned.join().expect("no panic"), Ok([first].into_iter().collect()));
    }

    #[test]
    fn an_absent_cpu_is_refused() {
        assert_eq!(pin_thread(CpuId(1_000)), Err(Errno::INVAL));
        assert_eq!(pin_thread(CpuId(60_000)), Err(Errno::INVAL));
    }
}
