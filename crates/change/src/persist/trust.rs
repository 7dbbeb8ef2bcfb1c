//! Paths that only root can change, from `/` down to the file: at boot, root runs and reads nothing else.

#![allow(clippy::disallowed_methods)] // Reads owners, modes and links of paths.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use thiserror::Error;

use rxlab_base::atomic::if_there;

/// Limit of symbolic links that the kernel follows in one path (path_resolution(7)).
const LINKS: u32 = 40;

/// File type bits of the mode.
const KIND: u32 = 0o170_000;
const LINK: u32 = 0o120_000;

/// A directory, link or file that users other than root can change.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("users other than root can change {} (owner {}, mode {:04o})", path.display(), owner(*uid), mode & 0o7777)]
pub struct Exposed {
    pub path: PathBuf,
    /// User ID of its owner.
    pub uid: u32,
    /// Its type and permissions.
    pub mode: u32,
}

impl Exposed {
    /// Returns the command that makes it root's alone; `None` for a directory writable by all by design,
    /// such as `/tmp`.
    pub fn remedy(&self) -> Option<String> {
        let path = self.path.display();
        match self.mode {
            mode if mode & KIND == LINK => Some(format!("chown -h root: {path}")),
            mode if mode & 0o1002 == 0o1002 => None,
            _ => Some(format!("chown root: {path} && chmod go-w {path}")),
        }
    }
}

fn owner(uid: u32) -> String {
    match uid {
        0 => "root".to_owned(),
        uid => format!("uid {uid}"),
    }
}

/// The end of a walk along a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Walked {
    /// The file; only root can change it and its parents.
    Trusted,
    /// A missing name; only root can create it.
    Missing(PathBuf),
    /// An entry that others can change.
    Exposed(Exposed),
}

/// Owner, mode and, for a link, the target of a path, from lstat(2).
#[derive(Debug, Clone)]
struct Entry {
    uid: u32,
    mode: u32,
    target: Option<PathBuf>,
}

/// Walks along the absolute `path` on the machine with root `base`: links resolve below it too.
/// Parents of `base` do not matter to that machine.
pub fn walk(base: &Path, path: &Path) -> io::Result<Walked> {
    let about = base.metadata()?;
    let root = Entry { uid: about.uid(), mode: about.mode(), target: None };
    walk_by(root, base, path, |path| {
        let about = path.symlink_metadata()?;
        let target = about.is_symlink().then(|| std::fs::read_link(path)).transpose()?;
        Ok(Entry { uid: about.uid(), mode: about.mode(), target })
    })
}

fn walk_by(
    root: Entry,
    base: &Path,
    path: &Path,
    lstat: impl Fn(&Path) -> io::Result<Entry>,
) -> io::Result<Walked> {
    if let Some(exposed) = exposed(base, &root) {
        return Ok(Walked::Exposed(exposed));
    }
    // `behind` is resolved and contains no link, `ahead` is unresolved.
    let mut behind: Vec<OsString> = Vec::new();
    let mut ahead: VecDeque<PathBuf> = path.components().map(|part| part.as_os_str().into()).collect();
    let mut links = 0;
    while let Some(next) = ahead.pop_front() {
        let name = match next.components().next() {
            Some(Component::Normal(name)) => name.to_owned(),
            Some(Component::RootDir) => {
                behind.clear();
                continue;
            }
            Some(Component::ParentDir) => {
                behind.pop();
                continue;
            }
            _ => continue,
        };
        let here = base.join(behind.iter().collect::<PathBuf>()).join(&name);
        let Some(entry) = if_there(lstat(&here))? else { return Ok(Walked::Missing(here)) };
        if let Some(exposed) = exposed(&here, &entry) {
            return Ok(Walked::Exposed(exposed));
        }
        let Some(target) = entry.target else {
            behind.push(name);
            continue;
        };
        links += 1;
        if links > LINKS {
            return Err(rustix::io::Errno::LOOP.into());
        }
        for part in target.components().rev() {
            ahead.push_front(part.as_os_str().into());
        }
    }
    Ok(Walked::Trusted)
}

