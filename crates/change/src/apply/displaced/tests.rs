//! What is saved before a write, and what was reset, set by others or lost after it.

use super::{Dependents, before_replaced, displaced, replay};
use crate::apply::testbed::{RunningHost, begin};
use crate::journal::{Displaced, Effect, Intent, Store, Touched};
use crate::knob;
use crate::knob::testbed::{model, with_thread};
use rxlab_base::units::Fact;
use rxlab_path::model::Model;
use rxlab_sys::{Cause, RecordedHost};

fn rps(queue: u32, value: &str) -> Displaced {
    let target = format!("eth0/rx-{queue}").parse().expect("a target");
    Displaced { knob: "rps".to_owned(), target, value: value.to_owned() }
}

fn without_irqs() -> Model {
    let mut model = model();
    model.nics[0].rx.iter_mut().for_each(|rx| rx.irqs.clear());
    model.nics[0].other_irqs.clear();
    model
}

/// A known interrupt has an affinity, and queues are there, whatever files show for a moment.
#[test]
fn what_must_be_there_is_not_thrown_away() {
    let channels = knob::find("channels").expect("a knob");
    let target = "eth0".parse().expect("a target");
    let refused = |model: &Model| {
        let host = RecordedHost::new().with("sys/class/net/eth0/queues/rx-0/rps_cpus", "2\n");
        displaced(&host, model, channels, &target).expect_err("unknown").to_string()
    };
    let why = "the interrupts of eth0/rx-0 are unknown: the files of interrupt 24 are missing now; try again";
    assert_eq!(refused(&model()), why);
    let mut none = without_irqs();
    none.nics[0].rx.clear();
    assert_eq!(refused(&none), "the queues of eth0 are unknown: none can be read");
}

/// Without the driver, interrupts of queues had names by which undo did not find them.
#[test]
fn interrupts_of_an_unknown_driver_are_not_thrown_away() {
    let rings = knob::find("ring_rx").expect("a knob");
    let target = "eth0".parse().expect("a target");
    let mut model = model();
    (model.nics[0].ifindex, model.nics[0].driver) = (Some(2), None);
    let of_queues: Vec<_> = model.nics[0].rx.iter_mut().flat_map(|rx| rx.irqs.drain(..)).collect();
    model.nics[0].other_irqs.extend(of_queues);
    let host = RunningHost::new(RecordedHost::new());
    let refused = displaced(&host, &model, rings, &target).expect_err("unknown").to_string();
    assert_eq!(refused, "the interrupts of eth0 are unknown: its driver cannot be read");
}

/// Its NAPIs were then taken for none, and a value for all of them replaced those of single ones.
#[test]
fn napis_of_an_interface_without_an_index_are_not_thrown_away() {
    let host = RunningHost::new(RecordedHost::new());
    for name in ["gro_flush_timeout", "threaded", "channels"] {
        let knob = knob::find(name).expect("a knob");
        let target = "eth0".parse().expect("a target");
        let refused = displaced(&host, &model(), knob, &target).expect_err("unknown").to_string();
        assert_eq!(refused, "the NAPIs of eth0 are unknown: its index cannot be read", "{name}");
    }
}

fn earlier(unsettled: &[&str]) -> Touched {
    Touched {
        unsettled: unsettled.iter().map(|value| (*value).to_owned()).collect(),
        displaced: vec![rps(0, "1"), rps(1, "2")],
        ..Touched::new(&Intent::sample("channels", "eth0", "combined 2", "combined 1"))
    }
}

#[test]
fn what_our_own_write_replaced_has_its_earlier_value() {
    let knob = knob::find("napi_defer_hard_irqs").expect("a knob");
    let of = |queue: u32, value: &str| {
        let target = format!("eth0/rx-{queue}").parse().expect("a target");
        Displaced { knob: "queue_defer_hard_irqs".to_owned(), target, value: value.to_owned() }
    };
    let there = vec![of(0, "2"), of(1, "7"), of(2, "2")];
    let before = before_replaced(knob, "2", &[of(0, "0"), of(1, "5")], there);
    assert_eq!(before, [of(0, "0"), of(1, "7"), of(2, "2")], "another program set that of rx-1 since");
}

/// A busy value was once taken for a missing one, reset by the write, and never set again.
#[test]
fn a_value_that_cannot_be_read_is_not_thrown_away() {
    let channels = knob::find("channels").expect("a knob");
    let target = "eth0".parse().expect("a target");
    let kept = |host: &RecordedHost| displaced(host, &without_irqs(), channels, &target);
    let path = "sys/class/net/eth0/queues/rx-1/rps_cpus";
    let host = RecordedHost::new().with(path, "2\n");
    assert_eq!(kept(&host).expect("read"), [rps(1, "1")], "what this machine does not have is not kept");
    let busy = host.with_failure(path, Cause::Errno(16));
    assert!(kept(&busy).expect_err("busy").to_string().contains("busy"));
}

/// An interrupt list that could not be read once counted as a device without interrupts.
#[test]
fn affinities_that_cannot_be_read_are_not_thrown_away() {
    let channels = knob::find("channels").expect("a knob");
    let mut model = without_irqs();
    let target = "eth0".parse().expect("a target");
    let host = RecordedHost::new();
    assert!(displaced(&host, &model, channels, &target).is_ok(), "the device has none");
    model.interrupts = Fact::Broken("too many open files".to_owned());
    let error = displaced(&host, &model, channels, &target).expect_err("unknown");
    assert_eq!(error.to_string(), "the interrupts of eth0/rx-0 are unknown: too many open files");
}

