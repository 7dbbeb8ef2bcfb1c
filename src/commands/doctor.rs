//! `rxlab doctor`: look for a while, say what is wrong, why, and what to try.

use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::source::{self, From, Source};
use super::{machine, progress};
use crate::cli::Global;
use crate::error::{CommandError, Kind};
use crate::host::Host;
use crate::model::{Model, Rates};
use crate::report::findings::{self, DoctorReport};
use crate::sample::{Counters, Inventory, Scope};
use crate::units::{NicName, parse_duration};

/// Find out what is wrong with the receive path, why, and what to try
///
/// Samples the counters twice. Exit code 0: nothing to do; 1: there are findings.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How long to look; a snapshot was looked at when it was taken
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    length: Duration,
    /// Only findings about this interface and about no interface in particular
    #[arg(long, value_name = "NIC")]
    nic: Option<NicName>,
    /// Write the plan of this name, such as rps, as a file for `rxlab apply` and `rxlab trial`
    #[arg(long, value_name = "NAME=FILE", value_parser = plan_out)]
    plan_out: Option<(String, std::path::PathBuf)>,
    #[command(flatten)]
    from: From,
}

/// CPU time is accounted in ticks of 10 ms: below ten of them nothing is certain.
const SHORTEST: Duration = Duration::from_millis(100);

fn plan_out(text: &str) -> Result<(String, std::path::PathBuf), String> {
    let (name, file) = text.split_once('=').ok_or("write NAME=FILE, such as rps=rps.toml")?;
    Ok((name.to_owned(), file.into()))
}

pub(super) fn run(global: &Global, args: &Args) -> Result<(), CommandError> {
    if args.length < SHORTEST {
        return Err(CommandError::usage("--for is too short to see anything: give at least 100ms"));
    }
    let source = source::open(global, &args.from)?;
    if let Some(name) = &args.nic {
        machine::nic(&machine::describe(&Inventory::take(source.host(), Scope::Path))?, name)?;
    }
    let mut report = match &source {
        Source::Live(host) => look(host, args.length, &AtomicBool::new(false))?,
        Source::Snapshot(snapshot) => {
            let first = Inventory::take(snapshot.first(), Scope::Counters);
            let before = Counters::take(snapshot.first(), &first);
            judge(&before, snapshot.last())?
        }
    };
    if let Some(name) = &args.nic {
        report.findings.retain(|finding| finding.nic.as_ref().is_none_or(|nic| nic == name));
        report.plans.retain(|proposal| proposal.nic == *name);
        report.paths.retain(|path| path.nic == *name);
    }
    let mut out = anstream::stdout().lock();
    if global.json {
        writeln!(out, "{}", super::json(&report)?)?;
    } else {
        write!(out, "{}", findings::text(&report))?;
    }
    if let Some((name, file)) = &args.plan_out {
        write_plan(&report, name, file)?;
    }
    if report.findings.is_empty() { Ok(()) } else { Err(CommandError::silent(Kind::Findings)) }
}

/// Two samples, `length` apart or less when `stop` is set meanwhile, and what they say.
pub(super) fn look(
    host: &dyn Host,
    length: Duration,
    stop: &AtomicBool,
) -> Result<DoctorReport, CommandError> {
    let inventory = Inventory::take(host, Scope::Counters);
    let before = Counters::take(host, &inventory);
    progress::wait("looking at the counters", length, stop);
    judge(&before, host)
}

/// What `host` says now, against counters of before. Settings may have changed meanwhile: those of now
/// are judged.
fn judge(before: &Counters, host: &dyn Host) -> Result<DoctorReport, CommandError> {
    let inventory = Inventory::take(host, Scope::Counters);
    let after = Counters::take(host, &inventory);
    let rates = Rates::between(before, &after)
        .map_err(|error| CommandError::usage(error).hint("doctor needs a running machine"))?;
    Ok(findings::doctor(&Model::new(&inventory), &rates.accounted(&inventory)))
}

fn write_plan(report: &DoctorReport, name: &str, file: &std::path::Path) -> Result<(), CommandError> {
    let Some(proposal) = report.plans.iter().find(|proposal| proposal.plan.name == name) else {
        let names: Vec<&str> = report.plans.iter().map(|proposal| proposal.plan.name.as_str()).collect();
        let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(CommandError::new(Kind::Findings, format!("no plan `{name}` was made"))
            .hint(format!("plans of this look: {there}")));
    };
    super::files::write(file, proposal.plan.to_toml().as_bytes())
}
