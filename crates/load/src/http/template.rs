//! Paths with placeholders that are filled in for each request.
//!
//! | placeholder | value |
//! |---|---|
//! | `{hex:N}` | N random hexadecimal digits |
//! | `{bytes:N}` | N random bytes, each as `%xx` |
//! | `{bytes:N/M}` | the same, with only M different values |
//! | `{int:A..B}` | a random number from A to B |
//!
//! Requests are written into an existing buffer: a placeholder costs some nanoseconds and no
//! allocation. The random numbers are the same in every run.

use std::io::Write;

use thiserror::Error;

use crate::Random;
use rxlab_base::units::digits;

/// Most bytes or digits of one placeholder.
const LONGEST: usize = 256;
const HEX: &[u8; 16] = b"0123456789abcdef";

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "invalid placeholder `{0}`: must be {{hex:N}}, {{bytes:N}}, {{bytes:N/M}} or {{int:A..B}}; \
     for a literal brace write %7B or %7D"
)]
pub struct TemplateError(String);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Plain(Vec<u8>),
    Hex(usize),
    Bytes { count: usize, different: Option<u64> },
    Number { first: u64, last: u64 },
}

/// A text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

impl Template {
    /// Parses a path, with or without placeholders.
    pub(crate) fn parse(path: &str) -> Result<Self, TemplateError> {
        let (mut parts, mut rest) = (Vec::new(), path);
        while let Some((plain, behind)) = rest.split_once('{') {
            let bad =
                || TemplateError(format!("{{{}", behind.split_inclusive('}').next().unwrap_or_default()));
            let (place, behind) = behind.split_once('}').ok_or_else(bad)?;
            parts.push(Part::Plain(plain.as_bytes().to_vec()));
            parts.push(part(place).ok_or_else(bad)?);
            rest = behind;
        }
        parts.push(Part::Plain(rest.as_bytes().to_vec()));
        if parts.iter().any(|part| matches!(part, Part::Plain(text) if text.contains(&b'}'))) {
            return Err(TemplateError("}".to_owned()));
        }
        Ok(Self { parts })
    }

    pub(super) fn has_placeholders(&self) -> bool {
        self.parts.iter().any(|part| !matches!(part, Part::Plain(_)))
    }

    /// The same with text before and after it.
    pub(super) fn within(mut self, before: &[u8], behind: &[u8]) -> Self {
        self.parts.insert(0, Part::Plain(before.to_vec()));
        self.parts.push(Part::Plain(behind.to_vec()));
        self
    }

    /// Appends the text with its placeholders filled in.
    pub(super) fn fill(&self, random: &mut Random, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Plain(text) => out.extend_from_slice(text),
                Part::Hex(digits) => {
                    let mut word = 0;
                    for digit in 0..*digits {
                        word = if digit % 16 == 0 { random.next_u64() } else { word >> 4 };
                        out.push(HEX[(word & 15) as usize]);
                    }
                }
                Part::Bytes { count, different } => {
                    let mut one = Random::new(match different {
                        Some(different) => random.below(*different),
                        None => random.next_u64(),
                    });
                    let mut word = 0;
                    for byte in 0..*count {
                        word = if byte % 8 == 0 { one.next_u64() } else { word >> 8 };
                        let (high, low) = ((word >> 4 & 15) as usize, (word & 15) as usize);
                        out.extend_from_slice(&[b'%', HEX[high], HEX[low]]);
                    }
                }
                Part::Number { first, last } => {
                    let number = first + random.below(last - first + 1);
                    write!(out, "{number}").expect("writing to memory does not fail");
                }
            }
        }
    }
}

fn part(place: &str) -> Option<Part> {
    let count = |text: &str| digits(text).filter(|n| (1..=LONGEST).contains(n));
    let (kind, value) = place.split_once(':')?;
    match (kind, value.split_once('/'), value.split_once("..")) {
        ("hex", None, None) => count(value).map(Part::Hex),
        ("bytes", None, None) => count(value).map(|count| Part::Bytes { count, different: None }),
        ("bytes", Some((bytes, different)), None) => {
            let different = Some(digits(different).filter(|n| *n > 0)?);
            Some(Part::Bytes { count: count(bytes)?, different })
        }
        ("int", None, Some((first, last))) => {
            let (first, last) = (digits(first)?, digits(last)?);
            (first <= last && last < u64::MAX).then_some(Part::Number { first, last })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::{any, prop_assert, proptest};

    use super::{Random, Template};

    fn filled(path: &str, count: usize) -> Vec<String> {
        let template = Template::parse(path).expect("a template");
        let mut random = Random::new(7);
        (0..count)
            .map(|_| {
                let mut out = Vec::new();
                template.fill(&mut random, &mut out);
                String::from_utf8(out).expect("text")
            })
            .collect()
    }

    fn different(path: &str) -> usize {
        filled(path, 1000).into_iter().collect::<BTreeSet<_>>().len()
    }

    #[test]
    fn places_are_filled_in_as_they_say() {
        let hex = &filled("/a?h={hex:40}&", 1)[0];
        assert!(hex.len() == 46 && hex[5..45].bytes().all(|b| b.is_ascii_hexdigit()), "{hex}");
        let bytes = &filled("{bytes:20}", 1)[0];
        assert!(bytes.len() == 60 && bytes.matches('%').count() == 20, "{bytes}");
        for port in filled("{int:9..11}", 100) {
            assert!(["9", "10", "11"].contains(&port.as_str()), "{port}");
        }
        assert_eq!(different("{int:9..11}"), 3);
        assert_eq!(different("{bytes:20/5}"), 5);
        assert_eq!((different("{bytes:20}"), different("{hex:40}")), (1000, 1000));
        assert_eq!(filled("{hex:9}", 9), filled("{hex:9}", 9), "the same in every run");
        assert!(Template::parse("/plain?a=b").is_ok_and(|plain| !plain.has_placeholders()));
    }

    #[test]
    fn what_cannot_be_filled_in_is_named() {
        for bad in [
            "{",
            "}",
            "a}b",
            "{}",
            "{hex}",
            "{hex:0}",
            "{hex:257}",
            "{hex:-1}",
            "{int:2..1}",
            "{int:1}",
            "{bytes:9/0}",
            "{x:1}",
            "{hex:{hex:1}}",
        ] {
            assert!(Template::parse(bad).is_err(), "{bad}");
        }
        let error = Template::parse("/a?b={hexx:1}&c").expect_err("no such place").to_string();
        assert!(error.starts_with("invalid placeholder `{hexx:1}`: must be {hex:N}, "), "{error}");
    }

    proptest! {
        #[test]
        fn what_is_filled_in_fits_into_a_request_line(path in "[!-~]{0,20}(\\{(hex|bytes|int):[0-9./]{0,9}\\}[!-~]{0,5}){0,3}", seed in any::<u64>()) {
            if let Ok(template) = Template::parse(&path) {
                let mut out = Vec::new();
                template.fill(&mut Random::new(seed), &mut out);
                prop_assert!(out.iter().all(u8::is_ascii_graphic));
            }
        }
    }
}
