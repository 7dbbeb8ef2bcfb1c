//! Events of one run, as plain data: made from a seed, printed, shrunk and replayed.

use serde::{Deserialize, Serialize};

/// Everything that determines one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Values that an administrator had set before, by device, queue and value of the palette.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) custom: Vec<(Slot, u8)>,
    /// The command that runs first.
    pub(crate) first: Actor,
    /// Moves of the adversary meanwhile.
    #[serde(default)]
    pub(crate) events: Vec<Event>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Event {
    /// Operations that are counted.
    pub(crate) of: Counted,
    /// The move is made before this operation, and after this write.
    pub(crate) at: u32,
    pub(crate) act: Move,
}

/// Operations in which a moment is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Counted {
    /// All of the kernel and of the disk.
    Any,
    Write,
    /// Operations on journal files.
    Journal,
}

/// A tunable value of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Slot {
    Entries,
    Budget,
    /// `rps` of a receive queue of a device.
    Rps(u8, u8),
    /// `rfs` of a receive queue of a device.
    Rfs(u8, u8),
    /// `xps_cpus` of a transmit queue of a device.
    Xps(u8, u8),
    /// `threaded` of a device.
    Threaded(u8),
    /// `napi_defer_hard_irqs` of a device on a bus, and of the NAPI of a queue of a device.
    Defer(u8),
    QueueDefer(u8, u8),
    /// `gro_flush_timeout`, in the same way.
    Flush(u8),
    QueueFlush(u8, u8),
    /// `irq_suspend_timeout` of the NAPI of a queue.
    Suspend(u8, u8),
    /// `queue_threaded` of the NAPI of a queue.
    QueueThreaded(u8, u8),
    /// `napi_affinity` and `napi_priority` of the thread that polls a queue.
    NapiCpus(u8, u8),
    NapiPriority(u8, u8),
    /// `gro` of a veth: without it, it has no NAPIs.
    Gro(u8),
    /// `ring_rx` of a device on a bus.
    Ring(u8),
    /// `rss` of a device on a bus.
    Rss(u8),
    /// `irq_affinity` of a receive queue of a device on a bus.
    Irq(u8, u8),
    /// `channels` of a device on a bus.
    Channels(u8),
    /// `affinity` of a thread of a process. A command sets it of all threads.
    Thread(u8, u8),
    /// `affinity` of a control group.
    Group(u8),
    /// `ksoftirqd_priority` of a CPU.
    Ksoftirqd(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NicValue {
    Channels,
    Threaded,
    Defer,
    Flush,
    Rss,
    Gro,
    Ring,
}

/// A value of a queue, its interrupt, its NAPI or the thread of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueValue {
    Rps,
    Rfs,
    Xps,
    Irq,
    Defer,
    Flush,
    Suspend,
    Threaded,
    NapiCpus,
    NapiPriority,
}

impl NicValue {
    pub(crate) const ALL: [Self; 7] =
        [Self::Channels, Self::Threaded, Self::Defer, Self::Flush, Self::Rss, Self::Gro, Self::Ring];

    pub(crate) fn of(self, device: u8) -> Slot {
        match self {
            Self::Channels => Slot::Channels(device),
            Self::Threaded => Slot::Threaded(device),
            Self::Defer => Slot::Defer(device),
            Self::Flush => Slot::Flush(device),
            Self::Rss => Slot::Rss(device),
            Self::Gro => Slot::Gro(device),
            Self::Ring => Slot::Ring(device),
        }
    }
}

impl QueueValue {
    pub(crate) const ALL: [Self; 10] = [
        Self::Rps,
        Self::Rfs,
        Self::Xps,
        Self::Irq,
        Self::Defer,
        Self::Flush,
        Self::Suspend,
        Self::Threaded,
        Self::NapiCpus,
        Self::NapiPriority,
    ];
    /// Values that go with a NAPI.
    pub(crate) const NAPI: [Self; 6] =
        [Self::Defer, Self::Flush, Self::Suspend, Self::Threaded, Self::NapiCpus, Self::NapiPriority];
    /// Values that go with the thread of a NAPI.
    pub(crate) const THREAD: [Self; 2] = [Self::NapiCpus, Self::NapiPriority];

