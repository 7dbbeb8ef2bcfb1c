//! Many ticks as one compressed block.
//!
//! In a log, a tick is a few bytes of each of a hundred counters, which compress badly. Here the values of one counter
//! are next to each other, their low bytes apart from their high bytes: neighbours resemble each other.

use std::collections::{BTreeMap, BTreeSet};

use super::bytes::{Budget, Cursor, Malformed, push_bytes, push_number, push_signed, unzigzag, zigzag};
use super::numbers::Deltas;
use super::tick::{CHANGE, CLOCK_NS, Change, DELTA, GONE, Key, NUMBERS, TICK, Tick, WHOLE};

/// A block is compressed once and kept for weeks.
const LEVEL: i32 = 19;
/// Most bytes that all sections together may unpack to.
const LIMIT: u64 = 128 << 20;

/// Parts of a block; each is compressed by itself, because its bytes resemble each other.
#[derive(Debug, Default)]
struct Sections {
    /// Times and kinds of the ticks.
    times: Vec<u8>,
    /// Keys, each with the number of its changes.
    keys: Vec<u8>,
    /// Kind of each change, by key.
    kinds: Vec<u8>,
    /// Ticks between the changes of a key.
    pauses: Vec<u8>,
    /// Whole contents, of entries in which more than numbers changed.
    contents: Vec<u8>,
    /// Positions and widths of the numbers that change, by run.
    columns: Vec<u8>,
    /// Deltas of numbers whose deltas all fit into a byte.
    narrow: Vec<u8>,
    /// Lowest bytes of the others.
    low: Vec<u8>,
    /// Higher bytes of those in `low`.
    high: Vec<u8>,
}

impl Sections {
    fn all(&mut self) -> [&mut Vec<u8>; 9] {
        let Self { times, keys, kinds, pauses, contents, columns, narrow, low, high } = self;
        [times, keys, kinds, pauses, contents, columns, narrow, low, high]
    }
}

/// The ticks of a segment, the first of which holds everything.
pub(super) fn pack(ticks: &[Tick]) -> std::io::Result<Vec<u8>> {
    let mut sections = Sections::default();
    push_times(&mut sections.times, ticks);
    let mut by_key: BTreeMap<&str, Vec<(usize, &Change)>> = BTreeMap::new();
    for (index, tick) in ticks.iter().enumerate() {
        for (key, change) in &tick.changes {
            by_key.entry(key).or_default().push((index, change));
        }
    }
    push_number(&mut sections.keys, by_key.len() as u64);
    for (key, changes) in &by_key {
        push_bytes(&mut sections.keys, key.as_bytes());
        push_number(&mut sections.keys, changes.len() as u64);
        let mut next = 0;
        for (index, _) in changes {
            push_number(&mut sections.pauses, (index - next) as u64);
            next = index + 1;
        }
        // Numbers keep their positions until the contents change.
        for run in changes.chunk_by(|(_, a), (_, b)| is_numbers(a) && is_numbers(b)) {
            push_run(&mut sections, run);
        }
    }
    let mut out = Vec::new();
    for section in sections.all() {
        push_number(&mut out, section.len() as u64);
        push_bytes(&mut out, &zstd::bulk::compress(section, LEVEL)?);
    }
    Ok(out)
}

fn is_numbers(change: &Change) -> bool {
    matches!(change, Change::Numbers(_))
}

/// Differences of differences: samples are taken at nearly equal intervals.
fn push_times(out: &mut Vec<u8>, ticks: &[Tick]) {
    push_number(out, ticks.len() as u64);
    let (mut at, mut now, mut pause) = (0, 0, 0);
    for tick in ticks {
        out.push(u8::from(tick.is_full));
        let since = tick.at_ms.wrapping_sub(at);
        push_signed(out, since.wrapping_sub(pause));
        let units = (tick.now_ns / CLOCK_NS).cast_signed();
        push_signed(out, units.wrapping_sub(now).wrapping_sub(since.wrapping_mul(10)));
        (at, now, pause) = (tick.at_ms, units, since);
    }
}

