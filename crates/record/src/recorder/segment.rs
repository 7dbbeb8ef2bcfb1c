//! One file of the ring: a line that names the format, then records, each with its length and checksum. The first
//! record describes the segment. In a log each of the others is one tick; a packed segment has one with all ticks.

use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::bytes::{Budget, Malformed};
use super::pack::{pack, unpack};
use super::reader::Gap;
use super::tick::{Keys, Tick};
use crate::snapshot::ENDIAN;

/// First line of a file. The number is the version of the format.
const MAGIC: &[u8] = b"rxlab recording 1\n";
/// Start of the first line in every version.
const ANY_MAGIC: &[u8] = b"rxlab recording ";
/// Bytes of a record before its contents: length and CRC-32, little-endian.
const BEFORE: usize = 8;
/// Contents of a record of a log from which they are compressed: those of a full sample.
const LARGE: usize = 4096;
const PLAIN: u8 = 0;
const COMPRESSED: u8 = 1;
/// Most bytes that one tick may unpack to.
const LIMIT: u64 = 64 << 20;
/// Most bytes that the ticks of a segment take in memory.
pub(super) const MEMORY: u64 = 256 << 20;
/// Largest file that is read: a log of [`MEMORY`] bytes is far smaller.
pub(super) const FILE: u64 = 96 << 20;
/// Power of two of the memory that decompressing a tick may take; the bytes can request 128 MiB and more.
const WINDOW: u32 = 23;

/// A file of the ring that cannot be read.
#[derive(Debug, Error)]
pub enum SegmentError {
    /// Not a recording, or damaged.
    #[error("not a recording, or damaged")]
    Damaged,
    /// Of another version of rxlab.
    #[error("its format is `{0}`, which this rxlab does not read")]
    OtherVersion(String),
    #[error("it was recorded on a {0}-endian machine")]
    OtherEndian(String),
    #[error("cannot be compressed: {0}")]
    Compress(#[from] io::Error),
}

impl From<Malformed> for SegmentError {
    fn from(_: Malformed) -> Self {
        Self::Damaged
    }
}

/// Description of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// The version of rxlab that recorded it.
    pub(super) rxlab: String,
    /// Byte order of the machine.
    pub(super) endian: String,
    /// Intended time between two ticks, in milliseconds.
    pub(super) every_ms: u64,
    /// Contents of a packed segment; a log has `None`.
    pub(super) packed: Option<Packed>,
}

/// Summary of a packed segment: readable without unpacking it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Packed {
    /// Time of the last tick.
    pub(super) last_ms: i64,
    pub(super) ticks: u64,
    /// Times within the segment in which at least two ticks are missing.
    pub(super) gaps: Vec<Gap>,
}

impl Packed {
    /// Describes ticks, at least one, that were to be `every_ms` apart.
    pub(super) fn new(ticks: &[Tick], every_ms: u64) -> Self {
        let pairs = ticks.windows(2);
        let gaps = pairs.filter_map(|pair| Gap::between(pair[0].at_ms, pair[1].at_ms, every_ms)).collect();
        let last_ms = ticks.last().map_or(0, |tick| tick.at_ms);
        Self { last_ms, ticks: ticks.len() as u64, gaps }
    }
}

impl Head {
    /// Of a log of this machine.
    pub(super) fn new(every_ms: u64) -> Self {
        Self {
            rxlab: env!("CARGO_PKG_VERSION").to_owned(),
            endian: ENDIAN.to_owned(),
            every_ms,
            packed: None,
        }
    }
}

/// The start of a file.
pub(super) fn begin(head: &Head) -> Vec<u8> {
    let json = serde_json::to_vec(head).expect("a head is plain JSON");
    [MAGIC, &record(&json)].concat()
}

/// Contents with their length and checksum.
fn record(contents: &[u8]) -> Vec<u8> {
    let length = u32::try_from(contents.len()).expect("records are limited in size");
    let sum = crc32fast::hash(contents);
    [&length.to_le_bytes()[..], &sum.to_le_bytes(), contents].concat()
}

