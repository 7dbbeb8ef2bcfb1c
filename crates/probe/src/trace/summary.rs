//! The summary of a timeline: from sums, with numbers joined to names and lengths to distributions.

use serde::{Deserialize, Serialize};

use super::item::Run;
use super::tally::{Bursts, CpuTally, IrqTally, Tally, ThreadTally};
use crate::{Cost, Names, NapiPolls};
use rxlab_base::units::{CpuId, Fact, IrqId};

/// The summary of a timeline.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trace {
    /// `rxlab.trace/1`.
    pub schema: String,
    /// Its length.
    pub seconds: f64,
    /// Events sent.
    pub events: u64,
    /// Events that found no room in the ring buffer.
    pub lost: u64,
    /// Pieces of work whose beginning or end was not seen; no length includes them.
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
    /// NAPIs that were polled, most packets first.
    pub napis: Vec<NapiPolls>,
    /// Receiving threads that were woken or ran.
    pub threads: Vec<ThreadTrace>,
    /// CPU time of the tracing programs themselves.
    pub cost: Fact<Cost>,
    /// Remarks for a careful reader.
    pub notes: Vec<String>,
}

impl Trace {
    pub const SCHEMA: &'static str = "rxlab.trace/1";

    /// `ns` as a fraction of the trace.
    pub fn share(&self, ns: u64) -> f64 {
        ns as f64 / (self.seconds * 1e9)
    }
}

/// Distribution of lengths of time. Percentiles are exact to one part in a hundred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// Number of lengths; if 0, all other fields are 0.
    pub count: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Maximum, exact.
    pub max_ns: u64,
}

/// One CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuTrace {
    /// The CPU.
    pub cpu: CpuId,
    /// Events that found no room.
    pub lost: u64,
    /// Lengths of the runs of NET_RX, interrupts inside included.
    pub runs: Spread,
    /// Total time of these runs.
    pub net_rx_ns: u64,
    /// Time of interrupts inside them.
    pub interrupts_ns: u64,
    /// Polls in them.
    pub polls: u64,
    /// Packets that these took from NAPIs of devices.
    pub packets: u64,
    /// Packets that they took from the CPU's backlog.
    pub backlog: u64,
    /// Polls that used up their budget, threads' included.
    pub full_polls: u64,
    /// Runs that stopped at their time limit or budget with work left: `time_squeeze` of softnet_stat.
    pub squeezed: Fact<u64>,
    /// Lengths of the bursts.
    pub bursts: Spread,
}

/// Runs of NET_RX in close succession.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Burst {
    /// The CPU.
    pub cpu: CpuId,
    /// Time since the beginning of the trace.
    pub at_ns: u64,
    /// From the beginning of the first run to the end of the last.
    pub ns: u64,
    /// Number of runs.
    pub runs: u64,
    /// Packets of devices and of the backlog.
    pub packets: u64,
}

/// One run of NET_RX.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LongRun {
    /// The CPU.
    pub cpu: CpuId,
    /// Time since the beginning of the trace.
    pub at_ns: u64,
    /// Its length.
    pub ns: u64,
    /// The rest of it.
    #[serde(flatten)]
    pub run: Run,
}

/// One interrupt on one CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IrqTrace {
    /// Its number.
    pub irq: IrqId,
    /// The CPU.
    pub cpu: CpuId,
    /// Its owners, as in /proc/interrupts.
    pub actions: Vec<String>,
    /// The receive queue that it belongs to, if known.
    pub queue: Option<String>,
    /// Number of handler runs: several per interrupt if it is shared.
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
    /// Interrupts per packet; `None` if it brought none.
    pub fn per_packet(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.count as f64 / self.packets as f64)
    }
}

/// A thread that receives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadTrace {
    /// `ksoftirqd/0`, `napi/eth0-12`.
    pub name: String,
    /// Its PID.
    pub pid: u32,
    /// Number of times it was woken from sleep.
    pub wakeups: u64,
    /// Time it then waited for a CPU.
    pub delays: Spread,
    /// Time it ran each time.
    pub runs: Spread,
    /// Total run time, interrupts and softirqs inside included.
    pub ns: u64,
}

impl Tally {
    /// The summary of a timeline that ends at `ended`, without the fields that events do not show.
    pub fn finish(mut self, ended: u64, names: &Names) -> Trace {
        let cpus: Vec<CpuId> = self.cpus.keys().copied().collect();
        for cpu in cpus {
            let burst = self.cpus.get_mut(&cpu).and_then(|tally| tally.bursts.end());
            self.burst(cpu, burst);
        }
        let mut napis: Vec<NapiPolls> = self.napis.into_values().collect();
        for napi in &mut napis {
            napi.queues = names.queues(napi.napi).to_vec();
        }
        napis.sort_by_key(|napi| std::cmp::Reverse(napi.packets));
        let mut irqs: Vec<IrqTrace> = self.irqs.into_iter().map(|of| irq(of, names)).collect();
        irqs.sort_by_key(|irq| std::cmp::Reverse((irq.packets, irq.count)));
        Trace {
            schema: Trace::SCHEMA.to_owned(),
            seconds: ended.saturating_sub(self.began) as f64 / 1e9,
            cpus: self.cpus.into_iter().map(cpu).collect(),
            burst_gap_ns: Bursts::GAP,
            irqs,
            napis,
            threads: self.threads.into_iter().map(thread).collect(),
            ..self.sums
        }
    }
}

fn cpu((cpu, tally): (CpuId, CpuTally)) -> CpuTrace {
    CpuTrace { cpu, runs: tally.runs.spread(), bursts: tally.bursts.lengths(), ..tally.sums }
}

fn irq(((number, cpu), tally): ((u32, CpuId), IrqTally), names: &Names) -> IrqTrace {
    IrqTrace {
        irq: IrqId(number),
        cpu,
        actions: names.actions(number).to_vec(),
        queue: names.queue_of_irq(number).map(str::to_owned),
        gaps: tally.gaps.spread(),
        ..tally.sums
    }
}

fn thread((pid, tally): (u32, ThreadTally)) -> ThreadTrace {
    ThreadTrace { pid, delays: tally.delays.spread(), runs: tally.runs.spread(), ..tally.sums }
}
