//! The load generator against its own target, against misbehaving servers, and as a program. Everything runs on
//! 127.0.0.1 or in a namespace created here.

#![allow(clippy::disallowed_methods)] // Tests run the program.

mod cli;
mod dns;
mod expect;
mod find;
mod freeze;
mod http;
mod pace;
mod requests;
mod results;
mod rogue;
mod sink;
mod target;
mod tracker;
mod udp;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use rxlab::load::{Interval, Rate, Session, Spec};
use rxlab::target::Target;
use serde_json::Value;

use crate::process::Running;

/// A target with all three servers, on ports chosen by the kernel.
fn target(threads: usize) -> Target {
    let any = Some(([127, 0, 0, 1], 0).into());
    let spec = rxlab::target::Spec { http: any, udp_echo: any, udp_sink: any, threads, ..Default::default() };
    Target::start(&spec).expect("the target starts")
}

/// The program with these arguments.
fn rxlab(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rxlab"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A target with one thread as a separate process, killed when the handle is dropped, and its addresses.
fn serve() -> (Running, Value) {
    let servers = ["--http", "127.0.0.1:0", "--udp-echo", "127.0.0.1:0"];
    let mut server = Running::start(rxlab(&["--json", "target", "--threads", "1"]).args(servers));
    let mut line = String::new();
    BufReader::new(server.stdout()).read_line(&mut line).expect("readable");
    let mut started: Value = serde_json::from_str(&line).expect("JSON");
    (server, started["addresses"].take())
}

fn spec(url: &str) -> Spec {
    Spec::new(url.parse().expect("a URL"))
}

fn steady(rate: f64) -> Option<Rate> {
    Some(Rate::steady(rate))
}

/// Runs a load for `time` with a cut in the middle, and waits for its last responses.
fn run(spec: &Spec, time: Duration) -> Interval {
    let _noise = crate::quiet::noisy();
    run_held(spec, time)
}

/// The same for callers that already hold the lock.
fn run_held(spec: &Spec, time: Duration) -> Interval {
    let mut session = Session::start(spec).expect("the load starts");
    std::thread::sleep(time / 2);
    let first = session.mark();
    std::thread::sleep(time / 2);
    first.then(&session.stop())
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
