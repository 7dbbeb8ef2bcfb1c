//! A snapshot gives the same output as its machine: here a machine made of plain files, which does not change; for a
//! running one see `vm/e1000e.rs`.

use std::io::Read;
use std::path::Path;

use crate::process::{Ended, rxlab};
use crate::tree::Tree;

const RPS: [&str; 3] = ["apply", "--setting", "rps eth0/rx-0 = 2-3"];

fn snapshot(tree: &Tree, file: &Path, more: &[&str]) {
    let file = file.to_str().expect("text");
    tree.rxlab(&[&["snapshot", "--for", "0s", "-o", file], more].concat()).exits(0);
}

/// Output of a command on a file, without a root and a state directory.
fn of_file(file: &Path, args: &[&str]) -> (i32, String) {
    let nowhere = tempfile::tempdir().expect("a temporary directory");
    let mut command = rxlab(&nowhere.path().join("state"), args);
    command.arg("--snapshot").arg(file).said()
}

#[test]
fn show_and_status_are_identical_byte_for_byte() {
    let tree = Tree::new();
    tree.rxlab(&RPS).exits(0);
    let file = tree.path().join("tree.tar.zst");
    snapshot(&tree, &file, &["--unredacted"]);
    for args in [&["show", "--json"][..], &["show"], &["show", "--json", "--nic", "eth0"], &["status"]] {
        assert_eq!(of_file(&file, args), tree.rxlab(args).said(), "{args:?}");
    }
    // Later changes of the machine do not change the snapshot.
    let before = of_file(&file, &["status", "--json"]);
    tree.write("sys/class/net/eth0/queues/rx-0/rps_cpus", "01\n");
    assert_eq!(of_file(&file, &["status", "--json"]), before);
    assert_eq!(tree.rxlab(&["status"]).said().0, 1, "drifted by now");
}

#[test]
fn a_redacted_snapshot_has_no_names_and_is_never_overwritten() {
    let tree = Tree::new();
    // A NIC on Hyper-V, whose path contains its MAC address three times; a listener and its peer.
    let guid = "000d3af6-e0a5-000d-3af6-e0a5000d3af6";
    tree.write(&format!("sys/devices/VMBUS:00/{guid}/net/hv0/queues/rx-0/rps_cpus"), "0\n");
    tree.link("sys/class/net/hv0", &format!("../../devices/VMBUS:00/{guid}/net/hv0"));
    let boot = "473d721b-2896-4eb5-a890-2cb48c991713";
    tree.write("proc/sys/kernel/random/boot_id", format!("{boot}\n"));
    let sockets = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
        0: 0700000A:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0 0\n   \
        1: 0700000A:0050 0900000A:D431 01 00000000:00000000 00:00000000 00000000     0        0 12 1 0 0\n";
    tree.write("proc/net/tcp", sockets);
    tree.rxlab(&["apply", "--setting", "rps hv0/rx-0 = 1"]).exits(0);
    let file = tree.path().join("a-case.tar.zst");
    snapshot(&tree, &file, &[]);
    let bytes = zstd::decode_all(std::fs::File::open(&file).expect("written")).expect("zstd");
    let holds = |what: &str| bytes.windows(what.len()).any(|window| window == what.as_bytes());
    assert!(holds("a-case") && holds("VMBUS:00"), "the search itself works");
    let root = tree.root();
    for secret in ["treehost", guid, boot, "0700000A", "0900000A", root.to_str().expect("text")] {
        assert!(!holds(secret), "{secret}");
    }
    of_file(&file, &["status"]).says(0, "rps hv0/rx-0 = 1  (was off)  kept");
    let text = of_file(&file, &["show", "--json"]).exits(0);
    assert!(text.contains("\"hostname\": \"a-case\"") && !text.contains("treehost"), "{text}");
    tree.rxlab(&["snapshot", "--for", "0s", "-o", file.to_str().expect("text")]).says(2, "already exists");
    snapshot(&tree, &file, &["--force"]);
}

#[test]
fn a_file_that_is_not_a_snapshot_is_named() {
    let (code, text) = of_file(Path::new("/etc/hostname"), &["show"]);
    assert!(
        code == 2 && text.starts_with("rxlab: cannot read the snapshot /etc/hostname: not a snapshot"),
        "{text}"
    );
    of_file(Path::new("/"), &["doctor"])
        .says(2, "cannot read the snapshot /: it is a directory; give the file");
    of_file(Path::new("/no/such"), &["doctor"]).says(2, "cannot read the snapshot /no/such: ");
    of_file(Path::new("/etc/hostname"), &["show", "--root", "/tmp"])
        .says(2, "--snapshot cannot be combined with --root or --netns");
}

/// A malicious file of 28 KiB once took a GiB of memory.
#[test]
fn a_decompression_bomb_is_one_clear_line() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let bomb = folder.path().join("bomb.tar.zst");
    let file = std::fs::File::create(&bomb).expect("made");
    let mut tar = tar::Builder::new(zstd::Encoder::new(file, 1).expect("zstd"));
    let mut header = tar::Header::new_gnu();
    let size = 80 << 20;
    header.set_size(size);
    tar.append_data(&mut header, "first/zeros", std::io::repeat(0).take(size)).expect("added");
    tar.into_inner().and_then(zstd::Encoder::finish).expect("written");
    assert!(std::fs::metadata(&bomb).expect("written").len() < 32 << 10);
    let refused = |args: &[&str]| of_file(&bomb, args).exits(2);
    let line = format!(
        "rxlab: cannot read the snapshot {}: it unpacks to more than 64 MiB; --snapshot-limit SIZE raises the limit\n",
        bomb.display()
    );
    for command in ["show", "doctor", "status", "plan"] {
        assert_eq!(refused(&[command]), line);
    }
    assert!(refused(&["show", "--snapshot-limit", "1K"]).contains("more than 1 KiB;"));
    assert!(refused(&["show", "--snapshot-limit", "640M"]).contains("manifest.json is missing"));
    assert!(
        refused(&["show", "--snapshot-limit", "0"]).contains("`0` is not a size (write 512K, 64M or 1G)")
    );
}
