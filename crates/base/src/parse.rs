//! Parsers for procfs and sysfs text and netlink answers. One format per file; parsers take text or
//! bytes, never paths, and never guess: a line they do not understand is an error, not a zero.

mod cgroup;
mod configuration;
mod containers;
mod cpuinfo;
pub mod ethtool;
mod interrupts;
mod irqbalance;
mod kernel_arguments;
pub mod links;
mod load_tools;
mod locks;
mod mounts;
mod namespace;
mod net_dev;
mod netdev;
mod openssl;
mod process;
pub mod qdiscs;
mod schedstat;
mod snmp;
pub mod sock_diag;
mod sockets;
mod softirqs;
mod softnet;
mod stat;
mod wire;

use std::str::FromStr;

use thiserror::Error;

pub use cgroup::{ControlGroups, CpuLimit, Throttling, control_groups, cpu_limit, hierarchy, throttling};
pub use configuration::{
    Entry as ConfigurationEntry, configuration_entries, configuration_lines, has_word, matches_glob,
};
pub use containers::{Container, container, unit};
pub use cpuinfo::cpu_model;
pub use interrupts::{InterruptLine, Interrupts, RequestedIrq, interrupt_actions, interrupts};
pub use irqbalance::{
    IRQBALANCE_VARIABLES, IrqbalanceArguments, IrqbalanceSetup, irqbalance_arguments, irqbalance_setup,
    irqbalance_variables, with_banned_irqs,
};
pub use kernel_arguments::{has_kernel_argument, kernel_argument};
pub use links::{GroSize, Link, Xdp, XdpMode, links};
pub use links::{indexed_link_request, link_request, with_link_attributes};
pub use load_tools::{LoadToolReport, load_tool_report};
pub use locks::lock_owners;
pub use mounts::{Mount, mounted_namespaces, mounts};
pub use namespace::{namespace_id, namespace_inode};
pub use net_dev::{NetDevRow, net_dev};
pub use netdev::{
    Holder, NapiSetting, NetdevNapi, NetdevQueue, QueueCounters, QueueStats, netdev_napis, netdev_queues,
    queue_stats,
};
pub use netdev::{napi_request, with_napi_settings};
pub use openssl::{OpensslSpeed, openssl_speed};
pub use process::{
    ProcessStat, Scheduling, ThreadAttributes, allowed_cpus, boottime_offset_ns, capabilities, children,
    has_ended, is_runnable, last_cpu, parent, process_numbers, process_stat, scheduling, thread_attributes,
    thread_group, with_allowed_cpus, with_scheduling,
};
pub use qdiscs::{Qdisc, qdiscs};
pub use schedstat::{on_cpu_ns, ran_and_waited_ns, thread_name};
pub use snmp::{Counts, conntrack_stat, snmp, snmp6};
pub use sock_diag::{connected_sockets, listening_sockets};
pub use sockets::{NetSocket, tcp_listeners, udp_listeners, unix_sockets};
pub use softirqs::{NET_RX, NET_TX, SOFTIRQS, SoftirqRuns, softirqs};
pub use softnet::{SoftnetRow, softnet};
pub use stat::{CpuTimes, TICK_NS, TICKS_PER_SECOND, stat};
pub use wire::NESTED;
pub use wire::{Attributes, WireError, attribute, messages, one_message, with_attributes, words};

/// A line that does not match the format, by number from 1.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {what}")]
pub struct ParseError {
    /// Line number in the text, counted from 1.
    pub line: usize,
    /// Expected and found text.
    pub what: String,
}

impl ParseError {
    fn at(line: usize, what: impl Into<String>) -> Self {
        Self { line, what: what.into() }
    }
}

/// Line and column of byte `offset` of `text`, both counted from 1, columns in characters.
pub fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// A decimal counter, strictly: digits only, no sign.
fn counter(line: usize, text: &str) -> Result<u64, ParseError> {
    digits(text).ok_or_else(|| ParseError::at(line, format!("`{text}` is not a counter")))
}

/// A number of decimal digits only: the standard library also accepts a sign.
fn digits<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()))
}

/// `CPU12` in a table header, or `cpu12` in /proc/stat, given the prefix.
fn cpu_number(line: usize, prefix: &str, text: &str) -> Result<crate::units::CpuId, ParseError> {
    let number: Option<u64> = text.strip_prefix(prefix).and_then(digits);
    let number = number.ok_or_else(|| ParseError::at(line, format!("`{text}` is not {prefix}N")))?;
    number.try_into().map_err(|error: crate::units::MaskError| ParseError::at(line, error.to_string()))
}

/// The CPUs that head the columns of /proc/softirqs (all possible ones) and /proc/interrupts (online
/// ones): a column's position does not give its CPU.
fn header(text: Option<&str>) -> Result<Vec<crate::units::CpuId>, ParseError> {
    let text = text.ok_or_else(|| ParseError::at(1, "empty: expected a header of CPU columns"))?;
    let cpus: Vec<_> = text.split_whitespace().map(|w| cpu_number(1, "CPU", w)).collect::<Result<_, _>>()?;
    if cpus.is_empty() {
        return Err(ParseError::at(1, "expected a header of CPU columns"));
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters() {
        let text = "a\n\u{e9}b\n";
        assert_eq!(position(text, 0), (1, 1));
        assert_eq!(position(text, 4), (2, 2), "two bytes are one column");
        assert_eq!(position(text, 99), (3, 1), "beyond the end is the end");
    }
}
