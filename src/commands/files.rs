//! Files that the user names on the command line.

#![allow(clippy::disallowed_methods)] // Reads and writes what the command line asks for.

use std::path::Path;

use crate::error::CommandError;

/// The text of a file; `what` it is goes into the error.
pub(super) fn read(what: &str, path: &Path) -> Result<String, CommandError> {
    std::fs::read_to_string(path)
        .map_err(|error| CommandError::usage(format!("cannot read the {what} {}: {error}", path.display())))
}

/// The bytes of a file, whatever they are.
pub(super) fn read_bytes(what: &str, path: &Path) -> Result<Vec<u8>, CommandError> {
    std::fs::read(path)
        .map_err(|error| CommandError::usage(format!("cannot read the {what} {}: {error}", path.display())))
}

/// Writes a file, whole.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), CommandError> {
    std::fs::write(path, bytes)
        .map_err(|error| CommandError::failed(format!("cannot write {}: {error}", path.display())))
}

/// Writes a file so that it is there whole or not at all, also when the disk fills up meanwhile.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), CommandError> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = std::path::PathBuf::from(part);
    let done = std::fs::write(&part, bytes).and_then(|()| std::fs::rename(&part, path));
    done.map_err(|error| {
        let _ = std::fs::remove_file(&part);
        CommandError::failed(format!("cannot write {}: {error}", path.display()))
    })
}

/// Whether there is a file of this name.
pub(super) fn is_there(path: &Path) -> bool {
    path.exists()
}
