//! Shell commands in a journal: the one still to be reverted. Pure.

use serde::{Deserialize, Serialize};

use super::record::{Outcome, Record};
use super::recover::History;
use rxlab_sys::DirectoryId;

/// A shell command that reverts the effect of another one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BackCommand {
    /// The command, as `sh -c` takes it.
    pub back: String,
    /// Its working directory; without one, that of the program that runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Identity of that directory: the command is not run in another one. Earlier versions did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory_id: Option<DirectoryId>,
}

/// A command whose effect was not reverted yet. It may never have started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCommand {
    pub command: BackCommand,
    /// The error of the last undo; `None` before the first.
    pub failure: Option<String>,
}

impl History {
    /// True if a shell command was run, or was about to.
    pub fn ran_command(&self) -> bool {
        self.records.iter().any(|record| matches!(record, Record::Command(_)))
    }

    /// The command that undo has to run; `None` if none was started since the last reverted one.
    pub fn pending_command(&self) -> Option<PendingCommand> {
        let mut pending: Option<PendingCommand> = None;
        for record in &self.records {
            match record {
                Record::Command(command) => {
                    pending = Some(PendingCommand { command: command.clone(), failure: None });
                }
                Record::CommandUndone { outcome } if outcome.settles() => pending = None,
                Record::CommandUndone { outcome: Outcome::Failed { why } } => {
                    if let Some(pending) = &mut pending {
                        pending.failure = Some(why.clone());
                    }
                }
                _ => {}
            }
        }
        pending
    }
}

#[cfg(test)]
mod tests {
    use super::{BackCommand, DirectoryId};
    use crate::journal::{History, Outcome, Record};

    fn back(text: &str) -> Record {
        Record::Command(BackCommand { back: text.to_owned(), ..BackCommand::default() })
    }

    #[test]
    fn the_last_command_that_was_not_taken_back_is_pending() {
        let undone = |outcome: Outcome| Record::CommandUndone { outcome };
        let failed = || undone(Outcome::Failed { why: "no".into() });
        let pending = |records: &[Record]| {
            let history = History { records: records.to_vec(), valid_bytes: 0 };
            history.pending_command().map(|pending| (pending.command.back, pending.failure))
        };
        let some = |text: &str, failure: Option<&str>| Some((text.to_owned(), failure.map(str::to_owned)));
        assert_eq!(pending(&[]), None);
        assert_eq!(pending(&[back("a")]), some("a", None));
        assert_eq!(pending(&[back("a"), undone(Outcome::Restored)]), None);
        assert_eq!(pending(&[back("a"), undone(Outcome::Restored), back("b")]), some("b", None));
        assert_eq!(pending(&[back("a"), failed()]), some("a", Some("no")));
        assert_eq!(pending(&[back("a"), failed(), undone(Outcome::Restored)]), None);
        assert_eq!(pending(&[back("a"), failed(), back("a")]), some("a", None));
    }

    #[test]
    fn a_line_of_it() {
        let command = BackCommand {
            back: "echo \"a\"".into(),
            directory: Some("/srv".into()),
            directory_id: Some(DirectoryId { inode: 7, owner: 0 }),
        };
        let line = String::from_utf8(Record::Command(command).to_line()).expect("text");
        assert!(line.ends_with(
            r#" {"record":"command","back":"echo \"a\"","directory":"/srv","directory_id":{"inode":7,"owner":0}}
"#
        ));
        let line = Record::CommandUndone { outcome: Outcome::Restored }.to_line();
        assert!(line.ends_with(b" {\"record\":\"command_undone\",\"outcome\":\"restored\"}\n"));
    }
}
