//! Generated parts of documents match the output of the programs that generate them.

use std::path::Path;

use rxlab::trial::simulate::table::{RUNS, false_positives, operating};

/// The text between `<!-- NAME -->` and `<!-- end NAME -->`, without surrounding blank lines.
fn part<'a>(text: &'a str, name: &str) -> &'a str {
    let (_, rest) = text.split_once(&format!("<!-- {name} -->")).expect("the document has the opening mark");
    let (part, _) =
        rest.split_once(&format!("<!-- end {name} -->")).expect("the document has the closing mark");
    part.trim()
}

#[test]
#[allow(clippy::disallowed_methods)]
fn the_statistics_tables_match_the_simulation() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/statistics.md");
    let text = std::fs::read_to_string(&path).expect("docs/statistics.md can be read");
    assert!(text.contains(&format!("{RUNS} simulated trials")), "the document says how many runs a row has");
    let hint = "is out of date: cargo run --release --example statistics";
    assert_eq!(part(&text, "false positives"), false_positives(RUNS).trim(), "the first table {hint}");
    // All rows of the second would take minutes in a debug build: the first, and the names of all.
    let table = part(&text, "operating");
    assert!(table.starts_with(&operating(RUNS, 1)), "the second table {hint}");
    let names = |table: &str| -> Vec<String> {
        table.lines().filter_map(|row| Some(row.split('|').nth(1)?.to_owned())).collect()
    };
    assert_eq!(names(table), names(&operating(1, usize::MAX)), "the second table {hint}");
    for row in part(&text, "operating").lines().skip(2) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let percent = |cell: &str| cell.trim_end_matches(" %").parse::<f64>().expect("a percentage");
        assert!(percent(cells[2]) <= 5.0 && percent(cells[5]) <= 5.0, "the promise: {row}");
    }
}

/// Names in the first column of the module table of ARCHITECTURE.md.
fn table_of_modules(text: &str) -> Vec<&str> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next()).collect()
}

#[test]
#[allow(clippy::disallowed_methods)]
fn the_architecture_lists_the_existing_modules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect(path);
    let (architecture, library) = (read("ARCHITECTURE.md"), read("src/lib.rs"));
    let mut named = table_of_modules(&architecture);
    let modules = library.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    let mut there: Vec<&str> = modules.collect();
    named.sort_unstable();
    there.sort_unstable();
    assert_eq!(named, there);
}

#[test]
#[allow(clippy::disallowed_methods)]
fn the_documented_specifications_are_valid() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/trials.md");
    let text = std::fs::read_to_string(&path).expect("docs/trials.md can be read");
    let examples: Vec<&str> =
        text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 3, "the document has examples");
    for example in examples {
        rxlab::trial::spec::Spec::parse(example).unwrap_or_else(|error| panic!("{error} in\n{example}"));
    }
}

#[test]
#[allow(clippy::disallowed_methods)]
fn the_shipped_examples_are_those_of_the_page() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let page = std::fs::read_to_string(docs.join("trials.md")).expect("docs/trials.md can be read");
    for example in std::fs::read_dir(docs.join("examples")).expect("docs/examples can be listed") {
        let path = example.expect("listed").path();
        let text = std::fs::read_to_string(&path).expect("readable");
        assert!(page.contains(&format!("```toml\n{text}```")), "{}", path.display());
    }
}

/// `docs/show.md` shows captured machines as printed by the program.
#[test]
#[allow(clippy::disallowed_methods)]
fn the_show_page_matches_the_output() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("docs/show.md")).expect("docs/show.md can be read");
    let shown = part(&text, "show").trim_matches('`').trim();
    let commands = shown.split("$ rxlab ").skip(1);
    let compared = commands.map(|block| {
        let (command, output) = block.split_once('\n').expect("a command and its output");
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_rxlab"));
        let said = program.args(command.split(' ')).current_dir(root).output().expect("rxlab runs").stdout;
        assert_eq!(String::from_utf8_lossy(&said).trim(), output.trim(), "{command}");
    });
    assert_eq!(compared.count(), 3);
}

/// Phrases that read as translated. Each was in a message, a comment or a document once.
const TRANSLATED: [&str; 14] = [
    " anew",
    "somebody",
    "nobody",
    " of now",
    " beside ",
    "tells of",
    "to be seen",
    "makes none",
    "thief",
    "stolen",
    "is no value for",
    "one good answer",
    "from 1 on",
    "a look of",
];

#[test]
#[allow(clippy::disallowed_methods)]
fn no_sentence_reads_as_translated() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec![root.join("README.md"), root.join("ARCHITECTURE.md")];
    let mut folders = vec![root.join("src"), root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("listed") {
            let path = entry.expect("listed").path();
            let is_text = path.extension().is_some_and(|end| end == "rs" || end == "md");
            match path.is_dir() {
                true if path.ends_with("docs/adr") => {}
                true => folders.push(path),
                false if is_text => files.push(path),
                false => {}
            }
        }
    }
    let mut found = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a text").to_lowercase();
        for (number, line) in text.lines().enumerate() {
            let phrases = TRANSLATED.iter().filter(|phrase| line.contains(**phrase));
            found.extend(phrases.map(|phrase| format!("{}:{}: `{phrase}`", file.display(), number + 1)));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}
