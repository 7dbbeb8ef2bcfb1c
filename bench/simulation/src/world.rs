//! A simulated machine on which the real code applies, guards, confirms and undoes, while an adversary moves
//! between any two of its operations. Deterministic: the seed determines the schedule, and the schedule the
//! run.
//!
//! One thread. Commands run nested: each operation of the running command on the kernel or on the disk is
//! counted, and a due move is made inside the operation, before it takes effect. A move changes the machine,
//! runs another command to its end, kills the running one (it unwinds) or stops it while time passes for the
//! others.
//!
//! The kernel has no compare-and-write, so one window is left out: no move comes between the last reading of a value and the
//! write of the same value. A move due there is made right after the write; only a kill is made at once, because it changes
//! nothing on the machine. Names may pass to others at any moment: what is written is held by its directory or its index.
//!
//! The threads of a process are checked together and moved one by one: from the check on no other process gets its
//! number, which takes more than a moment, and a thread that pins itself meanwhile may be moved.
//!
//! A foreign write of a value that the transaction itself knows (one that it found, wrote or read back) looks
//! the same as its own writes, and undo may overwrite it.

mod actors;
mod adversary;
mod answers;
mod contents;
mod disk;
mod host;
mod invariants;
mod kernel;
mod moves;
mod mutations;
mod nodes;
mod processes;
mod said;
mod schedule;
mod shrink;
mod trials;

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rxlab_setting::Plan;

use self::actors::Guard;
pub use self::adversary::generate;
use self::disk::{Files, Place};
use self::kernel::{By, Machine, Writer};
pub use self::mutations::{MUTATIONS, Mutation, breaks};
use self::said::Seen;
pub use self::schedule::Schedule;
use self::schedule::{Area, Counted, Event, Move, Slot, ThreadMove};
pub use self::shrink::shrink;

/// Maximum nesting of commands.
const DEPTH: usize = 3;

/// Boots take a while: the clock never shows 0.
const BEGIN_NS: u64 = 100_000_000_000;

/// Result of one run.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The first violated invariant, with details.
    pub violation: Option<String>,
    /// Moves made, by kind.
    pub moves: BTreeMap<&'static str, u64>,
    /// Ends of commands and of transactions, by kind.
    pub ends: BTreeMap<&'static str, u64>,
    /// Operations, for the rate.
    pub operations: u64,
    /// Log of the run, if requested.
    pub log: Vec<String>,
}

/// The payload of a command that is killed: it unwinds.
pub(crate) struct Killed;

/// Kind of operation for the rule about checks and writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Link {
    Read(Slot),
    Write(Slot),
    /// An operation that touches no value.
    Other,
}

/// A command that runs.
#[derive(Debug)]
struct Running {
    pid: u32,
    /// The operation at which it began.
    began: u32,
    killed: bool,
    /// It is killed inside its next write.
    dies_in_call: bool,
    /// It may overwrite what others have set.
    force: bool,
    /// Its state directory.
    place: Place,
    last: Link,
    /// The operation of its last access to the journal, and whether it has touched a process since.
    recorded_at: u32,
    is_at_process: bool,
}

struct Fault {
    area: Area,
    errno: i32,
    until: u64,
}

pub(crate) struct State {
    pub(crate) machine: Machine,
    pub(crate) disk: Files,
    counts: [u32; 3],
    events: Vec<(Event, bool)>,
    faults: Vec<Fault>,
    /// Nanoseconds that every operation takes, until this operation.
    slow: (u64, u64),
    /// The operation until which the state directory is invisible.
    gone_until: u64,
    stack: Vec<Running>,
    seen: Seen,
    /// The process that takes NAPIs for none (`Mutation::NoNapis`).
    blind: Option<u32>,
    /// What a command wrote last to which file, with a mutation.
    pub(crate) last_text: Option<(u32, String, Vec<u8>)>,
    next_pid: u32,
    pub(crate) guards: Vec<Guard>,
    /// The plan that the restores have persisted.
    pub(crate) persisted: Option<Plan>,
    /// The clock when everything was healthy again.
    healed_at: Option<u64>,
    mutation: Mutation,
    /// Invariants are being checked: nothing is counted.
    is_checking: bool,
    report: Report,
    logs: bool,
}

/// The machine, its disk, its commands and the adversary.
pub(crate) struct World {
    state: Mutex<State>,
}

pub fn run(schedule: &Schedule, mutation: Mutation, logs: bool) -> Report {
    let mut machine = Machine::new();
    for (slot, which) in &schedule.custom {
        machine.write_foreign(*slot, kernel::other(*slot, *which), 0);
    }
    machine.clock = BEGIN_NS;
    let state = State {
        machine,
        disk: Files::default(),
        counts: [0; 3],
        events: schedule.events.iter().map(|event| (event.clone(), false)).collect(),
        faults: Vec::new(),
        slow: (0, 0),
        gone_until: 0,
        stack: Vec::new(),
        seen: Seen::default(),
        blind: None,
        last_text: None,
        next_pid: 500,
        guards: Vec::new(),
        persisted: None,
        healed_at: None,
        mutation,
        is_checking: false,
        report: Report::default(),
        logs,
    };
    let world = Arc::new(World { state: Mutex::new(state) });
    world.play(schedule);
    let mut state = world.state();
    state.report.operations = u64::from(state.counts[0]) + u64::from(state.counts[2]);
    std::mem::take(&mut state.report)
}

