//! Metrics of a captured machine and of the largest that is planned for, and the table of the page.

#![allow(clippy::disallowed_methods)] // Compares a generated page.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Exposition, FAMILIES, FINDINGS, Format, Judged, SETTINGS, encode};
use crate::report::live::Applied;
use crate::report::status;
use rxlab_advise::diagnose::{Finding, RULES, Severity, diagnose};
use rxlab_base::parse::{CpuTimes, InterruptLine, Interrupts, QueueCounters, SoftnetRow};
use rxlab_base::units::{CpuId, Fact};
use rxlab_change::apply::{Live, State, TransactionStatus, ValueStatus};
use rxlab_path::evidence::{headroom, receive_time};
use rxlab_path::model::{Model, Totals};
use rxlab_path::sample::{Counters, CpuCounters, NicCounters};
use rxlab_path::sketch::Sketch;
use rxlab_probe::{Class, LostTotals, UNITS};
use rxlab_trial::summary::Summary;

/// Everything that is exported of a machine.
fn exposition(sketch: Sketch) -> Exposition {
    let (model, rates) = sketch.build();
    let mut totals = Totals::default();
    totals.advance(counters(&model));
    let judged = Judged {
        ended: 1_790_000_000.5,
        seconds: rates.seconds,
        receive_time: rates.cpus.iter().map(|cpu| (cpu.cpu, receive_time(cpu))).collect(),
        headroom: Some(headroom(&model, &rates)),
        findings: diagnose(&model, &rates),
        gaps: 1,
    };
    let mut lost = LostTotals::default();
    lost.cpus.extend(model.cpus.iter().map(|cpu| (cpu.id, 0.5)));
    lost.classes.extend([(Class::NicIrq, 0.5), (Class::SelfInflicted, 1.5)]);
    (lost.measured, lost.hard_irq) = (2.0, 0.25);
    let transaction = TransactionStatus {
        state: State::Unconfirmed { seconds_left: 12.5, unguarded: false },
        reapplied: 3,
        ..status::sample([
            ("eth0/rx-0", Live::Kept),
            ("eth0/rx-1", Live::Drifted { value: "0".to_owned(), changed: Vec::new() }),
            ("eth0/rx-2", Live::Covered { by: "0002".to_owned() }),
        ])
    };
    // Nothing reverts it, so it has no time left.
    let unguarded = TransactionStatus {
        state: State::Unconfirmed { seconds_left: 4.5, unguarded: true },
        ..status::sample([])
    };
    let applied =
        Applied { transactions: vec![transaction, unguarded], unknown: vec!["unreadable".to_owned()] };
    let trial = |id: &str, verdict: Option<&str>| Summary {
        id: id.to_owned(),
        verdict: verdict.map(str::to_owned),
        slots: 7,
        updated: 1_790_000_000.0,
    };
    let trials = vec![trial("0001-rps", Some("helps")), trial("0002-rps", None)];
    let checkpoints = vec![("waiting", 1), ("missed", 0), ("failed", 0)];
    let (model, judged) = (Arc::new(model), Some(judged));
    Exposition { model, totals, lost, judged, failures: 0, applied, trials, checkpoints }
}

/// Counters in which each CPU, interrupt and queue has counted.
fn counters(model: &Model) -> Counters {
    let cpus = || model.cpus.iter().map(|cpu| cpu.id);
    let softnet = SoftnetRow { processed: 90, ..SoftnetRow::default() };
    let counted = CpuCounters { softirqs: [0, 0, 2, 40, 0, 0, 0, 0, 0, 0], softnet };
    let irqs = model.nics.iter().flat_map(|nic| &nic.rx).flat_map(|queue| &queue.irqs);
    let line = InterruptLine { counts: [(CpuId(0), 12)].into(), text: "chip".to_owned() };
    let queue = QueueCounters { packets: 30, drops: Some(4), ..QueueCounters::default() };
    let nics = model.nics.iter().map(|nic| {
        let rx_queues = nic.rx.iter().map(|rx| (rx.index, queue)).collect();
        (nic.name.clone(), NicCounters { rx_packets: 60, rx_queues, ..NicCounters::default() })
    });
    Counters {
        times: Fact::Known(
            cpus().map(|cpu| (cpu, CpuTimes { softirq: 150, ..CpuTimes::default() })).collect(),
        ),
        cpus: Fact::Known(cpus().map(|cpu| (cpu, counted)).collect()),
        softnet: Fact::Known(()),
        interrupts: Fact::Known(Interrupts {
            cpus: cpus().collect(),
            irqs: irqs.map(|irq| (irq.number, line.clone())).collect(),
        }),
        nics: nics.collect(),
        ..Counters::unread(1)
    }
}

/// Series of a text: name and labels.
fn series(text: &str) -> Vec<&str> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.map(|line| line.rsplit_once(' ').expect("a value").0).collect()
}

#[test]
fn a_machine_with_a_hot_cpu() {
    let text = encode(&exposition(Sketch::case_a()), Format::OpenMetrics);
    // One line for each rule without a finding: not those that are added later.
    let lines = text.lines().filter(|line| !line.contains("subject=\"\"") || line.contains("backlog-drops"));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"));
}

