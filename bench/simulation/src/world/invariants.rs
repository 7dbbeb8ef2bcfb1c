//! Invariants at any moment, and at the end.

use std::sync::Arc;

use rxlab_base::parse::TICK_NS;
use rxlab_base::units::{CpuMask, NicName};
use rxlab_change::apply::{UndoOptions, Which, confirm, kept, reach, status, undo};
use rxlab_change::journal::{History, Notice, Outcome, Record, Store, Touched, UndoOutcome};
use rxlab_path::model::Model;
use rxlab_path::sample::{Identity, Inventory, Scope};
use rxlab_setting::{Plan, Setting};

use super::actors::{Ended, ROOT};
use super::disk::{Place, SimDisk};
use super::host::SimHost;
use super::kernel::By;
use super::processes::allows;
use super::schedule::{Home, NicValue, QueueValue, Slot};
use super::{Mutation, State, World, kernel};

/// Justification of a write over a foreign value.
pub(crate) enum Cover {
    /// It is the first one of a transaction, whose journal has the value.
    First,
    /// The value may be the transaction's own.
    Ambiguous,
    /// The write is not justified.
    None,
}

/// True if `touched` is a value of this device.
pub(super) fn is_on(device: &kernel::Device, touched: &Touched) -> bool {
    let by_address = || {
        let address = device.pci.map(|function| format!("pci:{function}"));
        address.is_some_and(|address| touched.device.as_ref().is_some_and(|d| d.0 == address))
    };
    touched.ids.is_some_and(|ids| ids.interface == device.inode) || by_address()
}

impl State {
    /// True if `touched` is the value of this slot.
    pub(super) fn is_of(&self, slot: Slot, touched: &Touched) -> bool {
        if touched.knob != kernel::knob(slot) {
            return false;
        }
        let (device, lasting) = match slot.home() {
            Home::Host => return true,
            Home::Cpu(cpu) => return touched.target.to_string() == format!("cpu:{cpu}"),
            Home::Group(_) => {
                let inode = self.machine.identity(slot);
                return touched.group.is_some_and(|group| group.inode == inode);
            }
            Home::Queue(device, queue, QueueValue::Xps) => (device, format!("tx-{queue}")),
            Home::Queue(device, queue, _) => (device, format!("rx-{queue}")),
            Home::Nic(device, _) => (device, "nic".to_owned()),
            Home::Thread(process, _) => {
                let process = self.machine.process_of(process);
                let address = format!("process:{}@{}", process.pid, process.main().start);
                return touched.device.as_ref().is_some_and(|device| device.0 == address);
            }
        };
        touched.target.lasting() == lasting && is_on(self.machine.device(device), touched)
    }

