//! What distinguishes `http://` and `https://` from other protocols.

use std::sync::Arc;

use super::block::Block;
use super::engine::HttpEngine;
use super::http2::{Messages, Streams};
use super::pipeline::Pipeline;
use super::request::block;
use super::template::Template;
use super::tls::Setup;
use super::wire::Wire;
use crate::check::{SpecError, range, refuse_if};
use crate::destination::Destination;
use crate::header::is_method;
use crate::poller::Poller;
use crate::protocol::{Definition, Opened};
use crate::session::LoadError;
use crate::spec::Spec;
use crate::thread::{WARM_UP, Worker};
use crate::trust;
use crate::url::Url;

/// `http://` and `https://`.
pub(crate) struct Http;

impl Definition for Http {
    fn scheme(&self, tls: bool) -> Option<&'static str> {
        Some(if tls { "https" } else { "http" })
    }

    fn form(&self) -> &'static str {
        "http://HOST:PORT/PATH, https://..."
    }

    fn port(&self, tls: bool) -> Option<u16> {
        Some(if tls { 443 } else { 80 })
    }

    fn path(&self, path: &str) -> Option<String> {
        Some(if path.starts_with('/') { path.to_owned() } else { format!("/{path}") })
    }

    /// A path, or a whole URL with the host and port of `url`.
    fn listed_path(&self, line: &str, url: &Url) -> Option<String> {
        let whole = if line.starts_with('/') {
            format!("{}://{}{line}", url.scheme(), url.authority())
        } else {
            line.to_owned()
        };
        let parsed = whole.parse::<Url>().ok()?;
        let end = |url: &Url| (url.protocol, url.tls, url.host.clone(), url.port);
        (end(&parsed) == end(url)).then_some(parsed.path)
    }

    fn noun(&self) -> &'static str {
        "requests"
    }

    fn work_unit(&self) -> &'static str {
        "req/s"
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn options(&self) -> &'static [&'static str] {
        &[
            "--requests",
            "--http2",
            "--no-keepalive",
            "--unix",
            "--ca",
            "--insecure",
            "--method",
            "--header",
            "--body",
            "--urls",
            "--expect-status",
            "--expect-body",
            "--announce",
        ]
    }

    fn check(&self, spec: &Spec) -> Result<(), SpecError> {
        refuse_if(
            !spec.paths.is_empty() && spec.url.path != "/",
            "--urls gives the paths: give the URL itself without a path",
        )?;
        refuse_if(
            !spec.url.tls && (spec.ca.is_some() || spec.insecure),
            "--ca and --insecure are for https:// only",
        )?;
        if !is_method(&spec.method) {
            return range("--method", "a word such as GET, and not CONNECT".to_owned(), spec.method.clone());
        }
        // Lines of the file go into the request line unchanged.
        let is_path = |path: &str| path.starts_with('/') && format!("http://h{path}").parse::<Url>().is_ok();
        if let Some(path) = spec.paths.iter().find(|path| !is_path(path)) {
            return range("paths", "paths such as /a?b".to_owned(), path.clone());
        }
        for path in std::iter::once(&spec.url.path).chain(&spec.paths) {
            Template::parse(path)?;
        }
        refuse_if(
            (spec.expect_body.is_some() || spec.announce) && spec.method == "HEAD",
            "--expect-body and --announce do not work with HEAD: no body",
        )?;
        refuse_if(
            spec.expect_body.is_some() && spec.announce,
            "--expect-body and --announce exclude each other",
        )?;
        refuse_if(spec.http2 && spec.no_keepalive, "--no-keepalive does not work with --http2")?;
        if spec.http2 {
            Messages::check(spec)?;
        }
        refuse_if(spec.no_keepalive && spec.pipeline != 1, "--pipeline does not work with --no-keepalive")?;
        refuse_if(spec.unix.is_some() && !spec.sources.is_empty(), "--source does not work with --unix")?;
        refuse_if(
            spec.requests.is_some_and(|requests| requests < spec.threads as u64),
            "--requests must be at least one for each thread",
        )
    }

    fn prepare(&self, spec: &Spec) -> Result<Option<Shared>, String> {
        prepare(spec).map(Some)
    }

    fn open(&self, worker: &Worker, destination: &Destination, poller: Poller) -> Result<Opened, LoadError> {
        open(worker, destination, poller)
    }
}

/// State shared by the threads of a load, built once: requests can have long bodies.
#[derive(Clone)]
pub(crate) struct Shared {
    requests: Requests,
    tls: Option<Setup>,
}

#[derive(Clone)]
enum Requests {
    Http1(Arc<Block>),
    Http2(Arc<Messages>),
}

/// Prepares the requests of `spec`, and TLS if it is used.
pub(crate) fn prepare(spec: &Spec) -> Result<Shared, String> {
    let protocol: &[u8] = if spec.http2 { b"h2" } else { b"http/1.1" };
    let setup = || Setup::new(trust::config(spec)?, &spec.url.host, protocol);
    let requests = match spec.http2 {
        false => Requests::Http1(Arc::new(block(spec))),
        true => Requests::Http2(Arc::new(Messages::new(spec))),
    };
    Ok(Shared { requests, tls: spec.url.tls.then(setup).transpose()? })
}

/// Opens the connections of a thread.
pub(crate) fn open(worker: &Worker, destination: &Destination, poller: Poller) -> Result<Opened, LoadError> {
    let Shared { requests, tls } =
        worker.shared.clone().expect("a session over TCP has prepared its requests");
    match requests {
        Requests::Http1(block) => start::<Pipeline>(worker, destination, block, tls, poller),
        Requests::Http2(messages) => start::<Streams>(worker, destination, messages, tls, poller),
    }
}

fn start<W: Wire + 'static>(
    worker: &Worker,
    destination: &Destination,
    requests: Arc<W::Requests>,
    tls: Option<Setup>,
    poller: Poller,
) -> Result<Opened, LoadError> {
    let spec = &worker.spec;
    let mut engine = HttpEngine::<W>::new(spec, destination, requests, tls, worker.index, poller)
        .map_err(LoadError::Socket)?;
    engine.warm(WARM_UP.min(spec.timeout_ns())).map_err(|error| worker.down(destination, error))?;
    Ok((Box::new(engine), None))
}