impl World {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // Commands are killed by unwinding; none holds this meanwhile.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn play(self: &Arc<Self>, schedule: &Schedule) {
        self.command(&schedule.first, Place::Usual);
        self.guards(Some(Duration::from_secs(40)));
        // Moves for which the commands were too short.
        loop {
            let next = self.state().next_event(false, true);
            let Some(event) = next else { break };
            self.make(&event.act);
            self.guards(Some(Duration::from_secs(10)));
        }
        self.heal();
        self.guards(None);
        self.finish();
    }

    /// Removes all faults; anything gone or damaged stays so.
    fn heal(&self) {
        let mut state = self.state();
        state.faults.clear();
        state.slow = (0, 0);
        state.disk.is_mounted = true;
        state.machine.rename_all();
        (0..4).for_each(|cpu| state.machine.set_online(cpu, true));
        state.healed_at = Some(state.machine.clock);
        state.log(|| "healed".to_owned());
    }

    /// One operation of the running command: due moves come first. True if there were any.
    pub(crate) fn step(self: &Arc<Self>, of: Counted, link: Link) -> bool {
        let is_in_window = {
            let mut state = self.state();
            if state.is_checking || state.stack.is_empty() {
                return false;
            }
            if of == Counted::Journal {
                state.counts[2] += 1;
            }
            state.counts[0] += 1;
            let now = state.counts[0];
            if let Some(top) = state.stack.last_mut() {
                top.is_at_process |= matches!(link, Link::Read(Slot::Thread(..)));
                if of == Counted::Journal {
                    (top.recorded_at, top.is_at_process) = (now, false);
                }
            }
            if u64::from(state.counts[0]) < state.slow.1 {
                state.machine.clock += state.slow.0;
            }
            let last =
                state.stack.last_mut().map_or(Link::Other, |top| std::mem::replace(&mut top.last, link));
            match (last, link) {
                (Link::Read(one), Link::Read(other) | Link::Write(other)) => one == other,
                _ => false,
            }
        };
        self.moves(is_in_window)
    }

    /// A write took effect.
    pub(crate) fn written(self: &Arc<Self>) {
        {
            let mut state = self.state();
            if state.is_checking || state.stack.is_empty() {
                return;
            }
            state.counts[1] += 1;
            if let Some(top) = state.stack.last_mut() {
                top.last = Link::Other;
            }
        }
        self.moves(false);
    }

    fn moves(self: &Arc<Self>, is_in_window: bool) -> bool {
        let mut is_moved = false;
        loop {
            self.unwind_if_killed();
            let next = self.state().next_event(is_in_window, false);
            let Some(event) = next else { return is_moved };
            self.make(&event.act);
            is_moved = true;
        }
    }

    fn unwind_if_killed(&self) {
        let state = self.state();
        let is_killed = state.stack.last().is_some_and(|top| top.killed) || state.report.violation.is_some();
        drop(state);
        if is_killed {
            resume_unwind(Box::new(Killed));
        }
    }

    /// The running command waits.
    pub(crate) fn sleep(self: &Arc<Self>, time: Duration) {
        self.state().machine.clock += nanoseconds(time);
        self.step(Counted::Any, Link::Other);
    }

    fn make(self: &Arc<Self>, act: &Move) {
        {
            let mut state = self.state();
            *state.report.moves.entry(act.kind()).or_default() += 1;
            let at = state.counts;
            state.log(|| format!("{at:?} {act:?}"));
            if act.changes_values() {
                let before = state.values();
                state.make(act);
                state.changed_since(&before, 0);
            } else {
                state.make(act);
            }
        }
        match act {
            Move::Stop(seconds) => self.stop(Duration::from_secs(u64::from(*seconds))),
            Move::Run(actor) if self.state().stack.len() < DEPTH => self.command(actor, Place::Usual),
            Move::RunElsewhere(actor) if self.state().stack.len() < DEPTH => {
                self.command(actor, Place::Elsewhere);
            }
            _ => {}
        }
        self.check();
    }

    /// The running command is stopped while the guards go on.
    fn stop(self: &Arc<Self>, time: Duration) {
        let until = self.state().machine.clock + nanoseconds(time);
        if self.state().stack.len() < DEPTH {
            self.guards(Some(time));
        }
        let mut state = self.state();
        state.machine.clock = state.machine.clock.max(until);
    }

    /// Lets every living guard go on: for so long, or to its end.
    fn guards(self: &Arc<Self>, time: Option<Duration>) {
        let until = time.map(|time| self.state().machine.clock + nanoseconds(time));
        let guards = self.state().guards.len();
        for at in 0..guards {
            let is_due = {
                let state = self.state();
                state.guards[at].stands && state.guards[at].pid.is_none() && state.report.violation.is_none()
            };
            if is_due {
                self.guard(at, until);
            }
        }
    }
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl State {
    /// The next due move. In the window between a check and its write only a kill is due; `at_last`, all are.
    fn next_event(&mut self, is_in_window: bool, at_last: bool) -> Option<Event> {
        if self.report.violation.is_some() {
            return None;
        }
        let counts = self.counts;
        let is_at_process = self.stack.iter().any(|running| running.is_at_process);
        let (event, made) = self.events.iter_mut().find(|(event, made)| {
            let count = match event.of {
                Counted::Any => counts[0],
                Counted::Write => counts[1],
                Counted::Journal => counts[2],
            };
            let is_kept = is_at_process && matches!(event.act, Move::Process(_, ThreadMove::Again));
            let is_due = at_last || count >= event.at;
            !*made && is_due && !is_kept && (!is_in_window || event.act.is_local())
        })?;
        *made = true;
        Some(event.clone())
    }

    /// The running command as the writer of a slot, in which it replaced a value that it takes for its own.
    fn writer(&self, slot: Slot, replaced: Option<u64>) -> Writer {
        let began = self.stack.last().map_or(0, |top| top.began);
        let existing = slot.device().map_or_else(Vec::new, |device| self.machine.device(device).existing());
        Writer::Rxlab { began, existing, replaced }
    }

    /// True if the running command is killed inside its next write.
    pub(crate) fn dies_in_call(&self) -> bool {
        self.stack.last().is_some_and(|top| top.dies_in_call)
    }

    /// The fault that prevents an operation.
    pub(crate) fn fault(&mut self, hits: impl Fn(Area) -> bool) -> Option<i32> {
        if self.is_checking {
            return None;
        }
        let now = u64::from(self.counts[0]);
        self.faults.retain(|fault| fault.until > now);
        self.faults.iter().find(|fault| hits(fault.area)).map(|fault| fault.errno)
    }

    /// True if a device is its name, and only one namespace is known.
    pub(crate) fn knows_names_only(&self) -> bool {
        self.has(Mutation::NamesOnly)
    }

    pub(crate) fn has(&self, mutation: Mutation) -> bool {
        self.mutation == mutation
    }

    pub(crate) fn fails_with_the_damaged(&self) -> bool {
        self.has(Mutation::DamageSpreads) && self.disk.open.values().any(|file| file.damaged)
    }

    pub(crate) fn running(&self) -> Option<u32> {
        self.stack.last().map(|running| running.pid)
    }

    pub(crate) fn runs(&self, pid: u32) -> bool {
        self.stack.iter().any(|running| running.pid == pid && !running.killed)
    }

    /// The running command writes a number to a slot; `false` if the kernel refuses it.
    pub(crate) fn write(&mut self, slot: Slot, value: u64) -> bool {
        let (Some(found), Some(kept)) = (self.machine.value(slot), self.machine.kept(slot, value)) else {
            self.machine.refused(slot);
            return false;
        };
        let (was, by) = (found.now, found.by);
        let is_moved_with_others =
            |top: &Running| matches!(slot, Slot::Thread(..)) && found.set_at >= top.recorded_at;
        let mut expected = self.stack.last().is_some_and(|top| top.force || is_moved_with_others(top));
        if by == By::Foreign && !expected {
            match self.covers(slot, was, value) {
                invariants::Cover::First => {}
                invariants::Cover::Ambiguous => expected = true,
                // A write that changes nothing cannot be seen.
                invariants::Cover::None if was == kept => {}
                invariants::Cover::None => {
                    self.violate(format!("2: {slot:?} was {was:#x} by another program and was overwritten"));
                }
            }
        }
        let at = self.counts;
        self.log(|| format!("{at:?} rxlab writes {slot:?} = {value:#x}, was {was:#x} by {by:?}"));
        // The kernel makes the thread of a single NAPI before it changes anything else (`napi_set_threaded`).
        let is_cut = self.dies_in_call() && matches!(slot, Slot::QueueThreaded(..)) && kept == 1;
        if is_cut {
            return true;
        }
        let replaced = (by == By::Rxlab || expected).then_some(was);
        let (before, pid, writer) = (self.values(), self.running().unwrap_or(0), self.writer(slot, replaced));
        if let Some(found) = self.machine.value_mut(slot) {
            found.ours(kept, expected);
        }
        self.machine.follow(slot, was, &writer);
        self.changed_since(&before, pid);
        self.note_write(slot);
        true
    }

    pub(crate) fn violate(&mut self, what: String) {
        self.log(|| format!("VIOLATION {what}"));
        self.report.violation.get_or_insert(what);
    }

    pub(crate) fn end(&mut self, kind: &'static str) {
        *self.report.ends.entry(kind).or_default() += 1;
        self.log(|| format!("end: {kind}"));
    }

    pub(crate) fn log(&mut self, line: impl FnOnce() -> String) {
        if self.logs {
            let line = line();
            self.report.log.push(line);
        }
    }
}
