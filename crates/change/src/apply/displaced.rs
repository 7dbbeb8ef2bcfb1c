//! Dependent values, which writing another value resets: saved before the write, set again after it.
//!
//! A driver told to use other queues recreates all of them and forgets the values set for them.

use super::ApplyError;
use super::check::knob_of;
use super::locate::{interface_id, is_as_old, look};
use super::set::{self, Known, Unset};
use crate::journal::{Armed, Displaced, Effect, Touched};
use crate::knob::{Knob, KnobError, Site, check_threads};
use rxlab_base::parse;
use rxlab_base::units::NicName;
use rxlab_path::model::{Model, Nic, NicKind};
use rxlab_setting::{Owner, Setting, Target, apply_order, may_discard, tunable};
use rxlab_sys::{Host, Query};

/// Current values that writing `knob` to `target` may reset. One that exists but cannot be read
/// is an error: it could not be set again.
pub(super) fn displaced(
    host: &dyn Host,
    model: &Model,
    knob: &dyn Knob,
    target: &Target,
) -> Result<Vec<Displaced>, ApplyError> {
    let mut values = Vec::new();
    if knob.discards().is_empty() && knob.replaces().is_empty() {
        return Ok(values);
    }
    let site = knob.site(host, model, target);
    if let Some(unread) = target.nic().and_then(|nic| unread(site, nic)) {
        return Err(unread.into());
    }
    let driver = target.nic().and_then(|nic| model.nic(nic)?.driver.as_deref());
    for name in knob.discards().iter().chain(knob.replaces()) {
        if !may_discard(knob.name(), name, driver) {
            continue;
        }
        // A test of the rows rejects a name without a knob.
        let Ok(knob) = knob_of(name) else { continue };
        let mut targets = knob.targets(model);
        targets.retain(|other| other.nic() == target.nic());
        // A small sample does not ask for the files of an interface.
        if targets.is_empty() && matches!(tunable(name).map(|row| row.owner), Some(Owner::NicFile(..))) {
            targets.extend(target.nic().cloned().map(Target::Nic));
        }
        for target in targets {
            let site = knob.site(host, model, &target);
            let mut read = knob.read(site);
            // A file that is not there says nothing while its interface is out of sight.
            if read.as_ref().is_err_and(is_absent) && host.namespace().is_some() && target.nic().is_some() {
                if interface_id(host, &target).is_none() {
                    return Err(site.unknown(name, "the interface is out of sight; try again").into());
                }
                read = knob.read(site);
            }
            match read {
                Ok(value) => values.push(Displaced { knob: (*name).to_owned(), target, value }),
                Err(error) if is_absent(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    if let Some(nic) = target.nic() {
        check_napis(site, nic)?;
    }
    if knob.discards().contains(&"napi_priority")
        && host.namespace().is_some()
        && let Some(nic) = target.nic().and_then(|nic| model.nic(nic))
    {
        check_threads(site, nic)?;
    }
    Ok(values)
}

/// What could not be read of an interface, and without which its values would be taken for those of something else. Every one
/// has a queue that receives (`net_rx_queue_update_kobjects`), only its index tells its NAPIs from those of others, and only with its
/// driver do names of interrupts mean anything.
fn unread(site: Site<'_>, nic: &NicName) -> Option<KnobError> {
    let nic = site.model.nic(nic)?;
    if nic.rx.is_empty() {
        return Some(site.unknown("queues", "none can be read"));
    }
    let is_running = site.host.namespace().is_some();
    if is_running && nic.ifindex.is_none() {
        return Some(site.unknown("NAPIs", "its index cannot be read"));
    }
    let has_names = nic.kind == NicKind::Device && !nic.other_irqs.is_empty();
    (is_running && has_names && nic.driver.is_none())
        .then(|| site.unknown("interrupts", "its driver cannot be read"))
}

/// Refuses to go on if NAPIs of an interface are unknown here only because it was in another network namespace while the kernel
/// listed them.
fn check_napis(site: Site<'_>, nic: &NicName) -> Result<(), KnobError> {
    let has_napis = |nic: &Nic| nic.rx.iter().any(|queue| queue.napi.is_some());
    let Some(known) = site.model.nic(nic).filter(|nic| site.host.namespace().is_some() && !has_napis(nic))
    else {
        return Ok(());
    };
    let listed = match site.query(&Query::Napis, parse::netdev_napis, "a list of NAPIs") {
        Err(KnobError::Unsupported { .. }) => return Ok(()),
        listed => listed?,
    };
    // Many drivers do not report which queue a NAPI polls.
    let is_listed = listed.iter().any(|napi| Some(napi.ifindex) == known.ifindex);
    if is_listed && look(site.host).nic(nic).is_some_and(has_napis) {
        return Err(site.unknown("NAPIs", "they were not listed a moment ago; try again"));
    }
    Ok(())
}

/// `there` without changes by our own earlier write of `knob`, which replaced those that equal its current value `live`.
pub(super) fn before_replaced(
    knob: &dyn Knob,
    live: &str,
    earlier: &[Displaced],
    there: Vec<Displaced>,
) -> Vec<Displaced> {
    let was = |value: Displaced| {
        let is_ours = knob.replaces().contains(&value.knob.as_str()) && value.value == live;
        earlier.iter().find(|other| is_ours && is_same(&value, other)).cloned().unwrap_or(value)
    };
    there.into_iter().map(was).collect()
}

/// True if others have set `live` since a value was `was`. A thread that is older than the transaction was not made again; a write
/// gives its own value to those that it replaces; of some knobs, kernel and drivers give only the value of a new queue or interface.
fn is_of_others(knob: &dyn Knob, site: Site<'_>, effect: &Effect, was: &String, live: &str) -> bool {
    if is_as_old(knob, site, effect.began) {
        return !knob.same(was, live);
    }
    if knob.left_by(&[], std::slice::from_ref(was), live) {
        return false;
    }
    if is_replaced(knob, effect) {
        return !effect.values.iter().any(|given| knob.same(given, live));
    }
    tunable(knob.name()).is_some_and(|row| row.users_only) && !knob.is_fresh(site.host, live)
}

/// True if the writes gave each queue their own value.
fn is_replaced(knob: &dyn Knob, effect: &Effect) -> bool {
    tunable(&effect.knob).is_some_and(|row| row.replaces.contains(&knob.name()))
}

/// True if the write that restores the first value gives each queue another value than this.
fn gives_another(knob: &dyn Knob, effect: &Effect, value: &str) -> bool {
    is_replaced(knob, effect) && effect.values.first().is_none_or(|original| !knob.same(original, value))
}

/// The interface with the values that a write may have reset, and what the write did.
#[derive(Clone, Copy)]
pub(super) struct Dependents<'a> {
    pub(super) host: &'a dyn Host,
    pub(super) model: &'a Model,
    pub(super) nic: &'a NicName,
    pub(super) effect: &'a Effect,
}

impl Dependents<'_> {
    /// Looks at a value at its place: by knob and site.
    fn at<T>(self, value: &Displaced, look: impl FnOnce(&'static dyn Knob, Site<'_>) -> T) -> Option<T> {
        let knob = knob_of(&value.knob).ok()?;
        let target = value.target.of_nic(self.nic);
        Some(look(knob, knob.site(self.host, self.model, &target)))
    }

    /// Those of the values `there` now that others have set since they were `before`, an interrupted write having reset them.
    pub(super) fn set_by_others(self, before: &[Displaced], there: &[Displaced]) -> Vec<Displaced> {
        let is_set = |live: &&Displaced| {
            let Some(before) = before.iter().find(|before| is_same(live, before)) else { return false };
            let is_set = |knob: &dyn Knob, site: Site<'_>| {
                is_of_others(knob, site, self.effect, &before.value, &live.value)
            };
            self.at(live, is_set).unwrap_or(false)
        };
        there.iter().filter(is_set).cloned().collect()
    }

    /// True for the value of a new queue or thread, unless the thread is older than the transaction.
    fn is_new(self, live: &Displaced) -> bool {
        let is_new = |knob: &dyn Knob, site: Site<'_>| {
            knob.is_fresh(self.host, &live.value) && !is_as_old(knob, site, self.effect.began)
        };
        self.at(live, is_new).unwrap_or(false)
    }

    /// True for a value that a write gave each queue, unless it is the one that was there first.
    fn is_given(self, live: &Displaced) -> bool {
        let is_given = |knob: &dyn Knob, _: Site<'_>| {
            let mut values = self.effect.values.iter();
            let is_original = values.next().is_none_or(|original| knob.same(original, &live.value));
            is_replaced(knob, self.effect)
                && !is_original
                && values.any(|given| knob.same(given, &live.value))
        };
        self.at(live, is_given).unwrap_or(false)
    }

    /// Values that writing a target again may reset: those `there` now, and those of queues that an `earlier` write of
    /// the transaction removed and this one may bring back. After an interrupted write the current values are
    /// driver leftovers unless others must have set them, and those from before it count; after an undo that did not end, so do
    /// those that are as in a new queue.
    pub(super) fn carried(self, earlier: &Touched, there: Vec<Displaced>) -> Vec<Displaced> {
        let gone = earlier.displaced.iter().filter(|value| there.iter().all(|other| !is_same(value, other)));
        let gone: Vec<Displaced> = gone.cloned().collect();
        let cut_short = !earlier.unsettled.is_empty();
        let mut all = if cut_short {
            let set = self.set_by_others(&earlier.displaced, &there);
            overlaid(&overlaid(&there, &earlier.displaced), &set)
        } else if let Some(held) = &earlier.held {
            let lost: Vec<Displaced> = there.iter().filter(|live| self.is_new(live)).cloned().collect();
            overlaid(&there, &overlaid(&overlaid(&lost, &earlier.displaced), held))
        } else {
            there
        };
        all.extend(gone);
        all
    }

    /// Those of `values` whose current value is that of a new queue, or of a new thread that was given only a part of its value.
    pub(super) fn reset_to_new(self, values: &[Displaced]) -> Result<Vec<Displaced>, KnobError> {
        self.lost(values, |was, live| self.is_new(live) || is_half_set(&was.value, live))
    }

    /// Those, and those that a write gave another value than the original.
    pub(super) fn reset_or_given(self, values: &[Displaced]) -> Result<Vec<Displaced>, KnobError> {
        self.lost(values, |was, live| {
            self.is_new(live) || is_half_set(&was.value, live) || self.is_given(live)
        })
    }

    /// Those of `values` that are lost by what they are now, and with them those of threads that are not there, and come with one of
    /// these.
    fn lost(
        self,
        values: &[Displaced],
        is_lost: impl Fn(&Displaced, &Displaced) -> bool,
    ) -> Result<Vec<Displaced>, KnobError> {
        let live = now(self.host, self.model, self.nic, values)?;
        let there = |was: &Displaced| live.iter().find(|live| is_same(was, live));
        let is_lost = |was: &Displaced| there(was).is_some_and(|live| is_lost(was, live));
        let makes = |other: &Displaced, was: &Displaced| {
            knob_of(&other.knob).is_ok_and(|knob| knob.discards().contains(&was.knob.as_str()))
        };
        let goes_along = |was: &Displaced| {
            there(was).is_none() && values.iter().any(|other| makes(other, was) && is_lost(other))
        };
        Ok(values.iter().filter(|was| is_lost(was) || goes_along(was)).cloned().collect())
    }
}

