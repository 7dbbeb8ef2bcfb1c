//! `rxlab doctor`: samples the receive path and says what is wrong, why, and what to try.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::machine::{From, Source};
use super::typed::sample_time;
use super::{Global, elsewhere, files, look, output, place, plan, status};
use crate::error::{CommandError, Kind, Result};
use rxlab_advise::diagnose::{Finding, diagnose};
use rxlab_advise::doctor::{self, Alerts, DoctorReport, Since};
use rxlab_base::grammar::sh;
use rxlab_base::number::plural;
use rxlab_base::units::{NicName, rfc3339};
use rxlab_change::apply::{Live, State, TransactionStatus, ValueStatus};
use rxlab_faces::report::document::{Document, Part};
use rxlab_faces::report::findings;
use rxlab_faces::report::html;
use rxlab_faces::report::text::clean;
use rxlab_path::evidence::receiving;
use rxlab_path::model::Rates;
use rxlab_probe::Budget;
use rxlab_sys::LiveHost;

/// Find out what is wrong with the receive path, why, and what to try
///
/// Samples the counters twice. Prints the answer, a picture of the CPUs and what to do, on one screen; -v prints everything.
/// Exit code 0: nothing to do, only notes (-) without a plan, or no verdict; 1: there are other findings.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Length of the sample; a snapshot has its own interval
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = sample_time)]
    length: Duration,
    /// Only findings about this interface or about no interface in particular
    #[arg(long, value_name = "NIC")]
    nic: Option<NicName>,
    /// The interface, as with --nic
    #[arg(value_name = "NIC", conflicts_with = "nic")]
    interface: Option<NicName>,
    /// Write the plan of this name, such as rps, as a file for `rxlab apply` and `rxlab trial`
    #[arg(long, value_name = "NAME=FILE", value_parser = plan_out)]
    plan_out: Option<(String, std::path::PathBuf)>,
    /// Write the same as one HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<std::path::PathBuf>,
    /// Print everything: all evidence, all plans, each CPU that receives, and for every setting why it is or is not
    /// worth a trial
    #[arg(short, long)]
    verbose: bool,
    /// Sample repeatedly, each time for --for, until Ctrl-C; print a line when a finding appears or gets worse, and when
    /// it was milder or gone in two samples in a row. The exit code is that of the last sample
    #[arg(long, conflicts_with_all = ["plan_out", "html", "verbose", "snapshot", "at"])]
    watch: bool,
    #[command(flatten)]
    cost: look::Cost,
    #[command(flatten)]
    from: From,
}

impl Args {
    fn nic(&self) -> Option<&NicName> {
        self.nic.as_ref().or(self.interface.as_ref())
    }

    /// The command that prints everything about the same machine.
    fn in_full(&self, program: &str) -> String {
        let nic = self.nic().map_or(String::new(), |nic| format!(" --nic {}", sh::word(nic.as_str())));
        format!("{program} doctor -v{nic}{}", self.from.options())
    }
}

fn plan_out(text: &str) -> Result<(String, std::path::PathBuf), String> {
    let (name, file) = text.split_once('=').ok_or("write NAME=FILE, such as rps=rps.toml")?;
    Ok((name.to_owned(), file.into()))
}

