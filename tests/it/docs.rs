//! Checks that only read the tree: generated parts of documents match the output of the programs that generate
//! them, and every parser has a fuzz target.

use std::path::{Path, PathBuf};

use rxlab_trial::simulate::table::{RUNS, false_positives, operating};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Every file below a folder of the tree.
fn files_below(folder: &str) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![Path::new(ROOT).join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("listed") {
            let path = entry.expect("listed").path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files
}

/// The text of a file of the tree.
fn text(path: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(path)).expect(path)
}

/// The text between `<!-- NAME -->` and `<!-- end NAME -->`, without surrounding blank lines.
fn part<'a>(text: &'a str, name: &str) -> &'a str {
    let (_, rest) = text.split_once(&format!("<!-- {name} -->")).expect("the document has the opening mark");
    let (part, _) =
        rest.split_once(&format!("<!-- end {name} -->")).expect("the document has the closing mark");
    part.trim()
}

#[test]
fn the_statistics_tables_match_the_simulation() {
    crate::require::needs!(minutes);
    let text = text("docs/statistics.md");
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

/// The figures that the README begins with are those of the table.
#[test]
fn the_readme_has_the_figures_of_the_table() {
    let statistics = text("docs/statistics.md");
    let row = part(&statistics, "false positives").lines().find(|row| row.contains("AR(1) drift"));
    let cells: Vec<&str> = row.expect("drift").split('|').map(str::trim).collect();
    let readme = text("README.md");
    for figure in [cells[2], cells[6]] {
        assert!(readme.contains(figure), "{figure} is not in the README");
    }
}

/// Names of tests in a document: in the last column of tables that have one for them, and in paragraphs that begin with
/// `Checked by:`.
fn tests_named_in(document: &str) -> Vec<String> {
    let (mut names, mut has_tests, mut in_paragraph) = (Vec::new(), false, false);
    let mut before = "";
    for line in text(document).lines() {
        let last = line.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        if !before.starts_with('|') {
            has_tests = last.trim() == "test";
        }
        before = if line.starts_with('|') { "|" } else { "" };
        in_paragraph = line.starts_with("Checked by:") || (in_paragraph && !line.is_empty());
        let is_list = in_paragraph || (has_tests && line.starts_with('|'));
        let named = last.split('`').skip(1).step_by(2).filter(|_| is_list);
        let is_name =
            |name: &&str| name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b':'));
        names.extend(named.filter(is_name).map(str::to_owned));
    }
    names
}

/// What holds a line is said with the test that shows it: a test, or all tests of a module.
#[test]
fn the_tests_that_documents_name_exist() {
    let mut sources: Vec<PathBuf> = ["crates", "src", "tests"].into_iter().flat_map(files_below).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let modules = |parts: &[&str]| {
        let end: PathBuf = parts.iter().collect();
        sources
            .iter()
            .filter(move |path| parts.is_empty() || path.with_extension("").ends_with(&end))
            .collect::<Vec<_>>()
    };
    let has_function = |(function, module): (&&str, &[&str])| {
        let text = |path: &PathBuf| std::fs::read_to_string(path).expect("text");
        modules(module).into_iter().any(|path| text(path).contains(&format!("fn {function}(")))
    };
    let exists = |name: &String| {
        let whole: Vec<&str> = name.split("::").collect();
        // The module `tests` may have a file of its own.
        let short: Vec<&str> = whole.iter().copied().filter(|part| *part != "tests").collect();
        let is_there =
            |parts: &Vec<&str>| !modules(parts).is_empty() || parts.split_last().is_some_and(has_function);
        is_there(&whole) || is_there(&short)
    };
    for (document, least) in [("docs/security.md", 25), ("docs/journal.md", 90)] {
        let named = tests_named_in(document);
        assert!(named.len() >= least, "{document} names {} tests", named.len());
        let missing: Vec<&String> = named.iter().filter(|name| !exists(name)).collect();
        assert!(missing.is_empty(), "{document} names tests that do not exist: {missing:?}");
    }
}

/// Names in the first column of the table of crates in ARCHITECTURE.md.
fn table_of_crates(text: &str) -> Vec<&str> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next()).collect()
}

#[test]
fn the_architecture_lists_the_existing_crates() {
    let architecture = text("ARCHITECTURE.md");
    let mut named = table_of_crates(&architecture);
    named.sort_unstable();
    let folders = std::fs::read_dir(Path::new(ROOT).join("crates")).expect("listed");
    let mut there: Vec<String> =
        folders.map(|entry| entry.expect("listed").file_name().into_string().expect("UTF-8")).collect();
    there.push("rxlab".to_owned());
    there.sort_unstable();
    assert_eq!(named, there);
}

#[test]
fn the_documented_specifications_are_valid() {
    let text = text("docs/trials.md");
    let examples: Vec<&str> =
        text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 3, "the document has examples");
    for example in examples {
        rxlab_trial::spec::Spec::parse(example).unwrap_or_else(|error| panic!("{error} in\n{example}"));
    }
}

#[test]
fn the_shipped_examples_are_those_of_the_page() {
    let page = text("docs/trials.md");
    for path in files_below("docs/examples") {
        let text = std::fs::read_to_string(&path).expect("readable");
        assert!(page.contains(&format!("```toml\n{text}```")), "{}", path.display());
    }
}

