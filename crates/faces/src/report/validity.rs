//! Validity of a trial's result: noise, power, and everything else that could have caused it.

use super::{probe_words, words};
use rxlab_base::number;
use rxlab_stats as stats;
use rxlab_stats::design::Arm;
use rxlab_trial::metrics::name;
use rxlab_trial::record::{TrialRecord, Verdict};
use rxlab_trial::spec::Kind;

/// One line for each condition: its name and what the record says of it.
pub fn rows(record: &TrialRecord) -> Vec<(&'static str, String)> {
    let analysis = record.analysis.as_ref();
    let pairs = analysis.map_or_else(
        || "not judged yet".to_owned(),
        |analysis| {
            let voids = match analysis.voids {
                0 => "no void slot".to_owned(),
                voids => number::plural(voids, "void slot"),
            };
            format!("{}, {voids}", number::plural(analysis.pairs, "valid pair"))
        },
    );
    let order = match record.design {
        Kind::BeforeAfter => "arm A first, then arm B: nothing was randomised".to_owned(),
        _ => format!("drawn from seed {}", record.seed),
    };
    let detectable = analysis.and_then(|analysis| analysis.metrics.first()?.detectable);
    let detectable = detectable.map_or("unknown".to_owned(), |least| {
        format!("{} in 4 of 5 trials; the margin is {}", number::share(least), number::share(record.margin))
    });
    vec![
        ("A/A calibration", words::calibration(record)),
        ("Detectable effect", detectable),
        ("Order of the arms", order),
        ("Pairs", pairs),
        ("Load generator", client(record)),
        ("Probe", probe(record)),
        ("Steal time", steal(record)),
        ("Kernel", record.host.kernel.clone()),
    ]
}

/// Mean of a value over the valid comparison slots of an arm.
fn mean(record: &TrialRecord, name: &str, arm: Arm) -> Option<f64> {
    stats::mean(&record.values(name, arm).collect::<Vec<_>>())
}

/// Signs that the client was the limit, and the CPU time that it took on this machine.
fn client(record: &TrialRecord) -> String {
    if let Some(Verdict::ClientLimited { reason }) = record.verdict() {
        return format!("was the limit: {reason}");
    }
    let used = |arm: Arm| {
        let each = mean(record, name::CLIENT_CPU, arm)?;
        Some(each * mean(record, name::THROUGHPUT, arm)? / 1e6)
    };
    match (used(Arm::A), used(Arm::B)) {
        (Some(a), Some(b)) => {
            format!("not the limit; used {a:.2} CPUs of this machine in A, {b:.2} in B")
        }
        _ if record.workload.starts_with("live traffic") => "none: live traffic".to_owned(),
        _ => "no sign that it was the limit".to_owned(),
    }
}

fn probe(record: &TrialRecord) -> String {
    match probe_words::of_record(record) {
        Some(words) => words,
        None if record.softirq_timed => "none; softirq time was measured by eBPF in both arms".to_owned(),
        None => "none".to_owned(),
    }
}

fn steal(record: &TrialRecord) -> String {
    match (mean(record, name::STEAL, Arm::A), mean(record, name::STEAL, Arm::B)) {
        (Some(a), Some(b)) => format!(
            "the hypervisor took {} of the CPUs' time in A, {} in B",
            number::share(a / 100.0),
            number::share(b / 100.0)
        ),
        _ => "not recorded".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::rows;
    use rxlab_stats::design::Arm;
    use rxlab_trial::metrics::name;
    use rxlab_trial::record::{TrialRecord, Verdict};
    use rxlab_trial::sample_record;

    fn row(record: &TrialRecord, name: &str) -> String {
        let found = rows(record).into_iter().find(|(found, _)| *found == name);
        found.expect("a row").1
    }

    #[test]
    fn each_condition_has_a_line() {
        let lines: Vec<String> =
            rows(&sample_record::rps()).into_iter().map(|(name, words)| format!("{name}: {words}")).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn the_client_and_the_hypervisor_are_named_where_they_are_known() {
        let mut record = sample_record::rfs();
        for slot in &mut record.slots {
            let b = slot.arm == Arm::B;
            slot.values.insert(name::CLIENT_CPU.to_owned(), if b { 4.0 } else { 2.0 });
            slot.values.insert(name::THROUGHPUT.to_owned(), 100_000.0);
            slot.values.insert(name::STEAL.to_owned(), if b { 3.0 } else { 1.5 });
        }
        assert_eq!(
            row(&record, "Load generator"),
            "not the limit; used 0.20 CPUs of this machine in A, 0.40 in B"
        );
        assert_eq!(row(&record, "Steal time"), "the hypervisor took 1.5 % of the CPUs' time in A, 3 % in B");
        record.analysis.as_mut().expect("an analysis").verdict =
            Verdict::ClientLimited { reason: "client thread 0 was busy 97 % of the time".to_owned() };
        assert_eq!(
            row(&record, "Load generator"),
            "was the limit: client thread 0 was busy 97 % of the time"
        );
        record.workload = "live traffic, nothing driven".to_owned();
        record.analysis = None;
        record.slots.clear();
        assert_eq!(row(&record, "Load generator"), "none: live traffic");
        assert_eq!(row(&record, "Pairs"), "not judged yet");
    }
}
