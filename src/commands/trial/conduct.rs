//! Everything around the loop of a trial: journal, guard, progress, and errors for the user.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::process::geteuid;

use crate::commands::Global;
use crate::commands::machine::Machine;
use crate::commands::{place, progress, undo};
use crate::error::{CommandError, Kind, Result};
use rxlab_change::apply::{Undo, launch_guard};
use rxlab_change::journal;
use rxlab_stats::design::Phase;
use rxlab_trial::analysis::analyse;
use rxlab_trial::factor::FactorError;
use rxlab_trial::live::LiveError;
use rxlab_trial::perform::{Outcome, PerformError, Ready, Setup, Trial, perform};
use rxlab_trial::record::TrialRecord;
use rxlab_trial::spec::{self, Spec};
use rxlab_trial::store::{StoreError, TrialDir};

/// Time between two updates of the progress bar.
const TICK: Duration = Duration::from_millis(250);

/// A trial that is ready to run.
pub(crate) struct Conduct<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) machine: &'a Machine,
    /// Settings, probe and workload.
    pub(crate) ready: Ready,
    pub(crate) dir: TrialDir,
    /// Keep the change if it helps.
    pub(crate) keep: bool,
    /// Set by Ctrl-C; the trial must end then.
    pub(crate) stop: &'a AtomicBool,
}

/// A record of a trial that runs with a progress bar.
pub(crate) trait Conducted: Trial {
    /// Number of finished slots, and the name of the trial with what it is at.
    fn progress(&self) -> (usize, String);

    /// The same in several lines, for a trial that has more to show.
    fn lines(&self) -> Vec<String> {
        Vec::new()
    }
}

impl Conducted for TrialRecord {
    fn progress(&self) -> (usize, String) {
        let done = self.slots.iter().filter(|slot| slot.phase == Phase::Comparison).count();
        let part = match done {
            _ if self.design == spec::Kind::BeforeAfter => format!("slot {done} of {}", 2 * self.max_pairs),
            0 => "calibrating".to_owned(),
            _ => format!("pair {} of at most {}{}", done.div_ceil(2), self.max_pairs, so_far(self)),
        };
        (self.slots.len(), format!("trial {}: {part}", self.name))
    }
}

/// Runs the trial with a progress bar; `resumed` is its record so far.
pub(crate) fn conduct<Record: Conducted>(
    global: &Global,
    trial: Conduct<'_>,
    resumed: Option<Record>,
) -> Result<Outcome<Record>> {
    let commands = trial.spec.change.a.is_some();
    attempt(global, trial, resumed)?.map_err(|error| explain(error, commands))
}

/// The same; the caller has to [`explain`] the error of the trial.
pub(crate) fn attempt<Record: Conducted>(
    global: &Global,
    trial: Conduct<'_>,
    resumed: Option<Record>,
) -> Result<std::result::Result<Outcome<Record>, PerformError>> {
    let root = place::root(global)?;
    let store = place::store(global);
    let bar = progress::bar(&format!("trial {}", trial.spec.name), trial.spec.slots() as u64);
    bar.tick_every(TICK);
    // Analysing all slots after each short one would take longer than the slot.
    let mut shown: Option<Instant> = None;
    let mut progress = |record: &Record| {
        if shown.is_some_and(|shown| shown.elapsed() < TICK) {
            return;
        }
        shown = Some(Instant::now());
        let (finished, message) = record.progress();
        match record.lines() {
            lines if lines.is_empty() || !progress::is_watched() => bar.set_message(&message),
            lines => bar.set_lines(&lines),
        }
        bar.set_position(finished as u64);
    };
    let setup = Setup {
        host: &trial.machine.host,
        inventory: &trial.machine.inventory,
        root: &root,
        netns: trial.machine.netns.clone(),
        ready: trial.ready,
        store: &store,
        dir: &trial.dir,
        // A resumed trial keeps the one in its record.
        seed: trial.spec.design.seed.unwrap_or_else(fresh_seed),
        guard: &|id| {
            let arguments = place::guard_arguments(global, &root, id).map_err(std::io::Error::other)?;
            let guard = launch_guard(&arguments)?;
            // A trial goes on without standard error.
            let _ = place::warn_of_container("until the trial ends");
            Ok(guard)
        },
        keep: trial.keep,
        stop: trial.stop,
        progress: &mut progress,
    };
    let outcome = perform(trial.spec, setup, resumed);
    bar.finish_and_clear();
    Ok(outcome)
}

