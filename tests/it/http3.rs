//! The load over HTTP/3 against a third-party server.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use rxlab::lab::Namespace;
use rxlab_load::{ErrorClass, HttpVersion, LoadError, Rate, Session, Spec};

use crate::https::run;
use crate::lab::inside;
use crate::load::rxlab;
use crate::nginx::certify;
use crate::process::{Ended, Running, free_port, wait_for};
use crate::require;

/// Caddy on 127.0.0.1 with its own files, stopped when dropped.
struct Caddy {
    running: Running,
    directory: tempfile::TempDir,
    port: u16,
}

impl Caddy {
    /// `None` if the test is skipped. `protocols` are those that it speaks, such as `h2 h3`.
    fn start(protocols: &str) -> Option<Self> {
        let needed = require::caddy() && require::program("caddy", "openssl", "version");
        needed.then(|| Self::serve(protocols, Command::new("caddy")))
    }

    fn serve(protocols: &str, mut caddy: Command) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        certify(directory.path(), &["-addext", "basicConstraints=critical,CA:FALSE"]);
        let (at, port) = (directory.path().display(), free_port());
        let config = format!(
            "{{\n admin off\n auto_https off\n servers {{\n  protocols {protocols}\n }}\n}}\n\
             https://127.0.0.1:{port} {{\n bind 127.0.0.1\n tls {at}/cert.pem {at}/key.pem\n\
             \n log {{\n  output file {at}/access.log\n }}\n respond hello\n}}\n"
        );
        let file = directory.path().join("Caddyfile");
        std::fs::write(&file, config).expect("written");
        caddy.args(["run", "--adapter", "caddyfile", "--config"]).arg(&file);
        for home in ["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"] {
            caddy.env(home, directory.path());
        }
        let log = std::fs::File::create(directory.path().join("caddy.log")).expect("created");
        let running = Running::spawn(caddy.stderr(log).stdout(Stdio::null()).stdin(Stdio::null()));
        let log = directory.path().join("caddy.log");
        wait_for("caddy", || read(&log).contains("serving initial configuration"));
        Self { running, directory, port }
    }

    /// Requests over HTTP/3 that it has logged.
    fn logged(&self) -> u64 {
        let log = read(&self.directory.path().join("access.log"));
        let is_load = |line: &&str| line.contains("\"HTTP/3.0\"") && line.contains("\"/load\"");
        log.lines().filter(is_load).count() as u64
    }

    fn spec(&self) -> Spec {
        let url = format!("https://127.0.0.1:{}/load", self.port);
        let ca = Some(self.directory.path().join("cert.pem"));
        let http_version = HttpVersion::Http3;
        Spec { connections: 4, ca, http_version, ..Spec::new(url.parse().expect("a URL")) }
    }
}

impl Drop for Caddy {
    fn drop(&mut self) {
        self.running.signal(Signal::TERM);
        let _ = self.running.child().wait();
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn every_request_is_counted_by_both() {
    let Some(caddy) = Caddy::start("h3") else { return };
    let mut spec = caddy.spec();
    spec.expect_body = Some("hello".into());
    let mut all = 0;
    // Caddy allows 250 streams.
    for (streams, rate) in [(1, None), (50, None), (300, None), (4, Some(Rate::steady(200.0)))] {
        (spec.pipeline, spec.rate) = (streams, rate);
        let total = run(&spec);
        let case = format!("{streams} streams, {:?}: {total:?}", spec.rate);
        assert!(total.requests > 20 && total.errors.is_empty(), "{case}");
        assert_eq!((total.sent, total.in_flight), (total.requests, 0), "{case}");
        all += total.requests;
        wait_for("the log", || caddy.logged() >= all);
        assert_eq!(caddy.logged(), all, "{case}");
    }
}

#[test]
fn untrusted_servers_get_no_requests() {
    let (Some(caddy), Some(other)) = (Caddy::start("h3"), Caddy::start("h3")) else { return };
    let spec = Spec { ca: other.spec().ca, ..caddy.spec() };
    let error = Session::start(&spec).expect_err("not trusted");
    assert!(matches!(error, LoadError::Down { .. }) && error.to_string().contains("certificate"), "{error}");
    assert_eq!(caddy.logged(), 0);
}

/// What users of `alt-svc` see when HTTP/3 is turned off.
#[test]
fn a_server_without_http3_is_named() {
    let Some(caddy) = Caddy::start("h1 h2") else { return };
    let url = format!("https://127.0.0.1:{}/load", caddy.port);
    rxlab(&["load", &url, "--http3", "--insecure"])
        .says_all(5, &["cannot reach the target", "the UDP port is closed (ICMP port unreachable)"]);
}

/// The first phase of field case A: UDP 443 is dropped in the middle, and put back.
#[test]
fn dropped_udp_is_unreachable_until_it_is_back() {
    require::needs!(netns, root, nft, caddy);
    let namespace = Namespace::new().expect("made");
    namespace.ip("link set lo up").expect("up");
    let caddy = Caddy::serve("h3", inside(&namespace, "caddy"));
    let nft = |rule: &str| inside(&namespace, "nft").arg(rule).exits(0);
    nft("add table inet t; add chain inet t c { type filter hook input priority 0; }");
    let timeout = Duration::from_secs(2);
    let spec = Spec { netns: Some(namespace.path()), timeout, pipeline: 8, ..caddy.spec() };
    let mut session = Session::start(&spec).expect("started");
    std::thread::sleep(Duration::from_millis(300));
    let before = session.mark();
    assert!(before.requests > 0 && before.errors.is_empty() && !before.unreachable, "{before:?}");
    nft(&format!("add rule inet t c udp dport {} drop", caddy.port));
    let mut total = session.mark();
    wait_for("failed attempts to connect", || {
        total = session.mark();
        total.unreachable
    });
    let reasons = total.reasons.of(ErrorClass::Connect);
    assert_eq!(reasons.first().map(|(reason, _)| *reason), Some("no answer within the timeout"), "{total:?}");
    nft("flush chain inet t c");
    wait_for("responses", || session.mark().requests > 0);
    let after = session.stop();
    assert!(!after.unreachable, "{after:?}");
}
