//! Changes that ethtool makes by ioctl.

use super::EthtoolGet;
use crate::parse::WireError;
use crate::parse::ethtool::{rss, rules};

/// A change of a table of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EthtoolChange {
    /// The default RSS table.
    Table {
        /// The question whose answer contained the table before.
        get: EthtoolGet,
        /// The whole table. For `reset`, the table that the kernel is expected to make; it is not sent.
        queues: Vec<u32>,
        /// Goes back to the kernel's default, which follows the number of queues.
        reset: bool,
    },
    /// Another RSS context. The kernel chooses its number; EEXIST if it chooses a different
    /// one, and nothing is left of it.
    NewContext {
        /// Its number.
        id: u32,
        /// Its whole table.
        queues: Vec<u32>,
    },
    /// Another table for an RSS context.
    Context {
        /// Its number.
        id: u32,
        /// The whole table.
        queues: Vec<u32>,
    },
    /// Removal of an RSS context.
    NoContext {
        /// Its number.
        id: u32,
    },
    /// A flow rule at a location, replacing any rule there.
    Rule {
        /// Its location, which the rule also names.
        location: u32,
        /// `struct ethtool_rxnfc` (see [`crate::parse::ethtool::flow_bytes`]).
        rule: Vec<u8>,
    },
    /// Removal of the flow rule at a location.
    NoRule {
        /// The location.
        location: u32,
    },
}

impl EthtoolChange {
    /// The question whose answer shows the result.
    pub(super) fn get(&self) -> EthtoolGet {
        match self {
            EthtoolChange::Table { get, .. } => *get,
            EthtoolChange::NewContext { .. }
            | EthtoolChange::Context { .. }
            | EthtoolChange::NoContext { .. } => EthtoolGet::RssContexts,
            EthtoolChange::Rule { .. } | EthtoolChange::NoRule { .. } => EthtoolGet::Rules,
        }
    }

    /// That answer, made from the one before.
    pub(super) fn answer_after(&self, before: &[u8]) -> Result<Vec<u8>, WireError> {
        match self {
            EthtoolChange::Table { get: EthtoolGet::RssIoctl, queues, .. } => {
                rss::ioctl_with_table(before, queues)
            }
            EthtoolChange::Table { queues, .. } => rss::with_table(before, queues),
            EthtoolChange::NewContext { id, queues } | EthtoolChange::Context { id, queues } => {
                rss::with_context(before, *id, Some(queues))
            }
            EthtoolChange::NoContext { id } => rss::with_context(before, *id, None),
            EthtoolChange::Rule { location, rule } => rules::with_rule(before, *location, Some(rule)),
            EthtoolChange::NoRule { location } => rules::with_rule(before, *location, None),
        }
    }
}
