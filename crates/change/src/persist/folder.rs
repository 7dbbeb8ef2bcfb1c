//! Files below the configuration directory: all installed, or none; removed unless edited.

#![allow(clippy::disallowed_methods)] // Configuration is kept in files.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use thiserror::Error;

use super::seal::is_ours;
use crate::journal::{make_directory, sync_directory};
use rxlab_base::atomic::{Draft, directory, if_there, sweep};
use rxlab_base::error::Kind;

/// An installed item; its path is below the configuration directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Installed {
    /// A file whose first line seals the rest.
    File { path: String, text: String },
    Link {
        path: String,
        /// The target as stored.
        target: String,
    },
}

impl Installed {
    fn path(&self) -> &str {
        let (Installed::File { path, .. } | Installed::Link { path, .. }) = self;
        path
    }
}

/// The link by which systemd starts the unit `unit` with `target`.
pub(super) fn wanted_by(target: &str, unit: &str) -> Installed {
    Installed::Link { path: format!("systemd/system/{target}.wants/{unit}"), target: format!("../{unit}") }
}

/// Paths and contents, for snapshots.
#[cfg(test)]
pub(super) fn shown(all: &[Installed]) -> String {
    let one = |installed: &Installed| match installed {
        Installed::File { path, text } => format!("== {path}\n{text}"),
        Installed::Link { path, target } => format!("== {path} -> {target}\n"),
    };
    all.iter().map(one).collect()
}

/// An installation or removal failed.
#[derive(Debug, Error)]
pub enum PersistError {
    #[error("cannot {verb} {}: {error}", path.display())]
    Io { verb: &'static str, path: PathBuf, error: io::Error },
    /// Not created by rxlab, or edited.
    #[error("{} was edited or is not from rxlab: nothing was {done}", path.display())]
    Foreign {
        path: PathBuf,
        /// The operation that was skipped.
        done: &'static str,
    },
}

impl PersistError {
    /// Exit code class of the error.
    pub fn kind(&self) -> Kind {
        match self {
            PersistError::Foreign { .. } => Kind::Changed,
            PersistError::Io { error, .. } => Kind::of_own_file(error),
        }
    }
}

fn failed(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PersistError {
    move |error| PersistError::Io { verb, path: path.to_owned(), error }
}

/// State of a path.
#[derive(Debug, PartialEq, Eq)]
enum There {
    Nothing,
    /// A file with the expected contents.
    Same,
    /// An earlier version of ours.
    Ours,
    Foreign,
}

/// Result for one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Written {
    pub path: PathBuf,
    /// `false`: it was already up to date.
    pub changed: bool,
}

#[derive(Debug)]
pub struct Folder {
    etc: PathBuf,
}

impl Folder {
    /// Below `etc`. Touches nothing.
    pub fn new(etc: impl Into<PathBuf>) -> Self {
        Self { etc: etc.into() }
    }

    fn there(&self, installed: &Installed) -> Result<There, PersistError> {
        let path = self.etc.join(installed.path());
        let about = if_there(path.symlink_metadata()).map_err(failed("read", &path))?;
        let Some(about) = about else { return Ok(There::Nothing) };
        Ok(match installed {
            Installed::File { text, .. } if about.is_file() => {
                let bytes = std::fs::read(&path).map_err(failed("read", &path))?;
                match bytes {
                    bytes if bytes == text.as_bytes() => There::Same,
                    bytes if is_ours(&bytes) => There::Ours,
                    _ => There::Foreign,
                }
            }
            Installed::Link { target, .. } if about.is_symlink() => {
                let stored = std::fs::read_link(&path).map_err(failed("read", &path))?;
                if stored == Path::new(target) { There::Same } else { There::Foreign }
            }
            _ => There::Foreign,
        })
    }

    /// State of each path, or an error if one is not ours.
    fn survey<'i>(
        &self,
        all: &'i [Installed],
        done: &'static str,
    ) -> Result<Vec<(&'i Installed, There)>, PersistError> {
        let mut found = Vec::new();
        for installed in all {
            match self.there(installed)? {
                There::Foreign => {
                    return Err(PersistError::Foreign { path: self.etc.join(installed.path()), done });
                }
                there => found.push((installed, there)),
            }
        }
        Ok(found)
    }

    /// The result that [`Folder::install`] would have. Writes nothing.
    pub fn preview(&self, all: &[Installed]) -> Result<Vec<Written>, PersistError> {
        Ok(self.written(self.survey(all, "installed")?))
    }

    fn written(&self, found: Vec<(&Installed, There)>) -> Vec<Written> {
        let written = |(installed, there): (&Installed, There)| Written {
            path: self.etc.join(installed.path()),
            changed: there != There::Same,
        };
        found.into_iter().map(written).collect()
    }

    /// Installs everything in order. All is on disk before the first name changes, so a full
    /// disk changes nothing; a crash leaves the first few, and another install or removal continues.
    pub fn install(&self, all: &[Installed]) -> Result<Vec<Written>, PersistError> {
        let found = self.survey(all, "installed")?;
        for (installed, _) in &found {
            // Left by a killed installation.
            sweep(directory(&self.etc.join(installed.path())));
        }
        let mut drafts = Vec::new();
        for (installed, there) in &found {
            let path = self.etc.join(installed.path());
            if *there != There::Same {
                let draft = draft(installed, &path).map_err(failed("write", &path))?;
                drafts.push((draft, path));
            }
        }
        for (draft, path) in drafts {
            let put = draft.put_in_place().and_then(|()| sync_directory(directory(&path)));
            put.map_err(failed("write", &path))?;
        }
        Ok(self.written(found))
    }

