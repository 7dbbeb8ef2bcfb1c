//! A set of CPUs of any width, in both of the kernel's text forms.

use std::fmt::{self, Write};
use std::str::FromStr;

use thiserror::Error;

use super::CpuId;
use crate::serde_as_text;

/// CPU numbers from here on are refused: far above any kernel's NR_CPUS, low enough that a typing
/// error cannot allocate a gigabyte.
const LIMIT: u32 = 1 << 16;

/// A set of CPUs.
///
/// Two text forms, both the kernel's (`lib/bitmap-str.c`): the list `0-3,8` ([`fmt::Display`],
/// [`FromStr`], JSON) and the mask `00000001,00000f00` ([`CpuMask::to_hex`], [`CpuMask::from_hex`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct CpuMask {
    // Least significant word first. Trailing zero words carry no meaning and are trimmed, so that equal sets have
    // equal words.
    words: Vec<u32>,
}

/// Text that is neither a CPU list nor a CPU mask.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MaskError {
    #[error("`{0}` is not a CPU or a range of CPUs (write 0-3,8)")]
    Part(String),
    #[error("the CPU range `{0}` runs backwards")]
    Backwards(String),
    #[error("`{0}` is not a group of 1 to 8 hexadecimal digits")]
    Group(String),
    #[error("CPU {0} is beyond the limit of {LIMIT}")]
    TooLarge(String),
}

impl CpuMask {
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the kernel's mask form: 32-bit hexadecimal groups, most significant first. An empty
    /// text is an error; `0` is the empty set.
    pub fn from_hex(text: &str) -> Result<Self, MaskError> {
        let groups: Vec<&str> = text.trim().split(',').collect();
        if groups.len() > (LIMIT / 32) as usize {
            return Err(MaskError::TooLarge((groups.len() * 32).to_string()));
        }
        let mut words = Vec::with_capacity(groups.len());
        for group in groups.iter().rev() {
            let valid = (1..=8).contains(&group.len()) && group.bytes().all(|b| b.is_ascii_hexdigit());
            let word = u32::from_str_radix(group, 16).ok().filter(|_| valid);
            words.push(word.ok_or_else(|| MaskError::Group((*group).to_owned()))?);
        }
        Ok(Self { words }.trimmed())
    }

    /// The kernel's mask form, as narrow as the set allows: what can be written to `rps_cpus`.
    pub fn to_hex(&self) -> String {
        match self.words.split_last() {
            None => "0".to_owned(),
            Some((top, rest)) => {
                rest.iter().rev().fold(format!("{top:x}"), |text, word| format!("{text},{word:08x}"))
            }
        }
    }

    /// Adds a CPU. Panics above the limit of 65536 CPUs, which parsed text never reaches.
    pub fn insert(&mut self, cpu: CpuId) {
        assert!(cpu.0 < LIMIT, "CPU {cpu} is beyond the limit of {LIMIT}");
        let word = (cpu.0 / 32) as usize;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu.0 % 32);
    }

    /// Removes a CPU, if it is in the set.
    pub fn remove(&mut self, cpu: CpuId) {
        if let Some(word) = self.words.get_mut((cpu.0 / 32) as usize) {
            *word &= !(1 << (cpu.0 % 32));
        }
        self.trim();
    }

    /// True if `cpu` is in the set.
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.words.get((cpu.0 / 32) as usize).is_some_and(|word| word & (1 << (cpu.0 % 32)) != 0)
    }

    /// The number of CPUs in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        (0u32..).zip(&self.words).flat_map(|(index, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                (bit < 32).then_some(CpuId(index * 32 + bit))
            })
        })
    }

    /// The lowest CPU; `None` in the empty set.
    pub fn first(&self) -> Option<CpuId> {
        self.iter().next()
    }

    /// CPUs in either set.
    pub fn union(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    /// CPUs in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    /// CPUs in this set and not in the other.
    pub fn difference(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }

    /// One more than the highest CPU that the words can hold.
    fn width(&self) -> u32 {
        u32::try_from(self.words.len()).expect("the limit is far below") * 32
    }

    /// The first CPU from `at` on that is in the set, or that is not, below [`Self::width`].
    fn next(&self, at: u32, inside: bool) -> Option<u32> {
        let first = at / 32;
        (first..).zip(self.words.get(first as usize..)?).find_map(|(index, word)| {
            let wanted = if inside { *word } else { !*word };
            let from = if index == first { u32::MAX << (at % 32) } else { u32::MAX };
            let bit = (wanted & from).trailing_zeros();
            (bit < 32).then_some(index * 32 + bit)
        })
    }

    /// Adds `low` to `high`, both below the limit.
    fn insert_range(&mut self, low: u32, high: u32) {
        // Highest first: it makes room for the others.
        self.insert(CpuId(high));
        let (first, last) = (low / 32, high / 32);
        for index in first..=last {
            let from = if index == first { u32::MAX << (low % 32) } else { u32::MAX };
            let to = if index == last { u32::MAX >> (31 - high % 32) } else { u32::MAX };
            self.words[index as usize] |= from & to;
        }
    }

    fn zip(&self, other: &Self, join: impl Fn(u32, u32) -> u32) -> Self {
        let width = self.words.len().max(other.words.len());
        let word = |set: &Self, i: usize| set.words.get(i).copied().unwrap_or(0);
        Self { words: (0..width).map(|i| join(word(self, i), word(other, i))).collect() }.trimmed()
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }

    fn trimmed(mut self) -> Self {
        self.trim();
        self
    }
}

