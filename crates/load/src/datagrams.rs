//! Datagram counts of a UDP load, in addition to those of any load.

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Counts of a load over UDP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Datagrams {
    /// System calls that sent a datagram, or a train of them.
    pub sends: u64,
    /// System calls that received a datagram, or a train of them.
    pub receives: u64,
    /// Datagrams that arrived after a later one of the same flow: echoes as seen by the client; one way as
    /// counted by the sink, from all senders. `None` if not reported.
    pub reordered: Option<u64>,
    /// Responses beyond the first: duplicates, and those after the timeout.
    pub surplus: u64,
    /// Requests asked again over TCP because their response did not fit into a datagram.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub over_tcp: u64,
    /// Datagrams, or trains of them, dropped because the receive buffers of the client's own sockets were
    /// full.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub client_dropped: u64,
    /// Connection ids issued by a tracker during the load.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub handshakes: u64,
    /// Reason why datagrams of a train were sent one by one.
    pub no_trains: Option<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Datagrams {
    /// Notes that the kernel does not accept trains on this path. Reported once per cut.
    pub(super) fn refuse(&mut self, errno: Errno) {
        self.no_trains.get_or_insert_with(|| std::io::Error::from(errno).to_string());
    }

    /// Adds the counts of another thread.
    pub(super) fn add(&mut self, more: &Datagrams) {
        self.sends += more.sends;
        self.receives += more.receives;
        self.reordered = match (self.reordered, more.reordered) {
            (Some(a), Some(b)) => Some(a + b),
            (one, other) => one.or(other),
        };
        self.surplus += more.surplus;
        self.over_tcp += more.over_tcp;
        self.client_dropped += more.client_dropped;
        self.handshakes += more.handshakes;
        if self.no_trains.is_none() {
            self.no_trains.clone_from(&more.no_trains);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::Datagrams;

    #[test]
    fn counts_add_up_and_unreported_ones_stay_unknown() {
        let mut one = Datagrams { sends: 1, receives: 2, surplus: 3, handshakes: 4, ..Datagrams::default() };
        one.client_dropped = 5;
        one.add(&one.clone());
        assert_eq!(one.client_dropped, 10);
        assert_eq!((one.sends, one.receives, one.surplus, one.handshakes), (2, 4, 6, 8));
        assert_eq!((one.reordered, &one.no_trains), (None, &None));
        let mut other = Datagrams { reordered: Some(5), ..Datagrams::default() };
        other.refuse(Errno::INVAL);
        other.refuse(Errno::IO);
        one.add(&other);
        one.add(&other);
        assert_eq!(one.reordered, Some(10));
        assert!(one.no_trains.is_some_and(|text| text.starts_with("Invalid argument")));
    }
}
