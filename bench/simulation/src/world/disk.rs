//! The simulated disk: journal files whose unsynced bytes are lost in a reboot.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use rxlab_change::journal::{Folder, Intent, Lock, LockError, Record, Storage};
use rxlab_sys::ProcessId;

use super::schedule::Area;
use super::{Counted, Link, Mutation, State, World};

#[derive(Debug, Clone, Default)]
pub(crate) struct File {
    pub(crate) bytes: Vec<u8>,
    synced: usize,
    /// The adversary flipped a byte of it.
    pub(crate) damaged: bool,
    folder: Shown,
}

/// A state directory: the usual one is on a file system of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Place {
    #[default]
    Usual,
    Elsewhere,
}

/// What a state directory shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Shown {
    #[default]
    Mounted,
    /// The directory below the mount point.
    Underneath,
    Elsewhere,
}

/// The files, and the holder of the lock.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) open: BTreeMap<String, File>,
    pub(crate) archive: BTreeMap<String, File>,
    pub(crate) holder: Option<u32>,
    pub(crate) notices: BTreeMap<String, Vec<u8>>,
    /// False while the file system of the usual journal is not mounted.
    pub(crate) is_mounted: bool,
    /// Transactions of this machine that are open, in any journal: it is in memory.
    registered: BTreeSet<String>,
}

impl Default for Files {
    fn default() -> Self {
        Self {
            open: BTreeMap::new(),
            archive: BTreeMap::new(),
            holder: None,
            notices: BTreeMap::new(),
            is_mounted: true,
            registered: BTreeSet::new(),
        }
    }
}

impl Files {
    /// What a state directory shows now.
    pub(crate) fn shown(&self, place: Place) -> Shown {
        match place {
            Place::Elsewhere => Shown::Elsewhere,
            Place::Usual if self.is_mounted => Shown::Mounted,
            Place::Usual => Shown::Underneath,
        }
    }

    /// The open transactions that a state directory shows.
    pub(crate) fn ids(&self, place: Place) -> Vec<String> {
        let shown = self.shown(place);
        self.open.iter().filter(|(_, file)| file.folder == shown).map(|(id, _)| id.clone()).collect()
    }

    /// True if a transaction is in sight, open or archived.
    pub(crate) fn is_in_sight(&self, id: &str) -> bool {
        let file = self.open.get(id).or_else(|| self.archive.get(id));
        file.is_some_and(|file| file.folder == self.shown(file.folder.place()))
    }

    /// The machine boots: some of the unsynced bytes survive.
    pub(crate) fn reboot(&mut self, survives: u8) {
        self.holder = None;
        self.registered.clear();
        for file in self.open.values_mut() {
            let length = (file.synced + usize::from(survives)).min(file.bytes.len());
            file.bytes.truncate(length);
            file.synced = length;
        }
    }

    /// One byte of a file is another, or, with an odd `part`, its end is lost: zeros from there on.
    pub(crate) fn damage(&mut self, which: u8, part: u8) {
        let at = usize::from(which) % self.open.len().max(1);
        let Some(file) = self.open.values_mut().nth(at).filter(|file| !file.bytes.is_empty()) else { return };
        let at = usize::from(part) * file.bytes.len() / 256;
        if part.is_multiple_of(2) {
            file.bytes[at] ^= 1;
        } else {
            file.bytes[at..].fill(0);
        }
        file.damaged = true;
    }
}

impl Shown {
    fn place(self) -> Place {
        if self == Shown::Elsewhere { Place::Elsewhere } else { Place::Usual }
    }

    /// A transaction that was archived long ago: the numbers of each journal go on from there.
    fn archived(self) -> Option<&'static str> {
        match self {
            Shown::Mounted => None,
            Shown::Underneath => Some("000400-0000"),
            Shown::Elsewhere => Some("000700-0000"),
        }
    }
}

/// The journal files of one command.
pub(crate) struct SimDisk {
    world: Arc<World>,
    place: Place,
}

/// The lock, released when dropped.
struct Held {
    world: Arc<World>,
    by: u32,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.world.state();
        // A command that was killed while it was stopped has already lost it.
        if state.disk.holder == Some(self.by) {
            state.disk.holder = None;
        }
    }
}

impl SimDisk {
    pub(crate) fn new(world: &Arc<World>, place: Place) -> Self {
        Self { world: Arc::clone(world), place }
    }

