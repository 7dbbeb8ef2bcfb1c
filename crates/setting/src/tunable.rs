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
    /// Effect on a model; `None` if policies neither set the knob nor read what it changes.
    pub(super) simulation: Option<Simulation>,
}

/// Place of a value outside rxlab, and its form there.
#[derive(Debug, Clone, Copy)]
pub enum Owner {
    /// A key of sysctl(8).
    Sysctl(&'static str, Encoding),
    /// A file below `/`.
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
    Tunable { name, risk, upkeep, owner, simulation: None }
}

impl Tunable {
    const fn simulated(mut self, simulation: Simulation) -> Self {
        self.simulation = Some(simulation);
        self
    }
}

const RSS: &str = "an RSS table is not a single value; set it with `ethtool -X`";
const RULE: &str = "a flow rule is not a single value; set it with `ethtool -N`";
const PROCESS: &str = "processes do not survive a reboot; set CPUAffinity= or AllowedCPUs= in their unit";
const THREAD: &str = "kernel threads are found by process id; set their priority with `chrt` or `renice`";
const HASH_PLACE: &str = "ethtool RSS_GET or ETHTOOL_GRSSH, and ETHTOOL_SRSSH";
const HASH: &str = "no file has it; set it with `ethtool -X`";
const FIELDS_PLACE: &str = "ethtool ETHTOOL_GRXFH and ETHTOOL_SRXFH";
const FIELDS: &str = "no file has it; set it with `ethtool -N NIC rx-flow-hash`";
const LINK: &str = "rtnetlink RTM_GETLINK and RTM_NEWLINK";
const SIZE: &str = "no file has it; set it with `ip link set dev NIC`";
const NAPIS: &str = "netdev napi-get and napi-set";
const NAPI: &str = "a NAPI has no file and no lasting number; `rxlab persist` sets it by its queue";
const QUEUES_PLACE: &str = "ethtool ETHTOOL_PERQUEUE";
const QUEUES: &str = "no file has it; set it with `ethtool -Q`";
const CHANNEL_WORDS: &[(&str, &str)] = &[("rx", "RX"), ("tx", "TX"), ("combined", "Combined")];

/// Every knob, in the order of applying: irqbalance, which moves interrupts; the queues; the device's choice
/// of a queue, where a switch precedes the settings that depend on it (also GRO, without which a veth has no
/// NAPI) and a table precedes the rules that lead to it; polling; the CPUs that take interrupts and then
/// packets (the global flow table before those of the queues); the whole machine; and last the processes.
pub const TUNABLES: [Tunable; 58] = [
    row("irqbalance", Safe, High, Irqbalance).simulated(simulation::irqbalance),
    row("ring_rx", LinkReset, Low, Ethtool(RINGS, "rx", "RX")),
    row("ring_tx", LinkReset, Low, Ethtool(RINGS, "tx", "TX")),
    row("channels", LinkReset, Low, Words(CHANNELS, CHANNEL_WORDS)).simulated(simulation::channels),
    row("rss_key", Safe, Low, Other(HASH_PLACE, HASH)),
    row("rss_fields_tcp4", Safe, Low, Other(FIELDS_PLACE, FIELDS)),
    row("rss_fields_udp4", Safe, Low, Other(FIELDS_PLACE, FIELDS)),
    row("rss_fields_tcp6", Safe, Low, Other(FIELDS_PLACE, FIELDS)),
    row("rss_fields_udp6", Safe, Low, Other(FIELDS_PLACE, FIELDS)),
    row("rss_symmetric", Safe, Low, Other(HASH_PLACE, HASH)),
    row("rss", Safe, Medium, Other("ethtool RSS_GET or ETHTOOL_GRSSH, and ETHTOOL_SRXFHINDIR", RSS))
        .simulated(simulation::rss),
    row("rss_context", Safe, High, Other("ethtool RSS_GET and ETHTOOL_SRSSH", RSS)),
    row("ntuple", LinkReset, Low, Ethtool(FEATURES, "ntuple", "ntuple-filters")),
    row(
        "ntuple_rule",
        Safe,
        High,
        Other("ethtool ETHTOOL_GRXCLSRLALL, ETHTOOL_SRXCLSRLINS and ETHTOOL_SRXCLSRLDEL", RULE),
    ),
    row("adaptive_rx", BriefStall, Low, Ethtool(COALESCE, "adaptive-rx", "Adaptive RX"))
        .simulated(simulation::adaptive_rx),
    row("adaptive_tx", BriefStall, Low, Ethtool(COALESCE, "adaptive-tx", "Adaptive RX:.*TX")),
    row("rx_usecs", Safe, Low, Ethtool(COALESCE, "rx-usecs", "rx-usecs")).simulated(simulation::rx_usecs),
    row("rx_frames", Safe, Low, Ethtool(COALESCE, "rx-frames", "rx-frames")),
    row("tx_usecs", Safe, Low, Ethtool(COALESCE, "tx-usecs", "tx-usecs")),
    row("tx_frames", Safe, Low, Ethtool(COALESCE, "tx-frames", "tx-frames")),
    row("queue_adaptive_rx", BriefStall, Medium, Other(QUEUES_PLACE, QUEUES)),
    row("queue_rx_usecs", Safe, Medium, Other(QUEUES_PLACE, QUEUES)),
    row("queue_rx_frames", Safe, Medium, Other(QUEUES_PLACE, QUEUES)),
    row("gro", Safe, Low, Ethtool(FEATURES, "gro", "generic-receive-offload")),
    row("gro_hw", LinkReset, Low, Ethtool(FEATURES, "rx-gro-hw", "rx-gro-hw")),
    row("lro", LinkReset, Low, Ethtool(FEATURES, "lro", "large-receive-offload")),
    row("rx_checksum", LinkReset, Low, Ethtool(FEATURES, "rx", "rx-checksumming")),
    row("udp_gro_forwarding", Safe, Low, Ethtool(FEATURES, "rx-udp-gro-forwarding", "rx-udp-gro-forwarding")),
    row("gro_max_size", Safe, Low, Other(LINK, SIZE)),
    row("gro_ipv4_max_size", Safe, Low, Other(LINK, SIZE)),
    row("threaded", Safe, High, NicFile("threaded", Switch)),
    row("queue_threaded", Safe, High, Other(NAPIS, NAPI)),
    row("napi_defer_hard_irqs", Safe, Low, NicFile("napi_defer_hard_irqs", Number))
        .simulated(simulation::napi_defer_hard_irqs),
    row("queue_defer_hard_irqs", Safe, Medium, Other(NAPIS, NAPI)),
    row("gro_flush_timeout", Safe, Low, NicFile("gro_flush_timeout", Number))
        .simulated(simulation::gro_flush_timeout),
    row("queue_gro_flush_timeout", Safe, Medium, Other(NAPIS, NAPI)),
    row("irq_suspend_timeout", Safe, Medium, Other(NAPIS, NAPI)),
    row("default_smp_affinity", Safe, Low, HostFile("/proc/irq/default_smp_affinity", Mask)),
    row("irq_affinity", Safe, High, IrqAffinity).simulated(simulation::irq_affinity),
    row("xps_cpus", Safe, Medium, QueueFile(Tx, "xps_cpus", Mask)).simulated(simulation::xps_cpus),
    row("xps_rxqs", Safe, Medium, QueueFile(Tx, "xps_rxqs", Mask)),
    row("rps_default_mask", Safe, Low, Sysctl("net.core.rps_default_mask", Mask)),
    row("rps", Safe, Medium, QueueFile(Rx, "rps_cpus", Mask)).simulated(simulation::rps),
    row("rfs_entries", Safe, Low, Sysctl("net.core.rps_sock_flow_entries", Flows))
        .simulated(simulation::rfs_entries),
    row("rfs", Safe, Medium, QueueFile(Rx, "rps_flow_cnt", Flows)).simulated(simulation::rfs),
    row("netdev_budget", Safe, Low, Sysctl("net.core.netdev_budget", Number)),
    row("netdev_budget_usecs", Safe, Low, Sysctl("net.core.netdev_budget_usecs", Number)),
    row("netdev_max_backlog", Safe, Low, Sysctl("net.core.netdev_max_backlog", Number)),
    row("dev_weight", Safe, Low, Sysctl("net.core.dev_weight", Number)),
    row("flow_limit_cpus", Safe, Low, Sysctl("net.core.flow_limit_cpu_bitmap", Mask)),
    row("gro_normal_batch", Safe, Low, Sysctl("net.core.gro_normal_batch", Number)),
    row("skb_defer_max", Safe, Low, Sysctl("net.core.skb_defer_max", Number)),
    row("busy_poll", Safe, Low, Sysctl("net.core.busy_poll", Number)),
    row("busy_read", Safe, Low, Sysctl("net.core.busy_read", Number)),
    row(
        "clocksource",
        BriefStall,
        Low,
        HostFile("/sys/devices/system/clocksource/clocksource0/current_clocksource", Text),
    )
    .simulated(simulation::clocksource),
    row("affinity", Safe, High, Other("/proc/PID/task/TID/status, CGROUP/cpuset.cpus", PROCESS)),
    row("ksoftirqd_priority", Safe, High, Other("/proc/PID/stat", THREAD)),
    row("napi_priority", Safe, High, Other("/proc/PID/stat", THREAD)),
];

/// The row of a knob; `None` if there is no such knob.
pub fn tunable(knob: &str) -> Option<&'static Tunable> {
    TUNABLES.iter().find(|row| row.name == knob)
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
