//! The arms that a trial flips between, inside one transaction: settings, or a pair of shell commands.

use thiserror::Error;

use super::watched::{Foreign, Watched};
use rxlab_change::apply::{ApplyError, Kept, Transaction, Undo, UndoOutcome, look};
use rxlab_change::journal::{BackCommand, Outcome};
use rxlab_path::model::Model;
use rxlab_setting::{Setting, Target};
use rxlab_stats::design::Arm;
use rxlab_sys::Host;

/// The factor of a trial. A killed trial is undone like any other change.
pub struct Factor {
    transaction: Transaction,
    arms: Arms,
    /// The arm currently set; `None` before the first flip and after a failed command.
    now: Option<usize>,
    /// The values of all arms' targets; `None` for commands and after a failed flip, which leaves values of
    /// neither arm.
    watched: Option<Watched>,
    /// Values set from outside, each target once.
    foreign: Vec<Foreign>,
}

/// The arms, numbered from 0.
pub enum Arms {
    /// Settings of each arm, in order of applying; empty if it changes nothing. An arm sets its own settings and
    /// sets back those that only the arm before it sets.
    Settings(Vec<Vec<Setting>>),
    /// One shell command for each arm.
    Commands {
        /// Sets arm A, and so reverts the command of arm B.
        a: BackCommand,
        /// Sets arm B, in the same directory.
        b: String,
    },
}

/// An arm cannot be set.
#[derive(Debug, Error)]
pub enum FactorError {
    /// A setting or the journal failed.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// Values that the trial flips were set from outside, or their interfaces were renamed, with details.
    #[error("changed from outside: {0}")]
    Changed(String),
    #[error("arm {arm:?} command `{command}` {why}")]
    Command {
        arm: Arm,
        command: String,
        /// Reason or exit status.
        why: String,
    },
}

impl Factor {
    /// The arms inside `transaction`, which must not have changed anything yet.
    pub fn new(transaction: Transaction, arms: Arms, host: &dyn Host) -> Self {
        let watched = match &arms {
            Arms::Settings(arms) => Some(Watched::new(host, &look(host), arms.iter().flatten())),
            Arms::Commands { .. } => None,
        };
        Self { transaction, arms, now: None, watched, foreign: Vec::new() }
    }

    /// Sets the arm with the number `arm`. Writes nothing if a target was set from outside since last seen, or its interface was
    /// renamed; the error names the target.
    pub fn set(&mut self, host: &dyn Host, arm: usize) -> Result<(), FactorError> {
        if self.now == Some(arm) {
            return Ok(());
        }
        match self.arms {
            Arms::Settings(_) => self.flip(host, arm),
            Arms::Commands { .. } => self.run(host, if arm == 0 { Arm::A } else { Arm::B }),
        }
    }

    fn flip(&mut self, host: &dyn Host, arm: usize) -> Result<(), FactorError> {
        // An interface may have been renamed or removed since the last flip, and interrupt numbers may have changed owners.
        let mut model = look(host);
        self.compare(host, &model)?;
        let (from, to) = (self.now.map_or(&[][..], |now| self.settings(now)), self.settings(arm));
        let (from, to) = (from.to_vec(), to.to_vec());
        let watched = self.watched.take();
        let written = flip(&mut self.transaction, host, &mut model, &from, &to)?;
        self.now = Some(arm);
        let Some(mut watched) = watched else { return Ok(()) };
        let foreign = watched.flipped(host, &model, &written);
        self.watched = Some(watched);
        self.leave(host, &model, foreign)?;
        self.compare(host, &model)
    }

    fn run(&mut self, host: &dyn Host, arm: Arm) -> Result<(), FactorError> {
        let Arms::Commands { a, b } = &self.arms else { return Ok(()) };
        // Interrupted, it leaves neither arm certain.
        self.now = None;
        let (ran, command) = match arm {
            Arm::A => (self.transaction.run_back(host, a), &a.back),
            Arm::B => (self.transaction.run(host, b, a), b),
        };
        ran.map_err(|error| of_command(error, arm, command))?;
        self.now = Some(arm.index());
        Ok(())
    }

