//! Requests of a load as bytes, back to back, so that a batch is one write.

use super::template::Template;

/// Bytes of prepared requests beyond which a batch takes several writes.
const BLOCK: usize = 64 * 1024;

/// All requests in turn (a cycle), repeated as often as fits.
pub(super) struct Block {
    bytes: Vec<u8>,
    /// Start of each request of a cycle, and the end of the cycle.
    starts: Vec<usize>,
    /// Alternatively: requests filled in each time, in turn.
    templates: Vec<Template>,
}

/// A position in the endless repetition of the cycle.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cursor {
    /// Requests of the cycle taken.
    request: usize,
    /// Position of the next byte in the cycle.
    offset: usize,
    /// Bytes taken and not yet written.
    unwritten: usize,
}

impl Block {
    /// Prepares `requests` (at least one, none of them empty) for batches of up to `depth`.
    pub(super) fn new(requests: &[Vec<u8>], depth: usize) -> Self {
        let mut starts = vec![0];
        starts.extend(requests.iter().scan(0, |end, request| {
            *end += request.len();
            Some(*end)
        }));
        let mut bytes = requests.concat();
        let copies = (depth / requests.len() + 2).min(BLOCK / bytes.len());
        if copies > 1 {
            bytes = bytes.repeat(copies);
        }
        Self { bytes, starts, templates: Vec::new() }
    }

    /// Requests to be filled in, at least one.
    pub(super) fn filled(templates: Vec<Template>) -> Self {
        Self { bytes: Vec::new(), starts: Vec::new(), templates }
    }

    /// The templates; empty if the bytes are prepared.
    pub(super) fn templates(&self) -> &[Template] {
        &self.templates
    }

    fn requests(&self) -> usize {
        self.starts.len() - 1
    }

    fn cycle(&self) -> usize {
        self.starts[self.requests()]
    }
}

impl Cursor {
    /// Starts at request number `request`, modulo the cycle.
    pub(super) fn at(request: usize, block: &Block) -> Self {
        let request = request % block.requests();
        Self { request, offset: block.starts[request], unwritten: 0 }
    }

    /// Takes the next `count` requests.
    pub(super) fn take(&mut self, count: usize, block: &Block) {
        let requests = block.requests();
        if requests == 1 {
            self.unwritten += count * block.cycle();
            return;
        }
        let end = self.request + count;
        self.unwritten +=
            end / requests * block.cycle() + block.starts[end % requests] - block.starts[self.request];
        self.request = end % requests;
    }

    /// Bytes to write next; empty when all are written.
    pub(super) fn pending<'a>(&self, block: &'a Block) -> &'a [u8] {
        let length = self.unwritten.min(block.bytes.len() - self.offset);
        &block.bytes[self.offset..self.offset + length]
    }

    /// Marks `length` pending bytes as written.
    pub(super) fn written(&mut self, length: usize, block: &Block) {
        self.unwritten -= length;
        self.offset = (self.offset + length) % block.cycle();
    }

    /// Discards unwritten bytes; the next request begins at its first byte.
    pub(super) fn reset(&mut self, block: &Block) {
        *self = Self::at(self.request, block);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{Block, Cursor};

    fn requests(lengths: &[usize]) -> Vec<Vec<u8>> {
        lengths.iter().enumerate().map(|(i, length)| vec![b'a' + i as u8; *length]).collect()
    }

    #[test]
    fn large_bodies_are_kept_once() {
        let requests = requests(&[40_000, 30_000]);
        let block = Block::new(&requests, 8);
        assert_eq!(block.bytes.len(), 70_000);
        let (mut cursor, mut written) = (Cursor::at(1, &block), Vec::new());
        cursor.take(3, &block);
        while !cursor.pending(&block).is_empty() {
            let piece = cursor.pending(&block);
            written.extend_from_slice(piece);
            let length = piece.len();
            cursor.written(length, &block);
        }
        assert_eq!(written, [&requests[1][..], &requests[0], &requests[1]].concat());
    }

    proptest! {
        /// However the socket splits the writes, the bytes are those of the requests in turn.
        #[test]
        fn requests_come_whole_and_in_turn(
            lengths in proptest::collection::vec(1usize..40, 1..5),
            first in any::<u8>(),
            steps in proptest::collection::vec((1usize..30, 1usize..200, any::<bool>()), 1..20),
        ) {
            let requests = requests(&lengths);
            let block = Block::new(&requests, 8);
            let mut next = usize::from(first);
            let mut cursor = Cursor::at(next, &block);
            let (mut written, mut expected) = (Vec::new(), Vec::new());
            for (count, room, reset) in steps {
                cursor.take(count, &block);
                for _ in 0..count {
                    expected.extend_from_slice(&requests[next % requests.len()]);
                    next += 1;
                }
                while !cursor.pending(&block).is_empty() {
                    let piece = cursor.pending(&block);
                    let length = piece.len().min(room);
                    written.extend_from_slice(&piece[..length]);
                    cursor.written(length, &block);
                    if reset {
                        // The connection broke: the next one does not write what is left.
                        cursor.reset(&block);
                        expected.truncate(written.len());
                    }
                }
                prop_assert_eq!(&written, &expected);
            }
        }
    }
}
