//! Configuration of other programs that sets the same values: at boot, when an interface appears, or at the next change
//! of a profile, it takes effect again.
//!
//! Reads only. What a script does cannot be known from its text: that it mentions a value is reported as such.

mod irqbalance;
mod link;
mod mention;
mod tuned;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use rxlab_base::parse::{ConfigurationEntry, configuration_entries, configuration_lines, matches_glob};
use rxlab_base::units::NicName;
use rxlab_path::model::Model;
use rxlab_setting::{Owner, Setting, tunable};
use rxlab_sys::Host;

/// Effect of another owner on a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It sets the value.
    Sets,
    /// It sets the value under conditions that are not visible from here.
    MaySet,
    /// It only mentions the value, as a script does.
    Mentions,
}

/// A line of another program's configuration that sets a value, or may.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OtherOwner {
    pub knob: String,
    pub by: &'static str,
    /// Absolute path of its file.
    pub file: String,
    /// Number of the line, from 1; `None` for a running program.
    pub line: Option<usize>,
    /// The line, or what is known of the program.
    pub text: String,
    /// Its effect on the value.
    pub effect: Effect,
}

impl fmt::Display for OtherOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { knob, by, file, line, text, effect } = self;
        let verb = match effect {
            Effect::Sets => "also sets",
            Effect::MaySet => "may change",
            Effect::Mentions => "mentions",
        };
        match line {
            Some(line) => write!(f, "{file}:{line} ({by}) {verb} {knob}: {text}"),
            None => write!(f, "{by} ({file}) {verb} {knob}: {text}"),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Sysctl,
    Connection,
    Script,
    Ifcfg,
}

/// Directories of one kind of file, of which the first that has a name counts.
struct Source {
    by: &'static str,
    directories: &'static [&'static str],
    prefix: &'static str,
    suffix: &'static str,
    form: Form,
}

const SOURCES: [Source; 7] = [
    Source {
        by: "sysctl.d",
        directories: &["etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d"],
        prefix: "",
        suffix: ".conf",
        form: Form::Sysctl,
    },
    Source {
        by: "udev",
        directories: &["etc/udev/rules.d", "run/udev/rules.d", "usr/lib/udev/rules.d"],
        prefix: "",
        suffix: ".rules",
        form: Form::Script,
    },
    Source {
        by: "NetworkManager",
        directories: &[
            "etc/NetworkManager/system-connections",
            "run/NetworkManager/system-connections",
            "usr/lib/NetworkManager/system-connections",
        ],
        prefix: "",
        suffix: ".nmconnection",
        form: Form::Connection,
    },
    Source {
        by: "NetworkManager dispatcher",
        directories: &["etc/NetworkManager/dispatcher.d", "usr/lib/NetworkManager/dispatcher.d"],
        prefix: "",
        suffix: "",
        form: Form::Script,
    },
    Source {
        by: "ifup",
        directories: &["etc/network/interfaces.d", "etc/network/if-pre-up.d", "etc/network/if-up.d"],
        prefix: "",
        suffix: "",
        form: Form::Script,
    },
    Source {
        by: "ifup",
        directories: &["etc/sysconfig/network-scripts", "etc/sysconfig/network"],
        prefix: "ifcfg-",
        suffix: "",
        form: Form::Ifcfg,
    },
    Source {
        by: "networkd-dispatcher",
        directories: &["etc/networkd-dispatcher/configured.d", "etc/networkd-dispatcher/routable.d"],
        prefix: "",
        suffix: "",
        form: Form::Script,
    },
];

/// Configuration files at fixed paths, each with its program and its form.
const FILES: [(&str, &str, Form); 5] = [
    ("sysctl.d", "etc/sysctl.conf", Form::Sysctl),
    ("ifup", "etc/network/interfaces", Form::Script),
    ("ifup", "sbin/ifup-local", Form::Script),
    ("rc.local", "etc/rc.local", Form::Script),
    ("rc.local", "etc/rc.d/rc.local", Form::Script),
];

