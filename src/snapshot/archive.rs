//! The file of a snapshot: a tar archive of `manifest.json`, the open journals, then for each moment (`first`, `last`)
//! `index.json` and the recorded files, compressed with zstd.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use thiserror::Error;

use super::{ENDIAN, Manifest, Snapshot};
use crate::host::{RecordedHost, Recording};

/// A file that is no snapshot of ours.
#[derive(Debug, Error)]
pub enum ArchiveError {
    /// Not a zstd-compressed tar archive, or cut short.
    #[error("it is no snapshot, or damaged: {0}")]
    Damaged(#[from] io::Error),
    /// A part is missing.
    #[error("it is no snapshot: there is no {0} in it")]
    Missing(String),
    /// A part is not of the format.
    #[error("{part}: {why}")]
    Malformed {
        /// Its name in the archive.
        part: String,
        /// What is wrong.
        why: String,
    },
    /// Larger than any machine's snapshot.
    #[error("it unpacks to more than {} MiB: that is no snapshot", LARGEST >> 20)]
    TooLarge,
    /// Of another version.
    #[error("its schema is `{0}`, this rxlab reads `{schema}`", schema = Snapshot::SCHEMA)]
    OtherSchema(String),
    /// Of a machine with another byte order.
    #[error("it was taken on a {0}-endian machine; netlink answers in it cannot be read here")]
    OtherEndian(String),
}

/// 1024 CPUs with 64 queues take some 20 MiB.
const LARGEST: u64 = 1 << 30;
/// The usual compromise; the file is small either way.
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

    /// Reads an archive. Nothing is unpacked to disk, whatever paths it names.
    pub fn read(input: impl Read) -> Result<Self, ArchiveError> {
        let mut parts = parts(input, LARGEST)?;
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

/// Every file of the archive by its name.
fn parts(input: impl Read, largest: u64) -> Result<BTreeMap<String, Vec<u8>>, ArchiveError> {
    let limited = zstd::Decoder::new(input)?.take(largest);
    let mut archive = tar::Archive::new(limited);
    let mut parts = BTreeMap::new();
    let mut read = || -> io::Result<()> {
        for entry in archive.entries()? {
            let mut entry = entry?;
            let kind = entry.header().entry_type();
            if kind.is_dir() {
                continue;
            }
            // A sparse file is larger than what it takes of the archive, and no link is of use.
            if !kind.is_file() {
                return Err(io::Error::other("it holds what is no plain file"));
            }
            let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            parts.insert(path, content);
        }
        Ok(())
    };
    let read = read();
    // At the limit the archive looks cut short: the limit is what is wrong.
    if archive.into_inner().limit() == 0 { Err(ArchiveError::TooLarge) } else { Ok(read.map(|()| parts)?) }
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

/// Takes out what is below a folder, by its name there.
fn below(parts: &mut BTreeMap<String, Vec<u8>>, folder: &str) -> BTreeMap<String, Vec<u8>> {
    let mine = parts.extract_if(.., |path, _| path.starts_with(folder));
    mine.map(|(path, content)| (path[folder.len()..].to_owned(), content)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::{ArchiveError, Snapshot};
    use crate::host::RecordedHost;

    fn archive(edit: impl FnOnce(&mut Snapshot)) -> Vec<u8> {
        let host = RecordedHost::new().with("proc/sys/kernel/hostname", "a\n");
        let mut snapshot = Snapshot::take(&host, || (), |_| ());
        edit(&mut snapshot);
        let mut bytes = Vec::new();
        snapshot.write(&mut bytes).expect("written");
        bytes
    }

    fn refused(bytes: &[u8]) -> String {
        Snapshot::read(bytes).expect_err("no snapshot").to_string()
    }

    #[test]
    fn what_is_no_snapshot_is_named() {
        assert!(refused(b"hello").starts_with("it is no snapshot, or damaged: "));
        assert!(refused(&archive(|_| ())[..200]).contains("damaged"));
        assert!(refused(&archive(|s| s.manifest.schema = "x/9".into())).contains("`x/9`"));
        assert!(refused(&archive(|s| s.manifest.endian = "middle".into())).contains("middle-endian"));
        let mut tar = tar::Builder::new(zstd::Encoder::new(Vec::new(), 1).expect("zstd"));
        super::add(&mut tar, "manifest.json", b"{}").expect("added");
        let bytes = tar.into_inner().and_then(zstd::Encoder::finish).expect("closed");
        assert!(refused(&bytes).starts_with("manifest.json: missing field"));
        assert!(Snapshot::read(archive(|_| ()).as_slice()).is_ok());
    }

    fn undated(snapshot: &mut Snapshot) {
        snapshot.manifest.taken.clear();
    }

    #[test]
    fn the_same_snapshot_gives_the_same_bytes() {
        assert_eq!(archive(undated), archive(undated));
    }

    #[test]
    fn a_bomb_is_refused() {
        let bytes = archive(|_| ());
        assert!(super::parts(bytes.as_slice(), 1 << 20).is_ok());
        let cut = super::parts(bytes.as_slice(), 4096);
        assert!(matches!(cut, Err(ArchiveError::TooLarge)), "{cut:?}");
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            assert!(Snapshot::read(bytes.as_slice()).is_err());
        }
    }
}
