//! Verdicts of doctor and trials where RPS wins: `cargo run --release --example winning [FIRST-LAST [cheap]]`,
//! seeds 1 to 20 by default. Needs root, a quiet machine and the release build of `rxlab`.
//!
//! While RPS is off, CPU 0 sends the packets, walks each through 240 policy routing rules and reads it; CPU 1
//! is idle. For each seed: a new practice range; the highest rate of five at which all packets arrive with
//! RPS; the gain from 8 alternations, measured without rxlab; then `rxlab doctor`, a live trial on that
//! traffic and a trial with its own load at the same rate. The seed orders their slots. With `cheap`, CPU 1 reads,
//! packets walk through no rules, and the rate is half of what arrives flat out: RPS has nothing to win. Prints a
//! line of JSON per seed, and a summary.

#![allow(clippy::disallowed_methods)] // Starts the program and writes its input.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rxlab::lab::{Range, RangeSpec};
use rxlab_base::units::{CpuId, CpuMask};
use rxlab_load::servers::{self as target, Target};
use rxlab_load::{Rate, Session, Spec};
use rxlab_setting::Prediction;
use rxlab_stats::{self as stats, sd};
use rxlab_sys::{Host, LiveHost};
use rxlab_trial::record::{Effect, TrialRecord, Verdict};

const FLOWS: usize = 16;
const RULES: u32 = 240;
/// Part of the highest rate that is offered of cheap packets.
const CHEAP: f64 = 0.5;
const SETTLE: Duration = Duration::from_millis(300);

/// The range and its sink.
struct Stage {
    is_cheap: bool,
    range: Range,
    host: LiveHost,
    address: SocketAddr,
    _target: Target,
}

impl Stage {
    fn new(is_cheap: bool) -> Self {
        let rules = if is_cheap { 0 } else { RULES };
        let range = Range::build(&RangeSpec { rules, ..RangeSpec::default() }).expect("a range");
        // Where RPS is to win, a second program on its target would be the bottleneck.
        let reader = CpuId(u32::from(is_cheap));
        let host = LiveHost::open_in_namespace(Path::new("/"), &range.server.path()).expect("root");
        let address = SocketAddr::from((Range::SERVER, 9000));
        let target = Target::start(&target::Spec {
            udp_sink: Some(address),
            cpus: CpuMask::from_iter([reader]),
            netns: Some(range.server.path()),
            ..target::Spec::default()
        });
        Self { is_cheap, range, host, address, _target: target.expect("a target") }
    }

    /// The sender; flat out if no rate is given.
    fn load(&self, rate: Option<f64>) -> Session {
        let url = format!("udp-sink://{}", self.address).parse().expect("a URL");
        let spec = Spec {
            connections: FLOWS,
            cpus: CpuMask::from_iter([CpuId(0)]),
            netns: Some(self.range.client.path()),
            rate: rate.map(Rate::steady),
            ..Spec::new(url)
        };
        Session::start(&spec).expect("a session")
    }

    fn rps(&self, on: bool) {
        let mask: &[u8] = if on { b"2" } else { b"0" };
        self.host.write("sys/class/net/srv0/queues/rx-0/rps_cpus", mask).expect("root");
        std::thread::sleep(SETTLE);
    }

    /// Arrivals per second without RPS and with it, in turn.
    fn alternate(&self, load: &mut Session, turns: usize, slot: Duration) -> [Vec<f64>; 2] {
        let mut arrivals = [Vec::new(), Vec::new()];
        for turn in 0..turns {
            for on in [turn % 2 == 1, turn % 2 == 0] {
                self.rps(on);
                load.mark();
                std::thread::sleep(slot);
                // An overloaded sink does not report.
                arrivals[usize::from(on)].push(load.mark().arrival_rate().unwrap_or(0.0));
            }
        }
        self.rps(false);
        arrivals
    }

    /// The highest rate, of rising ones, at which all packets still arrive with RPS, and how many then do. Beyond it
    /// CPU 1 is as full as CPU 0 was, and interrupts leave no time there for any program.
    fn rate(&self) -> (f64, f64) {
        let mut load = self.load(None);
        self.rps(false);
        load.mark();
        std::thread::sleep(SETTLE);
        let off = load.mark().arrival_rate().expect("CPU 0 sends no faster than it receives");
        drop(load);
        if self.is_cheap {
            let rate = (off * CHEAP / 1e3).round() * 1e3;
            return (rate, rate);
        }
        let rates = [1.1, 1.2, 1.3, 1.4, 1.5].map(|times| (off * times / 1e3).round() * 1e3);
        let mut kept = (rates[0], 0.0);
        for rate in rates {
            let [_, on] = self.alternate(&mut self.load(Some(rate)), 2, SETTLE);
            if mean(&on) < 0.98 * rate {
                break;
            }
            kept = (rate, mean(&on));
        }
        kept
    }

    fn rxlab(&self, state: &Path, args: &[&str]) -> Vec<u8> {
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/target/release/rxlab"));
        command.arg("--state-dir").arg(state).args(args).arg("--json");
        let out = command.arg("--netns").arg(self.range.server.path()).output().expect("built");
        assert!(!out.stdout.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
        out.stdout
    }

    fn trial(&self, state: PathBuf, args: &[&str]) -> Tried {
        let out = self.rxlab(&state, &[&["trial", "run"], args].concat());
        let record: TrialRecord = serde_json::from_slice(&out).expect("a record");
        let analysis = record.analysis.expect("concluded");
        let throughput = analysis.metrics.iter().find(|one| one.metric.name == "throughput");
        let throughput = throughput.expect("measured");
        Tried { verdict: analysis.verdict, pairs: analysis.pairs, effect: throughput.effect }
    }
}

#[derive(serde::Serialize)]
struct Tried {
    verdict: Verdict,
    pairs: usize,
    effect: Option<Effect>,
}

impl Tried {
    fn helps(&self) -> bool {
        self.verdict == Verdict::Helps
    }

