//! A QUIC connection and its streams as the `h3` crate uses them.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, WriteBuf};
use quinn_proto::{Dir, FinishError, ReadError, ReadableError, StreamId, VarInt, WriteError};

use super::frames::Frames;
use super::link::Link;

/// The connection; all its handles share it.
#[derive(Clone)]
pub(super) struct Handle(pub(super) Rc<RefCell<Link>>);

/// A stream of a request.
pub(super) struct Both {
    sending: Sending,
    receiving: Receiving,
}

pub(super) struct Sending {
    link: Handle,
    stream: StreamId,
    /// Bytes that the connection has not taken yet.
    rest: Option<WriteBuf<Bytes>>,
    is_over: bool,
}

pub(super) struct Receiving {
    link: Handle,
    stream: StreamId,
    /// Frames of a stream of a request; `None` on other streams.
    frames: Option<Frames>,
    is_over: bool,
}

impl Handle {
    /// The error of everything on a connection that has ended.
    fn lost(&self) -> Option<ConnectionErrorIncoming> {
        let link = self.0.borrow();
        // Its text is not shown: the link's own end is.
        let error = |_| ConnectionErrorIncoming::Undefined(Arc::new(std::io::Error::other("ended")));
        link.end.as_ref().map(error)
    }

    fn lost_stream(&self) -> Option<StreamErrorIncoming> {
        self.lost().map(|error| StreamErrorIncoming::ConnectionErrorIncoming { connection_error: error })
    }

    /// Waits until `stream` can go on, unless the connection has ended.
    fn wait<T>(&self, stream: StreamId, context: &Context<'_>) -> Poll<Result<T, StreamErrorIncoming>> {
        if let Some(error) = self.lost_stream() {
            return Poll::Ready(Err(error));
        }
        self.0.borrow_mut().wait(stream, context.waker());
        Poll::Pending
    }

    fn sending(&self, stream: StreamId) -> Sending {
        Sending { link: self.clone(), stream, rest: None, is_over: false }
    }

    fn receiving(&self, stream: StreamId) -> Receiving {
        let frames = (stream.dir() == Dir::Bi).then(Frames::default);
        Receiving { link: self.clone(), stream, frames, is_over: false }
    }

    fn both(&self, stream: StreamId) -> Both {
        Both { sending: self.sending(stream), receiving: self.receiving(stream) }
    }

    fn accept(&self, dir: Dir) -> Poll<Result<StreamId, ConnectionErrorIncoming>> {
        let accepted = self.0.borrow_mut().connection.streams().accept(dir);
        match (accepted, self.lost()) {
            (Some(stream), _) => Poll::Ready(Ok(stream)),
            (None, Some(error)) => Poll::Ready(Err(error)),
            // The connection is polled when something has arrived.
            (None, None) => Poll::Pending,
        }
    }

    fn opened(&self, stream: Option<StreamId>) -> Poll<Result<StreamId, StreamErrorIncoming>> {
        match (stream, self.lost_stream()) {
            (Some(stream), _) => Poll::Ready(Ok(stream)),
            (None, Some(error)) => Poll::Ready(Err(error)),
            // Requests are only made if there is a stream; others are asked for again when something has arrived.
            (None, None) => Poll::Pending,
        }
    }
}

fn terminated(code: VarInt) -> StreamErrorIncoming {
    StreamErrorIncoming::StreamTerminated { error_code: code.into_inner() }
}

fn unknown(error: impl std::error::Error + Send + Sync + 'static) -> StreamErrorIncoming {
    StreamErrorIncoming::Unknown(Box::new(error))
}

