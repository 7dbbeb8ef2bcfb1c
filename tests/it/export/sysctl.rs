//! sysctl(8) reads the file and sets the keys.

use std::process::Command;

use rxlab_sys::{Host, LiveHost};

use super::exported;
use crate::process::Ended;
use crate::{quiet, require};

const KEYS: [(&str, &str, &str); 3] = [
    ("rfs_entries", "proc/sys/net/core/rps_sock_flow_entries", "4096"),
    ("netdev_budget", "proc/sys/net/core/netdev_budget", "301"),
    ("busy_read", "proc/sys/net/core/busy_read", "7"),
];

/// Restores the values however the test ends.
struct Saved(LiveHost, Vec<Vec<u8>>);

impl Drop for Saved {
    fn drop(&mut self) {
        for ((_, path, _), value) in KEYS.iter().zip(&self.1) {
            self.0.write(path, value).expect("put back");
        }
    }
}

#[test]
fn sysctl_sets_the_values_of_the_file() {
    require::needs!(root, program("sysctl", "sysctl", "--version"));
    let _alone = quiet::alone();
    let host = LiveHost::open("/".as_ref()).expect("opened");
    let values = KEYS.map(|(_, path, _)| host.read(path).expect("readable")).to_vec();
    let saved = Saved(host, values);
    let settings = KEYS.map(|(knob, _, value)| format!("{knob} host = {value}"));
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let sysctls = exported(None, "sysctl", &settings);
    Command::new("sysctl").args(["-p", &sysctls.file]).exits(0);
    for (knob, path, value) in KEYS {
        assert_eq!(saved.0.read_text(path).expect("readable").trim(), value, "{knob}");
    }
}
