//! The parser against responses of real servers, and against garbage.

use proptest::prelude::{Just, Strategy, prop_assert_eq, prop_oneof, proptest};

use super::{Check, ErrorClass, Malformed, Parser, Response, Statuses, Truncated};
use crate::http::reader::{StreamEnd, judge_answers};
use crate::spec::Spec;

/// Results of a stream in order: the responses, then how it ended.
type Story = (Vec<Response>, Result<Option<Response>, &'static str>);

fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Story {
    let (mut parser, mut seen) = (any(false), Vec::new());
    for mut piece in pieces {
        loop {
            match parser.next(&mut piece) {
                Ok(Some(response)) => seen.push(response),
                Ok(None) => break,
                Err(Malformed) => return (seen, Err("malformed")),
            }
        }
        assert!(piece.is_empty());
    }
    (seen, parser.finish().map_err(|Truncated| "truncated"))
}

fn any(bodyless: bool) -> Parser {
    Parser::new(bodyless, Statuses::default(), Check::Any)
}

fn ok(last: bool) -> Response {
    Response { status: 200, last, error: None }
}

fn whole(text: &str) -> Story {
    read([text.as_bytes()])
}

#[test]
fn answers_with_a_length() {
    let one = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    assert_eq!(whole(&one.repeat(3)), (vec![ok(false); 3], Ok(None)));
    assert_eq!(whole("HTTP/1.1 204 No\r\n\r\n").0[0].status, 204);
    assert_eq!(whole("HTTP/1.1 200 OK\ncontent-length:0\n\n"), (vec![ok(false)], Ok(None)));
    assert_eq!(whole(&one[..one.len() - 1]), (vec![], Err("truncated")));
    assert_eq!(whole("HTTP/1.1 2"), (vec![], Err("truncated")));
}

#[test]
fn chunked_answers() {
    let one = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
               5\r\nhello\r\n00a;x=\"y\"\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
    assert_eq!(whole(&one.repeat(2)), (vec![ok(false); 2], Ok(None)));
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for bad in ["\r\n", "x\r\n", "5\r\nhelloX", "11111111111111111\r\n", "5hello"] {
        assert_eq!(whole(&format!("{head}{bad}")), (vec![], Err("malformed")), "{bad:?}");
    }
}

/// Where, what, and how it begins: without them a user has to capture the traffic.
#[test]
fn a_fault_says_where_and_shows_the_bytes() {
    let fault = |text: &str, size: usize| {
        let mut parser = any(false);
        for mut piece in text.as_bytes().chunks(size) {
            while !piece.is_empty() {
                if parser.next(&mut piece).is_err() {
                    return parser.reason().expect("a reason");
                }
            }
        }
        parser.finish().expect_err("a fault");
        parser.reason().expect("a reason")
    };
    for size in [1, 7, 1_000] {
        let ssh = fault("SSH-2.0-OpenSSH_9.2\r\n", size);
        assert!(ssh.starts_with("not an HTTP response at byte 0; it begins `S"), "{ssh}");
        if size > 4 {
            let tls = fault("\x15\x03\x03\0\x02\x02\x0a", size);
            assert!(tls.starts_with("TLS instead of HTTP (https://) at byte 0; it begins `"), "{tls}");
            let settings = fault("\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\x40\0", size);
            assert!(settings.starts_with("HTTP/2 instead of HTTP/1.1 (--http2) at byte 0"), "{settings}");
        }
        let good = "HTTP/1.1 100 Continue\r\n\r\n";
        let field = fault(&format!("{good}HTTP/1.1 200 OK\r\nA: \0b\r\n\r\n"), size);
        assert_eq!(field, r"invalid field value at byte 20; it begins `HTTP/1.1 200 OK\r\nA: \x00b\r\n\r\n`");
        let length = fault("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", size);
        assert!(length.starts_with("invalid Content-Length"), "{length}");
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunk = fault(&format!("{head}5\r\nhelloX"), size);
        assert_eq!(chunk, format!("no line end after a chunk at byte {}; there is `X`", head.len() + 8));
        let cut = fault("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhell", size);
        assert_eq!(cut, "within the body, before its announced length");
        assert_eq!(fault("HTTP/1.1 2", size), "within the head");
    }
}

/// Each was refused, though curl or a browser takes it.
#[test]
fn what_other_clients_take_is_taken() {
    for fields in [
        "Content-Length: 2, 2",
        "Transfer-Encoding: identity\r\nContent-Length: 2",
        ": x\r\nContent-Length: 2",
        "Bad Name: x\r\nContent-Length: 2",
        "no colon\r\nContent-Length: 2",
    ] {
        let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\nok");
        assert_eq!(whole(&text.repeat(2)), (vec![ok(false); 2], Ok(None)), "{fields}");
    }
    for line in ["HTTP/1.1  200 OK", "HTTP/1.2 200 OK", "HTTP/2.0 200 OK", "HTTP/2 200 OK"] {
        let text = format!("{line}\r\nContent-Length: 2\r\n\r\nok");
        assert_eq!(whole(&text.repeat(2)), (vec![ok(false); 2], Ok(None)), "{line}");
    }
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    assert_eq!(whole(&chunks.repeat(2)), (vec![ok(false); 2], Ok(None)));
    let twice = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    assert_eq!(whole(&twice.repeat(2)), (vec![ok(false); 2], Ok(None)));
    let last = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nContent-Length: 1\r\n\r\nok";
    assert_eq!(whole(last), (vec![], Ok(Some(ok(true)))), "it overrides the length");
    for bad in ["Content-Length: 2, 3", "Content-Length: 2,", "Transfer-Encoding: chunked, gzip"] {
        assert_eq!(whole(&format!("HTTP/1.1 200 OK\r\n{bad}\r\n\r\nok")).1, Err("malformed"), "{bad}");
    }
}

/// Without a length the response to GET ends with its connection; that to HEAD has no body.
#[test]
fn an_answer_to_head_needs_no_length() {
    for head in [
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
    ] {
        let (mut parser, text) = (any(true), head.repeat(2));
        let mut input = text.as_bytes();
        for _ in 0..2 {
            assert_eq!(parser.next(&mut input), Ok(Some(ok(false))), "{head:?}");
        }
        assert_eq!((input, parser.finish()), (&b""[..], Ok(None)), "{head:?}");
    }
    let mut last = &b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"[..];
    assert_eq!(any(true).next(&mut last), Ok(Some(ok(true))));
}

#[test]
fn answers_are_judged_by_status_and_body() {
    let mut parser =
        Parser::new(false, "2xx,404".parse().expect("statuses"), Check::exact(b"hello".as_slice().into()));
    let mut errors = Vec::new();
    for (status, rest) in [
        (200, "Content-Length: 5\r\n\r\nhello"),
        (200, "Content-Length: 5\r\n\r\nhellO"),
        (404, "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"),
        (204, "\r\n"),
        (301, "Content-Length: 5\r\n\r\nhello"),
        (200, "\r\nhello"),
    ] {
        let text = format!("HTTP/1.1 {status} x\r\n{rest}");
        for mut piece in text.as_bytes().chunks(7) {
            errors.extend(parser.next(&mut piece).expect("well formed").map(|response| response.error));
        }
    }
    errors.extend(parser.finish().expect("whole").map(|response| response.error));
    let (body, moved) = (Some(ErrorClass::Body), Some(ErrorClass::Status3xx));
    assert_eq!(errors, [None, body, None, body, moved, None]);
}

#[test]
fn the_end_of_the_connection() {
    assert_eq!(whole("HTTP/1.1 200 OK\r\n\r\nsome body"), (vec![], Ok(Some(ok(true)))));
    let close = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x, Close\r\n\r\n";
    assert_eq!(whole(&close.repeat(2)), (vec![ok(true)], Ok(None)));
    assert_eq!(whole("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n").0, [ok(true)]);
    let kept = "HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n";
    assert_eq!(whole(kept).0, [ok(false)]);
}

#[test]
fn interim_answers_are_passed_over() {
    let text = "HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(whole(text), (vec![ok(false)], Ok(None)));
}

/// What curl and browsers read was once refused as garbage.
#[test]
fn what_other_clients_read_is_read() {
    let end = "Content-Length: 2\r\n\r\nok";
    let fields: String = (0..400).map(|n| format!("X-{n}: y\r\n")).collect();
    for head in [
        "X-Long: a,\r\n  b\r\n".to_owned(),
        "X-Space : a\r\n".to_owned(),
        format!("X: {}\r\n", "y".repeat(100_000)),
        fields,
    ] {
        let text = format!("HTTP/1.1 200 OK\r\n{head}{end}");
        assert_eq!(whole(&text), (vec![ok(false)], Ok(None)), "{:.40}", head);
    }
    let both =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    assert_eq!(whole(both), (vec![ok(false)], Ok(None)));
    for status in [99, 999] {
        let odd = whole(&format!("HTTP/1.1 {status:03} No\r\n{end}"));
        assert_eq!(odd.0, [Response { status, last: false, error: Some(ErrorClass::Status5xx) }]);
    }
    let spaced = format!("\r\n\nHTTP/1.1 200 OK\r\n{end}\r\n");
    assert_eq!(whole(&spaced.repeat(2)), (vec![ok(false); 2], Ok(None)), "line ends between responses");
}

#[test]
fn lies_and_garbage() {
    let head = |lines: &str| whole(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n"));
    for bad in [
        "Content-Length: -1",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 99999999999999999999",
        "Content-Length:",
    ] {
        assert_eq!(head(bad), (vec![], Err("malformed")), "{bad:?}");
    }
    for bad in ["SSH-2.0", "\r\n ", "HTTX/2 200", "HTTP/1.1 101 Switching\r\n\r\n"] {
        assert_eq!(whole(bad), (vec![], Err("malformed")), "{bad:?}");
    }
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(310_000));
    assert_eq!(whole(&endless), (vec![], Err("malformed")));
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        6 => Just(&b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"[..]),
        2 => Just(&b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother"[..]),
        4 => Just(&b"HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n"[..]),
        1 => Just(&b"HTTP/1.1 100 Continue\r\n\r\n"[..]),
        1 => Just(&b"HTTP/1.1 204 None\n\n"[..]),
        1 => Just(&b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nxx"[..]),
        1 => Just(&b"HTTP/1.1 200 OK\r\n\r\n"[..]),
        1 => Just(&b"HTTP/1.1 200 OK\r\n\r\nuntil the end"[..]),
        1 => Just(&b"HTTP/1.1 "[..]),
        1 => Just(&b"HT"[..]),
        1 => Just(&b"x"[..]),
        1 => Just(&b"\r\r\n\n"[..]),
    ];
    let run = (part, 1usize..6).prop_map(|(part, count)| part.repeat(count));
    proptest::collection::vec(run, 0..8).prop_map(|runs| runs.concat())
}

/// What the parser alone says of a stream, in the words of [`judge_answers`].
fn parsed(stream: &[u8]) -> (Vec<(u16, Option<ErrorClass>)>, StreamEnd) {
    let (mut seen, end) = read([stream]);
    let end = match end {
        Ok(last) => {
            seen.extend(last);
            StreamEnd::Whole
        }
        Err("truncated") => StreamEnd::Truncated,
        Err(_) => StreamEnd::Malformed,
    };
    (seen.into_iter().map(|response| (response.status, response.error)).collect(), end)
}

fn spec() -> Spec {
    Spec::new("http://h:1/".parse().expect("a URL"))
}

proptest! {
    #[test]
    fn cuts_between_reads_change_nothing(stream in stream(), cuts in proptest::collection::vec(1usize..20, 0..60)) {
        let mut pieces = Vec::new();
        let mut rest = &stream[..];
        for cut in cuts {
            let (piece, behind) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = behind;
        }
        pieces.push(rest);
        prop_assert_eq!(read(pieces), read([&stream[..]]));
        prop_assert_eq!(read(stream.chunks(1)), read([&stream[..]]));
    }

    #[test]
    fn a_changed_byte_is_judged_however_the_stream_is_cut(stream in stream(), at in proptest::num::usize::ANY, byte in proptest::num::u8::ANY) {
        let mut stream = stream;
        if !stream.is_empty() {
            let at = at % stream.len();
            stream[at] = byte;
        }
        prop_assert_eq!(read(stream.chunks(3)), read([&stream[..]]));
    }

    /// Recognizing responses does not change what is read, however the stream is split.
    #[test]
    fn what_is_learned_is_what_is_parsed(stream in stream(), size in 1usize..300, at in proptest::num::usize::ANY, byte in proptest::num::u8::ANY) {
        let mut stream = stream;
        prop_assert_eq!(judge_answers(stream.chunks(size), &spec()), parsed(&stream));
        if !stream.is_empty() {
            let at = at % stream.len();
            stream[at] = byte;
        }
        prop_assert_eq!(judge_answers(stream.chunks(size), &spec()), parsed(&stream));
    }

    /// Whatever is expected, the result does not depend on how the stream is split.
    #[test]
    fn cuts_change_no_judgement(stream in stream(), size in 1usize..300, head: bool, kind in 0..3) {
        let method = if head { "HEAD" } else { "GET" }.to_owned();
        let expect_body = (kind == 1).then(|| "hello".into());
        let spec = Spec { method, expect_body, announce: kind == 2, ..spec() };
        prop_assert_eq!(judge_answers(stream.chunks(size), &spec), judge_answers([&stream[..]], &spec));
    }

    #[test]
    fn any_bytes_end_somehow(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
        prop_assert_eq!(read(bytes.chunks(1)), read([&bytes[..]]));
    }
}