fn var_int(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

pub(super) fn identifier(stream: StreamId) -> quic::StreamId {
    u64::from(stream).try_into().expect("a stream's number is below 2^62")
}

impl quic::OpenStreams<Bytes> for Handle {
    type BidiStream = Both;
    type SendStream = Sending;

    fn poll_open_bidi(&mut self, _: &mut Context<'_>) -> Poll<Result<Both, StreamErrorIncoming>> {
        let stream = self.0.borrow_mut().take_stream();
        self.opened(stream).map_ok(|stream| self.both(stream))
    }

    fn poll_open_send(&mut self, _: &mut Context<'_>) -> Poll<Result<Sending, StreamErrorIncoming>> {
        let stream = self.0.borrow_mut().connection.streams().open(Dir::Uni);
        self.opened(stream).map_ok(|stream| self.sending(stream))
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.0.borrow_mut().close(code, reason);
    }
}

impl quic::Connection<Bytes> for Handle {
    type RecvStream = Receiving;
    type OpenStreams = Self;

    fn poll_accept_recv(&mut self, _: &mut Context<'_>) -> Poll<Result<Receiving, ConnectionErrorIncoming>> {
        self.accept(Dir::Uni).map_ok(|stream| self.receiving(stream))
    }

    fn poll_accept_bidi(&mut self, _: &mut Context<'_>) -> Poll<Result<Both, ConnectionErrorIncoming>> {
        self.accept(Dir::Bi).map_ok(|stream| self.both(stream))
    }

    fn opener(&self) -> Self {
        self.clone()
    }
}

impl quic::SendStream<Bytes> for Sending {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        while let Some(rest) = self.rest.as_mut().filter(|rest| rest.has_remaining()) {
            let written = self.link.0.borrow_mut().connection.send_stream(self.stream).write(rest.chunk());
            match written {
                Ok(length) => rest.advance(length),
                Err(WriteError::Blocked) => return self.link.wait(self.stream, context),
                Err(WriteError::Stopped(code)) => return Poll::Ready(Err(terminated(code))),
                Err(error @ WriteError::ClosedStream) => return Poll::Ready(Err(unknown(error))),
            }
        }
        self.rest = None;
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        debug_assert!(self.rest.is_none(), "h3 waits until it is ready");
        self.rest = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        let finished = self.link.0.borrow_mut().connection.send_stream(self.stream).finish();
        self.is_over = true;
        Poll::Ready(match finished {
            Ok(()) | Err(FinishError::ClosedStream) => Ok(()),
            Err(FinishError::Stopped(code)) => Err(terminated(code)),
        })
    }

    fn reset(&mut self, code: u64) {
        self.is_over = true;
        // Fails for a stream that has ended.
        let _ = self.link.0.borrow_mut().connection.send_stream(self.stream).reset(var_int(code));
    }

    fn send_id(&self) -> quic::StreamId {
        identifier(self.stream)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if !self.is_over {
            quic::SendStream::reset(self, Code::H3_REQUEST_CANCELLED.value());
        }
    }
}

impl quic::RecvStream for Receiving {
    type Buf = Bytes;

    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        if self.is_over {
            return Poll::Ready(Ok(None));
        }
        let read = {
            let mut link = self.link.0.borrow_mut();
            match link.connection.recv_stream(self.stream).read(true) {
                Ok(mut chunks) => chunks.next(usize::MAX),
                Err(error @ ReadableError::IllegalOrderedRead) => return Poll::Ready(Err(unknown(error))),
                // Nothing more comes on it.
                Err(ReadableError::ClosedStream) => Ok(None),
            }
        };
        match read {
            Ok(Some(chunk)) => {
                let followed = self.frames.as_mut().map_or(Ok(0), |frames| frames.follow(&chunk.bytes));
                if let Ok(empty @ 1..) = followed {
                    self.link.0.borrow_mut().add_empty(identifier(self.stream), empty);
                }
                Poll::Ready(followed.map(|_| Some(chunk.bytes)).map_err(unknown))
            }
            Ok(None) => {
                self.is_over = true;
                let ended = self.frames.as_ref().map_or(Ok(()), Frames::end);
                Poll::Ready(ended.map(|()| None).map_err(unknown))
            }
            Err(ReadError::Blocked) => self.link.wait(self.stream, context),
            Err(ReadError::Reset(code)) => {
                self.is_over = true;
                Poll::Ready(Err(terminated(code)))
            }
        }
    }

    fn stop_sending(&mut self, code: u64) {
        self.is_over = true;
        // Fails for a stream that has ended.
        let _ = self.link.0.borrow_mut().connection.recv_stream(self.stream).stop(var_int(code));
    }

    fn recv_id(&self) -> quic::StreamId {
        identifier(self.stream)
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        if !self.is_over {
            quic::RecvStream::stop_sending(self, Code::H3_REQUEST_CANCELLED.value());
        }
        self.link.0.borrow_mut().forget(self.stream);
    }
}

impl quic::SendStream<Bytes> for Both {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.sending.poll_ready(context)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.sending.send_data(data)
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.sending.poll_finish(context)
    }

    fn reset(&mut self, code: u64) {
        self.sending.reset(code);
    }

    fn send_id(&self) -> quic::StreamId {
        self.sending.send_id()
    }
}

impl quic::RecvStream for Both {
    type Buf = Bytes;

    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.receiving.poll_data(context)
    }

    fn stop_sending(&mut self, code: u64) {
        self.receiving.stop_sending(code);
    }

    fn recv_id(&self) -> quic::StreamId {
        self.receiving.recv_id()
    }
}

impl quic::BidiStream<Bytes> for Both {
    type SendStream = Sending;
    type RecvStream = Receiving;

    fn split(self) -> (Sending, Receiving) {
        (self.sending, self.receiving)
    }
}
