//! A file as its numbers and the rest. Counters change every second and the rest does not, so the difference of two
//! samples of a file is a few small numbers.

/// Notation of the numbers in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    /// Decimal, alone or right-aligned in a column.
    Decimal,
    /// Eight lower-case hexadecimal digits.
    Hex,
    /// Words of 32 bits in the machine's byte order: answers of netlink and ioctls.
    Words,
}

impl Coding {
    /// The coding of the file or answer at `path`.
    pub(super) fn for_path(path: &str) -> Self {
        match path {
            "proc/net/softnet_stat" => Self::Hex,
            _ if path.starts_with("netlink/") || path.starts_with("ioctl/") => Self::Words,
            _ => Self::Decimal,
        }
    }
}

/// Stands in a template for a number, before the byte with its width.
const NUMBER: u8 = 0;

/// A file as a template and the numbers in it. Two samples of a file with the same template differ in numbers only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Numbers {
    coding: Coding,
    /// Bytes between numbers; each number is [`NUMBER`] and its width, 0 if it is not padded.
    template: Vec<u8>,
    values: Vec<u64>,
}

/// Numbers that changed, by position, and by how much, in order.
pub(super) type Deltas = Vec<(u32, i64)>;

impl Numbers {
    /// Takes a file apart; `None` if it has no numbers, or would not be the same put together again.
    pub(super) fn parse(coding: Coding, bytes: &[u8]) -> Option<Self> {
        let numbers = match coding {
            Coding::Words => words(bytes)?,
            Coding::Decimal | Coding::Hex if bytes.contains(&NUMBER) => return None,
            Coding::Decimal => decimal(bytes),
            Coding::Hex => hex(bytes),
        };
        (!numbers.values.is_empty()).then_some(numbers)
    }

    /// The content of the file, rebuilt from template and values.
    pub(super) fn render(&self) -> Vec<u8> {
        use std::io::Write;
        let mut out = Vec::with_capacity(self.template.len() + 8 * self.values.len());
        let mut values = self.values.iter();
        if self.coding == Coding::Words {
            values.for_each(|value| out.extend_from_slice(&(*value as u32).to_ne_bytes()));
            return out;
        }
        let mut template = self.template.iter();
        while let Some(byte) = template.next() {
            if *byte != NUMBER {
                out.push(*byte);
                continue;
            }
            let width = usize::from(*template.next().unwrap_or(&0));
            let value = values.next().copied().unwrap_or_default();
            let written = match self.coding {
                Coding::Hex => write!(out, "{value:08x}"),
                Coding::Decimal | Coding::Words => write!(out, "{value:width$}"),
            };
            written.expect("writing to memory does not fail");
        }
        out
    }

    /// Differences from these numbers to `later`; `None` if more than numbers differ.
    pub(super) fn deltas(&self, later: &Self) -> Option<Deltas> {
        if self.template != later.template || self.values.len() != later.values.len() {
            return None;
        }
        let pairs = (0..).zip(self.values.iter().zip(&later.values)).filter(|(_, (a, b))| a != b);
        Some(pairs.map(|(at, (before, after))| (at, self.difference(*before, *after))).collect())
    }

    fn difference(&self, before: u64, after: u64) -> i64 {
        match self.coding {
            Coding::Decimal => after.wrapping_sub(before).cast_signed(),
            // The counters of these wrap at 32 bits.
            Coding::Hex | Coding::Words => {
                i64::from((after as u32).wrapping_sub(before as u32).cast_signed())
            }
        }
    }

    /// Applies changes; false if one is of a number that is not there.
    pub(super) fn advance(&mut self, deltas: &[(u32, i64)]) -> bool {
        deltas.iter().all(|(at, delta)| {
            let Some(value) = self.values.get_mut(*at as usize) else { return false };
            *value = match self.coding {
                Coding::Decimal => value.wrapping_add(delta.cast_unsigned()),
                Coding::Hex | Coding::Words => {
                    u64::from((*value as u32).wrapping_add(delta.cast_unsigned() as u32))
                }
            };
            true
        })
    }
}

fn words(bytes: &[u8]) -> Option<Numbers> {
    let (words, rest) = bytes.as_chunks();
    let values = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).collect();
    rest.is_empty().then_some(Numbers { coding: Coding::Words, template: Vec::new(), values })
}

/// True for a byte that a number cannot follow or precede directly: `virtio0`, `3.5` and `0x1f` are not numbers.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.'
}

