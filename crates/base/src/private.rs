//! Files and directories of which root makes decisions: created for their owner only, whatever the umask, and
//! opened only if no other user can have changed them.

#![allow(clippy::disallowed_methods)] // Opens the files that it checks.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Mode of a file that only its owner reads and writes.
pub const FILE: u32 = 0o600;
/// Mode of a directory that only its owner enters.
const DIRECTORY: u32 = 0o700;

/// Reason why users other than root and the current one may have changed a file or directory; `None` if they cannot.
pub fn exposure(about: &Metadata) -> Option<String> {
    let us = rustix::process::geteuid().as_raw();
    if ![0, us].contains(&about.uid()) {
        return Some(format!("it belongs to user {}", about.uid()));
    }
    let mode = about.mode() & 0o7777;
    (mode & 0o022 != 0).then(|| format!("its mode {mode:o} lets other users write to it"))
}

/// Opens a regular file with `options`; creates it with mode 0600 if they say so. A link, anything but a regular
/// file, and a file that other users can change are errors.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // Opening a FIFO would wait for its other end.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options.mode(FILE).custom_flags(flags.bits().cast_signed()).open(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    match exposure(&about) {
        None => Ok(file),
        Some(why) => {
            let remedy = "check its content, then `chown root` and `chmod 600` it";
            Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{why}: {remedy}")))
        }
    }
}

/// The content of a file, opened as [`open`] does.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, OpenOptions::new().read(true))?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Takes all permissions from other users, which earlier versions and the umask may have given.
pub fn close(file: &File) -> io::Result<()> {
    let mode = file.metadata()?.mode() & 0o7777;
    if mode & 0o077 == 0 { Ok(()) } else { file.set_permissions(Permissions::from_mode(mode & 0o700)) }
}

/// Creates a directory, not its parents, with mode 0700. An existing name is an error.
pub fn create_directory(path: &Path) -> io::Result<()> {
    // The umask can only take permissions away: there is no moment with more of them.
    DirBuilder::new().mode(DIRECTORY).create(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(DIRECTORY))
}

#[cfg(test)]
mod tests {
    use std::fs::{OpenOptions, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
    use std::path::Path;

    use super::{DIRECTORY, FILE, close, create_directory, exposure, open, read};

    fn mode(path: &Path) -> u32 {
        path.metadata().expect("there").mode() & 0o7777
    }

    #[test]
    fn a_file_is_created_for_its_owner_only() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("a");
        open(&path, OpenOptions::new().write(true).create(true)).expect("created");
        assert_eq!(mode(&path), FILE);
        create_directory(&folder.path().join("b")).expect("created");
        assert_eq!(mode(&folder.path().join("b")), DIRECTORY);
        assert!(create_directory(&folder.path().join("b")).is_err(), "it exists");
    }

    #[test]
    fn permissions_of_an_earlier_version_are_taken_back() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("a");
        std::fs::write(&path, "x").expect("written");
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("set");
        close(&open(&path, OpenOptions::new().read(true)).expect("no one else writes to it"))
            .expect("closed");
        assert_eq!(mode(&path), FILE);
    }

    #[test]
    fn what_others_can_change_is_not_read() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("a");
        std::fs::write(&path, "x").expect("written");
        assert_eq!(read(&path).expect("ours"), b"x");
        for exposed in [0o620, 0o602] {
            std::fs::set_permissions(&path, Permissions::from_mode(exposed)).expect("set");
            let error = read(&path).expect_err("others can write").to_string();
            assert!(
                error.starts_with(&format!("its mode {exposed:o} lets other users write to it: ")),
                "{error}"
            );
        }
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("set");
        let link = folder.path().join("link");
        symlink(&path, &link).expect("linked");
        assert!(read(&link).is_err(), "a link");
        assert_eq!(read(folder.path()).expect_err("a directory").to_string(), "it is not a regular file");
        // Only root can give a file away.
        if chown(&path, Some(65534), None).is_ok() {
            assert!(
                exposure(&path.metadata().expect("there"))
                    .is_some_and(|why| why == "it belongs to user 65534")
            );
            assert!(read(&path).is_err());
        }
    }

    #[test]
    fn a_fifo_is_refused_at_once() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let fifo = folder.path().join("fifo");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).expect("made");
        assert_eq!(read(&fifo).expect_err("not a file").to_string(), "it is not a regular file");
    }
}
