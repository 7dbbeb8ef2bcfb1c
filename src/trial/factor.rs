//! What a trial flips: settings inside one transaction, or a pair of shell commands.

#![allow(clippy::disallowed_methods)] // Starts the user's commands.

use std::process::{Command, Stdio};

use thiserror::Error;

use super::record::Arm;
use crate::apply::{ApplyError, Transaction, Undo};
use crate::host::Host;
use crate::model::Model;
use crate::plan::Setting;

/// The factor of a trial.
pub enum Factor {
    /// Arm B sets these; arm A sets them back to what they were. All within one transaction, so that
    /// a killed trial is undone like any other change.
    Settings {
        /// The transaction.
        transaction: Box<Transaction>,
        /// Where the targets are.
        model: Box<Model>,
        /// In order of applying.
        settings: Vec<Setting>,
        /// The arm set now; `None` before the first flip, when the machine is as it was.
        now: Option<Arm>,
    },
    /// One shell command for each arm.
    Commands {
        /// Makes arm A.
        a: String,
        /// Makes arm B.
        b: String,
        /// The arm set now.
        now: Option<Arm>,
    },
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
            Factor::Settings { transaction, model, settings, now } => {
                match (arm, *now) {
                    (Arm::A, Some(Arm::B)) => {
                        for setting in settings.iter().rev() {
                            set_back(transaction, host, model, setting)?;
                        }
                    }
                    (Arm::B, None | Some(Arm::A)) => {
                        for setting in settings.iter() {
                            transaction.set(host, model, setting)?;
                        }
                    }
                    (Arm::A, None | Some(Arm::A)) | (Arm::B, Some(Arm::B)) => {}
                }
                *now = Some(arm);
                Ok(())
            }
            Factor::Commands { a, b, now } => {
                if *now != Some(arm) {
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
            Factor::Settings { transaction, model, .. } => Ok(Some(transaction.undo(host, &model))),
            Factor::Commands { a, now, .. } => {
                if now == Some(Arm::B) {
                    run(Arm::A, &a)?;
                }
                Ok(None)
            }
        }
    }

    /// Leaves arm B set for good: settings stay, undoable by the id that is returned.
    pub fn keep(mut self, host: &dyn Host) -> Result<Option<String>, FactorError> {
        self.set(host, Arm::B)?;
        match self {
            Factor::Settings { transaction, .. } => {
                let id = transaction.id().to_owned();
                transaction.keep_confirmed().map_err(ApplyError::from)?;
                Ok(Some(id))
            }
            Factor::Commands { .. } => Ok(None),
        }
    }
}

/// A target that already had the wanted value was never touched: there is nothing to set back.
fn set_back(
    transaction: &mut Transaction,
    host: &dyn Host,
    model: &Model,
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
    let last = said.trim().lines().last().unwrap_or_default();
    Err(failed(format!("ended with {}: {last}", output.status)))
}
