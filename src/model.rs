//! What a machine is and what it was doing: the receive path and the rates on it.
//!
//! Pure values. Topology ([`Model`]) comes from one sample, [`Rates`] from two; nothing here reads
//! a file, judges, or prints.

mod between;
mod build;
mod hardware;
mod interrupts;
mod irq_names;
mod listeners;
mod rates;
mod settings;
mod stack;
mod topology;

pub use crate::units::Fact;
pub use between::IntervalError;
pub use hardware::{Function, Hardware};
pub use listeners::{Listener, Process, Transport};
pub use rates::{CpuRates, IrqRates, NicRates, Rates};
pub use settings::{Clocksource, Irqbalance, Settings};
pub use stack::{Container, NetNamespace, Peer, Stack};
pub use topology::{
    Contradiction, Cpu, DeviceAddress, Identity, Irq, Model, Napi, NapiSettings, Nic, NicKind, RxQueue,
    Source, TxQueue,
};
