//! Prediction errors: `cargo run --release --example prediction [LOADS [SEED]]`, 30 loads of seed 3 by
//! default. Needs root and a quiet machine.
//!
//! Each load is drawn at random: 5,000 to 250,000 packets/s for one to three programs on CPU 1 or 0, in 1 to
//! 64 flows from CPU 0, of 64 to 1,400 bytes, through 0 to 400 policy routing rules. A sample of two seconds
//! without RPS gives the prediction for `rps srv0/rx-0 = 1`, as in `rxlab doctor`; then RPS is on, off and on
//! again. Softirq time is measured by windows, for the packets of the first sample. Prints a line of JSON per
//! load, then a summary. The factors of the model were fitted to seeds 1 and 2.

#![allow(clippy::disallowed_methods)] // Writes the picture.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rxlab::lab::{Range, RangeSpec};
use rxlab_advise::plan::forecast;
use rxlab_base::units::{CpuId, CpuMask};
use rxlab_load::servers::{self as target, Target};
use rxlab_load::{Rate, Session, Spec};
use rxlab_path::model::{Costs, Model, Rates};
use rxlab_path::sample::{Counters, Inventory, Scope};
use rxlab_probe::{Budget, SoftirqTime, hand_over, stack_work};
use rxlab_setting::Plan;
use rxlab_sys::{Host, LiveHost};

const LOOK: Duration = Duration::from_secs(2);
const SETTLE: Duration = Duration::from_millis(400);
const PICTURE: &str = "docs/pictures/prediction.svg";

#[derive(Debug, serde::Serialize)]
struct Load {
    rules: u32,
    receivers: u16,
    reader: u32,
    flows: usize,
    size: usize,
    rate: f64,
}

impl Load {
    fn drawn(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut one_of = |count: u32| (rng.next_u32() % count) as usize;
        Self {
            rules: [0, 0, 30, 100, 200, 400][one_of(6)],
            receivers: [1, 2, 3][one_of(3)],
            reader: [0, 1, 1, 1][one_of(4)],
            flows: [1, 4, 16, 64][one_of(4)],
            rate: 5e3 * 50f64.powf(one_of(1000) as f64 / 1e3),
            size: [64, 64, 512, 1400][one_of(4)],
        }
    }

    fn start(&self, range: &Range) -> (Vec<Target>, Vec<Session>) {
        let one = |receiver: u16| {
            let address = SocketAddr::from((Range::SERVER, 9000 + receiver));
            let target = Target::start(&target::Spec {
                udp_sink: Some(address),
                plain_udp: true,
                cpus: CpuMask::from_iter([CpuId(self.reader)]),
                netns: Some(range.server.path()),
                ..target::Spec::default()
            });
            let load = Spec {
                connections: self.flows,
                cpus: CpuMask::from_iter([CpuId(0)]),
                netns: Some(range.client.path()),
                rate: Some(Rate::steady((self.rate / f64::from(self.receivers)).round())),
                size: self.size,
                ..Spec::new(format!("udp-sink://{address}").parse().expect("a URL"))
            };
            (target.expect("a target"), Session::start(&load).expect("a session"))
        };
        (0..self.receivers).map(one).unzip()
    }
}

/// Receive time of a CPU: predicted, its interval, measured.
#[derive(Debug, Clone, Copy, serde::Serialize)]
struct Point {
    cpu: u32,
    predicted: f64,
    range: [f64; 2],
    measured: f64,
}

impl Point {
    fn error(&self) -> f64 {
        (self.predicted - self.measured).abs()
    }

    /// True if the measurement is in the interval, which is printed in whole points of a CPU.
    fn holds(&self) -> bool {
        (self.range[0] - 0.005..=self.range[1] + 0.005).contains(&self.measured)
    }
}

fn look(host: &LiveHost, timer: &mut SoftirqTime) -> (Model, Rates) {
    let inventory = Inventory::take(host, Scope::Load);
    let before = Counters::take(host, &inventory);
    let (_, windows) = timer.during(|| std::thread::sleep(LOOK));
    let after = Counters::take(host, &inventory);
    let mut rates = Rates::between(&before, &after).expect("an interval").accounted(&inventory);
    windows.expect("counted").time(&mut rates);
    (Model::new(&inventory), rates)
}

fn packets(rates: &Rates) -> f64 {
    rates.nic(&Range::server_nic()).expect("it is there").rx_packets
}

