//! Cut and damaged files, many flips of one target, and foreign values.

use proptest::prelude::{any, prop_assert, proptest};

use super::{Damage, History, Outcome, Record};
use crate::journal::Environment;
use crate::journal::record::{Begin, Displaced, Intent};

fn begin() -> Record {
    Record::Begin(Begin { id: "000001-abcd".into(), deadline: Some(5), ..Begin::sample() })
}

fn rps(seq: u64, nic: &str, before: &str, after: &str) -> Intent {
    Intent {
        seq,
        device: Some(rxlab_path::model::DeviceAddress("pci:0000:00:03.0".into())),
        ..Intent::sample("rps", &format!("{nic}/rx-0"), before, after)
    }
}

fn intent(seq: u64, nic: &str, before: &str, after: &str) -> Record {
    Record::Intent(rps(seq, nic, before, after))
}

fn displaced(queue: u32, value: &str) -> Displaced {
    let target = format!("eth0/rx-{queue}").parse().expect("a target");
    Displaced { knob: "rps".into(), target, value: value.into() }
}

fn file(records: &[Record]) -> Vec<u8> {
    records.iter().flat_map(Record::to_line).collect()
}

#[test]
fn any_cut_gives_the_whole_lines_before_it() {
    let records = [begin(), intent(1, "eth0", "off", "2"), Record::Done { seq: 1, kept: "2".into() }];
    let bytes = file(&records);
    let ends: Vec<usize> = (0..=3).map(|n| file(&records[..n]).len()).collect();
    for cut in 0..=bytes.len() {
        let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
        let history = History::parse(&bytes[..cut]).expect("a cut is not damage");
        assert_eq!(history.records, records[..whole], "cut at {cut}");
        assert_eq!(history.valid_bytes, ends[whole] as u64);
    }
}

#[test]
fn a_whole_line_that_is_wrong_is_damage() {
    // A flipped byte in the last line was once taken for a torn line, and its record was lost.
    let last = file(&[begin(), Record::Complete]);
    let start = file(&[begin()]).len();
    for at in start..last.len() {
        let mut flipped = last.clone();
        flipped[at] ^= 1;
        assert!(History::parse(&flipped).is_err(), "byte {at}");
    }
    for whole in [start, start + 5, last.len()] {
        let zeros = [&last[..whole], &[0; 40]].concat();
        assert!(History::parse(&zeros).is_err(), "zeros from byte {whole} on");
    }
    let mut middle = file(&[begin(), Record::Complete, Record::Closed]);
    let at = file(&[begin()]).len() + 12;
    middle[at] ^= 1;
    let Err(Damage { line, readable }) = History::parse(&middle) else { panic!("damage") };
    assert_eq!((line, readable.records), (2, vec![begin(), Record::Closed]), "lines after it are read");
    assert!(History::parse(&file(&[Record::Complete, Record::Closed])).is_err(), "no begin");
    assert!(History::parse(&file(&[begin(), begin(), Record::Closed])).is_err(), "two begins");
}

#[test]
fn many_flips_are_one_target_with_the_first_value_as_the_original() {
    let mut records = vec![begin(), intent(1, "eth0", "off", "2")];
    records.push(Record::Done { seq: 1, kept: "2".into() });
    records.push(intent(2, "eth0", "2", "off"));
    records.push(Record::Done { seq: 2, kept: "off".into() });
    // The interface was renamed; it is the same device.
    records.push(intent(3, "lan0", "off", "2-3"));
    let history = History::parse(&file(&records)).expect("whole");
    let [touched] = &history.touched()[..] else { panic!("one target") };
    assert_eq!((touched.original.as_str(), touched.wanted.as_str()), ("off", "2-3"));
    assert_eq!(touched.ours, ["off", "2", "2-3"]);
    assert_eq!(touched.unsettled, ["2-3"]);
    assert_eq!(history.last_seq(), 3);
}

/// A flip to fewer queues and back once lost the values of the removed queues.
#[test]
fn queues_that_a_flip_took_away_keep_their_values() {
    let channels = |seq, displaced| {
        let target = "eth0".parse().expect("a target");
        Record::Intent(Intent { knob: "channels".into(), target, displaced, ..rps(seq, "eth0", "4", "2") })
    };
    let records = [
        begin(),
        channels(1, vec![displaced(0, "off"), displaced(1, "5"), displaced(2, "6")]),
        // The transaction's own.
        intent(2, "eth0", "off", "2"),
        channels(3, vec![displaced(0, "2"), displaced(1, "7")]),
    ];
    let touched = History::parse(&file(&records)).expect("whole").touched();
    assert_eq!(touched[0].displaced, [displaced(0, "off"), displaced(1, "7"), displaced(2, "6")]);
}

