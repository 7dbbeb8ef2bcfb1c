//! Packets of a tunnel arrive on one queue: the outer packets of all connections inside have the same addresses,
//! and in some tunnels the same ports.

use super::figures::{Evidence, Subject};
use super::hash_imbalance::odd;
use super::places::{Loaded, loaded_of};
use super::{Check, Finding, Rule, Severity};
use crate::family::PlanName;
use rxlab_base::number::percent;
use rxlab_path::evidence::{FULL, NO_DOUBLING, arrival_cpus, through_lo};
use rxlab_path::model::{Model, Nic, NicKind, Rates, RxQueue};

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
    /// A protocol that the kernel's hash does not read: all packets have the same hash.
    Undissected,
}

/// Kinds of link that put packets into others, as the kernel names them.
const TUNNELS: [(&str, Outer); 19] = [
    ("vxlan", Outer::VaryingPort),
    ("geneve", Outer::VaryingPort),
    ("bareudp", Outer::VaryingPort),
    ("wireguard", Outer::FixedPorts),
    ("ovpn", Outer::FixedPorts),
    ("gtp", Outer::FixedPorts),
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
    ("macsec", Outer::Undissected),
    ("rmnet", Outer::Undissected),
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
            "one queue takes far more packets than the others (as in hash-imbalance), or is the only one of a MACsec or \
             rmnet interface's device; a VXLAN, Geneve, WireGuard, GTP, IPsec, GRE, IP-in-IP, MACsec or rmnet interface \
             receives {} of that many, and the CPU of the queue spends {} of its time on receive work; critical at {} or \
             more",
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
    remedy: "For VXLAN and Geneve, a hash over UDP ports in the device, or RPS on it: the kernel's hash reads the ports. \
             RPS on the device is enough for GRE and IP in IP too: the kernel's hash reads the inner headers. For the \
             others, RPS on the tunnel's own interface spreads the connections inside once they are unwrapped; \
             unwrapping and decryption stay on the CPU of the queue, unless there are several peers or tunnels, or a flow \
             rule for the SPI of each security association.",
    source: "RFC 7348, section 5 (source port); Documentation/networking/scaling.rst (RSS, RPS); \
             net/core/flow_dissector.c, which has no case for ETH_P_MACSEC and ETH_P_MAP; drivers/net/gtp.c (gtp_dev_xmit)",
    check: Check::Device(finding),
};

/// The tunnel with most packets that can be in those of `nic`, and the header of its outer packets.
fn tunnel_over<'a>(model: &'a Model, rates: &Rates, nic: &Nic) -> Option<(&'a Nic, Outer)> {
    let others = model.nics.iter().filter(|other| other.kind == NicKind::Device && other.name != nic.name);
    let others: f64 = others.map(|other| rates.rx_packets(&other.name)).sum();
    let is_carried = |tunnel: &Nic| match &tunnel.stack.physical[..] {
        [] => others < rates.rx_packets(&tunnel.name) * ELSEWHERE,
        physical => physical.contains(&nic.name),
    };
    let tunnels = model.nics.iter().filter_map(|tunnel| {
        let kind = tunnel.stack.kind.as_deref()?;
        let (_, outer) = TUNNELS.iter().find(|(known, _)| *known == kind)?;
        is_carried(tunnel).then_some((tunnel, *outer))
    });
    tunnels.max_by(|a, b| rates.rx_packets(&a.0.name).total_cmp(&rates.rx_packets(&b.0.name)))
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

/// A queue of a device that takes the packets of a tunnel.
struct Tunnelled<'a> {
    nic: &'a Nic,
    queue: &'a RxQueue,
    /// Packets/s of the queue.
    packets: f64,
    /// Packets/s of the device's other queues on average, if it has some.
    others: Option<f64>,
    tunnel: &'a Nic,
    outer: Outer,
    /// Packets/s in the stack of other CPUs that can only be those inside the tunnel, if they account for these.
    inside_elsewhere: Option<f64>,
}

