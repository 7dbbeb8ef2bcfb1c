//! Sample trial records of a two-CPU machine, with noise from a fixed seed.

use std::collections::BTreeMap;

use crate::analysis::{Pair, valid_pairs};
use crate::blocks::{BlocksRecord, NamedSettings};
use crate::checkpoint::Checkpoint;
use crate::metrics::{self, name};
use crate::prior::Planned;
use crate::record::{
    Analysis, Better, Calibration, Call, Capacity, Effect, Metric, MetricResult, Slot, TrialRecord, Verdict,
};
use crate::simulate;
use crate::spec::Kind;
use rxlab_base::units::CpuId;
use rxlab_load::Random;
use rxlab_path::model::Identity;
use rxlab_stats::design::{Arm, Phase};

/// A trial in blocks of 20 of settings with these names, before its first slot.
pub fn blocks(kind: Kind, settings: &[&str]) -> BlocksRecord {
    let named = |name: &&str| NamedSettings { name: (*name).to_owned(), ..NamedSettings::default() };
    BlocksRecord {
        schema: BlocksRecord::SCHEMA.to_owned(),
        id: "0001-test".to_owned(),
        version: String::new(),
        name: "test".to_owned(),
        kind,
        settings: settings.iter().map(named).collect(),
        workload: "simulated".to_owned(),
        host: Identity::default(),
        cpus: 2,
        started: String::new(),
        seed: 7,
        margin: 0.03,
        blocks: 20,
        washout_s: 0.0,
        measure_s: 1.0,
        primary: metrics::describe(name::THROUGHPUT, "req/s"),
        softirq_timed: false,
        slots: Vec::new(),
        conclusion: None,
    }
}

/// A metric with its value in arm A, the ratio B / A, and its noise (CV of a slot).
struct Truth {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    better: Better,
    a: f64,
    ratio: f64,
    noise: f64,
}

/// Uniform noise of unit variance.
fn noise(random: &mut Random) -> f64 {
    let uniform = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    (uniform - 0.5) * 12.0_f64.sqrt()
}

/// The metrics of every sample, with the ratio B / A of each.
fn truths(ratios: [f64; 6]) -> Vec<Truth> {
    use Better::{Higher, Lower};
    let base: [(&str, &str, &str, Better, f64, f64); 6] = [
        ("hottest_cpu_net_rx_share", "hottest CPU, NET_RX share", "%", Lower, 98.4, 0.009),
        ("throughput", "throughput", "req/s", Higher, 270_000.0, 0.012),
        ("p50", "latency p50", "us", Lower, 212.0, 0.015),
        ("p99", "latency p99", "us", Lower, 1_240.0, 0.06),
        ("softirq_per_packet", "softirq time per packet", "us", Lower, 1.31, 0.011),
        ("server_cpu", "server CPU", "%", Lower, 148.0, 0.01),
    ];
    let truth =
        |((name, title, unit, better, a, noise), ratio)| Truth { name, title, unit, better, a, ratio, noise };
    base.into_iter().zip(ratios).map(truth).collect()
}

/// Parameters of a trial; [`build`] generates the slots.
struct Shape {
    name: &'static str,
    change: &'static [&'static str],
    cpus: u32,
    calibration: usize,
    pairs: usize,
    seed: u64,
    /// Comparison pairs whose B slot is void.
    void: &'static [usize],
    verdict: Verdict,
}

/// RPS on a machine of two CPUs, without calibration and void slots; each sample has its own `pairs` and `seed`.
const RPS: Shape = Shape {
    name: "rps",
    change: &["rps veth0/rx-0 = 1"],
    cpus: 2,
    calibration: 0,
    pairs: 0,
    seed: 0,
    void: &[],
    verdict: Verdict::Helps,
};

/// RPS on a one-queue veth: work moves, capacity is unchanged.
pub fn rps() -> TrialRecord {
    let shape = Shape {
        calibration: 6,
        pairs: 23,
        seed: 7,
        void: &[4, 15],
        verdict: Verdict::SpreadsOnly {
            headroom_before: 1.02,
            headroom_after: 2.08,
            headroom_interval: (2.04, 2.13),
            capacity: Capacity::Same,
        },
        ..RPS
    };
    build(&shape, &truths([0.49, 1.003, 0.992, 0.95, 1.004, 1.002]))
}

