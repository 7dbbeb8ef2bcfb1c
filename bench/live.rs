//! Verdicts of live trials on this machine: `cargo run --release --example live [-- TRIALS [PAIRS]]`, by default 20 of
//! each kind with at most 20 pairs. Needs a quiet machine with two CPUs and the release build of `rxlab`.
//!
//! An HTTP server on CPU 1 answers a closed loop from CPU 0 over `lo`; the trials only see live traffic. In half of them
//! neither arm does anything. In the other half arm B lets a process run on the server's CPU that takes 10 % of it. Prints
//! a line of JSON for each trial, then a summary.

#![allow(clippy::disallowed_methods)] // Starts the program and prints.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rxlab_base::units::{CpuId, CpuMask};
use rxlab_load::servers::{self as target, Target};
use rxlab_load::{Session, Spec};
use rxlab_trial::record::{Effect, TrialRecord, Verdict};
use rxlab_trial::simulate::table::share_interval;

/// Part of the server's CPU that the hidden process takes.
const QUOTA: f64 = 0.10;
/// Period of the quota.
const PERIOD: Duration = Duration::from_millis(10);
const CONNECTIONS: usize = 16;

#[derive(serde::Serialize)]
struct Tried {
    seed: u64,
    slowed: bool,
    verdict: Verdict,
    pairs: usize,
    effect: Option<Effect>,
    seconds: f64,
}

/// A process on CPU 1 that is busy for a part of each period, and stopped at first.
struct Thief(Child);

impl Thief {
    fn start() -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let child = Command::new("taskset").args(["-c", "1"]).arg(program).arg("thief").spawn();
        let thief = Self(child.expect("taskset of util-linux starts it"));
        thief.signal("STOP");
        thief
    }

    fn signal(&self, signal: &str) {
        let done = Command::new("sh").args(["-c", &self.command(signal)]).status();
        assert!(done.is_ok_and(|status| status.success()));
    }

    /// The arm: a shell command.
    fn command(&self, signal: &str) -> String {
        format!("kill -{signal} {}", self.0.id())
    }
}

impl Drop for Thief {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn steal() -> ! {
    loop {
        let begun = Instant::now();
        while begun.elapsed() < PERIOD.mul_f64(QUOTA) {
            std::hint::spin_loop();
        }
        std::thread::sleep(PERIOD.saturating_sub(begun.elapsed()));
    }
}

fn trial(state: &Path, seed: u64, pairs: usize, arms: Option<&Thief>) -> Tried {
    let (a, b) = match arms {
        Some(thief) => (thief.command("STOP"), thief.command("CONT")),
        None => ("true".to_owned(), "true".to_owned()),
    };
    let design = format!(
        "--live --nic lo --primary throughput --seed {seed} --pairs {pairs} --washout 100ms --measure 500ms --json"
    );
    let begun = Instant::now();
    let mut program = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/target/release/rxlab"));
    program.arg("--state-dir").arg(state).args(["trial", "run", "--a", &a, "--b", &b]);
    let out = program.args(design.split(' ')).output().expect("rxlab is built");
    let record: TrialRecord = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&out.stderr)));
    let analysis = record.analysis.expect("concluded");
    Tried {
        seed,
        slowed: arms.is_some(),
        verdict: analysis.verdict,
        pairs: analysis.pairs,
        effect: analysis.metrics.first().and_then(|primary| primary.effect),
        seconds: begun.elapsed().as_secs_f64(),
    }
}

/// `3 of 20 (15.0 % [5.2, 36.0])`.
fn share(all: &[&Tried], is: impl Fn(&Tried) -> bool) -> String {
    let count = all.iter().filter(|tried| is(tried)).count();
    format!("{count} of {} ({})", all.len(), share_interval(count, all.len()))
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next();
    if first.as_deref() == Some("thief") {
        steal();
    }
    let trials: u64 = first.map_or(20, |text| text.parse().expect("a number of trials"));
    let pairs = arguments.next().map_or(20, |text| text.parse().expect("a number of pairs"));
    let cpus = |cpu| CpuMask::from_iter([CpuId(cpu)]);
    let server = target::Spec {
        http: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        cpus: cpus(1),
        ..target::Spec::default()
    };
    let server = Target::start(&server).expect("a server");
    let address = server.addresses().http.expect("it has an address");
    let url = format!("http://{address}/simple").parse().expect("a URL");
    let load = Spec { connections: CONNECTIONS, cpus: cpus(0), ..Spec::new(url) };
    let _load = Session::start(&load).expect("a session");
    let thief = Thief::start();
    let state = tempfile::tempdir().expect("a directory");
    let begun = Instant::now();
    let mut all = Vec::new();
    for seed in 1..=trials {
        for arms in [None, Some(&thief)] {
            let tried = trial(state.path(), seed, pairs, arms);
            println!("{}", serde_json::to_string(&tried).expect("JSON"));
            all.push(tried);
        }
    }
    let of = |slowed: bool| all.iter().filter(|tried| tried.slowed == slowed).collect::<Vec<_>>();
    let (still, slowed) = (of(false), of(true));
    let is_effect = |tried: &Tried| {
        matches!(
            tried.verdict,
            Verdict::Helps | Verdict::Hurts | Verdict::NoMeasurableEffect { negligible: true }
        )
    };
    let mut changes: Vec<f64> =
        slowed.iter().filter_map(|tried| tried.effect).map(|effect| 100.0 * effect.mid).collect();
    changes.sort_by(f64::total_cmp);
    println!(
        "\nnothing changed: an effect in {}, none in {}\n{:.0} % of the server's CPU taken: hurts in {}; throughput {:+.1} % \
         (median)\n{:.0} s in all",
        share(&still, is_effect),
        share(&still, |tried| tried.verdict == Verdict::NoMeasurableEffect { negligible: false }),
        100.0 * QUOTA,
        share(&slowed, |tried| tried.verdict == Verdict::Hurts),
        changes.get(changes.len() / 2).copied().unwrap_or(f64::NAN),
        begun.elapsed().as_secs_f64(),
    );
}
