//! Journal files in a directory: `STATE/journal/ID.jsonl`, `STATE/journal/archive/ID.jsonl` and, for a
//! machine consisting of files, `STATE/lock`. The running machine has one lock, `RUN/lock`, for all state
//! directories: it survives a read-only file system, and two journals never change one machine at the same
//! time.

#![allow(clippy::disallowed_methods)] // The journal is kept in files.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::Errno;

use super::storage::{Folder, Lock, LockError, Storage};
use rxlab_base::atomic::{self, if_there};
use rxlab_sys::ProcessId;

/// Suffix of the files.
const SUFFIX: &str = ".jsonl";

/// Files below one state directory. Constructing it touches nothing; directories are created with the first
/// file.
#[derive(Debug, Clone)]
pub struct Disk {
    state: PathBuf,
    run: Option<PathBuf>,
}

impl Disk {
    /// Files below `state`, which has its own lock.
    pub fn new(state: impl Into<PathBuf>) -> Self {
        Self { state: state.into(), run: None }
    }

    /// Files below `state`, locked in `run`, which is empty after a boot, shared with all other journals of
    /// this machine.
    pub fn of_this_machine(state: impl Into<PathBuf>, run: impl Into<PathBuf>) -> Self {
        Self { state: state.into(), run: Some(run.into()) }
    }

    fn folder(&self, folder: Folder) -> PathBuf {
        match folder {
            Folder::Open => self.state.join("journal"),
            Folder::Archive => self.state.join("journal/archive"),
        }
    }

    fn notices(&self) -> PathBuf {
        self.state.join("journal/notices")
    }

    fn open_existing(&self, id: &str) -> io::Result<File> {
        OpenOptions::new().append(true).open(self.path(Folder::Open, id))
    }
}

/// Makes created and removed names in a directory survive a crash.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Creates `path` and missing parents, each new name synced in its directory.
pub fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    // A relative path of one name has the empty parent, which means `.`.
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => Path::new("/"),
    };
    make_directory(parent)?;
    match DirBuilder::new().mode(0o755).create(path) {
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    sync_directory(parent)
}

/// Paths in a directory; none if it does not exist.
fn paths(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = if_there(std::fs::read_dir(directory))?;
    entries.into_iter().flatten().map(|entry| Ok(entry?.path())).collect()
}

/// Rejects a directory in which users other than root and the current one can replace files.
fn trusted(directory: &Path) -> Result<(), LockError> {
    let untrusted = |why: String| Err(LockError::Untrusted { path: directory.to_owned(), why });
    let status = if_there(std::fs::metadata(directory))
        .map_err(|error| LockError::Io { path: directory.to_owned(), error })?;
    // A missing directory will be ours.
    let Some(status) = status else { return Ok(()) };
    let us = rustix::process::geteuid().as_raw();
    if ![0, us].contains(&status.uid()) {
        return untrusted(format!("it belongs to user {}", status.uid()));
    }
    if status.mode() & 0o022 != 0 {
        return untrusted(format!("its mode {:o} lets other users write to it", status.mode() & 0o7777));
    }
    Ok(())
}

/// Holder of the lock according to the lock file.
fn holder(text: &str) -> Option<ProcessId> {
    let (pid, start) = text.trim_end().split_once(' ')?;
    Some(ProcessId { pid: pid.parse().ok()?, start: start.parse().ok()? })
}

impl Storage for Disk {
    fn list(&self, folder: Folder) -> io::Result<Vec<String>> {
        let paths = paths(&self.folder(folder))?;
        let names = paths.iter().filter_map(|path| path.file_name()?.to_str()?.strip_suffix(SUFFIX));
        let mut ids: Vec<String> = names.map(str::to_owned).collect();
        ids.sort();
        Ok(ids)
    }

    fn read(&self, folder: Folder, id: &str) -> io::Result<Vec<u8>> {
        std::fs::read(self.path(folder, id))
    }