    /// The state at the next operation, and the fault that prevents it.
    fn meet(&self, writes: bool) -> (MutexGuard<'_, State>, Option<io::Error>) {
        self.world.step(Counted::Journal, Link::Other);
        let mut state = self.world.state();
        if state.fault(|area| area == Area::DiskGone).is_some() {
            return (state, Some(io::ErrorKind::NotFound.into()));
        }
        let area = if writes { Area::DiskWrites } else { Area::DiskReads };
        let errno = state.fault(|hit| hit == area);
        (state, errno.map(io::Error::from_raw_os_error))
    }

    /// Runs `act` unless a fault prevents it.
    fn with<T>(&self, writes: bool, act: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        match self.meet(writes) {
            (_, Some(error)) => Err(error),
            (mut state, None) => act(&mut state),
        }
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut File)) -> io::Result<()> {
        self.with(true, |state| {
            let shown = state.disk.shown(self.place);
            let file = state.disk.open.get_mut(id).filter(|file| file.folder == shown);
            change(file.ok_or(io::ErrorKind::NotFound)?);
            Ok(())
        })
    }
}

impl Storage for SimDisk {
    fn list(&self, folder: Folder) -> io::Result<Vec<String>> {
        let listed = self.with(false, |state| {
            let shown = state.disk.shown(self.place);
            let files = files(state, folder).iter().filter(|(_, file)| file.folder == shown);
            let old = shown.archived().filter(|_| folder == Folder::Archive).map(str::to_owned);
            let mut ids: Vec<String> = files.map(|(id, _)| id.clone()).chain(old).collect();
            ids.sort();
            Ok(ids)
        });
        match listed {
            // A missing directory has no files.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed,
        }
    }

    fn read(&self, folder: Folder, id: &str) -> io::Result<Vec<u8>> {
        self.with(false, |state| {
            if state.fails_with_the_damaged() {
                Err(io::Error::from_raw_os_error(5))
            } else {
                let shown = state.disk.shown(self.place);
                let file = files(state, folder).get(id).filter(|file| file.folder == shown);
                Ok(file.ok_or(io::ErrorKind::NotFound)?.bytes.clone())
            }
        })
    }

    fn create(&self, id: &str) -> io::Result<()> {
        self.with(true, |state| {
            if state.disk.open.contains_key(id) {
                Err(io::ErrorKind::AlreadyExists.into())
            } else {
                let folder = state.disk.shown(self.place);
                state.disk.open.insert(id.to_owned(), File { folder, ..File::default() });
                state.disk.registered.insert(id.to_owned());
                Ok(())
            }
        })
    }

    fn set_aside(&self, id: &str, _: u64) -> io::Result<()> {
        self.change(id, |_| ())
    }

    fn append(&self, id: &str, bytes: &[u8]) -> io::Result<()> {
        let (mut state, fault) = self.meet(true);
        let bytes = &forgotten(state.mutation, bytes)[..];
        let gone = fault.as_ref().is_some_and(|error| error.kind() == io::ErrorKind::NotFound);
        let shown = state.disk.shown(self.place);
        let file = state.disk.open.get_mut(id).filter(|file| !gone && file.folder == shown);
        let file = file.ok_or(io::ErrorKind::NotFound)?;
        if let Some(error) = fault {
            // A full disk keeps only half of it.
            if error.raw_os_error() == Some(28) {
                file.bytes.extend_from_slice(&bytes[..bytes.len() / 2]);
            }
            return Err(error);
        }
        file.bytes.extend_from_slice(bytes);
        state.log(|| format!("  {id}: {}", String::from_utf8_lossy(bytes).trim_end()));
        Ok(())
    }

    fn sync(&self, id: &str) -> io::Result<()> {
        self.change(id, |file| file.synced = file.bytes.len())
    }

    fn truncate(&self, id: &str, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let now = {
            let state = self.world.state();
            state.disk.open.get(id).map(|file| file.bytes.len())
        };
        // Like the real disk: if there is nothing to cut, nothing is written.
        if now == Some(length) {
            return Ok(());
        }
        self.change(id, |file| {
            file.bytes.truncate(length);
            file.synced = file.bytes.len();
        })
    }

