//! The load against a third-party server: its counts match those of nginx.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use rxlab_load::{HttpVersion, Session, Spec};

use crate::process::{Running, free_port, response, wait_for};
use crate::require;

/// nginx on 127.0.0.1 with its own files, stopped when dropped.
pub(crate) struct Nginx {
    running: Running,
    pub(crate) directory: tempfile::TempDir,
    pub(crate) port: u16,
    /// HTTP/2 without TLS; only that.
    pub(crate) http2_port: u16,
}

impl Nginx {
    /// `None` if the test is skipped.
    pub(crate) fn start(access_log: bool) -> Option<Self> {
        require::nginx()
            .then(|| Self::serve(tempfile::tempdir().expect("a temporary directory"), access_log, ""))
    }

    /// With TLS and a certificate for 127.0.0.1 in `cert.pem`, valid for two days.
    pub(crate) fn start_tls() -> Option<Self> {
        Self::start_tls_with(&["-addext", "basicConstraints=critical,CA:FALSE"], "")
    }

    /// The same, with `more` arguments for the certificate and directives in which AT stands for the directory.
    pub(crate) fn start_tls_with(more: &[&str], directives: &str) -> Option<Self> {
        if !require::nginx() || !require::program("nginx", "openssl", "version") {
            return None;
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        certify(directory.path(), more);
        let at = directory.path().display();
        let certificate = format!("ssl_certificate {at}/cert.pem; ssl_certificate_key {at}/key.pem;");
        let certificate = certificate + &directives.replace("AT", &at.to_string());
        Some(Self::serve(directory, false, &certificate))
    }

    fn serve(directory: tempfile::TempDir, access_log: bool, certificate: &str) -> Self {
        let (port, http2_port) = (free_port(), free_port());
        let at = directory.path().display();
        let log = if access_log { format!("{at}/access.log") } else { "off".to_owned() };
        let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
        let bodies = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|what| format!("{what}_temp_path {at}/{what};"))
            .concat();
        let ssl = if certificate.is_empty() { "" } else { " ssl http2" };
        let config = format!(
            "{user} daemon off; worker_processes 1; pid {at}/pid; error_log {at}/error.log;\n\
             events {{ worker_connections 256; }}\n\
             http {{ access_log {log}; {bodies} keepalive_requests 1000000;\n\
             server {{ listen 127.0.0.1:{port}{ssl}; {certificate} location /status {{ stub_status; access_log off; }}\n\
             location /files/ {{ alias {at}/html/; }}\n             location / {{ return 200 'hello'; }} }}\n\
             server {{ listen 127.0.0.1:{http2_port} http2; location / {{ return 200 'hello'; }} }} }}\n"
        );
        let file = directory.path().join("nginx.conf");
        std::fs::write(&file, config).expect("written");
        let mut command = Command::new("nginx");
        command.arg("-p").arg(directory.path()).arg("-c").arg(&file);
        let error = directory.path().join("error.log");
        let nginx =
            Self { running: Running::silent(command.arg("-e").arg(error)), directory, port, http2_port };
        wait_for("nginx", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        nginx
    }

    /// Requests that it has answered, except those that query this number.
    fn answered(&self) -> u64 {
        let text = response(("127.0.0.1", self.port), "GET /status HTTP/1.0\r\n\r\n");
        let counts = text.lines().skip_while(|line| !line.contains("requests")).nth(1).expect("counts");
        counts.split_whitespace().nth(2).expect("three").parse().expect("a number")
    }

    fn logged(&self) -> Option<u64> {
        let text = std::fs::read_to_string(self.directory.path().join("access.log")).ok()?;
        Some(text.lines().filter(|line| line.contains("GET /load ")).count() as u64)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // TERM, not KILL: the master also stops its worker.
        self.running.signal(Signal::TERM);
        let _ = self.running.child().wait();
    }
}

/// Makes `cert.pem` and `key.pem` in a directory: self-signed for 127.0.0.1, valid for two days, with `more` arguments.
pub(crate) fn certify(directory: &Path, more: &[&str]) {
    let mut openssl = Command::new("openssl");
    openssl.args(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=rxlab".split(' '),
    );
    openssl.args(["-addext", "subjectAltName=IP:127.0.0.1"]);
    openssl.args(more);
    openssl.args(["-keyout", "key.pem", "-out", "cert.pem"]).current_dir(directory);
    let made = openssl.stderr(Stdio::null()).status().expect("openssl runs");
    assert!(made.success(), "openssl makes a certificate");
}

fn count_agrees(access_log: bool, http2: bool, pipeline: usize) {
    let Some(nginx) = Nginx::start(access_log) else { return };
    let _noise = crate::quiet::noisy();
    let port = if http2 { nginx.http2_port } else { nginx.port };
    let mut spec = Spec::new(format!("http://127.0.0.1:{port}/load").parse().expect("a URL"));
    (spec.connections, spec.pipeline) = (4, pipeline);
    if http2 {
        spec.http_version = HttpVersion::Http2;
    }
    let before = nginx.answered();
    let session = Session::start(&spec).expect("started");
    std::thread::sleep(std::time::Duration::from_millis(400));
    let total = session.stop();
    assert!(total.requests > 0 && total.errors.is_empty(), "{:?}", total.errors);
    assert_eq!((total.sent, total.in_flight), (total.requests, 0));
    // The second query of the number is counted, the first one is in `before`.
    let own = 1;
    assert_eq!(nginx.answered() - before - own, total.requests, "by the status page");
    let logged = nginx.logged();
    assert_eq!(logged, access_log.then_some(total.requests), "by the log");
    assert!(Path::new(&format!("/proc/{}", nginx.running.pid().as_raw_nonzero())).exists());
}

#[test]
fn every_request_is_counted_by_both() {
    count_agrees(true, false, 1);
    count_agrees(false, false, 1);
}

#[test]
fn pipelined_requests_are_counted_by_both() {
    count_agrees(true, false, 8);
    count_agrees(false, false, 8);
}

#[test]
fn requests_on_streams_are_counted_by_both() {
    count_agrees(true, true, 1);
    count_agrees(true, true, 100);
}
