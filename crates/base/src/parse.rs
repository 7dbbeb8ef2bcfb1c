//! Parsers for procfs and sysfs text and netlink answers. One format per file; parsers take text or
//! bytes, never paths, and never guess: a line they do not understand is an error, not a zero.

mod cgroup;
mod configuration;
mod containers;
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
mod schedstat;
pub mod sock_diag;
mod sockets;
mod softirqs;
mod softnet;
mod stat;
mod wire;

use std::str::FromStr;

use thiserror::Error;

pub use cgroup::{ControlGroups, CpuLimit, Throttling, control_groups, cpu_limit, throttling};
pub use configuration::{
    Entry as ConfigurationEntry, configuration_entries, configuration_lines, has_word, matches_glob,
};
pub use containers::{Container, container, unit};
pub use interrupts::{InterruptLine, Interrupts, interrupt_actions, interrupts};
pub use irqbalance::{IrqbalanceSetup, irqbalance_setup, with_banned_irqs};
pub use kernel_arguments::{has_kernel_argument, kernel_argument};
pub use links::{GroSize, Link, Xdp, XdpMode, links};
pub use links::{link_request, with_link_attributes};
pub use load_tools::{LoadToolReport, load_tool_report};
pub use locks::holds_lock;
pub use mounts::{Mount, mounts};
pub use namespace::{namespace_id, namespace_inode};
pub use net_dev::{NetDevRow, net_dev};
pub use netdev::{
    Holder, NapiSetting, NetdevNapi, NetdevQueue, QueueCounters, QueueStats, netdev_napis, netdev_queues,
    queue_stats,
};
pub use netdev::{napi_request, with_napi_settings};
pub use openssl::{OpensslSpeed, openssl_speed};
pub use process::{
    ProcessStat, Scheduling, allowed_cpus, children, has_ended, is_runnable, last_cpu, parent, process_stat,
    scheduling, with_allowed_cpus, with_scheduling,
};
pub use schedstat::{on_cpu_ns, ran_and_waited_ns, thread_name};
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
    use proptest::prelude::{any, proptest};

    use super::*;

    /// Parsers of netlink and ioctl answers.
    const BINARY: [fn(&[u8]); 15] = [
        |bytes| drop(ethtool::channels(bytes)),
        |bytes| drop(ethtool::coalesce(bytes)),
        |bytes| drop(ethtool::driver(bytes)),
        |bytes| drop(ethtool::rings(bytes)),
        |bytes| drop(ethtool::stat_names(bytes)),
        |bytes| drop(ethtool::stats(bytes)),
        |bytes| drop(links(bytes)),
        |bytes| drop(listening_sockets(bytes)),
        |bytes| drop(connected_sockets(bytes)),
        |bytes| drop(namespace_id(bytes)),
        |bytes| drop(netdev_napis(bytes)),
        |bytes| drop(netdev_queues(bytes)),
        |bytes| drop(queue_stats(bytes)),
        |bytes| drop(with_napi_settings(bytes, 257, bytes)),
        |bytes| drop(with_link_attributes(bytes, &"eth0".parse().expect("a name"), bytes)),
    ];

    proptest! {
        #[test]
        fn no_binary_parser_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let framed = one_message(&bytes);
            for parse in BINARY {
                parse(&bytes);
                parse(&framed);
            }
        }

        #[test]
        fn no_text_parser_panics(
            cgroup in "([0-9]{0,2}:(cpuset|name=systemd|)?:?/?[a-z]{0,4}\n){0,4}|.{0,60}",
            path in "(/(kubepods|pod|[-a-f0-9_:.]{0,40}|lxc\\.payload\\.|\u{e9}|.{0,9})){0,5}",
            irqbalance in "(SLEEP|IRQ|LOAD|DIFF|CLASS|BANNED|-?[0-9]{1,12}| ){0,20}|.{0,60}",
            mountinfo in "([0-9/ ]{0,12}\\\\?[0-9\u{e9}]{0,3} (- )?[a-z, ]{0,9}\n){0,3}|.{0,60}",
            net_dev_text in "a\nb\n( ?[a-z/ ]{0,16}:?( [0-9x]{0,22}){0,17}\n){0,3}|.{0,60}",
            openssl in "(Doing | for |s on | in |[0-9.]{1,4}|s|\n|-|inf){0,12}|.{0,60}",
            process in "([0-9]{1,22}|\\)|-| |\n|Cpus_allowed_list:){0,60}|.{0,60}",
            sockets in " local_address\n( [0-9]{1,2}: [0-9A-F:\u{e9}]{0,40} [0-9A-F:]{0,9} 0A( [0-9:]{1,22}){0,8}\n){0,3}|.{0,60}",
            softirqs_text in "( *CPU[0-9]{1,3}){0,4}\n((NET_[RT]X|BLOCK|NEW):( [0-9]{1,22}){0,5}\n){0,4}|.{0,60}",
            softnet_text in "(([0-9a-fA-F+g]{1,9} ?){0,16}\n){0,3}|.{0,60}",
            stat_text in "(cpu[0-9x]{0,3}( -?[0-9]{1,22}){0,12}\n){0,4}|.{0,80}",
        ) {
            let _ = control_groups(&cgroup).map(|groups| groups.telling().map(str::to_owned));
            let _ = (container(&path), unit(&path).map(str::len), namespace_inode(&path), mounts(&mountinfo));
            let _ = (irqbalance_setup(irqbalance.as_bytes()), openssl_speed(&openssl), is_runnable(&process));
            let _ = (last_cpu(&process), allowed_cpus(&process), children(&process), process_stat(&process));
            let _ = (tcp_listeners(&sockets), udp_listeners(&sockets), unix_sockets(&format!("Inode\n{sockets}")));
            let _ = (softirqs(&softirqs_text), softnet(&softnet_text), stat(&stat_text), net_dev(&net_dev_text));
        }
    }

    #[test]
    fn positions_count_lines_and_characters() {
        let text = "a\n\u{e9}b\n";
        assert_eq!(position(text, 0), (1, 1));
        assert_eq!(position(text, 4), (2, 2), "two bytes are one column");
        assert_eq!(position(text, 99), (3, 1), "beyond the end is the end");
    }
}
