//! Parts of a timeline: pieces of work with a beginning and an end, and moments.

use serde::{Deserialize, Serialize};

use crate::Class;
use rxlab_base::parse::SOFTIRQS;
use rxlab_base::units::CpuId;

/// The name of a softirq.
pub fn softirq_name(vector: u32) -> &'static str {
    SOFTIRQS.get(vector as usize).copied().unwrap_or("softirq")
}

/// Work that occupies a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// The handler of a numbered interrupt.
    Irq(u32),
    /// An inter-processor interrupt that calls one function.
    Ipi,
    /// The interrupt of the CPU's timer.
    Timer,
    Softirq(u32),
    /// A thread that receives.
    Thread {
        pid: u32,
        name: String,
    },
}

impl Work {
    /// Interrupt level: only a higher one interrupts a lower one.
    pub(super) fn level(&self) -> u8 {
        match self {
            Work::Thread { .. } => 0,
            Work::Softirq(_) => 1,
            Work::Irq(_) | Work::Ipi | Work::Timer => 2,
        }
    }
}

/// Cause of a softirq run: the place where it was raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cause {
    /// The context of the raise.
    pub class: Class,
    /// The interrupt, if it has a number.
    pub irq: Option<u32>,
}

impl Cause {
    /// The raise was not seen.
    pub const UNKNOWN: Self = Self { class: Class::Unknown, irq: None };
}

/// Data of a softirq run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Run {
    /// Time of interrupts inside.
    pub interrupts_ns: u64,
    /// Its cause.
    pub cause: Cause,
    /// The task whose time it took.
    pub task: String,
    /// Its number; 0 = the CPU was idle.
    pub pid: u32,
    /// Polls.
    pub polls: u32,
    /// Polls that used up their budget.
    pub full: u32,
    /// Packets of devices.
    pub packets: u64,
    // From loopback, or handed over by RPS.
    /// Packets of the CPU's backlog.
    pub backlog: u64,
}

/// A finished piece of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    pub cpu: CpuId,
    pub began: u64,
    /// End time, or the time it was last seen.
    pub ended: u64,
    pub work: Work,
    /// Set for softirqs only.
    pub run: Option<Run>,
    /// True if its end was seen, and nothing between was lost: only then its length is meaningful.
    pub whole: bool,
}

impl Slice {
    /// Length of the slice in nanoseconds.
    pub fn length(&self) -> u64 {
        self.ended.saturating_sub(self.began)
    }
}

/// One poll of a NAPI. The kernel reports its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Poll {
    pub cpu: CpuId,
    /// The end of the poll before in the same run, or the beginning of the run; `None`: a task polled by
    /// itself, and the beginning is unknown.
    pub began: Option<u64>,
    pub ended: u64,
    /// The NAPI; 0 = it has no number.
    pub napi: u32,
    /// Its device; empty for the backlog.
    pub device: String,
    /// Packets that the poll returned.
    pub work: u32,
    /// Maximum number of packets.
    pub budget: u32,
}

impl Poll {
    /// True if it used up its budget.
    pub fn is_full(&self) -> bool {
        self.budget > 0 && self.work >= self.budget
    }
}

/// An entry of a timeline, in order. Times are those of CLOCK_MONOTONIC in nanoseconds; on one CPU
/// each is later than the one before, except the end of work that was cut off, which may have the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A piece of work begins; its end follows.
    Began { cpu: CpuId, at: u64, work: Work },
    /// The latest piece of work on that CPU that has begun and not ended.
    Ended(Slice),
    /// A NAPI was polled.
    Polled(Poll),
    /// A softirq was raised.
    Raised { cpu: CpuId, at: u64, vector: u32, cause: Cause },
    /// A thread was woken, unless it was running.
    Woken {
        /// CPU of the waker.
        cpu: CpuId,
        at: u64,
        pid: u32,
        name: String,
    },
    /// A thread that was woken got a CPU.
    Waited {
        cpu: CpuId,
        /// Time it was woken.
        woken: u64,
        /// Time it got the CPU.
        at: u64,
        pid: u32,
        name: String,
    },
    /// An end whose beginning was not seen.
    Stray { cpu: CpuId, at: u64 },
    /// Events that found no room.
    Lost {
        cpu: CpuId,
        /// Time of the last event before the loss.
        from: u64,
        /// Time of the next event after it.
        at: u64,
        /// Number of lost events.
        count: u32,
    },
}