    /// Coverage, by the open journals, of the foreign value `was` of a slot that `value` overwrites.
    pub(crate) fn covers(&self, slot: Slot, was: u64, value: u64) -> Cover {
        let was_text = kernel::text(slot, was);
        let (mut cover, mut is_first) = (Cover::None, false);
        for file in self.disk.open.values() {
            let history = match History::parse(&file.bytes) {
                Ok(history) => history,
                Err(damage) => damage.readable,
            };
            let value_text = kernel::text(slot, value);
            // The content of a damaged line is unknown here; the command that wrote it still knows it.
            if file.damaged {
                cover = Cover::Ambiguous;
                continue;
            }
            for touched in history.touched().iter().filter(|touched| self.is_of(slot, touched)) {
                let last = history.records.iter().rev().find_map(|record| match record {
                    Record::Intent(intent) => Some(intent),
                    _ => None,
                });
                if let Some(last) = last
                    && last.seq == touched.seq
                    && self.is_value(slot, was, &last.before, &was_text)
                    && self.is_value(slot, value, &last.after, &value_text)
                    && touched.outcome.is_none()
                {
                    is_first = true;
                    continue;
                }
                let known = [&touched.ours, &touched.foreign, &touched.unsettled];
                let mut known = known.into_iter().flatten();
                let is_known = known.any(|known| self.is_value(slot, was, known, &was_text));
                // RPS drops offline CPUs: of a write that was not read back any part may remain. A driver rounds the size of a
                // ring.
                let is_part = matches!(slot, Slot::Rps(..) | Slot::Xps(..) | Slot::Ring(_))
                    && !touched.unsettled.is_empty();
                let is_fresh = self.is_fresh(slot, was, history.began());
                if is_known || is_part || is_fresh {
                    cover = Cover::Ambiguous;
                }
            }
            // Values of queues that the transaction has recreated are set again.
            let written_with = history
                .touched()
                .into_iter()
                .flat_map(|t| t.displaced.into_iter().chain(t.held.into_iter().flatten()));
            let device = self.is_fresh(slot, was, history.began());
            for one in written_with {
                // CPUs that a driver chose for a new interrupt or a new transmit queue look the same as those that others set, as do
                // the polls that a new NAPI has from its interface. An old thread was not made again.
                let is_chosen = matches!(slot, Slot::Irq(..) | Slot::Xps(..) | Slot::Rss(_))
                    || slot.is_of_napi() && !self.has_old_thread(slot, history.began());
                // RPS drops offline CPUs: a part of the list may be left from an earlier attempt.
                let list = || one.value.parse::<CpuMask>().unwrap_or_default();
                let part = || CpuMask::from_hex(&format!("{was:x}")).unwrap_or_default();
                let is_part =
                    matches!(slot, Slot::Rps(..) | Slot::Xps(..)) && part().difference(&list()).is_empty();
                let is_known = one.value == was_text || device || is_chosen || is_part;
                if one.knob == kernel::knob(slot) && is_known {
                    cover = Cover::Ambiguous;
                }
            }
        }
        match cover {
            Cover::None if is_first => Cover::First,
            cover => cover,
        }
    }

    /// True if a value of a journal stands for `value` of a slot, which is `text`.
    pub(super) fn is_value(&self, slot: Slot, value: u64, recorded: &str, text: &str) -> bool {
        if let (Slot::Rss(device), Some(queues)) = (slot, recorded.strip_prefix("equal ")) {
            // The default of that number of queues.
            let table = kernel::table(value, self.machine.device(device).count());
            return queues.parse().is_ok_and(|queues| table == kernel::table(0, queues));
        }
        if matches!(slot, Slot::NapiCpus(..)) && recorded == "all" {
            let online = self.machine.online;
            return value & online == online;
        }
        let Slot::Thread(process, at) = slot else { return recorded == text };
        let process = self.machine.process_of(process);
        let tid = process.pid + u32::from(at);
        let start = process.thread(tid).map_or(0, |thread| thread.start);
        allows(recorded, (tid, start), value, self.machine.online)
    }

    /// True if a value is that of a new queue on a device whose queues were recreated, or of a thread that may have been made since
    /// a transaction began.
    fn is_fresh(&self, slot: Slot, value: u64, began: Option<u64>) -> bool {
        if self.has_old_thread(slot, began) {
            return false;
        }
        let device = match slot.home() {
            Home::Queue(device, ..) | Home::Nic(device, NicValue::Rss | NicValue::Threaded) => device,
            _ => return false,
        };
        self.machine.device(device).made_again
            && value == self.machine.foreign(slot, super::schedule::Foreign::Fresh)
    }

    /// True for a value of a thread that is older than a transaction.
    fn has_old_thread(&self, slot: Slot, began: Option<u64>) -> bool {
        let is_of_thread = matches!(slot, Slot::NapiCpus(..) | Slot::NapiPriority(..));
        let thread = self.machine.thread_began(slot).filter(|_| is_of_thread);
        thread.zip(began).is_some_and(|(tick, began)| (tick + 1) * TICK_NS < began)
    }

    /// True if a list of CPUs is an original that was written back while some of them were offline. A command
    /// that is killed right after such a write has not recorded the value that the kernel kept, and the next
    /// one takes it for a foreign value: a known limit.
    fn lost_cpus(&self, slot: Slot) -> bool {
        let is_part =
            |value: &kernel::Value| value.originals.iter().any(|original| value.now & !original == 0);
        matches!(slot, Slot::Rps(..) | Slot::Xps(..)) && self.machine.value(slot).is_some_and(is_part)
    }

