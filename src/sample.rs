//! One look at the machine: raw facts and counters, as values that can be saved.
//!
//! One source a file; a source that fails leaves the others usable. What the facts mean is for
//! `model` to say.

mod counters;
mod cpus;
mod hardware;
mod identity;
mod irqs;
mod nics;
mod processes;
mod queue_counts;
mod read;
mod vmbus;

use serde::{Deserialize, Serialize};

pub use counters::{Counters, CpuCounters, NicCounters};
pub use cpus::RawCpu;
pub use hardware::RawHardware;
pub use identity::RawIdentity;
pub use irqs::RawIrq;
pub(crate) use nics::pci_function;
pub use nics::{RawNapiSettings, RawNic, RawQueue};
pub use processes::Processes;

use crate::host::{Host, Question};
use crate::parse::{self, NetdevNapi, NetdevQueue};
use crate::units::Fact;

/// One look at a machine: what there is, and the counters at that moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// `rxlab.sample/1`.
    pub schema: String,
    /// What there is.
    pub inventory: Inventory,
    /// The counters.
    pub counters: Counters,
}

/// What changes seldom: CPUs, interfaces, queues, interrupts and how they are set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// Which machine and boot.
    pub identity: RawIdentity,
    /// CPUs that are present.
    pub cpus: Fact<Vec<RawCpu>>,
    /// Network interfaces.
    pub nics: Fact<Vec<RawNic>>,
    /// Every queue that is up, and the NAPI that polls it, as the kernel says.
    #[serde(default)]
    pub queues: Fact<Vec<NetdevQueue>>,
    /// Every NAPI, its interrupt and its thread, as the kernel says.
    #[serde(default)]
    pub napis: Fact<Vec<NetdevNapi>>,
    /// Numbered interrupts that a driver has asked for.
    pub irqs: Fact<Vec<RawIrq>>,
    /// `net.core.rps_sock_flow_entries`.
    pub rps_sock_flow_entries: Fact<u32>,
    /// Kernel threads and daemons that matter to steering.
    pub processes: Fact<Processes>,
    /// Whether softirq time is exact (`CONFIG_IRQ_TIME_ACCOUNTING`).
    pub exact_softirq_time: Fact<bool>,
}

impl Sample {
    /// The schema of this version.
    pub const SCHEMA: &'static str = "rxlab.sample/1";

    /// Looks at the whole machine once.
    pub fn take(host: &dyn Host) -> Self {
        let inventory = Inventory::take(host);
        let counters = Counters::take(host, &inventory);
        Self { schema: Self::SCHEMA.to_owned(), inventory, counters }
    }
}

impl Inventory {
    /// Looks at what there is.
    pub fn take(host: &dyn Host) -> Self {
        let queues = read::asked(host, &Question::Queues, parse::netdev_queues);
        Self {
            identity: identity::take(host),
            cpus: cpus::take(host),
            nics: nics::take(host, &queues),
            queues,
            napis: read::asked(host, &Question::Napis, parse::netdev_napis),
            irqs: irqs::take(host),
            rps_sock_flow_entries: read::number(host, "proc/sys/net/core/rps_sock_flow_entries"),
            processes: processes::take(host),
            exact_softirq_time: identity::exact_softirq_time(host),
        }
    }
}
