//! Each rule of the ranking, and what it must never hide.

use super::{Circumstances, Ending, ceiling, metric_verdict, rank};
use crate::record::{Better, Call, Capacity, Effect, Metric, MetricResult, Verdict};

const MARGIN: f64 = 0.03;

fn result(name: &str, better: Better, call: Call, effect: (f64, f64, f64)) -> MetricResult {
    let (mid, low, high) = effect;
    MetricResult {
        metric: Metric { name: name.into(), title: name.into(), unit: "u".into(), better },
        pairs: 20,
        mean_a: 1.0,
        mean_b: 1.0 + mid,
        effect: Some(Effect { mid, low, high }),
        p: None,
        call,
        detectable: Some(0.02),
        adjustment: None,
        ratios: (0..20).map(|i| (i, mid.ln_1p() + if i % 2 == 0 { 0.05 } else { -0.05 })).collect(),
    }
}

fn primary(call: Call) -> MetricResult {
    let effect = match call {
        Call::Helps => (0.10, 0.08, 0.12),
        Call::Hurts => (-0.10, -0.12, -0.08),
        Call::Negligible => (0.01, 0.005, 0.015),
        _ => (0.0, -0.01, 0.01),
    };
    result("throughput", Better::Higher, call, effect)
}

fn hottest(call: Call) -> MetricResult {
    result("hottest_cpu", Better::Lower, call, (-0.5, -0.6, -0.4))
}

fn per_packet(low: f64, high: f64) -> MetricResult {
    let call = if high < 0.0 { Call::Helps } else { Call::Inconclusive };
    result("softirq_per_packet", Better::Lower, call, ((low + high) / 2.0, low, high))
}

/// Everything that can be held against a proven effect at once.
fn doubts<'a>(hottest: &'a MetricResult, per_packet: &'a MetricResult) -> Circumstances<'a> {
    let client_limited = Some("a client thread at 99 % CPU".into());
    Circumstances {
        receive_share: Some(0.01),
        busiest_cpu: Some(0.3),
        ending: Ending { client_limited, interrupted: true, ..Ending::default() },
        ..cooled(hottest, per_packet)
    }
}

/// The hottest CPU is half as busy in arm B.
fn cooled<'a>(hottest: &'a MetricResult, per_packet: &'a MetricResult) -> Circumstances<'a> {
    Circumstances {
        hottest_before: Some(0.98),
        hottest_after: Some(0.49),
        hottest: Some(hottest),
        softirq_per_packet: Some(per_packet),
        ..Circumstances::default()
    }
}

/// The name of the verdict in JSON.
fn name(verdict: &Verdict) -> String {
    let json = serde_json::to_value(verdict).expect("a verdict is JSON");
    json["verdict"].as_str().expect("its tag").to_owned()
}

/// The names of the verdicts as the highest claim is removed one after the other.
fn ladder(call: Call) -> Vec<String> {
    let (hottest, per_packet) = (hottest(Call::Helps), per_packet(-0.05, 0.05));
    let primary = primary(call);
    let mut around = doubts(&hottest, &per_packet);
    around.ending.changed = Some("rps eth0/rx-0".into());
    around.ending.guard = Some("errors 4 %, limit 1 %".into());
    around.ending.not_applied = Some("NET_RX stayed on CPU 2".into());
    let mut names = vec![name(&rank(&primary, MARGIN, &around).verdict)];
    let remove: [fn(&mut Circumstances); 8] = [
        |around| around.ending.changed = None,
        |around| around.ending.guard = None,
        |around| around.ending.not_applied = None,
        |around| around.ending.interrupted = false,
        |around| around.ending.client_limited = None,
        |around| around.receive_share = None,
        |around| around.hottest = None,
        |around| around.busiest_cpu = None,
    ];
    for remove in remove {
        remove(&mut around);
        names.push(name(&rank(&primary, MARGIN, &around).verdict));
    }
    names
}