/// Splits `values` into those the driver chose (as requests to choose again) and the others.
pub(super) fn split_by_origin(
    host: &dyn Host,
    model: &Model,
    values: &[Displaced],
) -> (Vec<Displaced>, Vec<Displaced>) {
    let (mut chosen, mut set) = (Vec::new(), Vec::new());
    for value in values {
        match choice(host, model, value) {
            Some(choice) => chosen.push(Displaced { value: choice.to_owned(), ..value.clone() }),
            None => set.push(value.clone()),
        }
    }
    (chosen, set)
}

/// Those of `chosen` that the driver has not chosen again for the current queues.
pub(super) fn left_over(host: &dyn Host, model: &Model, chosen: Vec<Displaced>) -> Vec<Displaced> {
    let chosen_again = |value: &Displaced| {
        let knob = knob_of(&value.knob).ok()?;
        let live = knob.read(knob.site(host, model, &value.target)).ok()?;
        choice(host, model, &Displaced { value: live, ..value.clone() })
    };
    chosen.into_iter().filter(|value| chosen_again(value).is_none()).collect()
}

fn choice(host: &dyn Host, model: &Model, value: &Displaced) -> Option<&'static str> {
    let knob = knob_of(&value.knob).ok()?;
    knob.driver_default(knob.site(host, model, &value.target), &value.value)
}

