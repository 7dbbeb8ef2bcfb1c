//! Packets that reach a socket and find no room in it.

use super::figures::{Evidence, Subject, Unit};
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::{count, percent};
use rxlab_path::evidence::LOST;
use rxlab_path::model::{LosingSocket, LossRates, Model, Rates, Transport};

/// Part of what arrives from which losses matter, as for rings: TCP's rate falls with its square root.
const NOTICEABLE_LOSS: f64 = 1e-4;

/// Part of the datagrams from which their loss is critical: most protocols over UDP do not repeat what is lost, and voice
/// and name lookups are visibly worse from about one percent.
const SERIOUS: f64 = 0.01;

/// Part of a socket's default buffer that is unread in both samples from which its program reads too slowly: bursts are
/// over by the second sample.
const BEHIND: f64 = 0.5;

/// Part of the losses for which the memory of all sockets is to blame.
const MEMORY: f64 = 0.5;

/// Sockets in the evidence.
const SHOWN: usize = 3;

pub(super) const RULE: Rule = Rule {
    id: "socket-drops",
    asks: "Do packets arrive at sockets that have no room for them?",
    fires: || {
        format!(
            "at least {} datagram/s and {} % of those that arrive find a full buffer (UdpRcvbufErrors, \
             UdpMemErrors and the same of UDP over IPv6), or as many segments do (TcpExtTCPBacklogDrop, TCPRcvQDrop, \
             TCPOFODrop); critical at {} of the datagrams",
            count(LOST),
            NOTICEABLE_LOSS * 100.0,
            percent(SERIOUS)
        )
    },
    silent: "they were lost before the sample but not during it, the counters could not be read, or the sockets are in \
             another network namespace. Datagrams to a port without a socket are no loss",
    evidence: "lost and received per second, the sockets with the most losses, their processes and unread bytes, the size of \
               buffers",
    cause: "The program reads more slowly than packets arrive, or bursts are longer than the buffer of its socket.",
    remedy: "If the buffer is full all the time: more readers (several sockets with SO_REUSEPORT) or less work for each \
             packet. Against bursts: a larger buffer, by SO_RCVBUF of the program (at most net.core.rmem_max) or \
             net.core.rmem_default, which its next socket gets.",
    source: "net/ipv4/udp.c __udp_enqueue_schedule_skb; net/ipv4/tcp_ipv4.c tcp_add_backlog; \
             Documentation/networking/snmp_counter.rst; socket(7) SO_RCVBUF",
    check: Check::Machine(check),
};

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    let Some(losses) = rates.losses.known() else { return Vec::new() };
    udp(model, rates, losses).into_iter().chain(tcp(losses)).collect()
}

/// The public sockets of a transport that lose packets, most losses first.
pub(super) fn losing(rates: &Rates, transport: Transport) -> impl Iterator<Item = &LosingSocket> {
    let sockets = rates.losing.known().into_iter().flatten();
    sockets.filter(move |socket| socket.transport == transport)
}

/// Port and owner, such as `UDP port 53 of named`.
pub(super) fn place(socket: &LosingSocket) -> String {
    let (transport, port) = (socket.transport.to_string().to_uppercase(), socket.port);
    match &socket.owners[..] {
        [] => format!("{transport} port {port}"),
        [(_, command), ..] => format!("{transport} port {port} of {command}"),
    }
}

pub(super) fn subject(socket: &LosingSocket) -> Subject {
    match &socket.owners[..] {
        [] => Subject::Machine,
        [(pid, command), ..] => Subject::Process { pid: *pid, command: command.clone() },
    }
}

