//! The commands, as in `src/commands`, on the simulated machine.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use rxlab_change::apply::{
    self, BeginInfo, Failure, Reapply, Transaction, UndoOptions, Watchpost, Which, hold_deadline, reach,
};
use rxlab_change::journal::{History, Store, UndoOutcome};
use rxlab_change::persist::{Checked, Refusal, Restorer, lasting};
use rxlab_path::model::{Identity, Model};
use rxlab_path::sample::{Inventory, Scope};
use rxlab_setting::{Plan, PlannedSetting, Setting, tunable};
use rxlab_sys::{Host, Namespace, OpenError, ProcessId};

use super::disk::{Place, SimDisk};
use super::host::SimHost;
use super::schedule::{Actor, Home, QueueValue, Set};
use super::trials::trial;
use super::{Killed, Link, Mutation, Running, State, World, kernel, nanoseconds};

/// The root of the machine, as named in journals.
pub(crate) const ROOT: &str = "/";

/// An unconfirmed change must be back within this time after the deadline, or after everything works again: 5
/// s in which another process may keep the lock, the longest pause of 5 s, and 2 s for the attempts.
const IN_TIME: Duration = Duration::from_secs(5 + 5 + 2);

pub(crate) struct Guard {
    id: String,
    history: History,
    place: Place,
    /// Neither killed nor ended.
    pub(crate) stands: bool,
    /// The process while it runs.
    pub(crate) pid: Option<u32>,
}

/// The payload of a guard that is suspended for now.
struct Suspended;

/// The payload of a guard that ends because a defect was reintroduced.
struct GaveUp;

/// Result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    /// It reported that something was refused or is left.
    Failed,
}

impl Ended {
    pub(super) fn new(is_done: bool) -> Self {
        if is_done { Ended::Done } else { Ended::Failed }
    }
}

impl World {
    /// Runs a command until it ends or is killed.
    pub(crate) fn command(self: &Arc<Self>, actor: &Actor, place: Place) {
        let force = matches!(actor, Actor::Undo { force: true, .. } | Actor::Reapply | Actor::Restore { .. });
        let ended = self.process(force, place, |world| match actor {
            Actor::Apply { set, confirm, netns } => apply(world, set, *confirm, *netns),
            Actor::Undo { only, force } => undo(world, *only, *force),
            Actor::Confirm => confirm(world),
            Actor::Status => status(world),
            Actor::Reapply => reapply(world),
            Actor::Restore { set } => restore(world, set),
            Actor::Trial { set, keep } => trial(world, set, *keep),
        });
        let kind = match (actor, ended) {
            (Actor::Apply { .. }, Some(Ended::Done)) => "apply: applied",
            (Actor::Apply { .. }, Some(Ended::Failed)) => "apply: refused or put back",
            (Actor::Apply { .. }, None) => "apply: killed",
            (Actor::Undo { .. }, Some(Ended::Done)) => "undo: done",
            (Actor::Undo { .. }, Some(Ended::Failed)) => "undo: something is left",
            (Actor::Undo { .. }, None) => "undo: killed",
            (Actor::Confirm, Some(Ended::Done)) => "confirm: confirmed",
            (Actor::Confirm, _) => "confirm: refused",
            (Actor::Status, _) => "status: shown",
            (Actor::Reapply, _) => "reapply: ended",
            (Actor::Restore { .. }, _) => "restore: ended",
            (Actor::Trial { .. }, Some(Ended::Done)) => "trial: ended",
            (Actor::Trial { .. }, Some(Ended::Failed)) => "trial: failed",
            (Actor::Trial { .. }, None) => "trial: killed",
        };
        self.state().end(kind);
        self.check();
    }

