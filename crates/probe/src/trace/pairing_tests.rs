//! Events made by hand, and random events.

use std::collections::BTreeMap;

use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::event::{Event, Kind};
use super::item::{Item, Slice, Work};
use super::pairing::Pairing;
use crate::Class;
use rxlab_base::parse::{NET_RX, NET_TX};
use rxlab_base::units::CpuId;

const CPU: CpuId = CpuId(0);
const END: u64 = 10_000;

fn event(at: u64, kind: Kind) -> Event {
    Event { at, cpu: CPU, lost: 0, kind }
}

fn entry(vector: u32) -> Kind {
    Kind::SoftirqEntry { vector, pid: 7, task: "make".to_owned() }
}

fn raise(vector: u32) -> Kind {
    Kind::Raise { vector, in_interrupt: false }
}

fn poll(work: u32, device: &str) -> Kind {
    Kind::Poll { napi: 5, work, budget: 64, device: device.to_owned() }
}

fn items(events: impl IntoIterator<Item = Event>) -> Vec<Item> {
    let mut items = Vec::new();
    let mut pairing = Pairing::new(0);
    for event in events {
        pairing.push(event, &mut |item| items.push(item));
    }
    pairing.finish(END, &BTreeMap::new(), &mut |item| items.push(item));
    items
}

fn slices(items: &[Item]) -> Vec<&Slice> {
    items.iter().filter_map(|item| if let Item::Ended(slice) = item { Some(slice) } else { None }).collect()
}

#[test]
fn an_interrupt_raises_a_run_and_another_comes_inside() {
    let items = items([
        event(100, Kind::IrqEntry(38)),
        event(110, raise(NET_RX)),
        event(120, Kind::IrqExit(38)),
        event(130, entry(NET_RX)),
        event(200, poll(64, "eth0")),
        event(210, Kind::IrqEntry(39)),
        event(230, Kind::IrqExit(39)),
        event(300, poll(3, "")),
        event(310, Kind::SoftirqExit(NET_RX)),
    ]);
    let slices = slices(&items);
    let [first, inside, run] = slices.as_slice() else { panic!("{slices:?}") };
    assert_eq!((first.began, first.ended, &first.work, first.whole), (100, 120, &Work::Irq(38), true));
    assert_eq!((inside.length(), run.length(), run.whole), (20, 180, true));
    let run = run.run.as_ref().expect("of a softirq");
    assert_eq!((run.cause.class, run.cause.irq), (Class::NicIrq, Some(38)));
    assert_eq!((run.polls, run.packets, run.backlog, run.full), (2, 64, 3, 1));
    assert_eq!((run.interrupts_ns, run.pid, run.task.as_str()), (20, 7, "make"));
    let polls: Vec<(Option<u64>, u64)> = items
        .iter()
        .filter_map(|item| if let Item::Polled(poll) = item { Some((poll.began, poll.ended)) } else { None })
        .collect();
    assert_eq!(polls, [(Some(130), 200), (Some(200), 300)]);
}

/// The class of a run after these raises.
fn class_after(before: &[Kind]) -> Class {
    let kinds = before.iter().cloned().chain([entry(NET_RX), Kind::SoftirqExit(NET_RX)]);
    let items = items((1..).zip(kinds).map(|(at, kind)| event(at * 10, kind)));
    let slices = slices(&items);
    slices.last().and_then(|slice| slice.run.as_ref()).expect("a run").cause.class
}

#[test]
fn where_the_first_raise_was_is_why_it_runs() {
    use Kind::{IpiEntry, IpiExit, SoftirqExit, TimerEntry, TimerExit};
    let rx = || raise(NET_RX);
    assert_eq!(class_after(&[]), Class::Unknown);
    assert_eq!(class_after(&[rx()]), Class::SelfInflicted);
    assert_eq!(class_after(&[IpiEntry, rx(), IpiExit]), Class::RpsIpi);
    assert_eq!(class_after(&[TimerEntry, rx(), TimerExit]), Class::OtherIrq);
    assert_eq!(class_after(&[Kind::Raise { vector: NET_RX, in_interrupt: true }]), Class::OtherIrq);
    assert_eq!(class_after(&[entry(NET_TX), rx(), SoftirqExit(NET_TX)]), Class::OtherSoftirq);
    assert_eq!(class_after(&[IpiEntry, rx(), IpiExit, rx()]), Class::RpsIpi, "the first decides");
    assert_eq!(class_after(&[raise(NET_TX)]), Class::Unknown, "that was another softirq");
    // A run that stopped on its budget continues with the same cause.
    let first = [IpiEntry, rx(), IpiExit, entry(NET_RX), rx(), SoftirqExit(NET_RX)];
    assert_eq!(class_after(&first), Class::RpsIpi);
    // A raise is used up by its run.
    assert_eq!(class_after(&[IpiEntry, rx(), IpiExit, entry(NET_RX), SoftirqExit(NET_RX)]), Class::Unknown);
}

