//! Every parser has a fuzz target.

#![allow(clippy::disallowed_methods)] // Reads the source tree.

use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("listed") {
        let path = entry.expect("listed").path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Name of a function that takes only text or bytes; those named `push_...` or with bytes as their result write them.
fn parser(line: &str) -> Option<&str> {
    let (name, arguments) = line.strip_prefix("pub fn ")?.split_once('(')?;
    let name = name.split('<').next()?;
    let first = arguments.split_once(": &")?.1.trim_start_matches("'a ");
    let writes = name.starts_with("push_") || arguments.contains("-> Vec<u8>");
    ((first.starts_with("str)") || first.starts_with("[u8])")) && !writes).then_some(name)
}

#[test]
fn every_parser_is_fuzzed() {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR"));
    let targets = std::fs::read_to_string(tree.join("fuzz/src/targets.rs")).expect("the targets");
    let mut files = Vec::new();
    sources(&tree.join("src/parse"), &mut files);
    let mut found = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).expect("readable");
        for name in text.lines().filter_map(parser) {
            found += 1;
            let called = targets.contains(&format!("::{name}(")) || targets.contains(&format!("::{name})"));
            assert!(called, "{}: no fuzz target calls {name}", file.display());
        }
    }
    assert!(found > 25, "only {found} parsers were found: does this test still understand the source?");
}
