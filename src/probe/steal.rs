//! Who paid, as one value: the same columns whatever measured them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Class, Inference};
use crate::parse::Container;
use crate::units::{CpuId, Fact, IrqId, QueueId};

/// What measured it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Programs in the kernel, at the beginning and the end of every run.
    Ebpf,
    /// The counters of /proc.
    Procfs,
}

/// Who paid for received packets, and how much.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Steal {
    /// `rxlab.steal/1`.
    pub schema: String,
    /// What measured it.
    pub tier: Tier,
    /// Why no eBPF, in one line, where that would have been the choice.
    pub missing: Option<String>,
    /// Whether the kernel counts softirq time exactly or by its ticks (`CONFIG_IRQ_TIME_ACCOUNTING`). Says
    /// how far the procfs tier and the processes' own CPU time are to be believed.
    pub exact_softirq_time: Fact<bool>,
    /// Length of the look.
    pub seconds: f64,
    /// CPUs that are online.
    pub cpus: Vec<CpuSteal>,
    /// Processes that paid, those that paid most first.
    pub victims: Fact<Vec<Victim>>,
    /// Interrupts that took time.
    pub irqs: Fact<Vec<IrqSteal>>,
    /// NAPIs that were polled.
    pub napis: Fact<Vec<NapiPolls>>,
    /// Threads of the kernel that receive: `ksoftirqd/N` and `napi/...`.
    pub threads: Vec<ThreadTime>,
    /// What the same came to as seen from user space.
    pub inference: Vec<Inference>,
    /// CPU time of the measuring programs themselves.
    pub cost: Fact<Cost>,
    /// What a careful reader wants to know.
    pub notes: Vec<String>,
}

impl Steal {
    /// The schema of this version.
    pub const SCHEMA: &'static str = "rxlab.steal/1";

    /// `ns` as a fraction of the look.
    pub fn share(&self, ns: u64) -> f64 {
        ns as f64 / (self.seconds * 1e9)
    }
}

/// One CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CpuSteal {
    /// Which.
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
    /// Time that the hypervisor gave to others.
    pub hypervisor_ns: Fact<u64>,
}

impl CpuSteal {
    /// Time that was taken from tasks of this CPU that did not ask for it, interrupts included.
    pub fn stolen_ns(&self) -> Option<u64> {
        let robbing = self.by_class.iter().filter(|(class, _)| class.robs());
        let sum: Option<u64> = robbing.map(|(_, ns)| ns.known().copied()).sum();
        Some(sum? + self.hard_irq_ns.known()?)
    }
}

/// Processes that paid: one, or all that ended meanwhile with one name in one control group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Victim {
    /// The name.
    pub command: String,
    /// The process, when it is one that still runs.
    pub pid: Option<u32>,
    /// How many processes.
    pub processes: u32,
    /// Path of the control group; of processes that ended its number, unless others of the group run.
    pub control_group: Fact<String>,
    /// The container, when the path tells one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// The systemd unit, when the path tells one; in a container it is one of the container's, or its scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Receive time by class.
    pub by_class: BTreeMap<Class, u64>,
    /// Time in handlers of interrupts.
    pub hard_irq_ns: u64,
    /// CPU time that the kernel says it had: what `top` shows.
    pub believed_ns: Fact<u64>,
    /// The same without what was stolen from it.
    pub really_ns: Fact<u64>,
}

impl Victim {
    /// Taken from it by work that it did not ask for.
    pub fn stolen_ns(&self) -> u64 {
        let robbing = self.by_class.iter().filter(|(class, _)| class.robs());
        robbing.map(|(_, ns)| ns).sum::<u64>() + self.hard_irq_ns
    }

    /// Received in its own system calls.
    pub fn own_ns(&self) -> u64 {
        self.by_class.get(&Class::SelfInflicted).copied().unwrap_or_default()
    }
}

/// One interrupt on one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IrqSteal {
    /// Where it was handled.
    pub cpu: CpuId,
    /// Its number.
    pub irq: IrqId,
    /// Who asked for it, as in /proc/interrupts; empty = the kernel does not tell any more.
    pub actions: Vec<String>,
    /// The receive queue that it belongs to, as far as that is known.
    pub queue: Option<String>,
    /// Time in its handlers.
    pub ns: u64,
    /// How often.
    pub count: u64,
    /// Receive time that it caused, of whatever class.
    pub net_rx_ns: u64,
}

/// One NAPI on one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NapiPolls {
    /// Where it was polled.
    pub cpu: CpuId,
    /// Its number; 0 = it has none: without a device the backlog of the CPU, which loopback and RPS fill,
    /// with one those that complete transmissions.
    pub napi: u32,
    /// The interface, in whatever namespace it is; empty for the backlog.
    pub device: String,
    /// Its queues, where the kernel tells, of interfaces of the namespace looked at.
    pub queues: Vec<QueueId>,
    /// How often.
    pub polls: u64,
    /// Packets.
    pub packets: u64,
    /// Polls that used up their budget.
    pub full: u64,
}

/// A thread of the kernel that receives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ThreadTime {
    /// `ksoftirqd/0`, `napi/eth0-12`.
    pub name: String,
    /// Its process number.
    pub pid: u32,
    /// Time on a CPU, by the scheduler.
    pub ns: u64,
}

/// CPU time of the measuring programs, extrapolated from the part of the time in which the kernel counted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cost {
    /// On all CPUs together, without what it takes to call them.
    pub ns: u64,
    /// How often one ran.
    pub runs: u64,
    /// Events that came while the same program ran on that CPU, and were not counted.
    pub missed: u64,
    /// The time that this is the cost of, nanoseconds.
    #[serde(default)]
    pub of_ns: u64,
}
