//! HTTP/3 on one connection (RFC 9114): the frames of the `h3` crate over the QUIC of `quinn-proto`.
//!
//! Neither has sockets, clocks or a runtime here: what they would do in the background is done when the engine polls.

mod frames;
mod handles;
mod link;

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use h3::ConnectionState;
use h3::client::{Connection, RequestStream, SendRequest};
use h3::error::{Code, ConnectionError, StreamError};
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response};
use socket2::Socket;

use self::frames::FrameError;
use self::handles::{Handle, Receiving};
use self::link::Link;
use super::peer::Peer;
use super::streams::{Carrier, Turn};
use super::wire::Unopened;
use crate::error_class::ErrorClass;
use crate::reasons::Failure;

/// Longest head of a response, in bytes, with 32 for each field (RFC 9114 4.2.2): as long as `h2` allows.
const MAX_HEAD: u64 = 16 << 20;

pub(super) struct Http3 {
    link: Handle,
    state: State,
}

enum State {
    /// The handshake of QUIC and TLS.
    Greeting,
    Opening(Work<Result<Open, ConnectionError>>),
    Open(Box<Open>),
}

struct Open {
    connection: Connection<Handle, Bytes>,
    send: SendRequest<Handle, Bytes>,
}

type Work<T> = Pin<Box<dyn Future<Output = T>>>;

/// A request that is being sent, while its response may begin already.
pub(super) struct Head {
    link: Handle,
    work: Work<Result<(u16, Length, Rest), StreamError>>,
}

pub(super) struct Body {
    link: Handle,
    rest: Rest,
    length: Length,
}

/// Length of a body, which h3 does not compare with what the response says.
#[derive(Default)]
struct Length {
    /// What the response says; `None` if it does not, or has no body.
    said: Option<u64>,
    seen: u64,
}

impl Length {
    fn of<T>(head: &Response<T>, has_body: bool) -> Self {
        let has_body = has_body && ![204, 304].contains(&head.status().as_u16());
        let said = head.headers().get(CONTENT_LENGTH).filter(|_| has_body);
        Self { said: said.and_then(|said| said.to_str().ok()?.parse().ok()), seen: 0 }
    }

    /// An error at the end of a body that is not as long as the response says: it is malformed (RFC 9114 4.1.2).
    fn check(&self) -> Option<Failure> {
        let said = self.said.filter(|said| *said != self.seen)?;
        let class = if self.seen < said { ErrorClass::Truncated } else { ErrorClass::Garbage };
        Some(Failure::new(class, format!("content-length {said}, {} bytes", self.seen)))
    }
}

/// What is left of a request once its response has begun.
struct Rest {
    /// The body of the request; the outcome no longer counts.
    sending: Option<Work<Result<(), StreamError>>>,
    receiving: RequestStream<Receiving, Bytes>,
}

/// The connection itself is polled whenever it can go on: its socket was ready, its timer was due, or something was sent.
fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

impl Carrier for Http3 {
    type Head = Head;
    type Body = Body;

    fn new(socket: Rc<Socket>, peer: &Peer) -> std::io::Result<Self> {
        let link = Handle(Rc::new(RefCell::new(Link::new(socket, peer)?)));
        Ok(Self { link, state: State::Greeting })
    }

