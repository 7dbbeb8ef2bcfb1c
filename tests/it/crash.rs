//! The process is killed at every operation of an apply and of an undo that finds other files than the operation
//! before it, on the machine or in the journal: a killed process leaves nothing but files, so it makes no difference
//! before which of several reads it dies. The next process restores what is left, each time.
//!
//! The work for one group of knobs is quadratic in its settings: each operation is reached by all that precede it.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use rxlab_change::apply::{Failure, Kept, Transaction};
use rxlab_change::journal::{Disk, FlakyStorage, Folder, Storage, Store, Trouble};
use rxlab_path::sample::Scope;
use rxlab_setting::Setting;
use rxlab_sys::{Failpoint, Fault, FlakyHost, Host, LiveHost, Rule};

use crate::driver::Driver;
use crate::observed::Observed;
use crate::require;
use crate::settings::{everything, groups, setting};
use crate::tree::{Tree, begin, look, model};

const DIRECTORY: &str = "RXLAB_TEST_CRASH_DIRECTORY";
const AT: &str = "RXLAB_TEST_CRASH_AT";
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const WORK: &str = "RXLAB_TEST_CRASH_WORK";
const GROUP: &str = "RXLAB_TEST_CRASH_GROUP";
/// The setting that a kernel drops silently, and its file.
const DROPPED: (&str, &str) = ("rps veth0/rx-0 = 2", "veth0/queues/rx-0/rps_cpus");

fn apply(
    settings: &[Setting],
    store: &Store,
    host: &dyn Host,
    root: &Path,
) -> Result<Vec<Kept>, Option<Box<Failure>>> {
    let transaction = begin(store, root, &model().identity).map_err(|_| None)?;
    transaction.apply(host, &model(), settings, &AtomicBool::new(false)).map_err(Some)
}

fn driven(tree: &Tree) -> Driver<LiveHost> {
    Driver::new(tree.host(), &tree.root())
}

/// As `rxlab undo`: archive, find, undo the newest first.
fn undo(store: &Store, host: &dyn Host, directory: &Path) {
    let lock = store.lock(Duration::ZERO).expect("a dead process holds no lock");
    let root = directory.to_string_lossy();
    store.sweep(&lock, &root, "boot-1").expect("swept");
    drop(lock);
    for (id, _) in store.open_of(&root, "boot-1").expect("never damaged").iter().rev() {
        let transaction = Transaction::resume(store, id, Duration::ZERO).expect("resumed");
        // Reading the receive path is not an operation of the program under test.
        let current = look(&LiveHost::open(directory).expect("opened"), Scope::Path);
        let undo = transaction.undo(host, &current);
        assert!(undo.journal_error.is_none(), "{:?}", undo.journal_error);
    }
}

/// Work of a child before it is killed.
#[derive(Clone, Copy, Debug)]
enum Work {
    Apply,
    /// Applies on a kernel that drops CPUs silently, and so restores everything.
    ApplyDropped,
    /// Undoes what was applied.
    Undo,
    /// The same on a disk that is full by then, after another program has set a value of a queue that will be
    /// removed.
    UndoFull,
}

impl Work {
    /// The settings of a group for this work.
    fn settings(self, group: usize) -> Vec<Setting> {
        let mut settings = groups().swap_remove(group);
        if let Work::ApplyDropped = self {
            // The last one, so that every other one is restored.
            let dropped = setting(DROPPED.0);
            settings.retain(|setting| *setting != dropped);
            settings.push(dropped);
        }
        settings
    }

    fn run(self, settings: &[Setting], tree: &Path, fuse: Arc<Failpoint>) {
        let root = tree.join("root");
        let full = Trouble { at: 1, errno: ENOSPC, holds: true };
        let trouble = matches!(self, Work::UndoFull).then_some(full);
        let storage = FlakyStorage::new(Disk::new(tree.join("state")), fuse.clone(), trouble);
        let rules = match self {
            Work::ApplyDropped => {
                vec![Rule { suffix: DROPPED.1.into(), fault: Fault::Keep(b"0".into()) }]
            }
            _ => Vec::new(),
        };
        let host = FlakyHost::new(LiveHost::open(&root).expect("opened"), rules, fuse);
        let host = Driver::new(host, &root);
        let store = Store::new(storage);
        match self {
            Work::Undo | Work::UndoFull => undo(&store, &host, &root),
            Work::Apply => assert!(apply(settings, &store, &host, &root).is_ok(), "nothing goes wrong"),
            Work::ApplyDropped => assert!(apply(settings, &store, &host, &root).is_err(), "CPU 2 is dropped"),
        }
    }