impl Tunnelled<'_> {
    /// True if the kernel's own hash tells the connections inside apart by the outer packets.
    fn is_spread_by_the_kernel(&self) -> bool {
        match self.outer {
            Outer::Inner => true,
            // A device that hashes them already would have spread them.
            Outer::VaryingPort => !hashes_ports(self.nic),
            Outer::FixedPorts | Outer::Spi | Outer::Undissected => false,
        }
    }

    fn why(&self) -> String {
        let name = &self.nic.name;
        match self.outer {
            Outer::VaryingPort if hashes_ports(self.nic) => {
                format!("{name} hashes UDP ports, so the sender's source port is fixed or the flows are few")
            }
            Outer::VaryingPort => format!(
                "{name} is not known to hash UDP ports, in which the sender puts a hash of the inner flow; \
                 `rss_fields_udp4 {name} = sdfn` would let it spread all of the work"
            ),
            Outer::Undissected => {
                "the hashes of the device and of the kernel do not read this protocol: all \
                                   connections have the same hash"
                    .to_owned()
            }
            Outer::FixedPorts | Outer::Spi | Outer::Inner => {
                "the device hashes the outer header, which is the same for all connections in the tunnel"
                    .to_owned()
            }
        }
    }

    fn remedy(&self) -> String {
        let (name, tunnel) = (&self.nic.name, &self.tunnel.name);
        let inner = if self.inside_elsewhere.is_some() {
            "other CPUs already process the connections inside".to_owned()
        } else if has_rps(self.tunnel) {
            format!("RPS on {tunnel}, which is on, spreads the connections inside")
        } else {
            format!("RPS on {tunnel} (rxlab plan rps --nic {tunnel}) spreads the connections inside")
        };
        match self.outer {
            Outer::VaryingPort if hashes_ports(self.nic) => inner,
            Outer::VaryingPort => format!(
                "let {name} hash UDP ports: rss_fields_udp4 {name} = sdfn; or RPS on {name}, as the kernel's hash reads \
                 them (rxlab plan rps --nic {name})"
            ),
            Outer::FixedPorts => {
                format!("{inner} once they are decrypted; several peers with a port each spread all of it")
            }
            Outer::Spi => format!(
                "{inner} once they are decrypted; several security associations, and a flow rule (ntuple_rule) for the \
                 SPI of each, spread all of it"
            ),
            Outer::Inner => format!(
                "RPS on {name}: the kernel's hash reads the inner headers, the device's does not (rxlab plan rps --nic \
                 {name})"
            ),
            Outer::Undissected => format!("{inner} once they are unwrapped"),
        }
    }
}

/// The queue of a device that takes the packets of a tunnel, as far as they are one flow to the device or to the kernel.
fn tunnelled<'a>(model: &'a Model, rates: &Rates, nic: &'a Nic) -> Option<Tunnelled<'a>> {
    let (tunnel, outer) = tunnel_over(model, rates, nic)?;
    let (queue, packets, others) = match (odd(rates, nic), &nic.rx[..]) {
        (Some(odd), _) if odd.alike.is_empty() => (odd.queue, odd.most, Some(odd.others)),
        (None, [queue]) if outer == Outer::Undissected => (queue, rates.rx_packets(&nic.name), None),
        _ => return None,
    };
    let inside = rates.rx_packets(&tunnel.name);
    let is_most = inside > 0.0 && inside >= packets * PART;
    let inside_elsewhere = inside_elsewhere(model, rates, tunnel, (queue, packets));
    is_most.then_some(Tunnelled { nic, queue, packets, others, tunnel, outer, inside_elsewhere })
}

