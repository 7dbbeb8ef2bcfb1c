//! HTTP/2 on one connection (RFC 9113), with the frames of the `h2` crate.

mod channel;
mod frames;

use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::Request;
use socket2::Socket;

use self::channel::{Channel, Meter};
use super::peer::Peer;
use super::streams::{Carrier, Turn, WINDOW};
use super::transport::Transport;
use super::wire::Unopened;
use crate::error_class::ErrorClass;
use crate::reasons::Failure;

pub(super) struct Http2 {
    state: State,
    is_resumed: bool,
    meter: Meter,
}

enum State {
    /// The transport is being opened, or was lost.
    Greeting(Option<Transport>),
    /// The server has not shown yet that it speaks HTTP/2.
    Opening(Pin<Box<dyn Future<Output = std::io::Result<Open>>>>),
    Open(Box<Open>),
}

struct Open {
    send: SendRequest<Bytes>,
    connection: Connection<Channel, Bytes>,
}

/// The connection itself is polled whenever it can go on: its socket was ready, or something was sent.
fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

impl Carrier for Http2 {
    type Head = ResponseFuture;
    type Body = RecvStream;

    fn new(socket: Rc<Socket>, peer: &Peer) -> std::io::Result<Self> {
        let transport = Transport::new(socket, peer.tls.as_ref())?;
        Ok(Self { state: State::Greeting(Some(transport)), is_resumed: false, meter: Meter::default() })
    }

    fn greet(&mut self) -> Result<bool, Unopened> {
        if let State::Greeting(greeting) = &mut self.state {
            let Some(transport) = greeting else { return Ok(false) };
            if !transport.greet().map_err(|error| (ErrorClass::Tls, error))? {
                return Ok(false);
            }
            self.is_resumed = transport.is_resumed();
            if !transport.is_agreed(b"h2") {
                let error = std::io::Error::new(ErrorKind::InvalidData, "the server does not offer HTTP/2");
                return Err((ErrorClass::Tls, error));
            }
            let opening =
                greeting.take().map(|transport| handshake(Channel::new(transport, self.meter.clone())));
            self.state = State::Opening(Box::pin(opening.expect("it is there")));
        }
        let State::Opening(opening) = &mut self.state else { return Ok(true) };
        match opening.as_mut().poll(&mut context()) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(open)) => {
                self.state = State::Open(Box::new(open));
                Ok(true)
            }
            Poll::Ready(Err(error)) => {
                let is_garbage = error.kind() == ErrorKind::InvalidData;
                Err((if is_garbage { ErrorClass::Garbage } else { ErrorClass::Connect }, error))
            }
        }
    }

    /// TCP has accepted the connection before.
    fn is_silent(&self) -> bool {
        false
    }

    fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    fn room(&mut self, outstanding: usize, most: usize) -> usize {
        let State::Open(open) = &mut self.state else { return 0 };
        if self.meter.is_worn() {
            return 0;
        }
        match open.send.poll_ready(&mut context()) {
            Poll::Ready(Ok(())) => {
                most.min(open.connection.max_concurrent_send_streams().saturating_sub(outstanding))
            }
            _ => 0,
        }
    }

    fn request(&mut self, head: Request<()>, body: Bytes) -> Result<ResponseFuture, Failure> {
        let State::Open(open) = &mut self.state else { unreachable!("requests follow the opening") };
        let is_whole = body.is_empty();
        let (response, mut stream) = open.send.send_request(head, is_whole).map_err(failure)?;
        if !is_whole {
            stream.send_data(body, true).map_err(failure)?;
        }
        Ok(response)
    }

    fn poll_head(
        response: &mut ResponseFuture,
        context: &mut Context<'_>,
    ) -> Poll<Result<(u16, RecvStream), Failure>> {
        Pin::new(response).poll(context).map_err(failure).map_ok(|response| {
            let (head, body) = response.into_parts();
            (head.status.as_u16(), body)
        })
    }

    fn poll_data(body: &mut RecvStream, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        let polled = body.poll_data(context);
        if let Poll::Ready(Some(Ok(data))) = &polled {
            // Fails only for a stream that has ended: nothing more comes on it.
            let _ = body.flow_control().release_capacity(data.len());
        }
        polled.map_err(|error| match failure(error) {
            Failure { class: ErrorClass::Closed, reason } => Failure { class: ErrorClass::Truncated, reason },
            failure => failure,
        })
    }

    fn begin_turn(&mut self, turn: Turn) {
        self.meter.begin(turn);
    }

    fn poll(&mut self) -> Option<Failure> {
        let State::Open(open) = &mut self.state else { return None };
        let Poll::Ready(end) = Pin::new(&mut open.connection).poll(&mut context()) else { return None };
        // After an announced end the connection itself ends well.
        let announced = || match open.send.poll_ready(&mut context()) {
            Poll::Ready(Err(error)) => Some(error),
            _ => None,
        };
        let error = end.err().or_else(announced);
        Some(error.map_or_else(|| Failure::new(ErrorClass::Closed, "end of the stream"), failure))
    }

    fn is_spent(&self) -> bool {
        self.meter.is_spent()
    }

    fn is_settled(&mut self) -> bool {
        let State::Open(open) = &mut self.state else { return false };
        !self.meter.is_blocked() && !matches!(open.send.poll_ready(&mut context()), Poll::Ready(Err(_)))
    }

    fn is_worn(&self) -> bool {
        self.meter.is_worn()
    }

    fn take_bytes(&mut self) -> u64 {
        self.meter.take_bytes()
    }
}

