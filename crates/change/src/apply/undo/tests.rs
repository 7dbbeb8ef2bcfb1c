//! Devices that are found again or gone, altered or refused values, and which transaction covers which.

use super::{Outcome, Undo};
use crate::apply::testbed::{RPS, begin, flaky, resume, set, setting};
use crate::apply::{ApplyError, BeginInfo, Live, Transaction, UndoOptions, covered_by};
use crate::journal::{Part, Store};
use crate::knob::testbed::{model, with_rules};
use rxlab_base::units::IrqId;
use rxlab_path::model::{Irq, Model};
use rxlab_sys::{Cause, Fault, Host, RecordedHost};

const IRQ: &str = "proc/irq/24/smp_affinity";

fn host() -> RecordedHost {
    RecordedHost::new().with(RPS, "3\n").with(IRQ, "01\n")
}

fn undone(store: &Store, id: &str, host: &dyn Host, model: &Model) -> Undo {
    resume(store, id).undo(host, model)
}

fn outcomes(undo: &Undo) -> Vec<Outcome> {
    undo.outcomes.iter().map(|outcome| outcome.outcome.clone()).collect()
}

/// Between apply and undo the interface was renamed and its interrupt renumbered.
#[test]
fn the_device_is_found_by_its_lasting_address() {
    let (_state, store) = Store::scratch();
    let id = set(&store, &host(), &["rps eth0/rx-0 = 4", "irq_affinity eth0/rx-0 = 5"]);
    let mut now = model();
    now.nics[0].name = "lan0".parse().expect("a name");
    now.nics[0].rx[0].irqs[0].number = IrqId(77);
    let rps = "sys/class/net/lan0/queues/rx-0/rps_cpus";
    let host = RecordedHost::new().with(rps, "10\n").with("proc/irq/77/smp_affinity", "20\n").with(IRQ, "ff");
    let undo = undone(&store, &id, &host, &now);
    assert!(undo.is_clean() && undo.closed, "{undo:?}");
    assert_eq!(host.read_text(rps).as_deref(), Ok("3"));
    assert_eq!(host.read_text("proc/irq/77/smp_affinity").as_deref(), Ok("1"));
    assert_eq!(host.read_text(IRQ).as_deref(), Ok("ff"), "another device has this number now");
    assert_eq!(undo.outcomes[1].target.to_string(), "lan0/rx-0");
}

#[test]
fn hardware_that_is_gone_is_reported_and_a_virtual_interface_is_not() {
    let (_state, store) = Store::scratch();
    let veth = "sys/class/net/veth0/queues/rx-0/rps_cpus";
    let host = host().with(veth, "0\n");
    let id = set(&store, &host, &["rps eth0/rx-0 = 4", "rps veth0/rx-0 = 4"]);
    let mut now = model();
    now.nics.clear();
    let undo = undone(&store, &id, &host, &now);
    assert_eq!(outcomes(&undo), [Outcome::Gone, Outcome::Gone]);
    assert_eq!(undo.outcomes.iter().map(|o| o.trouble).collect::<Vec<_>>(), [false, true]);
    assert!(undo.closed && !undo.is_clean());
}

/// One thread pinned itself after the apply, and another one was started. The whole process once counted as changed.
#[test]
fn threads_that_others_moved_stay_and_the_rest_goes_back() {
    let status = |list: &str| format!("Name:\tweb\nCpus_allowed_list:\t{list}\n");
    let task = |tid: u32| format!("proc/812/task/{tid}/status");
    let stat = format!("812 (web) S 1{} 5137 0", " 0".repeat(17));
    let host = [812, 813, 814].iter().fold(RecordedHost::new().with("proc/812/stat", stat), |host, tid| {
        host.with(&task(*tid), status("0-1"))
    });
    let (_state, store) = Store::scratch();
    let id = set(&store, &host, &["affinity pid:812 = 4"]);
    host.write(&task(813), status("2").as_bytes()).expect("written");
    let host = host.with(&task(815), status("4"));
    let history = store.load(&id).expect("readable").expect("there");
    let live = |host: &dyn Host| {
        crate::apply::status(&history, &[], host, &model()).expect("begun").values.remove(0).live
    };
    let part = |part: &str, value: &str| Part { part: part.into(), value: value.into() };
    let changed = vec![part("thread 813", "2")];
    assert_eq!(live(&host), Live::Drifted { value: "4@812,814-815;2@813".into(), changed: changed.clone() });
    let undo = undone(&store, &id, &host, &model());
    let restored = vec![part("threads 812,814-815", "0-1")];
    assert_eq!(outcomes(&undo), [Outcome::RestoredInPart { restored, left: changed, inherited: Vec::new() }]);
    assert!(undo.closed && !undo.is_clean() && !undo.has_failed());
    let lists = [812, 813, 814, 815].map(|tid| host.read_text(&task(tid)).expect("there"));
    assert_eq!(
        lists.map(|text| text.lines().nth(1).expect("a list")[19..].to_owned()),
        ["0-1", "2", "0-1", "0-1"]
    );
}

