//! Classes of failed requests.

use serde::{Deserialize, Serialize};

use rxlab_base::display_as;

/// Class of a failed request. Every request sent ends as completed, as exactly one of these, or is
/// still in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// A connection could not be opened, the port answered "unreachable", or a tracker gave no connection
    /// id: one per attempt.
    Connect,
    /// The TLS handshake failed on an open connection, or the data that followed was not TLS.
    Tls,
    /// No response within the timeout. UDP: the datagram or its echo was lost or late.
    Timeout,
    /// The connection was reset.
    Reset,
    /// The connection was closed within the response, or the response did not fit into a datagram.
    Truncated,
    /// The connection was closed before the response began.
    Closed,
    /// Pipelined behind a request whose response announced the end of the connection: HTTP leaves it
    /// unanswered. Not the target's fault, and not part of
    /// [`Interval::error_share`](super::Interval::error_share).
    Discarded,
    /// The response was not HTTP, or the datagram was not ours.
    Garbage,
    /// An unsolicited response.
    Unexpected,
    /// A response with status 2xx where another was expected.
    Status2xx,
    /// A response with status 3xx.
    Status3xx,
    /// A response with status 4xx.
    Status4xx,
    /// A response with status 5xx.
    Status5xx,
    /// A tracker returned an error, or over HTTP a failure reason.
    TrackerError,
    /// A name server failed (SERVFAIL).
    Servfail,
    /// The name does not exist (NXDOMAIN).
    Nxdomain,
    /// A name server refused to answer (REFUSED).
    Refused,
    /// A name server returned another error.
    OtherRcode,
    /// A response with a good status but not the expected body.
    Body,
    /// The kernel refused to send a datagram.
    Send,
    /// Due but never sent: no connection was free within the timeout, or too many datagrams were
    /// unanswered.
    Unsent,
}

display_as! { ErrorClass:
    Connect => "connection failed",
    Tls => "TLS failed",
    Timeout => "timed out",
    Reset => "connection reset",
    Truncated => "response cut off",
    Closed => "closed without a response",
    Discarded => "discarded after an announced close",
    Garbage => "invalid response",
    Unexpected => "unsolicited response",
    Status2xx => "status 2xx",
    Status3xx => "status 3xx",
    Status4xx => "status 4xx",
    Status5xx => "status 5xx",
    TrackerError => "tracker error",
    Servfail => "SERVFAIL",
    Nxdomain => "NXDOMAIN",
    Refused => "REFUSED",
    OtherRcode => "other name server error",
    Body => "unexpected body",
    Send => "send failed",
    Unsent => "due but never sent",
}
