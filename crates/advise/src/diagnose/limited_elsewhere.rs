//! Something that no knob of the receive path changes limits the machine: its programs, or the link.

use super::figures::{Evidence, Subject, Unit};
use super::one_core_hotspot::is_hidden;
use super::places::steal;
use super::workload::{carries_traffic, named, processing, programs};
use super::{Check, Finding, OWN_RULE, Rule, Severity};
use rxlab_base::number::{count, percent};
use rxlab_path::evidence::{LINK, LOST, LinkUse, busy, full_link, headroom, lost, receiving};
use rxlab_path::model::{CpuRates, Model, Nic, NicKind, Rates};

/// Mean fraction of time of all CPUs in processes from which programs fill the machine.
const PROGRAMS: f64 = 0.85;

/// Mean busy fraction of all CPUs.
const MACHINE: f64 = 0.90;

/// Upper bound on the mean fraction of time of all CPUs in interrupts and softirqs.
const RECEIVE: f64 = 0.10;

/// The same bound for any one CPU: more would be a bottleneck of its own.
const ONE: f64 = 0.25;

pub(super) const RULE: Rule = Rule {
    id: "limited-elsewhere",
    asks: "Is the machine limited by something that no setting of the receive path changes?",
    fires: || {
        format!(
            "an interface carries traffic, all CPUs are {} busy on average, {} of it in processes and at \
             most {} in interrupts and softirqs (under {} on every CPU), and less than one packet/s is lost; \
             or a device uses {} of its link speed in one direction",
            percent(MACHINE),
            percent(PROGRAMS),
            percent(RECEIVE),
            percent(ONE),
            percent(LINK)
        )
    },
    silent: "there is no traffic, receive work takes a larger part (or may, because ticks miss it: \
             one-core-hotspot), or the link speed is unknown or made up (lower than the traffic)",
    evidence: "the CPUs' time in processes, interrupts and softirqs, the busiest programs, steal time, the \
               upper bound on the gain; the link speed and its use",
    cause: "The time receive work takes bounds the gain from tuning it: a part f of the time gives at most f \
            / (1 - f) more. Tuning gains nothing on a full link.",
    remedy: "More CPUs or cheaper requests; a faster link. No setting of the receive path helps.",
    source: OWN_RULE,
    check: Check::Machine(check),
};

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    let devices = model.nics.iter().filter(|nic| nic.kind == NicKind::Device);
    let mut findings: Vec<Finding> = devices.filter_map(|nic| by_link(rates, nic)).collect();
    findings.extend(by_programs(model, rates));
    findings
}

fn by_programs(model: &Model, rates: &Rates) -> Option<Finding> {
    let cpus = rates.cpus.len().max(1) as f64;
    let mean = |value: fn(&CpuRates) -> f64| rates.cpus.iter().map(value).sum::<f64>() / cpus;
    let receive: fn(&CpuRates) -> f64 = receiving;
    let even = rates.cpus.iter().all(|cpu| receive(cpu) < ONE);
    let (own, share) = (mean(processing), mean(receive));
    let full = mean(busy) >= MACHINE && own >= PROGRAMS && share <= RECEIVE;
    if !carries_traffic(model, rates) || lost(rates) >= LOST || !even || !full || is_hidden(model, rates) {
        return None;
    }
    let mut evidence = vec![Evidence::about(Subject::Machine, |seen| {
        format!(
            "{} CPUs: {} of their time in processes, {} in interrupts and softirqs ({}), {} idle",
            seen.count("cpus", rates.cpus.len()),
            seen.percent("processing", own),
            seen.percent("receiving", share),
            seen.tier(rates),
            seen.percent("idle", mean(|cpu| cpu.idle))
        )
    })];
    if !programs(rates).is_empty() {
        evidence.push(Evidence::about(Subject::Machine, |seen| {
            let busiest = programs(rates).iter().take(3).map(|process| {
                let name = named(process);
                format!("{name} {:.1}", seen.figure(&name, process.cpu, Unit::Cpus))
            });
            format!("CPUs used by program: {}", busiest.collect::<Vec<_>>().join(", "))
        }));
    }
    evidence.extend(steal(rates, &rates.cpus.iter().map(|cpu| cpu.cpu).collect()));
    evidence.push(Evidence::about(Subject::Machine, |seen| {
        format!(
            "without any receive work there would be {} more capacity; headroom of the machine: {}",
            seen.precise_percent("gain", share / (1.0 - share)),
            seen.times("headroom_machine", headroom(model, rates).machine)
        )
    }));
    Some(Finding {
        severity: Severity::Note,
        title: format!("programs take {} of all CPU time, receive work {}", percent(own), percent(share)),
        evidence,
        why: "CPU time limits the programs, not the receive path".to_owned(),
        remedy: "more CPUs, or cheaper requests: nothing to tune on the receive path".to_owned(),
        ..RULE.finding()
    })
}

fn megabits(seen: &mut Evidence, name: &str, bits: f64) -> String {
    count(seen.figure(name, bits / 1e6, Unit::MegabitsPerSecond))
}

