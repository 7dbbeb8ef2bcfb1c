//! Cost of measuring for the measured load: `cargo run --release --example probe_cost [BLOCKS]`, 24 blocks by
//! default.
//!
//! A block has a slot of a quarter of a second with each arm, in another order each time: nothing attached;
//! rxlab's programs of `rxlab interference`; those that measure softirq time, attached all the time and within
//! the budget, as in doctor and trials; the same tracepoints in `softirqs` (libbpf-tools) and in `perf record`. The value of a slot is the
//! mean rate of its batches of 5 ms without the fastest and slowest 5 %, and the loss of an arm is relative
//! to nothing attached in the same block; its mean over the blocks has an interval of Student's t.
//!
//! First the cost of counting the kernel's reasons for drops, for datagrams to a socket that is full: each is one.
//!
//! Two loads over a veth pair, the client on CPU 1: a datagram there and back with the server on the same
//! CPU, which makes one softirq run per packet and never idles; and HTTP/1.1 pipelined 100 deep with the
//! server on CPU 0. Needs root and an otherwise idle machine.

#![allow(clippy::disallowed_methods)] // Starts the peers.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rxlab::lab::{Range, RangeSpec};
use rxlab_base::units::CpuId;
use rxlab_load::Session;
use rxlab_load::servers::{Spec, Target};
use rxlab_path::model::Model;
use rxlab_path::sample::{Inventory, Scope};
use rxlab_probe::{Budget, Programs, SoftirqTime, drop_reasons};
use rxlab_stats::interval::t_quantile;
use rxlab_stats::{self as stats, sd};
use rxlab_sys::{LiveHost, pin_thread};

/// Batches of a slot, each with its own rate.
const BATCHES: usize = 50;
const BATCH: Duration = Duration::from_millis(5);
/// Fraction of the batches that is left out at each end.
const TRIM: f64 = 0.05;
/// Time for a load to reach its speed again, and the attached programs their rhythm.
const SETTLE: Duration = Duration::from_millis(300);
const TRACEPOINTS: &str = "irq:softirq_entry,irq:softirq_exit,irq:softirq_raise,irq:irq_handler_entry,\
                           irq:irq_handler_exit,napi:napi_poll";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arm {
    Nothing,
    Rxlab,
    Attached,
    Budget,
    Softirqs,
    Perf,
}

/// In the order of their discriminants.
const ARMS: [Arm; 6] = [Arm::Nothing, Arm::Rxlab, Arm::Attached, Arm::Budget, Arm::Softirqs, Arm::Perf];
/// The next prime: every step through it visits each arm once.
const PRIME: usize = 7;

/// Runs `during` with the programs of `arm` attached.
fn with<T>(arm: Arm, during: impl FnOnce() -> T) -> T {
    let host = LiveHost::open(Path::new("/")).expect("the root is readable");
    let run = || {
        std::thread::sleep(SETTLE);
        during()
    };
    match arm {
        Arm::Nothing => run(),
        Arm::Rxlab => {
            let programs = Programs::attach(&host).expect("root may use eBPF");
            let result = run();
            programs.read().expect("still attached");
            result
        }
        Arm::Attached | Arm::Budget => {
            let budget = if arm == Arm::Budget { Budget::default() } else { "100%".parse().expect("valid") };
            let mut timer = SoftirqTime::load(&host, budget).expect("root may use eBPF");
            let (result, windows) = timer.during(run);
            windows.expect("still attached");
            result
        }
        Arm::Softirqs => with_peer("softirqs", &["1000"], run),
        Arm::Perf => with_peer("perf", &["record", "-a", "-e", TRACEPOINTS, "-o", "/dev/null"], run),
    }
}

/// Runs `during` while another program runs.
fn with_peer<T>(program: &str, arguments: &[&str], during: impl FnOnce() -> T) -> T {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn();
    let mut child = child.unwrap_or_else(|error| panic!("{program}: {error}; it is needed to compare"));
    let result = during();
    assert!(child.try_wait().expect("our child").is_none(), "{program} ended by itself");
    child.kill().expect("our child");
    child.wait().expect("our child");
    result
}

/// Requests per second, batch by batch, without the fastest and the slowest.
fn slot(session: &mut Session) -> f64 {
    session.mark();
    let mut rates = Vec::with_capacity(BATCHES);
    let mut next = Instant::now();
    for _ in 0..BATCHES {
        next += BATCH;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        rates.push(session.mark().rate());
    }
    trimmed_mean(rates)
}

/// Softirq runs of each CPU so far.
fn runs() -> Vec<u64> {
    let text = std::fs::read_to_string("/proc/softirqs").expect("readable");
    let all = rxlab_base::parse::softirqs(&text).expect("as the kernel writes it");
    all.values().map(|runs| runs.iter().sum()).collect()
}

fn trimmed_mean(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let cut = (values.len() as f64 * TRIM).floor() as usize;
    let kept = &values[cut..values.len() - cut];
    mean(kept)
}

fn mean(values: &[f64]) -> f64 {
    stats::mean(values).expect("several values")
}

