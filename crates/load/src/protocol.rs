//! Protocols. [`Protocol`] has a variant for each; what distinguishes one from the others is in the file of its
//! [`Definition`], next to its engine.

use super::check::SpecError;
use super::destination::Destination;
use super::http::{Http, Shared};
use super::poller::Poller;
use super::session::LoadError;
use super::spec::Spec;
use super::tcp::Tcp;
use super::thread::{Engine, Worker};
use super::udp::{Dns, SinkTotals, UdpEcho, UdpSink, UdpTracker};
use super::url::Url;

/// Protocol of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `http://` and `https://`: requests over TCP.
    Http,
    /// `tcp://`: connections, opened and closed.
    Tcp,
    /// `udp://`: datagrams echoed by the target.
    UdpEcho,
    /// `udp-sink://`: datagrams one way.
    UdpSink,
    /// `udp-tracker://`: a BitTorrent tracker over UDP (BEP 15).
    UdpTracker,
    /// `dns://`: a name server over UDP.
    Dns,
}

/// The engine of a thread, its sockets open, and the sink's counter, from the first thread.
pub(super) type Opened = (Box<dyn Engine>, Option<SinkTotals>);

/// Everything that distinguishes a protocol. The defaults are those of requests and responses over UDP.
pub(super) trait Definition {
    /// Scheme of its URLs, with or without TLS; `None` if it does not exist.
    fn scheme(&self, tls: bool) -> Option<&'static str>;

    /// Form of its URLs, for error messages.
    fn form(&self) -> &'static str;

    /// Default port.
    fn port(&self, _tls: bool) -> Option<u16> {
        None
    }

    /// Returns the path of a URL in full, `None` if it is invalid.
    fn path(&self, path: &str) -> Option<String> {
        matches!(path, "" | "/").then(String::new)
    }

    /// Returns the path that a line of a list (`--urls`) gives, `None` if it is invalid. Lists for a protocol without
    /// them are refused later.
    fn listed_path(&self, line: &str, _url: &Url) -> Option<String> {
        Some(line.to_owned())
    }

    /// An entry of such a list.
    fn path_noun(&self) -> &'static str {
        "path"
    }

    /// Unit of the count, in the plural.
    fn noun(&self) -> &'static str;

    /// Unit of the throughput of a trial.
    fn work_unit(&self) -> &'static str {
        "pkt/s"
    }

    /// True over TCP.
    fn is_stream(&self) -> bool {
        false
    }

    /// True if nothing responds.
    fn is_one_way(&self) -> bool {
        false
    }

    /// True if a connection is all that is asked for.
    fn only_connects(&self) -> bool {
        false
    }

    /// Options, as on the command line, that it takes of those that not every protocol takes.
    fn options(&self) -> &'static [&'static str] {
        &[]
    }

    /// Checks what is particular to it. The numbers of [`Spec`] are in range, and no option is given that it does not
    /// take.
    fn check(&self, spec: &Spec) -> Result<(), SpecError>;

    /// Prepares the requests, once for all threads; an error is about TLS.
    fn prepare(&self, _spec: &Spec) -> Result<Option<Shared>, String> {
        Ok(None)
    }

    /// Opens the sockets of a thread towards `destination`. [`LoadError::Down`] makes it try the next address.
    fn open(&self, worker: &Worker, destination: &Destination, poller: Poller) -> Result<Opened, LoadError>;
}

impl Protocol {
    /// All of them, in the order of messages.
    pub(super) const ALL: [Self; 6] =
        [Self::Http, Self::Tcp, Self::UdpEcho, Self::UdpSink, Self::UdpTracker, Self::Dns];

    /// What distinguishes it: the only match on protocols in this crate.
    pub(super) fn definition(self) -> &'static dyn Definition {
        match self {
            Protocol::Http => &Http,
            Protocol::Tcp => &Tcp,
            Protocol::UdpEcho => &UdpEcho,
            Protocol::UdpSink => &UdpSink,
            Protocol::UdpTracker => &UdpTracker,
            Protocol::Dns => &Dns,
        }
    }

    /// Returns the protocol of a scheme, and whether it is used with TLS.
    pub(super) fn of_scheme(scheme: &str) -> Option<(Self, bool)> {
        let mut all = Self::ALL.into_iter().flat_map(|protocol| [(protocol, false), (protocol, true)]);
        all.find(|(protocol, tls)| protocol.definition().scheme(*tls) == Some(scheme))
    }

    /// True over TCP.
    pub fn is_stream(self) -> bool {
        self.definition().is_stream()
    }

    /// True if nothing responds: there is no latency.
    pub fn is_one_way(self) -> bool {
        self.definition().is_one_way()
    }

    /// Unit of the count: requests, connections, round trips or packets.
    pub fn noun(self) -> &'static str {
        self.definition().noun()
    }

    /// Unit of the throughput of a trial: req/s, conn/s, trips/s or pkt/s.
    pub fn work_unit(self) -> &'static str {
        self.definition().work_unit()
    }

    /// True if it takes an option that not every protocol takes.
    pub(super) fn takes(self, option: &str) -> bool {
        self.definition().options().contains(&option)
    }
}

#[cfg(test)]
mod tests {
    use super::Protocol;

    /// The compiler does not see a protocol that is missing in the list.
    #[test]
    fn every_protocol_is_in_the_list() {
        for (index, protocol) in Protocol::ALL.into_iter().enumerate() {
            assert_eq!(protocol as usize, index);
            let scheme = protocol.definition().scheme(false).expect("a scheme without TLS");
            assert_eq!(Protocol::of_scheme(scheme), Some((protocol, false)));
            assert!(protocol.definition().form().starts_with(scheme), "{scheme}");
        }
    }
}
