//! What measuring costs those who are measured: `cargo run --release --example probe_cost [BLOCKS]`, 20 blocks
//! unless given.
//!
//! Each block has a slot of a second without, with rxlab's eBPF programs, with `softirqs` (libbpf-tools) and
//! with `perf record` of the same tracepoints, in another order each time; figures are ratios within a block.
//! Two loads over a veth pair, the client on CPU 1: a datagram there and back with the server on the same CPU, which
//! makes one softirq run for each packet and never idles; and HTTP/1.1 pipelined 100 deep with the server on
//! CPU 0. Needs root and an otherwise idle machine.

#![allow(clippy::disallowed_methods)] // Starts the peers.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use rxlab::host::LiveHost;
use rxlab::lab::{Range, RangeSpec};
use rxlab::load::Session;
use rxlab::probe::Programs;
use rxlab::target::{Spec, Target};

const SLOT: Duration = Duration::from_secs(1);
/// Until a load has its speed again.
const SETTLE: Duration = Duration::from_millis(200);
const TRACEPOINTS: &str = "irq:softirq_entry,irq:softirq_exit,irq:softirq_raise,irq:irq_handler_entry,\
                           irq:irq_handler_exit,napi:napi_poll";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arm {
    Nothing,
    Rxlab,
    Softirqs,
    Perf,
}

const ARMS: [Arm; 4] = [Arm::Nothing, Arm::Rxlab, Arm::Softirqs, Arm::Perf];

/// What is attached while the value lives.
enum Attached {
    Nothing,
    Ours(Box<Programs>),
    Theirs(Child),
}

impl Attached {
    fn start(arm: Arm) -> Self {
        let run = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let child = command.spawn();
            Self::Theirs(child.unwrap_or_else(|error| panic!("{program}: {error}; it is needed to compare")))
        };
        match arm {
            Arm::Nothing => Self::Nothing,
            Arm::Rxlab => {
                let host = LiveHost::open(Path::new("/")).expect("the root is readable");
                Self::Ours(Box::new(Programs::attach(&host).expect("root may use eBPF")))
            }
            Arm::Softirqs => run("softirqs", &["1000"]),
            Arm::Perf => run("perf", &["record", "-a", "-e", TRACEPOINTS, "-o", "/dev/null"]),
        }
    }

    /// Whether it was still there at the end.
    fn end(self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Ours(programs) => programs.read().is_ok(),
            Self::Theirs(mut child) => {
                let alive = child.try_wait().expect("our child").is_none();
                child.kill().expect("our child");
                child.wait().expect("our child");
                alive
            }
        }
    }
}

fn main() -> ExitCode {
    let blocks = match std::env::args().nth(1).map(|text| text.parse::<usize>()) {
        None => 20,
        Some(Ok(blocks)) if blocks > 0 => blocks,
        Some(_) => {
            eprintln!("probe_cost: give the number of blocks");
            return ExitCode::from(2);
        }
    };
    let range = match Range::build(&RangeSpec::default()) {
        Ok(range) => range,
        Err(error) => {
            eprintln!("probe_cost: {error}");
            return ExitCode::from(3);
        }
    };
    let (echo, http) = (SocketAddr::from((Range::SERVER, 9001)), SocketAddr::from((Range::SERVER, 8001)));
    let serve = |udp_echo, http, cpus: &str| {
        let netns = Some(range.server.path());
        let cpus = cpus.parse().expect("a list");
        Target::start(&Spec { udp_echo, http, cpus, netns, ..Spec::default() }).expect("two CPUs are there")
    };
    let targets = [serve(Some(echo), None, "1"), serve(None, Some(http), "0")];
    println!("throughput, {blocks} blocks; loss against nothing attached in the same block");
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
        for block in 0..blocks {
            for position in 0..ARMS.len() {
                // Every arm comes first, second, ... equally often.
                let arm = (block + position * if block % 8 < 4 { 1 } else { 3 }) % ARMS.len();
                let attached = Attached::start(ARMS[arm]);
                std::thread::sleep(SETTLE);
                session.mark();
                std::thread::sleep(SLOT);
                rates[arm].push(session.mark().rate());
                assert!(attached.end(), "{:?} ended by itself", ARMS[arm]);
            }
        }
        session.stop();
        report(name, &rates);
    }
    drop(targets);
    ExitCode::SUCCESS
}

fn report(load: &str, rates: &[Vec<f64>]) {
    for (arm, mine) in ARMS.iter().zip(rates) {
        let mut losses: Vec<f64> =
            mine.iter().zip(&rates[0]).map(|(rate, base)| (1.0 - rate / base) * 100.0).collect();
        losses.sort_by(f64::total_cmp);
        let mut sorted = mine.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |share: usize| losses[(losses.len() - 1) * share / 100];
        println!(
            "{load:<10} {:<9} {:>12.0} a second   loss median {:5.1} %   quartiles {:5.1} to {:5.1} %",
            format!("{arm:?}"),
            sorted[sorted.len() / 2],
            at(50),
            at(25),
            at(75),
        );
    }
}
