//! A server of HTTP/3: `h3` over `quinn`, with a runtime of its own.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::server::RequestStream;
use h3_quinn::BidiStream;
use http::Response;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, EndpointConfig, Incoming, ServerConfig, TokioRuntime};

use super::{Deed, Deeds};
use crate::certified;

type Stream = RequestStream<BidiStream<Bytes>, Bytes>;

/// Settings of a server that offers `protocol` (ALPN).
fn config(protocol: &[u8], streams: u32) -> ServerConfig {
    let tls = certified::server(protocol);
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).expect("TLS 1.3")));
    let mut transport = quinn::TransportConfig::default();
    transport.max_concurrent_bidi_streams(streams.into());
    config.transport_config(Arc::new(transport));
    config
}

async fn answer(mut stream: Stream, status: u16, stutters: bool) {
    while let Ok(Some(mut data)) = stream.recv_data().await {
        data.advance(data.remaining());
    }
    // A client may have given up.
    let _ = stream.send_response(Response::builder().status(103).body(()).expect("a response")).await;
    let _ = stream.send_response(Response::builder().status(status).body(()).expect("a response")).await;
    if stutters {
        let _ = stream.send_data(Bytes::new()).await;
    }
    let _ = stream.send_data(Bytes::from_static(b"hello")).await;
    let _ = stream.finish().await;
}

/// Sends the same bytes as every response, and ends its stream a moment later.
async fn serve_raw(incoming: Incoming, response: &'static [u8]) {
    let Ok(connection) = incoming.await else { return };
    let Ok(mut control) = connection.open_uni().await else { return };
    // The type of the stream, and SETTINGS without any.
    let _ = control.write_all(b"\x00\x04\x00").await;
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        // Each fails if the client has given up.
        let _ = receive.read_to_end(4096).await;
        let _ = send.write_all(response).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
        let _ = send.finish();
    }
}

async fn serve(incoming: Incoming, count: Arc<AtomicUsize>, deed: impl Deeds) {
    let Ok(connection) = incoming.await else { return };
    let built = h3::server::builder().build(h3_quinn::Connection::new(connection)).await;
    let Ok(mut connection) = built else { return };
    let mut held = Vec::new();
    while let Ok(Some(request)) = connection.accept().await {
        let Ok((_, mut stream)) = request.resolve_request().await else { continue };
        match deed(count.fetch_add(1, Ordering::Relaxed)) {
            Deed::Answer(status) => drop(tokio::spawn(answer(stream, status, false))),
            Deed::Stutter => drop(tokio::spawn(answer(stream, 200, true))),
            Deed::Hold | Deed::Freeze => held.push(stream),
            Deed::Refuse => stream.stop_stream(Code::H3_REQUEST_REJECTED),
            Deed::BreakOff => {
                let body = Response::builder().header("content-length", "100").body(()).expect("a response");
                // Fails if the client has given up.
                let _ = stream.send_response(body).await;
                stream.stop_stream(Code::H3_INTERNAL_ERROR);
            }
            Deed::CutOff => {
                let head = Response::builder().header("content-length", "100").body(()).expect("a response");
                // Each fails if the client has given up.
                let _ = stream.send_response(head).await;
                let _ = stream.send_data(Bytes::from_static(b"hello")).await;
                let _ = stream.finish().await;
            }
            Deed::Close => return,
            Deed::SayGoodbye => {
                // Fails if the client is gone.
                let _ = connection.shutdown(0).await;
                answer(stream, 200, false).await;
            }
        }
    }
}

/// Serves on a port of this machine; returns its URL.
pub(super) fn start(streams: u32, deed: impl Deeds) -> String {
    let count = Arc::new(AtomicUsize::new(0));
    start_with(config(b"h3", streams), move |incoming| serve(incoming, Arc::clone(&count), deed.clone()))
}

/// Serves these bytes as every response.
pub(super) fn start_raw(response: &'static [u8]) -> String {
    start_with(config(b"h3", 100), move |incoming| serve_raw(incoming, response))
}

/// Serves another protocol over QUIC.
pub(super) fn start_other() -> String {
    start_with(config(b"doq", 100), |incoming| serve_raw(incoming, b""))
}

fn start_with<F: Future<Output = ()> + Send + 'static>(
    config: ServerConfig,
    serve: impl Fn(Incoming) -> F + Send + 'static,
) -> String {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
    let url = format!("https://{}/", socket.local_addr().expect("bound"));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let endpoint =
                Endpoint::new(EndpointConfig::default(), Some(config), socket, Arc::new(TokioRuntime));
            let endpoint = endpoint.expect("an endpoint");
            while let Some(incoming) = endpoint.accept().await {
                tokio::spawn(serve(incoming));
            }
        });
    });
    url
}
