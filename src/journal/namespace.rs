//! A network namespace by file and inode: enough to notice that it is no longer the same one.

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

    /// Whether the file is still there and still the same.
    pub fn is_there(&self) -> bool {
        Self::of(&self.path).is_ok_and(|now| now.inode == self.inode)
    }
}

#[cfg(test)]
mod tests {
    use super::Namespace;

    #[test]
    fn our_own_is_there_and_another_inode_is_not() {
        let ours = Namespace::of("/proc/self/ns/net".as_ref()).expect("every process has one");
        assert!(ours.is_there());
        assert!(!Namespace { inode: ours.inode + 1, ..ours.clone() }.is_there());
        assert!(!Namespace { path: "/run/netns/no-such-one".into(), ..ours }.is_there());
    }
}
