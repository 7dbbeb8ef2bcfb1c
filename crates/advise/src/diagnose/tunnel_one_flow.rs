//! Packets of a tunnel arrive as one flow: the outer packets of all connections inside have the same addresses,
//! and in some tunnels the same ports.

use super::figures::{Evidence, Subject};
use super::hash_imbalance::{OverloadedQueue, odd};
use super::places::{Loaded, loaded_of};
use super::{Check, Finding, Rule, Severity};
use crate::family::PlanName;
use rxlab_base::number::percent;
use rxlab_path::evidence::{FULL, NO_DOUBLING};
use rxlab_path::model::{Model, Nic, NicKind, Rates};

/// Header of a tunnel's outer packets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outer {
    /// UDP; the sender puts a hash of the inner flow into the source port.
    VaryingPort,
    /// UDP; all packets of a peer have the same ports.
    FixedPorts,
    /// ESP: no ports, but an SPI for each security association.
    Spi,
    /// No ports; the kernel's own hash reads the inner headers.
    Inner,
}

/// Kinds of link that put packets into others, as the kernel names them.
const TUNNELS: [(&str, Outer); 16] = [
    ("vxlan", Outer::VaryingPort),
    ("geneve", Outer::VaryingPort),
    ("bareudp", Outer::VaryingPort),
    ("wireguard", Outer::FixedPorts),
    ("ovpn", Outer::FixedPorts),
    ("xfrm", Outer::Spi),
    ("vti", Outer::Spi),
    ("vti6", Outer::Spi),
    ("gre", Outer::Inner),
    ("gretap", Outer::Inner),
    ("ip6gre", Outer::Inner),
    ("ip6gretap", Outer::Inner),
    ("erspan", Outer::Inner),
    ("ipip", Outer::Inner),
    ("sit", Outer::Inner),
    ("ip6tnl", Outer::Inner),
];

/// Part of the queue's packets that the tunnel accounts for, at least.
const PART: f64 = 0.5;

/// Part of the tunnel's packets that other devices may receive, all together: with more, the tunnel's may be among
/// those.
const ELSEWHERE: f64 = 0.5;

pub(super) const RULE: Rule = Rule {
    id: "tunnel-one-flow",
    asks: "Do the packets of a tunnel arrive as one flow on one CPU?",
    fires: || {
        format!(
            "one queue takes far more packets than the others (as in hash-imbalance), a VXLAN, Geneve, WireGuard, \
             IPsec, GRE or IP-in-IP interface receives {} of that many, and the CPU of the queue spends {} of its \
             time on receive work; critical at {} or more",
            percent(PART),
            percent(NO_DOUBLING),
            percent(FULL)
        )
    },
    silent: "the tunnel's packets are spread over the queues, or a few queues take about as many, that CPU has time, \
             the tunnel is made of another device, or other devices receive enough packets to carry it. IPsec without \
             an interface of its own (xfrm, vti) is not recognized",
    evidence: "packets/s of the queue and of the tunnel, the time of the queue's CPU",
    cause: "The device hashes the outer header. Between two hosts it is the same for all connections in a tunnel, \
            unless the sender varies the source port (VXLAN, Geneve) and the device hashes ports of UDP.",
    remedy: "RPS on the tunnel's own interface spreads the connections inside once they are unwrapped; unwrapping, and \
             for IPsec decryption, stay on the CPU of the queue. To spread these too: a hash over UDP ports (VXLAN, \
             Geneve), several peers or tunnels, a flow rule for the SPI of each security association. For GRE and IP \
             in IP, RPS on the device is enough: the kernel's hash reads the inner headers.",
    source: "RFC 7348, section 5 (source port); Documentation/networking/scaling.rst (RSS, RPS); \
             net/core/flow_dissector.c",
    check: Check::Device(finding),
};

/// The tunnel with most packets that can be in those of `nic`, and the header of its outer packets.
fn tunnel_over<'a>(model: &'a Model, rates: &Rates, nic: &Nic) -> Option<(&'a Nic, Outer)> {
    let tunnels = model.nics.iter().filter_map(|tunnel| {
        let kind = tunnel.stack.kind.as_deref()?;
        let (_, outer) = TUNNELS.iter().find(|(known, _)| *known == kind)?;
        Some((tunnel, *outer))
    });
    let (tunnel, outer) =
        tunnels.max_by(|a, b| rates.rx_packets(&a.0.name).total_cmp(&rates.rx_packets(&b.0.name)))?;
    let physical = &tunnel.stack.physical;
    let others = model.nics.iter().filter(|other| other.kind == NicKind::Device && other.name != nic.name);
    let others: f64 = others.map(|other| rates.rx_packets(&other.name)).sum();
    let carried = if physical.is_empty() {
        others < rates.rx_packets(&tunnel.name) * ELSEWHERE
    } else {
        physical.contains(&nic.name)
    };
    carried.then_some((tunnel, outer))
}

