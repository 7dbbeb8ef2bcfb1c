//! Packets dropped because the table of tracked connections is full.

use super::figures::{Evidence, Subject, Unit};
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::{count, percent};
use rxlab_path::evidence::LOST;
use rxlab_path::model::{Model, Rates};

/// Part of the table from which it is full: the kernel adds to it on all CPUs at once, and forgets old connections in
/// between.
const FULL: f64 = 0.95;

pub(super) const RULE: Rule = Rule {
    id: "conntrack-full",
    asks: "Are packets dropped because the table of tracked connections is full?",
    fires: || {
        format!(
            "the kernel drops at least {} packet/s of connections that it cannot track (column `drop` of \
             /proc/net/stat/nf_conntrack), or forgets that many connections per second to make room (`early_drop`)",
            count(LOST)
        )
    },
    silent: "connections are not tracked, the counters could not be read, or packets were dropped before the sample but not \
             during it. A table that is nearly full loses nothing yet",
    evidence: "drops and forgotten connections per second, tracked connections and their maximum",
    cause: "More connections are open, or closed and not yet timed out, than the table holds (net.netfilter.nf_conntrack_max). \
            The first packet of each further one is dropped. Each takes about 300 bytes.",
    remedy: "A larger table; no tracking where no rule needs it (NOTRACK in the table `raw`); shorter timeouts \
             (net.netfilter.nf_conntrack_tcp_timeout_close_wait, which kube-proxy raises from 60 to 3,600 s, _time_wait, _established). \
             If closed connections fill it, a larger table only fills later.",
    source: "Documentation/networking/nf_conntrack-sysctl.rst; net/netfilter/nf_conntrack_core.c __nf_conntrack_alloc, \
             nf_conntrack_in",
    check: Check::Machine(check),
};

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    let Some(losses) = rates.losses.known() else { return Vec::new() };
    let (lost, forgotten) = (losses.rate("drop"), losses.rate("early_drop"));
    if lost < LOST && forgotten < LOST {
        return Vec::new();
    }
    let (entries, max) = (losses.rate("entries"), model.settings.nf_conntrack_max.known().copied());
    let mut evidence = vec![Evidence::about(Subject::Machine, |seen| {
        format!(
            "conntrack: {} packets/s dropped, {} connections/s forgotten to make room",
            seen.packets("conntrack_drops", lost),
            seen.rate("early_drop", forgotten)
        )
    })];
    evidence.extend(max.map(|max| {
        Evidence::about(Subject::Machine, |seen| {
            let entries = count(seen.figure("entries", entries, Unit::Count));
            let max = count(seen.figure("nf_conntrack_max", f64::from(max), Unit::Count));
            format!("conntrack: {entries} connections, at most {max} (net.netfilter.nf_conntrack_max)")
        })
    }));
    let part = max.filter(|max| *max > 0).map(|max| entries / f64::from(max));
    let why = match part {
        Some(part) if part >= FULL => format!("the table is {} full", percent(part.min(1.0))),
        Some(part) => format!(
            "the table is {} full at the end of the sample: it was full in between, or memory was short",
            percent(part)
        ),
        None => "the table is full, or memory is short; its maximum is unknown".to_owned(),
    };
    let remedy = "a larger table (`nf_conntrack_max host = N`, about 300 bytes each), no tracking of what no rule needs \
                  (NOTRACK), or shorter timeouts: `conntrack -L` shows the states that fill it, and kube-proxy keeps CLOSE_WAIT for \
                  3,600 s instead of 60 (net.netfilter.nf_conntrack_tcp_timeout_close_wait)";
    vec![Finding {
        severity: if lost >= LOST { Severity::Critical } else { Severity::Warning },
        title: if lost >= LOST {
            format!("connection tracking drops {} packets/s", count(lost))
        } else {
            format!("connection tracking forgets {} connections/s", count(forgotten))
        },
        evidence,
        why,
        remedy: remedy.to_owned(),
        ..RULE.finding()
    }]
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::Severity;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use rxlab_base::units::Fact;

    fn host(lost: f64, entries: f64) -> Sketch {
        let sketch = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 5e4);
        sketch
            .lost("drop", lost)
            .lost("entries", entries)
            .set(|settings| settings.nf_conntrack_max = Fact::Known(65_536))
    }

    #[test]
    fn a_full_table_and_one_that_was_full() {
        let found = host(120.0, 65_536.0).finding(&RULE);
        assert_eq!(
            (found.title.as_str(), found.severity),
            ("connection tracking drops 120 packets/s", Severity::Critical)
        );
        assert_eq!(found.why, "the table is 100 % full");
        assert!(found.remedy.contains("nf_conntrack_tcp_timeout_close_wait"), "{found:?}");
        assert!(found.seen()[1].starts_with("conntrack: 65,536 connections, at most 65,536"), "{found:?}");
        assert!(host(120.0, 900.0).finding(&RULE).why.contains("memory was short"));
        let unknown = host(3.0, 900.0).set(|settings| settings.nf_conntrack_max = Fact::Unsupported);
        assert!(unknown.finding(&RULE).why.contains("its maximum is unknown"));
    }

    #[test]
    fn connections_that_make_room() {
        let found = host(0.0, 65_000.0).lost("early_drop", 40.0).finding(&RULE);
        assert_eq!(
            (found.title.as_str(), found.severity),
            ("connection tracking forgets 40 connections/s", Severity::Warning)
        );
    }

    #[test]
    fn near_misses() {
        host(0.4, 65_536.0).silent(&RULE, "two in five seconds");
        host(0.0, 65_536.0).silent(&RULE, "full, and nothing is lost");
        host(0.0, 900.0).lost("insert_failed", 40.0).silent(&RULE, "two packets of one connection at once");
    }
}
