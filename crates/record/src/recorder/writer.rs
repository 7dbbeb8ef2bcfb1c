//! Samples a machine and appends the changes to the ring.

use std::io;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use rustix::process::setpriority_process;

use super::observer::Seen;
use super::segment::{self, Head, SegmentError, begin, packed, tick_record};
use super::state::State;
use super::storage::Storage;
use super::tick::{Keys, Tick};
use rxlab_base::atomic::if_there;
use rxlab_base::units::Fact;
use rxlab_path::sample::{Counters, Inventory, Scope, busiest, losing_sockets};
use rxlab_sys::{Host, RecordingHost};

pub(super) const LOG: &str = ".log";
/// Suffix of a packed segment.
pub(super) const PACKED: &str = ".packed";

/// Ticks of a segment: the more, the smaller the share of its first tick, which holds everything, and the longer it
/// takes to reach the last one.
const TICKS: usize = 600;
/// Largest log: on a large machine a segment has fewer ticks.
const LOG_SIZE: u64 = 8 << 20;
/// Time between two full samples, in milliseconds. Settings change rarely, and reading them and the CPU time of all
/// programs takes longer than reading the counters.
pub(super) const FULL_MS: i64 = 10_000;
/// Memory that the ticks of a log may take, in bytes: a reader takes four times as much, and refuses more.
const UNPACKED: u64 = segment::MEMORY / 4;
/// The file whose space is set aside for a full disk.
pub(super) const RESERVE: &str = "reserve";
/// The part of the ring that is set aside.
const RESERVED_PART: u64 = 16;
/// Nice value of the thread that packs: it must not take CPU time from what is recorded.
const NICE: i32 = 19;

/// Options of a recorder.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Time between two ticks.
    pub every: Duration,
    /// Most bytes on disk, with the space that is set aside. When a log is packed both are there, for a moment.
    pub size: u64,
}

impl Limits {
    /// Smallest ring: a segment of a machine with 8 CPUs and its log.
    pub const SMALLEST: u64 = 2 << 20;
}

/// Records into a ring. Logs are packed in a thread of their own, one at a time: samples do not wait for that.
#[derive(Debug)]
pub struct Recorder<S> {
    storage: S,
    limits: Limits,
    log: Option<Log>,
    /// All other files of the ring, oldest first.
    older: Vec<Older>,
    pub(super) packing: Option<Packing>,
    unreadable: Vec<(String, SegmentError)>,
    /// True while space is set aside for a full disk.
    has_reserve: bool,
    /// Bytes that were freed on a full disk and not written since.
    freed: u64,
    /// True if the log has no more room on a full disk: packed, it takes a third of it.
    is_cramped: bool,
}

/// A file of the ring that does not grow.
#[derive(Debug)]
struct Older {
    name: String,
    bytes: u64,
    /// True for a log that could not be packed: it stays as it is.
    stays: bool,
}

/// A log that is being packed.
#[derive(Debug)]
pub(super) struct Packing {
    name: String,
    /// Returns the packed segment; `None` if the log has no tick.
    thread: JoinHandle<Result<Option<Vec<u8>>, SegmentError>>,
}

/// The segment that grows.
#[derive(Debug)]
struct Log {
    name: String,
    head: Head,
    length: u64,
    keys: Keys,
    state: State,
    ticks: usize,
    last_ms: i64,
    /// Bytes that its ticks take in memory.
    unpacked: u64,
    inventory: Inventory,
    /// Time and counters of the latest full sample.
    full: (i64, Counters),
}

/// One sample of a machine before it is written.
struct Taken {
    tick: Tick,
    /// Of a full sample.
    inventory: Option<Inventory>,
    counters: Counters,
}

