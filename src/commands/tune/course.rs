//! The course of one `rxlab tune`: sample, choice, trial, apply.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::survey::{Survey, Way, survey};
use super::{Args, Goal};
use crate::commands::apply::consent;
use crate::commands::machine::Machine;
use crate::commands::trial::{self, Conduct, attempt, conduct, explain};
use crate::commands::{Global, apply, files, look, machine, output, report};
use crate::error::{CommandError, Kind, Result};
use rxlab_advise::doctor::DoctorReport;
use rxlab_advise::plan::forecast;
use rxlab_base::units::{NicName, rfc3339};
use rxlab_faces::report::document::{Document, Part};
use rxlab_faces::report::{html, tune_text};
use rxlab_load::Protocol;
use rxlab_path::evidence::{lost, received};
use rxlab_path::model::{Model, Rates};
use rxlab_setting::{Plan, in_words};
use rxlab_trial::blocks::{self, BlocksRecord};
use rxlab_trial::check::Check;
use rxlab_trial::choose;
use rxlab_trial::metrics::{self, Work, name};
use rxlab_trial::outcome;
use rxlab_trial::perform::{Ready, Refused};
use rxlab_trial::recommendation::{Advice, Recommendation};
use rxlab_trial::record::{TrialRecord, Verdict};
use rxlab_trial::spec::{self, Change, Design, Guards, Named, Seconds, Spec, Workload};
use rxlab_trial::store::TrialDir;
use rxlab_trial::tuning::{self, End, LeftOut, Tried, Tuning};
use rxlab_trial::workload::Driver;

/// Measured part of a slot while candidates are compared, and the time before it.
const SLOT: Duration = Duration::from_millis(400);
const SETTLING: Duration = Duration::from_millis(100);
/// The same where values take effect late, or where latency needs many requests.
const LONG_SLOT: Duration = Duration::from_secs(1);
const LONG_SETTLING: Duration = Duration::from_millis(500);
/// Part of the time that the choice among the candidates may take; the trial of the best one has the rest.
const CHOOSING: f64 = 0.5;
/// Fewest blocks of the last two candidates in a short time.
const FEWEST: usize = 6;
/// Time between two requests of the check: enough for a median in each slot.
const CHECK: Duration = Duration::from_millis(50);
/// Drops in addition to those before, as a part of what is received, at which a candidate is stopped; at least so many
/// packets/s.
const MORE_DROPS: f64 = 0.01;
const FEW_DROPS: f64 = 1000.0;

/// One `rxlab tune`, as far as it is.
pub(super) struct Course<'a> {
    global: &'a Global,
    args: &'a Args,
    stop: &'a AtomicBool,
    /// `None` before there is an interface.
    tuning: Option<Tuning>,
    seen: Option<DoctorReport>,
    /// The sample before anything was tried; `None` if resumed.
    before: Option<(Model, Rates)>,
}

impl<'a> Course<'a> {
    pub(super) fn new(global: &'a Global, args: &'a Args, stop: &'a AtomicBool) -> Self {
        Self { global, args, stop, tuning: None, seen: None, before: None }
    }

    /// The transaction of the best candidate, if it is set.
    pub(super) fn applied(&self) -> Option<&str> {
        self.tuning.as_ref()?.transaction.as_deref()
    }

    /// Time within which it has to be confirmed.
    pub(super) fn deadline(&self) -> Option<Duration> {
        (!self.args.keep).then_some(self.args.confirm)
    }

