//! Shell commands inside a transaction: the command that reverts one is on disk before it runs; undo runs it.
//!
//! rxlab does not know what a command changes. It knows which command reverts the change, and expects that it
//! may run at any time: twice, or after a command that never started.

use serde::Serialize;

use super::{ApplyError, Transaction};
use crate::journal::{BackCommand, Journal, JournalError, Outcome};
use rxlab_sys::{Action, Host, HostError};

/// Result of undoing the shell commands of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommandUndo {
    /// The command that reverts the others.
    #[serde(flatten)]
    pub command: BackCommand,
    /// [`Outcome::Restored`] on success, else [`Outcome::Failed`].
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Transaction {
    /// Runs `command` in the directory of `back`, which reverts it. After an error the effect may be partial,
    /// and undo runs `back`.
    pub fn run(&mut self, host: &dyn Host, command: &str, back: &BackCommand) -> Result<(), ApplyError> {
        self.note_back(back)?;
        self.is_reverted = false;
        Ok(shell(host, command, back, true)?)
    }

    /// Runs `back`, after which undo has nothing to run.
    ///
    /// The journal says so only when the transaction ends: a trial compares what follows the two commands, so neither may
    /// leave more work to the disk than the other. After a kill undo runs `back` once more.
    pub fn run_back(&mut self, host: &dyn Host, back: &BackCommand) -> Result<(), ApplyError> {
        // Like any command, it can be interrupted.
        self.note_back(back)?;
        self.is_reverted = false;
        shell(host, &back.back, back, true)?;
        self.is_reverted = true;
        Ok(())
    }

    /// Records that nothing is left to revert, if the reverting command was the last one.
    pub(super) fn note_reverted(&mut self) -> Result<(), JournalError> {
        if std::mem::take(&mut self.is_reverted) {
            self.journal.command_undone(&Outcome::Restored)
        } else {
            Ok(())
        }
    }

    fn note_back(&mut self, back: &BackCommand) -> Result<(), JournalError> {
        match self.journal.history().pending_command() {
            Some(pending) if pending.command == *back => Ok(()),
            _ => self.journal.command(back),
        }
    }
}

/// Runs the command that reverts those of a transaction; `None` when there is nothing to revert.
/// `journal_error` keeps the first journal error.
pub(super) fn take_back(
    journal: &mut Journal,
    host: &dyn Host,
    journal_error: &mut Option<JournalError>,
) -> Option<CommandUndo> {
    let command = journal.history().pending_command()?.command;
    // An impatient user presses Ctrl-C twice; the second must not interrupt the undo.
    let outcome = match shell(host, &command.back, &command, false) {
        Ok(()) => Outcome::Restored,
        Err(error) => Outcome::Failed { why: error.to_string() },
    };
    if let Err(error) = journal.command_undone(&outcome) {
        journal_error.get_or_insert(error);
    }
    Some(CommandUndo { command, outcome })
}

fn shell(host: &dyn Host, command: &str, back: &BackCommand, interruptible: bool) -> Result<(), HostError> {
    let (command, directory, directory_id) = (command.to_owned(), back.directory.clone(), back.directory_id);
    host.act(&Action::Shell { command, directory, directory_id, interruptible })
}

#[cfg(test)]
mod tests {
    use super::CommandUndo;
    use crate::apply::testbed::{begin, flaky, resume};
    use crate::apply::{State, Transaction, Undo, status};
    use crate::journal::{BackCommand, Disk, FlakyStorage, Outcome, Store, Trouble, make_directory};
    use crate::knob::testbed::model;
    use rxlab_sys::{Cause, DirectoryId, Failpoint, Fault, Host, LiveHost};

    const ENOSPC: i32 = 28;

    struct Scene {
        folder: tempfile::TempDir,
        host: LiveHost,
    }

    impl Scene {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a temporary directory");
            let host = LiveHost::open(folder.path()).expect("opened");
            Self { folder, host }
        }

        fn store(&self) -> Store {
            Store::new(Disk::new(self.folder.path().join("state")))
        }

        /// A transaction that ran `command`, which `back` reverts, and its id.
        fn ran(&self, command: &str, back: &BackCommand) -> (Transaction, String) {
            let mut transaction = begin(&self.store(), None);
            transaction.run(&self.host, command, back).expect("it echoes");
            let id = transaction.id().to_owned();
            (transaction, id)
        }

        /// Uses the working directory of the scene.
        fn back(&self, text: &str) -> BackCommand {
            let directory = self.folder.path().to_str().expect("text").to_owned();
            BackCommand { back: text.to_owned(), directory: Some(directory), ..BackCommand::default() }
        }

        /// Undoes as the next process would.
        fn undo(&self, id: &str) -> Undo {
            resume(&self.store(), id).undo(&self.host, &model())
        }

