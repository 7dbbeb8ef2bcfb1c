//! A load on name servers: a third-party one, and one with faulty responses.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use rxlab_load::{ErrorClass, Event, Spec};

use crate::process::{Running, free_port};
use crate::require;
use crate::trial::checks::{fails, passes};

use super::{datagrams, millis, run, spec, steady};

/// dnsmasq on 127.0.0.1 with one name, stopped when dropped.
struct Dnsmasq {
    running: Running,
    log: BufReader<std::process::ChildStderr>,
    port: u16,
}

impl Dnsmasq {
    /// `None` if the test is skipped.
    fn start() -> Option<Self> {
        if !require::dnsmasq() {
            return None;
        }
        let port = free_port();
        let user = if rustix::process::geteuid().is_root() { "--user=root" } else { "--no-hosts" };
        let mut command = Command::new("dnsmasq");
        command.args(["--no-daemon", "--conf-file=/dev/null", "--pid-file", "--no-hosts", "--no-resolv"]);
        command.arg(user);
        command.args(["--listen-address=127.0.0.1", "--bind-interfaces", &format!("--port={port}")]);
        command.args(["--local=/example/", "--host-record=a.example,192.0.2.1", "--log-facility=-"]);
        let large = "x".repeat(250);
        command.arg(format!("--txt-record=large.example,{large},{large},{large}"));
        let mut running = Running::start(command.stdin(Stdio::null()));
        let log = BufReader::new(running.child().stderr.take().expect("piped"));
        let mut dnsmasq = Self { running, log, port };
        dnsmasq.wait_for("started");
        // It ignores signals until its first response.
        let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
        socket.set_read_timeout(Some(millis(100))).expect("set");
        let query = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01a\x07example\0\0\x01\0\x01";
        crate::process::wait_for("dnsmasq", || {
            let sent = socket.send_to(query, ("127.0.0.1", port));
            sent.is_ok() && socket.recv(&mut [0; 512]).is_ok()
        });
        Some(dnsmasq)
    }

    fn wait_for(&mut self, what: &str) -> String {
        let mut log = String::new();
        loop {
            let start = log.len();
            assert!(self.log.read_line(&mut log).expect("readable") > 0, "dnsmasq ended: {log}");
            if log[start..].contains(what) {
                return log.split_off(start);
            }
        }
    }

    /// Queries that it has answered itself.
    fn answered(&mut self) -> u64 {
        self.running.signal(Signal::USR1);
        let line = self.wait_for("answered locally");
        let number = line.trim_end().rsplit(' ').next().expect("a word");
        number.parse().expect("a number")
    }
}

#[test]
fn a_third_party_name_server_counts_the_same() {
    let Some(mut server) = Dnsmasq::start() else { return };
    for (pipeline, rate) in [(2, None), (1, steady(2000.0))] {
        let before = server.answered();
        let mut spec = spec(&format!("dns://127.0.0.1:{}/a.example", server.port));
        (spec.connections, spec.threads, spec.pipeline, spec.rate) = (4, 2, pipeline, rate);
        let total = run(&spec, millis(300));
        assert!(total.requests > 0 && total.errors.is_empty(), "{total:?}");
        assert_eq!((total.sent, total.in_flight), (total.requests, 0));
        // One more: the probe.
        assert_eq!(server.answered() - before, total.requests + 1);
    }
    // An existing and a missing name in turn: equally many of each, except for the last one of a flow.
    let mut spec = spec(&format!("dns://127.0.0.1:{}", server.port));
    spec.paths = vec!["/a.example".to_owned(), "/b.example?type=AAAA".to_owned()];
    (spec.connections, spec.rate) = (2, steady(1000.0));
    let total = run(&spec, millis(300));
    let missing = total.errors[&ErrorClass::Nxdomain];
    assert_eq!((total.requests + missing, total.errors.len()), (total.sent, 1), "{total:?}");
    assert!(total.requests.abs_diff(missing) <= 2, "{total:?}");
}

