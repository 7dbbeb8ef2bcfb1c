//! Facts about each knob that need no machine: a row for each, in the order of applying.
//!
//! `knob` has a driver and the documentation for each row; plans, exports and rehearsals read the rows.

use serde::{Deserialize, Serialize};

use super::Target;
use super::simulation::{self, Simulation};
use rxlab_base::display_as;
use rxlab_base::units::Direction;
use rxlab_path::drivers;

/// Effect of a write on traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Packets keep flowing; their order within a flow may change once.
    Safe,
    /// Traffic stops for milliseconds.
    BriefStall,
    /// The link goes down and up.
    LinkReset,
}

/// Effort to keep a value right once it is set. A reboot loses them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Upkeep {
    /// It stays as long as the interface does.
    Low,
    /// It disappears with queues that are removed, and has to follow interrupts that move.
    Medium,
    /// Others change it by themselves, or it is right only for what runs on the machine today.
    High,
}

display_as! { Risk:
    Safe => "safe",
    BriefStall => "brief stall",
    LinkReset => "link reset",
}

display_as! { Upkeep:
    Low => "low",
    Medium => "medium",
    High => "high",
}

use Direction::{Rx, Tx};
use Encoding::{Flows, Mask, Number, Switch, Text};
use Owner::{Ethtool, HostFile, IrqAffinity, Irqbalance, NicFile, Other, QueueFile, Sysctl, Words};
use Risk::{BriefStall, LinkReset, Safe};
use Upkeep::{High, Low, Medium};

#[derive(Debug, Clone, Copy)]
pub struct Tunable {
    /// One word that no other knob has.
    pub name: &'static str,
    /// Effect of a write on traffic, for most drivers.
    pub risk: Risk,
    /// Effort to keep a value right.
    pub upkeep: Upkeep,
    /// Place and form of the value.
    pub owner: Owner,
    /// Knobs whose values on the same interface a write may discard, in groups. What setting those again discards is not
    /// repeated: see [`discarded_by`].
    discards: &'static [Names],
    /// Knobs of single queues whose values a write replaces on purpose by its own, which has the same form. Undo sets them
    /// again, applying does not.
    pub replaces: Names,
    /// True if kernel and drivers set no value but that of a new queue or interface: any other one is a user's.
    pub users_only: bool,
    /// Effect on a model; `None` if policies neither set the knob nor read what it changes.
    pub(super) simulation: Option<Simulation>,
}

