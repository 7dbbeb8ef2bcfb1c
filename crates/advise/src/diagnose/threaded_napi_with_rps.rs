//! Kernel threads, which the scheduler spreads, poll the queues, and RPS spreads their packets again.

use super::figures::{Evidence, Subject};
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::{count, plural};
use rxlab_path::model::{Model, Nic, Rates};

/// Packets/s from which handing each on twice is worth avoiding.
const PACKETS: f64 = 10_000.0;

/// RPS interrupts/s from which packets are evidently handed on.
const IPIS: f64 = 1_000.0;

pub(super) const RULE: Rule = Rule {
    id: "threaded-napi-with-rps",
    asks: "Is RPS on although kernel threads poll the queues?",
    fires: || {
        format!(
            "NAPI is threaded on an interface with {} packets/s whose queues have RPS masks, and CPUs get {} \
             RPS interrupts/s",
            count(PACKETS),
            count(IPIS)
        )
    },
    silent: "one of the two is off, or no RPS interrupts are seen",
    evidence: "the threads, the masks, packets/s and RPS interrupts/s",
    cause: "A threaded NAPI wakes a thread for each poll. Unless it is pinned, as the documentation \
            recommends, it may run on any CPU, so no mask suits it; pinned or not, RPS costs another \
            interrupt between CPUs.",
    remedy: "Keep one of the two: switch RPS off and pin the threads, or switch the threads off.",
    source: "Documentation/networking/napi.rst (Threaded NAPI); Documentation/networking/scaling.rst (RPS)",
    check: Check::Nic(of_nic),
};

fn of_nic(_model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let ipis: f64 = rates.cpus.iter().map(|cpu| cpu.rps_ipis).sum();
    if ipis < IPIS || nic.napi.threaded.known() != Some(&true) {
        return None;
    }
    let traffic = rates.nic(&nic.name).filter(|traffic| traffic.rx_packets >= PACKETS)?;
    let masks = nic.rx.iter().filter_map(|queue| Some((queue.index, queue.rps_cpus.known()?)));
    let masks: Vec<_> = masks.filter(|(_, mask)| !mask.is_empty()).collect();
    let (index, mask) = masks.first()?;
    let threads: Vec<String> =
        nic.rx.iter().filter_map(|queue| Some(queue.napi.as_ref()?.thread?.to_string())).collect();
    let pids = if threads.is_empty() { String::new() } else { format!(" (process {})", threads.join(", ")) };
    Some(Finding {
        severity: Severity::Note,
        title: format!("{} is polled by threads and also has RPS on", nic.name),
        evidence: vec![
            Evidence::fact(Subject::nic(nic), format!("threaded NAPI on {}{pids}", nic.name)),
            Evidence::about(Subject::nic(nic), |seen| {
                let queues = plural(seen.count("queues_with_rps", masks.len()), "queue");
                format!("RPS on {queues}: {}/rx-{index} {mask}", nic.name)
            }),
            Evidence::about(Subject::nic(nic), |seen| {
                let packets = seen.packets("rx_packets", traffic.rx_packets);
                format!("{packets} packets/s, {} RPS interrupts/s between CPUs", seen.rate("rps_ipis", ipis))
            }),
        ],
        why: "the scheduler spreads unpinned polling threads; RPS hands their packets on again".to_owned(),
        remedy: format!(
            "switch off RPS or the threads (knob threaded) on {}, and measure which is better",
            nic.name
        ),
        ..RULE.finding()
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use rxlab_base::units::Fact;
    use rxlab_path::model::Napi;

    fn host(threaded: bool) -> Sketch {
        let sketch = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 5e4).rps("eth0", "1-3");
        let sketch = sketch.edit("eth0", |nic| nic.napi.threaded = Fact::Known(threaded));
        sketch.ipis(1, 8e3)
    }

    #[test]
    fn both_are_on() {
        let found = host(true)
            .edit("eth0", |nic| {
                nic.rx[0].napi = Some(Napi { id: 8193, irq: None, thread: Some(812) });
            })
            .finding(&RULE);
        assert_eq!(found.title, "eth0 is polled by threads and also has RPS on");
        assert_eq!(found.seen()[0], "threaded NAPI on eth0 (process 812)");
        assert_eq!(host(true).finding(&RULE).seen()[0], "threaded NAPI on eth0");
    }

    #[test]
    fn near_misses() {
        host(false).silent(&RULE, "no threads");
        host(true).rps("eth0", "").silent(&RULE, "no RPS");
        host(true).traffic("eth0", 2e3).silent(&RULE, "little traffic");
        host(true).ipis(1, 10.0).silent(&RULE, "nothing is handed on");
        host(true).edit("eth0", |nic| nic.napi.threaded = Fact::NotAsked).silent(&RULE, "not known");
    }
}
