//! Netlink answers as bytes: messages one after another, attributes inside.
//!
//! A recorded answer is the attributes of each message in the kernel's order,
//! each message with its length before it. The headers are left out: family numbers and sequence
//! numbers differ from boot to boot and carry no information. The parser of each family interprets the
//! attributes.

use netlink_packet_core::{NLA_TYPE_MASK, NlasIterator};
use thiserror::Error;

/// Bytes that do not match the format.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct WireError(pub(crate) String);

impl WireError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

/// An answer of one message (without its headers). Answers one after another are an answer of all their messages.
pub fn one_message(message: &[u8]) -> Vec<u8> {
    // A netlink message's own length field has 32 bits.
    let length = u32::try_from(message.len()).expect("a netlink message is shorter than 4 GiB");
    [&length.to_ne_bytes()[..], message].concat()
}

/// Numbers, one after another.
pub fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

pub fn messages(mut answer: &[u8]) -> Result<Vec<&[u8]>, WireError> {
    let mut messages = Vec::new();
    while !answer.is_empty() {
        let cut = || WireError::new(format!("message {} is truncated", messages.len() + 1));
        let (length, rest) = answer.split_first_chunk().ok_or_else(cut)?;
        let length = usize::try_from(u32::from_ne_bytes(*length)).map_err(|_| cut())?;
        messages.push(rest.get(..length).ok_or_else(cut)?);
        answer = &rest[length..];
    }
    Ok(messages)
}

/// The message of an answer that has one.
pub(super) fn only(answer: &[u8]) -> Result<&[u8], WireError> {
    match messages(answer)?[..] {
        [message] => Ok(message),
        ref messages => Err(WireError::new(format!("{} messages, expected one", messages.len()))),
    }
}

/// The attributes of a message, or those nested in one attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes<'a>(Vec<(u16, &'a [u8])>);

impl<'a> Attributes<'a> {
    /// Splits `bytes`. Flags in an attribute's type (nested, byte order) are removed.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let attributes = NlasIterator::new(bytes).map(|attribute| {
            let attribute = attribute.map_err(|error| WireError::new(format!("attributes: {error}")))?;
            let (kind, end) = (attribute.kind() & NLA_TYPE_MASK, usize::from(attribute.length()));
            // The iterator has checked that header and value lie within its bytes.
            Ok((kind, attribute.into_inner().get(4..end).unwrap_or_default()))
        });
        attributes.collect::<Result<_, _>>().map(Self)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &'a [u8])> + '_ {
        self.0.iter().copied()
    }

    /// The bytes of the first attribute of this kind.
    pub fn get(&self, kind: u16) -> Option<&'a [u8]> {
        self.iter().find(|(found, _)| *found == kind).map(|(_, value)| value)
    }

    /// The attributes nested in the first one of this kind; none if there is none.
    pub fn nested(&self, kind: u16) -> Result<Attributes<'a>, WireError> {
        Attributes::parse(self.get(kind).unwrap_or_default())
    }

    /// A number of 1, 2, 4 or 8 bytes: the kernel's `uint` is four or eight bytes long, whichever fits.
    pub fn number(&self, kind: u16) -> Result<Option<u64>, WireError> {
        self.get(kind).map(|bytes| number(kind, bytes)).transpose()
    }

    /// [`Attributes::number`] that fits in 32 bits.
    pub fn number32(&self, kind: u16) -> Result<Option<u32>, WireError> {
        let wide = |wide| WireError::new(format!("attribute {kind}: {wide} does not fit in 32 bits"));
        let number = self.number(kind)?;
        number.map(|wide_one| u32::try_from(wide_one).map_err(|_| wide(wide_one))).transpose()
    }

    /// Text up to its NUL.
    pub fn text(&self, kind: u16) -> Result<Option<&'a str>, WireError> {
        self.get(kind).map(|bytes| text(kind, bytes)).transpose()
    }
}

fn number(kind: u16, bytes: &[u8]) -> Result<u64, WireError> {
    match *bytes {
        [byte] => Ok(u64::from(byte)),
        [a, b] => Ok(u64::from(u16::from_ne_bytes([a, b]))),
        [a, b, c, d] => Ok(u64::from(u32::from_ne_bytes([a, b, c, d]))),
        [a, b, c, d, e, f, g, h] => Ok(u64::from_ne_bytes([a, b, c, d, e, f, g, h])),
        _ => Err(WireError::new(format!("attribute {kind}: {} bytes are not a number", bytes.len()))),
    }
}

fn text(kind: u16, bytes: &[u8]) -> Result<&str, WireError> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    std::str::from_utf8(&bytes[..end]).map_err(|_| WireError::new(format!("attribute {kind}: not text")))
}

/// Flag of an attribute that contains attributes: a strict kernel requires it in requests.
pub const NESTED: u16 = 0x8000;

