//! The machines of fixtures/field, and what is right about each, for the tests of the crates that judge machines.

#![allow(clippy::disallowed_methods)] // Opens the fixtures.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::snapshot::Snapshot;

/// What is right about a machine. Absent fields are empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Machine {
    /// Each device with the interrupt of each of its receive queues: `100 102-104 -`, where `-` cannot be known.
    irqs: BTreeMap<String, String>,
    /// Words that `show` prints.
    pub on_map: Vec<String>,
    /// Beginning of the first finding's title; empty if nothing is wrong, or nothing can be said.
    pub finding: String,
    /// The plan that the doctor tries first, and its interface; none if no setting helps.
    pub first_plan: Option<(String, String)>,
    /// Words that the doctor must not print.
    pub not_on_screen: Vec<String>,
    /// Words of the doctor's JSON.
    pub in_report: Vec<String>,
    pub not_in_report: Vec<String>,
    /// The interface that drops 900 packets/s, and the finding's title.
    pub drops: Option<(String, String)>,
    /// Losses of devices, most under names of the drivers' own, which no counter of the interface has.
    pub device_drops: Option<String>,
    /// Plans by name: `isolate`, `full`, or `doctor` for all of the doctor's.
    pub plans: BTreeMap<String, Planned>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Planned {
    /// Settings that the plan must have.
    pub sets: Vec<String>,
    /// Beginnings of settings that it must not have.
    pub never: Vec<String>,
}

impl Machine {
    /// Each device with the interrupts of each of its receive queues.
    pub fn irqs(&self) -> BTreeMap<&str, Vec<Vec<u32>>> {
        self.irqs
            .iter()
            .map(|(nic, text)| (nic.as_str(), text.split(' ').flat_map(queues).collect()))
            .collect()
    }
}

/// The interrupts of the queues that one word stands for.
fn queues(word: &str) -> Vec<Vec<u32>> {
    let number = |text: &str| text.parse().expect("an interrupt");
    match word.split_once('-') {
        Some(("", "")) => vec![Vec::new()],
        Some((first, last)) => (number(first)..=number(last)).map(|irq| vec![irq]).collect(),
        None => vec![vec![number(word)]],
    }
}

/// All machines by name.
pub fn machines() -> BTreeMap<String, Machine> {
    toml::from_str(include_str!("../../../fixtures/field/machines.toml")).expect("machines")
}

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/field")
}

pub fn snapshot(machine: &str) -> Snapshot {
    let file = File::open(folder().join(format!("{machine}.tar.zst"))).expect("a machine");
    Snapshot::read(file).expect("a snapshot")
}
