//! One sample as the changes since the one before, and its bytes in a log.

use std::sync::Arc;

use super::bytes::{Cursor, Malformed, push_bytes, push_number, push_signed};
use super::numbers::Deltas;

/// Resolution of the recorded clock: fine enough for rates over a second, and the digits below would be noise that does
/// not compress.
pub(super) const CLOCK_NS: u64 = 100_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tick {
    /// Time of day, in milliseconds since 1970 in UTC.
    pub(super) at_ms: i64,
    /// Nanoseconds since boot, a multiple of [`CLOCK_NS`].
    pub(super) now_ns: u64,
    /// True if settings and programs were read too, not only the counters of the receive path.
    pub(super) is_full: bool,
    pub(super) changes: Vec<(Key, Change)>,
}

/// Key of an entry: in memory once for all ticks of a segment.
pub(super) type Key = Arc<str>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// It is no longer there.
    Gone,
    /// The whole new contents.
    Whole(Vec<u8>),
    /// Only numbers changed: their deltas.
    Numbers(Deltas),
}

/// Keys of a segment by number: a key is spelled once.
#[derive(Debug, Default)]
pub(super) struct Keys {
    known: Vec<Key>,
    numbers: std::collections::HashMap<Key, u64>,
}

// Kinds of changes in bytes.
pub(super) const GONE: u8 = 0;
pub(super) const WHOLE: u8 = 1;
pub(super) const NUMBERS: u8 = 2;

impl Change {
    /// Bytes in memory, rounded up.
    pub(super) fn memory(&self) -> u64 {
        let contents = match self {
            Self::Gone => 0,
            Self::Whole(bytes) => bytes.len(),
            Self::Numbers(deltas) => deltas.len() * DELTA,
        };
        (CHANGE + contents) as u64
    }
}

/// Bytes of a change in memory without its contents.
pub(super) const CHANGE: usize = 64;
/// Bytes of a delta in memory.
pub(super) const DELTA: usize = 16;
/// Bytes of a tick in memory without its changes.
pub(super) const TICK: usize = 64;

impl Tick {
    /// Bytes in memory, rounded up.
    pub(super) fn memory(&self) -> u64 {
        TICK as u64 + self.changes.iter().map(|(_, change)| change.memory()).sum::<u64>()
    }

    /// Its bytes. The keys it spells are added to `keys` by [`Keys::learn`], once the bytes are on disk.
    pub(super) fn encode(&self, keys: &Keys) -> Vec<u8> {
        let mut out = vec![u8::from(self.is_full)];
        push_signed(&mut out, self.at_ms);
        push_number(&mut out, self.now_ns / CLOCK_NS);
        push_number(&mut out, self.changes.len() as u64);
        for (key, change) in &self.changes {
            // 0 spells a new key.
            match keys.numbers.get(key) {
                Some(number) => push_number(&mut out, number + 1),
                None => {
                    push_number(&mut out, 0);
                    push_bytes(&mut out, key.as_bytes());
                }
            }
            match change {
                Change::Gone => out.push(GONE),
                Change::Whole(bytes) => {
                    out.push(WHOLE);
                    push_bytes(&mut out, bytes);
                }
                Change::Numbers(deltas) => {
                    out.push(NUMBERS);
                    push_number(&mut out, deltas.len() as u64);
                    let mut next = 0;
                    for (at, delta) in deltas {
                        push_number(&mut out, u64::from(at - next));
                        push_signed(&mut out, *delta);
                        next = at + 1;
                    }
                }
            }
        }
        out
    }

    /// Reads the bytes of the tick that follows those which `keys` has learned, and learns its keys.
    pub(super) fn decode(bytes: &[u8], keys: &mut Keys) -> Result<Self, Malformed> {
        let mut cursor = Cursor(bytes);
        let is_full = cursor.byte()? != 0;
        let (at_ms, now) = (cursor.signed()?, cursor.number()?);
        let now_ns = now.checked_mul(CLOCK_NS).ok_or(Malformed)?;
        let count = cursor.count()?;
        let mut changes = Vec::with_capacity(count);
        for _ in 0..count {
            let key = match cursor.number()?.checked_sub(1) {
                Some(number) => {
                    let number = usize::try_from(number).map_err(|_| Malformed)?;
                    keys.known.get(number).ok_or(Malformed)?.clone()
                }
                None => Key::from(std::str::from_utf8(cursor.bytes()?).map_err(|_| Malformed)?),
            };
            let change = match cursor.byte()? {
                GONE => Change::Gone,
                WHOLE => Change::Whole(cursor.bytes()?.to_vec()),
                NUMBERS => Change::Numbers(deltas(&mut cursor)?),
                _ => return Err(Malformed),
            };
            changes.push((key, change));
        }
        let tick = Self { at_ms, now_ns, is_full, changes };
        keys.learn(&tick);
        if cursor.is_empty() { Ok(tick) } else { Err(Malformed) }
    }
}

fn deltas(cursor: &mut Cursor<'_>) -> Result<Deltas, Malformed> {
    let count = cursor.count()?;
    let mut deltas = Vec::with_capacity(count);
    let mut next = 0u32;
    for _ in 0..count {
        let skipped = u32::try_from(cursor.number()?).map_err(|_| Malformed)?;
        let at = next.checked_add(skipped).ok_or(Malformed)?;
        deltas.push((at, cursor.signed()?));
        next = at.checked_add(1).ok_or(Malformed)?;
    }
    Ok(deltas)
}

impl Keys {
    /// Numbers the keys that `tick` is the first to have.
    pub(super) fn learn(&mut self, tick: &Tick) {
        for (key, _) in &tick.changes {
            if !self.numbers.contains_key(key) {
                self.numbers.insert(key.clone(), self.known.len() as u64);
                self.known.push(key.clone());
            }
        }
    }
}
