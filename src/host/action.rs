//! What is changed over a socket instead of a file.

use rustix::io::Errno;

use super::{EthtoolGet, Host, HostError, Operation, Question};
use crate::parse::ethtool::{features, rss, rules};
use crate::parse::{WireError, with_attributes};
use crate::units::NicName;

/// One change. What it made of the machine is for the [`Question`] that asks for the same to say.
///
/// Below any root but `/` and in recordings the answer to that question is a file, and the change is one of
/// that file: such a machine keeps whatever is asked of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Sets attributes of the ethtool message that answers `get`, in their encoded form: those that the
    /// parser of the answer gives for values. Only those named change.
    Ethtool {
        /// The question whose answer has these attributes.
        get: EthtoolGet,
        /// Which interface.
        nic: NicName,
        /// Attributes, one behind another (see [`crate::parse::push_attribute`]).
        attributes: Vec<u8>,
    },
    /// Changes what ethtool changes by ioctl.
    EthtoolIoctl {
        /// Which interface.
        nic: NicName,
        /// What.
        change: EthtoolChange,
    },
}

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
    fn get(&self) -> EthtoolGet {
        match self {
            EthtoolChange::Table { get, .. } => *get,
            EthtoolChange::NewContext { .. }
            | EthtoolChange::Context { .. }
            | EthtoolChange::NoContext { .. } => EthtoolGet::RssContexts,
            EthtoolChange::Rule { .. } | EthtoolChange::NoRule { .. } => EthtoolGet::Rules,
        }
    }

    fn answer_after(&self, before: &[u8]) -> Result<Vec<u8>, WireError> {
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

impl Action {
    /// The question whose answer shows what became of it.
    pub fn question(&self) -> Question {
        match self {
            Action::Ethtool { get, nic, .. } => Question::Ethtool(*get, nic.clone()),
            Action::EthtoolIoctl { nic, change } => Question::Ethtool(change.get(), nic.clone()),
        }
    }

    /// What errors call it: the place of the answer that it changes.
    pub fn path(&self) -> String {
        self.question().path()
    }

    /// The answer to [`Action::question`] once it is done, made from the answer before.
    pub(super) fn answer_after(&self, before: &[u8]) -> Result<Vec<u8>, WireError> {
        match self {
            Action::Ethtool { get: EthtoolGet::Features, attributes, .. } => {
                features::with_wanted(before, attributes)
            }
            Action::Ethtool { attributes, .. } => with_attributes(before, attributes),
            Action::EthtoolIoctl { change, .. } => change.answer_after(before),
        }
    }
}

/// Does `action` on a machine whose answers are files.
pub(super) fn act_on_answer(host: &dyn Host, action: &Action) -> Result<(), HostError> {
    let path = action.path();
    let failed = |cause| HostError { operation: Operation::Act, path: path.clone(), cause };
    let before = host.read(&path).map_err(|error| failed(error.cause))?;
    let after = action.answer_after(&before).map_err(|_| failed(Errno::INVAL.into()))?;
    host.write(&path, &after).map_err(|error| failed(error.cause))
}