    fn archive(&self, id: &str) -> io::Result<()> {
        self.with(true, |state| {
            let shown = state.disk.shown(self.place);
            state.disk.open.get(id).filter(|file| file.folder == shown).ok_or(io::ErrorKind::NotFound)?;
            let file = state.disk.open.remove(id).ok_or(io::ErrorKind::NotFound)?;
            state.disk.archive.insert(id.to_owned(), file);
            state.disk.registered.remove(id);
            Ok(())
        })
    }

    fn lock(&self) -> Result<Lock, LockError> {
        let path = PathBuf::from("/run/rxlab/lock");
        let (mut state, fault) = self.meet(false);
        // It is in memory, not on the disk.
        if let Some(error) = fault.filter(|error| error.kind() == io::ErrorKind::NotFound) {
            return Err(LockError::Io { path, error });
        }
        if let Some(pid) = state.disk.holder.filter(|_| !state.has(Mutation::TwoHolders)) {
            let start = u64::from(state.machine.boot);
            return Err(LockError::Held { path, holder: Some(ProcessId { pid, start, numbering: None }) });
        }
        state.disk.holder = state.running();
        let by = state.running().unwrap_or(0);
        Ok(Lock::held_by(Held { world: Arc::clone(&self.world), by }))
    }

    fn others(&self) -> io::Result<Vec<(PathBuf, Box<dyn Storage>)>> {
        let state = self.world.state();
        let other = if self.place == Place::Usual { Place::Elsewhere } else { Place::Usual };
        let files = state.disk.registered.iter().filter_map(|id| state.disk.open.get(id));
        let has_some = files.into_iter().any(|file| file.folder.place() == other);
        if !has_some || state.has(Mutation::NoRegistry) {
            return Ok(Vec::new());
        }
        drop(state);
        Ok(vec![(PathBuf::from(state_directory(other)), Box::new(Self::new(&self.world, other)))])
    }

    fn missing(&self) -> io::Result<Vec<(String, PathBuf)>> {
        let mut state = self.world.state();
        if state.has(Mutation::NoRegistry) {
            return Ok(Vec::new());
        }
        let is_gone = state.fault(|area| area == Area::DiskGone).is_some();
        let registered = state.disk.registered.iter();
        let unseen = registered.filter(|id| is_gone || !state.disk.is_in_sight(id));
        Ok(unseen.map(|id| (id.clone(), PathBuf::from(format!("/somewhere/{id}.jsonl")))).collect())
    }

    fn leave_notice(&self, id: &str, text: &[u8]) -> io::Result<()> {
        self.with(true, |state| {
            state.disk.notices.insert(id.to_owned(), text.to_vec());
            Ok(())
        })
    }

    fn pause(&self, time: Duration) {
        self.world.sleep(time);
    }

    fn path(&self, folder: Folder, id: &str) -> PathBuf {
        let folder = if folder == Folder::Open { "journal" } else { "journal/archive" };
        PathBuf::from(format!("{}/{folder}/{id}.jsonl", state_directory(self.place)))
    }
}

fn state_directory(place: Place) -> &'static str {
    if place == Place::Usual { "/var/lib/rxlab" } else { "/srv/rxlab" }
}

/// A line of the journal without what a mutation forgets.
fn forgotten(mutation: Mutation, line: &[u8]) -> Vec<u8> {
    let record = line.strip_suffix(b"\n").and_then(Record::from_line);
    match (mutation, record) {
        (Mutation::NothingDisplaced, Some(Record::Intent(intent))) => {
            Record::Intent(Intent { displaced: Vec::new(), ..intent }).to_line()
        }
        (
            Mutation::ThreadedStays | Mutation::TableStays | Mutation::NapisStay | Mutation::PollersStay,
            Some(Record::Intent(mut intent)),
        ) => {
            let kept: &[&str] = match mutation {
                Mutation::ThreadedStays => &["threaded"],
                Mutation::TableStays => &["rss"],
                Mutation::PollersStay => &["napi_affinity", "napi_priority"],
                _ => &["queue_defer_hard_irqs"],
            };
            intent.displaced.retain(|value| !kept.contains(&value.knob.as_str()));
            Record::Intent(intent).to_line()
        }
        _ => line.to_vec(),
    }
}

fn files(state: &State, folder: Folder) -> &BTreeMap<String, File> {
    if folder == Folder::Open { &state.disk.open } else { &state.disk.archive }
}
