//! Polling of an interface's NAPIs by threads, and the time a NAPI waits before it re-enables its interrupt.

use rustix::io::Errno;

use super::file::{At, FileKnob, Missing, Value, exists};

/// Empty polls before interrupts are re-enabled.
///
/// Kernel: `Documentation/networking/napi.rst`, "IRQ mitigation".
pub(super) static NAPI_DEFER_HARD_IRQS: FileKnob = FileKnob::new(
    "napi_defer_hard_irqs",
    At::Nic(|nic| exists(&nic.napi.defer_hard_irqs)),
    Value::Number(0..=i32::MAX as u64, "the kernel counts no further"),
)
.meanings(&[(Errno::RANGE, "the kernel counts up to 2147483647")]);

/// Nanoseconds until a deferred poll.
///
/// Kernel: `Documentation/networking/napi.rst`, "IRQ mitigation".
pub(super) static GRO_FLUSH_TIMEOUT: FileKnob = FileKnob::new(
    "gro_flush_timeout",
    At::Nic(|nic| exists(&nic.napi.gro_flush_timeout_ns)),
    Value::Number(0..=1_000_000_000, "packets would wait longer than a second"),
);

/// Polling by kernel threads.
///
/// Kernel: `Documentation/networking/napi.rst`, "Threaded NAPI".
pub(super) static THREADED: FileKnob =
    FileKnob::new("threaded", At::Nic(|nic| exists(&nic.napi.threaded)), Value::Switch)
        .meanings(&[(Errno::INVAL, "this kernel has no such mode")])
        // EOPNOTSUPP, or the file does not exist; but it was just read.
        .missing(Missing::OnWrite(
            "it has no NAPI now, or this kernel cannot thread it (a veth has one while GRO is on)",
        ));
