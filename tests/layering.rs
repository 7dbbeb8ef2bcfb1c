//! Modules import only leftward along the pipeline: `Host -> Sample -> Model -> ... -> renderers`.

#![allow(clippy::disallowed_methods)] // Reads the source tree.

use std::path::{Path, PathBuf};

/// The pipeline, leftmost first. A module may import those before it and itself.
const ORDER: [&str; 26] = [
    "units", "error", "atomic", "web", "parse", "host", "sample", "model", "probe", "diagnose", "plan",
    "doctor", "journal", "snapshot", "recorder", "knob", "apply", "persist", "target", "load", "lab",
    "trial", "report", "tui", "commands", "main",
];

/// Tests that look at captured machines, which are snapshots.
const OF_CAPTURED: [(&str, &str); 1] = [("diagnose/table/captured.rs", "snapshot")];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("src can be listed") {
        let path = entry.expect("src can be listed").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

fn module(relative: &Path) -> String {
    let first = relative.components().next().expect("a file below src").as_os_str();
    first.to_string_lossy().trim_end_matches(".rs").to_owned()
}

#[test]
fn modules_import_only_leftward() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let rank = |name: &str| ORDER.iter().position(|m| *m == name);
    let mut checked = 0;
    for file in &files {
        let relative = file.strip_prefix(&src).expect("below src");
        let importer = module(relative);
        if importer == "lib" {
            continue;
        }
        let importer_rank = rank(&importer).unwrap_or_else(|| panic!("{importer} has no place in ORDER"));
        let text = std::fs::read_to_string(file).expect("source can be read");
        for (index, line) in text.lines().enumerate() {
            for part in line.split("crate::").skip(1) {
                let imported: String =
                    part.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                let Some(imported_rank) = rank(&imported) else { continue };
                checked += 1;
                let captured =
                    OF_CAPTURED.iter().any(|(of, what)| relative == Path::new(of) && *what == imported);
                assert!(
                    imported_rank <= importer_rank || captured,
                    "{}:{}: `{importer}` must not import `{imported}`",
                    file.display(),
                    index + 1,
                );
            }
        }
    }
    assert!(checked > 20, "only {checked} imports seen: the check itself is broken");
}