/// Opens HTTP/2 on a channel. It is open once the server allows streams, which it does with its SETTINGS: a server of another
/// protocol takes the first bytes as well.
async fn handshake(channel: Channel) -> std::io::Result<Open> {
    let mut builder = Builder::new();
    builder.enable_push(false).initial_window_size(WINDOW).initial_connection_window_size(WINDOW);
    // The late response to a request that was given up counts as such a reset, too.
    builder.max_local_error_reset_streams(None);
    builder.initial_max_send_streams(0);
    let (send, mut connection) = builder.handshake(channel).await.map_err(unopened)?;
    poll_fn(|context| match Pin::new(&mut connection).poll(context) {
        Poll::Ready(Ok(())) => Poll::Ready(Err(ErrorKind::UnexpectedEof.into())),
        Poll::Ready(Err(error)) => Poll::Ready(Err(unopened(error))),
        Poll::Pending if connection.max_concurrent_send_streams() == 0 => Poll::Pending,
        Poll::Pending => Poll::Ready(Ok(())),
    })
    .await?;
    Ok(Open { send, connection })
}

/// Why HTTP/2 could not be opened.
fn unopened(error: h2::Error) -> std::io::Error {
    if error.is_io() {
        return error.into_io().expect("it is one");
    }
    std::io::Error::new(ErrorKind::InvalidData, format!("the server does not speak HTTP/2 ({error})"))
}

/// Why a request whose stream or connection has ended has no response, in the words of RFC 9113 7 or of the system.
fn failure(error: h2::Error) -> Failure {
    // An error of the system has no text of its own: this one is the end of the connection, between frames or within one.
    if error.get_io().is_some_and(|error| error.get_ref().is_some()) {
        return Failure::new(ErrorClass::Closed, "end of the stream");
    }
    let class = if error.is_go_away() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR) {
        // The server has not read it (RFC 9113 6.8).
        ErrorClass::Discarded
    } else if error.is_library() {
        ErrorClass::Garbage
    } else if error.is_io() || error.is_reset() {
        ErrorClass::Reset
    } else {
        ErrorClass::Closed
    };
    let reason = error.reason().filter(|_| class != ErrorClass::Garbage);
    Failure::new(class, reason.map_or_else(|| error.to_string(), |reason| format!("{reason:?}")))
}
