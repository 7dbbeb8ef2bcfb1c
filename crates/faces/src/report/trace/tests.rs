//! The report of a timeline, for a full example and for extreme machines.

use std::path::Path;

use super::{text, time, written};
use crate::report::sample_trace::{full, traced};
use crate::report::text::plain;
use rxlab_base::units::CpuId;
use rxlab_probe::trace::{CpuTrace, Trace};

#[test]
fn all_of_it() {
    let file = written(Some((Path::new("/tmp/trace.json"), 28_341_875)));
    insta::assert_snapshot!(plain(&(text(&traced()) + &file)));
}

#[test]
fn lost_events_come_first() {
    let text = plain(&text(&full()));
    assert!(text.starts_with("1,234,567 events in 1.0 s, 40,000 lost\nlost: the ring buffer"), "{text}");
    assert!(text.contains("211 pieces of work were cut off"), "{text}");
}

#[test]
fn of_many_cpus_the_busiest_are_shown() {
    let mut trace = traced();
    let quiet = CpuTrace { net_rx_ns: 1, ..trace.cpus[0].clone() };
    let busy = trace.cpus[0].clone();
    trace.cpus = (0..128).map(|cpu| CpuTrace { cpu: CpuId(cpu), ..quiet.clone() }).collect();
    trace.cpus[77] = CpuTrace { cpu: CpuId(77), ..busy };
    let text = plain(&text(&trace));
    assert!(text.contains("\n   77    31 %") && text.contains("and 116 more (--json has all)"), "{text}");
}

#[test]
fn a_quiet_machine() {
    let quiet = Trace {
        cpus: Vec::new(),
        bursts: Vec::new(),
        longest: Vec::new(),
        irqs: Vec::new(),
        napis: Vec::new(),
        threads: Vec::new(),
        ..traced()
    };
    let text = plain(&(text(&quiet) + &written(None)));
    assert!(text.contains("no CPU received anything\n\ncost: ") && text.contains("--out FILE"), "{text}");
}

#[test]
fn durations_have_about_two_digits() {
    for (ns, text) in [
        (0, "0.0 us"),
        (449, "0.4 us"),
        (12_300, "12 us"),
        (999_000, "1.0 ms"),
        (12_400_000, "12 ms"),
        (1_240_000_000, "1.2 s"),
    ] {
        assert_eq!(time(ns), text);
    }
}
