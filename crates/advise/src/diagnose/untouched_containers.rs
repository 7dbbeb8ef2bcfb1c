//! Some container interfaces have RPS, and others with as much traffic do not: they were created later.

use super::figures::{Evidence, Subject};
use super::{Check, Finding, Rule, Severity};
use crate::family::PlanName;
use rxlab_base::number::{count, plural};
use rxlab_base::units::CpuMask;
use rxlab_path::evidence::TRAFFIC;
use rxlab_path::model::{Model, Nic, NicKind, Rates};

/// Traffic relative to the least busy interface with RPS from which one without it looks forgotten.
const ALIKE: f64 = 0.5;

pub(super) const RULE: Rule = Rule {
    id: "untouched-containers",
    asks: "Were interfaces of new containers left without the RPS that the others have?",
    fires: || {
        format!(
            "an interface whose other end is in another network namespace has {} packets/s and no RPS, and \
             at least half the traffic of another such interface with RPS",
            count(TRAFFIC)
        )
    },
    silent: "no container interface has RPS (then none was tuned), or the ones without it carry much less \
             (then the busy ones were chosen)",
    evidence: "the interfaces with and without RPS and their traffic, net.core.rps_default_mask",
    cause: "A restarted container gets a new interface with the kernel's defaults; the values of the old one \
            are lost.",
    remedy: "Set the masks of the new interfaces too, and net.core.rps_default_mask for future ones.",
    source: "Documentation/admin-guide/sysctl/net.rst (rps_default_mask)",
    check: Check::Machine(check),
};

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    let packets = |nic: &Nic| rates.rx_packets(&nic.name);
    let containers = model.nics.iter().filter(|nic| leads_away(nic));
    let (mut tuned, mut plain): (Vec<&Nic>, Vec<&Nic>) = (Vec::new(), Vec::new());
    for nic in containers {
        let masks: Option<Vec<&CpuMask>> = nic.rx.iter().map(|queue| queue.rps_cpus.known()).collect();
        match masks {
            Some(masks) if masks.iter().any(|mask| !mask.is_empty()) => tuned.push(nic),
            Some(masks) if !masks.is_empty() => plain.push(nic),
            _ => {}
        }
    }
    let Some(least) = tuned.iter().map(|nic| packets(nic)).min_by(f64::total_cmp) else { return Vec::new() };
    plain.retain(|nic| packets(nic) >= TRAFFIC.max(least * ALIKE));
    plain.sort_by(|a, b| packets(b).total_cmp(&packets(a)));
    let Some(busiest) = plain.first() else { return Vec::new() };
    let default = match model.settings.rps_default_mask.known() {
        Some(mask) if mask.is_empty() => {
            "net.core.rps_default_mask is empty: new interfaces get no RPS".to_owned()
        }
        Some(mask) => {
            format!("net.core.rps_default_mask is {mask}: these interfaces are older, or were reset")
        }
        None => "this kernel has no net.core.rps_default_mask, or it was not read".to_owned(),
    };
    vec![Finding {
        severity: Severity::Note,
        nic: Some(busiest.name.clone()),
        title: format!(
            "{} without RPS, {} with it",
            plural(plain.len(), "busy container interface"),
            tuned.len()
        ),
        evidence: vec![
            list("without", &plain, packets),
            list("with", &tuned, packets),
            Evidence::fact(Subject::Machine, default),
        ],
        why: "interfaces of new containers start with the kernel's defaults".to_owned(),
        remedy: "set their masks like the others', and net.core.rps_default_mask for future interfaces"
            .to_owned(),
        plans: vec![PlanName::Rps],
        ..RULE.finding()
    }]
}

/// True if the other end is in another network namespace.
fn leads_away(nic: &Nic) -> bool {
    nic.kind == NicKind::Virtual && nic.stack.peer.as_ref().is_some_and(|peer| peer.nic.is_none())
}

fn list(label: &str, nics: &[&Nic], packets: impl Fn(&Nic) -> f64) -> Evidence {
    const SHOWN: usize = 4;
    Evidence::about(Subject::Machine, |seen| {
        let first = nics.iter().take(SHOWN);
        let first = first
            .map(|nic| format!("{} {} packets/s", nic.name, seen.packets(nic.name.as_str(), packets(nic))));
        let mut list: Vec<String> = first.collect();
        if nics.len() > SHOWN {
            list.push(format!("{} more", seen.count("more", nics.len() - SHOWN)));
        }
        format!("{label}: {}", list.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch, cpus};
    use rxlab_base::units::Fact;

    fn host(new: f64, rps: &str) -> Sketch {
        Sketch::new(8).container("veth1", 2e4, rps).container("veth2", new, "")
    }

    #[test]
    fn the_new_one_has_none() {
        let found = host(1.5e4, "1-7")
            .set(|settings| settings.rps_default_mask = Fact::Known(cpus("")))
            .finding(&RULE);
        assert_eq!(found.title, "1 busy container interface without RPS, 1 with it");
        assert_eq!(
            found.seen(),
            [
                "without: veth2 15,000 packets/s",
                "with: veth1 20,000 packets/s",
                "net.core.rps_default_mask is empty: new interfaces get no RPS"
            ]
        );
        assert!(host(1.5e4, "1-7").finding(&RULE).seen()[2].starts_with("this kernel has no"));
    }

    #[test]
    fn near_misses() {
        host(1.5e4, "").silent(&RULE, "none was tuned");
        host(2e3, "1-7").silent(&RULE, "much less: the busy one was chosen");
        host(1.5e4, "1-7").rps("veth2", "1-7").silent(&RULE, "all are tuned");
        let bridge = Sketch::new(8).container("veth1", 2e4, "1-7").veth("br0").traffic("br0", 2e4);
        bridge.silent(&RULE, "not a container's");
        let device = Sketch::new(8).container("veth1", 2e4, "").device("eth0", &[0]).traffic("eth0", 2e4);
        device.rps("eth0", "1-7").silent(&RULE, "a device was tuned, no container's interface");
        let both = host(1.5e4, "1-7").edit("veth2", |nic| {
            nic.stack.peer = Some(rxlab_path::model::Peer {
                ifindex: 9,
                nic: Some("veth9".parse().expect("a name")),
                namespace: None,
            });
        });
        both.silent(&RULE, "both ends are here");
    }
}
