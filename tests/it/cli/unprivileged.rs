//! Without privileges: reading works, and changes are refused with the reason.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::process::{Ended, copy_program};
use crate::require;

/// A copy of the program that everyone may run, and a state directory of the user who runs it.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    /// `None` if the test is skipped.
    fn new() -> Option<Self> {
        if !require::root() {
            return None;
        }
        let place = Self { directory: tempfile::tempdir().expect("a temporary directory") };
        let open = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("permitted");
        };
        open(place.directory.path(), 0o755);
        copy_program(&place.program());
        open(&place.program(), 0o755);
        std::fs::create_dir(place.state()).expect("created");
        std::os::unix::fs::chown(place.state(), Some(65534), None).expect("given away");
        Some(place)
    }

    fn program(&self) -> PathBuf {
        self.directory.path().join("rxlab")
    }

    fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    fn rxlab(&self, args: &[&str]) -> Output {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs"]);
        command.arg(self.program()).arg("--state-dir").arg(self.state());
        command.arg("--run-dir").arg(self.state().join("run")).args(args);
        command.current_dir("/").output().expect("setpriv runs")
    }

    fn refused(&self, args: &[&str], message: &str) -> String {
        let text = self.rxlab(args).exits(3);
        assert!(text.starts_with("rxlab: ") && text.contains(message), "{args:?}: {text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("  hint: ")), "{args:?}: {text}");
        text
    }
}

#[test]
fn receive_time_is_counted_if_it_may_not_be_measured() {
    let Some(place) = Place::new() else { return };
    place.rxlab(&["interference", "--for", "100ms"]).says(0, "no eBPF: eBPF needs CAP_BPF and CAP_PERFMON");
    place.refused(&["interference", "--for", "100ms", "--tier", "ebpf"], "CAP_BPF and CAP_PERFMON");
    let compare = ["interference", "--compare", "cmd: true", "cmd: false"];
    place.refused(
        &compare,
        "`interference.share` cannot be measured here: eBPF needs CAP_BPF and CAP_PERFMON",
    );
    let trial = ["trial", "run", "--a", "true", "--b", "true", "--live", "--metric", "net_rx.ns_per_packet"];
    place.refused(&trial, "`net_rx.ns_per_packet` cannot be measured here");
    assert!(!place.state().join("trials").exists(), "no trial began");
    // A timeline has no fallback.
    place.refused(&["trace", "--for", "100ms"], "CAP_BPF and CAP_PERFMON");
}

/// A missing permission has one exit code, whatever the file is for.
#[test]
fn files_of_others_are_refused() {
    let Some(place) = Place::new() else { return };
    let (file, directory) = (place.directory.path().join("file"), place.directory.path().join("out"));
    std::fs::write(&file, "").expect("written");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("permitted");
    std::fs::create_dir(&directory).expect("created");
    let file = file.to_str().expect("text");
    for reading in [
        vec!["doctor", "--snapshot", file],
        vec!["apply", file],
        vec!["export", file, "--to", "sh"],
        vec!["trial", "run", file],
        vec!["merge", file],
        vec!["load", "http://127.0.0.1:9", "--urls", file],
        vec!["load", "http://127.0.0.1:9", "--body", &format!("@{file}")],
    ] {
        place.refused(&reading, &format!("{file}: Permission denied"));
    }
    let plan = place.state().join("plan.toml");
    std::fs::write(&plan, "[[setting]]\nset = \"netdev_budget host = 600\"\n").expect("written");
    let (plan, out) = (plan.to_str().expect("text"), directory.join("out"));
    let out = out.to_str().expect("text");
    for writing in [
        vec!["snapshot", "--for", "100ms", "-o", out],
        vec!["export", plan, "--to", "sh", "-o", out],
        vec!["plan", "--set", "netdev_budget host = 600", "-o", out],
        vec!["load", "http://127.0.0.1:9", "--hdr-log", out],
    ] {
        place.refused(&writing, "Permission denied");
    }
    assert_eq!(std::fs::read_dir(&directory).expect("readable").count(), 0);
}

/// No machine boots from files that an ordinary user can write: the units are created, with a warning about what root
/// would refuse.
#[test]
fn units_created_without_root_come_with_a_warning() {
    let Some(place) = Place::new() else { return };
    if !Path::new("/proc/sys/net/core/netdev_budget").exists() {
        println!("skipped: net.core is that of the initial namespace");
        return;
    }
    let (plan, etc) = (place.directory.path().join("plan.toml"), place.state().join("etc"));
    std::fs::write(&plan, "[[setting]]\nset = \"netdev_budget host = 600\"\n").expect("written");
    let (plan, etc_text) = (plan.to_str().expect("text"), etc.to_str().expect("text"));
    let text = place.rxlab(&["persist", "--plan", plan, "--etc", etc_text]).exits(0);
    for purpose in ["run", "apply", "keep its journal in"] {
        let found = text.lines().any(|line| {
            line.starts_with(&format!("rxlab: root would {purpose} "))
                && line.ends_with(", but users other than root can change /tmp (owner root, mode 1777)")
        });
        assert!(found, "{purpose}: {text}");
    }
    assert!(etc.join("systemd/system/rxlab.service").is_file());
}

#[test]
fn reading_needs_no_privilege() {
    let Some(place) = Place::new() else { return };
    let (code, text) = place.rxlab(&["show"]).said();
    assert!(code == 0 && text.contains("NIC") && text.contains("rx-0"), "{text}");
    let doctor = place.rxlab(&["doctor", "--for", "200ms"]);
    // Other tests may be overloading a CPU at this moment.
    assert!(matches!(doctor.status.code(), Some(0 | 1)) && doctor.stderr.is_empty(), "{doctor:?}");
    for args in [&["status"][..], &["undo"], &["trial", "list"]] {
        place.rxlab(args).exits(0);
    }
}

#[test]
fn denied_changes_are_named_and_not_made() {
    let Some(place) = Place::new() else { return };
    let masks = || std::fs::read_to_string("/sys/class/net/lo/queues/rx-0/rps_cpus").expect("readable");
    let before = masks();
    let setting = ["--setting", "rps lo/rx-0 = 0"];
    // First the value is not writable, then not even the journal.
    place.refused(&[&["apply"], &setting[..]].concat(), "ermission denied");
    assert_eq!(masks(), before);
    assert_eq!(place.rxlab(&["status"]).said(), (0, "nothing is applied\n".into()));
    let set = ["trial", "run", "--set", "rps lo/rx-0 = 0", "--live", "--calibration", "0"];
    place.refused(&set, "ermission denied");
    assert_eq!(place.rxlab(&["status"]).said(), (0, "nothing is applied\n".into()));
    let Some(place) = Place::new() else { return };
    std::os::unix::fs::chown(place.state(), Some(0), None).expect("taken back");
    place.refused(&[&["apply"], &setting[..]].concat(), "Permission denied");
    assert_eq!(masks(), before);
}

#[test]
fn namespaces_and_the_demo_need_root() {
    let Some(place) = Place::new() else { return };
    place.rxlab(&["demo", "--html", "/no/such/directory/report.html"]).says(3, "hint: the demo needs root");
    let own = format!("/proc/{}/ns/net", std::process::id());
    for args in [&["--netns", &own, "show"][..], &["--netns", &own, "doctor", "--for", "150ms"]] {
        let text = place.refused(args, "cannot enter the network namespace");
        assert!(text.contains("hint: another network namespace needs root"), "{text}");
    }
}