    /// True if its interval and that of the gain overlap.
    fn agrees(&self, [low, high]: [f64; 2]) -> bool {
        self.effect.is_some_and(|effect| effect.low <= high && low <= effect.high)
    }
}

#[derive(serde::Serialize)]
struct Seed {
    seed: u64,
    rate: f64,
    /// From the alternation: 0.3 = 30 % more packets arrive with RPS.
    gain: f64,
    /// The gain plus and minus two standard errors.
    gain_range: [f64; 2],
    /// Most packets that arrived with RPS, divided by those that arrived without.
    most: f64,
    /// Doctor's verdict on RPS, and its interval of how many times today's traffic then fits.
    regime: Option<String>,
    fits: Option<[f64; 2]>,
    load: Tried,
    live: Tried,
}

impl Seed {
    fn run(seed: u64, is_cheap: bool) -> Self {
        let stage = Stage::new(is_cheap);
        let directory = tempfile::tempdir().expect("a directory");
        let (rate, most) = stage.rate();
        let mut session = stage.load(Some(rate));
        let [off, on] = stage.alternate(&mut session, 8, Duration::from_millis(500));
        let doctor = stage.rxlab(&directory.path().join("doctor"), &["doctor", "--for", "2s"]);
        let doctor: serde_json::Value = serde_json::from_slice(&doctor).expect("JSON");
        let plans = doctor["plans"].as_array().expect("a list");
        let rps = plans.iter().find(|plan| plan["name"] == "rps");
        let prediction: Option<Prediction> =
            rps.and_then(|plan| serde_json::from_value(plan["prediction"].clone()).ok());
        let live = format!("--live --nic srv0 --seed {seed} --calibration 0 --washout 300ms --measure 500ms");
        let live: Vec<&str> = live.split(' ').chain(["--set", "rps srv0/rx-0 = 1"]).collect();
        let live = stage.trial(directory.path().join("live"), &live);
        drop(session);
        let spec = directory.path().join("spec.toml");
        let text = format!(
            "name = \"rps\"\n[change]\nset = [\"rps srv0/rx-0 = 1\"]\n[workload]\nnic = \"srv0\"\n\
             load = {{ url = \"udp-sink://{}\", connections = {FLOWS}, cpus = \"0\", rate = {rate}, \
             netns = \"{}\" }}\n[design]\ncalibration = 0\nwashout = \"300ms\"\nmeasure = \"500ms\"\n\
             seed = {seed}\n",
            stage.address,
            stage.range.client.path().display()
        );
        std::fs::write(&spec, text).expect("writable");
        let load = stage.trial(directory.path().join("load"), &[spec.to_str().expect("text")]);
        let ratios: Vec<f64> = on.iter().zip(&off).map(|(on, off)| (on / off).ln()).collect();
        let gain = mean(&ratios);
        let error = sd(&ratios).expect("several turns") / (ratios.len() as f64).sqrt();
        Self {
            seed,
            rate,
            gain: gain.exp_m1(),
            gain_range: [gain - 2.0 * error, gain + 2.0 * error].map(f64::exp_m1),
            most: most.max(mean(&on)) / mean(&off),
            regime: prediction.as_ref().map(Prediction::regime),
            fits: prediction.and_then(|prediction| prediction.range).map(|range| range.fits),
            load,
            live,
        }
    }

    fn advised(&self) -> bool {
        self.regime.as_ref().is_some_and(|regime| !regime.contains("costs capacity"))
    }

    fn fits(&self) -> bool {
        self.fits.is_some_and(|[low, high]| low - 0.05 <= self.most && self.most <= high + 0.05)
    }
}

fn mean(values: &[f64]) -> f64 {
    stats::mean(values).expect("several turns")
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seeds = arguments.next().unwrap_or_else(|| "1-20".to_owned());
    let (first, last) = seeds.split_once('-').expect("FIRST-LAST");
    let (first, last): (u64, u64) = (first.parse().expect("a number"), last.parse().expect("a number"));
    let is_cheap = arguments.next().is_some_and(|word| word == "cheap");
    let mut all = Vec::new();
    for seed in first..=last {
        let one = Seed::run(seed, is_cheap);
        println!("{}", serde_json::to_string(&one).expect("JSON"));
        all.push(one);
    }
    let count = |of: &dyn Fn(&Seed) -> bool| all.iter().filter(|one| of(one)).count();
    let mut gains: Vec<f64> = all.iter().map(|one| one.gain * 100.0).collect();
    gains.sort_by(f64::total_cmp);
    eprintln!(
        "RPS changes arrivals by {:+.1} % ({:+.1} to {:+.1}), by alternation. Of seeds {seeds}: doctor does not advise against \
         it in {}, its interval holds what fits in {}; the trial with load helps in {}, its interval agrees with that in {}; \
         the live trial helps in {}, agrees in {}",
        gains[gains.len() / 2],
        gains[0],
        gains[gains.len() - 1],
        count(&Seed::advised),
        count(&Seed::fits),
        count(&|one| one.load.helps()),
        count(&|one| one.load.agrees(one.gain_range)),
        count(&|one| one.live.helps()),
        count(&|one| one.live.agrees(one.gain_range)),
    );
}
