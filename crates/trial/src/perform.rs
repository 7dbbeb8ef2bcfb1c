//! One trial from start to end: record, factor, loop, rollback, conclusion.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use std::{fmt, io};

use serde::Serialize;
use thiserror::Error;

use super::blocks::{self, BlockSlot, BlocksRecord, NamedSettings};
use super::check::{Check, Checks};
use super::conclude::conclude;
use super::factor::{Arms, Factor, FactorError};
use super::guards::Watch;
use super::harm;
use super::live::{Live, LiveError, Slots};
use super::meter::Meter;
use super::metrics::{self, name};
use super::placement;
use super::prior::Planned;
use super::query::{Queries, Query};
use super::record::{Analysis, Metric, Slot, TrialRecord, Verdict};
use super::runner::{self, Ending};
use super::spec::{Kind, Spec};
use super::store::{StoreError, TrialDir};
use super::workload::Driver;
use rxlab_advise::doctor::NicQueues;
use rxlab_base::units::{Fact, NicName, rfc3339};
use rxlab_change::apply::{ApplyError, BeginInfo, Guard, Transaction, Undo};
use rxlab_change::journal::{BackCommand, Store};
use rxlab_change::knob::KnobError;
use rxlab_path::model::{Model, Nic};
use rxlab_path::sample::{Inventory, cpu_model};
use rxlab_probe::SoftirqTime;
use rxlab_setting::{Prediction, Setting, Target};
use rxlab_stats::design::Arm;
use rxlab_sys::{DirectoryId, Host, Namespace, ProcessId, lasting_netns};

/// Remark for kernels without CONFIG_IRQ_TIME_ACCOUNTING, or where that is unknown.
const TICKS: &str =
    "This kernel samples softirq time at timer ticks: short slots can be far off. NET_RX shares are counted.";

/// Everything that must be ready before the first slot: the settings are checked and the workload runs, so that a
/// mistake ends the trial before it changes the machine.
pub struct Ready {
    /// Settings of each arm, checked and in order, the baseline first; if all are empty, the factor is a pair of
    /// commands.
    pub arms: Vec<Vec<Setting>>,
    /// Predicted effect of arm B's plan.
    pub prediction: Option<Prediction>,
    /// The plan from a sample, if one was made.
    pub planned: Option<Planned>,
    /// The probe, if metrics need it.
    pub meter: Option<Meter>,
    /// Checks from outside, running.
    pub checks: Checks,
    /// Queries to a Prometheus.
    pub queries: Queries,
    /// The workload, already running.
    pub driver: Driver,
}

/// Inputs of a trial in addition to its specification.
pub struct Setup<'a, Record> {
    pub host: &'a dyn Host,
    pub inventory: &'a Inventory,
    /// Root of the machine, for the journal.
    pub root: &'a Path,
    /// Network namespace of the machine, for the journal.
    pub netns: Option<Namespace>,
    /// Settings, probe and workload.
    pub ready: Ready,
    pub store: &'a Store,
    /// Directory of the record.
    pub dir: &'a TrialDir,
    /// Seed of the coins.
    pub seed: u64,
    /// Starts the process that undoes the transaction with the given id at its deadline, in case this
    /// one is killed. After an error nothing may be changed.
    pub guard: &'a dyn Fn(&str) -> io::Result<Guard>,
    /// Leave the change in place if it is proven to help.
    pub keep: bool,
    /// Set when the user wants to stop.
    pub stop: &'a AtomicBool,
    /// Called with the record after each slot.
    pub progress: &'a mut dyn FnMut(&Record),
}

/// Outcome of a trial.
#[derive(Debug)]
pub struct Outcome<Record = TrialRecord> {
    /// The record, concluded and saved.
    pub record: Record,
    /// Result of the undo; `None` if the change was kept.
    pub undo: Option<Undo>,
    /// The transaction of the kept change; `None` = it was reverted.
    pub kept: Option<String>,
}