/// RFS on the same machine: no effect.
pub fn rfs() -> TrialRecord {
    let shape = Shape {
        name: "rfs",
        change: &["rfs_entries host = 32768", "rfs_flows veth0/rx-0 = 32768"],
        pairs: 12,
        seed: 11,
        verdict: Verdict::NoMeasurableEffect { negligible: false },
        ..RPS
    };
    build(&shape, &truths([1.0; 6]))
}

/// The same before and after the change.
pub fn before_after() -> TrialRecord {
    let shape = Shape { pairs: 10, seed: 5, verdict: Verdict::Unproven { apparent: Call::Helps }, ..RPS };
    let mut record = build(&shape, &truths([0.5, 1.09, 1.0, 1.0, 1.0, 1.0])[1..2]);
    record.design = Kind::BeforeAfter;
    for result in record.analysis.iter_mut().flat_map(|analysis| &mut analysis.metrics) {
        (result.call, result.p, result.detectable) = (Call::Inconclusive, None, None);
    }
    record.slots.sort_by_key(|slot| slot.arm);
    record
}

/// A paced HTTP load, with the names of metrics as a trial has them: latency falls, throughput is pinned.
pub fn paced() -> TrialRecord {
    use Better::{Higher, Lower};
    let shape = Shape { change: &["rps eth0/rx-0 = 2-7"], cpus: 8, pairs: 16, seed: 21, ..RPS };
    let truth =
        |(name, title, unit, better, a, ratio, noise)| Truth { name, title, unit, better, a, ratio, noise };
    let truths = [
        ("p99_us", "latency p99", "us", Lower, 1_840.0, 0.62, 0.05),
        ("p50_us", "latency p50", "us", Lower, 212.0, 0.97, 0.015),
        ("p99_9_us", "latency p99.9", "us", Lower, 4_100.0, 0.55, 0.09),
        ("throughput", "throughput", "req/s", Higher, 50_000.0, 1.0, 0.002),
        ("machine_cpu", "CPU time per request", "us", Lower, 41.0, 1.05, 0.01),
    ];
    let mut record = build(&shape, &truths.map(truth));
    let (model, _) = rxlab_path::sketch::Sketch::new(8).device("eth0", &[0]).build();
    record.paths = vec![rxlab_advise::doctor::NicQueues::new(&model.nics[0])];
    record.workload = "rxlab load http://10.0.0.1/ --rate 50000".into();
    record
}

/// 40 pairs on 128 CPUs with every map that a slot can have, no two values equal.
pub fn full() -> TrialRecord {
    let mut record = wide();
    record.slots.retain(|slot| slot.phase == Phase::Comparison && slot.pair < 40);
    for (index, slot) in record.slots.iter_mut().enumerate() {
        let offset = 1.0 + index as f64 / 7_919.0;
        slot.packets = slot.net_rx.iter().map(|(cpu, rate)| (*cpu, rate * offset)).collect();
    }
    record
}

/// 128 CPUs and 200 slots.
pub fn wide() -> TrialRecord {
    let shape = Shape {
        change: &["rps enp95s0/rx-0 = 1-7"],
        cpus: 128,
        calibration: 20,
        pairs: 80,
        seed: 128,
        void: &[33],
        ..RPS
    };
    build(&shape, &truths([0.3, 1.09, 0.93, 0.8, 1.0, 1.0]))
}

