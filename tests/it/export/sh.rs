//! The script sets the plan's values on the real kernel.

use std::process::Command;

use super::exported;
use super::netns::Lab;
use crate::process::Ended;
use crate::require;
use crate::tree::Tree;

const PRELUDE: &str = include_str!("../../../crates/setting/src/export/prelude.sh");

const SETTINGS: [&str; 7] = [
    "rps srv0/rx-1 = 0-1",
    "rfs srv0/rx-1 = 3000",
    "xps_cpus srv0/tx-2 = 1",
    "gro srv0 = on",
    "threaded srv0 = on",
    "channels srv0 = rx 3 tx 4",
    "rps srv0/rx-3 = 1",
];

#[test]
fn the_script_sets_the_values_once_and_reports_failures() {
    require::needs!(ethtool);
    let Some(lab) = Lab::new() else { return };
    let script = exported(Some(&lab.netns()), "sh", &SETTINGS);
    let values = || {
        ["queues/rx-1/rps_cpus", "queues/rx-1/rps_flow_cnt", "queues/tx-2/xps_cpus", "threaded"]
            .map(|file| lab.read(file))
            .into_iter()
            .chain([lab.ethtool("-k", "generic-receive-offload"), lab.ethtool("-l", "RX")])
            .collect::<Vec<_>>()
    };
    let before = values();
    lab.sh("RXLAB_CHECK=1 exec sh -eu \"$1\"", &[&script.file])
        .says(0, "rps srv0/rx-1 = 0-1: would change, it is 0\n");
    assert_eq!(values(), before, "a check changes nothing");
    // The fourth queue is removed by the channels, which come first: its line fails, the others do not.
    let text = lab.sh("exec sh -eu \"$1\"", &[&script.file]).exits(1);
    let failures: Vec<&str> = text.lines().filter(|line| !line.ends_with(": set")).collect();
    assert!(matches!(failures[..], [line] if line.starts_with("rps srv0/rx-3 = 1: ")), "{text}");
    assert_eq!(values(), ["3", "4096", "2", "1", "on", "3"]);
    let (_, text) = lab.sh("exec sh -eu \"$1\"", &[&script.file]).said();
    assert_eq!(text.lines().count(), 1, "nothing is set twice: {text}");
}

#[test]
fn a_script_with_nothing_to_change_is_silent() {
    let Some(lab) = Lab::new() else { return };
    let script = exported(Some(&lab.netns()), "sh", &SETTINGS[..5]);
    let text = lab.sh("exec \"$1\"", &[&script.file]).exits(0);
    assert!(text.lines().all(|line| line.ends_with(": set")), "{text}");
    assert_eq!(lab.sh("exec \"$1\"", &[&script.file]).said(), (0, String::new()));
}

/// Every USB host controller has interrupts of one name, and an interface's was once moved together with those of the others.
/// An interrupt without MSI is known by its number.
#[test]
fn only_interrupts_of_the_interface_s_own_function_are_moved() {
    let tree = Tree::new();
    let lines = [" 16: 1  IO-APIC 16-fasteoi  nic", " 17: 1  IO-APIC 17-fasteoi  nic"];
    let msi = [128, 129].map(|irq| format!("{irq}: 1  PCI-MSI {irq}-edge  xhci_hcd"));
    tree.write("proc/interrupts", format!("     CPU0\n{}\n{}\n", msi.join("\n"), lines.join("\n")));
    let bus = "sys/devices/pci0000:00";
    for irq in [16, 17, 128, 129] {
        tree.write(&format!("proc/irq/{irq}/smp_affinity"), "1\n");
    }
    tree.write(&format!("{bus}/0000:00:14.0/msi_irqs/128"), "msi\n");
    tree.write(&format!("{bus}/0000:00:1a.0/msi_irqs/129"), "msi\n");
    tree.write(&format!("{bus}/0000:00:1c.0/msi_irqs/40"), "msi\n");
    tree.write(&format!("{bus}/0000:00:1c.0/0000:01:00.0/irq"), "17\n");
    for (name, device) in [("usb0", "0000:00:14.0/usb2/2-1/2-1:1.0"), ("old0", "0000:00:1c.0/0000:01:00.0")] {
        tree.write(&format!("{bus}/{device}/net/{name}/mtu"), "1500\n");
        tree.link(&format!("{bus}/{device}/net/{name}/device"), "../../.");
        tree.link(&format!("sys/class/net/{name}"), &format!("../../devices/pci0000:00/{device}/net/{name}"));
    }
    let root = tree.root();
    let root = root.to_str().expect("text");
    let script = format!(
        "{PRELUDE}setting=usb\nirq usb0 xhci_hcd 2 2\nsetting=old\nirq old0 nic 2 2\nsetting=gone\nirq old0 xhci_hcd 2 2\n"
    );
    let script = script.replace("/proc/", &format!("{root}/proc/")).replace("/sys/", &format!("{root}/sys/"));
    let mut run = Command::new("sh");
    let (code, text) = run.args(["-euc", script.as_str()]).env("RXLAB_CHECK", "1").said();
    let expected = "usb: would change, it is 1\nold: would change, it is 1\n\
                    gone: old0 has no interrupt xhci_hcd now (is its link up?)\n";
    assert_eq!((code, text.as_str()), (0, expected));
}
