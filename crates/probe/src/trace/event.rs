//! Events of trace.bpf.c: the structs of events.bpf.h, parsed from bytes.

use crate::raw::Words;
use rxlab_base::units::CpuId;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// CLOCK_MONOTONIC in nanoseconds.
    pub at: u64,
    pub cpu: CpuId,
    /// Events of this CPU that found no room so far; wraps.
    pub lost: u32,
    pub kind: Kind,
}

#[allow(missing_docs)] // Fields are those of the tracepoints.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The handler of a numbered interrupt begins.
    IrqEntry(u32),
    /// The handler of a numbered interrupt ends.
    IrqExit(u32),
    /// An inter-processor interrupt that calls one function begins: RPS hands packets over this way.
    IpiEntry,
    IpiExit,
    /// The interrupt of the CPU's timer begins.
    TimerEntry,
    TimerExit,
    /// A softirq is raised. `in_interrupt` is false if the kernel does not report it.
    Raise {
        vector: u32,
        in_interrupt: bool,
    },
    /// It runs, in the time of `task`.
    SoftirqEntry {
        vector: u32,
        pid: u32,
        task: String,
    },
    SoftirqExit(u32),
    /// A NAPI was polled: `work` packets of at most `budget`. `device` is empty for the backlog.
    Poll {
        napi: u32,
        work: u32,
        budget: u32,
        device: String,
    },
    /// A receiving thread gets the CPU.
    ThreadOn {
        pid: u32,
        name: String,
    },
    /// It gives up the CPU.
    ThreadOff(u32),
    /// A receiving thread is woken.
    Waking {
        pid: u32,
        name: String,
    },
}

impl Event {
    /// `None` for too few bytes or an unknown kind.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut words = Words(bytes);
        let (at, cpu, lost) = (words.number()?, CpuId(words.number32()?), words.number32()?);
        let (kind, id) = (words.number32()?, words.number32()?);
        let (first, second) = (words.number32()?, words.number32()?);
        let kind = match kind {
            0 => Kind::IrqEntry(id),
            1 => Kind::IrqExit(id),
            2 => Kind::IpiEntry,
            3 => Kind::IpiExit,
            4 => Kind::TimerEntry,
            5 => Kind::TimerExit,
            6 => Kind::Raise { vector: id, in_interrupt: first != 0 },
            7 => Kind::SoftirqEntry { vector: id, pid: first, task: words.name()? },
            8 => Kind::SoftirqExit(id),
            9 => Kind::Poll { napi: id, work: first, budget: second, device: words.name()? },
            10 => Kind::ThreadOn { pid: id, name: words.name()? },
            11 => Kind::ThreadOff(id),
            12 => Kind::Waking { pid: id, name: words.name()? },
            _ => return None,
        };
        Some(Self { at, cpu, lost, kind })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{Event, Kind};
    use rxlab_base::units::CpuId;

    /// The bytes of `struct named_event`.
    fn bytes(kind: u32, id: u32, first: u32, second: u32, name: &[u8; 16]) -> Vec<u8> {
        let numbers = [3, 9, kind, id, first, second].map(u32::to_ne_bytes).concat();
        [&77u64.to_ne_bytes()[..], &numbers, name].concat()
    }

    #[test]
    fn fields_are_where_the_programs_put_them() {
        let poll = Event::parse(&bytes(9, 513, 8, 64, b"eth0\0xxxxxxxxxxx")).expect("whole");
        let kind = Kind::Poll { napi: 513, work: 8, budget: 64, device: "eth0".into() };
        assert_eq!(poll, Event { at: 77, cpu: CpuId(3), lost: 9, kind });
        let raise = Event::parse(&bytes(6, 3, 1, 0, &[0; 16])[..32]).expect("whole");
        assert_eq!(raise.kind, Kind::Raise { vector: 3, in_interrupt: true });
    }

    /// The two lists are kept by hand; the programs write by position.
    #[test]
    fn the_order_is_that_of_the_programs() {
        let source = include_str!("../events.bpf.h");
        let (_, rest) = source.split_once("enum kind {").expect("there");
        let (list, _) = rest.split_once('}').expect("closed");
        let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
        let ours = (0..).map_while(|kind| Event::parse(&bytes(kind, 1, 2, 3, b"0123456789abcdef")));
        let ours: Vec<String> = ours
            .map(|event| {
                let text = format!("{:?}", event.kind);
                text.chars().take_while(char::is_ascii_alphabetic).collect::<String>().to_uppercase()
            })
            .collect();
        assert_eq!(ours, names.map(|name| name.replace('_', "")).collect::<Vec<_>>());
    }

    proptest! {
        /// Bytes of any other kind, and any text as a name.
        #[test]
        fn a_whole_record_of_a_known_kind_is_an_event(kind in 0u32..15, rest in any::<[u32; 3]>(), name in any::<[u8; 16]>()) {
            let [id, first, second] = rest;
            let event = Event::parse(&bytes(kind, id, first, second, &name));
            prop_assert_eq!(event.is_some(), kind < 13);
            prop_assert!(event.is_none_or(|event| (event.at, event.cpu, event.lost) == (77, CpuId(3), 9)));
        }

        #[test]
        fn a_record_cut_short_is_none(kind in 0u32..13, length in 0usize..32) {
            let whole = bytes(kind, 1, 2, 3, &[0; 16]);
            prop_assert_eq!(Event::parse(&whole[..length]), None);
        }
    }
}
