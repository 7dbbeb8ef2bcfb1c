//! `rxlab serve`: its page in a browser, and what it refuses.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::Value;

use crate::browser::Browser;
use crate::flood::Flood;
use crate::process::{Ended, Running, response, rxlab, wait_for};
use crate::record::record;
use crate::{quiet, require};

/// A running server, with its address.
struct Server {
    running: Running,
    address: String,
    url: String,
    _state: tempfile::TempDir,
}

impl Server {
    fn start(args: &[&str]) -> Self {
        Self::on(tempfile::tempdir().expect("a directory"), args)
    }

    fn on(state: tempfile::TempDir, args: &[&str]) -> Self {
        let args = [&["serve", "--json", "--listen", "127.0.0.1:0", "--every", "200ms"], args].concat();
        let mut running = Running::start(&mut rxlab(state.path(), &args));
        let mut text = String::new();
        let mut stdout = BufReader::new(running.stdout());
        while !text.ends_with("}\n") {
            assert!(stdout.read_line(&mut text).expect("read") > 0, "{text}");
        }
        let started: Value = serde_json::from_str(&text).expect("JSON");
        let field = |name: &str| started[name].as_str().expect("text").to_owned();
        assert_eq!(field("schema"), "rxlab.serve/1");
        let (address, url) = (field("address"), field("url"));
        Self { running, address, url, _state: state }
    }

    fn answer(&self, request: &str) -> String {
        response(&self.address, request)
    }
}

