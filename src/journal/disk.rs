//! Journal files in a directory: `STATE/journal/ID.jsonl`, `STATE/journal/archive/ID.jsonl` and
//! `STATE/lock`.

#![allow(clippy::disallowed_methods)] // The journal is kept in files.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::storage::{Folder, Lock, LockError, Storage};

/// Suffix of the files.
const SUFFIX: &str = ".jsonl";

/// Files below one state directory. Making one touches nothing; the directories are made by the
/// first [`Storage::lock`].
#[derive(Debug, Clone)]
pub struct Disk {
    state: PathBuf,
}

impl Disk {
    /// Files below `state`.
    pub fn new(state: impl Into<PathBuf>) -> Self {
        Self { state: state.into() }
    }

    fn folder(&self, folder: Folder) -> PathBuf {
        match folder {
            Folder::Open => self.state.join("journal"),
            Folder::Archive => self.state.join("journal/archive"),
        }
    }

    fn open_existing(&self, id: &str) -> io::Result<File> {
        OpenOptions::new().append(true).open(self.path(Folder::Open, id))
    }
}

/// Makes names that were made or taken away in a directory survive a crash.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Makes `path` and what is missing above it, each new name synced in the directory that has it.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    // A relative path of one name has the empty parent, which stands for `.`.
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => Path::new("/"),
    };
    make_directory(parent)?;
    match std::fs::create_dir(path) {
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    sync_directory(parent)
}

impl Storage for Disk {
    fn list(&self, folder: Folder) -> io::Result<Vec<String>> {
        let entries = match std::fs::read_dir(self.folder(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut ids = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            ids.extend(name.to_str().and_then(|name| name.strip_suffix(SUFFIX)).map(str::to_owned));
        }
        ids.sort();
        Ok(ids)
    }

    fn read(&self, folder: Folder, id: &str) -> io::Result<Vec<u8>> {
        std::fs::read(self.path(folder, id))
    }

    fn create(&self, id: &str) -> io::Result<()> {
        OpenOptions::new().write(true).create_new(true).open(self.path(Folder::Open, id))?;
        sync_directory(&self.folder(Folder::Open))
    }

    // A file system that cannot leaves it: the way back then lacks what a full disk refuses.
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
        let file = self.open_existing(id)?;
        // Also to set the length that it has gives the room back.
        if file.metadata()?.len() == length {
            return Ok(());
        }
        file.set_len(length)?;
        file.sync_all()
    }

    // The room that was set aside does not go along: nothing is appended to an archived file. Where it cannot be
    // given back, the file takes more of the disk than it has to, and that is all.
    fn archive(&self, id: &str) -> io::Result<()> {
        let _ = self.open_existing(id).and_then(|file| file.set_len(file.metadata()?.len()));
        std::fs::rename(self.path(Folder::Open, id), self.path(Folder::Archive, id))?;
        sync_directory(&self.folder(Folder::Archive))?;
        sync_directory(&self.folder(Folder::Open))
    }

    fn lock(&self) -> Result<Lock, LockError> {
        let path = self.state.join("lock");
        let failed = |error| LockError::Io { path: path.clone(), error };
        make_directory(&self.folder(Folder::Archive)).map_err(failed)?;
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let holder = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Err(LockError::Held { path, holder });
            }
        }
        // The process id is a courtesy to those who find the lock taken; a full disk must not keep
        // anybody from undoing.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Lock::new(file))
    }

    fn path(&self, folder: Folder, id: &str) -> PathBuf {
        self.folder(folder).join(format!("{id}{SUFFIX}"))
    }
}

#[cfg(test)]
mod tests {
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

    /// A journal that has 100,000 bytes set aside.
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

    /// Each archived journal once kept the room that its undo might have needed.
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
    fn the_lock_has_one_holder_and_names_it() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let disk = Disk::new(state.path());
        let lock = disk.lock().expect("free");
        match disk.lock() {
            Err(LockError::Held { holder, .. }) => assert_eq!(holder, Some(std::process::id())),
            other => panic!("{other:?}"),
        }
        drop(lock);
        disk.lock().expect("free again");
    }
}
