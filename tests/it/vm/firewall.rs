//! One queue for eight CPUs, and a firewall: most of a packet's cost is above the driver, where RPS can move it.

use rxlab_base::units::{CpuId, CpuMask};
use rxlab_probe::Interference;

use super::guest;
use crate::process::Ended;

/// A sample that missed the finding is repeated: this machine also runs other work.
const JOB: &str = r#"
for look in 1 2 3 4 5; do
    ran doctor rxlab doctor --for 3s --json > answer
    grep -q one-core-hotspot answer && break
done
cat answer
ran before rxlab interference --for 4s --tier ebpf --json
ran plan rxlab plan rps --nic eth0 --for 2s -o rps.toml
ran apply rxlab apply rps.toml
part mask
cat /sys/class/net/eth0/queues/rx-0/rps_cpus
ran after rxlab interference --for 6s --tier ebpf --json
"#;

/// NET_RX time of each CPU, in seconds.
fn net_rx(answer: &guest::Answer, name: &str) -> Vec<f64> {
    let sample: Interference = answer.ran(name).json(0);
    let time = |ns: Option<&u64>| *ns.expect("measured") as f64 / 1e9;
    sample.cpus.iter().map(|cpu| time(cpu.net_rx_ns.known())).collect()
}

#[test]
fn the_overloaded_cpu_ends_with_no_more_work_than_the_others() {
    let Some(answer) = guest::run_firewall("walls 50\n", JOB, 1200) else { return };
    answer.hotspot();
    let before = net_rx(&answer, "before");
    println!("NET_RX time, seconds: {before:.2?}");
    assert!(before[2] > 0.9 * before.iter().sum::<f64>(), "the time is CPU 2's: {before:?}");

    for name in ["plan", "apply"] {
        answer.ran(name).exits(0);
    }
    let mask = CpuMask::from_hex(answer.part("mask").trim()).expect("a mask");
    assert!(!mask.contains(CpuId(2)) && mask.len() > 3, "{mask}");
    let after = net_rx(&answer, "after");
    println!("with RPS on {mask}: {after:.2?}");
    let mean = mask.iter().map(|cpu| after[cpu.0 as usize]).sum::<f64>() / mask.len() as f64;
    assert!(after[2] < 1.5 * mean, "CPU 2 is still far above the mask's mean of {mean:.2}: {after:?}");
}
