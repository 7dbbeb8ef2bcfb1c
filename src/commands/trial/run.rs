//! `rxlab trial run`.

use super::blocks;
use super::conduct::Conduct;
use super::finish::finish;
use super::flags::{Args, from_flags};
use super::presample::{self, presample};
use super::ready::{make_candidates, ready};
use crate::commands::Global;
use crate::commands::{files, leftovers, machine, place};
use crate::error::{CommandError, Result};
use rxlab_trial::spec::Spec;
use rxlab_trial::store::TrialDir;

pub(super) fn run(global: &Global, args: &Args) -> Result {
    let mut spec = match (&args.again, &args.spec) {
        (Some(id), _) => again(global, id, args)?,
        (None, Some(path)) => Spec::parse(&files::read("specification", path)?)
            .map_err(|error| CommandError::usage(format!("{}: {error}", path.display())))?,
        (None, None) => from_flags(global, args)?,
    };
    args.after.check(spec.design.kind)?;
    leftovers::clear(global)?;
    let machine = machine::open(global)?;
    let stop = place::stop_flag()?;
    // A plan prints them itself.
    make_candidates(global, &machine, &mut spec, !args.plan_only && !global.json, &stop)?;
    let mut ready = ready(global, &machine, &spec)?;
    if !args.plan_only {
        TrialDir::check_state(&global.state_dir)?;
        place::check_lock(global)?;
    }
    let presampled = presample(&machine, &mut spec, &mut ready.driver, &stop)?;
    if spec.design.measure.is_none() || spec.design.time.is_some() || args.plan_only {
        ready.planned = presample::plan(&machine, &mut spec, &mut ready.driver, &stop)?;
    }
    if args.plan_only {
        return presample::print(global, &spec, presampled, ready.planned, &stop);
    }
    let dir = TrialDir::create(&global.state_dir, &spec.name)?;
    let keep = args.after.keep;
    let trial = Conduct { spec: &spec, machine: &machine, ready, dir, keep, stop: &stop };
    if spec.design.kind.has_two_arms() {
        finish(global, trial, None, &args.after)
    } else {
        blocks::finish(global, trial, None)
    }
}

/// Returns the specification of an earlier trial, with a new seed, and with the pairs of `args` if given.
fn again(global: &Global, id: &str, args: &Args) -> Result<Spec> {
    let dir = TrialDir::open(&global.state_dir, id)?;
    let mut spec = dir.spec()?;
    spec.design.seed = None;
    if let Some(pairs) = args.pairs {
        spec.design.pairs = Some(pairs);
        spec.design.min_pairs = spec.design.min_pairs.min(pairs);
    }
    if let Some(fewest) = args.min_pairs {
        spec.design.min_pairs = fewest;
        // The end of the earlier trial, in pairs or in time, may come too soon for that.
        if args.pairs.is_none() && spec.design.pairs() < fewest {
            (spec.design.pairs, spec.design.time) = (Some(fewest), None);
        }
    }
    spec.check().map_err(CommandError::usage)?;
    Ok(spec)
}
