//! Responses of HTTP/2 that a server sends in frames of its own, read as a load reads them.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::Shutdown;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use socket2::{Domain, Socket, Type};

use super::http2::Http2;
use super::peer::Peer;
use super::streams::{Messages, Streams};
use super::wire::{Received, Wire};
use crate::clock::Clock;
use crate::destination::Destination;
use crate::error_class::ErrorClass;
use crate::poller::Poller;
use crate::spec::Spec;
use crate::tally::Tally;

/// Responses to the requests of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Requests that were sent: as many as asked for, or as the server allows.
    pub sent: usize,
    /// Complete responses by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Good responses.
    pub completed: u64,
    /// Failed requests by class.
    pub errors: BTreeMap<ErrorClass, u64>,
    /// Requests of whose end nothing is known.
    pub lost: usize,
}

/// Frames with which the server opens the connection (RFC 9113 3.4): empty SETTINGS, and the acknowledgement of the client's.
const OPENING: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0";

/// Turns of reading after the last byte, within which the connection has to be at its end.
const TURNS: usize = 1000;

/// Opens a connection of HTTP/2 without TLS, sends up to `requests` of `spec`, and reads the `pieces` that the server sends,
/// followed by the end of the stream.
pub fn judge_http2<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    requests: usize,
    spec: &Spec,
) -> std::io::Result<Judged> {
    let messages = Messages::new(spec);
    let (socket, mut server) = Socket::pair(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    let peer = Peer::new(&Destination::Unix(PathBuf::from("/")), spec, None)?;
    let poller = Poller::new(Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?), spec.pacing, Clock::start())?;
    let mut streams = Streams::<Http2>::new(0, spec, &messages);
    streams.open(Rc::new(socket), &peer)?;
    let is_early = streams.greet().map_err(|(_, error)| error)?;
    server.write_all(OPENING)?;
    let is_open = streams.greet().map_err(|(_, error)| error)?;
    assert!(!is_early && is_open, "the opening does not open the connection");
    let sent = streams.room(requests);
    if sent > 0 {
        streams.request(sent, 0, 0, &messages);
    }
    let (mut tally, mut heard) = (Tally::new(), false);
    let mut is_at_end = streams.flush(&messages).is_err();
    let mut turn = |streams: &mut Streams<Http2>| {
        let received = streams.receive(&mut (), &poller, true, 0, &mut tally, &mut heard);
        let _ = streams.flush(&messages);
        received
    };
    for piece in pieces {
        // The client may have closed the connection.
        if is_at_end || server.write_all(piece).is_err() {
            break;
        }
        is_at_end = matches!(turn(&mut streams), Received::Ended(_));
    }
    let _ = server.shutdown(Shutdown::Write);
    for _ in 0..TURNS {
        is_at_end = is_at_end || matches!(turn(&mut streams), Received::Ended(_));
        if is_at_end {
            break;
        }
    }
    assert!(is_at_end, "the connection does not end");
    let lost = streams.outstanding();
    let Tally { statuses, completed, errors, .. } = tally;
    Ok(Judged { sent, statuses, completed, errors, lost })
}

#[cfg(test)]
mod tests {
    use super::judge_http2;
    use crate::error_class::ErrorClass;
    use crate::spec::Spec;

    /// A frame: its type, flags, stream and payload.
    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).expect("short");
        [&[0, 0, length, kind, flags][..], &stream.to_be_bytes(), payload].concat()
    }

    /// `:status: 200` and `:status: 500` of the static table (RFC 7541, appendix A).
    const OK: u8 = 0x88;
    const INTERNAL: u8 = 0x8e;
    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    const GOAWAY: u8 = 7;
    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;

    #[test]
    fn each_request_is_counted_once() {
        let spec = Spec::new("http://h/".parse().expect("a URL"));
        let frames = [
            frame(HEADERS, END_HEADERS, 1, &[OK]),
            frame(DATA, END_STREAM, 1, b"hello"),
            frame(HEADERS, END_HEADERS | END_STREAM, 3, &[INTERNAL]),
            frame(RST_STREAM, 0, 5, &[0, 0, 0, 2]),
        ]
        .concat();
        for pieces in [frames.chunks(frames.len()), frames.chunks(1), frames.chunks(7)] {
            let judged = judge_http2(pieces, 4, &spec).expect("judged");
            assert_eq!((judged.sent, judged.completed, judged.lost), (4, 1, 0), "{judged:?}");
            assert_eq!(judged.statuses, [(200, 1), (500, 1)].into());
            // One stream was reset, another one was open at the end of the connection.
            let errors = [(ErrorClass::Reset, 1), (ErrorClass::Closed, 1), (ErrorClass::Status5xx, 1)];
            assert_eq!(judged.errors, errors.into());
        }
        let unknown = frame(HEADERS, END_HEADERS | END_STREAM, 9, &[OK]);
        let judged = judge_http2([&unknown[..]], 2, &spec).expect("judged");
        assert_eq!((judged.completed, judged.sent), (0, 2), "a stream that no request has: {judged:?}");
        // After 1024 of these, h2 would give up the connection.
        let no_status = b"\x00\x01x\x01x";
        let faults = (0..1025).flat_map(|n| frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, no_status));
        let good = frame(HEADERS, END_HEADERS | END_STREAM, 2 * 1025 + 1, &[OK]);
        let many: Vec<u8> = faults.chain(good).collect();
        let judged = judge_http2(many.chunks(1000), 1026, &spec).expect("judged");
        assert_eq!((judged.completed, judged.errors), (1, [(ErrorClass::Garbage, 1025)].into()));
        let bye = frame(GOAWAY, 0, 0, &[0; 8]);
        let judged = judge_http2([&bye[..]], 2, &spec).expect("judged");
        assert_eq!(judged.completed, 0, "{judged:?}");
    }
}