/// Place of a value outside rxlab, and its form there.
#[derive(Debug, Clone, Copy)]
pub enum Owner {
    Sysctl(&'static str, Encoding),
    HostFile(&'static str, Encoding),
    /// A file in the directory of an interface in sysfs.
    NicFile(&'static str, Encoding),
    /// A file in the directory of a queue in sysfs.
    QueueFile(Direction, &'static str, Encoding),
    /// A number or `on` and `off` of ethtool(8): group, word that sets it, text before it where it is shown.
    Ethtool(EthtoolGroup, &'static str, &'static str),
    /// Numbers with words before them in ethtool(8): each word, and the text before it where it is shown.
    Words(EthtoolGroup, &'static [(&'static str, &'static str)]),
    /// CPUs of the interrupts of a queue or an interface.
    IrqAffinity,
    /// irqbalance over its socket.
    Irqbalance,
    /// Place, and why no export format supports it.
    Other(&'static str, &'static str),
}

/// A group of values of ethtool(8), set with one option and shown with another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EthtoolGroup {
    /// Option that sets, such as `-G`.
    pub set: &'static str,
    /// Option that shows, such as `-g`.
    pub show: &'static str,
    /// Name of its messages in `Documentation/networking/ethtool-netlink.rst`, such as `RINGS`.
    pub messages: &'static str,
}

const RINGS: EthtoolGroup = EthtoolGroup { set: "-G", show: "-g", messages: "RINGS" };
const CHANNELS: EthtoolGroup = EthtoolGroup { set: "-L", show: "-l", messages: "CHANNELS" };
const COALESCE: EthtoolGroup = EthtoolGroup { set: "-C", show: "-c", messages: "COALESCE" };
const FEATURES: EthtoolGroup = EthtoolGroup { set: "-K", show: "-k", messages: "FEATURES" };

/// Form of a value in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Digits; `off` is 0.
    Number,
    /// A number of flows, rounded up to a power of two by the kernel; `off` is 0.
    Flows,
    /// `on` or `off`, in the file 1 or 0.
    Switch,
    /// A list of CPUs or queues, in the file a mask; `off` is the empty one.
    Mask,
    /// The value as written in a setting.
    Text,
}

const fn row(name: &'static str, risk: Risk, upkeep: Upkeep, owner: Owner) -> Tunable {
    Tunable { name, risk, upkeep, owner, discards: &[], replaces: &[], users_only: false, simulation: None }
}

impl Tunable {
    const fn discarding(mut self, discards: &'static [Names]) -> Self {
        self.discards = discards;
        self
    }

    const fn replacing(mut self, replaces: Names) -> Self {
        self.replaces = replaces;
        self
    }

    const fn of_users_only(mut self) -> Self {
        self.users_only = true;
        self
    }

    const fn simulated(mut self, simulation: Simulation) -> Self {
        self.simulation = Some(simulation);
        self
    }
}

type Names = &'static [&'static str];

/// Threads of NAPIs: a new one begins with default CPUs and scheduling (`napi_kthread_create`). Linux ends and creates them
/// with the switch (`netif_set_threaded`, `napi_set_threaded` of net/core/dev.c).
const THREADS: Names = &["napi_affinity", "napi_priority"];

/// Settings of NAPIs that are removed and added again: `netif_napi_add_weight` gives them the values of the interface, or
/// those kept with the queue where the driver uses `netif_napi_add_config`. It clears `threaded` of the whole interface if it
/// gets no thread, as when the process is killed meanwhile. A veth does this with GRO (`veth_set_features`).
const NAPIS: Names = &[
    "threaded",
    "queue_threaded",
    "queue_defer_hard_irqs",
    "queue_gro_flush_timeout",
    "irq_suspend_timeout",
];

/// True for a setting of a single NAPI, by a queue that it polls.
pub fn is_of_napi(knob: &str) -> bool {
    let of_interface = knob == "threaded";
    THREADS.contains(&knob) || (NAPIS.contains(&knob) && !of_interface)
}

/// Settings that a driver may discard with those of NAPIs when it stops its device, or closes and opens its queues:
/// interrupts are requested again without affinity, and XPS is spread again (`ena_update_queue_params`, `bnxt_open_nic`,
/// `mlx5e_safe_switch_params`).
const INTERRUPTS: Names = &["irq_affinity", "xps_cpus", "xps_rxqs"];

/// Settings that queues which are removed or created lose besides. With fewer, Linux drops RPS and RFS of the removed ones
/// with their directories (`netif_set_real_num_rx_queues`) and XPS of those above (`netif_reset_xps_queues_gt`); drivers
/// allocate interrupts, NAPIs and moderation of single queues again. New interrupts are not on irqbalance's list.
const QUEUES: Names = &["irqbalance", "queue_adaptive_rx", "queue_rx_usecs", "queue_rx_frames", "rps", "rfs"];

/// How RSS spreads, which drivers choose again for other queues, and some for rings
/// ([`drivers::Driver::rings_reset_rss`]).
const SPREADING: Names = &["rss_key", "rss"];

/// A device that stops, or closes and opens its queues.
const REOPENED: &[Names] = &[NAPIS, INTERRUPTS];
const OTHER_RINGS: &[Names] = &[NAPIS, INTERRUPTS, SPREADING];

const RSS: &str = "an RSS table is not a single value; set it with `ethtool -X`";
const RULE: &str = "a flow rule is not a single value; set it with `ethtool -N`";
const PROCESS: &str = "processes do not survive a reboot; set CPUAffinity= or AllowedCPUs= in their unit";
const THREAD: &str = "kernel threads are found by process id; set their priority with `chrt` or `renice`";
const THREAD_CPUS: &str = "kernel threads are found by process id; set their CPUs with `taskset`";
const HASH_PLACE: &str = "ethtool RSS_GET or ETHTOOL_GRSSH, and ETHTOOL_SRSSH";
const HASH: &str = "it has no file in /sys; set it with `ethtool -X`";
const FIELDS_PLACE: &str = "ethtool ETHTOOL_GRXFH and ETHTOOL_SRXFH";
const FIELDS: &str = "it has no file in /sys; set it with `ethtool -N NIC rx-flow-hash`";
const LINK: &str = "rtnetlink RTM_GETLINK and RTM_NEWLINK";
const SIZE: &str = "it has no file in /sys; set it with `ip link set dev NIC`";
const NAPIS_PLACE: &str = "netdev napi-get and napi-set";
const NAPI: &str = "a NAPI has no file and no lasting number; `rxlab persist` sets it by its queue";
const QUEUES_PLACE: &str = "ethtool ETHTOOL_PERQUEUE";
const PER_QUEUE: &str = "it has no file in /sys; set it with `ethtool -Q`";
const CHANNEL_WORDS: &[(&str, &str)] = &[("rx", "RX"), ("tx", "TX"), ("combined", "Combined")];

/// Every knob, in the order of applying: irqbalance, which moves interrupts; the queues; the device's choice
/// of a queue, where a switch precedes the settings that depend on it (also GRO, without which a veth has no
/// NAPI) and a table precedes the rules that lead to it; polling; the CPUs that take interrupts and then
/// packets (the global flow table before those of the queues); the whole machine; and last the processes.
pub const TUNABLES: [Tunable; 64] = [
    row("irqbalance", Safe, High, Irqbalance).simulated(simulation::irqbalance),
    row("ring_rx", LinkReset, Low, Ethtool(RINGS, "rx", "RX")).discarding(OTHER_RINGS),
    row("ring_tx", LinkReset, Low, Ethtool(RINGS, "tx", "TX")).discarding(OTHER_RINGS),
    row("channels", LinkReset, Low, Words(CHANNELS, CHANNEL_WORDS))
        .discarding(&[NAPIS, INTERRUPTS, SPREADING, QUEUES])
        .simulated(simulation::channels),
    row("rss_key", Safe, Low, Other(HASH_PLACE, HASH)),
    row("rss_fields_tcp4", Safe, Low, Other(FIELDS_PLACE, FIELDS)),
    row("rss_fields_udp4", Safe, Low, Other(FIELDS_PLACE, FIELDS)),
    row("rss_fields_tcp6", Safe, Low, Other(FIELDS_PLACE, FIELDS)),
    row("rss_fields_udp6", Safe, Low, Other(FIELDS_PLACE, FIELDS)),
    row("rss_symmetric", Safe, Low, Other(HASH_PLACE, HASH)),
    row("rss", Safe, Medium, Other("ethtool RSS_GET or ETHTOOL_GRSSH, and ETHTOOL_SRXFHINDIR", RSS))
        .simulated(simulation::rss),
    row("rss_context", Safe, High, Other("ethtool RSS_GET and ETHTOOL_SRSSH", RSS)),
    // Switching it off removes the rules.
    row("ntuple", LinkReset, Low, Ethtool(FEATURES, "ntuple", "ntuple-filters"))
        .discarding(&[&["ntuple_rule"]]),
    row(
        "ntuple_rule",
        Safe,
        High,
        Other("ethtool ETHTOOL_GRXCLSRLALL, ETHTOOL_SRXCLSRLINS and ETHTOOL_SRXCLSRLDEL", RULE),
    ),
    row("adaptive_rx", BriefStall, Low, Ethtool(COALESCE, "adaptive-rx", "Adaptive RX"))
        .replacing(&["queue_adaptive_rx"])
        .simulated(simulation::adaptive_rx),
    row("adaptive_tx", BriefStall, Low, Ethtool(COALESCE, "adaptive-tx", "Adaptive RX:.*TX")),
    row("rx_usecs", Safe, Low, Ethtool(COALESCE, "rx-usecs", "rx-usecs"))
        .replacing(&["queue_rx_usecs"])
        .simulated(simulation::rx_usecs),
    row("rx_frames", Safe, Low, Ethtool(COALESCE, "rx-frames", "rx-frames")).replacing(&["queue_rx_frames"]),
    row("tx_usecs", Safe, Low, Ethtool(COALESCE, "tx-usecs", "tx-usecs")),
    row("tx_frames", Safe, Low, Ethtool(COALESCE, "tx-frames", "tx-frames")),
    row("queue_adaptive_rx", BriefStall, Medium, Other(QUEUES_PLACE, PER_QUEUE)),
    row("queue_rx_usecs", Safe, Medium, Other(QUEUES_PLACE, PER_QUEUE)),
    row("queue_rx_frames", Safe, Medium, Other(QUEUES_PLACE, PER_QUEUE)),
    row("gro", Safe, Low, Ethtool(FEATURES, "gro", "generic-receive-offload")).discarding(&[NAPIS]),
    row("gro_hw", LinkReset, Low, Ethtool(FEATURES, "rx-gro-hw", "rx-gro-hw")).discarding(REOPENED),
    row("lro", LinkReset, Low, Ethtool(FEATURES, "lro", "large-receive-offload")).discarding(REOPENED),
    row("rx_checksum", LinkReset, Low, Ethtool(FEATURES, "rx", "rx-checksumming")),
    row("udp_gro_forwarding", Safe, Low, Ethtool(FEATURES, "rx-udp-gro-forwarding", "rx-udp-gro-forwarding")),
    // Up to 65536, `netif_set_gro_max_size` sets both.
    row("gro_max_size", Safe, Low, Other(LINK, SIZE)).discarding(&[&["gro_ipv4_max_size"]]),
    row("gro_ipv4_max_size", Safe, Low, Other(LINK, SIZE)),
    row("threaded", Safe, High, NicFile("threaded", Switch))
        .discarding(&[THREADS])
        .replacing(&["queue_threaded"])
        .of_users_only(),
    row("queue_threaded", Safe, High, Other(NAPIS_PLACE, NAPI)).discarding(&[THREADS]),
    row("napi_defer_hard_irqs", Safe, Low, NicFile("napi_defer_hard_irqs", Number))
        .replacing(&["queue_defer_hard_irqs"])
        .simulated(simulation::napi_defer_hard_irqs),
    row("queue_defer_hard_irqs", Safe, Medium, Other(NAPIS_PLACE, NAPI)),
    row("gro_flush_timeout", Safe, Low, NicFile("gro_flush_timeout", Number))
        .replacing(&["queue_gro_flush_timeout"])
        .simulated(simulation::gro_flush_timeout),
    row("queue_gro_flush_timeout", Safe, Medium, Other(NAPIS_PLACE, NAPI)),
    row("irq_suspend_timeout", Safe, Medium, Other(NAPIS_PLACE, NAPI)),
    row("default_smp_affinity", Safe, Low, HostFile("/proc/irq/default_smp_affinity", Mask)),
    row("irq_affinity", Safe, High, IrqAffinity).simulated(simulation::irq_affinity),
    row("xps_cpus", Safe, Medium, QueueFile(Tx, "xps_cpus", Mask)).simulated(simulation::xps_cpus),
    row("xps_rxqs", Safe, Medium, QueueFile(Tx, "xps_rxqs", Mask)),
    row("rps_default_mask", Safe, Low, Sysctl("net.core.rps_default_mask", Mask)),
    row("rps", Safe, Medium, QueueFile(Rx, "rps_cpus", Mask)).of_users_only().simulated(simulation::rps),
    row("rfs_entries", Safe, Low, Sysctl("net.core.rps_sock_flow_entries", Flows))
        .simulated(simulation::rfs_entries),
    row("rfs", Safe, Medium, QueueFile(Rx, "rps_flow_cnt", Flows)).of_users_only().simulated(simulation::rfs),
    row("netdev_budget", Safe, Low, Sysctl("net.core.netdev_budget", Number)),
    row("netdev_budget_usecs", Safe, Low, Sysctl("net.core.netdev_budget_usecs", Number)),
    row("netdev_max_backlog", Safe, Low, Sysctl("net.core.netdev_max_backlog", Number)),
    row("dev_weight", Safe, Low, Sysctl("net.core.dev_weight", Number)),
    row("flow_limit_cpus", Safe, Low, Sysctl("net.core.flow_limit_cpu_bitmap", Mask)),
    row("gro_normal_batch", Safe, Low, Sysctl("net.core.gro_normal_batch", Number)),
    row("skb_defer_max", Safe, Low, Sysctl("net.core.skb_defer_max", Number)),
    row("busy_poll", Safe, Low, Sysctl("net.core.busy_poll", Number)),
    row("busy_read", Safe, Low, Sysctl("net.core.busy_read", Number)),
    row("rmem_default", Safe, Low, Sysctl("net.core.rmem_default", Number)),
    row("rmem_max", Safe, Low, Sysctl("net.core.rmem_max", Number)),
    row("somaxconn", Safe, Low, Sysctl("net.core.somaxconn", Number)),
    row("tcp_max_syn_backlog", Safe, Low, Sysctl("net.ipv4.tcp_max_syn_backlog", Number)),
    row("nf_conntrack_max", Safe, Low, Sysctl("net.netfilter.nf_conntrack_max", Number)),
    row(
        "clocksource",
        BriefStall,
        Low,
        HostFile("/sys/devices/system/clocksource/clocksource0/current_clocksource", Text),
    )
    .simulated(simulation::clocksource),
    row("affinity", Safe, High, Other("/proc/PID/task/TID/status, CGROUP/cpuset.cpus", PROCESS)),
    row("ksoftirqd_priority", Safe, High, Other("/proc/PID/stat", THREAD)),
    row("napi_affinity", Safe, High, Other("/proc/PID/status", THREAD_CPUS)),
    row("napi_priority", Safe, High, Other("/proc/PID/stat", THREAD)),
];

/// The row of a knob; `None` if there is no such knob.
pub fn tunable(knob: &str) -> Option<&'static Tunable> {
    TUNABLES.iter().find(|row| row.name == knob)
}

/// The knob that sets what `name` is elsewhere: a file of sysfs or procfs (`rps_cpus`), a key of sysctl(8), or a word of
/// ethtool(8) (`rx-usecs`). `None` if there is none, or if several would fit.
pub fn known_elsewhere(name: &str) -> Option<&'static Tunable> {
    let is_named = |row: &&Tunable| match row.owner {
        Sysctl(key, _) => key == name || key.rsplit('.').next() == Some(name),
        HostFile(path, _) => path == name || path.rsplit('/').next() == Some(name),
        NicFile(file, _) | QueueFile(_, file, _) => file == name,
        Ethtool(_, word, _) => word == name,
        IrqAffinity => ["smp_affinity", "smp_affinity_list"].contains(&name),
        Words(..) | Irqbalance | Other(..) => false,
    };
    let mut found = TUNABLES.iter().filter(is_named);
    found.next().filter(|_| found.next().is_none())
}

