//! What a trial flips: settings inside one transaction, or a pair of shell commands.

#![allow(clippy::disallowed_methods)] // Starts the user's commands.

use std::process::{Command, Stdio};

use thiserror::Error;

use super::record::Arm;
use crate::apply::{ApplyError, Transaction, Undo};
use crate::host::Host;
use crate::model::Model;
use crate::plan::Setting;
use crate::sample::{Inventory, Scope};

/// The factor of a trial.
pub enum Factor {
    /// Each arm sets its own and sets back what only the other one sets. All within one transaction, so
    /// that a killed trial is undone like any other change.
    Settings {
        /// The transaction.
        transaction: Box<Transaction>,
        /// What arm A sets, in order of applying; nothing where it is the machine as it was.
        a: Vec<Setting>,
        /// What arm B sets.
        b: Vec<Setting>,
        /// The arm set now; `None` before the first flip, when the machine is as it was.
        now: Option<Arm>,
    },
    /// One shell command for each arm.
    Commands {
        /// Makes arm A.
        a: String,
        /// Makes arm B.
        b: String,
        /// The arm set now; `B` also while it is not certain that arm A holds.
        now: Option<Arm>,
    },
}

/// A change that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// Settings, which the transaction of this id undoes.
    Settings(String),
    /// Arm B's command; nothing of rxlab's undoes it.
    Commands,
}

/// An arm cannot be set.
#[derive(Debug, Error)]
pub enum FactorError {
    /// A setting.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// A command.
    #[error("the command of arm {arm:?}, `{command}`, {why}")]
    Command {
        /// Which arm.
        arm: Arm,
        /// The command.
        command: String,
        /// How it ended.
        why: String,
    },
}

impl Factor {
    /// Makes `arm` hold.
    pub fn set(&mut self, host: &dyn Host, arm: Arm) -> Result<(), FactorError> {
        match self {
            Factor::Settings { transaction, a, b, now } => {
                let (from, to): (&[Setting], &[Setting]) = match (arm, *now) {
                    (Arm::A, None) => (&[], a),
                    (Arm::A, Some(Arm::B)) => (b, a),
                    (Arm::B, None) => (&[], b),
                    (Arm::B, Some(Arm::A)) => (a, b),
                    (Arm::A, Some(Arm::A)) | (Arm::B, Some(Arm::B)) => return Ok(()),
                };
                flip(transaction, host, from, to)?;
                *now = Some(arm);
                Ok(())
            }
            Factor::Commands { a, b, now } => {
                if *now != Some(arm) {
                    // A command that fails may have done half of its work: from here on it takes the
                    // command of arm A to put the machine back.
                    *now = Some(Arm::B);
                    run(arm, if arm == Arm::A { a } else { b })?;
                    *now = Some(arm);
                }
                Ok(())
            }
        }
    }

    /// Puts the machine back. For settings this closes the transaction and says what became of each
    /// value; for commands arm A's is run.
    pub fn undo(self, host: &dyn Host) -> Result<Option<Undo>, FactorError> {
        match self {
            Factor::Settings { transaction, .. } => Ok(Some(transaction.undo(host, &look(host)))),
            Factor::Commands { a, now, .. } => {
                if now == Some(Arm::B) {
                    run(Arm::A, &a)?;
                }
                Ok(None)
            }
        }
    }

    /// Leaves arm B set for good.
    pub fn keep(mut self, host: &dyn Host) -> Result<Kept, FactorError> {
        self.set(host, Arm::B)?;
        match self {
            Factor::Settings { transaction, .. } => {
                let id = transaction.id().to_owned();
                transaction.keep_confirmed(host, &look(host)).map_err(ApplyError::from)?;
                Ok(Kept::Settings(id))
            }
            Factor::Commands { .. } => Ok(Kept::Commands),
        }
    }
}

/// Where the targets are now: an interface may have been renamed or have gone since the last flip, and
/// interrupt numbers may have changed hands.
fn look(host: &dyn Host) -> Model {
    Model::new(&Inventory::take(host, Scope::Path))
}

/// From what one arm sets to what the other one does: values that go back go back first, newest first.
fn flip(
    transaction: &mut Transaction,
    host: &dyn Host,
    from: &[Setting],
    to: &[Setting],
) -> Result<(), ApplyError> {
    if from.is_empty() && to.is_empty() {
        return Ok(());
    }
    let mut model = look(host);
    let again = |gone: &Setting| to.iter().any(|s| s.knob == gone.knob && s.target == gone.target);
    for setting in from.iter().rev().filter(|setting| !again(setting)) {
        set_back(transaction, host, &mut model, setting)?;
    }
    for setting in to {
        transaction.set(host, &mut model, setting)?;
    }
    Ok(())
}

/// A target that already had the wanted value was never touched: there is nothing to set back.
fn set_back(
    transaction: &mut Transaction,
    host: &dyn Host,
    model: &mut Model,
    setting: &Setting,
) -> Result<(), ApplyError> {
    match transaction.set_back(host, model, &setting.knob, &setting.target) {
        Ok(_) | Err(ApplyError::NotTouched { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn run(arm: Arm, command: &str) -> Result<(), FactorError> {
    let failed = |why: String| FactorError::Command { arm, command: command.to_owned(), why };
    let output = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(format!("cannot be started: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.trim().lines().last().map_or_else(String::new, |line| format!(": {line}"));
    Err(failed(format!("ended with {}{last}", output.status)))
}

#[cfg(test)]
mod tests {
    use super::Factor;
    use crate::host::RecordedHost;
    use crate::trial::record::Arm;

    fn lines(path: &std::path::Path) -> String {
        std::fs::read_to_string(path).unwrap_or_default().replace('\n', " ")
    }

    /// A command of arm B that failed halfway was once left as it was: only a whole one was undone.
    #[test]
    fn what_a_failed_command_began_is_put_back() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let file = folder.path().join("said");
        let say = |word: &str| format!("echo {word} >> {}", file.display());
        let (a, b) = (say("a"), format!("{}; exit 1", say("half")));
        let host = RecordedHost::new();
        let mut factor = Factor::Commands { a, b, now: None };
        factor.set(&host, Arm::A).expect("it echoes");
        factor.set(&host, Arm::A).expect("nothing to do");
        let error = factor.set(&host, Arm::B).expect_err("it exits with 1").to_string();
        assert!(error.ends_with("ended with exit status: 1"), "{error}");
        assert!(factor.undo(&host).expect("it echoes").is_none());
        assert_eq!(lines(&file), "a half a ");
    }

    #[test]
    fn commands_that_never_ran_are_not_undone() {
        let factor = Factor::Commands { a: "exit 1".into(), b: "exit 1".into(), now: None };
        assert!(factor.undo(&RecordedHost::new()).expect("nothing runs").is_none());
    }
}
