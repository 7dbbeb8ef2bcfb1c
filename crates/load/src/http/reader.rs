//! Reads responses off one connection: compares with the last one, parses all others.

use super::body::Check;
use super::response::{Malformed, Parser, Response, Truncated};
use crate::error_class::ErrorClass;
use crate::servers::Repeated;
use crate::spec::Spec;

impl Parser {
    /// For responses to the requests of `spec`.
    pub(super) fn for_spec(spec: &Spec) -> Self {
        Self::new(spec.method == "HEAD", spec.expect_status.clone(), Check::for_spec(spec))
    }
}

/// The last response with its meaning, recognized when the same bytes arrive again.
///
/// The meaning of a response depends only on its bytes, so equal bytes from the start of a response are an equal
/// response. Any other response goes through the general parser and is learned in turn. For a long one the parser skips
/// the body unread, which is cheaper than comparing it.
#[derive(Debug, Default)]
pub(super) struct Learned {
    answer: Repeated,
    response: Response,
    /// Its reason, if it is not as expected.
    reason: Option<String>,
}

impl Learned {
    /// Takes the next responses off the front of `input`, one or several identical ones; `None` when the
    /// input is used up and the next response is incomplete.
    pub(super) fn next(
        &mut self,
        parser: &mut Parser,
        input: &mut &[u8],
    ) -> Result<Option<(usize, Response)>, Malformed> {
        let start = parser.at_start();
        if start {
            let count = self.answer.take(input, usize::MAX);
            if count > 0 {
                if self.response.error.is_some() {
                    parser.set_reason(&self.reason);
                }
                return Ok(Some((count, self.response)));
            }
        }
        let before = *input;
        let response = parser.next(input)?;
        // After a last response nothing arrives.
        if let Some(response) = response.filter(|response| start && !response.last)
            && self.answer.learn(&before[..before.len() - input.len()])
        {
            self.response = response;
            self.reason = parser.reason().filter(|_| response.error.is_some());
        }
        Ok(response.map(|response| (1, response)))
    }
}

/// End of a stream of responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// Between two responses, or with one that ends with the stream.
    Whole,
    /// The stream ended within a response.
    Truncated,
    /// With bytes that are not a response.
    Malformed,
}

/// Reads a stream of HTTP responses to the requests of `spec` that arrives in `pieces` and then ends: returns the status
/// and the error of every complete response in order, and how the stream ended.
pub fn judge_answers<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    spec: &Spec,
) -> (Vec<(u16, Option<ErrorClass>)>, StreamEnd) {
    let (mut parser, mut learned, mut answers) = (Parser::for_spec(spec), Learned::default(), Vec::new());
    for mut piece in pieces {
        loop {
            match learned.next(&mut parser, &mut piece) {
                Ok(Some((count, response))) => {
                    answers.extend(std::iter::repeat_n((response.status, response.error), count));
                }
                Ok(None) => break,
                Err(Malformed) => return (answers, StreamEnd::Malformed),
            }
        }
    }
    match parser.finish() {
        Ok(last) => {
            answers.extend(last.map(|response| (response.status, response.error)));
            (answers, StreamEnd::Whole)
        }
        Err(Truncated) => (answers, StreamEnd::Truncated),
    }
}
