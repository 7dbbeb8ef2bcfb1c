//! Changes made over a socket, by a system call or by a shell command instead of a file.

use rustix::io::Errno;

use super::{DirectoryId, EthtoolGet, Host, HostError, Operation, Query};
use rxlab_base::parse::ethtool::{QueueDelay, features, queue_coalesce, rss, rules};
use rxlab_base::parse::{self, Scheduling, WireError};
use rxlab_base::units::{CpuMask, IrqId, NicName};

/// One change. Its effect is visible in the answer to the matching [`Query`], or in the procfs file
/// that shows it.
///
/// Below any root but `/` and in recordings the answer to that query is a file too, and the change edits
/// that file: such a machine accepts any value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Sets attributes of the ethtool message that answers `get`, in their encoded form: those that the
    /// parser of the answer returns for values. Only those listed change.
    Ethtool {
        /// The query whose answer has these attributes.
        get: EthtoolGet,
        nic: NicName,
        /// Attributes, one after another (see [`rxlab_base::parse::attribute`]).
        attributes: Vec<u8>,
    },
    /// A change that ethtool makes by ioctl.
    EthtoolIoctl { nic: NicName, change: EthtoolChange },
    /// Sets attributes of an interface: rtnetlink `RTM_NEWLINK`.
    Link {
        nic: NicName,
        /// Attributes, one after another (see [`rxlab_base::parse::GroSize::attribute`]).
        attributes: Vec<u8>,
    },
    /// Sets attributes of one NAPI: netdev `napi-set` (since 6.13).
    Napi {
        id: u32,
        /// Attributes, one after another (see [`rxlab_base::parse::NapiSetting::attribute`]).
        attributes: Vec<u8>,
    },
    /// Sets the CPUs on which a thread may run: sched_setaffinity(2).
    ThreadCpus {
        /// The process that it belongs to.
        pid: u32,
        tid: u32,
        cpus: CpuMask,
    },
    /// Sets the scheduling of the main thread of a process: sched_setscheduler(2) and setpriority(2).
    ThreadPolicy {
        pid: u32,
        /// Policy, priority and nice value.
        scheduling: Scheduling,
    },
    /// Replaces the list of interrupts that irqbalance leaves alone by number.
    IrqbalanceBan {
        pid: u32,
        /// All interrupts of the ban list: it replaces the previous one.
        irqs: Vec<IrqId>,
    },
    /// Runs a shell command to its end: `sh -c` with an empty standard input.
    ///
    /// It runs on the machine and in the namespaces of this program, regardless of the root or network
    /// namespace of the host: a tree of files has no processes. Recordings run nothing.
    Shell {
        command: String,
        /// Its working directory; `None`: that of this program.
        directory: Option<String>,
        /// Identity of that directory; with another one nothing is run. `None` if not known.
        directory_id: Option<DirectoryId>,
        /// True: Ctrl-C on the terminal also reaches the command. False: it has its own process group.
        interruptible: bool,
    },
}

impl Action {
    /// Place that shows the result.
    fn shown(&self) -> Shown {
        match self {
            Action::Ethtool { get, nic, .. } => Shown::Answer(Query::Ethtool(*get, nic.clone())),
            Action::EthtoolIoctl { nic, change } => Shown::Answer(Query::Ethtool(change.get(), nic.clone())),
            Action::Link { .. } => Shown::Answer(Query::Links),
            Action::Napi { .. } => Shown::Answer(Query::Napis),
            Action::ThreadCpus { pid, tid, .. } => Shown::File(format!("proc/{pid}/task/{tid}/status")),
            Action::ThreadPolicy { pid, .. } => Shown::File(format!("proc/{pid}/stat")),
            Action::IrqbalanceBan { pid, .. } => Shown::Answer(Query::IrqbalanceSetup { pid: *pid }),
            Action::Shell { command, .. } => Shown::Nowhere(command.clone()),
        }
    }

    /// Its name in errors: the place of the answer, or the file, that shows the result; a shell command
    /// itself.
    pub fn path(&self) -> String {
        match self.shown() {
            Shown::Answer(query) => query.path(),
            Shown::File(path) | Shown::Nowhere(path) => path,
        }
    }

    /// Content of [`Action::path`] after the change, made from its current content on `host`.
    pub(super) fn outcome(&self, host: &dyn Host) -> Result<Vec<u8>, HostError> {
        let failed = |cause| HostError::new(Operation::Act, &self.path(), cause);
        let before = match self.shown() {
            Shown::Answer(query) => host.query(&query),
            Shown::File(path) => host.read(&path),
            Shown::Nowhere(command) => return Err(HostError::of_command(&command, NO_SHELL)),
        };
        let before = before.map_err(|error| failed(error.cause))?;
        self.content_after(&before).ok_or_else(|| failed(Errno::INVAL.into()))
    }

