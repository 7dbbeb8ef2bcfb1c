//! Two setups flipped on the real kernel: only one of them causes interference, and the machine is restored.

use std::process::Command;

use rustix::process::Signal;
use rxlab_stats::design::Arm;
use rxlab_sys::{Host, LiveHost};
use rxlab_trial::compare::{Comparison, Measure};
use rxlab_trial::record::Verdict;

use crate::flood::Flood;
use crate::lab::host_in;
use crate::process::{Ended, Running, mentioning, rxlab, wait_for};

const RPS: &str = "sys/class/net/srv0/queues/rx-0/rps_cpus";
/// RPS to the CPU of the victim, and no RPS.
const COSTS: &str = "rps srv0/rx-0 = 0";
const SPARES: &str = "as-is";

fn compare(flood: &Flood, a: &str, b: &str, arguments: &[&str]) -> Command {
    let mut command =
        rxlab(flood.directory.path(), &["interference", "--compare", a, b, "--cpu", "0", "--probe"]);
    command.args(["--washout", "100ms", "--seed", "7"]).args(arguments);
    command.arg("--netns").arg(flood.range.server.path());
    command
}

fn rps(host: &LiveHost) -> String {
    host.read_text(RPS).expect("readable").trim().to_owned()
}

fn measure<'a>(comparison: &'a Comparison, name: &str) -> &'a Measure {
    let mut measures = comparison.measures.iter();
    measures.find(|measure| measure.metric.name == name).unwrap_or_else(|| panic!("{name}: {comparison:?}"))
}

fn is_restored(flood: &Flood) {
    assert_eq!(rps(&host_in(&flood.range.server)), "0");
    assert_eq!(mentioning(flood.directory.path()).len(), 1, "the flood alone");
    let text = rxlab(flood.directory.path(), &["status"]).exits(0);
    assert!(text.starts_with("nothing is applied\n"), "{text}");
}

/// The answer to the query of field case E, which is the same if A and B are exchanged.
#[test]
fn the_setup_that_interferes_is_named() {
    // Flat out, a sender on a CPU of its own can send more: the setup that interferes would win by throughput.
    let Some(flood) = Flood::start("0", &["--rate", "50000"]) else { return };
    for (a, b, less, verdict) in
        [(COSTS, SPARES, Arm::B, Verdict::Helps), ("rps srv0/rx-0 = off", COSTS, Arm::A, Verdict::Hurts)]
    {
        let comparison: Comparison =
            compare(&flood, a, b, &["--json", "--for", "300ms", "--pairs", "6"]).json(0);
        assert_eq!((comparison.pairs, comparison.seed), (6, 7));
        let lesser = (comparison.per_second.less, comparison.per_packet.less);
        assert_eq!(lesser, (Some(less), Some(less)), "{comparison:?}");
        assert_eq!(comparison.verdict, verdict, "{comparison:?}");
        for name in ["interference.share", "interference.ns_per_packet"] {
            let measure = measure(&comparison, name);
            let (high, low) = if less == Arm::B { (measure.a, measure.b) } else { (measure.b, measure.a) };
            assert!(low < high / 4.0, "{name}: {high} {low}");
            let difference = measure.difference.expect("6 pairs");
            assert!(
                if less == Arm::B { difference.mid < 0.0 } else { difference.mid > 0.0 },
                "{difference:?}"
            );
        }
        // At least a fiftieth of the CPU, with an unoptimized build.
        let share = measure(&comparison, "interference.share");
        assert!(share.a.max(share.b) > 2.0, "{share:?}");
        // The victim itself sees no interference from the other setup. While tasks of other tests use its CPU it sees
        // little of either: those are interrupted instead.
        let inferred = measure(&comparison, "interference.inferred");
        let seen = inferred.difference.expect("6 pairs");
        let (low, high) = (seen.low.expect("bound"), seen.high.expect("bound"));
        assert!(if less == Arm::B { low < 0.0 } else { high > 0.0 }, "{inferred:?}");
        assert!(measure(&comparison, "net_rx.packets").a > 1_000.0);
        let (cost_a, cost_b) = comparison.probe_cost.expect("counted");
        assert!(cost_a > 0.0 && cost_b > 0.0);
        is_restored(&flood);
    }
}

#[test]
fn ctrl_c_restores_the_machine() {
    let Some(flood) = Flood::start("0", &[]) else { return };
    let host = host_in(&flood.range.server);
    let running = Running::start(&mut compare(&flood, SPARES, COSTS, &["--for", "200ms", "--pairs", "200"]));
    wait_for("the setup that interferes", || rps(&host) == "1");
    running.signal(Signal::INT);
    running
        .output()
        .says_all(130, &["verdict on B against A: interrupted", "the machine is as it was before"]);
    is_restored(&flood);
}

/// The next command undoes what a killed one left.
#[test]
fn a_kill_leaves_an_undoable_change() {
    let Some(flood) = Flood::start("0", &[]) else { return };
    let host = host_in(&flood.range.server);
    let running = Running::start(&mut compare(&flood, SPARES, COSTS, &["--for", "5s", "--pairs", "200"]));
    wait_for("the setup that interferes", || rps(&host) == "1");
    running.signal(Signal::KILL);
    running.output();
    assert_eq!(rps(&host), "1", "a kill cannot be caught");
    rxlab(flood.directory.path(), &["undo"]).exits(0);
    wait_for("the guard's end", || mentioning(flood.directory.path()).len() == 1);
    is_restored(&flood);
}

#[test]
fn setups_can_be_commands() {
    let Some(flood) = Flood::start("0", &[]) else { return };
    let path = flood.directory.path().join("said");
    let say = |word: &str| format!("cmd: echo {word} >> '{}'", path.display());
    let text = compare(&flood, &say("a"), &say("b"), &["--for", "100ms", "--pairs", "2"]).exits(0);
    assert!(text.ends_with("the machine was left in the state of A's command\n"), "{text}");
    let words = std::fs::read_to_string(&path).expect("said");
    let words: Vec<&str> = words.lines().collect();
    assert!(words.contains(&"b") && words.last() == Some(&"a"), "{words:?}");
    compare(&flood, &say("a"), SPARES, &[]).says(2, "a command on one side needs one on the other");
}
