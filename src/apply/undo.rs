//! The way back: every target of a transaction to the value it had before the first change.
//!
//! Idempotent: what was put back once is not touched again, and a process killed in the middle is
//! followed by the next one from the journal alone.

use std::borrow::Cow;

use serde::Serialize;

use super::beside;
use super::commands::{self, CommandUndo};
use super::locate::{
    Place, has_queue, ids_of, interface_id, is_another, is_of_queue, locate, was_made_again,
};
use crate::host::Host;
use crate::journal::{Beside, History, Journal, JournalError, Outcome, Touched};
use crate::knob::{self, Knob, KnobError};
use crate::model::{DeviceAddress, Model};
use crate::plan::Target;
use crate::units::NicName;

/// What was found and done about one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UndoOutcome {
    /// Which knob.
    pub knob: String,
    /// On what, by the names of now where the device is still there.
    pub target: Target,
    /// The value to go back to.
    pub original: String,
    /// The last value that the transaction had asked for.
    pub wanted: String,
    /// What was found and done.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Whether the user should look: the value is not the original one and was not expected to go.
    pub trouble: bool,
}

/// The result of undoing one transaction.
#[derive(Debug)]
pub struct Undo {
    /// Which transaction.
    pub id: String,
    /// Each target that was not settled before, in the order of undoing.
    pub outcomes: Vec<UndoOutcome>,
    /// The result for its shell commands; `None` when there was nothing to take back.
    pub command: Option<CommandUndo>,
    /// Whether nothing is left to undo.
    pub closed: bool,
    /// The journal could not be written. The outcomes hold all the same; undoing again will find
    /// nothing to do.
    pub journal_error: Option<JournalError>,
}

impl Undo {
    /// Whether every value is the original one, or went with its device.
    pub fn is_clean(&self) -> bool {
        let trouble = self.outcomes.iter().any(|outcome| outcome.trouble);
        self.journal_error.is_none() && !trouble && !self.has_failed()
    }

    /// Returns true when something failed that another attempt may put back.
    pub fn has_failed(&self) -> bool {
        let failed = |outcome: &Outcome| matches!(outcome, Outcome::Failed { .. });
        let command = self.command.as_ref().map(|command| &command.outcome);
        self.outcomes.iter().map(|undone| &undone.outcome).chain(command).any(failed)
    }
}

/// How undo treats what it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UndoOptions {
    /// Write the original over a value that another program has set.
    pub force: bool,
}

pub(super) fn run(mut journal: Journal, host: &dyn Host, model: &Model, options: UndoOptions) -> Undo {
    let mut outcomes = Vec::new();
    let mut journal_error = None;
    let command = commands::take_back(&mut journal, host, &mut journal_error);
    let mut settled = command.as_ref().is_none_or(|command| command.outcome.settles());
    // Queues come and go with the values that are put back.
    let mut model = Cow::Borrowed(model);
    for touched in journal.history().touched().into_iter().rev() {
        if touched.outcome.as_ref().is_some_and(Outcome::settles) {
            continue;
        }
        let place = locate(host, &model, journal.history(), &touched);
        let (target, outcome) = match place {
            Place::Here(target) => {
                let outcome = put_back(&mut journal, host, &mut model, &touched, &target, options);
                (target, outcome)
            }
            Place::There(host, model, target) => {
                let mut model = Cow::Owned(*model);
                let outcome = put_back(&mut journal, &*host, &mut model, &touched, &target, options);
                (target, outcome)
            }
            Place::Gone => (touched.target.clone(), Outcome::Gone),
            Place::Unknown(why) => (touched.target.clone(), Outcome::Failed { why }),
        };
        settled &= outcome.settles();
        // A guard that tries for days does not fill the disk.
        if touched.outcome.as_ref() != Some(&outcome)
            && let Err(error) = journal.undone(touched.seq, &outcome)
        {
            journal_error.get_or_insert(error);
        }
        outcomes.push(UndoOutcome {
            trouble: is_trouble(&touched, &outcome),
            knob: touched.knob,
            target,
            original: touched.original,
            wanted: touched.wanted,
            outcome,
        });
    }
    let mut closed = false;
    if settled && journal_error.is_none() {
        match journal.close() {
            Ok(()) => closed = true,
            Err(error) => journal_error = Some(error),
        }
    }
    Undo { id: journal.id().to_owned(), outcomes, command, closed, journal_error }
}

