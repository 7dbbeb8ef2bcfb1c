//! Reads a ring: what it spans, two moments of a machine, or one tick after another.

use std::io;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::segment::{self, Contents, Packed, SegmentError};
use super::state::State;
use super::storage::Storage;
use super::tick::Tick;
use super::writer::{LOG, PACKED};
use crate::snapshot::Snapshot;
use rxlab_base::atomic::if_there;
use rxlab_sys::RecordedHost;

/// Bytes that hold the description of a segment.
const HEAD: u64 = 64 << 10;

/// A time without ticks: the recorder did not run, or the machine was too busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Last tick before, in milliseconds since 1970 in UTC.
    pub from_ms: i64,
    /// First tick after, in milliseconds since 1970 in UTC.
    pub to_ms: i64,
}

impl Gap {
    /// The gap between two ticks, if at least two ticks are missing.
    pub(super) fn between(from_ms: i64, to_ms: i64, every_ms: u64) -> Option<Self> {
        let passed = u64::try_from(to_ms.saturating_sub(from_ms)).unwrap_or(0);
        (passed >= every_ms.saturating_mul(3)).then_some(Self { from_ms, to_ms })
    }
}

/// Summary of a ring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Span {
    /// Time of the first tick, in milliseconds since 1970 in UTC.
    pub first_ms: i64,
    /// Time of the last one.
    pub last_ms: i64,
    pub ticks: u64,
    pub bytes: u64,
    /// Times without ticks, oldest first.
    pub gaps: Vec<Gap>,
}

