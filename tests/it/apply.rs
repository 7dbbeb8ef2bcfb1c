//! apply, status and undo as the user sees them, on a machine made of plain files.

use rxlab_change::journal::{Disk, Storage};

use crate::process::{Ended, on_a_terminal, one_line};
use crate::tree::{PCI, Tree};

const RPS: [&str; 3] = ["apply", "--setting", "rps eth0/rx-0 = 2-3"];

#[test]
fn apply_and_undo_restore_the_machine() {
    let tree = Tree::new();
    let original = tree.values();
    let more = ["--setting", "rps eth0/rx-0 = 2-3", "--setting", "rfs_entries host = 4096"];
    let text = tree.rxlab(&[&["apply", "--setting", "rfs eth0/rx-0 = 4096"], &more[..]].concat()).exits(0);
    let order: Vec<_> = ["rps eth0/rx-0 = 2-3  (was off)", "rfs_entries host", "rfs eth0/rx-0"]
        .iter()
        .map(|line| text.find(line).unwrap_or_else(|| panic!("{line} in {text}")))
        .collect();
    assert!(order.is_sorted(), "{text}");
    assert_eq!(tree.rps("eth0", 0), "c");
    tree.rxlab(&["status"]).says(0, "rps eth0/rx-0 = 2-3  (was off)  kept");
    tree.rxlab(&["undo"]).says(0, "rps eth0/rx-0: back to off");
    assert_eq!(tree.values(), original);
    assert_eq!(tree.rxlab(&["undo"]).said(), (0, "nothing to undo\n".into()));
    assert_eq!(tree.rxlab(&["status"]).said(), (0, "nothing is applied\n".into()));
}

#[test]
fn a_plan_for_this_machine_is_applied() {
    let tree = Tree::new();
    let plan = "host = \"treehost\"\n[[setting]]\nset = \"rps eth0/rx-0 = 1\"\n";
    tree.rxlab(&["apply", &tree.file("plan.toml", plan)]).exits(0);
    assert_eq!(tree.rps("eth0", 0), "2");
}

#[test]
fn values_already_set_are_not_written() {
    let tree = Tree::new();
    tree.rxlab(&["apply", "--setting", "rps eth0/rx-0 = off"]).says(0, "already set");
    assert_eq!(tree.values(), Tree::new().values());
    assert!(!tree.state().exists(), "not even a state directory");
}

#[test]
fn one_process_changes_the_machine_at_a_time() {
    let tree = Tree::new();
    let lock = Disk::new(tree.state()).lock().expect("free");
    tree.rxlab(&RPS).says(5, &format!("process {} holds the lock", std::process::id()));
    assert_eq!(tree.rps("eth0", 0), "00");
    drop(lock);
    tree.rxlab(&RPS).exits(0);
}

/// On a terminal it once asked for consent first, and failed after the answer.
#[test]
fn a_held_lock_is_reported_before_the_question() {
    let tree = Tree::new();
    let _lock = Disk::new(tree.state()).lock().expect("free");
    let text = on_a_terminal(&tree.command(&RPS)).exits(5);
    assert!(text.contains("holds the lock") && !text.contains("RISK"), "{text}");
}

#[test]
fn foreign_changes_are_reported_and_kept() {
    let tree = Tree::new();
    tree.rxlab(&[&RPS[..], &["--setting", "rps eth0/rx-1 = 4"]].concat()).exits(0);
    tree.write("sys/class/net/eth0/queues/rx-0/rps_cpus", "20\n");
    tree.rxlab(&["status"]).says(1, "rps eth0/rx-0 = 2-3  (was off)  DRIFTED: it is 5 now");
    tree.rxlab(&["undo"]).says_all(
        4,
        &["rps eth0/rx-0: left alone: it has since been changed to 5", "rps eth0/rx-1: back to off"],
    );
    assert_eq!((tree.rps("eth0", 0), tree.rps("eth0", 1)), ("20".into(), "0".into()));
    assert_eq!(tree.rxlab(&["undo"]).said(), (0, "nothing to undo\n".into()));
}