fn is_trouble(touched: &Touched, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Unchanged | Outcome::Restored => false,
        // A virtual device takes its values with it when it goes, and so do processes and threads; hardware
        // should not go.
        Outcome::Gone => {
            let fleeting = knob::find(&touched.knob).is_some_and(|knob| knob.is_fleeting());
            !fleeting && !touched.device.as_ref().is_some_and(DeviceAddress::is_virtual)
        }
        Outcome::Altered { .. } | Outcome::Drift { .. } | Outcome::Away | Outcome::Failed { .. } => true,
    }
}

/// Whether `live` is our doing.
///
/// A value of somebody else that a reapply wrote over is not, should it come back: whoever set it once
/// more means it, as whoever sets any other value does. What such a write left half done is: of several
/// interrupts, some may have theirs still and some have ours.
fn is_ours(knob: &dyn Knob, touched: &Touched, live: &str) -> bool {
    let Touched { ours, foreign, unsettled, .. } = touched;
    let is_one_of = |values: &[String]| values.iter().any(|value| knob.same(value, live));
    if is_one_of(ours) {
        return true;
    }
    if is_one_of(foreign) {
        return false;
    }
    let found = if unsettled.is_empty() { ours.clone() } else { [&ours[..], foreign].concat() };
    knob.left_by(&found, unsettled, live)
}

fn another_interface() -> Outcome {
    Outcome::Failed { why: "its name now belongs to another interface".to_owned() }
}

fn put_back(
    journal: &mut Journal,
    host: &dyn Host,
    model: &mut Cow<'_, Model>,
    touched: &Touched,
    target: &Target,
    options: UndoOptions,
) -> Outcome {
    let failed = |why: String| Outcome::Failed { why };
    let Some(knob) = knob::find(&touched.knob) else {
        return failed(format!("this version has no knob `{}`", touched.knob));
    };
    let found = ids_of(host, target);
    let is_other_virtual = touched.device.as_ref().is_some_and(DeviceAddress::is_virtual)
        && touched.ids.zip(found).is_some_and(|(then, found)| then.interface != found.interface);
    if is_other_virtual || is_another(host, target, touched.device.as_ref()) {
        return another_interface();
    }
    let found = found.map(|found| found.interface);
    let is_still_it = || interface_id(host, target) == found;
    let live = match knob.read(host, model, target) {
        Ok(live) => live,
        // The process or thread has ended. An interrupt is not among them: it is missing while its interface is
        // down, and comes back with its value.
        Err(error @ KnobError::NotThere { .. }) => {
            return match host.namespaces() {
                Ok(_) => Outcome::Gone,
                Err(hidden) => failed(format!("{error}, or hidden: {hidden}")),
            };
        }
        Err(error @ KnobError::UnknownQueue { .. }) => {
            let outcome = without_queue(knob, host, journal.history(), touched, target, &error);
            return if is_still_it() { outcome } else { another_interface() };
        }
        Err(error) => return failed(error.to_string()),
    };
    if !is_still_it() {
        return another_interface();
    }
    let is_original = knob.same(&touched.original, &live);
    if is_original && is_whole(knob, touched) {
        return Outcome::Unchanged;
    }
    if !is_original && !is_ours(knob, touched, &live) && !options.force {
        let fresh = knob.is_fresh(host, &live);
        if !(fresh && was_made_again(host, touched, target, journal.history())) {
            return Outcome::Drift { live, fresh };
        }
    }
    if !is_original && let Err(error) = knob.spares(host, model, target, &touched.original, &touched.beside) {
        return failed(error.to_string());
    }
    let Some(armed) = journal.arm_restore(touched.seq) else {
        return failed("its intent is not in the journal".to_owned());
    };
    let beside = match target.nic() {
        Some(nic) => match beside_values(journal, host, model, touched, (nic, is_original), is_still_it) {
            Some(beside) => beside,
            None => return another_interface(),
        },
        None => touched.beside.clone(),
    };
    if !is_original {
        // What was set while the journal was written is not ours to overwrite, nor is another interface that has
        // the name by now.
        if !is_still_it() {
            return another_interface();
        }
        match knob.read(host, model, target) {
            Ok(now) if knob.same(&live, &now) => {}
            Ok(now) => return failed(format!("it changed to {now} in the meantime")),
            Err(error) => return failed(error.to_string()),
        }
        let written = knob
            .write(host, model, target, &touched.original, &armed)
            .and_then(|()| knob.read(host, model, target));
        match written {
            // What was read back may be the value of another one.
            Ok(_) if !is_still_it() => return another_interface(),
            Ok(kept) if knob.same(&touched.original, &kept) => {}
            Ok(kept) => return Outcome::Altered { kept },
            Err(error) => return failed(error.to_string()),
        }
    }
    let (Some(nic), false) = (target.nic(), beside.is_empty()) else { return Outcome::Restored };
    *model = Cow::Owned(beside::rediscover(host, model));
    match beside::replay(host, model, (nic, found), &beside, &armed) {
        Ok(replayed) if is_original && replayed.is_empty() => Outcome::Unchanged,
        Ok(_) => Outcome::Restored,
        Err(error) => failed(error.to_string()),
    }
}

