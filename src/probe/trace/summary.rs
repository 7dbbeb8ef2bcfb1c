//! What a timeline comes to, as one value.

use serde::{Deserialize, Serialize};

use super::item::Cause;
use crate::probe::{Cost, NapiPolls};
use crate::units::{CpuId, Fact, IrqId};

/// What a timeline comes to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Trace {
    /// `rxlab.trace/1`.
    pub schema: String,
    /// Its length.
    pub seconds: f64,
    /// Events that were told.
    pub events: u64,
    /// Events that found no room in the ring buffer.
    pub lost: u64,
    /// Pieces of work of which the beginning or the end was not seen; they are in no length.
    pub cut: u64,
    /// CPUs that were traced and did something.
    pub cpus: Vec<CpuTrace>,
    /// Runs of NET_RX on one CPU with less than this between the end of one and the beginning of the next
    /// are one burst.
    pub burst_gap_ns: u64,
    /// The longest bursts, the longest first.
    pub bursts: Vec<Burst>,
    /// The longest runs of NET_RX, the longest first.
    pub longest: Vec<LongRun>,
    /// Interrupts with a number.
    pub irqs: Vec<IrqTrace>,
    /// NAPIs that were polled, those with most packets first.
    pub napis: Vec<NapiPolls>,
    /// Threads that receive and were woken or ran.
    pub threads: Vec<ThreadTrace>,
    /// CPU time of the tracing programs themselves.
    pub cost: Fact<Cost>,
    /// What a careful reader wants to know.
    pub notes: Vec<String>,
}

impl Trace {
    /// The schema of this version.
    pub const SCHEMA: &'static str = "rxlab.trace/1";

    /// `ns` as a fraction of the trace.
    pub fn share(&self, ns: u64) -> f64 {
        ns as f64 / (self.seconds * 1e9)
    }
}

/// How lengths of time are spread. Percentiles are exact to one part in a hundred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Spread {
    /// How many there are; of none all others are 0.
    pub count: u64,
    /// Half of them are no longer.
    pub p50_ns: u64,
    /// Of a hundred one is longer.
    pub p99_ns: u64,
    /// The longest, exactly.
    pub max_ns: u64,
}

/// One CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CpuTrace {
    /// Which.
    pub cpu: CpuId,
    /// Events that found no room.
    pub lost: u64,
    /// Lengths of the runs of NET_RX, interrupts inside included.
    pub runs: Spread,
    /// All of them together.
    pub net_rx_ns: u64,
    /// Interrupts inside of them.
    pub interrupts_ns: u64,
    /// Polls in them.
    pub polls: u64,
    /// Packets that these took from NAPIs of devices.
    pub packets: u64,
    /// Packets that they took from the CPU's backlog.
    pub backlog: u64,
    /// Polls that used up their budget, threads' included.
    pub full_polls: u64,
    /// Runs that ended by time or by their budget with work left: `time_squeeze` of softnet_stat.
    pub squeezed: Fact<u64>,
    /// Lengths of the bursts.
    pub bursts: Spread,
}

/// Runs of NET_RX one upon the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Burst {
    /// Where.
    pub cpu: CpuId,
    /// Since the beginning of the trace.
    pub at_ns: u64,
    /// From the beginning of the first run to the end of the last.
    pub ns: u64,
    /// How many runs.
    pub runs: u64,
    /// Packets of devices and of the backlog.
    pub packets: u64,
}

/// One run of NET_RX.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LongRun {
    /// Where.
    pub cpu: CpuId,
    /// Since the beginning of the trace.
    pub at_ns: u64,
    /// Its length.
    pub ns: u64,
    /// Interrupts inside.
    pub interrupts_ns: u64,
    /// By what it was raised.
    pub cause: Cause,
    /// The task in whose time it ran.
    pub task: String,
    /// Its number; 0 = nobody wanted the CPU.
    pub pid: u32,
    /// Polls.
    pub polls: u32,
    /// Polls that used up their budget.
    pub full: u32,
    /// Packets of devices.
    pub packets: u64,
    /// Packets of the CPU's backlog.
    pub backlog: u64,
}

/// One interrupt on one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IrqTrace {
    /// Its number.
    pub irq: IrqId,
    /// Where.
    pub cpu: CpuId,
    /// Who asked for it, as in /proc/interrupts.
    pub actions: Vec<String>,
    /// The receive queue that it belongs to, as far as that is known.
    pub queue: Option<String>,
    /// How often a handler ran: of a shared interrupt several times each.
    pub count: u64,
    /// Time in handlers.
    pub ns: u64,
    /// From the beginning of one to that of the next.
    pub gaps: Spread,
    /// Runs of NET_RX that it caused.
    pub runs: u64,
    /// Packets of devices in these runs.
    pub packets: u64,
}

impl IrqTrace {
    /// Interrupts for each packet; `None` where it brought none.
    pub fn per_packet(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.count as f64 / self.packets as f64)
    }
}

/// A thread that receives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ThreadTrace {
    /// `ksoftirqd/0`, `napi/eth0-12`.
    pub name: String,
    /// Its process number.
    pub pid: u32,
    /// How often it was woken from sleep.
    pub wakeups: u64,
    /// How long it then waited for a CPU.
    pub delays: Spread,
    /// How long it ran each time.
    pub runs: Spread,
    /// All of that, interrupts and softirqs inside included.
    pub ns: u64,
}