fn main() {
    let blocks: usize = std::env::args().nth(1).map_or(24, |text| text.parse().expect("a number"));
    assert!(blocks > 1, "an interval takes two blocks");
    drops(blocks);
    let range = Range::build(&RangeSpec::default()).expect("root");
    let (echo, http) = (SocketAddr::from((Range::SERVER, 9001)), SocketAddr::from((Range::SERVER, 8001)));
    let serve = |udp_echo, http, cpus: &str| {
        let netns = Some(range.server.path());
        let cpus = cpus.parse().expect("a list");
        Target::start(&Spec { udp_echo, http, cpus, netns, ..Spec::default() }).expect("two CPUs are there")
    };
    let targets = [serve(Some(echo), None, "1"), serve(None, Some(http), "0")];
    println!("throughput, {blocks} blocks; loss relative to nothing attached in the same block, 95 % CI");
    let ping = ("ping-pong", format!("udp://{echo}"), 1, 1);
    let stream = ("pipelined", format!("http://{http}/simple"), 8, 100);
    for (name, url, connections, pipeline) in [ping, stream] {
        let load = serde_json::json!({
            "url": url,
            "connections": connections,
            "pipeline": pipeline,
            "cpus": "1",
            "netns": range.client.path(),
        });
        let load = serde_json::from_value(load).expect("a load");
        let mut session = Session::start(&load).expect("the target is there");
        let mut rates: Vec<Vec<f64>> = vec![Vec::new(); ARMS.len()];
        let (began, before) = (Instant::now(), runs());
        for block in 0..blocks {
            // Every arm comes first, second, ... about equally often, and after every other one.
            let (first, step) = (block % PRIME, 1 + (block / PRIME) % (PRIME - 1));
            let order = (0..PRIME).filter_map(|position| ARMS.get((first + position * step) % PRIME));
            for &arm in order {
                rates[arm as usize].push(with(arm, || slot(&mut session)));
            }
        }
        let passed = began.elapsed().as_secs_f64();
        let runs = runs().into_iter().zip(before).map(|(after, before)| (after - before) as f64 / passed);
        session.stop();
        println!("{name:<10} {:.0} softirq runs/s on the CPU with the most", runs.fold(0.0, f64::max));
        report(name, &rates);
    }
    drop(targets);
}

/// Sends to a full socket, alternately without and with a count of the kernel's reasons.
fn drops(blocks: usize) {
    let host = LiveHost::open(Path::new("/")).expect("the root is readable");
    let model = Model::new(&Inventory::take(&host, Scope::Load));
    let bound = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let (full, sender) = (bound(), bound());
    let to = full.local_addr().expect("bound");
    pin_thread(CpuId(1)).expect("two CPUs are there");
    let per_second = || {
        std::thread::sleep(SETTLE);
        let (mut sent, began) = (0u32, Instant::now());
        while began.elapsed() < BATCH * BATCHES as u32 {
            sender.send_to(&[0; 64], to).expect("loopback");
            sent += 1;
        }
        f64::from(sent) / began.elapsed().as_secs_f64()
    };
    per_second();
    let (whole, never) = ("100%".parse().expect("a budget"), AtomicBool::new(false));
    let counted = || {
        std::thread::scope(|scope| {
            let reasons = scope.spawn(|| {
                pin_thread(CpuId(0)).expect("a CPU");
                drop_reasons(&host, &model, (Duration::from_secs(1), whole), &never)
            });
            let rate = per_second();
            assert!(reasons.join().expect("no panic").known().is_some(), "root may use eBPF");
            rate
        })
    };
    let pairs: Vec<(f64, f64)> = (0..blocks)
        .map(|block| {
            if block % 2 == 0 {
                (per_second(), counted())
            } else {
                let with = counted();
                (per_second(), with)
            }
        })
        .collect();
    let added: Vec<f64> = pairs.iter().map(|(without, with)| (1.0 / with - 1.0 / without) * 1e9).collect();
    let (added, half) = interval(&added);
    let without = mean(&pairs.iter().map(|(without, _)| *without).collect::<Vec<_>>());
    println!(
        "drops      {without:.0} /s without; counting a reason takes {added:.0} ns [{:.0} to {:.0}]",
        added - half,
        added + half
    );
}

fn report(load: &str, rates: &[Vec<f64>]) {
    for arm in ARMS {
        let mine = &rates[arm as usize];
        let losses: Vec<f64> = mine
            .iter()
            .zip(&rates[Arm::Nothing as usize])
            .map(|(rate, base)| (1.0 - rate / base) * 100.0)
            .collect();
        let (loss, half) = interval(&losses);
        println!(
            "{load:<10} {:<9} {:>12.0} /s   loss {loss:5.1} %   {:5.1} to {:5.1} %",
            format!("{arm:?}"),
            mean(mine),
            loss - half,
            loss + half,
        );
    }
}

/// Mean, and half of the length of its 95 % interval.
fn interval(values: &[f64]) -> (f64, f64) {
    let (count, sd) = (values.len() as f64, sd(values).expect("two blocks or more"));
    (mean(values), t_quantile(0.975, count - 1.0) * sd / count.sqrt())
}
