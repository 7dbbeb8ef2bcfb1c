//! The doctor on the practice range, checked against the kernel's own counters.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::{Command, Output};

use rustix::process::Signal;
use rxlab::lab::{Flood, Range, RangeSpec};
use rxlab_advise::diagnose::{Finding, diagnose};
use rxlab_advise::doctor::{Alert, Alerts, Change};
use rxlab_base::units::CpuId;
use rxlab_load::Session;
use rxlab_load::servers::Target;
use rxlab_sys::{Host, enter_netns, pin_thread};
use serde_json::Value;

use crate::fixtures::recorded;
use crate::lab::{host_in, range};
use crate::process::{Ended, Running, json, one_line, rxlab, wait_for};
use crate::{flood, quiet, require};

/// Packets that each CPU received since boot: runs depend on how many packets each of them finds.
fn packets() -> Vec<u32> {
    let text = std::fs::read_to_string("/proc/net/softnet_stat").expect("readable");
    let first = |line: &str| u32::from_str_radix(line.split_whitespace().next()?, 16).ok();
    text.lines().map(|line| first(line).expect("a number")).collect()
}

/// The kernel reads rx-0's mask for packets whose queue nothing records (get_rps_cpu), which is why the table of drivers names
/// those that do not. A veth records the queue that the sender chose, less one: here none, or again rx-0.
#[test]
fn packets_of_an_unrecorded_queue_take_the_first_mask() {
    let Some(range) = range(2) else { return };
    let _alone = quiet::alone();
    let host = host_in(&range.server);
    const SENT: u32 = 3_000;
    // Datagrams to a port that no socket is bound to.
    let arrived = || -> u32 {
        let text = host.read_text("proc/net/snmp").expect("readable");
        let mut udp = text.lines().filter_map(|line| line.strip_prefix("Udp: ")).map(str::split_whitespace);
        let (names, values) = (udp.next().expect("names"), udp.next().expect("values"));
        let (_, value) = names.zip(values).find(|(name, _)| *name == "NoPorts").expect("counted");
        value.parse().expect("a number")
    };
    let send = || {
        enter_netns(&range.client.path()).expect("entered");
        pin_thread(CpuId(0)).expect("pinned");
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("bound");
        let before = arrived();
        for n in 1..=SENT {
            socket.send_to(&[7; 64], (Range::SERVER, 9)).expect("sent");
            // The other CPU's queue takes 1,000 packets (netdev_max_backlog), and its softirqs may have to wait for their turn.
            if n % 100 == 0 {
                wait_for("the packets", || arrived() - before >= n);
            }
        }
    };
    let handed = |masked: u32| {
        for queue in 0..2 {
            let mask: &[u8] = if queue == masked { b"2" } else { b"0" };
            host.write(&format!("sys/class/net/srv0/queues/rx-{queue}/rps_cpus"), mask).expect("written");
        }
        let before = packets()[1];
        std::thread::scope(|scope| scope.spawn(send).join().expect("no panic"));
        packets()[1].wrapping_sub(before)
    };
    let (first, second) = (handed(0), handed(1));
    assert!(first >= SENT && second < SENT / 2, "{first} with a mask of rx-0, {second} with one of rx-1");
}

/// `rxlab` on the server host.
fn on_server(range: &Range, state: &Path, args: &[&str]) -> Output {
    rxlab(state, args).arg("--netns").arg(range.server.path()).output().expect("rxlab runs")
}

/// Exit code and report of one diagnosis of the server host.
pub(crate) fn look(range: &Range) -> (i32, Value) {
    let state = tempfile::tempdir().expect("a temporary directory");
    let out = on_server(range, state.path(), &["doctor", "--json", "--for", "1s"]);
    (out.status.code().expect("not killed"), json(&out))
}

/// The finding of a rule in a report.
pub(crate) fn finding(report: &Value, id: &str) -> Option<Value> {
    let findings = report["findings"].as_array().expect("a list");
    println!("{} {findings:?}", report["load"]);
    findings.iter().find(|finding| finding["id"] == id).cloned()
}

