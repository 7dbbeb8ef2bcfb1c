//! HTTP/1.1 load: requests over kept-alive connections, or over one connection each.

mod bencode;
mod block;
mod body;
mod connection;
mod engine;
mod head;
mod outgoing;
mod peer;
mod reader;
mod request;
mod response;
mod template;
mod tls;
mod waiting;

pub(super) use engine::HttpEngine;
pub use reader::{StreamEnd, judge_answers};
pub(super) use request::Shared;
pub(super) use template::{Template, TemplateError};
pub(super) use tls::Setup as TlsSetup;
