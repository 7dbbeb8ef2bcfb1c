//! Files that the user names on the command line.

#![allow(clippy::disallowed_methods)] // Reads and writes what the command line asks for.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::error::{CommandError, Result};
use rxlab_base::{atomic, private};

/// Largest file, in bytes: a device such as /dev/zero has no end.
const LARGEST: u64 = 256 << 20;

/// Reads a text file; `what` names it in the error.
pub(super) fn read(what: &str, path: &Path) -> Result<String> {
    String::from_utf8(read_bytes(what, path)?)
        .map_err(|error| CommandError::usage(format!("cannot read the {what} {}: {error}", path.display())))
}

pub(super) fn read_bytes(what: &str, path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes));
    read.map_err(|error| cannot_read(what, path, &error))?;
    if bytes.len() as u64 > LARGEST {
        let why =
            format!("cannot read the {what} {}: it has more than {} MiB", path.display(), LARGEST >> 20);
        return Err(CommandError::usage(why));
    }
    Ok(bytes)
}

/// Paths in a directory, by name.
pub(super) fn list(path: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(path).and_then(|entries| {
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<PathBuf>>>()
    });
    let mut paths = entries.map_err(|error| cannot_read("directory", path, &error))?;
    paths.sort();
    Ok(paths)
}

/// The error of a file that could not be read; `what` names it.
pub(super) fn cannot_read(what: &str, path: &Path, error: &io::Error) -> CommandError {
    CommandError::new(error.into(), format!("cannot read the {what} {}: {error}", path.display()))
}

/// Writes a file atomically. A link at its name is an error.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result {
    write_with(path, bytes, None)
}

/// The same, readable by its owner only.
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> Result {
    write_with(path, bytes, Some(private::FILE))
}

fn write_with(path: &Path, bytes: &[u8], mode: Option<u32>) -> Result {
    let done = if is_stream(path) {
        stream(path).and_then(|mut stream| stream.write_all(bytes))
    } else {
        atomic::replace(path, bytes, mode)
    };
    done.map_err(|error| cannot_write(path, &error))
}

/// Creates an empty file at `path`, for output that is written as it comes. A link at its name is an error.
pub(super) fn begin(path: &Path) -> io::Result<File> {
    if is_stream(path) { stream(path) } else { atomic::begin(path) }
}

/// Returns the error of a later [`write()`], as far as it is known beforehand: before long work.
pub(super) fn check(path: &Path) -> Result {
    if is_stream(path) { Ok(()) } else { atomic::check(path).map_err(|error| cannot_write(path, &error)) }
}

/// Returns an error if a file of that name would be replaced: it may be the only copy of something.
pub(super) fn check_new(path: &Path) -> Result {
    if is_there(path) && !is_stream(path) {
        return Err(CommandError::usage(format!("{} already exists", path.display()))
            .hint("give another name with -o, or replace the file with --force"));
    }
    Ok(())
}

/// The error of a file that could not be written.
pub(super) fn cannot_write(path: &Path, error: &io::Error) -> CommandError {
    CommandError::new(error.into(), format!("cannot write {}: {error}", path.display()))
}

/// True for a device, and for a descriptor of this process such as `/dev/stdout`. Only root can create names in these
/// directories, so a link there was not planted; in others it may have been.
fn is_stream(path: &Path) -> bool {
    let directories = ["/dev", "/dev/fd", "/dev/pts", "/proc/self/fd"];
    path.parent().is_some_and(|parent| directories.iter().any(|directory| parent == Path::new(directory)))
}

fn stream(path: &Path) -> io::Result<File> {
    if path.metadata()?.file_type().is_block_device() {
        return Err(io::Error::other("it is a block device"));
    }
    OpenOptions::new().append(true).open(path)
}

/// True if the name is taken, even by a dangling link.
pub(super) fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{begin, check, check_new, is_stream, read, write};

    #[test]
    fn a_file_without_an_end_is_one_clear_line() {
        let error = read("plan", Path::new("/dev/zero")).expect_err("endless").to_string();
        assert_eq!(error, "cannot read the plan /dev/zero: it has more than 256 MiB");
    }

    #[test]
    fn devices_and_descriptors_are_written_to() {
        for path in ["/dev/null", "/dev/fd/63", "/dev//stdout", "/proc/self/fd/1"] {
            assert!(is_stream(Path::new(path)), "{path}");
        }
        for path in ["/dev/shm/a", "/dev/../tmp/a", "/tmp/dev/a", "stdout", "/"] {
            assert!(!is_stream(Path::new(path)), "{path}");
        }
        let (null, full) = (Path::new("/dev/null"), Path::new("/dev/full"));
        assert_eq!((check(null), write(null, b"x")), (Ok(()), Ok(())));
        begin(null).expect("opened");
        let error = write(full, b"x").expect_err("full");
        assert!(error.message.starts_with("cannot write /dev/full: No space left"), "{error}");
        assert_eq!(check_new(null), Ok(()), "written to, not replaced");
        assert_eq!(check_new(Path::new("/etc/passwd")).map_err(|error| error.kind.exit_code()), Err(2));
        assert!(write(Path::new("/dev/no-such"), b"x").is_err() && !Path::new("/dev/no-such").exists());
    }
}
