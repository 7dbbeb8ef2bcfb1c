//! What commands say when they end, against the machine: outcomes of undo, notices of guards, lines of status.

use std::collections::BTreeMap;

use rxlab_change::apply::{Live, Reapplied, Reapply, TransactionStatus};
use rxlab_change::journal::{History, Outcome, SysfsIds, Touched, UndoOutcome};
use rxlab_setting::{Plan, Setting, Target};

use super::actors::settings;
use super::invariants::is_on;
use super::schedule::Slot;
use super::{State, kernel};

/// When commands last wrote values, and when others changed them, in order.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    ticks: u64,
    /// By process and slot: the first and the last write.
    written: BTreeMap<(u32, Slot), (u64, u64)>,
    changed: BTreeMap<Slot, Vec<Change>>,
}

#[derive(Debug)]
struct Change {
    tick: u64,
    /// The process; 0 for the adversary.
    by: u32,
    /// The value from then on; `None` if there is none.
    to: Option<u64>,
}

/// What a command says of a value.
#[derive(Debug)]
enum Claim<'a> {
    Is(&'a str),
    /// Its device or queue does not exist.
    Absent,
}

/// The values of the machine at one moment, and the identity of the device or thread of each, in the order of their slots.
pub(crate) type Values = Vec<(Slot, (u64, u64))>;

fn value_of(values: &Values, slot: Slot) -> Option<(u64, u64)> {
    let at = values.binary_search_by_key(&slot, |(slot, _)| *slot).ok()?;
    Some(values[at].1)
}

impl State {
    pub(crate) fn values(&self) -> Values {
        let now = |slot: Slot| Some((slot, (self.machine.value(slot)?.now, self.machine.identity(slot))));
        let mut values: Values = self.machine.slots().into_iter().filter_map(now).collect();
        values.sort_unstable();
        values
    }

    /// The running command writes a value.
    pub(crate) fn note_write(&mut self, slot: Slot) {
        if let Some(pid) = self.running() {
            self.seen.ticks += 1;
            let tick = self.seen.ticks;
            self.seen.written.entry((pid, slot)).and_modify(|(_, last)| *last = tick).or_insert((tick, tick));
        }
    }

    /// `by` has changed the machine, whose values were these.
    pub(crate) fn changed_since(&mut self, before: &Values, by: u32) {
        self.seen.ticks += 1;
        let (tick, after) = (self.seen.ticks, self.values());
        let was = before.iter().filter(|(slot, value)| value_of(&after, *slot) != Some(*value));
        let is = after.iter().filter(|(slot, _)| value_of(before, *slot).is_none());
        for (slot, _) in was.chain(is) {
            let to = value_of(&after, *slot).map(|(value, _)| value);
            self.seen.changed.entry(*slot).or_default().push(Change { tick, by, to });
        }
    }

    /// Begins a command: what it says is about values from then on.
    pub(crate) fn tick(&self) -> u64 {
        self.seen.ticks
    }

    /// True if others changed a value after `pid`, which began at `began`, last wrote it; or after it first wrote it, and what
    /// they set is there: another write of the process discarded that, and it set it again.
    fn changed_later(&self, slot: Slot, (pid, began): (u32, u64)) -> bool {
        let (first, last) = self.seen.written.get(&(pid, slot)).copied().unwrap_or((began, began));
        let now = self.machine.value(slot).map(|value| value.now);
        let mut changes =
            self.seen.changed.get(&slot).into_iter().flatten().filter(|change| change.by != pid);
        changes.any(|change| {
            change.tick > last.max(began) || (change.tick > first.max(began) && change.to == now)
        })
    }

    /// The journal of a transaction, open or archived, unless the adversary damaged it.
    pub(super) fn history(&self, id: &str) -> Option<History> {
        let file = self.disk.open.get(id).or_else(|| self.disk.archive.get(id))?;
        History::parse(&file.bytes).ok()
    }

    /// Invariant 7: what a command says of a value is so, unless others changed it after the command's last write, or after
    /// its beginning if it wrote nothing.
    fn check_claim(
        &mut self,
        (id, who): (&str, (u32, u64)),
        (knob, target): (&str, &Target),
        claim: Claim<'_>,
    ) {
        let Some(history) = self.history(id) else { return };
        let mut touched = history.touched();
        if self.is_of_another(&touched, target) {
            return;
        }
        touched.retain(|touched| {
            touched.knob == knob && (touched.target.lasting() == target.lasting() || touched.group.is_some())
        });
        // A name may have passed to another device or group since: one of those with such a queue, or a group, has to fit.
        let is_so = |touched: &Touched| {
            let is_original = matches!(claim, Claim::Is(text) if text == touched.original);
            self.fits(touched, who, &claim) || is_original && self.is_back_with_older(touched, (id, who))
        };
        if !touched.iter().any(is_so) && !touched.is_empty() {
            self.violate(format!("7: {id} says of {knob} {target}: {claim:?}"));
        }
    }

