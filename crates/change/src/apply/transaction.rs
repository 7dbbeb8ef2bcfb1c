//! A set of writes that are undone together.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;

use super::ApplyError;
use super::caught::caught;
use super::check::knob_of;
use super::deadline::nanoseconds;
use super::displaced::{self, Dependents};
use super::environment::environment;
use super::locate::{in_one, is_another, object_id, object_of};
use super::other_names::OtherNames;
use super::retire::Again;
use super::search::Search;
use super::set::{self, Known, Unset};
use super::undo::{self, Undo, UndoOptions};
use crate::journal::{
    Archived, Begin, History, Intent, Journal, JournalError, Object, Open, Seen, Store, Touched, Unreadable,
};
use crate::knob::Knob;
use rxlab_base::units::rfc3339;
use rxlab_path::model::{Identity, Model};
use rxlab_setting::{Setting, Target};
use rxlab_sys::{Host, Namespace, ProcessId, boottime_ns};

/// Contents of the first line of the journal.
pub struct BeginInfo<'a> {
    pub identity: &'a Identity,
    /// Root it is accessed through.
    pub root: &'a Path,
    /// The network namespace entered; `None` for our own.
    pub netns: Option<Namespace>,
    /// Our own network namespace, in which the machine-wide files of `proc/sys/net` are read and written.
    pub home: Option<Namespace>,
    pub applier: Option<ProcessId>,
    /// Author and purpose, in one line.
    pub what: String,
    /// Undone after this time unless confirmed.
    pub confirm: Option<Duration>,
    /// Receive work before the transaction.
    pub seen: Option<Seen>,
    /// What it sets again, if it may continue an open transaction of the same purpose.
    pub continues: Option<Again<'a>>,
}

impl<'a> BeginInfo<'a> {
    /// A permanent change of the whole machine without a description.
    pub fn new(identity: &'a Identity) -> Self {
        let (netns, home, applier, confirm) = (None, None, None, None);
        let root = Path::new("/");
        let (what, seen, continues) = (String::new(), None, None);
        Self { identity, root, netns, home, applier, what, confirm, seen, continues }
    }
}

/// A value that was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Kept {
    /// The setting asked for, in canonical form.
    pub setting: Setting,
    /// The value before the write, which undo restores.
    pub before: String,
    /// The value read back.
    pub kept: String,
    /// `false`: the value was already set, nothing was written, and undo will not touch it.
    pub changed: bool,
    /// Dependent values that the driver reset with it and that were set again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replayed: Vec<Setting>,
    /// A remark, such as an interrupt that has not moved yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// A failed [`Transaction::apply`] and the result for the values set before the failure.
#[derive(Debug)]
pub struct Failure {
    pub error: ApplyError,
    pub undo: Undo,
}

/// An open transaction; holds the journal's lock until dropped.
///
/// Dropping it changes nothing on the machine or in the journal: its values stay
/// undoable by id.
pub struct Transaction {
    pub(super) journal: Journal,
    archived: Vec<Archived>,
    // Their values must not be changed again: only they have the earlier values.
    unreadable: Vec<Unreadable>,
    // Those of other transactions.
    other_names: OtherNames,
    // Inodes of interfaces that undo can find.
    findable: BTreeSet<u64>,
    // Its values were set by an earlier process and did not stay.
    continues: bool,
    // The command that reverts has run, and the journal does not say so yet.
    pub(super) is_reverted: bool,
}

impl Transaction {
    /// Takes the lock, archives transactions of other boots, and begins. Refused while an earlier change
    /// is waiting for confirmation: undoing that one underneath this one would mix them up.
    pub fn begin(store: &Store, info: BeginInfo<'_>) -> Result<Self, ApplyError> {
        Self::begin_at(store, info, boottime_ns())
    }