fn udp(model: &Model, rates: &Rates, losses: &LossRates) -> Option<Finding> {
    let rate = |name| losses.rate(name);
    let memory = rate("UdpMemErrors") + rate("Udp6MemErrors");
    let lost = rate("UdpRcvbufErrors") + rate("Udp6RcvbufErrors") + memory;
    // Datagrams count as received when they are read.
    let read = rate("UdpInDatagrams") + rate("Udp6InDatagrams");
    let part = lost / (lost + read);
    if lost < LOST || part < NOTICEABLE_LOSS {
        return None;
    }
    let settings = &model.settings;
    let mut evidence = vec![Evidence::about(Subject::Machine, |seen| {
        format!(
            "UDP: {} datagrams/s find no room in their socket, {} are read ({} lost)",
            seen.packets("socket_drops", lost),
            seen.packets("datagrams", read),
            seen.precise_percent("lost", part)
        )
    })];
    evidence.extend(losing(rates, Transport::Udp).take(SHOWN).map(|socket| {
        Evidence::about(subject(socket), |seen| {
            let pids: Vec<String> = socket.owners.iter().map(|(pid, _)| pid.to_string()).collect();
            let pids = if pids.is_empty() { "owner not visible".to_owned() } else { pids.join(", ") };
            format!(
                "{} ({pids}): {} drops/s; {} and {} bytes unread in the two samples",
                place(socket),
                seen.packets("dropped", socket.dropped),
                count(seen.figure("unread_before", socket.queued_before as f64, Unit::Bytes)),
                count(seen.figure("unread", socket.queued as f64, Unit::Bytes))
            )
        })
    }));
    let named: f64 = losing(rates, Transport::Udp).map(|socket| socket.dropped).sum();
    let first = losing(rates, Transport::Udp).next();
    if named < lost / 2.0 {
        evidence.push(Evidence::fact(
            Subject::Machine,
            "the other drops are of sockets that are connected or were closed, or whose drops are not reported",
        ));
    }
    let buffers = (settings.rmem_default.known(), settings.rmem_max.known());
    if let (Some(default), Some(max)) = buffers {
        evidence.push(Evidence::about(Subject::Machine, |seen| {
            let default = count(seen.figure("rmem_default", f64::from(*default), Unit::Bytes));
            let max = count(seen.figure("rmem_max", f64::from(*max), Unit::Bytes));
            format!("buffers: net.core.rmem_default {default} bytes, rmem_max {max} bytes")
        }));
    }
    let full = settings.rmem_default.known().map(|default| BEHIND * f64::from(*default));
    let is_behind =
        first.zip(full).is_some_and(|(socket, full)| socket.queued_before.min(socket.queued) as f64 >= full);
    let (why, remedy) = if memory >= lost * MEMORY {
        let why = "the memory of all UDP sockets together is used up (net.ipv4.udp_mem)";
        (why, "find the sockets with the most unread bytes (`ss -uamn`), or raise net.ipv4.udp_mem")
    } else if is_behind {
        let why = "its buffer is full in both samples: the program reads more slowly than datagrams arrive";
        (why, "more readers (SO_REUSEPORT) or less work per datagram; a larger buffer only adds delay")
    } else {
        let why = "the buffer fills between two reads: bursts are longer than it, or the program pauses";
        let remedy = "a larger buffer: the program's SO_RCVBUF (`rmem_max host = N` allows more), or `rmem_default host \
                      = N` and a restart of the program; or read more often";
        (why, remedy)
    };
    let whose = first.filter(|socket| socket.dropped >= lost / 2.0);
    Some(Finding {
        severity: if part >= SERIOUS { Severity::Critical } else { Severity::Warning },
        title: match whose {
            Some(socket) => format!("{} drops {} datagrams/s", place(socket), count(lost)),
            None => format!("UDP sockets drop {} datagrams/s", count(lost)),
        },
        evidence,
        why: why.to_owned(),
        remedy: remedy.to_owned(),
        ..RULE.finding()
    })
}

