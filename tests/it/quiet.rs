//! Access to what is global: parallel tests of one run, and several runs on one machine, have the same packet counters, CPU 0
//! and sysctls. Tests that send many packets share the counters, tests that check them have them exclusively. A lock is on a
//! file of the kernel: every process finds it, and nothing is left behind.

use std::fs::File;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};
use rxlab_base::parse::Scheduling;
use rxlab_sys::{Action, Host, LiveHost};

/// Holds a file until dropped.
pub(crate) struct Held {
    _file: File,
}

/// For tests that send many packets anywhere, and for those that the floods of others would leave no CPU. A thread must
/// not take it twice.
pub(crate) fn noisy() -> Held {
    hold(COUNTERS, FlockOperation::LockShared)
}

/// For tests on the practice range, and for those that check counters.
pub(crate) fn alone() -> Held {
    hold(COUNTERS, FlockOperation::LockExclusive)
}

/// For tests of what is found only while CPUs idle. Waits for that without a lock, since others may compute for minutes, but
/// not for ever.
pub(crate) fn idle() -> Held {
    for _ in 0..600 {
        if is_idle() {
            let held = alone();
            // Others may have begun while this waited for the lock.
            if is_idle() {
                return held;
            }
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    alone()
}

/// True if the CPUs idled for four fifths of half a second.
fn is_idle() -> bool {
    let times = || -> (u64, u64) {
        let text = std::fs::read_to_string("/proc/stat").expect("readable");
        let all = text.lines().next().expect("the sum of all CPUs").split_whitespace().skip(1);
        let times: Vec<u64> = all.map(|time| time.parse().expect("a number")).collect();
        // Time of guests, after the eighth column, is part of user time.
        (times[3] + times[4], times[..8].iter().sum())
    };
    let before = times();
    std::thread::sleep(Duration::from_millis(500));
    let after = times();
    5 * (after.0 - before.0) > 4 * (after.1 - before.1)
}

/// The guests that run, as many at a time as there are CPUs: each takes one, and many packets come from outside it. They run
/// next to each other only.
static GUESTS: Mutex<(usize, Weak<Held>)> = Mutex::new((0, Weak::new()));
static GUEST_LEFT: Condvar = Condvar::new();

fn guests() -> MutexGuard<'static, (usize, Weak<Held>)> {
    GUESTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A guest, until dropped.
pub(crate) struct Guest(Option<Arc<Held>>);

pub(crate) fn guest() -> Guest {
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    let full = |(running, _): &mut (usize, Weak<Held>)| *running >= at_once;
    let mut guests = GUEST_LEFT.wait_while(guests(), full).unwrap_or_else(PoisonError::into_inner);
    let held = guests.1.upgrade().unwrap_or_else(|| {
        // With the guests locked: the next one would wait for the same.
        let held = Arc::new(alone());
        guests.1 = Arc::downgrade(&held);
        held
    });
    guests.0 += 1;
    Guest(Some(held))
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut guests = guests();
        guests.0 -= 1;
        self.0 = None;
        GUEST_LEFT.notify_one();
    }
}

/// For work of minutes that nobody waits for: it gets the CPU time that everything else leaves, and its threads and processes too.
pub(crate) fn in_spare_time<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    const SCHED_IDLE: u32 = 5;
    let spare = || {
        let pid = u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).expect("above 0");
        let scheduling = Scheduling { policy: SCHED_IDLE, priority: 0, nice: 0 };
        let host = LiveHost::open("/".as_ref()).expect("this machine");
        host.act(&Action::ThreadPolicy { pid, scheduling }).expect("every thread may take less");
        work()
    };
    // In a thread of its own: an ordinary user cannot take it back.
    let done = std::thread::scope(|scope| scope.spawn(spare).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Held by every test that runs irqbalance, from before [`crate::require::irqbalance`] is called.
pub(crate) fn alone_with_irqbalance() -> Held {
    hold("/proc/interrupts", FlockOperation::LockExclusive)
}

/// Held by tests that change machine-wide settings, and by tests that rely on them not to change.
pub(crate) fn settings() -> Held {
    hold("/proc/loadavg", FlockOperation::LockExclusive)
}

/// Held by tests in which something is gone, which no namespace that may have it must be hidden for.
pub(crate) fn all_visible() -> Held {
    hold("/proc/stat", FlockOperation::LockShared)
}

/// Held by a test that hides a network namespace from the whole machine.
pub(crate) fn hiding() -> Held {
    hold("/proc/stat", FlockOperation::LockExclusive)
}

/// The file of the counters.
const COUNTERS: &str = "/proc/softirqs";

fn hold(path: &str, operation: FlockOperation) -> Held {
    let file = File::open(path).expect("readable");
    retry_on_intr(|| flock(&file, operation)).expect("a lock");
    Held { _file: file }
}

#[test]
fn counting_excludes_sending() {
    let try_to_send = || {
        let file = File::open(COUNTERS).expect("readable");
        flock(&file, FlockOperation::NonBlockingLockShared)
    };
    let alone = alone();
    assert_eq!(try_to_send(), Err(Errno::WOULDBLOCK));
    drop(alone);
}

#[test]
fn guests_run_together_and_exclude_others() {
    let (one, other) = (guest(), guest());
    drop(one);
    let file = File::open(COUNTERS).expect("readable");
    assert_eq!(flock(&file, FlockOperation::NonBlockingLockShared), Err(Errno::WOULDBLOCK));
    drop(other);
}
