//! Summaries of timelines made by hand.

use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

use super::event::{Event, Kind};
use super::pairing_tests::events;
use super::{Pairing, Tally, Trace};
use crate::Names;
use rxlab_base::parse::NET_RX;
use rxlab_base::units::CpuId;

fn tallied(began: u64, events: Vec<Event>, ended: u64) -> Trace {
    let mut pairing = Pairing::new(began);
    let mut tally = Tally::new(began);
    for event in events {
        pairing.push(event, &mut |item| tally.add(&item));
    }
    pairing.finish(ended, &[].into(), &mut |item| tally.add(&item));
    tally.finish(ended, &Names::default())
}

/// An interrupt at `at`, and a run of 2 us that takes `work` packets.
fn received(at: u64, work: u32, lost: u32) -> Vec<Event> {
    let poll = Kind::Poll { napi: 5, work, budget: 64, device: "eth0".to_owned() };
    let kinds = [
        (0, Kind::IrqEntry(38)),
        (100, Kind::Raise { vector: NET_RX, in_interrupt: true }),
        (300, Kind::IrqExit(38)),
        (1_000, Kind::SoftirqEntry { vector: NET_RX, pid: 0, task: "swapper/0".to_owned() }),
        (2_900, poll),
        (3_000, Kind::SoftirqExit(NET_RX)),
    ];
    kinds.map(|(after, kind)| Event { at: at + after, cpu: CpuId(0), lost, kind }).to_vec()
}

#[test]
fn two_bursts_of_an_interrupt() {
    let times = [(1_000_000, 64), (1_020_000, 2), (1_500_000, 1)];
    let events = times.into_iter().flat_map(|(at, work)| received(at, work, 0)).collect();
    let trace = tallied(900_000, events, 2_900_000);
    assert!((trace.seconds - 0.002).abs() < 1e-9 && trace.lost == 0 && trace.cut == 0, "{trace:?}");

    let [cpu] = trace.cpus.as_slice() else { panic!("{trace:?}") };
    assert_eq!((cpu.runs.count, cpu.net_rx_ns, cpu.runs.max_ns), (3, 6_000, 2_000));
    assert_eq!((cpu.polls, cpu.packets, cpu.backlog, cpu.full_polls), (3, 67, 0, 1));
    assert_eq!((cpu.bursts.count, cpu.bursts.max_ns), (2, 22_000));
    let burst = &trace.bursts[0];
    assert_eq!((burst.at_ns, burst.ns, burst.runs, burst.packets), (101_000, 22_000, 2, 66));

    let [irq] = trace.irqs.as_slice() else { panic!("{trace:?}") };
    assert_eq!((irq.count, irq.ns, irq.runs, irq.packets), (3, 900, 3, 67));
    assert_eq!((irq.gaps.count, irq.gaps.max_ns), (2, 480_000));
    assert_eq!(irq.per_packet(), Some(3.0 / 67.0));
    let napi = &trace.napis[0];
    assert_eq!((napi.napi, napi.device.as_str(), napi.packets, napi.full), (5, "eth0", 67, 1));
    assert_eq!(
        (trace.longest.len(), trace.longest[0].run.cause.irq, trace.longest[0].run.full),
        (3, Some(38), 1)
    );
}

#[test]
fn nothing_is_measured_across_a_loss() {
    let events = [received(1_000_000, 1, 0), received(1_020_000, 1, 7)].concat();
    let trace = tallied(900_000, events, 2_900_000);
    assert_eq!((trace.lost, trace.cpus[0].lost), (7, 7));
    assert_eq!((trace.irqs[0].count, trace.irqs[0].gaps.count), (2, 0), "the gap may have been shorter");
    assert_eq!(trace.cpus[0].bursts.count, 2, "and the burst longer");
}

#[test]
fn what_is_cut_has_no_length() {
    let mut events = received(1_000_000, 5, 0);
    events.pop();
    let trace = tallied(900_000, events, 2_900_000);
    assert_eq!((trace.cut, trace.cpus[0].runs.count, trace.cpus[0].net_rx_ns), (1, 0, 0));
    assert_eq!((trace.cpus[0].packets, trace.longest.len()), (5, 0), "its packets were seen");
}

#[test]
fn the_longest_come_first() {
    let events = (1..=20).flat_map(|n| {
        let mut events = received(n * 1_000_000, 1, 0);
        events.last_mut().expect("six").at += n * 100;
        events
    });
    let trace = tallied(0, events.collect(), 30_000_000);
    let lengths: Vec<u64> = trace.longest.iter().map(|run| run.ns).collect();
    assert_eq!(lengths, [4_000, 3_900, 3_800, 3_700, 3_600, 3_500, 3_400, 3_300]);
    assert_eq!(trace.longest[0].at_ns, 20_001_000);
}

proptest! {
    #[test]
    fn whatever_comes_adds_up(events in events()) {
        let lost = events.iter().map(|event| event.lost).max().unwrap_or_default();
        let trace = tallied(0, events, 10_000);
        if lost == 0 {
            prop_assert_eq!(trace.lost, 0);
        }
        let polls: u64 = trace.napis.iter().map(|napi| napi.polls).sum();
        let in_runs: u64 = trace.cpus.iter().map(|cpu| cpu.polls).sum();
        prop_assert!(in_runs <= polls, "threads and tasks poll as well");
        for cpu in &trace.cpus {
            prop_assert!(cpu.interrupts_ns <= cpu.net_rx_ns && cpu.runs.p50_ns <= cpu.runs.max_ns);
            prop_assert!(cpu.bursts.count <= cpu.runs.count);
        }
        prop_assert!(trace.longest.is_sorted_by(|one, next| one.ns >= next.ns));
    }
}
