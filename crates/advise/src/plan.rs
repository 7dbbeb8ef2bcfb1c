//! Plans: the value each tunable should have, and the reason. A plan decides; `knob` knows how.
//!
//! The policies are in `policy`, one variable per file in `step`. Nothing here reads or writes a machine.

pub mod candidates;
mod cost;
mod draft;
mod expected;
mod forecast;
mod machine;
mod moves;
mod policy;
mod prediction;
mod reason;
mod share;
mod spread;
mod step;
mod throughput;
mod topology;

pub use cost::basis;
pub use forecast::forecast;
pub use policy::{Options, Policed, Policy, Variable};
pub use reason::Reason;
pub use spread::{Proposal, Spread, default_nic, spread};