/// A server starts its workers again after it was set. Undo said that all is back, and they kept what rxlab had set.
#[test]
fn processes_that_began_with_our_value_are_named() {
    let status = |list: &str| format!("Name:\tweb\nCpus_allowed_list:\t{list}\n");
    let process = |host: RecordedHost, (pid, parent, start, list): (u32, u32, u64, &str)| {
        let stat = format!("{pid} (web) S {parent}{} {start} 0", " 0".repeat(17));
        // Any name is allowed.
        let stat: Vec<u8> = stat.bytes().map(|byte| if byte == b'w' { 0xff } else { byte }).collect();
        host.with(&format!("proc/{pid}/stat"), stat)
            .with(&format!("proc/{pid}/task/{pid}/status"), status(list))
    };
    let later = u64::MAX / 1_000_000_000;
    let main = || process(RecordedHost::new(), (812, 1, 5137, "0-1"));
    let (_state, store) = Store::scratch();
    let host = main();
    let id = set(&store, &host, &["affinity pid:812 = 4"]);
    let host = [
        (820, 812, 5140, "4"),
        (821, 812, later, "4"),
        (822, 821, later, "4"),
        (823, 812, later, "0"),
        (824, 1, later, "4"),
        (825, 812, later, "0-1"),
    ]
    .into_iter()
    .fold(host, process)
    // Listed and not shown (`hidepid=1`).
    .with("proc/1/stat", "")
    .with_failure("proc/1/stat", Cause::Denied);
    let undo = undone(&store, &id, &host, &model());
    let part = |pid: u32| Part { part: format!("process {pid}"), value: "4".into() };
    let expected =
        Outcome::RestoredInPart { restored: vec![], left: vec![], inherited: vec![part(821), part(822)] };
    assert_eq!(outcomes(&undo), [expected]);
    assert!(undo.closed && !undo.is_clean() && !undo.has_failed());
    let list = |pid: u32| host.read_text(&format!("proc/{pid}/task/{pid}/status")).expect("there");
    assert_eq!([812, 821].map(list), [status("0-1"), status("4")]);
    // A process that cannot be read may be one.
    let host = process(main(), (821, 812, later, "4"));
    let id = set(&store, &host, &["affinity pid:812 = 4"]);
    let failing = host.with_failure("proc/821/stat", Cause::Errno(5));
    let undo = undone(&store, &id, &failing, &model());
    assert!(
        matches!(&outcomes(&undo)[..], [Outcome::Failed { why }] if why.starts_with("it is back to 0-1, but the processes that it has started"))
    );
    assert!(!undo.closed);
}

#[test]
fn interrupts_that_others_moved_stay_and_the_rest_goes_back() {
    const IRQS: [&str; 2] = ["proc/irq/25/smp_affinity", "proc/irq/26/smp_affinity"];
    let (_state, store) = Store::scratch();
    let host = host().with(IRQS[0], "01\n").with(IRQS[1], "02\n");
    let id = set(&store, &host, &["irq_affinity eth0/rx-1 = 4"]);
    host.write(IRQS[1], b"20\n").expect("written");
    let forced = super::tests::host().with(IRQS[0], "10\n").with(IRQS[1], "20\n");
    let undo = undone(&store, &id, &host, &model());
    let part = |number: u32, value: &str| Part { part: format!("interrupt {number}"), value: value.into() };
    let (restored, left) = (vec![part(25, "0")], vec![part(26, "5")]);
    assert_eq!(outcomes(&undo), [Outcome::RestoredInPart { restored, left, inherited: Vec::new() }]);
    assert_eq!(IRQS.map(|irq| host.read_text(irq).expect("there").trim().to_owned()), ["1", "20"]);
    let id = set(&store, &forced, &["irq_affinity eth0/rx-1 = 4"]);
    forced.write(IRQS[1], b"02\n").expect("written");
    let undo = resume(&store, &id).undo_with(&forced, &model(), UndoOptions { force: true });
    assert_eq!(outcomes(&undo), [Outcome::Restored]);
    assert_eq!(IRQS.map(|irq| forced.read_text(irq).expect("there").trim().to_owned()), ["10", "20"]);
}