/// One attribute, padded to four bytes. Several are one after another: `concat`.
pub fn attribute(kind: u16, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    let length = u16::try_from(4 + value.len()).expect("attributes of requests are short");
    let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// An answer of one message with some of its attributes replaced by those of the same kind, or
/// added if missing.
pub fn with_attributes(answer: &[u8], attributes: &[u8]) -> Result<Vec<u8>, WireError> {
    Ok(one_message(&attributes_replaced(only(answer)?, attributes)?))
}

/// The attributes of a message with some of them replaced by those of the same kind, or added if missing.
pub(super) fn attributes_replaced(message: &[u8], attributes: &[u8]) -> Result<Vec<u8>, WireError> {
    let (old, new) = (Attributes::parse(message)?, Attributes::parse(attributes)?);
    let replaced = old.iter().map(|(kind, value)| attribute(kind, new.get(kind).unwrap_or(value)));
    let added = new.iter().filter(|(kind, _)| old.get(*kind).is_none());
    Ok(replaced.chain(added.map(|(kind, value)| attribute(kind, value))).flatten().collect())
}

/// An answer with another message in place of each for which `change` returns one; an error if it does for none.
pub(super) fn with_message(
    answer: &[u8],
    change: impl Fn(&[u8]) -> Result<Option<Vec<u8>>, WireError>,
) -> Result<Vec<u8>, WireError> {
    let (mut after, mut found) = (Vec::new(), false);
    for message in messages(answer)? {
        let changed = change(message)?;
        found |= changed.is_some();
        after.extend(one_message(changed.as_deref().unwrap_or(message)));
    }
    if found { Ok(after) } else { Err(WireError::new("no such message")) }
}

/// A message with other bytes at a place.
pub(super) fn with_bytes(message: &[u8], at: usize, bytes: &[u8]) -> Result<Vec<u8>, WireError> {
    let mut message = message.to_vec();
    let place = message.get_mut(at..).and_then(|rest| rest.get_mut(..bytes.len()));
    let place = place.ok_or_else(|| WireError::new(format!("no room for {} bytes at {at}", bytes.len())))?;
    place.copy_from_slice(bytes);
    Ok(message)
}

#[cfg(test)]
pub(super) mod testing {
    use super::one_message;

    /// Bytes from hexadecimal digits.
    pub(in crate::parse) fn hex(digits: &str) -> Vec<u8> {
        let pairs = digits.as_bytes().chunks(2);
        let byte = |pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
        pairs.map(|pair| byte(pair).expect("two hexadecimal digits")).collect()
    }

    /// An answer of these messages, given in hexadecimal digits.
    pub(in crate::parse) fn answer(messages: &[&str]) -> Vec<u8> {
        messages.iter().flat_map(|message| one_message(&hex(message))).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{Attributes, attribute, messages, one_message, with_attributes};

    #[test]
    fn an_attribute_of_each_shape() {
        let nested = attribute(7 | 0x8000, attribute(1, b"eth0\0"));
        let bytes = [nested, attribute(2, (1u64 << 40).to_ne_bytes()), attribute(3, [1, 2, 3])].concat();
        let attributes = Attributes::parse(&bytes).expect("valid");
        let nested = attributes.nested(7).expect("valid");
        assert_eq!(nested.text(1).expect("text"), Some("eth0"));
        assert_eq!(attributes.number(2), Ok(Some(1 << 40)));
        assert!(attributes.number32(2).is_err());
        assert!(attributes.number(3).is_err(), "three bytes are not a number");
        assert_eq!(attributes.number(4), Ok(None));
    }

    #[test]
    fn attributes_take_the_place_of_their_kind() {
        let (first, third) = (attribute(1, b"aa"), attribute(3, b"c"));
        let (short, long) = (attribute(2, b"b"), attribute(2, b"longer"));
        let answer = one_message(&[first.clone(), short].concat());
        let after = with_attributes(&answer, &[long.clone(), third.clone()].concat()).expect("one message");
        assert_eq!(after, one_message(&[first, long, third].concat()));
        let two = [answer.clone(), answer].concat();
        assert!(with_attributes(&two, &[]).is_err());
    }

    #[test]
    fn a_cut_answer_is_an_error() {
        let answer = [one_message(b"abcd"), one_message(b"")].concat();
        assert_eq!(messages(&answer).expect("valid"), [b"abcd".as_slice(), b""]);
        assert!(messages(&answer[..6]).is_err());
        assert!(messages(&answer[..10]).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            written in proptest::collection::vec((1u16..100, proptest::collection::vec(any::<u8>(), 0..12)), 0..6),
        ) {
            let attributes: Vec<Vec<u8>> = written.iter().map(|(kind, value)| attribute(*kind, value)).collect();
            let answer = one_message(&attributes.concat());
            let messages = messages(&answer).expect("one message");
            let read = Attributes::parse(messages[0]).expect("valid");
            let pairs: Vec<(u16, Vec<u8>)> = read.iter().map(|(kind, value)| (kind, value.to_vec())).collect();
            prop_assert_eq!(pairs, written);
        }
    }
}
