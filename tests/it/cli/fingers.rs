//! What fingers type: short forms that are understood, and what is said of those that are not.

use std::process::Command;

use rustix::process::Signal;

use crate::process::{Ended, Running, on_a_terminal, one_line, rxlab, wait_for};
use crate::require;
use crate::tree::Tree;

#[test]
fn what_was_typed_and_what_is_said() {
    let tree = Tree::new();
    for (typed, code, said) in [
        ("show eth0", 0, "eth0"),
        ("show eth7", 2, "no interface `eth7`"),
        ("show eth0 --nic eth0", 2, "cannot be used with"),
        ("doctor eth7", 2, "no interface `eth7`"),
        ("version", 0, "rxlab 0."),
        ("help", 0, "More: rxlab help COMMAND"),
        ("help doctor", 0, "Usage: rxlab doctor"),
        ("help trial run", 0, "Usage: rxlab trial run"),
        ("help --all", 0, "Exit codes:"),
        ("help exit-codes", 0, "130 interrupted"),
        ("help settings", 0, "KNOB TARGET = VALUE"),
        ("help environment", 0, "RXLAB_STATE_DIR"),
        ("plan eth0", 2, "eth0 is an interface: rxlab"),
        ("help docter", 2, "nearest: doctor"),
        ("explain rps", 0, "RPS (receive packet steering)"),
        ("explain ksoftirqd", 0, "one-core-hotspot"),
        ("explain ksoftirqd/2", 0, "one-core-hotspot"),
        ("explain one-core-hotspot", 0, "fires when"),
        ("doctor --duration 3s", 2, "'--for'"),
        ("doctor -d 3s", 2, "'--for'"),
        ("doctor --for 5", 2, "`5` has no unit"),
        ("doctor --for 0s", 2, "'0s' for '--for <TIME>': too short"),
        ("top --every 0s", 2, "'0s' for '--every <TIME>': too short"),
        ("exporter --every 1ms", 2, "'1ms' for '--every <TIME>': too short"),
        ("apply", 2, "<PLAN|--set <SETTING>>"),
        ("apply a.toml --confirm 0s", 2, "must be above 0"),
        ("serve --listen 10.0.0.1", 2, "it has no port"),
        ("target --http :8080", 2, "0.0.0.0:8080 listens on every address"),
        ("trial run --live", 2, "the trial has no change"),
        ("load http://u:p@127.0.0.1/", 2, "Authorization"),
        ("load http://127.0.0.1/#x", 2, "fragment"),
        ("load http://127.0.0.1/ --rate 10m", 2, "such as 1000, 10k"),
        ("load http://127.0.0.1/ --connections 0", 2, "a whole number from 1"),
        ("plan rps eth0", 2, "--nic eth0"),
        ("plan --cpus-per-queue 0", 2, "a whole number from 1"),
    ] {
        let words: Vec<&str> = typed.split(' ').collect();
        let (found, text) = tree.rxlab(&words).said();
        let text = one_line(&text);
        assert!(found == code && text.contains(said), "{typed}: {found}: {text}");
    }
    // The nearest name would have changed what is sent.
    tree.rxlab(&["apply", "--set", "rps_cpus eth0/rx-0 = 1"]).says(2, "its knob is `rps`");
    let both = ["trial", "run", "--live", "--set", "rps eth0/rx-0 = 1", "--a", "true", "--b", "true"];
    tree.rxlab(&both).says(2, "several changes (set, a and b)");
    let share = ["trial", "run", "--live", "--set", "rps eth0/rx-0 = 1", "--margin", "3"];
    tree.rxlab(&share).says(2, "write 3% or 0.03");
}

#[test]
fn a_root_without_its_files_names_the_missing_one() {
    let tree = Tree::new();
    std::fs::remove_file(tree.root().join("proc/stat")).expect("removed");
    tree.rxlab(&["doctor", "--for", "150ms"]).says(2, "no CPU times: /proc/stat is missing");
}

