//! `rxlab plan --predict`: predicted effect of each plan on the CPUs of this host, by costs measured here.

use std::io::Write;
use std::sync::atomic::AtomicBool;

use super::Args;
use crate::commands::machine::Source;
use crate::commands::{Global, look, machine, output};
use crate::error::CommandError;
use crate::model::{Model, Rates};
use crate::plan::{Plan, Spread, spread};
use crate::report::forecast::{self, Forecast};

pub(super) fn run(
    global: &Global,
    args: &Args,
    source: &Source,
    stop: &AtomicBool,
) -> Result<(), CommandError> {
    let (model, rates) = look::look(source, args.length, args.cost.budget, stop)?;
    for nic in &args.nic {
        machine::nic(&model, nic)?;
    }
    let (plans, reasons) = plans(args, source, &model, &rates)?;
    let mut report = Forecast::new(&model, &rates, plans, reasons);
    if let Some(path) = &args.output {
        let plan = report.plans.pop().ok_or_else(|| super::no_file(path, &report.reasons))?;
        return super::written(global, path, &plan);
    }
    let mut out = output::stdout(global);
    if global.json {
        writeln!(out, "{}", crate::commands::json(&report)?)?;
    } else {
        write!(out, "{}", forecast::text(&report))?;
    }
    Ok(())
}

/// Returns the requested plans, the widest last, and the reasons why others are missing.
fn plans(
    args: &Args,
    source: &Source,
    model: &Model,
    rates: &Rates,
) -> Result<(Vec<Plan>, Vec<String>), CommandError> {
    if !args.setting.is_empty() {
        return Ok((vec![super::own(source, &source.model(None)?, &args.setting)?], Vec::new()));
    }
    // A file holds one plan: the one that the same command writes without a prediction.
    if super::is_plain(args) && args.output.is_none() {
        let Spread { proposals, reasons } = spread(model, rates, args.nic.first());
        return Ok((proposals.into_iter().map(|proposal| proposal.plan).collect(), reasons));
    }
    match super::made(&super::wanted(args)?, args, model, rates)? {
        Ok(plan) => Ok((vec![plan], Vec::new())),
        Err(reasons) => Ok((Vec::new(), reasons)),
    }
}
