//! The file of a snapshot: a tar archive of `manifest.json`, the open journals, then for each moment
//! (`first`, `last`) `index.json` and the recorded files, compressed with zstd.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use thiserror::Error;

use super::{ENDIAN, Manifest, Snapshot};
use rxlab_sys::{RecordedHost, Recording};

/// An invalid snapshot file.
#[derive(Debug, Error)]
pub enum ArchiveError {
    #[error("not a snapshot, or damaged: {0}")]
    Damaged(#[from] io::Error),
    #[error("not a snapshot: {0} is missing")]
    Missing(String),
    /// A part of the wrong format.
    #[error("{part}: {why}")]
    Malformed {
        /// Its name in the archive.
        part: String,
        /// Description of the error.
        why: String,
    },
    #[error("{what} to more than {}", size(*bytes))]
    TooLarge {
        /// `it unpacks`, or the name of the part.
        what: &'static str,
        /// The most bytes allowed.
        bytes: u64,
    },
    #[error("its schema is `{0}`, but this rxlab reads `{schema}`", schema = Snapshot::SCHEMA)]
    OtherSchema(String),
    #[error("it was taken on a {0}-endian machine; its netlink answers cannot be read here")]
    OtherEndian(String),
}

/// One file may take this part of the limit: parsed, the counters of a forged machine take many times their
/// text. `/proc/interrupts`, with eleven bytes for each CPU and interrupt, fits for 1024 CPUs and 700
/// interrupts.
const FILE: u64 = 8;
/// The index and the journals together may take this part of it, for the same reason.
const PARSED: u64 = 16;
/// Power of two of the memory that decompressing may take: 8 MiB, as for `zstd -19`. The file itself can
/// request 128 MiB and more.
const WINDOW: u32 = 23;
/// A common compromise; the file is small either way.
const LEVEL: i32 = 9;
const MANIFEST: &str = "manifest.json";
const INDEX: &str = "index.json";
const FIRST: &str = "first";
const LAST: &str = "last";
const JOURNAL: &str = "journal/";

impl Snapshot {
    /// Writes the archive. The same snapshot gives the same bytes.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let mut tar = tar::Builder::new(zstd::Encoder::new(out, LEVEL)?);
        add(&mut tar, MANIFEST, &pretty(&self.manifest)?)?;
        for (id, content) in &self.journal {
            add(&mut tar, &format!("{JOURNAL}{id}"), content)?;
        }
        for (moment, host) in [(FIRST, self.first()), (LAST, self.last())] {
            let (files, rest) = host.parts();
            add(&mut tar, &format!("{moment}/{INDEX}"), &pretty(&rest)?)?;
            for (path, content) in &files {
                add(&mut tar, &format!("{moment}/{path}"), content)?;
            }
        }
        tar.into_inner()?.finish()?.flush()
    }

    /// Default limit of unpacked bytes. 1024 CPUs with 64 queues take some 20 MiB.
    pub const LIMIT: u64 = 64 << 20;

    /// Reads an archive that unpacks to at most [`Snapshot::LIMIT`] bytes.
    pub fn read(input: impl Read) -> Result<Self, ArchiveError> {
        Self::read_within(input, Self::LIMIT)
    }

    /// Reads an archive that unpacks to at most `limit` bytes, and stops there. Writes nothing to
    /// disk, whatever paths it names.
    pub fn read_within(input: impl Read, limit: u64) -> Result<Self, ArchiveError> {
        let mut decoder = zstd::Decoder::new(input)?;
        decoder.window_log_max(WINDOW)?;
        let mut parts = parts(decoder, limit)?;
        let manifest: Manifest = json(&mut parts, MANIFEST)?;
        if manifest.schema != Self::SCHEMA {
            return Err(ArchiveError::OtherSchema(manifest.schema));
        }
        if manifest.endian != ENDIAN {
            return Err(ArchiveError::OtherEndian(manifest.endian));
        }
        let first = machine(&mut parts, FIRST)?;
        let last = machine(&mut parts, LAST)?;
        Ok(Self { manifest, journal: below(&mut parts, JOURNAL), first, last })
    }
}

/// In the largest unit that keeps it whole.
fn size(bytes: u64) -> String {
    let units = [("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = units.iter().find(|(_, unit)| bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes} bytes"), |(name, unit)| format!("{} {name}", bytes / unit))
}

fn pretty(value: &impl serde::Serialize) -> io::Result<Vec<u8>> {
    serde_json::to_vec_pretty(value).map_err(io::Error::other)
}

fn add(tar: &mut tar::Builder<impl Write>, path: &str, content: &[u8]) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_mtime(0);
    tar.append_data(&mut header, path, content)
}

/// Every file of a tar archive by its name, of at most `limit` bytes including tar's overhead.
fn parts(tar: impl Read, limit: u64) -> Result<BTreeMap<String, Vec<u8>>, ArchiveError> {
    let mut archive = tar::Archive::new(Limited { inner: tar, left: limit, is_exceeded: false });
    let read = read_parts(&mut archive, limit);
    // A truncated archive looks damaged, but the limit is the cause.
    if archive.into_inner().is_exceeded {
        Err(ArchiveError::TooLarge { what: "it unpacks", bytes: limit })
    } else {
        read
    }
}

