//! Queries of a trial to a real Prometheus, which scrapes itself.

use std::process::{Command, Output};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rxlab_trial::record::Verdict;

use super::guards_inside::rolls_back;
use super::on_the_range::b_first;
use super::{moving_workload, record};
use crate::process::{Ended, Running, mentioning, one_line};
use crate::prometheus::Prometheus;
use crate::tree::Tree;

/// A trial on `tree` with this command and query.
fn trial(prometheus: &Prometheus, tree: &Tree, command: &str, design: &str, query: &str) -> Command {
    let text = format!(
        "name = \"q\"\n[change]\nset = [\"rps eth0/rx-0 = 2-3\"]\n\
         [workload]\ncommand = \"\"\"{command}\"\"\"\n\
         [design]\n{}\npairs = 2\nmin_pairs = 2\ncalibration = 0\nwashout = \"0s\"\n{design}\n\
         [[query]]\nname = \"q\"\nprometheus = \"{}\"\n{query}\n",
        b_first(),
        prometheus.url
    );
    tree.trial(&text)
}

fn work(tree: &Tree) -> String {
    moving_workload(tree, "0.1", "echo 5")
}

#[test]
fn a_query_is_context_of_every_slot_or_a_metric() {
    let Some(prometheus) = Prometheus::start(&[], None) else { return };
    let tree = Tree::new();
    let command = work(&tree);
    let run = |design: &str| -> Output {
        let mut command =
            trial(&prometheus, &tree, &command, design, "expr = \"sum(up{job=\'self\'}) + 41\"");
        command.output().expect("rxlab runs")
    };
    let text = run("").exits(0);
    let trial = record(&tree.state(), "0001-q").expect("on disk");
    assert_eq!(trial.slots.len(), 4);
    assert!(trial.slots.iter().all(|slot| slot.values["query.q"] == 42.0 && slot.absent.is_empty()));
    let judged = |trial: &rxlab_trial::record::TrialRecord| {
        trial.metrics.iter().any(|metric| metric.name == "query.q")
    };
    assert!(!judged(&trial), "context is not judged");
    let line = "query: q, `sum(up{job='self'}) + 41`: mean 42.0 in A, 42.0 in B";
    assert!(one_line(&text).contains(line), "{text}");
    run("metrics = [\"query.q\"]").says(0, "  query q ");
    assert!(judged(&record(&tree.state(), "0002-q").expect("on disk")));
}

#[test]
fn a_query_guards_a_command_of_a_minute() {
    let Some(prometheus) = Prometheus::start(&[], None) else { return };
    let tree = Tree::new();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let limit = now + 5;
    let command = format!("sleep 60; : '{}'", tree.path().display());
    let query = format!("expr = \"time()\"\nmax = {limit}.0");
    let mut running = Running::start(&mut trial(&prometheus, &tree, &command, "", &query));
    running.until("the limit", || {
        SystemTime::now().duration_since(UNIX_EPOCH).is_ok_and(|now| now.as_secs() > limit)
    });
    rolls_back(Instant::now(), || record(&tree.state(), "0001-q").is_some_and(|r| r.analysis.is_some()));
    running.output().exits(1);
    let verdict =
        record(&tree.state(), "0001-q").and_then(|record| record.analysis).expect("concluded").verdict;
    let Verdict::GuardTripped { reason } = verdict else { panic!("{verdict:?}") };
    assert!(reason.starts_with("query q was 1") && reason.contains(", above its max = 1"), "{reason}");
    assert_eq!((mentioning(tree.path()), tree.rps("eth0", 0).as_str()), (Vec::new(), "0"));
}

#[test]
fn without_exactly_one_value_nothing_begins() {
    let Some(prometheus) = Prometheus::start(&[], None) else { return };
    let tree = Tree::new();
    for (expr, why) in [
        ("no_such_metric", "no sample"),
        ("prometheus_http_requests_total or up", " samples: reduce them to one with sum(...) or max(...)"),
        ("0 / 0 + 0 * time()", "NaN instead of a number"),
        ("up[1m]", "a range of samples: reduce it to one value with rate(...)"),
        ("up{", "parse error"),
    ] {
        let out = trial(&prometheus, &tree, "echo 5", "", &format!("expr = \"{expr}\"")).output();
        let text = out.expect("rxlab runs").exits(5);
        assert!(text.starts_with(&format!("rxlab: query q: `{expr}`: ")) && text.contains(why), "{text}");
    }
    assert!(!tree.state().join("trials").exists(), "nothing was run");
}
