//! Connections that are refused silently because a listening socket's queue is full.

use super::figures::{Evidence, Subject, Unit};
use super::socket_drops::{losing, place, subject};
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::{count, percent};
use rxlab_path::evidence::LOST;
use rxlab_path::model::{LosingSocket, Model, Rates, Transport};

/// Part of the connections from which drops matter: the client of each waits at least a second for its next SYN, which
/// is then the 99.9th percentile of its latency.
const NOTICEABLE: f64 = 1e-3;

/// Part from which they are critical: the 99th percentile.
const SERIOUS: f64 = 0.01;

/// Sockets in the evidence.
const SHOWN: usize = 3;

pub(super) const RULE: Rule = Rule {
    id: "listen-overflow",
    asks: "Are connections dropped because the queue of a listening socket is full?",
    fires: || {
        format!(
            "at least {} connection/s and {} of those that arrive find a full accept queue (TcpExtListenOverflows) or a full \
             SYN queue (TcpExtTCPReqQFullDrop); critical at {}",
            count(LOST),
            rxlab_base::number::precise_percent(NOTICEABLE),
            percent(SERIOUS)
        )
    },
    silent: "they were dropped before the sample but not during it, for another reason, or in another network namespace; SYN \
             cookies answered what the SYN queue had no room for",
    evidence: "dropped and accepted connections per second, the sockets with the most drops, their processes, their queues and \
               limits",
    cause: "The program accepts connections more slowly than they arrive, or its queue (the backlog of listen(), at most \
            net.core.somaxconn) is too short for bursts.",
    remedy: "More threads that accept, or a longer queue: the program's backlog and net.core.somaxconn, then a restart. \
             Against a full SYN queue: SYN cookies or net.ipv4.tcp_max_syn_backlog.",
    source: "listen(2); net/ipv4/tcp_ipv4.c tcp_v4_syn_recv_sock; net/ipv4/tcp_input.c tcp_conn_request; \
             Documentation/networking/ip-sysctl.rst (somaxconn, tcp_max_syn_backlog)",
    check: Check::Machine(check),
};

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    let Some(losses) = rates.losses.known() else { return Vec::new() };
    let (overflows, requests) = (losses.rate("TcpExtListenOverflows"), losses.rate("TcpExtTCPReqQFullDrop"));
    let (lost, opened) = (overflows + requests, losses.rate("TcpPassiveOpens"));
    let part = lost / (lost + opened);
    if lost < LOST || part < NOTICEABLE {
        return Vec::new();
    }
    let socket = losing(rates, Transport::Tcp).next();
    let mut evidence = vec![Evidence::about(Subject::Machine, |seen| {
        format!(
            "TCP: {} drops/s at full accept queues, {} at full SYN queues; {} connections/s are accepted",
            seen.rate("listen_overflows", overflows),
            seen.rate("request_drops", requests),
            seen.rate("accepted", opened)
        )
    })];
    evidence.extend(losing(rates, Transport::Tcp).take(SHOWN).map(line));
    let settings = &model.settings;
    if let (Some(max), Some(requests)) = (settings.somaxconn.known(), settings.tcp_max_syn_backlog.known()) {
        evidence.push(Evidence::about(Subject::Machine, |seen| {
            let max = seen.figure("somaxconn", f64::from(*max), Unit::Count);
            let requests = seen.figure("tcp_max_syn_backlog", f64::from(*requests), Unit::Count);
            format!("net.core.somaxconn {max}, net.ipv4.tcp_max_syn_backlog {requests}")
        }));
    }
    let (why, remedy) = if requests > overflows {
        let why = "more clients are in the middle of their handshake than the SYN queue holds";
        (why, "SYN cookies (net.ipv4.tcp_syncookies = 1) or `tcp_max_syn_backlog host = N`; a flood of SYNs looks the same".to_owned())
    } else {
        (
            "the program accepts connections more slowly than they arrive",
            longer(socket, settings.somaxconn.known()),
        )
    };
    let whose = socket.filter(|socket| socket.dropped >= lost / 2.0);
    vec![Finding {
        severity: if part >= SERIOUS { Severity::Critical } else { Severity::Warning },
        title: match whose {
            Some(socket) => format!("{} drops {} connections/s", place(socket), count(lost)),
            None => format!("listening sockets drop {} connections/s", count(lost)),
        },
        evidence,
        why: why.to_owned(),
        remedy,
        ..RULE.finding()
    }]
}