#[test]
fn an_undecided_result_is_outranked_by_everything_in_order() {
    let order = [
        "machine_changed",
        "guard_tripped",
        "not_applied",
        "interrupted",
        "client_limited",
        "cannot_matter",
        "spreads_only",
        "server_idle",
        "inconclusive",
    ];
    assert_eq!(ladder(Call::Inconclusive), order);
}

#[test]
fn a_decided_result_is_not_interrupted_before_a_decision() {
    let order = [
        "machine_changed",
        "guard_tripped",
        "not_applied",
        "client_limited",
        "client_limited",
        "cannot_matter",
        "spreads_only",
        "server_idle",
        "no_measurable_effect",
    ];
    assert_eq!(ladder(Call::NoEffect), order);
    assert_eq!(ladder(Call::Negligible), order);
}

#[test]
fn a_proven_effect_stays_in_either_direction() {
    for (call, name) in [(Call::Hurts, "hurts"), (Call::Helps, "helps")] {
        let names = ladder(call);
        assert_eq!(names[..3], ["machine_changed", "guard_tripped", "not_applied"]);
        assert_eq!(names[3..], [name; 6]);
    }
}

#[test]
fn what_is_outranked_is_still_said() {
    let (hottest, per_packet) = (hottest(Call::Helps), per_packet(-0.05, 0.05));
    let around = doubts(&hottest, &per_packet);
    let notes = rank(&primary(Call::Hurts), MARGIN, &around).notes.join("\n");
    for part in
        ["load generator was at its limit", "a gain would be at most 1 %", "30 % busy", "room for 2.0 times"]
    {
        assert!(notes.contains(part), "{part} is missing from {notes}");
    }
    for conclusion in ["cannot matter", "says nothing", "adds no capacity"] {
        assert!(!notes.contains(conclusion), "{conclusion} contradicts a proven effect: {notes}");
    }
    let ranking = rank(&primary(Call::NoEffect), MARGIN, &around);
    assert_eq!(name(&ranking.verdict), "client_limited");
    let last = ranking.notes.last().expect("notes");
    assert_eq!(last, "Primary metric: throughput 0.0 % [-1.0, +1.0] after 20 pairs, within the margin.");
}

#[test]
fn a_guard_still_shows_what_was_measured() {
    let ending = Ending { guard: Some("drops".into()), ..Ending::default() };
    let around = Circumstances { ending, ..Circumstances::default() };
    let notes = rank(&primary(Call::Helps), MARGIN, &around).notes;
    assert_eq!(notes, ["Primary metric: throughput +10 % [+8, +12] after 20 pairs, better."]);
}

#[test]
fn spreading_needs_a_cpu_cooler_than_cheaper_packets_make_it() {
    let quiet = primary(Call::NoEffect);
    let ranked = |hottest: &MetricResult, per_packet: &MetricResult, after: Option<f64>| {
        let around = Circumstances { hottest_after: after, ..cooled(hottest, per_packet) };
        rank(&quiet, MARGIN, &around).verdict
    };
    let (cooler, same) = (hottest(Call::Helps), per_packet(-0.05, 0.05));
    let Verdict::SpreadsOnly { headroom_before, headroom_after, .. } = ranked(&cooler, &same, Some(0.49))
    else {
        panic!("it spreads")
    };
    assert!((headroom_before - 1.0 / 0.98).abs() < 1e-12 && (headroom_after - 1.0 / 0.49).abs() < 1e-12);
    let none = "no_measurable_effect";
    assert_eq!(name(&ranked(&hottest(Call::Inconclusive), &same, Some(0.49))), none);
    assert_eq!(name(&ranked(&cooler, &per_packet(-0.2, -0.1), Some(0.49))), "spreads_only");
    assert_eq!(name(&ranked(&cooler, &per_packet(-0.55, -0.45), Some(0.49))), none);
    assert_eq!(name(&ranked(&cooler, &same, None)), none);
    assert_eq!(name(&ranked(&cooler, &same, Some(0.0))), none);
}

