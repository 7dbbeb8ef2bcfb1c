//! Field case A: one queue for eight CPUs, with its interrupt on one of them.

use rxlab::report::findings::DoctorReport;

use super::guest;

/// The interrupt goes to CPU 2; when the sink is there, a ping tells the peer to begin. A look that
/// missed what is there is repeated: the guest's CPUs share two that others use as well.
const JOB: &str = r"
irq=$(sed -n 's/^ *\([0-9]*\):.*virtio0-input.0$/\1/p' /proc/interrupts)
echo 2 > /proc/irq/$irq/smp_affinity_list
part irq
echo $irq
rxlab target --udp-sink 10.98.0.2:9000 --for 200s > /dev/null 2>&1 &
sleep 2
ping -c 1 10.98.0.1 >&2
sleep 3
for look in 1 2 3; do
    ran doctor rxlab doctor --for 2s --json > answer
    grep -q one-core-hotspot answer && break
done
cat answer
";

#[test]
fn the_hotspot_and_its_interrupt_are_named() {
    let rxlab = env!("CARGO_BIN_EXE_rxlab");
    let peer = format!(
        "until ip neigh | grep -q '^10.98.0.2 .*lladdr'; do sleep 0.2; done
         exec '{rxlab}' load udp-sink://10.98.0.2:9000 --flows 64 --rate 20000 --for 200s"
    );
    let Some(answer) = guest::run("8cpu-1queue", JOB, Some(&peer)) else { return };
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