fn decimal(bytes: &[u8]) -> Numbers {
    let mut numbers = Numbers { coding: Coding::Decimal, template: Vec::new(), values: Vec::new() };
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let spaces = bytes[at..].iter().take_while(|byte| **byte == b' ').count();
        at += spaces;
        let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let is_bound = (start == 0 || spaces > 0 || !is_of_word(bytes[start - 1]))
            && bytes.get(at + digits).is_none_or(|byte| !is_of_word(*byte));
        let is_canonical = digits == 1 || (digits > 1 && bytes[at] != b'0');
        let value = std::str::from_utf8(&bytes[at..at + digits]).ok().and_then(|text| text.parse().ok());
        let width = if spaces > 1 { spaces + digits } else { 0 };
        match (value, u8::try_from(width)) {
            (Some(value), Ok(width)) if is_bound && is_canonical => {
                // A single space separates; more of them pad.
                if width == 0 {
                    numbers.template.extend(std::iter::repeat_n(b' ', spaces));
                }
                numbers.template.extend([NUMBER, width]);
                numbers.values.push(value);
                at += digits;
            }
            _ => {
                // At least one byte, and no part of a number.
                let end = at + digits.max(usize::from(spaces == 0));
                numbers.template.extend_from_slice(&bytes[start..end.min(bytes.len())]);
                at = end;
            }
        }
    }
    numbers
}

fn hex(bytes: &[u8]) -> Numbers {
    let mut numbers = Numbers { coding: Coding::Hex, template: Vec::new(), values: Vec::new() };
    let mut rest = bytes;
    while !rest.is_empty() {
        let length = rest.iter().take_while(|byte| is_of_word(**byte)).count();
        let (word, after) = rest.split_at(length.max(1));
        let is_hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
        let text = std::str::from_utf8(word).ok().filter(|_| word.len() == 8 && word.iter().all(is_hex));
        match text.and_then(|text| u64::from_str_radix(text, 16).ok()) {
            Some(value) => {
                numbers.template.extend([NUMBER, 8]);
                numbers.values.push(value);
            }
            None => numbers.template.extend_from_slice(word),
        }
        rest = after;
    }
    numbers
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{Coding, Numbers};

    fn parse(coding: Coding, text: &str) -> Numbers {
        Numbers::parse(coding, text.as_bytes()).expect("numbers")
    }

    #[test]
    fn counters_differ_in_a_few_small_numbers() {
        let stat = |user: u64| parse(Coding::Decimal, &format!("cpu0 {user} 0 7\ncpu1 3 0 9\n"));
        assert_eq!(stat(99).deltas(&stat(100)), Some(vec![(0, 1)]));
        let row = |count: u64| parse(Coding::Decimal, &format!(" 25: {count:>10}     7  virtio0-input.0\n"));
        assert_eq!(row(9).deltas(&row(12_345)), Some(vec![(1, 12_336)]), "in a column");
        let softnet = |count: u32| parse(Coding::Hex, &format!("{count:08x} 00000001\n"));
        assert_eq!(softnet(u32::MAX).deltas(&softnet(5)), Some(vec![(0, 6)]), "it wraps");
        let name = |name: &str| parse(Coding::Decimal, &format!("{name} 1\n"));
        assert_eq!(name("cpu0").deltas(&name("cpu1")), None, "part of a name");
    }

    proptest! {
        #[test]
        fn every_file_is_put_together_as_it_was(
            text in r"([ 0-9a-f:x.]|  [0-9]{1,9}|\n|[0-9a-f]{8}){0,60}",
            bytes in any::<Vec<u8>>(),
        ) {
            for coding in [Coding::Decimal, Coding::Hex, Coding::Words] {
                for file in [text.as_bytes(), &bytes] {
                    if let Some(numbers) = Numbers::parse(coding, file) {
                        prop_assert_eq!(numbers.render(), file);
                    }
                }
            }
        }

        #[test]
        fn deltas_lead_to_the_later_file(values in proptest::collection::vec((any::<u64>(), any::<u64>()), 1..9)) {
            let file = |values: Vec<u64>| {
                values.iter().map(|value| format!("{value} ")).collect::<String>().into_bytes()
            };
            let (before, after): (Vec<u64>, Vec<u64>) = values.into_iter().unzip();
            for coding in [Coding::Decimal, Coding::Words] {
                let bytes = |values: &[u64]| match coding {
                    Coding::Words => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
                    _ => file(values.to_vec()),
                };
                let mut numbers = Numbers::parse(coding, &bytes(&before)).expect("numbers");
                let later = Numbers::parse(coding, &bytes(&after)).expect("numbers");
                let deltas = numbers.deltas(&later).expect("the same template");
                prop_assert!(numbers.advance(&deltas));
                prop_assert_eq!(numbers.render(), bytes(&after));
            }
        }
    }
}