/// CPU 1 was online at apply and is offline at undo.
#[test]
fn a_value_that_the_kernel_alters_stays_open_and_is_tried_again() {
    let (_state, store) = Store::scratch();
    let host = host();
    let id = set(&store, &host, &["rps eth0/rx-0 = 4"]);
    let host = flaky("rps_cpus", Fault::Keep(b"1".to_vec()), host);
    let undo = undone(&store, &id, &host, &model());
    assert_eq!(outcomes(&undo), [Outcome::Altered { kept: "0".into() }]);
    assert!(!undo.closed);
    // Neither the original nor a requested value, and still known as ours.
    let host = RecordedHost::new().with(RPS, "1\n");
    let undo = undone(&store, &id, &host, &model());
    assert_eq!((outcomes(&undo), undo.closed), (vec![Outcome::Restored], true));
}

#[test]
fn what_is_settled_is_not_touched_again() {
    let (_state, store) = Store::scratch();
    let host = host();
    let id = set(&store, &host, &["rps eth0/rx-0 = 4", "irq_affinity eth0/rx-0 = 5"]);
    let host = flaky("smp_affinity", Fault::Refuse(Cause::Errno(16)), host);
    let undo = undone(&store, &id, &host, &model());
    assert!(
        matches!(&outcomes(&undo)[..], [Outcome::Failed { why }, Outcome::Restored] if why.contains("try again"))
    );
    // Another program sets the very value that the transaction had set; it is foreign.
    let host = RecordedHost::new().with(RPS, "10\n").with(IRQ, "20\n");
    let undo = undone(&store, &id, &host, &model());
    assert_eq!((outcomes(&undo), undo.closed), (vec![Outcome::Restored], true));
    assert_eq!(host.read_text(RPS).as_deref(), Ok("10\n"));
}

#[test]
fn dropped_cpus_are_an_error_that_names_them() {
    let (_state, store) = Store::scratch();
    let host = flaky("rps_cpus", Fault::Keep(b"10".to_vec()), host());
    let set = begin(&store, None).set(&host, &mut model(), &setting("rps eth0/rx-0 = 4-5"));
    let error = set.expect_err("CPU 5 is dropped");
    assert!(matches!(error, ApplyError::NotKept { .. }));
    assert_eq!(
        error.to_string(),
        "rps eth0/rx-0 = 4-5: asked for 4-5, the kernel kept 4: it dropped CPU 5 (offline or isolated)"
    );
}

#[test]
fn a_newer_transaction_on_the_same_target_covers_an_older_one() {
    let (_state, store) = Store::scratch();
    let host = host();
    set(&store, &host, &["rps eth0/rx-0 = 4"]);
    let irq = set(&store, &host, &["irq_affinity eth0/rx-0 = 5"]);
    let rps = set(&store, &host, &["rps eth0/rx-0 = 5"]);
    let open = store.open_of("/", "boot-1").expect("listed");
    assert_eq!(covered_by(&open[0].1, &open[1..]), Some(rps.as_str()));
    assert_eq!(covered_by(&open[1].1, &open[2..]), None, "{irq}");
}

