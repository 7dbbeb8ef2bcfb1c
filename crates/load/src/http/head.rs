//! Head of an HTTP/1.x response: status, body framing and persistence of the connection.

use std::mem::MaybeUninit;

use httparse::ParserConfig;

use super::response::{Malformed, Response};
use rxlab_base::units::digits;

const MAX_HEADERS: usize = 100;

/// Framing of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    Sized(u64),
    Chunked,
    UntilClose,
}

/// Reads a head, from the status line to the empty line. `bodyless`: it responds to HEAD, so no body follows
/// whatever it says, and without a length the connection stays open.
pub(super) fn read_head(head: &[u8], bodyless: bool) -> Result<(Response, Body), Malformed> {
    // Room for all of them is 3 KiB, of which most responses need a tenth: it is not cleared first.
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    match ParserConfig::default().parse_response_with_uninit_headers(&mut parsed, head, &mut headers) {
        Ok(httparse::Status::Complete(length)) if length == head.len() => {}
        _ => return Err(Malformed),
    }
    let (Some(status), Some(version)) = (parsed.code, parsed.version) else { return Err(Malformed) };
    // 101 changes the protocol, which the load never requests.
    if !(100..600).contains(&status) || status == 101 {
        return Err(Malformed);
    }
    let (mut close, mut keep, mut length, mut chunked) = (false, false, None, false);
    for header in parsed.headers.iter() {
        let value = header.value.trim_ascii();
        if header.name.eq_ignore_ascii_case("content-length") {
            let value: u64 = std::str::from_utf8(value).ok().and_then(digits).ok_or(Malformed)?;
            if length.is_some_and(|known| known != value) {
                return Err(Malformed);
            }
            length = Some(value);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            // The load offers no coding, so only `chunked` is valid.
            if !value.eq_ignore_ascii_case(b"chunked") || chunked {
                return Err(Malformed);
            }
            chunked = true;
        } else if header.name.eq_ignore_ascii_case("connection") {
            for token in value.split(|b| *b == b',').map(<[u8]>::trim_ascii) {
                close |= token.eq_ignore_ascii_case(b"close");
                keep |= token.eq_ignore_ascii_case(b"keep-alive");
            }
        }
    }
    let empty = bodyless || status < 200 || status == 204 || status == 304;
    let body = match (empty, chunked, length) {
        (true, _, _) => Body::Sized(0),
        (_, true, Some(_)) => return Err(Malformed),
        (_, true, None) => Body::Chunked,
        (_, false, Some(length)) => Body::Sized(length),
        (_, false, None) => Body::UntilClose,
    };
    let last = close || (version == 0 && !keep) || body == Body::UntilClose;
    Ok((Response { status, last, error: None }, body))
}
