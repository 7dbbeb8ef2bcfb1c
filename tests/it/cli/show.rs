//! Views of `rxlab show`: valid combinations, refused ones, and JSON that conforms to the published schemas.

use std::path::Path;

use serde_json::Value;

use crate::fixtures::{captured, names};
use crate::process;
use crate::process::Ended;
use crate::tree::Tree;

fn shown(tree: &Tree, args: &[&str]) -> String {
    tree.rxlab(&[&["show"], args].concat()).exits(0)
}

fn json(tree: &Tree, args: &[&str]) -> Value {
    process::json(&tree.rxlab(&[&["show", "--json"], args].concat()))
}

#[test]
fn incompatible_views_are_refused() {
    let tree = Tree::new();
    for args in [&["--cpu", "0", "--nic", "eth0"][..], &["--cpu", "0", "--tree"]] {
        tree.rxlab(&[&["show"], args].concat()).says(2, "cannot be used with");
    }
    let text = tree.rxlab(&["--json", "show", "--tree"]).exits(2);
    assert!(text.starts_with("rxlab: --tree is a drawing"), "{text}");
    let text = shown(&tree, &["--tree", "--nic", "eth0"]);
    assert!(text.starts_with("eth0 ") && !text.contains("veth0"), "{text}");
    let all = shown(&tree, &["--tree"]);
    assert!(all.contains("eth0 ") && all.contains("veth0 "), "{all}");
    assert!(shown(&tree, &["--nic", "veth0"]).starts_with("veth0: "), "one interface");
}

#[test]
fn missing_cpus_are_reported_with_the_existing_ones() {
    let tree = Tree::new();
    for (list, message) in
        [("99", "no CPU 99"), ("0,98-99", "no CPUs 98-99"), ("", "the list of CPUs is empty")]
    {
        let text = tree.rxlab(&["show", "--cpu", list]).exits(2);
        assert!(text.starts_with(&format!("rxlab: {message}")), "{list}: {text}");
        assert!(text.contains("\n  hint: CPUs here: 0-7"), "{list}: {text}");
    }
    tree.rxlab(&["show", "--cpu", "two"]).says(2, "`two` is not a CPU");
    // A present CPU that is offline is shown.
    assert!(shown(&tree, &["--cpu", "7"]).starts_with("CPU 7: offline"), "CPU 7 of the tree is offline");
}

#[test]
fn json_of_one_interface_is_the_model_without_the_others() {
    let tree = Tree::new();
    let (all, one) = (json(&tree, &[]), json(&tree, &["--nic", "veth0"]));
    assert_eq!(one["nics"].as_array().map(Vec::len), Some(1));
    let among = all["nics"].as_array().expect("a list");
    let same = among.iter().find(|nic| nic["name"] == "veth0").expect("there");
    // Only the named interface gets all queries.
    assert_eq!(same["hardware"]["channels"], "not_asked");
    assert_eq!(one["nics"][0]["hardware"]["channels"], "unsupported");
    assert_eq!((&same["rx"], &same["stack"]), (&one["nics"][0]["rx"], &one["nics"][0]["stack"]));
    assert_eq!(all["cpus"], one["cpus"]);
    let ids: Vec<u64> = json(&tree, &["--cpu", "3,1"])["cpus"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|view| view["cpu"]["id"].as_u64().expect("a number"))
        .collect();
    assert_eq!(ids, [1, 3]);
}

/// First violation of the published schema `file` by a value.
pub(crate) fn complaint(file: &str, value: &Value) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema").join(file);
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    let index = compiler.compile(path.to_str().expect("text"), &mut schemas).expect("a valid schema");
    schemas.validate(value, index).err().map(|error| error.to_string())
}

#[test]
fn json_conforms_to_the_published_schemas() {
    let tree = Tree::new();
    let live = |args: &[&str]| -> Value {
        process::json(&process::rxlab(&tree.state(), args).output().expect("rxlab runs"))
    };
    let mut models = vec![json(&tree, &[]), json(&tree, &["--nic", "eth0"]), live(&["show", "--json"])];
    models.extend(names().iter().map(|name| live(&["show", "--json", "--snapshot", &captured(name)])));
    for model in &models {
        assert_eq!(complaint("model.json", model), None);
    }
    assert_eq!(complaint("cpus.json", &json(&tree, &["--cpu", "0-7"])), None);
    assert_eq!(complaint("cpus.json", &live(&["show", "--json", "--cpu", "0"])), None);
    assert_eq!(complaint("findings.json", &live(&["doctor", "--json", "--for", "100ms"])), None);

    let mut model = models.remove(0);
    model["cpus"][0]["online"] = "yes".into();
    assert!(complaint("model.json", &model).is_some(), "the check itself is broken");
}