    /// Sets up the machine on which it begins.
    fn prepare(self, settings: &[Setting], tree: &Tree) {
        tree.write("sys/class/net/eth0/queues/rx-1/rps_cpus", "08\n");
        tree.write("sys/class/net/eth0/queues/tx-1/xps_cpus", "06\n");
        if let Work::Undo | Work::UndoFull = self {
            assert!(apply(settings, &tree.store(), &driven(tree), &tree.root()).is_ok());
        }
        if let Work::UndoFull = self {
            tree.write("sys/class/net/eth0/queues/rx-1/rps_cpus", "02\n");
        }
    }

    /// The values that undo has to restore.
    fn original(self) -> BTreeMap<String, String> {
        let tree = Tree::new();
        Work::Apply.prepare(&[], &tree);
        let mut values = tree.values();
        if let Work::UndoFull = self {
            values.insert("rps eth0/rx-1".to_owned(), "1".to_owned());
        }
        values
    }
}

/// Ends this process at once.
pub(crate) fn die() {
    kill_process(getpid(), Signal::KILL).expect("a process may kill itself");
    unreachable!("SIGKILL is not survived");
}

/// Not a test: the process that is killed. Does nothing without its environment variable.
#[test]
fn child() {
    let (Some(tree), Ok(at), Ok(work), Ok(group)) =
        (std::env::var_os(DIRECTORY), std::env::var(AT), std::env::var(WORK), std::env::var(GROUP))
    else {
        return;
    };
    let all = [Work::Apply, Work::ApplyDropped, Work::Undo, Work::UndoFull];
    let work = all.into_iter().find(|one| format!("{one:?}") == work).expect("its name");
    let settings = work.settings(group.parse().expect("a number"));
    work.run(&settings, tree.as_ref(), Failpoint::new(Some(at.parse().expect("a number")), die));
    panic!("the fuse has not blown");
}

fn kill_everywhere(work: Work) {
    require::needs!(minutes);
    let original = work.original();
    (0..groups().len()).for_each(|group| kill_everywhere_in(group, work, &original));
}

