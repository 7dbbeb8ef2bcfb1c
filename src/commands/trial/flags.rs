//! The flags of `rxlab trial run`: a specification in the simple case.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use super::finish::After;
use crate::commands::look::Cost;
use crate::commands::typed::netns;
use crate::commands::typed::number_of;
use crate::commands::{Global, apply};
use crate::error::{CommandError, Result};
use rxlab_advise::plan::candidates::Searched;
use rxlab_base::units::{CpuId, CpuMask, NicName, parse_duration, parse_share};
use rxlab_load::{Rate, Url};
use rxlab_setting::Setting;
use rxlab_stats::looks;
use rxlab_sys::netns_path;
use rxlab_trial::spec::{
    Candidates, Change, Design, Kind, MAX_NAME, Probe, Seconds, Spec, SpecError, Workload, is_name_char,
};

/// Run a trial from a specification file, or from flags in the simple case
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The specification (TOML); docs/trials.md describes it
    #[arg(value_name = "SPEC", conflicts_with_all = ["flags", "load_flags", "pairs", "min_pairs", "budget"])]
    pub(super) spec: Option<PathBuf>,
    /// Repeat the trial of this id (see `rxlab trial list`) with a new seed; --pairs and --min-pairs give it more pairs
    #[arg(long, value_name = "ID", conflicts_with_all = ["flags", "load_flags", "budget", "spec"])]
    pub(super) again: Option<String>,
    /// Sample for 20 s, print how long the trial would take, and change nothing
    #[arg(long)]
    pub(super) plan_only: bool,
    /// Pairs after which the trial ends undecided [default: 40, up to 100 if shorter slots are chosen]
    #[arg(long, value_name = "N")]
    pub(super) pairs: Option<usize>,
    /// Pairs before the trial may stop early [default: 9]
    #[arg(long, value_name = "N")]
    pub(super) min_pairs: Option<usize>,
    #[command(flatten)]
    flags: Flags,
    #[command(flatten)]
    pub(super) cost: Cost,
    #[command(flatten)]
    pub(super) after: After,
}

/// A specification in flags; a file or an earlier trial replaces them.
#[derive(Debug, clap::Args)]
#[group(id = "flags")]
struct Flags {
    /// Arm B: a value, such as 'rps eth0/rx-0 = 2-7'; may be given several times
    #[arg(long, value_name = "SETTING")]
    set: Vec<Setting>,
    /// Arm B: a plan file
    #[arg(long, value_name = "PLAN")]
    plan: Option<String>,
    /// Shell command that sets arm A
    #[arg(long, value_name = "COMMAND", requires = "b")]
    a: Option<String>,
    /// Shell command that sets arm B
    #[arg(long, value_name = "COMMAND", requires = "a")]
    b: Option<String>,
    /// Find the best of the values that the machine's topology suggests for --nic
    #[arg(long, value_name = "WHAT", value_enum, requires = "nic", conflicts_with_all = ["set", "plan", "a", "b", "metric"])]
    search: Option<Search>,
    #[command(flatten)]
    load: LoadFlags,
    /// Run this shell command in each slot; it prints a number, or a JSON object of metrics
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,
    /// Generate no load: judge the machine's own traffic
    #[arg(long)]
    live: bool,
    /// With --live: the interface whose packets count; with --search: the one to find values for
    #[arg(long, value_name = "NIC")]
    nic: Option<NicName>,
    /// Name of the trial, one word [default: that of its plan, or `trial`]
    #[arg(long, value_name = "WORD")]
    name: Option<String>,
    /// A/A pairs (nothing is flipped) before the others, to check the method on this machine
    #[arg(long, value_name = "N", default_value_t = 0)]
    calibration: usize,
    /// Settling time before each slot
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_duration)]
    washout: Duration,
    /// Length of a slot [default: chosen from a sample of 20 s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    measure: Option<Duration>,
    /// Shortest slot that the sample may choose, down to 100ms, with a --washout as short [default: 500ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "measure")]
    shortest: Option<Duration>,
    /// Decide as well as possible within this time, sample included, and say beforehand what that can show
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with_all = ["pairs", "calibration"])]
    time: Option<Duration>,
    /// Differences below this share do not matter
    #[arg(long, value_name = "SHARE", default_value = "3%", value_parser = parse_share)]
    margin: f64,
    /// Seed of the random order
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Name of the primary metric
    #[arg(long, value_name = "METRIC")]
    primary: Option<String>,
    /// A metric of the probe in addition to the usual ones, such as net_rx.ns_per_packet; may be given several times
    #[arg(long, value_name = "METRIC")]
    metric: Vec<String>,
    /// CPU of the probe thread that interference.inferred needs
    #[arg(long, value_name = "CPU")]
    spin: Option<u32>,
}

/// The built-in load in flags.
#[derive(Debug, clap::Args)]
#[group(id = "load_flags")]
pub(in crate::commands) struct LoadFlags {
    /// Run the built-in load against this URL; for its other settings use a specification
    #[arg(long, value_name = "URL")]
    load: Option<Url>,
    /// Connections or flows of the load
    #[arg(long, value_name = "N", default_value_t = 64, requires = "load", value_parser = number_of)]
    connections: usize,
    /// Requests per second of the load; without it, a closed loop
    #[arg(long, value_name = "R", requires = "load")]
    rate: Option<Rate>,
    /// CPUs of the load
    #[arg(long, value_name = "LIST", requires = "load")]
    cpus: Option<CpuMask>,
    /// Namespace of the load's sockets, in the form of --netns
    #[arg(long, value_name = "NS", requires = "load", value_parser = netns)]
    load_netns: Option<String>,
}

