//! Documents that programs make parts of say what the programs say.

use std::path::Path;

use rxlab::trial::simulate::table::{RUNS, false_positives, operating};

/// The text between `<!-- NAME -->` and `<!-- end NAME -->`, without the blank lines around it.
fn part<'a>(text: &'a str, name: &str) -> &'a str {
    let (_, rest) = text.split_once(&format!("<!-- {name} -->")).expect("the document has the opening mark");
    let (part, _) =
        rest.split_once(&format!("<!-- end {name} -->")).expect("the document has the closing mark");
    part.trim()
}

#[test]
#[allow(clippy::disallowed_methods)]
fn the_tables_of_the_statistics_are_those_of_the_simulation() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/statistics.md");
    let text = std::fs::read_to_string(&path).expect("docs/statistics.md can be read");
    assert!(text.contains(&format!("{RUNS} simulated trials")), "the document says how many runs a row has");
    for (name, table) in [("false positives", false_positives(RUNS)), ("operating", operating(RUNS))] {
        assert_eq!(
            part(&text, name),
            table.trim(),
            "table `{name}` is out of date: cargo run --release --example statistics"
        );
    }
}
