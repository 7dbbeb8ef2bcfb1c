//! What a timeline is made of: pieces of work with a beginning and an end, and moments.

use serde::{Deserialize, Serialize};

use crate::parse::SOFTIRQS;
use crate::probe::Class;
use crate::units::CpuId;

/// The name of a softirq.
pub fn softirq_name(vector: u32) -> &'static str {
    SOFTIRQS.get(vector as usize).copied().unwrap_or("softirq")
}

/// What a CPU is busy with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// The handler of a numbered interrupt.
    Irq(u32),
    /// An inter-processor interrupt that calls one function.
    Ipi,
    /// The interrupt of the CPU's timer.
    Timer,
    /// A softirq.
    Softirq(u32),
    /// A thread that receives.
    Thread {
        /// Its number.
        pid: u32,
        /// Its name.
        name: String,
    },
}

impl Work {
    /// What interrupts what: only the higher the lower.
    pub(super) fn level(&self) -> u8 {
        match self {
            Work::Thread { .. } => 0,
            Work::Softirq(_) => 1,
            Work::Irq(_) | Work::Ipi | Work::Timer => 2,
        }
    }
}

/// Why a softirq runs: where it was raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cause {
    /// The context of the raise.
    pub class: Class,
    /// The interrupt, where it has a number.
    pub irq: Option<u32>,
}

impl Cause {
    /// The raise was not seen.
    pub const UNKNOWN: Self = Self { class: Class::Unknown, irq: None };
}

/// What belongs to a run of a softirq.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Why it ran.
    pub cause: Cause,
    /// The task in whose time.
    pub task: String,
    /// Its number; 0 = nobody wanted the CPU.
    pub pid: u32,
    /// Polls.
    pub polls: u32,
    /// Packets of NAPIs of devices.
    pub packets: u64,
    /// Packets of the CPU's backlog: from loopback, or handed over by RPS.
    pub backlog: u64,
    /// Polls that used up their budget.
    pub full: u32,
    /// Time of interrupts inside, in nanoseconds.
    pub interrupts_ns: u64,
}

/// A piece of work that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Where.
    pub cpu: CpuId,
    /// When it began.
    pub began: u64,
    /// When it ended, or was last seen.
    pub ended: u64,
    /// What.
    pub work: Work,
    /// For softirqs.
    pub run: Option<Run>,
    /// Whether its end was seen, and nothing between was lost: only then its length says something.
    pub whole: bool,
}

impl Slice {
    /// Nanoseconds.
    pub fn length(&self) -> u64 {
        self.ended.saturating_sub(self.began)
    }
}

/// One poll of a NAPI. The kernel tells its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Poll {
    /// Where.
    pub cpu: CpuId,
    /// The end of the poll before in the same run, or the beginning of the run; `None`: a task polled by
    /// itself, and nobody knows since when.
    pub began: Option<u64>,
    /// When it ended.
    pub ended: u64,
    /// The NAPI; 0 = it has no number.
    pub napi: u32,
    /// Its device; empty for the backlog.
    pub device: String,
    /// Packets.
    pub work: u32,
    /// How many it may take.
    pub budget: u32,
}

impl Poll {
    /// Whether it took all that it may.
    pub fn is_full(&self) -> bool {
        self.budget > 0 && self.work >= self.budget
    }
}

/// What is told of a timeline, in its order. Times are those of CLOCK_MONOTONIC in nanoseconds; on one CPU
/// each is later than the one before, but for the end of what was cut off, which may be as late as the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A piece of work begins; its end follows.
    Began {
        /// Where.
        cpu: CpuId,
        /// When.
        at: u64,
        /// What.
        work: Work,
    },
    /// The latest piece of work that has begun on that CPU and not ended.
    Ended(Slice),
    /// A NAPI was polled.
    Polled(Poll),
    /// A softirq was raised.
    Raised {
        /// Where.
        cpu: CpuId,
        /// When.
        at: u64,
        /// Which.
        vector: u32,
        /// By what.
        cause: Cause,
    },
    /// A thread was woken, unless it was running.
    Woken {
        /// On the CPU of whoever woke it.
        cpu: CpuId,
        /// When.
        at: u64,
        /// Which.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// A thread that was woken got a CPU.
    Waited {
        /// Its CPU.
        cpu: CpuId,
        /// When it was woken.
        woken: u64,
        /// When it got the CPU.
        at: u64,
        /// Which.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// An end whose beginning was not seen.
    Stray {
        /// Where.
        cpu: CpuId,
        /// When.
        at: u64,
    },
    /// Events that found no room.
    Lost {
        /// Where.
        cpu: CpuId,
        /// After this, the time of the last event before.
        from: u64,
        /// And before this.
        at: u64,
        /// How many.
        count: u32,
    },
}
