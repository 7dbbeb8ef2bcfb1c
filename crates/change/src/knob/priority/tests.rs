use super::{KSOFTIRQD_PRIORITY, Knob, NAPI_PRIORITY};
use crate::knob::KnobError;
use crate::knob::testbed::{check, list, read, refusal, write};
use rxlab_base::parse::{attribute, one_message};
use rxlab_sys::{Cause, Failpoint, Fault, FlakyHost, Host, RecordedHost, Rule};

fn stat(pid: u32, name: &str, parent: u32, (policy, priority, nice): (u32, u32, i32)) -> String {
    let zeros = "0 ".repeat(17);
    format!(
        "{pid} ({name}) S {parent} 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 {nice} 1 0 4 {zeros}{priority} {policy} 0\n"
    )
}

/// A process that takes the name of the kernel's thread, and the thread.
fn host() -> RecordedHost {
    let napi = |numbers: &[(u16, u32)]| {
        let napi = numbers.iter().flat_map(|(kind, number)| attribute(*kind, number.to_ne_bytes()));
        one_message(&napi.collect::<Vec<u8>>())
    };
    let napis = [napi(&[(1, 4), (2, 8193), (4, 500)]), napi(&[(1, 4), (2, 8194)])].concat();
    RecordedHost::new()
        .with("proc/7/comm", "ksoftirqd/2\n")
        .with("proc/7/stat", stat(7, "ksoftirqd/2", 1, (0, 0, 0)))
        .with("proc/31/comm", "ksoftirqd/2\n")
        .with("proc/31/stat", stat(31, "ksoftirqd/2", 2, (0, 0, 0)))
        .with("proc/500/comm", "napi/eth0-8193\n")
        .with("proc/500/stat", stat(500, "napi/eth0-8193", 2, (3, 0, 4)))
        .with("netlink/netdev/napi-get", napis)
}

#[test]
fn the_kernel_s_own_thread_is_found_and_set() {
    let host = host();
    let cpu = "cpu:2";
    let read = || read(&KSOFTIRQD_PRIORITY, &host, cpu).expect("there");
    assert_eq!(read(), "other");
    for value in ["nice:-5", "fifo:10", "rr:3", "other"] {
        write(&KSOFTIRQD_PRIORITY, &host, "cpu:2", value).expect("set");
        assert_eq!(read(), value);
    }
    assert_eq!(host.read_text("proc/7/stat"), Ok(stat(7, "ksoftirqd/2", 1, (0, 0, 0))), "left alone");
}

#[test]
fn what_others_have_set_can_be_gone_back_to() {
    let host = host();
    let rx = "eth0/rx-0";
    assert_eq!(read(&NAPI_PRIORITY, &host, rx).as_deref(), Ok("batch nice:4"));
    write(&NAPI_PRIORITY, &host, "eth0/rx-0", "fifo:10").expect("set");
    assert_eq!(read(&NAPI_PRIORITY, &host, rx).as_deref(), Ok("fifo:10"));
    write(&NAPI_PRIORITY, &host, "eth0/rx-0", "batch nice:4").expect("set back");
    assert_eq!(host.read_text("proc/500/stat"), Ok(stat(500, "napi/eth0-8193", 2, (3, 0, 4))));
    let deadline = host.with("proc/500/stat", stat(500, "napi/eth0-8193", 2, (6, 0, 0)));
    let error = read(&NAPI_PRIORITY, &deadline, rx).expect_err("no way back");
    assert!(error.to_string().contains("could not restore"), "{error}");
}

/// The value goes with the thread: undo has nothing to do.
#[test]
fn a_queue_without_a_thread_is_told_from_one_that_is_not_there() {
    let says = |at: &str| read(&NAPI_PRIORITY, &host(), at).expect_err(at);
    let none = says("eth0/rx-1");
    assert!(matches!(none, KnobError::NotThere { .. }));
    assert_eq!(none.to_string(), "eth0/rx-1: its NAPI has no thread; `threaded eth0 = on` creates one");
    assert!(says("veth0/rx-0").to_string().contains("it has no NAPI; a veth has them while GRO is on"));
    assert!(matches!(says("eth0/rx-7"), KnobError::UnknownQueue { .. }));
    assert_eq!(check(&NAPI_PRIORITY, &host(), "eth0/rx-1", "rr:1").as_deref(), Ok("rr:1"));
    let elsewhere = host().with("proc/500/comm", "bash\n");
    let error = read(&NAPI_PRIORITY, &elsewhere, "eth0/rx-0").expect_err("another process");
    assert!(error.to_string().contains("process 500, is not visible from here"), "{error}");
    let cpu = read(&KSOFTIRQD_PRIORITY, &host(), "cpu:1").expect_err("not recorded");
    assert!(matches!(cpu, KnobError::NotThere { .. }), "{cpu}");
}

