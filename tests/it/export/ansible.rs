//! Ansible reads the playbook, reports what it would change, and changes it.

use super::exported;
use super::netns::Lab;
use crate::process::Ended;
use crate::require;

/// With its own /etc/sysctl.d and home directory.
const PRELUDE: &str = r#"
mount -t tmpfs tmpfs /etc/sysctl.d
mount -t tmpfs tmpfs /mnt
export HOME=/mnt ANSIBLE_LOCALHOST_WARNING=False ANSIBLE_NOCOLOR=1
play() { ansible-playbook -i localhost, -c local -e ansible_become=false "$@"; }
"#;

const RUN: &str = r#"
play --syntax-check "$1"
echo "== check"; play --check "$1"
echo "== values $(cat /sys/class/net/srv0/queues/rx-1/rps_cpus)"
echo "== run"; play "$1"
echo "== values $(cat /sys/class/net/srv0/queues/rx-1/rps_cpus)"
echo "== again"; play "$1"
"#;

#[test]
fn ansible_checks_and_runs_the_playbook() {
    require::needs!(program("ansible", "ansible-playbook", "--version"));
    let Some(lab) = Lab::new() else { return };
    let playbook = exported(Some(&lab.netns()), "ansible", &["rps srv0/rx-1 = 0-1"]);
    let text = lab.sh(&[PRELUDE, RUN].concat(), &[&playbook.file]).exits(0);
    let parts: Vec<&str> = text.split("\n== ").collect();
    let [_, check, nothing, run, values, again] = parts[..] else { panic!("{text}") };
    assert!(check.contains("changed=1") && check.contains("failed=0"), "{check}");
    assert_eq!(nothing.trim_end(), "values 0");
    assert!(run.contains("changed=1") && run.contains("failed=0"), "{run}");
    assert_eq!(values.trim_end(), "values 3");
    assert!(again.contains("changed=0") && again.contains("failed=0"), "{again}");
}

/// Sysctls apply to the whole machine, so this one is set to its current value.
#[test]
fn ansible_keeps_sysctls_for_the_next_boot() {
    require::needs!(root, program("ansible", "ansible-playbook", "--version"));
    let now = std::fs::read_to_string("/proc/sys/net/core/busy_read").expect("readable");
    let playbook = exported(None, "ansible", &[&format!("busy_read host = {}", now.trim())]);
    let mut command = std::process::Command::new("unshare");
    let script = "play --check \"$1\"; ls /etc/sysctl.d; play \"$1\"; cat /etc/sysctl.d/90-rxlab.conf";
    command.args(["--mount", "sh", "-euc", &[PRELUDE, script].concat(), "sh"]).arg(&playbook.file);
    let text = command.exits(0);
    assert_eq!(text.matches("changed=1 ").count(), 2, "{text}");
    assert!(text.ends_with(&format!("\nnet.core.busy_read = {}\n", now.trim())), "{text}");
}
