//! Versions of HTTP.

use serde::{Deserialize, Serialize};

use rxlab_base::display_as;

/// Version of HTTP that a load speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum HttpVersion {
    /// HTTP/1.1 (RFC 9112).
    #[default]
    #[serde(rename = "1.1")]
    Http1,
    /// HTTP/2 (RFC 9113): with prior knowledge, or over TLS as agreed by ALPN.
    #[serde(rename = "2")]
    Http2,
    /// HTTP/3 (RFC 9114): over QUIC, without asking over TCP before.
    #[serde(rename = "3")]
    Http3,
}

impl HttpVersion {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

display_as! { HttpVersion:
    Http1 => "HTTP/1.1",
    Http2 => "HTTP/2",
    Http3 => "HTTP/3",
}