    /// [`Transaction::begin`] at `now_ns` of CLOCK_BOOTTIME, which a simulated machine provides.
    pub fn begin_at(store: &Store, info: BeginInfo<'_>, now_ns: u64) -> Result<Self, ApplyError> {
        let lock = store.lock(Duration::ZERO)?;
        let root = info.root.to_string_lossy().into_owned();
        let archived = store.sweep(&lock, &root, &info.identity.boot_id)?;
        let Open { transactions, unreadable } = store.open(&root, &info.identity.boot_id)?;
        let waits = |history: &History| history.pending_deadline().is_some();
        let seen: Vec<String> = transactions.iter().map(|(id, _)| id.clone()).collect();
        if let Some((id, _)) = transactions.iter().find(|(_, history)| waits(history)) {
            return Err(ApplyError::Pending { id: id.clone() });
        }
        // Its deadline and values may be readable next time.
        if let Some(file) = unreadable.iter().find(|file| file.may_wait()) {
            return Err(ApplyError::Unreadable { subject: None, file: Box::new(file.clone()) });
        }
        for (state, other) in store.others()? {
            let Open { transactions, unreadable } = other.open(&root, &info.identity.boot_id)?;
            let ids = transactions.into_iter().map(|(id, _)| id).chain(unreadable.into_iter().map(|u| u.id));
            if let Some(id) = ids.into_iter().next() {
                return Err(ApplyError::OtherJournal { state, id });
            }
        }
        let begin = Begin {
            schema: Begin::SCHEMA.to_owned(),
            id: String::new(),
            boot_id: info.identity.boot_id.clone(),
            root: root.clone(),
            netns: info.netns,
            home: info.home,
            applier: info.applier,
            started: rfc3339(jiff::Timestamp::now()),
            what: info.what,
            seen: info.seen,
            deadline: info.confirm.map(|wait| now_ns.saturating_add(nanoseconds(wait))),
            began: Some(now_ns),
        };
        let continued = info.continues.and_then(|again| again.continued(&transactions, &begin.what));
        // A value that is left to a newer one would end it.
        let continued =
            continued.filter(|id| !unreadable.iter().any(|file| file.is_after(id))).map(str::to_owned);
        let other_names = OtherNames::of(transactions, continued.as_ref());
        let mut journal = match &continued {
            Some(id) => store.resume(lock, id)?,
            None => store.begin(lock, begin)?,
        };
        let continues = continued.is_some();
        // A journal that looked empty a moment ago may have been unreadable.
        let hidden = store.open_besides(journal.id(), &root, &info.identity.boot_id).map(|open| {
            let Open { transactions, unreadable: files } = open;
            let ids = transactions.into_iter().map(|(id, _)| id).filter(|id| !seen.contains(id));
            ids.chain(files.into_iter().filter(|file| !unreadable.contains(file)).map(|file| file.id)).next()
        });
        match hidden {
            Ok(None) => Ok(Self {
                // What it wrote before is its own.
                unreadable: unreadable.into_iter().filter(|file| file.id != journal.id()).collect(),
                journal,
                archived,
                other_names,
                findable: BTreeSet::new(),
                continues,
                is_reverted: false,
            }),
            hidden => {
                // Nothing was changed yet: left open, it holds nothing to undo.
                if !continues {
                    let _ = journal.close();
                }
                Err(ApplyError::Hidden { id: hidden?.unwrap_or_default() })
            }
        }
    }

    /// Takes the lock and resumes an open transaction.
    pub fn resume(store: &Store, id: &str, patience: Duration) -> Result<Self, JournalError> {
        let lock = store.lock(patience)?;
        let (archived, unreadable, findable) = (Vec::new(), Vec::new(), BTreeSet::new());
        let (continues, is_reverted) = (false, false);
        let journal = store.resume(lock, id)?;
        let other_names = OtherNames::default();
        Ok(Self { journal, archived, unreadable, other_names, findable, continues, is_reverted })
    }

    /// Its id, for `rxlab undo ID`.
    pub fn id(&self) -> &str {
        self.journal.id()
    }

    /// Transactions that [`Transaction::begin`] archived.
    pub fn archived(&self) -> &[Archived] {
        &self.archived
    }

    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Sets one value: checked, journalled, written, read back. After an error the caller must decide
    /// about [`Transaction::undo`]: the value may have changed, and the journal knows what to revert.
    ///
    /// `model` must be current; it is rebuilt if the value changes the devices or queues of the machine.
    pub fn set(&mut self, host: &dyn Host, model: &mut Model, setting: &Setting) -> Result<Kept, ApplyError> {
        let knob = knob_of(&setting.knob)?;
        let value = knob.check(knob.site(host, model, &setting.target), &setting.value)?;
        let foreign = self.continues && {
            let object = object_of(host, model, &setting.target);
            let touched = self.journal.history().touched();
            touched.iter().any(|t| t.is_of(knob.name(), &setting.target, &object))
        };
        self.write(host, model, knob, &setting.target, value, foreign)
    }

