//! Stand-ins for names and addresses of a machine and its peers.
//!
//! Everything that `sample` reads is covered: a test of every path recorded on a live machine
//! checks that [`class`] knows it, so that no new source is missed.

mod answers;
mod guids;
mod journal;
mod sockets;
mod standin;

use std::collections::BTreeMap;

use guids::Guids;
use rxlab_base::parse::{IRQBALANCE_VARIABLES, irqbalance_arguments, kernel_argument};
use rxlab_sys::{Cause, RecordedHost, Recording};
use standin::StandIns;

/// The boot id of every redacted machine.
const BOOT_ID: &str = "00000000-0000-4000-8000-000000000001";
/// Replacement for withheld text.
const WITHHELD: &str = "(redacted)";

/// Treatment of the content of a file or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Identifies no one: numbers, CPU lists, names of interfaces, drivers and processes.
    Harmless,
    HostName,
    BootId,
    /// `/proc/net/tcp` and its like: addresses of this machine and its peers.
    Sockets,
    /// `/proc/net/unix`: names, which are paths.
    UnixSockets,
    /// Answers of `SOCK_DIAG_BY_FAMILY`: addresses of this machine.
    SockDiag,
    /// Answers of `RTM_GETLINK`: MAC addresses, tunnel ends, altnames.
    Links,
    /// Arguments of the kernel: only those that name CPUs are kept.
    KernelArguments,
    /// irqbalance's environment and configuration: only the variables that name CPUs are kept.
    IrqbalanceVariables,
    /// Its command line: only what it bans by number is kept.
    IrqbalanceArguments,
    /// Mount points: only control groups are kept.
    Mounts,
    /// RSS tables with the hash key, by netlink and by ioctl.
    Rss,
    RssIoctl,
    /// Flow rules: IP and MAC addresses.
    Rules,
    /// Unknown: left out, rather than disclosed.
    Unknown,
}

/// Replaces names and addresses. The same original always gets the same stand-in.
pub(super) struct Redaction {
    name: String,
    stand_ins: StandIns,
    guids: Guids,
}

impl Redaction {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), stand_ins: StandIns::default(), guids: Guids::default() }
    }

    pub(super) fn machine(&mut self, machine: RecordedHost) -> RecordedHost {
        let (files, rest) = machine.into_parts();
        let mut index = Recording { now_ns: rest.now_ns, ..Recording::default() };
        for (path, target) in &rest.links {
            if !is_descriptor(path) || target.starts_with("socket:") {
                index.links.insert(self.guids.text(path), self.guids.text(target));
            }
        }
        for (path, names) in &rest.lists {
            let names = names.iter().map(|name| self.guids.text(name)).collect();
            index.lists.insert(self.guids.text(path), names);
        }
        for (path, cause) in rest.failures {
            index.failures.insert(self.guids.text(&path), cause);
        }
        let mut kept = BTreeMap::new();
        for (path, content) in files {
            let name = self.guids.text(&path);
            match self.file(&path, content) {
                Some(content) => drop(kept.insert(name, content)),
                // It existed: its absence from the snapshot is not a fact about the machine.
                None => drop(index.failures.insert(name, Cause::Withheld)),
            }
        }
        RecordedHost::from_parts(kept, index)
    }

    /// The journals without names; unparsable ones are left out.
    pub(super) fn journals(&mut self, journals: BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
        let clean = |(id, file): (String, Vec<u8>)| Some((id, journal::redacted(&file, &mut self.guids)?));
        journals.into_iter().filter_map(clean).collect()
    }

    /// The content without names; `None` if none of it may be kept.
    fn file(&mut self, path: &str, content: Vec<u8>) -> Option<Vec<u8>> {
        match class(path) {
            Class::Harmless => Some(self.guids.bytes(&content)),
            Class::HostName => Some(format!("{}\n", self.name).into_bytes()),
            Class::BootId => Some(format!("{BOOT_ID}\n").into_bytes()),
            // Content that cannot be parsed cannot be cleaned either.
            Class::Sockets => sockets::redacted(&content, &mut self.stand_ins),
            Class::UnixSockets => sockets::without_names(&content),
            Class::SockDiag => answers::sock_diag(&content, &mut self.stand_ins),
            Class::Links => answers::links(&content),
            Class::KernelArguments => Some(only_cpu_arguments(&content)),
            Class::IrqbalanceVariables => Some(only_banned_cpus(&content)),
            Class::IrqbalanceArguments => Some(only_bans(&content)),
            Class::Mounts => Some(only_control_groups(&content)),
            Class::Rss => answers::rss(&content),
            Class::RssIoctl => answers::rss_ioctl(&content),
            Class::Rules => answers::rules(&content, &mut self.stand_ins),
            Class::Unknown => None,
        }
    }
}