/// Current values of those in `values` that exist and show, as not all do while an interface is down. A value the driver chose
/// for the current queues was not set by others: it keeps its earlier value. One that should show and cannot be read is an error.
pub(super) fn now(
    host: &dyn Host,
    model: &Model,
    nic: &NicName,
    values: &[Displaced],
) -> Result<Vec<Displaced>, KnobError> {
    let mut there = Vec::new();
    for value in values {
        let target = value.target.of_nic(nic);
        let Ok(knob) = knob_of(&value.knob) else { continue };
        let site = knob.site(host, model, &target);
        let live = match knob.read(site) {
            Ok(live) => live,
            Err(error) if is_absent(&error) || matches!(error, KnobError::Down { .. }) => continue,
            Err(error) => return Err(error),
        };
        let as_it_was = knob.driver_default(site, &live).is_some()
            || knob.same(&knob.for_current_queues(site, &value.value), &live);
        there.push(if as_it_was { value.clone() } else { Displaced { value: live, ..value.clone() } });
    }
    Ok(there)
}

/// `values`, with matching ones replaced by those of `others`.
pub(super) fn overlaid(values: &[Displaced], others: &[Displaced]) -> Vec<Displaced> {
    let other = |value: &Displaced| others.iter().find(|other| is_same(value, other));
    values.iter().map(|value| other(value).unwrap_or(value).clone()).collect()
}