    /// Samples the machine, and goes on with what it finds.
    pub(super) fn begin(&mut self) -> Result {
        let machine = machine::open(self.global)?;
        let mut spec = self.spec();
        self.check_goal(&spec)?;
        let (model, rates, work) = self.sample(&machine, &spec)?;
        let found = survey(
            &machine,
            (&model, &rates),
            self.args.nic.as_ref().or(self.args.interface.as_ref()),
            self.args.goal,
            self.args.allow_reset,
        )?;
        let Survey { report, nic, limit, way, candidates, left_out } = found;
        self.seen = Some(DoctorReport { taken: Some(rfc3339(jiff::Timestamp::now())), ..report });
        let tuning = self.tuning.insert(Tuning { limit, left_out, ..Tuning::new(nic.clone()) });
        tuning.end = match way {
            Way::Open if candidates.is_empty() => End::Limited,
            Way::Open => End::Planned,
            Way::Limited => End::Limited,
            Way::Unmeasurable => End::Unmeasurable,
        };
        if tuning.end != End::Planned {
            return exit(&tuning.end);
        }
        (spec.name, spec.workload.nic) = (format!("tune-{}", word(&nic)), Some(nic));
        spec.arm = fitting(candidates, tuning, self.args.time, &mut spec.design);
        let ready = trial::ready(self.global, &machine, &spec)?;
        // By the sample that the limit is from: a second one could contradict it.
        let asked = spec.design.primary.is_some();
        let chosen = metrics::choose(&spec, &rates, &work).filter(|_| !asked);
        let (primary, why) = chosen.map(|(primary, why)| (primary.to_owned(), why)).unzip();
        spec.design.primary = spec.design.primary.or(primary);
        let primary = spec.design.primary.clone().unwrap_or_else(|| name::THROUGHPUT.to_owned());
        if primary != name::THROUGHPUT {
            spec.guards.drops = Some(lost(&rates) + (MORE_DROPS * received(&model, &rates)).max(FEW_DROPS));
        }
        let tuning = self.tuning.as_mut().expect("it was inserted");
        let title = metrics::describe(&primary, Driver::work_unit(&spec.workload)).title;
        tuning.judged_by = Some(why.map_or_else(|| title.clone(), |why| format!("{title} ({why})")));
        tuning.candidates = spec.arm.iter().map(tried).collect();
        tuning.seconds = seconds(&spec, self.args.time);
        if !self.global.json {
            let mut out = output::text_stdout();
            write!(out, "{}", tune_text::survey(tuning, &spec.guards, !spec.checks.is_empty()))?;
        }
        if self.args.dry_run {
            return Ok(());
        }
        self.before = Some((model, rates));
        self.consent()?;
        self.choose(&machine, &spec, ready, None)
    }

    /// Continues with the trial `id` of an earlier one.
    pub(super) fn resume(&mut self, id: &str) -> Result {
        let dir = TrialDir::open_trusted(&self.global.state_dir, id)?;
        let spec = dir.spec()?;
        let Some(nic) = spec.workload.nic.clone().filter(|_| spec.name.starts_with("tune-")) else {
            let message = format!("trial {id} is not one of `rxlab tune`");
            return Err(CommandError::usage(message).hint("`rxlab trial resume` continues it"));
        };
        let tuning = self.tuning.insert(Tuning::new(nic));
        tuning.candidates = spec.arm.iter().map(tried).collect();
        self.consent()?;
        if let Some(record) = dir.blocks()? {
            if record.conclusion.as_ref().is_some_and(|conclusion| conclusion.end != blocks::End::Interrupted)
            {
                return self.chosen(&spec, record);
            }
            let (machine, ready) = trial::reopen(self.global, &spec, &record.id, &record.host)?;
            return self.choose(&machine, &spec, ready, Some((dir, record)));
        }
        let record = dir.record()?;
        if record.verdict().is_some_and(|verdict| *verdict != Verdict::Interrupted) {
            return self.proven(&spec, record);
        }
        let (machine, ready) = trial::reopen(self.global, &spec, &record.id, &record.host)?;
        self.prove(&machine, &spec, ready, Some((dir, record)))
    }

    /// The workload, the checks and the guards; candidates and design follow from the sample.
    fn spec(&self) -> Spec {
        let load = self.args.load.spec();
        let error_rate = Guards::default().error_rate.filter(|_| load.is_some());
        let check = |url| Check { every: CHECK, ..Check::new("check", url) };
        let is_latency = self.args.goal == Some(Goal::Latency);
        let (slot, settling) = if is_latency { (LONG_SLOT, LONG_SETTLING) } else { (SLOT, SETTLING) };
        Spec {
            workload: Workload { live: load.is_none(), load, ..Workload::default() },
            design: Design {
                kind: spec::Kind::Choice,
                blocks: choose::BLOCKS,
                seed: self.args.seed,
                washout: Seconds(settling),
                measure: Some(Seconds(slot)),
                primary: self.primary().map(str::to_owned),
                ..Design::default()
            },
            guards: Guards { error_rate, ..Guards::default() },
            checks: self.args.check.iter().cloned().map(check).collect(),
            ..Spec::default()
        }
    }

