//! Access to what is global: parallel tests of one run, and several runs on one machine, have the same packet counters, CPU 0
//! and sysctls. Tests that send many packets share the counters, tests that check them have them exclusively. A lock is on a
//! file of the kernel: every process finds it, and nothing is left behind.

use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};

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

/// For guests: each takes a CPU, and many packets come from outside it. They run next to each other only.
pub(crate) fn guest() -> Arc<Held> {
    static GUESTS: Mutex<Weak<Held>> = Mutex::new(Weak::new());
    // Held while waiting: the next guest would wait for the same.
    let mut guests = GUESTS.lock().unwrap_or_else(PoisonError::into_inner);
    guests.upgrade().unwrap_or_else(|| {
        let held = Arc::new(alone());
        *guests = Arc::downgrade(&held);
        held
    })
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
