//! Content of the next scrape, kept up to date by the threads that sample.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::commands::machine;
use crate::error::Result;
use rxlab_base::units::Fact;
use rxlab_faces::report::metrics::{Exposition, Format, encode};
use rxlab_path::model::Model;
use rxlab_path::sample::{Counters, Inventory, Scope};
use rxlab_sys::LiveHost;

/// The machine, and everything known about it.
pub(super) struct Board<'a> {
    host: &'a LiveHost,
    known: Mutex<Known>,
}

struct Known {
    /// Without threads and programs: their counters are not exported.
    inventory: Arc<Inventory>,
    shown: Exposition,
}

impl<'a> Board<'a> {
    /// A board with the receive path only.
    pub(super) fn new(host: &'a LiveHost) -> Result<Self> {
        let inventory = Inventory::take(host, Scope::Path);
        let shown = Exposition { model: Arc::new(machine::describe(&inventory)?), ..Exposition::default() };
        Ok(Self { host, known: Mutex::new(Known { inventory: Arc::new(inventory), shown }) })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the counters and returns all metrics as text.
    pub(super) fn scrape(&self, format: Format) -> String {
        let inventory = Arc::clone(&self.known().inventory);
        let counters = Counters::take(self.host, &inventory);
        let mut known = self.known();
        known.shown.totals.advance(counters);
        encode(&known.shown, format)
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
        known.shown.totals.advance(counters.clone());
        known.inventory = Arc::new(inventory);
        known.shown.model = Arc::new(model.clone());
    }

    /// Changes what is shown. Scrapes wait meanwhile.
    pub(super) fn update(&self, change: impl FnOnce(&mut Exposition)) {
        change(&mut self.known().shown);
    }
}