    /// True if a value is back, or waits for its queue, its NAPIs or a user's decision. `is_of` says whether it is of a slot.
    fn waits(&self, outcome: &Outcome, is_of: impl Fn(Slot) -> bool) -> bool {
        // Without NAPIs, which another program took from a veth with GRO, the kernel refuses `threaded`; with an RSS table
        // for several queues, which another program has set, it refuses fewer of them.
        let refuses = |(at, device): (u8, &kernel::Device)| {
            (!device.has_napis() && is_of(Slot::Threaded(at)))
                || (device.nic_value(NicValue::Rss).by == By::Foreign && is_of(Slot::Channels(at)))
        };
        match outcome {
            Outcome::Deferred | Outcome::Drift { .. } => true,
            Outcome::Failed { .. } => (0..).zip(&self.machine.devices).any(refuses),
            outcome => outcome.settles(),
        }
    }

    /// True if an outcome is that of a slot, by its current name.
    fn is_named(&self, slot: Slot, UndoOutcome { knob, target, .. }: &UndoOutcome) -> bool {
        let name = slot.device().map(|device| self.machine.device(device).name.as_str());
        knob == kernel::knob(slot) && name.is_some() && target.nic().map(NicName::as_str) == name
    }

    /// Invariant 1: every value that rxlab set is restored, or open.
    fn check_values(&mut self) {
        let ours = |slot: &Slot| self.machine.value(*slot).is_some_and(kernel::Value::is_ours);
        let mut left = self.left_without_transaction(|slot| ours(slot) && !self.lost_cpus(*slot));
        if let Some((slot, value)) = left.pop() {
            self.violate(format!(
                "1: {slot:?} is {value:#x}, which rxlab set, and no open transaction has it"
            ));
        }
    }

    /// Invariant 6: every value that a write of rxlab to another slot discarded is set again, or open.
    fn check_discarded(&mut self) {
        let discarded = |slot: Slot| self.machine.value(slot).and_then(|value| value.discarded);
        let mut left = self.left_without_transaction(|slot| discarded(*slot).is_some());
        if let Some((slot, value)) = left.pop() {
            let was = discarded(slot).unwrap_or_default();
            self.violate(format!("6: {slot:?} was {was:#x}, is {value:#x}, and no open transaction has it"));
        }
    }

    /// The slots that are `wanted`, with their values, unless an open transaction has them.
    fn left_without_transaction(&self, wanted: impl Fn(&Slot) -> bool) -> Vec<(Slot, u64)> {
        let mut slots = self.machine.slots();
        slots.retain(wanted);
        if slots.is_empty() {
            return Vec::new();
        }
        let files = self.disk.open.values();
        let files: Vec<_> = files.map(|file| (file.damaged, History::parse(&file.bytes))).collect();
        slots.retain(|slot| {
            !files.iter().any(|(damaged, history)| match history {
                Ok(history) if history.is_closed() => false,
                Ok(history) => history.touched().iter().any(|touched| {
                    let settled = touched.outcome.as_ref().is_some_and(Outcome::settles);
                    let is_written_with =
                        || touched.displaced.iter().any(|one| one.knob == kernel::knob(*slot));
                    !settled && (self.is_of(*slot, touched) || is_written_with())
                }),
                // Damaged by the adversary: the last check verifies that it is reported.
                Err(_) => *damaged,
            })
        });
        slots.into_iter().filter_map(|slot| Some((slot, self.machine.value(slot)?.now))).collect()
    }
}

impl World {
    /// Checks the invariants that hold at any moment.
    pub(crate) fn check(&self) {
        let mut state = self.state();
        if state.report.violation.is_none() {
            state.check_values();
        }
    }

    /// A guard has ended by itself: only values for a user to decide may be left.
    pub(crate) fn check_guard(self: &Arc<Self>, id: &str) {
        let mut state = self.state();
        let Some(file) = state.disk.open.get(id) else { return };
        let Ok(history) = History::parse(&file.bytes) else {
            let known = file.damaged;
            if !known {
                state.violate(format!("3: the guard of {id} has ended, and its journal cannot be read"));
            }
            return;
        };
        if history.pending_deadline().is_none() {
            return;
        }
        let left = |touched: &Touched| match &touched.outcome {
            Some(outcome) => !outcome.settles() && !matches!(outcome, Outcome::Drift { .. }),
            None => true,
        };
        if history.touched().iter().any(left) || history.touched().is_empty() {
            state.violate(format!("3: the guard of {id} has ended, and its values are not back"));
        }
    }

