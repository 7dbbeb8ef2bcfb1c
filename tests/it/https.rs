//! The load over TLS against a third-party server.

use std::io::Write;
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use rxlab_load::{ErrorClass, HttpVersion, Interval, LoadError, Rate, Session, Spec};

use crate::load::rxlab;
use crate::nginx::Nginx;
use crate::process::{Ended, Running, free_port, wait_for};

/// A load on nginx that trusts its certificate.
fn spec(nginx: &Nginx) -> Spec {
    let mut spec = Spec::new(format!("https://127.0.0.1:{}/load", nginx.port).parse().expect("a URL"));
    (spec.connections, spec.ca) = (4, Some(nginx.directory.path().join("cert.pem")));
    spec
}

/// Half a second of a load.
pub(crate) fn run(spec: &Spec) -> Interval {
    let _noise = crate::quiet::noisy();
    let session = Session::start(spec).expect("started");
    std::thread::sleep(Duration::from_millis(500));
    session.stop()
}

#[test]
fn keepalive_closed_loop_pipelined_and_paced() {
    let Some(nginx) = Nginx::start_tls() else { return };
    let mut spec = spec(&nginx);
    for (pipeline, rate) in [(1, None), (16, None), (1, Some(Rate::steady(200.0)))] {
        (spec.pipeline, spec.rate) = (pipeline, rate);
        let total = run(&spec);
        let case = format!("depth {pipeline}, {:?}: {total:?}", spec.rate);
        assert!(total.requests > 20 && total.errors.is_empty(), "{case}");
        assert_eq!((total.sent, total.in_flight), (total.requests, 0), "{case}");
        assert_eq!(total.latency.len(), total.requests, "{case}");
        assert_eq!(total.handshakes, 0, "the first ones are made before: {case}");
    }
    assert_eq!(spec.rate.take(), Some(Rate::steady(200.0)));
    spec.insecure = true;
    (spec.ca, spec.pipeline) = (None, 1);
    assert!(run(&spec).requests > 0, "without checking the certificate");
}

#[test]
fn http2_is_agreed_over_tls() {
    let Some(nginx) = Nginx::start_tls() else { return };
    let mut spec = spec(&nginx);
    spec.http_version = HttpVersion::Http2;
    for (streams, rate) in [(1, None), (50, None), (4, Some(Rate::steady(200.0)))] {
        (spec.pipeline, spec.rate) = (streams, rate);
        let total = run(&spec);
        let case = format!("{streams} streams, {:?}: {total:?}", spec.rate);
        assert!(total.requests > 20 && total.errors.is_empty(), "{case}");
        assert_eq!((total.sent, total.in_flight), (total.requests, 0), "{case}");
    }
}

