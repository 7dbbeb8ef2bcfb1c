//! What distinguishes `http://` and `https://` from other protocols.

use std::sync::Arc;

use super::block::Block;
use super::engine::HttpEngine;
use super::http2::Http2;
use super::http3::Http3;
use super::pipeline::Pipeline;
use super::request::block;
use super::streams::{Messages, Streams};
use super::template::Template;
use super::tls::Setup;
use super::wire::Wire;
use crate::check::{SpecError, range, refuse_if};
use crate::destination::Destination;
use crate::header::is_method;
use crate::http_version::HttpVersion;
use crate::poller::Poller;
use crate::protocol::{Definition, Opened};
use crate::session::LoadError;
use crate::spec::Spec;
use crate::target::Target;
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
            "--http3",
            "--no-keepalive",
            "--unix",
            "--ca",
            "--insecure",
            "--cert",
            "--key",
            "--tls-resume",
            "--method",
            "--header",
            "--body",
            "--urls",
            "--targets",
            "--expect-status",
            "--expect-body",
            "--expect-match",
            "--expect-json",
            "--announce",
        ]
    }

    fn check(&self, spec: &Spec) -> Result<(), SpecError> {
        refuse_if(
            !spec.paths.is_empty() && spec.url.path != "/",
            "--urls gives the paths: give the URL itself without a path",
        )?;
        refuse_if(
            !spec.url.tls && (spec.ca.is_some() || spec.insecure || spec.cert.is_some() || spec.tls_resume),
            "--ca, --insecure, --cert and --tls-resume are for https:// only",
        )?;
        refuse_if(spec.cert.is_some() != spec.key.is_some(), "--cert and --key need each other")?;
        if !is_method(&spec.method) {
            return range("--method", "a word such as GET, and not CONNECT".to_owned(), spec.method.clone());
        }
        // Lines of the file go into the request line unchanged.
        let is_path = |path: &str| path.starts_with('/') && format!("http://h{path}").parse::<Url>().is_ok();
        if let Some(path) = spec.paths.iter().find(|path| !is_path(path)) {
            return range("paths", "paths such as /a?b".to_owned(), path.clone());
        }
        refuse_if(
            !spec.targets.is_empty()
                && (spec.url.path != "/"
                    || !spec.paths.is_empty()
                    || spec.method != "GET"
                    || !spec.body.is_empty()),
            "--targets gives method, path and body: give none of them by other options",
        )?;
        refuse_if(
            spec.targets.iter().any(|target| target.method == "HEAD"),
            "--targets does not work with HEAD: give --method HEAD, with --urls for several paths",
        )?;
        let wrong = |target: &&Target| !is_path(&target.path) || !is_method(&target.method);
        if let Some(target) = spec.targets.iter().find(wrong) {
            let found = format!("{} {}", target.method, target.path);
            return range("targets", "methods with paths such as GET /a?b".to_owned(), found);
        }
        let targets = spec.targets.iter().map(|target| &target.path);
        for path in std::iter::once(&spec.url.path).chain(&spec.paths).chain(targets) {
            Template::parse(path)?;
        }
        let expected = [
            spec.expect_body.is_some(),
            spec.expect_match.is_some(),
            spec.expect_json.is_some(),
            spec.announce,
        ];
        let expected = expected.into_iter().filter(|is_given| *is_given).count();
        refuse_if(
            expected > 0 && spec.method == "HEAD",
            "--expect-body, --expect-match, --expect-json and --announce do not work with HEAD: no body",
        )?;
        refuse_if(
            expected > 1,
            "--expect-body, --expect-match, --expect-json and --announce exclude each other",
        )?;
        if spec.http_version != HttpVersion::Http1 {
            Messages::check(spec)?;
        }
        if spec.http_version == HttpVersion::Http3 {
            refuse_if(!spec.url.tls, "--http3 is for https:// only: QUIC has TLS built in")?;
            refuse_if(spec.unix.is_some(), "--unix does not work with --http3")?;
            refuse_if(spec.tls_resume, "--tls-resume does not work with --http3")?;
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
    Http3(Arc<Messages>),
}

/// Prepares the requests of `spec`, and TLS if it is used.
pub(crate) fn prepare(spec: &Spec) -> Result<Shared, String> {
    let messages = || Arc::new(Messages::new(spec));
    let (protocol, requests): (&[u8], _) = match spec.http_version {
        HttpVersion::Http1 => (b"http/1.1", Requests::Http1(Arc::new(block(spec)))),
        HttpVersion::Http2 => (b"h2", Requests::Http2(messages())),
        HttpVersion::Http3 => (b"h3", Requests::Http3(messages())),
    };
    let setup = || Setup::new(trust::config(spec)?, spec, protocol);
    Ok(Shared { requests, tls: spec.url.tls.then(setup).transpose()? })
}

/// Opens the connections of a thread.
pub(crate) fn open(worker: &Worker, destination: &Destination, poller: Poller) -> Result<Opened, LoadError> {
    let Shared { requests, tls } =
        worker.shared.clone().expect("a session over TCP has prepared its requests");
    match requests {
        Requests::Http1(block) => start::<Pipeline>(worker, destination, block, tls, poller),
        Requests::Http2(messages) => start::<Streams<Http2>>(worker, destination, messages, tls, poller),
        Requests::Http3(messages) => start::<Streams<Http3>>(worker, destination, messages, tls, poller),
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
