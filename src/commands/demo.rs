//! `rxlab demo`: the whole job on a practice range: find a hotspot, plan, run trials, restore everything.

mod scene;

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use self::scene::Scene;
use super::trial::{self, Conduct, conduct, presample};
use super::{files, leftovers, look, output, place};
use crate::commands::Global;
use crate::error::{CommandError, Kind, Result};
use rxlab_advise::doctor::{DoctorReport, doctor};
use rxlab_advise::plan::{Proposal, spread};
use rxlab_base::units::parse_duration;
use rxlab_change::apply;
use rxlab_faces::report::document::{Document, Part, Trial};
use rxlab_faces::report::findings;
use rxlab_faces::report::text::paragraph;
use rxlab_faces::report::{html, trial_text, words};
use rxlab_path::model::{Model, Rates};
use rxlab_probe::Budget;
use rxlab_trial::check::Checks;
use rxlab_trial::perform::{Outcome, Ready};
use rxlab_trial::query::Queries;
use rxlab_trial::recommendation::{Recommendation, TrialReport};
use rxlab_trial::record::TrialRecord;
use rxlab_trial::spec::{Change, Design, Guards, Seconds, Spec};
use rxlab_trial::store::TrialDir;

/// Run the whole workflow on network namespaces of this kernel
///
/// Joins two hosts by a one-queue veth and sends real traffic from a pinned sender, twice: costly packets (policy
/// routing rules), where RPS lets more arrive, and cheap ones, where it only spreads the work. Finds the hotspot,
/// tries RPS and RFS separately, prints the verdicts, writes a report, and restores everything. Needs root and two
/// CPUs.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File for the report
    #[arg(long, value_name = "FILE", default_value = "rxlab-demo.html")]
    html: PathBuf,
    /// Pairs of each trial; trials do not stop early here, so that all intervals are narrow
    #[arg(long, value_name = "N", default_value_t = 12)]
    pairs: usize,
    /// Length of a slot
    #[arg(long, value_name = "TIME", default_value = "400ms", value_parser = parse_duration)]
    measure: Duration,
    /// Settling time before each slot
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_duration)]
    washout: Duration,
    /// Length of the doctor's sample
    #[arg(long = "for", value_name = "TIME", default_value = "3s", value_parser = parse_duration)]
    look: Duration,
    /// Seed of the random order
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
}

/// Results of a scene.
struct Played {
    kind: scene::Kind,
    report: DoctorReport,
    records: Vec<TrialRecord>,
}

pub(super) fn run(global: &Global, args: &Args) -> Result {
    // The range is on this kernel, whatever machine the global options select.
    let global = &Global { root: "/".into(), netns: None, ..global.clone() };
    leftovers::clear(global)?;
    let stop = place::stop_flag()?;
    let mut played = Vec::new();
    for kind in [scene::Kind::Costly, scene::Kind::Cheap] {
        if !stop.load(Ordering::SeqCst) {
            played.push(play(global, args, kind, &stop)?);
        }
    }
    finish(global, args, &played)?;
    if stop.load(Ordering::SeqCst) { Err(CommandError::silent(Kind::Interrupted)) } else { Ok(()) }
}

/// Runs one scene, from building its range to its last trial.
fn play(global: &Global, args: &Args, kind: scene::Kind, stop: &AtomicBool) -> Result<Played> {
    let mut out = output::stdout(global);
    let mut scene = Scene::set(kind, stop)?;
    files::check(&args.html)?;
    if !global.json {
        write!(out, "{}", scene.in_words())?;
    }
    let seen = look::with_costs(&scene.machine.host, args.look, Budget::default(), stop);
    let seen = seen.map(|(model, rates)| (doctor(&model, &rates, ""), tried(kind, &model, &rates)));
    if stop.load(Ordering::SeqCst) {
        // A sample that was cut short shows nothing.
        return Err(CommandError::new(
            Kind::Interrupted,
            "interrupted; the namespaces are gone, nothing was changed",
        ));
    }
    let (report, tried) = seen?;
    if !global.json {
        write!(out, "\n{}", findings::text(&report, None))?;
    }
    let is_hot = has_hotspot(&report);
    if !is_hot && kind == scene::Kind::Cheap && !global.json {
        write!(out, "\n{}", paragraph("", NO_HOTSPOT))?;
    }
    let mut records = Vec::new();
    // Cheap packets may leave most of the CPU to their sender: what steering does then is worth seeing, too.
    for proposal in tried.iter().filter(|_| is_hot || kind == scene::Kind::Cheap) {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let outcome = try_out(global, args, &mut scene, kind, proposal, stop)?;
        trial::put_back(&outcome)?;
        if !global.json {
            writeln!(out, "\n{}", trial_text::render(&outcome.record, None))?;
        }
        records.push(outcome.record);
    }
    Ok(Played { kind, report, records })
}