/// One record for each verdict, with throughput as the primary metric, and one without a verdict.
pub fn every_verdict() -> Vec<TrialRecord> {
    let verdicts = [
        (1.09, Verdict::Helps),
        (0.93, Verdict::Hurts),
        (1.0, Verdict::NoMeasurableEffect { negligible: false }),
        (1.013, Verdict::NoMeasurableEffect { negligible: true }),
        (0.97, Verdict::Inconclusive { detectable: 0.0447, pairs_needed: 64 }),
        (1.0, Verdict::CannotMatter { ceiling: 0.011 }),
        (1.0, Verdict::ServerIdle { busiest: 0.34 }),
        (1.0, Verdict::ClientLimited { reason: "client thread 0 was busy 97 % of the time".into() }),
        (
            1.0,
            Verdict::SpreadsOnly {
                headroom_before: 1.0,
                headroom_after: 2.04,
                headroom_interval: (1.98, 2.11),
                capacity: Capacity::Same,
            },
        ),
        (0.8, Verdict::GuardTripped { reason: "error rate 4.2 %, allowed 1 %".into() }),
        (1.0, Verdict::NotApplied { reason: "NET_RX stayed on CPU 0 with rps_cpus = 2".into() }),
        (1.0, Verdict::MachineChanged { reason: "rps veth0/rx-0 (expected 1, found off)".into() }),
        (1.0, Verdict::Interrupted),
    ];
    let with = |(ratio, verdict)| {
        let shape = Shape { pairs: 21, seed: 3, verdict, ..RPS };
        // Only p99 is noisy enough to remain undecided after 21 pairs.
        let primary = if matches!(shape.verdict, Verdict::Inconclusive { .. }) { 3..4 } else { 1..2 };
        build(&shape, &truths([0.5, ratio, 1.0, ratio, 1.0, 1.0])[primary])
    };
    let mut records: Vec<TrialRecord> = verdicts.into_iter().map(with).collect();
    records.push(TrialRecord { analysis: None, ..rps() });
    records.push(before_after());
    records
}

/// A checkpoint without values, of an effect that holds.
pub fn checkpoint(trial: &str, taken: &str) -> Checkpoint {
    serde_json::from_value(serde_json::json!({
        "schema": Checkpoint::SCHEMA, "trial": trial, "taken": taken, "drifted": [], "values": [],
        "from_a": null, "from_b": null, "state": "holds",
    }))
    .expect("a checkpoint")
}

fn slot(
    shape: &Shape,
    truths: &[Truth],
    place: (Phase, usize, u8, Arm),
    start_s: f64,
    random: &mut Random,
) -> Slot {
    let (phase, pair, position, arm) = place;
    let b = arm == Arm::B;
    let values: BTreeMap<String, f64> = truths
        .iter()
        .map(|truth| {
            let mean = truth.a * if b { truth.ratio } else { 1.0 };
            (truth.name.to_owned(), mean * (1.0 + truth.noise * noise(random)))
        })
        .collect();
    let void = (b && phase == Phase::Comparison && shape.void.contains(&pair))
        .then(|| "NET_RX stayed on CPU 0 (99.4 %): the mask had no effect".to_owned());
    // All on CPU 0 without the change; with it CPU 0 keeps half and the next up to seven share the rest.
    let helpers = (shape.cpus - 1).min(7);
    let keeps = 1.0 / f64::from(helpers + 1);
    let net_rx = (0..shape.cpus)
        .map(|cpu| {
            let share = match (b && void.is_none(), cpu) {
                (false, 0) => 0.995,
                (true, 0) => keeps,
                (true, cpu) if cpu <= helpers => (1.0 - keeps) / f64::from(helpers),
                _ => 0.002,
            };
            (CpuId(cpu), 820_000.0 * share * (1.0 + 0.03 * noise(random)))
        })
        .collect::<BTreeMap<_, _>>();
    let softirq = net_rx.iter().map(|(cpu, rate)| (*cpu, rate / 900_000.0)).collect();
    Slot {
        pair,
        phase,
        position,
        arm,
        start_s,
        seconds: 1.5,
        values,
        at_least: Vec::new(),
        packets: BTreeMap::new(),
        net_rx,
        softirq,
        probe_cost: None,
        absent: BTreeMap::new(),
        void,
    }
}

