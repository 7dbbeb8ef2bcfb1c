//! All transactions of one state directory: begin, find, resume, archive.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::log::Journal;
use super::memory::Memory;
use super::notice::Notice;
use super::record::{Begin, Record};
use super::recover::{Damage, History};
use super::storage::{Folder, Lock, LockError, Storage};
use super::unreadable::{Unread, Unreadable};
use rxlab_base::atomic::if_there;
use rxlab_base::error::Kind;

/// Interval between attempts to take the lock.
const RETRY: Duration = Duration::from_millis(20);

/// A journal operation failed.
#[derive(Debug, Error)]
pub enum JournalError {
    #[error("cannot {verb} the journal {}: {error}", path.display())]
    Io {
        /// The failed operation, as a verb.
        verb: &'static str,
        path: PathBuf,
        error: io::Error,
    },
    /// Another process is changing the machine, or the lock cannot be taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// An invalid line that no crash can have caused.
    #[error("the journal {} is damaged at line {line}", path.display())]
    Damaged {
        path: PathBuf,
        /// The first wrong line.
        line: usize,
    },
    /// A later version wrote records not understood here: only that version knows what else there is
    /// to undo.
    #[error("a later version of rxlab wrote to the journal {}: undo with that version", path.display())]
    LaterVersion { path: PathBuf },
    /// What [`Storage::others`] and [`Storage::missing`] read; the error names the file.
    #[error("cannot tell which transactions of this machine are open: {0}")]
    Registry(io::Error),
    #[error("the journal of transaction {id} is missing: {}", path.display())]
    Missing { id: String, path: PathBuf },
    #[error("no open transaction `{id}`{}", open_list(open))]
    Unknown {
        /// The id asked for.
        id: String,
        /// Ids of the open transactions.
        open: Vec<String>,
    },
}

/// Order of transactions: the counter of an id as a number, for it gets longer after 999999. A file of another name comes
/// last.
pub(super) fn age(id: &str) -> (u64, &str) {
    let counter = id.split('-').next().and_then(|counter| counter.parse().ok());
    (counter.unwrap_or(u64::MAX), id)
}

fn open_list(open: &[String]) -> String {
    if open.is_empty() { " (none open)".to_owned() } else { format!(" (open: {})", open.join(", ")) }
}

impl JournalError {
    /// Exit code class of the error.
    pub fn kind(&self) -> Kind {
        match self {
            JournalError::Lock(LockError::Untrusted { .. }) => Kind::Denied,
            JournalError::Io { error, .. } | JournalError::Lock(LockError::Io { error, .. }) => {
                Kind::of_own_file(error)
            }
            JournalError::Unknown { .. } => Kind::Usage,
            JournalError::Missing { .. } => Kind::Changed,
            _ => Kind::Failed,
        }
    }
}

/// A transaction that was archived because nothing in it can be undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Archived {
    /// It belongs to an earlier boot: its values went with it.
    OtherBoot(String),
    /// It never began, or was already closed when a process was killed.
    Leftover(String),
}

/// The open transactions of one boot of a machine.
#[derive(Debug, Default)]
pub struct Open {
    /// Those that can be undone, oldest first.
    pub transactions: Vec<(String, History)>,
    /// Files that cannot be read completely, oldest first. One with single records of a later version is among both.
    pub unreadable: Vec<Unreadable>,
}

/// A transaction, open or archived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub id: String,
    /// False if the transaction is archived.
    pub is_open: bool,
    /// History in its file, or the reason why it cannot be read.
    pub history: Result<History, Unread>,
}

/// The transactions of one state directory.
#[derive(Clone)]
pub struct Store {
    storage: Arc<dyn Storage>,
}

impl Store {
    /// The transactions in `storage`. Touches nothing.
    pub fn new(storage: impl Storage + 'static) -> Self {
        Self { storage: Arc::new(storage) }
    }

    /// An in-memory copy of the open transactions: changes to it never reach a disk.
    pub fn rehearsal(&self) -> Result<Self, JournalError> {
        let mut copy = Memory::without(self.missing()?);
        for id in self.open_ids()? {
            let path = self.path(&id);
            match self.storage.read(Folder::Open, &id) {
                Ok(bytes) if History::parse(&bytes).is_err_and(|damage| self.is_lost(&id, &damage)) => {}
                Ok(bytes) => copy.add(id, path, bytes),
                Err(error) => copy.add_unreadable(id, path, error),
            }
        }
        Ok(Self::new(copy))
    }