impl FromIterator<CpuId> for CpuMask {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> Self {
        let mut mask = Self::new();
        cpus.into_iter().for_each(|cpu| mask.insert(cpu));
        mask
    }
}

impl From<CpuId> for CpuMask {
    fn from(cpu: CpuId) -> Self {
        Self::from_iter([cpu])
    }
}

/// A number that some kernel could have, and that fits in a [`CpuMask`].
impl TryFrom<u64> for CpuId {
    type Error = MaskError;

    fn try_from(number: u64) -> Result<Self, MaskError> {
        let valid = u32::try_from(number).ok().filter(|number| *number < LIMIT);
        valid.map(CpuId).ok_or_else(|| MaskError::TooLarge(number.to_string()))
    }
}

fn number(text: &str) -> Result<u32, MaskError> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(MaskError::Part(text.to_owned()));
    }
    match text.parse::<u32>() {
        Ok(cpu) if cpu < LIMIT => Ok(cpu),
        _ => Err(MaskError::TooLarge(text.to_owned())),
    }
}

/// Reads the list form. The empty text is the empty set, as in the kernel's own files.
impl FromStr for CpuMask {
    type Err = MaskError;

    fn from_str(text: &str) -> Result<Self, MaskError> {
        let mut mask = Self::new();
        let text = text.trim();
        if text.is_empty() {
            return Ok(mask);
        }
        for part in text.split(',') {
            let part = part.trim();
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let (low, high) = match (number(low), number(high)) {
                (Ok(low), Ok(high)) => (low, high),
                (Err(too_large @ MaskError::TooLarge(_)), _)
                | (_, Err(too_large @ MaskError::TooLarge(_))) => {
                    return Err(too_large);
                }
                _ => return Err(MaskError::Part(part.to_owned())),
            };
            if low > high {
                return Err(MaskError::Backwards(part.to_owned()));
            }
            mask.insert_range(low, high);
        }
        Ok(mask)
    }
}

serde_as_text!(CpuMask);