    /// Lets a guard wait for its deadline until `until`, or to its end.
    pub(crate) fn guard(self: &Arc<Self>, at: usize, until: Option<u64>) {
        let (id, history, place) = {
            let state = self.state();
            let guard = &state.guards[at];
            (guard.id.clone(), guard.history.clone(), guard.place)
        };
        let (mut pid, began) = (None, self.state().tick());
        let ended = catch_unwind(AssertUnwindSafe(|| {
            self.process(false, place, |world| {
                pid = world.state().running();
                world.state().guards[at].pid = pid;
                let post =
                    Post { world: Arc::clone(world), id: id.clone(), until, sleeps: AtomicU32::new(0) };
                hold_deadline(&Store::new(SimDisk::new(world, place)), &id, &history, &post);
                Ended::Done
            })
        }));
        self.state().guards[at].pid = None;
        let (kind, stands, by_itself) = match ended {
            Ok(Some(_)) => ("guard: ended", false, true),
            Ok(None) => ("guard: killed", false, false),
            Err(payload) if payload.is::<GaveUp>() => ("guard: gave up", false, true),
            Err(payload) if payload.is::<Suspended>() => ("guard: goes on later", true, false),
            Err(payload) => resume_unwind(payload),
        };
        self.state().guards[at].stands &= stands;
        if by_itself {
            self.check_guard(&id);
            self.check_notice(&id, (pid.unwrap_or(0), began));
        }
        self.state().end(kind);
        self.check();
    }

    /// Runs `body` as a separate process; `None` when it is killed.
    fn process(
        self: &Arc<Self>,
        force: bool,
        place: Place,
        body: impl FnOnce(&Arc<World>) -> Ended,
    ) -> Option<Ended> {
        let pid = {
            let mut state = self.state();
            state.next_pid += 1;
            let (pid, began) = (state.next_pid, state.counts[0]);
            state.stack.push(Running {
                pid,
                began,
                killed: false,
                dies_in_call: false,
                force,
                place,
                last: Link::Other,
                recorded_at: 0,
                is_at_process: false,
            });
            pid
        };
        let ended = catch_unwind(AssertUnwindSafe(|| body(self)));
        {
            let mut state = self.state();
            state.stack.retain(|running| running.pid != pid);
            if state.disk.holder == Some(pid) {
                state.disk.holder = None;
            }
        }
        match ended {
            Ok(ended) => Some(ended),
            Err(payload) if payload.is::<Killed>() => None,
            Err(payload) if payload.is::<Suspended>() || payload.is::<GaveUp>() => resume_unwind(payload),
            Err(payload) => {
                self.state().violate(format!("a command panicked: {}", said(&*payload)));
                None
            }
        }
    }
}

fn said(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("?")
}

/// The machine of a command, and its journals.
pub(super) fn machine(world: &Arc<World>) -> (SimHost, Store) {
    (SimHost::own(world), Store::new(SimDisk::new(world, place(world))))
}

/// The state directory of the running command.
fn place(world: &Arc<World>) -> Place {
    world.state().stack.last().map_or(Place::Usual, |top| top.place)
}

pub(super) fn look(host: &dyn Host) -> Model {
    Model::new(&Inventory::take(host, Scope::Path))
}

/// The settings that a user means: by current names, of the devices in the namespace.
pub(super) fn settings(state: &State, set: &[Set], cookie: u64) -> Vec<Setting> {
    let text = |(slot, which): &Set| {
        let value = kernel::text(*slot, kernel::ours(*slot, *which));
        let target = match slot.home() {
            Home::Host => "host".to_owned(),
            Home::Cpu(cpu) => format!("cpu:{cpu}"),
            Home::Nic(device, _) => name(state, device, cookie)?,
            Home::Queue(device, queue, QueueValue::Xps) => {
                format!("{}/tx-{queue}", name(state, device, cookie)?)
            }
            Home::Queue(device, queue, _) => format!("{}/rx-{queue}", name(state, device, cookie)?),
            Home::Group(group) => {
                let groups = &state.machine.groups;
                let name = &groups[usize::from(group) % groups.len()].name;
                if *which == 0 { format!("cgroup:/{name}") } else { format!("unit:{name}") }
            }
            Home::Thread(process, _) => format!("pid:{}", state.machine.process_of(process).pid),
        };
        format!("{} {target} = {value}", kernel::knob(*slot)).parse().ok()
    };
    set.iter().filter_map(text).collect()
}

fn name(state: &State, device: u8, cookie: u64) -> Option<String> {
    let device = state.machine.devices.get(usize::from(device))?;
    (device.netns == cookie).then(|| device.name.clone())
}

fn netns(world: &Arc<World>, at: u8) -> Namespace {
    let state = world.state();
    let found = &state.machine.namespaces[usize::from(at) % state.machine.namespaces.len()];
    Namespace { path: found.path.into(), inode: found.inode, cookie: Some(found.cookie) }
}

