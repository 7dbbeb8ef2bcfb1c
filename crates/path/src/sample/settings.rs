//! Kernel settings that decide what a plan may do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::power::{self, IdleState};
use super::{cpuset, identity, read};
use rxlab_base::parse::kernel_argument;
use rxlab_base::units::{CpuMask, Fact, MaskError};
use rxlab_sys::Host;

/// `/sys/devices/system/clocksource/clocksource0`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Clocksource {
    /// In use.
    pub current: String,
    /// Available.
    pub available: Vec<String>,
}

/// Settings of the whole machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settings {
    /// `net.core.netdev_budget`: packets of one `net_rx_action`.
    pub netdev_budget: Fact<u32>,
    /// `net.core.netdev_budget_usecs`: microseconds of one `net_rx_action`.
    pub netdev_budget_usecs: Fact<u32>,
    /// `net.core.netdev_max_backlog`: packets that wait on one CPU.
    pub netdev_max_backlog: Fact<u32>,
    /// `net.core.dev_weight`: packets of one turn of a backlog.
    #[serde(default)]
    pub dev_weight: Fact<u32>,
    /// `net.core.gro_normal_batch`: segments that GRO hands on together.
    #[serde(default)]
    pub gro_normal_batch: Fact<u32>,
    /// `net.core.skb_defer_max`: packets that wait to be freed on the CPU that allocated them. Since 6.0.
    #[serde(default)]
    pub skb_defer_max: Fact<u32>,
    /// `net.core.flow_limit_cpu_bitmap`: CPUs whose backlog limits large flows; empty = none.
    #[serde(default)]
    pub flow_limit_cpus: Fact<CpuMask>,
    /// `/proc/irq/default_smp_affinity`: CPUs of new interrupts.
    #[serde(default)]
    pub default_smp_affinity: Fact<CpuMask>,
    /// `net.core.busy_poll`, microseconds; 0 = off.
    pub busy_poll: Fact<u32>,
    /// `net.core.busy_read`, microseconds; 0 = off.
    pub busy_read: Fact<u32>,
    /// `net.core.rps_default_mask`: CPUs that RPS uses on queues of new interfaces; empty = none. Since 6.3,
    /// for each network namespace.
    #[serde(default)]
    pub rps_default_mask: Fact<CpuMask>,
    /// `net.core.rmem_default`: bytes of the receive buffer of a new socket, other than TCP.
    #[serde(default)]
    pub rmem_default: Fact<u32>,
    /// `net.core.rmem_max`: most bytes that a program may ask for with SO_RCVBUF.
    #[serde(default)]
    pub rmem_max: Fact<u32>,
    /// `net.core.somaxconn`: most connections that may wait to be accepted on one socket. For each network namespace.
    #[serde(default)]
    pub somaxconn: Fact<u32>,
    /// `net.ipv4.tcp_max_syn_backlog`: most requests that may wait on one socket for the end of their handshake without
    /// SYN cookies. For each network namespace.
    #[serde(default)]
    pub tcp_max_syn_backlog: Fact<u32>,
    /// `net.netfilter.nf_conntrack_max`: most connections that are tracked; missing if none are.
    #[serde(default)]
    pub nf_conntrack_max: Fact<u32>,
    /// The clocksource.
    pub clocksource: Fact<Clocksource>,
    /// True if softirq time is exact (`CONFIG_IRQ_TIME_ACCOUNTING`), false if tick-sampled.
    pub exact_softirq_time: Fact<bool>,
    /// CPUs of `nohz_full`, which should have no tick; empty = none.
    pub nohz_full: Fact<CpuMask>,
    /// CPUs that the root control group may use; fewer than online = the others belong to a partition.
    /// The root as seen by this process: in a container, the container's.
    pub cpuset: Fact<CpuMask>,
    /// CPUs of isolated partitions (`cpuset.cpus.isolated`, since 6.7); empty = none.
    pub cpuset_isolated: Fact<CpuMask>,
    /// CPUs of exclusive cpusets of control groups version 1 (`cpuset.cpu_exclusive`), other than the group of the first
    /// process; empty = none.
    #[serde(default)]
    pub cpuset_exclusive: Fact<CpuMask>,
    /// CPUs whose RCU callbacks run in threads, which may be elsewhere: `rcu_nocbs=` at boot; empty = none named.
    #[serde(default)]
    pub rcu_nocbs: Fact<CpuMask>,
    /// CPUs of interrupts at boot: `irqaffinity=`; empty = none named.
    #[serde(default)]
    pub irqaffinity: Fact<CpuMask>,
    /// CPUs of unbound kernel work: `/sys/devices/virtual/workqueue/cpumask`.
    #[serde(default)]
    pub workqueue_cpus: Fact<CpuMask>,
    /// CPUs by cpufreq governor.
    #[serde(default)]
    pub governors: Fact<BTreeMap<String, CpuMask>>,
    /// Idle states of the first CPU, shallowest first.
    #[serde(default)]
    pub idle_states: Fact<Vec<IdleState>>,
    /// The active profile of tuned, empty if none is; `Unsupported` if tuned is not installed.
    pub tuned_profile: Fact<String>,
}

