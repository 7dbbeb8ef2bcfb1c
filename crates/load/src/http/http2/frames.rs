//! Frames of a connection (RFC 9113 4.1), followed to count those of which the `h2` crate takes a limited number.

const HEADER: usize = 9;
const DATA: u8 = 0;
const END_STREAM: u8 = 1;

/// Position of what was read in its frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// What has arrived of the next frame's header.
    header: [u8; HEADER],
    /// Bytes in `header`.
    known: usize,
    /// Bytes of the current payload still to come.
    left: usize,
}

impl Frames {
    /// Follows the next bytes; returns the number of empty DATA frames in them that end no stream.
    pub(super) fn follow(&mut self, mut bytes: &[u8]) -> usize {
        let mut empty = 0;
        loop {
            let passed = self.left.min(bytes.len());
            self.left -= passed;
            bytes = &bytes[passed..];
            let (part, rest) = bytes.split_at((HEADER - self.known).min(bytes.len()));
            self.header[self.known..self.known + part.len()].copy_from_slice(part);
            self.known += part.len();
            bytes = rest;
            if self.known < HEADER {
                return empty;
            }
            let [high, middle, low, kind, flags, ..] = self.header;
            (self.known, self.left) = (0, u32::from_be_bytes([0, high, middle, low]) as usize);
            empty += usize::from((self.left, kind, flags & END_STREAM) == (0, DATA, 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Frames;

    #[test]
    fn empty_frames_that_end_nothing_are_counted() {
        // HEADERS, DATA of nothing, DATA of five bytes that look like it, empty SETTINGS, DATA of nothing with END_STREAM.
        let stream = b"\0\0\x01\x01\x04\0\0\0\x01\x88\0\0\0\0\0\0\0\0\x01\0\0\x05\0\0\0\0\0\x01\0\0\0\0\0\
                       \0\0\0\x04\0\0\0\0\0\0\0\0\0\x01\0\0\0\x01";
        for size in [1, 2, 7, stream.len()] {
            let mut frames = Frames::default();
            let counts = stream.repeat(3).chunks(size).map(|piece| frames.follow(piece)).sum::<usize>();
            assert_eq!(counts, 3, "in pieces of {size}");
        }
    }
}