/// The common beginning of `rxlab apply` and `rxlab trial`.
pub(super) fn begin(
    world: &Arc<World>,
    store: &Store,
    identity: &Identity,
    (netns, home): (Option<Namespace>, Option<Namespace>),
    confirm: Option<Duration>,
) -> Option<Transaction> {
    let (now, applier) = {
        let state = world.state();
        let pid = state.running()?;
        (state.machine.clock, ProcessId { pid, start: u64::from(state.machine.boot), numbering: None })
    };
    let info = BeginInfo {
        root: Path::new(ROOT),
        netns,
        home,
        applier: Some(applier),
        confirm,
        ..BeginInfo::new(identity)
    };
    let transaction = Transaction::begin_at(store, info, now).ok()?;
    // The guard reads the journal before it reports that it is ready.
    if confirm.is_some() {
        match store.load(transaction.id()) {
            Ok(Some(history)) => {
                let id = transaction.id().to_owned();
                let place = place(world);
                world.state().guards.push(Guard { id, history, place, stands: true, pid: None });
            }
            _ => {
                let _ = transaction.keep();
                return None;
            }
        }
    }
    Some(transaction)
}

/// The running process, and the moment at which what it says begins.
pub(super) fn me(world: &Arc<World>) -> (u32, u64) {
    let state = world.state();
    (state.running().unwrap_or(0), state.tick())
}

fn apply(world: &Arc<World>, set: &[Set], confirm: u8, at: u8) -> Ended {
    let (own, store) = machine(world);
    let namespace = netns(world, at);
    let entered = match at {
        0 => None,
        _ => match own.seen_from(&namespace, own.namespace()) {
            Ok(host) => Some(host),
            Err(_) => return Ended::Failed,
        },
    };
    let host: &dyn Host = entered.as_deref().unwrap_or(&own);
    let model = look(host);
    let settings = settings(&world.state(), set, namespace.cookie.unwrap_or(0));
    let plan = Plan::new("world", &settings);
    if settings.is_empty() || apply::check(host, &model, &plan).is_err() {
        return Ended::Failed;
    }
    let confirm = (confirm > 0).then(|| Duration::from_secs(u64::from(confirm)));
    let namespaces = (entered.as_ref().and_then(|host| host.namespace().cloned()), own.namespace().cloned());
    let Some(transaction) = begin(world, &store, &model.identity, namespaces, confirm) else {
        return Ended::Failed;
    };
    // As in `look_again`: the machine under the lock.
    let model = look(host);
    let Ok(settings) = apply::check(host, &model, &plan) else {
        let _ = transaction.keep();
        return Ended::Failed;
    };
    let (id, who) = (transaction.id().to_owned(), me(world));
    match transaction.apply(host, &model, &settings, &AtomicBool::new(false)) {
        Ok(kept) => {
            world.state().check_kept(&id, who, &kept);
            Ended::Done
        }
        Err(failure) => {
            let Failure { error, undo } = *failure;
            let mut state = world.state();
            state.log(|| format!("apply: {error}"));
            state.check_outcomes(&id, who, &undo.outcomes);
            Ended::Failed
        }
    }
}

fn undo(world: &Arc<World>, only: Option<u8>, force: bool) -> Ended {
    let (own, store) = machine(world);
    let place = place(world);
    let before = world.state().disk.ids(place);
    let began = world.state().counts[0];
    let identity = Identity::take(&own);
    let id = only.and_then(|at| before.get(usize::from(at)).cloned());
    let which = id.as_deref().map_or(Which::All, Which::Id);
    let who = me(world);
    let ended = match apply::undo(&store, &own, (ROOT, &identity), which, UndoOptions { force }) {
        Ok(done) => {
            let is_done = done.done.error.is_none()
                && done.done.waiting.is_empty()
                && (id.is_some() || done.unreadable.is_empty())
                && done.done.undone.iter().all(apply::Undo::is_clean);
            let mut state = world.state();
            let is_done = is_done || state.has(Mutation::AllIsBack);
            for (at, undo) in done.done.undone.iter().enumerate() {
                // Of an older transaction with the same value, or with that of all queues, it says more, later.
                let older = || done.done.undone[at + 1..].iter().flat_map(|older| &older.outcomes);
                let is_last = |one: &&UndoOutcome| {
                    let same = |other: &UndoOutcome| (&other.knob, &other.target) == (&one.knob, &one.target);
                    let replaces = |other: &UndoOutcome| {
                        tunable(&other.knob).is_some_and(|row| row.replaces.contains(&one.knob.as_str()))
                            && other.target.nic() == one.target.nic()
                    };
                    !older().any(|other| same(other) || replaces(other))
                };
                let last: Vec<_> = undo.outcomes.iter().filter(is_last).cloned().collect();
                state.check_outcomes(&undo.id, who, &last);
                if is_done {
                    state.check_success(&undo.id, &undo.outcomes);
                }
            }
            Ended::new(is_done)
        }
        Err(_) => Ended::Failed,
    };
    // Those that it had to put back, and that existed all the time.
    let asked = id.map_or(before, |id| vec![id]);
    world.check_undone(&asked, began, ended);
    ended
}

