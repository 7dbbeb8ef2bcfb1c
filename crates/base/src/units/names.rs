//! Identifiers of CPUs, interrupts, interfaces and queues.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::digits;
use crate::serde_as_text;

/// A logical CPU, by the kernel's number (`cpu7` is 7).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct CpuId(pub u32);

/// An interrupt by its Linux number. No identity across reboots or queue changes: never journal it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct IrqId(pub u32);

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for IrqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An interface name that the kernel does not accept, or a queue not written `rx-N` or `tx-N`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    #[error("`{0}` is not an interface name (1 to 15 bytes, no `/`, no white space)")]
    Nic(String),
    #[error("`{0}` is not a queue (write rx-N or tx-N)")]
    Queue(String),
}

/// A network interface name, valid by `dev_valid_name()` of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct NicName(String);

impl NicName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The item with this name. Takes a few steps where items are sorted by name, as those of a sample are, and one for
/// each item otherwise: a container host has thousands of interfaces, and each is looked up.
pub fn find_by_name<'a, T>(
    items: &'a [T],
    name_of: impl Fn(&T) -> &NicName,
    name: &NicName,
) -> Option<&'a T> {
    match items.binary_search_by(|item| name_of(item).cmp(name)) {
        Ok(at) => items.get(at),
        Err(_) if items.is_sorted_by_key(&name_of) => None,
        Err(_) => items.iter().find(|item| name_of(item) == name),
    }
}

impl FromStr for NicName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let valid = (1..=15).contains(&text.len())
            && text != "."
            && text != ".."
            && !text.contains(|c: char| c == '/' || c == ':' || c.is_ascii_whitespace());
        if valid { Ok(Self(text.to_owned())) } else { Err(NameError::Nic(text.to_owned())) }
    }
}

serde_as_text!(NicName);

impl fmt::Display for NicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    Rx,
    Tx,
}

/// One queue of an interface, as sysfs names it: `rx-0`, `tx-3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct QueueId {
    /// Receive or transmit.
    pub direction: Direction,
    /// Counted from 0.
    pub index: u32,
}

impl QueueId {
    pub fn rx(index: u32) -> Self {
        Self { direction: Direction::Rx, index }
    }

    pub fn tx(index: u32) -> Self {
        Self { direction: Direction::Tx, index }
    }
}

impl FromStr for QueueId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let bad = || NameError::Queue(text.to_owned());
        let (direction, number) = match text.split_once('-').ok_or_else(bad)? {
            ("rx", number) => (Direction::Rx, number),
            ("tx", number) => (Direction::Tx, number),
            _ => return Err(bad()),
        };
        // One name per queue: two names must not mean the same directory.
        let padded = number.len() > 1 && number.starts_with('0');
        let index = digits(number).filter(|_| !padded).ok_or_else(bad)?;
        Ok(Self { direction, index })
    }
}

serde_as_text!(QueueId);

impl fmt::Display for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.direction {
            Direction::Rx => "rx",
            Direction::Tx => "tx",
        };
        f.pad(&format!("{side}-{}", self.index))
    }
}

#[cfg(test)]
mod tests {
    use super::{NicName, QueueId, find_by_name};

    #[test]
    fn a_name_is_found_in_any_order() {
        let name = |text: &str| -> NicName { text.parse().expect("a name") };
        for order in [["eth0", "eth1", "lo", "veth3"], ["veth3", "eth1", "lo", "eth0"]] {
            let order = order.map(name);
            for name in &order {
                assert_eq!(find_by_name(&order, |name| name, name), Some(name));
            }
            assert_eq!(find_by_name(&order, |name| name, &name("eth2")), None);
        }
    }

    #[test]
    fn queue_names_are_strict() {
        assert_eq!("rx-12".parse(), Ok(QueueId::rx(12)));
        assert_eq!("rx-0".parse(), Ok(QueueId::rx(0)));
        for bad in ["rx", "rx-", "rx-01", "rx-+1", "rx-1x", "px-1", "rx-99999999999"] {
            assert!(bad.parse::<QueueId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn interface_names_follow_the_kernel() {
        assert!("enP2s1f0np0".parse::<NicName>().is_ok());
        for bad in ["", ".", "..", "a/b", "a b", "eth0:1", "sixteen-bytes-xx"] {
            assert!(bad.parse::<NicName>().is_err(), "{bad}");
        }
    }
}
