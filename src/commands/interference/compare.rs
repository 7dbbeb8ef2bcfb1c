//! `rxlab interference --compare A B`: flips two setups in random order and finds which one disturbs less.

use std::time::Duration;

use crate::commands::trial::{Conduct, conduct, exit, put_back, ready};
use crate::commands::{Global, leftovers, machine, output, place};
use crate::error::{CommandError, Result};
use rxlab_base::units::{CpuId, parse_duration, parse_share};
use rxlab_faces::report::compare;
use rxlab_trial::compare::{Comparison, MEASURES};
use rxlab_trial::probed;
use rxlab_trial::setup::{Setup, change};
use rxlab_trial::spec::{Change, Design, Probe, Seconds, Spec, Workload};
use rxlab_trial::store::TrialDir;

/// The two setups, and the design of the comparison.
#[derive(Debug, clap::Args)]
pub(super) struct Pair {
    /// Flip two setups and say which disturbs less: `as-is`, settings separated by `;`, or `cmd: COMMAND`
    #[arg(long, value_names = ["A", "B"], num_args = 2, allow_hyphen_values = true, conflicts_with_all = ["with", "tier"])]
    compare: Vec<Setup>,
    /// Pairs of slots, one of each setup, for --compare
    #[arg(long, value_name = "N", default_value_t = 12, requires = "compare")]
    pairs: usize,
    /// Settling time before each slot of --compare
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = parse_duration, requires = "compare")]
    washout: Duration,
    /// Differences below this share do not matter to --compare
    #[arg(long, value_name = "SHARE", default_value = "3%", value_parser = parse_share, requires = "compare")]
    margin: f64,
    /// Seed of the random order of --compare
    #[arg(long, value_name = "N", requires = "compare")]
    seed: Option<u64>,
}

impl Pair {
    pub(super) fn is_asked(&self) -> bool {
        !self.compare.is_empty()
    }
}

pub(super) fn run(global: &Global, args: &Pair, length: Duration, cpu: Option<CpuId>, probe: bool) -> Result {
    let [a, b] = args.compare.as_slice() else {
        return Err(CommandError::usage("--compare takes two setups"));
    };
    let spec = spec(args, change(a, b).map_err(CommandError::usage)?, length, cpu, probe);
    spec.check().map_err(CommandError::usage)?;
    leftovers::clear(global)?;
    let machine = machine::open(global)?;
    let stop = place::stop_flag()?;
    let ready = ready(global, &machine, &spec)?;
    let dir = TrialDir::create(&global.state_dir, &spec.name)?;
    let (spec, machine) = (&spec, &machine);
    let trial = Conduct { spec, machine, ready, dir, keep: false, stop: &stop };
    let outcome = conduct(global, trial, None)?;
    let left = match &outcome.undo {
        Some(undo) if !undo.is_clean() => None,
        _ if spec.change.a.is_some() => Some("the machine was left in the state of A's command"),
        _ => Some("the machine is as it was before"),
    };
    let printed = match Comparison::new(&outcome.record) {
        Some(comparison) => print(global, &comparison, left),
        None => Err(CommandError::failed("the trial has no conclusion")),
    };
    let ended = put_back(&outcome).and_then(|()| exit(&outcome.record));
    CommandError::after_output(ended, printed)
}

/// The trial behind the comparison. It runs all requested pairs, because both verdicts and all figures need
/// their intervals.
fn spec(args: &Pair, change: Change, length: Duration, cpu: Option<CpuId>, probe: bool) -> Spec {
    let spin = cpu.filter(|_| probe);
    let measures = MEASURES.into_iter().skip(1);
    let metrics = measures.filter(|name| *name != probed::INFERRED || spin.is_some()).map(str::to_owned);
    Spec {
        name: "compare".to_owned(),
        change,
        workload: Workload { live: true, ..Workload::default() },
        design: Design {
            seed: args.seed,
            pairs: Some(args.pairs),
            min_pairs: args.pairs,
            calibration: 0,
            margin: args.margin,
            washout: Seconds(args.washout),
            measure: Some(Seconds(length)),
            primary: Some(MEASURES[0].to_owned()),
            metrics: metrics.collect(),
            ..Design::default()
        },
        probe: Probe { spin, cpus: cpu.into_iter().collect(), ..Probe::default() },
        ..Spec::default()
    }
}

fn print(global: &Global, comparison: &Comparison, left: Option<&str>) -> Result {
    let left = left.map(|left| format!("{left}\n")).unwrap_or_default();
    output::print(global, comparison, || compare::text(comparison) + &left)
}
