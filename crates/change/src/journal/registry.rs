//! Files of the open transactions of this machine, in whatever state directory: `RUN/journals`, a list of
//! NUL-terminated paths. It is empty after a boot, as are the values. An entry without its file is a journal that is
//! out of sight, such as on a file system that is not mounted.
//!
//! Earlier versions listed state directories; those entries are kept and understood.

#![allow(clippy::disallowed_methods)] // A file of the journal.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rxlab_base::atomic::{self, if_there};
use rxlab_base::private;

#[derive(Debug)]
pub(super) struct Registry {
    file: PathBuf,
}

impl Registry {
    /// The registry in a directory of the machine's lock.
    pub(super) fn new(run: &Path) -> Self {
        Self { file: run.join("journals") }
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    pub(super) fn entries(&self) -> io::Result<Vec<PathBuf>> {
        let bytes = if_there(private::read(&self.file))?.unwrap_or_default();
        let paths = bytes.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        Ok(paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect())
    }

    /// The caller must hold the lock, here and below.
    pub(super) fn add(&self, entry: PathBuf) -> io::Result<()> {
        let mut all = self.entries()?;
        all.push(entry);
        self.replace(&all)
    }

    /// Removes the entries of a file name, which is unique on a machine: a state directory may have been renamed.
    /// Returns whether there were any.
    pub(super) fn remove(&self, name: &OsStr) -> io::Result<bool> {
        let all = self.entries()?;
        let (gone, rest): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|entry| entry.file_name() == Some(name));
        if gone.is_empty() {
            return Ok(false);
        }
        self.replace(&rest).map(|()| true)
    }

    fn replace(&self, entries: &[PathBuf]) -> io::Result<()> {
        let bytes: Vec<u8> =
            entries.iter().flat_map(|entry| [entry.as_os_str().as_bytes(), b"\0"].concat()).collect();
        atomic::replace(&self.file, &bytes, Some(private::FILE))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::Registry;

    #[test]
    fn entries_come_and_go() {
        let run = tempfile::tempdir().expect("a temporary directory");
        let registry = Registry::new(run.path());
        assert_eq!(registry.entries().expect("no file is no entries"), [""; 0].map(PathBuf::from));
        for path in ["/a/journal/1.jsonl", "/b/journal/2.jsonl", "/c/journal/1.jsonl"] {
            registry.add(path.into()).expect("added");
        }
        assert!(registry.remove("1.jsonl".as_ref()).expect("removed"), "a renamed directory");
        assert!(!registry.remove("1.jsonl".as_ref()).expect("nothing to remove"));
        assert_eq!(registry.entries().expect("read"), [PathBuf::from("/b/journal/2.jsonl")]);
    }
}