/// `, throughput +18 % [+2, +38]`: the change of the primary metric over the pairs so far. Empty until there is an
/// interval.
fn so_far(record: &TrialRecord) -> String {
    let metrics = analyse(record).metrics;
    let primary = metrics.first().and_then(|result| Some((&result.metric.title, result.effect.as_ref()?)));
    primary.map_or_else(String::new, |(title, effect)| format!(", {title} {}", effect.in_words()))
}

/// Random seed, short enough to be read aloud and exact in every JSON reader.
fn fresh_seed() -> u64 {
    use std::hash::BuildHasher;
    std::hash::RandomState::new().hash_one(0) & 0xff_ffff
}

/// `commands`: the arms are shell commands.
pub(crate) fn explain(error: PerformError, commands: bool) -> CommandError {
    match error {
        PerformError::Begin(error) => error.into(),
        PerformError::Guard(error) if error.kind() == std::io::ErrorKind::Interrupted => {
            CommandError::new(Kind::Interrupted, "interrupted; nothing was changed")
        }
        PerformError::Guard(_) => CommandError::failed(error),
        PerformError::Directory => CommandError::usage(error).hint("run the trial in another directory"),
        PerformError::Store(error) => error.into(),
        PerformError::Keep(error) => factor_error(error).hint("see `rxlab status`"),
        PerformError::Loop { error, undo } => {
            let error = match *error {
                LiveError::Factor(error) => factor_error(error),
                LiveError::Store(error) => error.into(),
                error => CommandError::failed(error),
            };
            if undo.is_clean() { error.hint(left(commands)) } else { trouble_hints(error, &undo) }
        }
    }
}

fn factor_error(error: FactorError) -> CommandError {
    match error {
        FactorError::Apply(error) => error.into(),
        error => CommandError::failed(error),
    }
}

/// Error for a record that cannot be read or written.
impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        let kind = match &error {
            StoreError::Unknown { .. } => {
                return CommandError::usage(error).hint("`rxlab trial list` lists the trials");
            }
            StoreError::Running { .. } => Kind::Changed,
            StoreError::Io { error, .. } => Kind::from(error),
            StoreError::Json { .. } | StoreError::Schema { .. } => Kind::Failed,
        };
        let root = "a trial that changes values needs root";
        let elsewhere = "--state-dir DIR or RXLAB_STATE_DIR puts the records elsewhere";
        let is_denied = kind == Kind::Denied;
        CommandError::new(kind, error)
            .hint_all((is_denied && !geteuid().is_root()).then_some(root))
            .hint_all(is_denied.then_some(elsewhere))
    }
}

/// State of the machine after a clean undo, in words. `commands`: the arms are shell commands.
pub(crate) fn left(commands: bool) -> &'static str {
    if commands { "the machine was left in arm A" } else { "the machine is as it was before the trial" }
}

/// Adds the values that are not back, and what to do.
pub(super) fn trouble_hints(error: CommandError, undo: &Undo) -> CommandError {
    let error = undo::hints(error, &undo.outcomes);
    let error = match undo.command.as_ref().map(|command| &command.outcome) {
        Some(journal::Outcome::Failed { why }) => error.hint(format!("arm B is still set: {why}")),
        _ => error,
    };
    // Nothing is left to try on a transaction that is closed.
    if undo.closed { error } else { error.hint(format!("try again with `rxlab undo {}`", undo.id)) }
}
