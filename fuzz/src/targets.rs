//! Every parser by the name of its file below `src`. A test of rxlab compares the names with the files.

use std::hint::black_box;

use rxlab::journal::History;
use rxlab::load::Url;
use rxlab::parse;
use rxlab::plan::{Plan, Setting, Target as PlanTarget};
use rxlab::snapshot::Snapshot;
use rxlab::trial::spec::Spec;
use rxlab::units::{CpuMask, NicName, QueueId, parse_duration};

/// What is done with one input.
pub type Target = fn(&[u8]);

/// All of them.
pub const TARGETS: &[(&str, Target)] = &[
    ("parse/interrupts", |bytes| {
        if let Some(Ok(table)) = text(bytes).map(parse::interrupts) {
            table.irqs.values().for_each(|line| drop(black_box(line.actions())));
        }
    }),
    ("parse/schedstat", |bytes| {
        with(bytes, parse::on_cpu_ns);
        with(bytes, |text| parse::thread_name(text).len());
    }),
    ("parse/softirqs", |bytes| with(bytes, parse::softirqs)),
    ("parse/softnet", |bytes| with(bytes, parse::softnet)),
    ("parse/stat", |bytes| with(bytes, parse::stat)),
    ("parse/wire", |bytes| {
        for message in parse::messages(bytes).unwrap_or_default().into_iter().chain([bytes]) {
            let Ok(attributes) = parse::Attributes::parse(message) else { continue };
            for (kind, _) in attributes.iter() {
                black_box((attributes.number(kind), attributes.text(kind), attributes.nested(kind).is_ok()));
            }
        }
    }),
    ("parse/netdev/qstats", |bytes| drop(black_box(parse::queue_stats(bytes)))),
    ("units/cpu_mask", |bytes| {
        with(bytes, str::parse::<CpuMask>);
        with(bytes, CpuMask::from_hex);
    }),
    ("units/names", |bytes| {
        with(bytes, str::parse::<QueueId>);
        with(bytes, str::parse::<NicName>);
    }),
    ("units/duration", |bytes| with(bytes, parse_duration)),
    ("plan/file", |bytes| with(bytes, Plan::from_toml)),
    ("plan/setting", |bytes| {
        with(bytes, str::parse::<Setting>);
        with(bytes, str::parse::<PlanTarget>);
    }),
    ("trial/spec", |bytes| with(bytes, Spec::parse)),
    ("journal/recover", |bytes| drop(black_box(History::parse(bytes).is_ok()))),
    ("load/url", |bytes| with(bytes, str::parse::<Url>)),
    ("snapshot/archive", |bytes| drop(black_box(Snapshot::read(bytes).is_ok()))),
];

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Runs a parser of text; bytes that are none never reach it in the program either.
fn with<T>(bytes: &[u8], parser: impl FnOnce(&str) -> T) {
    if let Some(text) = text(bytes) {
        black_box(parser(text));
    }
}
