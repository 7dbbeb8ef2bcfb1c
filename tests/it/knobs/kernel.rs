//! On the running kernel. Machine-wide settings are restored even if a test fails.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use rxlab::lab::{Namespace, Range};
use rxlab_base::parse::{NetdevNapi, Scheduling, netdev_napis};
use rxlab_base::units::Fact;
use rxlab_change::apply::Transaction;
use rxlab_change::journal::{Disk, Outcome, Store};
use rxlab_change::knob::find;
use rxlab_path::model::Model;
use rxlab_path::sample::Scope;
use rxlab_setting::Target;
use rxlab_sys::{Action, Cause, Failpoint, Fault, FlakyHost, Host, LiveHost, Query, Rule, enter_netns};

use crate::lab::{host_in, inside, range};
use crate::process::{Ended, Running, one_line, rxlab, wait_for};
use crate::require;
use crate::settings::{setting, settings};
use crate::tree::look;

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

/// The server's end of a range with two queues, which have NAPIs: a veth has one for each queue while GRO is on. `None` if
/// skipped.
fn with_napis() -> Option<(Range, Bench)> {
    let range = range(2).filter(|_| require::ethtool())?;
    inside(&range.server, "ethtool").args(["-K", "srv0", "gro", "on"]).exits(0);
    let bench = Bench::new(host_in(&range.server));
    Some((range, bench))
}

#[test]
fn a_threaded_napi() {
    let Some((_range, bench)) = with_napis() else { return };
    let threads = || bench.napis().iter().filter(|napi| napi.pid.is_some()).count();
    assert_eq!(threads(), 0);
    let mut open = bench.begin();
    open.set("threaded srv0 = on");
    assert_eq!((bench.read("threaded srv0 = on").as_str(), threads()), ("on", 2));
    open.set("napi_priority srv0/rx-1 = fifo:10");
    assert_eq!(bench.read("napi_priority srv0/rx-1 = fifo:10"), "fifo:10");
    assert_eq!(open.undo(), [Outcome::Restored, Outcome::Restored]);
    assert_eq!(bench.read("threaded srv0 = on"), "off");
}

/// Since Linux 6.13, a single NAPI since 6.17 also for its thread.
fn sets_single_napis(bench: &Bench) -> bool {
    let napis = bench.napis();
    let settable = napis.iter().all(|napi| napi.threaded.is_some()) && !napis.is_empty();
    if !settable {
        println!("skipped: Linux sets single NAPIs since 6.17");
    }
    settable
}

#[test]
fn single_napis_of_a_veth() {
    let Some((_range, bench)) = with_napis() else { return };
    if !sets_single_napis(&bench) {
        return;
    }
    let settings = [
        ("queue_threaded srv0/rx-1 = on", "off", "on"),
        ("queue_defer_hard_irqs srv0/rx-1 = 2", "0", "2"),
        ("queue_gro_flush_timeout srv0/rx-1 = 20000", "0", "20000"),
        ("irq_suspend_timeout srv0/rx-1 = 20000000", "0", "20000000"),
    ];
    let both =
        |setting: &str| [setting.replace("rx-1", "rx-0"), setting.to_owned()].map(|text| bench.read(&text));
    let mut open = bench.begin();
    for (setting, before, after) in settings {
        assert_eq!(both(setting), [before, before], "{setting}");
        open.set(setting);
        assert_eq!(both(setting), [before, after], "{setting}");
    }
    assert_eq!(open.undo(), [const { Outcome::Restored }; 4]);
    for (setting, before, _) in settings {
        assert_eq!(both(setting), [before, before], "{setting}");
    }
}

/// A veth removes its NAPIs with GRO, and creates others with the values of the interface.
#[test]
fn settings_of_napis_come_back_with_gro() {
    let Some((_range, bench)) = with_napis() else { return };
    if !sets_single_napis(&bench) {
        return;
    }
    let settings = [
        "queue_threaded srv0/rx-1 = on",
        "queue_defer_hard_irqs srv0/rx-1 = 2",
        "queue_gro_flush_timeout srv0/rx-1 = 20000",
        "irq_suspend_timeout srv0/rx-1 = 20000000",
        "napi_priority srv0/rx-1 = fifo:10",
    ];
    let both = || [settings.map(|one| one.replace("rx-1", "rx-0")), settings.map(str::to_owned)];
    let values = || both().map(|queue| queue[..4].iter().map(|text| bench.read(text)).collect::<Vec<_>>());
    let mut napis = bench.begin();
    for setting in settings {
        napis.set(setting);
    }
    napis.transaction.take().expect("begun").keep().expect("kept");
    let (before, priority) = (values(), bench.read(settings[4]));
    let mut open = bench.begin();
    open.set("gro srv0 = off");
    assert!(bench.napis().is_empty());
    assert_eq!(open.undo(), [Outcome::Restored]);
    assert_eq!((values(), bench.read(settings[4])), (before, priority));
}