/// Said before trials of what the doctor does not advise.
const NO_HOTSPOT: &str =
    "no hotspot: the sender takes most of the CPU's time. These trials show what steering does here";

fn has_hotspot(report: &DoctorReport) -> bool {
    report.findings.iter().any(|finding| finding.id == "one-core-hotspot")
}

/// Proposals to try: RPS where packets are costly. Where they are cheap, RPS and RFS, each alone, even if the doctor
/// would try only one of them: the verdict on the other is worth seeing.
fn tried(kind: scene::Kind, model: &Model, rates: &Rates) -> Vec<Proposal> {
    let single = |proposal: &Proposal| match kind {
        scene::Kind::Costly => proposal.plan.name == "rps",
        scene::Kind::Cheap => !proposal.plan.name.contains('+'),
    };
    spread(model, rates, None).proposals.into_iter().filter(single).collect()
}

/// Runs a trial of one proposal alone.
fn try_out(
    global: &Global,
    args: &Args,
    scene: &mut Scene,
    kind: scene::Kind,
    proposal: &Proposal,
    stop: &AtomicBool,
) -> Result<Outcome> {
    let plan = &proposal.plan;
    let settings = apply::check(&scene.machine.host, &scene.machine.model, plan)?;
    let (workload, mut driver) = scene.workload()?;
    let mut spec = Spec {
        name: format!("{}-{}", plan.name, kind.name()),
        change: Change { set: settings.clone(), ..Change::default() },
        workload,
        design: Design {
            seed: Some(args.seed),
            pairs: Some(args.pairs),
            min_pairs: args.pairs,
            calibration: 0,
            washout: Seconds(args.washout),
            measure: Some(Seconds(args.measure)),
            ..Design::default()
        },
        guards: Guards { error_rate: None, ..Guards::default() },
        ..Spec::default()
    };
    presample(&scene.machine, &mut spec, &mut driver, stop)?;
    let dir = TrialDir::create(&global.state_dir, &spec.name)?;
    let machine = &scene.machine;
    let prediction = plan.prediction.clone();
    let ready = Ready {
        arms: vec![Vec::new(), settings],
        prediction,
        planned: None,
        meter: None,
        checks: Checks::default(),
        queries: Queries::default(),
        driver,
    };
    let trial = Conduct { spec: &spec, machine, ready, dir, keep: false, stop };
    conduct(global, trial, None)
}

fn finish(global: &Global, args: &Args, played: &[Played]) -> Result {
    let records: Vec<TrialRecord> = played.iter().flat_map(|played| played.records.clone()).collect();
    let findings = played.iter().map(|played| Part::Doctor(Box::new(played.report.clone())));
    let trials = records.iter().map(|record| Part::Trial(Box::new(Trial::new(record.clone()))));
    let mut document = Document::new(trials.chain(findings).collect());
    document.title = Some("rxlab demo".to_owned());
    files::write(&args.html, html::render(&document, None).as_bytes())?;
    let mut out = output::stdout(global);
    if global.json {
        let trials = |played: &Played| -> Vec<TrialReport> {
            played.records.iter().map(|record| TrialReport::new(record.clone(), "rxlab")).collect()
        };
        let scene = |played: &Played| json!({ "packets": played.kind.name(), "doctor": played.report, "trials": trials(played) });
        let scenes: Vec<_> = played.iter().map(scene).collect();
        let value = json!({ "schema": "rxlab.demo/2", "scenes": scenes, "html": args.html });
        writeln!(out, "{value:#}")?;
    } else {
        for record in &records {
            write!(out, "{}", paragraph("", &words::sentence(record)))?;
            let recommended = Recommendation::new(record, "rxlab").sentence();
            write!(out, "{}", paragraph("  recommended: ", &recommended))?;
        }
        writeln!(out, "the same change, two kinds of traffic: only a trial shows which kind you have")?;
        trial::say_written(&mut out, &args.html)?;
        writeln!(out, "everything is restored: the namespaces are gone, every value is back")?;
        writeln!(out, "next, on this machine's own traffic: rxlab doctor")?;
    }
    if played.iter().any(|played| played.kind == scene::Kind::Costly && !has_hotspot(&played.report)) {
        return Err(CommandError::failed(
            "the doctor found no hotspot in the first scene, so nothing was tried there",
        )
        .hint("other load on this machine can hide it; try again when it is quiet"));
    }
    Ok(())
}
