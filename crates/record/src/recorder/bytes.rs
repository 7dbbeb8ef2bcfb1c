//! Numbers and byte strings in a buffer: LEB128, seven bits to a byte, lowest first.

use thiserror::Error;

/// Bytes that do not decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("it does not decode")]
pub(super) struct Malformed;

/// Appends a number in LEB128: 7 bits a byte, lowest first.
pub(super) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a number that is small in either direction.
pub(super) fn push_signed(out: &mut Vec<u8>, number: i64) {
    push_number(out, zigzag(number));
}

/// Appends a length and that many bytes.
pub(super) fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Small numbers of either sign as small numbers without one.
pub(super) fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

/// The inverse of [`zigzag`].
pub(super) fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -((number & 1).cast_signed())
}

/// Bytes that may still be allocated for what is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget(pub(super) u64);

impl Budget {
    /// Takes `count` times `bytes`; must come before they are allocated.
    pub(super) fn take(&mut self, count: usize, bytes: usize) -> Result<(), Malformed> {
        let bytes = (count as u64).checked_mul(bytes as u64).ok_or(Malformed)?;
        self.0 = self.0.checked_sub(bytes).ok_or(Malformed)?;
        Ok(())
    }
}

/// Takes values off the front of a buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(super) fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    pub(super) fn signed(&mut self) -> Result<i64, Malformed> {
        self.number().map(unzigzag)
    }

    /// A count of things that take at least one byte each, so that no count makes the reader allocate more than the
    /// buffer has.
    pub(super) fn count(&mut self) -> Result<usize, Malformed> {
        let count = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        if count <= self.0.len() { Ok(count) } else { Err(Malformed) }
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.count()?;
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{Cursor, push_bytes, push_number, push_signed};

    proptest! {
        #[test]
        fn what_is_pushed_is_read(number in any::<u64>(), signed in any::<i64>(), bytes in any::<Vec<u8>>()) {
            let mut out = Vec::new();
            push_number(&mut out, number);
            push_signed(&mut out, signed);
            push_bytes(&mut out, &bytes);
            let mut cursor = Cursor(&out);
            prop_assert_eq!(cursor.number(), Ok(number));
            prop_assert_eq!(cursor.signed(), Ok(signed));
            prop_assert_eq!(cursor.bytes(), Ok(&bytes[..]));
            prop_assert!(cursor.is_empty());
            let mut cut = Cursor(&out[..out.len() - 1]);
            prop_assert!(cut.number().and_then(|_| cut.signed()).and_then(|_| cut.bytes()).is_err());
        }
    }
}
