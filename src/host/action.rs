//! What is changed over a socket, by a system call or by a shell command instead of a file.

use rustix::io::Errno;

use super::{EthtoolChange, EthtoolGet, Host, HostError, Operation, Question};
use crate::parse::ethtool::features;
use crate::parse::{self, Scheduling};
use crate::units::{CpuMask, IrqId, NicName};

/// One change. What it made of the machine is for the [`Question`] that asks for the same to say, or for the file
/// of procfs that shows it.
///
/// Below any root but `/` and in recordings the answer to that question is a file too, and the change is one of
/// the file: such a machine keeps whatever is asked of it.
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
    /// Says on which CPUs a thread may run: sched_setaffinity(2).
    ThreadCpus {
        /// The process that it belongs to.
        pid: u32,
        /// The thread.
        tid: u32,
        /// The CPUs.
        cpus: CpuMask,
    },
    /// Says how the main thread of a process is scheduled: sched_setattr(2).
    ThreadPolicy {
        /// The process.
        pid: u32,
        /// Policy, priority and nice value.
        scheduling: Scheduling,
    },
    /// Replaces the list of interrupts that irqbalance leaves alone by number.
    IrqbalanceBan {
        /// irqbalance's process.
        pid: u32,
        /// All of them.
        irqs: Vec<IrqId>,
    },
    /// Runs a shell command to its end: `sh -c` with nothing on its standard input.
    ///
    /// It runs on the machine and in the namespaces of this program, whatever root or network namespace the host
    /// shows: a tree of files has no processes. Recordings run nothing.
    Shell {
        /// The command.
        command: String,
        /// Its working directory; that of this program without one.
        directory: Option<String>,
        /// True: Ctrl-C on the terminal reaches the command too. False: it has a process group of its own.
        interruptible: bool,
    },
}

impl Action {
    /// What shows what became of it.
    fn shown(&self) -> Shown {
        match self {
            Action::Ethtool { get, nic, .. } => Shown::Answer(Question::Ethtool(*get, nic.clone())),
            Action::EthtoolIoctl { nic, change } => {
                Shown::Answer(Question::Ethtool(change.get(), nic.clone()))
            }
            Action::ThreadCpus { pid, tid, .. } => Shown::File(format!("proc/{pid}/task/{tid}/status")),
            Action::ThreadPolicy { pid, .. } => Shown::File(format!("proc/{pid}/stat")),
            Action::IrqbalanceBan { pid, .. } => Shown::Answer(Question::IrqbalanceSetup { pid: *pid }),
            Action::Shell { command, .. } => Shown::Nowhere(command.clone()),
        }
    }

    /// Its name in errors: the place of the answer, or the file, that shows the result; a shell command itself.
    pub fn path(&self) -> String {
        match self.shown() {
            Shown::Answer(question) => question.path(),
            Shown::File(path) | Shown::Nowhere(path) => path,
        }
    }

    /// What will be at [`Action::path`] once it is done, made from what `host` shows there now.
    pub(super) fn outcome(&self, host: &dyn Host) -> Result<Vec<u8>, HostError> {
        let failed = |cause| HostError::new(Operation::Act, &self.path(), cause);
        let before = match self.shown() {
            Shown::Answer(question) => host.ask(&question),
            Shown::File(path) => host.read(&path),
            Shown::Nowhere(command) => return Err(HostError::of_command(&command, NO_SHELL)),
        };
        let before = before.map_err(|error| failed(error.cause))?;
        self.content_after(&before).ok_or_else(|| failed(Errno::INVAL.into()))
    }

    /// What is at [`Action::path`] once it is done, made from what is there before; `None` when that cannot be
    /// understood.
    fn content_after(&self, before: &[u8]) -> Option<Vec<u8>> {
        let text = || std::str::from_utf8(before).ok();
        match self {
            Action::Ethtool { get: EthtoolGet::Features, attributes, .. } => {
                features::with_wanted(before, attributes).ok()
            }
            Action::Ethtool { attributes, .. } => parse::with_attributes(before, attributes).ok(),
            Action::EthtoolIoctl { change, .. } => change.answer_after(before).ok(),
            Action::ThreadCpus { cpus, .. } => {
                parse::with_allowed_cpus(text()?, cpus).ok().map(String::into_bytes)
            }
            Action::ThreadPolicy { scheduling, .. } => {
                parse::with_scheduling(text()?, scheduling).ok().map(String::into_bytes)
            }
            Action::IrqbalanceBan { irqs, .. } => parse::with_banned_irqs(before, irqs).ok(),
            Action::Shell { .. } => None,
        }
    }
}

/// Where the change is seen.
enum Shown {
    Answer(Question),
    File(String),
    /// A shell command, of which rxlab cannot read back the effect.
    Nowhere(String),
}

/// The end of the error of a recording that is given a command.
const NO_SHELL: &str = "cannot be run on a recorded machine";

/// Does `action` on a machine whose answers are files.
pub(super) fn act_on_answer(host: &dyn Host, action: &Action) -> Result<(), HostError> {
    let (path, after) = (action.path(), action.outcome(host)?);
    host.write(&path, &after).map_err(|error| HostError { operation: Operation::Act, ..error })
}
