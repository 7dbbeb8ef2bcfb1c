//! Trial records on disk: one directory per trial, with the specification and the record as JSON.
//!
//! While a trial runs, each slot is one line appended to `slots.jsonl`: writing the whole record takes longer with each
//! slot, and waits for the disk. Readers get both as one record. When the trial ends, `record.json` has all of it.

#![allow(clippy::disallowed_methods)] // The records' own files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{Access, FlockOperation, access, flock};
use rustix::io::{Errno, retry_on_intr};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use super::blocks::BlocksRecord;
use super::checkpoint::Checkpoint;
use super::record::TrialRecord;
use super::schedule::Scheduled;
use super::spec::Spec;
use rxlab_base::atomic::{if_there, replace};
use rxlab_base::private;
use rxlab_change::journal::claim_directory;

/// Attempts to mark a trial as running, and the time between two.
const LOOKS: usize = 10;
const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug, Clone)]
pub struct TrialDir {
    path: PathBuf,
}

/// A slot that was added to a record.
#[derive(Serialize, Deserialize)]
struct Line<S> {
    /// Its position among the slots.
    at: usize,
    slot: S,
}

/// A record cannot be read or written.
#[derive(Debug, Error)]
pub enum StoreError {
    #[error("no trial `{id}` in {}", trials.display())]
    Unknown {
        /// The id asked for.
        id: String,
        trials: PathBuf,
    },
    #[error("cannot {verb} {}: {error}", path.display())]
    Io { verb: &'static str, path: PathBuf, error: io::Error },
    #[error("trial {id} is running")]
    Running { id: String },
    #[error("{}: schema is `{found}`, this version reads `{}`", path.display(), TrialRecord::SCHEMA)]
    Schema { path: PathBuf, found: String },
    #[error("{}: {error}", path.display())]
    Json { path: PathBuf, error: serde_json::Error },
}

fn cannot(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |error| StoreError::Io { verb, path: path.to_owned(), error }
}

/// Returns an error if no file can be created in a directory.
fn writable(directory: &Path) -> Result<(), StoreError> {
    access(directory, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| cannot("write", directory)(error.into()))
}

/// Creates the directory of all trials below `state`, or closes it to other users.
fn claim(state: &Path) -> Result<PathBuf, StoreError> {
    let trials = state.join("trials");
    claim_directory(&trials).map_err(cannot("write", &trials))?;
    Ok(trials)
}

impl TrialDir {
    /// Creates the directory of all trials below `state`, and returns an error if it takes no new trial.
    pub fn check_state(state: &Path) -> Result<(), StoreError> {
        writable(&claim(state)?)
    }

    /// Returns an error if nothing can be added to the trial.
    pub fn check_writable(&self) -> Result<(), StoreError> {
        writable(&self.path)
    }

    /// Creates the directory of a new trial below `state`, numbered after the last one.
    pub fn create(state: &Path, name: &str) -> Result<Self, StoreError> {
        let trials = claim(state)?;
        let names = fs::read_dir(&trials).map_err(cannot("read", &trials))?;
        let number = |entry: io::Result<fs::DirEntry>| -> Option<u32> {
            entry.ok()?.file_name().to_str()?.split('-').next()?.parse().ok()
        };
        let mut next = names.filter_map(number).max().unwrap_or(0) + 1;
        loop {
            let path = trials.join(format!("{next:04}-{name}"));
            match private::create_directory(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => next += 1,
                Err(error) => return Err(cannot("write", &path)(error)),
            }
        }
    }

    /// The directory of an earlier trial: a path, or an id below `state`.
    pub fn open(state: &Path, id: &str) -> Result<Self, StoreError> {
        let direct = PathBuf::from(id);
        let named = state.join("trials").join(id);
        let path = if id.contains('/') { direct } else { named };
        match fs::metadata(path.join(RECORD)) {
            Ok(_) => Ok(Self { path }),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !id.contains('/') => {
                Err(StoreError::Unknown { id: id.to_owned(), trials: state.join("trials") })
            }
            Err(error) => Err(cannot("read", &path.join(RECORD))(error)),
        }
    }