pub(super) fn take(host: &dyn Host) -> Settings {
    let core = |name: &str| read::number(host, &format!("proc/sys/net/core/{name}"));
    let cpuset = cpuset::take(host);
    Settings {
        netdev_budget: core("netdev_budget"),
        netdev_budget_usecs: core("netdev_budget_usecs"),
        netdev_max_backlog: core("netdev_max_backlog"),
        dev_weight: core("dev_weight"),
        gro_normal_batch: core("gro_normal_batch"),
        skb_defer_max: core("skb_defer_max"),
        flow_limit_cpus: read::cpu_mask(host, "proc/sys/net/core/flow_limit_cpu_bitmap"),
        default_smp_affinity: read::cpu_mask(host, "proc/irq/default_smp_affinity"),
        busy_poll: core("busy_poll"),
        busy_read: core("busy_read"),
        rps_default_mask: read::cpu_mask(host, "proc/sys/net/core/rps_default_mask"),
        rmem_default: core("rmem_default"),
        rmem_max: core("rmem_max"),
        somaxconn: core("somaxconn"),
        tcp_max_syn_backlog: read::number(host, "proc/sys/net/ipv4/tcp_max_syn_backlog"),
        nf_conntrack_max: read::number(host, "proc/sys/net/netfilter/nf_conntrack_max"),
        clocksource: clocksource(host),
        exact_softirq_time: identity::exact_softirq_time(host),
        nohz_full: read::parsed(host, "sys/devices/system/cpu/nohz_full", nohz_full),
        cpuset: cpuset.effective,
        cpuset_isolated: cpuset.isolated,
        cpuset_exclusive: cpuset.exclusive,
        rcu_nocbs: boot_cpus(host, "rcu_nocbs"),
        irqaffinity: boot_cpus(host, "irqaffinity"),
        workqueue_cpus: read::cpu_mask(host, "sys/devices/virtual/workqueue/cpumask"),
        governors: power::governors(host),
        idle_states: power::idle_states(host),
        tuned_profile: tuned_profile(host),
    }
}

/// CPUs of a kernel argument; `all` is every CPU, and `N` the last.
fn boot_cpus(host: &dyn Host, argument: &str) -> Fact<CpuMask> {
    let value = read::text(host, "proc/cmdline").map(|text| kernel_argument(&text, argument));
    value.and_then(|value| {
        let Some(value) = value else { return Fact::Known(CpuMask::new()) };
        let broken = || Fact::Broken(format!("proc/cmdline: `{argument}={value}` is not a CPU list"));
        if !value.contains('N') && value != "all" {
            return value.parse().map_or_else(|_| broken(), Fact::Known);
        }
        let possible = read::cpu_list(host, "sys/devices/system/cpu/possible");
        possible.and_then(|possible| match possible.iter().last() {
            _ if value == "all" => Fact::Known(possible),
            Some(last) => {
                value.replace('N', &last.to_string()).parse().map_or_else(|_| broken(), Fact::Known)
            }
            None => broken(),
        })
    })
}

/// TuneD leaves an empty file if no profile is active.
fn tuned_profile(host: &dyn Host) -> Fact<String> {
    match read::text(host, "etc/tuned/active_profile").map(|text| text.trim().to_owned()) {
        Fact::Known(name) if name.is_empty() => Fact::Unsupported,
        fact => fact,
    }
}