/// A list of NAPIs that could not be read once counted as no NAPIs: their settings went with the write.
#[test]
fn settings_of_napis_that_cannot_be_read_keep_gro_on() {
    let Some((_range, bench)) = with_napis() else { return };
    if !sets_single_napis(&bench) {
        return;
    }
    let mut napis = bench.begin();
    napis.set("queue_defer_hard_irqs srv0/rx-1 = 2");
    let mut model = bench.model();
    model.napis = Fact::Broken("too many open files".to_owned());
    model.nics.iter_mut().flat_map(|nic| &mut nic.rx).for_each(|queue| queue.napi = None);
    let open = napis.transaction.as_mut().expect("begun");
    let error =
        open.set(&bench.host, &mut model, &setting("gro srv0 = off")).expect_err("they would be lost");
    assert_eq!(error.to_string(), "the NAPIs of srv0/rx-0 are unknown: too many open files");
    assert_eq!(bench.read("gro srv0 = on"), "on");
    assert_eq!(bench.read("queue_defer_hard_irqs srv0/rx-1 = 2"), "2");
    assert_eq!(napis.undo(), [Outcome::Restored]);
}

/// Every write that ends the threads of NAPIs, or creates others: CPUs and scheduling once were lost, with exit code 0.
#[test]
fn cpus_and_scheduling_of_napi_threads_come_back() {
    let Some((_range, bench)) = with_napis() else { return };
    if !sets_single_napis(&bench) {
        return;
    }
    let threads = [
        ("napi_affinity srv0/rx-0 = 1", "1"),
        ("napi_priority srv0/rx-0 = fifo:7", "fifo:7"),
        ("napi_affinity srv0/rx-1 = 0", "0"),
        ("napi_priority srv0/rx-1 = nice:5", "idle nice:5"),
    ];
    let values =
        |of: &[(&str, &'static str)]| of.iter().map(|(text, _)| bench.read(text)).collect::<Vec<_>>();
    let expected: Vec<&str> = threads.iter().map(|(_, value)| *value).collect();
    bench.host.write("sys/class/net/srv0/threaded", b"1").expect("written");
    let mut others = bench.begin();
    threads.iter().for_each(|(text, _)| others.set(text));
    others.transaction.take().expect("begun").keep().expect("kept");
    // A policy whose nice value takes a second step, which no setting asks for.
    let queue = bench.model().nic(&"srv0".parse().expect("a name")).expect("there").rx[1].clone();
    let pid = queue.napi.and_then(|napi| napi.thread).expect("threaded");
    let scheduling = Scheduling { policy: 5, priority: 0, nice: 5 };
    bench.host.act(&Action::ThreadPolicy { pid, scheduling }).expect("allowed");
    assert_eq!(values(&threads), expected);
    for setting in [
        "threaded srv0 = off",
        "gro srv0 = off",
        "queue_threaded srv0/rx-1 = off",
        "channels srv0 = rx 1 tx 1",
        "napi_priority srv0/rx-1 = fifo:10",
    ] {
        let mut open = bench.begin();
        open.set(setting);
        assert_eq!(open.undo(), [Outcome::Restored], "{setting}");
        assert_eq!(values(&threads), expected, "{setting}");
    }

    // The switch of the interface, over that of a queue.
    bench.host.write("sys/class/net/srv0/threaded", b"0").expect("written");
    let mut single = bench.begin();
    let one = ["queue_threaded srv0/rx-0 = on", threads[0].0, threads[1].0];
    one.iter().for_each(|text| single.set(text));
    single.transaction.take().expect("begun").keep().expect("kept");
    let mut open = bench.begin();
    open.set("threaded srv0 = on");
    assert_eq!(values(&threads[..2]), expected[..2]);
    assert_eq!(open.undo(), [Outcome::Restored]);
    assert_eq!(
        (bench.read(one[0]).as_str(), values(&threads[..2])),
        ("on", vec!["1".into(), "fifo:7".into()])
    );
}

/// Nothing could set SCHED_DEADLINE again: what would discard it is refused, before anything is written.
#[test]
fn a_thread_with_a_deadline_policy_stays() {
    let Some((_range, bench)) = with_napis() else { return };
    bench.host.write("sys/class/net/srv0/threaded", b"1").expect("written");
    let thread = bench.napis()[0].pid.expect("threaded").to_string();
    let deadline =
        ["--sched-runtime", "1000000", "--sched-deadline", "10000000", "--sched-period", "10000000"];
    let changed = Command::new("chrt").arg("-d").args(deadline).args(["-p", "0", &thread]).output();
    let changed = changed.expect("chrt runs");
    assert!(changed.status.success(), "{changed:?}");
    let policy = || {
        let stat = bench.host.read_text(&format!("proc/{thread}/stat")).expect("it runs");
        rxlab_base::parse::scheduling(&stat).expect("whole").policy
    };
    let mut transaction = bench.transaction();
    for text in ["gro srv0 = off", "threaded srv0 = off", "channels srv0 = rx 1 tx 1"] {
        let error =
            transaction.set(&bench.host, &mut bench.model(), &setting(text)).expect_err(text).to_string();
        assert!(error.contains("its thread runs under a policy that rxlab could not restore (6)"), "{error}");
        assert_eq!((policy(), bench.read("gro srv0 = on").as_str()), (6, "on"), "{text}");
    }
    let queue = if bench.model().nic(&"srv0".parse().expect("a name")).expect("there").rx[0]
        .napi
        .as_ref()
        .is_some_and(|napi| napi.thread == bench.napis()[0].pid)
    {
        0
    } else {
        1
    };
    let text = format!("napi_priority srv0/rx-{queue} = nice:1");
    assert!(transaction.set(&bench.host, &mut bench.model(), &setting(&text)).is_err());
    assert_eq!(policy(), 6);
    assert!(transaction.undo(&bench.host, &bench.model()).is_clean());
}

/// The kernel clears `threaded` of the interface if SIGKILL arrives while it creates the threads of NAPIs: 46 of 60 kills did
/// it, and no undo set it again.
#[test]
fn a_kill_inside_the_kernel_loses_no_threads() {
    let Some(range) = range(32).filter(|_| require::ethtool()) else { return };
    inside(&range.server, "ethtool").args(["-K", "srv0", "gro", "on"]).exits(0);
    let bench = Bench::new(host_in(&range.server));
    if !sets_single_napis(&bench) {
        return;
    }
    let netns = range.server.path().to_str().expect("text").to_owned();
    let run = |args: &[&str]| rxlab(bench.state.path(), args).said();
    let is_holding = || {
        let journal = std::fs::read_dir(bench.state.path().join("journal")).expect("listed");
        let text =
            |file: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(file.expect("listed").path());
        journal.filter_map(|file| text(file).ok()).any(|text| text.contains("\"holding\""))
    };
    bench.host.write("sys/class/net/srv0/threaded", b"1").expect("written");
    for round in 0..12 {
        run(&["--netns", &netns, "apply", "-y", "--setting", "gro srv0 = off"]).exits(0);
        let mut undo = rxlab(bench.state.path(), &["undo"]);
        let mut undo = undo.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
        while undo.try_wait().expect("ours").is_none() && !is_holding() {}
        std::thread::sleep(std::time::Duration::from_micros(round * 800));
        undo.kill().and_then(|()| undo.wait()).expect("ours");
        let text = run(&["undo"]).exits(0);
        let values = ["threaded srv0 = on", "gro srv0 = on"].map(|text| bench.read(text));
        assert_eq!(values, ["on", "on"], "round {round}: {text}");
    }
}

/// The killed write takes the threads, and then another program chooses the number of queues: that is drift, but the threads are not.
#[test]
fn threads_come_back_although_another_program_set_the_queues() {
    let Some(range) = range(32).filter(|_| require::ethtool()) else { return };
    inside(&range.server, "ethtool").args(["-K", "srv0", "gro", "on"]).exits(0);
    let bench = Bench::new(host_in(&range.server));
    let netns = range.server.path().to_str().expect("text").to_owned();
    let run = |args: &[&str]| rxlab(bench.state.path(), args).said();
    let set = |count: &str| {
        inside(&range.server, "ethtool").args(["-L", "srv0", "rx", count, "tx", count]).exits(0);
    };
    bench.host.write("sys/class/net/srv0/threaded", b"1").expect("written");
    for round in 0..6 {
        let setting = "channels srv0 = rx 8 tx 8";
        let mut apply = rxlab(bench.state.path(), &["--netns", &netns, "apply", "-y", "--setting", setting]);
        let mut apply = apply.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
        let journal =
            || std::fs::read_dir(bench.state.path().join("journal")).into_iter().flatten().flatten();
        let has_intent = || {
            let mut files = journal().filter_map(|file| std::fs::read_to_string(file.path()).ok());
            // The kill may cut a line that is being written, which then counts for nothing.
            files.any(|text| text.contains("\"intent\"") && text.ends_with('\n'))
        };
        while apply.try_wait().expect("ours").is_none() && !has_intent() {}
        std::thread::sleep(std::time::Duration::from_micros(round * 800));
        apply.kill().and_then(|()| apply.wait()).expect("ours");
        set("5");
        let text = run(&["undo"]).exits(4);
        let values = ["threaded srv0 = on", "channels srv0 = rx 5 tx 5"].map(|text| bench.read(text));
        assert_eq!(values, ["on", "rx 5 tx 5"], "round {round}: {text}");
        set("32");
    }
}

/// The kernel lists no NAPIs of an interface that is down, and some drivers keep their values.
#[test]
fn values_of_napis_wait_until_the_interface_is_up() {
    let Some((range, bench)) = with_napis() else { return };
    if !sets_single_napis(&bench) {
        return;
    }
    let netns = range.server.path().to_str().expect("text").to_owned();
    let run = |args: &[&str]| rxlab(bench.state.path(), args).said();
    for setting in ["queue_defer_hard_irqs srv0/rx-1 = 9", "napi_defer_hard_irqs srv0 = 2"] {
        run(&["--netns", &netns, "apply", "-y", "--setting", setting]).says(0, "(was 0)");
    }
    range.server.ip("link set srv0 down").expect("down");
    let why = "srv0/rx-1 cannot be read while srv0 is down";
    let text = one_line(&run(&["status"]).exits(1));
    assert!(text.contains(why) && !text.contains("gone"), "{text}");
    // Each queue had 0 before, or had 9, which has to wait.
    for _ in 0..2 {
        let text = one_line(&run(&["undo"]).exits(5));
        assert!(text.contains(why), "{text}");
    }
    range.server.ip("link set srv0 up").expect("up");
    run(&["undo"]).exits(0);
    run(&["status"]).says(0, "nothing is applied");
    for queue in ["rx-0", "rx-1"] {
        assert_eq!(bench.read(&format!("queue_defer_hard_irqs srv0/{queue} = 0")), "0");
    }
    // Without such values, undo does not wait.
    run(&["--netns", &netns, "apply", "-y", "--setting", "napi_defer_hard_irqs srv0 = 2"]).exits(0);
    range.server.ip("link set srv0 down").expect("down");
    run(&["undo"]).says(0, "napi_defer_hard_irqs srv0: back to 0");
}

/// The kernel replaces the values of single queues by that of the interface.
#[test]
fn the_value_of_all_queues_replaces_that_of_one() {
    let Some((_range, bench)) = with_napis() else { return };
    if !sets_single_napis(&bench) {
        return;
    }
    for (one, all, again) in [
        (
            "queue_defer_hard_irqs srv0/rx-1 = 7",
            "napi_defer_hard_irqs srv0 = 2",
            "napi_defer_hard_irqs srv0 = 3",
        ),
        (
            "queue_gro_flush_timeout srv0/rx-1 = 7",
            "gro_flush_timeout srv0 = 20000",
            "gro_flush_timeout srv0 = 3",
        ),
    ] {
        let queues = || [one.replace("rx-1", "rx-0"), one.to_owned()].map(|text| bench.read(&text));
        let mut single = bench.begin();
        single.set(one);
        let transaction = single.transaction.take().expect("begun");
        transaction.keep().expect("kept");
        assert_eq!(queues(), ["0", "7"]);
        let mut open = bench.begin();
        for setting in [all, again] {
            open.set(setting);
            let value = bench.read(setting);
            assert_eq!(queues(), [value.clone(), value], "{setting}");
        }
        assert_eq!(open.undo(), [Outcome::Restored]);
        assert_eq!((bench.read(all).as_str(), queues()), ("0", ["0".to_owned(), "7".to_owned()]), "{all}");

        // A trial goes back without ending the transaction.
        let mut open = bench.begin();
        open.set(all);
        let setting = setting(all);
        let transaction = open.transaction.as_mut().expect("begun");
        let kept = transaction.set_back(&bench.host, &mut bench.model(), &setting.knob, &setting.target);
        assert_eq!(kept.expect("set back").replayed.len(), 1);
        assert_eq!(queues(), ["0", "7"], "{all}");
        open.undo();
        assert_eq!(queues(), ["0", "7"], "{all}");
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
    let _settings = require::settings();
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
    let _settings = require::settings();
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

/// A server with three threads in addition to the main one, one of them pinned.
#[test]
fn threads_of_a_real_process() {
    let bench = Bench::here();
    let mut command =
        rxlab(bench.state.path(), &["target", "--http", "127.0.0.1:0", "--threads", "3", "--cpus", "0"]);
    let server = Running::start(&mut command);
    let pid = server.pid().as_raw_nonzero();
    let place = format!("affinity pid:{pid} = all");
    let lists = || bench.read(&place);
    wait_for("its threads", || lists().matches("0@").count() == 1 && lists().contains("all@"));
    let before = lists();
    let mut open = bench.begin();
    open.set(&format!("affinity pid:{pid} = 1"));
    let after = lists();
    assert!(after.starts_with("1@") && !after.contains(';'), "{after}");
    assert_eq!(open.undo(), [Outcome::Restored]);
    assert_eq!(lists(), before);

    let mut open = bench.begin();
    open.set(&format!("affinity pid:{pid} = 1"));
    drop(server);
    assert_eq!(open.undo(), [Outcome::Gone]);
}

/// Three threads and the main one. Each line on the standard input is a request: `pin` pins one of them to CPU 1, `start`
/// starts another one.
const THREADS: &str = "import os, sys, threading, time
pins = []
def wait():
    while True:
        time.sleep(0.02)
        if pins: os.sched_setaffinity(0, {pins.pop()})
def start(): threading.Thread(target=wait, daemon=True).start()
for _ in range(3): start()
print('ready', flush=True)
for line in sys.stdin:
    if line == 'pin\\n': pins.append(1)
    else: start()
";

/// One thread pinned itself after the apply, and one was started. The whole process once counted as changed: undo and guard
/// left every thread where rxlab had moved it, and closed the transaction.
#[test]
fn a_thread_that_pinned_itself_keeps_no_other_from_going_back() {
    let state = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new("python3");
    command.args(["-c", THREADS]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut process = command.spawn().expect("started");
    let (pid, mut input) = (process.id(), process.stdin.take().expect("piped"));
    let lists = || -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
        let list = |task: std::io::Result<std::fs::DirEntry>| {
            let text = std::fs::read_to_string(task.expect("listed").path().join("status")).expect("it runs");
            rxlab_base::parse::allowed_cpus(&text).expect("whole").to_string()
        };
        tasks.map(list).collect()
    };
    let count = |list: &str| lists().iter().filter(|found| *found == list).count();
    wait_for("its threads", || lists().len() == 4);
    let before = lists()[0].clone();
    let run = |args: &[&str]| rxlab(state.path(), args).said();
    let mut meddle = |request: &str, is_done: &dyn Fn() -> bool| {
        writeln!(input, "{request}").expect("it reads");
        wait_for(request, is_done);
    };
    let apply = ["apply", "-y", "--setting", &format!("affinity pid:{pid} = 0")];

    run(&apply).exits(0);
    meddle("pin", &|| count("1") == 1);
    meddle("start", &|| count("0") == 4);
    run(&["status"]).says(1, "DRIFTED in part: thread");
    let dry = run(&["undo", "--dry-run"]);
    assert_eq!(count("0"), 4, "{dry:?}");
    let text = one_line(&run(&["undo"]).exits(4));
    assert!(text.contains("restored in part: threads") && text.contains("= 1"), "{text}");
    assert_eq!((count(&before), count("1")), (4, 1), "{text}");
    run(&["status"]).says(0, "nothing is applied");

    // Once more, for the guard and for --force.
    let guarded = [&apply[..], &["--confirm", "1s"]].concat();
    run(&guarded).exits(0);
    meddle("pin", &|| count("1") == 1);
    wait_for("the guard", || rxlab(state.path(), &["status"]).said().0 == 0);
    // The one that was pinned first had that list before.
    let there = (count(&before), count("1"));
    assert!(there.0 >= 3 && there.0 + there.1 == 5, "{there:?}");
    wait_for("the guard's end", || rxlab(state.path(), &apply).said().0 == 0);
    meddle("pin", &|| count("1") == 1);
    run(&["undo", "--force"]).exits(0);
    assert_eq!((count(&before), count("1")), there);
    process.kill().and_then(|()| process.wait()).expect("it runs");
}

/// A pinned thread, another one, and the main one. A line on the standard input ends the pinned one and starts another with
/// its number, which is printed.
const REUSED: &str = "import os, sys, threading, time
def run(pin, end):
    if pin: os.sched_setaffinity(0, {1})
    end.wait()
def start(pin):
    end = threading.Event()
    thread = threading.Thread(target=run, args=(pin, end), daemon=True)
    thread.start()
    return thread, end
start(False)
pinned, end = start(True)
tid = pinned.native_id
sys.stdin.readline()
end.set()
while os.path.exists(f'/proc/self/task/{tid}'): time.sleep(0.001)
while True:
    time.sleep(0.02)
    with open('/proc/sys/kernel/ns_last_pid', 'w') as file: file.write(str(tid - 1))
    other, end = start(False)
    if other.native_id == tid: break
    end.set()
    other.join()
print(tid, flush=True)
sys.stdin.readline()
";

/// A thread with the number of one that has ended was once given that one's list.
#[test]
fn a_number_that_was_used_again_is_another_thread() {
    require::needs!(root);
    let state = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new("python3");
    command.args(["-c", REUSED]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().expect("started");
    let (pid, mut input) = (process.id(), process.stdin.take().expect("piped"));
    let list = |tid: &str| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).expect("it runs");
        rxlab_base::parse::allowed_cpus(&text).expect("whole").to_string()
    };
    let tasks = || -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
        tasks.map(|task| task.expect("listed").file_name().into_string().expect("a number")).collect()
    };
    wait_for("its threads", || {
        tasks().iter().filter(|tid| list(tid) == "1").count() == 1 && tasks().len() == 3
    });
    let before = list(&pid.to_string());
    rxlab(state.path(), &["apply", "-y", "--setting", &format!("affinity pid:{pid} = 0")]).said().exits(0);
    writeln!(input, "again").expect("it reads");
    let mut tid = String::new();
    let output = process.stdout.as_mut().expect("piped");
    BufReader::new(output).read_line(&mut tid).expect("text");
    assert_eq!(list(tid.trim()), "0", "from the thread that started it");
    rxlab(state.path(), &["undo"]).said().exits(0);
    assert_eq!((list(tid.trim()), list(&pid.to_string())), (before.clone(), before));
    process.kill().and_then(|()| process.wait()).expect("it runs");
}

/// A process with one thread, through the program itself.
#[test]
fn a_process_is_moved_by_the_program() {
    let state = tempfile::tempdir().expect("a temporary directory");
    let sleeper = Running::start(Command::new("sleep").arg("600").stdin(Stdio::null()));
    let setting = format!("affinity pid:{} = 1", sleeper.pid().as_raw_nonzero());
    let run = |args: &[&str]| rxlab(state.path(), args).said();
    run(&["apply", "--setting", &setting]).says(0, "(was all)");
    let allowed = || {
        let text = std::fs::read_to_string(format!("/proc/{}/status", sleeper.pid().as_raw_nonzero()))
            .expect("it runs");
        rxlab_base::parse::allowed_cpus(&text).expect("whole").to_string()
    };
    assert_eq!(allowed(), "1");
    run(&["undo"]).says(0, "back to all");
    assert_ne!(allowed(), "1");
    run(&["apply", "--setting", "affinity pid:2147483647 = 1"]).says(2, "pid:2147483647: no such process");
}
