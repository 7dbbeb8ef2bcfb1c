use proptest::prelude::{ProptestConfig, prop_assert, proptest};

use super::{Fleet, HostState};
use crate::report::document::{Document, Part, Trial};
use crate::report::markdown;
use crate::report::sample_fleet::{on, status, trials, whole};
use crate::report::sample_interference;
use crate::report::text::{plain, rows};
use rxlab_advise::doctor::diagnosed;
use rxlab_path::sketch::Sketch;
use rxlab_trial::record::{TrialRecord, Verdict};

fn fleet(records: Vec<TrialRecord>) -> Fleet {
    Fleet::new(&Document::new(
        records.into_iter().map(|record| Part::Trial(Box::new(Trial::new(record)))).collect(),
    ))
}

/// The example of the page is this text.
#[test]
#[allow(clippy::disallowed_methods)] // Compares, and on request renews, a file of the tree.
fn twelve_hosts_are_the_example_of_the_page() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fleet.md");
    let page = std::fs::read_to_string(path).expect("docs/fleet.md");
    let (before, rest) = page.split_once("<!-- example -->\n").expect("a mark");
    let (example, after) = rest.split_once("<!-- end example -->").expect("a mark");
    let text = format!("```\n{}```\n", plain(&Fleet::new(&whole()).text()));
    if std::env::var_os("RXLAB_UPDATE_DOCS").is_some() {
        let new = format!("{before}<!-- example -->\n{text}<!-- end example -->{after}");
        std::fs::write(path, new).expect("docs can be written");
    } else {
        assert!(example == text, "docs/fleet.md is stale: run make docs\n{text}");
    }
}

/// Its text on one line.
fn joined(fleet: &Fleet) -> String {
    plain(&fleet.text()).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn twelve_hosts_for_a_ticket() {
    insta::assert_snapshot!(markdown::fleet(&Fleet::new(&whole())));
}

/// Harm comes first, whatever the hosts gain on average.
#[test]
fn one_harmful_host_and_one_guard() {
    let mut records = trials();
    records[3] = on("web04", ("6.12.1", "mlx5_core"), 4, -0.15);
    let reason = "error rate 4.2 %, allowed 1 %".to_owned();
    records[5].slots.truncate(8);
    records[5].slots.last_mut().expect("slots").arm = rxlab_stats::design::Arm::B;
    records[5].analysis.as_mut().expect("analysed").verdict = Verdict::GuardTripped { reason };
    let fleet = fleet(records);
    assert!(fleet.has_trouble());
    let text = joined(&fleet);
    let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
    assert!(at("Harm on web04: throughput -15") < at("Harm on web06: error rate 4.2 %"));
    assert!(at("Harm on web06") < at("on average over 11 hosts"), "{text}");
    assert!(at("Do not keep it. It does harm on web04, web06: ") < at("Host Change "), "{text}");
}

#[test]
fn two_hosts_answer_for_themselves() {
    let fleet = fleet(trials().into_iter().take(2).collect());
    insta::assert_snapshot!(plain(&fleet.text()));
    assert!(!fleet.has_trouble());
}

#[test]
fn a_large_fleet_fits_a_screen() {
    let records = (0..60).map(|at| on(&format!("web{at}"), ("6.12.1", "mlx5_core"), at, 0.18)).collect();
    let text = plain(&fleet(records).text());
    assert!(text.lines().count() <= rows() && text.contains(" more rows"), "{text}");
}

/// Of two samples of a host the later one counts, in whichever order they are given.
#[test]
fn the_latest_state_of_a_host_counts() {
    let old = |mut report: crate::report::printed::StatusReport| {
        report.taken = Some("2026-05-01T00:00:00Z".to_owned());
        report.transactions.clear();
        report
    };
    for reports in [[status("web1"), old(status("web1"))], [old(status("web1")), status("web1")]] {
        let fleet = Fleet::new(&Document::new(reports.map(|report| Part::Status(Box::new(report))).into()));
        let [HostState { applied: Some(applied), .. }] = &fleet.hosts[..] else { panic!("{fleet:?}") };
        assert_eq!(applied.len(), 1);
    }
}

/// A group in which the harm is larger is not one without harm.
#[test]
fn only_of_what_helps_it_is_said_where_it_does_not() {
    let records = (1..=12).map(|at| match at {
        0..=9 => on(&format!("web{at:02}"), ("6.12.1", "mlx5_core"), at, -0.10),
        _ => on(&format!("web{at:02}"), ("5.15.0", "virtio_net"), at, -0.30),
    });
    let fleet = fleet(records.collect());
    assert_eq!(fleet.pools[0].exceptions.len(), 1, "{:?}", fleet.pools[0].exceptions);
    let text = joined(&fleet);
    assert!(text.contains("Hurts: throughput") && !text.contains("not on kernel"), "{text}");
}

/// No finding without traffic proves nothing, and a machine of the same name may have had one.
#[test]
fn a_host_without_a_verdict_is_not_one_without_findings() {
    let of = |boot: &str, sketch: Sketch| {
        let mut report = diagnosed(sketch);
        (report.identity.hostname, report.identity.boot_id) = ("web1".to_owned(), boot.to_owned());
        Part::Doctor(Box::new(report))
    };
    let idle = || Sketch::new(4).device("eth0", &[1]);
    let fleet = Fleet::new(&Document::new(vec![of("a", Sketch::case_a()), of("b", idle())]));
    let text = joined(&fleet);
    assert!(
        text.contains("Not judged: web1 (no traffic to judge") && !text.contains("Without a finding"),
        "{text}"
    );
    assert!(text.contains("Several boots, or several hosts of one name, taken as one host: web1"), "{text}");
    let one = Fleet::new(&Document::new(vec![of("a", idle())]));
    assert!(!joined(&one).contains("Several boots"));
}

#[test]
fn records_of_other_kinds_are_named() {
    let mut document = whole();
    document.parts.push(Part::Interference(Box::new(sample_interference::measured())));
    let text = joined(&Fleet::new(&document));
    assert!(text.contains("1 record of other kinds"), "{text}");
    assert!(Fleet::new(&Document::default()).is_empty());
}

#[test]
fn a_fleet_comes_back_from_its_json() {
    let fleet = Fleet::new(&whole());
    let json = serde_json::to_string(&fleet).expect("JSON");
    assert!(json.starts_with("{\"schema\":\"rxlab.fleet/1\""), "{json}");
    let again: Fleet = serde_json::from_str(&json).expect("a fleet");
    assert_eq!(serde_json::to_string(&again).expect("JSON"), json);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_name_is_wider_than_a_line_or_controls_it(name in "[a-z\u{1b}\r\n`|<]{0,90}") {
        let mut records = trials();
        records[0].host.hostname = name.clone();
        records[1].drivers = [name.clone()].into();
        records[2].cpu_model = Some(name.clone());
        records[3].change = vec![name.clone()];
        records[4].id = name;
        let fleet = fleet(records);
        let text = plain(&fleet.text());
        prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        let table = markdown::fleet(&fleet);
        let outside = table.lines().filter(|line| line.starts_with('|'));
        prop_assert!(outside.map(|line| line.replace("\\|", "").matches('|').count()).all(|count| count == 9), "{table}");
    }
}
