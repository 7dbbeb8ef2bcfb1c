//! Undo: every target of a transaction returns to the value before the first change.
//!
//! Idempotent: restored values are not touched again, and if a process is killed midway, the next one
//! continues from the journal alone.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::caught::caught;
use super::commands::{self, CommandUndo};
use super::displaced::{self, Dependents};
use super::locate::{
    Place, has_queue, is_as_old, is_of_namespace, is_of_queue, locate, object_id, object_now, was_made_again,
};
use super::search::Search;
use super::set::{self, Known, Unset};
use crate::journal::{
    Armed, Displaced, History, Journal, JournalError, Lapse, Notice, Outcome, Touched, UndoOutcome,
};
use crate::knob::{self, Knob, KnobError, Parts, Site};
use rxlab_base::units::NicName;
use rxlab_path::model::{DeviceAddress, Model};
use rxlab_setting::Target;
use rxlab_sys::Host;

/// The result of undoing one transaction.
#[derive(Debug)]
pub struct Undo {
    pub id: String,
    /// Each target that is not as it was before, or was not until now, in the order of undoing.
    pub outcomes: Vec<UndoOutcome>,
    /// Targets that earlier attempts restored.
    pub earlier: Vec<UndoOutcome>,
    /// The result for its shell commands; `None` when there was nothing to revert.
    pub command: Option<CommandUndo>,
    /// True if nothing is left to undo.
    pub closed: bool,
    /// The journal could not be written. The outcomes are still valid; another undo will find
    /// nothing to do.
    pub journal_error: Option<JournalError>,
}

impl Undo {
    /// True if every value is the original one, or went with its device.
    pub fn is_clean(&self) -> bool {
        let trouble = self.outcomes.iter().any(|outcome| outcome.trouble);
        self.journal_error.is_none() && !trouble && !self.has_failed()
    }

    /// What to say of an undo that no user asked for: of all targets, as earlier attempts have said nothing.
    pub fn notice(self, what: String, lapse: Lapse) -> Notice {
        let Self { id, outcomes, earlier, closed: is_closed, .. } = self;
        Notice { id, what, lapse, is_closed, values: [earlier, outcomes].concat() }
    }

