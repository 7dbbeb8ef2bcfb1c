//! Who may have the CPUs' packet counters: tests that send many packets share them, tests that read
//! them as the result have them alone. They are global, like CPU 0 and the sysctls, for the tests of
//! one run that go side by side and for those of several runs on one machine. So the lock is on the
//! counters' own file: every process finds it, and nothing is left behind.

use std::fs::File;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};

/// Holds the counters until it is dropped.
pub(crate) struct Held {
    _file: File,
}

/// For tests that send much, wherever. Not to be taken twice by one thread.
pub(crate) fn noisy() -> Held {
    hold(FlockOperation::LockShared)
}

/// For tests on the practice range, and for those that count.
pub(crate) fn alone() -> Held {
    hold(FlockOperation::LockExclusive)
}

fn hold(operation: FlockOperation) -> Held {
    let file = File::open("/proc/softirqs").expect("readable");
    retry_on_intr(|| flock(&file, operation)).expect("a lock");
    Held { _file: file }
}

#[test]
fn one_counts_only_while_nobody_sends() {
    let try_to_send = || {
        let file = File::open("/proc/softirqs").expect("readable");
        flock(&file, FlockOperation::NonBlockingLockShared)
    };
    let alone = alone();
    assert_eq!(try_to_send(), Err(Errno::WOULDBLOCK));
    drop(alone);
}
