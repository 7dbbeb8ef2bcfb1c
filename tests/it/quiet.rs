//! Who may have the CPUs' packet counters: tests that send many packets share them, tests that read
//! them as the result have them alone. They are global, like CPU 0 and the sysctls, and the tests of
//! this program run side by side.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static COUNTERS: RwLock<()> = RwLock::new(());

/// For tests that send much, wherever. Not to be taken twice by one thread.
pub(crate) fn noisy() -> RwLockReadGuard<'static, ()> {
    COUNTERS.read().unwrap_or_else(PoisonError::into_inner)
}

/// For tests on the practice range, and for those that count.
pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    COUNTERS.write().unwrap_or_else(PoisonError::into_inner)
}
