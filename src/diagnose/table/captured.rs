//! The machines below fixtures/hosts, as they were between their two moments.

#![allow(clippy::disallowed_methods)] // Opens the captured hosts.

use std::fs::File;
use std::path::Path;

use super::Host;
use crate::diagnose::diagnose;
use crate::model::{Model, Rates};
use crate::sample::{Counters, Inventory, Scope};
use crate::snapshot::Snapshot;

/// Captured with nothing but what the capture itself takes.
const IDLE: [&str; 6] = [
    "e1000e-4cpu",
    "microvm-2cpu",
    "virtio-128cpu-16queue",
    "virtio-16cpu-2nic",
    "virtio-32cpu-2node",
    "virtio-8cpu-8queue",
];

/// Captured under load.
const LOADED: &str = "virtio-8cpu-1queue";

fn captured(name: &'static str) -> Host {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/hosts").join(name);
    let file = File::open(folder.join("host.tar.zst")).expect("a captured host");
    let snapshot = Snapshot::read(file).expect("a snapshot");
    let first = Inventory::take(snapshot.first(), Scope::Counters);
    let last = Inventory::take(snapshot.last(), Scope::Counters);
    let before = Counters::take(snapshot.first(), &first);
    let after = Counters::take(snapshot.last(), &last);
    let rates = Rates::between(&before, &after).expect("two moments of one boot").accounted(&last);
    Host { name, model: Model::new(&last), rates, near: &[] }
}

/// The captured machines, the idle ones first.
pub(super) fn hosts() -> Vec<Host> {
    IDLE.iter().chain([&LOADED]).map(|name| captured(name)).collect()
}

#[test]
fn an_idle_machine_gets_no_finding() {
    for name in IDLE {
        let host = captured(name);
        assert_eq!(diagnose(&host.model, &host.rates), [], "{name}");
    }
}

#[test]
fn every_captured_host_is_in_the_table() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/hosts");
    let entries = std::fs::read_dir(folder).expect("listed").map(|entry| entry.expect("listed").file_name());
    let mut there: Vec<String> = entries.map(|name| name.into_string().expect("UTF-8")).collect();
    there.sort();
    let mut listed: Vec<&str> = IDLE.iter().chain([&LOADED]).copied().collect();
    listed.sort_unstable();
    assert_eq!(there, listed);
}