/// Arguments that name CPUs, without those that name disks, hosts or keys.
fn only_cpu_arguments(cmdline: &[u8]) -> Vec<u8> {
    const KEPT: [&str; 2] = ["rcu_nocbs", "irqaffinity"];
    let text = String::from_utf8_lossy(cmdline);
    let kept = KEPT.iter().filter_map(|name| Some(format!("{name}={}", kernel_argument(&text, name)?)));
    (kept.collect::<Vec<_>>().join(" ") + "\n").into_bytes()
}

/// The lines with irqbalance's variables that name CPUs.
fn only_banned_cpus(lines: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(lines);
    let lines = text.split(['\0', '\n']).map(str::trim);
    let kept = lines.filter(|line| {
        let name = line.strip_prefix("export ").unwrap_or(line).split('=').next();
        name.is_some_and(|name| IRQBALANCE_VARIABLES.contains(&name))
    });
    kept.fold(String::new(), |kept, line| kept + line + "\n").into_bytes()
}

/// irqbalance's command line with what it bans, and without the path of its script.
fn only_bans(command_line: &[u8]) -> Vec<u8> {
    let found = irqbalance_arguments(&String::from_utf8_lossy(command_line));
    let irqs = found.banned_irqs.iter().map(|irq| format!("--banirq={irq}\0"));
    let names = found.banned_names.iter().map(|name| format!("--banmod={name}\0"));
    let script = found.policy_script.iter().map(|_| format!("--policyscript={WITHHELD}\0"));
    let kept: String = irqs.chain(names).chain(script).collect();
    format!("irqbalance\0{kept}").into_bytes()
}

/// The lines of control group file systems.
fn only_control_groups(mountinfo: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(mountinfo);
    let lines = text.lines().filter(|line| line.contains(" - cgroup"));
    lines.fold(String::new(), |kept, line| kept + line + "\n").into_bytes()
}

/// `proc/PID/fd/N`: open files of a process. Only its sockets are needed; names of files
/// are private.
fn is_descriptor(path: &str) -> bool {
    matches!(path.split('/').collect::<Vec<_>>().as_slice(), ["proc", _, "fd", _])
}

