//! udev's own parser of .link files configures the interface.

use super::exported;
use super::netns::Lab;
use crate::process::Ended;
use crate::require;

/// Exports these settings of `srv0`, and lets udev apply the file with `more` lines. Returns what the export and udev
/// said.
fn applied(lab: &Lab, udevadm: &str, settings: &[&str], more: &str) -> (String, (i32, String)) {
    let link = exported(Some(&lab.netns()), "systemd-link", settings);
    // Its own configuration directory, with nothing else in it.
    let script = "mount -t tmpfs tmpfs /etc/systemd; mkdir /etc/systemd/network
        { cat \"$1\"; echo \"$3\"; } >/etc/systemd/network/10-rxlab-srv0.link
        exec \"$2\" test-builtin net_setup_link /sys/class/net/srv0 2>&1";
    let udev = lab.sh(script, &[&link.file, udevadm, more]).said();
    (link.text, udev)
}

#[test]
fn udev_sets_the_interface_up() {
    let (Some(udevadm), Some(lab)) = (require::udevadm(), Lab::new()) else { return };
    let settings = ["gro srv0 = on", "channels srv0 = rx 2", "rps srv0/rx-0 = 1"];
    let (text, udev) = applied(&lab, &udevadm, &settings, "");
    assert!(text.contains("left out of systemd-link: rps srv0/rx-0 = 1"), "{text}");
    let text = udev.says(0, "ID_NET_LINK_FILE=/etc/systemd/network/10-rxlab-srv0.link");
    assert!(!text.contains("Unknown") && !text.contains("Failed to parse"), "{text}");
    assert_eq!(lab.ethtool("-k", "generic-receive-offload"), "on");
    assert_eq!(lab.ethtool("-l", "RX"), "2");
}

/// Every option that the format has: udev knows each key and accepts each value. Not all are applied: veth has no
/// rings and no coalescing.
#[test]
fn udev_knows_every_option() {
    let (Some(udevadm), Some(lab)) = (require::udevadm(), Lab::new()) else { return };
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
    let (export, (_, text)) = applied(&lab, &udevadm, &settings, "NoSuchOption=1");
    assert_eq!(export.lines().count(), 1, "nothing is left out: {export}");
    let complaints: Vec<&str> = text.lines().filter(|line| line.contains("10-rxlab-srv0.link:")).collect();
    assert!(matches!(complaints[..], [line] if line.contains("'NoSuchOption'")), "{text}");
}
