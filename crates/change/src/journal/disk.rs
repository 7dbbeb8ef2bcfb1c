//! Journal files in a directory: `STATE/journal/ID.jsonl`, `STATE/journal/archive/ID.jsonl` and, for a
//! machine consisting of files, `STATE/lock`. The running machine has one lock, `RUN/lock`, for all state
//! directories: it survives a read-only file system, and two journals never change one machine at the same
//! time. A guard keeps `guard-ID` locked next to that.

#![allow(clippy::disallowed_methods)] // The journal is kept in files.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::holder::lock_holder;
use super::registry::Registry;
use super::storage::{Folder, Lock, LockError, Storage};
use rxlab_base::atomic::{self, if_there};
use rxlab_base::private;

const SUFFIX: &str = ".jsonl";
/// Name of a guard's file, before the id.
const GUARD: &str = "guard-";
/// Directory of the notices.
const NOTICES: &str = "notices";

/// Longest time that a guard tries to lock its file: the command that started it waits meanwhile.
const SHOWING: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_millis(5);

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
        self.state.join("journal").join(NOTICES)
    }

    /// Directory of what lasts only until the next boot.
    fn locks(&self) -> &Path {
        self.run.as_ref().unwrap_or(&self.state)
    }

    fn guard(&self, id: &str) -> PathBuf {
        self.locks().join(format!("{GUARD}{id}"))
    }

    fn open_existing(&self, id: &str) -> io::Result<File> {
        private::open(&self.path(Folder::Open, id), OpenOptions::new().append(true))
    }

    fn registry(&self) -> Option<Registry> {
        self.run.as_deref().map(Registry::new)
    }

    /// Those of the registered files that are neither open nor archived, each with its id.
    fn unseen(&self, registered: Vec<PathBuf>) -> io::Result<Vec<(String, PathBuf)>> {
        let mut unseen = Vec::new();
        for path in registered {
            let Some(id) = id_of(&path) else { continue };
            // The directory may have been renamed since.
            let own = [Folder::Open, Folder::Archive].map(|folder| self.path(folder, &id));
            let archived = path.with_file_name("archive").join(name_of(&id));
            let mut found = false;
            for place in [&path, &archived].into_iter().chain(&own) {
                found = found || is_there(place).map_err(|error| naming(place, &error))?;
            }
            if !found {
                unseen.push((id, path));
            }
        }
        Ok(unseen)
    }
}

/// The file name of a transaction.
fn name_of(id: &str) -> OsString {
    format!("{id}{SUFFIX}").into()
}

/// The transaction of a file.
fn id_of(path: &Path) -> Option<String> {
    path.file_name()?.to_str()?.strip_suffix(SUFFIX).map(str::to_owned)
}

fn is_there(path: &Path) -> io::Result<bool> {
    match path.symlink_metadata() {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(false)
        }
        found => found.map(|_| true),
    }
}

/// The error with the path that it is of.
fn naming(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Makes created and removed names in a directory survive a crash.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Creates `path` and missing parents, each new name synced in its directory. The umask decides who may read them.
pub fn make_directory(path: &Path) -> io::Result<()> {
    make(path, |path| DirBuilder::new().mode(0o755).create(path))
}

/// The same for their owner only.
pub fn make_private_directory(path: &Path) -> io::Result<()> {
    make(path, private::create_directory)
}

/// The same; an existing directory, which must be one of ours, is closed to other users: earlier versions let them read it.
pub fn claim_directory(path: &Path) -> io::Result<()> {
    make_private_directory(path)?;
    private::close(&File::open(path)?)
}

fn make(path: &Path, create: impl Fn(&Path) -> io::Result<()> + Copy) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    // A relative path of one name has the empty parent, which means `.`.
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => Path::new("/"),
    };
    make(parent, create)?;
    match create(path) {
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

/// Opens the file of the lock. One on a file system that became read-only can still be locked: undo has to work.
fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    match private::open(path, options.read(true).write(true).create(true).truncate(false)) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::ROFS) => {
            private::open(path, OpenOptions::new().read(true))
        }
        Err(error) => Err(error),
        Ok(file) => {
            // Who can open the file can lock it. Earlier versions let everyone read it.
            private::close(&file)?;
            Ok(file)
        }
    }
}

/// Rejects a directory in which users other than root and the current one can replace files.
fn trusted(directory: &Path) -> Result<(), LockError> {
    let status = if_there(std::fs::metadata(directory))
        .map_err(|error| LockError::Io { path: directory.to_owned(), error })?;
    // A missing directory will be ours.
    match status.as_ref().and_then(private::exposure) {
        Some(why) => Err(LockError::Untrusted { path: directory.to_owned(), why }),
        None => Ok(()),
    }
}