    /// [`TrialDir::open`] for a command that does what the files say: they name commands, settings and times.
    ///
    /// # Errors
    /// Also if other users can have changed one of them, or one is not a regular file.
    pub fn open_trusted(state: &Path, id: &str) -> Result<Self, StoreError> {
        let dir = Self::open(state, id)?;
        dir.check_trusted()?;
        Ok(dir)
    }

    fn check_trusted(&self) -> Result<(), StoreError> {
        let about = fs::metadata(&self.path).map_err(cannot("read", &self.path))?;
        if let Some(why) = private::exposure(&about) {
            let error = io::Error::new(io::ErrorKind::PermissionDenied, why);
            return Err(cannot("trust", &self.path)(error));
        }
        for name in [RECORD, SLOTS, SPEC, CHECKPOINTS, SCHEDULE] {
            let path = self.path.join(name);
            if_there(private::open(&path, OpenOptions::new().read(true))).map_err(cannot("read", &path))?;
        }
        Ok(())
    }

    /// The trials below `state` that have a record, by number.
    pub fn all(state: &Path) -> Result<Vec<Self>, StoreError> {
        let trials = state.join("trials");
        let entries = if_there(fs::read_dir(&trials)).map_err(cannot("read", &trials))?;
        let mut dirs: Vec<Self> = entries
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(Self { path: entry.ok()?.path() }))
            .filter(|dir| dir.path.join(RECORD).exists())
            .collect();
        dirs.sort_by_key(Self::id);
        Ok(dirs)
    }

    /// Marks the trial as running until the file is dropped, or the process ends.
    ///
    /// # Errors
    /// If another process runs it.
    pub fn hold(&self) -> Result<File, StoreError> {
        let file = File::open(&self.path).map_err(cannot("read", &self.path))?;
        // A process that only looks has it for a moment.
        for _ in 0..LOOKS {
            if self.lock(&file, FlockOperation::NonBlockingLockExclusive)? {
                return Ok(file);
            }
            std::thread::sleep(LOOK);
        }
        Err(StoreError::Running { id: self.id() })
    }

    /// True if a process runs the trial.
    pub fn is_running(&self) -> bool {
        let file = File::open(&self.path).map_err(cannot("read", &self.path));
        file.and_then(|file| self.lock(&file, FlockOperation::NonBlockingLockShared)).is_ok_and(|free| !free)
    }