    pub(crate) fn of(self, device: u8, queue: u8) -> Slot {
        match self {
            Self::Rps => Slot::Rps(device, queue),
            Self::Rfs => Slot::Rfs(device, queue),
            Self::Xps => Slot::Xps(device, queue),
            Self::Irq => Slot::Irq(device, queue),
            Self::Defer => Slot::QueueDefer(device, queue),
            Self::Flush => Slot::QueueFlush(device, queue),
            Self::Suspend => Slot::Suspend(device, queue),
            Self::Threaded => Slot::QueueThreaded(device, queue),
            Self::NapiCpus => Slot::NapiCpus(device, queue),
            Self::NapiPriority => Slot::NapiPriority(device, queue),
        }
    }
}

/// The object that a value belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    Host,
    Nic(u8, NicValue),
    Queue(u8, u8, QueueValue),
    Thread(u8, u8),
    Group(u8),
    Cpu(u8),
}

impl Slot {
    pub(crate) fn home(self) -> Home {
        match self {
            Slot::Entries | Slot::Budget => Home::Host,
            Slot::Channels(device) => Home::Nic(device, NicValue::Channels),
            Slot::Threaded(device) => Home::Nic(device, NicValue::Threaded),
            Slot::Defer(device) => Home::Nic(device, NicValue::Defer),
            Slot::Flush(device) => Home::Nic(device, NicValue::Flush),
            Slot::Rss(device) => Home::Nic(device, NicValue::Rss),
            Slot::Gro(device) => Home::Nic(device, NicValue::Gro),
            Slot::Ring(device) => Home::Nic(device, NicValue::Ring),
            Slot::Rps(device, queue) => Home::Queue(device, queue, QueueValue::Rps),
            Slot::Rfs(device, queue) => Home::Queue(device, queue, QueueValue::Rfs),
            Slot::Xps(device, queue) => Home::Queue(device, queue, QueueValue::Xps),
            Slot::Irq(device, queue) => Home::Queue(device, queue, QueueValue::Irq),
            Slot::QueueDefer(device, queue) => Home::Queue(device, queue, QueueValue::Defer),
            Slot::QueueFlush(device, queue) => Home::Queue(device, queue, QueueValue::Flush),
            Slot::Suspend(device, queue) => Home::Queue(device, queue, QueueValue::Suspend),
            Slot::QueueThreaded(device, queue) => Home::Queue(device, queue, QueueValue::Threaded),
            Slot::NapiCpus(device, queue) => Home::Queue(device, queue, QueueValue::NapiCpus),
            Slot::NapiPriority(device, queue) => Home::Queue(device, queue, QueueValue::NapiPriority),
            Slot::Thread(process, at) => Home::Thread(process, at),
            Slot::Group(group) => Home::Group(group),
            Slot::Ksoftirqd(cpu) => Home::Cpu(cpu),
        }
    }

    /// The device of a value, if it has one.
    pub(crate) fn device(self) -> Option<u8> {
        match self.home() {
            Home::Nic(device, _) | Home::Queue(device, ..) => Some(device),
            _ => None,
        }
    }

    /// True for values of NAPIs and of their threads, which one list of the kernel has.
    pub(crate) fn is_of_napi(self) -> bool {
        matches!(self.home(), Home::Queue(_, _, value) if QueueValue::NAPI.contains(&value))
    }
}

/// A value that a command sets: the slot, and the number of the value in the palette.
pub(crate) type Set = (Slot, u8);

/// A command that runs until it ends or is killed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Actor {
    /// `rxlab apply`, in a namespace; `confirm` is the deadline in seconds, 0 for none.
    Apply {
        set: Vec<Set>,
        confirm: u8,
        netns: u8,
    },
    Undo {
        only: Option<u8>,
        force: bool,
    },
    Confirm,
    Status,
    Reapply,
    /// `rxlab restore`. Its settings are persisted besides those of earlier ones, and all are set.
    Restore {
        set: Vec<Set>,
    },
    /// `rxlab trial`; the change is kept or put back at the end.
    Trial {
        set: Vec<Set>,
        keep: bool,
    },
}