    /// Content of [`Action::path`] after the change, made from the content before; `None` if that cannot be
    /// parsed.
    fn content_after(&self, before: &[u8]) -> Option<Vec<u8>> {
        let text = || String::from_utf8_lossy(before);
        match self {
            Action::Ethtool { get: EthtoolGet::Features, attributes, .. } => {
                features::with_wanted(before, attributes).ok()
            }
            Action::Ethtool { attributes, .. } => parse::with_attributes(before, attributes).ok(),
            Action::EthtoolIoctl { change, .. } => change.answer_after(before).ok(),
            Action::Link { nic, attributes } => parse::with_link_attributes(before, nic, attributes).ok(),
            Action::Napi { id, attributes } => parse::with_napi_settings(before, *id, attributes).ok(),
            Action::ThreadCpus { cpus, .. } => {
                parse::with_allowed_cpus(&text(), cpus).ok().map(String::into_bytes)
            }
            Action::ThreadPolicy { scheduling, .. } => {
                parse::with_scheduling(&text(), scheduling).ok().map(String::into_bytes)
            }
            Action::IrqbalanceBan { irqs, .. } => parse::with_banned_irqs(before, irqs).ok(),
            Action::Shell { .. } => None,
        }
    }
}

/// Place where the change is visible.
enum Shown {
    Answer(Query),
    File(String),
    /// A shell command, whose effect rxlab cannot read back.
    Nowhere(String),
}

/// End of the error of a recording that is given a command.
const NO_SHELL: &str = "cannot be run on a recorded machine";

/// Does `action` on a machine whose answers are files.
pub(super) fn act_on_answer(host: &dyn Host, action: &Action) -> Result<(), HostError> {
    let (path, after) = (action.path(), action.outcome(host)?);
    host.write(&path, &after).map_err(|error| HostError { operation: Operation::Act, ..error })
}

/// A change of a table of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EthtoolChange {
    /// The default RSS table.
    Table {
        /// The query whose answer contained the table before.
        get: EthtoolGet,
        /// The whole table. For `reset`, the table that the kernel is expected to make; it is not sent.
        queues: Vec<u32>,
        /// Goes back to the kernel's default, which follows the number of queues.
        reset: bool,
    },
    /// The key of the default hash, of the length that it has.
    HashKey {
        /// The query whose answer contained the key before.
        get: EthtoolGet,
        /// The whole key; its length must be that of the current key.
        key: Vec<u8>,
    },
    /// The transformation of the input of the default hash.
    HashTransform {
        /// The query whose answer contained it before.
        get: EthtoolGet,
        /// One of the kernel's `RXH_XFRM_*` bits; 0 for none.
        bits: u8,
    },
    /// The header fields that the default hash covers.
    HashFields {
        /// Kind of packet: `tcp4`, `udp4`, `tcp6` or `udp6`.
        kind: &'static str,
        /// The kernel's `RXH_*` bits.
        fields: u64,
    },
    /// A value of the interrupt moderation of one queue.
    QueueDelay { queue: u32, which: QueueDelay, value: u32 },
    /// Another RSS context. The kernel chooses its number; EEXIST if it chooses a different
    /// one, and nothing is left of it.
    NewContext {
        /// The number that the kernel is expected to choose.
        id: u32,
        /// The whole table: one queue per entry.
        queues: Vec<u32>,
    },
    /// Another table for an RSS context.
    Context {
        id: u32,
        /// The whole table: one queue per entry.
        queues: Vec<u32>,
    },
    /// Removal of an RSS context.
    NoContext { id: u32 },
    /// A flow rule at a location, replacing any rule there.
    Rule {
        /// Its location, which the rule also names.
        location: u32,
        /// `struct ethtool_rxnfc` (see [`rxlab_base::parse::ethtool::flow_bytes`]).
        rule: Vec<u8>,
    },
    /// Removal of the flow rule at a location.
    NoRule { location: u32 },
}

impl EthtoolChange {
    /// The query whose answer shows the result.
    pub(super) fn get(&self) -> EthtoolGet {
        match self {
            EthtoolChange::Table { get, .. }
            | EthtoolChange::HashKey { get, .. }
            | EthtoolChange::HashTransform { get, .. } => *get,
            EthtoolChange::HashFields { .. } => EthtoolGet::HashFields,
            EthtoolChange::QueueDelay { .. } => EthtoolGet::QueueCoalesce,
            EthtoolChange::NewContext { .. }
            | EthtoolChange::Context { .. }
            | EthtoolChange::NoContext { .. } => EthtoolGet::RssContexts,
            EthtoolChange::Rule { .. } | EthtoolChange::NoRule { .. } => EthtoolGet::Rules,
        }
    }

    /// That answer, made from the one before.
    pub(super) fn answer_after(&self, before: &[u8]) -> Result<Vec<u8>, WireError> {
        match self {
            EthtoolChange::Table { get, queues, .. } => {
                rss::with_table(before, queues, *get == EthtoolGet::RssIoctl)
            }
            EthtoolChange::HashKey { get, key } => rss::with_key(before, key, *get == EthtoolGet::RssIoctl),
            EthtoolChange::HashTransform { get, bits } => {
                rss::with_transform(before, *bits, *get == EthtoolGet::RssIoctl)
            }
            EthtoolChange::HashFields { kind, fields } => rss::with_fields(before, kind, *fields),
            EthtoolChange::QueueDelay { queue, which, value } => {
                queue_coalesce::with_queue_delay(before, *queue, *which, *value)
            }
            EthtoolChange::NewContext { id, queues } | EthtoolChange::Context { id, queues } => {
                rss::with_context(before, *id, Some(queues))
            }
            EthtoolChange::NoContext { id } => rss::with_context(before, *id, None),
            EthtoolChange::Rule { location, rule } => rules::with_rule(before, *location, Some(rule)),
            EthtoolChange::NoRule { location } => rules::with_rule(before, *location, None),
        }
    }
}
