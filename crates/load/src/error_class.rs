//! Classes of failed requests.

use rustix::io::Errno;
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
    /// This machine could not open a connection or send: it has no free port, file, memory, route or permission for it.
    /// One per attempt. Not the target's fault, and not part of
    /// [`Interval::error_share`](super::Interval::error_share).
    Local,
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
    /// The response was not HTTP.
    Garbage,
    /// A response with status 2xx where another was expected.
    Status2xx,
    /// A response with status 3xx.
    Status3xx,
    /// A response with status 4xx.
    Status4xx,
    /// A response with status 5xx, or outside 100 to 599, which counts as such (RFC 9110 15).
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

impl ErrorClass {
    /// The class of a failed attempt to connect.
    pub(super) fn of_connect(error: &std::io::Error) -> Self {
        if lack(error.raw_os_error()).is_some() { ErrorClass::Local } else { ErrorClass::Connect }
    }

    /// The class of a datagram that the kernel did not take.
    pub(super) fn of_send(errno: Errno) -> Self {
        match errno {
            Errno::CONNREFUSED | Errno::HOSTUNREACH => ErrorClass::Connect,
            // The device or its queue is full: sending less helps.
            Errno::NOBUFS | Errno::AGAIN => ErrorClass::Send,
            errno if lack(Some(errno.raw_os_error())).is_some() => ErrorClass::Local,
            _ => ErrorClass::Send,
        }
    }
}

/// What this machine can lack for a connection or a datagram, and what to do about it (connect(2), socket(2), send(2)).
/// "No route to host" is not among them: it also is the answer of a router, or of none to ARP.
const LACKS: [(&[Errno], &str, &str); 7] = [
    (
        &[Errno::ADDRNOTAVAIL, Errno::ADDRINUSE],
        "no free local port",
        "more addresses: --source; more ports: net.ipv4.ip_local_port_range",
    ),
    (&[Errno::MFILE], "too many open files", "raise ulimit -n"),
    (&[Errno::NFILE], "too many open files on this machine", "raise fs.file-max"),
    (&[Errno::NOMEM, Errno::NOBUFS], "no memory for sockets", "fewer connections"),
    (&[Errno::PERM, Errno::ACCESS], "not permitted", "see this machine's own firewall"),
    (&[Errno::NETUNREACH], "no route to the network", "see ip route get"),
    (&[Errno::NETDOWN], "the network is down", "see ip link"),
];

/// The error as which an answer of the network to an earlier packet counts (ICMP); `None` of any other error. A router
/// without a route answers with ENETUNREACH, and a firewall over IPv6 with EACCES. Where this machine has no route or
/// permission, it says so at once.
pub(super) fn answer_of_network(errno: Errno) -> Option<Errno> {
    match errno {
        Errno::NETUNREACH | Errno::ACCESS => Some(Errno::HOSTUNREACH),
        Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::HOSTDOWN | Errno::NONET | Errno::NOPROTOOPT => {
            Some(errno)
        }
        _ => None,
    }
}

/// The error of a connection attempt that began well, see [`answer_of_network`].
pub(super) fn of_attempt(error: std::io::Error) -> std::io::Error {
    let answer = Errno::from_io_error(&error).and_then(answer_of_network);
    answer.map_or(error, std::io::Error::from)
}

/// What this machine lacks, if the error is its own.
pub(super) fn lack(errno: Option<i32>) -> Option<&'static str> {
    let errno = Errno::from_raw_os_error(errno?);
    LACKS.iter().find(|(errnos, ..)| errnos.contains(&errno)).map(|(_, what, _)| *what)
}

/// What to do about a reason of [`ErrorClass::Local`].
pub(super) fn remedy(what: &str) -> Option<&'static str> {
    LACKS.iter().find(|(_, lack, _)| *lack == what).map(|(.., remedy)| *remedy)
}

display_as! { ErrorClass:
    Connect => "connection failed",
    Local => "failed on this machine",
    Tls => "TLS failed",
    Timeout => "timed out",
    Reset => "connection reset",
    Truncated => "response cut off",
    Closed => "closed without a response",
    Discarded => "discarded after an announced close",
    Garbage => "invalid response",
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