/// Value written by another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Foreign {
    /// A value that rxlab also writes.
    Ours(u8),
    /// A value that rxlab never writes.
    Other(u8),
    /// The value before any write.
    First,
    /// The value of a new queue.
    Fresh,
}

/// A move of the adversary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Move {
    /// A device is renamed to an unused name.
    Rename(u8),
    /// A device gets a name that is not UTF-8, until it is renamed.
    RenameOdd(u8),
    /// An interface with such a name appears in a namespace.
    OddName(u8),
    /// Two devices of one namespace exchange their names.
    Swap(u8, u8),
    /// A device moves to another network namespace.
    Netns(u8, u8),
    /// A device is deleted and recreated under the same name.
    Remake(u8),
    Delete(u8),
    /// A link goes down and up, and its interrupts are requested again.
    LinkReset(u8),
    /// Another program changes the number of queues.
    Channels(u8, u8),
    /// Another program writes a value.
    Write(Slot, Foreign),
    /// A CPU goes offline or online.
    Cpu(u8, bool),
    /// The machine boots; this number of unsynced bytes of each journal survives.
    Reboot(u8),
    /// Something fails for this number of operations.
    Fault(Area, Errno, u16),
    /// The running command is killed.
    Kill,
    /// The running command is killed inside its next write, and the kernel stops making threads for it.
    KillInCall,
    /// The running command and the guard of the newest transaction are killed.
    KillBoth,
    /// Every operation takes this number of milliseconds, for this number of operations.
    Slow(u8, u16),
    /// The running command is stopped for this number of seconds.
    Stop(u8),
    /// The guard of the newest transaction is killed.
    KillGuard,
    /// The clock jumps forward by this number of seconds.
    Clock(u8),
    /// A byte of a journal is flipped: of the file by number, at a part of 256 of its length.
    Damage(u8, u8),
    /// A network namespace is deleted and another one with its inode is created.
    Reuse(u8),
    Process(u8, ThreadMove),
    /// Something happens to a control group.
    Group(u8, GroupMove),
    /// The file system of the first journal is mounted, or no longer.
    Mount(bool),
    /// Another command runs to its end.
    Run(Actor),
    /// The same with the second journal.
    RunElsewhere(Actor),
}

/// What happens to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ThreadMove {
    /// One of its threads, by number, starts another.
    Start(u8),
    /// A thread ends. The next one that starts may get its number.
    End(u8),
    /// A thread ends, and the main one starts another, which gets its number.
    Replace(u8),
    /// It ends, and another one gets its number, with the values that it had at first.
    Again,
}

/// What happens to a control group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum GroupMove {
    /// It is renamed to an unused name.
    Rename,
    /// It exchanges its name with the other one.
    Swap,
    /// It is removed, and another one is made at its path.
    Remake,
    Remove,
}

/// Part of the system that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Area {
    Interfaces,
    /// `sys/class/net` is listed as empty.
    NoInterfaces,
    /// Everything below the directory of a device.
    Device(u8),
    /// Writes to the values of a device.
    Writes(u8),
    Interrupts,
    /// The lists of queues and NAPIs.
    Napis,
    /// The list of network namespaces.
    Namespaces,
    /// Commands that begin now see the files of another namespace than that of their sockets.
    View,
    /// Entering a network namespace.
    Enter,
    /// All changes of journal files.
    DiskWrites,
    DiskReads,
    /// The state directory is invisible.
    DiskGone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Errno {
    Enoent = 2,
    /// Input or output error.
    Eio = 5,
    /// No process or thread can be started, or a limit is reached.
    Eagain = 11,
    Enomem = 12,
    /// Too many open files.
    Emfile = 24,
    /// A file would grow beyond the limit of the process.
    Efbig = 27,
    Ebusy = 16,
    Eacces = 13,
    /// The disk is full.
    Enospc = 28,
    /// The file system is read-only.
    Erofs = 30,
}

