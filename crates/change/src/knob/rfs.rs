//! Receive flow steering: the number of flows whose application CPU a receive queue and the machine remember.

use rustix::io::Errno;

use super::Doc;
use super::file::{At, FileKnob, Value, exists};

/// The global table.
///
/// Kernel: `Documentation/networking/scaling.rst`, since 2.6.35. Only in the initial network namespace; the
/// kernel rounds up to a power of two and refuses more than 2^29.
pub(super) static RFS_ENTRIES: FileKnob = FileKnob::new(
    Doc {
        name: "rfs_entries",
        summary: "Size of the table in which the kernel records on which CPU each flow was last read. Enables \
                  receive flow steering for the machine; each queue also needs `rfs`.",
        target: "`host`",
        values: "a number of flows up to 536870912, 0 or `off` for none; a good value is the number of \
                 connections active at one time",
        example: "rfs_entries host = 32768",
        source: "Documentation/networking/scaling.rst, \"RFS: Receive Flow Steering\"",
        since: "2.6.35",
        lost: "Nothing.",
        beware: "Rounded up to a power of two. One table for all network namespaces, visible only in the \
                 initial one.",
    },
    At::Host(|model| exists(&model.rps_sock_flow_entries)),
    Value::Flows,
)
.meanings(&[(Errno::INVAL, "the largest table has 536870912 entries")]);

/// The table of one queue.
///
/// Kernel: `Documentation/networking/scaling.rst`, since 2.6.35. Without the global table (`rfs_entries`) it
/// has no effect. The kernel rounds up to a power of two.
pub(super) static RFS: FileKnob = FileKnob::new(
    Doc {
        name: "rfs",
        summary: "Size of a receive queue's flow table, which steers each flow to the CPU where the application \
                  last read it. Works only together with `rfs_entries`, the table of the whole machine.",
        target: "`NIC/rx-N`",
        values: "a number of flows up to 536870912, 0 or `off` for none; a good value is `rfs_entries` divided \
                 by the number of queues",
        example: "rfs eth0/rx-0 = 4096",
        source: "Documentation/networking/scaling.rst, \"RFS: Receive Flow Steering\"",
        since: "2.6.35",
        lost: "Removing the queue, even if it comes back later. A link that goes down and up does not lose it.",
        beware: "Rounded up to a power of two. The CPU it picks is not limited by the `rps` list. Follows only \
                 connected sockets (sock_rps_record_flow in include/net/sock.h): TCP, and UDP after connect().",
    },
    At::RxQueue,
    Value::Flows,
);
