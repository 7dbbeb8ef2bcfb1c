//! A network namespace by file and inode: enough to notice that it is no longer the same one.

#![allow(clippy::disallowed_methods)] // Looks for the namespace where processes have it.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A network namespace.
///
/// The kernel gives the inode of a namespace that is gone to a later one, so equal numbers prove
/// nothing by themselves. They need not: a namespace made anew under the same name holds the
/// values of new devices, which undo takes for what they are, the original or drift.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// The file it was entered through, such as `/run/netns/lab`.
    pub path: PathBuf,
    /// Inode of that file.
    pub inode: u64,
}

impl Namespace {
    /// The namespace that `path` stands for now.
    pub fn of(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let inode = std::fs::metadata(&path)?.ino();
        Ok(Self { path, inode })
    }

    /// A file through which it can be entered now; `None` when it is no more.
    ///
    /// The file it was entered through may be gone and the namespace not: `/proc/PID/ns/net` goes with
    /// its process, while others live on in there.
    pub fn present(&self) -> Option<PathBuf> {
        let same = |path: &PathBuf| Self::of(path).is_ok_and(|now| now.inode == self.inode);
        let named = entries("/run/netns");
        let of_processes = entries("/proc").map(|process| process.join("ns/net"));
        std::iter::once(self.path.clone()).chain(named).chain(of_processes).find(same)
    }
}

/// What is in a directory; nothing when it cannot be listed.
fn entries(directory: &str) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::Namespace;

    #[test]
    fn our_own_is_there_and_a_file_is_none() {
        let ours = Namespace::of("/proc/self/ns/net".as_ref()).expect("every process has one");
        assert_eq!(ours.present(), Some(ours.path.clone()));
        // No namespace has the inode of a plain file.
        let inode = std::fs::metadata("/proc/self/stat").expect("every process has one").ino();
        assert_eq!(Namespace { inode, ..ours }.present(), None);
    }

    /// Undo once took a container for gone whose first process had ended.
    #[test]
    fn it_is_found_through_another_process() {
        let ours = Namespace::of("/proc/self/ns/net".as_ref()).expect("every process has one");
        let lost = Namespace { path: "/run/netns/no-such-one".into(), ..ours.clone() };
        let found = lost.present().expect("this process is in it");
        assert_eq!(Namespace::of(&found).expect("there").inode, ours.inode);
    }
}
