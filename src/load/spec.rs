//! What load to offer: a URL and a few numbers, checked before a socket is made.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::pacing::Pacing;
use super::rate::Rate;
use super::url::{Protocol, Url};
use crate::units::{CpuMask, duration_text};

/// Smallest UDP payload: session, sequence number and send time, 8 bytes each.
pub const MIN_PAYLOAD: usize = 24;
/// Largest UDP payload over IPv4.
const MAX_PAYLOAD: usize = 65_507;
const MAX_CONNECTIONS: usize = 1_000_000;
const MAX_PIPELINE: usize = 10_000;
const MAX_THREADS: usize = 1024;

/// What to offer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Where to.
    pub url: Url,
    /// TCP connections, or UDP flows (source ports).
    #[serde(default = "default_connections")]
    pub connections: usize,
    /// Requests outstanding on each connection or flow at the same time.
    #[serde(default = "one")]
    pub pipeline: usize,
    /// Threads; connections are dealt out evenly.
    #[serde(default = "one")]
    pub threads: usize,
    /// Requests a second over all threads, on a fixed schedule (open loop).
    /// `None`: as fast as answers come, or as the socket takes them (closed loop, flat out).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// With a rate: requests come at random (a Poisson process of that rate), not evenly.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub poisson: bool,
    /// With a rate: how to wait for the next request.
    #[serde(default)]
    pub pacing: Pacing,
    /// CPUs to pin the threads to, round robin; empty leaves them to the scheduler.
    #[serde(default, skip_serializing_if = "CpuMask::is_empty")]
    pub cpus: CpuMask,
    /// How long an answer may take, a connection may open, and a request that is due may wait for
    /// a free connection.
    #[serde(default = "default_timeout", with = "duration_text")]
    pub timeout: Duration,
    /// UDP payload in bytes.
    #[serde(default = "default_size")]
    pub size: usize,
    /// Network namespace file in which the sockets are made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<PathBuf>,
}

fn one() -> usize {
    1
}

fn default_connections() -> usize {
    64
}

fn default_timeout() -> Duration {
    Duration::from_secs(2)
}

fn default_size() -> usize {
    64
}

/// A load that makes no sense.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SpecError {
    /// A number out of its range.
    #[error("{what} must be {range}, not {value}")]
    Range {
        /// Which one, as on the command line.
        what: &'static str,
        /// The range in words.
        range: String,
        /// What was given.
        value: String,
    },
    /// A thread would have nothing to do.
    #[error("{threads} threads cannot share {connections} connections: give each thread at least one")]
    IdleThreads {
        /// Threads asked for.
        threads: usize,
        /// Connections asked for.
        connections: usize,
    },
}

impl Spec {
    /// A load on `url` with the defaults: 64 connections, one request at a time on each, one
    /// thread, closed loop, 2 s timeout, 64 byte payloads.
    pub fn new(url: Url) -> Self {
        Self {
            url,
            connections: default_connections(),
            pipeline: 1,
            threads: 1,
            rate: None,
            poisson: false,
            pacing: Pacing::default(),
            cpus: CpuMask::new(),
            timeout: default_timeout(),
            size: default_size(),
            netns: None,
        }
    }

    /// Whether every number is in its range and they fit together.
    pub fn check(&self) -> Result<(), SpecError> {
        let range = |what, range: String, value: String| Err(SpecError::Range { what, range, value });
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
                return range("--poisson", "with --rate".to_owned(), "without it".to_owned());
            }
            _ => {}
        }
        if !(Duration::from_millis(1)..=Duration::from_secs(3600)).contains(&self.timeout) {
            return range("--timeout", "1ms to 1h".to_owned(), crate::units::format_duration(self.timeout));
        }
        if self.url.protocol != Protocol::Http && !(MIN_PAYLOAD..=MAX_PAYLOAD).contains(&self.size) {
            return range("--size", format!("{MIN_PAYLOAD} to {MAX_PAYLOAD} bytes"), self.size.to_string());
        }
        if self.url.protocol == Protocol::UdpSink && self.pipeline != 1 {
            return range("--pipeline", "1 for a one-way load".to_owned(), self.pipeline.to_string());
        }
        Ok(())
    }

    /// Connections of thread `index`.
    pub(super) fn share(&self, index: usize) -> usize {
        self.connections / self.threads + usize::from(index < self.connections % self.threads)
    }
}

#[cfg(test)]
mod tests {
    use super::{Rate, Spec, Url};

    fn url(text: &str) -> Url {
        text.parse().expect("a URL")
    }

    #[test]
    fn numbers_out_of_range_are_named() {
        let check = |change: fn(&mut Spec)| {
            let mut spec = Spec::new(url("udp://h:1"));
            change(&mut spec);
            spec.check().err().map(|error| error.to_string()).unwrap_or_default()
        };
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
        assert_eq!(check(|s| s.poisson = true), "--poisson must be with --rate, not without it");
        assert!(check(|s| s.rate = Some(Rate::steady(f64::NAN))).starts_with("--rate"));
        assert_eq!(check(|s| s.size = 23), "--size must be 24 to 65507 bytes, not 23");
        assert!(check(|s| s.timeout = std::time::Duration::ZERO).starts_with("--timeout"));
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
        (spec.connections, spec.threads) = (7, 3);
        assert_eq!((0..3).map(|i| spec.share(i)).collect::<Vec<_>>(), [3, 2, 2]);
    }
}