    fn primary(&self) -> Option<&'static str> {
        match self.args.goal? {
            Goal::Throughput => Some(name::THROUGHPUT),
            Goal::Cpu => Some(name::MACHINE_CPU),
            Goal::Latency if self.args.check.is_some() => Some("check.check.p50_us"),
            Goal::Latency => Some("p50_us"),
        }
    }

    /// An error if nothing measures the goal.
    fn check_goal(&self, spec: &Spec) -> Result {
        let answers = |protocol: Protocol| !protocol.is_one_way();
        let has_answers = spec.workload.load.as_ref().is_some_and(|load| answers(load.url.protocol));
        if self.args.goal == Some(Goal::Latency) && self.args.check.is_none() && !has_answers {
            return Err(CommandError::usage("--goal latency: nothing here measures latency")
                .hint("give a --check URL, or a --load with answers"));
        }
        Ok(())
    }

    /// Samples the machine under its traffic or its load.
    fn sample(&self, machine: &Machine, spec: &Spec) -> Result<(Model, Rates, Work)> {
        let mut driver = trial::driver(machine, spec)?;
        driver.begin().map_err(CommandError::failed)?;
        let seen = look::with_costs(&machine.host, self.args.length, self.args.cost.budget, self.stop);
        self.interrupted()?;
        let (model, rates) = seen?;
        let (work, _) = driver.end(None).map_err(CommandError::failed)?;
        Ok((model, rates, work))
    }

    fn interrupted(&self) -> Result {
        if self.stop.load(Ordering::SeqCst) {
            return Err(CommandError::new(Kind::Interrupted, "interrupted; nothing was changed"));
        }
        Ok(())
    }

    /// Asks on a terminal; elsewhere an option has to agree.
    fn consent(&self) -> Result {
        if self.args.yes {
            return Ok(());
        }
        if self.global.json || !output::is_interactive() {
            return Err(CommandError::usage("no terminal to ask on: --yes starts without asking")
                .hint("--dry-run shows what would be tried"));
        }
        consent::ask("Begin?")
    }

    /// Compares the candidates, or goes on with it. Only a write shows whether a driver lets a value be set, and which it rounds: if
    /// not, it begins again without the candidates that need it.
    fn choose(
        &mut self,
        machine: &Machine,
        spec: &Spec,
        ready: Ready,
        resumed: Option<(TrialDir, BlocksRecord)>,
    ) -> Result {
        let (dir, resumed) = self.dir(spec, resumed)?;
        self.tuning().choice = Some(dir.id());
        let trial = Conduct { spec, machine, ready, dir, keep: false, stop: self.stop };
        let error = match attempt(self.global, trial, resumed)? {
            Ok(outcome) => {
                trial::put_back(&outcome)?;
                return self.chosen(spec, outcome.record);
            }
            Err(error) => error,
        };
        let left = error.refused().map(|refused| (refused.to_string(), without(&spec.arm, refused)));
        // Without any candidate less it would end with the same error again.
        let Some((what, arm)) = left.filter(|(_, arm)| arm.len() < spec.arm.len()) else {
            return Err(explain(error, false));
        };
        let left_out = LeftOut { what, why: error.to_string() };
        if !self.global.json {
            write!(output::text_stdout(), "{}", tune_text::left_out(&left_out))?;
        }
        let tuning = self.tuning();
        tuning.left_out.push(left_out);
        tuning.candidates = arm.iter().map(tried).collect();
        if arm.is_empty() {
            return self.ended(End::Unproven { why: "no candidate could be set".to_owned() });
        }
        let spec = Spec { arm, ..spec.clone() };
        let machine = machine::open(self.global)?;
        let ready = trial::ready(self.global, &machine, &spec)?;
        self.choose(&machine, &spec, ready, None)
    }

    /// The directory of a new trial, or of the one that goes on.
    fn dir<Record>(
        &self,
        spec: &Spec,
        resumed: Option<(TrialDir, Record)>,
    ) -> Result<(TrialDir, Option<Record>)> {
        Ok(match resumed {
            Some((dir, record)) => (dir, Some(record)),
            None => (TrialDir::create(&self.global.state_dir, &spec.name)?, None),
        })
    }

    /// Goes on with the best candidate.
    fn chosen(&mut self, spec: &Spec, record: BlocksRecord) -> Result {
        self.tuning().choice = Some(record.id.clone());
        let Some(choice) = tuning::choice(&record) else {
            let why = tune_text::stopped(&record);
            self.tuning().end = End::Stopped { why };
            return trial::exit_blocks(&record).and(Err(CommandError::silent(Kind::Findings)));
        };
        let Some(winner) = choice.winner else {
            let why = "each candidate was stopped by a guard, or did not take hold".to_owned();
            return self.ended(End::Unproven { why });
        };
        let rank = tuning::rank(&record, choice);
        self.tuning().best = Some(format!("{} {rank}", tuning::candidate(&record, winner)));
        if winner == 0 {
            return self.ended(End::NothingToGain);
        }
        let set = spec.arm[winner - 1].set.clone();
        let time = self.args.time.map(|time| time.mul_f64(1.0 - CHOOSING));
        let spec = Spec {
            change: Change { set, ..Change::default() },
            arm: Vec::new(),
            design: of_trial(&spec.design, &record, time),
            ..spec.clone()
        };
        let machine = machine::open(self.global)?;
        let ready = trial::ready(self.global, &machine, &spec)?;
        self.prove(&machine, &spec, ready, None)
    }

    /// Compares the best candidate with the unchanged machine, or goes on with it.
    fn prove(
        &mut self,
        machine: &Machine,
        spec: &Spec,
        mut ready: Ready,
        resumed: Option<(TrialDir, TrialRecord)>,
    ) -> Result {
        let mut spec = spec.clone();
        if spec.design.measure.is_none() {
            ready.planned = trial::plan(machine, &mut spec, &mut ready.driver, self.stop)?;
            self.interrupted()?;
        }
        let (dir, resumed) = self.dir(&spec, resumed)?;
        self.tuning().trial = Some(dir.id());
        let trial = Conduct { spec: &spec, machine, ready, dir, keep: false, stop: self.stop };
        let outcome = conduct(self.global, trial, resumed)?;
        trial::put_back(&outcome)?;
        self.proven(&spec, outcome.record)
    }

    /// Sets the change of a trial that advises to keep it.
    fn proven(&mut self, spec: &Spec, record: TrialRecord) -> Result {
        let tuning = self.tuning();
        tuning.trial = Some(record.id.clone());
        tuning.best.get_or_insert_with(|| in_words(&spec.change.set));
        (tuning.gain, tuning.price) = (outcome::gain(&record), Some(outcome::price(&record)));
        let advice = Recommendation::new(&record, "");
        if advice.advice != Advice::Keep {
            let why = advice.sentence();
            if record.verdict() == Some(&Verdict::Interrupted) {
                self.tuning().end = End::Stopped { why };
                return Err(CommandError::silent(Kind::Interrupted));
            }
            self.tuning().end = End::Unproven { why };
            return trial::exit(&record).and(Err(CommandError::silent(Kind::Findings)));
        }
        let machine = machine::open(self.global)?;
        let mut plan = Plan::new(&spec.name, &spec.change.set);
        // Its figures of the sample are kept with the change: `rxlab doctor` compares with them.
        let before = self.before.as_ref();
        plan.prediction = before.and_then(|(model, rates)| forecast(model, rates, &plan).ok());
        let applied = apply::set(self.global, &machine, &plan, self.deadline(), self.stop)?;
        let deadline = self.deadline().map(|deadline| deadline.as_secs_f64());
        let tuning = self.tuning();
        (tuning.transaction, tuning.confirm_within_s) = (Some(applied.id), deadline);
        self.ended(End::Helps)
    }

    fn tuning(&mut self) -> &mut Tuning {
        self.tuning.as_mut().expect("there is an interface before anything is tried")
    }

    fn ended(&mut self, end: End) -> Result {
        self.tuning().end = end;
        exit(&self.tuning().end)
    }

    /// Prints the end, and writes the report. After an `error`, which is printed elsewhere, only JSON has an end.
    pub(super) fn finish(&mut self, error: Option<&str>) -> Result {
        if let (Some(tuning), Some(why)) = (&mut self.tuning, error) {
            tuning.end = End::Stopped { why: why.to_owned() };
        }
        let Some(tuning) = self.tuning.as_ref().filter(|_| error.is_none() || self.global.json) else {
            return Ok(());
        };
        let written = self.args.html.as_deref().map_or(Ok(()), |path| {
            let document = self.document(tuning)?;
            files::write(path, html::render(&document, Some(&self.global.program())).as_bytes())
        });
        let program = self.global.program();
        let printed = output::print(self.global, tuning, || tune_text::end(tuning, &program));
        CommandError::after_output(written, printed)
    }

    /// What was done, the sample and the trials.
    fn document(&self, tuning: &Tuning) -> Result<Document> {
        let mut parts = vec![Part::Tune(Box::new(tuning.clone()))];
        parts.extend(self.seen.iter().cloned().map(|seen| Part::Doctor(Box::new(seen))));
        for id in tuning.choice.iter().chain(&tuning.trial) {
            parts.push(report::stored(&TrialDir::open(&self.global.state_dir, id)?)?);
        }
        Ok(Document::new(parts))
    }
}

