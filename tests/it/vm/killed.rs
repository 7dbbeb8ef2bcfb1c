//! A guest ends together with the process that started it.

use std::process::Command;

use rustix::process::Signal;

use crate::process::{Running, mentioning, wait_for};
use crate::{quiet, require};

#[test]
fn a_killed_lab_leaves_no_process_behind() {
    require::needs!(vm);
    let _guest = quiet::guest();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let job = directory.path().join("job.sh");
    std::fs::write(&job, "sleep 1000\n").expect("written");
    let mut command = Command::new(super::guest::lab());
    command.args(["--rxlab", env!("CARGO_BIN_EXE_rxlab"), "e1000e"]).arg(&job);
    let peer = directory.path().join("peer.sh");
    std::fs::write(&peer, "while :; do sleep 1; done\n").expect("written");
    command.env("RXLAB_LAB_PEER", format!("exec sh '{}'", peer.display()));
    command.env("RXLAB_LAB_SECONDS", "60");
    let lab = Running::start(&mut command);
    wait_for("the peer, which is the last before the guest", || !mentioning(&peer).is_empty());
    lab.signal(Signal::KILL);
    // The first process of the namespaces is among them: once it is gone, everything in them is.
    wait_for("the end of all processes", || mentioning(directory.path()).is_empty());
}