/// "Adds no capacity" was once reported for a live trial with +64 % of throughput in its table.
#[test]
fn capacity_is_judged_by_throughput_where_a_cpu_was_full() {
    let (cooler, same) = (hottest(Call::Helps), per_packet(-0.05, 0.05));
    let capacity = |saturated: bool, throughput: Option<&MetricResult>| {
        let around = Circumstances { saturated, throughput, ..doubts(&cooler, &same) };
        match rank(&cooler, MARGIN, &around).verdict {
            Verdict::SpreadsOnly { capacity, .. } => Some(capacity),
            _ => None,
        }
    };
    let bounded = primary(Call::NoEffect);
    let wide = result("throughput", Better::Higher, Call::Inconclusive, (0.02, -0.1, 0.14));
    assert_eq!(capacity(true, Some(&bounded)), Some(Capacity::Same));
    assert_eq!(capacity(true, Some(&wide)), Some(Capacity::Undecided));
    assert_eq!(capacity(true, None), Some(Capacity::Undecided));
    assert_eq!(capacity(false, Some(&bounded)), Some(Capacity::Hidden));
    assert_eq!(capacity(true, Some(&primary(Call::Helps))), None, "it helps");
}

/// Live traffic often has no better primary metric than the hottest CPU: its cooling is the
/// spreading itself, not a gain.
#[test]
fn a_cooler_hottest_cpu_as_the_primary_metric_only_spreads() {
    let (cooler, same) = (hottest(Call::Helps), per_packet(-0.05, 0.05));
    let mut around = doubts(&cooler, &same);
    assert_eq!(name(&rank(&cooler, MARGIN, &around).verdict), "spreads_only");
    let worse = hottest(Call::Hurts);
    around.hottest = Some(&worse);
    assert_eq!(name(&rank(&worse, MARGIN, &around).verdict), "hurts");
}

#[test]
fn no_better_metric_outweighs_lost_throughput() {
    let (cooler, same, lost) = (hottest(Call::Helps), per_packet(-0.05, 0.05), primary(Call::Hurts));
    let around = Circumstances { throughput: Some(&lost), harm: Some(&lost), ..cooled(&cooler, &same) };
    let faster = result("p99", Better::Lower, Call::Helps, (-0.2, -0.3, -0.1));
    for primary in [&faster, &cooler, &result("p99", Better::Lower, Call::Inconclusive, (0.0, -0.1, 0.1))] {
        let ranking = rank(primary, MARGIN, &around);
        assert_eq!(ranking.verdict, Verdict::Hurts, "{}", primary.metric.name);
        let [.., outranked, decisive] = &ranking.notes[..] else { panic!("{:?}", ranking.notes) };
        assert!(outranked.starts_with(&format!("Primary metric: {}", primary.metric.name)), "{outranked}");
        assert!(decisive.starts_with("Outranked by: throughput"), "{decisive}");
    }
    let ending = Ending { guard: Some("drops".into()), ..Ending::default() };
    let guarded = Circumstances { ending, ..around };
    assert_eq!(name(&rank(&faster, MARGIN, &guarded).verdict), "guard_tripped");
}

#[test]
fn a_busy_cpu_is_not_an_idle_server() {
    let mut around = Circumstances { busiest_cpu: Some(0.5), ..Circumstances::default() };
    assert_eq!(name(&rank(&primary(Call::NoEffect), MARGIN, &around).verdict), "server_idle");
    around.busiest_cpu = Some(0.7);
    assert_eq!(name(&rank(&primary(Call::NoEffect), MARGIN, &around).verdict), "no_measurable_effect");
}

#[test]
fn the_ceiling_bounds_throughput_and_not_latency() {
    let around = Circumstances { receive_share: Some(0.01), ..Circumstances::default() };
    assert_eq!(name(&rank(&primary(Call::Inconclusive), MARGIN, &around).verdict), "cannot_matter");
    let p99 = result("p99", Better::Lower, Call::Inconclusive, (0.0, -0.1, 0.1));
    assert_eq!(name(&rank(&p99, MARGIN, &around).verdict), "inconclusive");
}