/// Every container has an `eth0`: undo in one once had to wait for undo in the other.
#[test]
fn virtual_interfaces_of_two_namespaces_do_not_cover_each_other() {
    let (_state, store) = Store::scratch();
    let host = host().with("sys/class/net/veth0/queues/rx-0/rps_cpus", "0\n");
    let set = |inode: Option<u64>, setting: &str| {
        let netns =
            inode.map(|inode| rxlab_sys::Namespace { path: "/run/netns/x".into(), inode, cookie: None });
        let identity = model().identity;
        let info = BeginInfo { netns, ..BeginInfo::new(&identity) };
        let mut transaction = Transaction::begin(&store, info).expect("begun");
        transaction.set(&host, &mut model(), &self::setting(setting)).expect("set");
        transaction.keep().expect("kept");
    };
    set(Some(1), "rps veth0/rx-0 = 4");
    set(Some(2), "rps veth0/rx-0 = 5");
    set(Some(1), "rps eth0/rx-0 = 4");
    set(None, "rps eth0/rx-0 = 5");
    let open = store.open_of("/", "boot-1").expect("listed");
    assert_eq!(covered_by(&open[0].1, &open[1..]), None);
    assert_eq!(covered_by(&open[2].1, &open[3..]), Some(open[3].0.as_str()), "hardware is one");
}

/// The interface was down at undo, so its own interrupt had no name. The transaction was once
/// closed over it, and the value was never restored.
#[test]
fn an_interrupt_comes_back_with_its_interface() {
    const LINK: &str = "proc/irq/39/smp_affinity";
    let (_state, store) = Store::scratch();
    let up = with_link_irq();
    let host = RecordedHost::new().with(LINK, "01\n").with("sys/class/net/eth0/operstate", "down\n");
    let mut transaction = begin(&store, None);
    transaction.set(&host, &mut up.clone(), &setting("irq_affinity eth0/irq-eth0 = 5")).expect("set");
    let id = transaction.id().to_owned();
    transaction.keep().expect("kept");
    let undo = undone(&store, &id, &host, &model());
    assert!(
        matches!(&outcomes(&undo)[..], [Outcome::Failed { why }] if why.contains("while the interface is up"))
    );
    assert!(!undo.closed && !undo.is_clean());
    let undo = undone(&store, &id, &host, &up);
    assert_eq!((outcomes(&undo), undo.closed), (vec![Outcome::Restored], true));
    assert_eq!(host.read_text(LINK).as_deref(), Ok("1"));
}

/// With an interrupt without a queue, as Intel's drivers have for the link state.
fn with_link_irq() -> Model {
    let mut model = model();
    let irq = Irq { number: IrqId(39), action: "eth0".to_owned(), ..Irq::default() };
    model.nics[0].other_irqs.push(irq);
    model
}

/// Rules added after `ntuple` was switched on once went away with it. The one in slot 7 existed
/// before, on a driver that keeps rules anyway.
#[test]
fn foreign_rules_are_not_thrown_away() {
    let (_state, store) = Store::scratch();
    let id = set(&store, &with_rules(false, &[7]), &["ntuple eth0 = on"]);
    let host = with_rules(true, &[7, 9]);
    let undo = undone(&store, &id, &host, &model());
    let why = "ntuple eth0: undo could not restore a flow rule that eth0 has and would lose: remove first, as with \
               `ntuple_rule eth0/rule-9 = none`";
    let or_lose = format!("{why}, or lose them with `rxlab undo --force {id}`");
    assert_eq!(outcomes(&undo), [Outcome::Failed { why: or_lose }]);
    assert!(!undo.closed && !undo.is_clean());
    let knob = crate::knob::find("ntuple").expect("a knob");
    let target = "eth0".parse().expect("a target");
    assert_eq!(knob.read(knob.site(&host, &model(), &target)).as_deref(), Ok("on"));
    let mut again = resume(&store, &id);
    let error = again.set_back(&host, &mut model(), "ntuple", &target).expect_err("nor by a trial");
    assert_eq!(error.to_string(), why);
    drop(again);
    let host = with_rules(true, &[7]);
    let undo = undone(&store, &id, &host, &model());
    assert_eq!((outcomes(&undo), undo.closed), (vec![Outcome::Restored], true));
    assert_eq!(knob.read(knob.site(&host, &model(), &target)).as_deref(), Ok("off"));
    let id = set(&store, &with_rules(false, &[7]), &["ntuple eth0 = on"]);
    let host = with_rules(true, &[7, 9]);
    let forced = resume(&store, &id).undo_with(&host, &model(), UndoOptions { force: true });
    assert_eq!((outcomes(&forced), forced.closed), (vec![Outcome::Restored], true));
}
