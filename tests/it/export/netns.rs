//! Two interfaces in a network namespace, and programs for which it is the whole machine.

use std::path::PathBuf;

use rxlab::lab::Range;

use crate::lab::{inside, range};
use crate::process::Ended;
use crate::quiet;

/// A range with four queues, held exclusively.
pub(super) struct Lab {
    range: Range,
    _alone: quiet::Held,
}

impl Lab {
    /// `None` if the test is skipped.
    pub(super) fn new() -> Option<Self> {
        let alone = quiet::alone();
        range(4).map(|range| Self { range, _alone: alone })
    }

    pub(super) fn netns(&self) -> PathBuf {
        self.range.server.path()
    }

    /// Runs a script with the namespace's own /sys, and with a /proc and mounts that end with the script.
    pub(super) fn sh(&self, script: &str, arguments: &[&str]) -> std::process::Output {
        let mut command = inside(&self.range.server, "unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-euc"]);
        command.arg(format!("mount -t sysfs sysfs /sys\n{script}")).arg("sh").args(arguments);
        command.output().expect("nsenter runs")
    }

    /// A file of the interface `srv0`.
    pub(super) fn read(&self, file: &str) -> String {
        self.sh("cat \"/sys/class/net/srv0/$1\"", &[file]).exits(0).trim().to_owned()
    }

    /// A value that ethtool shows for `srv0`.
    pub(super) fn ethtool(&self, option: &str, label: &str) -> String {
        let script = "ethtool \"$1\" srv0 | sed -n \"s/^[[:space:]]*$2:[[:space:]]*//p\" | tail -n 1";
        self.sh(script, &[option, label]).exits(0).trim().to_owned()
    }
}
