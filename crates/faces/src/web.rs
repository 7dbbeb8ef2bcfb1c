//! A small HTTP/1.1 server for pages and metrics that only read: one request for each connection.
//!
//! It answers GET and HEAD. Everything a client can take is bounded before it is given: descriptors, threads, event
//! streams, and the time for each.

mod access;
mod hub;
mod request;
mod server;
mod shared;
mod slots;

use std::io::{self, Write};
use std::sync::Arc;

pub use access::{Access, Denied};
pub use hub::{Event, Hub};
pub use request::{BadRequest, Request};
pub use server::serve;
pub use shared::{Computed, Shared};

/// Writes a body piece by piece, until it returns or the reader is gone.
pub type Stream<'a> = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + 'a>;

/// The content of a response.
pub enum Body<'a> {
    /// The whole content, of known length.
    Whole(Vec<u8>),
    /// The same, in memory once for all who read it.
    Shared(Arc<str>),
    /// As long as the connection lasts.
    Stream(Stream<'a>),
}

pub struct Response<'a> {
    /// The status, such as 200.
    pub status: u16,
    pub media_type: &'static str,
    pub headers: Vec<(&'static str, String)>,
    pub body: Body<'a>,
}

impl<'a> Response<'a> {
    /// Status 200 with `body`.
    pub fn ok(media_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, media_type, headers: Vec::new(), body: Body::Whole(body.into()) }
    }

    /// Status 200 with a body that other responses have too.
    pub fn shared(media_type: &'static str, body: Arc<str>) -> Self {
        Self { status: 200, media_type, headers: Vec::new(), body: Body::Shared(body) }
    }

    /// Status 200 with a body that is written while the connection lasts.
    pub fn stream(media_type: &'static str, stream: Stream<'a>) -> Self {
        Self { status: 200, media_type, headers: Vec::new(), body: Body::Stream(stream) }
    }

    /// Another status, with a line of text.
    pub fn text(status: u16, line: &str) -> Self {
        let body = Body::Whole(format!("{line}\n").into_bytes());
        Self { status, media_type: "text/plain; charset=utf-8", headers: Vec::new(), body }
    }

    /// Status 503: the client is to come back after `seconds`.
    pub fn busy(line: &str, seconds: u32) -> Self {
        Self::text(503, line).with("Retry-After", seconds.to_string())
    }

    /// The same response with one more header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Status line and headers. The connection ends with the response, so no length is needed for streams.
    fn head(&self) -> String {
        let reason = match self.status {
            200 => "OK",
            303 => "See Other",
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            408 => "Request Timeout",
            421 => "Misdirected Request",
            431 => "Request Header Fields Too Large",
            500 => "Internal Server Error",
            503 => "Service Unavailable",
            _ => "Error",
        };
        let mut head = format!("HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\n", self.status, self.media_type);
        let length = match &self.body {
            Body::Whole(body) => Some(body.len()),
            Body::Shared(body) => Some(body.len()),
            Body::Stream(_) => None,
        };
        if let Some(length) = length {
            head += &format!("Content-Length: {length}\r\n");
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head + "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    }
}