fn push_run(sections: &mut Sections, run: &[(usize, &Change)]) {
    for (_, change) in run {
        match change {
            Change::Gone => sections.kinds.push(GONE),
            Change::Whole(bytes) => {
                sections.kinds.push(WHOLE);
                push_bytes(&mut sections.contents, bytes);
            }
            Change::Numbers(_) => sections.kinds.push(NUMBERS),
        }
    }
    let deltas: Vec<&Deltas> = run
        .iter()
        .filter_map(|(_, change)| match change {
            Change::Numbers(deltas) => Some(deltas),
            _ => None,
        })
        .collect();
    if deltas.is_empty() {
        return;
    }
    let changing: BTreeSet<u32> = deltas.iter().flat_map(|deltas| deltas.iter().map(|(at, _)| *at)).collect();
    push_number(&mut sections.columns, changing.len() as u64);
    let mut columns: BTreeMap<u32, Vec<u64>> =
        changing.iter().map(|at| (*at, vec![0; deltas.len()])).collect();
    for (index, deltas) in deltas.iter().enumerate() {
        for (at, delta) in *deltas {
            if let Some(column) = columns.get_mut(at) {
                column[index] = zigzag(*delta);
            }
        }
    }
    let mut next = 0;
    for (at, column) in columns {
        push_number(&mut sections.columns, u64::from(at - next));
        next = at + 1;
        let most = column.iter().copied().max().unwrap_or_default();
        let width = (8 - most.leading_zeros() / 8).max(1) as usize;
        sections.columns.push(width as u8);
        for place in 0..width {
            let plane = match (width, place) {
                (1, _) => &mut sections.narrow,
                (_, 0) => &mut sections.low,
                _ => &mut sections.high,
            };
            plane.extend(column.iter().map(|value| value.to_le_bytes()[place]));
        }
    }
}

/// The ticks of a block, if they fit into the budget. Counts in a block are only its claims: a small block can describe
/// ticks without end.
pub(super) fn unpack(bytes: &[u8], mut budget: Budget) -> Result<Vec<Tick>, Malformed> {
    let mut cursor = Cursor(bytes);
    let mut sections = Sections::default();
    let mut left = Budget(LIMIT);
    for section in sections.all() {
        let length = cursor.number()?;
        left.take(usize::try_from(length).map_err(|_| Malformed)?, 1)?;
        *section = zstd::bulk::decompress(cursor.bytes()?, length as usize).map_err(|_| Malformed)?;
    }
    let mut ticks = times(&mut Cursor(&sections.times), &mut budget)?;
    let [mut keys, mut kinds, mut pauses, mut contents] =
        [&sections.keys, &sections.kinds, &sections.pauses, &sections.contents]
            .map(|section| Cursor(section));
    let mut planes = Planes {
        columns: Cursor(&sections.columns),
        narrow: Cursor(&sections.narrow),
        low: Cursor(&sections.low),
        high: Cursor(&sections.high),
    };
    let mut last = None;
    for _ in 0..keys.count()? {
        let key = std::str::from_utf8(keys.bytes()?).map_err(|_| Malformed)?;
        // Packed in order: one that comes twice would have two changes in one tick.
        if last.replace(key).is_some_and(|last| key <= last) {
            return Err(Malformed);
        }
        let count = usize::try_from(keys.number()?).map_err(|_| Malformed)?;
        budget.take(key.len(), 1)?;
        budget.take(count, CHANGE)?;
        let key = Key::from(key);
        let kinds = kinds.take(count)?;
        let mut indexes = Vec::with_capacity(count);
        let mut next = 0usize;
        for _ in 0..count {
            let pause = usize::try_from(pauses.number()?).map_err(|_| Malformed)?;
            let index = next.checked_add(pause).filter(|index| *index < ticks.len()).ok_or(Malformed)?;
            indexes.push(index);
            next = index + 1;
        }
        let mut indexes = indexes.into_iter();
        for run in kinds.chunk_by(|a, b| *a == NUMBERS && *b == NUMBERS) {
            let changes = match run[0] {
                GONE => vec![Change::Gone],
                WHOLE => {
                    let bytes = contents.bytes()?;
                    budget.take(bytes.len(), 1)?;
                    vec![Change::Whole(bytes.to_vec())]
                }
                NUMBERS => planes.run(run.len(), &mut budget)?.into_iter().map(Change::Numbers).collect(),
                _ => return Err(Malformed),
            };
            for (change, index) in changes.into_iter().zip(&mut indexes) {
                ticks[index].changes.push((key.clone(), change));
            }
        }
    }
    Ok(ticks)
}

