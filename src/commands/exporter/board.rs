//! What the next scrape shows, kept up to date by the threads that sample.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::commands::machine;
use crate::error::CommandError;
use crate::host::LiveHost;
use crate::model::{Model, Totals};
use crate::probe::{Interference, LostTotals};
use crate::report::live::Applied;
use crate::report::metrics::{Exposition, Format, Judged, encode};
use crate::sample::{Counters, Inventory, Scope};
use crate::trial::summary::Summary;
use crate::units::Fact;

/// The machine, and everything known about it.
pub(super) struct Board<'a> {
    host: &'a LiveHost,
    known: Mutex<Known>,
}

struct Known {
    /// Without threads and programs: their counters are not exported.
    inventory: Arc<Inventory>,
    model: Arc<Model>,
    totals: Totals,
    lost: LostTotals,
    judged: Option<Judged>,
    failures: u64,
    state: Standing,
}

/// What the state directory says.
#[derive(Default)]
pub(super) struct Standing {
    /// What is applied, compared with the machine.
    pub(super) applied: Applied,
    /// The trials, by number.
    pub(super) trials: Vec<Summary>,
    /// Scheduled checkpoints by state.
    pub(super) checkpoints: Vec<(&'static str, u64)>,
}

impl<'a> Board<'a> {
    /// A board with the receive path only.
    pub(super) fn new(host: &'a LiveHost) -> Result<Self, CommandError> {
        let inventory = Inventory::take(host, Scope::Path);
        let model = Arc::new(machine::describe(&inventory)?);
        let known = Known {
            inventory: Arc::new(inventory),
            model,
            totals: Totals::default(),
            lost: LostTotals::default(),
            judged: None,
            failures: 0,
            state: Standing::default(),
        };
        Ok(Self { host, known: Mutex::new(known) })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the counters and returns all metrics as text.
    pub(super) fn scrape(&self, format: Format) -> String {
        let inventory = Arc::clone(&self.known().inventory);
        let counters = Counters::take(self.host, &inventory);
        let mut known = self.known();
        known.totals.advance(counters);
        let Known { model, totals, lost, judged, failures, state, .. } = &*known;
        let exposition = Exposition {
            model,
            totals,
            lost,
            judged: judged.as_ref(),
            failures: *failures,
            applied: &state.applied,
            trials: &state.trials,
            checkpoints: &state.checkpoints,
        };
        encode(&exposition, format)
    }

    /// Adds the end of a sample: counters, and the receive path as it is now.
    pub(super) fn add_sample(&self, inventory: &Inventory, model: &Model, counters: &Counters) {
        let inventory = Inventory {
            ksoftirqd: Fact::NotAsked,
            napi_threads: Fact::NotAsked,
            programs: Fact::NotAsked,
            ..inventory.clone()
        };
        let mut known = self.known();
        known.totals.advance(counters.clone());
        known.inventory = Arc::new(inventory);
        known.model = Arc::new(model.clone());
    }

    /// Replaces the results of the latest sample; `None` = it failed.
    pub(super) fn judge(&self, judged: Option<Judged>) {
        let mut known = self.known();
        match judged {
            Some(judged) => known.judged = Some(judged),
            None => known.failures += 1,
        }
    }

    /// Replaces what the state directory says.
    pub(super) fn stand(&self, state: Standing) {
        self.known().state = state;
    }

    /// Adds a measurement of lost time.
    pub(super) fn add_lost(&self, sample: &Interference) {
        self.known().lost.add(sample);
    }
}
