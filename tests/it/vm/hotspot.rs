//! Field case A: one queue for eight CPUs, with its interrupt on one of them.

use rxlab::report::findings::DoctorReport;

use super::guest;

/// A look that missed what is there is repeated: the guest's CPUs share two that others use as well.
const JOB: &str = r"
for look in 1 2 3; do
    ran doctor rxlab doctor --for 2s --json > answer
    grep -q one-core-hotspot answer && break
done
cat answer
";

#[test]
fn the_hotspot_and_its_interrupt_are_named() {
    let Some(answer) =
        guest::run("8cpu-1queue", &[guest::FLOODED, JOB].concat(), Some(&guest::flood(64, 20000)))
    else {
        return;
    };
    let (code, text) = answer.ran("doctor");
    assert_eq!(code, 1, "{text}");
    let report: DoctorReport = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let hotspot = report.findings.iter().find(|finding| finding.id == "one-core-hotspot");
    let hotspot = hotspot.unwrap_or_else(|| panic!("no hotspot: {text}"));
    assert_eq!(hotspot.cpu.map(|cpu| cpu.0), Some(2), "{hotspot:?}");
    assert_eq!(hotspot.nic.as_ref().map(|nic| nic.as_str()), Some("eth0"), "{hotspot:?}");
    let place = format!("IRQ {} -> CPU 2", answer.part("irq").trim());
    assert!(hotspot.evidence.iter().any(|line| line.contains(&place)), "{place}: {hotspot:?}");
    assert!(report.plans.iter().any(|proposal| proposal.plan.name == "rps"), "{text}");
}