    /// Sets a target of this transaction back to the value before its first change, without
    /// ending the transaction. The value came from the kernel, so it is not checked: it may have a
    /// form that users never write.
    pub fn set_back(
        &mut self,
        host: &dyn Host,
        model: &mut Model,
        knob: &str,
        target: &Target,
    ) -> Result<Kept, ApplyError> {
        let touched = self.journal.history().touched();
        let touched = touched.into_iter().find(|t| t.knob == knob && t.target == *target);
        let Touched { original, displaced, .. } = touched
            .ok_or_else(|| ApplyError::NotTouched { knob: knob.to_owned(), target: target.clone() })?;
        let knob = knob_of(knob)?;
        knob.check_restore(knob.site(host, model, target), &original, &displaced)?;
        self.write(host, model, knob, target, original, false)
    }

    /// `foreign`: the current value was set by another program.
    pub(super) fn write(
        &mut self,
        host: &dyn Host,
        model: &mut Model,
        knob: &'static dyn Knob,
        target: &Target,
        value: String,
        foreign: bool,
    ) -> Result<Kept, ApplyError> {
        host.check_view()?;
        let before = knob.read(knob.site(host, model, target))?;
        let setting = Setting { knob: knob.name().to_owned(), target: target.clone(), value };
        if knob.same(&setting.value, &before) {
            let (kept, replayed) = (before.clone(), Vec::new());
            return Ok(Kept { setting, kept, before, changed: false, replayed, remark: None });
        }
        let object = object_of(host, model, target);
        let own = (self.journal.id(), self.journal.history());
        self.other_names.refuse(own, (host, model), &setting, &object)?;
        if !self.can_find(host, model, target, &object) || is_another(host, target, object.device.as_ref()) {
            return Err(ApplyError::another_interface(&setting.knob, target));
        }
        if let Some(file) = self.unreadable.iter().find(|file| {
            let touched = file.readable.iter().flat_map(History::touched);
            touched.into_iter().any(|t| t.is_of(knob.name(), target, &object))
        }) {
            let subject = Some(format!("{} {target}", setting.knob));
            return Err(ApplyError::Unreadable { subject, file: Box::new(file.clone()) });
        }
        let mut displaced = displaced::displaced(host, model, knob, target)?;
        let has_dependents = !knob.discards().is_empty() || !knob.replaces().is_empty();
        let mut goes_back = false;
        if has_dependents {
            let touched = self.journal.history().touched();
            let earlier = touched.iter().find(|t| t.is_of(knob.name(), target, &object));
            if let Some(earlier) = earlier {
                goes_back = knob.same(&earlier.original, &setting.value);
                displaced = displaced::before_replaced(knob, &before, &earlier.displaced, displaced);
            }
            if let (Some(earlier), Some(nic)) = (earlier, target.nic()) {
                let effect = self.journal.history().effect(|other| other.seq == earlier.seq);
                displaced = Dependents { host, model, nic, effect: &effect }.carried(earlier, displaced);
            }
        }
        // If this process died before noticing, its values would be the ones to set again.
        is_still_named(host, target, &object, &setting.knob)?;
        let (chosen, mut set_again) = displaced::split_by_origin(host, model, &displaced);
        // Values replaced on purpose come back only with the original.
        set_again.retain(|value| goes_back || !knob.replaces().contains(&value.knob.as_str()));
        let has_values_to_set_again = !knob.discards().is_empty() || !set_again.is_empty();
        let armed = self.journal.arm(Intent {
            seq: 0,
            knob: setting.knob.clone(),
            target: target.clone(),
            device: object.device.clone(),
            ids: object.ids,
            group: object.group,
            before: before.clone(),
            after: setting.value.clone(),
            displaced,
            foreign,
        })?;
        // The journal write took time: a value set in between must not be overwritten, nor another object.
        let known = Known { object: object.inode(), value: &before };
        let set = if is_still_it(host, model, target, &object) {
            set::set(knob, (host, model), (target, known), &setting.value, &armed)
        } else {
            Err(Unset::Another)
        };
        let kept = match set {
            Ok(kept) => kept,
            // The intent alone tells undo that the value may have changed; the line about the failure is for people.
            Err(unset) => {
                let is_untried = !matches!(unset, Unset::Failed(_));
                let error = meaning(unset, knob, target, &before);
                let _ = self.journal.failed(&armed, &error.to_string(), is_untried);
                return Err(error);
            }
        };
        // What depends on the value is found by the name of its interface.
        let replayed = is_still_named(host, target, &object, &setting.knob).and_then(|()| {
            let Some(nic) = target.nic().filter(|_| has_values_to_set_again) else { return Ok(Vec::new()) };
            *model = displaced::rediscover(host, model);
            let values = [displaced::left_over(host, model, chosen), set_again].concat();
            displaced::replay(host, model, (nic, object.inode()), &values, &armed)
        });
        // Only now the write is complete: the dependent values are no longer driver leftovers.
        let replayed = match replayed {
            Ok(replayed) => replayed,
            Err(error) => {
                let _ = self.journal.failed(&armed, &error.to_string(), false);
                return Err(error);
            }
        };
        self.journal.done(&armed, &kept)?;
        if !knob.same(&setting.value, &kept) {
            let why = knob.difference(&setting.value, &kept);
            return Err(ApplyError::NotKept { setting: Box::new(setting), why });
        }
        let remark = knob.remark(knob.site(host, model, target), &setting.value);
        Ok(Kept { setting, before, kept, changed: true, replayed, remark })
    }