#[test]
fn both_formats_have_the_same_series() {
    let scene = exposition(Sketch::case_a());
    let (open, classic) = (encode(&scene, Format::OpenMetrics), encode(&scene, Format::Classic));
    assert_eq!(series(&open), series(&classic));
    assert!(open.ends_with("# EOF\n") && !classic.contains("# EOF"));
    assert!(open.contains("# TYPE rxlab_cpu_packets counter\n"));
    assert!(classic.contains("# TYPE rxlab_cpu_packets_total counter\n"));
    for (accept, format) in [
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", Format::OpenMetrics),
        ("text/plain;version=0.0.4", Format::Classic),
        ("*/*", Format::Classic),
        ("", Format::Classic),
    ] {
        assert_eq!(Format::of_accept(accept), format, "{accept}");
    }
}

/// Each family exists in the output, with the labels of the table, and its name follows the conventions.
#[test]
fn the_table_is_what_is_exported() {
    let text = encode(&exposition(Sketch::case_a()), Format::Classic);
    let mut exported: BTreeMap<&str, BTreeSet<Vec<&str>>> = BTreeMap::new();
    for series in series(&text) {
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels.trim_end_matches('}').split("\",").filter(|label| !label.is_empty());
        let labels = labels.map(|label| label.split('=').next().expect("a name")).collect();
        exported.entry(name).or_default().insert(labels);
    }
    for family in FAMILIES {
        let labels =
            exported.remove(family.name).unwrap_or_else(|| panic!("{} is not exported", family.name));
        assert_eq!(labels, BTreeSet::from([family.labels.to_vec()]), "{}", family.name);
        assert!(family.name.starts_with("rxlab_") && family.help.ends_with('.'), "{}", family.name);
        // OpenMetrics escapes quotes in it, the older format does not.
        assert!(!family.help.contains(['"', '\\', '|']), "{}", family.name);
    }
    assert_eq!(exported, BTreeMap::new());
}

/// 128 CPUs and 64 queues with as many findings, settings and units as there can be.
#[test]
fn a_large_machine_has_fewer_than_1500_series() {
    let landing: Vec<u32> = (0..64).map(|queue| queue * 2).collect();
    let mut scene = exposition(Sketch::new(128).device("eth0", &landing).traffic("eth0", 6.4e5));
    let finding = |number: usize| Finding {
        severity: Severity::Warning,
        nic: Some(format!("eth{number}").parse().expect("a name")),
        ..RULES[number % RULES.len()].finding()
    };
    scene.judged.as_mut().expect("judged").findings = (0..2 * FINDINGS).map(finding).collect();
    let values = &mut scene.applied.transactions[0].values;
    let first = values[0].clone();
    *values = (0..2 * SETTINGS)
        .map(|queue| ValueStatus {
            target: format!("eth0/rx-{queue}").parse().expect("a target"),
            ..first.clone()
        })
        .collect();
    scene.lost.classes = Class::OF_RUNS.into_iter().map(|class| (class, 1.0)).collect();
    let text = encode(&scene, Format::OpenMetrics);
    let all = series(&text);
    let count = |name: &str| all.iter().filter(|series| series.starts_with(name)).count();
    assert_eq!((count("rxlab_cpu_packets_total"), count("rxlab_queue_packets_total")), (128, 64));
    assert_eq!((count("rxlab_finding{"), count("rxlab_setting_holds{")), (FINDINGS, SETTINGS));
    let most = all.len() + UNITS;
    assert!(most < 1_500, "{most}");
    assert_eq!(all.len(), all.iter().collect::<BTreeSet<_>>().len(), "no series twice");
}

#[test]
fn labels_are_escaped() {
    let mut scene = exposition(Sketch::case_a());
    scene.trials[1].id = "0002-a\"b\\c\nd".to_owned();
    let text = encode(&scene, Format::Classic);
    assert!(text.contains(r#"rxlab_trial_latest_info{trial="0002-a\"b\\c\nd",verdict="none"} 1"#), "{text}");
}

/// Before the first sample there are counters and no verdicts.
#[test]
fn nothing_is_judged_before_the_first_sample() {
    let Exposition { model, totals, .. } = exposition(Sketch::case_a());
    let exposition = Exposition { model, totals, failures: 2, ..Exposition::default() };
    let text = encode(&exposition, Format::Classic);
    assert!(text.contains("rxlab_cpu_packets_total{cpu=\"2\"} 90\n"), "{text}");
    assert!(text.contains("rxlab_sample_failures_total 2\n"));
    for absent in ["rxlab_finding", "rxlab_cpu_receive_time_ratio", "rxlab_trial_latest", "rxlab_headroom"] {
        assert!(!text.contains(&format!("# TYPE {absent}")), "{absent}");
    }
}

/// The table of docs/exporter.md.
fn table() -> String {
    let mut table = "| metric | kind | labels | what it is |\n|---|---|---|---|\n".to_owned();
    for family in FAMILIES {
        let (_, kind) = family.name_and_kind();
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        table +=
            &format!("| `{}` | {} | {} | {} |\n", family.name, kind.as_str(), labels.join(", "), family.help);
    }
    table
}

#[test]
fn the_table_of_the_docs_is_current() {
    const BEGIN: &str = "<!-- metrics: begin -->\n";
    const END: &str = "<!-- metrics: end -->\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/exporter.md");
    let page = std::fs::read_to_string(path).expect("the page of the exporter");
    let (before, rest) = page.split_once(BEGIN).expect("where the table begins");
    let (_, after) = rest.split_once(END).expect("where the table ends");
    let current = format!("{before}{BEGIN}{}{END}{after}", table());
    if std::env::var_os("RXLAB_UPDATE_DOCS").is_some() {
        std::fs::write(path, &current).expect("written");
    } else {
        assert!(page == current, "docs/exporter.md is stale: run make docs");
    }
}
