//! The load to offer: a URL and a few numbers, checked before any socket is opened.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::body::Body;
use super::check::MAX_THREADS;
use super::clock::Nanos;
use super::connect_to::ConnectTo;
use super::expected::{Pattern, Pointed};
use super::header::Header;
use super::http_version::HttpVersion;
use super::pacing::Pacing;
use super::rate::Rate;
use super::rcode::Rcodes;
use super::status::Statuses;
use super::target::Target;
use super::url::Url;
use rxlab_base::units::{CpuMask, duration_text};

/// Smallest UDP payload: session, sequence number and send time, 8 bytes each.
pub const MIN_PAYLOAD: usize = 24;
/// Largest UDP payload over IPv4.
pub(super) const MAX_PAYLOAD: usize = 65_507;

/// Default UDP payload in bytes.
pub(super) const DEFAULT_SIZE: usize = 64;

/// The load to offer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The target.
    pub url: Url,
    /// HTTP: method.
    #[serde(default = "get")]
    pub method: String,
    /// HTTP: header lines; they replace those that the load writes by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Header>,
    /// HTTP: body of every request.
    #[serde(default, skip_serializing_if = "Body::is_empty")]
    pub body: Body,
    /// HTTP and DNS: paths or names to request in turn, instead of the path of `url`. Each connection
    /// starts one further down the list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// HTTP: requests to send in turn, instead of `method`, `body` and the path of `url`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Target>,
    /// HTTP: statuses of good responses.
    #[serde(default, skip_serializing_if = "Statuses::is_default")]
    pub expect_status: Statuses,
    /// HTTP: body of every good response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_body: Option<Body>,
    /// HTTP: matches in the body of every good response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_match: Option<Pattern>,
    /// HTTP: value in the JSON body of every good response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_json: Option<Pointed>,
    /// HTTP: responses come from a tracker; a failure reason counts as an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub announce: bool,
    /// HTTP: its version. `pipeline` counts the streams of HTTP/2 and HTTP/3.
    #[serde(default, skip_serializing_if = "HttpVersion::is_default")]
    pub http_version: HttpVersion,
    /// HTTP: a connection per request; latency counts from its opening.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_keepalive: bool,
    /// Where to connect instead of the host of `url`, whose name stays in Host and TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_to: Option<ConnectTo>,
    /// DNS: codes of good responses.
    #[serde(default, skip_serializing_if = "Rcodes::is_default")]
    pub expect_rcode: Rcodes,
    /// DNS: size of responses over UDP that queries allow (EDNS, RFC 6891); `None` sends them without EDNS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edns: Option<u16>,
    /// HTTP: unix socket to connect to, instead of the host and port of `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unix: Option<PathBuf>,
    /// HTTPS: file of root certificates (PEM), instead of those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// HTTPS: file of the client's certificate and its chain (PEM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// HTTPS: file of the key of `cert` (PEM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// HTTPS: resume earlier sessions instead of full handshakes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls_resume: bool,
    /// HTTPS: accept any certificate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// Source addresses of connections and flows, in turn; empty leaves the choice to the kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<IpAddr>,
    /// Source ports of connections and flows, one each; empty leaves the choice to the kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_ports: Vec<u16>,
    /// HTTP: requests to send in all, whatever their outcome; `None`: until stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// TCP connections, or UDP flows (source ports).
    #[serde(default = "default_connections")]
    pub connections: usize,
    /// Requests outstanding per connection or flow; with `batch`, trains.
    #[serde(default = "one")]
    pub pipeline: usize,
    /// Threads; connections are spread evenly over them.
    #[serde(default = "one")]
    pub threads: usize,
    /// Requests per second over all threads, on a fixed schedule (open loop).
    /// `None`: as fast as responses come, or as the socket accepts them (closed loop, flat out).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// With a rate: random instead of even arrivals (a Poisson process of that rate).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub poisson: bool,
    /// With `poisson`: seed of the arrivals. Runs with the same seed have the same arrivals; generators that
    /// run side by side need different ones, or they all send at the same moments.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub seed: u32,
    /// With a rate: how to wait for the next request.
    #[serde(default)]
    pub pacing: Pacing,
    /// CPUs to pin the threads to, round robin; empty leaves it to the scheduler.
    #[serde(default, skip_serializing_if = "CpuMask::is_empty")]
    pub cpus: CpuMask,
    /// Time limit for a response, for opening a connection, and for a due request to wait for a free
    /// connection.
    #[serde(default = "default_timeout", with = "duration_text")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub timeout: Duration,
    /// UDP payload in bytes.
    #[serde(default = "default_size")]
    pub size: usize,
    /// UDP: datagrams per system call: sent as one train (UDP_SEGMENT) and received as one (UDP_GRO).
    /// 1: each by itself.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub batch: usize,
    /// Network namespace file in which the sockets are opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<PathBuf>,
}

fn get() -> String {
    "GET".to_owned()
}

