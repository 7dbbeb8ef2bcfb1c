//! Compares the bodies of responses with what was expected.

use std::sync::Arc;

use super::bencode;

/// Longest tracker response that is read.
const MAX_ANNOUNCE: usize = 256 * 1024;

/// Verdict on a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// As expected, or not checked.
    Right,
    /// Different.
    Wrong,
    /// A tracker's failure.
    Refused,
}

/// Expected body, and the state of the current one.
#[derive(Debug, Clone)]
pub(super) enum Check {
    /// Not checked.
    Any,
    /// Exactly these bytes; `at` of them have arrived, if `same`.
    Exact { expected: Arc<[u8]>, at: usize, same: bool },
    /// A tracker's response, kept until complete in a reused buffer.
    Announce { body: Vec<u8>, over: bool },
}

impl Check {
    pub(super) fn exact(expected: Arc<[u8]>) -> Self {
        Check::Exact { expected, at: 0, same: true }
    }

    pub(super) fn announce() -> Self {
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

    /// Ends the body.
    pub(super) fn verdict(&self) -> Verdict {
        match self {
            Check::Any => Verdict::Right,
            Check::Exact { expected, at, same } if *same && *at == expected.len() => Verdict::Right,
            Check::Exact { .. } => Verdict::Wrong,
            Check::Announce { body, over } => match bencode::read(body).filter(|_| !over) {
                Some(bencode::Answer::Good) => Verdict::Right,
                Some(bencode::Answer::Failure) => Verdict::Refused,
                None => Verdict::Wrong,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{Check, Verdict};

    fn verdict<'a>(check: &mut Check, pieces: impl IntoIterator<Item = &'a [u8]>) -> Verdict {
        check.begin();
        pieces.into_iter().for_each(|piece| check.feed(piece));
        check.verdict()
    }

    #[test]
    fn trackers_accept_refuse_or_talk_nonsense() {
        let mut check = Check::announce();
        assert_eq!(verdict(&mut check, [&b"d8:inter"[..], b"vali9ee"]), Verdict::Right);
        assert_eq!(verdict(&mut check, [&b"d14:failure reason1:xe"[..]]), Verdict::Refused);
        assert_eq!(verdict(&mut check, [&b"hello"[..]]), Verdict::Wrong);
        assert_eq!(verdict(&mut check, [&vec![b'x'; 300_000][..]; 2]), Verdict::Wrong);
        assert_eq!(verdict(&mut check, [&b"de"[..]]), Verdict::Right, "it starts over");
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
            let right = verdict(&mut check, body.chunks(size)) == Verdict::Right;
            prop_assert_eq!(right, body == expected);
            prop_assert_eq!(verdict(&mut check, [&expected[..]]), Verdict::Right);
        }
    }
}
