//! Settings of the kernel that decide what a plan may do.

use serde::{Deserialize, Serialize};

use crate::units::{CpuMask, Fact, IrqId};

/// `/sys/devices/system/clocksource/clocksource0`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Clocksource {
    /// In use.
    pub current: String,
    /// May be chosen.
    pub available: Vec<String>,
}

/// Settings of the whole machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Settings {
    /// `net.core.netdev_budget`: packets of one `net_rx_action`.
    pub netdev_budget: Fact<u32>,
    /// `net.core.netdev_budget_usecs`: microseconds of one `net_rx_action`.
    pub netdev_budget_usecs: Fact<u32>,
    /// `net.core.netdev_max_backlog`: packets that wait on one CPU.
    pub netdev_max_backlog: Fact<u32>,
    /// `net.core.busy_poll`, microseconds; 0 = off.
    pub busy_poll: Fact<u32>,
    /// `net.core.busy_read`, microseconds; 0 = off.
    pub busy_read: Fact<u32>,
    /// What tells the time.
    pub clocksource: Fact<Clocksource>,
    /// Whether softirq time is exact (`CONFIG_IRQ_TIME_ACCOUNTING`) or a tick sample.
    pub exact_softirq_time: Fact<bool>,
    /// CPUs of `nohz_full`, which should have no tick; empty = none.
    pub nohz_full: Fact<CpuMask>,
    /// CPUs that the root control group may use; fewer than online = the others belong to a partition.
    pub cpuset: Fact<CpuMask>,
    /// The active profile of tuned; `Unsupported` where tuned is not installed.
    pub tuned_profile: Fact<String>,
}

/// A running irqbalance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Irqbalance {
    /// Its process id.
    pub pid: u32,
    /// Interrupts that it leaves alone.
    pub banned_irqs: Fact<Vec<IrqId>>,
    /// CPUs that it gives no interrupts.
    pub banned_cpus: Fact<CpuMask>,
}
