//! HTTP/1.1 load: requests over kept-alive connections.

mod connection;
mod engine;
mod head;
mod response;

pub(super) use engine::Engine;
