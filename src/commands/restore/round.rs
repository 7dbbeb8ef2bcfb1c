//! One round: sets the values whose targets exist; the others wait.

use std::sync::atomic::AtomicBool;

use super::super::apply::report::{self, Done};
use super::super::machine::Machine;
use super::super::persist::mac;
use super::super::{apply as apply_command, place};
use crate::apply::{self, ApplyError, BeginInfo, Failure, Transaction};
use crate::commands::Global;
use crate::error::CommandError;
use crate::host::ProcessId;
use crate::journal::{JournalError, LockError};
use crate::knob::{self, KnobError};
use crate::persist::{Found, found, groups};
use crate::plan::{Plan, PlannedSetting, Setting};
use crate::units::NicName;

/// The outcome of one round.
#[derive(Default)]
pub(super) struct Round {
    /// Set, already set, or refused: not to be tried again.
    pub(super) done: Vec<PlannedSetting>,
    /// Reasons of refusals.
    pub(super) refused: Vec<CommandError>,
    /// Missing targets, with the reason, one line each.
    pub(super) waiting: Vec<String>,
}

/// A setting as in the plan, and the same with current names.
type Pair = (PlannedSetting, PlannedSetting);

/// Sets the values whose targets exist by now.
pub(super) fn look(
    global: &Global,
    machine: &Machine,
    plan: &Plan,
    only: Option<&NicName>,
    stop: &AtomicBool,
    said: &mut bool,
) -> Round {
    let mut round = Round::default();
    let Found { here, absent } = found(plan, &machine.model, |nic| mac(&machine.host, nic), only);
    round.waiting.extend(absent.iter().map(|setting| format!("{setting}: interface not found")));
    if let Some(nic) = only.filter(|nic| machine.model.nic(nic).is_none()) {
        round.waiting.push(format!("there is no interface {nic}"));
    }
    for group in groups(here) {
        let group = without_absent(machine, group, &mut round);
        let attempt = set(global, machine, &plan.name, &group, stop);
        let Attempt::Absent(why) = attempt else {
            round.end(group, attempt, said);
            continue;
        };
        // Found missing only now, and it may never appear: the others need not wait for it.
        let (fleeting, lasting): (Vec<Pair>, Vec<Pair>) = group.into_iter().partition(is_fleeting);
        if fleeting.is_empty() {
            round.end(lasting, Attempt::Absent(why), said);
            continue;
        }
        round.waiting.push(why.to_string());
        let attempt = set(global, machine, &plan.name, &lasting, stop);
        round.end(lasting, attempt, said);
    }
    round
}

fn is_fleeting((_, here): &Pair) -> bool {
    knob::find(&here.set.knob).is_some_and(|knob| knob.is_fleeting())
}

/// Returns the settings of a group whose process or thread exists; the others wait.
fn without_absent(machine: &Machine, group: Vec<Pair>, round: &mut Round) -> Vec<Pair> {
    let settings: Vec<Setting> = group.iter().map(|(_, here)| here.set.clone()).collect();
    let mut there = Vec::new();
    for pair in group {
        match apply::awaits(&machine.host, &machine.model, &pair.1.set, &settings) {
            Some(why) => round.waiting.push(format!("{}: {why}", pair.1.set.knob)),
            None => there.push(pair),
        }
    }
    there
}

/// Outcome of an attempt.
enum Attempt {
    /// Done; true if anything had to be written.
    Made(bool),
    /// Not to be tried again.
    Refused(CommandError),
    /// Not now: an interface is not ready, or another process is changing the machine, which must be read again
    /// after that.
    Later(String),
    /// The target of one of the settings does not exist. Nothing is set.
    Absent(KnobError),
}

impl Round {
    fn end(&mut self, group: Vec<Pair>, attempt: Attempt, said: &mut bool) {
        match attempt {
            Attempt::Later(why) => return self.waiting.push(why),
            Attempt::Made(wrote) => *said |= wrote,
            Attempt::Refused(error) => self.refused.push(error),
            Attempt::Absent(error) => self.refused.push(place::apply_error(error.into())),
        }
        self.done.extend(group.into_iter().map(|(of_plan, _)| of_plan));
    }
}

impl From<ApplyError> for Attempt {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::Knob(error @ KnobError::NotThere { .. }) => Attempt::Absent(error),
            ApplyError::Knob(
                error @ (KnobError::UnknownNic { .. }
                | KnobError::UnknownQueue { .. }
                | KnobError::NoIrq { .. }),
            ) => Attempt::Later(error.to_string()),
            error => Attempt::Refused(place::apply_error(error)),
        }
    }
}

/// Applies the settings of a group, and prints them.
fn set(global: &Global, machine: &Machine, name: &str, group: &[Pair], stop: &AtomicBool) -> Attempt {
    let here = group.iter().map(|(_, here)| here.clone()).collect();
    let part = Plan { settings: here, ..Plan::of(name, &[]) };
    let changes = apply::check(&machine.host, &machine.model, &part)
        .and_then(|settings| apply::rehearse(&machine.host, &machine.model, &settings));
    match changes {
        Ok(changes) if changes.iter().all(|change| !change.needed) => Attempt::Made(false),
        Ok(_) => write(global, machine, &part, stop).unwrap_or_else(Attempt::Refused),
        Err(error) => error.into(),
    }
}

fn write(
    global: &Global,
    machine: &Machine,
    part: &Plan,
    stop: &AtomicBool,
) -> Result<Attempt, CommandError> {
    let root = place::root(global)?;
    let store = place::store(global);
    let info = BeginInfo {
        root: &root,
        netns: machine.netns.clone(),
        home: place::home(&root),
        applier: ProcessId::own(),
        what: "restore".to_owned(),
        ..BeginInfo::new(&machine.model.identity)
    };
    let transaction = match Transaction::begin(&store, info) {
        // The units of the boot and of an interface may run at the same time.
        Err(ApplyError::Journal(JournalError::Lock(error @ LockError::Held { .. }))) => {
            return Ok(Attempt::Later(error.to_string()));
        }
        begun => begun.map_err(place::apply_error)?,
    };
    let id = transaction.id().to_owned();
    let archived = place::archived_lines(transaction.archived());
    let (transaction, machine, settings) = apply_command::look_again(global, transaction, part)?;
    match transaction.apply(&machine.host, &machine.model, &settings, stop) {
        Ok(kept) => {
            let done = Done { id: &id, kept: &kept, archived: &archived, confirm: None };
            report::kept(global, &done, false).map(|()| Attempt::Made(true))
        }
        Err(failure) => match *failure {
            Failure { error: ApplyError::Knob(error @ KnobError::NotThere { .. }), undo }
                if undo.is_clean() =>
            {
                Ok(Attempt::Absent(error))
            }
            failure => Err(report::rolled_back(failure)),
        },
    }
}
