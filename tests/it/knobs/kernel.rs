//! On the running kernel. Machine-wide settings are restored even if a test fails.

mod napis;
mod processes;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use rxlab::lab::Namespace;
use rxlab_base::parse::{NetdevNapi, netdev_napis};
use rxlab_change::apply::Transaction;
use rxlab_change::journal::{Disk, Outcome, Store};
use rxlab_change::knob::find;
use rxlab_path::model::Model;
use rxlab_path::sample::Scope;
use rxlab_setting::Target;
use rxlab_sys::{Cause, Failpoint, Fault, FlakyHost, Host, LiveHost, Query, Rule, enter_netns};

use crate::lab::{host_in, inside, range};
use crate::process::Ended;
use crate::settings::{setting, settings};
use crate::tree::look;
use crate::{quiet, require};

struct Bench {
    state: tempfile::TempDir,
    host: LiveHost,
}

impl Bench {
    fn new(host: LiveHost) -> Self {
        Self { state: tempfile::tempdir().expect("a temporary directory"), host }
    }

    fn here() -> Self {
        Self::new(LiveHost::open(Path::new("/")).expect("opened"))
    }

    fn model(&self) -> Model {
        look(&self.host, Scope::All)
    }

    fn transaction(&self) -> Transaction {
        let store = Store::new(Disk::new(self.state.path()));
        crate::tree::begin(&store, Path::new("/"), &self.model().identity).expect("begun")
    }

    fn begin(&self) -> Open<'_> {
        Open { bench: self, transaction: Some(self.transaction()) }
    }

    fn napis(&self) -> Vec<NetdevNapi> {
        let napis = self.host.query(&Query::Napis).expect("answered");
        netdev_napis(&napis).expect("understood")
    }

    fn read(&self, text: &str) -> String {
        let setting = setting(text);
        let knob = find(&setting.knob).expect("registered");
        knob.read(knob.site(&self.host, &self.model(), &setting.target)).expect(&setting.knob)
    }
}

/// A transaction that is undone, however its test ends.
struct Open<'a> {
    bench: &'a Bench,
    transaction: Option<Transaction>,
}

impl Open<'_> {
    fn set(&mut self, text: &str) {
        let transaction = self.transaction.as_mut().expect("not undone yet");
        let kept = transaction.set(&self.bench.host, &mut self.bench.model(), &setting(text));
        assert!(kept.expect("set").changed, "{text}");
    }

    fn undo(mut self) -> Vec<Outcome> {
        let transaction = self.transaction.take().expect("not undone yet");
        let undo = transaction.undo(&self.bench.host, &self.bench.model());
        assert!(undo.is_clean() && undo.closed, "{undo:?}");
        undo.outcomes.into_iter().map(|outcome| outcome.outcome).collect()
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(transaction) = self.transaction.take() {
            transaction.undo(&self.bench.host, &self.bench.model());
        }
    }
}

#[test]
fn an_interface_in_another_namespace() {
    let Some(range) = range(2) else { return };
    let bench = Bench::new(host_in(&range.server));
    let settings = [
        ("napi_defer_hard_irqs srv0 = 2", "0"),
        ("gro_flush_timeout srv0 = 20000", "0"),
        ("xps_cpus srv0/tx-0 = 0", "off"),
        ("xps_cpus srv0/tx-1 = 1", "off"),
        ("xps_rxqs srv0/tx-1 = 0-1", "off"),
    ];
    let mut open = bench.begin();
    for (setting, before) in settings {
        assert_eq!(bench.read(setting), before, "{setting}");
        open.set(setting);
    }
    assert_eq!(open.undo(), [const { Outcome::Restored }; 5]);
    for (setting, before) in settings {
        assert_eq!(bench.read(setting), before, "{setting}");
    }
    // A veth has no NAPI until GRO is on.
    let mut transaction = bench.transaction();
    let error = transaction.set(&bench.host, &mut bench.model(), &setting("threaded srv0 = on"));
    let text = error.expect_err("no NAPI").to_string();
    assert!(text.starts_with("srv0 has no threaded: it has no NAPI now"), "{text}");
    assert!(transaction.undo(&bench.host, &bench.model()).is_clean());
}

