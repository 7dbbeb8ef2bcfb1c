//! The answer that came last, with its meaning, to be recognized when the same bytes come again.
//!
//! What an answer means depends on its bytes alone, so equal bytes from the start of an answer on
//! are an equal answer. Any other answer goes through the general parser and is learned in turn. Of
//! a long one the parser skips the body without a look, which is cheaper than comparing it.

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

    /// Takes copies of the answer off the front of `input`, which is where an answer starts; gives
    /// how many there were and what each means.
    pub(super) fn take(&mut self, input: &mut &[u8]) -> (usize, Response) {
        (self.answer.take(input, usize::MAX), self.response)
    }

    /// `bytes` were an answer, from its start to its end, and meant `response`.
    pub(super) fn learn(&mut self, bytes: &[u8], response: Response) {
        // Behind a last answer nothing comes again.
        if !response.last && self.answer.learn(bytes) {
            self.response = response;
        }
    }
}
