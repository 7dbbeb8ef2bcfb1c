//! `rxlab trial` on the simulated machine.

use std::sync::Arc;
use std::time::Duration;

use rxlab_change::apply;
use rxlab_setting::Plan;
use rxlab_sys::Host;
use rxlab_trial::factor::{Arms, Factor, FactorError};
use rxlab_trial::record::TrialRecord;
use rxlab_trial::runner::{self, Bench, Measured};
use rxlab_trial::simulate;

use super::World;
use super::actors::{Ended, begin, look, machine, me, settings};
use super::host::SimHost;
use super::schedule::Set;

/// A trial whose slots take a second and measure nothing.
struct SimBench<'a> {
    world: &'a Arc<World>,
    host: &'a SimHost,
    factor: Factor,
}

impl Bench<TrialRecord> for SimBench<'_> {
    type Error = FactorError;

    fn slot(&mut self, arm: usize) -> Result<Measured, FactorError> {
        self.factor.set(self.host, arm)?;
        self.world.sleep(Duration::from_secs(1));
        let work = if arm == 0 { 100.0 } else { 110.0 };
        Ok(Measured { seconds: 1.0, values: [("throughput".to_owned(), work)].into(), ..Measured::default() })
    }

    fn save(&mut self, _: &TrialRecord) -> Result<(), FactorError> {
        Ok(())
    }

    fn stopped(&self) -> bool {
        false
    }
}

pub(super) fn trial(world: &Arc<World>, set: &[Set], keep: bool) -> Ended {
    let (own, store) = machine(world);
    let model = look(&own);
    let cookie = own.namespace().and_then(|own| own.cookie).unwrap_or(0);
    let settings = settings(&world.state(), set, cookie);
    let plan = Plan::new("world", &settings);
    let Ok(settings) = apply::check(&own, &model, &plan) else { return Ended::Failed };
    let namespaces = (None, own.namespace().cloned());
    let Some(transaction) = begin(world, &store, &model.identity, namespaces, Some(Duration::from_secs(60)))
    else {
        return Ended::Failed;
    };
    let factor = Factor::new(transaction, Arms::Settings(vec![Vec::new(), settings]), &own);
    let mut bench = SimBench { world, host: &own, factor };
    let mut record = TrialRecord { host: model.identity, min_pairs: 1, max_pairs: 1, ..simulate::record() };
    let ran = runner::run(&mut record, 1, &mut bench);
    if ran.is_ok() && keep {
        return Ended::new(bench.factor.keep(&own).is_ok());
    }
    let who = me(world);
    let undo = bench.factor.undo(&own);
    let is_clean = undo.is_clean();
    let mut state = world.state();
    state.check_outcomes(&undo.id, who, &undo.outcomes);
    if is_clean {
        state.check_success(&undo.id, &undo.outcomes);
    }
    Ended::new(ran.is_ok() && is_clean)
}