/// Keys of nm-settings-keyfile(5), section `[ethtool]`.
const CONNECTION: [(&str, &str); 17] = [
    ("ring_rx", "ring-rx"),
    ("ring_tx", "ring-tx"),
    ("channels", "channels-rx"),
    ("channels", "channels-tx"),
    ("channels", "channels-combined"),
    ("rx_checksum", "feature-rx"),
    ("gro", "feature-gro"),
    ("gro_hw", "feature-rx-gro-hw"),
    ("udp_gro_forwarding", "feature-rx-udp-gro-forwarding"),
    ("lro", "feature-lro"),
    ("ntuple", "feature-ntuple"),
    ("adaptive_rx", "coalesce-adaptive-rx"),
    ("adaptive_tx", "coalesce-adaptive-tx"),
    ("rx_usecs", "coalesce-rx-usecs"),
    ("rx_frames", "coalesce-rx-frames"),
    ("tx_usecs", "coalesce-tx-usecs"),
    ("tx_frames", "coalesce-tx-frames"),
];

/// A value to be set: its knob, and the interface.
type Wanted<'a> = (&'a str, Option<&'a NicName>);

/// Lines of other programs' configuration that set the values of `settings`, by file. Files that cannot be read are left
/// out. Those of `rxlab persist` are our own.
pub fn other_owners(host: &dyn Host, model: &Model, settings: &[Setting]) -> Vec<OtherOwner> {
    let wanted: BTreeSet<Wanted<'_>> =
        settings.iter().map(|setting| (setting.knob.as_str(), setting.target.nic())).collect();
    let wanted: Vec<Wanted<'_>> = wanted.into_iter().collect();
    let mut found = Vec::new();
    for Source { by, directories, prefix, suffix, form } in &SOURCES {
        let files = first_of_each_name(host, directories, prefix, suffix).into_iter();
        for (_, path) in files.filter(|(name, _)| !is_ours(name)) {
            found.extend(of_file(host, by, &path, *form, &wanted));
        }
    }
    for (by, path, form) in FILES {
        found.extend(of_file(host, by, path, form, &wanted));
    }
    found.extend(link::owners(host, model, &wanted));
    found.extend(tuned::owners(host, model, &wanted));
    found.extend(irqbalance::owners(host, model, settings));
    found.extend(bpftune(host, &wanted));
    let mut seen = BTreeSet::new();
    found.retain(|one| seen.insert((one.file.clone(), one.line, one.knob.clone())));
    found
}

/// Files with such names, in the order of their names: of those with one name the first.
fn first_of_each_name(
    host: &dyn Host,
    directories: &[&str],
    prefix: &str,
    suffix: &str,
) -> BTreeMap<String, String> {
    let mut paths = BTreeMap::new();
    for directory in directories {
        for name in host.list(directory).unwrap_or_default() {
            if name.starts_with(prefix) && name.ends_with(suffix) {
                paths.entry(name).or_insert_with_key(|name| format!("{directory}/{name}"));
            }
        }
    }
    paths
}

/// True for a file that rxlab wrote.
fn is_ours(name: &str) -> bool {
    name.contains("rxlab")
}

fn of_file(
    host: &dyn Host,
    by: &'static str,
    path: &str,
    form: Form,
    wanted: &[Wanted<'_>],
) -> Vec<OtherOwner> {
    let Ok(text) = host.read_text(path) else { return Vec::new() };
    let entries = configuration_entries(&text);
    let mut found = Vec::new();
    for &(knob, nic) in wanted {
        if !nic.is_none_or(|nic| is_for_nic(form, path, &entries, nic)) {
            continue;
        }
        if matches!(form, Form::Script | Form::Ifcfg) {
            let lines = configuration_lines(&text).filter(|(_, line)| mention::is_mentioned(line, knob));
            let line = |(line, text): (usize, &str)| (line, text.to_owned());
            found.extend(lines.map(|one| owner(knob, by, path, line(one), Effect::Mentions)));
            continue;
        }
        let is_of = |entry: &&ConfigurationEntry<'_>| match form {
            Form::Sysctl => is_sysctl(entry.key, knob),
            _ => entry.section == "ethtool" && CONNECTION.contains(&(knob, entry.key)),
        };
        let of_knob = entries.iter().filter(is_of);
        found.extend(of_knob.map(|entry| owner(knob, by, path, assignment(entry), Effect::Sets)));
    }
    found
}

