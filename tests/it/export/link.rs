//! udev's own parser of .link files configures the interface.

use super::exported;
use super::netns::Lab;
use crate::require;
use crate::tree::{Ended, said};

#[test]
fn udev_sets_the_interface_up() {
    if !require::netns() {
        return;
    }
    let Some(udevadm) = require::udevadm() else { return };
    let lab = Lab::new();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let settings = ["gro srv0 = on", "channels srv0 = rx 2", "rps srv0/rx-0 = 1"];
    let out = exported(folder.path(), Some(&lab.netns()), "systemd-link", &settings);
    out.says(0, "not in systemd-link: rps srv0/rx-0 = 1");
    // Its own configuration directory, with nothing else in it.
    let script = "mount -t tmpfs tmpfs /etc/systemd; mkdir /etc/systemd/network
        cp \"$1\" /etc/systemd/network/10-rxlab-srv0.link
        exec \"$2\" test-builtin net_setup_link /sys/class/net/srv0 2>&1";
    let file = folder.path().join("out");
    let text = lab.sh(script, &[file.to_str().expect("text"), &udevadm]).exits(0);
    assert!(text.contains("ID_NET_LINK_FILE=/etc/systemd/network/10-rxlab-srv0.link"), "{text}");
    assert!(!text.contains("Unknown") && !text.contains("Failed to parse"), "{text}");
    assert_eq!(lab.ethtool("-k", "generic-receive-offload"), "on");
    assert_eq!(lab.ethtool("-l", "RX"), "2");
}

/// Every option that the format has: udev knows each key and accepts each value. Not all are applied: veth has no
/// rings and no coalescing.
#[test]
fn udev_knows_every_option() {
    if !require::netns() {
        return;
    }
    let Some(udevadm) = require::udevadm() else { return };
    let lab = Lab::new();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let settings = [
        "ring_rx srv0 = 512",
        "ring_tx srv0 = 512",
        "channels srv0 = combined 2 tx 2",
        "adaptive_rx srv0 = off",
        "adaptive_tx srv0 = on",
        "rx_usecs srv0 = 50",
        "rx_frames srv0 = 8",
        "tx_usecs srv0 = 50",
        "tx_frames srv0 = 8",
        "lro srv0 = off",
        "rx_checksum srv0 = on",
        "ntuple srv0 = off",
    ];
    let out = exported(folder.path(), Some(&lab.netns()), "systemd-link", &settings);
    assert_eq!((said(&out).0, said(&out).1.lines().count()), (0, 1), "nothing is left out: {}", said(&out).1);
    let script = "mount -t tmpfs tmpfs /etc/systemd; mkdir /etc/systemd/network
        { cat \"$1\"; echo NoSuchOption=1; } >/etc/systemd/network/10-rxlab-srv0.link
        exec \"$2\" test-builtin net_setup_link /sys/class/net/srv0 2>&1";
    let file = folder.path().join("out");
    let (_, text) = said(&lab.sh(script, &[file.to_str().expect("text"), &udevadm]));
    let complaints: Vec<&str> = text.lines().filter(|line| line.contains("10-rxlab-srv0.link:")).collect();
    assert!(matches!(complaints[..], [line] if line.contains("'NoSuchOption'")), "{text}");
}
