//! What ethtool changes by ioctl.

use super::EthtoolGet;
use crate::parse::WireError;
use crate::parse::ethtool::{rss, rules};

/// A change of what lies in the tables of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EthtoolChange {
    /// The default RSS table.
    Table {
        /// The question that was answered with the table before.
        get: EthtoolGet,
        /// The whole table. For `reset`, what the kernel will make of it: it is not asked for that.
        queues: Vec<u32>,
        /// Goes back to the kernel's default, which follows the number of queues.
        reset: bool,
    },
    /// A further RSS context that is not there yet. The kernel chooses its number; EEXIST when that is another
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
    /// No such RSS context any more.
    NoContext {
        /// Its number.
        id: u32,
    },
    /// A flow rule on a place, instead of one that is there.
    Rule {
        /// Its place, which the rule names too.
        location: u32,
        /// `struct ethtool_rxnfc` (see [`crate::parse::ethtool::flow_bytes`]).
        rule: Vec<u8>,
    },
    /// No flow rule on a place.
    NoRule {
        /// Which one.
        location: u32,
    },
}

impl EthtoolChange {
    /// The question whose answer shows what became of it.
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
