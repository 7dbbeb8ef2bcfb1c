//! HTTP/1.1 load: requests over kept-alive connections, or over one connection each.

mod bencode;
mod block;
mod body;
mod connection;
mod definition;
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

pub(super) use definition::{Http, open, prepare};
use engine::HttpEngine;
pub use reader::{StreamEnd, judge_answers};
pub(super) use request::Shared;
use template::Template;
pub(super) use template::TemplateError;
use tls::Setup as TlsSetup;
