//! Sysctls of sockets and connection tracking: how much may wait for a program, and how many connections are tracked.

use rustix::io::Errno;

use super::file::{At, FileKnob, Missing, Value, exists};

const INT_MAX: u64 = i32::MAX as u64;
const OUTSIDE: &str = "the kernel stores it in 31 bits";
/// Of a buffer: `SOCK_MIN_RCVBUF` in include/net/sock.h, which depends on the kernel.
const SMALL: &[(Errno, &str)] =
    &[(Errno::INVAL, "the kernel requires room for one packet, about 2300 bytes")];
const MACHINE: Missing =
    Missing::Because("this kernel does not have it, or this is not the initial network namespace");

pub(super) static RMEM_DEFAULT: FileKnob = FileKnob::new(
    "rmem_default",
    At::Host(|model| exists(&model.settings.rmem_default)),
    Value::Number(1..=INT_MAX, OUTSIDE),
)
.meanings(SMALL)
.missing(MACHINE);

pub(super) static RMEM_MAX: FileKnob = FileKnob::new(
    "rmem_max",
    At::Host(|model| exists(&model.settings.rmem_max)),
    Value::Number(1..=INT_MAX, OUTSIDE),
)
.meanings(SMALL)
.missing(MACHINE);

pub(super) static SOMAXCONN: FileKnob = FileKnob::new(
    "somaxconn",
    At::Host(|model| exists(&model.settings.somaxconn)),
    Value::Number(1..=INT_MAX, OUTSIDE),
);

pub(super) static TCP_MAX_SYN_BACKLOG: FileKnob = FileKnob::new(
    "tcp_max_syn_backlog",
    At::Host(|model| exists(&model.settings.tcp_max_syn_backlog)),
    Value::Number(1..=INT_MAX, OUTSIDE),
);

pub(super) static NF_CONNTRACK_MAX: FileKnob = FileKnob::new(
    "nf_conntrack_max",
    At::Host(|model| exists(&model.settings.nf_conntrack_max)),
    Value::Number(1..=INT_MAX, OUTSIDE),
)
.missing(Missing::Because("no connections are tracked here: nf_conntrack is not loaded"));