    /// Sets everything and ends the transaction so that it stays; or, at the first failure or once
    /// `stop` is set, reverts the values set so far.
    pub fn apply(
        mut self,
        host: &dyn Host,
        model: &Model,
        settings: &[Setting],
        stop: &AtomicBool,
    ) -> Result<Vec<Kept>, Box<Failure>> {
        let mut all = Vec::new();
        let mut model = model.clone();
        for setting in settings {
            let set = if stop.load(Ordering::Relaxed) {
                Err(ApplyError::Interrupted)
            } else {
                caught(|| {
                    if self.has_set(host, &model, setting, &all) {
                        return Err(ApplyError::another_interface(&setting.knob, &setting.target));
                    }
                    self.set(host, &mut model, setting)
                })
                .unwrap_or_else(|why| Err(ApplyError::Internal(why)))
            };
            match set {
                Ok(kept) => all.push(kept),
                Err(error) => return Err(Box::new(Failure { error, undo: self.undo(host, &model) })),
            }
        }
        match self.note(host, &model).and_then(|()| self.complete()) {
            Ok(()) => Ok(all),
            Err(error) => Err(Box::new(Failure { error: error.into(), undo: self.undo(host, &model) })),
        }
    }

    /// True if one of the values set in `all` is of what the name of a setting leads to by now.
    fn has_set(&self, host: &dyn Host, model: &Model, setting: &Setting, all: &[Kept]) -> bool {
        let Setting { knob, target, .. } = setting;
        let object = object_of(host, model, target);
        let is_set = |touched: &Touched| {
            all.iter().any(|kept| kept.setting.knob == *knob && kept.setting.target == touched.target)
        };
        let mut touched = self.journal.history().touched().into_iter();
        touched.any(|touched| touched.is_of(knob, target, &object) && is_set(&touched))
    }

    /// Ends the transaction so that its values stay, undoable by id. One that set nothing is
    /// closed. Must come after the last [`Transaction::set`]: a guard reverts a transaction whose process
    /// ends without it.
    pub fn keep(mut self) -> Result<(), JournalError> {
        self.complete()
    }

    /// [`Transaction::keep`] without a deadline from then on.
    pub fn keep_confirmed(mut self, host: &dyn Host, model: &Model) -> Result<(), JournalError> {
        self.journal.confirm()?;
        self.note(host, model)?;
        self.complete()
    }