impl<S: Storage> Recorder<S> {
    /// Begins a recording. Logs that a killed recorder left behind are packed from the first tick on.
    pub fn begin(mut storage: S, limits: Limits) -> io::Result<Self> {
        let files = storage.list()?;
        let mut older = Vec::new();
        for (name, bytes) in &files {
            let packed_name = name.replace(LOG, PACKED);
            if name.ends_with(LOG) && files.iter().any(|(other, _)| *other == packed_name) {
                // It was packed, and not yet removed.
                storage.remove(name)?;
            } else if name.ends_with(LOG) || name.ends_with(PACKED) {
                older.push(Older { name: name.clone(), bytes: *bytes, stays: false });
            }
        }
        let mut recorder = Self {
            storage,
            limits,
            log: None,
            older,
            packing: None,
            unreadable: Vec::new(),
            has_reserve: false,
            freed: 0,
            is_cramped: false,
        };
        recorder.make_room(0)?;
        recorder.set_aside();
        Ok(recorder)
    }

    /// Takes a sample of `host`, at this time of day in milliseconds since 1970, and writes it. After an error the
    /// recording continues with the next tick; the sample is lost.
    pub fn tick(&mut self, host: &dyn Host, at_ms: i64) -> io::Result<()> {
        let (size, is_cramped) = (self.limits.size, self.is_cramped);
        let is_done = |log: &Log| {
            let is_large = log.length >= LOG_SIZE.min(size / 4) || log.unpacked >= UNPACKED;
            log.ticks >= TICKS || is_large || (is_cramped && log.ticks > 1) || at_ms <= log.last_ms
        };
        if self.log.as_ref().is_some_and(is_done) {
            self.close();
        }
        let written = match self.log.take() {
            Some(mut log) => {
                let written = self.append(host, at_ms, &mut log);
                self.log = Some(log);
                written
            }
            // Its packed form makes room for the next log.
            None if is_cramped && self.next_log().is_some() => Err(io::ErrorKind::StorageFull.into()),
            None => self.open(host, at_ms),
        };
        let packed = self.pack(false);
        written.and(packed)
    }

    /// Files of an earlier recorder that were left as they are, with the reason, since the last call.
    pub fn take_unreadable(&mut self) -> Vec<(String, SegmentError)> {
        std::mem::take(&mut self.unreadable)
    }

    /// Packs what was recorded, and waits for that. Without it, the next recorder packs it.
    pub fn finish(mut self) -> io::Result<()> {
        self.close();
        self.pack(true)
    }

    /// Starts a segment with everything there is to read.
    fn open(&mut self, host: &dyn Host, at_ms: i64) -> io::Result<()> {
        let state = State::default();
        // After the clock was set back the name may be taken.
        let mut number = at_ms;
        while self.older.iter().any(|older| older.name.starts_with(&format!("{number:013}."))) {
            number += 1;
        }
        self.set_aside();
        let taken = take(host, at_ms, &state, None);
        let head = Head::new(u64::try_from(self.limits.every.as_millis()).unwrap_or(u64::MAX));
        let mut log = Log {
            name: format!("{number:013}{LOG}"),
            head,
            length: 0,
            keys: Keys::default(),
            state,
            ticks: 0,
            last_ms: at_ms,
            unpacked: 0,
            inventory: taken.inventory.expect("the first sample is full"),
            full: (at_ms, taken.counters),
        };
        let bytes = [begin(&log.head), tick_record(&taken.tick, &log.keys)?].concat();
        if let Err(error) = self.write(&mut log, &bytes) {
            // Without its first tick it is of no use.
            let _ = self.storage.remove(&log.name);
            return Err(error);
        }
        log.accept(&taken.tick);
        self.log = Some(log);
        self.is_cramped = false;
        Ok(())
    }

    fn append(&mut self, host: &dyn Host, at_ms: i64, log: &mut Log) -> io::Result<()> {
        let taken = take(host, at_ms, &log.state, Some(log));
        let bytes = tick_record(&taken.tick, &log.keys)?;
        self.write(log, &bytes)?;
        if let Some(inventory) = taken.inventory {
            log.inventory = inventory;
            log.full = (at_ms, taken.counters);
        }
        log.accept(&taken.tick);
        Ok(())
    }