fn tcp(losses: &LossRates) -> Option<Finding> {
    let counters = ["TcpExtTCPBacklogDrop", "TcpExtTCPRcvQDrop", "TcpExtTCPOFODrop"];
    let lost: f64 = counters.iter().map(|counter| losses.rate(counter)).sum();
    let arrived = losses.rate("TcpInSegs");
    // `TcpInSegs` counts what GRO merged as one, as the counters of drops do.
    if lost < LOST || lost < NOTICEABLE_LOSS * arrived {
        return None;
    }
    let pressure = losses.rate("TcpExtTCPMemoryPressures") > 0.0;
    let names = counters.iter().filter(|counter| losses.rate(counter) > 0.0);
    let evidence = Evidence::about(Subject::Machine, |seen| {
        let each = names.map(|name| format!("{name} {}/s", seen.packets(name, losses.rate(name))));
        let each = each.collect::<Vec<_>>().join(", ");
        format!("TCP: {each}; {} segments/s arrive", seen.packets("segments", arrived))
    });
    let (why, remedy) = if pressure {
        (
            "the memory of all TCP sockets together is short (net.ipv4.tcp_mem)",
            "raise net.ipv4.tcp_mem, or buffer less",
        )
    } else {
        let why = "segments arrive faster than programs read, and the buffers of their connections are full";
        (why, "more readers, or larger buffers (net.ipv4.tcp_rmem, or the program's SO_RCVBUF)")
    };
    Some(Finding {
        severity: Severity::Warning,
        title: format!("TCP sockets drop {} segments/s", count(lost)),
        evidence: vec![evidence],
        why: why.to_owned(),
        remedy: remedy.to_owned(),
        ..RULE.finding()
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::Severity;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use rxlab_base::units::Fact;
    use rxlab_path::model::Transport;

    fn host(lost: f64, read: f64) -> Sketch {
        let sketch = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 5e4);
        let sketch = sketch.lost("UdpRcvbufErrors", lost).lost("UdpInDatagrams", read);
        sketch.set(|settings| {
            (settings.rmem_default, settings.rmem_max) = (Fact::Known(212_992), Fact::Known(4_194_304));
        })
    }

    #[test]
    fn the_socket_and_its_process_are_named() {
        let found = host(900.0, 49_100.0).losing(Transport::Udp, 8125, 900.0, "statsd").finding(&RULE);
        assert_eq!(found.title, "UDP port 8125 of statsd drops 900 datagrams/s");
        assert_eq!(found.severity, Severity::Critical);
        assert_eq!(
            found.seen()[1],
            "UDP port 8125 of statsd (900): 900 drops/s; 0 and 0 bytes unread in the two samples"
        );
        assert!(found.why.starts_with("the buffer fills between") && found.remedy.contains("rmem_max host"));
        let anonymous = host(20.0, 49_980.0).finding(&RULE);
        assert_eq!(
            (anonymous.title.as_str(), anonymous.severity),
            ("UDP sockets drop 20 datagrams/s", Severity::Warning)
        );
        assert!(anonymous.seen()[1].starts_with("the other drops"), "{anonymous:?}");
    }

    #[test]
    fn a_program_that_reads_too_slowly_needs_no_larger_buffer() {
        let behind = host(900.0, 100.0).losing(Transport::Udp, 53, 900.0, "named").measured(|rates| {
            let Fact::Known(losing) = &mut rates.losing else { panic!("known") };
            (losing[0].queued_before, losing[0].queued) = (212_000, 211_000);
        });
        let found = behind.finding(&RULE);
        assert!(found.remedy.contains("a larger buffer only adds delay"), "{found:?}");
        let memory = host(9.0, 100.0).lost("UdpMemErrors", 900.0).finding(&RULE);
        assert!(memory.why.contains("udp_mem"), "{memory:?}");
    }

    #[test]
    fn connections_lose_segments() {
        let found = host(0.0, 0.0).lost("TcpExtTCPBacklogDrop", 30.0).lost("TcpInSegs", 5e4).finding(&RULE);
        assert_eq!(found.title, "TCP sockets drop 30 segments/s");
        assert_eq!(found.seen(), ["TCP: TcpExtTCPBacklogDrop 30/s; 50,000 segments/s arrive"]);
        let pressure = host(0.0, 0.0).lost("TcpExtTCPRcvQDrop", 30.0).lost("TcpExtTCPMemoryPressures", 0.2);
        assert!(pressure.finding(&RULE).why.contains("tcp_mem"));
    }

    #[test]
    fn near_misses() {
        host(0.5, 100.0).silent(&RULE, "one in two seconds");
        host(2.0, 49_998.0).silent(&RULE, "0.004 %");
        host(0.0, 0.0).lost("TcpExtTCPBacklogDrop", 2.0).lost("TcpInSegs", 5e4).silent(&RULE, "0.004 %");
        host(900.0, 0.0).measured(|rates| rates.losses = Fact::NotAsked).silent(&RULE, "not read");
    }
}
