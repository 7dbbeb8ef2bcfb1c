//! The receive path of a Linux machine: NIC -> queue -> interrupt -> CPU -> RPS.
//!
//! [`sample`] reads a machine through a `Host`, one source per file; a source that fails does not affect the others.
//! [`model`] links queues, interrupts and CPUs, and calculates the rates between two samples. [`evidence`] answers
//! questions that rules and plans share: where receive work happens, how much room is left. [`constraints`] lists what may not
//! be done, by object. [`drivers`] has what differs
//! from driver to driver.
//!
//! Never: writes, judges or prints.
//!
//! ```
//! use rxlab_path::model::Model;
//! use rxlab_path::sample::{Inventory, Scope};
//! use rxlab_sys::RecordedHost;
//!
//! let host = RecordedHost::new()
//!     .with("sys/devices/system/cpu/online", "0-1\n")
//!     .with("sys/class/net/eth0/queues/rx-0/rps_cpus", "2\n");
//! let model = Model::new(&Inventory::take(&host, Scope::All));
//! let queue = &model.nics[0].rx[0];
//! assert_eq!(queue.rps_cpus.known().expect("it can be read").to_string(), "1");
//! ```

#![warn(missing_docs)]

pub mod constraints;
pub mod drivers;
pub mod drop_reasons;
pub mod evidence;
pub mod ledger;
pub mod model;
pub mod sample;
#[cfg(any(test, feature = "testing"))]
pub mod sketch;