    /// Appends bytes to a log, or leaves it as it was.
    fn write(&mut self, log: &mut Log, bytes: &[u8]) -> io::Result<()> {
        self.make_room(log.length + bytes.len() as u64)?;
        loop {
            let Err(error) = self.storage.append(&log.name, bytes) else {
                log.length += bytes.len() as u64;
                self.freed = self.freed.saturating_sub(bytes.len() as u64);
                return Ok(());
            };
            // A log that cannot be cut ends with a torn record, after which nothing would be read.
            if self.storage.truncate(&log.name, log.length).is_err() {
                log.length = u64::MAX;
            }
            if !is_full(&error) || log.length == u64::MAX || !self.give_way(bytes.len() as u64, log.length)? {
                return Err(error);
            }
        }
    }

    /// Frees space for so many bytes on a full disk: what was set aside, then the oldest segment. False if there is
    /// nothing to free, or if others took what was freed before: they would take the whole recording.
    fn give_way(&mut self, needed: u64, log: u64) -> io::Result<bool> {
        if self.freed >= needed {
            return Ok(false);
        }
        if self.has_reserve {
            if_there(self.storage.remove(RESERVE))?;
            self.has_reserve = false;
            self.freed += self.reserve();
            return Ok(true);
        }
        // A log takes three times as much as its packed form: it must not replace all of them, nor the only one.
        if self.older.len() < 2 || self.older.iter().map(|older| older.bytes).sum::<u64>() <= log {
            self.is_cramped = true;
            return Ok(false);
        }
        self.freed += self.older.first().map_or(0, |oldest| oldest.bytes);
        self.drop_oldest()
    }

    /// Bytes to set aside.
    fn reserve(&self) -> u64 {
        (self.limits.size / RESERVED_PART).min(LOG_SIZE / 2)
    }

    /// Sets space aside, if there is some.
    fn set_aside(&mut self) {
        // Not every file system can; then the oldest segment gives way on a full disk.
        self.has_reserve = self.has_reserve || self.storage.set_aside(RESERVE, self.reserve()).is_ok();
    }

    /// Removes the oldest segments until `more` bytes fit.
    fn make_room(&mut self, more: u64) -> io::Result<()> {
        let more = more.saturating_add(self.reserve());
        while self.older.iter().map(|older| older.bytes).sum::<u64>().saturating_add(more) > self.limits.size
        {
            if !self.drop_oldest()? {
                break;
            }
        }
        Ok(())
    }

    /// Removes the oldest segment; false if there is none.
    fn drop_oldest(&mut self) -> io::Result<bool> {
        if self.older.is_empty() {
            return Ok(false);
        }
        let oldest = self.older.remove(0);
        if_there(self.storage.remove(&oldest.name))?;
        Ok(true)
    }

    /// Ends the log, if there is one: it is to be packed.
    fn close(&mut self) {
        if let Some(log) = self.log.take() {
            self.older.push(Older { name: log.name, bytes: log.length, stays: false });
        }
    }

    /// Puts the packed form of a log in its place, and goes on with the next one. Waits for all of them if `waits`.
    /// A log that cannot be packed stays, and is read as such.
    pub(super) fn pack(&mut self, waits: bool) -> io::Result<()> {
        loop {
            if let Some(packing) = self.packing.take_if(|packing| waits || packing.thread.is_finished()) {
                self.put_in_place(packing)?;
            }
            if self.packing.is_none() {
                let Some(name) = self.next_log() else { return Ok(()) };
                self.start_packing(name)?;
            }
            if !waits {
                return Ok(());
            }
        }
    }

    /// The name of the next log to pack.
    fn next_log(&self) -> Option<String> {
        let next = self.older.iter().find(|older| older.name.ends_with(LOG) && !older.stays);
        next.map(|older| older.name.clone())
    }