    fn create(&self, id: &str) -> io::Result<()> {
        make_directory(&self.folder(Folder::Archive))?;
        OpenOptions::new().write(true).create_new(true).open(self.path(Folder::Open, id))?;
        sync_directory(&self.folder(Folder::Open))
    }

    // Without support in the file system nothing is reserved: a full disk may then block undo.
    fn set_aside(&self, id: &str, bytes: u64) -> io::Result<()> {
        let file = self.open_existing(id)?;
        match fallocate(&file, FallocateFlags::KEEP_SIZE, file.metadata()?.len(), bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            set_aside => Ok(set_aside?),
        }
    }

    fn append(&self, id: &str, bytes: &[u8]) -> io::Result<()> {
        self.open_existing(id)?.write_all(bytes)
    }

    fn sync(&self, id: &str) -> io::Result<()> {
        self.open_existing(id)?.sync_data()
    }

    fn truncate(&self, id: &str, length: u64) -> io::Result<()> {
        // Setting the current length would release the reserved space, and fail on a file system that has
        // become read-only.
        if std::fs::metadata(self.path(Folder::Open, id))?.len() == length {
            return Ok(());
        }
        let file = self.open_existing(id)?;
        file.set_len(length)?;
        file.sync_all()
    }

    // Releases the reserved space: nothing is appended to an archived file. If that fails, the file
    // only takes more disk space than necessary.
    fn archive(&self, id: &str) -> io::Result<()> {
        let _ = self.open_existing(id).and_then(|file| file.set_len(file.metadata()?.len()));
        std::fs::rename(self.path(Folder::Open, id), self.path(Folder::Archive, id))?;
        sync_directory(&self.folder(Folder::Archive))?;
        sync_directory(&self.folder(Folder::Open))
    }

    fn lock(&self) -> Result<Lock, LockError> {
        let directory = self.run.as_ref().unwrap_or(&self.state);
        let path = directory.join("lock");
        let failed = |error| LockError::Io { path: path.clone(), error };
        make_directory(directory).map_err(failed)?;
        let journal = [self.state.clone(), self.folder(Folder::Open), self.folder(Folder::Archive)];
        journal.iter().chain([directory]).try_for_each(|directory| trusted(directory))?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o644);
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        let mut file = options.custom_flags(flags).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let holder = file.read_to_string(&mut text).ok().and_then(|_| holder(&text));
                return Err(LockError::Held { path, holder });
            }
        }
        // The holder is informational; a full disk must not prevent undo.
        let own = ProcessId::own().map_or_else(String::new, |own| format!("{} {}\n", own.pid, own.start));
        let _ = file.set_len(0).and_then(|()| file.write_all(own.as_bytes()));
        Ok(Lock::new(file))
    }

    // The list holds NUL-terminated paths.
    fn claim(&self) -> io::Result<Vec<PathBuf>> {
        let Some(run) = &self.run else { return Ok(Vec::new()) };
        make_directory(&self.state)?;
        let state = self.state.canonicalize()?;
        let mut options = OpenOptions::new();
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        let options = options.read(true).append(true).create(true).mode(0o644).custom_flags(flags);
        let mut list = options.open(run.join("journals"))?;
        let mut bytes = Vec::new();
        list.read_to_end(&mut bytes)?;
        let known = bytes.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        let mut known: Vec<PathBuf> = known.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect();
        if !known.contains(&state) {
            list.write_all(&[state.as_os_str().as_bytes(), b"\0"].concat())?;
        }
        known.retain(|other| *other != state);
        Ok(known)
    }

    fn leave_notice(&self, id: &str, text: &[u8]) -> io::Result<()> {
        make_directory(&self.notices())?;
        atomic::replace(&self.notices().join(id), text, None)
    }

    fn take_notices(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut paths = paths(&self.notices())?;
        paths.sort();
        // The process that removes a file has taken it.
        let take =
            |path: &PathBuf| std::fs::read(path).and_then(|text| std::fs::remove_file(path).map(|()| text));
        Ok(paths.iter().filter_map(|path| take(path).ok()).collect())
    }

    fn path(&self, folder: Folder, id: &str) -> PathBuf {
        self.folder(folder).join(format!("{id}{SUFFIX}"))
    }
}

