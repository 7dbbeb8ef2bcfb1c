//! `rxlab doctor`: samples the receive path and says what is wrong, why, and what to try.

mod since;
mod watch;

use std::io::Write;
use std::time::Duration;

use super::machine::{From, Source};
use super::{Global, look, machine, output, place, status};
use crate::apply::{Live, State, TransactionStatus, ValueStatus};
use crate::diagnose::Finding;
use crate::diagnose::figures::plural;
use crate::doctor::{self, DoctorReport};
use crate::error::{CommandError, Kind};
use crate::report::findings::{self, Detail};
use crate::report::text::clean;
use crate::sample::{Inventory, Scope};
use crate::units::{NicName, parse_duration};

/// Find out what is wrong with the receive path, why, and what to try
///
/// Samples the counters twice. Prints as much as fits on a screen of 24 lines, the worst first; -v prints everything.
/// Exit code 0: nothing to do, only notes (-) without a plan, or no verdict; 1: there are other findings.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Length of the sample; a snapshot has its own interval
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    length: Duration,
    /// Only findings about this interface or about no interface in particular
    #[arg(long, value_name = "NIC")]
    nic: Option<NicName>,
    /// Write the plan of this name, such as rps, as a file for `rxlab apply` and `rxlab trial`
    #[arg(long, value_name = "NAME=FILE", value_parser = plan_out)]
    plan_out: Option<(String, std::path::PathBuf)>,
    /// Print everything: all evidence, all plans, each CPU that receives, and for every setting why it is or is not
    /// worth a trial
    #[arg(short, long)]
    verbose: bool,
    /// Sample repeatedly, each time for --for, until Ctrl-C; print a line when a finding appears or gets worse, or was
    /// milder or gone in two samples in a row. The exit code is that of the last sample
    #[arg(long, conflicts_with_all = ["plan_out", "verbose", "snapshot"])]
    watch: bool,
    #[command(flatten)]
    cost: look::Cost,
    #[command(flatten)]
    from: From,
}

fn plan_out(text: &str) -> Result<(String, std::path::PathBuf), String> {
    let (name, file) = text.split_once('=').ok_or("write NAME=FILE, such as rps=rps.toml")?;
    Ok((name.to_owned(), file.into()))
}

pub(super) fn run(global: &Global, args: &Args) -> Result<(), CommandError> {
    let source = Source::open(global, &args.from)?;
    if let Some(name) = &args.nic {
        machine::nic(&machine::describe(&Inventory::take(source.host(), Scope::Path))?, name)?;
    }
    if let (true, Source::Live(host)) = (args.watch, &source) {
        return watch::run(global, host, (args.length, args.cost.budget), args.nic.as_ref());
    }
    let stop = place::stop_flag()?;
    let (model, rates) = look::look(&source, args.length, args.cost.budget, &stop)?;
    let mut report = doctor::doctor(&model, &rates, &global.program());
    if let Some(nic) = args.nic.as_ref().and_then(|name| model.nic(name)) {
        report.only(&model, nic);
    }
    match status::transactions(global, &source) {
        Ok((all, _)) => {
            report.since = since::since(&all, &rates);
            report.notes.splice(0..0, drifted(&all, args.nic.as_ref()));
        }
        Err(error) => {
            report.notes.insert(0, clean(&format!("values set by rxlab are unknown: {}", error.message)))
        }
    }
    let printed = print(global, &report, args.verbose);
    if let Some((name, file)) = &args.plan_out {
        write_plan(&report, name, file)?;
    }
    let calls = report.findings.iter().any(Finding::calls);
    let ended = if calls { Err(CommandError::silent(Kind::Findings)) } else { Ok(()) };
    CommandError::after_output(look::ended(&stop, ended), printed)
}

fn print(global: &Global, report: &DoctorReport, verbose: bool) -> Result<(), CommandError> {
    let mut out = output::stdout(global);
    if global.json {
        writeln!(out, "{}", super::json(report)?)?;
    } else {
        let detail = if verbose { Detail::All } else { Detail::Screen };
        write!(out, "{}", findings::text(report, detail, &global.program()))?;
    }
    Ok(())
}

/// Number of values set by rxlab that are no longer in effect: they may be the cause of a finding. Transactions that
/// are being applied, or were left half applied, are skipped: their values may not have been set yet.
fn drifted(all: &[TransactionStatus], nic: Option<&NicName>) -> Option<String> {
    let settled = all.iter().filter(|transaction| transaction.state != State::Unfinished);
    let ours = |value: &&ValueStatus| {
        nic.is_none_or(|nic| concerns(value.target.nic(), nic)) && !matches!(value.live, Live::Covered { .. })
    };
    let values: Vec<&ValueStatus> =
        settled.flat_map(|transaction| &transaction.values).filter(ours).collect();
    let is_gone =
        |value: &&&ValueStatus| matches!(value.live, Live::Original | Live::Drifted { .. } | Live::Gone);
    let gone = values.iter().filter(is_gone).count();
    (gone > 0).then(|| {
        format!(
            "{gone} of {} set by rxlab {} no longer in effect: \
             `rxlab status` shows which, and who probably did it",
            plural(values.len(), "value"),
            if gone == 1 { "is" } else { "are" }
        )
    })
}

/// True if something about interface `of`, or about none in particular, concerns `nic`.
fn concerns(of: Option<&NicName>, nic: &NicName) -> bool {
    of.is_none_or(|of| of == nic)
}

fn write_plan(report: &DoctorReport, name: &str, file: &std::path::Path) -> Result<(), CommandError> {
    let Some(proposal) = report.plans.iter().find(|proposal| proposal.plan.name == name) else {
        let names: Vec<&str> = report.plans.iter().map(|proposal| proposal.plan.name.as_str()).collect();
        let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(CommandError::new(Kind::Findings, format!("this sample gave no plan `{name}`"))
            .hint(format!("plans of this sample: {there}")));
    };
    super::files::write(file, proposal.plan.to_toml().as_bytes())
}
