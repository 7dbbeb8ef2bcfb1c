//! Access to the CPUs' packet counters: tests that send many packets share it, tests that check the counters have it
//! exclusively. The counters are global, like CPU 0 and the sysctls, for parallel tests of one run and for several
//! runs on one machine. So the lock is on the counters' own file: every process finds it, and nothing is left behind.

use std::fs::File;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};

/// Holds the counters until dropped.
pub(crate) struct Held {
    _file: File,
}

/// For tests that send many packets anywhere, and for those that the floods of others would leave no CPU. A thread must
/// not take it twice.
pub(crate) fn noisy() -> Held {
    hold(FlockOperation::LockShared)
}

/// For tests on the practice range, and for those that check counters.
pub(crate) fn alone() -> Held {
    hold(FlockOperation::LockExclusive)
}

fn hold(operation: FlockOperation) -> Held {
    let file = File::open("/proc/softirqs").expect("readable");
    retry_on_intr(|| flock(&file, operation)).expect("a lock");
    Held { _file: file }
}

#[test]
fn counting_excludes_sending() {
    let try_to_send = || {
        let file = File::open("/proc/softirqs").expect("readable");
        flock(&file, FlockOperation::NonBlockingLockShared)
    };
    let alone = alone();
    assert_eq!(try_to_send(), Err(Errno::WOULDBLOCK));
    drop(alone);
}