    /// Every transaction, open or archived, oldest first.
    pub fn all(&self) -> Result<Vec<Entry>, JournalError> {
        let mut all = Vec::new();
        for (folder, is_open) in [(Folder::Open, true), (Folder::Archive, false)] {
            for id in self.ids(folder)? {
                let read = self.storage.read(folder, &id).map(|bytes| History::parse(&bytes));
                let history = match read {
                    Ok(Ok(history)) => Ok(history),
                    Ok(Err(damage)) => Err(Unread::Damaged(damage.line)),
                    Err(error) => Err(Unread::Other(error.to_string())),
                };
                all.push(Entry { id, is_open, history });
            }
        }
        all.sort_by(|one, other| age(&one.id).cmp(&age(&other.id)));
        Ok(all)
    }

    /// Takes the lock; retries until `patience` is over while another process has it.
    pub fn lock(&self, patience: Duration) -> Result<Lock, JournalError> {
        let mut left = patience;
        loop {
            match self.storage.lock() {
                Err(LockError::Held { .. }) if !left.is_zero() => {
                    self.storage.pause(RETRY.min(left));
                    left = left.saturating_sub(RETRY);
                }
                other => return Ok(other?),
            }
        }
    }

    /// True if the lock is known to be the one under which an open transaction began. Another run directory has another lock.
    pub fn is_under_lock(&self, id: &str) -> bool {
        self.storage.is_under_lock(id).unwrap_or(false)
    }

    /// Ids of unarchived transactions, oldest first.
    pub fn open_ids(&self) -> Result<Vec<String>, JournalError> {
        self.ids(Folder::Open)
    }

    /// The id that `text` means: an id or the unique beginning of one.
    pub fn find(&self, text: &str) -> Result<String, JournalError> {
        let open = self.open_ids()?;
        let mut matching = open.iter().filter(|id| id.starts_with(text));
        match (matching.next(), matching.next()) {
            (Some(id), None) if !text.is_empty() => Ok(id.clone()),
            _ if open.iter().any(|id| id == text) => Ok(text.to_owned()),
            (None, _) if let Some((id, path)) = self.missing()?.into_iter().find(|(id, _)| id == text) => {
                Err(JournalError::Missing { id, path })
            }
            _ => Err(JournalError::Unknown { id: text.to_owned(), open }),
        }
    }

    /// The file of an open transaction, for messages.
    pub fn path(&self, id: &str) -> PathBuf {
        self.storage.path(Folder::Open, id)
    }

    /// True if a transaction is archived.
    pub fn is_archived(&self, id: &str) -> bool {
        self.storage.read(Folder::Archive, id).is_ok()
    }

    /// Other journals that have changed the machine since boot, with their state directories.
    pub fn others(&self) -> Result<Vec<(PathBuf, Store)>, JournalError> {
        let others = self.storage.others().map_err(JournalError::Registry)?;
        Ok(others.into_iter().map(|(state, other)| (state, Store { storage: other.into() })).collect())
    }

    /// Open transactions of the machine, of any journal, whose files are not there.
    fn missing(&self) -> Result<Vec<(String, PathBuf)>, JournalError> {
        self.storage.missing().map_err(JournalError::Registry)
    }

    /// True if the transaction may be open without its file: nothing says that it has ended.
    pub fn may_be_missing(&self, id: &str) -> bool {
        self.missing().map_or(true, |missing| missing.iter().any(|(missing, _)| missing == id))
    }

    /// True if nothing is open here, and no open transaction of the machine is missing.
    pub fn is_empty(&self) -> Result<bool, JournalError> {
        Ok(self.open_ids()?.is_empty() && self.missing()?.is_empty())
    }

    /// History of an open transaction; `None` if it is not open.
    pub fn load(&self, id: &str) -> Result<Option<History>, JournalError> {
        let damaged = |damage: Damage| JournalError::Damaged { path: self.path(id), line: damage.line };
        self.parse(id)?.transpose().map_err(damaged)
    }

    fn parse(&self, id: &str) -> Result<Option<Result<History, Damage>>, JournalError> {
        let bytes = if_there(self.storage.read(Folder::Open, id));
        Ok(bytes.map_err(|error| self.error("read", id, error))?.map(|bytes| History::parse(&bytes)))
    }

    /// All open transactions of this boot of the machine below `root`. One that never began is excluded; an
    /// unreadable one is included, unless its first line names another root or boot, and one that is missing, even of
    /// another journal.
    pub fn open(&self, root: &str, boot_id: &str) -> Result<Open, JournalError> {
        self.open_among(self.open_ids()?, root, boot_id)
    }

