//! The host delays or drops packets of a virtual machine because they exceed what it allows.

use super::figures::{Evidence, Subject};
use super::places::mean;
use super::workload::carries_traffic;
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::{count, percent, plural};
use rxlab_base::units::CpuMask;
use rxlab_path::drivers::{Limit, limit};
use rxlab_path::evidence::{LOST, full_link};
use rxlab_path::model::{Model, Nic, NicKind, Rates};

pub(super) const RULE: Rule = Rule {
    id: "limited-by-the-host",
    asks: "Does the host delay or drop packets because they exceed a limit that it sets?",
    fires: || {
        format!(
            "a device counted {} packet/s or more over a limit during the sample: one of ENA's statistics \
             bw_in_, bw_out_, pps_, conntrack_ and linklocal_allowance_exceeded, or the kernel's rx- and \
             tx-hw-drop-ratelimits of any driver (virtio_net); or an interface carries traffic, and the hypervisor takes \
             {} of the time of all CPUs (steal)",
            count(LOST),
            percent(STEAL)
        )
    },
    silent: "the limit was exceeded before the sample but not during it, little time is taken, or the device counts nothing of the kind: \
             gve, mana, hv_netvsc and vmxnet3 do not",
    evidence: "each statistic that grew, packets/s received and sent; steal time, the CPU that loses most",
    cause: "The provider limits bandwidth, packets/s, tracked connections or packets to its own services for each \
            instance or interface, before packets reach this machine or after they left it; or the time of its CPUs.",
    remedy: "A larger instance, or less traffic: fewer and larger packets, connections that the host need not track, a \
             local name server. More queues, RPS and RFS change nothing.",
    source: "drivers/net/ethernet/amazon/ena/ena_ethtool.c (ena_stats_eni_strings); \
             Documentation/netlink/specs/netdev.yaml (qstats)",
    check: Check::Machine(check),
};

/// Statistics of an interface that count packets over a limit, with the limit and packets/s, most first.
fn exceeded<'a>(rates: &'a Rates, nic: &Nic) -> Vec<(&'a str, Limit, f64)> {
    let counted = rates.nic(&nic.name).into_iter().flat_map(|rates| &rates.limited);
    let known = counted.filter(|(_, rate)| **rate >= LOST).filter_map(|(statistic, rate)| {
        Some((statistic.as_str(), limit(nic.driver.as_deref(), statistic)?, *rate))
    });
    let mut exceeded: Vec<(&str, Limit, f64)> = known.collect();
    exceeded.sort_by(|a, b| b.2.total_cmp(&a.2));
    exceeded
}

/// True if a limit that the host sets bounds how much traffic the interface carries.
fn bounds_traffic(limit: Limit) -> bool {
    !matches!(limit, Limit::Connections | Limit::Services)
}

/// The limit of the host or the link that bounds the traffic of an interface, in words: then no setting of this machine makes it
/// carry more.
pub(crate) fn bound(rates: &Rates, nic: &Nic) -> Option<String> {
    let by_host = exceeded(rates, nic).into_iter().find(|(_, limit, _)| bounds_traffic(*limit));
    let by_host = by_host.map(|(statistic, _, rate)| {
        format!("the host limits {} ({statistic} grows by {}/s)", nic.name, count(rate))
    });
    by_host.or_else(|| {
        let link = full_link(nic, rates)?;
        Some(format!("{} {} at {} of its link speed", nic.name, link.way, percent(link.part)))
    })
}

/// What is limited, and the remedy.
fn in_words(limit: Limit) -> (&'static str, &'static str) {
    const LARGER: &str = "a larger instance, or less traffic";
    const PACKETS: &str = "a larger instance, or fewer and larger packets (MTU, offloads, batches)";
    match limit {
        Limit::BytesIn => ("received bytes/s", LARGER),
        Limit::BytesOut => ("sent bytes/s", LARGER),
        Limit::Packets => ("packets/s in both directions", PACKETS),
        Limit::RateIn => ("the rate of received packets", PACKETS),
        Limit::RateOut => ("the rate of sent packets", PACKETS),
        Limit::Connections => (
            "connections that its firewall tracks",
            "fewer connections, or firewall rules that need no tracking; a larger instance",
        ),
        Limit::Services => (
            "packets/s to its own services (names, time, metadata)",
            "query these services less: a local DNS cache, one time server for several machines",
        ),
    }
}