/// A range on which packets cost far more to receive than to send: otherwise the CPU is full of the sender, and is no
/// receive hotspot.
fn costly() -> Option<Range> {
    let spec = RangeSpec { rules: 256, ..RangeSpec::default() };
    require::netns().then(|| Range::build(&spec).expect("built"))
}

#[test]
fn the_hotspot_matches_the_counters() {
    let _alone = quiet::alone();
    let Some(range) = costly() else { return };
    for (sender, receiver) in [("0", "1"), ("1", "0")] {
        let _target = flood::sink(&range, receiver);
        let _session = flood::sender(&range, sender);
        // Another program of this machine can hide it for a while.
        let found = (0..10).any(|attempt| {
            let before = packets();
            let (code, report) = look(&range);
            let runs: Vec<u32> =
                packets().iter().zip(&before).map(|(after, before)| after.wrapping_sub(*before)).collect();
            let hottest = (0..runs.len()).max_by_key(|cpu| runs[*cpu]).expect("a CPU");
            println!("attempt {attempt}, sender on {sender}: exit {code}, packets {runs:?}");
            let Some(hotspot) = finding(&report, "one-core-hotspot") else { return false };
            assert_eq!(code, 1);
            assert_eq!(hotspot["cpu"], hottest, "{hotspot:#}");
            assert_eq!((hotspot["nic"].as_str(), hottest.to_string().as_str()), (Some("srv0"), sender));
            assert_eq!(report["plans"][0]["name"], "rps", "{report:#}");
            true
        });
        assert!(found, "a flat out sender on CPU {sender} was not seen");
    }
}

/// Two veth pairs into a container's namespace. The first got RPS before the second existed.
#[test]
fn a_container_missed_by_tuning_is_found() {
    let _alone = quiet::alone();
    let Some(range) = range(1) else { return };
    let away = range.client.path();
    range
        .server
        .ip(&format!("link add srv1 type veth peer name cli1 netns {}", away.display()))
        .expect("made");
    for (host, nic, address) in [(&range.server, "srv1", "10.99.0.1"), (&range.client, "cli1", "10.99.0.2")] {
        host.ip(&format!("address add {address}/24 dev {nic}")).expect("set");
        host.ip(&format!("link set {nic} up")).expect("set");
    }
    let (udp_sink, netns) = (Some(([0, 0, 0, 0], 9000).into()), Some(range.server.path()));
    let target = rxlab_load::servers::Spec { udp_sink, netns, ..rxlab_load::servers::Spec::default() };
    let _target = Target::start(&target).expect("started");
    let send = |address: Ipv4Addr| {
        let url = format!("udp-sink://{address}:9000").parse().expect("a URL");
        let mut load = rxlab_load::Spec::new(url);
        (load.rate, load.netns) = (Some("4000".parse().expect("a rate")), Some(range.client.path()));
        Session::start(&load).expect("started")
    };
    let _sessions = [send(Range::SERVER), send(Ipv4Addr::new(10, 99, 0, 1))];

    let state = tempfile::tempdir().expect("a temporary directory");
    let tune = |nic: &str| {
        let apply = ["apply", "--setting", &format!("rps {nic}/rx-0 = 1")];
        on_server(&range, state.path(), &apply).exits(0);
    };
    let missed = || {
        let found = finding(&look(&range).1, "untouched-containers");
        found.map(|finding| finding["nic"].as_str().expect("a name").to_owned())
    };
    assert_eq!(missed(), None, "no queue is tuned");
    tune("srv0");
    assert_eq!(missed().as_deref(), Some("srv1"));
    tune("srv1");
    assert_eq!(missed(), None, "all are");
}

