//! Values of single NAPIs, which the kernel lists while the interface is up, and that of the interface, which replaces them.

use std::path::Path;

use rxlab_base::units::Fact;
use rxlab_change::journal::{Disk, Outcome, Store};
use rxlab_sys::Host;

use super::{sets_single_napis, with_napis};
use crate::process::{Ended, one_line, rxlab};
use crate::settings::setting;

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

/// What a new queue has is not waited for, unless the value for all queues, which undo writes while the interface is down, gives the
/// queue another one: undo once ended with exit code 0, and the queue then had that one.
#[test]
fn a_queue_waits_for_the_interface_if_undo_gives_it_the_value_of_all() {
    let Some((range, bench)) = with_napis() else { return };
    if !sets_single_napis(&bench) {
        return;
    }
    let (one, all) = ("queue_defer_hard_irqs srv0/rx-1 = 0", "napi_defer_hard_irqs srv0 = 5");
    bench.host.write("sys/class/net/srv0/napi_defer_hard_irqs", b"2").expect("written");
    let by_hand = tempfile::tempdir().expect("a temporary directory");
    let netns = range.server.path().to_str().expect("text").to_owned();
    let apply = |state: &Path, setting: &str| {
        rxlab(state, &["--netns", &netns, "apply", "-y", "--setting", setting]).says(0, "(was 2)");
    };
    apply(by_hand.path(), one);
    apply(bench.state.path(), all);
    range.server.ip("link set srv0 down").expect("down");
    let undo = || rxlab(bench.state.path(), &["undo"]).said();
    let text = one_line(&undo().exits(5));
    assert!(text.contains("srv0/rx-1 cannot be read while srv0 is down"), "{text}");
    range.server.ip("link set srv0 up").expect("up");
    undo().exits(0);
    assert_eq!([all, one].map(|text| bench.read(text)), ["2", "0"]);
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

/// Both in one change, and another program sets the value of all back: undo once waited for the value of the queue, and
/// `undo --force` set it to what the change itself had given all.
#[test]
fn the_values_of_all_queues_and_of_one_go_back_together() {
    let Some((range, bench)) = with_napis() else { return };
    if !sets_single_napis(&bench) {
        return;
    }
    let netns = range.server.path().to_str().expect("text").to_owned();
    let run = |args: &[&str]| rxlab(bench.state.path(), args).said();
    for (all, one, file) in [
        ("napi_defer_hard_irqs srv0 = 2", "queue_defer_hard_irqs srv0/rx-1 = 3", "napi_defer_hard_irqs"),
        ("gro_flush_timeout srv0 = 5000", "queue_gro_flush_timeout srv0/rx-1 = 7000", "gro_flush_timeout"),
    ] {
        let values = || [all, one].map(|text| bench.read(text));
        run(&["--netns", &netns, "apply", "-y", "--setting", all, "--setting", one]).exits(0);
        bench.host.write(&format!("sys/class/net/srv0/{file}"), b"0").expect("written");
        assert_eq!(values(), ["0", "0"]);
        let text = run(&["undo"]).exits(0);
        assert!(text.contains("already 0") && !text.contains("left alone"), "{text}");
        assert_eq!(values(), ["0", "0"], "{all}, {one}");

        // A trial sets and takes back both several times.
        let trial = ["--netns", &netns, "trial", "run", "--set", all, "--set", one];
        let slots = ["--command", "echo 5", "--measure", "100ms", "--washout", "10ms", "--pairs", "2"];
        run(&[&trial[..], &slots, &["--min-pairs", "2", "--calibration", "0"]].concat()).exits(0);
        assert_eq!(values(), ["0", "0"], "{all}, {one}");
        run(&["status"]).says(0, "nothing is applied");
    }
}

/// Undo of the older one, the value of all, once ended with exit code 0, and that of the newer one then set what the older one had
/// set.
#[test]
fn the_value_of_one_queue_is_undone_before_the_older_one_of_all() {
    let Some((range, bench)) = with_napis() else { return };
    if !sets_single_napis(&bench) {
        return;
    }
    let netns = range.server.path().to_str().expect("text").to_owned();
    let run = |args: &[&str]| rxlab(bench.state.path(), args).said();
    let store = Store::new(Disk::new(bench.state.path()));
    for (all, one) in [
        ("napi_defer_hard_irqs srv0 = 1", "queue_defer_hard_irqs srv0/rx-1 = 2"),
        ("gro_flush_timeout srv0 = 5000", "queue_gro_flush_timeout srv0/rx-1 = 7000"),
        ("threaded srv0 = on", "queue_threaded srv0/rx-1 = off"),
    ] {
        let values = || [all, one].map(|text| bench.read(text));
        let before = values();
        for setting in [all, one] {
            run(&["--netns", &netns, "apply", "-y", "--setting", setting]).exits(0);
        }
        let ids = store.open_ids().expect("listed");
        run(&["undo", &ids[0]]).says(4, "changed the same values after");
        run(&["undo"]).exits(0);
        assert_eq!(values(), before, "{all}, {one}");
    }
}