/// True if the device is known to hash the ports of UDP.
fn hashes_ports(nic: &Nic) -> bool {
    let kinds = nic.hardware.hash_fields.known().into_iter().flatten();
    kinds
        .filter(|kind| kind.kind.starts_with("udp"))
        .any(|kind| kind.fields.iter().any(|field| field == "l4-b-0-1"))
}

/// True if a queue of the interface has an RPS mask.
fn has_rps(nic: &Nic) -> bool {
    nic.rx.iter().any(|queue| queue.rps_cpus.known().is_some_and(|mask| !mask.is_empty()))
}

fn remedy(nic: &Nic, tunnel: &Nic, outer: Outer) -> String {
    let inner = if has_rps(tunnel) {
        format!("RPS on {}, which is on, spreads the connections inside", tunnel.name)
    } else {
        format!(
            "RPS on {} (rxlab plan rps --nic {}) spreads the connections inside",
            tunnel.name, tunnel.name
        )
    };
    match outer {
        Outer::VaryingPort if hashes_ports(nic) => {
            format!(
                "{inner}; {} hashes UDP ports, so the sender's source port is fixed or the flows are few",
                nic.name
            )
        }
        Outer::VaryingPort => format!(
            "let {} hash UDP ports, which the sender varies by inner flow: rss_fields_udp4 {} = sdfn; {inner}",
            nic.name, nic.name
        ),
        Outer::FixedPorts => {
            format!("{inner} once they are decrypted; several peers with a port each spread all of it")
        }
        Outer::Spi => format!(
            "{inner} once they are decrypted; several security associations, and a flow rule (ntuple_rule) for the SPI of \
             each, spread all of it"
        ),
        Outer::Inner => format!(
            "RPS on {}: the kernel's hash reads the inner headers, the device's does not (rxlab plan rps --nic {})",
            nic.name, nic.name
        ),
    }
}

/// The queue of a device that takes one flow of a tunnel, and the tunnel.
fn tunnelled<'a>(
    model: &'a Model,
    rates: &Rates,
    nic: &'a Nic,
) -> Option<(OverloadedQueue<'a>, &'a Nic, Outer)> {
    let odd = odd(rates, nic).filter(|odd| odd.alike.is_empty())?;
    let (tunnel, outer) = tunnel_over(model, rates, nic)?;
    (rates.rx_packets(&tunnel.name) >= odd.most * PART).then_some((odd, tunnel, outer))
}

/// Reason not to steer a device whose packets are mostly one flow of a tunnel, to the kernel's hash too.
pub(crate) fn one_outer_flow(model: &Model, rates: &Rates, nic: &Nic) -> Option<String> {
    let (odd, tunnel, outer) = tunnelled(model, rates, nic)?;
    (outer != Outer::Inner).then(|| {
        format!(
            "most packets of {}/rx-{} are one flow, those of {}: a mask would hand all to one CPU; RPS on {} spreads \
             the connections inside",
            nic.name, odd.queue.index, tunnel.name, tunnel.name
        )
    })
}

pub(super) fn finding(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let (odd, tunnel, outer) = tunnelled(model, rates, nic)?;
    let queues = loaded_of(model, rates, nic);
    let is_it = |loaded: &&Loaded<'_>| loaded.queue.index == odd.queue.index && loaded.load >= NO_DOUBLING;
    let loaded = queues.iter().find(is_it)?;
    // The kernel's hash spreads these packets as it does others.
    if outer == Outer::Inner && loaded.mask().is_some() {
        return None;
    }
    let kind = tunnel.stack.kind.as_deref().unwrap_or_default();
    let steered = if outer == Outer::Inner { nic } else { tunnel };
    Some(Finding {
        nic: Some(steered.name.clone()),
        plans: if has_rps(steered) { Vec::new() } else { vec![PlanName::Rps] },
        severity: if loaded.load >= FULL { Severity::Critical } else { Severity::Warning },
        cpu: Some(loaded.cpu),
        title: format!(
            "{} ({kind}) arrives as one flow on {} and CPU {}",
            tunnel.name,
            loaded.name(),
            loaded.cpu
        ),
        evidence: vec![
            Evidence::about(loaded.subject(), |seen| {
                let (most, others) =
                    (seen.packets("packets", odd.most), seen.packets("packets_others", odd.others));
                format!("{}: {most} packets/s, the other queues {others} on average", loaded.name())
            }),
            Evidence::about(Subject::nic(tunnel), |seen| {
                format!(
                    "{} ({kind}): {} packets/s",
                    tunnel.name,
                    seen.packets("packets", rates.rx_packets(&tunnel.name))
                )
            }),
            loaded.evidence(rates),
        ],
        why: "the device hashes the outer header, which is the same for all connections in the tunnel"
            .to_owned(),
        remedy: remedy(nic, tunnel, outer),
        ..RULE.finding()
    })
}