/// The first match decides.
fn class(path: &str) -> Class {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["proc", "sys", "kernel", "hostname"] => Class::HostName,
        ["proc", "sys", "kernel", "random", "boot_id"] => Class::BootId,
        ["proc", .., "net", "tcp" | "tcp6" | "udp" | "udp6"] => Class::Sockets,
        ["proc", .., "net", "unix"] => Class::UnixSockets,
        ["proc", .., "net", "softnet_stat" | "dev" | "snmp" | "snmp6" | "netstat"] => Class::Harmless,
        ["proc", "net", "stat", _] => Class::Harmless,
        ["proc", "sys" | "irq" | "pressure", ..] => Class::Harmless,
        ["proc", "stat" | "softirqs" | "interrupts"] => Class::Harmless,
        ["proc", _, "comm" | "schedstat" | "cgroup" | "status" | "stat"] => Class::Harmless,
        ["proc", _, "task", _, "stat" | "schedstat"] => Class::Harmless,
        ["sys", "class", "net", _, "address" | "broadcast" | "phys_port_id" | "phys_switch_id"] => {
            Class::Unknown
        }
        ["sys", "class" | "devices" | "bus" | "fs", ..] => Class::Harmless,
        ["boot", config] if config.starts_with("config-") => Class::Harmless,
        ["proc", "cmdline"] => Class::KernelArguments,
        ["proc", "self", "mountinfo"] => Class::Mounts,
        ["proc", _, "task", _, "children"] => Class::Harmless,
        ["etc", "tuned", _] => Class::Harmless,
        ["etc", "default" | "sysconfig", "irqbalance"] | ["proc", _, "environ"] => Class::IrqbalanceVariables,
        ["proc", _, "cmdline"] => Class::IrqbalanceArguments,
        ["netlink", "netdev", _] => Class::Harmless,
        ["netlink", "ethtool", "rss-get" | "rss-contexts-get", _] => Class::Rss,
        ["netlink", "ethtool", _, _] => Class::Harmless,
        ["ioctl", "ethtool", "grssh", _] => Class::RssIoctl,
        ["ioctl", "ethtool", "grxclsrlall", _] => Class::Rules,
        ["ioctl", "ethtool", _, _] => Class::Harmless,
        ["socket", "irqbalance", _, _] => Class::Harmless,
        ["netlink", "sock_diag", "tcp-listeners" | "tcp6-listeners"] => Class::SockDiag,
        ["netlink", "sock_diag", "tcp-connections" | "tcp6-connections", _] => Class::SockDiag,
        ["netlink", "route", "link-get"] => Class::Links,
        ["netlink", "route", "qdisc-get"] => Class::Harmless,
        ["netlink", "route", "nsid-get", _] => Class::Harmless,
        _ => Class::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::{Class, class, only_banned_cpus, only_bans, only_control_groups, only_cpu_arguments};
    use rxlab_path::sample::{Counters, Inventory, Scope, busiest};
    use rxlab_sys::{LiveHost, Query, RecordingHost};

    /// A source unknown to `class` would be missing from every redacted snapshot.
    #[test]
    fn every_path_that_is_read_has_a_class() {
        let live = LiveHost::open("/".as_ref()).expect("this machine");
        let recording = RecordingHost::new(&live);
        let inventory = Inventory::take(&recording, Scope::All);
        let before = Counters::take(&recording, &inventory);
        let began = std::time::Instant::now();
        while began.elapsed() < std::time::Duration::from_millis(200) {
            std::hint::spin_loop();
        }
        let after = Counters::take(&recording, &inventory);
        let busy = busiest(&recording, &before, &after).known().expect("we see ourselves").clone();
        assert!(busy.iter().any(|busy| busy.pid == std::process::id()), "{busy:?}");
        let (files, _) = recording.finish().into_parts();
        assert!(files.len() > 20);
        let unknown: Vec<&String> = files.keys().filter(|path| class(path) == Class::Unknown).collect();
        assert_eq!(unknown, [""; 0]);
    }

    #[test]
    fn arguments_of_the_kernel_are_cut_down() {
        let kept =
            only_cpu_arguments(b"root=LABEL=\xff ip=192.0.2.1 rcu_nocbs=1-3 luks.key=x irqaffinity=0\n");
        assert_eq!(kept, b"rcu_nocbs=1-3 irqaffinity=0\n");
        assert_eq!(only_cpu_arguments(b"quiet"), b"\n");
    }

    #[test]
    fn a_mount_point_that_is_not_text_hides_no_control_group() {
        let groups = b"33 31 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let disk = b"34 31 0:30 / /media/\xff rw - vfat /dev/sdb1 rw\n";
        assert_eq!(only_control_groups(&[&disk[..], groups].concat()), groups);
    }

    /// An environment has secrets.
    #[test]
    fn of_irqbalance_only_bans_are_kept() {
        let kept = only_banned_cpus(b"TOKEN=x\0IRQBALANCE_BANNED_CPULIST=1-2\0");
        assert_eq!(kept, b"IRQBALANCE_BANNED_CPULIST=1-2\n");
        assert_eq!(
            only_banned_cpus(b"# IRQBALANCE_BANNED_CPUS=1\nexport IRQBALANCE_BANNED_CPUS=2\n"),
            b"export IRQBALANCE_BANNED_CPUS=2\n"
        );
        let kept = only_bans(b"irqbalance\0--pid=/home/x\0-i\x0040\0--policyscript=/home/x/policy\0");
        assert_eq!(kept, b"irqbalance\0--banirq=40\0--policyscript=(redacted)\0");
    }

    /// They are read only if a full thread's listener has an empty queue, or it has other sockets.
    #[test]
    fn what_is_seldom_read_has_a_class() {
        assert_eq!(class("proc/net/unix"), Class::UnixSockets);
        for query in [Query::TcpConnections { port: 80 }, Query::Tcp6Connections { port: 80 }] {
            assert_eq!(class(&query.path()), Class::SockDiag, "{query:?}");
        }
    }
}