/// A time that a ring cannot answer for.
#[derive(Debug, Error)]
pub enum WindowError {
    #[error("nothing is recorded")]
    Empty,
    /// Before the first tick, after the last, or in a gap.
    #[error("nothing is recorded at {}: {why}", time(*at_ms))]
    Outside {
        at_ms: i64,
        /// The recorded times nearest to it.
        why: String,
    },
    #[error("the machine was booted between {} and {}", time(*first_ms), time(*last_ms))]
    Rebooted { first_ms: i64, last_ms: i64 },
    #[error("cannot read the recording {name}: {error}")]
    Segment { name: String, error: SegmentError },
    #[error("cannot read the recording: {0}")]
    Io(#[from] io::Error),
}

/// A time in words that can be given to `--at`.
fn time(ms: i64) -> String {
    Timestamp::from_millisecond(ms)
        .map_or_else(|_| format!("{ms} ms"), |time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// One segment of a ring.
#[derive(Debug)]
struct Listed {
    name: String,
    bytes: u64,
    first_ms: i64,
}

/// A ring on disk, possibly written to at the same time.
#[derive(Debug)]
pub struct Ring<S> {
    storage: S,
    /// Files of the ring, oldest first.
    segments: Vec<Listed>,
}

/// The machine at one tick.
#[derive(Debug)]
pub struct Replayed {
    /// Time of day, in milliseconds since 1970 in UTC.
    pub at_ms: i64,
    /// True if settings and programs were read too.
    pub is_full: bool,
    /// True if this does not follow the tick before: the first one, and after a gap or a boot.
    pub is_first: bool,
    pub host: RecordedHost,
}

impl<S: Storage> Ring<S> {
    /// Lists the files of the ring. A log whose packed form exists is left out.
    pub fn open(storage: S) -> io::Result<Self> {
        let mut segments = Vec::new();
        let files = storage.list()?;
        for (name, bytes) in &files {
            let stem = name.strip_suffix(PACKED).or_else(|| {
                // Packed, and not yet removed.
                let stem = name.strip_suffix(LOG)?;
                let packed = format!("{stem}{PACKED}");
                (!files.iter().any(|(other, _)| *other == packed)).then_some(stem)
            });
            let first_ms = stem.and_then(|stem| stem.parse().ok());
            segments.extend(first_ms.map(|first_ms| Listed { name: name.clone(), bytes: *bytes, first_ms }));
        }
        segments.sort_by_key(|segment| segment.first_ms);
        Ok(Self { storage, segments })
    }

    /// Summary of the ring; `None` if it is empty.
    pub fn span(&self) -> Result<Option<Span>, WindowError> {
        let mut whole: Option<Span> = None;
        for segment in &self.segments {
            let Some((span, every_ms)) = self.summary(segment)? else { continue };
            match &mut whole {
                None => whole = Some(span),
                Some(whole) => {
                    whole.gaps.extend(Gap::between(whole.last_ms, span.first_ms, every_ms));
                    whole.gaps.extend(span.gaps);
                    whole.last_ms = span.last_ms;
                    whole.ticks += span.ticks;
                    whole.bytes += span.bytes;
                }
            }
        }
        Ok(whole)
    }

    /// Summary of a segment, and its intended interval in milliseconds.
    fn summary(&self, listed: &Listed) -> Result<Option<(Span, u64)>, WindowError> {
        let (first_ms, bytes) = (listed.first_ms, listed.bytes);
        let span = |Packed { last_ms, ticks, gaps }| Span { first_ms, last_ms, ticks, bytes, gaps };
        if listed.name.ends_with(PACKED) {
            let Some(bytes) = self.bytes(&listed.name, HEAD)? else { return Ok(None) };
            let head = segment::head(&mut bytes.as_slice()).map_err(|error| failed(listed, error))?;
            if let Some((every_ms, packed)) = head.and_then(|head| Some((head.every_ms, head.packed?))) {
                return Ok(Some((span(packed), every_ms)));
            }
        }
        let Some(Contents { head, ticks }) = self.contents(listed)? else { return Ok(None) };
        Ok(Some((span(Packed::new(&ticks, head.every_ms)), head.every_ms)))
    }

    /// Bytes of a file; `None` if the ring has gone on and it is no longer there.
    fn bytes(&self, name: &str, limit: u64) -> io::Result<Option<Vec<u8>>> {
        if_there(self.storage.read(name, limit))
    }

    fn contents(&self, listed: &Listed) -> Result<Option<Contents>, WindowError> {
        let mut bytes = self.bytes(&listed.name, segment::FILE)?;
        if bytes.is_none() {
            // Packed since it was listed.
            bytes = self.bytes(&listed.name.replace(LOG, PACKED), segment::FILE)?;
        }
        let Some(bytes) = bytes else { return Ok(None) };
        segment::read(&bytes).map_err(|error| failed(listed, error))
    }

    /// The machine in the `length_ms` milliseconds that end at a time: at the last full sample before it, and at the
    /// last full sample that is at least that much earlier. With a length of 0 both are the same.
    ///
    /// Every full sample has all that commands read, and they are ten seconds apart.
    pub fn window(&self, at_ms: i64, length_ms: i64) -> Result<Snapshot, WindowError> {
        let (last_ms, last) = self.full_before(at_ms)?;
        let from = last_ms.saturating_sub(length_ms);
        let (first_ms, first) = self.full_before(from)?;
        if length_ms > 0 && is_other_boot(&first, &last) {
            return Err(WindowError::Rebooted { first_ms, last_ms });
        }
        let taken = Timestamp::from_millisecond(last_ms).unwrap_or_default();
        Ok(Snapshot::between(first, last, taken))
    }

    /// The last full sample at or before a time, and its time.
    fn full_before(&self, at_ms: i64) -> Result<(i64, RecordedHost), WindowError> {
        let before = self.segments.iter().rev().filter(|segment| segment.first_ms <= at_ms);
        for listed in before {
            let Some(Contents { head, ticks }) = self.contents(listed)? else { continue };
            let Some(latest) = ticks.iter().rposition(|tick| tick.at_ms <= at_ms) else { continue };
            if Gap::between(ticks[latest].at_ms, at_ms, head.every_ms).is_some() {
                break;
            }
            // The first tick of a segment is full.
            let until = ticks[..=latest].iter().rposition(|tick| tick.is_full).unwrap_or_default();
            let mut state = State::default();
            if !ticks[..=until].iter().all(|tick| state.apply(tick)) {
                return Err(failed(listed, SegmentError::Damaged));
            }
            return Ok((ticks[until].at_ms, state.host()));
        }
        let Some(span) = self.span()? else { return Err(WindowError::Empty) };
        let gap = span.gaps.iter().find(|gap| gap.from_ms <= at_ms && at_ms <= gap.to_ms);
        let why = match gap {
            Some(gap) => format!("the recorder paused from {} to {}", time(gap.from_ms), time(gap.to_ms)),
            None => format!("the recording spans {} to {}", time(span.first_ms), time(span.last_ms)),
        };
        Err(WindowError::Outside { at_ms, why })
    }

    /// The ticks from one time to another, one after another.
    pub fn replay(&self, from_ms: i64, to_ms: i64) -> Replay<'_, S> {
        // The segment in which it begins is the last that starts before.
        let start = self.segments.partition_point(|segment| segment.first_ms <= from_ms).saturating_sub(1);
        Replay {
            ring: self,
            next: start,
            from_ms,
            to_ms,
            ticks: Vec::new().into_iter(),
            state: State::default(),
            before: None,
        }
    }
}

/// Ticks in the order of time.
#[derive(Debug)]
pub struct Replay<'a, S> {
    ring: &'a Ring<S>,
    next: usize,
    from_ms: i64,
    to_ms: i64,
    ticks: std::vec::IntoIter<Tick>,
    state: State,
    /// Time of the tick before, its clock, and the interval.
    before: Option<(i64, u64, u64)>,
}

impl<S: Storage> Iterator for Replay<'_, S> {
    type Item = Result<Replayed, WindowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(tick) = self.ticks.next() else {
                let listed = self.ring.segments.get(self.next)?;
                self.next += 1;
                match self.ring.contents(listed) {
                    Ok(Some(contents)) => {
                        self.ticks = contents.ticks.into_iter();
                        self.state = State::default();
                        let every_ms = contents.head.every_ms;
                        self.before = self.before.map(|(at_ms, now_ns, _)| (at_ms, now_ns, every_ms));
                        self.before.get_or_insert((i64::MIN, u64::MAX, every_ms));
                    }
                    Ok(None) => {}
                    Err(error) => return Some(Err(error)),
                }
                continue;
            };
            if tick.at_ms > self.to_ms {
                return None;
            }
            if !self.state.apply(&tick) {
                // The rest of the segment depends on it.
                self.ticks = Vec::new().into_iter();
                continue;
            }
            let (before_ms, before_ns, every_ms) = self.before.unwrap_or((i64::MIN, u64::MAX, 0));
            let is_first = Gap::between(before_ms, tick.at_ms, every_ms).is_some()
                || tick.at_ms <= before_ms
                || tick.now_ns <= before_ns;
            self.before = Some((tick.at_ms, tick.now_ns, every_ms));
            if tick.at_ms >= self.from_ms {
                let host = self.state.host();
                return Some(Ok(Replayed { at_ms: tick.at_ms, is_full: tick.is_full, is_first, host }));
            }
        }
    }
}

fn failed(listed: &Listed, error: SegmentError) -> WindowError {
    WindowError::Segment { name: listed.name.clone(), error }
}

/// True if the clock since boot does not go on from one to the other, or the boots have different names.
fn is_other_boot(first: &RecordedHost, last: &RecordedHost) -> bool {
    use rxlab_sys::Host;
    let boot = |host: &RecordedHost| host.read("proc/sys/kernel/random/boot_id").ok();
    boot(first) != boot(last) || last.now_ns() <= first.now_ns()
}