#[cfg(test)]
mod tests {
    use super::{RULE, TUNNELS};
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use crate::diagnose::{Finding, Severity};
    use crate::family::PlanName;
    use rxlab_base::parse::ethtool::HashFields;
    use rxlab_base::units::Fact;

    fn host(kind: &str, queues: &[f64; 4]) -> Sketch {
        let sketch = Sketch::new(8).device("eth0", &[0, 1, 2, 3]).queue_traffic("eth0", queues);
        let sketch = sketch.receives(2, 0.8, 9e4).veth("tun0").traffic("tun0", 8e4);
        sketch.edit("tun0", |nic| nic.stack.kind = Some(kind.to_owned()))
    }

    const ONE: [f64; 4] = [1e3, 1e3, 9e4, 1e3];

    #[test]
    fn each_tunnel_has_its_remedy() {
        let found = host("wireguard", &ONE).finding(&RULE);
        assert_eq!(found.title, "tun0 (wireguard) arrives as one flow on eth0/rx-2 and CPU 2");
        let asked = |found: &Finding| (found.nic.as_ref().map(ToString::to_string), found.plans.clone());
        assert_eq!(asked(&found), (Some("tun0".into()), vec![PlanName::Rps]));
        assert_eq!(asked(&host("gre", &ONE).finding(&RULE)), (Some("eth0".into()), vec![PlanName::Rps]));
        assert!(found.remedy.starts_with("RPS on tun0 (rxlab plan rps --nic tun0)"), "{}", found.remedy);
        assert!(found.seen()[1].starts_with("tun0 (wireguard): 80,000"), "{}", found.seen()[1]);
        assert_eq!(found.severity, Severity::Warning);
        assert_eq!(
            host("wireguard", &ONE).receives(2, 0.97, 9e4).finding(&RULE).severity,
            Severity::Critical
        );
        let remedy = |kind: &str| host(kind, &ONE).finding(&RULE).remedy;
        for (kind, words) in [
            ("vxlan", "rss_fields_udp4 eth0 = sdfn"),
            ("xfrm", "for the SPI of each"),
            ("gre", "reads the inner headers"),
        ] {
            assert!(remedy(kind).contains(words), "{kind}: {}", remedy(kind));
        }
        for (kind, _) in TUNNELS {
            assert!(!remedy(kind).is_empty(), "{kind}");
        }
    }

    #[test]
    fn a_device_that_hashes_ports_already_is_not_told_to() {
        let fields = ["ip-src", "ip-dst", "l4-b-0-1", "l4-b-2-3"].map(str::to_owned).to_vec();
        let hashed = vec![HashFields { kind: "udp4".to_owned(), fields }];
        let found = host("vxlan", &ONE).edit("eth0", |nic| nic.hardware.hash_fields = Fact::Known(hashed));
        let remedy = found.finding(&RULE).remedy;
        assert!(
            remedy.ends_with(
                "eth0 hashes UDP ports, so the sender's source port is fixed or the flows are few"
            )
        );
    }

    #[test]
    fn near_misses() {
        host("veth", &ONE).silent(&RULE, "no tunnel");
        host("vxlan", &[2e4; 4]).silent(&RULE, "spread");
        let two = Sketch::new(8).device("eth0", &[0, 1, 2, 3, 4, 5, 6, 7]);
        let two = two.queue_traffic("eth0", &[1e3, 1e3, 9e4, 9e4, 1e3, 1e3, 1e3, 1e3]).receives(2, 0.8, 9e4);
        let two = two.veth("tun0").traffic("tun0", 1.7e5);
        let two = two.edit("tun0", |nic| nic.stack.kind = Some("wireguard".to_owned()));
        two.silent(&RULE, "two flows");
        host("vxlan", &ONE).traffic("tun0", 1e4).silent(&RULE, "most packets are others");
        host("vxlan", &ONE).receives(2, 0.3, 9e4).silent(&RULE, "time to spare");
        host("gre", &ONE).rps("eth0", "4-7").silent(&RULE, "RPS reads the inner headers");
        let both = host("wireguard", &ONE).rps("eth0", "4-7").rps("tun0", "4-7").finding(&RULE);
        assert!(both.remedy.starts_with("RPS on tun0, which is on,"), "{}", both.remedy);
        assert_eq!(both.plans, []);
    }

    #[test]
    fn the_tunnel_must_go_through_the_device() {
        let two = || host("wireguard", &ONE).device("eth1", &[6]).traffic("eth1", 8.5e4);
        two().silent(&RULE, "eth1 may carry it");
        let over = |name: &str| {
            let physical = vec![name.parse().expect("a name")];
            two().edit("tun0", |nic| nic.stack.physical = physical).findings(&RULE)
        };
        assert_eq!(over("eth0").len(), 1, "the tunnel is made of eth0");
        assert_eq!(over("eth1"), [], "the tunnel is made of eth1");
    }
}
