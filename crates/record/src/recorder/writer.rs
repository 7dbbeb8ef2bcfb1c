//! Samples a machine and appends the changes to the ring.

use std::io;
use std::time::Duration;

use super::observer::Seen;
use super::segment::{self, Head, SegmentError, begin, packed, tick_record};
use super::state::State;
use super::storage::Storage;
use super::tick::{Keys, Tick};
use rxlab_base::atomic::if_there;
use rxlab_base::units::Fact;
use rxlab_path::sample::{Counters, Inventory, Scope, busiest};
use rxlab_sys::{Host, RecordingHost};

/// Suffix of a log.
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

/// Options of a recorder.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Time between two ticks.
    pub every: Duration,
    /// Most bytes on disk. While a log is packed both are there, for a moment.
    pub size: u64,
}

impl Limits {
    /// Smallest ring: a segment of a machine with 8 CPUs and its log.
    pub const SMALLEST: u64 = 2 << 20;
}

/// A recorder that has begun, and files that it found and could not pack.
#[derive(Debug)]
pub struct Begun<S> {
    /// The recorder, ready for its first tick.
    pub recorder: Recorder<S>,
    /// Files of an earlier recorder that were left as they are, with the reason.
    pub unreadable: Vec<(String, SegmentError)>,
}

#[derive(Debug)]
pub struct Recorder<S> {
    storage: S,
    limits: Limits,
    log: Option<Log>,
    /// Bytes of all other files of the ring, by name, oldest first.
    older: Vec<(String, u64)>,
}

/// The segment that grows.
#[derive(Debug)]
struct Log {
    name: String,
    head: Head,
    length: u64,
    keys: Keys,
    state: State,
    ticks: Vec<Tick>,
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
    /// Begins a recording, and packs the logs that a killed recorder left behind.
    pub fn begin(mut storage: S, limits: Limits) -> io::Result<Begun<S>> {
        let mut unreadable = Vec::new();
        let files = storage.list()?;
        for (name, _) in files.iter().filter(|(name, _)| name.ends_with(LOG)) {
            let packed_name = name.replace(LOG, PACKED);
            // It was packed, and not yet removed.
            if !files.iter().any(|(other, _)| *other == packed_name) {
                match segment::read(&storage.read(name, u64::MAX)?) {
                    Ok(Some(contents)) => {
                        storage.replace(&packed_name, &packed(&contents.head, &contents.ticks)?)?;
                    }
                    Ok(None) => {}
                    Err(error) => {
                        unreadable.push((name.clone(), error));
                        continue;
                    }
                }
            }
            storage.remove(name)?;
        }
        let mut older = storage.list()?;
        older.retain(|(name, _)| name.ends_with(PACKED) || name.ends_with(LOG));
        let mut recorder = Self { storage, limits, log: None, older };
        recorder.make_room(0)?;
        Ok(Begun { recorder, unreadable })
    }

    /// Takes a sample of `host`, at this time of day in milliseconds since 1970, and writes it. After an error the
    /// recording continues with the next tick; the sample is lost.
    pub fn tick(&mut self, host: &dyn Host, at_ms: i64) -> io::Result<()> {
        let size = self.limits.size;
        let is_done = |log: &Log| {
            let is_back = log.ticks.last().is_some_and(|last| at_ms <= last.at_ms);
            log.ticks.len() >= TICKS || log.length >= LOG_SIZE.min(size / 4) || is_back
        };
        if self.log.as_ref().is_some_and(is_done) {
            self.close()?;
        }
        match self.log.take() {
            Some(mut log) => {
                let written = self.append(host, at_ms, &mut log);
                self.log = Some(log);
                written
            }
            None => self.open(host, at_ms),
        }
    }

    /// Packs what was recorded. Should be called at the end; after a kill the next recorder packs it.
    pub fn finish(mut self) -> io::Result<()> {
        self.close()
    }

    /// Starts a segment with everything there is to read.
    fn open(&mut self, host: &dyn Host, at_ms: i64) -> io::Result<()> {
        let state = State::default();
        // After the clock was set back the name may be taken.
        let mut number = at_ms;
        while self.older.iter().any(|(name, _)| name.starts_with(&format!("{number:013}."))) {
            number += 1;
        }
        let taken = take(host, at_ms, &state, None);
        let head = Head::new(u64::try_from(self.limits.every.as_millis()).unwrap_or(u64::MAX));
        let mut log = Log {
            name: format!("{number:013}{LOG}"),
            head,
            length: 0,
            keys: Keys::default(),
            state,
            ticks: Vec::new(),
            inventory: taken.inventory.expect("the first sample is full"),
            full: (at_ms, taken.counters),
        };
        let bytes = [begin(&log.head), tick_record(&taken.tick, &log.keys)?].concat();
        if let Err(error) = self.write(&mut log, &bytes) {
            // Without its first tick it is of no use.
            let _ = self.storage.remove(&log.name);
            return Err(error);
        }
        log.accept(taken.tick);
        self.log = Some(log);
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
        log.accept(taken.tick);
        Ok(())
    }

    /// Appends bytes to a log, or leaves it as it was. On a full disk the oldest segment makes room.
    fn write(&mut self, log: &mut Log, bytes: &[u8]) -> io::Result<()> {
        self.make_room(log.length + bytes.len() as u64)?;
        loop {
            let Err(error) = self.storage.append(&log.name, bytes) else {
                log.length += bytes.len() as u64;
                return Ok(());
            };
            // A log that cannot be cut ends with a torn record, after which nothing would be read.
            if self.storage.truncate(&log.name, log.length).is_err() {
                log.length = u64::MAX;
            }
            let is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
            if !is_full || log.length == u64::MAX || !self.drop_oldest()? {
                return Err(error);
            }
        }
    }

    /// Removes the oldest segments until `more` bytes fit.
    fn make_room(&mut self, more: u64) -> io::Result<()> {
        while self.older.iter().map(|(_, size)| size).sum::<u64>().saturating_add(more) > self.limits.size {
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
        let (name, _) = self.older.remove(0);
        if_there(self.storage.remove(&name))?;
        Ok(true)
    }

    /// Packs the log, if there is one. If that fails, the log stays as it is and is read as such.
    fn close(&mut self) -> io::Result<()> {
        let Some(log) = self.log.take() else { return Ok(()) };
        let name = log.name.replace(LOG, PACKED);
        let bytes = packed(&log.head, &log.ticks)?;
        let stays = (log.name.clone(), log.length);
        loop {
            match self.storage.replace(&name, &bytes) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::StorageFull && self.drop_oldest()? => {}
                Err(error) => {
                    self.older.push(stays);
                    return Err(error);
                }
            }
        }
        self.older.push((name, bytes.len() as u64));
        self.storage.remove(&log.name)
    }
}

impl Log {
    /// Remembers a tick that is on disk.
    fn accept(&mut self, tick: Tick) {
        let fits = self.state.apply(&tick);
        debug_assert!(fits, "changes fit the state that they were computed from");
        self.keys.learn(&tick);
        self.ticks.push(tick);
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
    }
    let Seen { observed, now_ns } = observer.finish();
    Taken { tick: Tick { at_ms, now_ns, is_full, changes: state.changes(observed) }, inventory, counters }
}

/// The same inventory for counters of the receive path alone.
pub(super) fn without_programs(inventory: &Inventory) -> Inventory {
    Inventory { programs: Fact::NotAsked, ..inventory.clone() }
}
