//! Whether trials with short slots lean to an arm: trials in which nothing is changed, on this machine.
//! `cargo run --release --example lean -- [--trials N] [--pairs N] [--commands] [--out FILE] [--program FILE]`, by default 100
//! trials of each kind (600 in all) of at most 40 pairs, appended to `bench/results/lean.jsonl`.
//!
//! Slots of 100 and 200 ms after a washout of 50 ms; a closed loop over HTTP, one over UDP, and live traffic, from CPU 0 to a
//! server on CPU 1 over `lo`. Arm B sets the RPS mask of a veth that is down: a flip does all that a flip does, and nothing
//! changes. With `--commands` both arms are the command `true`. A later call goes on after the trials
//! that the file has. Needs root, a quiet machine with two CPUs and the release build of `rxlab`.

#![allow(clippy::disallowed_methods)] // Starts programs, writes a file, and prints.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use rxlab_base::units::{CpuId, CpuMask};
use rxlab_load::servers::{self as target, Target};
use rxlab_load::{Session, Spec};
use rxlab_stats::interval::t_quantile;
use rxlab_stats::{mean, sd};
use rxlab_trial::record::{Call, TrialRecord};
use rxlab_trial::simulate::table::share_interval;
use serde::{Deserialize, Serialize};

const WORKLOADS: [&str; 3] = ["closed", "udp", "live"];
const SLOTS_MS: [u32; 2] = [100, 200];
const CONNECTIONS: &str = "16";
const IDLE: &str = "rxlab-lean";

#[derive(Serialize, Deserialize)]
struct Tried {
    workload: String,
    slot_ms: u32,
    commands: bool,
    seed: u64,
    call: Call,
    pairs: usize,
    /// Mean log ratio of B to A, whatever the call.
    effect: f64,
    seconds: f64,
}

/// An interface without packets, removed at the end.
struct Idle;

impl Idle {
    fn create() -> Self {
        ip(&["link", "add", IDLE, "type", "veth", "peer", "name", "rxlab-lean-peer"]);
        Self
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        ip(&["link", "del", IDLE]);
    }
}

fn ip(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).status().expect("iproute2");
    assert!(done.success(), "ip {}", arguments.join(" "));
}

struct Options {
    trials: u64,
    pairs: usize,
    commands: bool,
    out: PathBuf,
    program: PathBuf,
}

fn options() -> Options {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut options = Options {
        trials: 100,
        pairs: 40,
        commands: false,
        out: root.join("bench/results/lean.jsonl"),
        program: root.join("target/release/rxlab"),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| panic!("{argument} needs a value"));
        match argument.as_str() {
            "--trials" => options.trials = value().parse().expect("a number of trials"),
            "--pairs" => options.pairs = value().parse().expect("a number of pairs"),
            "--commands" => options.commands = true,
            "--out" => options.out = value().into(),
            "--program" => options.program = value().into(),
            _ => panic!("unknown option {argument}"),
        }
    }
    options
}

fn trial(
    options: &Options,
    state: &Path,
    servers: &Target,
    workload: &str,
    slot_ms: u32,
    seed: u64,
) -> Tried {
    let addresses = servers.addresses();
    let load = match workload {
        "closed" => Some(format!("http://{}/simple", addresses.http.expect("a server"))),
        "udp" => Some(format!("udp://{}", addresses.udp_echo.expect("a server"))),
        _ => None,
    };
    let mut program = Command::new(&options.program);
    program.arg("--state-dir").arg(state).args(["trial", "run", "--json", "--primary", "throughput"]);
    match load {
        Some(url) => program.args(["--load", &url, "--connections", CONNECTIONS, "--cpus", "0"]),
        None => program.args(["--live", "--nic", "lo"]),
    };
    match options.commands {
        true => program.args(["--a", "true", "--b", "true"]),
        false => program.args(["--set", &format!("rps {IDLE}/rx-0 = 1")]),
    };
    program.args(["--washout", "50ms", "--measure", &format!("{slot_ms}ms")]);
    program.args(["--pairs", &options.pairs.to_string(), "--seed", &seed.to_string()]);
    let begun = Instant::now();
    let out = program.output().expect("rxlab is built");
    let record: TrialRecord = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&out.stderr)));
    let analysis = record.analysis.expect("concluded");
    let primary = analysis.metrics.first().expect("throughput");
    let ratios: Vec<f64> = primary.ratios.iter().map(|(_, ratio)| *ratio).collect();
    Tried {
        workload: workload.to_owned(),
        slot_ms,
        commands: options.commands,
        seed,
        call: primary.call,
        pairs: analysis.pairs,
        effect: mean(&ratios).expect("pairs"),
        seconds: begun.elapsed().as_secs_f64(),
    }
}

fn read(path: &Path) -> Vec<Tried> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("a line of this program")).collect()
}

fn summary(title: &str, all: &[&Tried]) {
    let effects: Vec<f64> = all.iter().map(|tried| 100.0 * tried.effect).collect();
    let (Some(mid), Some(spread)) = (mean(&effects), sd(&effects)) else { return };
    let n = effects.len();
    let error = spread / (n as f64).sqrt();
    let half = t_quantile(0.975, (n - 1) as f64) * error;
    let shown = |above: bool| {
        let is = |tried: &&&Tried| Call::SHOWN.contains(&tried.call) && (tried.effect > 0.0) == above;
        all.iter().filter(is).count()
    };
    let (up, down) = (shown(true), shown(false));
    let seconds = all.iter().map(|tried| tried.seconds).sum::<f64>() / n as f64;
    println!(
        "{title}: {n} trials, B better in {up}, worse in {down} ({} shown); mean effect {mid:+.3} % [{:+.3}, {:+.3}], \
         z {:+.1}; {seconds:.1} s a trial",
        share_interval(up + down, n),
        mid - half,
        mid + half,
        mid / error
    );
}

fn main() {
    let options = options();
    let server = target::Spec {
        http: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        udp_echo: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        cpus: CpuMask::from_iter([CpuId(1)]),
        ..target::Spec::default()
    };
    let servers = Target::start(&server).expect("servers");
    let url =
        format!("http://{}/simple", servers.addresses().http.expect("a server")).parse().expect("a URL");
    let load = Spec { connections: 16, cpus: CpuMask::from_iter([CpuId(0)]), ..Spec::new(url) };
    let _idle = (!options.commands).then(Idle::create);
    let mut done = read(&options.out);
    let mut file = OpenOptions::new().create(true).append(true).open(&options.out).expect("a file");
    for seed in 1..=options.trials {
        for workload in WORKLOADS {
            // Traffic that the trial does not make itself.
            let _live = (workload == "live").then(|| Session::start(&load).expect("a session"));
            for slot_ms in SLOTS_MS {
                let is_it = |tried: &Tried| {
                    (tried.workload.as_str(), tried.slot_ms, tried.seed) == (workload, slot_ms, seed)
                        && tried.commands == options.commands
                };
                if done.iter().any(is_it) {
                    continue;
                }
                let state = tempfile::tempdir().expect("a directory");
                let tried = trial(&options, state.path(), &servers, workload, slot_ms, seed);
                writeln!(file, "{}", serde_json::to_string(&tried).expect("JSON")).expect("written");
                done.push(tried);
            }
        }
    }
    for workload in WORKLOADS {
        for slot_ms in SLOTS_MS {
            let of = |tried: &&Tried| tried.workload == workload && tried.slot_ms == slot_ms;
            summary(&format!("{workload}, {slot_ms} ms"), &done.iter().filter(of).collect::<Vec<_>>());
        }
    }
    summary("all", &done.iter().collect::<Vec<_>>());
}
