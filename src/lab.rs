//! The practice range: hosts made of network namespaces on the real kernel, shared by the demo and
//! the tests.
//!
//! A namespace here has no name and no process: one descriptor of this process holds it. When the
//! process ends, however it ends, the kernel removes everything in it.

mod flood;
mod namespace;
mod range;

pub use flood::Flood;
pub use namespace::{LabError, Namespace};
pub use range::{Range, RangeSpec};
