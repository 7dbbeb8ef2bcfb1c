//! The practice range: hosts made of network namespaces on the real kernel, shared by the demo and
//! the tests.
//!
//! A namespace here has no name and no process: it is held by one descriptor of this process. When
//! the process ends, however it ends, the kernel takes everything in it away.

mod flood;
mod namespace;
mod range;

pub use flood::Flood;
pub use namespace::{LabError, Namespace};
pub use range::{Range, RangeSpec};