pub(super) fn is_same(value: &Displaced, other: &Displaced) -> bool {
    value.knob == other.knob && value.target.lasting() == other.target.lasting()
}

/// True if setting `was` again may have ended halfway.
fn is_half_set(was: &String, live: &Displaced) -> bool {
    let is_of_thread = |knob: &&dyn Knob| knob.is_fleeting();
    let knob = knob_of(&live.knob).ok().filter(is_of_thread);
    knob.is_some_and(|knob| knob.left_by(&[], std::slice::from_ref(was), &live.value))
}

/// Sets all of `values` again that have changed, in the order of their rows, and returns those. A removed queue took its values with it.
/// `armed` is that of the write that reset them: its journal entry has them. `nic` is the name of the
/// interface with inode `inode` in sysfs; once another interface has it, nothing more is written. A value that is set again may
/// have others discarded, such as NAPIs with new threads: `model` is current afterwards.
pub(super) fn replay(
    host: &dyn Host,
    model: &mut Model,
    (nic, inode): (&NicName, Option<u64>),
    values: &[Displaced],
    armed: &Armed,
) -> Result<Vec<Setting>, ApplyError> {
    let mut replayed = Vec::new();
    let mut values: Vec<&Displaced> = values.iter().collect();
    values.sort_by_key(|value| apply_order(&value.knob));
    for Displaced { knob, target, value } in values {
        let target = target.of_nic(nic);
        let knob = knob_of(knob)?;
        let value = &knob.for_current_queues(knob.site(host, model, &target), value);
        let setting = Setting { knob: knob.name().to_owned(), target, value: value.clone() };
        let Some(kept) = set_again(host, model, knob, &setting, (nic, inode), armed)? else { continue };
        if !knob.same(value, &kept) {
            let why = knob.difference(value, &kept);
            return Err(ApplyError::NotKept { setting: Box::new(setting), why });
        }
        if !knob.discards().is_empty() {
            *model = rediscover(host, model);
        }
        replayed.push(setting);
    }
    Ok(replayed)
}

