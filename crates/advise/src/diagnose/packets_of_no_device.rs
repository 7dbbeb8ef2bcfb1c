//! CPUs that are full of packets which no device brings them: those of containers and virtual machines.

use super::figures::{Evidence, Subject};
use super::places::mean;
use super::{Check, Finding, Rule, Severity, one_core_hotspot};
use rxlab_base::number::{capitalized, count, cpus_text, percent};
use rxlab_base::units::CpuMask;
use rxlab_path::evidence::{
    DROWNING, ORIGIN, TRAFFIC, brought, by_threads, candidates, foreign_nic, may_be_lo, receiving,
    takes_unknown,
};
use rxlab_path::model::{CpuRates, Model, Nic, Rates};

/// Part of these CPUs' packets that the interfaces must receive, all together.
const ACCOUNTED: f64 = 0.5;

pub(super) const RULE: Rule = Rule {
    id: "packets-of-no-device",
    asks: "Are CPUs full of packets that no device brings them?",
    fires: || {
        format!(
            "CPUs spend {} of their time in interrupts and softirqs for {} packets/s or more each, no interrupt or RPS mask \
             of a device with traffic leads there, and veth, netkit or tun interfaces receive {} of these packets or more",
            percent(DROWNING),
            count(TRAFFIC),
            percent(ACCOUNTED)
        )
    },
    silent: "an interface of another kind, a device whose interrupts land at unknown CPUs, `lo`, or another network namespace may \
             bring the packets, threads poll there, packets are not counted by CPU, or one-core-hotspot reports the CPU",
    evidence: "the CPUs, their time in interrupts and softirqs and their packets/s, the interfaces and their packets/s",
    cause: "What a container or a virtual machine sends is received in softirq on the CPU that sends it, with all that bridges, \
            firewalls and routing cost.",
    remedy: "RPS on these interfaces, or fewer programs on these CPUs. Interrupts and queues of devices have no part in it.",
    source: "drivers/net/veth.c (veth_xmit); drivers/net/tun.c (tun_get_user); net/core/dev.c (netif_rx)",
    check: Check::Machine(check),
};

/// The interfaces that bring a CPU its packets, if all of them receive where the other end sends.
fn senders<'a>(model: &'a Model, rates: &Rates, cpu: &CpuRates) -> Option<Vec<&'a Nic>> {
    let mut found = candidates(model, rates, cpu.cpu);
    found.retain(|nic| rates.rx_packets(&nic.name) >= cpu.packets * ORIGIN);
    let all_are_sent_here = found.iter().all(|nic| nic.receives_where_sent() == Some(true));
    (!found.is_empty() && all_are_sent_here).then_some(found)
}

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    let brought = brought(model, rates);
    let told: Vec<_> =
        one_core_hotspot::RULE.findings(model, rates).iter().filter_map(|found| found.cpu).collect();
    let is_full = |cpu: &&CpuRates| {
        receiving(cpu) >= DROWNING
            && cpu.packets >= TRAFFIC
            && !rates.uncounted
            && !by_threads(cpu)
            && !told.contains(&cpu.cpu)
            && !brought.contains_key(&cpu.cpu)
            && !may_be_lo(model, rates, cpu.cpu)
            && !takes_unknown(model, rates, cpu.cpu)
            && foreign_nic(model, rates, cpu.cpu).is_none()
    };
    let full = rates.cpus.iter().filter(is_full);
    let full: Vec<_> = full.filter_map(|cpu| Some((cpu, senders(model, rates, cpu)?))).collect();
    let Some((_, nics)) = full.first() else { return Vec::new() };
    let cpus: CpuMask = full.iter().map(|(cpu, _)| cpu.cpu).collect();
    let packets: f64 = full.iter().map(|(cpu, _)| cpu.packets).sum();
    let sent: f64 = nics.iter().map(|nic| rates.rx_packets(&nic.name)).sum();
    if sent < packets * ACCOUNTED {
        return Vec::new();
    }
    const SHOWN: usize = 4;
    let names: Vec<&str> = nics.iter().take(SHOWN).map(|nic| nic.name.as_str()).collect();
    let more = match nics.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let names = names.join(", ") + &more;
    let time = mean(rates, &cpus, receiving);
    let text = cpus_text(&cpus);
    let evidence = vec![
        Evidence::about(Subject::Cpus(cpus.clone()), |seen| {
            format!(
                "{text}: {} of their time in interrupts and softirqs, {} packets/s; no interrupt or mask of a device brings them",
                seen.percent("receiving", time),
                seen.packets("packets", packets)
            )
        }),
        Evidence::about(Subject::Machine, |seen| {
            format!("{names}: {} packets/s received", seen.packets("rx_packets", sent))
        }),
    ];
    vec![Finding {
        severity: Severity::Warning,
        cpu: cpus.first(),
        title: format!("{} full of packets that no device brings: {}", capitalized(&text), percent(time)),
        evidence,
        why: format!(
            "they are probably (inferred, not counted) those of {names}: what a container or virtual machine sends is received \
             on the CPU that sends it"
        ),
        remedy: format!(
            "RPS on these interfaces (rxlab plan rps --nic {}), or fewer of their programs on these CPUs",
            nics[0].name
        ),
        ..RULE.finding()
    }]
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};

    /// Two queues whose CPUs are full, and two more CPUs that are full of what containers send.
    fn host(kind: &'static str, sent: f64) -> Sketch {
        let host = Sketch::new(8).device("eth0", &[0, 1]).queue_traffic("eth0", &[6e4, 6e4]);
        let host = host.receives(0, 0.97, 6e4).receives(1, 0.97, 6e4).receives(4, 0.96, 9e4);
        let host = host.receives(5, 0.94, 9e4).veth("one0").veth("two0").traffic("one0", sent);
        let kind = move |nic: &mut rxlab_path::model::Nic| nic.stack.kind = Some(kind.to_owned());
        host.traffic("two0", sent / 2.0).edit("one0", kind).edit("two0", kind)
    }

    /// Published: 12 of 32 CPUs were full, and a device had 8 queues; the other four were in no sentence.
    #[test]
    fn what_containers_send_fills_cpus() {
        let found = host("veth", 1.2e5).finding(&RULE);
        assert_eq!(found.title, "CPUs 4-5 full of packets that no device brings: 95 %");
        assert_eq!(
            found.seen(),
            [
                "CPUs 4-5: 95 % of their time in interrupts and softirqs, 180,000 packets/s; no interrupt or mask of a device \
                 brings them",
                "one0, two0: 180,000 packets/s received",
            ]
        );
        assert!(found.remedy.contains("rxlab plan rps --nic one0") && found.plans.is_empty(), "{found:?}");
    }

    #[test]
    fn near_misses() {
        host("veth", 2e4).silent(&RULE, "they receive too few");
        host("wireguard", 1.2e5).silent(&RULE, "its packets are decrypted on other CPUs than they arrive at");
        host("veth", 1.2e5).rps("eth0", "4-5").silent(&RULE, "handed over by the device");
        let hidden = host("veth", 1.2e5).edit("eth0", |nic| nic.rx[0].irqs.clear());
        hidden.silent(&RULE, "its interrupt may land there");
        host("veth", 1.2e5).polls(4, 0.96).polls(5, 0.94).silent(&RULE, "threads poll");
        let one = Sketch::new(8).veth("one0").traffic("one0", 9e4).receives(5, 0.96, 9e4);
        let one = one.edit("one0", |nic| nic.stack.kind = Some("veth".to_owned()));
        one.silent(&RULE, "one-core-hotspot");
    }
}
