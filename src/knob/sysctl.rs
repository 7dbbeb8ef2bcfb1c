//! Machine-wide numbers of `net.core`: how much receive work a CPU does at a time, and how long a process
//! polls for packets.

use rustix::io::Errno;

use super::Doc;
use super::file::{At, FileKnob, Missing, Value, exists};

/// The kernel's `int`.
const INT_MAX: u64 = i32::MAX as u64;
const OUTSIDE: &str = "the kernel stores it in 31 bits";
const HOST: &str = "`host`";
const SOURCE: &str = "Documentation/admin-guide/sysctl/net.rst";
const NOTHING: &str = "Nothing.";
const MISSING: Missing =
    Missing::Because("this kernel does not have it, or this is not the initial network namespace");

/// `net.core.netdev_budget`.
pub(super) static NETDEV_BUDGET: FileKnob = FileKnob::new(
    Doc {
        name: "netdev_budget",
        summary: "Number of packets that a CPU takes from all its NAPIs before it checks for other work.",
        target: HOST,
        values: "a number of packets from 1 to 2147483647",
        example: "netdev_budget host = 600",
        source: SOURCE,
        since: "2.6.12 or before",
        lost: NOTHING,
        beware: "A `time_squeeze` alone is not a reason to raise it: the packets are taken in the next \
                 round. One value for all network namespaces, visible only in the initial one. The kernel \
                 also accepts 0 and negative numbers, rxlab does not.",
    },
    At::Host(|model| exists(&model.settings.netdev_budget)),
    Value::Number(1..=INT_MAX, OUTSIDE),
)
.missing(MISSING);

/// `net.core.netdev_budget_usecs`.
pub(super) static NETDEV_BUDGET_USECS: FileKnob = FileKnob::new(
    Doc {
        name: "netdev_budget_usecs",
        summary: "How long a CPU takes packets before it checks for other work.",
        target: HOST,
        values: "microseconds from 1 to 2147483647",
        example: "netdev_budget_usecs host = 12000",
        source: SOURCE,
        since: "4.12",
        lost: NOTHING,
        beware: "Everything else on that CPU waits that long. Newer kernels refuse less than two timer \
                 ticks, which is the default (8000 at 250 Hz, seen on 6.18): there it can only be raised. \
                 One value for all network namespaces, visible only in the initial one.",
    },
    At::Host(|model| exists(&model.settings.netdev_budget_usecs)),
    Value::Number(1..=INT_MAX, OUTSIDE),
)
.meanings(&[(Errno::INVAL, "newer kernels require at least two timer ticks, 8000 at 250 Hz")])
.missing(MISSING);

/// `net.core.netdev_max_backlog`.
pub(super) static NETDEV_MAX_BACKLOG: FileKnob = FileKnob::new(
    Doc {
        name: "netdev_max_backlog",
        summary: "Number of packets that may wait on one CPU after RPS, or an interface without NAPI, \
                  handed them over. The kernel drops what exceeds it.",
        target: HOST,
        values: "a number of packets from 1 to 2147483647",
        example: "netdev_max_backlog host = 2000",
        source: SOURCE,
        since: "2.6.12 or before",
        lost: NOTHING,
        beware: "A longer queue delays the packets it no longer drops. Packets that a driver's NAPI takes \
                 itself never wait there. One value for all network namespaces, visible only in the initial \
                 one. The kernel also accepts 0 and negative numbers, rxlab does not.",
    },
    At::Host(|model| exists(&model.settings.netdev_max_backlog)),
    Value::Number(1..=INT_MAX, OUTSIDE),
)
.missing(MISSING);

/// `net.core.busy_poll`.
pub(super) static BUSY_POLL: FileKnob = FileKnob::new(
    Doc {
        name: "busy_poll",
        summary: "How long poll() and select() poll the driver's queue for packets before they sleep.",
        target: HOST,
        values: "microseconds up to 2147483647; 0 or `off` for none. The kernel's documentation recommends 50",
        example: "busy_poll host = 50",
        source: SOURCE,
        since: "3.11",
        lost: NOTHING,
        beware: "Every waiting process burns CPU time for lower latency. Sockets need SO_BUSY_POLL or \
                 `busy_read` too. One value for all network namespaces, visible only in the initial one.",
    },
    At::Host(|model| exists(&model.settings.busy_poll)),
    Value::Number(0..=INT_MAX, OUTSIDE),
)
.missing(MISSING);

/// `net.core.busy_read`.
pub(super) static BUSY_READ: FileKnob = FileKnob::new(
    Doc {
        name: "busy_read",
        summary: "How long a read from a socket polls the driver's queue for packets before it sleeps.",
        target: HOST,
        values: "microseconds up to 2147483647; 0 or `off` for none. The kernel's documentation recommends 50",
        example: "busy_read host = 50",
        source: SOURCE,
        since: "3.11",
        lost: NOTHING,
        beware: "The default for new sockets: existing ones keep theirs, also after undo. Every waiting \
                 process burns CPU time for lower latency. One value for all network namespaces, visible \
                 only in the initial one.",
    },
    At::Host(|model| exists(&model.settings.busy_read)),
    Value::Number(0..=INT_MAX, OUTSIDE),
)
.missing(MISSING);
