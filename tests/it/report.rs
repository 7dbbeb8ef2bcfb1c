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

/// A host of the fleet, with the files of its records: what `status` says, and a trial of a command whose figure arm B raises by
/// a part, and which varies by 1 % from slot to slot.
fn host(name: &str, part: f64, folder: &Path) -> Tree {
    let tree = Tree::new();
    tree.write("proc/sys/kernel/hostname", format!("{name}\n"));
    tree.write("proc/sys/kernel/random/boot_id", format!("{name}\n"));
    tree.write("proc/cpuinfo", "model name\t: A CPU\n");
    let factor = tree.file("factor", "1");
    let arm = |factor_of: f64| format!("echo {factor_of} > {factor}");
    // The same figures in every run: the trial would find an effect of chance in one of a hundred others.
    let count = tree.file("count", "0");
    // CPU time has to go on in a slot that other tests make long.
    let stat = tree.root().join("proc/stat");
    let prints = format!(
        "n=$(cat {count}); echo $((n + 1)) > {count}; \
         for cpu in cpu cpu0 cpu1; do echo $cpu $((n + 9)) 0 2 2 0 0 0 0 0 0; done > {}; \
         awk -v n=$n -v f=$(cat {factor}) 'BEGIN {{ print f * (1000 + n * 61 % 101 / 10) }}'",
        stat.display()
    );
    let (a, b) = (arm(1.0), arm(1.0 + part));
    let arms = ["--a", &a, "--b", &b, "--command", &prints, "--pairs", "9", "--seed=11", "--washout", "0s"];
    let (code, said) = tree.rxlab(&[&["trial", "run", "--name", "louder"], &arms[..]].concat()).said();
    assert!([0, 1].contains(&code), "{code}: {said}");
    let keep = |kind: &str, args: &[&str], codes: &[i32]| {
        let (code, text) = tree.rxlab(&[&["--json"], args].concat()).said();
        assert!(codes.contains(&code), "{code}: {text}");
        std::fs::write(folder.join(format!("{name}-{kind}.json")), text).expect("written");
    };
    keep("trial", &["trial", "show", "0001-louder"], &[0]);
    tree.rxlab(&["apply", "--setting", "rps eth0/rx-0 = 2-3"]).exits(0);
    if part < 0.0 {
        tree.write("sys/class/net/eth0/queues/rx-0/rps_cpus", "20\n");
    }
    keep("status", &["status"], &[0, 1]);
    tree
}

#[test]
fn many_hosts_are_one_answer() {
    let tree = Tree::new();
    let folder = tree.path().join("fleet");
    std::fs::create_dir(&folder).expect("made");
    findings(&tree, "fleet/found.json");
    let hosts = [("web1", 0.2), ("web2", 0.21), ("web3", 0.19)].map(|(name, part)| host(name, part, &folder));
    let fleet = ["report", "--fleet", text(&folder)];
    let value: Value = tree.rxlab(&[&fleet[..], &["--json"]].concat()).json(0);
    assert_eq!(
        (&value["schema"], value["pools"].as_array().map(Vec::len)),
        (&"rxlab.fleet/1".into(), Some(3))
    );
    // Each host's commands name a file of its own: three changes, and nothing is pooled.
    assert!(value["pools"][0]["pooled"].as_array().is_some_and(Vec::is_empty), "{value}");
    for (at, name) in ["web1", "web2", "web3"].iter().enumerate() {
        let file = folder.join(format!("{name}-trial.json"));
        let mut record: Value =
            serde_json::from_str(&std::fs::read_to_string(&file).expect("read")).expect("JSON");
        assert_eq!(record["cpu_model"], "A CPU");
        let path = hosts[at].path().display().to_string();
        for arm in ["against", "change"] {
            let line = record[arm][0].as_str().expect("a command").replace(&path, "");
            // Arm B of each host is another one only by what the test chose.
            record[arm][0] = line.replace("1.21", "1.2").replace("1.19", "1.2").into();
        }
        record["workload"] = "a command".into();
        std::fs::write(&file, record.to_string()).expect("written");
    }
    let said = tree.rxlab(&fleet).exits(0);
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    let joined = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "Fleet of 4 hosts",
        "on average over 3 hosts; on 3 the host's own trial shows that it helps",
        "Keep it.",
        "Findings on 1 host",
        "Status of 3 hosts",
    ] {
        assert!(joined.contains(part), "{part}: {said}");
    }
    // The same trial again, under another name, is no other host.
    std::fs::copy(folder.join("web1-trial.json"), folder.join("web1-again.json")).expect("copied");
    assert_eq!(tree.rxlab(&fleet).exits(0), said);
    let page = tree.path().join("fleet.html");
    tree.rxlab(&[&fleet[..], &["-o", text(&page)]].concat()).says(0, "report: ");
    assert_eq!(tree.rxlab(&["report", "--fleet", text(&page)]).exits(0), said, "a page gives back its fleet");
    let markdown = tree.rxlab(&[&fleet[..], &["--markdown"]].concat()).exits(0);
    assert!(
        markdown.starts_with("# Fleet of 4 hosts\n") && markdown.contains("\n| Host | Change "),
        "{markdown}"
    );

    // Harm on one host, and a value that does not hold there.
    host("web4", -0.2, &folder);
    tree.rxlab(&fleet).says_all(1, &["Harm on web4: throughput -", "DRIFTED", "Do not keep it."]);
}

#[test]
fn what_is_no_record_of_a_fleet_is_named() {
    let tree = Tree::new();
    let refused = |name: &str, content: &str, message: &str| {
        let file = tree.file(name, content);
        tree.rxlab(&["report", "--fleet", &file]).says(2, message);
    };
    trial(&tree);
    let (_, record) = tree.rxlab(&["--json", "trial", "show", "0001-trial"]).said();
    refused("cut.json", &record[..record.len() / 2], "cannot read the record ");
    refused("other.json", "a = 1", "it is neither JSON nor a report of rxlab");
    refused("foreign.json", "{}", "it has no `schema` field");
    refused(
        "wrong.json",
        "{ \"schema\": \"rxlab.status/1\" }",
        "it is not a valid `rxlab.status/1`: missing field",
    );
    refused("none.json", "[]", "none of the records is a trial in pairs, or from doctor or status");
    let empty = tree.path().join("empty");
    std::fs::create_dir(&empty).expect("made");
    tree.rxlab(&["report", "--fleet", text(&empty)]).says(2, "holds no trial, and no .json or .html file");
    tree.rxlab(&["report", "--fleet", "0001-trial"]).says(0, "Fewer than 3 hosts can be pooled");
    let evil = record.replace("treehost", "x\\u001b]0;y\\u0007\\u202e");
    let file = tree.file("evil.json", &evil);
    let said = tree.rxlab(&["report", "--fleet", &file]).exits(0);
    assert!(said.contains("x\\u{1b}]0;y\\u{7}") && !said.contains(['\u{1b}', '\u{202e}']), "{said:?}");
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