    /// The settings of an arm; none if the arms are commands.
    fn settings(&self, arm: usize) -> &[Setting] {
        match &self.arms {
            Arms::Settings(arms) => &arms[arm],
            Arms::Commands { .. } => &[],
        }
    }

    /// Checks that the current arm still holds; should be called at the end of each slot. The error names the
    /// values set from outside: such a slot must not count.
    pub fn check(&mut self, host: &dyn Host) -> Result<(), FactorError> {
        match &self.watched {
            Some(_) => self.compare(host, &look(host)),
            None => Ok(()),
        }
    }

    fn compare(&mut self, host: &dyn Host, model: &Model) -> Result<(), FactorError> {
        let Some(watched) = &self.watched else { return Ok(()) };
        let wanted = self.now.map_or(&[][..], |now| self.settings(now));
        let foreign = watched.foreign(host, model, wanted);
        let lost = |target: &Target| match target {
            Target::Process(_) => format!("{target} (ended)"),
            _ => format!("{target} (renamed)"),
        };
        let renamed = in_words(watched.renamed(host).into_iter().map(lost));
        self.leave(host, model, foreign)?;
        if renamed.is_empty() { Ok(()) } else { Err(FactorError::Changed(renamed)) }
    }

    /// Excludes values set from outside from undo, and fails if there are any.
    fn leave(&mut self, host: &dyn Host, model: &Model, found: Vec<Foreign>) -> Result<(), FactorError> {
        if found.is_empty() {
            return Ok(());
        }
        self.foreign.retain(|known| !found.iter().any(|one| is_same(one, &known.knob, &known.target)));
        self.foreign.extend(found.iter().cloned());
        for Foreign { knob, target, found, .. } in &found {
            self.transaction.leave(host, model, knob, target, found).map_err(ApplyError::from)?;
        }
        Err(FactorError::Changed(in_words(found.iter())))
    }

    /// Restores the machine and closes the transaction: each value returns to that before the trial; with
    /// commands the machine is left in arm A. Values set from outside are left alone and count as trouble.
    pub fn undo(mut self, host: &dyn Host) -> Undo {
        let model = look(host);
        // Finds values set since the last slot. An error, such as a full disk, must not block the rest of
        // the undo.
        let _ = self.compare(host, &model);
        let touched = self.transaction.journal().history().touched();
        let left = self.foreign.into_iter().map(|foreign| {
            let touched = touched.iter().find(|t| is_same(&foreign, &t.knob, &t.target));
            let original = touched.map_or(&foreign.expected, |touched| &touched.original).clone();
            let Foreign { knob, target, expected, found } = foreign;
            let outcome = Outcome::Drift { live: found, fresh: false };
            UndoOutcome { knob, target, original, wanted: expected, outcome, trouble: true }
        });
        let left: Vec<UndoOutcome> = left.collect();
        let mut undo = self.transaction.undo(host, &model);
        // Of a value with parts, such as the threads of a process, those that are ours went back.
        let is_told = |left: &UndoOutcome, undo: &Undo| {
            let mut told = undo.outcomes.iter();
            told.any(|told| {
                let is_back = matches!(told.outcome, Outcome::Restored | Outcome::RestoredInPart { .. });
                (told.trouble || is_back) && told.knob == left.knob && told.target == left.target
            })
        };
        let untold: Vec<UndoOutcome> = left.into_iter().filter(|left| !is_told(left, &undo)).collect();
        undo.outcomes.extend(untold);
        undo
    }

    /// Keeps the current values permanently, and returns the id of the transaction that undoes them.
    pub fn keep(self, host: &dyn Host) -> Result<String, FactorError> {
        let id = self.transaction.id().to_owned();
        self.transaction.keep_confirmed(host, &look(host)).map_err(ApplyError::from)?;
        Ok(id)
    }
}

