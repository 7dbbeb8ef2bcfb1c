//! `rxlab report`: pages hold their records, and wrong input is named.

use std::path::Path;

use serde_json::Value;

use crate::browser::Browser;
use crate::fixtures::captured;
use crate::process::{Ended, rxlab};
use crate::tree::Tree;
use crate::{quiet, require};

/// The findings of a captured machine, in a file.
fn findings(tree: &Tree, name: &str) -> String {
    let doctor = ["doctor", "--json", "--snapshot", &captured("virtio-8cpu-1queue")];
    let found: Value = rxlab(&tree.state(), &doctor).json(1);
    tree.file(name, &found.to_string())
}

/// A trial of a command that prints the same figure in both arms.
pub(super) fn trial(tree: &Tree) {
    let arms = ["--a", "true", "--b", "true", "--command", "echo 100"];
    let quick = ["trial", "run", "--washout", "0s", "--calibration", "0", "--seed=11", "--pairs", "6"];
    tree.rxlab(&[&quick[..], &arms].concat()).exits(0);
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn a_page_gives_back_its_records_and_a_directory_has_each_once() {
    let tree = Tree::new();
    trial(&tree);
    let folder = tree.path().join("kept");
    std::fs::create_dir(&folder).expect("made");
    let found = findings(&tree, "kept/found.json");
    let page = folder.join("page.html");
    tree.rxlab(&["report", &found, "0001-trial", "-o", text(&page)]).says(0, "report: ");
    let asked = tree.rxlab(&["report", &found, "0001-trial", "--json"]).said();
    assert_eq!(tree.rxlab(&["report", text(&page), "--json"]).said(), asked, "to the last digit");
    let all: Value = tree.rxlab(&["report", text(&folder), "--json"]).json(0);
    assert_eq!(all["schema"], "rxlab.report/1");
    let schemas: Vec<&str> =
        all["parts"].as_array().expect("parts").iter().filter_map(|part| part["schema"].as_str()).collect();
    assert_eq!(schemas, ["rxlab.findings/2", "rxlab.trial/3"]);
    let again = tree.path().join("again.html");
    tree.rxlab(&["report", text(&page), "-o", text(&again)]).exits(0);
    let read = |path: &Path| std::fs::read_to_string(path).expect("written");
    assert_eq!(read(&again), read(&page));
    let other = ["report", "0001-trial", "-o", text(&again)];
    tree.rxlab(&other).says(2, "again.html already exists");
    assert_eq!(read(&again), read(&page), "kept");
    tree.rxlab(&[&other[..], &["--force"]].concat()).exits(0);
    assert_ne!(read(&again), read(&page), "replaced");
    let shown = tree.path().join("shown.html");
    tree.rxlab(&["trial", "show", "0001-trial", "--html", text(&shown)]).exits(0);
    let alone = tree.rxlab(&["report", text(&shown), "--json"]).said();
    assert_eq!(alone, tree.rxlab(&["report", "0001-trial", "--json"]).said());
}

#[test]
fn markdown_goes_to_standard_output_or_a_file() {
    let tree = Tree::new();
    trial(&tree);
    let markdown = tree.rxlab(&["report", "0001-trial", "--markdown"]).exits(0);
    assert!(markdown.starts_with("# ") && markdown.contains("\n| Metric | A | B |"), "{markdown}");
    let file = tree.path().join("ticket.md");
    tree.rxlab(&["report", "0001-trial", "--markdown", "-o", text(&file)]).says(0, "report: ");
    assert_eq!(std::fs::read_to_string(&file).expect("written"), markdown);
}

#[test]
fn wrong_input_is_named() {
    let tree = Tree::new();
    tree.rxlab(&["report", "0001-rps"]).says(2, "no trial 0001-rps in ");
    tree.rxlab(&["report", "no/such.json"]).says(2, "cannot read the record no/such.json: No such file");
    let empty = tree.path().join("empty");
    std::fs::create_dir(&empty).expect("made");
    tree.rxlab(&["report", text(&empty)]).says(2, "holds no trial, and no .json or .html file");
    let other = tree.file("other.html", "<p>hello</p>");
    tree.rxlab(&["report", &other]).says(2, "other.html: the page has no rxlab record");
    let checkpoint = serde_json::json!({ "schema": "rxlab.checkpoint/1", "trial": "0007-rps", "taken": "", "drifted": [],
        "values": [], "from_a": null, "from_b": null, "state": "unclear" });
    let late = tree.file("late.json", &checkpoint.to_string());
    tree.rxlab(&["report", &late]).says(2, "a checkpoint belongs to trial 0007-rps, which was not given");
}

/// A page of findings, a trial and a timeline, at the width of a phone and of a screen, in both colour schemes.
#[test]
fn a_page_fits_requests_nothing_and_has_no_barriers() {
    let tree = Tree::new();
    trial(&tree);
    let found = findings(&tree, "found.json");
    let mut records = vec![found.as_str(), "0001-trial"];
    let timeline = tree.path().join("timeline.json");
    if require::bpf() {
        let out = rxlab(&tree.state(), &["trace", "--json", "--for", "500ms"]).output().expect("rxlab runs");
        std::fs::write(&timeline, out.stdout).expect("written");
        records.push(text(&timeline));
    }
    let page = tree.path().join("page.html");
    tree.rxlab(&[&["report", "-o", text(&page)], &records[..]].concat()).exits(0);
    let _noise = quiet::noisy();
    let Some(browser) = Browser::start(1200, 900) else { return };
    let url = format!("file://{}", page.display());
    browser.open(&url);
    browser.value("document.querySelectorAll('details').forEach(one => one.open = true)");
    for width in [400, 1200] {
        browser.look_as(width, 900, false);
        assert!(
            browser.value("document.documentElement.scrollWidth").as_u64() <= Some(width.into()),
            "{width}"
        );
    }
    let requested = browser.requested();
    assert!(requested.iter().all(|address| *address == url || address == "about:blank"), "{requested:?}");
    assert_eq!(browser.errors(), Vec::<Value>::new());
    let Some(axe) = require::axe() else { return };
    assert_eq!(browser.barriers(&axe), [""; 0]);
    let pale = "<p style='color: #ccc; background: #fff'>too pale to read</p>";
    browser.value(&format!("document.querySelector('main').insertAdjacentHTML('beforeend', \"{pale}\")"));
    assert_ne!(browser.barriers(&axe), [""; 0], "it finds one that was planted");
}
