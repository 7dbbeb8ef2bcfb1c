//! Sysctls of sockets and connection tracking: how much may wait for a program, and how many connections are tracked.

use rustix::io::Errno;

use super::Doc;
use super::file::{At, FileKnob, Missing, Value, exists};

const INT_MAX: u64 = i32::MAX as u64;
const OUTSIDE: &str = "the kernel stores it in 31 bits";
const HOST: &str = "`host`";
const NOTHING: &str = "Nothing.";
const IP_SYSCTL: &str = "Documentation/networking/ip-sysctl.rst";
/// Of a buffer: `SOCK_MIN_RCVBUF` in include/net/sock.h, which depends on the kernel.
const SMALL: &[(Errno, &str)] =
    &[(Errno::INVAL, "the kernel requires room for one packet, about 2300 bytes")];
const MACHINE: Missing =
    Missing::Because("this kernel does not have it, or this is not the initial network namespace");

pub(super) static RMEM_DEFAULT: FileKnob = FileKnob::new(
    Doc {
        name: "rmem_default",
        summary: "Size of the receive buffer of a new socket whose program does not set one, other than TCP.",
        target: HOST,
        values: "a number of bytes from about 2300 to 2147483647",
        example: "rmem_default host = 1048576",
        source: "socket(7), SO_RCVBUF",
        since: "2.6.12 or before",
        lost: NOTHING,
        beware: "Open sockets keep their buffer, even after undo: a program has to be restarted. A packet counts \
                 with its overhead, a small one as about 800 bytes. A larger buffer delays what it no longer drops. One \
                 value for all network namespaces, which only the initial one can change.",
    },
    At::Host(|model| exists(&model.settings.rmem_default)),
    Value::Number(1..=INT_MAX, OUTSIDE),
)
.meanings(SMALL)
.missing(MACHINE);

pub(super) static RMEM_MAX: FileKnob = FileKnob::new(
    Doc {
        name: "rmem_max",
        summary: "Largest receive buffer that a program may ask for with SO_RCVBUF.",
        target: HOST,
        values: "a number of bytes from about 2300 to 2147483647",
        example: "rmem_max host = 8388608",
        source: "socket(7), SO_RCVBUF",
        since: "2.6.12 or before",
        lost: NOTHING,
        beware: "It has no effect on programs that do not ask, and none on open sockets. The kernel doubles what a program \
                 asks for. TCP adapts its own buffers up to net.ipv4.tcp_rmem. One value for all network namespaces, \
                 which only the initial one can change.",
    },
    At::Host(|model| exists(&model.settings.rmem_max)),
    Value::Number(1..=INT_MAX, OUTSIDE),
)
.meanings(SMALL)
.missing(MACHINE);

pub(super) static SOMAXCONN: FileKnob = FileKnob::new(
    Doc {
        name: "somaxconn",
        summary: "Maximum number of connections that wait on a listening socket until its program accepts them.",
        target: HOST,
        values: "a number of connections from 1 to 2147483647",
        example: "somaxconn host = 16384",
        source: IP_SYSCTL,
        since: "2.6.12 or before",
        lost: NOTHING,
        beware: "A socket takes the smaller of this and the backlog of its listen(): the program has to ask for more and to \
                 be restarted. Connections that outlast their client's patience are served for nothing. Each network \
                 namespace has its own value; a new one starts with 4096 (128 before 5.4). The kernel also accepts 0, \
                 rxlab does not.",
    },
    At::Host(|model| exists(&model.settings.somaxconn)),
    Value::Number(1..=INT_MAX, OUTSIDE),
);

pub(super) static TCP_MAX_SYN_BACKLOG: FileKnob = FileKnob::new(
    Doc {
        name: "tcp_max_syn_backlog",
        summary: "Maximum number of handshakes in progress on a listening socket without SYN cookies.",
        target: HOST,
        values: "a number of requests from 1 to 2147483647",
        example: "tcp_max_syn_backlog host = 4096",
        source: IP_SYSCTL,
        since: "2.6.12 or before",
        lost: NOTHING,
        beware: "With SYN cookies (net.ipv4.tcp_syncookies, on by default) the length of the accept queue is the limit instead. \
                 Each network namespace has its own value. The kernel also accepts 0 and negative numbers, rxlab does not.",
    },
    At::Host(|model| exists(&model.settings.tcp_max_syn_backlog)),
    Value::Number(1..=INT_MAX, OUTSIDE),
);

pub(super) static NF_CONNTRACK_MAX: FileKnob = FileKnob::new(
    Doc {
        name: "nf_conntrack_max",
        summary: "Maximum number of tracked connections; the kernel drops the first packet of each further one.",
        target: HOST,
        values: "a number of connections from 1 to 2147483647",
        example: "nf_conntrack_max host = 524288",
        source: "Documentation/networking/nf_conntrack-sysctl.rst",
        since: "2.6.20",
        lost: NOTHING,
        beware: "Each takes about 300 bytes of kernel memory. The hash table keeps its size (net.netfilter.nf_conntrack_buckets): \
                 with many more connections than buckets each lookup takes longer. The value is lost if the module is \
                 unloaded. One value for all network namespaces, which only the initial one can change. To the \
                 kernel 0 means no limit; rxlab refuses it.",
    },
    At::Host(|model| exists(&model.settings.nf_conntrack_max)),
    Value::Number(1..=INT_MAX, OUTSIDE),
)
.missing(Missing::Because("no connections are tracked here: nf_conntrack is not loaded"));