/// Mean steal time of all CPUs from which it is reported.
const STEAL: f64 = 0.10;

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    let devices = model.nics.iter().filter(|nic| nic.kind == NicKind::Device);
    devices.filter_map(|nic| by_device(rates, nic)).chain(by_time(model, rates)).collect()
}

/// A machine whose CPUs the hypervisor withholds: a limit of CPU time, spent credits, or too many neighbours.
fn by_time(model: &Model, rates: &Rates) -> Option<Finding> {
    let all: CpuMask = rates.cpus.iter().map(|cpu| cpu.cpu).collect();
    let taken = mean(rates, &all, |cpu| cpu.steal);
    if taken < STEAL || !carries_traffic(model, rates) {
        return None;
    }
    let most = rates.cpus.iter().max_by(|a, b| a.steal.total_cmp(&b.steal))?;
    let seen = Evidence::about(Subject::Machine, |seen| {
        format!(
            "steal: {} of the time of {}, {} of CPU {}",
            seen.percent("steal", taken),
            plural(seen.count("cpus", rates.cpus.len()), "CPU"),
            seen.percent("steal_most", most.steal),
            most.cpu
        )
    });
    Some(Finding {
        severity: Severity::Warning,
        title: format!("the hypervisor takes {} of the time of all CPUs", percent(taken)),
        evidence: vec![seen],
        why: "the host runs other machines in that time, or limits this one: packets wait until a CPU runs again, and \
              losses need no other cause"
            .to_owned(),
        remedy: "an instance without a CPU limit or CPU credits, or a host with fewer neighbours: no setting here \
                 gives the time back"
            .to_owned(),
        ..RULE.finding()
    })
}

