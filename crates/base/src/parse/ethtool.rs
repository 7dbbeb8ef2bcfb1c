//! Driver information of an interface: answers of ethtool, one command per file.
//!
//! Documentation/networking/ethtool-netlink.rst; numbers are those of
//! include/uapi/linux/ethtool_netlink.h and, for ioctls, include/uapi/linux/ethtool.h. A value that
//! a driver does not report is `None`, never 0.
//!
//! Answers in the tests were captured on Linux 6.18 with virtio_net, except those marked as
//! composed: no recorded machine has RSS tables, RSS contexts or flow rules.

mod channels;
mod coalesce;
mod driver;
pub mod features;
pub mod flow_fields;
mod flow_match;
mod flow_text;
pub mod queue_coalesce;
mod queue_statistics;
mod rings;
pub mod rss;
pub mod rules;
mod stats;
mod values;

pub use channels::channels;
pub use coalesce::{Adaptive, CoalesceParameter, coalesce};
pub use driver::driver;
pub use features::{features, requested, wanted};
pub use flow_match::flow_matches;
pub use flow_text::{flow_bytes, flow_text, same_flow};
pub use queue_coalesce::{QueueCoalesce, QueueDelay, queue_coalesce};
pub use queue_statistics::{Counted, QueueNames, QueueStatistic, QueueStatistics};
pub use rings::{RingKind, rings};
pub use rss::{
    hash_fields, hash_letters, hash_letters_of, hash_letters_of_bits, rss, rss_contexts, rss_ioctl, rx_rings,
};
pub use rules::{chooses_slots, rules};
pub use stats::{stat_names, stats};
pub use values::{
    ChannelKind, Channels, Coalesce, Count, DriverInfo, Feature, FlowAction, FlowRule, FlowSpec, HashFields,
    Rings, Rss,
};

use std::fmt::Write;

use super::wire::only;
use super::{Attributes, WireError};

/// A number and its maximum, whose attribute is that of the number less 4, for rings as for channels. The kernel reports both or
/// neither.
fn count(message: &Attributes<'_>, now: u16) -> Result<Option<Count>, WireError> {
    let max = now - 4;
    match (message.number32(now)?, message.number32(max)?) {
        (Some(now), Some(max)) => Ok(Some(Count { now, max })),
        (None, None) => Ok(None),
        _ => Err(WireError::new(format!("only one of attributes {now} and {max} is present"))),
    }
}

/// `N` bytes at `at` of an ioctl's structure.
fn field<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], WireError> {
    let field = bytes.get(at..).and_then(<[u8]>::first_chunk);
    field
        .copied()
        .ok_or_else(|| WireError::new(format!("{} bytes: truncated before {}", bytes.len(), at + N)))
}

/// A number of 32 bits in an ioctl's structure.
fn field32(bytes: &[u8], at: usize) -> Result<u32, WireError> {
    field(bytes, at).map(u32::from_ne_bytes)
}

/// Hexadecimal digits, two per byte.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        write!(digits, "{byte:02x}").expect("a string takes all");
        digits
    })
}

/// Text of at most `N` bytes that ends at its first NUL. Firmware may send anything: text that is not
/// UTF-8 is shown lossily, not rejected.
fn field_text<const N: usize>(bytes: &[u8], at: usize) -> Result<String, WireError> {
    let bytes: [u8; N] = field(bytes, at)?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(N);
    Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
}
