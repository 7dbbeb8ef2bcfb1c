//! Time that receive work takes from a process, as a pinned process sees it and as the eBPF programs measure it, side by
//! side: `cargo run --release --example interference [RUNS] [SECONDS]`, 10 runs of 3 seconds by default.
//!
//! One thread on CPU 1 sends datagrams flat out over a veth pair to a sink on CPU 1. With the server's RPS
//! mask at CPU 0 they are received there, on the CPU of the process that should have it to itself; with RPS
//! off they are received on CPU 1. Needs root, two CPUs, `ip` and `openssl`, and an otherwise idle machine.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rxlab::lab::{Range, RangeSpec};
use rxlab_base::units::CpuId;
use rxlab_load::Session;
use rxlab_load::servers::{Spec, Target};
use rxlab_probe::{Class, CpuInterference, Inference, Interference, Method, SampleOptions, Tier, look};
use rxlab_sys::{Host, LiveHost};

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let [runs, seconds] = [10, 3].map(|default| numbers.next().unwrap_or(default));
    let range = Range::build(&RangeSpec::default()).expect("root");
    let inside = LiveHost::open_in_namespace(Path::new("/"), &range.server.path()).expect("just made");
    let sink = SocketAddr::from((Range::SERVER, 9000));
    let target = Target::start(&Spec {
        udp_sink: Some(sink),
        cpus: "1".parse().expect("a list"),
        netns: Some(range.server.path()),
        ..Spec::default()
    });
    let target = target.expect("CPU 1 exists");
    let load = serde_json::json!({
        "url": format!("udp-sink://{sink}"),
        "connections": 1,
        "cpus": "1",
        "netns": range.client.path(),
    });
    let session = Session::start(&serde_json::from_value(load).expect("a load")).expect("the sink is there");
    println!(
        "fractions of CPU 0 in %, {runs} runs of {seconds} s; left over: lost by inference, minus the rest"
    );
    println!("RPS witness   top is wrong by  lost: by inference  measured  other IRQs  entries  left over");
    for rps in ["1", "0"] {
        inside.write("sys/class/net/srv0/queues/rx-0/rps_cpus", rps.as_bytes()).expect("written");
        for method in [Method::Spin, Method::Openssl] {
            let mut left: Vec<f64> = (0..runs).map(|_| run(rps, method, seconds)).collect();
            left.sort_by(f64::total_cmp);
            let largest = left.iter().fold(0.0, |largest: f64, of| largest.max(of.abs()));
            println!("    left over: median {:.1}, largest {largest:.1}", left[left.len() / 2]);
        }
    }
    session.stop();
    target.stop();
}

/// Unexplained time of one run, in points of a CPU.
fn run(rps: &str, method: Method, seconds: u64) -> f64 {
    let host = LiveHost::open(Path::new("/")).expect("the root is readable");
    let options = SampleOptions { tier: Some(Tier::Ebpf), witness: Some((method, CpuId(0), seconds)) };
    let sample =
        look(&host, &options, || std::thread::sleep(Duration::from_secs(seconds)), &AtomicBool::new(false))
            .expect("root may use eBPF");
    let [inference] = sample.inference.as_slice() else { panic!("one witness: {sample:?}") };
    let percent = |part: Option<f64>| part.map_or(f64::NAN, |part| part * 100.0);
    let Inference { believed, missing, inferred, exact, other_interrupts, .. } = inference;
    let left = percent(inference.unexplained());
    println!(
        "  {rps} {method:8?} {:15.1} {:21.1} {:9.1} {:11.1} {:8.1} {left:10.1}   sender's own NET_RX {:.1}",
        percent(believed.known().map(|believed| believed - (1.0 - missing))),
        percent(Some(*inferred)),
        percent(exact.known().copied()),
        percent(other_interrupts.known().copied()),
        percent(inference.entries()),
        percent(own(&sample)),
    );
    left
}

fn own(sample: &Interference) -> Option<f64> {
    let sender: &CpuInterference = sample.cpus.iter().find(|cpu| cpu.cpu == CpuId(1))?;
    Some(sample.share(*sender.by_class.get(&Class::SelfInflicted)?.known()?))
}