impl Storage for Disk {
    fn list(&self, folder: Folder) -> io::Result<Vec<String>> {
        let paths = paths(&self.folder(folder))?;
        // Others' files are none of ours.
        let has_counter = |id: &String| id.split('-').next().is_some_and(|text| text.parse::<u64>().is_ok());
        let mut ids: Vec<String> = paths.iter().filter_map(|path| id_of(path)).filter(has_counter).collect();
        ids.sort();
        Ok(ids)
    }

    fn read(&self, folder: Folder, id: &str) -> io::Result<Vec<u8>> {
        private::read(&self.path(folder, id))
    }

    fn create(&self, id: &str) -> io::Result<()> {
        for folder in [Folder::Open, Folder::Archive] {
            claim_directory(&self.folder(folder))?;
        }
        private::open(&self.path(Folder::Open, id), OpenOptions::new().write(true).create_new(true))?;
        sync_directory(&self.folder(Folder::Open))?;
        match self.registry() {
            Some(registry) => registry.add(self.folder(Folder::Open).canonicalize()?.join(name_of(id))),
            None => Ok(()),
        }
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
        sync_directory(&self.folder(Folder::Open))?;
        // One that stays shows nothing of an archived transaction.
        let _ = std::fs::remove_file(self.guard(id));
        // An entry that stays leads to the archive.
        let _ = self.registry().map(|registry| registry.remove(&name_of(id)));
        Ok(())
    }

