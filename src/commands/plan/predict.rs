//! `rxlab plan --predict`: what each plan should do to the CPUs of this host, by costs measured here.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::Args;
use crate::cli::Global;
use crate::commands::source::Source;
use crate::commands::{look, machine, output};
use crate::error::CommandError;
use crate::host::{Host, allowed_cpus};
use crate::model::{Model, Rates};
use crate::plan::{Costs, Plan, Spread, spread};
use crate::probe::{Programs, ipi, protocol_ns};
use crate::report::forecast::{self, Forecast};
use crate::units::CpuId;

/// How often the cost of an interrupt is tried to be measured.
const ATTEMPTS: u32 = 5;

pub(super) fn run(
    global: &Global,
    args: &Args,
    source: &Source,
    stop: &AtomicBool,
) -> Result<(), CommandError> {
    let (model, rates, costs) = looked(global, source, args.length, stop)?;
    for nic in &args.nic {
        machine::nic(&model, nic)?;
    }
    let (plans, reasons) = plans(args, source, &model, &rates)?;
    let mut report = Forecast::new(&model, &rates, costs, plans, reasons);
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

/// The plans asked for, the widest last; and why others are not there.
fn plans(
    args: &Args,
    source: &Source,
    model: &Model,
    rates: &Rates,
) -> Result<(Vec<Plan>, Vec<String>), CommandError> {
    if !args.setting.is_empty() {
        return Ok((vec![super::own(source, &source.model(None)?, &args.setting)?], Vec::new()));
    }
    // A file is of one plan: the one that the same command writes without a prediction.
    if super::is_plain(args) && args.output.is_none() {
        let Spread { proposals, reasons } = spread(model, rates, args.nic.first());
        return Ok((proposals.into_iter().map(|proposal| proposal.plan).collect(), reasons));
    }
    match super::made(&super::wanted(args)?, args, model, rates)? {
        Ok(plan) => Ok((vec![plan], Vec::new())),
        Err(reasons) => Ok((Vec::new(), reasons)),
    }
}

/// One look with the programs attached, and then what packets and interrupts cost here.
fn looked(
    global: &Global,
    source: &Source,
    length: Duration,
    stop: &AtomicBool,
) -> Result<(Model, Rates, Costs), CommandError> {
    let attached = match source {
        Source::Snapshot(_) => Err("a snapshot has no eBPF measures".to_owned()),
        Source::Live(_) if global.root != Path::new("/") => Err("another root is not this kernel".to_owned()),
        Source::Live(host) => attach(host),
    };
    let programs = match attached {
        Ok(programs) => programs,
        Err(why) => {
            let (model, rates) = look::look(source, length, stop)?;
            return Ok((model, rates, Costs::unknown(why)));
        }
    };
    let failed = |error| CommandError::failed(format!("cannot read what the eBPF programs counted: {error}"));
    let before = programs.read().map_err(failed)?;
    let (model, rates) = look::look(source, length, stop)?;
    let after = programs.read().map_err(failed)?;
    let seconds = after.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
    let between = after.since(&before);
    let cpu = idlest(&rates);
    let protocol = protocol_ns(&programs, cpu);
    // No longer attached: they would be part of what an interrupt costs.
    drop(programs);
    // On a busy machine two threads seldom have their turns at the same time.
    let mut interrupt = ipi(cpu);
    for _ in 1..ATTEMPTS {
        interrupt = interrupt.or_else(|_| ipi(cpu));
    }
    let interrupt = interrupt.map_err(|error| error.to_string());
    Ok((model, rates, Costs::measured(&between, seconds, protocol, interrupt)))
}

fn attach(host: &dyn Host) -> Result<Programs, String> {
    Programs::attach(host).map_err(|missing| missing.to_string())
}

/// Where measuring disturbs least.
fn idlest(rates: &Rates) -> CpuId {
    let allowed = allowed_cpus();
    let may = rates.cpus.iter().filter(|cpu| allowed.contains(cpu.cpu));
    may.max_by(|a, b| a.idle.total_cmp(&b.idle)).map_or(CpuId(0), |cpu| cpu.cpu)
}