/// Packets/s of other CPUs that neither devices nor `lo` bring, if they may be those inside the tunnel and the CPU of its queue
/// has no such packets: WireGuard receives where it decrypts (drivers/net/wireguard/receive.c).
fn inside_elsewhere(
    model: &Model,
    rates: &Rates,
    tunnel: &Nic,
    (queue, packets): (&RxQueue, f64),
) -> Option<f64> {
    let here = arrival_cpus(queue, model, rates);
    let stack = |is_here: bool| {
        let cpus = rates.cpus.iter().filter(|cpu| here.contains(cpu.cpu) == is_here);
        cpus.map(|cpu| cpu.packets).sum::<f64>()
    };
    let devices = model.nics.iter().filter(|nic| nic.kind == NicKind::Device);
    let of_devices: f64 = devices.map(|nic| rates.rx_packets(&nic.name)).sum();
    let part = rates.rx_packets(&tunnel.name) * PART;
    let others = stack(false) - (of_devices - packets) - through_lo(model, rates);
    let is_known = !rates.uncounted && !here.is_empty() && !has_rps(tunnel);
    (is_known && stack(true) < packets + part && others >= part).then_some(others)
}

/// Reason not to steer a device whose packets are mostly one flow of a tunnel, to the kernel's hash too.
pub(crate) fn one_outer_flow(model: &Model, rates: &Rates, nic: &Nic) -> Option<String> {
    let one = tunnelled(model, rates, nic).filter(|one| !one.is_spread_by_the_kernel())?;
    let inside = match one.inside_elsewhere {
        Some(_) => "other CPUs already process the connections inside".to_owned(),
        None => format!("RPS on {} spreads the connections inside", one.tunnel.name),
    };
    Some(format!(
        "most packets of {}/rx-{} are one flow, those of {}: a mask would hand all to one CPU; {inside}",
        nic.name, one.queue.index, one.tunnel.name
    ))
}

pub(super) fn finding(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let one = tunnelled(model, rates, nic)?;
    let queues = loaded_of(model, rates, nic);
    let is_it = |loaded: &&Loaded<'_>| loaded.queue.index == one.queue.index && loaded.load >= NO_DOUBLING;
    let loaded = queues.iter().find(is_it)?;
    let by_kernel = one.is_spread_by_the_kernel();
    // The kernel's hash spreads these packets as it does others.
    if by_kernel && loaded.mask().is_some() {
        return None;
    }
    let tunnel = one.tunnel;
    let kind = tunnel.stack.kind.as_deref().unwrap_or_default();
    let steered = if by_kernel { nic } else { tunnel };
    let is_done = has_rps(steered) || !by_kernel && one.inside_elsewhere.is_some();
    let mut evidence = vec![
        Evidence::about(loaded.subject(), |seen| {
            let packets = format!("{}: {} packets/s", loaded.name(), seen.packets("packets", one.packets));
            match one.others {
                Some(others) => format!(
                    "{packets}, the other queues {} on average",
                    seen.packets("packets_others", others)
                ),
                None => packets,
            }
        }),
        Evidence::about(Subject::nic(tunnel), |seen| {
            let packets = seen.packets("packets", rates.rx_packets(&tunnel.name));
            format!("{} ({kind}): {packets} packets/s", tunnel.name)
        }),
        loaded.evidence(rates),
    ];
    evidence.extend(one.inside_elsewhere.filter(|_| !by_kernel).map(|packets| {
        Evidence::about(Subject::nic(tunnel), |seen| {
            format!(
                "the other CPUs: {} packets/s that no device brings them",
                seen.packets("packets_inside", packets)
            )
        })
    }));
    Some(Finding {
        nic: Some(steered.name.clone()),
        plans: if is_done { Vec::new() } else { vec![PlanName::Rps] },
        severity: if loaded.load >= FULL { Severity::Critical } else { Severity::Warning },
        cpu: Some(loaded.cpu),
        title: match one.outer {
            Outer::VaryingPort => {
                format!(
                    "{} ({kind}) arrives on one queue, {}, and CPU {}",
                    tunnel.name,
                    loaded.name(),
                    loaded.cpu
                )
            }
            _ => {
                format!(
                    "{} ({kind}) arrives as one flow on {} and CPU {}",
                    tunnel.name,
                    loaded.name(),
                    loaded.cpu
                )
            }
        },
        evidence,
        why: one.why(),
        remedy: one.remedy(),
        ..RULE.finding()
    })
}

