//! The receive path of a machine and the rates on it.
//!
//! Pure values. Topology ([`Model`]) comes from one sample, [`Rates`] from two; nothing here reads
//! files, judges or prints.

mod address;
mod between;
mod flow;
mod flow_path;
mod flow_spread;
mod interrupts;
mod irq_names;
mod listeners;
#[cfg(test)]
mod machines;
mod rates;
mod stack;
mod toeplitz;
mod topology;
mod totals;

pub use crate::sample::{
    Clocksource, Cpu, DEEP_US, Function, Hardware, HeldRates, Identity, IdleState, Irq, Irqbalance,
    LosingSocket, LossRates, Napi, NapiSettings, NetNamespace, Process, ProcessRates, RxQueue, Settings,
    SocketRates, Source, ThreadRates, ThrottledRates, Transport, TxQueue,
};
pub use address::DeviceAddress;
pub use between::IntervalError;
pub use flow::{Flow, FlowError};
pub use flow_path::{Certainty, FlowPath, Step};
pub use flow_spread::{Landing, SpreadError, source_ends};
pub use listeners::Listener;
pub use rates::{Costs, CpuRates, HandOver, IrqRates, NicRates, Rates, SoftirqTimed, StackWork};
pub use rxlab_base::parse::{Container, Holder, Xdp, XdpMode};
pub use rxlab_base::units::Fact;
pub use stack::{Peer, Stack};
pub use topology::{Contradiction, Model, Nic, NicKind};
pub use totals::{CpuTotals, Totals};