fn read_parts(
    archive: &mut tar::Archive<impl Read>,
    limit: u64,
) -> Result<BTreeMap<String, Vec<u8>>, ArchiveError> {
    let mut parts = BTreeMap::new();
    let mut parsed = 0u64;
    for entry in archive.entries()? {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            continue;
        }
        // A sparse file is larger than its share of the archive, and links are useless here.
        if !kind.is_file() {
            return Err(io::Error::other("it contains more than plain files").into());
        }
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        // Checked before memory is allocated: the size is only the archive's claim.
        let too_large = |what, bytes| Err(ArchiveError::TooLarge { what, bytes });
        if entry.size() > limit {
            return too_large("it unpacks", limit);
        }
        if entry.size() > limit / FILE {
            return too_large("one of its files unpacks", limit / FILE);
        }
        if is_parsed(&path) {
            parsed += entry.size();
            if parsed > limit / PARSED {
                return too_large("its index and journals unpack", limit / PARSED);
            }
        }
        let mut content = Vec::with_capacity(entry.size() as usize);
        entry.read_to_end(&mut content)?;
        parts.insert(path, content);
    }
    Ok(parts)
}

/// True for files in rxlab's own formats, as opposed to files of the machine.
fn is_parsed(path: &str) -> bool {
    let of_machine = path.split_once('/').filter(|(moment, _)| [FIRST, LAST].contains(moment));
    of_machine.is_none_or(|(_, file)| file == INDEX)
}

/// Fails after `left` bytes if there are more.
struct Limited<R> {
    inner: R,
    left: u64,
    is_exceeded: bool,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // One byte more shows if the end was reached.
        let most = usize::try_from(self.left.saturating_add(1)).unwrap_or(usize::MAX).min(buffer.len());
        let length = self.inner.read(&mut buffer[..most])?;
        match self.left.checked_sub(length as u64) {
            Some(left) => {
                self.left = left;
                Ok(length)
            }
            None => {
                self.is_exceeded = true;
                Err(io::Error::other("size limit reached"))
            }
        }
    }
}

fn json<T: DeserializeOwned>(parts: &mut BTreeMap<String, Vec<u8>>, part: &str) -> Result<T, ArchiveError> {
    let bytes = parts.remove(part).ok_or_else(|| ArchiveError::Missing(part.to_owned()))?;
    let malformed =
        |why: serde_json::Error| ArchiveError::Malformed { part: part.to_owned(), why: why.to_string() };
    serde_json::from_slice(&bytes).map_err(malformed)
}

fn machine(parts: &mut BTreeMap<String, Vec<u8>>, moment: &str) -> Result<RecordedHost, ArchiveError> {
    let rest: Recording = json(parts, &format!("{moment}/{INDEX}"))?;
    Ok(RecordedHost::from_parts(below(parts, &format!("{moment}/")), rest))
}