#[test]
fn a_dry_run_of_undo_lists_what_it_would_restore() {
    let tree = Tree::new();
    tree.rxlab(&[&RPS[..], &["--setting", "rps eth0/rx-1 = 4"]].concat()).exits(0);
    tree.write("sys/class/net/eth0/queues/rx-1/rps_cpus", "20\n");
    let text = tree.rxlab(&["undo", "--dry-run"]).says_all(
        4,
        &[
            "rps eth0/rx-0: would go back to off (rxlab set 2-3)",
            "rps eth0/rx-1: would be left alone: it has since been changed to 5",
        ],
    );
    assert!(text.ends_with("nothing was changed\n"), "{text}");
    assert_eq!(tree.rps("eth0", 0), "c");
    assert_eq!(tree.store().open_ids().expect("listed").len(), 1);
}

#[test]
fn the_history_lists_past_and_present_changes() {
    let tree = Tree::new();
    assert_eq!(tree.rxlab(&["history"]).said(), (0, "no changes or trials yet\n".into()));
    tree.rxlab(&RPS).exits(0);
    tree.rxlab(&["undo"]).exits(0);
    tree.rxlab(&RPS).exits(0);
    let (code, text) = tree.rxlab(&["history"]).said();
    let lines: Vec<&str> = text.lines().collect();
    assert!(code == 0 && lines.len() == 4, "{text}");
    assert!(lines[2].contains(" reverted  apply rps eth0/rx-0 = 2-3"), "{text}");
    assert!(lines[3].contains(" applied   apply rps eth0/rx-0 = 2-3"), "{text}");
    let (_, text) = tree.rxlab(&["--json", "history"]).said();
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let standing = |at: usize| value["transactions"][at]["standing"].as_str();
    assert_eq!([standing(0), standing(1)], [Some("ended"), Some("open")]);
}

#[test]
fn another_boot_is_archived_and_never_replayed() {
    let tree = Tree::new();
    tree.rxlab(&RPS).exits(0);
    tree.write("proc/sys/kernel/random/boot_id", "boot-2\n");
    assert_eq!(tree.rxlab(&["status"]).said(), (0, "nothing is applied\n".into()));
    tree.rxlab(&["undo"]).says_all(0, &["archived 000001-", "nothing to undo"]);
    assert_eq!(tree.rps("eth0", 0), "c", "left alone");
}

#[test]
fn transactions_are_undone_newest_first() {
    let tree = Tree::new();
    for value in ["rps eth0/rx-0 = 1", "rps eth0/rx-0 = 2", "rps eth0/rx-1 = 3"] {
        tree.rxlab(&["apply", "--setting", value]).exits(0);
    }
    tree.rxlab(&["undo", "000001"]).says(4, "changed the same values after 000001");
    tree.rxlab(&["undo", "0"]).says(2, "no open transaction `0`");
    tree.rxlab(&["undo", "--last"]).exits(0);
    assert_eq!((tree.rps("eth0", 0), tree.rps("eth0", 1)), ("4".into(), "0".into()));
    let json: serde_json::Value = tree.rxlab(&["undo", "--json"]).json(0);
    assert_eq!(json["transactions"][0]["outcomes"][0]["outcome"], "restored");
    assert_eq!(json["transactions"][1]["closed"], true);
    assert_eq!(tree.rps("eth0", 0), "0");
}

/// Replaces a text in the journal of the newest open transaction. Returns the transaction.
fn damage(tree: &Tree, from: &str, to: &str) -> String {
    let id = tree.store().open_ids().expect("listed").pop().expect("one");
    let file = tree.state().join(format!("journal/{id}.jsonl"));
    let text = std::fs::read_to_string(&file).expect("readable");
    std::fs::write(&file, text.replace(from, to)).expect("written");
    id
}