    /// [`Store::open`] without `id`, which is known to be open: an error if it is not listed. A temporarily
    /// unreadable directory looks empty.
    pub fn open_besides(&self, id: &str, root: &str, boot_id: &str) -> Result<Open, JournalError> {
        let mut ids = self.open_ids()?;
        let own = ids.iter().position(|open| open == id);
        ids.remove(own.ok_or_else(|| self.error("list", id, io::ErrorKind::NotFound.into()))?);
        self.open_among(ids, root, boot_id)
    }

    fn open_among(&self, ids: Vec<String>, root: &str, boot_id: &str) -> Result<Open, JournalError> {
        let mut open = Open::default();
        for id in ids {
            let is_ours = |begin: &Begin| begin.root == root && !begin.is_of_other_boot(boot_id);
            let path = self.storage.path(Folder::Open, &id);
            let (readable, why) = match self.parse(&id) {
                Ok(None) if self.is_archived(&id) => continue,
                Ok(None) => (None, Unread::Missing),
                Ok(Some(Ok(history))) if history.is_closed() || !history.begin().is_some_and(is_ours) => {
                    continue;
                }
                Ok(Some(Ok(history))) => {
                    let is_understood = history.is_readable() && !history.has_unknown();
                    if history.is_readable() {
                        open.transactions.push((id.clone(), history.clone()));
                    }
                    if is_understood {
                        continue;
                    }
                    (Some(history), Unread::LaterVersion)
                }
                Ok(Some(Err(damage))) if self.is_lost(&id, &damage) => continue,
                Ok(Some(Err(damage))) if damage.readable.begin().is_none_or(is_ours) => {
                    (Some(damage.readable), Unread::Damaged(damage.line))
                }
                Ok(Some(Err(_))) => continue,
                Err(JournalError::Io { error, .. }) => (None, Unread::Other(error.to_string())),
                Err(error) => return Err(error),
            };
            open.unreadable.push(Unreadable { id, path, why, readable });
        }
        open.unreadable.extend(self.missing()?.into_iter().map(|(id, path)| Unreadable {
            id,
            path,
            why: Unread::Missing,
            readable: None,
        }));
        Ok(open)
    }

    /// True for a file in which nothing can be read and that is not known to be of this boot: those are registered, but for an earlier
    /// version's and another run directory's.
    fn is_lost(&self, id: &str, damage: &Damage) -> bool {
        damage.readable.records.is_empty() && matches!(self.storage.is_under_lock(id), Ok(false))
    }

    /// [`Store::open`] without unreadable ones.
    pub fn open_of(&self, root: &str, boot_id: &str) -> Result<Vec<(String, History)>, JournalError> {
        Ok(self.open(root, boot_id)?.transactions)
    }

    /// Archives a transaction unchanged: nothing in it will be undone. Should be called only if the user asks
    /// for it.
    pub fn forget(&self, _lock: &Lock, id: &str) -> Result<(), JournalError> {
        if self.storage.forget_missing(id).map_err(|error| self.error("give up", id, error))? {
            return Ok(());
        }
        self.storage.archive(id).map_err(|error| self.error("archive", id, error))
    }

    /// Shows other processes that this one guards a transaction, until the lock is dropped or the process ends.
    pub fn stand_guard(&self, id: &str) -> io::Result<Lock> {
        self.storage.stand_guard(id)
    }

    /// True if the guard of a transaction has ended. False also if that is not known, as with an earlier version's.
    pub fn has_lost_guard(&self, id: &str) -> bool {
        matches!(self.storage.has_guard(id), Ok(Some(false)))
    }

    /// Leaves a notice for the next command.
    pub fn leave_notice(&self, notice: &Notice) -> io::Result<()> {
        self.storage.leave_notice(&notice.id, &serde_json::to_vec(notice)?)
    }

    /// Takes the notices left by guards, each for one caller only. A notice that cannot be read or removed
    /// is skipped.
    pub fn take_notices(&self) -> Vec<Notice> {
        let taken = self.storage.take_notices().unwrap_or_default();
        taken.iter().filter_map(|text| serde_json::from_slice(text).ok()).collect()
    }

    /// Starts a transaction: its first line is on disk when this returns. Replaces the id of `begin`.
    ///
    /// The caller should [`Store::sweep`] first, under the same lock.
    pub fn begin(&self, lock: Lock, begin: Begin) -> Result<Journal, JournalError> {
        let id = self.next_id(&begin)?;
        self.storage.create(&id).map_err(|error| self.error("create", &id, error))?;
        let mut journal = Journal::new(self.storage.clone(), id.clone(), History::default(), false, lock);
        journal.append(Record::Begin(Begin { id, ..begin }))?;
        journal.sync()?;
        Ok(journal)
    }