    /// True if something failed that another attempt may restore.
    pub fn has_failed(&self) -> bool {
        let failed = |outcome: &Outcome| matches!(outcome, Outcome::Failed { .. });
        let command = self.command.as_ref().map(|command| &command.outcome);
        self.outcomes.iter().map(|undone| &undone.outcome).chain(command).any(failed)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UndoOptions {
    /// Overwrite values set by another program with the original, and let drivers delete the flow rules and RSS contexts that others
    /// have added.
    pub force: bool,
}

pub(super) fn run(
    mut journal: Journal,
    host: &dyn Host,
    model: &Model,
    options: UndoOptions,
    search: &Search,
) -> Undo {
    let mut journal_error = None;
    let command = commands::take_back(&mut journal, host, &mut journal_error);
    // Queues come and go with the restored values.
    let mut model = Cow::Borrowed(model);
    let (mut outcomes, mut earlier, mut targets) = (Vec::new(), Vec::new(), VecDeque::new());
    for touched in journal.history().touched().into_iter().rev() {
        let is_over = match &touched.outcome {
            // It is only looked at: whoever asks may not have heard of it.
            Some(Outcome::Drift { .. }) => false,
            Some(Outcome::RestoredInPart { .. }) => !options.force,
            _ => true,
        };
        match settled(&touched).filter(|_| is_over) {
            Some(one) if one.trouble => outcomes.push(one),
            Some(one) => earlier.push(one),
            None => targets.push_back((touched, None)),
        }
    }
    while let Some((touched, again)) = targets.pop_front() {
        let back = caught(|| match locate(host, &model, journal.history(), &touched, search) {
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
        });
        let (target, outcome) = back.unwrap_or_else(|why| (touched.target.clone(), Outcome::Failed { why }));
        let outcome = match &touched.outcome {
            // It cannot be looked at now.
            Some(left @ Outcome::Drift { fresh: false, .. }) if !outcome.settles() => left.clone(),
            _ => outcome,
        };
        // A guard that retries for days must not fill the disk.
        if touched.outcome.as_ref() != Some(&outcome)
            && let Err(error) = journal.undone(touched.seq, &outcome)
        {
            journal_error.get_or_insert(error);
        }
        say_replaced(&mut outcomes, &touched, &target, &outcome);
        // An older write that reset it may set it again.
        if again.is_none() && matches!(outcome, Outcome::Drift { fresh: true, .. }) {
            let touched = Touched { outcome: Some(outcome.clone()), ..touched.clone() };
            targets.push_back((touched, Some(outcomes.len())));
        }
        let undone = undone(touched, target, outcome);
        match again.and_then(|at| outcomes.get_mut(at)) {
            Some(earlier) => *earlier = undone,
            None => outcomes.push(undone),
        }
    }
    let settled = outcomes.iter().map(|undone| &undone.outcome);
    let settled = settled.chain(command.as_ref().map(|command| &command.outcome)).all(Outcome::settles);
    let mut closed = false;
    if settled && journal_error.is_none() {
        match journal.close() {
            Ok(()) => closed = true,
            Err(error) => journal_error = Some(error),
        }
    }
    Undo { id: journal.id().to_owned(), outcomes, earlier, command, closed, journal_error }
}

/// What the last attempt did with a target, if it needs no other one.
pub(super) fn settled(touched: &Touched) -> Option<UndoOutcome> {
    let outcome = touched.outcome.clone().filter(Outcome::settles)?;
    Some(undone(touched.clone(), touched.target.clone(), outcome))
}

fn undone(touched: Touched, target: Target, outcome: Outcome) -> UndoOutcome {
    UndoOutcome {
        trouble: is_trouble(&touched, &outcome),
        knob: touched.knob,
        target,
        original: touched.original,
        wanted: touched.wanted,
        outcome,
    }
}

/// Outcomes of single queues name the original that a write for all queues, undone after them at `now`, has given them. If that
/// failed, it may have given them any value.
fn say_replaced(outcomes: &mut [UndoOutcome], for_all: &Touched, now: &Target, undone: &Outcome) {
    let replaces = knob::find(&for_all.knob).map_or(&[][..], |knob| knob.replaces());
    let is_replaced = |one: &UndoOutcome| {
        replaces.contains(&one.knob.as_str())
            && one.target.nic() == now.nic()
            && matches!(one.outcome, Outcome::Restored | Outcome::Unchanged)
    };
    for one in outcomes.iter_mut().filter(|one| is_replaced(one)) {
        match undone {
            Outcome::Restored => {}
            Outcome::Altered { .. } | Outcome::Failed { .. } => {
                let why = format!("it comes back with {} {now}", for_all.knob);
                (one.outcome, one.trouble) = (Outcome::Failed { why }, true);
                continue;
            }
            _ => return,
        }
        let is_it =
            |value: &&Displaced| value.knob == one.knob && value.target.lasting() == one.target.lasting();
        let own = for_all.displaced.iter().find(is_it).map(|value| &value.value);
        one.original = own.unwrap_or(&for_all.original).clone();
    }
}

fn is_trouble(touched: &Touched, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Unchanged | Outcome::Restored => false,
        // Virtual devices take their values with them when they go, and so do processes, threads and network
        // namespaces; hardware should not go.
        Outcome::Gone => {
            let fleeting =
                is_of_namespace(touched) || knob::find(&touched.knob).is_some_and(|knob| knob.is_fleeting());
            !fleeting && !touched.device.as_ref().is_some_and(DeviceAddress::is_virtual)
        }
        Outcome::Altered { .. }
        | Outcome::Drift { .. }
        | Outcome::RestoredInPart { .. }
        | Outcome::Deferred
        | Outcome::Failed { .. } => true,
    }
}

/// True if we set `live`.
///
/// A foreign value that reapply overwrote is not ours if it returns: setting it again is deliberate,
/// like setting any other value. Reapply may also leave such a value half written: of several
/// interrupts, some may have the foreign value and some ours.
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

fn another_object() -> Outcome {
    Outcome::Failed {
        why: "its name now leads to another interface, process or control group, or to none".to_owned(),
    }
}

/// True for a control group whose inode is not in the journal: one that is not at its path may have been renamed.
fn is_unknown_group(host: &dyn Host, touched: &Touched) -> bool {
    let is_group = matches!(touched.target, Target::Cgroup(_) | Target::Unit(_));
    is_group && touched.group.is_none() && host.namespace().is_some()
}

/// Puts a value back, and looks who else has it from the target.
fn put_back(
    journal: &mut Journal,
    host: &dyn Host,
    model: &mut Cow<'_, Model>,
    touched: &Touched,
    target: &Target,
    options: UndoOptions,
) -> Outcome {
    let outcome = put_back_own(journal, host, model, touched, target, options);
    let (restored, left) = match &outcome {
        Outcome::Unchanged | Outcome::Restored => Default::default(),
        Outcome::RestoredInPart { restored, left, .. } => (restored.clone(), left.clone()),
        _ => return outcome,
    };
    let (Some(knob), Some(began)) = (knob::find(&touched.knob), journal.history().began()) else {
        return outcome;
    };
    match knob.inherited(knob.site(host, model, target), &touched.original, &touched.ours, began) {
        Ok(inherited) if inherited.is_empty() => outcome,
        Ok(inherited) => Outcome::RestoredInPart { restored, left, inherited },
        Err(error) => {
            let back = match outcome {
                Outcome::RestoredInPart { .. } => "what is ours of it is back".to_owned(),
                _ => format!("it is back to {}", touched.original),
            };
            Outcome::Failed {
                why: format!("{back}, but the processes that it has started are unknown: {error}"),
            }
        }
    }
}

fn put_back_own(
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
    let Some(found) = object_now(host, touched, target) else { return another_object() };
    let is_still_it = || object_id(host, target) == found;
    let live = match knob.read(knob.site(host, model, target)) {
        Ok(live) => live,
        Err(error @ KnobError::NotThere { .. }) if is_unknown_group(host, touched) => {
            return failed(format!(
                "{error}; an earlier version of rxlab set it, and did not record the inode of its group"
            ));
        }
        // The process or thread has ended. Interrupts and NAPIs are not included: they are missing while their
        // interface is down, and may come back with their values.
        Err(error @ KnobError::NotThere { .. }) => {
            // The name may have passed to another object, or to none, since it was found. A process ends with its number.
            if !matches!(target, Target::Process(_)) && !is_still_it() {
                return another_object();
            }
            return match host.namespaces().are_all() {
                Ok(()) => Outcome::Gone,
                Err(hidden) => failed(format!("{error}, or hidden: {hidden}")),
            };
        }
        Err(error @ KnobError::UnknownQueue { .. }) => {
            let outcome = without_queue(knob, host, journal.history(), touched, target, &error);
            return if is_still_it() { outcome } else { another_object() };
        }
        Err(error) => return failed(error.to_string()),
    };
    if !is_still_it() {
        return another_object();
    }
    // An RSS table is called otherwise with other queues.
    let is_original_of = |model: &Model, live: &str| {
        knob.same(&knob.for_current_queues(knob.site(host, model, target), &touched.original), live)
    };
    let is_original = is_original_of(model, &live);
    // Left to others before, even if it is one of our values.
    if matches!(touched.outcome, Some(Outcome::Drift { fresh: false, .. })) && !options.force {
        return if is_original { Outcome::Unchanged } else { Outcome::Drift { live, fresh: false } };
    }
    if is_original && is_whole(knob, touched) {
        return Outcome::Unchanged;
    }
    if !is_original && !is_ours(knob, touched, &live) && !options.force {
        let site = knob.site(host, model, target);
        if has_part_of_ours(knob, site, touched, &live) {
            let Some(armed) = journal.arm_restore(touched.seq) else {
                return failed("its intent is not in the journal".to_owned());
            };
            return put_back_parts(knob, site, touched, &armed, is_still_it);
        }
        let is_old = is_as_old(knob, knob.site(host, model, target), journal.history().began());
        let fresh = knob.is_fresh(host, &live) && !is_old;
        if !(fresh && was_made_again(host, touched, target, journal.history())) {
            return match replay_lost(journal, host, model, touched, target, found) {
                Ok(()) => Outcome::Drift { live, fresh },
                Err(why) => failed(why),
            };
        }
    }
    if !is_original
        && let Err(error) =
            knob.check_restore(knob.site(host, model, target), &touched.original, &touched.displaced)
    {
        match error {
            KnobError::UnrestorableValue { .. } if options.force => {}
            KnobError::UnrestorableValue { .. } => {
                return failed(format!("{error}, or lose them with `rxlab undo --force {}`", journal.id()));
            }
            error => return failed(error.to_string()),
        }
    }
    let Some(armed) = journal.arm_restore(touched.seq) else {
        return failed("its intent is not in the journal".to_owned());
    };
    let mut displaced = match target.nic() {
        Some(nic) => {
            match displaced_values(journal, host, model, touched, nic, (&live, is_original), is_still_it) {
                Ok(Some(displaced)) => displaced,
                Ok(None) => return another_object(),
                Err(error) => return failed(error.to_string()),
            }
        }
        None => touched.displaced.clone(),
    };
    if !is_original {
        // A write that was killed in the kernel may have discarded values that can be set only while our value is there,
        // such as `threaded` while a veth has GRO.
        if (touched.held.is_some() || !touched.unsettled.is_empty())
            && let Some(nic) = target.nic()
        {
            // They are compared again after the write.
            let _ = displaced::replay(host, model.to_mut(), (nic, found), &displaced, &armed);
        }
        // A value set while the journal was written must not be overwritten, nor another interface that now
        // has the name.
        if !is_still_it() {
            return another_object();
        }
        let known = Known { object: found, value: &live };
        match set::set(knob, (host, model), (target, known), &touched.original, &armed) {
            Ok(kept) if is_original_of(model, &kept) => {}
            Ok(kept) => return Outcome::Altered { kept },
            Err(Unset::Another) => return another_object(),
            Err(Unset::Changed(now)) => return failed(format!("it changed to {now} in the meantime")),
            Err(Unset::Unreadable(error) | Unset::Failed(error)) => return failed(error.to_string()),
        }
        // What depends on it is found by the name of its interface.
        if !is_still_it() {
            return another_object();
        }
        // The write gave each queue this value.
        displaced
            .retain(|one| !(knob.replaces().contains(&one.knob.as_str()) && one.value == touched.original));
    }
    let (Some(nic), false) = (target.nic(), displaced.is_empty()) else { return Outcome::Restored };
    *model = Cow::Owned(displaced::rediscover(host, model));
    match displaced::replay(host, model.to_mut(), (nic, found), &displaced, &armed) {
        Ok(replayed) if is_original && replayed.is_empty() => Outcome::Unchanged,
        Ok(_) => Outcome::Restored,
        Err(error) => failed(error.to_string()),
    }
}

/// Sets again what our own interrupted write discarded, that of an undo as well, although another program has replaced its value:
/// those that are now as in a new queue. Others may be deliberate and stay, and so may these once an undo has set them again.
fn replay_lost(
    journal: &Journal,
    host: &dyn Host,
    model: &Model,
    touched: &Touched,
    target: &Target,
    found: Option<u64>,
) -> Result<(), String> {
    let held = touched.held.as_ref().filter(|_| !matches!(touched.outcome, Some(Outcome::Drift { .. })));
    let is_cut_short = !touched.unsettled.is_empty() || held.is_some();
    let discarded = held.unwrap_or(&touched.displaced);
    let (Some(nic), true, false) = (target.nic(), is_cut_short, discarded.is_empty()) else {
        return Ok(());
    };
    let armed = journal.arm_restore(touched.seq).ok_or("its intent is not in the journal")?;
    let mut model = displaced::rediscover(host, model);
    let dependents = Dependents { host, model: &model, nic, effect: armed.effect() };
    let lost = dependents.reset_to_new(discarded).map_err(|error| error.to_string())?;
    displaced::replay(host, &mut model, (nic, found), &lost, &armed).map_err(|error| error.to_string())?;
    Ok(())
}

/// True if some parts of the value are ours; the others were changed by another program.
pub(super) fn has_part_of_ours(knob: &dyn Knob, site: Site<'_>, touched: &Touched, live: &str) -> bool {
    knob.parts(site, &touched.original, &touched.ours, live).is_some_and(|parts| !parts.ours.is_empty())
}

/// Passes over threads that others start meanwhile: each inherits our value from one that is not back yet, so every pass
/// finds fewer.
const PASSES: u32 = 10;

/// Restores the parts of a value that are ours.
fn put_back_parts(
    knob: &dyn Knob,
    site: Site<'_>,
    touched: &Touched,
    armed: &Armed,
    is_still_it: impl Fn() -> bool,
) -> Outcome {
    let failed = |why: String| Outcome::Failed { why };
    let mut restored = Vec::new();
    for _ in 0..PASSES {
        let read = knob.read(site);
        if !is_still_it() {
            return another_object();
        }
        let parts = match read {
            Ok(live) => knob.parts(site, &touched.original, &touched.ours, &live),
            Err(error) => return failed(error.to_string()),
        };
        let Some(Parts { value, ours, foreign, .. }) = parts else {
            return failed("its parts changed in the meantime".to_owned());
        };
        if ours.is_empty() {
            return match foreign.is_empty() {
                true => Outcome::Restored,
                false => Outcome::RestoredInPart { restored, left: foreign, inherited: Vec::new() },
            };
        }
        match knob.write(site, &value, armed).and_then(|()| knob.read(site)) {
            Ok(_) if !is_still_it() => return another_object(),
            Ok(kept) if knob.same(&value, &kept) => restored.extend(ours),
            Ok(kept) => return failed(knob.difference(&value, &kept)),
            Err(error) => return failed(error.to_string()),
        }
    }
    failed("it starts threads faster than they can be moved back".to_owned())
}

/// The queue is not in the model. If it does not exist, the kernel has freed our value with it; a new queue
/// starts with the original value, or else the original waits for the queue.
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
            && knob::find(&other.knob).is_some_and(|other| other.discards().contains(&knob.name()))
    };
    // An interrupt may outlive its queue, unless the transaction itself created both.
    let went_with_it = || is_of_queue(&touched.knob) || history.touched().iter().any(makes_queues);
    match has_queue(host, target) {
        Ok(false) if knob.is_fresh(host, &touched.original) && went_with_it() => Outcome::Gone,
        Ok(false) => Outcome::Deferred,
        Ok(true) => Outcome::Failed { why: error.to_string() },
        Err(error) => Outcome::Failed { why: error.to_string() },
    }
}

