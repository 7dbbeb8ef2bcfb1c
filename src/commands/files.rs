//! Files that the user names on the command line.

#![allow(clippy::disallowed_methods)] // Reads and writes what the command line asks for.

use std::path::Path;

use crate::error::CommandError;

/// The text of a file; `what` it is goes into the error.
pub(super) fn read(what: &str, path: &Path) -> Result<String, CommandError> {
    std::fs::read_to_string(path)
        .map_err(|error| CommandError::usage(format!("cannot read the {what} {}: {error}", path.display())))
}

/// Writes a file, whole.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), CommandError> {
    std::fs::write(path, bytes)
        .map_err(|error| CommandError::failed(format!("cannot write {}: {error}", path.display())))
}