    /// A guard has ended by itself: its notice, unless the disk refused it, is so, and says if the transaction is closed.
    pub(crate) fn check_notice(self: &Arc<Self>, id: &str, who: (u32, u64)) {
        let mut state = self.state();
        let Some(text) = state.disk.notices.remove(id) else { return };
        let Ok(notice) = serde_json::from_slice::<Notice>(&text) else {
            return state.violate(format!("7: the notice about {id} cannot be read"));
        };
        // The file of one that is closed is still there if it could not be moved.
        let is_open =
            state.disk.open.contains_key(id) && !state.history(id).is_some_and(|history| history.is_closed());
        if notice.is_closed == is_open {
            state.violate(format!("7: the notice about {id} is wrong about its end: {notice:?}"));
        }
        // Several attempts may have undone it; the last one says what all of them did.
        let touched = state.history(id).map_or_else(Vec::new, |history| history.touched());
        if notice.values.len() < touched.len() {
            state.violate(format!("7: the notice about {id} leaves out values: {notice:?}"));
        }
        state.check_outcomes(id, who, &notice.values);
    }

    /// Checks that a guard that goes on for too long has a reason: only values that wait for their queue are
    /// left.
    pub(crate) fn check_overdue(self: &Arc<Self>, id: &str) {
        let mut state = self.state();
        let Some(file) = state.disk.open.get(id) else { return };
        // Without its journal in sight, nothing can be undone: a known limit.
        if file.damaged || !state.disk.is_in_sight(id) {
            return;
        }
        let Ok(history) = History::parse(&file.bytes) else { return };
        let waits = |touched: &Touched| {
            let is_of = |slot| state.is_of(slot, touched);
            touched.outcome.as_ref().is_some_and(|outcome| state.waits(outcome, is_of))
        };
        let touched = history.touched();
        if !touched.iter().all(waits) || touched.is_empty() {
            let left: Vec<_> =
                touched.iter().filter(|t| !waits(t)).map(|t| (&t.knob, &t.target, &t.outcome)).collect();
            let what = format!("3: {id} was not restored in time: {left:?}");
            state.violate(what);
        }
    }

    /// Everything works again: everything readable can be shown, confirmed and undone.
    pub(crate) fn finish(self: &Arc<Self>) {
        self.check();
        if self.state().report.violation.is_some() {
            return;
        }
        self.state().is_checking = true;
        // The usual journal, what was written below it while it was not mounted, and the other one.
        for (place, is_mounted) in [(Place::Usual, true), (Place::Usual, false), (Place::Elsewhere, true)] {
            self.state().disk.is_mounted = is_mounted;
            if let Err(what) = self.check_end(place) {
                self.state().violate(what);
            }
        }
        let mut state = self.state();
        state.is_checking = false;
        state.check_discarded();
        drop(state);
        self.check();
    }