fn by_link(rates: &Rates, nic: &Nic) -> Option<Finding> {
    let LinkUse { way, part, speed } = full_link(nic, rates)?;
    let traffic = rates.nic(&nic.name)?;
    let name = &nic.name;
    Some(Finding {
        severity: Severity::Note,
        nic: Some(name.clone()),
        title: format!("{name} {way} at {} of its link speed", percent(part)),
        evidence: vec![
            Evidence::about(Subject::nic(nic), |seen| {
                format!(
                    "{name}: {} Mbit/s of {} Mbit/s, including the framing of each packet",
                    megabits(seen, "used", part * speed),
                    megabits(seen, "speed", speed)
                )
            }),
            Evidence::about(Subject::nic(nic), |seen| {
                format!(
                    "{name}: receives {} Mbit/s in {} packets/s, sends {} Mbit/s in {} packets/s",
                    megabits(seen, "rx", traffic.rx_bytes * 8.0),
                    seen.packets("rx_packets", traffic.rx_packets),
                    megabits(seen, "tx", traffic.tx_bytes * 8.0),
                    seen.packets("tx_packets", traffic.tx_packets)
                )
            }),
        ],
        why: "the link is full: no CPU can make it carry more".to_owned(),
        remedy: "a faster link or a second one, or fewer bytes: no setting makes the link carry more"
            .to_owned(),
        ..RULE.finding()
    })
}

#[cfg(test)]
mod tests {
    use super::super::one_core_hotspot;
    use super::RULE;
    use crate::diagnose::Severity;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use rxlab_path::model::SoftirqTimed;

    /// Field case B's `/compute` on all eight cores: 69,060 requests/s.
    fn case_b(user: f64, softirq: f64) -> Sketch {
        let sketch = Sketch::new(8).device("eth0", &[0, 1, 2, 3, 4, 5, 6, 7]).traffic("eth0", 9.7e4);
        let cpu = |sketch: Sketch, cpu| sketch.receives(cpu, softirq, 1.2e4).works(cpu, user);
        sketch.each("0-7", cpu).program("server", 7.7, "0-7").threads(20, 12)
    }

    #[test]
    fn field_case_b_is_limited_by_its_programs() {
        let found = case_b(0.95, 0.02).finding(&RULE);
        assert_eq!(found.title, "programs take 96 % of all CPU time, receive work 2 %");
        assert_eq!((found.severity, found.plans.len()), (Severity::Note, 0));
        assert_eq!(found.seen()[1], "CPUs used by program: server (800) 7.7");
        assert!(found.seen()[2].starts_with("without any receive work there would be 2.0 % more capacity"));
    }

    /// Field case C on bare metal: 495k requests/s over 1 Gbit/s, limited by bandwidth. The bytes are made
    /// up.
    #[test]
    fn field_case_c_is_limited_by_its_link() {
        let link = |rx, tx| {
            Sketch::new(32)
                .device("eth0", &[0])
                .traffic("eth0", 3e5)
                .speed("eth0", 1000)
                .bytes("eth0", rx, tx)
        };
        let found = link(1.1e8, 0.0).finding(&RULE);
        assert_eq!(found.title, "eth0 receives at 94 % of its link speed");
        link(1.0e8, 0.0).silent(&RULE, "86 %");
        link(2.0e8, 0.0).silent(&RULE, "more than it can: the speed is made up");
        assert!(
            link(1.1e8, 0.0)
                .edit("eth0", |nic| nic.hardware.speed_mbits = rxlab_base::units::Fact::Unsupported)
                .findings(&RULE)
                .is_empty()
        );
        link(1.1e8, 0.0).traffic("eth0", 500.0).silent(&RULE, "no traffic");
    }

    #[test]
    fn near_misses() {
        case_b(0.7, 0.02).silent(&RULE, "room left");
        case_b(0.8, 0.19).silent(&RULE, "receive work has its part");
        case_b(0.95, 0.02).receives(3, 0.4, 1e5).silent(&RULE, "one CPU is a bottleneck of its own");
        case_b(0.95, 0.02).traffic("eth0", 300.0).silent(&RULE, "a compiler on a quiet network");
        case_b(0.95, 0.02).drops(2, 1.0).silent(&RULE, "packets are lost");
        assert_eq!(case_b(0.95, 0.02).drops(2, 0.2).findings(&RULE).len(), 1, "one packet in five seconds");
    }

    /// A sender at full speed over a veth receives in its own system calls, where ticks hardly see it.
    #[test]
    fn what_ticks_give_to_programs_may_be_receive_work() {
        let veth = || Sketch::new(2).veth("veth0").traffic("veth0", 7e4).works(1, 0.97);
        let sampled = || veth().receives(0, 0.03, 7e4).works(0, 0.96);
        sampled().silent(&RULE, "it may be more");
        let exact = sampled().measured(|rates| rates.exact_softirq_time = Some(true));
        assert_eq!(exact.findings(&RULE).len(), 1, "it is 3 %");
        let timed = || {
            sampled().measured(|rates| {
                rates.softirq_timed = Some(SoftirqTimed { windows: 3, error: Some(0.01) });
            })
        };
        assert_eq!(timed().findings(&RULE).len(), 1, "so eBPF says");
        assert_eq!(timed().findings(&one_core_hotspot::RULE), [], "no hotspot of receive work");
        assert_eq!(sampled().findings(&one_core_hotspot::RULE).len(), 1, "it may be one by ticks");
    }
}
