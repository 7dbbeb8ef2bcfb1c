//! The numbers of `net.core` that are one for the whole machine: what a CPU may do at a time, and for how long
//! a process looks for packets itself.

use super::number::{Number, Place, exists};
use super::{Doc, Risk};

/// The kernel's `int`.
const INT_MAX: u64 = i32::MAX as u64;
const OUTSIDE: &str = "the kernel keeps it in 31 bits";
const HOST: &str = "`host`";
const SOURCE: &str = "Documentation/admin-guide/sysctl/net.rst";
const NOTHING: &str = "Nothing.";

fn none(_: i32) -> Option<&'static str> {
    None
}

fn usecs_meaning(errno: i32) -> Option<&'static str> {
    (errno == rustix::io::Errno::INVAL.raw_os_error())
        .then_some("newer kernels take no less than two timer ticks, 8000 at 250 Hz")
}

/// `net.core.netdev_budget`.
pub(super) static NETDEV_BUDGET: Number = Number {
    name: "netdev_budget",
    doc: &Doc {
        summary: "How many packets a CPU takes in from all its NAPIs before it looks what else there is to do.",
        target: HOST,
        values: "a number of packets from 1 to 2147483647",
        example: "netdev_budget host = 600",
        path: "/proc/sys/net/core/netdev_budget",
        source: SOURCE,
        since: "2.6.12 or before",
        risk: Risk::Safe,
        lost: NOTHING,
        beware: "A `time_squeeze` by itself is no reason to raise it: the packets are taken in the next round. One \
                 value for all network namespaces, visible in the initial one only. The kernel also takes 0 and \
                 negative numbers, rxlab does not.",
    },
    place: Place::Core { file: "netdev_budget", there: |settings| exists(&settings.netdev_budget) },
    range: 1..=INT_MAX,
    outside: OUTSIDE,
    meaning: none,
};

/// `net.core.netdev_budget_usecs`.
pub(super) static NETDEV_BUDGET_USECS: Number = Number {
    name: "netdev_budget_usecs",
    doc: &Doc {
        summary: "For how long a CPU takes in packets before it looks what else there is to do.",
        target: HOST,
        values: "microseconds from 1 to 2147483647",
        example: "netdev_budget_usecs host = 12000",
        path: "/proc/sys/net/core/netdev_budget_usecs",
        source: SOURCE,
        since: "4.12",
        risk: Risk::Safe,
        lost: NOTHING,
        beware: "Everything else on that CPU waits for as long. Newer kernels refuse less than two timer ticks, which \
                 is the default (8000 at 250 Hz, seen on 6.18): there it can only be raised. One value for all \
                 network namespaces, visible in the initial one only.",
    },
    place: Place::Core {
        file: "netdev_budget_usecs",
        there: |settings| exists(&settings.netdev_budget_usecs),
    },
    range: 1..=INT_MAX,
    outside: OUTSIDE,
    meaning: usecs_meaning,
};

/// `net.core.netdev_max_backlog`.
pub(super) static NETDEV_MAX_BACKLOG: Number = Number {
    name: "netdev_max_backlog",
    doc: &Doc {
        summary: "How many packets may wait on one CPU that RPS, or an interface without NAPI, has handed to it. What \
                  comes on top is dropped.",
        target: HOST,
        values: "a number of packets from 1 to 2147483647",
        example: "netdev_max_backlog host = 2000",
        path: "/proc/sys/net/core/netdev_max_backlog",
        source: SOURCE,
        since: "2.6.12 or before",
        risk: Risk::Safe,
        lost: NOTHING,
        beware: "A longer queue delays what it no longer drops. Packets that a driver's NAPI takes in itself never \
                 wait there. One value for all network namespaces, visible in the initial one only. The kernel also \
                 takes 0 and negative numbers, rxlab does not.",
    },
    place: Place::Core { file: "netdev_max_backlog", there: |settings| exists(&settings.netdev_max_backlog) },
    range: 1..=INT_MAX,
    outside: OUTSIDE,
    meaning: none,
};

/// `net.core.busy_poll`.
pub(super) static BUSY_POLL: Number = Number {
    name: "busy_poll",
    doc: &Doc {
        summary: "For how long poll() and select() look for packets in the driver's queue themselves before they \
                  sleep.",
        target: HOST,
        values: "microseconds up to 2147483647; 0 or `off` for none. The kernel's documentation recommends 50",
        example: "busy_poll host = 50",
        path: "/proc/sys/net/core/busy_poll",
        source: SOURCE,
        since: "3.11",
        risk: Risk::Safe,
        lost: NOTHING,
        beware: "Burns the CPU of every process that waits, for less delay. Sockets need SO_BUSY_POLL or `busy_read` \
                 too. One value for all network namespaces, visible in the initial one only.",
    },
    place: Place::Core { file: "busy_poll", there: |settings| exists(&settings.busy_poll) },
    range: 0..=INT_MAX,
    outside: OUTSIDE,
    meaning: none,
};

/// `net.core.busy_read`.
pub(super) static BUSY_READ: Number = Number {
    name: "busy_read",
    doc: &Doc {
        summary: "For how long a read from a socket looks for packets in the driver's queue itself before it sleeps.",
        target: HOST,
        values: "microseconds up to 2147483647; 0 or `off` for none. The kernel's documentation recommends 50",
        example: "busy_read host = 50",
        path: "/proc/sys/net/core/busy_read",
        source: SOURCE,
        since: "3.11",
        risk: Risk::Safe,
        lost: NOTHING,
        beware: "The default of sockets made from then on: those that are there already keep theirs, also after undo. \
                 Burns the CPU of every process that waits, for less delay. One value for all network namespaces, \
                 visible in the initial one only.",
    },
    place: Place::Core { file: "busy_read", there: |settings| exists(&settings.busy_read) },
    range: 0..=INT_MAX,
    outside: OUTSIDE,
    meaning: none,
};
