//! HTTP load: HTTP/1.1 over kept-alive connections or over one connection each, HTTP/2, or HTTP/3.

mod bencode;
mod block;
mod body;
mod connection;
mod definition;
mod engine;
mod head;
mod http2;
mod http3;
mod judged;
mod outgoing;
mod peer;
mod pipeline;
mod reader;
mod request;
mod response;
mod streams;
mod template;
mod tls;
mod transport;
mod waiting;
mod wire;

pub(super) use definition::{Http, Shared, open, prepare};
pub use judged::{Judged, judge_http2};
pub use reader::{StreamEnd, judge_answers};
pub(super) use template::TemplateError;