#[cfg(test)]
mod tests {
    use super::{RULE, TUNNELS, one_outer_flow};
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
        let found = found.finding(&RULE);
        assert!(
            found
                .why
                .contains("eth0 hashes UDP ports, so the sender's source port is fixed or the flows are few")
        );
        assert_eq!(found.nic.as_ref().map(|nic| nic.as_str()), Some("tun0"));
    }

    /// RFC 7348, section 5: the sender puts a hash of the inner flow into the source port, and the kernel's hash reads ports.
    #[test]
    fn the_kernel_spreads_packets_whose_port_varies() {
        for kind in ["vxlan", "geneve"] {
            let found = host(kind, &ONE).finding(&RULE);
            assert_eq!(found.nic.as_ref().map(|nic| nic.as_str()), Some("eth0"), "{kind}");
            assert!(found.why.contains("`rss_fields_udp4 eth0 = sdfn`"), "next to the plan: {}", found.why);
            assert!(!found.title.contains("one flow"), "{}", found.title);
            assert_eq!(objection(host(kind, &ONE)), None);
            host(kind, &ONE).rps("eth0", "4-7").silent(&RULE, "RPS reads the ports");
        }
        assert!(objection(host("wireguard", &ONE)).is_some());
    }

    fn objection(sketch: Sketch) -> Option<String> {
        let (model, rates) = sketch.build();
        one_outer_flow(&model, &rates, &model.nics[0])
    }

    #[test]
    fn protocols_that_the_kernel_s_hash_does_not_read() {
        for kind in ["macsec", "rmnet"] {
            let one = || {
                let sketch =
                    Sketch::new(4).device("wwan0", &[1]).traffic("wwan0", 6e4).receives(1, 0.85, 6e4);
                let sketch = sketch.veth("tun0").traffic("tun0", 5.9e4);
                sketch.edit("tun0", |nic| nic.stack.kind = Some(kind.to_owned()))
            };
            let found = one().finding(&RULE);
            assert_eq!(found.title, format!("tun0 ({kind}) arrives as one flow on wwan0/rx-0 and CPU 1"));
            assert_eq!(found.nic.as_ref().map(|nic| nic.as_str()), Some("tun0"));
            assert_eq!(found.seen()[0], "wwan0/rx-0: 60,000 packets/s");
            assert!(
                objection(one()).expect("one hash").ends_with("RPS on tun0 spreads the connections inside")
            );
            assert_eq!(host(kind, &ONE).findings(&RULE).len(), 1, "one of four queues");
        }
        let one = Sketch::new(4).device("eth0", &[1]).traffic("eth0", 9e4).receives(1, 0.85, 9e4);
        let one = one.veth("tun0").traffic("tun0", 8e4);
        let one = one.edit("tun0", |nic| nic.stack.kind = Some("wireguard".to_owned()));
        one.silent(&RULE, "a single queue may have many peers");
    }

    /// The CPUs that decrypt for WireGuard receive what is inside.
    #[test]
    fn no_plan_for_what_other_cpus_do_already() {
        let with = |packets: f64| host("wireguard", &ONE).all_receive("4-7", 0.08, packets);
        let found = with(2e4).finding(&RULE);
        assert_eq!(found.plans, []);
        assert!(found.remedy.starts_with("other CPUs already process"), "{}", found.remedy);
        assert_eq!(found.seen()[3], "the other CPUs: 77,090 packets/s that no device brings them");
        assert!(objection(with(2e4)).expect("one flow").ends_with("process the connections inside"));
        assert_eq!(with(2e3).finding(&RULE).plans, [PlanName::Rps], "too few to be those");
        let here = with(2e4).receives(2, 0.8, 1.7e5).finding(&RULE);
        assert_eq!(here.plans, [PlanName::Rps], "its own CPU receives as many");
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