/// Without the boot option the kernel prints a bogus mask.
fn nohz_full(text: &str) -> Result<CpuMask, MaskError> {
    if text.trim() == "(null)" { Ok(CpuMask::new()) } else { text.parse() }
}

fn clocksource(host: &dyn Host) -> Fact<Clocksource> {
    let text = |name: &str| {
        let path = format!("sys/devices/system/clocksource/clocksource0/{name}_clocksource");
        read::text(host, &path).map(|text| text.trim().to_owned())
    };
    let words = |list: String| list.split_whitespace().map(str::to_owned).collect();
    text("current")
        .and_then(|current| text("available").map(|list| Clocksource { current, available: words(list) }))
}

#[cfg(test)]
mod tests {
    use super::{Clocksource, nohz_full, take};
    use rxlab_base::units::{CpuMask, Fact};
    use rxlab_sys::RecordedHost;

    #[test]
    fn no_mask_is_no_cpu() {
        assert_eq!(nohz_full("(null)\n"), Ok(CpuMask::new()));
        assert_eq!(nohz_full("\n"), Ok(CpuMask::new()));
        assert_eq!(nohz_full("1-3\n"), "1-3".parse());
        assert!(nohz_full("null\n").is_err());
    }

    #[test]
    fn values_and_their_absence() {
        let source = "sys/devices/system/clocksource/clocksource0";
        let host = RecordedHost::new()
            .with("proc/sys/net/core/netdev_budget", "300\n")
            .with("proc/sys/net/core/busy_poll", "x\n")
            .with("proc/sys/net/core/rps_default_mask", "0c\n")
            .with(&format!("{source}/current_clocksource"), "tsc\n")
            .with(&format!("{source}/available_clocksource"), "tsc hpet acpi_pm \n")
            .with("etc/tuned/active_profile", "network-latency\n");
        let settings = take(&host);
        assert_eq!(settings.netdev_budget, Fact::Known(300));
        assert_eq!(settings.netdev_budget_usecs, Fact::Unsupported);
        assert!(matches!(settings.busy_poll, Fact::Broken(_)));
        assert_eq!(settings.rps_default_mask, Fact::Known("2-3".parse().expect("a list")));
        let available = ["tsc", "hpet", "acpi_pm"].map(str::to_owned).to_vec();
        assert_eq!(settings.clocksource, Fact::Known(Clocksource { current: "tsc".to_owned(), available }));
        assert_eq!(settings.tuned_profile, Fact::Known("network-latency".to_owned()));
        assert_eq!(settings.nohz_full, Fact::Unsupported);
    }

    #[test]
    fn arguments_of_the_boot() {
        let host = |arguments: &str| {
            RecordedHost::new()
                .with("proc/cmdline", format!("{arguments}\n"))
                .with("sys/devices/system/cpu/possible", "0-3\n")
                .with("sys/devices/virtual/workqueue/cpumask", "3\n")
        };
        let cpus = |list: &str| Fact::Known(list.parse::<CpuMask>().expect("a list"));
        let settings = take(&host("quiet irqaffinity=0-1 rcu_nocbs=all"));
        assert_eq!(settings.irqaffinity, cpus("0-1"));
        assert_eq!(settings.rcu_nocbs, cpus("0-3"));
        assert_eq!(settings.workqueue_cpus, cpus("0-1"));
        assert_eq!(take(&host("rcu_nocbs=2-N")).rcu_nocbs, cpus("2-3"));
        let none = take(&host("irqaffinity=x"));
        assert!(matches!(none.irqaffinity, Fact::Broken(why) if why.contains("`irqaffinity=x`")));
        assert_eq!(none.rcu_nocbs, Fact::Known(CpuMask::new()));
        assert_eq!(take(&RecordedHost::new()).rcu_nocbs, Fact::Unsupported);
    }

    /// The overview once ended with "irqbalance not running, tuned".
    #[test]
    fn an_empty_file_of_tuned_is_no_profile() {
        let host = RecordedHost::new().with("etc/tuned/active_profile", "\n");
        assert_eq!(take(&host).tuned_profile, Fact::Unsupported);
    }
}