fn confirm(world: &Arc<World>) -> Ended {
    let (own, store) = machine(world);
    let identity = Identity::take(&own);
    let confirmed = apply::confirm(&store, (ROOT, &identity), None);
    if let Ok(id) = &confirmed {
        let mut state = world.state();
        let history = state.disk.open.get(id).and_then(|file| History::parse(&file.bytes).ok());
        if history.is_some_and(|history| history.pending_deadline().is_some()) {
            state.violate(format!("7: confirm said that {id} is kept, and it waits"));
        }
    }
    Ended::new(confirmed.is_ok())
}

/// Passes each open transaction with its machine to `act`.
fn each_open(
    world: &Arc<World>,
    mut act: impl FnMut(&Store, &str, &History, &[(String, History)], &dyn Host, &Model),
) -> Ended {
    let (own, store) = machine(world);
    let boot = Identity::take(&own).boot_id;
    let Ok(open) = store.open(ROOT, &boot) else { return Ended::Failed };
    for (at, (id, history)) in open.transactions.iter().enumerate() {
        let Some(begin) = history.begin() else { continue };
        let Ok(reached) = reach(&own, begin) else { return Ended::Failed };
        let host = reached.as_deref().unwrap_or(&own);
        act(&store, id, history, &open.transactions[at + 1..], host, &look(host));
    }
    Ended::Done
}

fn status(world: &Arc<World>) -> Ended {
    each_open(world, |_, _, history, newer, host, model| {
        let who = me(world);
        if let Some(status) = apply::status(history, newer, host, model) {
            world.state().check_status(who, &status);
        }
    })
}

fn reapply(world: &Arc<World>) -> Ended {
    let (own, store) = machine(world);
    let boot = Identity::take(&own).boot_id;
    let Ok(open) = store.open(ROOT, &boot) else { return Ended::Failed };
    // As in the command: not while a change waits for its confirmation.
    if open.transactions.iter().any(|(_, history)| history.pending_deadline().is_some()) {
        return Ended::Failed;
    }
    let mut ended = Ended::Done;
    for (id, _) in &open.transactions {
        let Ok(mut transaction) = Transaction::resume(&store, id, Duration::ZERO) else {
            return Ended::Failed;
        };
        let Ok(open) = store.open(ROOT, &boot) else { return Ended::Failed };
        let Some(at) = open.transactions.iter().position(|(other, _)| other == id) else {
            return Ended::Failed;
        };
        let Some(begin) = open.transactions[at].1.begin() else { continue };
        let Ok(reached) = reach(&own, begin) else { return Ended::Failed };
        let host = reached.as_deref().unwrap_or(&own);
        let who = me(world);
        let done = transaction.reapply(&open.transactions[at + 1..], host, &look(host));
        world.state().check_reapplied(id, who, done.as_deref().unwrap_or_default());
        if done.is_none_or(|all| all.iter().any(|one| matches!(&one.outcome, Reapply::Failed { .. }))) {
            ended = Ended::Failed;
        }
    }
    ended
}

