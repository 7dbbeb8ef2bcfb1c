//! Checks from outside the process under test: against third-party servers, and in a trial on the practice range.

use std::time::{Duration, Instant};

use rxlab_stats::design::Arm;
use rxlab_trial::check::{Check, Checks};
use rxlab_trial::record::Verdict;

use super::guards_inside::{is_set, rolls_back};
use super::on_the_range::{HTTP, Stage, b_first};
use super::record;
use crate::nginx::Nginx;
use crate::process::{Ended, Running, free_port, mentioning, one_line, wait_for};
use crate::tree::Tree;

fn check(text: &str) -> Check {
    toml::from_str(&format!("name = 'c'\nevery = '20ms'\n{text}")).expect("a check")
}

/// Runs a check for some requests: it passes at the beginning, and none fails.
pub(crate) fn passes(text: &str) {
    let _noise = crate::quiet::noisy();
    let check = check(text);
    let mut checks = Checks::start(std::slice::from_ref(&check)).unwrap_or_else(|error| panic!("{error}"));
    checks.begin();
    let (mut all, mut failed) = (0, 0);
    wait_for("requests", || {
        std::thread::sleep(Duration::from_millis(50));
        let (more, bad) = check.counts(&checks.end().values).unwrap_or_default();
        (all, failed) = (all + more, failed + bad);
        all >= 10
    });
    assert_eq!((failed, checks.tripped()), (0, None), "{text}");
}

/// The line of a check that does not pass.
pub(crate) fn fails(text: &str) -> String {
    Checks::start(&[check(text)]).expect_err("it does not pass").to_string()
}

#[test]
fn nginx_is_checked_by_status_body_and_certificate() {
    let Some(nginx) = Nginx::start_tls() else { return };
    let url = format!("url = 'https://127.0.0.1:{}/health'", nginx.port);
    let ca = format!("{url}\nca = '{}/cert.pem'", nginx.directory.path().display());
    passes(&format!("{ca}\nexpect_status = '200'\nexpect_body = 'hello'"));
    passes(&format!("{url}\ninsecure = true"));
    passes(&format!("url = 'tcp://127.0.0.1:{}'", nginx.port));
    let other = fails(&format!("{ca}\nexpect_body = 'goodbye'"));
    assert!(other.ends_with("/health failed: unexpected body"), "{other}");
    let other = fails(&format!("{ca}\nexpect_status = '204'"));
    assert!(other.ends_with("/health failed: status 2xx"), "{other}");
    assert!(fails(&url).contains("certificate"), "{}", fails(&url));
}

#[test]
fn a_check_that_fails_before_the_trial_changes_nothing() {
    let tree = Tree::new();
    let port = free_port();
    let text = format!(
        "name = \"front\"\n[change]\nset = [\"rps eth0/rx-0 = 2-3\"]\n[workload]\ncommand = \"echo 5\"\n\
         [[check]]\nname = \"front\"\nurl = \"http://127.0.0.1:{port}/\"\n"
    );
    let text = tree.trial(&text).exits(5);
    let line = format!("rxlab: check front: cannot reach the target http://127.0.0.1:{port}/");
    assert!(text.starts_with(&line) && text.contains("nothing was changed"), "{text}");
    assert_eq!((tree.rps("eth0", 0).as_str(), tree.state().join("trials").exists()), ("00", false));
}

/// The command would run for a minute, and knows nothing of the server that the check asks.
#[test]
fn failures_end_a_command_of_a_minute() {
    let Some(mut stage) = Stage::new("1") else { return };
    let text = format!(
        "name = \"front\"\n[change]\nset = [\"rps srv0/rx-0 = 1\"]\n\
         [workload]\ncommand = \"sleep 60; : '{}'\"\n[design]\n{}\npairs = 4\nmin_pairs = 4\ncalibration = 0\n\
         [[check]]\nname = \"front\"\nurl = \"{HTTP}\"\nevery = \"50ms\"\ntimeout = \"5s\"\nnetns = \"{}\"\n",
        stage.directory.path().display(),
        b_first(),
        stage.range.client.path().display(),
    );
    let mut trial = Running::start(&mut stage.run(&text));
    // Past the washout, the command has begun.
    trial.until("the command", || {
        is_set(&stage.host) && mentioning(stage.directory.path()).iter().any(|pid| is_shell(*pid))
    });
    std::thread::sleep(Duration::from_millis(200));
    let exceeded = Instant::now();
    drop(stage.target.take());
    rolls_back(exceeded, || !is_set(&stage.host));
    let text = trial.output().exits(1);
    let record = record(&stage.state(), "0001-front").expect("on disk");
    let slot = record.slots.last().expect("a slot");
    assert_eq!(slot.arm, Arm::B);
    let (requests, failed) = record.checks[0].counts(&slot.values).expect("counted");
    assert!(failed >= 3 && requests > failed, "{failed} of {requests}");
    let Some(Verdict::GuardTripped { reason }) = record.analysis.map(|analysis| analysis.verdict) else {
        panic!("{text}")
    };
    assert!(reason.starts_with("check front failed ") && reason.contains("in a row"), "{reason}");
    let line = format!("check: front, {HTTP} every 50ms; failed: 0 of 0 in A, {failed} of {requests} in B");
    assert!(one_line(&text).contains(&line), "{text}");
    stage.is_restored();
}

fn is_shell(pid: rustix::process::Pid) -> bool {
    let file = format!("/proc/{}/comm", pid.as_raw_nonzero());
    std::fs::read_to_string(file).is_ok_and(|name| name.trim() == "sh")
}