/// The value that the transaction gave all queues once counted as the original of one: `undo --force` left it there.
#[test]
fn the_original_of_a_queue_is_older_than_the_value_of_all() {
    let queue = |value: &str| Displaced {
        knob: "queue_defer_hard_irqs".into(),
        target: "eth0/rx-0".parse().expect("a target"),
        value: value.into(),
    };
    let of_all = |seq, before: &str, after: &str, displaced| {
        let target = "eth0".parse().expect("a target");
        let knob = "napi_defer_hard_irqs".into();
        Record::Intent(Intent { knob, target, displaced, ..rps(seq, "eth0", before, after) })
    };
    let of_one = |seq, before: &str, after: &str| {
        Record::Intent(Intent { knob: "queue_defer_hard_irqs".into(), ..rps(seq, "eth0", before, after) })
    };
    let originals = |found: &str| {
        let records = [begin(), of_all(1, "0", "2", vec![queue("5")]), of_one(2, found, "3")];
        let touched = History::parse(&file(&records)).expect("whole").touched();
        assert_eq!(touched[1].ours, [found, "3"], "both are ours");
        [0, 1].map(|at: usize| touched[at].original.clone())
    };
    assert_eq!(originals("2"), ["0", "5"]);
    // Another program set this one meanwhile.
    assert_eq!(originals("7"), ["0", "7"]);
}

/// Undo would once have overwritten a value that another program had set twice.
#[test]
fn a_strangers_value_is_never_ours() {
    let again = |seq, before: &str| Record::Intent(Intent { foreign: true, ..rps(seq, "eth0", before, "2") });
    let done = |seq| Record::Done { seq, kept: "2".into() };
    let records = [begin(), intent(1, "eth0", "off", "2"), done(1), again(2, "5"), done(2), again(3, "off")];
    let [touched] = &History::parse(&file(&records)).expect("whole").touched()[..] else { panic!("one") };
    assert_eq!((touched.original.as_str(), &touched.ours[..]), ("off", &["off".to_owned(), "2".into()][..]));
    assert_eq!(touched.foreign, ["5"], "the original is not foreign");
}

/// Earlier versions wrote neither the flag nor the record.
#[test]
fn earlier_files_still_read() {
    let line = String::from_utf8(intent(1, "eth0", "off", "2").to_line()).expect("text");
    assert!(!line.contains("foreign"), "{line}");
    let history = History::parse(&file(&[begin(), intent(1, "eth0", "off", "2")])).expect("whole");
    assert_eq!(history.environment(), None);
    let around = |list: &str| {
        Record::Environment(Environment { online: Some(list.parse().expect("a list")), devices: Vec::new() })
    };
    let history = History::parse(&file(&[begin(), around("0-3"), around("0-1")])).expect("whole");
    let online = history.environment().and_then(|around| around.online.clone());
    assert_eq!(online, Some("0-1".parse().expect("a list")), "the last one");
}

#[test]
fn the_deadline_holds_until_confirmed_or_closed() {
    let with = |more: &[Record]| {
        let records: Vec<Record> = [begin()].iter().chain(more).cloned().collect();
        History::parse(&file(&records)).expect("whole").pending_deadline()
    };
    assert_eq!(with(&[]), Some(5));
    assert_eq!(with(&[Record::Complete]), Some(5));
    assert_eq!(with(&[Record::Complete, Record::Confirmed]), None);
    assert_eq!(with(&[Record::Closed]), None);
}

#[test]
fn what_an_undo_found_belongs_to_the_first_intent() {
    let outcome = Outcome::Altered { kept: "1".into() };
    let records =
        [begin(), intent(1, "eth0", "0-1", "2"), Record::Undone { seq: 1, outcome: outcome.clone() }];
    let touched = History::parse(&file(&records)).expect("whole").touched();
    assert_eq!(touched[0].outcome, Some(outcome));
    assert!(touched[0].ours.contains(&"1".to_owned()));
}

proptest! {
    #[test]
    fn any_bytes_parse_or_are_damage(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        match History::parse(&bytes) {
            Ok(history) => prop_assert!(history.valid_bytes <= bytes.len() as u64),
            Err(damage) => prop_assert!(damage.line <= damage.readable.records.len() + 1),
        }
    }
}

/// Journals of earlier versions call the displaced values `beside`.
#[test]
fn displaced_values_of_earlier_journals_are_read() {
    let record = Record::Intent(Intent { displaced: vec![displaced(0, "2")], ..rps(1, "eth0", "4", "2") });
    let text = serde_json::to_string(&record).expect("JSON");
    let earlier = text.replace("\"displaced\"", "\"beside\"");
    assert_ne!(text, earlier);
    assert_eq!(serde_json::from_str::<Record>(&earlier).expect("a record"), record);
}
