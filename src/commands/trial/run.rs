//! `rxlab trial run` and `rxlab trial resume`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use super::conduct::{Conduct, conduct, foretell, store_error};
use crate::apply;
use crate::cli::Global;
use crate::commands::machine::{self, Machine};
use crate::commands::{files, load, place};
use crate::error::{CommandError, Kind};
use crate::host::netns_path;
use crate::load::{Session, Url};
use crate::plan::{Plan, PlannedSetting, Setting};
use crate::report;
use crate::trial::factor::Kept;
use crate::trial::monitor::FIRST_LOOK;
use crate::trial::perform::Outcome;
use crate::trial::record::{TrialRecord, Verdict};
use crate::trial::spec::{Change, Design, Guards, Seconds, Spec, SpecError, Workload};
use crate::trial::store::TrialDir;
use crate::trial::workload::Driver;
use crate::units::{CpuMask, NicName, parse_duration};

/// The flags that stand for a specification; beside one they would be ignored.
const BY_FLAGS: [&str; 21] = [
    "set",
    "plan",
    "a",
    "b",
    "load",
    "connections",
    "rate",
    "cpus",
    "load_netns",
    "command",
    "live",
    "nic",
    "name",
    "pairs",
    "min_pairs",
    "calibration",
    "washout",
    "measure",
    "margin",
    "seed",
    "primary",
];

/// Run a trial from a specification file, or from flags in the simple case
#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// The specification (TOML); docs/statistics.md and README.md describe it
    #[arg(value_name = "SPEC", conflicts_with_all = BY_FLAGS)]
    spec: Option<PathBuf>,
    /// Arm B: a value, such as 'rps eth0/rx-0 = 2-7'; may be given several times
    #[arg(long, value_name = "SETTING")]
    set: Vec<Setting>,
    /// Arm B: a plan file
    #[arg(long, value_name = "PLAN")]
    plan: Option<String>,
    /// Shell command that makes arm A
    #[arg(long, value_name = "COMMAND", requires = "b")]
    a: Option<String>,
    /// Shell command that makes arm B
    #[arg(long, value_name = "COMMAND", requires = "a")]
    b: Option<String>,
    /// Drive the built-in load at this URL; for its other settings use a specification
    #[arg(long, value_name = "URL")]
    load: Option<Url>,
    /// Connections or flows of the load
    #[arg(long, value_name = "N", default_value_t = 64, requires = "load")]
    connections: usize,
    /// Requests a second of the load; closed loop without it
    #[arg(long, value_name = "R", requires = "load")]
    rate: Option<f64>,
    /// CPUs of the load
    #[arg(long, value_name = "LIST", requires = "load")]
    cpus: Option<CpuMask>,
    /// Namespace of the load's sockets, as --netns
    #[arg(long, value_name = "NS", requires = "load")]
    load_netns: Option<String>,
    /// Run this shell command in each slot: it prints a number, or a JSON object of metrics
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,
    /// Drive nothing: judge the machine's own traffic
    #[arg(long)]
    live: bool,
    /// Interface whose packets count, for --live
    #[arg(long, value_name = "NIC")]
    nic: Option<NicName>,
    /// A word for the trial
    #[arg(long, value_name = "WORD", default_value = "trial")]
    name: String,
    /// Pairs at which the trial ends undecided
    #[arg(long, value_name = "N", default_value_t = 40)]
    pairs: usize,
    /// Pairs before the trial may stop early
    #[arg(long, value_name = "N", default_value_t = FIRST_LOOK)]
    min_pairs: usize,
    /// Pairs with nothing flipped, to learn the noise; 0 = none
    #[arg(long, value_name = "N", default_value_t = 20)]
    calibration: usize,
    /// Settling time before each slot
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_duration)]
    washout: Duration,
    /// Length of a slot
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    measure: Duration,
    /// Differences below this fraction do not matter
    #[arg(long, value_name = "FRACTION", default_value_t = 0.03)]
    margin: f64,
    /// Seed of the coins
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Name of the primary metric
    #[arg(long, value_name = "METRIC")]
    primary: Option<String>,
    #[command(flatten)]
    after: After,
}

