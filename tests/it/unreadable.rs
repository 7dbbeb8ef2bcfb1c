//! Sources that cannot be read: the screen has the reason, and never "none".

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::process::{Ended, one_line};
use crate::tree::Tree;

/// Output of `rxlab` with these arguments, in one line.
fn shown(tree: &Tree, args: &[&str]) -> String {
    one_line(&tree.rxlab(args).exits(0))
}

#[test]
fn interrupts_that_cannot_be_read_are_not_known() {
    let whole = Tree::new();
    assert!(!shown(&whole, &["show"]).contains("broken"));
    let table = whole.read("proc/interrupts");
    let cut = &table[..table.len() - 9];
    for (state, why) in [
        ("empty", "/proc/interrupts is empty: masked, as in a container"),
        ("cut", "/proc/interrupts is cut: its last line has no end"),
        ("a pipe", "/proc/interrupts is masked: not a regular file, as in a container"),
        // Once "no interrupts", so that a change of the number of queues lost their CPUs.
        ("missing", "/proc/interrupts is missing: hidden, as by ProcSubset=pid"),
    ] {
        let tree = Tree::new();
        let path = tree.root().join("proc/interrupts");
        match state {
            "empty" => tree.write("proc/interrupts", ""),
            "cut" => tree.write("proc/interrupts", cut),
            _ => std::fs::remove_file(&path).expect("removed"),
        }
        if state == "a pipe" {
            mknodat(CWD, &path, FileType::Fifo, Mode::RUSR, 0).expect("made");
        }
        let note = format!("[1] interrupts: {why}");
        for view in [&["show"][..], &["show", "--nic", "eth0"], &["show", "--cpu", "0"], &["show", "--tree"]]
        {
            let text = shown(&tree, view);
            assert!(text.contains(&note) && text.contains("broken [1]"), "{view:?}: {text}");
        }
        assert!(shown(&tree, &["show", "--cpu", "0"]).contains("interrupts unknown"));
        let json = shown(&tree, &["show", "--json"]);
        assert!(json.contains(r#""interrupts": { "broken": "#), "{json}");
        let refused = tree.rxlab(&["plan", "--set", "irq_affinity eth0/rx-0 = 4"]);
        refused.says(5, &format!("the interrupts of eth0/rx-0 are unknown: {why}"));
    }
}

#[test]
fn an_interface_whose_name_is_not_text_is_named() {
    let tree = Tree::new();
    let name = OsStr::from_bytes(b"eth\xff7");
    let device = tree.root().join("sys/devices/virtual/net").join(name);
    std::fs::create_dir_all(device.join("queues/rx-0")).expect("created");
    let link = tree.root().join("sys/class/net").join(name);
    std::os::unix::fs::symlink(OsStr::from_bytes(b"../../devices/virtual/net/eth\xff7"), link)
        .expect("linked");
    let text = shown(&tree, &["show"]);
    let expected = r"! interface eth\xff7: its name is not UTF-8, so nothing else can be read";
    assert!(text.contains(expected) && text.contains("veth0"), "{text}");
    assert!(shown(&tree, &["show", "--json"]).contains(r#""eth\\xff7""#));
}
