//! Cost of received packets: how long each CPU receives, what caused it, and whose time it took.
//!
//! Three methods: eBPF programs that measure every run ([`Programs`]), the counters that every kernel has
//! ([`coarse`]), and inference from a process that should have had its CPU to itself ([`Spin`], [`Openssl`]).
//! [`look()`] joins them in one value, [`Interference`]. [`trace`] is the same work as a timeline.
//!
//! Never: changes the machine, or renders.
//!
//! ```
//! use rxlab_probe::Budget;
//!
//! // The part of one CPU that measuring may take.
//! let budget: Budget = "1%".parse()?;
//! assert_eq!(budget, Budget::default());
//! # Ok::<(), rxlab_probe::BudgetError>(())
//! ```

mod budget;
mod class;
mod counted;
mod drops;
mod exact;
mod handover;
mod inference;
mod interference;
mod irq_overhead;
mod loaded;
mod look;
mod lost;
mod named;
mod names;
mod openssl;
mod processes;
mod programs;
mod raw;
mod run_time;
mod softirq_time;
mod spin;
pub mod trace;

pub use budget::{Budget, BudgetError};
pub use class::Class;
pub use counted::{Moment, coarse};
pub use drops::drop_reasons;
pub use exact::exact;
pub use handover::{hand_over, stack_work};
pub use inference::{Inference, Method, Seen};
pub use interference::{
    Cost, CpuInterference, Interference, IrqInterference, NapiPolls, ThreadTime, Tier, Victim,
};
pub use irq_overhead::{IrqOverhead, NoIrqOverhead, irq_overhead};
pub use loaded::Missing;
pub use look::{LookError, SampleOptions, look};
pub use lost::{LostTotals, UNITS};
pub use named::named;
pub use names::{Names, napi_name};
pub use openssl::{Openssl, OpensslError};
pub use processes::Processes;
pub use programs::Programs;
pub use raw::{CpuRecord, IrqRecord, NapiRecord, ProcessId, Reading, VictimRecord};
pub use run_time::CostSoFar;
pub use softirq_time::{SoftirqTime, Windows};
pub use spin::Spin;

/// An error of the library that loads the eBPF programs.
pub use libbpf_rs::Error as BpfError;
