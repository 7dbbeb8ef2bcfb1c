//! The script sets the plan's values on the real kernel.

use super::exported;
use super::netns::Lab;
use crate::process::Ended;
use crate::require;

const SETTINGS: [&str; 7] = [
    "rps srv0/rx-1 = 0-1",
    "rfs srv0/rx-1 = 3000",
    "xps_cpus srv0/tx-2 = 1",
    "gro srv0 = on",
    "threaded srv0 = on",
    "channels srv0 = rx 3 tx 4",
    "rps srv0/rx-3 = 1",
];

#[test]
fn the_script_sets_the_values_once_and_reports_failures() {
    require::needs!(ethtool);
    let Some(lab) = Lab::new() else { return };
    let script = exported(Some(&lab.netns()), "sh", &SETTINGS);
    let values = || {
        ["queues/rx-1/rps_cpus", "queues/rx-1/rps_flow_cnt", "queues/tx-2/xps_cpus", "threaded"]
            .map(|file| lab.read(file))
            .into_iter()
            .chain([lab.ethtool("-k", "generic-receive-offload"), lab.ethtool("-l", "RX")])
            .collect::<Vec<_>>()
    };
    let before = values();
    lab.sh("RXLAB_CHECK=1 exec sh -eu \"$1\"", &[&script.file])
        .says(0, "rps srv0/rx-1 = 0-1: would change, it is 0\n");
    assert_eq!(values(), before, "a check changes nothing");
    // The fourth queue is removed by the channels, which come first: its line fails, the others do not.
    let text = lab.sh("exec sh -eu \"$1\"", &[&script.file]).exits(1);
    let failures: Vec<&str> = text.lines().filter(|line| !line.ends_with(": set")).collect();
    assert!(matches!(failures[..], [line] if line.starts_with("rps srv0/rx-3 = 1: ")), "{text}");
    assert_eq!(values(), ["3", "4096", "2", "1", "on", "3"]);
    let (_, text) = lab.sh("exec sh -eu \"$1\"", &[&script.file]).said();
    assert_eq!(text.lines().count(), 1, "nothing is set twice: {text}");
}

#[test]
fn a_script_with_nothing_to_change_is_silent() {
    let Some(lab) = Lab::new() else { return };
    let script = exported(Some(&lab.netns()), "sh", &SETTINGS[..5]);
    let text = lab.sh("exec \"$1\"", &[&script.file]).exits(0);
    assert!(text.lines().all(|line| line.ends_with(": set")), "{text}");
    assert_eq!(lab.sh("exec \"$1\"", &[&script.file]).said(), (0, String::new()));
}