    /// True if a target is of an interface that the transaction has not written to, such as one whose value others set during
    /// a trial, before it came to that.
    fn is_of_another(&self, touched: &[Touched], target: &Target) -> bool {
        let Some(nic) = target.nic() else { return false };
        let device = self.machine.devices.iter().find(|device| device.name == nic.as_str());
        let is_it = |touched: &Touched| {
            touched.target.nic() == Some(nic)
                || touched.ids.is_none_or(|ids| device.is_none_or(|device| device.inode == ids.interface))
        };
        !touched.iter().any(is_it)
    }

    fn fits(&self, touched: &Touched, who: (u32, u64), claim: &Claim<'_>) -> bool {
        let values = self.values();
        let there: Vec<(Slot, u64)> = values
            .iter()
            .filter(|(slot, _)| self.is_of(*slot, touched))
            .map(|(slot, (now, _))| (*slot, *now))
            .collect();
        let is = |(slot, now): &(Slot, u64), text: &str| {
            self.is_value(*slot, *now, text, &kernel::text(*slot, *now))
        };
        let is_so = match claim {
            // It has set the value back, and then another one that took it away, such as a thread with `threaded`, maybe of a
            // device that went afterwards.
            Claim::Is(_) if there.is_empty() => self.came_last(touched, who) || self.went_since(touched, who),
            Claim::Is(text) => there.iter().all(|now| is(now, text)),
            // It may have made it again after that, such as a thread with `threaded`.
            Claim::Absent => {
                there.iter().all(|(slot, _)| self.is_out_of_reach(*slot, touched))
                    || self.came_last(touched, who)
            }
        };
        // Of a device that went, or another that took its place, any value of the knob counts.
        let mut concerned: Vec<Slot> = there.iter().map(|(slot, _)| *slot).collect();
        if concerned.is_empty() {
            concerned.extend(self.seen.changed.keys().filter(|slot| kernel::knob(**slot) == touched.knob));
        }
        is_so || concerned.iter().any(|slot| self.changed_later(*slot, who))
    }

    /// True if the command has set a value again with an older transaction, which a killed write of that had discarded: the newer one
    /// had found, and went back to, what that write left.
    fn is_back_with_older(&self, touched: &Touched, (id, who): (&str, (u32, u64))) -> bool {
        let values = self.values();
        let is_now = |text: &str| {
            let mut there = values.iter().filter(|(slot, _)| self.is_of(*slot, touched));
            there.any(|(slot, (now, _))| self.is_value(*slot, *now, text, &kernel::text(*slot, *now)))
        };
        let older = self.disk.open.keys().chain(self.disk.archive.keys()).filter(|other| other.as_str() < id);
        let writes = older.filter_map(|other| self.history(other)).flat_map(|history| history.touched());
        let cut_short = writes.filter(|write| {
            let is_back = write.outcome.as_ref().is_some_and(Outcome::settles);
            !write.unsettled.is_empty() && is_back && write.is_on_same_device(touched)
        });
        self.came_last(touched, who)
            && cut_short.flat_map(|write| write.displaced).any(|one| {
                one.knob == touched.knob
                    && one.target.lasting() == touched.target.lasting()
                    && is_now(&one.value)
            })
    }

    /// True for a value of hardware that was made again, so that nothing of ours is left, under a name that is not text.
    fn is_out_of_reach(&self, slot: Slot, touched: &Touched) -> bool {
        let device = slot.device().map(|device| self.machine.device(device));
        device.is_some_and(|device| {
            device.is_odd && touched.ids.is_some_and(|ids| ids.interface != device.inode)
        })
    }

    /// True if the last change of a value is by the process itself.
    fn came_last(&self, touched: &Touched, (pid, _): (u32, u64)) -> bool {
        let changed = self.seen.changed.iter().filter(|(slot, _)| self.is_of(**slot, touched));
        changed.filter_map(|(_, changes)| changes.last()).any(|change| change.by == pid)
    }

    /// True if the interface was made again, and the last change of the value at its place is by the process itself.
    fn went_since(&self, touched: &Touched, who: (u32, u64)) -> bool {
        let devices = &self.machine.devices;
        let has = |ids: SysfsIds| devices.iter().any(|device| device.inode == ids.interface);
        let again = devices
            .iter()
            .find(|device| touched.target.nic().is_some_and(|name| name.as_str() == device.name));
        let (Some(ids), Some(again)) = (touched.ids.filter(|ids| !has(*ids)), again) else { return false };
        let ids = Some(SysfsIds { interface: again.inode, ..ids });
        self.came_last(&Touched { ids, ..touched.clone() }, who)
    }

    /// Checks the outcomes of an undo of `id` by the process `who`.
    pub(crate) fn check_outcomes(&mut self, id: &str, who: (u32, u64), outcomes: &[UndoOutcome]) {
        for UndoOutcome { knob, target, original, outcome, .. } in outcomes {
            let claim = match outcome {
                Outcome::Unchanged | Outcome::Restored => Claim::Is(original),
                Outcome::Altered { kept } => Claim::Is(kept),
                Outcome::Drift { live, .. } => Claim::Is(live),
                Outcome::Gone | Outcome::Deferred => Claim::Absent,
                Outcome::RestoredInPart { .. } | Outcome::Failed { .. } => continue,
            };
            self.check_claim((id, who), (knob, target), claim);
        }
    }

