//! The traffic generator against our own target, against servers that misbehave, and through the
//! program. Everything on 127.0.0.1, or in a namespace made here.

#![allow(clippy::disallowed_methods)] // Tests run the program.

mod cli;
mod dns;
mod expect;
mod find;
mod http;
mod pace;
mod requests;
mod results;
mod rogue;
mod sink;
mod target;
mod tracker;
mod udp;

use std::time::Duration;

use rxlab::load::{Interval, Rate, Session, Spec};
use rxlab::target::Target;

/// A target with all three servers on ports that the kernel chose.
fn target(threads: usize) -> Target {
    let any = Some(([127, 0, 0, 1], 0).into());
    let spec = rxlab::target::Spec { http: any, udp_echo: any, udp_sink: any, threads, ..Default::default() };
    Target::start(&spec).expect("the target starts")
}

fn spec(url: &str) -> Spec {
    Spec::new(url.parse().expect("a URL"))
}

fn steady(rate: f64) -> Option<Rate> {
    Some(Rate::steady(rate))
}

/// Runs a load for `time` with a cut in the middle, and waits for its last answers.
fn run(spec: &Spec, time: Duration) -> Interval {
    let _noise = crate::quiet::noisy();
    run_held(spec, time)
}

/// The same for who holds the lock already.
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
