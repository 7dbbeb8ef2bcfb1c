//! One sample of the machine: raw facts and counters.
//!
//! One source per file; a source that fails leaves the others usable. `model` interprets the facts.

mod busiest;
mod counters;
mod cpus;
mod cpuset;
mod drops;
mod hardware;
mod identity;
mod irqbalance;
mod irqs;
mod links;
mod listeners;
mod losses;
mod masked;
mod namespaces;
mod nics;
mod power;
mod processes;
mod queue_counts;
mod read;
mod scope;
mod settings;
mod socket_queues;
mod threads;
mod throttling;
mod vmbus;

use std::collections::BTreeMap;

pub use busiest::{ProcessRates, ProcessTimes, ThreadRates, busiest};
pub use counters::{Counters, CpuCounters, NapiThread, NicCounters};
pub(crate) use counters::{DEVICE_ERRORS, DEVICE_LOSSES, VIRTUAL_LOSSES};
pub use cpus::Cpu;
pub use drops::Drops;
pub use hardware::{Function, Hardware};
pub(crate) use identity::version as kernel_version;
pub use identity::{Identity, cpu_model};
pub use irqbalance::Irqbalance;
pub(crate) use irqs::address;
pub use irqs::{Irq, Source};
pub use listeners::{Process, RawListeners, RawSocket, Transport};
pub use losses::counter_in_words;
pub(crate) use losses::{COUNTERS, Meaning, reason};
pub use losses::{FILTERS, LossRates, Losses, Stage, Unread};
pub use namespaces::{NetNamespace, RawNamespaces};
pub use nics::pci_function;
pub use nics::{Napi, NapiSettings, RawNic, RxQueue, TxQueue};
pub use power::{DEEP_US, IdleState};
pub use processes::control_group;
pub use processes::{is_napi_thread, may_be_of_root};
pub use scope::Scope;
pub use settings::{Clocksource, Settings};
pub use socket_queues::{HeldRates, LosingSocket, SocketRates, losing_sockets};
pub use threads::{ThreadTimes, ThreadsOf};
pub use throttling::{ThrottledRates, Throttlings};

use rxlab_base::parse::{self, NetdevNapi, NetdevQueue};
use rxlab_base::units::{CpuId, Fact};
use rxlab_sys::{Host, Query};

/// One sample of a machine: its inventory, and the counters at that moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Facts that rarely change.
    pub inventory: Inventory,
    /// Counters, read after the inventory.
    pub counters: Counters,
}

/// Facts that rarely change: CPUs, interfaces, queues, interrupts and their settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Inventory {
    /// Identity of the machine and boot.
    pub identity: Identity,
    /// CPUs that are present.
    pub cpus: Fact<Vec<Cpu>>,
    /// The reason that CPU times are not those of the kernel's CPUs, if so.
    pub masked_times: Option<String>,
    /// Network interfaces of the sampled namespace.
    pub nics: Fact<Vec<RawNic>>,
    /// Interfaces whose names are not UTF-8, escaped: nothing else about them can be read.
    pub unreadable_nics: Vec<String>,
    /// Every queue that is up, and the NAPI that polls it, as reported by the kernel.
    pub queues: Fact<Vec<NetdevQueue>>,
    /// Every NAPI, its interrupt and its thread, as reported by the kernel.
    pub napis: Fact<Vec<NetdevNapi>>,
    /// Numbered interrupts that a driver uses.
    pub irqs: Fact<Vec<Irq>>,
    /// `net.core.rps_sock_flow_entries`: size of the global RFS table.
    pub rps_sock_flow_entries: Fact<u32>,
    /// The process id of `ksoftirqd/N` by CPU.
    pub ksoftirqd: Fact<BTreeMap<CpuId, u32>>,
    /// The process ids of kernel threads that poll queues instead of softirqs.
    pub napi_threads: Fact<Vec<u32>>,
    /// The process ids of programs whose CPU time the counters contain: limited in number to keep the cost
    /// low.
    pub programs: Fact<Vec<u32>>,
    /// irqbalance, if it runs.
    pub irqbalance: Fact<Option<Irqbalance>>,
    /// Sysctls and boot parameters that matter to the receive path.
    pub settings: Settings,
    /// Masters, peers and kinds of the interfaces, from rtnetlink.
    pub links: Fact<Vec<parse::Link>>,
    /// Network namespaces of running processes, other than the sampled one.
    pub namespaces: Fact<RawNamespaces>,
    /// Listening sockets of the sampled namespace.
    pub listeners: Fact<RawListeners>,
}

impl Sample {
    /// Samples the whole machine.
    pub fn take(host: &dyn Host) -> Self {
        let inventory = Inventory::take(host, Scope::All);
        let counters = Counters::take(host, &inventory);
        Self { inventory, counters }
    }
}

impl Inventory {
    /// Takes the inventory, as far as `scope` goes; facts beyond it are [`Fact::NotAsked`].
    pub fn take(host: &dyn Host, scope: Scope<'_>) -> Self {
        let queues = read::asked(host, &Query::Queues, parse::netdev_queues);
        let nics = nics::take(host, &queues, |nic| scope.in_full(nic));
        let seen = processes::see(host);
        let irqbalance = processes::irqbalance(host, &seen);
        let masked = masked::take(host);
        Self {
            identity: Identity::take(host),
            cpus: masked.cpus.map_or_else(|| cpus::take(host), Fact::Broken),
            masked_times: masked.times,
            queues,
            napis: read::asked(host, &Query::Napis, parse::netdev_napis),
            links: links::take(host, nics.known().map(Vec::as_slice).unwrap_or_default()),
            nics,
            unreadable_nics: nics::unreadable(host),
            irqs: irqs::take(host),
            rps_sock_flow_entries: read::number(host, "proc/sys/net/core/rps_sock_flow_entries"),
            irqbalance: irqbalance.map(|pid| pid.map(|pid| irqbalance::take(host, pid))),
            ksoftirqd: scope.threads(|| processes::ksoftirqd(host, &seen)),
            napi_threads: scope.threads(|| processes::napi_threads(host, &seen)),
            programs: scope.programs(|| busiest::programs(&seen)),
            settings: settings::take(host),
            namespaces: scope.everybody(|| namespaces::take(host, &seen)),
            listeners: scope.everybody(|| listeners::take(host, &seen)),
        }
    }
}