/// The queue is not in the model. Where it does not exist the kernel has freed our value with it; what a new one
/// begins with is the original, or is not, and then the original waits for the queue.
fn without_queue(
    knob: &dyn Knob,
    host: &dyn Host,
    history: &History,
    touched: &Touched,
    target: &Target,
    error: &KnobError,
) -> Outcome {
    let makes_queues = |other: &Touched| {
        other.is_on_same_device(touched)
            && knob::find(&other.knob).is_some_and(|other| other.disturbs().contains(&knob.name()))
    };
    // An interrupt may outlive its queue, unless the transaction itself had made both.
    let went_with_it = || is_of_queue(&touched.knob) || history.touched().iter().any(makes_queues);
    match has_queue(host, target) {
        Ok(false) if knob.is_fresh(host, &touched.original) && went_with_it() => Outcome::Gone,
        Ok(false) => Outcome::Away,
        Ok(true) => Outcome::Failed { why: error.to_string() },
        Err(error) => Outcome::Failed { why: error.to_string() },
    }
}

/// Whether a target that has its original value is all that undo wants: nothing beside it was thrown away that
/// was not set again.
///
/// So it is when our last write made it so, whole, as a trial does that flips back: that write has set again what
/// it threw away, and what differs since is somebody else's. After a write that was cut short, and after an undo
/// that noted what it found, it is not. Nor is it when the last write made something else of it: then another
/// program has brought the original back, or an undo that could note nothing, and either had new queues made.
fn is_whole(knob: &dyn Knob, touched: &Touched) -> bool {
    let by_us = knob.same(&touched.original, &touched.wanted);
    touched.beside.is_empty() || (touched.unsettled.is_empty() && touched.held.is_none() && by_us)
}

/// What has to be set again once the original value is back: what there was before our writes, or what somebody
/// else has made of it since. In the order of how much is known:
///
/// - Once the original is back, what the last undo found and noted before its write counts: whatever is there now, its
///   write left.
/// - Of a write of ours that was cut short, what is there now is what the driver happened to leave, and what was
///   before it counts.
/// - While the value is ours, what is there now is what others want, and is noted before it is thrown away.
/// - Where the original is back and nobody noted anything, what a new queue has was thrown away, and anything else
///   may be somebody's choice and stays.
///
/// `None` when another interface has taken the name while its values were read.
fn beside_values(
    journal: &mut Journal,
    host: &dyn Host,
    model: &Model,
    touched: &Touched,
    (nic, is_original): (&NicName, bool),
    is_still_it: impl Fn() -> bool,
) -> Option<Vec<Beside>> {
    if let (Some(held), true) = (&touched.held, is_original) {
        return Some(beside::overlaid(&touched.beside, held));
    }
    if !touched.unsettled.is_empty() {
        return Some(touched.beside.clone());
    }
    if is_original {
        let values = beside::made_anew(host, model, nic, &touched.beside);
        return is_still_it().then_some(values);
    }
    let mut held = beside::now(host, model, nic, &touched.beside);
    let all = journal.history().touched();
    let own = |one: &Beside| {
        let is_it = |t: &&Touched| t.knob == one.knob && t.target.lasting() == one.target.lasting();
        all.iter().filter(|t| t.is_on_same_device(touched)).find(is_it)
    };
    // A value of the transaction itself that could not be put back goes with its queue: its original is what comes back.
    for one in &mut held {
        let knob = knob::find(&one.knob);
        let is_left = |t: &&Touched| !t.outcome.as_ref().is_some_and(Outcome::settles);
        if let Some((knob, own)) = knob.zip(own(one).filter(is_left))
            && is_ours(knob, own, &one.value)
        {
            one.value.clone_from(&own.original);
        }
    }
    // An earlier attempt was refused: what is there still counts, but for queues that it had made anew all the same.
    // What the transaction itself had set is back by now, and not to be set again.
    if let Some(before) = &touched.held {
        let lost = beside::made_anew(host, model, nic, before).into_iter().filter(|one| own(one).is_none());
        held = beside::overlaid(&held, &lost.collect::<Vec<_>>());
    }
    if !is_still_it() {
        return None;
    }
    // Its room was set aside with the intent. Where no room can be set aside, a full disk must not keep the
    // machine from being restored all the same.
    let _ = journal.holding(touched.seq, &held);
    Some(beside::overlaid(&touched.beside, &held))
}

#[cfg(test)]
mod tests;