fn restore(world: &Arc<World>, set: &[Set]) -> Ended {
    let (own, store) = machine(world);
    let model = look(&own);
    let cookie = own.namespace().and_then(|own| own.cookie).unwrap_or(0);
    let plan = {
        let mut state = world.state();
        let settings = settings(&state, set, cookie);
        let plan = lasting(&Plan::new("world", &settings), &model, |_| None);
        let persisted = state.persisted.get_or_insert_with(|| Plan::new("world", &[]));
        for planned in plan.settings {
            let is_same = |other: &PlannedSetting| {
                (&other.set.knob, &other.set.target, &other.device)
                    == (&planned.set.knob, &planned.set.target, &planned.device)
            };
            if !persisted.settings.iter().any(is_same) {
                persisted.settings.push(planned);
            }
        }
        persisted.clone()
    };
    let who = me(world);
    // As in the command: the machine under the lock.
    let again = |transaction: Transaction, part: &Plan| -> Result<Checked, ()> {
        let host: Box<dyn Host> = Box::new(SimHost::own(world));
        let model = look(&*host);
        match apply::check(&*host, &model, part) {
            Ok(settings) => Ok((transaction, host, model, settings)),
            Err(_) => {
                let _ = transaction.keep();
                Err(())
            }
        }
    };
    let (root, stop) = (Path::new(ROOT), AtomicBool::new(false));
    let restorer = Restorer {
        host: &own,
        own: &own,
        model: &model,
        root,
        netns: None,
        store: &store,
        again: &again,
        stop: &stop,
    };
    let round = restorer.round(&plan, None);
    let mut state = world.state();
    for made in &round.made {
        state.check_kept(&made.id, who, &made.kept);
    }
    for refusal in &round.refused {
        if let Refusal::RolledBack(failure) = refusal {
            let undo = &failure.undo;
            // A name may have passed to the same interface, which has its value since.
            let is_set_since = |one: &UndoOutcome| {
                let later = round.made.iter().filter(|made| made.id > undo.id);
                later
                    .flat_map(|made| &made.kept)
                    .any(|kept| (&kept.setting.knob, &kept.setting.target) == (&one.knob, &one.target))
            };
            let left: Vec<UndoOutcome> =
                undo.outcomes.iter().filter(|one| !is_set_since(one)).cloned().collect();
            state.check_outcomes(&undo.id, who, &left);
        }
    }
    Ended::new(round.refused.is_empty() && round.waiting.is_empty())
}

/// A guard's view of the world.
struct Post {
    world: Arc<World>,
    id: String,
    until: Option<u64>,
    sleeps: AtomicU32,
}

impl Watchpost for Post {
    fn now(&self) -> u64 {
        self.world.state().machine.clock
    }

    fn sleep(&self, pause: Duration) {
        self.world.sleep(pause);
        let state = self.world.state();
        let (now, mutation, healed) = (state.machine.clock, state.mutation, state.healed_at);
        let file = state.disk.open.get(&self.id);
        let deadline =
            file.and_then(|file| History::parse(&file.bytes).ok()?.pending_deadline()).unwrap_or(0);
        let is_gone = state.faults.iter().any(|fault| fault.area == super::Area::DiskGone);
        drop(state);
        if now > deadline {
            let sleeps = self.sleeps.fetch_add(1, Ordering::Relaxed);
            if mutation == Mutation::FiveAttempts && sleeps >= 5 {
                resume_unwind(Box::new(GaveUp));
            }
        }
        if mutation == Mutation::BlindGuard && is_gone {
            resume_unwind(Box::new(GaveUp));
        }
        if self.until.is_some_and(|until| now >= until) {
            resume_unwind(Box::new(Suspended));
        }
        let due = healed.map(|healed| healed.max(deadline) + nanoseconds(IN_TIME));
        if due.is_some_and(|due| now > due) {
            self.world.check_overdue(&self.id);
            resume_unwind(Box::new(Suspended));
        }
    }

    fn is_told_to_end(&self) -> bool {
        false
    }

    fn is_alive(&self, process: ProcessId) -> bool {
        let state = self.world.state();
        process.start == u64::from(state.machine.boot) && state.runs(process.pid)
    }

    fn kill_holder(&self, _: &Path, holder: ProcessId) {
        let mut state = self.world.state();
        if state.disk.holder == Some(holder.pid) {
            state.kill(holder.pid);
        }
    }

    fn open(&self) -> Result<Box<dyn Host>, OpenError> {
        Ok(Box::new(SimHost::own(&self.world)))
    }
}