impl LoadFlags {
    /// The load that the flags describe.
    pub(in crate::commands) fn spec(&self) -> Option<rxlab_load::Spec> {
        let mut spec = rxlab_load::Spec::new(self.load.clone()?);
        spec.connections = self.connections;
        spec.rate = self.rate.clone();
        spec.cpus = self.cpus.clone().unwrap_or_default();
        spec.netns = self.load_netns.as_deref().map(netns_path);
        Some(spec)
    }
}

/// Kind of setting whose values `--search` tries.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Search {
    /// RPS masks
    Rps,
    /// RFS tables
    Rfs,
    /// CPUs of interrupts
    IrqPlacement,
    /// Interrupt moderation
    Moderation,
    /// Numbers of queues
    Queues,
    /// Kernel threads that poll
    ThreadedNapi,
}

impl From<Search> for Searched {
    fn from(search: Search) -> Self {
        match search {
            Search::Rps => Self::Rps,
            Search::Rfs => Self::Rfs,
            Search::IrqPlacement => Self::IrqPlacement,
            Search::Moderation => Self::Moderation,
            Search::Queues => Self::Queues,
            Search::ThreadedNapi => Self::ThreadedNapi,
        }
    }
}

fn name(global: &Global, flags: &Flags) -> Result<String> {
    let of_plan = match (&flags.name, &flags.plan) {
        (Some(name), _) => return Ok(name.clone()),
        (None, Some(path)) => word(&apply::read_plan(global, path.as_ref())?.name),
        (None, None) => flags
            .search
            .and_then(|search| search.to_possible_value())
            .map_or_else(String::new, |value| value.get_name().to_owned()),
    };
    Ok(if of_plan.is_empty() { "trial".to_owned() } else { of_plan })
}

fn candidates(flags: &Flags) -> Option<Candidates> {
    Some(Candidates { of: flags.search?.into(), nic: flags.nic.clone()? })
}

/// `name` with invalid characters replaced by dashes, cut to the length limit of a trial's name.
fn word(name: &str) -> String {
    let name: String = name.chars().map(|c| if is_name_char(c) { c } else { '-' }).take(MAX_NAME).collect();
    name.trim_matches('-').to_owned()
}

/// Returns the specification that the flags describe.
pub(super) fn from_flags(global: &Global, args: &Args) -> Result<Spec> {
    let flags = &args.flags;
    let load = flags.load.spec();
    let spec = Spec {
        name: name(global, flags)?,
        change: Change {
            set: flags.set.clone(),
            against: Vec::new(),
            plan: flags.plan.clone(),
            a: flags.a.clone(),
            b: flags.b.clone(),
        },
        candidates: candidates(flags),
        workload: Workload { load, command: flags.command.clone(), live: flags.live, nic: flags.nic.clone() },
        design: Design {
            kind: if flags.search.is_some() { Kind::Search } else { Kind::Pairs },
            seed: flags.seed,
            pairs: args.pairs,
            min_pairs: args.min_pairs.unwrap_or(looks::FIRST).min(args.pairs.unwrap_or(looks::PAIRS)),
            calibration: flags.calibration,
            margin: flags.margin,
            washout: Seconds(flags.washout),
            measure: flags.measure.map(Seconds),
            shortest: flags.shortest.map(Seconds),
            time: flags.time.map(Seconds),
            primary: flags.primary.clone(),
            metrics: flags.metric.clone(),
            ..Design::default()
        },
        probe: Probe { spin: flags.spin.map(CpuId), budget: args.cost.budget, ..Probe::default() },
        ..Spec::default()
    };
    spec.check().map_err(|error| match error {
        SpecError::Change(which) => CommandError::usage(format!("the trial {which}"))
            .hint("give a SPEC file, or one of --set, --plan, --search, or --a and --b"),
        SpecError::Workload => CommandError::usage("no workload, or more than one")
            .hint("--live judges the machine's own traffic; --load URL or --command COMMAND generates some"),
        error => CommandError::usage(error),
    })?;
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn a_plan_name_becomes_a_word() {
        assert_eq!(word("numa-local.rps+rfs"), "numa-local.rps+rfs");
        assert_eq!(word("rps eth0/rx-0 = 2-7"), "rps-eth0-rx-0---2-7");
        assert_eq!(word(&"x".repeat(60)).len(), 40);
        assert_eq!((word(" / "), word("")), (String::new(), String::new()));
    }

    /// Without `default_value_t`, because `--again` keeps what the trial had.
    #[test]
    fn the_default_in_words_is_that_of_the_rule() {
        let root = crate::commands::tree::command();
        let run =
            ["trial", "run"].iter().fold(&root, |at, name| at.find_subcommand(name).expect("a command"));
        let flag = run.get_arguments().find(|arg| arg.get_long() == Some("min-pairs")).expect("a flag");
        let help = flag.get_help().expect("help").to_string();
        assert!(help.contains(&format!("[default: {}]", rxlab_stats::looks::FIRST)), "{help}");
    }
}