fn build(shape: &Shape, truths: &[Truth]) -> TrialRecord {
    let mut random = Random::new(shape.seed);
    let mut slots: Vec<Slot> = Vec::new();
    let phases = [(Phase::Calibration, shape.calibration), (Phase::Comparison, shape.pairs)];
    for (phase, pairs) in phases {
        for pair in 0..pairs {
            let swapped = random.next_u64() % 2 == 1;
            for position in 0..2_u8 {
                let b = phase == Phase::Comparison && (position == 0) == swapped;
                let arm = if b { Arm::B } else { Arm::A };
                let start = 0.5 + 2.0 * slots.len() as f64;
                slots.push(slot(shape, truths, (phase, pair, position, arm), start, &mut random));
            }
        }
    }
    let results: Vec<MetricResult> = truths.iter().map(|truth| result(truth, &slots)).collect();
    let metrics = results.iter().map(|result| result.metric.clone()).collect();
    TrialRecord {
        id: format!("2026-03-01T120000-{}", shape.name),
        version: "0.1.0".into(),
        name: shape.name.into(),
        change: shape.change.iter().map(|line| (*line).to_owned()).collect(),
        planned: (shape.calibration > 0).then_some(Planned {
            sampled_s: 19.0,
            noise: 0.034,
            measure_s: 2.0,
            pairs: Some(18),
            detectable: Some(0.019),
            lengths: Vec::new(),
        }),
        workload: "rxlab load udp://10.99.0.2:9000 --rate 0 --size 64 --cpus 0 --for 80s".into(),
        host: Identity {
            hostname: "range".into(),
            kernel: "6.18.1".into(),
            boot_id: "3f0c9a52-55b1-4a7c-9d39-0a6f6a1c7e11".into(),
        },
        cpus: shape.cpus as usize,
        started: "2026-03-01T12:00:00Z".into(),
        seed: shape.seed,
        washout_s: 0.5,
        measure_s: 1.5,
        metrics,
        calibration: (shape.calibration > 0).then_some(Calibration {
            pairs: shape.calibration,
            cv: 0.0124,
            sd_d: 0.0171,
            rejection_rate: 0.048,
        }),
        analysis: Some(Analysis {
            verdict: shape.verdict.clone(),
            pairs: shape.pairs - shape.void.len(),
            voids: shape.void.len(),
            metrics: results,
            notes: vec![
                "This kernel samples softirq time by ticks: shares below 1 % of a slot are not to be trusted."
                    .into(),
            ],
        }),
        slots,
        ..simulate::record()
    }
}

fn result(truth: &Truth, slots: &[Slot]) -> MetricResult {
    let pairs = valid_pairs(slots, Phase::Comparison);
    let arms = pairs.iter().map(Pair::arms).map(|(a, b)| (a.values[truth.name], b.values[truth.name]));
    let (a, b): (Vec<f64>, Vec<f64>) = arms.unzip();
    let logs = a.iter().zip(&b).map(|(a, b)| (b / a).ln());
    let ratios: Vec<(usize, f64)> = pairs.iter().map(|pair| pair.number).zip(logs).collect();
    let n = ratios.len() as f64;
    let m = ratios.iter().map(|(_, d)| d).sum::<f64>() / n;
    let sd = (ratios.iter().map(|(_, d)| (d - m).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    let h = 2.9 * sd / n.sqrt();
    MetricResult {
        metric: Metric {
            name: truth.name.into(),
            title: truth.title.into(),
            unit: truth.unit.into(),
            better: truth.better,
        },
        pairs: ratios.len(),
        mean_a: a.iter().sum::<f64>() / n,
        mean_b: b.iter().sum::<f64>() / n,
        effect: Some(Effect { mid: m.exp_m1(), low: (m - h).exp_m1(), high: (m + h).exp_m1() }),
        p: Some(if (m - h) * (m + h) > 0.0 { 0.0004 } else { 0.21 }),
        call: call(truth.better, m - h, m + h),
        detectable: Some(2.9 * sd / n.sqrt()),
        adjustment: None,
        ratios,
    }
}

/// Rules of the verdict with a margin of 3 %.
fn call(better: Better, low: f64, high: f64) -> Call {
    let (low, high) = if better == Better::Higher { (low, high) } else { (-high, -low) };
    let margin = 1.03_f64.ln();
    if low > -margin && high < margin {
        if low * high > 0.0 { Call::Negligible } else { Call::NoEffect }
    } else if low > 0.0 {
        Call::Helps
    } else if high < 0.0 {
        Call::Hurts
    } else {
        Call::Inconclusive
    }
}

#[test]
fn a_record_round_trips_as_json() {
    let mut record = rps();
    let analysis = record.analysis.as_mut().expect("the sample has an analysis");
    analysis.metrics[1].effect = Some(Effect { mid: 0.01, low: -1.0, high: f64::INFINITY });
    let text = serde_json::to_string_pretty(&record).expect("a record is JSON");
    assert!(text.starts_with("{\n  \"schema\": \"rxlab.trial/3\""), "{}", &text[..60]);
    assert_eq!(serde_json::from_str::<TrialRecord>(&text).expect("a record"), record);
}