/// A tick as a record of a log.
pub(super) fn tick_record(tick: &Tick, keys: &Keys) -> io::Result<Vec<u8>> {
    let bytes = tick.encode(keys);
    let (kind, bytes) =
        if bytes.len() < LARGE { (PLAIN, bytes) } else { (COMPRESSED, zstd::bulk::compress(&bytes, 3)?) };
    Ok(record(&[&[kind], &bytes[..]].concat()))
}

/// A whole packed segment.
pub(super) fn packed(head: &Head, ticks: &[Tick]) -> io::Result<Vec<u8>> {
    let head = Head { packed: Some(Packed::new(ticks, head.every_ms)), ..head.clone() };
    Ok([begin(&head), record(&pack(ticks)?)].concat())
}

/// Takes the next record off `rest`; `None` at the end, or if it is torn.
fn next_record<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (before, after) = rest.split_at_checked(BEFORE)?;
    let number = |at: usize| before[at..at + 4].try_into().map(u32::from_le_bytes).unwrap_or_default();
    let (contents, after) = after.split_at_checked(number(0) as usize)?;
    if crc32fast::hash(contents) != number(4) {
        return None;
    }
    *rest = after;
    Some(contents)
}

/// Reads the description of a segment, and leaves the rest. A log may be torn before the end of its description: `None`.
pub(super) fn head(bytes: &mut &[u8]) -> Result<Option<Head>, SegmentError> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        if MAGIC.starts_with(bytes) {
            return Ok(None);
        }
        let version = bytes.strip_prefix(ANY_MAGIC).and_then(|rest| rest.split(|byte| *byte == b'\n').next());
        return Err(match version {
            Some(version) => SegmentError::OtherVersion(
                String::from_utf8_lossy(&version[..version.len().min(20)]).into_owned(),
            ),
            None => SegmentError::Damaged,
        });
    };
    *bytes = rest;
    // Zeros after the first line are a record too, of no bytes.
    let Some(json) = next_record(bytes).filter(|json| !json.is_empty()) else { return Ok(None) };
    let head: Head = serde_json::from_slice(json).map_err(|_| SegmentError::Damaged)?;
    if head.endian != ENDIAN {
        return Err(SegmentError::OtherEndian(head.endian));
    }
    Ok(Some(head))
}

/// A segment that was read.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) head: Head,
    pub(super) ticks: Vec<Tick>,
}

/// Reads a segment. The torn end of a log is left out. `None` if there is no whole tick.
pub(super) fn read(bytes: &[u8]) -> Result<Option<Contents>, SegmentError> {
    let mut rest = bytes;
    let Some(head) = head(&mut rest)? else { return Ok(None) };
    let ticks = match &head.packed {
        Some(_) => unpack(next_record(&mut rest).ok_or(SegmentError::Damaged)?, Budget(MEMORY))?,
        None => log(rest),
    };
    Ok((!ticks.is_empty()).then_some(Contents { head, ticks }))
}

/// The ticks of a log, up to the first that is torn or does not fit into [`MEMORY`].
fn log(mut rest: &[u8]) -> Vec<Tick> {
    let mut keys = Keys::default();
    let (mut ticks, mut budget) = (Vec::new(), Budget(MEMORY));
    while let Some(contents) = next_record(&mut rest) {
        let tick = match contents.split_first() {
            Some((&PLAIN, bytes)) => Tick::decode(bytes, &mut keys).ok(),
            Some((&COMPRESSED, bytes)) => {
                unpacked(bytes).ok().and_then(|bytes| Tick::decode(&bytes, &mut keys).ok())
            }
            _ => None,
        };
        let Some(tick) = tick.filter(|tick| budget.take(tick.memory() as usize, 1).is_ok()) else { break };
        ticks.push(tick);
    }
    ticks
}

