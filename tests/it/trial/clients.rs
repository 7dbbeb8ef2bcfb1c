//! Load from several clients, each a process of its own, as `ssh` would start them on other machines.

use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use super::guards_inside::is_set;
use super::on_the_range::{HTTP, Stage, b_first};
use super::record;
use crate::process::{Ended, Running};
use crate::tree::program;

/// A trial with two clients of 500 requests/s each in the client's namespace.
fn trial(stage: &Stage, design: &str) -> Command {
    let run = format!(
        "echo $$ >> '{}'; exec nsenter --net={} {} client",
        stage.directory.path().join("clients").display(),
        stage.range.client.path().display(),
        program().display(),
    );
    let client = format!("[[client]]\nrun = \"{run}\"\n");
    let text = format!(
        "name = \"rps\"\n[change]\nset = [\"rps srv0/rx-0 = 1\"]\n\
         [workload.load]\nurl = \"{HTTP}\"\nconnections = 8\nrate = 500\n{client}{client}\
         [design]\nwashout = \"50ms\"\n{design}\n"
    );
    stage.run(&text)
}

#[test]
fn the_load_of_all_clients_is_one() {
    let Some(stage) = Stage::new("1") else { return };
    // The primary of the paced load, CPU time, is counted in ticks: a second of so little work may have none, and its
    // pair is repeated.
    let design = "measure = \"1s\"\npairs = 2\nmin_pairs = 2\nprimary = \"throughput\"";
    let (code, text) = trial(&stage, design).said();
    assert_eq!(code, 0, "{text}");
    let record = record(&stage.state(), "0001-rps").expect("on disk");
    assert!(record.workload.ends_with(", from each of 2 clients"), "{}", record.workload);
    assert_eq!(record.slots.len(), 4, "{text}");
    for slot in &record.slots {
        let rate = slot.values["throughput"];
        assert!(rate > 700.0 && rate < 1300.0, "one offers 500/s: {:?}", slot.values);
        assert!(slot.values["p50_us"] > 0.0 && slot.values["client_cpu"] > 0.0, "{:?}", slot.values);
    }
    stage.is_restored();
}

#[test]
fn a_client_that_ends_ends_the_slot() {
    let Some(stage) = Stage::new("1") else { return };
    let design = format!("measure = \"60s\"\npairs = 4\nmin_pairs = 4\n{}", b_first());
    let mut trial = Running::start(&mut trial(&stage, &design));
    trial.until("arm B", || is_set(&stage.host));
    let clients = std::fs::read_to_string(stage.directory.path().join("clients")).expect("two started");
    let last = clients.lines().last().and_then(|pid| Pid::from_raw(pid.parse().ok()?)).expect("a pid");
    kill_process(last, Signal::KILL).expect("it runs");
    let (code, text) = trial.output().said();
    assert!(code != 0 && text.contains("rxlab client") && text.contains("ended"), "{code}: {text}");
    stage.is_restored();
}
