//! Bytes a connection still has to write: of the prepared block, or of requests filled in for it.

use super::block::{Block, Cursor};
use crate::Random;

/// What distinguishes the seeds of connections from small numbers.
pub(super) const SEED: u64 = 0x7278_6c61_6275_726c;

/// Source of the bytes.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// The block that all connections share.
    Prepared(Cursor),
    /// Requests of this connection alone; `turn` is the index of the next template.
    Filled { random: Random, turn: usize, bytes: Vec<u8>, written: usize },
}

impl Outgoing {
    /// For connection `number`, which starts with the block's request of that number.
    pub(super) fn new(number: usize, block: &Block) -> Self {
        if block.templates().is_empty() {
            return Outgoing::Prepared(Cursor::at(number, block));
        }
        let random = Random::new(number as u64 ^ SEED);
        Outgoing::Filled { random, turn: number, bytes: Vec::new(), written: 0 }
    }

    /// Takes the next `count` requests.
    pub(super) fn take(&mut self, count: usize, block: &Block) {
        match self {
            Outgoing::Prepared(cursor) => cursor.take(count, block),
            Outgoing::Filled { random, turn, bytes, .. } => {
                for _ in 0..count {
                    let templates = block.templates();
                    templates[*turn % templates.len()].fill(random, bytes);
                    *turn = turn.wrapping_add(1);
                }
            }
        }
    }

    /// Bytes to write next; empty when all are written.
    pub(super) fn pending<'a>(&'a self, block: &'a Block) -> &'a [u8] {
        match self {
            Outgoing::Prepared(cursor) => cursor.pending(block),
            Outgoing::Filled { bytes, written, .. } => &bytes[*written..],
        }
    }

    /// Marks `length` pending bytes as written.
    pub(super) fn written(&mut self, length: usize, block: &Block) {
        match self {
            Outgoing::Prepared(cursor) => cursor.written(length, block),
            Outgoing::Filled { bytes, written, .. } => {
                *written += length;
                if *written == bytes.len() {
                    // Keeps its capacity.
                    bytes.clear();
                    *written = 0;
                }
            }
        }
    }

    /// Discards unwritten bytes; the next request begins at its first byte.
    pub(super) fn reset(&mut self, block: &Block) {
        match self {
            Outgoing::Prepared(cursor) => cursor.reset(block),
            Outgoing::Filled { bytes, written, .. } => {
                bytes.clear();
                *written = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Block, Outgoing};
    use crate::http::template::Template;

    #[test]
    fn filled_requests_come_whole_in_turn_and_again_after_a_break() {
        let template = |path| Template::parse(path).expect("a template");
        let block = Block::filled(vec![template("a{int:5..5}."), template("b{int:7..7}.")]);
        let mut outgoing = Outgoing::new(1, &block);
        outgoing.take(3, &block);
        assert_eq!(outgoing.pending(&block), b"b7.a5.b7.");
        outgoing.written(4, &block);
        outgoing.take(1, &block);
        assert_eq!(outgoing.pending(&block), b"5.b7.a5.");
        outgoing.reset(&block);
        assert!(outgoing.pending(&block).is_empty());
        outgoing.take(1, &block);
        outgoing.written(3, &block);
        assert!(outgoing.pending(&block).is_empty());
    }
}