fn points(load: &Load) -> (Vec<Point>, serde_json::Value) {
    let range = Range::build(&RangeSpec { rules: load.rules, ..RangeSpec::default() }).expect("a range");
    let running = load.start(&range);
    let host = LiveHost::open_in_namespace(Path::new("/"), &range.server.path()).expect("root");
    let mut timer = SoftirqTime::load(&host, Budget::default()).expect("eBPF");
    let rps = |mask: &[u8]| {
        host.write("sys/class/net/srv0/queues/rx-0/rps_cpus", mask).expect("root");
        std::thread::sleep(SETTLE);
    };
    std::thread::sleep(SETTLE);
    let (model, mut rates) = look(&host, &mut timer);
    let cpus = stack_work(&host, Duration::from_millis(200)).expect("eBPF");
    let cost = hand_over(&host, CpuId(0), CpuId(1));
    let missing = cost.as_ref().err().cloned().into_iter().collect();
    rates.costs = Some(Costs { cpus, hand_over: cost.ok(), missing });
    let plan = "schema = \"rxlab.plan/1\"\nname = \"rps\"\n[[setting]]\nset = \"rps srv0/rx-0 = 1\"\n";
    let prediction =
        forecast(&model, &rates, &Plan::from_toml(plan).expect("a plan")).expect("it moves work");
    let mut measured = [0.0; 2];
    for turn in [1, 0, 1] {
        rps(if turn == 1 { b"2" } else { b"0" });
        let (_, then) = look(&host, &mut timer);
        if turn == 1 {
            let same = packets(&rates) / packets(&then);
            for (sum, cpu) in measured.iter_mut().zip(&then.cpus) {
                *sum += cpu.softirq * same / 2.0;
            }
        }
    }
    drop(running);
    let point = |cpu: &rxlab_setting::CpuLoad| Point {
        cpu: cpu.cpu.0,
        predicted: cpu.after,
        range: cpu.range.expect("it begins to steer"),
        measured: measured[cpu.cpu.0 as usize],
    };
    let before: Vec<f64> = rates.cpus.iter().map(|cpu| cpu.softirq).collect();
    let raw = serde_json::json!({ "packets": packets(&rates), "before": before, "costs": rates.costs });
    (prediction.cpus.iter().map(point).collect(), raw)
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let (loads, seed) = (numbers.next().unwrap_or(30), numbers.next().unwrap_or(3));
    let mut all = Vec::new();
    for number in 0..loads {
        let load = Load::drawn(seed * 1000 + number);
        let (points, raw) = points(&load);
        println!("{}", serde_json::json!({ "load": load, "look": raw, "points": points }));
        all.extend(points);
    }
    let mut errors: Vec<f64> = all.iter().map(Point::error).collect();
    errors.sort_by(f64::total_cmp);
    let at = |part: f64| errors[((errors.len() - 1) as f64 * part) as usize] * 100.0;
    let held = all.iter().filter(|point| point.holds()).count();
    let widths: f64 = all.iter().map(|point| point.range[1] - point.range[0]).sum();
    eprintln!(
        "{} CPUs of {loads} loads of seed {seed}: off by {:.1} points of a CPU (median), {:.1} (90 %), \
         {:.1} (max); {held} inside their intervals, which are {:.0} points wide on average",
        all.len(),
        at(0.5),
        at(0.9),
        at(1.0),
        widths / all.len() as f64 * 100.0
    );
    if Path::new(PICTURE).parent().is_some_and(Path::exists) {
        std::fs::write(PICTURE, picture(&all)).expect("writable");
    }
}

/// Measured over predicted, each with its interval.
fn picture(points: &[Point]) -> String {
    const SIZE: f64 = 480.0;
    const EDGE: f64 = 44.0;
    let most = points.iter().map(|point| point.measured.max(point.predicted)).fold(0.1, f64::max);
    let most = (most * 10.0).ceil() / 10.0;
    let x = |part: f64| EDGE + part.min(most) / most * (SIZE - 2.0 * EDGE);
    let y = |part: f64| SIZE - x(part);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {SIZE} {SIZE}\" font-family=\"sans-serif\" \
         font-size=\"12\"><rect width=\"{SIZE}\" height=\"{SIZE}\" fill=\"white\"/>\n"
    );
    out += &format!(
        "<path d=\"M{a} {b}L{c} {d}\" stroke=\"#999\" stroke-dasharray=\"4\"/><path d=\"M{a} {d}V{b}H{c}\" fill=\"none\" \
         stroke=\"#333\"/>\n",
        a = x(0.0),
        b = y(0.0),
        c = x(most),
        d = y(most)
    );
    for tick in 0..=(most * 10.0).round() as u32 {
        let part = f64::from(tick) / 10.0;
        out += &format!(
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{:.0}</text><text x=\"{:.0}\" y=\"{:.0}\" \
             text-anchor=\"end\">{:.0}</text>\n",
            x(part),
            y(0.0) + 16.0,
            part * 100.0,
            x(0.0) - 6.0,
            y(part) + 4.0,
            part * 100.0
        );
    }
    for point in points {
        let colour = if point.holds() { "#1f77b4" } else { "#d62728" };
        out += &format!(
            "<path d=\"M{:.1} {:.1}H{:.1}\" stroke=\"{colour}\" stroke-opacity=\"0.4\"/><circle cx=\"{:.1}\" \
             cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>\n",
            x(point.range[0]),
            y(point.measured),
            x(point.range[1]),
            x(point.predicted),
            y(point.measured)
        );
    }
    out + &format!(
        "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">predicted receive time, % of a CPU, with its interval</text>\
         <text x=\"14\" y=\"{:.0}\" text-anchor=\"middle\" transform=\"rotate(-90 14 {:.0})\">measured</text></svg>\n",
        SIZE / 2.0,
        SIZE - 8.0,
        SIZE / 2.0,
        SIZE / 2.0
    )
}
