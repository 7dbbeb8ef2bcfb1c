//! The probe of a trial and its cost, in one line.

use rxlab_base::number::{grouped, share};
use rxlab_stats::design::Arm;
use rxlab_trial::record::{ProbeSlots, ProbeUse, TrialRecord};

/// Method and cost of a record's probe; `None` if there was none.
pub(super) fn of_record(record: &TrialRecord) -> Option<String> {
    let probe = record.probe.as_ref()?;
    let counted = record.slots.iter().filter_map(|slot| slot.probe_cost);
    let (ns, runs) = counted.fold((0_u64, 0_u64), |(ns, runs), cost| (ns + cost.ns, runs + cost.runs));
    let each = match ns.checked_div(runs) {
        Some(each) => format!(" ({} runs of {each} ns)", grouped(runs)),
        None => String::new(),
    };
    Some(in_words(probe, record.probe_cost(Arm::A).zip(record.probe_cost(Arm::B))) + &each)
}

/// `cost`: CPU time of its programs in each arm, as fractions of one CPU.
pub(super) fn in_words(probe: &ProbeUse, cost: Option<(f64, f64)>) -> String {
    let mut parts = vec![
        match probe.slots {
            ProbeSlots::Attached => "attached in every slot of both arms",
            ProbeSlots::Detached => "attached after each slot only",
        }
        .to_owned(),
    ];
    if let Some(cpu) = probe.spin {
        parts.push(format!("its own thread on CPU {cpu}"));
    }
    if !probe.cpus.is_empty() {
        parts.push(format!("interference on CPU {}", probe.cpus));
    }
    parts.push(match cost {
        Some((a, b)) => format!("its programs took {} of one CPU in A and {} in B", share(a), share(b)),
        None => "cost of its programs unknown".to_owned(),
    });
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::of_record;
    use rxlab_base::units::CpuId;
    use rxlab_probe::Cost;
    use rxlab_stats::design::Arm;
    use rxlab_trial::record::{ProbeSlots, ProbeUse, TrialRecord};
    use rxlab_trial::sample_record;

    #[test]
    fn the_cost_of_each_arm() {
        let mut record = sample_record::rfs();
        assert_eq!(of_record(&record), None);
        let cpus = "0-1".parse().expect("a list");
        record.probe =
            Some(ProbeUse { slots: ProbeSlots::Attached, spin: Some(CpuId(1)), cpus, limits: Vec::new() });
        let said = |record: &TrialRecord| of_record(record).expect("a probe");
        assert!(said(&record).ends_with("CPU 0-1, cost of its programs unknown"), "{}", said(&record));
        for slot in &mut record.slots {
            let ns = if slot.arm == Arm::A { 15_000_000 } else { 45_000_000 };
            slot.probe_cost = Some(Cost { ns, runs: 100_000, missed: 0, of_ns: (slot.seconds * 1e9) as u64 });
        }
        assert_eq!(
            said(&record),
            "attached in every slot of both arms, its own thread on CPU 1, interference on CPU 0-1, its programs \
             took 1 % of one CPU in A and 3 % in B (2,400,000 runs of 300 ns)"
        );
    }
}
