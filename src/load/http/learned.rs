//! The last response with its meaning, recognized when the same bytes arrive again.
//!
//! The meaning of a response depends only on its bytes, so equal bytes from the start of a response are
//! an equal response. Any other response goes through the general parser and is learned in turn. For a
//! long one the parser skips the body unread, which is cheaper than comparing it.

use super::response::Response;
use crate::target::Repeated;

#[derive(Debug)]
pub(super) struct Learned {
    answer: Repeated,
    response: Response,
}

impl Learned {
    pub(super) fn new() -> Self {
        Self { answer: Repeated::default(), response: Response { status: 0, last: false, error: None } }
    }

    /// Takes copies of the response off the front of `input`, which must be at the start of a response;
    /// returns their count and the meaning of each.
    pub(super) fn take(&mut self, input: &mut &[u8]) -> (usize, Response) {
        (self.answer.take(input, usize::MAX), self.response)
    }

    /// Learns that `bytes`, a complete response, mean `response`.
    pub(super) fn learn(&mut self, bytes: &[u8], response: Response) {
        // After a last response nothing arrives.
        if !response.last && self.answer.learn(bytes) {
            self.response = response;
        }
    }
}
