//! What happened between two samples, as rates. Shapes only; `Rates::between` computes them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::sample::Transport;
use crate::units::{CpuId, CpuMask, Fact, IrqId, NicName};

/// Rates over one interval. CPUs and interfaces that were not there at both ends are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Length of the interval in seconds; above 0.
    pub seconds: f64,
    /// One entry for each CPU online at both ends.
    pub cpus: Vec<CpuRates>,
    /// One entry for each interface present at both ends.
    pub nics: Vec<NicRates>,
    /// One entry for each numbered interrupt present at both ends.
    pub irqs: Vec<IrqRates>,
    /// `true` when the kernel accounts softirq time exactly; `false` = tick samples, fit only for
    /// seconds-long intervals; `None` = unknown.
    pub exact_softirq_time: Option<bool>,
    /// Softirq time is not the kernel's but was measured by programs in windows; `None` where it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub softirq_timed: Option<SoftirqTimed>,
    /// What packets and handing them over cost; `None` where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
    /// Sources that were missing or broken and what is therefore not known.
    pub gaps: Vec<String>,
    /// Interfaces whose queues are polled by threads of which not one can be seen: what they cost is not known.
    #[serde(default)]
    pub unseen: Vec<NicName>,
    /// The programs that took most CPU time, most first; those that took little are left out. Unsupported
    /// where no process can be seen.
    #[serde(default)]
    pub processes: Fact<Vec<ProcessRates>>,
}

/// How well softirq time was measured by programs that run in windows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SoftirqTimed {
    /// How many windows there were.
    pub windows: usize,
    /// Half of the widest 95 % interval of a CPU, as a part of its time; `None` for a single window.
    pub error: Option<f64>,
}

/// What RPS could hand over, and what that costs, as programs measured it on this host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Costs {
    /// Of the CPUs that received while the programs ran.
    pub cpus: BTreeMap<CpuId, StackWork>,
    /// `None` where it could not be measured.
    pub hand_over: Option<HandOver>,
    /// What could not be measured, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// Receive work of a CPU past the point where RPS chooses a CPU: what it could hand over. Parts of its receive time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StackWork {
    /// All of it.
    pub part: f64,
    /// How many ways through the stack sent an inter-processor interrupt, mostly to wake a reader on another CPU: 0 to
    /// 1; `None` where the kernel does not tell.
    pub interrupts: Option<f64>,
    /// What sending these took; `None` where there is nothing to compare with.
    pub waking: Option<f64>,
}

/// What it costs to hand packets to another CPU, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HandOver {
    /// To interrupt the other CPU, whose backlog was empty.
    pub send_ns: f64,
    /// To be interrupted, beside the packets that come with it.
    pub take_ns: f64,
    /// A small UDP packet from the backlog into its socket.
    pub packet_ns: f64,
    /// From one interrupt to the next while packets come without a pause.
    pub cycle_ns: f64,
}

impl Rates {
    /// The CPU with the largest share of `value`, and that share of the total (0 to 1); `None`
    /// when the total is 0.
    pub fn hottest(&self, value: impl Fn(&CpuRates) -> f64) -> Option<(CpuId, f64)> {
        let total: f64 = self.cpus.iter().map(&value).sum();
        let hottest = self.cpus.iter().max_by(|a, b| value(a).total_cmp(&value(b)))?;
        (total > 0.0).then(|| (hottest.cpu, value(hottest) / total))
    }

    /// One CPU's rates.
    pub fn cpu(&self, id: CpuId) -> Option<&CpuRates> {
        self.cpus.iter().find(|rates| rates.cpu == id)
    }

    /// One interface's rates.
    pub fn nic(&self, name: &NicName) -> Option<&NicRates> {
        self.nics.iter().find(|rates| rates.name == *name)
    }
}