    /// Records the environment of the values, for later comparison by [`super::status()`].
    pub(super) fn note(&mut self, host: &dyn Host, model: &Model) -> Result<(), JournalError> {
        let touched = self.journal.history().touched();
        if touched.is_empty() {
            return Ok(());
        }
        self.journal.environment(environment(host, model, &touched))
    }

    fn complete(&mut self) -> Result<(), JournalError> {
        self.note_reverted()?;
        let history = self.journal.history();
        let is_empty = history.last_seq() == 0 && history.pending_command().is_none();
        if is_empty { self.journal.close() } else { self.journal.complete() }
    }

    /// Confirms on behalf of the user: the deadline no longer holds. The values stay, undoable by id.
    pub fn confirm(mut self) -> Result<(), JournalError> {
        self.journal.confirm()
    }

    /// Restores every value that is still ours, newest target first, and closes the transaction
    /// when nothing is left to do. `host` must be the machine of the transaction, from [`super::reach`], and
    /// `model` must be current. Newer transactions that touch the same values must be undone first: see
    /// [`super::covered_by`].
    pub fn undo(self, host: &dyn Host, model: &Model) -> Undo {
        self.undo_with(host, model, UndoOptions::default())
    }

    /// Like [`Transaction::undo`], but overwrites foreign values if `options` say so.
    pub fn undo_with(self, host: &dyn Host, model: &Model, options: UndoOptions) -> Undo {
        self.undo_searching(host, model, options, &Search::default())
    }

    /// Like [`Transaction::undo_with`], with a search that other transactions share.
    pub(super) fn undo_searching(
        mut self,
        host: &dyn Host,
        model: &Model,
        options: UndoOptions,
        search: &Search,
    ) -> Undo {
        // If it cannot be recorded, the command runs once more, which does no harm.
        let _ = self.note_reverted();
        undo::run(self.journal, host, model, options, search)
    }

    /// True unless undo could not find the interface or the control group of a target again.
    fn can_find(&mut self, host: &dyn Host, model: &Model, target: &Target, object: &Object) -> bool {
        // Files alone have no inodes.
        if host.namespace().is_none() {
            return true;
        }
        match (target, &object.device, object.inode()) {
            (Target::Cgroup(_) | Target::Unit(_), _, inode) => inode.is_some(),
            _ if target.nic().is_none() => true,
            (_, Some(device), Some(inode)) => {
                // Interrupts are found through the model, which may predate a rename.
                let is_found = self.findable.contains(&inode)
                    || in_one(host, &model, device, object.ids)
                        .is_ok_and(|name| name.as_ref() == target.nic());
                if is_found {
                    self.findable.insert(inode);
                }
                is_found
            }
            _ => false,
        }
    }
}

/// Fails if the name of a target now belongs to another interface, process or control group than `object`.
fn is_still_named(host: &dyn Host, target: &Target, object: &Object, knob: &str) -> Result<(), ApplyError> {
    let is_it = match target {
        Target::Process(_) => !is_another(host, target, object.device.as_ref()),
        _ => object_id(host, target) == object.inode(),
    };
    if is_it { Ok(()) } else { Err(ApplyError::another_interface(knob, target)) }
}

/// True if a target is still the object that the journal has.
fn is_still_it(host: &dyn Host, model: &Model, target: &Target, object: &Object) -> bool {
    let Object { ids, group, device } = object_of(host, model, target);
    // A process has only its start.
    let is_same_process = || device.zip(object.device.as_ref()).is_some_and(|(now, then)| now.is_same(then));
    let is_it = !matches!(target, Target::Process(_)) || is_same_process();
    (ids, group) == (object.ids, object.group) && is_it
}

/// The error of a value that was not set in place of `before`.
fn meaning(unset: Unset, knob: &dyn Knob, target: &Target, before: &str) -> ApplyError {
    let subject = format!("{} {target}", knob.name());
    let changed = |why: String| ApplyError::ChangedMeanwhile { subject, why };
    match unset {
        Unset::Another => changed("it is now another interface, queue, process or control group".to_owned()),
        Unset::Changed(live) => changed(format!("it was {before} and is now {live}")),
        Unset::Unreadable(error) | Unset::Failed(error) => error.into(),
    }
}