    /// The paths that [`Folder::remove`] would return. Removes nothing.
    pub fn preview_removal(&self, all: &[Installed]) -> Result<Vec<PathBuf>, PersistError> {
        let found = self.survey(all, "removed")?.into_iter().rev();
        let there = found.filter(|(_, there)| *there != There::Nothing);
        Ok(there.map(|(installed, _)| self.etc.join(installed.path())).collect())
    }

    /// Removes what [`Folder::install`] created, last first; nothing if one of the files was
    /// edited. `all` gives the paths; the texts do not matter. Returns the removed paths.
    pub fn remove(&self, all: &[Installed]) -> Result<Vec<PathBuf>, PersistError> {
        let found = self.survey(all, "removed")?;
        let mut removed = Vec::new();
        for (installed, there) in found.into_iter().rev() {
            let path = self.etc.join(installed.path());
            // Left by a killed installation.
            sweep(directory(&path));
            if there != There::Nothing {
                std::fs::remove_file(&path).map_err(failed("remove", &path))?;
                if let Some(directory) = path.parent() {
                    sync_directory(directory).map_err(failed("sync", directory))?;
                    // Only empty ones are removed: the plan's own, and that of the link as systemctl(1) does.
                    let wants = ["multi-user.target.wants", "timers.target.wants"];
                    if directory.ends_with("rxlab") || wants.iter().any(|wants| directory.ends_with(wants)) {
                        let _ = std::fs::remove_dir(directory);
                    }
                }
                removed.push(path);
            }
        }
        Ok(removed)
    }
}

/// Creates the item for `path`, on disk and not yet under its name.
fn draft(installed: &Installed, path: &Path) -> io::Result<Draft> {
    make_directory(directory(path))?;
    match installed {
        Installed::File { text, .. } => {
            let (draft, mut file) = Draft::file(path, Some(0o644))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            Ok(draft)
        }
        Installed::Link { target, .. } => Draft::link(path, target),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};

    use super::{Folder, Installed, PersistError};
    use crate::persist::seal::sealed;
    use rxlab_base::error::Kind;

    fn all(text: &str) -> Vec<Installed> {
        let file = |path: &str| Installed::File { path: path.to_owned(), text: sealed(text) };
        let path = "multi-user.target.wants/a.service".to_owned();
        vec![
            file("rxlab/plan"),
            file("a.service"),
            Installed::Link { path, target: "../a.service".to_owned() },
        ]
    }

    /// Every name below a directory with the file's contents.
    fn tree(folder: &Path) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(folder).expect("listed") {
            let path = entry.expect("listed").path();
            if path.is_dir() {
                found.extend(tree(&path));
            } else {
                let link = std::fs::read_link(&path).map(|target| target.display().to_string());
                found.insert(
                    path.clone(),
                    link.unwrap_or_else(|_| std::fs::read_to_string(&path).expect("text")),
                );
            }
        }
        found
    }

    #[test]
    fn what_is_installed_is_removed() {
        let etc = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(etc.path().join("hosts"), "x").expect("written");
        let folder = Folder::new(etc.path());
        let changed =
            |text: &str| folder.install(&all(text)).expect("installed").iter().filter(|w| w.changed).count();
        assert_eq!((changed("one\n"), changed("one\n"), changed("two\n")), (3, 0, 2));
        assert_eq!(tree(etc.path())[&etc.path().join("rxlab/plan")], sealed("two\n"));
        // Left by a killed process.
        std::fs::write(etc.path().join(".rxlab-0123456789abcdef.part"), "x").expect("written");
        let before = tree(etc.path());
        let previewed = folder.preview_removal(&all("")).expect("previewed");
        assert_eq!(tree(etc.path()), before);
        assert_eq!(folder.remove(&all("")).expect("removed"), previewed);
        assert_eq!(previewed.len(), 3);
        assert_eq!(tree(etc.path()).into_keys().collect::<Vec<_>>(), [etc.path().join("hosts")]);
        assert!(!etc.path().join("rxlab").exists() && !etc.path().join("multi-user.target.wants").exists());
        assert_eq!(folder.remove(&all("")).expect("nothing to do"), [""; 0].map(PathBuf::from));
    }

    #[test]
    fn what_is_not_ours_stays_with_all_the_rest() {
        let etc = tempfile::tempdir().expect("a temporary directory");
        let folder = Folder::new(etc.path());
        folder.install(&all("one\n")).expect("installed");
        let service = etc.path().join("a.service");
        std::fs::write(&service, format!("{}edited\n", sealed("one\n"))).expect("written");
        let before = tree(etc.path());
        let refused = [
            folder.install(&all("two\n")).err(),
            folder.preview_removal(&all("")).err(),
            folder.remove(&all("")).err(),
        ];
        for error in refused {
            let error = error.expect("refused");
            assert_eq!(error.kind(), Kind::Changed);
            assert!(
                error.to_string().contains("a.service was edited or is not from rxlab: nothing was "),
                "{error}"
            );
        }
        assert_eq!(tree(etc.path()), before);
        // A link that points elsewhere is not ours either, nor is a directory.
        std::fs::remove_file(&service).expect("removed");
        std::fs::create_dir(&service).expect("made");
        assert!(matches!(folder.remove(&all("")), Err(PersistError::Foreign { .. })));
    }

    /// The third file cannot be written: its directory is a file.
    #[test]
    fn all_or_nothing() {
        let etc = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(etc.path().join("multi-user.target.wants"), "x").expect("written");
        let error = Folder::new(etc.path()).install(&all("one\n")).expect_err("refused");
        assert!(!error.to_string().contains('\n'));
        let names: Vec<PathBuf> = tree(etc.path()).into_keys().collect();
        assert_eq!(names, [etc.path().join("multi-user.target.wants")]);
    }
}
