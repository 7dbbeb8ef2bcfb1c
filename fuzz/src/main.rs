//! One libFuzzer program for all parsers: `RXLAB_FUZZ=NAME` chooses, `bench/fuzz.sh` runs them all.
//!
//! A parser fails here by panicking, by a wrapped number, by running for ever or by taking all memory.
//! One program, because linking each parser's own would take longer than finding most bugs.

#![no_main]

mod targets;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

use crate::targets::{TARGETS, Target};

static CHOSEN: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("RXLAB_FUZZ").unwrap_or_default();
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.map(|(_, target)| *target).unwrap_or_else(|| {
        for (name, _) in TARGETS {
            println!("{name}");
        }
        std::process::exit(2);
    })
});

fuzz_target!(|bytes: &[u8]| CHOSEN(bytes));