    fn lock(&self) -> Result<Lock, LockError> {
        let directory = self.locks();
        let path = directory.join("lock");
        let failed = |error| LockError::Io { path: path.clone(), error };
        make_private_directory(directory).map_err(failed)?;
        let journal = [self.state.clone(), self.folder(Folder::Open), self.folder(Folder::Archive)];
        journal.iter().map(PathBuf::as_path).chain([directory]).try_for_each(trusted)?;
        let file = open_lock(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Lock::new(file)),
            Err(TryLockError::Error(error)) => Err(failed(error)),
            Err(TryLockError::WouldBlock) => {
                let holder = lock_holder(&path);
                Err(LockError::Held { path, holder })
            }
        }
    }

    fn sweep(&self) -> io::Result<()> {
        atomic::sweep(self.locks());
        atomic::sweep(&self.locks().join(NOTICES));
        let registered = self.registry().map(|registry| registry.entries()).transpose()?;
        let mut open = self.list(Folder::Open)?;
        open.extend(registered.into_iter().flatten().filter_map(|path| id_of(&path)));
        for path in paths(self.locks())? {
            let id = path.file_name().and_then(|name| name.to_str()?.strip_prefix(GUARD));
            if id.is_some_and(|id| !open.iter().any(|open| open == id)) {
                // A leftover file is harmless: no open transaction has this id.
                let _ = std::fs::remove_file(&path);
            }
        }
        Ok(())
    }

    // What begins is registered next to the lock.
    fn is_under_lock(&self, id: &str) -> io::Result<bool> {
        let Some(registry) = self.registry() else { return Ok(true) };
        Ok(registry.entries()?.iter().any(|entry| entry.file_name() == Some(&name_of(id))))
    }

    fn others(&self) -> io::Result<Vec<(PathBuf, Box<dyn Storage>)>> {
        let Some(registry) = self.registry() else { return Ok(Vec::new()) };
        // It may not exist yet.
        let own = self.state.canonicalize().ok();
        let state = |entry: PathBuf| match id_of(&entry) {
            Some(_) => entry.ancestors().nth(2).map(Path::to_owned),
            // Of an earlier version.
            None => Some(entry),
        };
        let entries = registry.entries().map_err(|error| naming(registry.file(), &error))?;
        let mut others: Vec<PathBuf> = entries.into_iter().filter_map(state).collect();
        others.retain(|state| Some(state) != own.as_ref());
        others.sort();
        others.dedup();
        let with_disk = |state: PathBuf| (state.clone(), Box::new(Self::new(state)) as Box<dyn Storage>);
        Ok(others.into_iter().map(with_disk).collect())
    }

    fn missing(&self) -> io::Result<Vec<(String, PathBuf)>> {
        let Some(registry) = self.registry() else { return Ok(Vec::new()) };
        match registry.entries() {
            // A user who may not read the registry cannot change the machine.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::ACCESS) => Ok(Vec::new()),
            entries => self.unseen(entries.map_err(|error| naming(registry.file(), &error))?),
        }
    }

    fn forget_missing(&self, id: &str) -> io::Result<bool> {
        match self.registry() {
            Some(registry) if self.unseen(registry.entries()?)?.iter().any(|(unseen, _)| unseen == id) => {
                registry.remove(&name_of(id))
            }
            _ => Ok(false),
        }
    }

    fn stand_guard(&self, id: &str) -> io::Result<Lock> {
        let mut options = OpenOptions::new();
        let file = private::open(&self.guard(id), options.write(true).create(true).truncate(false))?;
        // A command that looks has it locked for a moment. Another guard has it for as long as it runs, and shows itself.
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Lock::new(file)),
                Err(TryLockError::WouldBlock) if begun.elapsed() < SHOWING => std::thread::sleep(RETRY),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn has_guard(&self, id: &str) -> io::Result<Option<bool>> {
        let file = if_there(private::open(&self.guard(id), OpenOptions::new().read(true)))?;
        // The lock goes with the file.
        file.map(|file| match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        })
        .transpose()
    }

    // Next to the lock, if the disk of the journal takes none.
    fn leave_notice(&self, id: &str, text: &[u8]) -> io::Result<()> {
        let leave = |directory: &Path| {
            claim_directory(directory)?;
            atomic::replace(&directory.join(id), text, Some(private::FILE))
        };
        leave(&self.notices()).or_else(|error| match &self.run {
            Some(run) => leave(&run.join(NOTICES)),
            None => Err(error),
        })
    }

    fn take_notices(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut paths = paths(&self.notices()).unwrap_or_default();
        if let Some(run) = &self.run {
            // Other journals share that directory.
            let is_ours = |path: &PathBuf| {
                let id = path.file_name().and_then(|name| name.to_str());
                id.is_some_and(|id| {
                    [Folder::Open, Folder::Archive].iter().any(|at| self.path(*at, id).exists())
                })
            };
            paths.extend(self::paths(&run.join(NOTICES)).unwrap_or_default().into_iter().filter(is_ours));
        }
        paths.sort_by(|one, other| one.file_name().cmp(&other.file_name()));
        // The process that removes a file has taken it.
        let take =
            |path: &PathBuf| private::read(path).and_then(|text| std::fs::remove_file(path).map(|()| text));
        Ok(paths.iter().filter_map(|path| take(path).ok()).collect())
    }

    fn path(&self, folder: Folder, id: &str) -> PathBuf {
        self.folder(folder).join(name_of(id))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::Path;

    use super::{Disk, Folder, Lock, LockError, Storage};
    use rxlab_sys::ProcessId;

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

    /// A change whose guard was killed once looked as if it would go back.
    #[test]
    fn a_guard_shows_itself_until_it_ends() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let disk = Disk::new(state.path());
        let _lock = disk.lock().expect("free");
        disk.create("1").expect("new");
        let has_guard = || disk.has_guard("1").expect("known");
        assert_eq!(has_guard(), None, "of an earlier version");
        let guard = disk.stand_guard("1").expect("shown");
        assert_eq!([has_guard(), has_guard()], [Some(true); 2]);
        drop(guard);
        assert_eq!([has_guard(), has_guard()], [Some(false); 2]);
        disk.archive("1").expect("moved");
        assert_eq!(has_guard(), None);
    }

    /// Another process that had the file once kept a guard, and the command that waited for it, from going on.
    #[test]
    fn a_second_guard_does_not_wait_for_the_first() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let disk = Disk::new(state.path());
        let first = disk.stand_guard("1").expect("shown");
        let error = disk.stand_guard("1").expect_err("another one shows itself");
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        assert_eq!(disk.has_guard("1").expect("known"), Some(true));
        drop(first);
        disk.stand_guard("1").expect("shown");
    }

    /// Files of guards whose applier was killed, and drafts, once stayed until the next boot.
    #[test]
    fn what_killed_processes_left_next_to_the_lock_is_removed() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let run = folder.path().join("run");
        let [disk, other] =
            ["state", "other"].map(|state| Disk::of_this_machine(folder.path().join(state), &run));
        let _lock = disk.lock().expect("free");
        disk.create("1").expect("new");
        other.create("2").expect("new");
        for id in ["1", "2", "3"] {
            drop(disk.stand_guard(id).expect("shown"));
        }
        std::fs::write(run.join(".rxlab-0123.part"), "draft").expect("written");
        disk.sweep().expect("swept");
        let mut left: Vec<_> =
            std::fs::read_dir(&run).expect("listed").map(|e| e.expect("listed").file_name()).collect();
        left.sort();
        assert_eq!(left, ["guard-1", "guard-2", "journals", "lock"]);
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
    fn a_notice_is_left_although_the_disk_is_full() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let [state, run] = ["state", "run"].map(|name| folder.path().join(name));
        let disk = Disk::of_this_machine(&state, &run);
        let _lock = disk.lock().expect("free");
        disk.create("1").expect("new");
        std::fs::write(state.join("journal/notices"), "no directory").expect("written");
        disk.leave_notice("1", b"first").expect("left");
        let other = Disk::of_this_machine(folder.path().join("other"), &run);
        assert_eq!(other.take_notices().expect("taken"), [b""; 0]);
        assert_eq!(disk.take_notices().expect("taken"), [b"first"]);
        assert_eq!(disk.take_notices().expect("taken"), [b""; 0]);
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
    fn the_lock_has_one_holder_which_the_kernel_names() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let disk = Disk::new(state.path());
        let lock = disk.lock().expect("free");
        // What the file says could be anyone's.
        std::fs::write(state.path().join("lock"), "1 0\n").expect("written");
        match disk.lock() {
            Err(LockError::Held { holder, .. }) => assert_eq!(holder, ProcessId::own()),
            other => panic!("{other:?}"),
        }
        drop(lock);
        disk.lock().expect("free again");
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().expect("there").mode() & 0o7777
    }

    /// Any user could once hold the lock: flock(2) needs no more than to open the file.
    #[test]
    fn only_the_owner_can_open_the_files() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let (state, run) = (folder.path().join("state"), folder.path().join("run"));
        let disk = Disk::of_this_machine(&state, &run);
        let _lock = disk.lock().expect("free");
        disk.create("1").expect("new");
        disk.leave_notice("1", b"x").expect("left");
        for directory in [&state, &run, &state.join("journal"), &state.join("journal/archive")] {
            assert_eq!(mode(directory), 0o700, "{}", directory.display());
        }
        for file in
            [run.join("lock"), run.join("journals"), disk.path(Folder::Open, "1"), disk.notices().join("1")]
        {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
        // Files of an earlier version, which left the rest to the umask.
        std::fs::set_permissions(run.join("lock"), Permissions::from_mode(0o644)).expect("set");
        std::fs::set_permissions(state.join("journal"), Permissions::from_mode(0o755)).expect("set");
        assert!(disk.lock().is_err(), "held");
        disk.create("2").expect("new");
        assert_eq!((mode(&run.join("lock")), mode(&state.join("journal"))), (0o600, 0o700));
    }

    #[test]
    fn a_journal_that_others_can_write_to_is_not_read() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let disk = Disk::new(state.path());
        let _lock = disk.lock().expect("free");
        disk.create("1").expect("new");
        std::fs::set_permissions(disk.path(Folder::Open, "1"), Permissions::from_mode(0o666)).expect("set");
        for error in [disk.read(Folder::Open, "1").map(drop), disk.append("1", b"x")] {
            let error = error.expect_err("exposed").to_string();
            assert!(error.starts_with("its mode 666 lets other users write to it"), "{error}");
        }
    }

    /// A file system that was unmounted once counted as an empty journal.
    #[test]
    fn an_open_transaction_out_of_sight_is_missing() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let (state, run) = (folder.path().join("state"), folder.path().join("run"));
        let disk = Disk::of_this_machine(&state, &run);
        let other = Disk::of_this_machine(folder.path().join("other"), &run);
        disk.create("1").expect_err("no directory for the registry");
        let _lock = disk.lock().expect("free");
        disk.create("2").expect("new");
        let missing =
            |disk: &Disk| disk.missing().expect("read").into_iter().map(|(id, _)| id).collect::<Vec<_>>();
        assert_eq!((missing(&disk), missing(&other)), (vec![], vec![]));
        let others: Vec<_> = other.others().expect("read").into_iter().map(|(state, _)| state).collect();
        assert_eq!(others, [state.canonicalize().expect("there")]);
        let away = folder.path().join("away");
        std::fs::rename(&state, &away).expect("renamed");
        assert_eq!((missing(&disk), missing(&other)), (vec!["2".to_owned()], vec!["2".to_owned()]));
        // Used from its new place.
        let moved = Disk::of_this_machine(&away, &run);
        assert_eq!(missing(&moved), [""; 0]);
        assert!(!moved.forget_missing("2").expect("read"), "it is not missing");
        moved.archive("2").expect("moved");
        assert_eq!(missing(&disk), [""; 0]);
        moved.create("3").expect("new");
        std::fs::rename(&away, &state).expect("renamed");
        assert_eq!(missing(&other), ["3"]);
        assert!(other.forget_missing("3").expect("read"));
        assert_eq!(missing(&other), [""; 0]);
    }
}
