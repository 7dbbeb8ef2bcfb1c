//! Bencoded responses of trackers: detects dictionaries and failures.

use rxlab_base::units::digits;

/// Key of a tracker's reason for refusing.
const FAILURE: &[u8] = b"failure reason";

/// The failure reason of a complete response, if it has one; `None` if it is not a bencoded dictionary.
pub(super) fn failure(text: &[u8]) -> Option<Option<&[u8]>> {
    let mut rest = text.strip_prefix(b"d")?;
    let mut failure = None;
    loop {
        if let Some(end) = rest.strip_prefix(b"e") {
            return end.is_empty().then_some(failure);
        }
        let (key, behind) = string(rest)?;
        if key == FAILURE {
            // A number is a reason as well, if not one in words.
            failure = Some(string(behind).map_or(&b""[..], |(reason, _)| reason));
        }
        rest = skip(behind)?;
    }
}

/// The bytes after one value, however deep it is: lists and dictionaries are counted, not recursed into.
fn skip(mut rest: &[u8]) -> Option<&[u8]> {
    let mut open = 0usize;
    loop {
        rest = match rest.first()? {
            b'l' | b'd' => {
                open += 1;
                &rest[1..]
            }
            b'e' => {
                open = open.checked_sub(1)?;
                &rest[1..]
            }
            b'i' => {
                let end = rest.iter().position(|b| *b == b'e')?;
                let digits = rest[1..end].strip_prefix(b"-").unwrap_or(&rest[1..end]);
                if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                    return None;
                }
                &rest[end + 1..]
            }
            _ => string(rest)?.1,
        };
        if open == 0 {
            return Some(rest);
        }
    }
}

/// A string, and the bytes after it.
fn string(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = text.iter().take(20).position(|b| *b == b':')?;
    let length: usize = digits(std::str::from_utf8(&text[..colon]).ok()?)?;
    text[colon + 1..].split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::failure;

    #[test]
    fn answers_of_trackers() {
        for (text, expected) in [
            ("d8:completei1e10:incompletei0e8:intervali1800e5:peers6:abcdefe", Some(None)),
            ("d5:peersld2:ip9:127.0.0.14:porti-1eeee", Some(None)),
            ("d14:failure reason12:unregisterede", Some(Some("unregistered"))),
            ("d8:intervali9e5:peers0:14:failure reason1:xe", Some(Some("x"))),
            ("d14:failure reasoni1ee", Some(Some(""))),
            // The words within a value are not a key.
            ("d15:warning message14:failure reasone", Some(None)),
            ("de", Some(None)),
            ("dee", None),
            ("d", None),
            ("d1:ae", None),
            ("d1:ai1", None),
            ("d1:ai--1ee", None),
            ("d1:a99999999999999999999:e", None),
            ("i1e", None),
            ("<html>", None),
            ("", None),
        ] {
            let expected = expected.map(|reason: Option<&str>| reason.map(str::as_bytes));
            assert_eq!(failure(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(
            failure(format!("d1:a{}", "l".repeat(1_000_000)).as_bytes()),
            None,
            "deep, and no stack is used"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = failure(&bytes);
        }

        #[test]
        fn near_answers_are_an_answer_or_none(text in "d([0-9]{1,2}:[a-e]{0,9}|i-?[0-9]{0,3}e|l|d|e){0,12}") {
            let _ = failure(text.as_bytes());
        }
    }
}