        fn said(&self) -> String {
            self.host.read_text("said").unwrap_or_default().replace('\n', " ")
        }
    }

    fn outcome(undo: &Undo) -> Option<&Outcome> {
        undo.command.as_ref().map(|CommandUndo { outcome, .. }| outcome)
    }

    #[test]
    fn another_process_takes_a_command_back() {
        let scene = Scene::new();
        let back = scene.back("echo a >> said");
        let mut transaction = begin(&scene.store(), None);
        let id = transaction.id().to_owned();
        transaction.run_back(&scene.host, &back).expect("it echoes");
        transaction.run(&scene.host, "echo b >> said", &back).expect("it echoes");
        drop(transaction);
        let undo = scene.undo(&id);
        assert!(undo.closed && undo.is_clean() && !undo.has_failed());
        assert_eq!((outcome(&undo), scene.said().as_str()), (Some(&Outcome::Restored), "a b a "));
        assert_eq!(scene.store().open_ids().expect("listed"), [""; 0]);
    }

    /// Undo once ran what a user had put at the place of a directory that was gone.
    #[test]
    fn nothing_is_taken_back_in_another_directory_of_that_name() {
        let scene = Scene::new();
        let directory = scene.folder.path().join("trial");
        let made = || make_directory(&directory).expect("made");
        made();
        let path = directory.to_str().expect("text").to_owned();
        let directory_id = Some(DirectoryId::of(&path).expect("there"));
        let back = BackCommand { back: "echo a >> ../said".to_owned(), directory: Some(path), directory_id };
        let (transaction, id) = scene.ran("echo b >> ../said", &back);
        drop(transaction);
        rustix::fs::rename(&directory, scene.folder.path().join("old")).expect("renamed");
        made();
        assert!(!scene.undo(&id).closed);
        assert_eq!(scene.said(), "b ");
    }

    #[test]
    fn what_was_taken_back_already_is_not_taken_back_again() {
        let scene = Scene::new();
        let back = scene.back("echo a >> said");
        let (mut transaction, _) = scene.ran("echo b >> said", &back);
        transaction.run_back(&scene.host, &back).expect("it echoes");
        let undo = transaction.undo(&scene.host, &model());
        assert!(undo.closed && undo.is_clean());
        assert_eq!((outcome(&undo), scene.said().as_str()), (None, "b a "));
    }

    /// Killed between record and command: `back` runs although nothing happened.
    #[test]
    fn a_command_that_never_ran_is_taken_back_all_the_same() {
        let scene = Scene::new();
        let back = scene.back("echo a >> said");
        let host = LiveHost::open(scene.folder.path()).expect("opened");
        let dies = flaky("b >> said", Fault::Refuse(Cause::Denied), host);
        let mut transaction = begin(&scene.store(), None);
        let id = transaction.id().to_owned();
        transaction.run(&dies, "echo b >> said", &back).expect_err("refused");
        drop(transaction);
        assert!(scene.undo(&id).closed);
        assert_eq!(scene.said(), "a ");
    }

    #[test]
    fn a_way_back_that_fails_leaves_the_transaction_open() {
        let scene = Scene::new();
        let back = scene.back("test -e said && echo no >&2 && exit 7");
        let (transaction, id) = scene.ran("echo b > said", &back);
        drop(transaction);
        for _ in 0..2 {
            let undo = scene.undo(&id);
            assert!(!undo.closed && !undo.is_clean() && undo.has_failed());
            let why = "`test -e said && echo no >&2 && exit 7` ended with exit status: 7: no";
            assert_eq!(outcome(&undo), Some(&Outcome::Failed { why: why.into() }));
        }
        let open = scene.store().open_of("/", "boot-1").expect("listed");
        let status = status(&open[0].1, &[], &scene.host, &model()).expect("begun");
        assert_eq!((status.command.as_ref(), status.state), (Some(&back), State::Unfinished));
    }

    #[test]
    fn a_command_that_is_kept_stays_undoable() {
        let scene = Scene::new();
        let back = scene.back("echo a >> said");
        let (transaction, id) = scene.ran("echo b >> said", &back);
        transaction.keep_confirmed(&scene.host, &model()).expect("kept");
        let open = scene.store().open_of("/", "boot-1").expect("listed");
        let status = status(&open[0].1, &[], &scene.host, &model()).expect("begun");
        assert!(status.is_fine() && status.command == Some(back), "{status:?}");
        assert!(scene.undo(&id).is_clean());
        assert_eq!(scene.said(), "b a ");
    }

    /// Without the record on disk the command must not run; undo needs no disk space.
    #[test]
    fn a_disk_that_fills_up_at_any_operation() {
        let run = |trouble: Option<Trouble>| {
            let scene = Scene::new();
            let back = scene.back("echo a >> said");
            let fuse = Failpoint::new(None, || ());
            let state = scene.folder.path().join("state");
            let store = Store::new(FlakyStorage::new(Disk::new(state), fuse.clone(), trouble));
            let mut transaction = begin(&store, None);
            let id = transaction.id().to_owned();
            let begun = fuse.count();
            let ran = transaction.run(&scene.host, "echo b >> said", &back);
            assert_eq!(ran.is_ok(), scene.said() == "b ", "{trouble:?}");
            let undo = transaction.undo(&scene.host, &model());
            assert!(!undo.has_failed() && undo.closed == undo.journal_error.is_none());
            assert!(ran.is_err() || scene.said() == "b a ", "{trouble:?}: {}", scene.said());
            if !undo.closed && scene.store().open_ids().expect("listed").contains(&id) {
                assert!(scene.undo(&id).closed, "{trouble:?}");
            }
            assert!(!scene.said().ends_with("b "), "{trouble:?}");
            (begun, fuse.count())
        };
        let (begun, whole) = run(None);
        assert!(whole > begun + 5, "only {} operations", whole - begun);
        for at in begun + 1..=whole {
            run(Some(Trouble { at, errno: ENOSPC, holds: false }));
        }
    }
}
