//! The receive path of a machine and the rates on it.
//!
//! Pure values. Topology ([`Model`]) comes from one sample, [`Rates`] from two; nothing here reads
//! files, judges or prints.

mod between;
mod build;
mod hardware;
mod interrupts;
mod irq_names;
mod listeners;
mod other_irqs;
mod processes;
mod rates;
mod stack;
mod topology;

pub use crate::parse::Container;
pub use crate::sample::{Clocksource, Cpu, Identity, Irqbalance, NapiSettings, Settings, Transport};
pub use crate::units::Fact;
pub use between::IntervalError;
pub use hardware::{Function, Hardware};
pub use listeners::{Listener, Process};
pub use rates::{
    Costs, CpuRates, HandOver, HeldRates, IrqRates, NicRates, ProcessRates, Rates, SocketRates, SoftirqTimed,
    StackWork, ThreadRates,
};
pub use stack::{NetNamespace, Peer, Stack};
pub use topology::{Contradiction, DeviceAddress, Irq, Model, Napi, Nic, NicKind, RxQueue, Source, TxQueue};
