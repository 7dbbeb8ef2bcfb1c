//! Lost time, as the screen and the thread that measures it share it.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use crate::probe::Interference;

/// What the screen and the measuring thread share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Set while lost time is on the screen.
    pub(super) is_wanted: AtomicBool,
    latest: Mutex<Option<Arc<Interference>>>,
}

impl Shared {
    /// The latest measurement.
    pub(super) fn latest(&self) -> Option<Arc<Interference>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the latest measurement.
    pub(super) fn keep(&self, sample: Interference) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(sample));
    }
}