/// Removes and returns the files below a folder, by their name there.
fn below(parts: &mut BTreeMap<String, Vec<u8>>, folder: &str) -> BTreeMap<String, Vec<u8>> {
    let mine = parts.extract_if(.., |path, _| path.starts_with(folder));
    mine.map(|(path, content)| (path[folder.len()..].to_owned(), content)).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use proptest::prelude::{any, proptest};

    use super::{ArchiveError, Snapshot};
    use rxlab_sys::RecordedHost;

    fn archive(edit: impl FnOnce(&mut Snapshot)) -> Vec<u8> {
        let host = RecordedHost::new().with("proc/sys/kernel/hostname", "a\n");
        let mut snapshot = Snapshot::take(&host, || (), |_| ());
        edit(&mut snapshot);
        let mut bytes = Vec::new();
        snapshot.write(&mut bytes).expect("written");
        bytes
    }

    fn refused(bytes: &[u8]) -> String {
        Snapshot::read(bytes).expect_err("not a snapshot").to_string()
    }

    #[test]
    fn what_is_no_snapshot_is_named() {
        assert!(refused(b"hello").starts_with("not a snapshot, or damaged: "));
        assert!(refused(&archive(|_| ())[..200]).contains("damaged"));
        assert!(refused(&archive(|s| s.manifest.schema = "x/9".into())).contains("`x/9`"));
        assert!(refused(&archive(|s| s.manifest.endian = "middle".into())).contains("middle-endian"));
        let mut tar = tar::Builder::new(zstd::Encoder::new(Vec::new(), 1).expect("zstd"));
        super::add(&mut tar, "manifest.json", b"{}").expect("added");
        let bytes = tar.into_inner().and_then(zstd::Encoder::finish).expect("closed");
        assert!(refused(&bytes).starts_with("manifest.json: missing field"));
        assert!(Snapshot::read(archive(|_| ()).as_slice()).is_ok());
    }

    #[test]
    fn the_same_snapshot_gives_the_same_bytes() {
        let undated = || archive(|snapshot| snapshot.manifest.taken.clear());
        assert_eq!(undated(), undated());
    }

    fn header(kind: tar::EntryType, name: &str, size: u64) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_path(name).expect("a name");
        header.set_size(size);
        header.set_cksum();
        header.as_bytes().to_vec()
    }

    /// Returns the same bytes again and again, and counts them.
    struct Endless {
        bytes: Vec<u8>,
        given: u64,
    }

    impl Read for &mut Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let at = (self.given % self.bytes.len() as u64) as usize;
            let length = buffer.len().min(self.bytes.len() - at);
            buffer[..length].copy_from_slice(&self.bytes[at..at + length]);
            self.given += length as u64;
            Ok(length)
        }
    }

    const LIMIT: u64 = 1 << 20;

    /// 28 KB once took a GiB.
    #[test]
    fn no_more_than_the_limit_is_unpacked() {
        use tar::EntryType;
        let content = [header(EntryType::Regular, "first/a", 512), vec![1; 512]].concat();
        for (what, bytes) in [
            ("contents", content),
            ("empty files", header(EntryType::Regular, "first/a", 0)),
            ("folders", header(EntryType::Directory, "first", 0)),
            (
                "a long name",
                [header(EntryType::GNULongName, "x", LIMIT << 12), vec![b'x'; LIMIT as usize]].concat(),
            ),
            (
                "extensions",
                [header(EntryType::XHeader, "x", LIMIT << 12), vec![b'x'; LIMIT as usize]].concat(),
            ),
            ("large files", header(EntryType::Regular, "first/a", LIMIT / 8)),
        ] {
            let mut endless = Endless { bytes, given: 0 };
            let error = super::parts(&mut endless, LIMIT).expect_err(what).to_string();
            assert_eq!(error, "it unpacks to more than 1 MiB", "{what}");
            assert!((LIMIT..=LIMIT + 1).contains(&endless.given), "{what}: {}", endless.given);
        }
    }

    #[test]
    fn sizes_that_are_only_claimed_take_no_memory() {
        for (size, message) in [
            (1 << 40, "it unpacks to more than 1 MiB"),
            (LIMIT + 1, "it unpacks to more than 1 MiB"),
            (LIMIT / 8 + 1, "one of its files unpacks to more than 128 KiB"),
        ] {
            let claim = header(tar::EntryType::Regular, "first/a", size);
            assert_eq!(super::parts(claim.as_slice(), LIMIT).expect_err(message).to_string(), message);
        }
        for name in ["first/index.json", "last/index.json", "manifest.json", "journal/1", "other"] {
            let claim = header(tar::EntryType::Regular, name, LIMIT / 16 + 1);
            let error = super::parts(claim.as_slice(), LIMIT).expect_err(name).to_string();
            assert_eq!(error, "its index and journals unpack to more than 64 KiB", "{name}");
        }
    }

    #[test]
    fn an_archive_of_exactly_the_limit_is_read() {
        let file = [header(tar::EntryType::Regular, "first/a", 512), vec![1; 512]].concat();
        let bytes = [file.repeat(16), vec![0; 1024]].concat();
        let length = bytes.len() as u64;
        assert_eq!(super::parts(bytes.as_slice(), length).expect("it fits")["first/a"], [1; 512]);
        let cut = super::parts(bytes.as_slice(), length - 1025).expect_err("it does not fit");
        assert!(matches!(cut, ArchiveError::TooLarge { what: "it unpacks", .. }), "{cut}");
    }

    #[test]
    fn a_compressed_bomb_is_refused() {
        let mut tar = tar::Builder::new(zstd::Encoder::new(Vec::new(), 1).expect("zstd"));
        super::add(&mut tar, "first/zeros", &vec![0; 8 * LIMIT as usize]).expect("added");
        let bytes = tar.into_inner().and_then(zstd::Encoder::finish).expect("closed");
        assert!(bytes.len() < 8192, "{}", bytes.len());
        let refused =
            |limit| Snapshot::read_within(bytes.as_slice(), limit).expect_err("not a snapshot").to_string();
        assert_eq!(refused(LIMIT), "it unpacks to more than 1 MiB");
        assert_eq!(refused(64 * LIMIT), "not a snapshot: manifest.json is missing");
    }

    /// The window is memory that the file requests before a byte of it is unpacked.
    #[test]
    fn a_large_window_is_refused() {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("zstd");
        encoder.window_log(27).expect("a window");
        // Flushed before its end, the frame does not know that it is small.
        encoder.write_all(b"x").and_then(|()| encoder.flush()).expect("written");
        let bytes = encoder.finish().expect("closed");
        assert!(refused(&bytes).contains("too much memory"), "{}", refused(&bytes));
    }

    proptest! {
        #[test]
        fn random_bytes_are_no_snapshot(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            assert!(Snapshot::read(bytes.as_slice()).is_err());
        }
    }
}