/// A trial that failed. `undo` tells how far the machine was restored.
#[derive(Debug, Error)]
pub enum PerformError {
    /// The transaction could not begin; nothing was changed.
    #[error(transparent)]
    Begin(#[from] ApplyError),
    /// No guard holds the deadline; nothing was changed.
    #[error("nothing was changed, because the guard did not start: {0}")]
    Guard(io::Error),
    /// Undo would not find the directory that commands run in; nothing was changed.
    #[error(
        "nothing was changed, because undo cannot find a working directory that was removed or whose name is not UTF-8"
    )]
    Directory,
    /// The record cannot be written; nothing was changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{error}")]
    Loop {
        error: Box<LiveError>,
        /// Result of the undo.
        undo: Box<Undo>,
    },
    /// The journal cannot record that the change stays; it is still set.
    #[error(transparent)]
    Keep(FactorError),
}

/// What cannot be set on this machine, as only a write shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused<'a> {
    /// No value at all: the driver or the kernel lacks the knob here.
    Knob(&'a str, &'a Target),
    /// This value: it was rejected, or another one was stored.
    Value(&'a str, &'a Target, &'a str),
}

impl Refused<'_> {
    /// True if `setting` would be refused as well.
    pub fn concerns(&self, setting: &Setting) -> bool {
        let is = |knob: &str, target: &Target| setting.knob == knob && setting.target == *target;
        match *self {
            Self::Knob(knob, target) => is(knob, target),
            Self::Value(knob, target, value) => is(knob, target) && setting.value == value,
        }
    }
}

impl fmt::Display for Refused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Knob(knob, target) => write!(f, "{knob} {target}"),
            Self::Value(knob, target, value) => write!(f, "{knob} {target} = {value}"),
        }
    }
}

impl PerformError {
    /// What the driver or the kernel does not let be set, if that alone ended the trial and the machine is restored.
    pub fn refused(&self) -> Option<Refused<'_>> {
        let Self::Loop { error, undo } = self else { return None };
        let LiveError::Factor(FactorError::Apply(error)) = &**error else { return None };
        let refused = match error {
            ApplyError::Knob(
                KnobError::Lacks { knob, target, .. } | KnobError::Unsupported { knob, target, .. },
            ) => Refused::Knob(knob, target),
            ApplyError::Knob(KnobError::Refused { knob, target, value, .. }) => {
                Refused::Value(knob, target, value)
            }
            ApplyError::NotKept { setting, .. } => {
                Refused::Value(&setting.knob, &setting.target, &setting.value)
            }
            _ => return None,
        };
        undo.is_clean().then_some(refused)
    }
}