/// Pages show captured machines as printed by the program.
#[test]
fn pages_show_the_output_of_the_program() {
    let pages = [
        ("docs/show.md", "show", 3),
        ("docs/doctor.md", "hotspot", 2),
        ("README.md", "answer", 1),
        ("docs/tutorial.md", "term", 1),
        ("docs/tutorial.md", "cause", 1),
        ("docs/tutorial.md", "path", 1),
    ];
    for (page, name, commands) in pages {
        let text = text(page);
        let shown = part(&text, name).trim_matches('`').trim();
        let compared = shown.split("$ rxlab ").skip(1).map(|block| {
            let (command, output) = block.split_once('\n').expect("a command and its output");
            let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_rxlab"));
            let said =
                program.args(command.split(' ')).current_dir(ROOT).output().expect("rxlab runs").stdout;
            assert_eq!(String::from_utf8_lossy(&said).trim(), output.trim(), "{page}: {command}");
        });
        assert_eq!(compared.count(), commands, "{page}");
    }
}

/// The lines of a document outside of its examples.
fn prose(text: &str) -> Vec<&str> {
    let (mut lines, mut in_example) = (Vec::new(), false);
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        if !is_fence && !in_example {
            lines.push(line);
        }
        in_example ^= is_fence;
    }
    lines
}

/// Targets of the links of a document that lead to files of the tree: path, and heading after `#`.
fn links(text: &str) -> Vec<(&str, &str)> {
    let targets = prose(text).into_iter().flat_map(|line| line.split("](").skip(1));
    let targets = targets.filter_map(|rest| rest.split([')', ' ']).next());
    let ours = targets.filter(|target| !target.contains("://"));
    ours.map(|target| target.split_once('#').unwrap_or((target, ""))).collect()
}

/// The names by which links reach the headings of a document.
fn headings(text: &str) -> Vec<String> {
    let titles = prose(text).into_iter().filter(|line| line.starts_with('#'));
    let name = |title: &str| -> String {
        let title = title.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    titles.map(name).collect()
}

/// A link leads to a file, and to a heading in it; every page is in the index of `docs/README.md`.
#[test]
fn links_lead_somewhere_and_every_page_is_linked() {
    let mut documents: Vec<PathBuf> = ["docs", "deploy"].into_iter().flat_map(files_below).collect();
    documents.extend(std::fs::read_dir(ROOT).expect("listed").map(|entry| entry.expect("listed").path()));
    documents.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    let read = |path: &Path| std::fs::read_to_string(path).expect("text");
    let (mut broken, mut count) = (Vec::new(), 0);
    for document in &documents {
        let (text, folder) = (read(document), document.parent().expect("a folder"));
        for (path, heading) in links(&text) {
            count += 1;
            let to = if path.is_empty() { document.clone() } else { folder.join(path) };
            let is_there = to.exists()
                && (heading.is_empty() || headings(&read(&to)).iter().any(|name| name == heading));
            if !is_there {
                broken.push(format!("{}: {path}#{heading}", document.display()));
            }
        }
    }
    assert!(count > 200, "{count} links");
    assert!(broken.is_empty(), "{broken:#?}");
    let index = text("docs/README.md");
    let linked: Vec<&str> = links(&index).into_iter().map(|(path, _)| path).collect();
    for page in std::fs::read_dir(Path::new(ROOT).join("docs")).expect("listed") {
        let name = page.expect("listed").file_name().into_string().expect("UTF-8");
        let is_page = name.ends_with(".md") && name != "README.md";
        assert!(!is_page || linked.contains(&name.as_str()), "docs/README.md does not link {name}");
    }
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
fn no_sentence_reads_as_translated() {
    let mut files = ["README.md", "ARCHITECTURE.md"].map(|name| Path::new(ROOT).join(name)).to_vec();
    files.extend(["src", "crates", "docs"].into_iter().flat_map(files_below));
    let is_ours = |path: &PathBuf| !path.starts_with(Path::new(ROOT).join("docs/adr"));
    files.retain(|path| is_ours(path) && path.extension().is_some_and(|end| end == "rs" || end == "md"));
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

/// Name of a function that takes only text or bytes; those with bytes as their result write them.
fn parser(line: &str) -> Option<&str> {
    let (name, arguments) = line.strip_prefix("pub fn ")?.split_once('(')?;
    let name = name.split('<').next()?;
    let first = arguments.split_once(": &")?.1.trim_start_matches("'a ");
    let writes = arguments.contains("-> Vec<u8>");
    ((first.starts_with("str)") || first.starts_with("[u8])")) && !writes).then_some(name)
}

#[test]
fn every_parser_is_fuzzed() {
    let targets = text("fuzz/src/targets.rs");
    let mut found = 0;
    for file in files_below("crates/base/src/parse") {
        let text = std::fs::read_to_string(&file).expect("readable");
        for name in text.lines().filter_map(parser) {
            found += 1;
            let called = targets.contains(&format!("::{name}(")) || targets.contains(&format!("::{name})"));
            assert!(called, "{}: no fuzz target calls {name}", file.display());
        }
    }
    assert!(found > 25, "only {found} parsers were found: does this test still understand the source?");
}