/// True if undo has nothing to do for a target that has its original value: every dependent value that was
/// reset was set again.
///
/// That is so if our last write restored it completely, as when a trial flips back: that write set the
/// dependent values again, and later differences are foreign. It is not so after an interrupted write, or
/// after an undo that recorded what it found. Nor if our last write set another value: then another program
/// restored the original, or an undo that could record nothing; both had the queues recreated.
fn is_whole(knob: &dyn Knob, touched: &Touched) -> bool {
    let by_us = knob.same(&touched.original, &touched.wanted);
    touched.displaced.is_empty() || (touched.unsettled.is_empty() && touched.held.is_none() && by_us)
}

/// Values to set again once the original value is restored: those before our writes, or what others have
/// set since. In order of certainty:
///
/// - Once the original is restored, the values recorded by the last undo before its write count: the current
///   ones are leftovers of that write.
/// - After an interrupted write of ours, the current values are driver leftovers unless only others can have set them,
///   and those from before it count.
/// - While the value is ours, the current values are what others want, and are recorded before being reset.
/// - If the original is restored and nothing was recorded, values of new queues were reset, and those that equal what
///   our write gave each queue are its leftovers; others may be deliberate and stay.
///
/// `None` if another interface took the name while its values were read. An error if one of them cannot be read: it would be lost.
fn displaced_values(
    journal: &mut Journal,
    host: &dyn Host,
    model: &Model,
    touched: &Touched,
    nic: &NicName,
    (live, is_original): (&str, bool),
    is_still_it: impl Fn() -> bool,
) -> Result<Option<Vec<Displaced>>, KnobError> {
    if let (Some(held), true) = (&touched.held, is_original) {
        return Ok(Some(displaced::overlaid(&touched.displaced, held)));
    }
    let effect = journal.history().effect(|other| other.seq == touched.seq);
    let dependents = Dependents { host, model, nic, effect: &effect };
    let is_cut_short = !touched.unsettled.is_empty();
    if is_original && is_cut_short {
        return Ok(Some(touched.displaced.clone()));
    }
    if is_original {
        let values = dependents.reset_or_given(&touched.displaced)?;
        return Ok(is_still_it().then_some(values));
    }
    let mut held = displaced::now(host, model, nic, &touched.displaced)?;
    if is_cut_short {
        held = dependents.set_by_others(&touched.displaced, &held);
    }
    if let Some(knob) = knob::find(&touched.knob) {
        held = displaced::before_replaced(knob, live, &touched.displaced, held);
    }
    let all = journal.history().touched();
    let own = |one: &Displaced| {
        all.iter()
            .filter(|t| t.is_on_same_device(touched))
            .find(|t| t.knob == one.knob && t.target.lasting() == one.target.lasting())
    };
    // A value of the transaction itself that could not be restored goes with its queue: its original returns.
    for one in &mut held {
        let knob = knob::find(&one.knob);
        if let Some((knob, own)) =
            knob.zip(own(one).filter(|t| !t.outcome.as_ref().is_some_and(Outcome::settles)))
            && is_ours(knob, own, &one.value)
        {
            one.value.clone_from(&own.original);
        }
    }
    // An earlier attempt was refused: current values still count, except those of queues it recreated anyway.
    // Values that the transaction itself set are already restored, and not to be set again.
    if let Some(before) = &touched.held {
        let mut lost = dependents.reset_to_new(before)?;
        lost.retain(|one| own(one).is_none());
        held = displaced::overlaid(&held, &lost);
        // The owner of a value may have gone with the write, such as the thread of a NAPI.
        let gone = before.iter().filter(|one| held.iter().all(|now| !displaced::is_same(one, now)));
        let gone: Vec<Displaced> = gone.filter(|one| own(one).is_none()).cloned().collect();
        held.extend(gone);
    }
    if !is_still_it() {
        return Ok(None);
    }
    if is_cut_short && held.is_empty() {
        return Ok(Some(touched.displaced.clone()));
    }
    // Its space was reserved with the intent. If none can be reserved, a full disk must not prevent the
    // machine from being restored.
    let _ = journal.holding(touched.seq, &held);
    Ok(Some(displaced::overlaid(&touched.displaced, &held)))
}

#[cfg(test)]
mod tests;