/// A single damaged file once blocked undo, status and confirm for every healthy transaction.
#[test]
fn a_damaged_journal_is_passed_over() {
    let tree = Tree::new();
    tree.rxlab(&RPS).exits(0);
    // The intent is damaged, so its target is unknown; a second intent is intact.
    let damaged = damage(&tree, "\"before\":\"off\"", "\"before\":\"1\"");
    let other = ["apply", "--setting", "rps eth0/rx-1 = 1"];
    assert_eq!(tree.rxlab(&other).said().0, 0, "it shares no target");
    tree.rxlab(&["status"]).says_all(1, &["rps eth0/rx-1 = 1", "line 2 is damaged"]);
    let text = tree.rxlab(&["undo"]).says(5, "rps eth0/rx-1: back to off");
    assert!(
        text.contains(&format!("transaction {damaged} cannot be read completely: line 2 is damaged")),
        "{text}"
    );
    assert_eq!(tree.rps("eth0", 1), "0");
    let confirm = [&other[..], &["--confirm", "60s"]].concat();
    tree.rxlab(&confirm).exits(0);
    assert_eq!(tree.rxlab(&["confirm"]).said().0, 0, "a healthy change can be confirmed");
    tree.rxlab(&["reapply"]).says_all(4, &["rps eth0/rx-1 = 1: holds", "line 2 is damaged"]);
    tree.rxlab(&["undo", "--forget", &damaged]).says(0, "is given up");
    tree.rxlab(&["undo"]).exits(0);
    assert_eq!(tree.rxlab(&["status"]).said(), (0, "nothing is applied\n".into()));
}

/// Nothing of the newer of two files can be read, for a while. The older transaction was once closed, as the value was not its own:
/// the value from before both was lost. `reapply` set the older one's value, and `confirm` said that nothing waits.
#[test]
fn nothing_is_done_past_a_journal_that_cannot_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let tree = Tree::new();
    tree.rxlab(&["apply", "--setting", "rps eth0/rx-0 = 1"]).exits(0);
    tree.rxlab(&RPS).exits(0);
    let ids = tree.store().open_ids().expect("listed");
    let file = tree.state().join(format!("journal/{}.jsonl", ids[1]));
    let allow = |mode| {
        let allowed = std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode));
        allowed.expect("ours");
    };
    allow(0o666);
    let waits = format!("transaction {}: waits until {}, which may have changed", ids[0], ids[1]);
    for (args, code) in [(&["undo"][..], 5), (&["undo", "--last"], 5), (&["undo", &ids[0]], 4)] {
        let text = one_line(&tree.rxlab(args).exits(code));
        assert!(text.contains(&waits), "{text}");
    }
    for args in [&["reapply"][..], &["confirm"], &["persist"], &["export", "--to", "sh"]] {
        let text = one_line(&tree.rxlab(args).exits(4));
        assert!(
            text.contains(&format!("transaction {} cannot be read: its mode 666", ids[1])),
            "{args:?}: {text}"
        );
    }
    assert_eq!(tree.rps("eth0", 0), "c");
    allow(0o600);
    tree.rxlab(&["undo"]).exits(0);
    assert_eq!(tree.rps("eth0", 0), "0");
}

/// The target of a damaged transaction must not be changed again: only its file has the original value.
#[test]
fn a_target_of_a_damaged_journal_is_not_touched() {
    let tree = Tree::new();
    tree.rxlab(&RPS).exits(0);
    damage(&tree, "\"complete\"", "\"complexe\"");
    tree.rxlab(&["apply", "--setting", "rps eth0/rx-0 = 1"])
        .says_all(4, &["rps eth0/rx-0: transaction", "is damaged"]);
    assert_eq!(tree.rps("eth0", 0), "c", "as it was");
}

/// The newer of two transactions with one value is damaged, also in the line that names the value. `reapply` once set the older one's
/// value, and undo closed the older one.
#[test]
fn nothing_older_is_done_past_a_damaged_journal() {
    for (from, to) in [("\"complete\"", "\"complexe\""), ("\"before\":\"1\"", "\"before\":\"2\"")] {
        let tree = Tree::new();
        tree.rxlab(&["apply", "--setting", "rps eth0/rx-0 = 1"]).exits(0);
        let older = tree.store().open_ids().expect("listed").remove(0);
        tree.rxlab(&RPS).exits(0);
        let damaged = damage(&tree, from, to);
        let unreadable = format!("transaction {damaged} cannot be read");
        for args in [&["reapply", "--dry-run"][..], &["reapply"], &["export", "--to", "sh"]] {
            tree.rxlab(args).says(4, &unreadable);
        }
        let text = one_line(&tree.rxlab(&["undo"]).exits(5));
        assert!(text.contains(&format!("{older}: waits until {damaged}, which may have changed")), "{text}");
        assert_eq!(tree.rps("eth0", 0), "c");
        damage(&tree, to, from);
        tree.rxlab(&["undo"]).exits(0);
        assert_eq!(tree.rps("eth0", 0), "0");
    }
}