#[test]
fn nothing_seen_before_a_loss_is_joined_to_what_comes_after() {
    let after = |at, kind| Event { lost: 3, ..event(at, kind) };
    let items = items([
        event(100, raise(NET_RX)),
        event(150, entry(NET_RX)),
        event(160, poll(1, "eth0")),
        after(900, Kind::SoftirqExit(NET_RX)),
        after(950, entry(NET_RX)),
        after(960, Kind::SoftirqExit(NET_RX)),
    ]);
    let slices = slices(&items);
    let [cut, whole] = slices.as_slice() else { panic!("{slices:?}") };
    assert_eq!((cut.began, cut.ended, cut.whole), (150, 160, false), "not until 900");
    assert_eq!((whole.length(), whole.whole), (10, true));
    assert_eq!(whole.run.as_ref().expect("a run").cause.class, Class::Unknown);
    assert!(items.contains(&Item::Lost { cpu: CPU, from: 160, at: 900, count: 3 }), "{items:?}");
    assert!(items.contains(&Item::Stray { cpu: CPU, at: 900 }), "{items:?}");
}

#[test]
fn what_is_lost_last_is_counted_at_the_end() {
    let mut items = Vec::new();
    let mut pairing = Pairing::new(5);
    pairing.push(Event { lost: 2, ..event(50, Kind::IpiEntry) }, &mut |item| items.push(item));
    let lost = [(CPU, 6), (CpuId(1), 1), (CpuId(2), 0)].into();
    pairing.finish(100, &lost, &mut |item| items.push(item));
    let found = |cpu, from, at, count| items.contains(&Item::Lost { cpu: CpuId(cpu), from, at, count });
    assert!(found(0, 5, 50, 2) && found(0, 50, 100, 4) && found(1, 5, 100, 1), "{items:?}");
    assert_eq!(items.iter().filter(|item| matches!(item, Item::Lost { .. })).count(), 3);
}