/// That a name does not exist is the ordinary answer of many a load.
#[test]
fn expected_codes_are_good_with_and_without_edns() {
    let Some(server) = Dnsmasq::start() else { return };
    let mut spec = spec(&format!("dns://127.0.0.1:{}", server.port));
    spec.paths = vec!["/a.example".to_owned(), "/b.example?type=AAAA".to_owned()];
    (spec.connections, spec.rate) = (2, steady(1000.0));
    spec.expect_rcode = "NOERROR,NXDOMAIN".parse().expect("codes");
    for edns in [None, Some(1232)] {
        spec.edns = edns;
        let total = run(&spec, millis(200));
        assert!(total.requests > 0 && total.errors.is_empty(), "{edns:?}: {total:?}");
    }
}

/// As `dig` does; before, each was an error.
#[test]
fn what_does_not_fit_into_a_datagram_is_asked_for_over_tcp() {
    let Some(server) = Dnsmasq::start() else { return };
    let mut spec = spec(&format!("dns://127.0.0.1:{}/large.example?type=TXT", server.port));
    for (rate, connections) in [(None, 2), (steady(100.0), 1)] {
        (spec.rate, spec.connections) = (rate, connections);
        let total = run(&spec, millis(300));
        assert!(total.requests > 0 && total.errors.is_empty(), "{total:?}");
        assert_eq!(
            (total.sent, total.datagrams.over_tcp),
            (total.requests + total.in_flight, total.requests)
        );
    }
    let large = Spec { edns: Some(4096), ..spec };
    let total = run(&large, millis(300));
    assert_eq!((total.errors.len(), total.datagrams.over_tcp), (0, 0), "it fits: {total:?}");
}

#[test]
fn a_name_server_is_checked() {
    let Some(server) = Dnsmasq::start() else { return };
    let url = |name: &str| format!("url = 'dns://127.0.0.1:{}/{name}'", server.port);
    passes(&url("a.example"));
    let missing = fails(&url("b.example"));
    assert!(missing.ends_with("/b.example failed: NXDOMAIN"), "{missing}");
}

#[test]
fn each_failure_has_its_class() {
    let mut count = 0u8;
    let address = datagrams(move |socket, answer, from| {
        answer[2] |= 0x80;
        match count % 8 {
            0 | 1 => {}
            // Truncated, or an error by its rcode.
            2 => answer[2] |= 0x02,
            3 => answer[3] |= 2,
            4 => answer[3] |= 5,
            5 => answer[3] |= 4,
            // A response to another query.
            6 => answer[13] ^= 1,
            _ => answer[0] ^= 0x80,
        }
        count = count.wrapping_add(1);
        let _ = socket.send_to(answer, from);
    });
    let mut spec = spec(&format!("dns://{address}/a.example?type=TXT"));
    (spec.connections, spec.timeout) = (3, millis(20));
    let total = run(&spec, millis(400));
    let count = |class| total.errors.get(&class).copied().unwrap_or(0);
    // Nothing listens on TCP, but the server was reached.
    let [(reason, _)] = total.reasons.of(ErrorClass::Connect)[..] else { panic!("{total:?}") };
    assert!(reason.starts_with("over TCP: Connection refused") && !total.unreachable, "{total:?}");
    let rcodes = [ErrorClass::Servfail, ErrorClass::Refused, ErrorClass::OtherRcode].map(count);
    let ended = [&rcodes[..], &[ErrorClass::Connect, ErrorClass::Timeout].map(count)].concat();
    assert!(total.requests > 0 && ended.iter().all(|count| *count > 0), "{total:?}");
    assert!(total.events[&Event::Stray] > 0, "{total:?}");
    assert_eq!(total.sent, total.requests + ended.iter().sum::<u64>() + total.in_flight, "{total:?}");
}