/// Knobs whose values a write of `knob` may discard, also by setting the others again, in the order of setting them again:
/// that of the rows, as the value of a row may depend on earlier ones and discard later ones. Not those that it only
/// replaces.
pub fn discarded_by(knob: &str) -> Vec<&'static str> {
    let discards = |row: &Tunable| row.discards.iter().copied().flatten().copied();
    let mut found: Vec<&'static str> = Vec::new();
    let mut next: Vec<&'static str> = tunable(knob).into_iter().flat_map(discards).collect();
    while let Some(name) = next.pop() {
        if name != knob && !found.contains(&name) {
            found.push(name);
            next.extend(
                tunable(name).into_iter().flat_map(|row| discards(row).chain(row.replaces.iter().copied())),
            );
        }
    }
    found.sort_by_key(|name| apply_order(name));
    found
}

/// False if a write of `knob` on an interface of this driver keeps the values of `other`, which it discards on others.
pub fn may_discard(knob: &str, other: &str, driver: Option<&str>) -> bool {
    let of_rings = ["ring_rx", "ring_tx"].contains(&knob) && SPREADING.contains(&other);
    !of_rings || drivers::facts(driver).rings_reset_rss
}

/// Position of a knob in the order of applying.
pub fn apply_order(knob: &str) -> Option<usize> {
    TUNABLES.iter().position(|row| row.name == knob)
}

