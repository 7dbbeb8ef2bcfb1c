//! A traffic generator, and small servers to send load to.
//!
//! HTTP/1.1, HTTP/2, HTTP/3, TLS, UDP, trackers and DNS; closed loop, open loop at a rate, flat out. Threads share nothing: each has its
//! own connections or flows, epoll and histograms. A [`Session`] keeps the load running; [`Session::mark`] returns exactly
//! what was measured since the last mark: no request is lost or counted twice. The open loop has one schedule for the
//! whole session, and latency counts from the intended send time, so a stalled server cannot hide the requests it kept
//! from being sent.
//!
//! Never: judges what a change did to a machine. It reports what it offered, what came back, and whether the generator
//! itself was the limit.
//!
//! ```
//! use rxlab_load::{Session, Spec, servers::{self, Target}};
//!
//! let server = Target::start(&servers::Spec { http: Some("127.0.0.1:0".parse()?), ..servers::Spec::default() })?;
//! let url = format!("http://{}/simple", server.addresses().http.expect("it was asked for"));
//! let load = Session::start(&Spec::new(url.parse()?))?;
//! std::thread::sleep(std::time::Duration::from_millis(100));
//! assert!(load.stop().requests > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(missing_docs)]

#[cfg(test)]
mod accounting;
mod body;
#[cfg(test)]
mod certified;
mod check;
mod clock;
mod connect_to;
mod datagrams;
mod destination;
mod error_class;
mod event;
mod expected;
mod header;
mod histogram;
mod http;
mod http_version;
mod interval;
mod merge;
mod pacing;
mod poller;
mod promql;
mod protocol;
mod random;
mod rate;
mod rcode;
mod reasons;
mod remote;
mod report;
mod saturation;
mod schedule;
mod series;
mod server;
pub mod servers;
mod session;
mod softirq;
mod spec;
mod status;
mod tally;
mod target;
mod tcp;
mod text;
mod thread;
mod trust;
mod udp;
mod url;

pub use body::Body;
pub use check::{MAX_THREADS, SpecError};
pub use connect_to::{ConnectTo, ConnectToError};
pub use datagrams::Datagrams;
pub use destination::Destination;
pub use error_class::ErrorClass;
pub use event::Event;
pub use expected::{Pattern, PatternError, Pointed, PointedError};
pub use header::{Header, HeaderError, PathError, parse_paths};
pub use histogram::quantile;
pub use http::{Judged, StreamEnd, judge_answers, judge_http2};
pub use http_version::HttpVersion;
pub use interval::{Arrivals, Interval, NotSent, ThreadCpu};
pub use merge::{MergeError, merge};
pub use pacing::{Pacing, PacingError};
pub use promql::{Promql, PromqlSeries};
pub use protocol::Protocol;
pub use random::Random;
pub use rate::{Rate, RateError};
pub use rcode::{RcodeError, Rcodes};
pub use reasons::Reasons;
pub use remote::{ClientError, Clients, Joint, serve};
pub use report::{
    CurvePoint, Histograms, LatencyReport, Limit, LoopReport, PacingReport, Percentile, Report,
};
pub use saturation::Saturation;
pub use series::{Second, csv, hdr_log_head, hdr_log_line};
pub use server::{ServerCpu, ServerProcess};
pub use session::{LoadError, Session};
pub use spec::{MIN_PAYLOAD, Spec};
pub use status::{StatusError, Statuses};
pub use tally::SoFar;
pub use target::{Target, TargetError, parse_targets};
pub use text::{distribution, render, shape};
pub use udp::{dns_answer, hear_name_server, hear_tracker};
pub use url::{Url, UrlError};