/// TOML is for files and programs; its tail scrolled the settings off the screen.
#[test]
fn a_plan_is_a_table_on_a_terminal_and_toml_in_a_pipe() {
    let tree = Tree::new();
    let plan = ["plan", "--set", "rps eth0/rx-0 = 2-3"];
    assert!(tree.rxlab(&plan).exits(0).starts_with("schema = \"rxlab.plan/1\"\n"));
    let mut terminal = on_a_terminal(&tree.command(&plan));
    let shown = terminal.env("NO_COLOR", "1").exits(0);
    let words = one_line(&shown);
    assert!(words.contains("SETTING RISK UPKEEP WHY rps eth0/rx-0 = 2-3 safe medium"), "{shown}");
    assert!(words.replace("\\ ", "").contains("trial run --set 'rps eth0/rx-0 = 2-3'"), "{shown}");
    assert!(!words.contains("schema ="), "{shown}");
}

/// Doctor, its -v, plan and apply once offered four commands for the same fix.
#[test]
fn each_step_of_a_fix_has_one_next_command() {
    let tree = Tree::new();
    let hot = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/hosts/virtio-8cpu-1queue/host.tar.zst");
    // Long commands continue on the next line.
    let joined = |shown: &str| one_line(shown).replace("\\ ", "");
    let on_terminal = |command: &Command| joined(&on_a_terminal(command).env("NO_COLOR", "1").exits(0));
    for full in [&["doctor", "--snapshot", hot][..], &["doctor", "-v", "--snapshot", hot]] {
        let shown = joined(&rxlab(&tree.state(), full).exits(1));
        assert!(shown.contains(" tune --nic eth0") && !shown.contains("trial run"), "{shown}");
    }
    let mut plan = rxlab(&tree.state(), &["plan", "rps", "--snapshot", hot]);
    let shown = on_terminal(&plan);
    assert!(shown.contains(" tune --nic eth0") && !shown.contains("trial run"), "{shown}");
    let file = tree.path().join("rps.toml");
    plan.arg("-o").arg(&file);
    let shown = on_terminal(&plan);
    assert!(shown.contains(&format!("trial run --plan {} --live --nic eth0", file.display())), "{shown}");
    // Quotes within the words of a terminal's command are not passed on.
    let plan = tree.file("mine.toml", "name = \"mine\"\n[[setting]]\nset = \"rps eth0/rx-0 = 2-3\"\n");
    let shown = on_terminal(&tree.command(&["apply", &plan, "--dry-run"]));
    assert!(shown.contains(&format!(" apply {plan} --confirm 60s")), "{shown}");
}

#[test]
fn what_ctrl_c_cuts_short_ends_with_130_and_its_result() {
    let tree = Tree::new();
    let mut command = rxlab(&tree.state(), &["interference", "--tier", "procfs", "--for", "60s"]);
    let running = Running::start(&mut command);
    let status = format!("/proc/{}/status", running.pid().as_raw_nonzero());
    // A signal is lost while its own handler is being set; that of SIGHUP is set last.
    wait_for("its handler of SIGHUP", || {
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        caught.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 1 != 0))
    });
    running.signal(Signal::INT);
    let (code, text) = running.output().said();
    assert!(code == 130 && text.contains("interrupted: this is the result so far"), "{code}: {text}");
    assert!(text.contains("CPU"), "the result: {text}");
}

/// A network namespace with a name; deleted at the end.
struct Named(String);

impl Named {
    fn new() -> Self {
        let name = format!("rxlab-it-{}", std::process::id());
        Command::new("ip").args(["netns", "add", &name]).exits(0);
        Self(name)
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        // What is left of it after a failure harms no other test.
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// Interfaces of one name exist in several namespaces: a plan for one was set on its namesake, or counted as one for
/// another machine.
#[test]
fn a_plan_remembers_its_namespace() {
    require::needs!(netns);
    let (namespace, directory) = (Named::new(), tempfile::tempdir().expect("a directory"));
    let netns = namespace.0.as_str();
    let file = directory.path().join("rps.toml");
    let file = file.to_str().expect("text");
    let run = |args: &[&str]| rxlab(directory.path(), args).output().expect("rxlab runs");
    run(&["--netns", netns, "plan", "--set", "rps lo/rx-0 = 0", "-o", file]).exits(0);
    let text = std::fs::read_to_string(file).expect("written");
    assert!(text.contains(&format!("netns = \"{netns}\"")), "{text}");
    for command in [&["apply", file, "--dry-run"][..], &["export", file, "--to", "sh"]] {
        let text = run(command).says(4, "the plan is for the network namespace");
        assert!(text.contains(&format!("hint: add --netns {netns}")), "{text}");
        run(&[&["--netns", netns], command].concat()).exits(0);
    }
}