fn kill_everywhere_in(group: usize, work: Work, original: &BTreeMap<String, String>) {
    let settings = work.settings(group);
    let counted = Tree::new();
    work.prepare(&settings, &counted);
    let changes = Arc::new(Mutex::new((Vec::new(), None)));
    let fuse = Failpoint::each({
        let (directory, changes) = (counted.path().to_owned(), changes.clone());
        move |at| {
            let (points, last) = &mut *changes.lock().expect("one thread");
            let found = Some(files_below(&directory));
            if *last != found {
                points.push(at);
                *last = found;
            }
        }
    });
    work.run(&settings, counted.path(), fuse.clone());
    let (operations, points) = (fuse.count(), &changes.lock().expect("one thread").0);
    assert!(operations > 40, "only {operations} operations seen: the fuse itself is broken");
    assert!(points.len() > 3 * settings.len(), "each setting is recorded, set and done: {points:?}");
    for at in points {
        let tree = Tree::new();
        work.prepare(&settings, &tree);
        let status = Command::new(std::env::current_exe().expect("this test has a file"))
            .args(["--exact", "crash::child", "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, tree.path())
            .env(AT, at.to_string())
            .env(WORK, format!("{work:?}"))
            .env(GROUP, group.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("the child runs");
        assert_eq!(status.signal(), Some(9), "{work:?} {group}: not killed at operation {at}: {status}");
        let store = tree.store();
        undo(&store, &driven(&tree), &tree.root());
        assert_eq!(tree.values(), *original, "{work:?} {group}: killed at operation {at} of {operations}");
        assert_eq!(
            store.open_ids().expect("listed"),
            [""; 0],
            "{work:?} {group}: {at}: the journal is clean"
        );
    }
    println!("{work:?} {group}: {operations} operations, killed and recovered at {}", points.len());
}

/// What a killed process leaves: the entries below a directory with inode and blocks, and what is in files and links.
fn files_below(directory: &Path) -> BTreeMap<PathBuf, (u64, u64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory).expect("listed").map(|entry| entry.expect("listed")) {
            let (path, about) = (entry.path(), entry.metadata().expect("known"));
            let content = if about.is_dir() {
                left.push(path.clone());
                Vec::new()
            } else if about.is_symlink() {
                std::fs::read_link(&path).expect("read").into_os_string().into_vec()
            } else {
                std::fs::read(&path).expect("read")
            };
            found.insert(path, (about.ino(), about.blocks(), content));
        }
    }
    found
}

#[test]
fn killed_at_every_operation_of_an_apply() {
    kill_everywhere(Work::Apply);
}

#[test]
fn killed_at_every_operation_of_an_apply_that_fails_and_restores() {
    kill_everywhere(Work::ApplyDropped);
}

#[test]
fn killed_at_every_operation_of_an_undo() {
    kill_everywhere(Work::Undo);
}

/// Foreign values are recorded before they are lost. A disk that was full by then once refused the record: the next
/// undo found the queues in their initial state and stopped there.
#[test]
fn killed_at_every_operation_of_an_undo_on_a_full_disk() {
    kill_everywhere(Work::UndoFull);
}

/// The disk fills up before any operation that needs space: what was set is restored at once without writing another
/// line, and the journal is valid once there is room again.
#[test]
fn a_full_or_read_only_disk_at_every_operation() {
    require::needs!(minutes);
    let original = Tree::new().values();
    for settings in groups() {
        let points = apply_on_disk(&settings, &original, None);
        for (disk, errno) in [("full", ENOSPC), ("read-only", EROFS)] {
            for at in points.iter().copied() {
                apply_on_disk(&settings, &original, Some(Trouble { at, errno, holds: false }));
            }
            println!("{disk} disk: failed and recovered at {} operations", points.len());
        }
    }
}

#[test]
fn every_setting_is_applied_and_undone_on_a_good_disk() {
    apply_on_disk(&everything(), &Tree::new().values(), None);
}

/// Applies and undoes these settings, and returns the operations of the apply that needed space.
fn apply_on_disk(
    settings: &[Setting],
    original: &BTreeMap<String, String>,
    trouble: Option<Trouble>,
) -> Vec<u64> {
    let tree = Tree::new();
    let fuse = Failpoint::new(None, || ());
    let storage = FlakyStorage::new(Disk::new(tree.state()), fuse.clone(), trouble);
    let needed = storage.needed_space();
    let host = Driver::new(FlakyHost::new(tree.host(), Vec::new(), fuse), &tree.root());
    let result = apply(settings, &Store::new(storage), &host, &tree.root());
    let after = tree.values();
    match trouble {
        None => assert!(result.is_ok() && after != *original, "nothing goes wrong"),
        Some(_) => {
            assert!(result.is_err(), "{trouble:?}");
            assert_eq!(after, *original, "{trouble:?}: restored at once");
        }
    }
    let points = needed.lock().expect("one thread").clone();
    assert!(points.len() > 2 * settings.len() || trouble.is_some(), "each setting is recorded and done");
    undo(&tree.store(), &driven(&tree), &tree.root());
    assert_eq!(tree.values(), *original, "{trouble:?}");
    assert_eq!(tree.store().open_ids().expect("listed"), [""; 0], "{trouble:?}");
    points
}

/// The intent is in the journal and synced before the file changes, as seen from inside the write.
#[test]
fn the_old_value_is_synced_before_the_write() {
    let tree = Tree::new();
    let storage = FlakyStorage::new(Disk::new(tree.state()), Failpoint::new(None, || ()), None);
    let synced = storage.synced();
    let journal = Disk::new(tree.state());
    let before = |path: &str| {
        assert!(synced.load(Ordering::SeqCst), "{path} is written before the journal is synced");
        let id = &journal.list(Folder::Open).expect("listed")[0];
        let text = String::from_utf8(journal.read(Folder::Open, id).expect("readable")).expect("text");
        let last = text.lines().last().expect("a line");
        assert!(last.contains("\"record\":\"intent\""), "{path}: {last}");
    };
    let host = Driver::new(Observed { inner: tree.host(), before }, &tree.root());
    let kept = apply(&everything(), &Store::new(storage), &host, &tree.root()).expect("applied");
    assert!(kept.iter().all(|kept| kept.changed));
}

/// As in a trial: one value flipped many times within one transaction, then restored.
#[test]
fn hundreds_of_flips_are_one_undo() {
    let tree = Tree::new();
    tree.write("sys/class/net/eth0/queues/rx-0/rps_cpus", "01\n");
    let original = tree.values();
    let (host, mut transaction) = (tree.host(), tree.begin());
    let (rps, irqs) = (setting("rps eth0/rx-0 = 2-3"), setting("irq_affinity eth0/rx-1 = 2"));
    for _ in 0..100 {
        for setting in [&rps, &irqs] {
            assert!(transaction.set(&host, &mut model(), setting).expect("set").changed);
            let back =
                transaction.set_back(&host, &mut model(), &setting.knob, &setting.target).expect("set back");
            assert!(back.changed);
        }
        assert_eq!(tree.values(), original, "also the two interrupts that differ");
    }
    transaction.set(&host, &mut model(), &rps).expect("set");
    let undo = transaction.undo(&host, &model());
    assert!(undo.is_clean() && undo.closed);
    assert_eq!(undo.outcomes.len(), 2, "one for each target");
    assert_eq!(tree.values(), original);
}