fn exit(end: &End) -> Result {
    match end {
        End::Planned | End::Limited | End::NothingToGain | End::Helps => Ok(()),
        End::Unmeasurable | End::Unproven { .. } | End::Stopped { .. } => {
            Err(CommandError::silent(Kind::Findings))
        }
    }
}

/// The interface's name as a part of the name of a trial.
fn word(nic: &NicName) -> String {
    nic.as_str().chars().map(|c| if spec::is_name_char(c) { c } else { '-' }).collect()
}

/// The candidates that need nothing refused.
fn without(arms: &[Named], refused: Refused<'_>) -> Vec<Named> {
    arms.iter().filter(|named| !named.set.iter().any(|set| refused.concerns(set))).cloned().collect()
}

fn tried(named: &Named) -> Tried {
    Tried {
        name: named.name.clone(),
        what: in_words(&named.set),
        settings: named.set.iter().map(ToString::to_string).collect(),
        later: named.later,
    }
}

/// The candidates that fit into the time, and what else changes for it.
fn fitting(
    mut candidates: Vec<Named>,
    tuning: &mut Tuning,
    time: Option<Duration>,
    design: &mut Design,
) -> Vec<Named> {
    let is_slow = |named: &Named| {
        named.set.iter().any(|set| !matches!(set.knob.as_str(), "rps" | "rfs" | "rfs_entries"))
    };
    if candidates.iter().any(is_slow) {
        design.washout.0 = design.washout.0.max(LONG_SETTLING);
    }
    let Some(time) = time else { return candidates };
    let slot = (design.washout.0 + design.measure()).as_secs_f64();
    let most = (CHOOSING * time.as_secs_f64() / slot) as usize;
    let first = |candidates: &[Named]| candidates.iter().filter(|named| !named.later).count() + 1;
    let fits = |candidates: &[Named], blocks: usize| choose::slots(first(candidates), blocks) <= most;
    while design.blocks > FEWEST && !fits(&candidates, design.blocks) {
        design.blocks -= 1;
    }
    if !fits(&candidates, design.blocks) {
        // New sizes need blocks of their own.
        candidates.retain(|named| !named.later);
    }
    while candidates.len() > 1 && !fits(&candidates, design.blocks) {
        let Some(last) = candidates.pop() else { break };
        let why = "the time is too short: a longer --time tries it".to_owned();
        tuning.left_out.push(LeftOut { what: in_words(&last.set), why });
    }
    candidates
}