/// It was "nothing to do" above the packets of the whole machine.
#[test]
fn packets_of_another_namespace_are_found_there() {
    let _alone = quiet::alone();
    let Some(range) = range(1) else { return };
    let _flood = Flood::start(&range, CpuId(0), 16).expect("started");
    let state = tempfile::tempdir().expect("a temporary directory");
    let path = range.client.path();
    let doctor = ["--netns", path.to_str().expect("text"), "doctor", "--json", "--for", "500ms"];
    // The namespace of another test may receive more, and be gone when its packets are looked for there.
    wait_for("the namespace that receives, and its packets there", || {
        let report: Value = json(&rxlab(state.path(), &doctor).output().expect("rxlab runs"));
        let elsewhere = &report["elsewhere"];
        let (Some(place), Some(next)) = (elsewhere["place"].as_str(), elsewhere["next"].as_str()) else {
            return false;
        };
        assert!(place.contains(" receives ") && place.ends_with(" packets/s there"), "{place}");
        let words: Vec<&str> = next.split(' ').skip(1).collect();
        let mut there = Command::new(env!("CARGO_BIN_EXE_rxlab"));
        let there = there.args(&words).args(["--json", "--for", "500ms"]).output().expect("rxlab runs");
        let there: Value = serde_json::from_slice(&there.stdout).unwrap_or_default();
        there["load"]["received"].as_f64() > Some(1_000.0) && there["elsewhere"] == Value::Null
    });
}

/// The foreign program is another rxlab, with its own journal.
#[test]
fn values_reset_by_another_program_are_noted() {
    let Some(range) = range(1) else { return };
    let [ours, strange] = [(); 2].map(|()| tempfile::tempdir().expect("a temporary directory"));
    let set = |state: &Path, cpu: &str| {
        on_server(&range, state, &["apply", "--setting", &format!("rps srv0/rx-0 = {cpu}")]).exits(0);
    };
    let noted = |nic: &str| {
        let doctor = ["doctor", "--json", "--for", "200ms", "--nic", nic];
        let report: Value = json(&on_server(&range, ours.path(), &doctor));
        report["notes"].to_string().contains("1 of 1 value set by rxlab is no longer in effect")
    };
    set(ours.path(), "0");
    assert!(!noted("srv0"), "the value is unchanged");
    set(strange.path(), "1");
    assert!(noted("srv0") && !noted("lo"), "it is not");
}

/// From the plan file through the journal to the next sample.
#[test]
fn the_effect_of_a_plan_is_compared_with_the_sample_before() {
    let Some(range) = range(1) else { return };
    let _flood = Flood::start(&range, CpuId(0), 16).expect("started");
    let state = tempfile::tempdir().expect("a temporary directory");
    let plan = state.path().join("rps.toml");
    let run = |args: &[&str]| on_server(&range, state.path(), args);
    let since = || json::<Value>(&run(&["doctor", "--json", "--for", "300ms"]))["since"].clone();
    let path = plan.to_str().expect("text");
    run(&["plan", "rps", "--nic", "srv0", "--for", "500ms", "-o", path]).exits(0);
    assert_eq!(since(), Value::Null, "nothing is applied yet");
    run(&["apply", path]).exits(0);
    let told = since();
    assert_eq!((&told["what"], &told["cpu"]), (&"apply rps".into(), &0.into()), "{told}");
    assert!(told["packets_before"].as_f64() > Some(0.0) && told["packets"].as_f64() > Some(0.0), "{told}");
    run(&["undo"]).exits(0);
    assert_eq!(since(), Value::Null, "it was reverted");
}

#[test]
fn a_quiet_host_gets_no_advice() {
    let _alone = quiet::alone();
    let Some(range) = range(1) else { return };
    // Other programs use the same CPUs: findings about those are not caused by the range.
    let quiet = (0..6).any(|attempt| {
        let (code, report) = look(&range);
        let findings = report["findings"].as_array().expect("a list");
        println!("attempt {attempt}: exit {code}, {findings:?}");
        assert!(findings.iter().all(|finding| finding["nic"] != "srv0"), "{findings:?}");
        assert_eq!(report["plans"], serde_json::json!([]));
        let calls =
            |finding: &serde_json::Value| finding["severity"] != "note" || finding["plans"].is_array();
        assert_eq!(code, i32::from(findings.iter().any(calls)));
        findings.is_empty()
    });
    assert!(quiet, "this machine was never quiet");
}