/// Writes the list form; nothing for the empty set.
impl fmt::Display for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let mut next = self.next(0, true);
        while let Some(low) = next {
            let end = self.next(low, false).unwrap_or(self.width());
            let comma = if text.is_empty() { "" } else { "," };
            // Writing to text does not fail; the formatter's own errors come from `pad`.
            match end - 1 {
                high if high == low => write!(text, "{comma}{low}")?,
                high => write!(text, "{comma}{low}-{high}")?,
            }
            next = self.next(end, true);
        }
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_set;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::{CpuId, CpuMask, MaskError};

    fn list(text: &str) -> CpuMask {
        text.parse().expect("a valid CPU list")
    }

    fn hex(text: &str) -> CpuMask {
        CpuMask::from_hex(text).expect("a valid mask")
    }

    /// Published values of field case D (128 CPUs) and C (two nodes of 16).
    #[test]
    fn published_masks() {
        assert_eq!(hex("ffff0000,00000000,00000000,00000000"), list("112-127"));
        assert_eq!(list("112-127").to_hex(), "ffff0000,00000000,00000000,00000000");
        assert_eq!(hex("000000fe"), list("1-7"));
        assert_eq!(hex("00fe0000"), list("17-23"));
        assert_eq!(hex("fe000000"), list("25-31"));
    }

    /// A vendor's document calls this mask CPU 33; bit 0 of the group is set, so it is 32.
    #[test]
    fn second_group_starts_at_32() {
        assert_eq!(hex("00000001,00000f00"), list("8-11,32"));
        assert_eq!(list("32").to_hex(), "1,00000000");
    }

    #[test]
    fn empty_forms() {
        assert_eq!(hex("00000000,00000000"), CpuMask::new());
        assert_eq!(list(""), CpuMask::new());
        assert_eq!(CpuMask::new().to_hex(), "0");
        assert_eq!(CpuMask::new().to_string(), "");
        let mut mask = list("40");
        mask.remove(CpuId(40));
        assert_eq!(mask, CpuMask::new());
    }

    #[test]
    fn bad_text_is_named() {
        assert_eq!("0-3,x".parse::<CpuMask>(), Err(MaskError::Part("x".into())));
        assert_eq!("3-1".parse::<CpuMask>(), Err(MaskError::Backwards("3-1".into())));
        assert_eq!("0,".parse::<CpuMask>(), Err(MaskError::Part(String::new())));
        assert_eq!("0-4294967295".parse::<CpuMask>(), Err(MaskError::TooLarge("4294967295".into())));
        assert_eq!(CpuMask::from_hex(""), Err(MaskError::Group(String::new())));
        assert_eq!(CpuMask::from_hex("+f"), Err(MaskError::Group("+f".into())));
        assert_eq!(CpuMask::from_hex("123456789"), Err(MaskError::Group("123456789".into())));
    }

    proptest! {
        #[test]
        fn both_forms_round_trip(cpus in btree_set(0u32..4096, 0..200)) {
            let mask: CpuMask = cpus.iter().copied().map(CpuId).collect();
            prop_assert_eq!(&hex(&mask.to_hex()), &mask);
            prop_assert_eq!(&list(&mask.to_string()), &mask);
            prop_assert_eq!(mask.iter().map(|c| c.0).collect::<Vec<_>>(), cpus.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(mask.len(), cpus.len());
        }

        /// Sets of few long ranges, which end on both sides of word boundaries.
        #[test]
        fn ranges_are_their_members(edges in btree_set(0u32..400, 1..12)) {
            let edges: Vec<u32> = edges.into_iter().collect();
            // Every second gap between two edges; ranges that touch are one.
            let ranges: Vec<(u32, u32)> =
                edges.chunks(2).map(|pair| (pair[0], pair.last().copied().unwrap_or(pair[0]))).collect();
            let text = |ranges: &[(u32, u32)]| {
                ranges.iter().map(|(low, high)| if low == high { low.to_string() } else { format!("{low}-{high}") }).collect::<Vec<_>>().join(",")
            };
            let members: CpuMask = ranges.iter().flat_map(|(low, high)| (*low..=*high).map(CpuId)).collect();
            prop_assert_eq!(&list(&text(&ranges)), &members);
            let mut joined: Vec<(u32, u32)> = Vec::new();
            for (low, high) in ranges {
                match joined.last_mut() {
                    Some((_, end)) if *end + 1 == low => *end = high,
                    _ => joined.push((low, high)),
                }
            }
            prop_assert_eq!(members.to_string(), text(&joined));
        }

        #[test]
        fn set_algebra(a in btree_set(0u32..4096, 0..100), b in btree_set(0u32..4096, 0..100)) {
            let mask = |set: &std::collections::BTreeSet<u32>| set.iter().copied().map(CpuId).collect::<CpuMask>();
            prop_assert_eq!(mask(&a).union(&mask(&b)), mask(&a.union(&b).copied().collect()));
            prop_assert_eq!(mask(&a).intersection(&mask(&b)), mask(&a.intersection(&b).copied().collect()));
            prop_assert_eq!(mask(&a).difference(&mask(&b)), mask(&a.difference(&b).copied().collect()));
        }

        #[test]
        fn what_is_read_is_written_the_same(text in "[0-9,:/-]{0,20}|[0-9a-f,]{0,40}|.{0,40}") {
            if let Ok(mask) = text.parse::<CpuMask>() {
                prop_assert!(mask.len() <= 65536);
                prop_assert_eq!(mask.to_string().parse(), Ok(mask));
            }
            if let Ok(mask) = CpuMask::from_hex(&text) {
                prop_assert_eq!(CpuMask::from_hex(&mask.to_hex()), Ok(mask));
            }
        }
    }
}