/// The record of a trial, by which its loop runs.
pub trait Trial: Slots + Serialize + Sized {
    /// The record before the first slot.
    fn fresh(spec: &Spec, setup: &Setup<'_, Self>, model: &Model, softirq_timed: bool) -> Self;

    /// End of the last finished slot, in seconds.
    fn done_s(&self) -> f64;

    /// Runs the loop and saves the conclusion. Returns true if the change is to be kept: it is set, and proven to help.
    fn run(&mut self, live: &mut Live<'_, Self>, spec: &Spec, keep: bool) -> Result<bool, LiveError>;
}

/// Runs the trial of `spec`, or continues `resumed`.
pub fn perform<Record: Trial>(
    spec: &Spec,
    setup: Setup<'_, Record>,
    resumed: Option<Record>,
) -> Result<Outcome<Record>, PerformError> {
    let _running = setup.dir.hold()?;
    let model = Model::new(setup.inventory);
    let softirq_time = softirq_time(spec, &setup);
    let mut record = resumed.unwrap_or_else(|| Record::fresh(spec, &setup, &model, softirq_time.is_some()));
    let (host, keep) = (setup.host, setup.keep);
    let (mut live, guard) = begin(spec, setup, &model, softirq_time, &record)?;
    match record.run(&mut live, spec, keep) {
        Ok(true) => {
            let kept = live.factor.keep(host).map_err(PerformError::Keep)?;
            wait_for(guard, None);
            Ok(Outcome { record, undo: None, kept: Some(kept) })
        }
        Ok(false) => Ok(Outcome { record, undo: Some(restore(live.factor, host, guard)), kept: None }),
        Err(error) => {
            let undo = Box::new(restore(live.factor, host, guard));
            Err(PerformError::Loop { error: Box::new(error), undo })
        }
    }
}

impl Slots for TrialRecord {
    type Slot = Slot;

    fn slots(&self) -> &[Slot] {
        &self.slots
    }
}

impl Slots for BlocksRecord {
    type Slot = BlockSlot;

    fn slots(&self) -> &[BlockSlot] {
        &self.slots
    }
}

impl Trial for TrialRecord {
    fn fresh(spec: &Spec, setup: &Setup<'_, Self>, model: &Model, softirq_timed: bool) -> Self {
        let (against, change) = match (&spec.change.a, &spec.change.b) {
            (Some(a), Some(b)) => (vec![a.clone()], vec![b.clone()]),
            _ => (lines(&setup.ready.arms[Arm::A.index()]), lines(&setup.ready.arms[Arm::B.index()])),
        };
        let concerned = concerned(spec, setup, model);
        Self {
            schema: Self::SCHEMA.to_owned(),
            id: setup.dir.id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: spec.name.clone(),
            design: spec.design.kind,
            against,
            change,
            plan: spec.change.plan.clone(),
            probe: setup.ready.meter.as_ref().map(|meter| meter.in_use.clone()),
            softirq_timed,
            prediction: setup.ready.prediction.clone(),
            planned: setup.ready.planned.clone(),
            paths: concerned.iter().copied().map(NicQueues::new).collect(),
            checks: spec.checks.clone(),
            queries: spec.queries.clone(),
            workload: spec.workload_in_words(),
            host: model.identity.clone(),
            netns: setup.netns.as_ref().and_then(|netns| lasting_netns(&netns.path)),
            cpus: model.online().len(),
            cpu_model: cpu_model(setup.host),
            drivers: concerned.iter().filter_map(|nic| nic.driver.clone()).collect(),
            started: rfc3339(jiff::Timestamp::now()),
            seed: setup.seed,
            margin: spec.design.margin,
            min_pairs: match spec.design.kind {
                Kind::BeforeAfter => spec.design.pairs(),
                _ => spec.design.min_pairs,
            },
            max_pairs: spec.design.pairs(),
            time_s: spec.design.time_of_slots().map(|time| time.as_secs_f64()),
            time_is_over: false,
            washout_s: spec.design.washout.0.as_secs_f64(),
            measure_s: spec.design.measure().as_secs_f64(),
            metrics: metrics_of(spec, setup.inventory, softirq_timed),
            calibration: None,
            slots: Vec::new(),
            analysis: None,
        }
    }

    fn done_s(&self) -> f64 {
        self.done_s()
    }

    fn run(&mut self, live: &mut Live<'_, Self>, spec: &Spec, keep: bool) -> Result<bool, LiveError> {
        let ending = runner::run(self, spec.design.calibration, live)?;
        if spec.workload.command.is_some() {
            let printed = metrics::printed(self);
            self.metrics.extend(printed);
        }
        let analysis = analysis(self, &ending, spec, live.inventory);
        self.analysis = Some(analysis);
        // The advice of a trial that spreads the load only is the user's to follow.
        let helps = matches!(self.verdict(), Some(Verdict::Helps)) && harm::harms(self).is_empty();
        // A change whose proof is not on disk is not kept.
        live.dir.save(self)?;
        if !(keep && helps) {
            return Ok(false);
        }
        match live.factor.set(live.host, Arm::B.index()) {
            Ok(()) => Ok(true),
            // Changed since the last slot: the values are not those that were proven.
            Err(FactorError::Changed(what)) => {
                let ending = Ending { changed: Some(what), ..ending };
                self.analysis = Some(self::analysis(self, &ending, spec, live.inventory));
                live.dir.save(self)?;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Trial for BlocksRecord {
    fn fresh(spec: &Spec, setup: &Setup<'_, Self>, model: &Model, softirq_timed: bool) -> Self {
        let mut metrics = metrics_of(spec, setup.inventory, softirq_timed);
        Self {
            schema: Self::SCHEMA.to_owned(),
            id: setup.dir.id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: spec.name.clone(),
            kind: spec.design.kind,
            settings: spec.named().iter().map(NamedSettings::from).collect(),
            workload: spec.workload_in_words(),
            host: model.identity.clone(),
            cpus: model.online().len(),
            started: rfc3339(jiff::Timestamp::now()),
            seed: setup.seed,
            margin: spec.design.margin,
            blocks: spec.design.blocks,
            washout_s: spec.design.washout.0.as_secs_f64(),
            measure_s: spec.design.measure().as_secs_f64(),
            primary: metrics.swap_remove(0),
            softirq_timed,
            slots: Vec::new(),
            conclusion: None,
        }
    }

    fn done_s(&self) -> f64 {
        self.slots.last().map_or(0.0, |slot| slot.start_s + slot.seconds)
    }

    /// The machine is always restored.
    fn run(&mut self, live: &mut Live<'_, Self>, _: &Spec, _: bool) -> Result<bool, LiveError> {
        let ending = blocks::run(self, live)?;
        self.conclude(ending);
        live.dir.save(self)?;
        Ok(false)
    }
}

/// Begins the transaction and saves the record. The transaction's lock comes first: the record of a running trial must
/// not be touched.
fn begin<'a, Record: Trial>(
    spec: &Spec,
    setup: Setup<'a, Record>,
    model: &Model,
    softirq_time: Option<SoftirqTime>,
    record: &Record,
) -> Result<(Live<'a, Record>, Guard), PerformError> {
    let (factor, guard) = factor(spec, &setup, model)?;
    if let Err(error) = setup.dir.save_spec(spec).and_then(|()| setup.dir.save(record)) {
        // Nothing was set, so this closes the transaction, and the guard ends.
        restore(factor, setup.host, guard);
        return Err(error.into());
    }
    let expected = setup.ready.arms.iter().map(|arm| placement::expectations(arm, model)).collect();
    let live = Live {
        host: setup.host,
        inventory: setup.inventory,
        factor,
        driver: setup.ready.driver,
        washout: spec.design.washout.0,
        measure: spec.design.measure(),
        watch: Watch::new(
            setup.host,
            setup.inventory,
            spec.guards.clone(),
            setup.ready.checks,
            setup.ready.queries,
            setup.stop,
        ),
        nic: spec.workload.nic.clone(),
        expected,
        meter: setup.ready.meter,
        softirq_time,
        dir: setup.dir,
        // A resumed trial's clock continues where the last slot ended.
        began: Instant::now()
            .checked_sub(Duration::from_secs_f64(record.done_s()))
            .unwrap_or_else(Instant::now),
        until: Instant::now() + longest(spec),
        progress: setup.progress,
    };
    Ok((live, guard))
}

/// The conclusion, with remarks on this kernel and the probe.
fn analysis(record: &TrialRecord, ending: &Ending, spec: &Spec, inventory: &Inventory) -> Analysis {
    let mut analysis = conclude(record, ending, spec.change.a.is_none(), spec.offered());
    if !record.softirq_timed && inventory.settings.exact_softirq_time != Fact::Known(true) {
        analysis.notes.push(TICKS.to_owned());
    }
    analysis.notes.extend(record.probe.iter().flat_map(|probe| probe.limits.iter().cloned()));
    analysis
}

fn restore(factor: Factor, host: &dyn Host, guard: Guard) -> Undo {
    let undo = factor.undo(host);
    wait_for(guard, Some(&undo));
    undo
}

/// A guard whose transaction is closed ends by itself; then nothing of the trial is left running. One that goes on would end
/// with the first process of its PID namespace.
fn wait_for(guard: Guard, undo: Option<&Undo>) {
    let is_first = std::process::id() == 1;
    if is_first || undo.is_none_or(|undo| undo.closed) {
        guard.join();
    }
}

fn factor<Record>(
    spec: &Spec,
    setup: &Setup<'_, Record>,
    model: &Model,
) -> Result<(Factor, Guard), PerformError> {
    let arms = match (&spec.change.a, &spec.change.b) {
        (Some(a), Some(b)) => {
            let directory = Some(directory().ok_or(PerformError::Directory)?);
            let directory_id = DirectoryId::of(".").ok();
            Arms::Commands { a: BackCommand { back: a.clone(), directory, directory_id }, b: b.clone() }
        }
        _ => Arms::Settings(setup.ready.arms.clone()),
    };
    let info = BeginInfo {
        identity: &model.identity,
        root: setup.root,
        // Commands run in the namespace of this program, whatever namespace the trial measures.
        netns: setup.netns.clone().filter(|_| matches!(arms, Arms::Settings(_))),
        home: Namespace::home(setup.root),
        applier: ProcessId::own(),
        what: format!("trial {}", setup.dir.id()),
        // The last slot, its record and the analysis take a while, too.
        confirm: Some(longest(spec) + Duration::from_secs(30)),
        seen: None,
        continues: None,
    };
    let transaction = Transaction::begin_at(setup.store, info, setup.host.now_ns())?;
    let guard = match (setup.guard)(transaction.id()) {
        Ok(guard) => guard,
        Err(error) => {
            // Nothing was set, so this closes it.
            transaction.keep().map_err(ApplyError::from)?;
            return Err(PerformError::Guard(error));
        }
    };
    Ok((Factor::new(transaction, arms, setup.host), guard))
}

/// Working directory of commands, also those that another process runs to restore the machine. `None` if it
/// has no name, or one that is not text.
fn directory() -> Option<String> {
    std::env::current_dir().ok()?.into_os_string().into_string().ok()
}

/// Time in which slots begin: twice what the trial takes if half of them are void. The guard kills a trial that holds the lock after
/// its deadline: by then it is stopped or hangs.
fn longest(spec: &Spec) -> Duration {
    let design = &spec.design;
    // Void pairs and blocks are repeated, up to as many again.
    let slots = u32::try_from(4 * spec.slots()).unwrap_or(u32::MAX);
    (design.washout.0 + design.measure()).saturating_mul(slots) + Duration::from_secs(30)
}

/// Measures softirq time if the kernel only samples it. A requested probe measures more, and
/// two of them would disturb each other.
fn softirq_time<Record>(spec: &Spec, setup: &Setup<'_, Record>) -> Option<SoftirqTime> {
    match setup.ready.meter {
        Some(_) => None,
        None => SoftirqTime::if_needed(setup.host, setup.inventory, spec.probe.budget),
    }
}

fn lines(settings: &[Setting]) -> Vec<String> {
    settings.iter().map(ToString::to_string).collect()
}

/// The interfaces that the change or the traffic is of.
fn concerned<'a>(spec: &Spec, setup: &Setup<'_, TrialRecord>, model: &'a Model) -> Vec<&'a Nic> {
    let changed = setup.ready.arms.iter().flatten().filter_map(|setting| setting.target.nic());
    let names: BTreeSet<&NicName> = changed.chain(&spec.workload.nic).collect();
    names.into_iter().filter_map(|name| model.nic(name)).collect()
}

/// The metrics of a trial, the primary one first.
fn metrics_of(spec: &Spec, inventory: &Inventory, softirq_timed: bool) -> Vec<Metric> {
    let unit = Driver::work_unit(&spec.workload);
    let mut names = metrics::names(spec.workload.load.as_ref().map(|load| load.url.protocol));
    // If softirq time is sampled by ticks, the counted share is more precise.
    let exact = softirq_timed || inventory.settings.exact_softirq_time == Fact::Known(true);
    let hottest = if exact { name::HOTTEST_SOFTIRQ } else { name::HOTTEST_SHARE };
    // A stable sort: only these two swap places.
    names.sort_by_key(|name| match *name {
        name::THROUGHPUT => 0,
        name if name == hottest => 1,
        _ => 2,
    });
    let primary = spec.design.primary.as_deref().unwrap_or(name::THROUGHPUT);
    let checked: Vec<String> = spec.checks.iter().flat_map(Check::judged).collect();
    let asked = spec.design.metrics.iter().chain(&checked).map(String::as_str);
    let mut seen = BTreeSet::new();
    std::iter::once(primary)
        .chain(names.into_iter().chain(asked))
        .filter(|name| seen.insert(*name))
        .map(|name| {
            let query = spec.queries.iter().map(Query::metric).find(|metric| metric.name == name);
            query.unwrap_or_else(|| metrics::describe(name, unit))
        })
        .collect()
}
