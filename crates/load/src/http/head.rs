//! Head of an HTTP/1.x response: status, body framing and persistence of the connection.

use std::mem::MaybeUninit;

use httparse::ParserConfig;

use super::response::Response;
use rxlab_base::units::digits;

/// Fields for which there is room without an allocation: most responses have a tenth of them.
const USUAL_FIELDS: usize = 100;
/// Most fields of a head, as curl 8 has it.
const MOST_FIELDS: usize = 5_000;

/// Framing of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// None: the response announces another one (1xx).
    Interim,
    Sized(u64),
    Chunked,
    UntilClose,
}

/// Last transfer coding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    None,
    Chunked,
    Other,
}

/// Takes what clients in use take: lines folded in the way of RFC 2616 (RFC 9112 5.2 has a user agent read them as one), a
/// space before the colon, more than one in the status line, and lines that are no fields, which browsers pass over.
fn reader() -> ParserConfig {
    let mut config = ParserConfig::default();
    config.allow_obsolete_multiline_headers_in_responses(true);
    config.allow_spaces_after_header_name_in_responses(true);
    config.allow_multiple_spaces_in_response_status_delimiters(true);
    config.ignore_invalid_headers_in_responses(true);
    config
}

/// Reads a head, from the status line to the empty line. `bodyless`: it responds to HEAD, so no body follows
/// whatever it says, and without a length the connection stays open.
pub(super) fn read_head(head: &[u8], bodyless: bool) -> Result<(Response, Body), &'static str> {
    // 3 KiB, which are not cleared first.
    let mut usual = [const { MaybeUninit::uninit() }; USUAL_FIELDS];
    let mut parsed = httparse::Response::new(&mut []);
    let mut read = reader().parse_response_with_uninit_headers(&mut parsed, head, &mut usual);
    let mut many = Vec::new();
    if read == Err(httparse::Error::TooManyHeaders) {
        many.resize(MOST_FIELDS, httparse::EMPTY_HEADER);
        parsed = httparse::Response::new(&mut many);
        read = reader().parse_response(&mut parsed, head);
    }
    match read {
        Ok(httparse::Status::Complete(length)) if length == head.len() => {}
        Err(httparse::Error::Version) if let Some(rest) = behind_other_version(head) => {
            return read_head(&[b"HTTP/1.1", rest].concat(), bodyless);
        }
        Err(httparse::Error::HeaderName) => return Err("invalid field name"),
        Err(httparse::Error::HeaderValue) => return Err("invalid field value"),
        Err(httparse::Error::TooManyHeaders) => return Err("more than 5000 fields"),
        _ => return Err("invalid status line"),
    }
    let (Some(status), Some(version)) = (parsed.code, parsed.version) else {
        return Err("invalid status line");
    };
    if status == 101 {
        return Err("a switch to another protocol (101), which was not requested");
    }
    let (mut close, mut keep, mut length, mut coding) = (false, false, None, Coding::None);
    for header in parsed.headers.iter() {
        let value = header.value.trim_ascii();
        if header.name.eq_ignore_ascii_case("content-length") {
            // A list of the same value is that value (RFC 9110 8.6).
            for value in value.split(|b| *b == b',').map(<[u8]>::trim_ascii) {
                let value: Option<u64> = std::str::from_utf8(value).ok().and_then(digits);
                let value = value.ok_or("invalid Content-Length")?;
                if length.is_some_and(|known| known != value) {
                    return Err("two different values of Content-Length");
                }
                length = Some(value);
            }
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            // What is within the chunks is not looked at. `identity` is that of RFC 2616: no coding.
            for name in value.split(|b| *b == b',').map(<[u8]>::trim_ascii) {
                coding = match coding {
                    // Some servers and a proxy in front of them both say so; the body is chunked once.
                    Coding::Chunked if name.eq_ignore_ascii_case(b"chunked") => coding,
                    Coding::Chunked => return Err("a coding after chunked in Transfer-Encoding"),
                    _ if name.eq_ignore_ascii_case(b"chunked") => Coding::Chunked,
                    coding if name.eq_ignore_ascii_case(b"identity") => coding,
                    _ => Coding::Other,
                };
            }
        } else if header.name.eq_ignore_ascii_case("connection") {
            for token in value.split(|b| *b == b',').map(<[u8]>::trim_ascii) {
                close |= token.eq_ignore_ascii_case(b"close");
                keep |= token.eq_ignore_ascii_case(b"keep-alive");
            }
        }
    }
    let empty = bodyless || status == 204 || status == 304;
    let body = match (empty, coding, length) {
        _ if (100..200).contains(&status) => Body::Interim,
        (true, ..) => Body::Sized(0),
        // A coding overrides the length (RFC 9112 6.3).
        (_, Coding::Chunked, _) => Body::Chunked,
        (_, Coding::None, Some(length)) => Body::Sized(length),
        (_, Coding::None | Coding::Other, _) => Body::UntilClose,
    };
    let last = close || (version == 0 && !keep) || body == Body::UntilClose;
    Ok((Response { status, last, error: None }, body))
}

/// What follows a version other than 1.0 and 1.1, such as HTTP/2.0: it is written as HTTP/1, and read as that.
fn behind_other_version(head: &[u8]) -> Option<&[u8]> {
    let version = head.strip_prefix(b"HTTP/")?;
    let rest = match version {
        [major, b'.', minor, rest @ ..] if major.is_ascii_digit() && minor.is_ascii_digit() => rest,
        [b'2' | b'3', rest @ ..] => rest,
        _ => return None,
    };
    let is_known = version.starts_with(b"1.0") || version.starts_with(b"1.1");
    (!is_known && rest.first() == Some(&b' ')).then_some(rest)
}

/// Bytes of an invalid head that are read before its fault shows.
pub(super) fn fault_at(head: &[u8]) -> usize {
    let is_valid = |length: usize| {
        let mut parsed = httparse::Response::new(&mut []);
        let mut fields = [const { MaybeUninit::uninit() }; USUAL_FIELDS];
        reader().parse_response_with_uninit_headers(&mut parsed, &head[..length], &mut fields).is_ok()
    };
    let (mut good, mut bad) = (0, head.len());
    while good + 1 < bad {
        let middle = good.midpoint(bad);
        if is_valid(middle) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    good
}