fn is_same(foreign: &Foreign, knob: &str, target: &Target) -> bool {
    foreign.knob == knob && foreign.target == *target
}

fn in_words(changes: impl Iterator<Item = impl ToString>) -> String {
    changes.map(|change| change.to_string()).collect::<Vec<_>>().join(", ")
}

fn of_command(error: ApplyError, arm: Arm, command: &str) -> FactorError {
    match error {
        ApplyError::Command(error) => {
            FactorError::Command { arm, command: command.to_owned(), why: error.reason() }
        }
        error => error.into(),
    }
}

/// Flips from one arm's settings to the other's: values are set back first, newest first. Returns the
/// writes in order.
fn flip(
    transaction: &mut Transaction,
    host: &dyn Host,
    model: &mut Model,
    from: &[Setting],
    to: &[Setting],
) -> Result<Vec<Kept>, ApplyError> {
    let mut written = Vec::new();
    let again = |gone: &Setting| to.iter().any(|s| s.knob == gone.knob && s.target == gone.target);
    for setting in from.iter().rev().filter(|setting| !again(setting)) {
        written.extend(set_back(transaction, host, model, setting)?);
    }
    for setting in to {
        written.push(transaction.set(host, model, setting)?);
    }
    Ok(written)
}

/// A target that already had the wanted value was never touched: nothing to set back.
fn set_back(
    transaction: &mut Transaction,
    host: &dyn Host,
    model: &mut Model,
    setting: &Setting,
) -> Result<Option<Kept>, ApplyError> {
    match transaction.set_back(host, model, &setting.knob, &setting.target) {
        Ok(kept) => Ok(Some(kept)),
        Err(ApplyError::NotTouched { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{Arms, Factor};
    use rxlab_change::apply::{BeginInfo, Transaction};
    use rxlab_change::journal::{BackCommand, Disk, FlakyStorage, Store};
    use rxlab_path::model::Identity;
    use rxlab_stats::design::Arm;
    use rxlab_sys::{Failpoint, FlakyHost, Host, LiveHost};

    /// For each flip to B and back, after the first ones: operations on the machine, operations on the journal, and
    /// whether its lines are on disk when the slot begins.
    #[allow(clippy::disallowed_methods)] // Makes a machine of files.
    fn flips(arms: impl FnOnce(&std::path::Path) -> Arms) -> Vec<[(u64, u64, bool); 2]> {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let root = folder.path().join("root");
        std::fs::create_dir_all(root.join("proc/sys/net/core")).expect("made");
        std::fs::write(root.join("proc/sys/net/core/busy_poll"), "0\n").expect("written");
        std::fs::write(root.join("proc/sys/net/core/busy_read"), "0\n").expect("written");
        let [machine, journal] = [(); 2].map(|()| Failpoint::new(None, || ()));
        let host = FlakyHost::new(LiveHost::open(&root).expect("opened"), Vec::new(), machine.clone());
        let storage = FlakyStorage::new(Disk::new(folder.path().join("state")), journal.clone(), None);
        let synced = storage.synced();
        let transaction =
            Transaction::begin(&Store::new(storage), BeginInfo::new(&Identity::default())).expect("begun");
        let mut factor = Factor::new(transaction, arms(folder.path()), &host);
        let mut flip = |arm: Arm| {
            let before = (machine.count(), journal.count());
            factor.set(&host, arm.index()).expect("set");
            (machine.count() - before.0, journal.count() - before.1, synced.load(Ordering::SeqCst))
        };
        flip(Arm::A);
        flip(Arm::B);
        let rounds = (0..3).map(|_| [flip(Arm::A), flip(Arm::B)]).collect();
        assert!(factor.undo(&host).closed);
        rounds
    }

    /// A flip to A once recorded after its command what a flip to B synced before it: slots of one arm began with work for
    /// the disk.
    #[test]
    fn what_happens_between_a_flip_and_its_slot_is_the_same_in_both_arms() {
        let rounds = flips(|folder| Arms::Commands {
            a: BackCommand {
                back: "true".to_owned(),
                directory: folder.to_str().map(str::to_owned),
                ..BackCommand::default()
            },
            b: "true".to_owned(),
        });
        assert_eq!(rounds, [[(1, 0, true); 2]; 3]);
        let settings = ["busy_poll host = 50", "busy_read host = 50"];
        let rounds = flips(|_| {
            Arms::Settings(vec![Vec::new(), settings.map(|text| text.parse().expect("a setting")).to_vec()])
        });
        for [to_a, to_b] in &rounds {
            assert_eq!(to_a, to_b, "{rounds:?}");
            assert!(to_a.1 > 0, "settings are journalled at each flip");
        }
    }

    /// A pair of commands that run in a directory of their own, and its host.
    struct Pair {
        _folder: tempfile::TempDir,
        host: LiveHost,
        factor: Factor,
    }

    impl Pair {
        fn new(a: &str, b: &str) -> Self {
            let folder = tempfile::tempdir().expect("a temporary directory");
            let store = Store::new(Disk::new(folder.path().join("state")));
            let directory = folder.path().to_str().map(str::to_owned);
            let arms = Arms::Commands {
                a: BackCommand { back: a.to_owned(), directory, ..BackCommand::default() },
                b: b.to_owned(),
            };
            let host = LiveHost::open(folder.path()).expect("opened");
            let transaction =
                Transaction::begin(&store, BeginInfo::new(&Identity::default())).expect("begun");
            let factor = Factor::new(transaction, arms, &host);
            Self { _folder: folder, host, factor }
        }

        fn set(&mut self, arm: Arm) -> Result<(), super::FactorError> {
            self.factor.set(&self.host, arm.index())
        }

        /// Undoes it and returns the output of the commands.
        fn undo(self) -> String {
            let undo = self.factor.undo(&self.host);
            assert!(undo.closed && undo.is_clean(), "{undo:?}");
            self.host.read_text("said").unwrap_or_default().replace('\n', " ")
        }
    }

    #[test]
    fn commands_run_once_for_each_flip_and_arm_a_is_left() {
        let mut pair = Pair::new("echo a >> said", "echo b >> said");
        for arm in [Arm::A, Arm::A, Arm::B, Arm::B, Arm::A, Arm::B] {
            pair.set(arm).expect("it echoes");
        }
        assert_eq!(pair.undo(), "a b a b a ");
        let mut pair = Pair::new("echo a >> said", "echo b >> said");
        pair.set(Arm::B).and_then(|()| pair.set(Arm::A)).expect("it echoes");
        assert_eq!(pair.undo(), "b a ");
    }

    /// A command of arm B that failed halfway was once not reverted: only complete ones were undone.
    #[test]
    fn what_a_failed_command_began_is_put_back() {
        let mut pair = Pair::new("echo a >> said", "echo half >> said; echo no >&2; exit 1");
        pair.set(Arm::A).expect("it echoes");
        let error = pair.set(Arm::B).expect_err("it exits with 1").to_string();
        let command = "arm B command `echo half >> said; echo no >&2; exit 1` ";
        assert_eq!(error, format!("{command}ended with exit status: 1: no"));
        assert_eq!(pair.undo(), "a half a ");
    }

    /// Ctrl-C interrupts the command of arm A; a trial that then keeps arm B once assumed it was set.
    #[test]
    fn after_a_command_that_failed_either_arm_is_set_again() {
        let mut pair = Pair::new("test -e said && echo a >> said && exit 1; exit 0", "echo b >> said");
        pair.set(Arm::B).expect("it echoes");
        pair.set(Arm::A).expect_err("it exits with 1");
        pair.set(Arm::B).expect("it echoes");
        assert_eq!(pair.host.read_text("said").as_deref(), Ok("b\na\nb\n"));
    }

    #[test]
    fn commands_that_never_ran_are_not_undone() {
        assert_eq!(Pair::new("echo a >> said; exit 1", "exit 1").undo(), "");
    }
}