/// True unless the file is for interfaces with other names.
fn is_for_nic(form: Form, path: &str, entries: &[ConfigurationEntry<'_>], nic: &NicName) -> bool {
    let value = |section: &str, key: &str| {
        let mut entries = entries.iter().rev();
        entries.find(|entry| entry.section == section && entry.key == key).map(|entry| entry.value)
    };
    match form {
        Form::Sysctl | Form::Script => true,
        Form::Connection => {
            value("connection", "interface-name").is_none_or(|name| matches_glob(name, nic.as_str()))
        }
        Form::Ifcfg => {
            let device = value("", "DEVICE").map(|name| name.trim_matches(['"', '\'']));
            let device = device.or_else(|| path.rsplit_once("ifcfg-").map(|(_, name)| name));
            device.is_none_or(|name| name == nic.as_str())
        }
    }
}

fn owner(
    knob: &str,
    by: &'static str,
    path: &str,
    (line, text): (usize, String),
    effect: Effect,
) -> OtherOwner {
    OtherOwner { knob: knob.to_owned(), by, file: format!("/{path}"), line: Some(line), text, effect }
}

/// Number and text of the line of an entry.
fn assignment(entry: &ConfigurationEntry<'_>) -> (usize, String) {
    (entry.line, format!("{} = {}", entry.key, entry.value))
}

fn is_sysctl(key: &str, knob: &str) -> bool {
    let Some(Owner::Sysctl(own, _)) = tunable(knob).map(|row| row.owner) else { return false };
    key.replace('/', ".") == own
}

/// Knobs that bpftune changes while it runs: net_buffer_tuner.c.
const BPFTUNE: [&str; 4] = ["netdev_budget", "netdev_budget_usecs", "netdev_max_backlog", "flow_limit_cpus"];

/// bpftune, which changes sysctls of the network while it runs.
fn bpftune(host: &dyn Host, wanted: &[Wanted<'_>]) -> Vec<OtherOwner> {
    let knobs: Vec<&str> =
        wanted.iter().map(|(knob, _)| *knob).filter(|knob| BPFTUNE.contains(knob)).collect();
    if knobs.is_empty() {
        return Vec::new();
    }
    let names = host.list("proc").unwrap_or_default();
    let mut pids = names.iter().filter(|name| name.bytes().all(|digit| digit.is_ascii_digit()));
    let is_it = |pid: &&String| {
        host.read_text(&format!("proc/{pid}/comm")).is_ok_and(|name| name.trim() == "bpftune")
    };
    let Some(pid) = pids.find(is_it) else { return Vec::new() };
    let of_knob = |knob| running(knob, "bpftune", pid, "it changes sysctls while it runs");
    knobs.into_iter().map(of_knob).collect()
}

/// A process that changes a knob while it runs.
fn running(knob: &str, by: &'static str, pid: impl fmt::Display, text: &str) -> OtherOwner {
    OtherOwner {
        knob: knob.to_owned(),
        by,
        file: format!("/proc/{pid}"),
        line: None,
        text: text.to_owned(),
        effect: Effect::MaySet,
    }
}

#[cfg(test)]
mod tests {
    use super::other_owners;
    use crate::knob::testbed::model;
    use rxlab_setting::Setting;
    use rxlab_sys::RecordedHost;

    const SETTINGS: [&str; 9] = [
        "netdev_budget host = 600",
        "flow_limit_cpus host = 3",
        "rps eth0/rx-0 = 2",
        "rps eth0/rx-1 = 2",
        "irq_affinity eth0/rx-0 = 1",
        "ring_rx eth0 = 512",
        "rx_usecs eth0 = 50",
        "gro eth0 = on",
        "channels eth0 = combined 2",
    ];

    fn found(host: &RecordedHost) -> Vec<String> {
        let model = model();
        let settings: Vec<Setting> = SETTINGS.iter().map(|text| text.parse().expect("a setting")).collect();
        other_owners(host, &model, &settings).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_kind_of_file_is_named_with_its_line() {
        let host = RecordedHost::new()
            .with("etc/sysctl.d/10-net.conf", "# net\nnet.core.netdev_budget = 500\nnet/core/somaxconn = 9\n")
            .with("usr/lib/sysctl.d/10-net.conf", "net.core.netdev_budget = 1\n")
            .with("etc/sysctl.conf", "net/core/netdev_budget=300\n")
            .with(
                "etc/systemd/network/10-e.link",
                "[Match]\nOriginalName=eth*\n[Link]\nRxBufferSize=max\nIRQAffinityPolicy=spread\n",
            )
            .with("etc/udev/rules.d/60-rps.rules", "ACTION==\"add\", ATTR{queues/rx-0/rps_cpus}=\"f\"\n")
            .with("etc/udev/rules.d/90-rxlab.rules", "rps_cpus\n")
            .with(
                "etc/NetworkManager/system-connections/e.nmconnection",
                "[connection]\ninterface-name=eth0\n[ethtool]\nfeature-gro=false\ncoalesce-rx-usecs=9\n",
            )
            .with(
                "etc/network/if-up.d/tune",
                "#!/bin/sh\nethtool -G \"$IFACE\" rx 4096\n# ethtool -L eth0 combined 8\n",
            )
            .with("etc/rc.local", "echo 2 > /proc/irq/24/smp_affinity_list\n");
        let expected = [
            "/etc/sysctl.d/10-net.conf:2 (sysctl.d) also sets netdev_budget: net.core.netdev_budget = 500",
            "/etc/udev/rules.d/60-rps.rules:1 (udev) mentions rps: ACTION==\"add\", ATTR{queues/rx-0/rps_cpus}=\"f\"",
            "/etc/NetworkManager/system-connections/e.nmconnection:4 (NetworkManager) also sets gro: feature-gro = false",
            "/etc/NetworkManager/system-connections/e.nmconnection:5 (NetworkManager) also sets rx_usecs: coalesce-rx-usecs = 9",
            "/etc/network/if-up.d/tune:2 (ifup) mentions ring_rx: ethtool -G \"$IFACE\" rx 4096",
            "/etc/sysctl.conf:1 (sysctl.d) also sets netdev_budget: net/core/netdev_budget = 300",
            "/etc/rc.local:1 (rc.local) mentions irq_affinity: echo 2 > /proc/irq/24/smp_affinity_list",
            "/etc/systemd/network/10-e.link:5 (systemd .link) also sets irq_affinity: IRQAffinityPolicy = spread",
            "/etc/systemd/network/10-e.link:4 (systemd .link) also sets ring_rx: RxBufferSize = max",
        ];
        assert_eq!(found(&host), expected);
    }

    #[test]
    fn options_of_ifcfg_files_are_for_one_interface() {
        let options = "ETHTOOL_OPTS=\"-G ${DEVICE} rx 4096; -K ${DEVICE} gro off\"\n";
        let host = RecordedHost::new()
            .with("etc/sysconfig/network-scripts/ifcfg-eth0", options)
            .with("etc/sysconfig/network-scripts/ifcfg-eth1", options)
            .with("etc/sysconfig/network-scripts/ifcfg-lan", format!("DEVICE=\"eth0\"\n{options}"))
            .with("etc/sysconfig/network-scripts/ifup-eth", "ethtool -G $DEVICE rx 9\n");
        let lines =
            ["eth0:1", "lan:2"].map(|line| format!("/etc/sysconfig/network-scripts/ifcfg-{line} (ifup)"));
        let mentions = |line: &String| {
            ["gro", "ring_rx"].map(|knob| format!("{line} mentions {knob}: {}", options.trim()))
        };
        assert_eq!(found(&host), lines.iter().flat_map(mentions).collect::<Vec<_>>());
    }

    #[test]
    fn a_running_bpftune() {
        let host = RecordedHost::new().with("proc/7/comm", "bash\n").with("proc/31/comm", "bpftune\n");
        let changes =
            |knob: &str| format!("bpftune (/proc/31) may change {knob}: it changes sysctls while it runs");
        assert_eq!(found(&host), ["flow_limit_cpus", "netdev_budget"].map(changes));
    }
}