/// The design of the trial of the best candidate: slots as in other trials, or as many as fit into `time`.
fn of_trial(choosing: &Design, record: &BlocksRecord, time: Option<Duration>) -> Design {
    let usual = Design::default();
    let measure = time.map(|_| Seconds(LONG_SLOT));
    let washout = choosing.washout.0.max(LONG_SETTLING);
    let pairs = time.map(|time| {
        let pair = 2.0 * (LONG_SLOT + washout).as_secs_f64();
        ((time.as_secs_f64() / pair) as usize).clamp(usual.min_pairs, usual.pairs())
    });
    Design {
        seed: choosing.seed,
        primary: Some(record.primary.name.clone()),
        washout: Seconds(washout),
        measure,
        pairs,
        ..usual
    }
}

/// Longest time of all of it.
fn seconds(spec: &Spec, time: Option<Duration>) -> f64 {
    let Design { washout, .. } = spec.design;
    let choosing = spec.slots() as f64 * (washout.0 + spec.design.measure()).as_secs_f64();
    let usual = Design::default();
    let proving = 2.0 * usual.pairs() as f64 * (usual.washout.0 + usual.measure()).as_secs_f64();
    time.map_or(choosing + proving, |time| time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        CHOOSING, Design, Named, Refused, SETTLING, SLOT, Seconds, Tuning, choose, fitting, without, word,
    };

    fn candidates(count: usize) -> Vec<Named> {
        let one = |at: usize| Named {
            name: format!("rps-node-{at}"),
            set: vec![format!("rps eth0/rx-0 = {at}").parse().expect("a setting")],
            size: Some((0, at)),
            later: at.is_multiple_of(2),
        };
        let (later, first): (Vec<Named>, Vec<Named>) = (1..=count).map(one).partition(|one| one.later);
        first.into_iter().chain(later).collect()
    }

    #[test]
    fn a_short_time_names_what_is_not_tried() {
        let fit = |seconds: u64| {
            let mut tuning = Tuning::new("eth0".parse().expect("a name"));
            let mut design = Design {
                blocks: choose::BLOCKS,
                washout: Seconds(SETTLING),
                measure: Some(Seconds(SLOT)),
                ..Design::default()
            };
            let time = Some(Duration::from_secs(seconds)).filter(|time| !time.is_zero());
            let kept = fitting(candidates(12), &mut tuning, time, &mut design);
            let first = kept.iter().filter(|named| !named.later).count();
            let takes = choose::slots(first + 1, design.blocks) as f64 * (SETTLING + SLOT).as_secs_f64();
            (first, kept.len(), design.blocks, tuning.left_out.len(), takes <= CHOOSING * seconds as f64)
        };
        assert_eq!(fit(0), (6, 12, choose::BLOCKS, 0, false), "no limit");
        assert_eq!(fit(600), (6, 12, choose::BLOCKS, 0, true));
        let (first, all, blocks, left_out, fits) = fit(60);
        assert!(first == 6 && all == 12 && blocks < choose::BLOCKS && left_out == 0 && fits, "fewer blocks");
        let (first, all, blocks, left_out, fits) = fit(10);
        assert!(
            first < 6 && all == first && left_out == 6 - first && blocks >= 6 && fits,
            "fewer candidates"
        );
    }

    /// virtio_net reports `rx_usecs` and refuses to set it: each search that drew it ended with an error.
    #[test]
    fn what_a_driver_refuses_is_not_tried_again() {
        let mut arms = candidates(3);
        let all = arms.len();
        let refused = ["rx_usecs eth0 = 50", "rx_usecs eth1 = 50"].map(|set| set.parse().expect("a setting"));
        arms.extend(refused.map(|set| Named {
            name: "m".to_owned(),
            set: vec![set],
            size: None,
            later: false,
        }));
        let eth0 = "eth0".parse().expect("a target");
        let left = without(&arms, Refused::Knob("rx_usecs", &eth0));
        assert!(left.len() == all + 1 && left[all].set[0].to_string() == "rx_usecs eth1 = 50", "{left:?}");
        // One value that a driver rounds leaves the others.
        assert_eq!(without(&arms, Refused::Value("rx_usecs", &eth0, "50")), left);
        assert_eq!(without(&arms, Refused::Value("rx_usecs", &eth0, "51")), arms);
    }

    #[test]
    fn any_interface_names_a_trial() {
        assert_eq!(word(&"eth0.7@x".parse().expect("a name")), "eth0.7-x");
    }
}