/// Of a change that waits, the line with its value is damaged for a while: another change could begin, and the guard then closed the
/// first one over it.
#[test]
fn nothing_begins_beside_a_damaged_change_that_waits() {
    let tree = Tree::new();
    tree.rxlab(&[&RPS[..], &["--confirm", "60s"]].concat()).exits(0);
    damage(&tree, "\"before\":\"off\"", "\"before\":\"1\"");
    tree.rxlab(&["apply", "--setting", "rps eth0/rx-1 = 1"])
        .says(4, "cannot be read completely: line 2 is damaged");
    tree.rxlab(&["confirm"]).says(4, "cannot be read completely: line 2 is damaged");
    damage(&tree, "\"before\":\"1\"", "\"before\":\"off\"");
    tree.rxlab(&["confirm"]).exits(0);
    tree.rxlab(&["undo"]).exits(0);
}

/// A later version may add kinds of records. They are not damage, and only that version can close the transaction.
#[test]
fn records_of_a_later_version_are_not_damage() {
    use std::io::Write;
    let tree = Tree::new();
    tree.rxlab(&RPS).exits(0);
    let id = tree.store().open_ids().expect("listed").remove(0);
    let path = tree.state().join(format!("journal/{id}.jsonl"));
    let json = "{\"record\":\"of_the_future\",\"what\":7}";
    let mut file = std::fs::OpenOptions::new().append(true).open(path).expect("opened");
    writeln!(file, "{:08x} {json}", crc32fast::hash(json.as_bytes())).expect("written");
    tree.rxlab(&["undo"]).says(5, "a later version of rxlab wrote");
    assert_eq!(tree.rps("eth0", 0), "0", "known records are undone");
    assert_eq!(tree.store().open_ids().expect("listed"), [id]);
}

/// A user who can replace files in the state directory controls what undo writes as root.
#[test]
fn a_state_directory_that_others_can_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let tree = Tree::new();
    let state = tree.state();
    std::fs::create_dir(&state).expect("made");
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o777)).expect("permitted");
    tree.rxlab(&RPS).says(3, "its mode 777 lets other users write to it");
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o755)).expect("permitted");
    if crate::require::root() {
        std::os::unix::fs::chown(&state, Some(65534), None).expect("given away");
        tree.rxlab(&RPS).says(3, "it belongs to user 65534");
    }
    assert_eq!(tree.rps("eth0", 0), "00");
}

#[test]
fn a_planted_lock_is_not_followed() {
    let tree = Tree::new();
    let victim = tree.path().join("victim");
    std::fs::write(&victim, "precious").expect("written");
    std::fs::create_dir(tree.state()).expect("made");
    std::os::unix::fs::symlink(&victim, tree.state().join("lock")).expect("linked");
    tree.rxlab(&RPS).says(5, "cannot take the lock");
    assert_eq!(std::fs::read_to_string(&victim).expect("readable"), "precious");
    assert_eq!(tree.rps("eth0", 0), "00");
}

/// A second interface on a PCI function makes the address of the first one longer. The first was once considered
/// gone.
#[test]
fn a_sibling_changes_no_device() {
    let tree = Tree::new();
    tree.rxlab(&RPS).exits(0);
    let sibling = format!("{PCI}/net/eth0s1");
    tree.write(&format!("{sibling}/queues/rx-0/rps_cpus"), "00\n");
    tree.write(&format!("{sibling}/operstate"), "up\n");
    tree.link("sys/class/net/eth0s1", "../../devices/pci0000:00/0000:00:03.0/net/eth0s1");
    tree.rxlab(&["undo"]).says(0, "rps eth0/rx-0: back to off");
    assert_eq!(tree.rps("eth0", 0), "0");
}
