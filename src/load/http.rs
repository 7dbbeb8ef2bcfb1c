//! HTTP/1.1 load: requests over kept-alive connections.

mod block;
mod connection;
mod engine;
mod head;
mod learned;
mod reader;
mod response;
mod waiting;

pub(super) use engine::Engine;
pub use reader::{StreamEnd, read_answers};