impl Move {
    /// Its name in counts.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Move::Rename(_) => "rename",
            Move::RenameOdd(_) => "rename to a name that is not UTF-8",
            Move::OddName(_) => "interface with a name that is not UTF-8",
            Move::Swap(..) => "swap two names",
            Move::Netns(..) => "move to a namespace",
            Move::Remake(_) => "delete and recreate",
            Move::Delete(_) => "delete",
            Move::LinkReset(_) => "link reset",
            Move::Channels(..) => "channels by another program",
            Move::Write(_, Foreign::Ours(_)) => "foreign write, equal to ours",
            Move::Write(_, Foreign::Other(_)) => "foreign write, third value",
            Move::Write(_, Foreign::First) => "foreign write, first value",
            Move::Write(_, Foreign::Fresh) => "foreign write, fresh default",
            Move::Cpu(..) => "CPU offline or online",
            Move::Reboot(_) => "reboot",
            Move::Fault(Area::Interfaces, ..) => "interface list fails",
            Move::Fault(Area::NoInterfaces, ..) => "interface list empty",
            Move::Fault(Area::Device(_), ..) => "device unreadable",
            Move::Fault(Area::Writes(_), ..) => "writes refused",
            Move::Fault(Area::Interrupts, ..) => "interrupts unreadable",
            Move::Fault(Area::Napis, ..) => "NAPIs unreadable",
            Move::Fault(Area::Namespaces | Area::Enter, ..) => "namespaces hidden",
            Move::Fault(Area::View, ..) => "two views",
            Move::Fault(Area::DiskWrites, ..) => "disk refuses writes",
            Move::Fault(Area::DiskReads, ..) => "disk refuses reads",
            Move::Fault(Area::DiskGone, ..) => "state directory invisible",
            Move::Kill => "kill",
            Move::KillInCall => "kill inside a call",
            Move::KillBoth => "kill with the guard",
            Move::Slow(..) => "slow machine",
            Move::Stop(_) => "stop",
            Move::KillGuard => "kill the guard",
            Move::Clock(_) => "clock jump",
            Move::Damage(..) => "damage",
            Move::Reuse(_) => "namespace inode reused",
            Move::Process(_, ThreadMove::Start(_)) => "thread starts",
            Move::Process(_, ThreadMove::End(_)) => "thread ends",
            Move::Process(_, ThreadMove::Replace(_)) => "thread ends, number used again",
            Move::Process(_, ThreadMove::Again) => "process ends, number used again",
            Move::Group(_, GroupMove::Rename) => "control group renamed",
            Move::Group(_, GroupMove::Swap) => "two control groups exchange their names",
            Move::Group(_, GroupMove::Remake) => "control group made again",
            Move::Group(_, GroupMove::Remove) => "control group removed",
            Move::Mount(false) => "journal unmounted",
            Move::Mount(true) => "journal mounted",
            Move::RunElsewhere(_) => "command with the second journal",
            Move::Run(Actor::Restore { .. }) => "restore",
            Move::Run(Actor::Apply { .. }) => "second apply",
            Move::Run(Actor::Undo { .. }) => "manual undo",
            Move::Run(Actor::Confirm) => "confirm",
            Move::Run(Actor::Status) => "status",
            Move::Run(Actor::Reapply) => "reapply",
            Move::Run(Actor::Trial { .. }) => "second trial",
        }
    }

    /// True if it may change values of the machine by itself.
    pub(crate) fn changes_values(&self) -> bool {
        !matches!(
            self,
            Move::Run(_)
                | Move::RunElsewhere(_)
                | Move::Fault(..)
                | Move::Kill
                | Move::KillInCall
                | Move::KillBoth
                | Move::KillGuard
                | Move::Slow(..)
                | Move::Stop(_)
                | Move::Clock(_)
                | Move::Damage(..)
                | Move::Mount(_)
        )
    }

    /// True if it can come between the last check before a write and the write: it changes nothing on the
    /// machine and lets no other command run.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Move::Kill)
    }
}
