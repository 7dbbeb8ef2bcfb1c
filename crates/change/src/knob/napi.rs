//! Polling of an interface's NAPIs by threads, and the time a NAPI waits before it re-enables its interrupt.

use rustix::io::Errno;

use super::Doc;
use super::file::{At, FileKnob, Missing, Value, exists};

const LOST: &str = "Re-creating the interface, for example by reloading its driver. Neither a link that \
                    goes down and up nor a change of the number of queues loses it.";

/// Empty polls before interrupts are re-enabled.
///
/// Kernel: `Documentation/networking/napi.rst`, "IRQ mitigation".
pub(super) static NAPI_DEFER_HARD_IRQS: FileKnob = FileKnob::new(
    Doc {
        name: "napi_defer_hard_irqs",
        summary: "Number of consecutive empty polls before a NAPI re-enables its interrupt. Between two \
                  polls it sleeps for `gro_flush_timeout`: fewer interrupts, slightly more latency.",
        target: "`NIC`",
        values: "a number of polls up to 2147483647; 0 or `off` for none",
        example: "napi_defer_hard_irqs eth0 = 2",
        source: "Documentation/networking/napi.rst, \"IRQ mitigation\"",
        since: "5.8",
        lost: LOST,
        beware: "Has no effect without `gro_flush_timeout`. Replaces `queue_defer_hard_irqs` of every queue \
                 (since 6.13); undo sets both again.",
    },
    At::Nic(|nic| exists(&nic.napi.defer_hard_irqs)),
    Value::Number(0..=i32::MAX as u64, "the kernel counts no further"),
)
.meanings(&[(Errno::RANGE, "the kernel counts up to 2147483647")]);

/// Nanoseconds until a deferred poll.
///
/// Kernel: `Documentation/networking/napi.rst`, "IRQ mitigation".
pub(super) static GRO_FLUSH_TIMEOUT: FileKnob = FileKnob::new(
    Doc {
        name: "gro_flush_timeout",
        summary: "How long packets may wait to be merged with later ones, and a NAPI for its next poll \
                  while its interrupt is off (`napi_defer_hard_irqs`).",
        target: "`NIC`",
        values: "nanoseconds up to 1000000000; 0 or `off` for none",
        example: "gro_flush_timeout eth0 = 20000",
        source: "Documentation/networking/napi.rst, \"IRQ mitigation\"",
        since: "3.19",
        lost: LOST,
        beware: "Delays every packet of a quiet flow by up to this long. The kernel accepts any number, \
                 even centuries; rxlab refuses more than a second. Replaces \
                 `queue_gro_flush_timeout` of every queue (since 6.13); undo sets both again.",
    },
    At::Nic(|nic| exists(&nic.napi.gro_flush_timeout_ns)),
    Value::Number(0..=1_000_000_000, "packets would wait longer than a second"),
);

/// Polling by kernel threads.
///
/// Kernel: `Documentation/networking/napi.rst`, "Threaded NAPI".
pub(super) static THREADED: FileKnob = FileKnob::new(
    Doc {
        name: "threaded",
        summary: "Polls the queues of an interface in kernel threads, one for each NAPI, instead of in softirq. \
                  The scheduler can move the threads, and they can be pinned and given a priority \
                  (`napi_priority`).",
        target: "`NIC`",
        values: "`on` or `off`",
        example: "threaded eth0 = on",
        source: "Documentation/networking/napi.rst, \"Threaded NAPI\"",
        since: "5.12",
        lost: "Re-creating the interface, for example by reloading its driver. A link that goes down and up \
               keeps it, but creates new threads: their priority and affinity are lost.",
        beware: "The threads run wherever the scheduler puts them, not where the interrupt is. Replaces \
                 `queue_threaded` of every queue (since 6.17); undo sets both again.",
    },
    At::Nic(|nic| exists(&nic.napi.threaded)),
    Value::Switch,
)
.meanings(&[(Errno::INVAL, "this kernel has no such mode")])
    // EOPNOTSUPP, or the file does not exist; but it was just read.
.missing(Missing::OnWrite(
        "it has no NAPI now, or this kernel cannot thread it (a veth has one while GRO is on)",
    ));
