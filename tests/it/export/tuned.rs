//! TuneD applies the profile and verifies it: a separate daemon on a separate bus, in the namespace.

use super::exported;
use super::netns::Lab;
use crate::process::Ended;
use crate::require;

/// TuneD has fixed directories for profiles and logs, so they are mounted over.
const SCRIPT: &str = r#"
mount -t tmpfs tmpfs /etc/tuned
mount -t tmpfs tmpfs /run
mkdir -p /run/log /run/udev
mount -t tmpfs tmpfs /var/log
mkdir -p /var/log/tuned
printf 'daemon = 1\ndynamic_tuning = 0\n' >/etc/tuned/tuned-main.conf
cp -r "$1" /etc/tuned/rxlab
export DBUS_SYSTEM_BUS_ADDRESS=unix:path=/run/bus
dbus-daemon --session --fork --address="$DBUS_SYSTEM_BUS_ADDRESS"
tuned --profile rxlab --no-socket --log /run/log/tuned.log --pid /run/tuned.pid >/run/out 2>&1 &
verified=1
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    sleep 0.5
    timeout 10 tuned-adm verify && verified=0 && break
done
cat "/sys/class/net/srv0/queues/rx-1/rps_cpus"
ethtool -k srv0 | grep generic-receive-offload
echo 0 >/sys/class/net/srv0/queues/rx-1/rps_cpus
! timeout 10 tuned-adm verify || verified=2
grep -E 'ERROR|verify' /run/log/tuned.log | grep -v polkit
exit $verified
"#;

#[test]
fn tuned_applies_and_verifies_the_profile() {
    require::needs!(program("tuned", "tuned-adm", "--version"));
    let Some(lab) = Lab::new() else { return };
    let profile = exported(Some(&lab.netns()), "tuned", &["rps srv0/rx-1 = 0-1", "gro srv0 = on"]);
    lab.sh(SCRIPT, &[&profile.file]).says(0, "\n3\ngeneric-receive-offload: on\n");
}

/// The plugins know all their options: their own tables are read with their own parser.
#[test]
fn tuned_knows_every_option() {
    require::needs!(netns, program("tuned", "tuned-adm", "--version"));
    let tree = crate::tree::Tree::new();
    let plan = tree.plan(&[
        "ring_rx eth0 = 512",
        "channels eth0 = combined 2 rx 2",
        "adaptive_rx eth0 = off",
        "rx_usecs eth0 = 50",
        "rx_frames eth0 = 8",
        "tx_usecs eth0 = 5",
        "gro eth0 = on",
        "lro eth0 = off",
        "ntuple eth0 = off",
        "rx_checksum eth0 = on",
        "busy_poll host = 50",
    ]);
    let profile = tree.path().join("rxlab");
    tree.rxlab(&["export", "--to", "tuned", &plan, "-o", profile.to_str().expect("text")]).exits(0);
    // Debian's TuneD needs Debian's Python.
    let python = r#"
import sys
from configparser import ConfigParser
from tuned.plugins.plugin_net import NetTuningPlugin as Net
from tuned.profiles.locator import Locator
from tuned.profiles.loader import Loader
from tuned.profiles.factory import Factory
from tuned.profiles.merger import Merger
from tuned.utils.global_config import GlobalConfig
from tuned.profiles.variables import Variables
loader = Loader(Locator([sys.argv[1]]), Factory(), Merger(), GlobalConfig(), Variables())
units = loader.load("rxlab").units
net = units["net_eth0"]
assert (net.type, net.devices) == ("net", "eth0"), net
plugin = Net.__new__(Net)
known = {"ring": Net._get_config_options_ring(), "channels": Net._get_config_options_channels(),
         "coalesce": Net._get_config_options_coalesce()}
for name, value in net.options.items():
    assert name in Net._get_config_options(), name
    parsed = plugin._parse_config_parameters(value, name)
    assert parsed, (name, value)
    assert set(parsed) <= set(known.get(name, parsed)), (name, parsed)
    print(name, parsed)
print(dict(units["sysctl"].options))
"#;
    let mut command = std::process::Command::new("/usr/bin/python3");
    command.args(["-c", python]).arg(tree.path()).says_all(
        0,
        &[
            "ring {'rx': '512'}",
            "{'net.core.busy_poll': '50'}",
            "features {'ntuple': 'off', 'gro': 'on', 'lro': 'off', 'rx': 'on'}",
        ],
    );
}