    /// Returns false if another process has the lock.
    fn lock(&self, file: &File, operation: FlockOperation) -> Result<bool, StoreError> {
        match retry_on_intr(|| flock(file, operation)) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(cannot("lock", &self.path)(error.into())),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The trial's id: the directory name.
    pub fn id(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Replaces the record. The old one stays intact until the new one is complete.
    pub fn save(&self, record: &impl Serialize) -> Result<(), StoreError> {
        self.replace(RECORD, record)?;
        // A kill before this is harmless: the lines say what the record already has.
        let path = self.path.join(SLOTS);
        if_there(fs::remove_file(&path)).map_err(cannot("write", &path))?;
        Ok(())
    }

    /// Adds `slot` to the record that was saved, or replaces the one at the position `at`. A kill keeps it, and a line that
    /// a full disk cut short does not count.
    pub fn append(&self, at: usize, slot: &impl Serialize) -> Result<(), StoreError> {
        let path = self.path.join(SLOTS);
        let mut line = serde_json::to_vec(&Line { at, slot })
            .map_err(|error| StoreError::Json { path: path.clone(), error })?;
        line.push(b'\n');
        let file = private::open(&path, OpenOptions::new().append(true).create(true));
        file.and_then(|mut file| file.write_all(&line)).map_err(cannot("write", &path))
    }

    /// Saves the specification. Must be called before the first slot: a trial is resumed from it.
    pub fn save_spec(&self, spec: &Spec) -> Result<(), StoreError> {
        self.replace(SPEC, spec)
    }

    /// The record so far.
    ///
    /// # Errors
    /// Also for a record of another version: its fields may mean something else.
    pub fn record(&self) -> Result<TrialRecord, StoreError> {
        let schema = self.schema()?;
        if schema != TrialRecord::SCHEMA {
            return Err(StoreError::Schema { path: self.path.join(RECORD), found: schema });
        }
        self.load_record()
    }

    /// The record so far of a trial of several arms in blocks; `None` if it is a trial of pairs.
    pub fn blocks(&self) -> Result<Option<BlocksRecord>, StoreError> {
        if self.schema()? == BlocksRecord::SCHEMA { self.load_record().map(Some) } else { Ok(None) }
    }

    /// Time of the last write of the record, and its length in bytes.
    pub fn modified(&self) -> Result<(SystemTime, u64), StoreError> {
        let of = |name: &str| {
            fs::metadata(self.path.join(name)).and_then(|about| Ok((about.modified()?, about.len())))
        };
        let (time, bytes) = of(RECORD).map_err(cannot("read", &self.path.join(RECORD)))?;
        let slots = if_there(of(SLOTS)).map_err(cannot("read", &self.path.join(SLOTS)))?;
        Ok(slots.map_or((time, bytes), |(later, more)| (time.max(later), bytes + more)))
    }

    fn schema(&self) -> Result<String, StoreError> {
        /// The only field that every version has.
        #[derive(serde::Deserialize)]
        struct Version {
            schema: String,
        }
        self.load(RECORD).map(|Version { schema }| schema)
    }

    /// The specification that it was started with.
    ///
    /// # Errors
    /// Also if other users can change it: it names commands.
    pub fn spec(&self) -> Result<Spec, StoreError> {
        self.check_trusted()?;
        self.load(SPEC)
    }

    /// The checkpoints so far, oldest first.
    pub fn checkpoints(&self) -> Result<Vec<Checkpoint>, StoreError> {
        self.load_or_default(CHECKPOINTS)
    }

    pub fn add_checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        let mut all = self.checkpoints()?;
        all.push(checkpoint.clone());
        self.replace(CHECKPOINTS, &all)
    }

    /// The checkpoints that were scheduled, earliest first.
    pub fn schedule(&self) -> Result<Vec<Scheduled>, StoreError> {
        self.load_or_default(SCHEDULE)
    }

    pub fn save_schedule(&self, all: &[Scheduled]) -> Result<(), StoreError> {
        self.replace(SCHEDULE, &all)
    }

    /// The default if there is no such file.
    fn load_or_default<T: DeserializeOwned + Default>(&self, name: &str) -> Result<T, StoreError> {
        match self.load(name) {
            Err(StoreError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
            loaded => loaded,
        }
    }

    fn replace<T: Serialize>(&self, name: &str, value: &T) -> Result<(), StoreError> {
        let path = self.path.join(name);
        let json = serde_json::to_vec_pretty(value)
            .map_err(|error| StoreError::Json { path: path.clone(), error })?;
        replace(&path, &json, Some(private::FILE)).map_err(cannot("write", &path))
    }

    /// The record with the slots that were appended to it.
    pub(super) fn load_record<T: DeserializeOwned>(&self) -> Result<T, StoreError> {
        let path = self.path.join(SLOTS);
        // Read first: a trial that ends in between moves the slots into the record.
        let lines = if_there(fs::read(&path)).map_err(cannot("read", &path))?.unwrap_or_default();
        let mut record: Value = self.load(RECORD)?;
        let error = |error| StoreError::Json { path: path.clone(), error };
        if let Some(Value::Array(slots)) = record.get_mut("slots") {
            // A last line without an end is being written, or was cut short, also within a character.
            for line in lines.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
                let Line { at, slot } = serde_json::from_slice::<Line<Value>>(line).map_err(error)?;
                match slots.get_mut(at) {
                    Some(known) => *known = slot,
                    None => slots.push(slot),
                }
            }
        }
        serde_json::from_value(record)
            .map_err(|error| StoreError::Json { path: self.path.join(RECORD), error })
    }

    pub(super) fn load<T: DeserializeOwned>(&self, name: &str) -> Result<T, StoreError> {
        let path = self.path.join(name);
        let bytes = fs::read(&path).map_err(cannot("read", &path))?;
        serde_json::from_slice(&bytes).map_err(|error| StoreError::Json { path, error })
    }
}

pub(super) const RECORD: &str = "record.json";
const SLOTS: &str = "slots.jsonl";
const SPEC: &str = "spec.json";
const CHECKPOINTS: &str = "checkpoints.json";
const SCHEDULE: &str = "schedule.json";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::{RECORD, SLOTS, TrialDir, TrialRecord};
    use crate::record::Slot;
    use crate::simulate;
    use rxlab_stats::design::{Arm, Phase};

