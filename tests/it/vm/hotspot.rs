//! Field case A: one queue for eight CPUs, with its interrupt on one of them.

use std::collections::BTreeSet;

use rxlab_base::units::{CpuId, CpuMask};
use rxlab_setting::{Plan, Setting};
use rxlab_trial::tuning::{End, Tuning};

use super::guest;
use crate::process::Ended;

/// A sample that missed the finding, or in which nothing could be planned, is repeated: the guest's CPUs share two that others use as
/// well. Then applies the planner's plan and reads the same counters for as long again.
const JOB: &str = r#"
net_rx() {
    part "$1"
    cat /proc/softirqs /proc/stat /proc/net/softnet_stat
}
net_rx quiet
for look in 1 2 3 4 5; do
    ran doctor rxlab doctor --for 2s --json > answer
    grep -q one-core-hotspot answer && break
done
cat answer
net_rx drowned
ran tune rxlab tune --dry-run --nic eth0 --for 2s --json
for look in 1 2 3 4 5; do
    ran plan rxlab plan rps --nic eth0 --for 2s --predict -o rps.toml
    [ -e rps.toml ] && break
done
part file
cat rps.toml
ran apply rxlab apply rps.toml
sleep 2
net_rx planned
sleep 8
net_rx spread
"#;

/// Counts of the guest's kernel for each CPU: packets that went up the stack, NET_RX runs, softirq ticks.
struct NetRx {
    packets: Vec<u64>,
    runs: Vec<u64>,
    ticks: Vec<u64>,
}

impl NetRx {
    fn parse(text: &str) -> Self {
        let numbers = |line: &str| -> Vec<u64> {
            line.split_whitespace().skip(1).map(|word| word.parse().expect("a counter")).collect()
        };
        let runs = text.lines().find(|line| line.trim_start().starts_with("NET_RX:")).expect("a line");
        let cpus = text.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
        let packets = text.lines().filter(|line| line.split_whitespace().count() >= 13).filter_map(|line| {
            let word = line.split_whitespace().next().filter(|word| word.len() == 8)?;
            u64::from_str_radix(word, 16).ok()
        });
        // user nice system idle iowait irq softirq steal
        Self {
            packets: packets.collect(),
            runs: numbers(runs),
            ticks: cpus.map(|line| numbers(line)[6]).collect(),
        }
    }

    fn between(answer: &guest::Answer, before: &str, after: &str) -> Self {
        let (before, after) = (Self::parse(answer.part(before)), Self::parse(answer.part(after)));
        let less = |now: &[u64], then: &[u64]| now.iter().zip(then).map(|(now, then)| now - then).collect();
        Self {
            packets: less(&after.packets, &before.packets),
            runs: less(&after.runs, &before.runs),
            ticks: less(&after.ticks, &before.ticks),
        }
    }
}

fn hottest(counts: &[u64]) -> usize {
    (0..counts.len()).max_by_key(|cpu| counts[*cpu]).expect("there are CPUs")
}

#[test]
fn the_hotspot_and_its_interrupt_are_named() {
    let Some(answer) = guest::run_firewall("", JOB, 6000) else { return };
    let (report, hotspot) = answer.hotspot();
    assert_eq!(hotspot.nic.as_ref().map(|nic| nic.as_str()), Some("eth0"), "{hotspot:?}");
    let place = format!("IRQ {} -> CPU 2", answer.part("irq").trim());
    assert!(hotspot.seen().iter().any(|line| line.contains(&place)), "{place}: {hotspot:?}");
    assert!(report.plans.iter().any(|proposal| proposal.plan.name == "rps"), "{report:?}");
    let drowned = NetRx::between(&answer, "quiet", "drowned");
    println!("before: runs {:?}, ticks {:?}", drowned.runs, drowned.ticks);
    assert_eq!((hottest(&drowned.runs), hottest(&drowned.ticks)), (2, 2), "the counters name it too");

    no_candidate_hands_packets_to_the_cpu_that_receives(&answer.ran("tune").json(0));
    for name in ["plan", "apply"] {
        answer.ran(name).exits(0);
    }
    let plan = Plan::from_toml(answer.part("file")).expect("a plan");
    let [planned] = plan.settings.as_slice() else { panic!("{plan:?}") };
    let mask: CpuMask = planned.set.value.parse().expect("a mask");
    assert!(!mask.contains(CpuId(2)) && mask.len() > 3, "{plan:?}");
    let prediction = plan.prediction.as_ref().expect("the plan is predicted");
    println!("predicted: {prediction} ({})", prediction.basis);
    assert!(prediction.cpu == CpuId(2) && prediction.after < prediction.before, "{prediction:?}");
    let spread = NetRx::between(&answer, "planned", "spread");
    let share = |counts: &[u64]| counts[2] as f64 / counts.iter().sum::<u64>() as f64;
    println!("after, RPS on {mask}: packets {:?}, ticks {:?}", spread.packets, spread.ticks);
    assert_eq!(spread.packets.len(), 8, "a line for each CPU");
    let of_mask: u64 = mask.iter().map(|cpu| spread.packets[cpu.0 as usize]).sum();
    let mean = of_mask as f64 / mask.len() as f64;
    let most = spread.packets[hottest(&spread.packets)] as f64;
    assert!(most < 1.5 * mean, "one CPU is far above the others: {:?}", spread.packets);
    // It still takes every packet off the queue, here in polls of one or two: a mask cannot move that part.
    assert!(share(&spread.packets) < 0.1 && share(&drowned.packets) > 0.9, "{:?}", drowned.packets);
    // Ticks are too coarse to check how much time it saves: `vm::firewall` does that, by eBPF.
    println!("softirq time of CPU 2: {:.2} of all, then {:.2}", share(&drowned.ticks), share(&spread.ticks));
}

fn no_candidate_hands_packets_to_the_cpu_that_receives(tuning: &Tuning) {
    assert_eq!(tuning.end, End::Planned, "{tuning:?}");
    let settings = tuning.candidates.iter().flat_map(|candidate| &candidate.settings);
    let settings: Vec<Setting> = settings.map(|line| line.parse().expect("a setting")).collect();
    let masks: Vec<CpuMask> = settings
        .iter()
        .filter(|setting| setting.knob == "rps")
        .map(|setting| setting.value.parse().expect("a mask"))
        .collect();
    assert!(masks.iter().all(|mask| !mask.contains(CpuId(2)) && !mask.is_empty()), "{masks:?}");
    let sizes: BTreeSet<usize> = masks.iter().map(CpuMask::len).collect();
    assert!(sizes.contains(&1) && sizes.len() > 3, "few CPUs are tried as well as many: {masks:?}");
}
