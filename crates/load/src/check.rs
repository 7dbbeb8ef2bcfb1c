//! Checks a spec before any socket is opened.

use std::time::Duration;

use thiserror::Error;

use super::http::TemplateError;
use super::http_version::HttpVersion;
use super::protocol::Protocol;
use super::spec::{DEFAULT_SIZE, Spec};

const MAX_CONNECTIONS: usize = 1_000_000;
const MAX_PIPELINE: usize = 10_000;
/// Most threads of a load.
pub const MAX_THREADS: usize = 1024;

pub(super) fn range<T>(what: &'static str, range: String, value: String) -> Result<T, SpecError> {
    Err(SpecError::Range { what, range, value })
}

pub(super) fn refuse_if(is_refused: bool, why: &'static str) -> Result<(), SpecError> {
    if is_refused { Err(SpecError::Conflict(why)) } else { Ok(()) }
}

/// Reason why a load is invalid.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SpecError {
    /// A number is out of range.
    #[error("{what} must be {range}, not {value}")]
    Range {
        /// The option, as on the command line.
        what: &'static str,
        /// The valid range in words.
        range: String,
        /// The value given, as text.
        value: String,
    },
    /// More threads than connections.
    #[error("{threads} threads cannot share {connections} connections: give each thread at least one")]
    IdleThreads {
        /// Number of threads requested.
        threads: usize,
        /// Number of connections requested.
        connections: usize,
    },
    /// An option that has a meaning for other protocols only.
    #[error("{0} is for {takers} only", takers = takers(.0))]
    NotTaken(&'static str),
    /// A path template that is invalid.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// Two options that exclude each other.
    #[error("{0}")]
    Conflict(&'static str),
}

impl Spec {
    /// Checks that every number is in range and that the options fit together.
    pub fn check(&self) -> Result<(), SpecError> {
        let count = |what, value: usize, max: usize| {
            if (1..=max).contains(&value) {
                Ok(())
            } else {
                range(what, format!("1 to {max}"), value.to_string())
            }
        };
        count("--connections", self.connections, MAX_CONNECTIONS)?;
        count("--pipeline", self.pipeline, MAX_PIPELINE)?;
        count("--threads", self.threads, MAX_THREADS)?;
        if self.threads > self.connections {
            return Err(SpecError::IdleThreads { threads: self.threads, connections: self.connections });
        }
        match &self.rate {
            Some(rate) if !rate.is_valid() => {
                return range("--rate", "above 0 and at most 1000000000".to_owned(), rate.to_string());
            }
            None if self.poisson => {
                return range("--poisson", "used with --rate".to_owned(), "alone".to_owned());
            }
            _ => {}
        }
        if !(Duration::from_millis(1)..=Duration::from_secs(3600)).contains(&self.timeout) {
            return range(
                "--timeout",
                "1ms to 1h".to_owned(),
                rxlab_base::units::format_duration(self.timeout),
            );
        }
        refuse_if(
            self.sources.iter().any(|source| source.is_ipv4() != self.sources[0].is_ipv4()),
            "source addresses must be all IPv4 or all IPv6",
        )?;
        if !self.source_ports.is_empty() {
            refuse_if(
                self.is_single(),
                "--spread-queues needs connections that last: not tcp:// or --no-keepalive",
            )?;
            refuse_if(
                [self.sources.len(), self.source_ports.len()] != [self.connections; 2],
                "each connection with a source port needs its own source address",
            )?;
        }
        if let Some(to) = self.connect_to.as_ref().filter(|to| !to.host.eq_ignore_ascii_case(&self.url.host))
        {
            let host = format!("HOST:ADDR with the URL's host {}", self.url.host);
            return range("--connect-to", host, to.to_string());
        }
        refuse_if(
            self.connect_to.is_some() && self.unix.is_some(),
            "--connect-to does not work with --unix",
        )?;
        self.check_options()?;
        self.url.protocol.definition().check(self)
    }

    /// Refuses options that the protocol does not take: they would do nothing.
    fn check_options(&self) -> Result<(), SpecError> {
        let own = [
            ("--requests", self.requests.is_some()),
            ("--http2", self.http_version == HttpVersion::Http2),
            ("--http3", self.http_version == HttpVersion::Http3),
            ("--no-keepalive", self.no_keepalive),
            ("--expect-rcode", !self.expect_rcode.is_default()),
            ("--edns", self.edns.is_some()),
            ("--unix", self.unix.is_some()),
            ("--ca", self.ca.is_some()),
            ("--insecure", self.insecure),
            ("--cert", self.cert.is_some()),
            ("--key", self.key.is_some()),
            ("--tls-resume", self.tls_resume),
            ("--method", self.method != "GET"),
            ("--header", !self.headers.is_empty()),
            ("--body", !self.body.is_empty()),
            ("--urls", !self.paths.is_empty()),
            ("--targets", !self.targets.is_empty()),
            ("--expect-status", !self.expect_status.is_default()),
            ("--expect-body", self.expect_body.is_some()),
            ("--expect-match", self.expect_match.is_some()),
            ("--expect-json", self.expect_json.is_some()),
            ("--announce", self.announce),
            ("--batch", self.batch != 1),
            ("--size", self.size != DEFAULT_SIZE),
        ];
        let refused = |(option, is_given): &(&str, bool)| *is_given && !self.url.protocol.takes(option);
        own.into_iter().find(refused).map_or(Ok(()), |(option, _)| Err(SpecError::NotTaken(option)))
    }
}

/// The schemes that take an option: `udp:// and udp-sink://`.
fn takers(option: &str) -> String {
    let takers = Protocol::ALL.into_iter().filter(|protocol| protocol.takes(option));
    let schemes: Vec<_> = takers.filter_map(|protocol| protocol.definition().scheme(false)).collect();
    format!("{}://", schemes.join(":// and "))
}

#[cfg(test)]
mod tests {
    use crate::{Rate, Spec, SpecError};

    /// Checks a load on `url` with a change.
    fn checked(url: &str, change: fn(&mut Spec)) -> Result<(), SpecError> {
        let mut spec = Spec::new(url.parse().expect("a URL"));
        change(&mut spec);
        spec.check()
    }

    #[test]
    fn numbers_out_of_range_are_named() {
        let check =
            |change| checked("udp://h:1", change).err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(check(|_| {}), "");
        assert_eq!(check(|s| s.connections = 0), "--connections must be 1 to 1000000, not 0");
        assert_eq!(
            check(|s| s.threads = 65),
            "65 threads cannot share 64 connections: give each thread at least one"
        );
        assert_eq!(
            check(|s| s.rate = Some(Rate::steady(0.0))),
            "--rate must be above 0 and at most 1000000000, not 0"
        );
        assert_eq!(check(|s| s.poisson = true), "--poisson must be used with --rate, not alone");
        assert!(check(|s| s.rate = Some(Rate::steady(f64::NAN))).starts_with("--rate"));
        assert_eq!(check(|s| s.size = 23), "--size must be 24 to 65507 bytes, not 23");
        assert_eq!(check(|s| s.batch = 65), "--batch must be 1 to 64 with datagrams of 64 bytes, not 65");
        assert_eq!(check(|s| (s.size, s.batch) = (32_000, 2)), "");
        assert!(check(|s| (s.size, s.batch) = (32_000, 3)).starts_with("--batch must be 1 to 2"));
        assert!(check(|s| s.batch = 0).starts_with("--batch"));
        assert!(check(|s| s.timeout = std::time::Duration::ZERO).starts_with("--timeout"));
        assert_eq!(check(|s| s.requests = Some(5)), "--requests is for http:// only");
        let sources = |s: &mut Spec| s.sources = vec![[127, 0, 0, 1].into(), [0; 16].into()];
        assert_eq!(check(sources), "source addresses must be all IPv4 or all IPv6");
        let ports = |s: &mut Spec| s.source_ports = vec![40_000];
        assert_eq!(check(ports), "each connection with a source port needs its own source address");
        let single = |s: &mut Spec| {
            s.source_ports = vec![40_000];
            s.no_keepalive = true;
        };
        assert!(check(single).starts_with("--spread-queues needs connections that last"));
    }

    /// Each was once accepted silently and had no effect.
    #[test]
    fn what_would_do_nothing_is_refused() {
        let refused = |at: &str, change| {
            assert_eq!(checked(at, |_| {}), Ok(()), "{at}");
            checked(at, change).is_err()
        };
        for at in ["http://h:1", "dns://h/a.b", "udp-tracker://h:1"] {
            assert!(refused(at, |s| s.size = 100), "{at}");
        }
        for at in ["udp://h:1", "dns://h/a.b", "udp-tracker://h:1"] {
            assert!(refused(at, |s| (s.pipeline, s.rate) = (2, Some(Rate::steady(1.0)))), "{at}");
            assert!(!refused(at, |s| s.pipeline = 2), "{at}");
        }
        assert!(refused("http://h:1/x", |s| s.paths = vec!["/a".to_owned()]));
        assert!(refused("dns://h/x", |s| s.paths = vec!["/a.b".to_owned()]));
        assert!(!refused("http://h:1", |s| s.paths = vec!["/a".to_owned()]));
    }

    #[test]
    fn what_goes_into_a_request_is_checked() {
        let check = |change| checked("http://h:1", change).is_ok();
        assert!(check(|s| s.paths = vec!["/a?b".to_owned(), "/".to_owned()]));
        assert!(!check(|s| s.paths = vec!["/a HTTP/1.1\r\nX: y".to_owned()]));
        assert!(!check(|s| s.paths = vec!["a".to_owned()]));
        assert!(check(|s| s.paths = vec!["/a?h={hex:4}".to_owned()]));
        assert!(!check(|s| s.url.path = "/a?h={hexx:4}".to_owned()));
        assert!(!check(|s| (s.announce, s.expect_body) = (true, Some(crate::Body::default()))));
        assert!(!check(|s| (s.announce, s.method) = (true, "HEAD".to_owned())));
        assert!(check(|s| s.method = "HEAD".to_owned()));
        assert!(!check(|s| s.method = "GET /x".to_owned()));
        assert!(!check(|s| s.insecure = true), "there is no TLS");
        assert!(!check(|s| (s.no_keepalive, s.pipeline) = (true, 2)));
        assert!(!check(|s| (s.threads, s.requests) = (3, Some(2))));
    }
}
