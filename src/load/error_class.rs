//! The ways in which a request can fail.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a request did not end well. Every request that was sent ends as completed, as exactly one
/// of these, or is still in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// A connection could not be opened, the port answered "unreachable", or a tracker gave no connection
    /// id: one for each attempt.
    Connect,
    /// The connection was open, and no TLS came about on it, or what came was no TLS.
    Tls,
    /// No answer within the timeout. UDP: the datagram or its echo was lost or late.
    Timeout,
    /// The connection was reset.
    Reset,
    /// The connection was closed in the middle of the answer, or the answer had no room in a datagram.
    Truncated,
    /// The connection was closed before the answer began.
    Closed,
    /// Pipelined behind a request whose answer announced the end of the connection: nobody answers it, as
    /// HTTP says. No fault of the answers, and no part of [`Interval::error_share`](super::Interval::error_share).
    Discarded,
    /// The answer was not HTTP, or the datagram was not ours.
    Garbage,
    /// An answer came that nothing had asked for.
    Unexpected,
    /// An answer with status 2xx where another was expected.
    Status2xx,
    /// An answer with status 3xx.
    Status3xx,
    /// An answer with status 4xx.
    Status4xx,
    /// An answer with status 5xx.
    Status5xx,
    /// A tracker answered with an error, or over HTTP with a failure reason.
    TrackerError,
    /// A name server failed (SERVFAIL).
    Servfail,
    /// The name does not exist (NXDOMAIN).
    Nxdomain,
    /// A name server did not want to answer (REFUSED).
    Refused,
    /// A name server gave any other error.
    OtherRcode,
    /// An answer with a good status and another body than expected.
    Body,
    /// The kernel refused to send a datagram.
    Send,
    /// Due, and never sent: no connection was free within the timeout, or too many datagrams were
    /// unanswered.
    Unsent,
}

impl ErrorClass {
    /// Every class, in the order of its counter.
    pub(super) const ALL: [ErrorClass; 21] = [
        ErrorClass::Connect,
        ErrorClass::Tls,
        ErrorClass::Timeout,
        ErrorClass::Reset,
        ErrorClass::Truncated,
        ErrorClass::Closed,
        ErrorClass::Discarded,
        ErrorClass::Garbage,
        ErrorClass::Unexpected,
        ErrorClass::Status2xx,
        ErrorClass::Status3xx,
        ErrorClass::Status4xx,
        ErrorClass::Status5xx,
        ErrorClass::TrackerError,
        ErrorClass::Servfail,
        ErrorClass::Nxdomain,
        ErrorClass::Refused,
        ErrorClass::OtherRcode,
        ErrorClass::Body,
        ErrorClass::Send,
        ErrorClass::Unsent,
    ];
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ErrorClass::Connect => "connection failed",
            ErrorClass::Tls => "TLS failed",
            ErrorClass::Timeout => "no answer in time",
            ErrorClass::Reset => "connection reset",
            ErrorClass::Truncated => "answer cut off",
            ErrorClass::Closed => "closed without an answer",
            ErrorClass::Discarded => "behind an announced end",
            ErrorClass::Garbage => "not a valid answer",
            ErrorClass::Unexpected => "answer to no request",
            ErrorClass::Status2xx => "status 2xx",
            ErrorClass::Status3xx => "status 3xx",
            ErrorClass::Status4xx => "status 4xx",
            ErrorClass::Status5xx => "status 5xx",
            ErrorClass::TrackerError => "error of the tracker",
            ErrorClass::Servfail => "SERVFAIL",
            ErrorClass::Nxdomain => "NXDOMAIN",
            ErrorClass::Refused => "REFUSED",
            ErrorClass::OtherRcode => "another error of the name server",
            ErrorClass::Body => "another body than expected",
            ErrorClass::Send => "could not be sent",
            ErrorClass::Unsent => "due but never sent",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::ErrorClass;

    #[test]
    fn error_classes_index_their_counter() {
        for (index, class) in ErrorClass::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, index, "{class}");
        }
    }
}