/// The kernel keeps a request that it cannot fulfil, for when it can: a refused change once was left there.
#[test]
fn an_offload_that_was_refused_is_not_requested_any_more() {
    require::needs!(ethtool);
    let Some(range) = range(1) else { return };
    range.server.ip("link add rxlmv0 link srv0 type macvlan mode bridge").expect("made");
    let bench = Bench::new(host_in(&range.server));
    // A macvlan has the offload of the device below it.
    let now = bench.read("gro rxlmv0 = on");
    let other = if now == "on" { "off" } else { "on" };
    let shown = || {
        let out = inside(&range.server, "ethtool").args(["-k", "rxlmv0"]).output().expect("ethtool runs");
        let all = String::from_utf8(out.stdout).expect("text");
        all.lines().find(|line| line.starts_with("generic-receive-offload:")).expect("shown").to_owned()
    };
    let before = shown();
    let mut transaction = bench.transaction();
    let refused =
        transaction.set(&bench.host, &mut bench.model(), &setting(&format!("gro rxlmv0 = {other}")));
    let refused = refused.expect_err("not possible").to_string();
    assert!(refused.contains(&format!("it stays {now}")), "{refused}");
    assert_eq!(shown(), before);
}

#[test]
fn an_interface_with_one_transmit_queue() {
    let Some(range) = range(1) else { return };
    let host = host_in(&range.server);
    let (model, tx) = (look(&host, Scope::All), "srv0/tx-0".parse().expect("a target"));
    for name in ["xps_cpus", "xps_rxqs"] {
        let knob = find(name).expect("registered");
        assert!(knob.targets(&model).is_empty(), "{name}");
        let text = knob.check(knob.site(&host, &model, &tx), "0").expect_err("one queue").to_string();
        assert!(text.contains("has one transmit queue"), "{text}");
    }
}

#[test]
fn lengths_of_merged_packets() {
    let Some(range) = range(1) else { return };
    let bench = Bench::new(host_in(&range.server));
    let read = || ["gro_max_size srv0 = 1", "gro_ipv4_max_size srv0 = 1"].map(|text| bench.read(text));
    assert_eq!(read(), ["65536", "65536"]);
    let mut open = bench.begin();
    // The kernel sets both up to 65536.
    open.set("gro_max_size srv0 = 60000");
    assert_eq!(read(), ["60000", "65536"]);
    open.set("gro_max_size srv0 = 185000");
    open.set("gro_ipv4_max_size srv0 = 180000");
    assert_eq!(read(), ["185000", "180000"]);
    assert_eq!(open.undo(), [Outcome::Restored, Outcome::Restored]);
    assert_eq!(read(), ["65536", "65536"]);
}

#[test]
fn sysctls_are_restored_after_a_failure() {
    require::needs!(root);
    let _settings = quiet::settings();
    let bench = Bench::here();
    let settings = [
        "netdev_budget host = 301",
        "netdev_budget_usecs host = 20000",
        "netdev_max_backlog host = 1001",
        "dev_weight host = 65",
        "gro_normal_batch host = 9",
        "skb_defer_max host = 65",
        "flow_limit_cpus host = 0",
        "rps_default_mask host = 0",
        "default_smp_affinity host = 0",
        "busy_poll host = 1",
        "busy_read host = 1",
        "rmem_default host = 212993",
        "rmem_max host = 212994",
        "somaxconn host = 4097",
        "tcp_max_syn_backlog host = 4097",
        "nf_conntrack_max host = 262145",
    ];
    // In a container with another network namespace the kernel does not show them.
    if bench.model().settings.netdev_budget.known().is_none() {
        println!("skipped: net.core is that of the initial namespace");
        return;
    }
    let before = settings.map(|setting| bench.read(setting));
    let mut open = bench.begin();
    for setting in settings {
        open.set(setting);
    }
    assert!(open.undo().iter().all(|outcome| *outcome == Outcome::Restored));
    assert_eq!(settings.map(|setting| bench.read(setting)), before);

    let rule = Rule { suffix: "busy_read".into(), fault: Fault::Refuse(Cause::Errno(5)) };
    let host = FlakyHost::new(
        LiveHost::open(Path::new("/")).expect("opened"),
        vec![rule],
        Failpoint::new(None, || ()),
    );
    let model = bench.model();
    let failure = bench
        .transaction()
        .apply(&host, &model, &self::settings(&settings), &AtomicBool::new(false))
        .expect_err("refused");
    assert!(failure.undo.is_clean(), "{:?}", failure.undo);
    assert_eq!(settings.map(|setting| bench.read(setting)), before);
}