fn line(socket: &LosingSocket) -> Evidence {
    Evidence::about(subject(socket), |seen| {
        let pids: Vec<String> = socket.owners.iter().map(|(pid, _)| pid.to_string()).collect();
        let pids = if pids.is_empty() { "owner not visible".to_owned() } else { pids.join(", ") };
        let dropped = seen.rate("dropped", socket.dropped);
        let before = seen.figure("waiting_before", socket.queued_before as f64, Unit::Count);
        let now = seen.figure("waiting", socket.queued as f64, Unit::Count);
        let limit = socket.limit.map_or(String::new(), |limit| {
            format!(", at most {}", seen.figure("limit", limit as f64, Unit::Count))
        });
        format!(
            "{} ({pids}): {dropped} drops/s; {before} and {now} connections wait in the two samples{limit}",
            place(socket)
        )
    })
}

/// Advice by the limit of the socket: only the program can raise its own, and only up to the kernel's.
fn longer(socket: Option<&LosingSocket>, max: Option<&u32>) -> String {
    let threads = "more threads that accept";
    match (socket.and_then(|socket| socket.limit), max) {
        (Some(limit), Some(max)) if limit < u64::from(*max) => {
            format!(
                "{threads}; a longer queue: the program's backlog of listen() is {limit}, {max} are allowed"
            )
        }
        (Some(limit), Some(_)) => format!(
            "{threads}; a longer queue: `somaxconn host = N` (now {limit}), a backlog of listen() as long, and a restart of \
             the program"
        ),
        _ => format!(
            "{threads}; a longer queue: `somaxconn host = N`, the program's backlog of listen(), and its restart"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::Severity;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use rxlab_base::units::Fact;
    use rxlab_path::model::Transport;

    fn host(overflows: f64, opened: f64) -> Sketch {
        let sketch = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 5e4);
        let sketch = sketch.lost("TcpExtListenOverflows", overflows).lost("TcpExtListenDrops", overflows);
        sketch.lost("TcpPassiveOpens", opened).set(|settings| {
            (settings.somaxconn, settings.tcp_max_syn_backlog) = (Fact::Known(4096), Fact::Known(2048));
        })
    }

    fn limited(limit: u64) -> Sketch {
        host(40.0, 960.0).losing(Transport::Tcp, 80, 40.0, "web").measured(|rates| {
            let Fact::Known(losing) = &mut rates.losing else { panic!("known") };
            (losing[0].queued, losing[0].limit) = (limit + 1, Some(limit));
        })
    }

    #[test]
    fn a_queue_is_limited_by_its_program_or_by_the_kernel() {
        let found = limited(128).finding(&RULE);
        assert_eq!(
            (found.title.as_str(), found.severity),
            ("TCP port 80 of web drops 40 connections/s", Severity::Critical)
        );
        let seen = "TCP port 80 of web (900): 40 drops/s; 0 and 129 connections wait in the two samples, at most 128";
        assert_eq!(found.seen()[1], seen);
        assert!(found.remedy.ends_with("backlog of listen() is 128, 4096 are allowed"), "{}", found.remedy);
        assert!(limited(4096).finding(&RULE).remedy.contains("`somaxconn host = N` (now 4096)"));
        let unnamed = host(2.0, 998.0).finding(&RULE);
        assert_eq!(
            (unnamed.title.as_str(), unnamed.severity),
            ("listening sockets drop 2 connections/s", Severity::Warning)
        );
    }

    #[test]
    fn handshakes_have_a_queue_of_their_own() {
        let found = host(0.0, 500.0).lost("TcpExtTCPReqQFullDrop", 300.0).finding(&RULE);
        assert!(found.remedy.contains("tcp_max_syn_backlog host"), "{found:?}");
    }

    #[test]
    fn near_misses() {
        host(0.5, 10.0).silent(&RULE, "one in two seconds");
        host(2.0, 9e3).silent(&RULE, "0.02 %");
        host(0.0, 500.0).lost("TcpExtListenDrops", 50.0).silent(&RULE, "for another reason");
        host(0.0, 500.0).lost("TcpExtTCPReqQFullDoCookies", 50.0).silent(&RULE, "answered with cookies");
    }
}
