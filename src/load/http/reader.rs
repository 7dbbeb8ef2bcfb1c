//! Reads responses off one connection: compares with the last one, parses all others.

use super::body::Check;
use super::response::{Malformed, Parser, Response, Truncated};
use crate::load::error_class::ErrorClass;
use crate::load::spec::Spec;
use crate::load::status::Statuses;
use crate::target::Repeated;

#[derive(Debug)]
pub(super) struct Reader {
    parser: Parser,
}

impl Reader {
    /// For responses to the requests of `spec`.
    pub(super) fn new(spec: &Spec) -> Self {
        let check = match &spec.expect_body {
            Some(body) => Check::exact(body.shared()),
            None if spec.announce => Check::announce(),
            None => Check::Any,
        };
        Self { parser: Parser::new(spec.method == "HEAD", spec.expect_status.clone(), check) }
    }

    /// Starts another stream.
    pub(super) fn reset(&mut self) {
        self.parser.reset();
    }

    /// Takes the next responses off the front of `input`, one or several identical ones; `None` when the
    /// input is used up and the next response is incomplete.
    pub(super) fn next(
        &mut self,
        input: &mut &[u8],
        learned: &mut Learned,
    ) -> Result<Option<(usize, Response)>, Malformed> {
        let start = self.parser.at_start();
        if start {
            let (count, response) = learned.take(input);
            if count > 0 {
                return Ok(Some((count, response)));
            }
        }
        let before = *input;
        let response = self.parser.next(input)?;
        if let Some(response) = response.filter(|_| start) {
            learned.learn(&before[..before.len() - input.len()], response);
        }
        Ok(response.map(|response| (1, response)))
    }

    /// The stream has ended: returns a response that ends with it.
    pub(super) fn finish(&mut self) -> Result<Option<Response>, Truncated> {
        self.parser.finish()
    }
}

/// End of a stream of responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// Between two responses, or with one that ends with the stream.
    Whole,
    /// Within a response.
    Truncated,
    /// With bytes that are not a response.
    Malformed,
}

/// Expected body of good responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected<'a> {
    /// Any.
    Anything,
    /// Exactly these bytes.
    Bytes(&'a [u8]),
    /// A tracker's response to an announce.
    Announce,
}

/// Reads a stream of HTTP responses that arrives in `pieces` and then ends: returns the status of every
/// complete response in order, and how the stream ended.
pub fn read_answers<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u16>, StreamEnd) {
    let (answers, end) = judge_answers(pieces, false, Expected::Anything);
    (answers.into_iter().map(|(status, _)| status).collect(), end)
}

/// Like [`read_answers`], with the error of each response. `head`: they respond to HEAD and have no body.
pub fn judge_answers<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    head: bool,
    expected: Expected<'_>,
) -> (Vec<(u16, Option<ErrorClass>)>, StreamEnd) {
    let check = match expected {
        Expected::Anything => Check::Any,
        Expected::Bytes(bytes) => Check::exact(bytes.into()),
        Expected::Announce => Check::announce(),
    };
    let mut reader = Reader { parser: Parser::new(head, Statuses::default(), check) };
    let (mut learned, mut answers) = (Learned::new(), Vec::new());
    for mut piece in pieces {
        loop {
            match reader.next(&mut piece, &mut learned) {
                Ok(Some((count, response))) => {
                    answers.extend(std::iter::repeat_n((response.status, response.error), count));
                }
                Ok(None) => break,
                Err(Malformed) => return (answers, StreamEnd::Malformed),
            }
        }
    }
    match reader.finish() {
        Ok(last) => {
            answers.extend(last.map(|response| (response.status, response.error)));
            (answers, StreamEnd::Whole)
        }
        Err(Truncated) => (answers, StreamEnd::Truncated),
    }
}

/// The last response with its meaning, recognized when the same bytes arrive again.
///
/// The meaning of a response depends only on its bytes, so equal bytes from the start of a response are an equal
/// response. Any other response goes through the general parser and is learned in turn. For a long one the parser skips
/// the body unread, which is cheaper than comparing it.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};

    use super::{
        Check, Expected, Malformed, Parser, Statuses, StreamEnd, Truncated, judge_answers, read_answers,
    };

    /// Result of the parser alone.
    fn parsed(mut input: &[u8]) -> (Vec<u16>, StreamEnd) {
        let (mut parser, mut statuses) = (Parser::new(false, Statuses::default(), Check::Any), Vec::new());
        loop {
            match parser.next(&mut input) {
                Ok(Some(response)) => statuses.push(response.status),
                Ok(None) => break,
                Err(Malformed) => return (statuses, StreamEnd::Malformed),
            }
        }
        match parser.finish() {
            Ok(last) => {
                statuses.extend(last.map(|response| response.status));
                (statuses, StreamEnd::Whole)
            }
            Err(Truncated) => (statuses, StreamEnd::Truncated),
        }
    }

    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            6 => Just(&b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"[..]),
            2 => Just(&b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother"[..]),
            2 => Just(&b"HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"[..]),
            1 => Just(&b"HTTP/1.1 100 Continue\r\n\r\n"[..]),
            1 => Just(&b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nxx"[..]),
            1 => Just(&b"HTTP/1.1 200 OK\r\n\r\n"[..]),
            1 => Just(&b"HTTP/1.1 "[..]),
            1 => Just(&b"x"[..]),
        ];
        let run = (part, 1usize..6).prop_map(|(part, count)| part.repeat(count));
        proptest::collection::vec(run, 0..8).prop_map(|runs| runs.concat())
    }

    proptest! {
        /// Recognizing responses does not change what is read, however the stream is split.
        #[test]
        fn what_is_learned_is_what_is_parsed(stream in stream(), size in 1usize..300, at in any::<usize>(), byte in any::<u8>()) {
            let mut stream = stream;
            prop_assert_eq!(read_answers(stream.chunks(size)), parsed(&stream));
            if !stream.is_empty() {
                let at = at % stream.len();
                stream[at] = byte;
            }
            prop_assert_eq!(read_answers(stream.chunks(size)), parsed(&stream));
        }
    }

    proptest! {
        /// Whatever is expected, the result does not depend on how the stream is split.
        #[test]
        fn cuts_change_no_judgement(stream in stream(), size in 1usize..300, head: bool, kind in 0..3) {
            let expected = [Expected::Anything, Expected::Bytes(b"hello"), Expected::Announce][kind as usize];
            let whole = judge_answers([&stream[..]], head, expected);
            prop_assert_eq!(judge_answers(stream.chunks(size), head, expected), whole);
        }
    }
}
