//! Files from hand-made events.

use serde_json::Value;

use super::Timeline;
use rxlab_base::parse::NET_RX;
use rxlab_base::units::CpuId;
use rxlab_path::model::Identity;
use rxlab_probe::Names;
use rxlab_probe::trace::{Event, Kind, Pairing};

fn file(events: Vec<Event>) -> String {
    let names = Names::default();
    let machine =
        Identity { hostname: "web1".to_owned(), kernel: "6.18.1".to_owned(), boot_id: String::new() };
    let mut timeline = Timeline::new(&names, &machine, 1_000_000);
    let mut file = timeline.open().to_owned();
    let mut pairing = Pairing::new(1_000_000);
    for event in events {
        pairing.push(event, &mut |item| file += timeline.item(&item));
    }
    pairing.finish(1_900_000, &[(CpuId(1), 4)].into(), &mut |item| file += timeline.item(&item));
    file + timeline.close()
}

fn events() -> Vec<Event> {
    let name = || "ksoftirqd/1".to_owned();
    let kinds = [
        Kind::Waking { pid: 22, name: name() },
        Kind::ThreadOn { pid: 22, name: name() },
        Kind::IrqEntry(38),
        Kind::Raise { vector: NET_RX, in_interrupt: true },
        Kind::IrqExit(38),
        Kind::SoftirqEntry { vector: NET_RX, pid: 22, task: name() },
        Kind::IpiEntry,
        Kind::IpiExit,
        Kind::Poll { napi: 513, work: 64, budget: 64, device: "eth\"0".to_owned() },
        Kind::SoftirqExit(NET_RX),
        Kind::ThreadOff(22),
        Kind::Poll { napi: 0, work: 1, budget: 8, device: String::new() },
    ];
    (1..)
        .zip(kinds)
        .map(|(n, kind)| Event { at: 1_000_000 + n * 1_234, cpu: CpuId(1), lost: 0, kind })
        .collect()
}

#[test]
fn an_event_is_a_line() {
    insta::assert_snapshot!(file(events()));
}

#[test]
fn the_file_is_one_array_for_any_content() {
    for count in 0..events().len() {
        let text = file(events().into_iter().take(count).collect());
        let lines: Vec<Value> = serde_json::from_str(&text).expect("JSON");
        assert!(lines.len() > count);
        let count = |ph: &str| lines.iter().filter(|line| line["ph"] == ph).count();
        assert_eq!(count("B"), count("E"), "{text}");
        let lost = lines.iter().find(|line| line["cat"] == "lost").expect("4 events");
        assert_eq!(lost["args"]["lost"], 4);
    }
}