    fn greet(&mut self) -> Result<bool, Unopened> {
        self.link.0.borrow_mut().poll();
        if let Some(end) = &self.link.0.borrow().end {
            return Err(end.unopened());
        }
        if matches!(self.state, State::Greeting) && self.link.0.borrow().is_connected {
            let link = self.link.clone();
            self.state = State::Opening(Box::pin(async move {
                let mut builder = h3::client::builder();
                let (connection, send) =
                    builder.send_grease(false).max_field_section_size(MAX_HEAD).build(link).await?;
                Ok(Open { connection, send })
            }));
        }
        let State::Opening(opening) = &mut self.state else {
            return Ok(matches!(self.state, State::Open(_)));
        };
        match opening.as_mut().poll(&mut context()) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(open)) => {
                self.state = State::Open(Box::new(open));
                self.link.0.borrow_mut().poll();
                Ok(true)
            }
            Poll::Ready(Err(error)) => {
                let error = std::io::Error::new(std::io::ErrorKind::InvalidData, error.to_string());
                Err((ErrorClass::Garbage, error))
            }
        }
    }

    fn is_silent(&self) -> bool {
        !self.link.0.borrow().has_heard()
    }

    /// Sessions are not resumed over QUIC.
    fn is_resumed(&self) -> bool {
        false
    }

    fn room(&mut self, _outstanding: usize, most: usize) -> usize {
        match &self.state {
            State::Open(open) if !open.send.is_closing() => self.link.0.borrow_mut().open_ahead(most),
            _ => 0,
        }
    }

    fn request(&mut self, head: Request<()>, body: Bytes) -> Result<Head, Failure> {
        let State::Open(open) = &self.state else { unreachable!("requests follow the opening") };
        Ok(Head { link: self.link.clone(), work: Box::pin(exchange(open.send.clone(), head, body)) })
    }

    fn poll_head(head: &mut Head, context: &mut Context<'_>) -> Poll<Result<(u16, Body), Failure>> {
        let link = &head.link;
        let polled = head.work.as_mut().poll(context);
        polled
            .map_ok(|(status, length, rest)| (status, Body { link: link.clone(), rest, length }))
            .map_err(|error| failure(link, error))
    }

    fn poll_data(body: &mut Body, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        body.rest.send(context);
        let stream = body.rest.receiving.id();
        loop {
            return Poll::Ready(match ready!(body.rest.receiving.poll_recv_data(context)) {
                Ok(Some(mut data)) => {
                    let data = data.copy_to_bytes(data.remaining());
                    body.length.seen += data.len() as u64;
                    Some(Ok(data))
                }
                Ok(None) if body.link.0.borrow_mut().pass_empty(stream) => continue,
                Ok(None) => body.length.check().map(Err),
                Err(error) => Some(Err(failure(&body.link, error))),
            });
        }
    }

    fn begin_turn(&mut self, turn: Turn) {
        self.link.0.borrow_mut().begin_turn(turn);
    }

    fn poll(&mut self) -> Option<Failure> {
        self.link.0.borrow_mut().poll();
        let State::Open(open) = &mut self.state else { return None };
        let closed = open.connection.poll_close(&mut context());
        let mut link = self.link.0.borrow_mut();
        link.is_announced = open.send.is_closing();
        match (link.failure(), closed) {
            (Some(failure), _) => Some(failure),
            (None, Poll::Ready(error)) => Some(Failure::new(ErrorClass::Garbage, error.to_string())),
            // What was requested before has its response; the server may keep the connection for longer.
            (None, Poll::Pending) if link.is_announced && link.requests == 0 => Some(announced()),
            (None, Poll::Pending) => None,
        }
    }

    fn is_spent(&self) -> bool {
        self.link.0.borrow().is_spent()
    }

    fn take_bytes(&mut self) -> u64 {
        self.link.0.borrow_mut().take_bytes()
    }

    fn alarm(&mut self) -> Option<Duration> {
        self.link.0.borrow_mut().alarm()
    }
}

impl Drop for Http3 {
    fn drop(&mut self) {
        self.link.0.borrow_mut().close(Code::H3_NO_ERROR, b"");
    }
}

/// Sends a request; the final status of its response, and the length of the body.
async fn exchange(
    mut send: SendRequest<Handle, Bytes>,
    head: Request<()>,
    body: Bytes,
) -> Result<(u16, Length, Rest), StreamError> {
    let has_body = head.method() != Method::HEAD;
    let (mut sending, receiving) = send.send_request(head).await?.split();
    let mut rest = Rest { sending: None, receiving };
    if body.is_empty() {
        sending.finish().await?;
    } else {
        rest.sending = Some(Box::pin(async move {
            sending.send_data(body).await?;
            sending.finish().await
        }));
    }
    loop {
        let head = rest.head().await?;
        // One that is not final may come before (RFC 9110 15.2).
        if !head.status().is_informational() {
            return Ok((head.status().as_u16(), Length::of(&head, has_body), rest));
        }
    }
}

impl Rest {
    /// The next head. A server may respond before it has read all, and stop reading (RFC 9114 4.1): only without
    /// a response has the sending failed.
    async fn head(&mut self) -> Result<Response<()>, StreamError> {
        let Rest { sending, receiving } = self;
        let mut response = pin!(receiving.recv_response());
        let mut unsent = None;
        let response = poll_fn(|context| {
            if let Some(work) = sending
                && let Poll::Ready(sent) = work.as_mut().poll(context)
            {
                (*sending, unsent) = (None, sent.err());
            }
            response.as_mut().poll(context)
        })
        .await;
        response.map_err(|error| unsent.unwrap_or(error))
    }

    /// Goes on sending.
    fn send(&mut self, context: &mut Context<'_>) {
        if self.sending.as_mut().is_some_and(|work| work.as_mut().poll(context).is_ready()) {
            self.sending = None;
        }
    }
}

fn announced() -> Failure {
    Failure::new(ErrorClass::Discarded, "the server announced the end (GOAWAY)")
}

/// Why a request has no response.
fn failure(link: &Handle, error: StreamError) -> Failure {
    let link = link.0.borrow();
    match error {
        // The server has not read it (RFC 9114 4.1.1, 5.2).
        StreamError::RemoteTerminate { code: code @ Code::H3_REQUEST_REJECTED } if link.is_announced => {
            Failure::new(ErrorClass::Discarded, code.to_string())
        }
        StreamError::RemoteTerminate { code } => Failure::new(ErrorClass::Reset, code.to_string()),
        StreamError::RemoteClosing => announced(),
        StreamError::Undefined(ref error) if let Some(fault) = error.downcast_ref::<FrameError>() => {
            let is_cut_off = *fault == FrameError::CutOff;
            let class = if is_cut_off { ErrorClass::Truncated } else { ErrorClass::Garbage };
            Failure::new(class, fault.to_string())
        }
        error => link.failure().unwrap_or_else(|| Failure::new(ErrorClass::Garbage, error.to_string())),
    }
}
