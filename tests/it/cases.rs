//! The field cases of `docs/cases/` in their short form, with their factor and with one that does nothing.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::quiet;
use crate::require::{bpf, fiber, netns, nft, nginx, opentracker, program, prometheus, root, vm};

/// A line of a case's output.
#[derive(Debug, Deserialize)]
pub(super) struct Conclusion {
    conclusion: String,
    expected: String,
    reached: String,
}

impl Conclusion {
    fn is_reached(&self) -> bool {
        self.expected == self.reached
    }
}

/// Runs `cases/CASE.sh --short` with more `options`. Returns its conclusions.
fn run(case: &str, options: &[&str]) -> Vec<Conclusion> {
    let _alone = quiet::alone();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("cases/{case}.sh"));
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM"]).arg(script).arg("--short").args(options);
    command.args(["--rxlab", env!("CARGO_BIN_EXE_rxlab")]).arg("--out").arg(directory.path());
    let out = command.stdin(Stdio::null()).output().expect("the case runs");
    let (text, log) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let conclusions: Vec<Conclusion> = text.lines().map(parse).collect();
    let all = conclusions.iter().all(Conclusion::is_reached);
    assert_eq!(out.status.code(), Some(i32::from(!all)), "{text}\n{log}");
    println!("{text}");
    conclusions
}

/// True if this machine can run a case; else the missing capability is named.
fn can_run(case: &str) -> bool {
    let needs: &[fn() -> bool] = match case {
        "a" => &[vm, bpf, nginx, prometheus, opentracker, nft],
        "b" => &[vm, netns, fiber],
        "c" => &[vm, netns, root, bpf, nginx, nft],
        "d" => &[netns, fiber],
        "e" => &[netns, bpf, || program("openssl", "openssl", "version")],
        _ => panic!("there is no case {case}"),
    };
    needs.iter().all(|is_there| is_there())
}

/// All conclusions are reached.
fn holds(case: &str) {
    if !can_run(case) {
        return;
    }
    let conclusions = run(case, &[]);
    assert!(!conclusions.is_empty(), "case {case} concludes nothing");
    for conclusion in conclusions {
        assert!(conclusion.is_reached(), "{conclusion:?}");
    }
}

/// With a factor that does nothing, exactly the conclusions named `changed` are not reached.
fn rests_on_its_factor(case: &str, changed: &[&str]) {
    if !can_run(case) {
        return;
    }
    let conclusions = run(case, &["--no-op"]);
    let missed = conclusions.iter().filter(|conclusion| !conclusion.is_reached());
    let missed: Vec<&str> = missed.map(|conclusion| conclusion.conclusion.as_str()).collect();
    assert_eq!(missed, changed, "{conclusions:?}");
}

/// The tracker host: a remedy that cannot help, one that spreads, and a hotspot behind an interrupt.
mod a {
    #[test]
    fn rps_spreads_and_the_effect_holds() {
        super::holds("a");
    }

    #[test]
    fn a_factor_that_does_nothing_spreads_nothing() {
        super::rests_on_its_factor("a", &["RPS", "RPS, CPUs in a guest", "rebooted, restored"]);
    }
}

/// The 2x2 of steering and process affinity.
mod b {
    #[test]
    fn process_affinity_is_told_from_steering() {
        super::holds("b");
    }

    #[test]
    fn a_process_without_work_shows_no_effect() {
        let changed =
            ["of process affinity", "both in one step", "blamed by one step", "packets, IRQs on 6-7"];
        super::rests_on_its_factor("b", &changed);
    }
}

/// One million requests a second: masks from topology, and the best one by search.
mod c {
    #[test]
    fn masks_are_planned_and_the_best_is_found() {
        super::holds("c");
    }

    #[test]
    fn masks_of_an_idle_interface_are_not_confirmed() {
        let guests = ["guest, one queue", "guest, two queues", "guest, two NICs"];
        let changed = [&["mask by search"][..], &guests, &["moderation, e1000e", "clocksource"]].concat();
        super::rests_on_its_factor("c", &changed);
    }
}

/// Case d: the client hits the wall.
mod d {
    #[test]
    fn a_client_without_its_cpu_is_called_the_limit_and_no_other() {
        super::holds("d");
    }

    #[test]
    fn neighbours_that_sleep_and_a_process_without_work_limit_nothing() {
        super::rests_on_its_factor("d", &["client-limited, shared", "the curve bends at"]);
    }
}

/// Case e: receive work interferes with programs.
mod e {
    #[test]
    fn openssl_loses_time_to_steered_packets() {
        super::holds("e");
    }

    #[test]
    fn it_loses_none_to_packets_of_another_cpu() {
        let shown = ["cause of the runs, traced", "drawn on CPU 0", "flow rule, recorded"];
        let lost = ["time lost, RPS to CPU 0", "the same, inferred, RPS", "disturbs less"];
        super::rests_on_its_factor("e", &[lost, shown].concat());
    }
}