#[test]
fn a_thread_waits_from_its_wakeup_to_its_cpu() {
    let on = |pid| Kind::ThreadOn { pid, name: format!("ksoftirqd/{pid}") };
    let waking = |pid| Kind::Waking { pid, name: format!("ksoftirqd/{pid}") };
    let items = items([
        Event { cpu: CpuId(1), ..event(100, waking(9)) },
        event(150, on(9)),
        event(160, waking(9)),
        event(170, entry(NET_RX)),
        event(180, Kind::SoftirqExit(NET_RX)),
        event(190, Kind::ThreadOff(9)),
        event(191, on(8)),
    ]);
    let waits: Vec<&Item> = items.iter().filter(|item| matches!(item, Item::Waited { .. })).collect();
    let name = "ksoftirqd/9".to_owned();
    assert_eq!(waits, [&Item::Waited { cpu: CPU, woken: 100, at: 150, pid: 9, name }], "8 was not woken");
    let woken = items.iter().filter(|item| matches!(item, Item::Woken { .. })).count();
    assert_eq!(woken, 1, "one that runs is not woken");
    let slices = slices(&items);
    assert_eq!(slices.iter().map(|slice| slice.whole).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!((slices[1].began, slices[1].ended, slices[2].ended), (150, 190, END));
}

#[test]
fn a_thread_polls_and_a_task_polls_for_itself() {
    for name in ["napi/eth0-5", "backlog_napi/0"] {
        polls_of_a_task_and_then_of_a_thread(name);
    }
}

fn polls_of_a_task_and_then_of_a_thread(name: &str) {
    let napi = Kind::ThreadOn { pid: 3, name: name.to_owned() };
    let items = items([
        event(10, poll(1, "eth0")),
        event(20, napi),
        event(50, poll(2, "eth0")),
        event(60, entry(NET_TX)),
        event(70, Kind::SoftirqExit(NET_TX)),
        event(90, poll(3, "eth0")),
    ]);
    let began: Vec<Option<u64>> = items
        .iter()
        .filter_map(|item| if let Item::Polled(poll) = item { Some(poll.began) } else { None })
        .collect();
    assert_eq!(began, [None, Some(20), Some(70)], "not over the softirq between the two");
}

fn kinds() -> impl Strategy<Value = Kind> {
    let irq = 0u32..3;
    let vector = 1u32..5;
    let pid = 1u32..4;
    let name = prop_oneof![Just("ksoftirqd/0".to_owned()), Just("napi/eth0-5".to_owned())];
    prop_oneof![
        irq.clone().prop_map(Kind::IrqEntry),
        irq.prop_map(Kind::IrqExit),
        Just(Kind::IpiEntry),
        Just(Kind::IpiExit),
        Just(Kind::TimerEntry),
        Just(Kind::TimerExit),
        (vector.clone(), any::<bool>())
            .prop_map(|(vector, in_interrupt)| Kind::Raise { vector, in_interrupt }),
        vector.clone().prop_map(entry),
        vector.prop_map(Kind::SoftirqExit),
        (0u32..70).prop_map(|work| poll(work, "eth0")),
        (pid.clone(), name.clone()).prop_map(|(pid, name)| Kind::ThreadOn { pid, name }),
        pid.clone().prop_map(Kind::ThreadOff),
        (pid, name).prop_map(|(pid, name)| Kind::Waking { pid, name }),
    ]
}

/// Events of two CPUs in any order, with any losses; times may run backwards.
pub(super) fn events() -> impl Strategy<Value = Vec<Event>> {
    let lost = prop_oneof![8 => Just(0u32), 1 => 0u32..4, 1 => any::<u32>()];
    let at = prop_oneof![9 => 0u64..5_000, 1 => any::<u64>()];
    let event = (at, 0u32..2, lost, kinds()).prop_map(|(at, cpu, lost, kind)| Event {
        at,
        cpu: CpuId(cpu),
        lost,
        kind,
    });
    prop::collection::vec(event, 0..50)
}

proptest! {
    #[test]
    fn pieces_of_one_cpu_lie_one_in_the_other(events in events()) {
        let mut open: BTreeMap<CpuId, Vec<(u64, Work)>> = BTreeMap::new();
        let mut now: BTreeMap<CpuId, u64> = BTreeMap::new();
        for item in items(events) {
            let (cpu, at) = match &item {
                Item::Began { cpu, at, .. } | Item::Raised { cpu, at, .. } | Item::Woken { cpu, at, .. }
                | Item::Waited { cpu, at, .. } | Item::Stray { cpu, at } | Item::Lost { cpu, at, .. } => (*cpu, *at),
                Item::Ended(slice) => (slice.cpu, slice.ended),
                Item::Polled(poll) => (poll.cpu, poll.ended),
            };
            let before = now.insert(cpu, at).unwrap_or_default();
            prop_assert!(at >= before, "{item:?} at {at} after {before}");
            let stack = open.entry(cpu).or_default();
            match item {
                Item::Began { at, work, .. } => {
                    if let Some((_, around)) = stack.last() {
                        prop_assert!(around.level() < work.level(), "{work:?} in {around:?}");
                    }
                    stack.push((at, work));
                }
                Item::Ended(slice) => {
                    let (began, work) = stack.pop().expect("it has begun");
                    prop_assert_eq!((began, &work), (slice.began, &slice.work));
                    prop_assert!(slice.began <= slice.ended);
                    let inside = slice.run.as_ref().map_or(0, |run| run.interrupts_ns);
                    prop_assert!(inside <= slice.length());
                }
                Item::Polled(poll) => {
                    let around = stack.last().map(|(began, _)| *began);
                    if let Some(began) = poll.began {
                        prop_assert!(Some(began) >= around && began <= poll.ended);
                    }
                }
                Item::Waited { woken, at, .. } => prop_assert!(woken <= at),
                _ => {}
            }
        }
        prop_assert!(open.values().all(Vec::is_empty), "all have ended: {open:?}");
    }

    #[test]
    fn every_loss_is_counted_once(counts in prop::collection::vec(0u32..5, 0..30), rest in 0u32..5) {
        let mut total = 0;
        let events: Vec<Event> = (1..)
            .zip(&counts)
            .map(|(at, count)| {
                total += count;
                Event { lost: total, ..event(at * 10, Kind::IpiEntry) }
            })
            .collect();
        let mut sum = 0;
        let mut count = |item| if let Item::Lost { count, .. } = item { sum += count };
        let mut pairing = Pairing::new(0);
        for event in events {
            pairing.push(event, &mut count);
        }
        pairing.finish(END, &[(CPU, total + rest)].into(), &mut count);
        prop_assert_eq!(sum, total + rest);
    }
}
