//! A server waits because its control group has used up its CPU time.

use super::figures::{Evidence, Subject, Unit};
use super::workload::{carries_traffic, named, programs};
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::percent;
use rxlab_path::model::{Model, ProcessRates, Rates, ThrottledRates};

/// Part of the periods from which waiting shows in the slowest requests.
const SOME: f64 = 0.01;

/// Part of the periods from which it costs throughput or most requests.
const MANY: f64 = 0.1;

pub(super) const RULE: Rule = Rule {
    id: "throttled-server",
    asks: "Does a CPU limit make a server wait?",
    fires: || {
        format!(
            "an interface carries traffic, and the control group of a busy program with listening TCP or unconnected \
             UDP sockets, or a group above it, was throttled (nr_throttled rose) in {} of its periods during the \
             sample; a warning at {} or more",
            percent(SOME),
            percent(MANY)
        )
    },
    silent: "the group was throttled before the sample but not during it, the program has no such sockets, or its group \
             is of version 1",
    evidence: "the program and its group, the limit (cpu.max), periods and throttled periods, the time waited",
    cause: "A group that has used its quota does not run on any CPU until the next period begins, even if CPUs are idle: \
            requests and reads of sockets wait for up to a period (usually 100 ms), and sockets fill.",
    remedy: "A higher limit (cpu.max; CPUQuota= of systemd, limits.cpu of Kubernetes), or room for bursts \
             (cpu.max.burst). No setting of the receive path removes this wait.",
    source: "Documentation/admin-guide/cgroup-v2.rst (cpu.max, cpu.stat); Documentation/scheduler/sched-bwc.rst",
    check: Check::Machine(check),
};

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    if !carries_traffic(model, rates) {
        return Vec::new();
    }
    let waiting = programs(rates).iter().filter(|process| is_server(process));
    let waiting = waiting.filter_map(|process| Some((process, process.throttled.as_ref()?)));
    let mut waiting: Vec<_> = waiting.filter(|(_, throttled)| part(throttled) >= SOME).collect();
    waiting.sort_by(|a, b| part(b.1).total_cmp(&part(a.1)));
    let mut told: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    // Programs of one group wait together.
    for (process, throttled) in waiting {
        if !told.contains(&throttled.group.as_str()) {
            told.push(&throttled.group);
            found.push(finding(process, throttled));
        }
    }
    found
}

/// True if the program has sockets that others send to.
fn is_server(process: &ProcessRates) -> bool {
    process.sockets.known().is_some_and(|sockets| !sockets.held.is_empty())
}

/// Part of the periods in which the group was throttled.
fn part(throttled: &ThrottledRates) -> f64 {
    throttled.throttled as f64 / throttled.periods.max(throttled.throttled).max(1) as f64
}

fn finding(process: &ProcessRates, throttled: &ThrottledRates) -> Finding {
    let part = part(throttled);
    Finding {
        severity: if part >= MANY { Severity::Warning } else { Severity::Note },
        title: format!("{} waits for CPU time in {} of its periods", process.command, percent(part)),
        evidence: vec![
            Evidence::about(Subject::process(process), |seen| {
                let used = seen.figure("cpu", process.cpu, Unit::Cpus);
                let limit = throttled.limit.map(|(cpus, period_ms)| {
                    let cpus = seen.figure("limit", cpus, Unit::Cpus);
                    format!("{cpus:.2} CPUs in periods of {period_ms:.0} ms")
                });
                let limit = limit.unwrap_or_else(|| "lifted meanwhile".to_owned());
                format!("{}: uses {used:.2} CPUs; limit of {}: {limit}", named(process), throttled.group)
            }),
            Evidence::about(Subject::process(process), |seen| {
                format!(
                    "throttled in {} of {} periods ({}), waited {:.2} s per second, summed over CPUs",
                    seen.count("throttled", throttled.throttled as usize),
                    seen.count("periods", throttled.periods as usize),
                    seen.percent("throttled_part", part),
                    seen.figure("waited", throttled.waited, Unit::Cpus)
                )
            }),
        ],
        why: "a group that has used its quota runs on no CPU until the next period: that wait is added to its requests"
            .to_owned(),
        remedy: format!("raise cpu.max of {} or allow bursts (cpu.max.burst); no receive setting helps", throttled.group),
        ..RULE.finding()
    }
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::Severity;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use rxlab_path::model::ThrottledRates;

    fn throttled(count: u64) -> Option<ThrottledRates> {
        Some(ThrottledRates {
            group: "/web.slice".to_owned(),
            limit: Some((1.5, 100.0)),
            throttled: count,
            periods: 50,
            waited: 0.4,
        })
    }

    fn host(count: u64) -> Sketch {
        let sketch = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 5e3).program("web", 1.4, "0-3");
        sketch.tcp(80, 0, 0, None).last(|process| process.throttled = throttled(count))
    }

    #[test]
    fn a_server_waits() {
        let found = host(20).finding(&RULE);
        assert_eq!(found.title, "web waits for CPU time in 40 % of its periods");
        assert_eq!(
            found.seen(),
            [
                "web (800): uses 1.40 CPUs; limit of /web.slice: 1.50 CPUs in periods of 100 ms",
                "throttled in 20 of 50 periods (40 %), waited 0.40 s per second, summed over CPUs"
            ]
        );
        assert_eq!((found.severity, host(1).finding(&RULE).severity), (Severity::Warning, Severity::Note));
        let two = host(20).program("web", 1.0, "0-3").tcp(80, 0, 0, None);
        let two = two.last(|process| process.throttled = throttled(20));
        assert_eq!(two.findings(&RULE).len(), 1, "one group");
    }

    #[test]
    fn near_misses() {
        host(0).silent(&RULE, "no period of the sample");
        host(20).traffic("eth0", 100.0).silent(&RULE, "no traffic");
        let batch = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 5e3).program("batch", 1.4, "0-3");
        let batch = batch.last(|process| process.throttled = throttled(20));
        batch.silent(&RULE, "it serves no one");
    }
}