fn one() -> usize {
    1
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_one(number: &usize) -> bool {
    *number == 1
}

fn default_connections() -> usize {
    64
}

fn default_timeout() -> Duration {
    Duration::from_secs(2)
}

fn default_size() -> usize {
    DEFAULT_SIZE
}

impl Spec {
    /// A load on `url` with the defaults: 64 connections, one request at a time on each, one
    /// thread, closed loop, 2 s timeout, 64 byte payloads.
    pub fn new(url: Url) -> Self {
        Self {
            url,
            method: get(),
            headers: Vec::new(),
            body: Body::default(),
            paths: Vec::new(),
            targets: Vec::new(),
            expect_status: Statuses::default(),
            expect_body: None,
            expect_match: None,
            expect_json: None,
            announce: false,
            http_version: HttpVersion::default(),
            no_keepalive: false,
            connect_to: None,
            expect_rcode: Rcodes::default(),
            edns: None,
            unix: None,
            ca: None,
            cert: None,
            key: None,
            tls_resume: false,
            insecure: false,
            sources: Vec::new(),
            source_ports: Vec::new(),
            requests: None,
            connections: default_connections(),
            pipeline: 1,
            threads: 1,
            rate: None,
            poisson: false,
            seed: 0,
            pacing: Pacing::default(),
            cpus: CpuMask::new(),
            timeout: default_timeout(),
            size: DEFAULT_SIZE,
            batch: 1,
            netns: None,
        }
    }

    /// Name or address to connect to.
    pub(super) fn host(&self) -> &str {
        self.connect_to.as_ref().map_or(&self.url.host, |to| &to.to)
    }

    /// The time limit of a response on the session's clock.
    pub(super) fn timeout_ns(&self) -> Nanos {
        self.timeout.as_nanos() as Nanos
    }

    /// Paths or names to request, in turn.
    pub(super) fn all_paths(&self) -> &[String] {
        if self.paths.is_empty() { std::slice::from_ref(&self.url.path) } else { &self.paths }
    }

    /// Source end of connection or flow `number`; `None` leaves it to the kernel. Port 0 is any port.
    pub(super) fn source(&self, number: usize) -> Option<SocketAddr> {
        let turn = number.checked_rem(self.sources.len())?;
        let port = self.source_ports.get(number).copied().unwrap_or(0);
        Some(SocketAddr::new(self.sources[turn], port))
    }

    /// True if a connection serves one request, and is reset after it.
    pub(super) fn is_single(&self) -> bool {
        self.no_keepalive || self.url.protocol.definition().only_connects()
    }

    /// Connections of thread `index`: number of the first, and count.
    pub(super) fn part(&self, index: usize) -> (usize, usize) {
        let (each, more) = (self.connections / self.threads, self.connections % self.threads);
        (index * each + index.min(more), each + usize::from(index < more))
    }

    /// Number of thread `index` in the schedule. With random arrivals it is the number of its random stream,
    /// distinct for all threads of all seeds.
    pub(super) fn arrivals(&self, index: usize) -> usize {
        if self.poisson { self.seed as usize * MAX_THREADS + index } else { index }
    }

    /// Requests that thread `index` may send: its own part of the schedule.
    pub(super) fn budget(&self, index: usize) -> u64 {
        let (threads, index) = (self.threads as u64, index as u64);
        self.requests.map_or(u64::MAX, |all| all / threads + u64::from(index < all % threads))
    }
}

#[cfg(test)]
mod tests {
    use super::{Rate, Spec, Url};

    fn url(text: &str) -> Url {
        text.parse().expect("a URL")
    }

    #[test]
    fn a_spec_survives_toml_and_fills_in_defaults() {
        let spec: Spec =
            toml::from_str("url = 'http://h:1/'\ntimeout = '500ms'\nrate = 0.5").expect("a spec");
        assert_eq!((spec.connections, spec.pipeline, spec.rate.clone()), (64, 1, Some(Rate::steady(0.5))));
        assert_eq!(toml::from_str::<Spec>(&toml::to_string(&spec).expect("written")).expect("read"), spec);
        assert!(toml::from_str::<Spec>("url = 'http://h:1/'\nconections = 3").is_err());
        let spec: Spec =
            toml::from_str("url = 'http://h:1/'\nrate = '1..9/5s'\npacing = 'coarse'").expect("a spec");
        assert_eq!(spec.rate, "1..9/5s".parse().ok());
        assert!(toml::from_str::<Spec>("url = 'http://h:1/'\nrate = '1..9'").is_err());
    }

    #[test]
    fn shares_add_up() {
        let mut spec = Spec::new(url("http://h:1/"));
        (spec.connections, spec.threads, spec.requests) = (7, 3, Some(11));
        assert_eq!([0, 1, 2].map(|i| spec.part(i)), [(0, 3), (3, 2), (5, 2)]);
        assert_eq!([0, 1, 2].map(|i| spec.budget(i)), [4, 4, 3]);
        spec.requests = None;
        assert_eq!(spec.budget(1), u64::MAX);
        assert_eq!(spec.source(1), None);
        spec.sources = vec![[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        assert_eq!(spec.source(2), Some(([10, 0, 0, 1], 0).into()));
        spec.source_ports = vec![40_000, 40_001, 40_002];
        assert_eq!(spec.source(1), Some(([10, 0, 0, 2], 40_001).into()));
        spec.seed = 2;
        assert_eq!(spec.arrivals(1), 1, "even arrivals have no seed");
        spec.poisson = true;
        assert_eq!(spec.arrivals(1), 2049);
    }
}
