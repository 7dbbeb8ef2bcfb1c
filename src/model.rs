//! What a machine is and what it was doing: the receive path and the rates on it.
//!
//! Pure values. Topology ([`Model`]) comes from one sample, [`Rates`] from two; nothing here reads
//! a file, judges, or prints.

mod between;
mod build;
mod irq_names;
mod rates;
mod topology;

pub use crate::units::Fact;
pub use between::IntervalError;
pub use rates::{CpuRates, IrqRates, NicRates, Rates};
pub use topology::{Cpu, DeviceAddress, Identity, Irq, Irqbalance, Model, Nic, NicKind, RxQueue, TxQueue};