/// A thread that could not be read once counted as one that had ended, with its value.
#[test]
fn a_thread_that_cannot_be_read_is_not_gone() {
    let too_many = Cause::Errno(24);
    for (knob, at, path) in [
        (&NAPI_PRIORITY, "eth0/rx-0", "proc/500/comm"),
        (&NAPI_PRIORITY, "eth0/rx-0", "proc/500/stat"),
        (&KSOFTIRQD_PRIORITY, "cpu:2", "proc/31/comm"),
        (&KSOFTIRQD_PRIORITY, "cpu:2", "proc"),
    ] {
        let error = read(knob, &host().with_failure(path, too_many), at).expect_err(path);
        assert!(!matches!(error, KnobError::NotThere { .. }), "{path}: {error}");
    }
}

#[test]
fn bad_values_and_refusals() {
    let says = |at: &str, value: &str| refusal(&KSOFTIRQD_PRIORITY, &host(), at, value);
    assert!(says("cpu:2", "high").ends_with("expected other, nice:N (-20 to 19), fifo:N or rr:N (1 to 99)"));
    assert_eq!(says("cpu:8", "other"), "ksoftirqd_priority cpu:8: CPU 8 does not exist on this machine");
    assert_eq!(says("host", "other"), "ksoftirqd_priority acts on a CPU (cpu:N), not on host");
    let refused = |cause| {
        let rule = Rule { suffix: "31/stat".into(), fault: Fault::Refuse(cause) };
        let host = FlakyHost::new(host(), vec![rule], Failpoint::new(None, || ()));
        write(&KSOFTIRQD_PRIORITY, &host, "cpu:2", "fifo:10").expect_err("refused")
    };
    assert_eq!(
        refused(Cause::Denied).to_string(),
        "cannot write /proc/31/stat: permission denied (needs CAP_SYS_NICE)"
    );
    assert!(refused(Cause::Errno(22)).to_string().contains("no such policy or priority"));
    assert!(matches!(refused(Cause::Missing), KnobError::NotThere { .. }));
}

#[test]
fn a_change_that_was_cut_short_is_a_mix() {
    let ours = list(&["nice:-5", "fifo:10"]);
    let left = |live: &str| KSOFTIRQD_PRIORITY.left_by(&ours, &[], live);
    assert!(left("fifo:10 nice:-5") && left("nice:-5") && left("fifo:10"));
    assert!(!left("fifo:11") && !left("fifo:10 nice:3") && !left("batch"));
    // A new thread that was to get one of two values, and the policy first.
    let left = |live: &str| NAPI_PRIORITY.left_by(&[], &list(&["idle nice:3"]), live);
    assert!(left("idle") && !left("nice:3") && !left("idle nice:4") && !left("fifo:10"));
    // One that was idle, and was to get another policy and nice value.
    let left =
        |unsettled: &[&str]| NAPI_PRIORITY.left_by(&list(&["idle", "nice:-5"]), &list(unsettled), "other");
    assert!(left(&["nice:-5"]) && !left(&[]));
}

/// A value that was half set, and one that another program had set, were taken for each other.
#[test]
fn what_a_new_thread_has_is_not_ours() {
    for ours in [["fifo:10", "nice:-5"], ["nice:-5", "fifo:10"], ["idle nice:3", "rr:5"]] {
        for knob in [&KSOFTIRQD_PRIORITY, &NAPI_PRIORITY] {
            assert!(!knob.left_by(&list(&ours), &[], "other"), "{ours:?}");
        }
        assert!(!NAPI_PRIORITY.left_by(&[], &list(&ours[..1]), "other"), "{ours:?}");
    }
}
