//! Receive flow steering: the number of flows whose application CPU a receive queue and the machine remember.

use rustix::io::Errno;

use super::file::{At, FileKnob, Value, exists};

/// The global table.
///
/// Kernel: `Documentation/networking/scaling.rst`, since 2.6.35. Only in the initial network namespace; the
/// kernel rounds up to a power of two and refuses more than 2^29.
pub(super) static RFS_ENTRIES: FileKnob =
    FileKnob::new("rfs_entries", At::Host(|model| exists(&model.rps_sock_flow_entries)), Value::Flows)
        .meanings(&[(Errno::INVAL, "the largest table has 536870912 entries")]);

/// The table of one queue.
///
/// Kernel: `Documentation/networking/scaling.rst`, since 2.6.35. Without the global table (`rfs_entries`) it
/// has no effect. The kernel rounds up to a power of two.
pub(super) static RFS: FileKnob = FileKnob::new("rfs", At::RxQueue, Value::Flows);