/// As in a container: `proc/sys/net` is that of the reading process, so from outside a namespace it shows ours.
#[test]
fn another_namespace_has_no_machine_wide_sysctls() {
    require::needs!(netns);
    let namespace = Namespace::new().expect("made");
    let inside = || {
        enter_netns(&namespace.path()).expect("entered");
        let host = LiveHost::open(Path::new("/")).expect("opened");
        let (model, knob) = (look(&host, Scope::All), find("netdev_budget").expect("registered"));
        assert!(knob.targets(&model).is_empty());
        knob.read(knob.site(&host, &model, &Target::Host)).expect_err("not there").to_string()
    };
    let text = std::thread::scope(|scope| scope.spawn(inside).join().expect("no panic"));
    assert!(text.starts_with("host has no netdev_budget: "), "{text}");
    let _settings = quiet::settings();
    let seen = look(&host_in(&namespace), Scope::All);
    assert_eq!(seen.settings.netdev_budget, Bench::here().model().settings.netdev_budget);
}

/// It was once that of the calling process, also with `--netns`, and after the namespace had ended.
#[test]
fn the_default_mask_is_that_of_the_namespace() {
    require::needs!(netns);
    let (home, other) = (Namespace::new().expect("made"), Namespace::new().expect("made"));
    let mask = |namespace: &Namespace| {
        inside(namespace, "cat").arg("/proc/sys/net/core/rps_default_mask").said().1.trim().to_owned()
    };
    if mask(&other) != "0" {
        println!("skipped: Linux has rps_default_mask since 6.3");
        return;
    }
    let state = tempfile::tempdir().expect("a temporary directory");
    let netns = other.path().to_str().expect("text").to_owned();
    let run = |args: &[&str]| {
        let mut command = inside(&home, env!("CARGO_BIN_EXE_rxlab"));
        command.arg("--state-dir").arg(state.path()).arg("--run-dir").arg(state.path().join("run"));
        command.args(args).said()
    };
    let set = ["apply", "-y", "--setting", "rps_default_mask host = 0"];
    let there = [&["--netns", &netns][..], &set].concat();
    run(&there).says(0, "(was off)");
    assert_eq!((mask(&home).as_str(), mask(&other).as_str()), ("0", "1"));
    let back = ["apply", "--dry-run", "--setting", "rps_default_mask host = off"];
    run(&[&["--netns", &netns][..], &back].concat()).says(0, "(now 0)");
    run(&["status"]).says(0, "rps_default_mask host = 0  (was off)  kept");
    run(&set).says(0, "(was off)");
    assert_eq!(mask(&home), "1");
    run(&["undo", "--last"]).says(0, "rps_default_mask host: back to off");
    assert_eq!((mask(&home).as_str(), mask(&other).as_str()), ("0", "1"));
    run(&["undo"]).says(0, "rps_default_mask host: back to off");
    assert_eq!(mask(&other), "0");

    run(&there).says(0, "(was off)");
    run(&set).says(0, "(was off)");
    drop(other);
    let _visible = quiet::all_visible();
    let (undone, text) = run(&["undo"]);
    assert_eq!(undone, 0, "{text}");
    assert!(text.contains("gone, and its value with it") && text.contains("back to off"), "{text}");
    assert_eq!(mask(&home), "0");
}

#[test]
fn the_softirq_thread() {
    require::needs!(root);
    let bench = Bench::here();
    let before = bench.read("ksoftirqd_priority cpu:0 = other");
    let mut open = bench.begin();
    for value in ["nice:-1", "fifo:1", "nice:1"] {
        let setting = format!("ksoftirqd_priority cpu:0 = {value}");
        open.set(&setting);
        assert_eq!(bench.read(&setting), value);
    }
    assert_eq!(open.undo(), [Outcome::Restored]);
    assert_eq!(bench.read("ksoftirqd_priority cpu:0 = other"), before);
}