    #[test]
    fn numbers_go_on_and_records_must_exist() {
        let state = tempfile::tempdir().expect("a temporary directory");
        assert_eq!(TrialDir::create(state.path(), "rps").expect("made").id(), "0001-rps");
        assert_eq!(TrialDir::create(state.path(), "rfs").expect("made").id(), "0002-rfs");
        let error = TrialDir::open(state.path(), "0001-rps").expect_err("no record yet");
        assert!(error.to_string().starts_with("no trial `0001-rps` in "), "{error}");
    }

    #[test]
    fn only_one_process_runs_a_trial() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let trial = TrialDir::create(state.path(), "rps").expect("made");
        assert!(!trial.is_running());
        let held = trial.hold().expect("no process runs it");
        assert!(trial.is_running());
        assert_eq!(trial.hold().expect_err("it runs").to_string(), "trial 0001-rps is running");
        drop(held);
        assert!(!trial.is_running());
        trial.hold().expect("it ended");
    }

    #[test]
    fn what_takes_no_record_is_known_before_a_trial() {
        let state = tempfile::tempdir().expect("a temporary directory");
        TrialDir::check_state(state.path()).expect("writable");
        let trial = TrialDir::create(state.path(), "rps").expect("made");
        trial.check_writable().expect("writable");
        std::fs::remove_dir(trial.path()).expect("removed");
        let error = trial.check_writable().expect_err("gone").to_string();
        assert!(error.contains("/0001-rps: No such file"), "{error}");
        let file = state.path().join("file");
        std::fs::write(&file, "").expect("written");
        let error = TrialDir::check_state(&file).expect_err("not a directory").to_string();
        assert!(error.contains("file/trials: Not a directory"), "{error}");
    }

    /// The record was once rewritten for each slot, which took longer with each.
    #[test]
    fn slots_are_appended_and_read_as_part_of_the_record() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let trial = TrialDir::create(state.path(), "rps").expect("made");
        let slot = |number: usize| {
            let (position, arm) = if number.is_multiple_of(2) { (0, Arm::A) } else { (1, Arm::B) };
            Slot::sample(
                (Phase::Comparison, number / 2, position, arm),
                &[("throughput", 0.1 + number as f64)],
            )
        };
        let of = |slots: &[usize]| TrialRecord {
            slots: slots.iter().map(|number| slot(*number)).collect(),
            ..simulate::record()
        };
        let read = || trial.record().expect("read");
        trial.save(&of(&[0])).expect("saved");
        let (saved, before) = (std::fs::read(trial.path().join(RECORD)).expect("there"), trial.modified());
        for number in 1..4 {
            trial.append(number, &slot(number)).expect("appended");
        }
        assert_eq!(read(), of(&[0, 1, 2, 3]));
        assert_eq!(std::fs::read(trial.path().join(RECORD)).expect("there"), saved, "not written again");
        assert!(trial.modified().expect("there").1 > before.expect("there").1);
        // A slot that is voided later, and lines that a kill left after the whole was saved.
        trial.append(3, &slot(5)).expect("appended");
        assert_eq!(read(), of(&[0, 1, 2, 5]));
        let lines = std::fs::read(trial.path().join(SLOTS)).expect("there");
        trial.save(&of(&[0, 1, 2, 5])).expect("saved");
        assert!(!trial.path().join(SLOTS).exists());
        std::fs::write(trial.path().join(SLOTS), &lines).expect("written");
        assert_eq!(read(), of(&[0, 1, 2, 5]));
        // A full disk cuts the last line short.
        trial.save(&of(&[0])).expect("saved");
        std::fs::write(trial.path().join(SLOTS), &lines[..lines.len() - 7]).expect("written");
        assert_eq!(read(), of(&[0, 1, 2, 3]));
        std::fs::write(trial.path().join(SLOTS), [&lines[..], b"{\"at\": 4, \"\xc3"].concat())
            .expect("written");
        assert_eq!(read(), of(&[0, 1, 2, 5]), "within a character");
        std::fs::write(trial.path().join(SLOTS), b"nonsense\n").expect("written");
        assert!(trial.record().expect_err("damaged").to_string().contains("slots.jsonl: "));
    }

    #[test]
    fn a_record_of_another_version_is_refused() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let trial = TrialDir::create(state.path(), "rps").expect("made");
        let record = TrialRecord { schema: "rxlab.trial/1".to_owned(), ..simulate::record() };
        trial.save(&record).expect("written");
        let error = trial.record().expect_err("an earlier one").to_string();
        assert!(
            error.ends_with("record.json: schema is `rxlab.trial/1`, this version reads `rxlab.trial/3`"),
            "{error}"
        );
    }

    #[test]
    fn a_specification_that_others_can_change_is_refused() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let trial = TrialDir::create(state.path(), "rps").expect("made");
        let path = trial.path().join(super::SPEC);
        let exposed = |path: &std::path::Path| {
            let mode =
                |mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
            let before = path.metadata().expect("there").permissions().mode();
            mode(0o777);
            let error = trial.spec().expect_err("others can change it").to_string();
            mode(before);
            assert!(error.contains("its mode 777 lets other users write to it"), "{error}");
        };
        std::fs::write(&path, "{}").expect("written");
        exposed(&path);
        exposed(trial.path());
    }

    /// Checkpoints and their times were once read without a look at their owner, and a FIFO was waited for.
    #[test]
    fn only_our_own_regular_files_are_acted_on() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let trial = TrialDir::create(state.path(), "rps").expect("made");
        trial.save(&simulate::record()).expect("written");
        let open =
            || TrialDir::open_trusted(state.path(), "0001-rps").map(drop).map_err(|error| error.to_string());
        assert_eq!(open(), Ok(()));
        for name in [RECORD, SLOTS, super::CHECKPOINTS, super::SCHEDULE] {
            let path = trial.path().join(name);
            let before = std::fs::read(&path).unwrap_or_else(|_| b"[]".to_vec());
            std::fs::write(&path, &before).expect("written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).expect("set");
            let error = open().expect_err("others can change it");
            assert!(error.contains(&format!("{name}: its mode 666 lets other users write to it")), "{error}");
            std::fs::remove_file(&path).expect("removed");
            std::os::unix::fs::symlink("/etc/hostname", &path).expect("linked");
            assert!(open().is_err(), "{name} is a link");
            std::fs::remove_file(&path).expect("removed");
            trial
                .replace(name, &serde_json::from_slice::<serde_json::Value>(&before).expect("JSON"))
                .expect("written");
            assert_eq!(open(), Ok(()));
        }
        let fifo = trial.path().join(super::SCHEDULE);
        std::fs::remove_file(&fifo).expect("removed");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).expect("made");
        assert!(open().expect_err("a FIFO").ends_with("schedule.json: it is not a regular file"));
    }

    #[test]
    fn the_directory_of_an_earlier_version_is_closed_to_others() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let trials = state.path().join("trials");
        std::fs::create_dir(&trials).expect("made");
        std::fs::set_permissions(&trials, std::fs::Permissions::from_mode(0o775)).expect("set");
        TrialDir::create(state.path(), "rps").expect("made");
        assert_eq!(trials.metadata().expect("there").permissions().mode() & 0o7777, 0o700);
    }

    /// The temporary file of the record once had this name, and the link was followed.
    #[test]
    fn a_planted_link_is_not_followed() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let victim = state.path().join("victim");
        std::fs::write(&victim, "secret").expect("written");
        let trial = TrialDir::create(state.path(), "rps").expect("made");
        std::os::unix::fs::symlink(&victim, trial.path().join("record.json.new")).expect("linked");
        trial.replace(RECORD, &1).expect("written");
        assert_eq!(std::fs::read_to_string(&victim).expect("there"), "secret");
        assert_eq!(trial.load::<u32>(RECORD).expect("a number"), 1);
    }
}
