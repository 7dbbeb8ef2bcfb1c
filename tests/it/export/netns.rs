//! Two interfaces in a network namespace, and programs for which it is the whole machine.

use std::path::PathBuf;
use std::process::Command;

use rxlab::lab::{Range, RangeSpec};

use crate::quiet;

/// A range with four queues, held exclusively.
pub(super) struct Lab {
    pub(super) range: Range,
    _alone: quiet::Held,
}

impl Lab {
    pub(super) fn new() -> Self {
        let alone = quiet::alone();
        Self {
            range: Range::build(&RangeSpec { queues: 4, ..RangeSpec::default() }).expect("built"),
            _alone: alone,
        }
    }

    pub(super) fn netns(&self) -> PathBuf {
        self.range.server.path()
    }

    /// Runs a script with the namespace's own /sys, and with a /proc and mounts that end with the script.
    pub(super) fn sh(&self, script: &str, arguments: &[&str]) -> std::process::Output {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.netns().display()));
        command.args(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-euc"]);
        command.arg(format!("mount -t sysfs sysfs /sys\n{script}")).arg("sh").args(arguments);
        command.output().expect("nsenter runs")
    }

    /// A file of the interface `srv0`.
    pub(super) fn read(&self, file: &str) -> String {
        let out = self.sh("cat \"/sys/class/net/srv0/$1\"", &[file]);
        String::from_utf8(out.stdout).expect("text").trim().to_owned()
    }

    /// A value that ethtool shows for `srv0`.
    pub(super) fn ethtool(&self, option: &str, label: &str) -> String {
        let script = "ethtool \"$1\" srv0 | sed -n \"s/^[[:space:]]*$2:[[:space:]]*//p\" | tail -n 1";
        let out = self.sh(script, &[option, label]);
        String::from_utf8(out.stdout).expect("text").trim().to_owned()
    }
}
