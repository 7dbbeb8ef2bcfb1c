//! Atomic file writes: each file is created under a temporary name in the same directory, synced, and
//! renamed. A full disk or a crash leaves the old file or the new one, and links planted by other users at
//! either name are never followed.
//!
//! File locations and contents are decided elsewhere.

#![allow(clippy::disallowed_methods)] // Writes files.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Prefix of draft names: systemd and udev ignore such files.
const PREFIX: &str = ".rxlab-";
const SUFFIX: &str = ".part";

/// Attempts to find a free name. Names are random: a taken one was guessed by someone.
const ATTEMPTS: u32 = 16;

/// A file or link under a temporary name, removed unless it is moved into place.
#[derive(Debug)]
pub struct Draft {
    draft: PathBuf,
    path: PathBuf,
    in_place: bool,
}

impl Draft {
    /// Creates a file, open for writing, in the directory of `path`. Without a `mode` it gets that of our
    /// own file which it will replace, else the umask default.
    pub fn file(path: &Path, mode: Option<u32>) -> io::Result<(Self, File)> {
        let replaced = replaceable(path)?.filter(|about| about.uid() == rustix::process::geteuid().as_raw());
        let mode = mode.or(replaced.map(|about| about.mode() & 0o777));
        let (draft, file) = Self::new(path, |draft| {
            // `create_new` is O_EXCL: an existing name is an error, even a dangling link.
            OpenOptions::new().write(true).create_new(true).mode(mode.unwrap_or(0o666)).open(draft)
        })?;
        if let Some(mode) = mode {
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        Ok((draft, file))
    }

    /// Creates a symbolic link in the directory of `path`.
    pub fn link(path: &Path, target: &str) -> io::Result<Self> {
        Ok(Self::new(path, |draft| symlink(target, draft))?.0)
    }

    fn new<T>(path: &Path, create: impl Fn(&Path) -> io::Result<T>) -> io::Result<(Self, T)> {
        let mut attempt = 1;
        loop {
            let number = RandomState::new().hash_one(attempt);
            let draft = path.with_file_name(format!("{PREFIX}{number:016x}{SUFFIX}"));
            match create(&draft) {
                Ok(made) => return Ok((Self { draft, path: path.to_owned(), in_place: false }, made)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < ATTEMPTS => {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Renames it to its final path. The caller must have synced a file first, else a crash may leave an empty one.
    pub fn put_in_place(mut self) -> io::Result<()> {
        std::fs::rename(&self.draft, &self.path)?;
        self.in_place = true;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.in_place {
            // An error is being reported already.
            let _ = std::fs::remove_file(&self.draft);
        }
    }
}

/// Replaces the file at `path`, or creates it, with `bytes`. For `mode` see [`Draft::file`]. Anything but a
/// regular file is an error.
pub fn replace(path: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
    let (draft, mut file) = Draft::file(path, mode)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    draft.put_in_place()
}

/// Creates an empty file at `path` and returns it open for writing. Should be used only for files that grow: the
/// old content is lost at once. Anything but a regular file is an error.
pub fn begin(path: &Path) -> io::Result<File> {
    let (draft, file) = Draft::file(path, None)?;
    draft.put_in_place()?;
    Ok(file)
}

/// Returns an error if [`replace`] would refuse the file at `path`, or could not create one in its directory.
pub fn check(path: &Path) -> io::Result<()> {
    Draft::file(path, None).map(drop)
}

/// The result of an operation on a file; `None` if there is no such file.
pub fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// The regular file at `path`, if there is one.
fn replaceable(path: &Path) -> io::Result<Option<Metadata>> {
    match if_there(path.symlink_metadata())? {
        Some(about) if about.is_symlink() => {
            Err(io::Error::other("it is a symbolic link; name the file it points to"))
        }
        Some(about) if !about.is_file() => Err(io::Error::other("it is not a regular file")),
        file => Ok(file),
    }
}

/// Removes the drafts that killed processes left in `directory`. No other process may write there meanwhile: its
/// draft would be removed too, so the caller must hold the lock of the directory.
pub fn sweep(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX)) {
            // A leftover draft is harmless: nothing reads it.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The parent directory of `path`: `.` for a relative path of one name.
pub fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    use super::{Draft, begin, check, replace, sweep};

    fn mode(path: &Path) -> u32 {
        path.metadata().expect("there").permissions().mode() & 0o777
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("listed");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("listed").file_name().into_string().expect("text")).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_with_its_mode() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("a");
        replace(&path, b"one", Some(0o600)).expect("written");
        replace(&path, b"two", None).expect("written");
        assert_eq!((std::fs::read(&path).expect("there"), mode(&path)), (b"two".to_vec(), 0o600));
        replace(&path, b"three", Some(0o755)).expect("written");
        assert_eq!((std::fs::read(&path).expect("there"), mode(&path)), (b"three".to_vec(), 0o755));
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn a_file_that_grows_is_there_at_once() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("log");
        std::fs::write(&path, "old").expect("written");
        let mut file = begin(&path).expect("made");
        assert_eq!(std::fs::read(&path).expect("there"), b"");
        file.write_all(b"a line").expect("written");
        assert_eq!(std::fs::read(&path).expect("there"), b"a line");
    }

    /// `FILE.part` was once opened and truncated through any link.
    #[test]
    fn planted_links_are_not_followed() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let (victim, path) = (folder.path().join("victim"), folder.path().join("out"));
        std::fs::write(&victim, "secret").expect("written");
        for planted in ["out.part", ".out.part", "out.new"] {
            symlink(&victim, folder.path().join(planted)).expect("linked");
        }
        replace(&path, b"x", None).expect("the path itself is free");
        std::fs::remove_file(&path).expect("removed");
        symlink(&victim, &path).expect("linked");
        for refused in [replace(&path, b"x", None), begin(&path).map(drop), check(&path)] {
            let error = refused.expect_err("a link");
            assert_eq!(error.to_string(), "it is a symbolic link; name the file it points to");
        }
        std::fs::remove_file(&path).expect("removed");
        std::fs::hard_link(&victim, &path).expect("linked");
        replace(&path, b"x", None).expect("only the name is taken");
        assert_eq!(std::fs::read(&victim).expect("there"), b"secret");
        assert_eq!(std::fs::read(&path).expect("there"), b"x");
    }

    /// A user who guesses the draft's name can plant a link there: that is an error and does not reach the
    /// victim.
    #[test]
    fn an_existing_draft_name_is_an_error() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let (victim, taken) = (folder.path().join("victim"), folder.path().join("taken"));
        std::fs::write(&victim, "secret").expect("written");
        symlink(&victim, &taken).expect("linked");
        let open = |_: &Path| std::fs::OpenOptions::new().write(true).create_new(true).open(&taken);
        let error = Draft::new(&folder.path().join("out"), open).expect_err("taken at each attempt");
        assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&victim).expect("there"), b"secret");
    }

    #[test]
    fn only_files_are_replaced_and_nothing_is_left() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("directory");
        std::fs::create_dir(&path).expect("made");
        assert_eq!(replace(&path, b"x", None).expect_err("refused").to_string(), "it is not a regular file");
        let error = replace(&folder.path().join("no/such"), b"x", None).expect_err("refused");
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        drop(Draft::file(&folder.path().join("a"), None).expect("made"));
        assert_eq!(names(folder.path()), ["directory"]);
        let (killed, _file) = Draft::file(&folder.path().join("a"), None).expect("made");
        std::mem::forget(killed);
        assert_eq!(names(folder.path()).len(), 2);
        sweep(folder.path());
        assert_eq!(names(folder.path()), ["directory"]);
    }
}
