//! Expected responses, and requests with placeholders.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};

use rxlab_load::{ErrorClass, Session};
use serde_json::Value;

use super::{connections, millis, run, rxlab, serve_http, simple, spec, target};
use crate::process::Ended;

#[test]
fn an_unexpected_body_is_an_error() {
    let (_target, mut spec) = simple();
    spec.pipeline = 4;
    spec.expect_body = Some("Hello, world!\n".into());
    let good = run(&spec, millis(100));
    assert!(good.requests > 0 && good.errors.is_empty(), "{good:?}");
    spec.expect_body = Some("Hello, world?\n".into());
    let wrong = run(&spec, millis(100));
    assert_eq!(wrong.errors.keys().collect::<Vec<_>>(), [&ErrorClass::Body], "{wrong:?}");
    assert_eq!((wrong.requests, wrong.errors[&ErrorClass::Body]), (0, wrong.sent), "{wrong:?}");
    // Longer than one read, and wrong only in its length.
    spec.url.path = "/bytes?n=300000".to_owned();
    spec.expect_body = Some(vec![b'x'; 300_000].into());
    let long = run(&spec, millis(100));
    assert!(long.requests > 0 && long.errors.is_empty(), "{long:?}");
    spec.expect_body = Some(vec![b'x'; 300_001].into());
    assert_eq!(run(&spec, millis(100)).requests, 0);
}

#[test]
fn bodies_are_searched_and_pointed_into() {
    let _noise = crate::quiet::noisy();
    let (_target, url) = serve_http("/simple");
    let load = |more: &[&str]| {
        let mut load = rxlab(&["load", &url, "--for", "50ms", "-c", "2"]);
        load.args(more);
        load
    };
    load(&["--expect-match", "."]).says(0, "errors      none");
    load(&["--expect-match", "^no such$"]).says_all(5, &["unexpected body", "no match in `"]);
    load(&["--expect-json", "/status=ok"]).says_all(5, &["unexpected body", "not JSON: `"]);
    load(&["--expect-match", "(a"]).says(2, "invalid regular expression");
    load(&["--expect-match", "a", "--expect-body", "a"]).says(2, "exclude each other");
}

#[test]
fn an_unexpected_status_is_an_error() {
    let (_target, mut spec) = simple();
    spec.url.path = "/nowhere".to_owned();
    spec.expect_status = "2xx,404".parse().expect("statuses");
    let good = run(&spec, millis(100));
    assert!(good.requests > 0 && good.errors.is_empty(), "{good:?}");
    spec.expect_status = "404".parse().expect("a status");
    spec.url.path = "/simple".to_owned();
    let wrong = run(&spec, millis(100));
    assert_eq!(wrong.errors.keys().collect::<Vec<_>>(), [&ErrorClass::Status2xx], "{wrong:?}");
}

#[test]
fn requests_with_placeholders_are_counted_like_others() {
    let target = target(1);
    let address = target.addresses().http.expect("served");
    for (pipeline, rate) in [(1, None), (16, None), (1, super::steady(500.0))] {
        let mut spec = spec(&format!("http://{address}/bytes?n={{int:0..9000}}&x={{hex:9}}"));
        (spec.pipeline, spec.connections, spec.rate) = (pipeline, 5, rate);
        let before = target.counters().requests;
        let total = run(&spec, millis(200));
        assert!(total.requests > 0 && total.errors.is_empty(), "{total:?}");
        assert_eq!((total.sent, total.in_flight), (total.requests, 0), "{total:?}");
        assert_eq!(target.counters().requests - before, total.requests);
    }
    let mut bad = spec(&format!("http://{address}/bytes?n={{int}}"));
    bad.connections = 1;
    assert!(
        Session::start(&bad).is_err_and(|error| error.to_string().contains("invalid placeholder `{int}`"))
    );
}

/// A tracker that refuses every third announce; returns the request lines.
fn tracker() -> (String, Receiver<String>) {
    let (lines, asked) = channel();
    let count = Arc::new(AtomicUsize::new(0));
    let address = connections(move |stream| {
        let mut out = stream.try_clone().expect("cloned");
        let all = BufReader::new(stream).lines().map_while(Result::ok);
        for line in all.filter(|line| line.starts_with("GET ")) {
            let _ = lines.send(line);
            let body = match count.fetch_add(1, Ordering::Relaxed) % 3 {
                2 => "d14:failure reason12:unregisterede",
                _ => "d8:completei1e8:intervali1800e5:peers6:abcdefe",
            };
            if write!(out, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).is_err() {
                break;
            }
        }
    });
    (format!("http://{address}"), asked)
}

#[test]
fn announces_differ_and_refusals_are_errors() {
    let (url, asked) = tracker();
    let mut load = rxlab(&["--json", "load", &format!("{url}/announce"), "--announce"]);
    let report: Value = load.args(["-c", "1", "-p", "3", "--requests", "300"]).json(0);
    let counts = (&report["requests"], &report["errors"]["tracker_error"]);
    assert_eq!(counts, (&200.into(), &100.into()), "{report}");
    let lines: Vec<String> = asked.try_iter().collect();
    assert_eq!(lines.len(), 300);
    let value = |line: &str, key: &str| {
        let (_, rest) = line.split_once(key).unwrap_or_else(|| panic!("no {key} in {line}"));
        rest.split(['&', ' ']).next().unwrap_or_default().to_owned()
    };
    let values = |key: &str| lines.iter().map(|line| value(line, key)).collect::<BTreeSet<_>>();
    assert!(values("info_hash=").iter().all(|hash| hash.len() == 60 && hash.matches('%').count() == 20));
    assert!(values("info_hash=").len() > 200, "of a thousand torrents");
    assert_eq!(values("peer_id=").len(), 300, "each is another client");
    assert!(values("peer_id=").iter().all(|id| id.len() == 20 && id.starts_with("-RX0001-")));
    assert!(values("port=").iter().all(|port| port.parse::<u16>().is_ok_and(|port| port >= 1024)));
}
