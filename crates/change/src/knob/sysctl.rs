//! Values of `net.core`: how much receive work a CPU does at a time, how long a process polls for packets, and what
//! new queues get.

use rustix::io::Errno;

use super::Doc;
use super::file::{At, FileKnob, Members, Missing, Value, exists};

/// Largest value of an `int` sysctl.
const INT_MAX: u64 = i32::MAX as u64;
const OUTSIDE: &str = "the kernel stores it in 31 bits";
const HOST: &str = "`host`";
const SOURCE: &str = "Documentation/admin-guide/sysctl/net.rst";
const NOTHING: &str = "Nothing.";
const MISSING: Missing =
    Missing::Because("this kernel does not have it, or this is not the initial network namespace");

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
        beware: "The default for new sockets: existing ones keep theirs, even after undo. Every waiting \
                 process burns CPU time for lower latency. One value for all network namespaces, visible \
                 only in the initial one.",
    },
    At::Host(|model| exists(&model.settings.busy_read)),
    Value::Number(0..=INT_MAX, OUTSIDE),
)
.missing(MISSING);

pub(super) static DEV_WEIGHT: FileKnob = FileKnob::new(
    Doc {
        name: "dev_weight",
        summary: "Number of packets that a CPU takes from its backlog in one turn, after RPS or from an \
                  interface without NAPI.",
        target: HOST,
        values: "a number of packets from 1 to 2147483647",
        example: "dev_weight host = 128",
        source: SOURCE,
        since: "2.6.12 or before",
        lost: NOTHING,
        beware: "The NAPI of a driver has its own weight, usually 64, which this does not change. \
                 `netdev_budget` limits the sum of all turns. One value for all network namespaces, visible only \
                 in the initial one.",
    },
    At::Host(|model| exists(&model.settings.dev_weight)),
    Value::Number(1..=INT_MAX, OUTSIDE),
)
.missing(MISSING);

pub(super) static GRO_NORMAL_BATCH: FileKnob = FileKnob::new(
    Doc {
        name: "gro_normal_batch",
        summary: "Number of segments that GRO collects before it hands them to the network stack as a list.",
        target: HOST,
        values: "a number of segments from 1 to 2147483647; 1 hands on each packet at once",
        example: "gro_normal_batch host = 16",
        source: SOURCE,
        since: "5.4",
        lost: NOTHING,
        beware: "The list is handed on at the end of each poll too: more saves cache misses only under load. One \
                 value for all network namespaces, visible only in the initial one.",
    },
    At::Host(|model| exists(&model.settings.gro_normal_batch)),
    Value::Number(1..=INT_MAX, OUTSIDE),
)
.missing(MISSING);

pub(super) static SKB_DEFER_MAX: FileKnob = FileKnob::new(
    Doc {
        name: "skb_defer_max",
        summary: "Number of TCP packets read on one CPU that may wait to be freed on the CPU that allocated them.",
        target: HOST,
        values: "a number of packets up to 2147483647; 0 or `off` frees each where it is read",
        example: "skb_defer_max host = 128",
        source: SOURCE,
        since: "6.0",
        lost: NOTHING,
        beware: "It saves the reader contention for memory of another CPU, and gives the CPU that takes the \
                 interrupt the work of freeing. One value for all network namespaces, visible only in the initial one.",
    },
    At::Host(|model| exists(&model.settings.skb_defer_max)),
    Value::Number(0..=INT_MAX, OUTSIDE),
)
.missing(MISSING);

pub(super) static FLOW_LIMIT_CPUS: FileKnob = FileKnob::new(
    Doc {
        name: "flow_limit_cpus",
        summary: "CPUs whose backlog, once half full, drops packets of a flow that brings most of them: small flows \
                  get through while a large one floods the CPU.",
        target: HOST,
        values: "a list of CPUs, or `off`",
        example: "flow_limit_cpus host = 0-3",
        source: "Documentation/networking/scaling.rst, \"RPS Flow Limit\"",
        since: "3.11",
        lost: NOTHING,
        beware: "It acts on packets that RPS hands over; without RPS they do not pass the backlog. The history of \
                 flows begins again on a CPU that is switched on again. One value for all network namespaces, visible \
                 only in the initial one.",
    },
    At::Host(|model| exists(&model.settings.flow_limit_cpus)),
    Value::Mask(Members::OnlineCpus),
)
.missing(MISSING);

pub(super) static RPS_DEFAULT_MASK: FileKnob = FileKnob::new(
    Doc {
        name: "rps_default_mask",
        summary: "CPUs that RPS uses on the receive queues of interfaces that do not exist yet, such as the host ends of \
                  new containers.",
        target: HOST,
        values: "a list of CPUs, or `off`",
        example: "rps_default_mask host = 2-7",
        source: SOURCE,
        since: "6.3",
        lost: NOTHING,
        beware: "Existing queues keep their masks, even after undo. Each network namespace has its own value; a new \
                 one starts without. The kernel silently drops offline and isolated CPUs; rxlab refuses them by name.",
    },
    At::Host(|model| exists(&model.settings.rps_default_mask)),
    Value::Mask(Members::HousekeepingCpus),
)
.missing(Missing::Old("this kernel does not have it (6.3 and later do)"));

pub(super) static DEFAULT_SMP_AFFINITY: FileKnob = FileKnob::new(
    Doc {
        name: "default_smp_affinity",
        summary: "CPUs of interrupts that do not exist yet: those of a device that appears later, or gets more queues.",
        target: HOST,
        values: "a list of CPUs",
        example: "default_smp_affinity host = 0-3",
        source: "Documentation/core-api/irq/irq-affinity.rst",
        since: "2.6.21",
        lost: NOTHING,
        beware: "Existing interrupts stay where they are, even after undo. Drivers that spread their own interrupts \
                 ignore it, and irqbalance moves interrupts wherever they began.",
    },
    At::Host(|model| exists(&model.settings.default_smp_affinity)),
    Value::Mask(Members::SomeOnlineCpus),
)
.meanings(&[(Errno::INVAL, "none of these CPUs is online")])
.missing(Missing::Old("this kernel does not have it (those built for one CPU do not)"));
