//! The only list of knobs, in the order of applying.

use super::Knob;
use super::channels::NicChannels;
use super::coalesce::{ADAPTIVE_RX, ADAPTIVE_TX, RX_FRAMES, RX_USECS, TX_FRAMES, TX_USECS};
use super::irq_affinity::IrqAffinity;
use super::ntuple_rule::NtupleRule;
use super::offload::{GRO, LRO, NTUPLE, RX_CHECKSUM};
use super::rfs::Rfs;
use super::rfs_entries::RfsEntries;
use super::ring::{RING_RX, RING_TX};
use super::rps::Rps;
use super::rss::RssTable;
use super::rss_context::RssContext;

/// Every knob. The order is that of applying: which queues there are first; then which of them the device
/// picks, where a switch comes before what hangs on it and a table before the rules that lead to it; then
/// where interrupts land, then who gets the packets, then the global flow table before those of the queues.
pub static KNOBS: &[&dyn Knob] = &[
    &RING_RX,
    &RING_TX,
    &NicChannels,
    &RssTable,
    &RssContext,
    &NTUPLE,
    &NtupleRule,
    &ADAPTIVE_RX,
    &ADAPTIVE_TX,
    &RX_USECS,
    &RX_FRAMES,
    &TX_USECS,
    &TX_FRAMES,
    &GRO,
    &LRO,
    &RX_CHECKSUM,
    &IrqAffinity,
    &Rps,
    &RfsEntries,
    &Rfs,
];

/// A knob by name.
pub fn find(name: &str) -> Option<&'static dyn Knob> {
    KNOBS.iter().copied().find(|knob| knob.name() == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::KNOBS;

    /// Files of this folder that hold no knob.
    const OTHERS: [&str; 5] = ["error", "reference", "registry", "testbed", "value"];

    #[test]
    #[allow(clippy::disallowed_methods)] // The test compares the folder with the slice.
    fn every_file_is_used_and_every_name_is_unique() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/knob");
        let text = std::fs::read_to_string(folder.join("registry.rs")).expect("readable");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .expect("the folder can be listed")
            .map(|entry| entry.expect("listed").file_name().to_string_lossy().replace(".rs", ""))
            .filter(|name| !OTHERS.contains(&name.as_str()))
            .collect();
        for file in &files {
            assert!(text.contains(&format!("use super::{file}::")), "{file}.rs has no knob in KNOBS");
        }
        let names: BTreeSet<&str> = KNOBS.iter().map(|knob| knob.name()).collect();
        assert_eq!(names.len(), KNOBS.len(), "names are unique");
        assert!(files.len() <= names.len(), "a file has no knob");
    }

    #[test]
    fn every_knob_is_documented() {
        for knob in KNOBS {
            let doc = knob.doc();
            for text in [
                doc.summary,
                doc.target,
                doc.values,
                doc.path,
                doc.source,
                doc.since,
                doc.beware,
                doc.example,
            ] {
                assert!(!text.trim().is_empty() && !text.contains("  "), "{}: `{text}`", knob.name());
            }
            let example: crate::plan::Setting = doc.example.parse().expect("the example is a setting");
            assert_eq!(example.knob, knob.name());
        }
    }

    #[test]
    fn every_target_listed_can_be_located() {
        let model = crate::knob::testbed::model();
        for knob in KNOBS {
            let targets = knob.targets(&model);
            assert!(!targets.is_empty(), "{}", knob.name());
            for target in targets {
                assert!(!knob.locate(&model, &target).expect("listed").is_empty());
            }
        }
    }
}