    /// Checks that an exit code of 0 is not that of an undo with a value that is not as before.
    pub(crate) fn check_success(&mut self, id: &str, outcomes: &[UndoOutcome]) {
        let is_good =
            |one: &UndoOutcome| matches!(one.outcome, Outcome::Unchanged | Outcome::Restored | Outcome::Gone);
        if let Some(bad) = outcomes.iter().find(|one| !is_good(one)) {
            self.violate(format!("7: undo of {id} ended with 0 and {:?}", bad.outcome));
        }
    }

    /// Checks the lines of `rxlab status` about a transaction.
    pub(crate) fn check_status(&mut self, who: (u32, u64), status: &TransactionStatus) {
        for value in &status.values {
            let claim = match &value.live {
                Live::Kept => Claim::Is(&value.wanted),
                Live::Original => Claim::Is(&value.original),
                Live::Drifted { value, .. } => Claim::Is(value),
                Live::Gone => Claim::Absent,
                Live::Covered { .. } | Live::Unreadable { .. } => continue,
            };
            self.check_claim((&status.id, who), (&value.knob, &value.target), claim);
        }
    }

    /// Checks what `rxlab reapply` says of a transaction.
    pub(crate) fn check_reapplied(&mut self, id: &str, who: (u32, u64), all: &[Reapplied]) {
        for one in all {
            let claim = match &one.outcome {
                Reapply::Holds | Reapply::Reapplied { .. } => Claim::Is(&one.wanted),
                Reapply::Gone => Claim::Absent,
                Reapply::Covered { .. } | Reapply::Due { .. } | Reapply::Failed { .. } => continue,
            };
            self.check_claim((id, who), (&one.knob, &one.target), claim);
        }
    }

    /// Invariant 8: the plan of `rxlab persist` without a file has, by its current name, every value that a confirmed
    /// transaction of this namespace has set last, and no other. A queue of the same device may be missing for now.
    pub(crate) fn check_persisted(&self, open: &[(String, History)], plan: &Plan) -> Result<(), String> {
        let own = self.machine.namespaces[0].cookie;
        let lasting = open.iter().filter(|(_, history)| {
            let is_own = history.begin().is_some_and(|begin| begin.netns.is_none());
            let waits = history.pending_deadline().is_some() || history.pending_command().is_some();
            is_own && history.is_complete() && !waits
        });
        let mut wanted = Vec::new();
        for slot in self.machine.slots() {
            let held = lasting.clone().rev().find_map(|(_, history)| {
                let mut touched = history.touched();
                touched.retain(|touched| {
                    self.is_of(slot, touched) && !touched.outcome.as_ref().is_some_and(Outcome::settles)
                });
                touched.pop()
            });
            // A unit and its control group are one.
            let names = [(slot, 0), (slot, 1)].map(|set| settings(self, &[set], own).pop());
            if let (Some(held), [Some(one), Some(other)]) = (held, names) {
                wanted.push((slot, [one.target, other.target], held.wanted));
            }
        }
        for (slot, names, value) in &wanted {
            let mut planned = plan.settings.iter().map(|planned| &planned.set);
            let planned = planned.find(|set| set.knob == kernel::knob(*slot) && names.contains(&set.target));
            if planned.is_none_or(|set| set.value != *value) {
                return Err(format!("8: {slot:?} has {value}, and is to persist as {planned:?}"));
            }
        }
        let is_of_device = |set: &Setting| {
            let mut here = self.machine.in_netns(own);
            let device =
                here.find(|(_, device)| set.target.nic().is_some_and(|nic| nic.as_str() == device.name));
            let mut held = lasting.clone().flat_map(|(_, history)| history.touched());
            device.is_some_and(|(_, device)| {
                held.any(|held| {
                    held.knob == set.knob
                        && held.target.lasting() == set.target.lasting()
                        && is_on(device, &held)
                })
            })
        };
        let is_wanted = |set: &Setting| {
            let is_of =
                |slot: Slot, names: &[Target]| set.knob == kernel::knob(slot) && names.contains(&set.target);
            wanted.iter().any(|(slot, names, _)| is_of(*slot, names)) || is_of_device(set)
        };
        match plan.settings.iter().find(|planned| !is_wanted(&planned.set)) {
            Some(planned) => Err(format!("8: {} is to persist, and nothing has set it", planned.set)),
            None => Ok(()),
        }
    }

    /// Checks the values that `rxlab apply` says are set.
    pub(crate) fn check_kept(&mut self, id: &str, who: (u32, u64), kept: &[rxlab_change::apply::Kept]) {
        for one in kept.iter().filter(|one| one.changed) {
            self.check_claim((id, who), (&one.setting.knob, &one.setting.target), Claim::Is(&one.kept));
        }
    }
}