/// A unit that asks for the credential and does not get it must not serve everybody.
#[test]
fn credentials_are_required() {
    let (state, empty) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let serve = |directory: &std::path::Path| {
        let mut command = rxlab(state.path(), &["serve", "--listen", "127.0.0.1:0"]);
        command.env("CREDENTIALS_DIRECTORY", directory);
        command
    };
    serve(empty.path()).says(2, "cannot read the credential ");
    std::fs::write(empty.path().join("rxlab-token"), "short\n").expect("written");
    serve(empty.path()).says(2, "invalid token");
    std::fs::write(empty.path().join("rxlab-token"), "0123456789abcdef\n").expect("written");
    let mut running = Running::start(&mut serve(empty.path()));
    let line = running.first_line();
    assert!(line.starts_with("serving http://127.0.0.1:") && !line.contains("token"), "{line}");
    let address = line.trim().trim_start_matches("serving http://").trim_end_matches('/').to_owned();
    let get = |path: &str| response(&*address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    assert!(get("/").starts_with("HTTP/1.1 401 "));
    assert!(get("/?token=0123456789abcdef").starts_with("HTTP/1.1 303 "));
}

#[test]
fn requests_from_elsewhere_are_refused() {
    let server = Server::start(&["--token", "secret123"]);
    let status = |head: &str| server.answer(&format!("{head}\r\n\r\n"))[..12].to_owned();
    assert_eq!(status("GET / HTTP/1.1\r\nHost: evil.example"), "HTTP/1.1 421");
    assert_eq!(status("GET / HTTP/1.1\r\nHost: localhost"), "HTTP/1.1 401");
    assert_eq!(status("POST /?token=secret123 HTTP/1.1\r\nHost: localhost"), "HTTP/1.1 405");
    assert_eq!(
        status("GET /page.js HTTP/1.1\r\nHost: localhost\r\nCookie: rxlab_token=secret123"),
        "HTTP/1.1 200"
    );
    assert!(!server.url.contains("secret123"), "it may end in a log: {}", server.url);
    assert_eq!(
        status(
            "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret123\r\nSec-Fetch-Site: cross-site"
        ),
        "HTTP/1.1 403"
    );
    // A reader of events does not keep the server from ending.
    let mut reader = TcpStream::connect(&server.address).expect("connected");
    let head = "GET /events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret123\r\n\r\n";
    reader.write_all(head.as_bytes()).expect("sent");
    let mut line = String::new();
    let mut lines = BufReader::new(reader);
    while !line.starts_with("data: {") {
        line.clear();
        assert!(lines.read_line(&mut line).expect("read") > 0, "ended");
    }
    let shown: Value = serde_json::from_str(&line[6..]).expect("JSON");
    assert_eq!(shown["frame"]["schema"], "rxlab.top/1");
    server.running.signal(Signal::TERM);
    server.running.output().exits(0);
}

#[test]
fn an_address_that_cannot_be_bound_is_named() {
    let server = Server::start(&[]);
    let state = tempfile::tempdir().expect("a directory");
    rxlab(state.path(), &["serve", "--listen", &server.address])
        .says(5, &format!("cannot listen on {}: ", server.address));
}

/// A flood in a network namespace is seen in the browser: the queue, the heatmap and its table; then back in time.
#[test]
fn a_browser_shows_what_the_machine_does() {
    // Sent flat out it would leave the browser no CPU.
    let Some(flood) = Flood::through_rules(60, "1", &["--rate", "50000"]) else { return };
    let Some(browser) = Browser::start(1200, 1600) else { return };
    let netns = flood.range.server.path();
    let server = Server::start(&["--netns", netns.to_str().expect("text")]);
    browser.open(&server.url);
    wait_for("packets in the table", || {
        let rows = browser.value(
            "[...document.querySelectorAll('#queues tbody tr')].map(row => Number(row.children[1].textContent.replace(/\\D/g, '')))",
        );
        rows.as_array().is_some_and(|rows| rows.iter().any(|row| row.as_u64() > Some(1000)))
    });
    assert_eq!(browser.text("#status"), "live");
    assert!(browser.text("#summary").starts_with("CPU "), "{}", browser.text("#summary"));
    // Which host it is, and how it is, in one sentence.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name").trim().to_owned();
    assert_eq!(browser.text("#host"), host);
    assert_eq!(browser.value("document.title"), format!("{host} - rxlab"));
    assert!(!browser.text("#state").is_empty());
    browser.click("#heat-title ~ details summary");
    browser.wait_for_text("#cpus", |text| text.contains("receive time"));
    wait_for("some intervals", || browser.value("intervals().length").as_u64() > Some(5));

    browser.click("#pause");
    assert_eq!(browser.text("#pause"), "Continue");
    browser.choose("time", "0", "input");
    let first = browser.value("intervals()[0].frame.time.slice(11, 19)");
    assert_eq!(browser.value("document.getElementById('clock').textContent"), first);
    browser.click("#pause");
    assert_eq!(browser.text("#pause"), "Pause");

    assert_eq!(browser.errors(), Vec::<Value>::new());
    let elsewhere: Vec<String> = browser
        .requested()
        .into_iter()
        .filter(|url| !url.starts_with(&format!("http://{}/", server.address)) && !url.starts_with("data:"))
        .collect();
    assert_eq!(elsewhere, Vec::<String>::new());
    if let Some(path) = std::env::var_os("RXLAB_PICTURES") {
        use base64::Engine;
        let picture = base64::engine::general_purpose::STANDARD.decode(browser.picture()).expect("base64");
        std::fs::write(std::path::Path::new(&path).join("serve.png"), picture).expect("written");
    }
    // Not while it changes.
    browser.click("#pause");
    let Some(axe) = require::axe() else { return };
    assert_eq!(browser.barriers(&axe), [""; 0]);
}

/// What was recorded is chosen on the page, and its intervals are gone through with the slider. The state of the
/// connection does not replace what the page says about the recording.
#[test]
fn a_browser_goes_through_a_recording() {
    let _noise = quiet::noisy();
    let Some(browser) = Browser::start(1200, 1000) else { return };
    let state = tempfile::tempdir().expect("a directory");
    record(state.path(), 300);
    let server = Server::on(state, &[]);
    browser.open(&server.url);
    wait_for("the choice", || browser.value("!document.getElementById('recording').hidden") == true);
    browser.choose("source", "recorded", "change");
    browser.wait_for_text("#status", |text| text == "recorded");
    assert_eq!(browser.value("intervals().length"), 120);
    assert_eq!(browser.text("#clock"), "08:04:59");
    assert!(browser.text("#path").contains("eth0 rx-0"), "{}", browser.text("#path"));
    browser.choose("time", "0", "input");
    assert_eq!(browser.text("#clock"), "08:03:00");
    // Two other minutes next to these.
    assert_eq!(browser.text("#sides"), "");
    browser.choose("with", "1800000125000", "change");
    browser.wait_for_text("#sides", |text| text.contains("2027-01-15 08:00:06 to 08:02:05 UTC"));
    assert!(browser.text("#sides").contains("08:03:00 to 08:04:59 UTC"), "{}", browser.text("#sides"));
    // No part of the page is wider than a phone.
    for (width, dark) in [(390, false), (768, true), (1280, false), (1920, false)] {
        browser.look_as(width, 900, dark);
        wait_for("the width", || {
            browser.value("document.documentElement.scrollWidth").as_u64() <= Some(width.into())
        });
        let scrolled = "[...document.querySelectorAll('#path, #sides')].filter(one => one.scrollWidth > one.clientWidth + 1).length";
        assert_eq!(browser.value(scrolled), 0, "{width}");
    }
    assert_eq!(browser.errors(), Vec::<Value>::new());
    if let Some(axe) = require::axe() {
        assert_eq!(browser.barriers(&axe), [""; 0]);
    }

    server.running.signal(Signal::KILL);
    wait_for("the end of the connection", || browser.value("state.connection !== 'live'") == true);
    assert_eq!(browser.text("#status"), "recorded");
    browser.choose("source", "live", "change");
    assert_eq!(browser.text("#status"), "connection lost; trying again");
    browser.choose("source", "recorded", "change");
    browser.wait_for_text("#status", |text| text.starts_with("cannot read the recording: "));
}
