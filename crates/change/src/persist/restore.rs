//! Restores a persisted plan in rounds: each sets the values whose targets exist by now; the others wait.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::{Found, found, permanent_mac};
use crate::apply::{self, Again, ApplyError, BeginInfo, Failure, Kept, Transaction};
use crate::journal::{Archived, JournalError, LockError, Store};
use crate::knob::{self, KnobError};
use rxlab_base::units::NicName;
use rxlab_path::model::Model;
use rxlab_setting::{Plan, PlannedSetting, Setting, Target};
use rxlab_sys::{Host, Namespace, ProcessId};

/// Purpose of its transactions.
const WHAT: &str = "restore";

/// A machine, and the journal of its changes.
pub struct Restorer<'a, E> {
    pub host: &'a dyn Host,
    /// The machine seen from our own network namespace.
    pub own: &'a dyn Host,
    pub model: &'a Model,
    pub root: &'a Path,
    /// Its network namespace, unless it is our own.
    pub netns: Option<Namespace>,
    pub store: &'a Store,
    /// Reads the machine again under the lock of the journal, and checks the settings against it. An error closes the
    /// transaction.
    pub again: &'a dyn Fn(Transaction, &Plan) -> Result<Checked, E>,
    /// Stops between two writes, and undoes what was written.
    pub stop: &'a AtomicBool,
}

/// A transaction that may write, with the machine as it is under the lock and the settings in order.
pub type Checked = (Transaction, Box<dyn Host>, Model, Vec<Setting>);

pub struct Round<E> {
    /// Set, already set, or refused: not to be tried again.
    pub done: Vec<PlannedSetting>,
    /// Transactions of values that had to be written.
    pub made: Vec<Made>,
    pub refused: Vec<Refusal<E>>,
    /// Missing targets, with the reason, one line each.
    pub waiting: Vec<String>,
}

/// A transaction that is complete.
pub struct Made {
    pub id: String,
    pub kept: Vec<Kept>,
    /// Transactions archived when it began.
    pub archived: Vec<Archived>,
}

/// Reason why settings are not set, and not tried again.
pub enum Refusal<E> {
    /// The check under the lock failed. Nothing was written.
    Again(E),
    /// The plan was refused before anything was written.
    Apply(ApplyError),
    /// A write failed, and the values set before it were restored.
    RolledBack(Box<Failure>),
}

enum Attempt<E> {
    /// Nothing had to be written.
    AlreadySet,
    Made(Made),
    /// Not to be tried again.
    Refused(Refusal<E>),
    /// Not now: an interface is not ready, or another process is changing the machine, which must be read again
    /// after that.
    Later(String),
    /// The target of one of the settings does not exist. Nothing is set.
    Absent(KnobError),
}

impl<E> From<ApplyError> for Attempt<E> {
    fn from(error: ApplyError) -> Self {
        match error {
            // The units of the boot and of an interface may run at the same time.
            ApplyError::Journal(JournalError::Lock(error @ LockError::Held { .. })) => {
                Attempt::Later(error.to_string())
            }
            ApplyError::Knob(error @ KnobError::NotThere { .. }) => Attempt::Absent(error),
            ApplyError::Knob(
                error @ (KnobError::UnknownNic { .. }
                | KnobError::UnknownQueue { .. }
                | KnobError::NoIrq { .. }
                | KnobError::Down { .. }),
            ) => Attempt::Later(error.to_string()),
            error => Attempt::Refused(Refusal::Apply(error)),
        }
    }
}

/// A setting as in the plan, and with current names.
type Pair = (PlannedSetting, PlannedSetting);

