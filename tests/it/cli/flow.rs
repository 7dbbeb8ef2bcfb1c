//! `rxlab flow` on a machine made of plain files: from the driver's answers to the queue.

use rxlab_base::parse::{attribute, one_message};
use rxlab_sys::{EthtoolGet, Query};
use serde_json::{Value, json};

use super::show::complaint;
use crate::process;
use crate::process::Ended;
use crate::tree::Tree;

/// The first of the published values of the hash: 0x51ccc178 with this key, 0x323e8fc2 without ports.
const FLOW: &str = "tcp 161.142.100.80:1766 66.9.149.187:2794";
const KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

fn path(get: EthtoolGet) -> String {
    Query::Ethtool(get, "eth0".parse().expect("a name")).path()
}

/// `eth0` reports its key, its function and a table of four entries, but not the fields that it hashes.
fn tree() -> Tree {
    let tree = Tree::new();
    let table: Vec<u8> = [1u32, 0, 0, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
    let rss = [attribute(3, 1u32.to_ne_bytes()), attribute(4, table), attribute(5, KEY)].concat();
    tree.write(&path(EthtoolGet::Rss), one_message(&rss));
    std::fs::remove_file(tree.root().join(path(EthtoolGet::HashFields))).expect("it was there");
    tree
}

fn flow(tree: &Tree, args: &[&str]) -> Value {
    let out = tree.rxlab(&[&["flow", "--json"], args].concat());
    let value = process::json(&out);
    assert_eq!(complaint("flow.json", &value), None);
    value
}

#[test]
fn the_queue_follows_from_the_driver_s_answers() {
    let tree = tree();
    let assumed = flow(&tree, &[FLOW, "--nic", "eth0"]);
    assert_eq!(assumed["hash"]["among"], json!([0x51cc_c178u32]));
    assert_eq!(assumed["hash"]["certainty"], "assumed", "the fields are not reported");
    assert_eq!((&assumed["entry"]["among"], &assumed["queue"]["among"]), (&json!([0]), &json!([1])));

    let mut rxnfc = vec![0; 192];
    rxnfc[4] = 1;
    rxnfc[8] = 0x30;
    tree.write(&path(EthtoolGet::HashFields), one_message(&rxnfc));
    let path = flow(&tree, &[FLOW, "--nic", "eth0"]);
    assert_eq!(
        (&path["hash"]["among"], &path["hash"]["certainty"]),
        (&json!([0x323e_8fc2u32]), &json!("computed"))
    );
    assert_eq!((&path["entry"]["among"], &path["queue"]["among"]), (&json!([2]), &json!([0])));
    assert_eq!(path["irq"]["among"], json!([24]));
    tree.rxlab(&["flow", FLOW, "--nic", "eth0"])
        .says(0, "\nhash         0x323e8fc2  computed   Toeplitz, key of 40 bytes, addresses\n");

    // The words of a flow need no quotes.
    let words: Vec<&str> = FLOW.split(' ').chain(["--nic", "eth0"]).collect();
    assert_eq!(flow(&tree, &words), path);
}

#[test]
fn a_redacted_snapshot_has_no_key() {
    let tree = tree();
    let file = tree.path().join("flow.tar.zst");
    let file = file.to_str().expect("text");
    for (more, hash, why) in [
        (&["--unredacted"][..], json!([0x51cc_c178u32]), "Toeplitz, key of 40 bytes, addresses and ports"),
        (&[], json!([]), "the key was removed from this snapshot"),
    ] {
        let _ = std::fs::remove_file(file);
        tree.rxlab(&[&["snapshot", "--for", "0s", "-o", file], more].concat()).exits(0);
        let nowhere = tempfile::tempdir().expect("a temporary directory");
        let args = ["flow", "--json", FLOW, "--nic", "eth0", "--snapshot", file];
        let out = process::rxlab(nowhere.path(), &args).output().expect("started");
        let path: Value = process::json(&out);
        assert_eq!((&path["hash"]["among"], &path["hash"]["why"][0]), (&hash, &json!(why)));
    }
}

#[test]
fn invalid_flows_and_interfaces_are_refused() {
    let tree = Tree::new();
    for (args, first) in [
        (&["tcp 10.0.0.1:443"][..], "`tcp 10.0.0.1:443` is not a flow: write 'tcp LOCAL:PORT REMOTE:PORT'"),
        (&[FLOW, "--nic", "eth7"], "no interface `eth7`\n  hint: interfaces here: eth0, veth0"),
        (
            &[FLOW],
            "several interfaces may receive 161.142.100.80:1766\n  hint: choose one with --nic: eth0, veth0",
        ),
        (&["udp 127.0.0.1:1 127.0.0.1:2"], "no interface that is up receives 127.0.0.1:1"),
    ] {
        let text = tree.rxlab(&[&["flow"], args].concat()).exits(2);
        assert!(text.starts_with(&format!("rxlab: {first}")), "{args:?}: {text}");
    }
    tree.write("sys/class/net/veth0/operstate", "down\n");
    assert_eq!(flow(&tree, &[FLOW])["nic"], "eth0", "the only interface that is up");
}
