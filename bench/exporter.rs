//! CPU time of a scrape of `rxlab exporter` on a large machine, and its number of series:
//! `cargo run --release --example exporter [CPUS [QUEUES [RUNS]]]`, 128, 64 and 101 by default.
//!
//! The machine is a generated tree of plain files (`bench/scale/tree.rs`), so file system costs are those of the
//! temporary directory and not those of procfs. The HTTP server, and the samples behind findings, are not in the figure.

#![allow(clippy::disallowed_methods)] // Creates files.

#[path = "scale/advance.rs"]
mod advance;
#[path = "scale/tree.rs"]
mod tree;

use std::sync::Arc;
use std::time::Duration;

use rustix::time::ClockId;
use rxlab_advise::diagnose::diagnose;
use rxlab_faces::report::metrics::{Exposition, Format, Judged, encode};
use rxlab_path::evidence::{headroom, receive_time};
use rxlab_path::model::{Model, Rates};
use rxlab_path::sample::{Counters, Inventory, Scope};
use rxlab_sys::{LiveHost, clock_ns};

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u32>().expect("a number"));
    let defaults: [u32; 3] = [128, 64, 101];
    let [cpus, queues, runs] = defaults.map(|default| numbers.next().unwrap_or(default));
    let directory = tempfile::tempdir().expect("a temporary directory");
    tree::make(directory.path(), cpus, queues);
    let host = LiveHost::open(directory.path()).expect("a root");
    let inventory = Inventory::take(&host, Scope::Path);
    let model = Model::new(&inventory);
    let before = Counters::take(&host, &inventory);
    advance::advance(directory.path(), cpus, 1);
    let rates = Rates::between(&before, &Counters::take(&host, &inventory)).expect("an interval");
    let judged = Judged {
        ended: 0.0,
        seconds: rates.seconds,
        receive_time: rates.cpus.iter().map(|cpu| (cpu.cpu, receive_time(cpu))).collect(),
        headroom: Some(headroom(&model, &rates)),
        findings: diagnose(&model, &rates),
        gaps: rates.gaps.len(),
    };
    let mut exposition = Exposition { model: Arc::new(model), judged: Some(judged), ..Exposition::default() };
    exposition.lost.cpus.extend(exposition.model.cpus.iter().map(|cpu| (cpu.id, 1.0)));
    let mut text = String::new();
    let mut sample: Vec<Duration> = (0..runs)
        .map(|_| {
            let begun = cpu_time();
            exposition.totals.advance(Counters::take(&host, &inventory));
            text = encode(&exposition, Format::OpenMetrics);
            cpu_time() - begun
        })
        .collect();
    sample.sort_unstable();
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{cpus} CPUs, {queues} queues: {series} series, {} bytes; CPU time of {runs} scrapes in ms: median {:.2}  min {:.2}  \
         max {:.2}",
        text.len(),
        ms(sample[sample.len() / 2]),
        ms(sample[0]),
        ms(sample[sample.len() - 1]),
    );
}

/// CPU time of this process, with the threads that read files.
fn cpu_time() -> Duration {
    Duration::from_nanos(clock_ns(ClockId::ProcessCPUTime))
}
