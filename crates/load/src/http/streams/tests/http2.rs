//! A server of HTTP/2: that of the `h2` crate.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use h2::server::{Builder, SendResponse};
use http::Response;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Deed, Deeds};

/// A socket that is asked again and again.
struct Polled(TcpStream);

fn polled<T>(result: std::io::Result<T>) -> Poll<std::io::Result<T>> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}

impl AsyncRead for Polled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let read = self.0.read(buffer.initialize_unfilled());
        polled(read).map_ok(|length| buffer.advance(length))
    }
}

impl AsyncWrite for Polled {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        polled(self.0.write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

type Held = Vec<SendResponse<Bytes>>;

fn answer(mut respond: SendResponse<Bytes>, status: u16, stutters: bool) {
    let head = Response::builder().status(status).body(()).expect("a response");
    if let Ok(mut body) = respond.send_response(head, false) {
        if stutters {
            let _ = body.send_data(Bytes::new(), false);
        }
        let _ = body.send_data(Bytes::from_static(b"hello"), true);
    }
}

/// Serves one connection; request `n` of the server gets `deed(n)`.
async fn serve(stream: TcpStream, streams: u32, count: Arc<AtomicUsize>, deed: impl Deeds) {
    let mut builder = Builder::new();
    let Ok(mut connection) = builder.max_concurrent_streams(streams).handshake(Polled(stream)).await else {
        return;
    };
    let mut held = Held::new();
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        match deed(count.fetch_add(1, Ordering::Relaxed)) {
            Deed::Answer(status) => answer(respond, status, false),
            Deed::Stutter => answer(respond, 200, true),
            Deed::Hold => held.push(respond),
            Deed::Freeze => std::future::pending().await,
            Deed::Refuse => respond.send_reset(Reason::REFUSED_STREAM),
            Deed::BreakOff => {
                let head = Response::builder().header("content-length", "100").body(()).expect("a response");
                // Fails if the client has given up.
                if let Ok(mut body) = respond.send_response(head, false) {
                    body.send_reset(Reason::INTERNAL_ERROR);
                }
            }
            Deed::CutOff => {
                let head = Response::builder().header("content-length", "100").body(()).expect("a response");
                if let Ok(mut body) = respond.send_response(head, false) {
                    let _ = body.send_data(Bytes::from_static(b"hello"), true);
                }
            }
            Deed::Close => return,
            Deed::SayGoodbye => {
                connection.graceful_shutdown();
                answer(respond, 200, false);
            }
        }
    }
}

/// Sends the same frames as every response, and closes the connection.
fn serve_raw(mut stream: TcpStream, response: &[u8]) -> std::io::Result<()> {
    const PREFACE: usize = 24;
    const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
    stream.read_exact(&mut [0; PREFACE])?;
    stream.write_all(SETTINGS)?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload)?;
        // HEADERS: the request.
        if head[3] == 1 {
            stream.write_all(response)?;
            stream.shutdown(std::net::Shutdown::Write)?;
            stream.read_to_end(&mut payload)?;
            return Ok(());
        }
    }
}

/// Serves these frames as the response to the first request of every connection.
pub(super) fn start_raw(response: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Fails where the client has given up.
            std::thread::spawn(move || drop(serve_raw(stream, response)));
        }
    });
    url
}

/// Serves on a port of this machine; returns its URL.
pub(super) fn start(streams: u32, deed: impl Deeds) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        let count = Arc::new(AtomicUsize::new(0));
        for stream in listener.incoming().flatten() {
            stream.set_nonblocking(true).expect("set");
            let (count, deed) = (Arc::clone(&count), deed.clone());
            std::thread::spawn(move || {
                let mut serving = pin!(serve(stream, streams, count, deed));
                while serving.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                    std::thread::sleep(Duration::from_micros(100));
                }
            });
        }
    });
    url
}
