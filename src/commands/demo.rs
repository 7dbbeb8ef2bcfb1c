//! `rxlab demo`: the whole job on a practice range: find, plan, try, prove, put back.

mod scene;

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;

use self::scene::Scene;
use super::trial::{self, Conduct, Ready, conduct};
use super::{files, leftovers, look, output, place};
use crate::apply;
use crate::cli::Global;
use crate::error::{CommandError, Kind};
use crate::lab::Range;
use crate::model::{Model, Rates};
use crate::plan::{Proposal, spread};
use crate::report::findings::{self, DoctorReport};
use crate::report::{html, trial_text};
use crate::trial::metrics::name;
use crate::trial::perform::Outcome;
use crate::trial::record::TrialRecord;
use crate::trial::spec::{Change, Design, Guards, Probe, Seconds, Spec, Workload};
use crate::trial::store::TrialDir;
use crate::trial::workload::Driver;
use crate::units::parse_duration;

/// Show the whole job on a practice range of network namespaces on this kernel
///
/// Makes two hosts joined by a one-queue veth, sends real traffic from a pinned sender, finds the
/// hotspot, tries RPS and RFS each alone, prints the verdicts, writes a report, and puts everything
/// back. Needs root and two CPUs.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where the report goes
    #[arg(long, value_name = "FILE", default_value = "rxlab-demo.html")]
    html: PathBuf,
    /// Pairs of each trial; none stops early here, so that all intervals are narrow
    #[arg(long, value_name = "N", default_value_t = 20)]
    pairs: usize,
    /// Length of a slot
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_duration)]
    measure: Duration,
    /// Settling time before each slot
    #[arg(long, value_name = "TIME", default_value = "150ms", value_parser = parse_duration)]
    washout: Duration,
    /// How long the doctor looks
    #[arg(long = "for", value_name = "TIME", default_value = "3s", value_parser = parse_duration)]
    look: Duration,
    /// Seed of the coins
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
}

pub(super) fn run(global: &Global, args: &Args) -> Result<(), CommandError> {
    // The range is on this kernel, whatever the other commands would look at.
    let global = &Global { root: "/".into(), netns: None, ..global.clone() };
    leftovers::clear(global)?;
    let stop = place::stop_flag()?;
    let mut out = output::stdout(global);
    let mut scene = Scene::set(&stop)?;
    files::check(&args.html)?;
    if !global.json {
        write!(out, "{}", scene.in_words())?;
    }
    let seen = look::for_a_while(&scene.machine.host, args.look, &stop);
    let seen = seen.map(|(model, rates)| (findings::doctor(&model, &rates), tried(&model, &rates)));
    if stop.load(Ordering::SeqCst) {
        // A look that was cut short says nothing.
        return Err(CommandError::new(
            Kind::Interrupted,
            "interrupted; the range is gone, nothing was changed",
        ));
    }
    let (report, tried) = seen?;
    if !global.json {
        write!(out, "\n{}", findings::text(&report, findings::Detail::Screen))?;
    }
    let mut records = Vec::new();
    for proposal in tried.iter().filter(|_| !report.plans.is_empty()) {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let outcome = try_out(global, args, &mut scene, proposal, &stop)?;
        trial::put_back(&outcome)?;
        if !global.json {
            write!(out, "\n{}", trial_text::render(std::slice::from_ref(&outcome.record)))?;
        }
        records.push(outcome.record);
    }
    drop(scene);
    finish(global, args, &report, &records)?;
    if stop.load(Ordering::SeqCst) { Err(CommandError::silent(Kind::Interrupted)) } else { Ok(()) }
}

/// RPS and RFS, each alone, also where the doctor would try only one of them: what a trial says of the other is
/// worth seeing.
fn tried(model: &Model, rates: &Rates) -> Vec<Proposal> {
    let both = spread(model, rates, None).proposals;
    both.into_iter().filter(|proposal| !proposal.plan.name.contains('+')).collect()
}

/// One proposal alone, as a trial.
fn try_out(
    global: &Global,
    args: &Args,
    scene: &mut Scene,
    proposal: &Proposal,
    stop: &std::sync::atomic::AtomicBool,
) -> Result<Outcome, CommandError> {
    let plan = &proposal.plan;
    let settings =
        apply::check(&scene.machine.host, &scene.machine.model, plan).map_err(place::apply_error)?;
    let spec = Spec {
        name: plan.name.clone(),
        change: Change { set: settings.clone(), ..Change::default() },
        workload: Workload {
            load: Some(scene.load.clone()),
            nic: Some(Range::server_nic()),
            ..Workload::default()
        },
        design: Design {
            seed: Some(args.seed),
            pairs: args.pairs,
            min_pairs: args.pairs,
            calibration: 0,
            washout: Seconds(args.washout),
            measure: Seconds(args.measure),
            primary: Some(name::THROUGHPUT.to_owned()),
            ..Design::default()
        },
        guards: Guards { error_rate: None, ..Guards::default() },
        probe: Probe::default(),
    };
    let dir = TrialDir::create(&global.state_dir, &spec.name)
        .map_err(|error| CommandError::failed(error).hint("--state-dir DIR puts the records elsewhere"))?;
    let driver = Driver::Load(scene.start_load()?);
    let machine = &scene.machine;
    let prediction = plan.prediction.clone();
    let ready = Ready { against: Vec::new(), settings, prediction, meter: None, driver };
    let trial = Conduct { spec: &spec, machine, ready, dir, resumed: None, keep: false, stop };
    conduct(global, trial)
}

fn finish(
    global: &Global,
    args: &Args,
    report: &DoctorReport,
    records: &[TrialRecord],
) -> Result<(), CommandError> {
    let observations: Vec<html::Observation> = report
        .findings
        .iter()
        .map(|finding| html::Observation { title: finding.title.clone(), evidence: finding.evidence.clone() })
        .collect();
    let page = html::Page { title: "rxlab demo", observations: &observations, trials: records };
    files::write(&args.html, html::render(&page).as_bytes())?;
    let mut out = output::stdout(global);
    if global.json {
        let value =
            json!({ "schema": "rxlab.demo/1", "doctor": report, "trials": records, "html": args.html });
        writeln!(out, "{value:#}")?;
    } else {
        writeln!(out)?;
        trial::say_written(&mut out, &args.html)?;
        writeln!(out, "everything is as it was: the range is gone, every value is back")?;
    }
    if report.plans.is_empty() {
        return Err(CommandError::failed("the doctor found no hotspot on the range, so nothing was tried")
            .hint("other load on this machine can hide it; try again when it is quiet"));
    }
    Ok(())
}