/// A list of NAPIs that could not be read once counted as queues without NAPIs.
#[test]
fn settings_of_napis_that_cannot_be_read_are_not_thrown_away() {
    let mut model = without_irqs();
    model.nics[0].rx.iter_mut().for_each(|rx| rx.napi = None);
    let target = "eth0".parse().expect("a target");
    let host = RecordedHost::new();
    for name in ["channels", "ring_rx", "gro", "threaded", "gro_flush_timeout"] {
        let knob = knob::find(name).expect("a knob");
        model.napis = Fact::Known(());
        assert!(displaced(&host, &model, knob, &target).is_ok(), "{name}: the device has none");
        model.napis = Fact::Broken("too many open files".to_owned());
        let error = displaced(&host, &model, knob, &target).expect_err(name);
        assert_eq!(error.to_string(), "the NAPIs of eth0/rx-0 are unknown: too many open files");
    }
}

fn carried(earlier: &Touched, there: Vec<Displaced>) -> Vec<Displaced> {
    let (host, model, nic) = (RecordedHost::new(), model(), "eth0".parse().expect("a name"));
    Dependents { host: &host, model: &model, nic: &nic, effect: &Effect::default() }.carried(earlier, there)
}

#[test]
fn queues_that_are_gone_come_back_with_their_values() {
    let carried = carried(&earlier(&[]), vec![rps(0, "4")]);
    assert_eq!(carried, [rps(0, "4"), rps(1, "2")], "what is there may have been set since");
}

fn of_queue(knob: &str, value: &str) -> Displaced {
    let target = "eth0/rx-0".parse().expect("a target");
    Displaced { knob: knob.to_owned(), target, value: value.to_owned() }
}

/// A change was killed before it changed anything, and undo took what others set later for leftovers of a driver.
#[test]
fn what_neither_kernel_nor_driver_can_have_left_is_of_others() {
    let (model, nic) = (model(), "eth0".parse().expect("a name"));
    let effect = |knob: &str| Effect {
        knob: knob.to_owned(),
        values: vec!["0".to_owned(), "5".to_owned()],
        began: Some(1_000_000_000),
    };
    let by_others = |host: &RecordedHost, knob: &str, before: Displaced, live: Displaced| {
        let dependents = Dependents { host, model: &model, nic: &nic, effect: &effect(knob) };
        !dependents.set_by_others(&[before], &[live]).is_empty()
    };
    for (tick, cpus, expected) in [(5, "2", true), (5, "0-6", true), (99, "0-6", false), (99, "2", false)] {
        let live = if cpus == "2" { cpus } else { "all" };
        let (before, live) = (of_queue("napi_affinity", "1"), of_queue("napi_affinity", live));
        let online = RecordedHost::new().with("sys/devices/system/cpu/online", "0-6\n");
        let found = by_others(&with_thread(online, tick, cpus), "channels", before, live);
        assert_eq!(found, expected, "a thread of tick {tick} with CPUs {cpus}");
    }
    for (live, expected) in [("9", true), ("5", false), ("0", false), ("2", false)] {
        let of = |value: &str| of_queue("queue_defer_hard_irqs", value);
        let host = RecordedHost::new();
        assert_eq!(by_others(&host, "napi_defer_hard_irqs", of("2"), of(live)), expected, "{live}");
        assert!(!by_others(&host, "channels", of("2"), of(live)), "a driver may have chosen {live}");
    }
}

/// A write for all queues gives its value to those of an interface that is down, too: the value of one was once lost.
#[test]
fn the_value_of_a_queue_that_is_down_is_not_taken_for_set() {
    let replayed = |knob: &str, original: &str| {
        let (_state, store) = Store::scratch();
        let mut transaction = begin(&store, None);
        let intent = Intent::sample(knob, "eth0", original, "2");
        let armed = transaction.journal.arm(intent).expect("armed");
        let host = RecordedHost::new()
            .with("netlink/netdev/napi-get", Vec::new())
            .with("sys/class/net/eth0/flags", "0x1002\n");
        let (values, nic) = ([of_queue("queue_defer_hard_irqs", "0")], "eth0".parse().expect("a name"));
        replay(&host, &mut model(), (&nic, None), &values, &armed).map_err(|error| error.to_string())
    };
    assert_eq!(replayed("channels", "1"), Ok(vec![]));
    assert!(replayed("napi_defer_hard_irqs", "3").expect_err("it has 3").contains("down"));
    assert_eq!(replayed("napi_defer_hard_irqs", "0"), Ok(vec![]), "it has 0");
}

/// An undo was killed after its write, and what that had reset was taken for what others want.
#[test]
fn what_an_undo_that_was_cut_short_left_is_not_a_choice() {
    let begun = Touched { held: Some(vec![rps(0, "3")]), ..earlier(&[]) };
    let after = |there| carried(&begun, there);
    assert_eq!(after(vec![rps(0, "off"), rps(1, "off")]), [rps(0, "3"), rps(1, "2")]);
    assert_eq!(after(vec![rps(0, "4"), rps(2, "off")]), [rps(0, "4"), rps(2, "off"), rps(1, "2")]);
}

#[test]
fn what_a_write_that_was_cut_short_left_is_not_a_choice() {
    let after = |there| carried(&earlier(&["combined 1"]), there);
    assert_eq!(after(vec![rps(0, "off"), rps(2, "off")]), [rps(0, "1"), rps(2, "off"), rps(1, "2")]);
    assert_eq!(after(vec![rps(0, "3")]), [rps(0, "3"), rps(1, "2")], "no driver sets RPS");
}
