//! Rates between two samples. Types only; `Rates::between` computes them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::drop_reasons::DropReasons;
use crate::sample::{LosingSocket, LossRates, ProcessRates};
use rxlab_base::units::{CpuId, Fact, IrqId, NicName, find_by_name};

/// Rates over one interval. CPUs and interfaces missing at either end are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Length of the interval in seconds; above 0.
    pub seconds: f64,
    /// One entry for each CPU online at both ends.
    pub cpus: Vec<CpuRates>,
    /// One entry for each interface present at both ends.
    pub nics: Vec<NicRates>,
    /// One entry for each numbered interrupt present at both ends, in ascending order.
    pub irqs: Vec<IrqRates>,
    /// `true` if the kernel accounts softirq time exactly; `false` = tick samples, fit only for
    /// intervals of seconds; `None` = unknown.
    pub exact_softirq_time: Option<bool>,
    /// Set if softirq time was measured by eBPF programs in windows instead of by the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub softirq_timed: Option<SoftirqTimed>,
    /// Cost of packets and of handing them over; `None` if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
    /// Missing or broken sources, and the values unknown because of them.
    pub gaps: Vec<String>,
    /// The reason that CPU times are those of a container and not of the kernel's CPUs, if so: then `cpus` is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub masked: Option<String>,
    /// True if what softnet_stat counts by CPU is unknown: packets, drops, time squeezes, inter-processor interrupts, flow limit.
    #[serde(default)]
    pub uncounted: bool,
    /// Interfaces whose queues are polled by threads none of which is visible: their cost is unknown.
    #[serde(default)]
    pub unseen: Vec<NicName>,
    /// Kernel threads that poll queues and may run on one CPU only, by that CPU: their process ids.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pinned_napi: BTreeMap<CpuId, Vec<u32>>,
    /// Interrupts that have not fired since they were requested.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unfired: BTreeSet<IrqId>,
    /// The programs that used most CPU time, most first; those that used little are left out. Unsupported
    /// if no process is visible.
    #[serde(default)]
    pub processes: Fact<Vec<ProcessRates>>,
    /// Losses behind the backlogs; not asked where programs are not.
    #[serde(default)]
    pub losses: Fact<LossRates>,
    /// Public sockets that had no room for packets or connections, most losses first.
    #[serde(default)]
    pub losing: Fact<Vec<LosingSocket>>,
    /// The kernel's reasons for losses; not asked without losses, on files, and of a recorded machine.
    #[serde(default)]
    pub drop_reasons: Fact<DropReasons>,
}

/// Accuracy of softirq time measured by eBPF programs in windows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SoftirqTimed {
    /// Number of windows.
    pub windows: usize,
    /// Half of the widest 95 % interval of a CPU, as a part of its time; `None` for a single window.
    pub error: Option<f64>,
}

/// Work that RPS could hand over and the cost of doing so, measured by eBPF programs on this host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Costs {
    /// By CPU that received during the measurement.
    pub cpus: BTreeMap<CpuId, StackWork>,
    /// `None` if it could not be measured.
    pub hand_over: Option<HandOver>,
    /// Values that could not be measured, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// Receive work of a CPU after the point where RPS chooses a CPU: it could be handed over. Parts of its
/// receive time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StackWork {
    /// All of it.
    pub part: f64,
    /// Part of the passes through the stack that sent an inter-processor interrupt, mostly to wake a reader
    /// on another CPU: 0 to 1; `None` if the kernel does not report it.
    pub interrupts: Option<f64>,
    /// Time for sending these; `None` without a basis for comparison.
    pub waking: Option<f64>,
}

/// Cost of handing packets to another CPU, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HandOver {
    /// Interrupting the other CPU, whose backlog was empty.
    pub send_ns: f64,
    /// Being interrupted, without the packets that come with it.
    pub take_ns: f64,
    /// Delivering a small UDP packet from the backlog to its socket.
    pub packet_ns: f64,
    /// Time between interrupts while packets arrive without a pause.
    pub cycle_ns: f64,
}

impl Rates {
    /// The CPU with the largest share of `value`, the first of equals, and that share of the total (0 to 1);
    /// `None` if the total is 0.
    pub fn hottest(&self, value: impl Fn(&CpuRates) -> f64) -> Option<(CpuId, f64)> {
        let total: f64 = self.cpus.iter().map(&value).sum();
        let hottest = self.cpus.iter().rev().max_by(|a, b| value(a).total_cmp(&value(b)))?;
        (total > 0.0).then(|| (hottest.cpu, value(hottest) / total))
    }

    /// The rates of a CPU; `None` unless both samples have its counters.
    pub fn cpu(&self, id: CpuId) -> Option<&CpuRates> {
        self.cpus.iter().find(|rates| rates.cpu == id)
    }

    /// The rates of an interrupt; `None` unless both samples have its counts.
    pub fn irq(&self, number: IrqId) -> Option<&IrqRates> {
        self.irqs.binary_search_by_key(&number, |rates| rates.irq).ok().map(|at| &self.irqs[at])
    }