#[test]
fn the_ceiling_is_f_over_one_minus_f() {
    assert!((ceiling(0.02, MARGIN).expect("2 %") - 0.02 / 0.98).abs() < 1e-12);
    // 0.0291 / 0.9709 = 0.02997, 0.0292 / 0.9708 = 0.03008.
    assert!(ceiling(0.0291, MARGIN).is_some());
    assert!(ceiling(0.0292, MARGIN).is_none());
    assert_eq!(ceiling(-0.001, MARGIN), Some(0.0));
    for share in [1.0, 1.5, f64::NAN, f64::INFINITY] {
        assert_eq!(ceiling(share, MARGIN), None, "{share}");
    }
}

#[test]
fn inconclusive_says_how_many_pairs_would_do() {
    let needed = |mid: f64| {
        let result = result("throughput", Better::Higher, Call::Inconclusive, (mid, -0.1, 0.1));
        let Verdict::Inconclusive { detectable, pairs_needed } = metric_verdict(&result, MARGIN) else {
            panic!("inconclusive")
        };
        assert_eq!(detectable, 0.02);
        pairs_needed
    };
    // sd 0.0513: (2.59 + 0.84)^2 (0.0513 / ln 1.03)^2 = 35.5, and some more for Student's t; halfway to the margin
    // takes four times that, and a trial of that length has more looks.
    assert!((37..=40).contains(&needed(0.0)), "{}", needed(0.0));
    assert!((145..=160).contains(&needed(0.015)), "{}", needed(0.015));
    // A large effect needs few, but always more than there were.
    assert_eq!(needed(0.2), 21);
}

/// "Idle", "cannot matter" and "spreads" say that all is well, which an interval that includes harm does not show.
#[test]
fn harm_that_is_possible_is_not_explained_away() {
    let around =
        Circumstances { busiest_cpu: Some(0.3), receive_share: Some(0.01), ..Circumstances::default() };
    let wide = |low: f64| result("throughput", Better::Higher, Call::Inconclusive, (0.0, low, 0.1));
    assert_eq!(name(&rank(&wide(-0.02), MARGIN, &around).verdict), "cannot_matter");
    let ranking = rank(&wide(-0.2), MARGIN, &around);
    assert!(matches!(ranking.verdict, Verdict::Inconclusive { .. }), "{:?}", ranking.verdict);
    assert_eq!(ranking.notes.len(), 2, "both facts are noted: {:?}", ranking.notes);
    let latency = result("p99", Better::Lower, Call::Inconclusive, (0.0, -0.1, 0.2));
    assert!(matches!(rank(&latency, MARGIN, &around).verdict, Verdict::Inconclusive { .. }));

    let (cooler, same, throughput) = (hottest(Call::Helps), per_packet(-0.01, 0.01), wide(-0.2));
    let around = Circumstances { throughput: Some(&throughput), ..cooled(&cooler, &same) };
    let latency = result("p99", Better::Lower, Call::NoEffect, (0.0, -0.01, 0.01));
    let ranking = rank(&latency, MARGIN, &around);
    assert_eq!(
        ranking.verdict,
        Verdict::NoMeasurableEffect { negligible: false },
        "throughput may have fallen"
    );
}

#[test]
fn an_unmeasured_primary_is_inconclusive() {
    let empty = MetricResult {
        pairs: 0,
        effect: None,
        detectable: None,
        ratios: Vec::new(),
        ..primary(Call::Unmeasured)
    };
    let verdict = rank(&empty, MARGIN, &Circumstances::default()).verdict;
    assert_eq!(verdict, Verdict::Inconclusive { detectable: f64::INFINITY, pairs_needed: 9 });
    let text = serde_json::to_string(&verdict).expect("a verdict is JSON");
    assert_eq!(text, r#"{"verdict":"inconclusive","detectable":null,"pairs_needed":9}"#);
    assert_eq!(serde_json::from_str::<Verdict>(&text).expect("as written"), verdict);
}