    fn check_end(self: &Arc<Self>, place: Place) -> Result<(), String> {
        let own = SimHost::own(self);
        let store = Store::new(SimDisk::new(self, place));
        let identity = Identity::take(&own);
        let open = store.open(ROOT, &identity.boot_id).map_err(|error| format!("4: the store: {error}"))?;
        let damaged: Vec<String> = {
            let state = self.state();
            let is_damaged = |(id, file): &(&String, &super::disk::File)| {
                file.damaged && state.disk.ids(place).contains(id) && History::parse(&file.bytes).is_err()
            };
            state.disk.open.iter().filter(is_damaged).map(|(id, _)| id.clone()).collect()
        };
        for file in &open.unreadable {
            let is_hidden = !self.state().disk.is_in_sight(&file.id);
            if !damaged.contains(&file.id) && !is_hidden {
                return Err(format!("4: {} is unreadable, but was not damaged: {}", file.id, file.why));
            }
        }
        for id in &damaged {
            let state = self.state();
            let parsed = state.disk.open.get(id).map(|file| History::parse(&file.bytes));
            let of_this_boot = parsed.is_some_and(|parsed| {
                parsed.is_err_and(|damage| {
                    damage.readable.begin().is_none_or(|begin| begin.boot_id == identity.boot_id)
                })
            });
            if of_this_boot && open.unreadable.iter().all(|file| file.id != *id) {
                return Err(format!("1: {id} is damaged, but the store does not report it"));
            }
        }
        for (at, (id, history)) in open.transactions.iter().enumerate() {
            let begin = history.begin().ok_or_else(|| format!("4: {id} has no beginning"))?;
            let reached = reach(&own, begin).map_err(|hidden| format!("4: {id} is not found: {hidden}"))?;
            let host = reached.as_deref().unwrap_or(&own);
            let model = Model::new(&Inventory::take(host, Scope::Path));
            status(history, &open.transactions[at + 1..], host, &model)
                .ok_or_else(|| format!("4: {id} cannot be shown"))?;
            let is_confirmable = history.pending_deadline().is_some()
                && history.is_complete()
                && history.touched().iter().all(|touched| touched.outcome.is_none());
            if is_confirmable {
                confirm(&store, (ROOT, &identity), Some(id)).map_err(|error| format!("4: {id}: {error}"))?;
            }
        }
        let open =
            store.open_of(ROOT, &identity.boot_id).map_err(|error| format!("4: the store: {error}"))?;
        let plan = if self.state().has(Mutation::AllPersists) {
            let touched = open.iter().flat_map(|(_, history)| history.touched());
            let by_name = touched.map(|touched| Setting::new(&touched.knob, touched.target, &touched.wanted));
            Plan::new("kept", &by_name.collect::<Vec<_>>())
        } else {
            kept(&open, &own, &Model::new(&Inventory::take(&own, Scope::Path))).0
        };
        self.state().check_persisted(&open, &plan)?;
        let done = undo(&store, &own, (ROOT, &identity), Which::All, UndoOptions::default())
            .map_err(|error| format!("4: undo: {error}"))?;
        if let Some(error) = done.done.error {
            return Err(format!("4: undo: {error}"));
        }
        for one in &done.done.undone {
            if let Some(error) = &one.journal_error {
                return Err(format!("4: undo of {}: {error}", one.id));
            }
            let state = self.state();
            let stays = |left: &&UndoOutcome| !state.waits(&left.outcome, |slot| state.is_named(slot, left));
            if let Some(left) = one.outcomes.iter().find(stays) {
                return Err(format!("4: undo of {} leaves {left:?}", one.id));
            }
        }
        if damaged.is_empty() {
            let stuck = |id: &str| done.done.undone.iter().any(|one| one.id == id && !one.closed);
            if let Some(waiting) = done.done.waiting.iter().find(|waiting| !stuck(&waiting.behind)) {
                let known = done.done.waiting.iter().any(|other| other.id == waiting.behind);
                if !known {
                    return Err(format!("4: {} waits for {}", waiting.id, waiting.behind));
                }
            }
        }
        let kind = if !damaged.is_empty() {
            "end: damaged journals left"
        } else if !done.done.waiting.is_empty() {
            "end: some wait for others"
        } else if done.done.undone.iter().any(|one| !one.closed) {
            "end: values for a user to decide"
        } else {
            "end: everything back"
        };
        self.state().end(kind);
        Ok(())
    }

    /// Invariant 5: an undo that reports success has left nothing open that it had to restore.
    ///
    /// An invisible state directory looks like one in which nothing was ever done: a known limit.
    pub(crate) fn check_undone(self: &Arc<Self>, before: &[String], began: u32, ended: Ended) {
        let mut state = self.state();
        if ended != Ended::Done || state.gone_until > u64::from(began) {
            return;
        }
        let left = before.iter().find(|id| {
            state.disk.open.get(*id).is_some_and(|file| {
                History::parse(&file.bytes).is_ok_and(|history| {
                    !history.is_closed()
                        && history
                            .begin()
                            .is_some_and(|begin| begin.boot_id == format!("boot-{}", state.machine.boot))
                })
            })
        });
        if let Some(left) = left.cloned() {
            state.violate(format!("5: undo reported success and left {left} open"));
        }
    }
}