/// What happens after the last slot.
#[derive(Debug, clap::Args)]
struct After {
    /// Leave the change in place if it is proven to help
    #[arg(long)]
    keep: bool,
    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Go on with a trial that was interrupted or killed
#[derive(Debug, clap::Args)]
pub(super) struct ResumeArgs {
    /// Its id, as `rxlab trial list` shows it
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    after: After,
}

pub(super) fn run(global: &Global, args: &RunArgs) -> Result<(), CommandError> {
    let spec = match &args.spec {
        Some(path) => Spec::parse(&files::read("specification", path)?)
            .map_err(|error| CommandError::usage(format!("{}: {error}", path.display())))?,
        None => from_flags(args)?,
    };
    let machine = machine::open(global)?;
    let settings = settings(&machine, &spec)?;
    let stop = place::stop_flag()?;
    let driver = driver(&spec)?;
    let dir = TrialDir::create(&global.state_dir, &spec.name).map_err(|error| store_error(&error))?;
    let (spec, machine, keep) = (&spec, &machine, args.after.keep);
    let trial = Conduct { spec, machine, settings, driver, dir, resumed: None, keep, stop: &stop };
    finish(global, trial, &args.after)
}

pub(super) fn resume(global: &Global, args: &ResumeArgs) -> Result<(), CommandError> {
    let dir = TrialDir::open(&global.state_dir, &args.id).map_err(|error| store_error(&error))?;
    let spec = dir.spec().map_err(|error| store_error(&error))?;
    let record = dir.record().map_err(|error| store_error(&error))?;
    if record.analysis.as_ref().is_some_and(|analysis| analysis.verdict != Verdict::Interrupted) {
        return Err(CommandError::usage(format!("trial {} is finished", record.id))
            .hint("`rxlab trial show` prints it; `rxlab trial run` starts another"));
    }
    let machine = machine::open(global)?;
    if record.host.boot_id != machine.model.identity.boot_id {
        let message = format!("trial {} belongs to another boot or another machine", record.id);
        return Err(
            CommandError::new(Kind::Changed, message).hint("its slots cannot be compared with new ones")
        );
    }
    let settings = settings(&machine, &spec)?;
    // The plan is a file of its own: it may say something else by now.
    let change: Vec<String> = settings.iter().map(ToString::to_string).collect();
    if spec.change.plan.is_some() && change != record.change {
        let message = format!("the plan of trial {} has changed since it began", record.id);
        return Err(CommandError::new(Kind::Changed, message).hint("start another with `rxlab trial run`"));
    }
    let stop = place::stop_flag()?;
    let driver = driver(&spec)?;
    let (spec, machine, keep) = (&spec, &machine, args.after.keep);
    let trial = Conduct { spec, machine, settings, driver, dir, resumed: Some(record), keep, stop: &stop };
    finish(global, trial, &args.after)
}

fn from_flags(args: &RunArgs) -> Result<Spec, CommandError> {
    let load = args.load.clone().map(|url| {
        let mut spec = crate::load::Spec::new(url);
        spec.connections = args.connections;
        spec.rate = args.rate;
        spec.cpus = args.cpus.clone().unwrap_or_default();
        spec.netns = args.load_netns.as_deref().map(netns_path);
        spec
    });
    let spec = Spec {
        name: args.name.clone(),
        change: Change {
            set: args.set.clone(),
            plan: args.plan.clone(),
            a: args.a.clone(),
            b: args.b.clone(),
        },
        workload: Workload { load, command: args.command.clone(), live: args.live, nic: args.nic.clone() },
        design: Design {
            seed: args.seed,
            pairs: args.pairs,
            min_pairs: args.min_pairs.min(args.pairs),
            calibration: args.calibration,
            margin: args.margin,
            washout: Seconds(args.washout),
            measure: Seconds(args.measure),
            primary: args.primary.clone(),
        },
        guards: Guards::default(),
    };
    spec.check().map_err(|error| match error {
        SpecError::Change | SpecError::Workload => CommandError::usage(error)
            .hint("give a SPEC file, or --set, --plan or --a/--b, and --load, --command or --live"),
        error => CommandError::usage(error),
    })?;
    Ok(spec)
}

/// The settings of arm B, checked against the machine and in the order of applying; none when the
/// factor is a pair of commands.
fn settings(machine: &Machine, spec: &Spec) -> Result<Vec<Setting>, CommandError> {
    if let Some(nic) = &spec.workload.nic {
        machine::nic(&machine.model, nic)?;
    }
    let plan = match &spec.change.plan {
        Some(path) => Plan::from_toml(&files::read("plan", path.as_ref())?)
            .map_err(|error| CommandError::usage(format!("{path}: {error}")))?,
        None => {
            let planned =
                |set: &Setting| PlannedSetting { set: set.clone(), why: String::new(), device: None };
            Plan {
                schema: Plan::SCHEMA.to_owned(),
                name: spec.name.clone(),
                host: None,
                settings: spec.change.set.iter().map(planned).collect(),
                notes: Vec::new(),
            }
        }
    };
    if let Some(nic) = &spec.workload.nic {
        machine::nic(&machine.model, nic)?;
    }
    if plan.settings.is_empty() {
        return Ok(Vec::new());
    }
    let settings = apply::check(&machine.model, &plan).map_err(place::apply_error)?;
    let changes = apply::preview(&machine.host, &machine.model, &settings).map_err(place::apply_error)?;
    if changes.iter().all(|change| !change.needed) {
        return Err(CommandError::new(
            Kind::Changed,
            "the machine is already set so: both arms would be the same",
        )
        .hint("if rxlab set it (see `rxlab status`), run `rxlab undo` first; else try another value"));
    }
    Ok(settings)
}

fn driver(spec: &Spec) -> Result<Driver, CommandError> {
    Ok(match (&spec.workload.load, &spec.workload.command) {
        (Some(load), _) => Driver::Load(Session::start(load).map_err(load::explain)?),
        (None, Some(command)) => Driver::Command(command.clone()),
        (None, None) => Driver::Live,
    })
}

/// Runs the trial, says what came out, and gives the exit code.
fn finish(global: &Global, trial: Conduct<'_>, after: &After) -> Result<(), CommandError> {
    let place = trial.dir.path().display().to_string();
    foretell(&trial)?;
    let commands = trial.settings.is_empty();
    let Outcome { record, undo, kept } = conduct(global, trial)?;
    let mut out = anstream::stdout().lock();
    if global.json {
        writeln!(out, "{}", super::super::json(&record)?)?;
    } else {
        write!(out, "{}", report::trial_text::render(std::slice::from_ref(&record)))?;
        match &kept {
            Some(Kept::Settings(id)) => writeln!(out, "kept: `rxlab undo {id}` puts it back")?,
            Some(Kept::Commands) => writeln!(out, "kept: the command of arm B was the last to run")?,
            None if commands => writeln!(out, "the machine was left in arm A")?,
            None if undo.as_ref().is_none_or(crate::apply::Undo::is_clean) => {
                writeln!(out, "the machine is as it was before the trial")?;
            }
            None => {}
        }
        writeln!(out, "record: {place}")?;
    }
    if let Some(path) = &after.html {
        super::show::write_html(path, std::slice::from_ref(&record))?;
    }
    if let Some(undo) = undo.filter(|undo| !undo.is_clean()) {
        return Err(CommandError::new(Kind::Changed, "not every value could be put back")
            .hint(format!("look with `rxlab status`, try again with `rxlab undo {}`", undo.id)));
    }
    exit(&record)
}

/// A guard that tripped is a finding; an interrupt says so to scripts.
fn exit(record: &TrialRecord) -> Result<(), CommandError> {
    match record.analysis.as_ref().map(|analysis| &analysis.verdict) {
        Some(Verdict::GuardTripped { .. }) => Err(CommandError::silent(Kind::Findings)),
        Some(Verdict::Interrupted) => Err(CommandError::silent(Kind::Interrupted)),
        Some(Verdict::NotApplied { .. }) => Err(CommandError::silent(Kind::Changed)),
        _ => Ok(()),
    }
}
