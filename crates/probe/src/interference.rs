//! Cost of received packets as one value: the same columns for every method.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Class, Inference};
use rxlab_base::parse::Container;
use rxlab_base::units::{CpuId, Fact, IrqId, QueueId};

/// Method of measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Programs in the kernel, at the beginning and the end of every run.
    Ebpf,
    /// The counters of /proc.
    Procfs,
}

/// Tasks that paid for received packets, and how much.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interference {
    /// `rxlab.interference/1`.
    pub schema: String,
    /// Method of measurement.
    pub tier: Tier,
    /// Reason for not using eBPF, in one line, if it would have been the choice.
    pub missing: Option<String>,
    /// True if the kernel counts softirq time exactly, not by its ticks (`CONFIG_IRQ_TIME_ACCOUNTING`). Shows
    /// how reliable the procfs tier and the processes' own CPU time are.
    pub exact_softirq_time: Fact<bool>,
    /// Length of the sample.
    pub seconds: f64,
    /// CPUs that are online.
    pub cpus: Vec<CpuInterference>,
    /// Processes that paid, largest cost first.
    pub victims: Fact<Vec<Victim>>,
    /// Interrupts that took time.
    pub irqs: Fact<Vec<IrqInterference>>,
    /// NAPIs that were polled.
    pub napis: Fact<Vec<NapiPolls>>,
    /// Kernel threads that receive: `ksoftirqd/N` and `napi/...`.
    pub threads: Vec<ThreadTime>,
    /// The same cost seen from user space.
    pub inference: Vec<Inference>,
    /// CPU time of the measuring programs themselves.
    pub cost: Fact<Cost>,
    /// Remarks for a careful reader.
    pub notes: Vec<String>,
}

impl Interference {
    pub const SCHEMA: &'static str = "rxlab.interference/1";

    /// `ns` as a fraction of the sample.
    pub fn share(&self, ns: u64) -> f64 {
        ns as f64 / (self.seconds * 1e9)
    }
}

/// One CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuInterference {
    /// The CPU.
    pub cpu: CpuId,
    /// Receive time: the sum of the classes. In the procfs tier the time of all softirqs.
    pub net_rx_ns: Fact<u64>,
    /// NET_RX runs.
    pub runs: Fact<u64>,
    /// Time in handlers of interrupts (with eBPF: numbered ones, and those that hand packets over); not part
    /// of the receive time.
    pub hard_irq_ns: Fact<u64>,
    /// Receive time by class.
    pub by_class: BTreeMap<Class, Fact<u64>>,
    /// NET_RX runs by length: entry N counts 2^N to 2^(N+1) - 1 nanoseconds.
    pub histogram: Fact<Vec<u64>>,
    /// Packets polled by tasks that wait for them.
    pub busy_polled: Fact<u64>,
    /// Packets that went up the stack.
    pub packets: Fact<u64>,
    /// Time that the hypervisor gave to other guests.
    pub hypervisor_ns: Fact<u64>,
}

impl CpuInterference {
    /// Time taken from tasks of this CPU that did not ask for it, interrupts included.
    pub fn lost_ns(&self) -> Option<u64> {
        let interfering = self.by_class.iter().filter(|(class, _)| class.interferes());
        let sum: Option<u64> = interfering.map(|(_, ns)| ns.known().copied()).sum();
        Some(sum? + self.hard_irq_ns.known()?)
    }
}

/// Processes that paid: a running one, or all that ended meanwhile with one name in one control group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Victim {
    /// Process name.
    pub command: String,
    /// Process number, if it still runs.
    pub pid: Option<u32>,
    /// Number of processes.
    pub processes: u32,
    /// Path of the control group; for processes that ended its number, unless others of the group run.
    pub control_group: Fact<String>,
    /// The container, if the path names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// The systemd unit, if the path names one; in a container it is one of the container's, or its scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Receive time by class.
    pub by_class: BTreeMap<Class, u64>,
    /// Time in handlers of interrupts.
    pub hard_irq_ns: u64,
    /// CPU time that it had according to the kernel, as `top` shows it.
    pub believed_ns: Fact<u64>,
    /// The same without the time lost to receive work.
    pub really_ns: Fact<u64>,
}

impl Victim {
    /// Time taken from it by work that it did not ask for.
    pub fn lost_ns(&self) -> u64 {
        let interfering = self.by_class.iter().filter(|(class, _)| class.interferes());
        interfering.map(|(_, ns)| ns).sum::<u64>() + self.hard_irq_ns
    }

    /// Time spent receiving in its own system calls.
    pub fn own_ns(&self) -> u64 {
        self.by_class.get(&Class::SelfInflicted).copied().unwrap_or_default()
    }
}

/// One interrupt on one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IrqInterference {
    /// CPU that handled it.
    pub cpu: CpuId,
    /// Its number.
    pub irq: IrqId,
    /// Its owners, as in /proc/interrupts; empty = not reported by the kernel any more.
    pub actions: Vec<String>,
    /// The receive queue that it belongs to, if known.
    pub queue: Option<String>,
    /// Time in its handlers.
    pub ns: u64,
    /// Number of handler runs.
    pub count: u64,
    /// Receive time that it caused, of any class.
    pub net_rx_ns: u64,
}

/// One NAPI on one CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NapiPolls {
    /// CPU that polled it.
    pub cpu: CpuId,
    /// Its number; 0 = it has none: without a device the backlog of the CPU, which loopback and RPS fill,
    /// with one those that complete transmissions.
    pub napi: u32,
    /// The interface, in any namespace; empty for the backlog.
    pub device: String,
    /// Its queues, if the kernel reports them, of interfaces of the sampled namespace.
    pub queues: Vec<QueueId>,
    /// Number of polls.
    pub polls: u64,
    /// Packets.
    pub packets: u64,
    /// Polls that used up their budget.
    pub full: u64,
}

/// A kernel thread that receives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadTime {
    /// `ksoftirqd/0`, `napi/eth0-12`.
    pub name: String,
    /// Its PID.
    pub pid: u32,
    /// Time on a CPU, according to the scheduler.
    pub ns: u64,
}

/// CPU time of the measuring programs, extrapolated from the part of the time in which the kernel counted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// On all CPUs together, without the cost of calling them.
    pub ns: u64,
    /// Number of runs.
    pub runs: u64,
    /// Events that came while the same program ran on that CPU, and were not counted.
    pub missed: u64,
    /// Length of the time this covers, nanoseconds.
    #[serde(default)]
    pub of_ns: u64,
}
