//! Exported plans, each read by the program they are for.

mod ansible;
mod irqbalance;
mod link;
mod netns;
mod sh;
mod sysctl;
mod tuned;

use std::path::Path;

use crate::process::{Ended, rxlab};
use crate::tree::Tree;

/// A file that `rxlab export` wrote.
struct Exported {
    _folder: tempfile::TempDir,
    file: String,
    /// Output of the program.
    text: String,
}

/// Exports settings for the interfaces of a network namespace.
fn exported(netns: Option<&Path>, form: &str, settings: &[&str]) -> Exported {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (plan, file) = (folder.path().join("plan.toml"), folder.path().join("out"));
    let text: String = settings.iter().map(|setting| format!("[[setting]]\nset = \"{setting}\"\n")).collect();
    std::fs::write(&plan, format!("name = \"test\"\n{text}")).expect("written");
    let mut command = rxlab(folder.path(), &["export", "--to", form]);
    command.arg(&plan).arg("-o").arg(&file);
    if let Some(netns) = netns {
        command.arg("--netns").arg(netns);
    }
    let text = command.exits(0);
    Exported { _folder: folder, file: file.into_os_string().into_string().expect("text"), text }
}

#[test]
fn settings_that_cannot_be_exported_are_reported() {
    let tree = Tree::new();
    let plan = tree.plan(&["rps eth0/rx-0 = 1", "rfs_entries host = 4096"]);
    let export =
        |form: &str, more: &[&str]| tree.rxlab(&[&["export", "--to", form, plan.as_str()], more].concat());
    let out = export("sysctl", &[]);
    let (text, said_too) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && text.contains("\nnet.core.rps_sock_flow_entries = 4096\n"), "{text}");
    assert!(text.contains("# Left out:\n#   rps eth0/rx-0 = 1: not a sysctl;"), "{text}");
    assert!(
        said_too.starts_with("rxlab: left out of sysctl: rps eth0/rx-0 = 1: not a sysctl;"),
        "{said_too}"
    );
    assert_eq!(said_too.lines().count(), 1);
    let (code, text) = export("irqbalance-policy", &[]).said();
    assert!(
        code == 1 && text.ends_with("rxlab: irqbalance-policy cannot express any setting of the plan\n"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 3);
    export("yaml", &[]).says(2, "expected one of sh, sysctl, systemd-link");
    export("sh", &["-o", "/dev/null"]).says(5, "cannot write /dev/null: it is not a regular file");
    // Without a plan: what is applied and confirmed.
    tree.rxlab(&["export", "--to", "sh"]).says(4, "nothing is applied and confirmed");
    tree.rxlab(&["apply", &plan]).exits(0);
    tree.rxlab(&["export", "--to", "sh"]).says(0, "\nfile /sys/class/net/eth0/queues/rx-0/rps_cpus 2 2\n");
}
