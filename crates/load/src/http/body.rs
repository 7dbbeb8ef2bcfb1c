//! Compares the bodies of responses with what was expected.

use std::sync::Arc;

use super::bencode;
use crate::error_class::ErrorClass;
use crate::expected::{Pattern, Pointed};
use crate::reasons::{Failure, SHOWN, shown};
use crate::spec::Spec;

/// Longest body that is kept to be examined.
const MOST: usize = 1024 * 1024;

/// What a whole body has to be.
#[derive(Debug, Clone)]
pub(super) enum Test {
    /// A tracker's response.
    Announce,
    Match(Pattern),
    Json(Pointed),
}

/// Expected body, and the state of the current one.
#[derive(Debug, Clone)]
pub(super) enum Check {
    /// Any body is good.
    Any,
    /// Exactly these bytes, of which `at` have arrived; `other` is what came instead of the next one.
    Exact { expected: Arc<[u8]>, at: usize, other: Vec<u8> },
    /// Kept until complete, in a reused buffer.
    Whole { body: Vec<u8>, over: bool, test: Test },
}

impl Check {
    /// For responses to the requests of `spec`.
    pub(super) fn for_spec(spec: &Spec) -> Self {
        match spec {
            Spec { expect_body: Some(body), .. } => Check::exact(body.shared()),
            Spec { expect_match: Some(pattern), .. } => Check::whole(Test::Match(pattern.clone())),
            Spec { expect_json: Some(pointed), .. } => Check::whole(Test::Json(pointed.clone())),
            Spec { announce: true, .. } => Check::whole(Test::Announce),
            _ => Check::Any,
        }
    }

    pub(super) fn exact(expected: Arc<[u8]>) -> Self {
        Check::Exact { expected, at: 0, other: Vec::new() }
    }

    fn whole(test: Test) -> Self {
        Check::Whole { body: Vec::new(), over: false, test }
    }

    /// Starts the next body.
    pub(super) fn begin(&mut self) {
        match self {
            Check::Any => {}
            Check::Exact { at, other, .. } => {
                *at = 0;
                other.clear();
            }
            Check::Whole { body, over, .. } => {
                body.clear();
                *over = false;
            }
        }
    }

    /// Adds the next bytes of the body.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        match self {
            Check::Any => {}
            Check::Exact { expected, at, other } => {
                let mut bytes = bytes;
                if other.is_empty() {
                    // In one comparison: usually they are the same.
                    if expected[*at..].starts_with(bytes) {
                        *at += bytes.len();
                        return;
                    }
                    let same = expected[*at..].iter().zip(bytes).take_while(|(a, b)| a == b).count();
                    *at += same;
                    bytes = &bytes[same..];
                }
                // One byte more than is shown says that there is more.
                other.extend_from_slice(&bytes[..bytes.len().min(SHOWN + 1 - other.len().min(SHOWN + 1))]);
            }
            Check::Whole { body, over, .. } => {
                *over |= body.len() + bytes.len() > MOST;
                if !*over {
                    body.extend_from_slice(bytes);
                }
            }
        }
    }

    /// Why the complete body is not as expected.
    pub(super) fn failure(&self) -> Option<Failure> {
        let reason = match self {
            Check::Any => return None,
            Check::Exact { expected, at, other } if other.is_empty() => match expected.len() - at {
                0 => return None,
                missing => format!("ends {missing} bytes early"),
            },
            Check::Exact { at, other, .. } => format!("differs from byte {at} on: `{}`", shown(other)),
            Check::Whole { over: true, .. } => format!("longer than {MOST} bytes"),
            Check::Whole { body, test, .. } => {
                let why = match test {
                    Test::Match(pattern) => pattern.failure(body)?,
                    Test::Json(pointed) => pointed.failure(body)?,
                    Test::Announce => match bencode::failure(body) {
                        Some(reason) => {
                            let reason = shown(reason?);
                            return Some(Failure::new(ErrorClass::TrackerError, reason));
                        }
                        None => "not a bencoded dictionary:".to_owned(),
                    },
                };
                format!("{why} `{}`", shown(body))
            }
        };
        Some(Failure::new(ErrorClass::Body, reason))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{Check, ErrorClass, Test};

    fn error<'a>(check: &mut Check, pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<ErrorClass> {
        check.begin();
        pieces.into_iter().for_each(|piece| check.feed(piece));
        check.failure().map(|failure| failure.class)
    }

    /// What differs, where, and what a tracker says.
    #[test]
    fn a_failure_says_what_differs() {
        let mut exact = Check::exact(b"hello world".to_vec().into());
        let mut announce = Check::whole(Test::Announce);
        let reason = |check: &mut Check, body: &[u8]| {
            error(check, body.chunks(5));
            check.failure().and_then(|failure| failure.reason).unwrap_or_default()
        };
        assert_eq!(reason(&mut exact, b"hello there\n"), "differs from byte 6 on: `there\\n`");
        assert_eq!(reason(&mut exact, b"hello"), "ends 6 bytes early");
        assert_eq!(reason(&mut exact, b"hello world!"), "differs from byte 11 on: `!`");
        assert_eq!(reason(&mut announce, b"d14:failure reason12:unregisterede"), "unregistered");
        assert_eq!(reason(&mut announce, b"<html>"), "not a bencoded dictionary: `<html>`");
    }

    #[test]
    fn trackers_accept_refuse_or_talk_nonsense() {
        let mut check = Check::whole(Test::Announce);
        assert_eq!(error(&mut check, [&b"d8:inter"[..], b"vali9ee"]), None);
        assert_eq!(error(&mut check, [&b"d14:failure reason1:xe"[..]]), Some(ErrorClass::TrackerError));
        assert_eq!(error(&mut check, [&b"hello"[..]]), Some(ErrorClass::Body));
        assert_eq!(error(&mut check, [&vec![b'x'; 600_000][..]; 2]), Some(ErrorClass::Body));
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