/// Unpacks a tick, up to [`LIMIT`] bytes.
fn unpacked(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut decoder = zstd::stream::Decoder::new(bytes)?;
    decoder.window_log_max(WINDOW)?;
    decoder.take(LIMIT).read_to_end(&mut out)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::{Head, SegmentError, begin, packed, read, tick_record};
    use crate::recorder::tick::{Change, Keys, Tick};

    fn ticks() -> Vec<Tick> {
        let change = |at: u32| match at {
            0 => Change::Whole(vec![b'7'; 5_000]),
            at => Change::Numbers(vec![(at, 1)]),
        };
        let tick = |at: u32| Tick {
            at_ms: 1_000 * i64::from(at),
            now_ns: 1_000_000_000 * u64::from(at),
            is_full: at == 0,
            changes: vec![("fproc/stat".into(), change(at))],
        };
        (0..4).map(tick).collect()
    }

    fn written(ticks: &[Tick]) -> Vec<u8> {
        let mut keys = Keys::default();
        let mut bytes = begin(&Head::new(1_000));
        for tick in ticks {
            bytes.extend(tick_record(tick, &keys).expect("compressed"));
            keys.learn(tick);
        }
        bytes
    }

    /// A crash can cut a log anywhere, and leave zeros or the bytes of another file after the cut.
    #[test]
    fn whole_ticks_before_a_torn_end_are_read() {
        let bytes = written(&ticks());
        let ends: Vec<usize> = (0..=4).map(|count| written(&ticks()[..count]).len()).collect();
        for cut in 0..bytes.len() {
            let whole = ends.iter().filter(|end| **end <= cut).count().saturating_sub(1);
            for junk in [&[][..], &[0; 40], b"\x05\0\0\0abcdefghijkl"] {
                let torn = [&bytes[..cut], junk].concat();
                // Junk within the first line is no recording.
                let found = match read(&torn) {
                    Ok(found) => found,
                    Err(error) => {
                        assert!(cut < 18 && !junk.is_empty(), "{cut}: {error}");
                        continue;
                    }
                };
                assert_eq!(found.map_or(0, |contents| contents.ticks.len()), whole, "cut at {cut}");
            }
        }
        assert_eq!(read(&bytes).expect("a log").expect("ticks").ticks, ticks());
    }

    /// Each tick is small on disk and fits by itself.
    #[test]
    fn a_small_log_stays_small() {
        let tick = |at: i64| Tick {
            at_ms: at,
            now_ns: 0,
            is_full: true,
            changes: vec![("fa".into(), Change::Whole(vec![0; 60 << 20]))],
        };
        let (mut bytes, mut keys) = (begin(&Head::new(1_000)), Keys::default());
        for at in 0..6 {
            bytes.extend(tick_record(&tick(at), &keys).expect("compressed"));
            keys.learn(&tick(at));
        }
        assert!(bytes.len() < 64 << 10, "{} bytes", bytes.len());
        let read = read(&bytes).expect("a log").expect("ticks").ticks;
        assert!(read.iter().map(Tick::memory).sum::<u64>() <= super::MEMORY && read.len() == 4);
    }

    #[test]
    fn a_packed_segment_is_whole_or_an_error() {
        let bytes = packed(&Head::new(1_000), &ticks()).expect("packed");
        let contents = read(&bytes).expect("a segment").expect("ticks");
        assert_eq!(contents.ticks, ticks());
        assert_eq!(contents.head.packed.map(|packed| (packed.last_ms, packed.ticks)), Some((3_000, 4)));
        assert!(matches!(read(&bytes[..bytes.len() - 1]), Err(SegmentError::Damaged)));
        assert!(matches!(read(b"hello, this is not a recording"), Err(SegmentError::Damaged)));
        let error = read(b"rxlab recording 2\nwhatever").expect_err("a later version");
        assert_eq!(error.to_string(), "its format is `2`, which this rxlab does not read");
    }
}
