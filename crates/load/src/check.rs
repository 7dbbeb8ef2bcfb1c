//! Checks a spec before any socket is opened.

use std::time::Duration;

use thiserror::Error;

use super::header::is_method;
use super::http::{Template, TemplateError};
use super::query::DnsQuestion;
use super::spec::{DEFAULT_SIZE, MAX_PAYLOAD, MIN_PAYLOAD, Spec};
use super::url::{Protocol, Url};
use rxlab_sys::datagrams::MAX_TRAIN;

const MAX_CONNECTIONS: usize = 1_000_000;
const MAX_PIPELINE: usize = 10_000;
pub(super) const MAX_THREADS: usize = 1024;

fn range<T>(what: &'static str, range: String, value: String) -> Result<T, SpecError> {
    Err(SpecError::Range { what, range, value })
}

fn refuse_if(is_refused: bool, why: &'static str) -> Result<(), SpecError> {
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
    /// An option that has a meaning for HTTP only.
    #[error("{0} is for http:// only")]
    HttpOnly(&'static str),
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
        match self.url.protocol {
            Protocol::Http => self.check_http(),
            Protocol::Tcp => self.check_tcp(),
            Protocol::UdpEcho | Protocol::UdpSink | Protocol::UdpTracker | Protocol::Dns => self.check_udp(),
        }
    }

    fn check_http(&self) -> Result<(), SpecError> {
        self.check_nothing_of_datagrams()?;
        refuse_if(
            !self.paths.is_empty() && self.url.path != "/",
            "--urls gives the paths: give the URL itself without a path",
        )?;
        refuse_if(
            !self.url.tls && (self.ca.is_some() || self.insecure),
            "--ca and --insecure are for https:// only",
        )?;
        if !is_method(&self.method) {
            return range("--method", "a word such as GET, and not CONNECT".to_owned(), self.method.clone());
        }
        // Lines of the file go into the request line unchanged.
        let is_path = |path: &str| path.starts_with('/') && format!("http://h{path}").parse::<Url>().is_ok();
        if let Some(path) = self.paths.iter().find(|path| !is_path(path)) {
            return range("paths", "paths such as /a?b".to_owned(), path.clone());
        }
        for path in std::iter::once(&self.url.path).chain(&self.paths) {
            Template::parse(path)?;
        }
        refuse_if(
            (self.expect_body.is_some() || self.announce) && self.method == "HEAD",
            "--expect-body and --announce do not work with HEAD: no body",
        )?;
        refuse_if(
            self.expect_body.is_some() && self.announce,
            "--expect-body and --announce exclude each other",
        )?;
        refuse_if(self.no_keepalive && self.pipeline != 1, "--pipeline does not work with --no-keepalive")?;
        refuse_if(self.unix.is_some() && !self.sources.is_empty(), "--source does not work with --unix")?;
        refuse_if(
            self.requests.is_some_and(|requests| requests < self.threads as u64),
            "--requests must be at least one for each thread",
        )
    }

    /// Refuses options that only have a meaning for datagrams with a payload.
    fn check_nothing_of_datagrams(&self) -> Result<(), SpecError> {
        refuse_if(self.batch != 1, "--batch is for udp:// and udp-sink:// only")?;
        refuse_if(self.size != DEFAULT_SIZE, "--size is for udp:// and udp-sink:// only")
    }

    fn check_names(&self) -> Result<(), SpecError> {
        refuse_if(
            !self.paths.is_empty() && self.url.path != "/",
            "--urls gives the names: give the URL itself without a name",
        )?;
        let wrong = self.targets().iter().find(|path| path.parse::<DnsQuestion>().is_err());
        wrong.map_or(Ok(()), |path| {
            range("the name to query", "as in dns://HOST/NAME?type=A".to_owned(), path.clone())
        })
    }

    fn check_tcp(&self) -> Result<(), SpecError> {
        self.check_nothing_of_http()?;
        self.check_nothing_of_datagrams()?;
        refuse_if(self.pipeline != 1, "--pipeline does not work with tcp://: nothing is sent")
    }

    /// Refuses options that only have a meaning for HTTP.
    fn check_nothing_of_http(&self) -> Result<(), SpecError> {
        let http_only = [
            ("--requests", self.requests.is_some()),
            ("--no-keepalive", self.no_keepalive),
            ("--unix", self.unix.is_some()),
            ("--ca", self.ca.is_some()),
            ("--insecure", self.insecure),
            ("--method", self.method != "GET"),
            ("--header", !self.headers.is_empty()),
            ("--body", !self.body.is_empty()),
            ("--urls", !self.paths.is_empty() && self.url.protocol != Protocol::Dns),
            ("--expect-status", !self.expect_status.is_default()),
            ("--expect-body", self.expect_body.is_some()),
            ("--announce", self.announce),
        ];
        let given = http_only.into_iter().find(|(_, is_given)| *is_given);
        given.map_or(Ok(()), |(option, _)| Err(SpecError::HttpOnly(option)))
    }

    fn check_udp(&self) -> Result<(), SpecError> {
        self.check_nothing_of_http()?;
        refuse_if(
            self.rate.is_some() && self.pipeline != 1,
            "--pipeline does not work with --rate over UDP: nothing waits for a response",
        )?;
        if [Protocol::UdpTracker, Protocol::Dns].contains(&self.url.protocol) {
            self.check_nothing_of_datagrams()?;
        }
        if self.url.protocol == Protocol::Dns {
            return self.check_names();
        }
        if !(MIN_PAYLOAD..=MAX_PAYLOAD).contains(&self.size) {
            return range("--size", format!("{MIN_PAYLOAD} to {MAX_PAYLOAD} bytes"), self.size.to_string());
        }
        // A train counts as one datagram until the kernel splits it.
        let most = MAX_TRAIN.min(MAX_PAYLOAD / self.size);
        if !(1..=most).contains(&self.batch) {
            let most = format!("1 to {most} with datagrams of {} bytes", self.size);
            return range("--batch", most, self.batch.to_string());
        }
        if self.url.protocol == Protocol::UdpSink && self.pipeline != 1 {
            return range("--pipeline", "1 for a one-way load".to_owned(), self.pipeline.to_string());
        }
        Ok(())
    }
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