#[cfg(test)]
mod tests {
    use rxlab_sys::ProcessId;
    use std::os::unix::fs::MetadataExt;

    use super::{Disk, Folder, Lock, LockError, Storage};

    #[test]
    fn files_are_made_grown_cut_and_archived() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let disk = Disk::new(state.path().join("a/b"));
        assert_eq!(disk.list(Folder::Open).expect("no directory is no files"), [""; 0]);
        let _lock = disk.lock().expect("free");
        disk.create("1").expect("new");
        assert!(disk.create("1").is_err(), "never twice");
        disk.append("1", b"one two").expect("appended");
        disk.sync("1").expect("synced");
        disk.truncate("1", 3).expect("cut");
        disk.append("1", b"!").expect("appended");
        assert_eq!(disk.read(Folder::Open, "1").expect("there"), b"one!");
        disk.archive("1").expect("moved");
        assert_eq!(disk.list(Folder::Open).expect("listed"), [""; 0]);
        assert_eq!(disk.list(Folder::Archive).expect("listed"), ["1"]);
    }

    /// A journal with 100,000 reserved bytes.
    fn with_room() -> (tempfile::TempDir, Disk, Lock) {
        let state = tempfile::tempdir().expect("a temporary directory");
        let disk = Disk::new(state.path());
        let lock = disk.lock().expect("free");
        disk.create("1").expect("new");
        disk.append("1", b"one").expect("appended");
        disk.set_aside("1", 100_000).expect("there is room");
        (state, disk, lock)
    }

    #[test]
    fn room_is_set_aside_without_a_longer_file() {
        let (_state, disk, _lock) = with_room();
        disk.append("1", b" two").expect("appended");
        disk.truncate("1", 7).expect("nothing to cut");
        assert_eq!(disk.read(Folder::Open, "1").expect("there"), b"one two");
        let blocks = std::fs::metadata(disk.path(Folder::Open, "1")).expect("there").blocks();
        assert!(blocks * 512 >= 100_000, "{blocks}: every file system for tests can do it");
    }

    /// Each archived journal once kept the space reserved for its undo.
    #[test]
    fn the_archive_keeps_no_room_set_aside() {
        let (_state, disk, _lock) = with_room();
        let room = |folder| std::fs::metadata(disk.path(folder, "1")).expect("there").blocks() * 512;
        assert!(room(Folder::Open) >= 100_000);
        disk.archive("1").expect("moved");
        assert_eq!(disk.read(Folder::Archive, "1").expect("there"), b"one");
        assert!(room(Folder::Archive) < 100_000, "{}", room(Folder::Archive));
    }

    #[test]
    fn a_notice_is_taken_once() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let disk = Disk::new(state.path());
        assert_eq!(disk.take_notices().expect("no directory is no notices"), [b""; 0]);
        disk.leave_notice("2", b"second").expect("left");
        disk.leave_notice("1", b"first").expect("left");
        disk.leave_notice("1", b"replaced").expect("left");
        assert_eq!(disk.take_notices().expect("taken"), [&b"replaced"[..], b"second"]);
        assert_eq!(disk.take_notices().expect("taken"), [b""; 0]);
        assert_eq!(disk.list(Folder::Open).expect("listed"), [""; 0], "no transaction");
    }

    #[test]
    fn the_lock_has_one_holder_and_names_it() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let disk = Disk::new(state.path());
        let lock = disk.lock().expect("free");
        match disk.lock() {
            Err(LockError::Held { holder, .. }) => assert_eq!(holder, ProcessId::own()),
            other => panic!("{other:?}"),
        }
        drop(lock);
        disk.lock().expect("free again");
    }
}