#[test]
fn a_server_without_http2_is_named() {
    let Some(nginx) = Nginx::start_tls() else { return };
    let port = free_port();
    let mut openssl = Command::new("openssl");
    openssl.args(["s_server", "-quiet", "-www", "-cert", "cert.pem", "-key", "key.pem", "-accept"]);
    let _server = Running::silent(openssl.arg(port.to_string()).current_dir(nginx.directory.path()));
    wait_for("openssl", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let url = format!("https://127.0.0.1:{port}/");
    rxlab(&["load", &url, "--http2", "--insecure"]).says_all(5, &["the server does not offer HTTP/2"]);
    let Some(plain) = Nginx::start(false) else { return };
    let url = format!("http://127.0.0.1:{}/", plain.port);
    rxlab(&["load", &url, "--http2"]).says_all(5, &["the server does not speak HTTP/2"]);
}

#[test]
fn without_keepalive_each_request_is_a_handshake() {
    let Some(nginx) = Nginx::start_tls() else { return };
    let mut spec = spec(&nginx);
    spec.no_keepalive = true;
    let total = run(&spec);
    assert!(total.requests > 10 && total.errors.is_empty(), "{total:?}");
    assert!(total.handshakes.abs_diff(total.requests) <= 4, "{} for {total:?}", total.handshakes);
}

#[test]
fn a_large_body_arrives_complete() {
    let Some(nginx) = Nginx::start_tls() else { return };
    let _noise = crate::quiet::noisy();
    let root = nginx.directory.path().join("html");
    std::fs::create_dir(&root).expect("made");
    std::fs::write(root.join("large"), vec![b'x'; 3_000_000]).expect("written");
    let mut spec = spec(&nginx);
    spec.url = format!("https://127.0.0.1:{}/files/large", nginx.port).parse().expect("a URL");
    (spec.requests, spec.connections) = (Some(6), 2);
    let session = Session::start(&spec).expect("started");
    crate::process::wait_for("six large bodies", || session.is_done());
    let total = session.stop();
    assert_eq!((total.requests, total.errors.len()), (6, 0), "{total:?}");
}

#[test]
fn untrusted_servers_get_no_requests() {
    let Some(nginx) = Nginx::start_tls() else { return };
    let mut spec = spec(&nginx);
    // The certificate of another server.
    let Some(other) = Nginx::start_tls() else { return };
    spec.ca = Some(other.directory.path().join("cert.pem"));
    let error = Session::start(&spec).expect_err("not trusted");
    assert!(matches!(error, LoadError::Down { .. }) && error.to_string().contains("certificate"), "{error}");
    // The right certificate, but another host name.
    spec = self::spec(&nginx);
    spec.url = format!("https://localhost:{}/load", nginx.port).parse().expect("a URL");
    let error = Session::start(&spec).expect_err("another name");
    assert!(error.to_string().contains("certificate"), "{error}");
    spec.ca = Some("/nowhere".into());
    assert!(matches!(Session::start(&spec), Err(LoadError::Tls(_))));
}

/// As `openssl req -x509` makes it: a certificate of a CA, which was once refused as that of a server.
#[test]
fn a_server_s_own_certificate_will_do() {
    let Some(nginx) = Nginx::start_tls_with(&[], "") else { return };
    let mut spec = spec(&nginx);
    let total = run(&spec);
    assert!(total.requests > 20 && total.errors.is_empty(), "{total:?}");
    spec.url = format!("https://localhost:{}/load", nginx.port).parse().expect("a URL");
    let error = Session::start(&spec).expect_err("another name").to_string();
    assert!(error.starts_with("cannot load the target") && error.contains("certificate"), "{error}");
    let Some(other) = Nginx::start_tls_with(&[], "") else { return };
    spec = self::spec(&nginx);
    spec.ca = Some(other.directory.path().join("cert.pem"));
    let error = Session::start(&spec).expect_err("the certificate of another server").to_string();
    assert!(error.contains("is that of a CA: it is probably self-signed"), "{error}");
}

#[test]
fn a_port_without_tls_is_named() {
    let target = crate::load::target(1);
    let url = format!("https://{}/simple", target.addresses().http.expect("served"));
    let mut spec = Spec::new(url.parse().expect("a URL"));
    spec.insecure = true;
    let error = Session::start(&spec).expect_err("no TLS").to_string();
    assert!(error.contains("the server does not speak TLS on this port"), "{error}");
}

#[test]
fn a_client_shows_its_certificate() {
    let Some(nginx) = Nginx::start_tls_with(&[], "ssl_client_certificate AT/cert.pem; ssl_verify_client on;")
    else {
        return;
    };
    let mut spec = spec(&nginx);
    let refused = run(&spec);
    assert!(refused.requests == 0 && refused.errors.contains_key(&ErrorClass::Status4xx), "{refused:?}");
    let at = |name| Some(nginx.directory.path().join(name));
    (spec.cert, spec.key) = (at("cert.pem"), at("key.pem"));
    let total = run(&spec);
    assert!(total.requests > 20 && total.errors.is_empty(), "{total:?}");
    spec.key = at("cert.pem");
    assert!(matches!(Session::start(&spec), Err(LoadError::Tls(_))), "not a key");
}

#[test]
fn sessions_are_resumed_only_if_asked_for() {
    let Some(nginx) = Nginx::start_tls() else { return };
    let mut spec = spec(&nginx);
    spec.no_keepalive = true;
    assert_eq!(run(&spec).resumed, 0);
    spec.tls_resume = true;
    let total = run(&spec);
    assert!((1..=total.handshakes).contains(&total.resumed) && total.errors.is_empty(), "{total:?}");
}

#[test]
fn a_server_that_stops_speaking_tls_counts_as_tls_errors() {
    let Some(nginx) = Nginx::start_tls() else { return };
    let _noise = crate::quiet::noisy();
    let mut spec = spec(&nginx);
    (spec.no_keepalive, spec.connections) = (true, 2);
    let mut session = Session::start(&spec).expect("started");
    std::thread::sleep(Duration::from_millis(100));
    let port = nginx.port;
    drop(nginx);
    // The port is free as soon as nginx has exited.
    let mut plain = None;
    crate::process::wait_for("the port", || {
        plain = TcpListener::bind(("127.0.0.1", port)).ok();
        plain.is_some()
    });
    let plain = plain.expect("bound");
    // Last responses of nginx are in the interval that the first mark ends, or in the next one.
    session.mark();
    session.mark();
    std::thread::spawn(move || {
        for mut stream in plain.incoming().flatten() {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let mut total = session.mark();
    crate::process::wait_for("a failed handshake", || {
        total = total.clone().then(&session.mark());
        total.errors.get(&ErrorClass::Tls) > Some(&0)
    });
    assert_eq!((total.requests, total.handshakes), (0, 0), "{total:?}");
}

#[test]
fn the_program_reports_the_number_of_handshakes() {
    let Some(nginx) = Nginx::start_tls() else { return };
    let _noise = crate::quiet::noisy();
    let url = format!("https://127.0.0.1:{}/load", nginx.port);
    rxlab(&["load", &url, "--insecure", "--no-keepalive", "-c", "2", "--for", "300ms"])
        .says_all(0, &["TLS", " handshakes, "]);
    let (code, text) = rxlab(&["load", &url, "--for", "100ms"]).said();
    assert!(matches!(code, 2 | 5) && text.contains("hint: "), "{text}");
}