pub(super) fn run(global: &Global, args: &Args) -> Result {
    args.html.as_deref().map_or(Ok(()), files::check)?;
    let source = Source::open(global, &args.from, args.length)?;
    let nic = args.nic();
    source.check_nic(nic)?;
    if let (true, Source::Live(host)) = (args.watch, &source) {
        return watch(global, host, (args.length, args.cost.budget), nic);
    }
    let stop = place::stop_flag()?;
    let (model, rates) = look::look(&source, args.length, args.cost.budget, &stop)?;
    let mut report = doctor::doctor(&model, &rates, &global.program());
    if let Some(nic) = nic.and_then(|name| model.nic(name)) {
        report.only(&model, nic);
    }
    match status::transactions(global, &source) {
        Ok((all, _)) => {
            report.since = since(&all, &rates);
            report.notes.splice(0..0, drifted(&all, nic));
        }
        Err(error) => {
            report.notes.insert(0, format!("it is unknown which values rxlab has set: {}", error.message))
        }
    }
    (report.taken, report.recorded) = source.taken();
    elsewhere::complete(global, &source, &mut report);
    let program = global.program();
    if let Some(file) = &args.html {
        let page = Document::new(vec![Part::Doctor(Box::new(report.clone()))]);
        files::write(file, html::render(&page, Some(&program)).as_bytes())?;
    }
    let printed = output::print(global, &report, || {
        let text = if args.verbose {
            findings::everything(&report, &program)
        } else {
            findings::text(&report, Some(&args.in_full(&program)))
        };
        let written = args.html.as_ref().map(|file| format!("report: {}\n", file.display()));
        text + &written.unwrap_or_default()
    });
    if let Some((name, file)) = &args.plan_out {
        write_plan(global, &report, name, file)?;
    }
    let calls = report.findings.iter().any(Finding::needs_attention);
    let ended = if calls { Err(CommandError::silent(Kind::Findings)) } else { Ok(()) };
    CommandError::after_output(look::ended(&stop, ended), printed)
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

/// Compares the figures that a plan was predicted from with those of this sample, for the newest transaction that has
/// such figures and whose values all hold. `None` without one, or if its CPU or an interface of it is gone.
fn since(transactions: &[TransactionStatus], rates: &Rates) -> Option<Since> {
    let holds = |transaction: &&TransactionStatus| {
        transaction.state != State::Unfinished
            && transaction.values.iter().all(|value| value.live == Live::Kept)
    };
    let newest = transactions.iter().filter(holds).rfind(|transaction| transaction.seen.is_some())?;
    let seen = newest.seen?;
    let nics: BTreeSet<_> = newest.values.iter().filter_map(|value| value.target.nic()).collect();
    let packets: Option<f64> = nics.iter().map(|nic| Some(rates.nic(nic)?.rx_packets)).sum();
    let started: jiff::Timestamp = newest.started.parse().ok()?;
    Some(Since {
        transaction: newest.id.clone(),
        what: newest.what.clone(),
        seconds: jiff::Timestamp::now().duration_since(started).as_secs_f64().max(0.0),
        cpu: seen.cpu,
        receive_before: f64::from(seen.receive_percent) / 100.0,
        receive: receiving(rates.cpu(seen.cpu)?),
        packets_before: seen.packets as f64,
        packets: packets.filter(|_| !nics.is_empty())?,
    })
}

fn write_plan(global: &Global, report: &DoctorReport, name: &str, file: &std::path::Path) -> Result {
    let Some(proposal) = report.plans.iter().find(|proposal| proposal.plan.name == name) else {
        let names: Vec<&str> = report.plans.iter().map(|proposal| proposal.plan.name.as_str()).collect();
        let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(CommandError::new(Kind::Findings, format!("this sample gave no plan `{name}`"))
            .hint(format!("plans of this sample: {there}")));
    };
    let plan = plan::of_namespace(global, proposal.plan.clone());
    files::write(file, plan.to_toml().as_bytes())
}

/// Takes samples of `length` until interrupted, and prints a line when a finding appears, changes its severity or clears;
/// the exit code is that of the last complete sample.
fn watch(
    global: &Global,
    host: &LiveHost,
    (length, budget): (Duration, Budget),
    nic: Option<&NicName>,
) -> Result {
    let stop = place::stop_flag()?;
    let mut alerts = Alerts::default();
    loop {
        let looked = look::for_a_while(host, length, budget, &stop);
        // An interrupted sample does not count: its figures are of a shorter time than asked for.
        if stop.load(Ordering::SeqCst) {
            return verdict(&alerts);
        }
        let (model, rates) = looked?;
        let mut findings = diagnose(&model, &rates);
        if let Some(nic) = nic.and_then(|name| model.nic(name)) {
            let carriers = model.carriers(nic);
            let concerns =
                |name: &NicName| std::iter::once(&nic).chain(&carriers).any(|one| one.name == *name);
            findings.retain(|finding| finding.nic.as_ref().is_none_or(concerns));
        }
        let time = rfc3339(jiff::Timestamp::now());
        for alert in alerts.update(&findings, &time) {
            if output::line(global, &alert, || clean(&alert.in_one_line()) + "\n")? {
                return verdict(&alerts);
            }
        }
    }
}

fn verdict(alerts: &Alerts) -> Result {
    if alerts.needs_attention() { Err(CommandError::silent(Kind::Findings)) } else { Ok(()) }
}
