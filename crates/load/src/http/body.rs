//! Compares the bodies of responses with what was expected.

use std::sync::Arc;

use super::bencode;
use crate::error_class::ErrorClass;
use crate::spec::Spec;

/// Longest tracker response that is read.
const MAX_ANNOUNCE: usize = 256 * 1024;

/// Expected body, and the state of the current one.
#[derive(Debug, Clone)]
pub(super) enum Check {
    /// Any body is good.
    Any,
    /// Exactly these bytes; `at` of them have arrived, if `same`.
    Exact { expected: Arc<[u8]>, at: usize, same: bool },
    /// A tracker's response, kept until complete in a reused buffer.
    Announce { body: Vec<u8>, over: bool },
}

impl Check {
    /// For responses to the requests of `spec`.
    pub(super) fn for_spec(spec: &Spec) -> Self {
        match &spec.expect_body {
            Some(body) => Check::exact(body.shared()),
            None if spec.announce => Check::announce(),
            None => Check::Any,
        }
    }

    pub(super) fn exact(expected: Arc<[u8]>) -> Self {
        Check::Exact { expected, at: 0, same: true }
    }

    fn announce() -> Self {
        Check::Announce { body: Vec::new(), over: false }
    }

    /// Starts the next body.
    pub(super) fn begin(&mut self) {
        match self {
            Check::Any => {}
            Check::Exact { at, same, .. } => (*at, *same) = (0, true),
            Check::Announce { body, over } => {
                body.clear();
                *over = false;
            }
        }
    }

    /// Adds the next bytes of the body.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        match self {
            Check::Any => {}
            Check::Exact { expected, at, same } => {
                *same = *same && expected[*at..].starts_with(bytes);
                if *same {
                    *at += bytes.len();
                }
            }
            Check::Announce { body, over } => {
                *over |= body.len() + bytes.len() > MAX_ANNOUNCE;
                if !*over {
                    body.extend_from_slice(bytes);
                }
            }
        }
    }

    /// Error class of the complete body, if it is not as expected.
    pub(super) fn error(&self) -> Option<ErrorClass> {
        let is_right = match self {
            Check::Any => true,
            Check::Exact { expected, at, same } => *same && *at == expected.len(),
            Check::Announce { body, over } => match bencode::is_failure(body).filter(|_| !over) {
                Some(true) => return Some(ErrorClass::TrackerError),
                answer => answer.is_some(),
            },
        };
        (!is_right).then_some(ErrorClass::Body)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{Check, ErrorClass};

    fn error<'a>(check: &mut Check, pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<ErrorClass> {
        check.begin();
        pieces.into_iter().for_each(|piece| check.feed(piece));
        check.error()
    }

    #[test]
    fn trackers_accept_refuse_or_talk_nonsense() {
        let mut check = Check::announce();
        assert_eq!(error(&mut check, [&b"d8:inter"[..], b"vali9ee"]), None);
        assert_eq!(error(&mut check, [&b"d14:failure reason1:xe"[..]]), Some(ErrorClass::TrackerError));
        assert_eq!(error(&mut check, [&b"hello"[..]]), Some(ErrorClass::Body));
        assert_eq!(error(&mut check, [&vec![b'x'; 300_000][..]; 2]), Some(ErrorClass::Body));
        assert_eq!(error(&mut check, [&b"de"[..]]), None, "it starts over");
    }

    proptest! {
        /// However it is split, a body is right if and only if it is equal.
        #[test]
        fn only_the_very_bytes_are_right(
            expected in proptest::collection::vec(0u8..3, 0..20), body in proptest::collection::vec(0u8..3, 0..20),
            size in 1usize..9, same in any::<bool>(),
        ) {
            let body = if same { expected.clone() } else { body };
            let mut check = Check::exact(expected.clone().into());
            let wrong = (body != expected).then_some(ErrorClass::Body);
            prop_assert_eq!(error(&mut check, body.chunks(size)), wrong);
            prop_assert_eq!(error(&mut check, [&expected[..]]), None);
        }
    }
}
