//! The simulated disk: journal files whose unsynced bytes are lost in a reboot.

use std::collections::BTreeMap;
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
}

/// The files, and the holder of the lock.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) open: BTreeMap<String, File>,
    pub(crate) archive: BTreeMap<String, File>,
    pub(crate) holder: Option<u32>,
    pub(crate) notices: BTreeMap<String, Vec<u8>>,
}

impl Files {
    /// The machine boots: some of the unsynced bytes survive.
    pub(crate) fn reboot(&mut self, survives: u8) {
        self.holder = None;
        for file in self.open.values_mut() {
            let length = (file.synced + usize::from(survives)).min(file.bytes.len());
            file.bytes.truncate(length);
            file.synced = length;
        }
    }

    pub(crate) fn damage(&mut self, which: u8, part: u8) {
        let at = usize::from(which) % self.open.len().max(1);
        let Some(file) = self.open.values_mut().nth(at).filter(|file| !file.bytes.is_empty()) else { return };
        let at = usize::from(part) * file.bytes.len() / 256;
        file.bytes[at] ^= 1;
        file.damaged = true;
    }
}

/// The journal files of one command.
pub(crate) struct SimDisk {
    world: Arc<World>,
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
    pub(crate) fn new(world: &Arc<World>) -> Self {
        Self { world: Arc::clone(world) }
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
            change(state.disk.open.get_mut(id).ok_or(io::ErrorKind::NotFound)?);
            Ok(())
        })
    }
}

impl Storage for SimDisk {
    fn list(&self, folder: Folder) -> io::Result<Vec<String>> {
        match self.with(false, |state| Ok(files(state, folder).keys().cloned().collect())) {
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
                Ok(files(state, folder).get(id).ok_or(io::ErrorKind::NotFound)?.bytes.clone())
            }
        })
    }

    fn create(&self, id: &str) -> io::Result<()> {
        self.with(true, |state| {
            if state.disk.open.contains_key(id) {
                Err(io::ErrorKind::AlreadyExists.into())
            } else {
                state.disk.open.insert(id.to_owned(), File::default());
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
        let file = state.disk.open.get_mut(id).filter(|_| !gone).ok_or(io::ErrorKind::NotFound)?;
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
            let file = state.disk.open.remove(id).ok_or(io::ErrorKind::NotFound)?;
            state.disk.archive.insert(id.to_owned(), file);
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
            return Err(LockError::Held { path, holder: Some(ProcessId { pid, start }) });
        }
        state.disk.holder = state.running();
        let by = state.running().unwrap_or(0);
        Ok(Lock::held_by(Held { world: Arc::clone(&self.world), by }))
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
        PathBuf::from(format!("/var/lib/rxlab/{folder}/{id}.jsonl"))
    }
}

/// A line of the journal without what a mutation forgets.
fn forgotten(mutation: Mutation, line: &[u8]) -> Vec<u8> {
    let record = line.strip_suffix(b"\n").and_then(Record::from_line);
    match (mutation, record) {
        (Mutation::NothingDisplaced, Some(Record::Intent(intent))) => {
            Record::Intent(Intent { displaced: Vec::new(), ..intent }).to_line()
        }
        (Mutation::ThreadedStays, Some(Record::Intent(mut intent))) => {
            intent.displaced.retain(|value| value.knob != "threaded");
            Record::Intent(intent).to_line()
        }
        _ => line.to_vec(),
    }
}

fn files(state: &State, folder: Folder) -> &BTreeMap<String, File> {
    if folder == Folder::Open { &state.disk.open } else { &state.disk.archive }
}