impl<E> Restorer<'_, E> {
    /// Sets the values of `plan` whose targets exist by now; with `only` just those of one interface.
    pub fn round(&self, plan: &Plan, only: Option<&NicName>) -> Round<E> {
        let mut round =
            Round { done: Vec::new(), made: Vec::new(), refused: Vec::new(), waiting: Vec::new() };
        let Found { here, absent } = found(plan, self.model, |nic| permanent_mac(self.host, nic), only);
        round.waiting.extend(absent.iter().map(|setting| format!("{setting}: interface not found")));
        if let Some(nic) = only.filter(|nic| self.model.nic(nic).is_none()) {
            round.waiting.push(format!("no interface {nic}"));
        }
        for group in groups(here, |group| apply::object_id(self.host, group)) {
            let group = self.without_absent(group, &mut round);
            let attempt = self.set(&plan.name, &group);
            let Attempt::Absent(why) = attempt else {
                round.end(group, attempt);
                continue;
            };
            // Found missing only now, and it may never appear: the others need not wait for it.
            let (fleeting, lasting): (Vec<Pair>, Vec<Pair>) = group.into_iter().partition(is_fleeting);
            if fleeting.is_empty() {
                round.end(lasting, Attempt::Absent(why));
                continue;
            }
            round.waiting.push(why.to_string());
            let attempt = self.set(&plan.name, &lasting);
            round.end(lasting, attempt);
        }
        round
    }

    /// Returns the settings of a group whose process or thread exists; the others wait.
    fn without_absent(&self, group: Vec<Pair>, round: &mut Round<E>) -> Vec<Pair> {
        let settings: Vec<Setting> = group.iter().map(|(_, here)| here.set.clone()).collect();
        let mut there = Vec::new();
        for pair in group {
            match apply::awaits(self.host, self.model, &pair.1.set, &settings) {
                Some(why) => round.waiting.push(format!("{}: {why}", pair.1.set.knob)),
                None => there.push(pair),
            }
        }
        there
    }

    /// Applies the settings of a group.
    fn set(&self, name: &str, group: &[Pair]) -> Attempt<E> {
        let here = group.iter().map(|(_, here)| here.clone()).collect();
        let part = Plan { settings: here, ..Plan::new(name, &[]) };
        let changes = apply::check(self.host, self.model, &part)
            .and_then(|settings| apply::rehearse(self.host, self.model, &settings));
        match changes {
            Ok(changes) if changes.iter().all(|change| !change.needed) => Attempt::AlreadySet,
            Ok(_) => self.write(&part),
            Err(error) => error.into(),
        }
    }

    fn write(&self, part: &Plan) -> Attempt<E> {
        let root = self.root.to_string_lossy();
        apply::retire(self.store, self.own, (&root, &self.model.identity), WHAT);
        let info = BeginInfo {
            root: self.root,
            netns: self.netns.clone(),
            home: self.own.namespace().cloned(),
            applier: ProcessId::own(),
            what: WHAT.to_owned(),
            continues: Some(Again { host: self.host, model: self.model, plan: part }),
            ..BeginInfo::new(&self.model.identity)
        };
        let transaction = match Transaction::begin_at(self.store, info, self.host.now_ns()) {
            Ok(transaction) => transaction,
            Err(error) => return error.into(),
        };
        let id = transaction.id().to_owned();
        let archived = transaction.archived().to_vec();
        let (transaction, host, model, settings) = match (self.again)(transaction, part) {
            Ok(checked) => checked,
            Err(error) => return Attempt::Refused(Refusal::Again(error)),
        };
        match transaction.apply(&*host, &model, &settings, self.stop) {
            Ok(kept) => Attempt::Made(Made { id, kept, archived }),
            Err(failure) => match *failure {
                Failure { error: ApplyError::Knob(error @ KnobError::NotThere { .. }), undo }
                    if undo.is_clean() =>
                {
                    Attempt::Absent(error)
                }
                failure => Attempt::Refused(Refusal::RolledBack(Box::new(failure))),
            },
        }
    }
}

impl<E> Round<E> {
    fn end(&mut self, group: Vec<Pair>, attempt: Attempt<E>) {
        match attempt {
            Attempt::Later(why) => return self.waiting.push(why),
            Attempt::AlreadySet => {}
            Attempt::Made(made) => self.made.push(made),
            Attempt::Refused(refusal) => self.refused.push(refusal),
            Attempt::Absent(error) => self.refused.push(Refusal::Apply(error.into())),
        }
        self.done.extend(group.into_iter().map(|(of_plan, _)| of_plan));
    }
}

fn is_fleeting((_, here): &Pair) -> bool {
    knob::find(&here.set.knob).is_some_and(|knob| knob.is_fleeting())
}

/// The whole machine first, then one interface after another: one that is not ready blocks no other.
/// Settings of processes come last, one by one: they are independent, and may start late. Those of one control group, by
/// several names, are together, and so refused.
fn groups(here: Vec<Pair>, inode: impl Fn(&Target) -> Option<u64>) -> Vec<Vec<Pair>> {
    let mut groups: BTreeMap<Group, Vec<Pair>> = BTreeMap::new();
    for pair in here {
        let Setting { knob, target, .. } = &pair.1.set;
        let group = match target.nic() {
            Some(nic) => Group::Nic(nic.clone()),
            None if knob::find(knob).is_some_and(|knob| knob.is_fleeting()) => {
                let group = match target {
                    Target::Cgroup(_) | Target::Unit(_) => inode(target),
                    _ => None,
                };
                group.map_or_else(|| Group::Alone(target.clone()), Group::Named)
            }
            None => Group::Machine,
        };
        groups.entry(group).or_default().push(pair);
    }
    groups.into_values().collect()
}

/// In the order of applying.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Machine,
    Nic(NicName),
    Alone(Target),
    /// A control group, by its inode.
    Named(u64),
}

#[cfg(test)]
mod tests {
    use super::groups;
    use rxlab_setting::{PlannedSetting, Setting, Target};

    #[test]
    fn a_process_keeps_nothing_else_waiting() {
        let settings = [
            "affinity unit:nginx.service = 1",
            "rps eth1/rx-0 = 1",
            "irqbalance eth0 = banned",
            "affinity unit:web.service = 2",
            "netdev_budget host = 600",
            "irq_affinity eth0/rx-0 = 1",
            "ksoftirqd_priority cpu:2 = fifo:10",
            "affinity cgroup:/system.slice/web.service = 1",
        ];
        // web.service has two names here.
        let inode = |group: &Target| group.to_string().contains("web").then_some(7);
        let pair = |text: &str| {
            let set: Setting = text.parse().expect("a setting");
            let planned = PlannedSetting::new(set, "", None);
            (planned.clone(), planned)
        };
        let groups: Vec<Vec<String>> = groups(settings.map(pair).to_vec(), inode)
            .iter()
            .map(|group| group.iter().map(|(_, here)| here.set.to_string()).collect())
            .collect();
        assert_eq!(
            groups,
            [
                &["netdev_budget host = 600", "ksoftirqd_priority cpu:2 = fifo:10"][..],
                &["irqbalance eth0 = banned", "irq_affinity eth0/rx-0 = 1"],
                &["rps eth1/rx-0 = 1"],
                &["affinity unit:nginx.service = 1"],
                &["affinity unit:web.service = 2", "affinity cgroup:/system.slice/web.service = 1"],
            ]
        );
    }
}
