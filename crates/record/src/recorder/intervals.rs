//! The intervals between recorded ticks, with the model and the rates that commands take from a running machine.

use super::reader::{Replay, Replayed, WindowError};
use super::storage::Storage;
use super::writer::without_programs;
use rxlab_base::units::Fact;
use rxlab_path::model::{LosingSocket, LossRates, Model, ProcessRates, Rates};
use rxlab_path::sample::{Counters, Inventory, Scope, busiest, losing_sockets};

/// One interval after another. Settings, programs and losses at sockets are those of the latest full sample, so those of an
/// interval are from the ten seconds before.
pub struct Intervals<'a, S> {
    replay: Replay<'a, S>,
    /// The receive path of the latest interval.
    pub model: Model,
    inventory: Option<Inventory>,
    before: Option<Counters>,
    full: Option<Counters>,
    latest: BetweenFull,
}

/// What only full samples have, between the latest two.
#[derive(Default)]
struct BetweenFull {
    processes: Fact<Vec<ProcessRates>>,
    losses: Fact<LossRates>,
    losing: Fact<Vec<LosingSocket>>,
}

impl<'a, S: Storage> Intervals<'a, S> {
    /// Of these ticks. Those before the first full sample only lead to it.
    pub fn new(replay: Replay<'a, S>) -> Self {
        let nothing = rxlab_sys::RecordedHost::new();
        let model = Model::new(&Inventory::take(&nothing, Scope::Path));
        Self { replay, model, inventory: None, before: None, full: None, latest: BetweenFull::default() }
    }

    /// Takes a tick; the rates since the one before, if it follows one.
    fn take(&mut self, tick: &Replayed) -> Option<Rates> {
        if tick.is_first {
            (self.before, self.full, self.latest) = (None, None, BetweenFull::default());
        }
        if tick.is_full {
            let inventory = Inventory::take(&tick.host, Scope::Load);
            self.model = Model::new(&inventory);
            self.inventory = Some(inventory);
        }
        let inventory = self.inventory.as_ref()?;
        let counters = if tick.is_full {
            Counters::take(&tick.host, inventory)
        } else {
            Counters::take(&tick.host, &without_programs(inventory))
        };
        if tick.is_full {
            if let Some(full) = &self.full
                && let Ok(rates) = Rates::between(full, &counters)
            {
                self.latest = BetweenFull {
                    processes: busiest(&tick.host, full, &counters),
                    losses: rates.losses,
                    losing: losing_sockets(&tick.host, full, &counters),
                };
            }
            self.full = Some(counters.clone());
        }
        let rates = self.before.as_ref().and_then(|before| Rates::between(before, &counters).ok());
        if let Some(rates) = &rates {
            self.model.refute(rates);
        }
        let BetweenFull { processes, losses, losing } = &self.latest;
        let rates = rates.map(|rates| Rates {
            processes: processes.clone(),
            losses: losses.clone(),
            losing: losing.clone(),
            ..rates.accounted(inventory)
        });
        self.before = Some(counters);
        rates
    }
}

impl<S: Storage> Iterator for Intervals<'_, S> {
    /// Time of the end of the interval in milliseconds since 1970 in UTC, and the rates.
    type Item = Result<(i64, Rates), WindowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let tick = match self.replay.next()? {
                Ok(tick) => tick,
                Err(error) => return Some(Err(error)),
            };
            if let Some(rates) = self.take(&tick) {
                return Some(Ok((tick.at_ms, rates)));
            }
        }
    }
}