fn times(cursor: &mut Cursor<'_>, budget: &mut Budget) -> Result<Vec<Tick>, Malformed> {
    let count = cursor.count()?;
    budget.take(count, TICK)?;
    let mut ticks = Vec::with_capacity(count);
    let (mut at, mut now, mut pause) = (0i64, 0i64, 0i64);
    for _ in 0..count {
        let is_full = cursor.byte()? != 0;
        let since = cursor.signed()?.wrapping_add(pause);
        at = at.wrapping_add(since);
        now = now.wrapping_add(cursor.signed()?).wrapping_add(since.wrapping_mul(10));
        pause = since;
        let now_ns = now.cast_unsigned().checked_mul(CLOCK_NS).ok_or(Malformed)?;
        ticks.push(Tick { at_ms: at, now_ns, is_full, changes: Vec::new() });
    }
    Ok(ticks)
}

/// Position of the numbers.
struct Planes<'a> {
    columns: Cursor<'a>,
    narrow: Cursor<'a>,
    low: Cursor<'a>,
    high: Cursor<'a>,
}

impl Planes<'_> {
    /// The deltas of the next `length` changes.
    fn run(&mut self, length: usize, budget: &mut Budget) -> Result<Vec<Deltas>, Malformed> {
        let mut run = vec![Deltas::new(); length];
        let mut next = 0u32;
        for _ in 0..self.columns.count()? {
            let skipped = u32::try_from(self.columns.number()?).map_err(|_| Malformed)?;
            let at = next.checked_add(skipped).ok_or(Malformed)?;
            next = at.checked_add(1).ok_or(Malformed)?;
            let width = usize::from(self.columns.byte()?);
            if !(1..=8).contains(&width) {
                return Err(Malformed);
            }
            let mut values = vec![0u64; length];
            for place in 0..width {
                let plane = match (width, place) {
                    (1, _) => &mut self.narrow,
                    (_, 0) => &mut self.low,
                    _ => &mut self.high,
                };
                for (value, byte) in values.iter_mut().zip(plane.take(length)?) {
                    *value |= u64::from(*byte) << (8 * place);
                }
            }
            for (deltas, value) in run.iter_mut().zip(values).filter(|(_, value)| *value != 0) {
                budget.take(1, DELTA)?;
                deltas.push((at, unzigzag(value)));
            }
        }
        Ok(run)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

    use super::{Sections, pack, push_bytes, push_number, unpack};
    use crate::recorder::bytes::{Budget, Malformed};
    use crate::recorder::segment::MEMORY;
    use crate::recorder::tick::{CLOCK_NS, Change, Keys, NUMBERS, Tick, WHOLE};

    fn changes() -> impl Strategy<Value = Change> {
        let deltas = proptest::collection::btree_map(0u32..9, any::<i64>(), 1..5).prop_map(|deltas| {
            let deltas =
                deltas.into_iter().map(|(at, delta)| (at, if delta == 0 { 1 } else { delta >> (at * 7) }));
            Change::Numbers(deltas.filter(|(_, delta)| *delta != 0).collect())
        });
        prop_oneof![Just(Change::Gone), any::<Vec<u8>>().prop_map(Change::Whole), deltas.clone(), deltas]
    }

    fn ticks() -> impl Strategy<Value = Vec<Tick>> {
        let changes = proptest::collection::btree_map("[fl]proc/[a-d]", changes(), 0..4);
        let tick =
            (any::<i32>(), any::<u32>(), any::<bool>(), changes).prop_map(|(at, now, is_full, changes)| {
                let changes = changes.into_iter().map(|(key, change)| (key.into(), change)).collect();
                Tick { at_ms: i64::from(at) << 10, now_ns: u64::from(now) * CLOCK_NS, is_full, changes }
            });
        proptest::collection::vec(tick, 0..9)
    }

    /// Blocks of a few kilobytes that claim to hold gigabytes.
    #[test]
    fn a_small_block_stays_small() {
        let number = |number: u64| {
            let mut bytes = Vec::new();
            push_number(&mut bytes, number);
            bytes
        };
        let block = |fill: &dyn Fn(&mut Sections)| {
            let times = [number(1), vec![1, 0, 0]].concat();
            let mut sections = Sections { times, keys: number(0), ..Sections::default() };
            fill(&mut sections);
            let mut out = Vec::new();
            for section in sections.all() {
                push_number(&mut out, section.len() as u64);
                push_bytes(&mut out, &zstd::bulk::compress(section, 3).expect("compressed"));
            }
            out
        };
        let many = 60 << 20;
        let one_key = |sections: &mut Sections, kind: u8| {
            sections.keys = [number(1), number(1), b"f".to_vec(), number(many as u64)].concat();
            sections.kinds = vec![kind; many];
            sections.pauses = vec![0; many];
            sections.times = [number(many as u64), vec![0; 3 * many]].concat();
        };
        let blocks = [
            block(&|sections| sections.times = [number(many as u64), vec![0; 2 * many]].concat()),
            block(&|sections| one_key(sections, NUMBERS)),
            block(&|sections| {
                one_key(sections, WHOLE);
                sections.times = [number(1), vec![1, 0, 0]].concat();
            }),
            block(&|sections| sections.contents = vec![0; 129 << 20]),
        ];
        for block in blocks {
            assert!(block.len() < 64 << 10, "{} bytes", block.len());
            assert_eq!(unpack(&block, Budget(MEMORY)), Err(Malformed));
        }
        let two_keys = |second: &[u8]| {
            block(&|sections| {
                let key = |name: &[u8]| [&number(1)[..], name, &number(1)].concat();
                sections.keys = [number(2), key(b"f"), key(second)].concat();
                sections.kinds = vec![super::GONE; 2];
                sections.pauses = vec![0; 2];
                sections.times = [number(1), vec![1, 0, 0]].concat();
            })
        };
        assert!(unpack(&two_keys(b"g"), Budget(MEMORY)).is_ok());
        assert_eq!(unpack(&two_keys(b"f"), Budget(MEMORY)), Err(Malformed), "one key twice");
    }

    proptest! {
        #[test]
        fn what_fits_is_unpacked_and_nothing_more(ticks in ticks()) {
            let needed: u64 = ticks.iter().map(Tick::memory).sum();
            let block = pack(&ticks).expect("packed");
            prop_assert_eq!(unpack(&block, Budget(needed + 99)), Ok(ticks));
            let too_few = Budget(needed.saturating_sub(1));
            prop_assert!(needed == 0 || unpack(&block, too_few).is_err());
        }

        #[test]
        fn what_is_packed_is_unpacked(ticks in ticks()) {
            prop_assert_eq!(unpack(&pack(&ticks).expect("packed"), Budget(MEMORY)), Ok(ticks));
        }

        #[test]
        fn a_log_is_read_as_it_was_written(ticks in ticks()) {
            let (mut written, mut read) = (Keys::default(), Keys::default());
            for tick in ticks {
                let bytes = tick.encode(&written);
                written.learn(&tick);
                prop_assert_eq!(Tick::decode(&bytes, &mut read), Ok(tick));
            }
        }

        #[test]
        fn a_damaged_block_is_another_one_or_an_error(ticks in ticks(), at in any::<proptest::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = pack(&ticks).expect("packed");
            let at = at.index(bytes.len());
            bytes[at] = byte;
            // It may still be a block, of other values.
            if let Ok(others) = unpack(&bytes, Budget(MEMORY)) {
                let times = |ticks: Vec<Tick>| ticks.iter().map(|tick| (tick.at_ms, tick.now_ns, tick.is_full)).collect::<Vec<_>>();
                let again = unpack(&pack(&others).expect("packed"), Budget(MEMORY)).expect("written by us");
                prop_assert_eq!(times(again), times(others));
            }
            prop_assert!(unpack(&bytes[..at], Budget(MEMORY)).is_err(), "cut short");
            if let Ok(tick) = Tick::decode(&bytes, &mut Keys::default()) {
                prop_assert_eq!(Tick::decode(&tick.encode(&Keys::default()), &mut Keys::default()), Ok(tick));
            }
        }
    }
}