fn by_device(rates: &Rates, nic: &Nic) -> Option<Finding> {
    let exceeded = exceeded(rates, nic);
    let (_, worst, most) = exceeded.first()?;
    let (what, remedy) = in_words(*worst);
    let name = &nic.name;
    let mut evidence: Vec<Evidence> = exceeded
        .iter()
        .map(|(statistic, limit, rate)| {
            Evidence::about(Subject::nic(nic), |seen| {
                let rate = seen.packets(statistic, *rate);
                format!("{name}: {statistic} grows by {rate}/s; this limit is on {}", in_words(*limit).0)
            })
        })
        .collect();
    evidence.extend(rates.nic(name).map(|traffic| {
        Evidence::about(Subject::nic(nic), |seen| {
            format!(
                "{name}: receives {} packets/s, sends {} packets/s",
                seen.packets("rx_packets", traffic.rx_packets),
                seen.packets("tx_packets", traffic.tx_packets)
            )
        })
    }));
    Some(Finding {
        severity: Severity::Warning,
        nic: Some(name.clone()),
        title: format!("the host delays or drops {} packets/s of {name}", count(*most)),
        evidence,
        why: format!("the host limits {what}: no setting of this machine lifts that"),
        remedy: remedy.to_owned(),
        ..RULE.finding()
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use crate::doctor::diagnosed;

    fn host(statistic: &str, rate: f64) -> Sketch {
        let host = Sketch::new(8).device("eth0", &[2]).driver("eth0", "ena").traffic("eth0", 9e4);
        host.receives(2, 0.45, 9e4).limited("eth0", statistic, 0.0).limited("eth0", statistic, rate)
    }

    #[test]
    fn each_limit_has_its_remedy() {
        let found = host("pps_allowance_exceeded", 2_400.0).finding(&RULE);
        assert_eq!(found.title, "the host delays or drops 2,400 packets/s of eth0");
        assert_eq!(
            found.seen(),
            [
                "eth0: pps_allowance_exceeded grows by 2,400/s; this limit is on packets/s in both directions",
                "eth0: receives 90,000 packets/s, sends 0 packets/s",
            ]
        );
        assert!(found.remedy.contains("larger packets") && found.plans.is_empty(), "{found:?}");
        let remedy = |statistic| host(statistic, 5.0).finding(&RULE).remedy;
        assert!(remedy("conntrack_allowance_exceeded").contains("need no tracking"));
        assert!(remedy("linklocal_allowance_exceeded").contains("local DNS cache"));
        assert!(remedy("bw_out_allowance_exceeded").contains("less traffic"));
        assert!(remedy("rx-hw-drop-ratelimits").contains("larger packets"), "of any driver");
        let both = host("bw_in_allowance_exceeded", 3.0).limited("eth0", "pps_allowance_exceeded", 9.0);
        assert!(both.finding(&RULE).seen()[0].contains("pps_allowance_exceeded"), "the worst first");
    }

    #[test]
    fn near_misses() {
        host("pps_allowance_exceeded", 0.4).silent(&RULE, "two packets in five seconds");
        host("conntrack_allowance_available", 70.0).silent(&RULE, "what is left, not what was exceeded");
        host("pps_allowance_exceeded", 9.0).driver("eth0", "ixgbe").silent(&RULE, "of another driver");
    }

    #[test]
    fn time_that_the_hypervisor_takes() {
        let host = |steal: f64| {
            let host = Sketch::new(2).device("eth0", &[0]).traffic("eth0", 4e3).receives(0, 0.1, 4e3);
            host.measured(|rates| rates.cpus[0].steal = steal)
        };
        let found = host(0.5).finding(&RULE);
        assert_eq!(found.title, "the hypervisor takes 25 % of the time of all CPUs");
        assert_eq!(found.seen(), ["steal: 25 % of the time of 2 CPUs, 50 % of CPU 0"]);
        let one = Sketch::new(1).device("eth0", &[0]).traffic("eth0", 4e3).receives(0, 0.1, 4e3);
        let one = one.measured(|rates| rates.cpus[0].steal = 0.5).finding(&RULE);
        assert_eq!(one.seen(), ["steal: 50 % of the time of 1 CPU, 50 % of CPU 0"]);
        host(0.1).silent(&RULE, "5 %");
        host(0.5).traffic("eth0", 300.0).silent(&RULE, "no traffic");
    }

    /// RPS was said to let the host take 4.4x to 6.8x, next to "no setting makes the link carry more".
    #[test]
    fn a_full_link_is_no_reason_to_spread() {
        let host = |receive: f64| {
            let host = Sketch::new(8).device("eth0", &[4]).traffic("eth0", 8.3e4).speed("eth0", 1000);
            diagnosed(host.bytes("eth0", 1.12e8, 0.0).receives(4, receive, 8.3e4))
        };
        let has_hotspot = |receive| host(receive).findings.iter().any(|found| found.id == "one-core-hotspot");
        assert!(!has_hotspot(0.4) && has_hotspot(0.95), "then its CPU is full as well");
        let calm = host(0.4);
        assert!(calm.plans.is_empty(), "{:?}", calm.plans);
        assert_eq!(calm.load.host_limit.as_deref(), Some("eth0 receives at 91 % of its link speed"));
    }

    /// Half of a CPU in softirq on one queue: RPS was advised, although the instance was over its allowance.
    #[test]
    fn what_the_host_limits_is_no_reason_to_spread() {
        let ids = |sketch: Sketch| {
            let report = diagnosed(sketch);
            let ids: Vec<String> = report.findings.iter().map(|finding| finding.id.clone()).collect();
            (ids.join(" "), report.plans.len(), report.regime.expect("there is traffic").summary)
        };
        let (found, plans, _) = ids(host("pps_allowance_exceeded", 0.0));
        assert!(found.contains("one-core-hotspot") && plans > 0, "{found}");
        for statistic in ["pps_allowance_exceeded", "bw_in_allowance_exceeded", "rx-hw-drop-ratelimits"] {
            let (found, plans, summary) = ids(host(statistic, 2_400.0));
            assert_eq!((found.as_str(), plans), ("limited-by-the-host", 0));
            assert!(
                summary.contains("the host limits eth0") && !summary.contains("will spread"),
                "{summary}"
            );
        }
        let (found, plans, _) = ids(host("linklocal_allowance_exceeded", 40.0));
        assert!(found.contains("one-core-hotspot") && plans > 0, "names do not bound the traffic: {found}");
        // A CPU without time is a problem of its own.
        let (found, ..) = ids(host("pps_allowance_exceeded", 2_400.0).receives(2, 0.97, 9e4));
        assert_eq!(found, "one-core-hotspot limited-by-the-host");
    }
}