/// As in a container under lxcfs, whose files lie over those of the kernel: CPU 0 there was taken for the kernel's.
#[test]
fn a_container_s_own_files_give_no_verdict() {
    require::needs!(root);
    let state = tempfile::tempdir().expect("a temporary directory");
    let inside = |args: &[&str]| {
        let script = "mount -t tmpfs tmpfs /mnt; cp /proc/stat /mnt/stat; echo 0 >/mnt/online\n\
                      mount --bind /mnt/stat /proc/stat\n\
                      mount --bind /mnt/online /sys/devices/system/cpu/online\nexec \"$@\"";
        let run = rxlab(state.path(), args);
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-euc", script, "sh"]).arg(run.get_program()).args(run.get_args());
        command
    };
    let report: Value = inside(&["doctor", "--json", "--for", "1s"]).json(0);
    let why = "CPU times are unknown: /proc/stat is of tmpfs, not of the kernel";
    assert!(report["refused"].as_str().is_some_and(|said| said.starts_with(why)), "{report}");
    for absent in ["receive_time", "packets", "headroom"] {
        assert_eq!(report["load"].get(absent), None, "not 0: {}", report["load"]);
    }
    let shown = one_line(&inside(&["show"]).exits(0));
    assert!(shown.contains("CPUs unknown (/sys/devices/system/cpu/online is of tmpfs"), "{shown}");
    let planned = one_line(&inside(&["plan", "spread"]).said().1);
    assert!(planned.contains("the CPUs are unknown"), "{planned}");
}

/// Several machines in turn, as if they were one.
const QUIET_BUSY_QUIET: [&str; 5] = [
    "virtio-8cpu-8queue",
    "virtio-8cpu-1queue",
    "virtio-8cpu-1queue",
    "virtio-8cpu-8queue",
    "virtio-8cpu-8queue",
];

/// Alerts appear at once, and end with the second sample that does not have the finding.
#[test]
fn recorded_machines_raise_and_clear_alerts() {
    let mut alerts = Alerts::default();
    let mut open: Vec<String> = Vec::new();
    for name in QUIET_BUSY_QUIET {
        let (model, rates) = recorded(name);
        let findings = diagnose(&model, &rates);
        let news = alerts.update(&findings, "2026-05-01T10:00:00Z");
        for alert in &news {
            let finding = format!("{} {:?}", alert.finding.id, alert.finding.nic);
            match alert.change {
                Change::Appeared => open.push(finding),
                Change::Cleared => open.retain(|one| *one != finding),
                Change::Worsened | Change::Eased => panic!("the samples are alike: {alert:?}"),
            }
        }
        let now: Vec<String> =
            findings.iter().map(|finding| format!("{} {:?}", finding.id, finding.nic)).collect();
        assert_eq!(
            alerts.needs_attention(),
            findings.iter().any(Finding::needs_attention),
            "{name}: {news:?}"
        );
        assert!(now.iter().all(|finding| open.contains(finding)), "{name}: {open:?} is not {now:?}");
    }
    assert_eq!(open, [""; 0], "two samples had none of them");
    let (model, rates) = recorded("virtio-8cpu-1queue");
    assert!(!diagnose(&model, &rates).is_empty(), "the one in the middle has something to say");
}

#[test]
fn a_watch_prints_new_and_cleared_findings() {
    let _alone = quiet::alone();
    let Some(range) = costly() else { return };
    let state = tempfile::tempdir().expect("a temporary directory");
    let watch = ["doctor", "--watch", "--json", "--for", "500ms", "--nic", "srv0", "--netns"];
    let mut watch = Running::start(rxlab(state.path(), &watch).arg(range.server.path()));
    let lines = watch.lines();
    let said = |change: Change| {
        let mut alerts =
            lines.try_iter().map(|line| serde_json::from_str::<Alert>(&line).expect("one JSON value a line"));
        alerts.any(|alert| alert.change == change && alert.finding.id == "one-core-hotspot")
    };
    let target = flood::sink(&range, "1");
    let session = flood::sender(&range, "0");
    wait_for("the hotspot", || said(Change::Appeared));
    drop((session, target));
    wait_for("its end", || said(Change::Cleared));
    watch.signal(Signal::INT);
    let code = watch.output().status.code().expect("it ended by itself");
    assert!([0, 1].contains(&code), "the code of its last sample: {code}");
}
