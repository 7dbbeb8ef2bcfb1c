//! What is changed over a socket instead of a file.

use rustix::io::Errno;

use super::{EthtoolGet, Host, HostError, Operation, Question};
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
}

impl Action {
    /// The question whose answer shows what became of it.
    pub fn question(&self) -> Question {
        match self {
            Action::Ethtool { get, nic, .. } => Question::Ethtool(*get, nic.clone()),
        }
    }

    /// What errors call it: the place of the answer that it changes.
    pub fn path(&self) -> String {
        self.question().path()
    }

    /// The answer to [`Action::question`] once it is done, made from the answer before.
    pub(super) fn answer_after(&self, before: &[u8]) -> Result<Vec<u8>, crate::parse::WireError> {
        match self {
            Action::Ethtool { attributes, .. } => crate::parse::with_attributes(before, attributes),
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
