//! `rxlab trial run`.

use super::conduct::{Conduct, foretell, store_error};
use super::finish::finish;
use super::flags::{Args, from_flags};
use super::ready::ready;
use crate::cli::Global;
use crate::commands::{files, leftovers, machine, place};
use crate::error::CommandError;
use crate::trial::spec::Spec;
use crate::trial::store::TrialDir;

pub(super) fn run(global: &Global, args: &Args) -> Result<(), CommandError> {
    args.after.check()?;
    let mut spec = match &args.spec {
        Some(path) => Spec::parse(&files::read("specification", path)?)
            .map_err(|error| CommandError::usage(format!("{}: {error}", path.display())))?,
        None => from_flags(args)?,
    };
    leftovers::clear(global)?;
    let machine = machine::open(global)?;
    let stop = place::stop_flag()?;
    let ready = ready(global, &machine, &spec)?;
    foretell(&machine, &mut spec, &stop)?;
    let dir = TrialDir::create(&global.state_dir, &spec.name).map_err(|error| store_error(&error))?;
    let (spec, machine, keep) = (&spec, &machine, args.after.keep);
    let trial = Conduct { spec, machine, ready, dir, resumed: None, keep, stop: &stop };
    finish(global, trial, &args.after)
}
