//! The only list of knobs, in the order of applying.

use super::Knob;
use super::channels::NicChannels;
use super::irq_affinity::IrqAffinity;
use super::rfs::Rfs;
use super::rfs_entries::RfsEntries;
use super::rps::Rps;

/// Every knob. The order is that of applying: which queues there are first, then where interrupts land, then who gets the
/// packets, then the global flow table before those of the queues.
pub static KNOBS: &[&dyn Knob] = &[&NicChannels, &IrqAffinity, &Rps, &RfsEntries, &Rfs];

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
    fn the_folder_and_the_slice_agree() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/knob");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .expect("the folder can be listed")
            .map(|entry| entry.expect("listed").file_name().to_string_lossy().replace(".rs", ""))
            .filter(|name| !OTHERS.contains(&name.as_str()))
            .collect();
        let names: BTreeSet<String> = KNOBS.iter().map(|knob| knob.name().to_owned()).collect();
        assert_eq!(files, names);
        assert_eq!(names.len(), KNOBS.len(), "names are unique");
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