/// One CPU. Time shares are fractions of wall time, 0 to 1; the rest are events a second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuRates {
    /// Which CPU.
    pub cpu: CpuId,
    /// user + nice.
    pub user: f64,
    /// system.
    pub system: f64,
    /// Hard interrupts.
    pub irq: f64,
    /// Softirqs (all vectors).
    pub softirq: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
    /// idle + iowait.
    pub idle: f64,
    /// This CPU's ksoftirqd thread, of wall time; 0 when schedstat is not there.
    pub ksoftirqd: f64,
    /// Threads that poll queues (threaded NAPI), of wall time: part of `system`, not of `softirq`. Of a thread
    /// that went from one CPU to another each has half.
    #[serde(default)]
    pub napi: f64,
    /// NET_RX softirq runs a second (`/proc/softirqs`).
    pub net_rx: f64,
    /// NET_TX softirq runs a second.
    pub net_tx: f64,
    /// Runs a second of the other softirq vectors that ran, by name (`BLOCK`). How often, not for how long.
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
    /// Packets that flow limit dropped (column 11), by the CPU that handed them on: they are in the `dropped` of the
    /// CPU that was to get them.
    #[serde(default)]
    pub flow_limit: f64,
}

/// One interface; events a second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NicRates {
    /// Which interface.
    pub name: NicName,
    /// Packets received.
    pub rx_packets: f64,
    /// Bytes received.
    pub rx_bytes: f64,
    /// Packets sent.
    pub tx_packets: f64,
    /// Bytes sent.
    pub tx_bytes: f64,
    /// Received and dropped (`rx_dropped` + `rx_missed_errors`).
    pub rx_dropped: f64,
    /// Packets for which the device had no buffer, its ring being full (`rx_missed_errors`, or what its
    /// driver counts that as).
    #[serde(default)]
    pub rx_missed: f64,
    /// Packets received by queue index, where the kernel says it; queues that were not there at both ends,
    /// or began to count anew, are left out.
    pub queues: BTreeMap<u32, f64>,
}

/// One interrupt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IrqRates {
    /// Which interrupt.
    pub irq: IrqId,
    /// Its action name.
    pub action: String,
    /// Interrupts a second by CPU; CPUs with none are left out.
    pub per_cpu: BTreeMap<CpuId, f64>,
}

/// One program that takes CPU time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessRates {
    /// Its number.
    pub pid: u32,
    /// Its name, as the kernel keeps it (15 bytes).
    pub command: String,
    /// CPU seconds a second of all its threads: 1.0 is the whole time of one CPU. Where softirq time is sampled
    /// by ticks, the ticks that hit a softirq on top of a process are counted to the process as well.
    pub cpu: f64,
    /// Its threads.
    pub threads: u32,
    /// Threads that ran or waited for a CPU at the second look; not asked where there are too many.
    pub runnable: Fact<u32>,
    /// CPUs that its main thread may run on.
    pub allowed: Fact<CpuMask>,
    /// CPUs of its control group (cpuset).
    pub cpuset: Fact<CpuMask>,
    /// CPUs that its threads last ran on, at the second look; not asked where there are too many.
    pub ran_on: Fact<CpuMask>,
    /// The CPU that its main thread was on at both looks, if it was the same.
    pub stays_on: Option<CpuId>,
    /// Nice value of its main thread: above 0 it gives way to others.
    pub nice: i32,
    /// Its threads that were there at both looks and of which the kernel tells how long they ran.
    #[serde(default)]
    pub each: Vec<ThreadRates>,
    /// Its sockets that anybody may send to; asked where a thread of it had hardly a pause.
    #[serde(default)]
    pub sockets: Fact<SocketRates>,
}

/// One thread. Times are fractions of wall time, 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadRates {
    /// Its number.
    pub tid: u32,
    /// The CPU that it last ran on; the scheduler may have moved it meanwhile.
    pub cpu: CpuId,
    /// It ran. Interrupts and softirqs on top of it are in there unless the kernel accounts for them.
    pub ran: f64,
    /// It could have run and another ran.
    pub waited: f64,
}

/// The sockets of a process that anybody may send to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SocketRates {
    /// Those of the namespace looked at.
    pub held: Vec<HeldRates>,
    /// It has others, of which nothing is known: of another namespace, connections, or none of the network.
    pub others: bool,
}

/// One socket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeldRates {
    /// TCP, listening, or UDP, not connected.
    pub transport: Transport,
    /// The local port.
    pub port: u16,
    /// At the first look: connections that wait to be accepted (TCP), or bytes that wait to be read (UDP).
    pub queued_before: u64,
    /// The same at the second look.
    pub queued: u64,
    /// Connections or packets a second that it had no room for.
    pub dropped: f64,
    /// Connections to the port that have something to be read at the second look; not asked of UDP, nor where
    /// the queue tells enough.
    pub unread: Fact<u32>,
}