    /// The rates of an interface; `None` unless both samples have its counters.
    pub fn nic(&self, name: &NicName) -> Option<&NicRates> {
        find_by_name(&self.nics, |rates| &rates.name, name)
    }

    /// Packets/s that full backlogs dropped, or the reason why they are unknown.
    pub fn backlog_drops(&self) -> Result<f64, &str> {
        match &self.masked {
            Some(why) => Err(why),
            None if self.uncounted => Err("/proc/net/softnet_stat cannot be read"),
            None => Ok(self.cpus.iter().map(|cpu| cpu.dropped).sum()),
        }
    }

    /// Packets/s that an interface is known to bring to CPUs; 0 if it has no rates.
    pub fn rx_packets(&self, name: &NicName) -> f64 {
        self.nic(name).map_or(0.0, NicRates::to_cpus)
    }
}

/// One CPU. Time shares are fractions of wall time, 0 to 1; the rest are events per second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuRates {
    /// Number of the CPU.
    pub cpu: CpuId,
    /// `user` and `nice` of `/proc/stat`.
    pub user: f64,
    /// `system` of `/proc/stat`.
    pub system: f64,
    /// Time in hard interrupts.
    pub irq: f64,
    /// Time in softirqs of all vectors.
    pub softirq: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
    /// `idle` and `iowait` of `/proc/stat`.
    pub idle: f64,
    /// This CPU's ksoftirqd thread, of wall time; 0 if schedstat is missing.
    pub ksoftirqd: f64,
    /// Threads that receive instead of softirqs, of wall time: part of `system`, not of `softirq`. They poll queues (threaded NAPI),
    /// or take what XDP programs redirect to this CPU. The time of a thread that moved between two CPUs is split equally.
    #[serde(default)]
    pub napi: f64,
    /// The part of `napi` in threads that take what XDP programs redirect to this CPU (cpumap).
    #[serde(default)]
    pub cpumap: f64,
    /// Entries/s into each enabled idle state with an exit latency of [`crate::sample::DEEP_US`] or more, by name; empty if
    /// they are not counted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deep_idle: BTreeMap<String, f64>,
    /// NET_RX softirq runs/s (`/proc/softirqs`).
    pub net_rx: f64,
    /// NET_TX softirq runs per second.
    pub net_tx: f64,
    /// Runs/s of the other softirq vectors that ran, by name (`BLOCK`). A count, not a duration.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub other_softirqs: BTreeMap<String, f64>,
    /// Packets that went up the stack here (softnet column 1).
    pub packets: f64,
    /// Backlog drops (column 2).
    pub dropped: f64,
    /// `net_rx_action` stopped by its budget (column 3).
    pub time_squeeze: f64,
    /// RPS inter-processor interrupts received (column 10); not packets.
    pub rps_ipis: f64,
    /// Packets that flow limit dropped (column 11), by the CPU that handed them on: `dropped` of the target
    /// CPU includes them.
    #[serde(default)]
    pub flow_limit: f64,
}

/// One interface; events per second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NicRates {
    /// Name of the interface.
    pub name: NicName,
    /// Packets received per second.
    pub rx_packets: f64,
    /// True if some of these may be packets that the device forwards by itself: how many come to a CPU is not counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counts_forwarded: bool,
    /// Packets/s of all receive queues, if each is counted and they have far fewer than `rx_packets`: the device keeps the others,
    /// as a switch that forwards them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_queues: Option<f64>,
    /// Bytes received per second.
    pub rx_bytes: f64,
    /// Packets sent per second.
    pub tx_packets: f64,
    /// Bytes sent per second.
    pub tx_bytes: f64,
    /// Received and dropped (`rx_dropped` + `rx_missed_errors`).
    pub rx_dropped: f64,
    /// Packets for which the device had no buffer because its ring was full (`rx_missed_errors`, or the
    /// driver's equivalent).
    #[serde(default)]
    pub rx_missed: f64,
    /// Losses by the name of their counter; those that were missing at either end, or stepped back, are left out. Several
    /// may count the same packets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub losses: BTreeMap<String, f64>,
    /// The reason that the driver's own statistics could not be read, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    /// Packets received by queue index, if the kernel reports it; queues that were missing at either end, or
    /// restarted counting, are left out.
    pub queues: BTreeMap<u32, f64>,
    /// Packets that limits of the host delayed or dropped, by the name of the statistic ([`crate::drivers::limit`]); empty
    /// if they are not counted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limited: BTreeMap<String, f64>,
    /// Packets that device or driver dropped by queue index, if counted; as for `queues`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub queue_drops: BTreeMap<u32, f64>,
}

impl NicRates {
    /// Packets/s that are known to come to CPUs.
    pub fn to_cpus(&self) -> f64 {
        if self.counts_forwarded { 0.0 } else { self.to_queues.unwrap_or(self.rx_packets) }
    }
}

/// One interrupt that has an action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IrqRates {
    /// Linux IRQ number.
    pub irq: IrqId,
    /// Names of its actions, joined by `, `.
    pub action: String,
    /// Interrupts/s by CPU; CPUs with none are left out.
    pub per_cpu: BTreeMap<CpuId, f64>,
}