/// Risk and upkeep of a setting on an interface of this driver, where the effect of some knobs is greater or
/// smaller than for most.
pub fn risk_and_upkeep(knob: &str, driver: Option<&str>) -> Option<(Risk, Upkeep)> {
    let row = tunable(knob)?;
    let facts = drivers::facts(driver);
    let risk = match knob {
        "channels" if facts.channels.keep_link => BriefStall,
        "rx_usecs" | "tx_usecs" if facts.moderation.resets_link => LinkReset,
        _ => row.risk,
    };
    Some((risk, row.upkeep))
}

impl Owner {
    /// Absolute path of the file that holds the value for `target`; `None` if no file does, or if the target
    /// is of another form.
    pub fn file(&self, target: &Target) -> Option<String> {
        match (self, target) {
            (Sysctl(key, _), Target::Host) => Some(format!("/proc/sys/{}", key.replace('.', "/"))),
            (HostFile(path, _), Target::Host) => Some((*path).to_owned()),
            (NicFile(file, _), Target::Nic(nic)) => Some(format!("/sys/class/net/{nic}/{file}")),
            (QueueFile(direction, file, _), Target::Queue { nic, queue })
                if queue.direction == *direction =>
            {
                Some(format!("/sys/class/net/{nic}/queues/{queue}/{file}"))
            }
            _ => None,
        }
    }