/// A link has no permissions of its own: its owner and its directory decide. An access control list that lets
/// another user write shows in the permissions of the group (acl(5)).
fn exposed(path: &Path, entry: &Entry) -> Option<Exposed> {
    let writable = entry.mode & KIND != LINK && entry.mode & 0o022 != 0;
    (entry.uid != 0 || writable).then(|| Exposed { path: path.to_owned(), uid: entry.uid, mode: entry.mode })
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::{Entry, Walked, walk, walk_by};

    const DIRECTORY: u32 = 0o040_755;

    fn entry(uid: u32, mode: u32, target: Option<&str>) -> Entry {
        Entry { uid, mode, target: target.map(Into::into) }
    }

    /// A machine below `/m`; each line is a path, an owner, a mode and the target of a link.
    fn walked(path: &str) -> Result<String, i32> {
        let entries = [
            ("/m/usr", 0, DIRECTORY, None),
            ("/m/usr/bin", 0, DIRECTORY, None),
            ("/m/usr/bin/rxlab", 0, 0o100_755, None),
            ("/m/usr/bin/group", 0, 0o100_775, None),
            ("/m/usr/bin/theirs", 1000, 0o100_755, None),
            ("/m/usr/bin/setuid", 0, 0o104_755, None),
            ("/m/bin", 0, 0o120_777, Some("usr/bin")),
            ("/m/sbin", 0, 0o120_777, Some("/../usr/./bin/")),
            ("/m/up", 0, 0o120_777, Some("../../bin")),
            ("/m/loop", 0, 0o120_777, Some("/loop")),
            ("/m/planted", 1000, 0o120_777, Some("/usr/bin/rxlab")),
            ("/m/through-home", 0, 0o120_777, Some("home/u/rxlab")),
            ("/m/tmp", 0, 0o041_777, None),
            ("/m/tmp/rxlab", 0, 0o100_755, None),
            ("/m/home", 0, DIRECTORY, None),
            ("/m/home/u", 1000, DIRECTORY, None),
            ("/m/home/u/rxlab", 0, 0o100_755, None),
        ];
        let lstat = |path: &Path| {
            let found = entries.iter().find(|(name, ..)| Path::new(name) == path);
            let (_, uid, mode, target) = found.ok_or(io::ErrorKind::NotFound)?;
            Ok(entry(*uid, *mode, *target))
        };
        match walk_by(entry(0, DIRECTORY, None), "/m".as_ref(), path.as_ref(), lstat) {
            Ok(Walked::Trusted) => Ok("trusted".to_owned()),
            Ok(Walked::Missing(path)) => Ok(format!("missing {}", path.display())),
            Ok(Walked::Exposed(exposed)) => Ok(exposed.to_string()),
            Err(error) => Err(error.raw_os_error().expect("an error of the system")),
        }
    }

    fn can_change(path: &str, owner: &str, mode: &str) -> Result<String, i32> {
        Ok(format!("users other than root can change {path} (owner {owner}, mode {mode})"))
    }

    #[test]
    fn what_root_alone_can_change_is_trusted() {
        for path in [
            "/usr/bin/rxlab",
            "/bin/rxlab",
            "/sbin/rxlab",
            "/up/rxlab",
            "/usr/bin/setuid",
            "/",
            "/usr/../bin",
        ] {
            assert_eq!(walked(path), Ok("trusted".to_owned()), "{path}");
        }
        assert_eq!(walked("/bin/no/such"), Ok("missing /m/usr/bin/no".to_owned()));
    }

    #[test]
    fn the_first_component_that_others_can_change_is_named() {
        assert_eq!(walked("/usr/bin/group"), can_change("/m/usr/bin/group", "root", "0775"));
        assert_eq!(walked("/bin/theirs"), can_change("/m/usr/bin/theirs", "uid 1000", "0755"));
        assert_eq!(walked("/tmp/rxlab"), can_change("/m/tmp", "root", "1777"));
        assert_eq!(walked("/tmp/../usr/bin/rxlab"), can_change("/m/tmp", "root", "1777"));
        assert_eq!(walked("/home/u/rxlab"), can_change("/m/home/u", "uid 1000", "0755"));
        assert_eq!(walked("/through-home"), can_change("/m/home/u", "uid 1000", "0755"));
        assert_eq!(walked("/home/u/no/such"), can_change("/m/home/u", "uid 1000", "0755"));
        assert_eq!(walked("/planted"), can_change("/m/planted", "uid 1000", "0777"));
        assert_eq!(walked("/loop"), Err(rustix::io::Errno::LOOP.raw_os_error()));
    }

    #[test]
    fn the_root_itself_counts() {
        let base = entry(0, 0o040_777, None);
        let walked = walk_by(base, "/m".as_ref(), "/etc".as_ref(), |_| Err(io::ErrorKind::NotFound.into()))
            .expect("walked");
        assert!(matches!(walked, Walked::Exposed(exposed) if exposed.path == Path::new("/m")));
    }

    #[test]
    fn a_remedy_leaves_everyones_directories_alone() {
        let remedy =
            |uid, mode| super::exposed("/x".as_ref(), &entry(uid, mode, None)).expect("exposed").remedy();
        assert_eq!(remedy(0, 0o041_777), None);
        assert_eq!(remedy(0, 0o040_777).as_deref(), Some("chown root: /x && chmod go-w /x"));
        assert_eq!(remedy(9, 0o120_777).as_deref(), Some("chown -h root: /x"));
    }

    /// The same on the real machine.
    #[test]
    fn owners_and_modes_are_read() {
        let temporary = tempfile::tempdir_in("/tmp").expect("a temporary directory");
        let Walked::Exposed(exposed) = walk("/".as_ref(), temporary.path()).expect("walked") else {
            panic!("{} is everyone's", temporary.path().display());
        };
        assert_eq!((exposed.path.as_path(), exposed.mode & 0o7777), (Path::new("/tmp"), 0o1777));
        assert_eq!(walk("/".as_ref(), "/proc/version".as_ref()).expect("walked"), Walked::Trusted);
    }
}