    fn start_packing(&mut self, name: String) -> io::Result<()> {
        let bytes = match self.storage.read(&name, segment::FILE) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.leave(&name);
                return Err(error);
            }
        };
        let pack = move || {
            // Of this thread alone; without it packing takes more of the machine.
            let _ = setpriority_process(None, NICE);
            let Some(contents) = segment::read(&bytes)? else { return Ok(None) };
            drop(bytes);
            Ok(Some(packed(&contents.head, &contents.ticks)?))
        };
        // Without a thread at the moment it is tried again at the next tick.
        let thread = Builder::new().name("pack".to_owned()).spawn(pack)?;
        self.packing = Some(Packing { name, thread });
        Ok(())
    }

    fn put_in_place(&mut self, Packing { name, thread }: Packing) -> io::Result<()> {
        let packed = thread.join().unwrap_or_else(|_| Err(io::Error::other("packing panicked").into()));
        match packed {
            Ok(Some(bytes)) => {
                let packed_name = name.replace(LOG, PACKED);
                loop {
                    // It may have made room meanwhile.
                    let Some(at) = self.position(&name) else { return Ok(()) };
                    match self.storage.replace(&packed_name, &bytes) {
                        Ok(()) => {
                            self.older[at] =
                                Older { name: packed_name, bytes: bytes.len() as u64, stays: false };
                            return self.storage.remove(&name);
                        }
                        Err(error) if is_full(&error) => {
                            if !self.give_way(bytes.len() as u64, 0)? {
                                self.leave(&name);
                                return Ok(());
                            }
                        }
                        Err(error) => {
                            self.leave(&name);
                            return Err(error);
                        }
                    }
                }
            }
            Ok(None) => {
                let Some(at) = self.position(&name) else { return Ok(()) };
                self.older.remove(at);
                self.storage.remove(&name)
            }
            Err(error) => {
                self.leave(&name);
                self.unreadable.push((name, error));
                Ok(())
            }
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.older.iter().position(|older| older.name == name)
    }

    /// Leaves a log as it is.
    fn leave(&mut self, name: &str) {
        self.older.iter_mut().filter(|older| older.name == name).for_each(|older| older.stays = true);
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl Log {
    /// Remembers a tick that is on disk.
    fn accept(&mut self, tick: &Tick) {
        let fits = self.state.apply(tick);
        debug_assert!(fits, "changes fit the state that they were computed from");
        self.keys.learn(tick);
        self.ticks += 1;
        self.last_ms = tick.at_ms;
        self.unpacked += tick.memory();
    }
}

/// Samples a machine: everything at the start of a segment, the counters of the receive path at each tick, settings and
/// programs every [`FULL_MS`].
fn take(host: &dyn Host, at_ms: i64, state: &State, log: Option<&Log>) -> Taken {
    let observer = RecordingHost::with_notes(host, Seen::default());
    let is_full = log.is_none_or(|log| {
        // Ticks are never exactly on time.
        let half = i64::try_from(log.head.every_ms / 2).unwrap_or(i64::MAX);
        at_ms.saturating_sub(log.full.0).saturating_add(half) >= FULL_MS
    });
    let inventory =
        is_full.then(|| Inventory::take(&observer, if log.is_none() { Scope::All } else { Scope::Load }));
    let counters = match (&inventory, log) {
        (Some(inventory), _) => Counters::take(&observer, inventory),
        (None, Some(log)) => Counters::take(&observer, &without_programs(&log.inventory)),
        (None, None) => unreachable!("the first sample is full"),
    };
    if let (true, Some(log)) = (is_full, log) {
        busiest(&observer, &log.full.1, &counters);
        losing_sockets(&observer, &log.full.1, &counters);
    }
    let Seen { observed, now_ns } = observer.finish();
    Taken { tick: Tick { at_ms, now_ns, is_full, changes: state.changes(observed) }, inventory, counters }
}

/// The same inventory for counters of the receive path alone.
pub(super) fn without_programs(inventory: &Inventory) -> Inventory {
    Inventory { programs: Fact::NotAsked, ..inventory.clone() }
}