/// A driver that changes a value while it is set again does so once: with the write that reset it.
const TRIES: u32 = 3;

/// Sets one value again, and returns what the kernel kept; `None` if there is nothing to do.
fn set_again(
    host: &dyn Host,
    model: &Model,
    knob: &dyn Knob,
    setting: &Setting,
    (nic, inode): (&NicName, Option<u64>),
    armed: &Armed,
) -> Result<Option<String>, ApplyError> {
    let Setting { target, value, .. } = setting;
    let lost = |error| ApplyError::NotReplayed { setting: Box::new(setting.clone()), error: Box::new(error) };
    let another = || ApplyError::another_interface(&setting.knob, target);
    let mut tries = TRIES;
    loop {
        if interface_id(host, target) != inode {
            return Err(another());
        }
        let site = knob.site(host, model, target);
        if let Some(unread) = unread(site, nic) {
            return Err(lost(unread));
        }
        let live = match knob.read(site) {
            Ok(live) if knob.same(value, &live) => return Ok(None),
            Ok(live) if is_of_others(knob, site, armed.effect(), value, &live) => return Ok(None),
            Ok(live) => live,
            // The interface is there, but the list that the model was made from did not have it.
            Err(error @ KnobError::UnknownNic { .. }) if inode.is_some() => return Err(lost(error)),
            Err(error) if is_gone(&error) => return Ok(None),
            // Kept, or given to the new queue once the interface is up, unless the write gives it another one.
            Err(KnobError::Down { .. })
                if knob.is_fresh(host, value) && !gives_another(knob, armed.effect(), value) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(lost(error)),
        };
        tries -= 1;
        let known = Known { object: inode, value: &live };
        match set::set(knob, (host, model), (target, known), value, armed) {
            Ok(kept) => return Ok(Some(kept)),
            Err(Unset::Another) => return Err(another()),
            Err(Unset::Changed(_)) if tries > 0 => {}
            Err(Unset::Changed(kept)) => {
                let why = knob.difference(value, &kept);
                return Err(ApplyError::NotKept { setting: Box::new(setting.clone()), why });
            }
            Err(Unset::Unreadable(error) | Unset::Failed(error)) => return Err(lost(error)),
        }
    }
}

/// True if a value does not exist now, or this kernel or device does not have it, so that no write can
/// reset it.
fn is_absent(error: &KnobError) -> bool {
    is_gone(error) || matches!(error, KnobError::Lacks { .. } | KnobError::NotRecorded { .. })
}

/// True if a value is unavailable because its owner is gone.
pub(super) fn is_gone(error: &KnobError) -> bool {
    matches!(
        error,
        KnobError::UnknownQueue { .. }
            | KnobError::UnknownNic { .. }
            | KnobError::NoIrq { .. }
            | KnobError::NotThere { .. }
            | KnobError::Unsupported { .. }
    )
}

/// The current machine, reduced to the interfaces in `before`: others in the namespace do
/// not belong to the change.
pub(super) fn rediscover(host: &dyn Host, before: &Model) -> Model {
    let mut model = look(host);
    model.nics.retain(|nic| before.nics.iter().any(|known| known.address == nic.address));
    model
}

#[cfg(test)]
mod tests;