    /// Resumes an open transaction; a torn last line is cut off first.
    pub fn resume(&self, lock: Lock, id: &str) -> Result<Journal, JournalError> {
        let history =
            self.load(id)?.ok_or_else(|| JournalError::Unknown { id: id.to_owned(), open: Vec::new() })?;
        // A read-only file system must not prevent restoring the machine.
        let torn = self.storage.truncate(id, history.valid_bytes).is_err();
        let journal = Journal::new(self.storage.clone(), id.to_owned(), history, torn, lock);
        // Cutting released the reserved space. Undo works without it if necessary.
        let _ = journal.set_aside(0);
        Ok(journal)
    }

    /// Archives everything that has nothing to undo: transactions below `root` of another boot
    /// than `boot_id`, closed ones, and files without a first line. Damaged ones stay, unless they are known to be of another
    /// boot.
    pub fn sweep(&self, _lock: &Lock, root: &str, boot_id: &str) -> Result<Vec<Archived>, JournalError> {
        // Nothing depends on it.
        let _ = self.storage.sweep();
        let mut archived = Vec::new();
        for id in self.open_ids()? {
            let Ok(Some(parsed)) = self.parse(&id) else { continue };
            let is_lost = parsed.as_ref().is_err_and(|damage| self.is_lost(&id, damage));
            let damaged = parsed.is_err() && !is_lost;
            let history = parsed.unwrap_or_else(|damage| damage.readable);
            let why = match history.begin() {
                Some(begin) if begin.root == root && begin.is_of_other_boot(boot_id) => {
                    Archived::OtherBoot(id)
                }
                _ if damaged => continue,
                Some(_) if !history.is_closed() => continue,
                _ => Archived::Leftover(id),
            };
            let (Archived::OtherBoot(id) | Archived::Leftover(id)) = &why;
            // Files that cannot be archived, on a read-only file system, are skipped everywhere.
            if self.storage.archive(id).is_ok() {
                archived.push(why);
            }
        }
        Ok(archived)
    }

    /// A sortable counter, and four digits that distinguish the journals of two machines, and two of one machine that begin in the
    /// same second: guards and entries of the registry are found by the id alone.
    fn next_id(&self, begin: &Begin) -> Result<String, JournalError> {
        let mut last = 0u64;
        for folder in [Folder::Open, Folder::Archive] {
            let counters = self.ids(folder)?;
            let counters = counters.iter().filter_map(|id| id.split('-').next()?.parse::<u64>().ok());
            last = counters.fold(last, u64::max);
        }
        let place = self.storage.path(Folder::Open, "");
        let begun = format!("{}{}{}", begin.boot_id, begin.started, place.display());
        let sum = crc32fast::hash(begun.as_bytes());
        Ok(format!("{:06}-{:04x}", last.saturating_add(1), sum & 0xffff))
    }

    fn ids(&self, folder: Folder) -> Result<Vec<String>, JournalError> {
        let mut ids = self.storage.list(folder).map_err(|error| {
            let path = self.storage.path(folder, "");
            JournalError::Io { verb: "list", path: path.parent().unwrap_or(&path).to_owned(), error }
        })?;
        ids.sort_by(|one, other| age(one).cmp(&age(other)));
        Ok(ids)
    }

    fn error(&self, verb: &'static str, id: &str, error: io::Error) -> JournalError {
        JournalError::Io { verb, path: self.storage.path(Folder::Open, id), error }
    }
}

