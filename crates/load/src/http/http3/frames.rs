//! Frames of a stream of HTTP/3 (RFC 9114 7.1), followed as far as the `h3` crate does not check them: it takes the end of a
//! stream within the data of a body for the end of the body, and collects any other frame before it looks at it.

use super::MAX_HEAD;

/// Type of the frames that h3 passes on as they arrive.
const DATA: u64 = 0;
/// Longest header of a frame: two integers of variable length (RFC 9000 16).
const LONGEST_HEADER: usize = 16;

/// Position of a stream in its frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// What has arrived of the next frame's header.
    header: [u8; LONGEST_HEADER],
    /// Bytes in `header`.
    known: usize,
    /// Bytes of the current frame still to come.
    left: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    #[error("the stream ended within a frame")]
    CutOff,
    #[error("a frame of {0} bytes")]
    TooLong(u64),
}

impl Frames {
    /// Follows the next bytes of the stream; returns the number of empty DATA frames in them.
    pub(super) fn follow(&mut self, mut bytes: &[u8]) -> Result<usize, FrameError> {
        let mut empty = 0;
        loop {
            let passed = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
            self.left -= passed as u64;
            let Some((first, rest)) = bytes[passed..].split_first() else { return Ok(empty) };
            bytes = rest;
            self.header[self.known] = *first;
            self.known += 1;
            if let Some((kind, length)) = header(&self.header[..self.known]) {
                if kind != DATA && length > MAX_HEAD {
                    return Err(FrameError::TooLong(length));
                }
                (self.known, self.left) = (0, length);
                empty += usize::from((kind, length) == (DATA, 0));
            }
        }
    }

    /// Checks that the stream may end here.
    pub(super) fn end(&self) -> Result<(), FrameError> {
        if self.left == 0 && self.known == 0 { Ok(()) } else { Err(FrameError::CutOff) }
    }
}

/// Type and length of a frame; `None` if its header is incomplete.
fn header(bytes: &[u8]) -> Option<(u64, u64)> {
    let (kind, rest) = integer(bytes)?;
    Some((kind, integer(rest)?.0))
}

/// Takes an integer of variable length off the front (RFC 9000 16).
fn integer(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let first = *bytes.first()?;
    let (all, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    let value = all[1..].iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte));
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use super::{FrameError, Frames, integer};

    /// A head of two bytes, data of five, and a frame of an unknown type with a length in four bytes.
    const STREAM: &[u8] = b"\x01\x02ab\x00\x05hello\x40\x21\x80\x00\x00\x03xyz";

    #[test]
    fn a_stream_may_end_between_frames_only() {
        let ends = [0, 4, 11, STREAM.len()];
        for length in 0..=STREAM.len() {
            let (mut whole, mut bytewise) = (Frames::default(), Frames::default());
            whole.follow(&STREAM[..length]).expect("short frames");
            for byte in STREAM[..length].chunks(1) {
                bytewise.follow(byte).expect("short frames");
            }
            let expected = if ends.contains(&length) { Ok(()) } else { Err(FrameError::CutOff) };
            assert_eq!((whole.end(), bytewise.end()), (expected, expected), "{length} bytes");
        }
    }

    #[test]
    fn only_data_may_be_long() {
        // 2^62 - 1 bytes each.
        let long = |kind| Frames::default().follow(&[&[kind][..], &[0xff; 8]].concat());
        assert_eq!(long(0), Ok(0));
        assert_eq!(long(1), Err(FrameError::TooLong((1 << 62) - 1)));
        assert_eq!(long(0x21), Err(FrameError::TooLong((1 << 62) - 1)));
    }

    #[test]
    fn empty_data_is_counted() {
        // The length in one byte, in two, and in the data of another frame.
        let stream = b"\x00\x00\x00\x40\x00\x00\x02\x00\x00\x01\x00";
        let mut frames = Frames::default();
        let counted: usize = stream.chunks(1).map(|byte| frames.follow(byte).expect("short frames")).sum();
        assert_eq!((counted, Frames::default().follow(stream)), (2, Ok(2)));
    }

    /// Examples of RFC 9000 A.1.
    #[test]
    fn integers_of_each_length() {
        let read = |bytes: &'static [u8]| integer(bytes).map(|(value, rest)| (value, rest.len()));
        assert_eq!(read(b"\xc2\x19\x7c\x5e\xff\x14\xe8\x8c"), Some((151_288_809_941_952_652, 0)));
        assert_eq!(read(b"\x9d\x7f\x3e\x7d."), Some((494_878_333, 1)));
        assert_eq!(read(b"\x7b\xbd"), Some((15_293, 0)));
        assert_eq!(read(b"\x25"), Some((37, 0)));
        assert_eq!((read(b"\x40"), read(b"")), (None, None));
    }
}
