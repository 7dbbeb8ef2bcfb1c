//! Files of the ring in a directory: `STATE/record/`. Only its owner may read them, because they hold what root sees of
//! all processes.

#![allow(clippy::disallowed_methods)] // The ring is kept in files.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use thiserror::Error;

use rxlab_base::atomic::{self, if_there};
use rxlab_base::private;
use rxlab_change::journal::{make_private_directory, sync_directory};

/// Keeps the files of a ring. Errors are those of the file system. Only the one recorder that holds the lock may
/// change files; readers must expect them to grow and to go away meanwhile.
pub trait Storage: Send {
    /// Names and sizes of the files; empty before the first recording.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;
    /// The first `limit` bytes of a file.
    fn read(&self, name: &str, limit: u64) -> io::Result<Vec<u8>>;
    /// Appends to a file, which is created if it does not exist, and waits until the bytes are on disk.
    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// Cuts a file to `length` bytes.
    fn truncate(&mut self, name: &str, length: u64) -> io::Result<()>;
    /// Creates or replaces a file. Must be atomic: after a crash the old or the new one is there.
    fn replace(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;
    fn remove(&mut self, name: &str) -> io::Result<()>;
    /// Creates a file that takes `bytes` on disk, or leaves none. Removing it frees them.
    fn set_aside(&mut self, name: &str, bytes: u64) -> io::Result<()>;
}

#[derive(Debug)]
pub struct Disk {
    directory: PathBuf,
    // Held as long as this lives.
    lock: Option<File>,
}

// As for the journal's lock: a child just forked by another thread has the file open too.
impl Drop for Disk {
    fn drop(&mut self) {
        // Never fails for a locked file.
        let _ = self.lock.as_ref().map(File::unlock);
    }
}

/// The recorder's lock cannot be taken.
#[derive(Debug, Error)]
pub enum Locked {
    #[error("another recorder{} writes to {}", pid.as_ref().map(|pid| format!(" (process {pid})")).unwrap_or_default(), directory.display())]
    Held {
        /// Its process, if it said so.
        pid: Option<u32>,
        /// The directory of the ring.
        directory: PathBuf,
    },
    /// The directory or the lock cannot be created.
    #[error("cannot write to {}: {error}", directory.display())]
    Io {
        /// The directory of the ring.
        directory: PathBuf,
        error: io::Error,
    },
}

impl Disk {
    /// The ring below a state directory, for reading. Touches nothing.
    pub fn for_reading(state: &Path) -> Self {
        Self { directory: state.join("record"), lock: None }
    }

    /// The same for writing: creates the directory, and locks it until this is dropped.
    pub fn for_writing(state: &Path) -> Result<Self, Locked> {
        let directory = state.join("record");
        let failed = |error| Locked::Io { directory: directory.clone(), error };
        make_private_directory(&directory).map_err(failed)?;
        // Whoever may write there could put other files in place of these.
        for path in [state, &directory] {
            if let Some(why) = path.metadata().map(|about| private::exposure(&about)).map_err(failed)? {
                return Err(Locked::Io { directory: path.to_owned(), error: io::Error::other(why) });
            }
        }
        let mut options = Self::options();
        let lock = options.read(true).write(true).truncate(false).open(directory.join("lock"));
        let mut lock = lock.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let pid = lock.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Err(Locked::Held { pid, directory });
            }
        }
        lock.set_len(0).map_err(failed)?;
        writeln!(lock, "{}", std::process::id()).map_err(failed)?;
        atomic::sweep(&directory);
        Ok(Self { directory, lock: Some(lock) })
    }

    /// Links at the names of the ring are not followed.
    fn options() -> OpenOptions {
        let mut options = OpenOptions::new();
        options.create(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        options
    }
}

impl Storage for Disk {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut files = Vec::new();
        for entry in if_there(std::fs::read_dir(&self.directory))?.into_iter().flatten() {
            let entry = entry?;
            // Removed meanwhile.
            let Ok(about) = entry.metadata() else { continue };
            // Opening a FIFO would wait for its other end.
            if about.is_file() {
                files.extend(entry.file_name().into_string().ok().map(|name| (name, about.len())));
            }
        }
        files.sort();
        Ok(files)
    }

    fn read(&self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.directory.join(name))?.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.directory.join(name);
        let is_new = !path.exists();
        let mut file = Self::options().append(true).open(path)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        if is_new { sync_directory(&self.directory) } else { Ok(()) }
    }

    fn truncate(&mut self, name: &str, length: u64) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.directory.join(name))?.set_len(length)
    }

    fn replace(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        atomic::replace(&self.directory.join(name), bytes, Some(0o600))?;
        sync_directory(&self.directory)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.directory.join(name))
    }

    fn set_aside(&mut self, name: &str, bytes: u64) -> io::Result<()> {
        let path = self.directory.join(name);
        let file = Self::options().write(true).open(&path)?;
        let allocated = fallocate(&file, FallocateFlags::empty(), 0, bytes);
        allocated.map_err(|errno| {
            // Part of it may have been allocated.
            let _ = std::fs::remove_file(&path);
            errno.into()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::{Disk, Locked, Storage};

    #[test]
    fn the_lock_is_free_although_a_new_process_has_its_file_open() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let disk = Disk::for_writing(state.path()).expect("locked");
        let _inherited = disk.lock.as_ref().expect("for writing").try_clone().expect("copied");
        assert!(matches!(Disk::for_writing(state.path()), Err(Locked::Held { .. })));
        drop(disk);
        assert!(Disk::for_writing(state.path()).is_ok());
    }

    /// The ring has what only root may read, such as the environment of irqbalance.
    #[test]
    fn only_its_owner_can_read_the_ring() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let mut disk = Disk::for_writing(state.path()).expect("locked");
        disk.append("1.log", b"x").and_then(|()| disk.replace("1.packed", b"x")).expect("written");
        let mode = |name: &str| {
            let path = state.path().join(name);
            path.metadata().expect("there").permissions().mode() & 0o777
        };
        assert_eq!(mode("record"), 0o700);
        assert_eq!(["lock", "1.log", "1.packed"].map(|name| mode(&format!("record/{name}"))), [0o600; 3]);
    }

    #[test]
    fn nothing_is_recorded_where_others_can_replace_files() {
        let state = tempfile::tempdir().expect("a temporary directory");
        drop(Disk::for_writing(state.path()).expect("locked"));
        for path in [state.path().join("record"), state.path().to_owned()] {
            let closed = path.metadata().expect("there").permissions();
            std::fs::set_permissions(&path, Permissions::from_mode(0o777)).expect("opened");
            let why = Disk::for_writing(state.path()).expect_err("refused").to_string();
            assert!(why.ends_with("its mode 777 lets other users write to it"), "{why}");
            std::fs::set_permissions(&path, closed).expect("closed");
        }
        Disk::for_writing(state.path()).expect("locked");
    }
}