    /// Place of the values of any target, for documentation.
    pub fn place(&self) -> String {
        match self {
            Sysctl(key, _) => format!("/proc/sys/{}", key.replace('.', "/")),
            HostFile(path, _) => (*path).to_owned(),
            NicFile(file, _) => format!("/sys/class/net/NIC/{file}"),
            QueueFile(Rx, file, _) => format!("/sys/class/net/NIC/queues/rx-N/{file}"),
            QueueFile(Tx, file, _) => format!("/sys/class/net/NIC/queues/tx-N/{file}"),
            Ethtool(group, ..) | Words(group, _) => {
                format!("ethtool {messages}_GET and {messages}_SET", messages = group.messages)
            }
            IrqAffinity => "/proc/irq/N/smp_affinity".to_owned(),
            Irqbalance => "/run/irqbalance/irqbalancePID.sock".to_owned(),
            Other(place, _) => (*place).to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{TUNABLES, apply_order, discarded_by, may_discard, tunable};

    /// Setting a value again must not discard one that was set again before.
    #[test]
    fn what_a_write_discards_comes_later_and_is_complete() {
        for row in &TUNABLES {
            let discarded = discarded_by(row.name);
            for name in row.discards.iter().copied().flatten().chain(row.replaces) {
                assert!(tunable(name).is_some(), "{}: {name}", row.name);
            }
            for name in &discarded {
                for next in discarded_by(name).iter().chain(tunable(name).expect("a row").replaces) {
                    assert!(discarded.contains(next), "{} discards {name}, which affects {next}", row.name);
                    assert!(apply_order(next) > apply_order(name), "{next} is set again after {name}");
                }
            }
        }
        assert_eq!(discarded_by("queue_threaded"), ["napi_affinity", "napi_priority"]);
        let gro = discarded_by("gro");
        assert_eq!((gro[0], gro[gro.len() - 1]), ("threaded", "napi_priority"));
        let of_rings = |name: &str, driver| {
            discarded_by("ring_rx").contains(&name) && may_discard("ring_rx", name, Some(driver))
        };
        assert_eq!(["iavf", "bnxt_en"].map(|driver| of_rings("rss", driver)), [true, false]);
        assert_eq!(["iavf", "bnxt_en"].map(|driver| of_rings("xps_cpus", driver)), [true; 2]);
        assert!(discarded_by("rps").is_empty() && discarded_by("threaded") == discarded_by("queue_threaded"));
    }
}