#[cfg(any(test, feature = "testing"))]
impl Store {
    /// A journal in a temporary directory, which goes with the first value.
    pub fn scratch() -> (tempfile::TempDir, Self) {
        let state = tempfile::tempdir().expect("a temporary directory");
        let store = Self::new(super::Disk::new(state.path()));
        (state, store)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::{Archived, Begin, Record, Store};
    use crate::journal::{Disk, Intent, Storage, Unread};

    /// A damaged file of a past boot once blocked every command until it was
    /// moved away by hand.
    #[test]
    fn damage_of_another_boot_blocks_nothing() {
        let (state, store) = Store::scratch();
        let id = begin(&store, "a");
        let disk = Disk::new(state.path());
        disk.append(&id, b"what is this\nand this\n").expect("appended");
        let open = store.open("/", "a").expect("listed");
        assert_eq!((open.transactions, &open.unreadable[0].why), (vec![], &Unread::Damaged(2)));
        assert_eq!(store.open_of("/", "b").expect("not of this boot"), []);
        assert_eq!(store.open_of("/other", "a").expect("not of this root"), []);
        assert_eq!(sweep(&store, "a"), []);
        assert_eq!(sweep(&store, "b"), [Archived::OtherBoot(id)]);
    }

    /// A power failure leaves zeros instead of a first line, and the list of open ones is empty after it. The file once waited for a
    /// user, and nothing could begin.
    #[test]
    fn a_lost_first_line_of_an_earlier_boot_blocks_nothing() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let in_boot = |boot: &str| {
            let [state, run] = ["state", boot].map(|name| directory.path().join(name));
            Disk::of_this_machine(state, run)
        };
        let disk = in_boot("a");
        let store = Store::new(disk.clone());
        // Makes the directories.
        assert_eq!(sweep(&store, "a"), []);
        disk.create("000001-0000").expect("created");
        disk.append("000001-0000", &[0; 40]).expect("appended");
        assert_eq!(sweep(&store, "a"), []);
        assert!(store.open("/", "a").expect("listed").unreadable[0].may_wait());
        let later = Store::new(in_boot("b"));
        assert_eq!(later.open("/", "b").expect("listed").unreadable, []);
        assert_eq!(later.rehearsal().expect("copied").open_ids().expect("listed"), [""; 0]);
        let intent = Record::Intent(Intent::sample("rps", "eth0", "0", "1"));
        disk.create("000002-0000").expect("created");
        disk.append("000002-0000", &[b"what is this\n", &intent.to_line()[..]].concat()).expect("appended");
        assert_eq!(
            later.open("/", "b").expect("listed").unreadable.len(),
            1,
            "it may be an earlier version's, of this boot"
        );
        assert_eq!(sweep(&later, "b"), [Archived::Leftover("000001-0000".to_owned())]);
    }

    /// Sorted as text, the millionth transaction came before all of six digits: undo began with an older one.
    #[test]
    fn the_millionth_transaction_is_the_newest() {
        let (state, store) = Store::scratch();
        let disk = Disk::new(state.path());
        disk.create("999999-ffff").expect("created");
        let newest = begin(&store, "a");
        assert!(newest.starts_with("1000000-"), "{newest}");
        let ids = ["1000000-", "1000001-"].map(|start| {
            let id = if newest.starts_with(start) { newest.clone() } else { begin(&store, "a") };
            assert!(id.starts_with(start), "{id}");
            id
        });
        assert_eq!(store.open_ids().expect("listed"), ["999999-ffff", &ids[0], &ids[1]]);
        let all = store.all().expect("listed");
        assert_eq!(all.iter().map(|entry| &entry.id).collect::<Vec<_>>(), ["999999-ffff", &ids[0], &ids[1]]);
    }

    fn sweep(store: &Store, boot_id: &str) -> Vec<Archived> {
        store.sweep(&store.lock(Duration::ZERO).expect("free"), "/", boot_id).expect("swept")
    }

    fn begin(store: &Store, boot_id: &str) -> String {
        let lock = store.lock(Duration::ZERO).expect("free");
        let begin = Begin { boot_id: boot_id.into(), ..Begin::sample() };
        store.begin(lock, begin).expect("begun").id().to_owned()
    }

    /// The file is out of sight, and so is the list that tells whether the transaction is open. The guard once took it for ended.
    #[test]
    fn an_unreadable_list_ends_no_transaction() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let (state, run) = (folder.path().join("state"), folder.path().join("run"));
        let store = Store::new(Disk::of_this_machine(&state, &run));
        let id = begin(&store, "a");
        rustix::fs::rename(&state, folder.path().join("away")).expect("renamed");
        let allow = |mode| {
            std::fs::set_permissions(run.join("journals"), Permissions::from_mode(mode)).expect("allowed");
        };
        assert!(store.may_be_missing(&id) && !store.may_be_missing("other"));
        allow(0o666);
        assert!(store.may_be_missing(&id) && store.may_be_missing("other"));
        allow(0o600);
        let lock = store.lock(Duration::ZERO).expect("free");
        store.forget(&lock, &id).expect("given up");
        assert!(!store.may_be_missing(&id));
    }

    /// An unreadable boot id once assigned every open transaction to another boot, never to be undone.
    #[test]
    fn only_a_known_other_boot_is_archived() {
        let (_state, store) = Store::scratch();
        let (named, nameless) = (begin(&store, "a"), begin(&store, ""));
        assert_eq!(sweep(&store, ""), []);
        assert_eq!(store.open_of("/", "").expect("listed").len(), 2);
        assert_eq!(sweep(&store, "b"), [Archived::OtherBoot(named)]);
        let open = store.open_of("/", "b").expect("listed");
        assert_eq!(open.iter().map(|(id, _)| id).collect::<Vec<_>>(), [&nameless]);
    }
}
