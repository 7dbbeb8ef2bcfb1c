//! The last message, recognized when the same bytes arrive again: comparing them costs nanoseconds,
//! parsing a head a hundred.

/// Longest message that is learned.
const LONGEST: usize = 2048;
/// Bytes of copies compared at once with the input of a read.
const COPIES: usize = 64 * 1024;

/// A message and its repetition.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    /// The message; empty before there is one.
    message: Vec<u8>,
    /// The message repeated, once it came more than once in a read; else empty.
    copies: Vec<u8>,
}

impl Repeated {
    /// Takes at most `most` complete copies off the front of `input`; returns their count.
    pub(crate) fn take(&mut self, input: &mut &[u8], most: usize) -> usize {
        let length = self.message.len();
        if length == 0 || input.len() < length {
            return 0;
        }
        let whole = (input.len() / length).min(most);
        let bytes = whole * length;
        if bytes <= self.copies.len() && input[..bytes] == self.copies[..bytes] {
            *input = &input[bytes..];
            return whole;
        }
        let mut count = 0;
        while count < most
            && let Some(rest) = input.strip_prefix(&self.message[..])
        {
            *input = rest;
            count += 1;
        }
        if count > 1 && self.copies.is_empty() {
            self.copies = self.message.repeat(COPIES / length);
        }
        count
    }

    /// Learns `message` if it is short enough; returns true if so.
    pub(crate) fn learn(&mut self, message: &[u8]) -> bool {
        let fits = message.len() <= LONGEST;
        if fits {
            self.message.clear();
            self.message.extend_from_slice(message);
            self.copies = Vec::new();
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, Repeated};

    fn take(repeated: &mut Repeated, input: &str, most: usize) -> (usize, usize) {
        let mut input = input.as_bytes();
        let count = repeated.take(&mut input, most);
        (count, input.len())
    }

    #[test]
    fn whole_copies_are_taken_and_nothing_else() {
        let mut repeated = Repeated::default();
        assert_eq!(take(&mut repeated, "abab", 9), (0, 4), "nothing learned yet");
        assert!(repeated.learn(b"ab"));
        for _ in 0..2 {
            // The first time one by one, then all at once.
            assert_eq!(take(&mut repeated, "ababa", 9), (2, 1));
            assert_eq!(take(&mut repeated, "ababab", 2), (2, 2));
            assert_eq!(take(&mut repeated, "abaXab", 9), (1, 4));
            assert_eq!(take(&mut repeated, "a", 9), (0, 1));
            assert_eq!(take(&mut repeated, "", 9), (0, 0));
        }
        assert_eq!(take(&mut repeated, &"ab".repeat(100_000), usize::MAX), (100_000, 0));
        assert!(repeated.learn(b"cd"));
        assert_eq!(take(&mut repeated, "abcd", 9), (0, 4));
        assert_eq!(take(&mut repeated, "cdab", 9), (1, 2));
        assert!(!repeated.learn(&[b'x'; LONGEST + 1]));
        assert_eq!(take(&mut repeated, "cd", 9), (1, 0), "it still knows the old one");
    }
}
