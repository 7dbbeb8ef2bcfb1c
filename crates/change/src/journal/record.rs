//! The lines of a journal file: meaning and encoding. No file access here.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{BackCommand, Environment};
use rxlab_base::units::CpuId;
use rxlab_path::model::DeviceAddress;
use rxlab_setting::Target;
use rxlab_sys::{Namespace, ProcessId};

/// One line of a journal file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// The first line: the transaction.
    Begin(Begin),
    /// A value is about to be written. On disk, synced, before the write.
    Intent(Intent),
    /// The write of intent `seq` was made and read back.
    Done {
        /// Number of the intent.
        seq: u64,
        /// The value read back.
        kept: String,
    },
    /// The write of intent `seq` was rejected or could not be read back.
    Failed {
        /// Number of the intent.
        seq: u64,
        /// Reason, in one line.
        why: String,
        /// It was not attempted: nothing of the value is on the machine.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        untried: bool,
    },
    /// What the values depend on, once they were set, for later comparison.
    #[serde(alias = "surroundings")]
    Environment(Environment),
    /// Everything asked for is set.
    Complete,
    /// The user confirmed: the deadline no longer holds.
    Confirmed,
    /// Undo is about to write the original value of intent `seq`, which may reset these values set by
    /// others. On disk, synced, before that write.
    Holding {
        /// The first intent of the target.
        seq: u64,
        /// The dependent values of the intent, as they were then.
        values: Vec<Displaced>,
    },
    /// Result of undo for the target first touched by intent `seq`.
    Undone {
        /// The first intent of the target.
        seq: u64,
        #[serde(flatten)]
        outcome: Outcome,
    },
    /// A shell command is about to run; this one reverts it. On disk, synced, before it runs.
    Command(BackCommand),
    /// The result of running the `back` of the last [`Record::Command`].
    CommandUndone {
        /// [`Outcome::Restored`]: it succeeded. [`Outcome::Failed`]: it failed.
        #[serde(flatten)]
        outcome: Outcome,
    },
    /// Nothing of this transaction is left to undo.
    Closed,
    /// A kind, or a content, added by a later version. Its meaning is unknown here, so the transaction is never closed.
    #[serde(other)]
    Unknown,
}

/// The first line of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// [`Begin::SCHEMA`]; a reader must refuse any other.
    pub schema: String,
    /// Transaction id, also the name of its file.
    pub id: String,
    /// Boot of the machine. Values do not outlive a boot, so neither does a transaction.
    pub boot_id: String,
    /// The root through which the machine is accessed, absolute.
    pub root: String,
    /// The network namespace entered; `None` for the process's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<Namespace>,
    /// The process's own network namespace, in which the machine-wide files of `proc/sys/net` were read and written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<Namespace>,
    /// The applying process, by pid and start time. Its guard need not wait once it has
    /// ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applier: Option<ProcessId>,
    /// Start, RFC 3339 in UTC; for people only.
    pub started: String,
    /// Author and purpose, in one line; for people only.
    pub what: String,
    /// Nanoseconds since boot (see [`rxlab_sys::boottime_ns`]), at which it is undone unless confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<u64>,
    /// Receive work before the transaction; `None` if the plan does not state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Seen>,
    /// Nanoseconds since boot (see [`rxlab_sys::boottime_ns`]) at which it began: tells processes that a process has started
    /// since from older ones. `None` in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<u64>,
}

/// Receive work before a change, as sampled for its plan: for comparison with a later sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Seen {
    /// The CPU that the plan takes work from.
    pub cpu: CpuId,
    /// Its receive time, percent of wall time.
    pub receive_percent: u32,
    /// Packets per second of the plan's interfaces.
    pub packets: u64,
}

impl Begin {
    pub const SCHEMA: &'static str = "rxlab.journal/1";

    /// The network namespace whose values were set; `None` if an earlier version did not record its own.
    pub fn namespace(&self) -> Option<&Namespace> {
        self.netns.as_ref().or(self.home.as_ref())
    }

    /// True if the transaction is known to be of another boot. A boot id that is unknown, then or now, proves nothing, and
    /// archived transactions are never undone.
    pub fn is_of_other_boot(&self, boot_id: &str) -> bool {
        ![self.boot_id.as_str(), boot_id].contains(&"") && self.boot_id != boot_id
    }

    /// The begin of a transaction below `/` in the boot `boot-1`.
    #[cfg(any(test, feature = "testing"))]
    pub fn sample() -> Self {
        Self {
            schema: Self::SCHEMA.into(),
            id: String::new(),
            boot_id: "boot-1".into(),
            root: "/".into(),
            netns: None,
            home: None,
            applier: None,
            started: String::new(),
            what: String::new(),
            deadline: None,
            seen: None,
            began: None,
        }
    }
}

/// A value that is about to be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// Counted from 1 within the transaction; 0 until the journal has numbered it.
    pub seq: u64,
    pub knob: String,
    /// Target, by its names at that time. The queue in it is persistent, the interface's
    /// name is not: [`Intent::device`] is.
    pub target: Target,
    /// Persistent address of the device or process; `None` for a target that is the whole machine or a
    /// permanent part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceAddress>,
    /// sysfs inodes of the interface and the queue, independent of their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<SysfsIds>,
    /// The control group, whatever its path; `None` for other targets, and in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupId>,
    /// The value before, in the knob's text form.
    pub before: String,
    /// The value to be written.
    pub after: String,
    /// Dependent values on the same interface that the write may reset, as they were before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty", alias = "beside")]
    pub displaced: Vec<Displaced>,
    /// `before` is foreign: it replaced our value, which is set again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
}

impl Intent {
    pub fn object(&self) -> Object {
        Object { device: self.device.clone(), ids: self.ids, group: self.group }
    }

    /// The first intent of a transaction, for a target without a persistent address.
    #[cfg(any(test, feature = "testing"))]
    pub fn sample(knob: &str, target: &str, before: &str, after: &str) -> Self {
        Self {
            seq: 1,
            knob: knob.into(),
            target: target.parse().expect("a target"),
            device: None,
            ids: None,
            group: None,
            before: before.into(),
            after: after.into(),
            displaced: Vec::new(),
            foreign: false,
        }
    }
}

/// Inodes of directories in sysfs. No other directory gets them before the next boot, and an interface keeps
/// its own under another name and in another network namespace (see [`rxlab_sys::Host::inode`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SysfsIds {
    /// Inode of the interface.
    pub interface: u64,
    /// Inode of the queue, for a queue target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<u64>,
}

/// A control group. One made later at its path, or under its name, has another inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupId {
    /// Inode of its directory, which no other group of its hierarchy gets before the next boot.
    pub inode: u64,
    /// Number of the hierarchy in `/proc/cgroups`: 0 for version 2. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hierarchy: Option<u32>,
}

impl GroupId {
    /// True if both are one group. A hierarchy that is not known could be any.
    pub fn is_same(self, other: Self) -> bool {
        let differ = self.hierarchy.zip(other.hierarchy).is_some_and(|(one, other)| one != other);
        self.inode == other.inode && !differ
    }
}

/// The object of the kernel that a value lives in: a device, a process or a control group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Object {
    /// See [`Intent::device`].
    pub device: Option<DeviceAddress>,
    /// See [`Intent::ids`].
    pub ids: Option<SysfsIds>,
    /// See [`Intent::group`].
    pub group: Option<GroupId>,
}

impl Object {
    /// Inode of the directory of the interface or the control group.
    pub fn inode(&self) -> Option<u64> {
        self.ids.map(|ids| ids.interface).or(self.group.map(|group| group.inode))
    }

    /// True if both are one object. Hardware keeps its address when its driver recreates the interface; a recreated
    /// virtual interface is a different one. Journals of earlier versions have only addresses.
    pub fn is_same(&self, other: &Self) -> bool {
        if let (Some(mine), Some(theirs)) = (self.group, other.group) {
            return mine.is_same(theirs);
        }
        let by_address = || match (&self.device, &other.device) {
            (Some(mine), Some(theirs)) => mine.is_same(theirs),
            (mine, theirs) => mine == theirs,
        };
        match (self.ids, other.ids) {
            (Some(mine), Some(theirs)) if mine.interface == theirs.interface => true,
            (Some(_), Some(_)) => {
                by_address() && !self.device.as_ref().is_some_and(DeviceAddress::is_virtual)
            }
            _ => by_address(),
        }
    }
}

/// A value that writing another one may reset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Displaced {
    pub knob: String,
    /// Target, by its names at that time.
    pub target: Target,
    /// The value, in the knob's text form.
    pub value: String,
}

/// Parts of a value that have the same value: threads of a process, or an interrupt of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Part {
    /// Their name, such as `threads 810,812-815`.
    pub part: String,
    /// Their value.
    pub value: String,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.part, self.value)
    }
}

/// Result of undo for one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The value was already the original.
    Unchanged,
    /// The original value was written and read back.
    Restored,
    /// The original value was written but the machine stored another one: CPUs that were
    /// online then are now offline.
    Altered {
        /// The value read back.
        kept: String,
    },
    /// Another program or an administrator changed the value since; it was left alone.
    Drift {
        live: String,
        /// It is the kernel's value for a new queue, and it is unclear if the kernel recreated the queue or
        /// the value was set on purpose. The original is kept until that is decided.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        fresh: bool,
    },
    /// The value has parts, such as the threads of a process: those that still had our value have the original
    /// again, and those that another program changed since were left alone. Or all of it is back, and others still have our
    /// value from it.
    RestoredInPart {
        /// Parts that went back, each with its original value; none if the whole value did.
        restored: Vec<Part>,
        /// Parts that were left alone, each with its current value.
        left: Vec<Part>,
        /// Processes that the target has started since, each with the value of ours that it began with and still has.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        inherited: Vec<Part>,
    },
    /// The device, process or thread no longer exists, nor does its value. For a device this is
    /// proven: every network namespace was searched for it.
    Gone,
    /// The queue does not exist now, and the original is not the kernel's value for a new queue: it is
    /// restored once the queue exists again.
    #[serde(alias = "away")]
    Deferred,
    /// The value could be neither read nor restored.
    Failed {
        /// Reason, in one line.
        why: String,
    },
}

impl Outcome {
    /// True if nothing is left to do for the target.
    pub fn settles(&self) -> bool {
        match self {
            Outcome::Unchanged | Outcome::Restored | Outcome::RestoredInPart { .. } | Outcome::Gone => true,
            Outcome::Drift { fresh, .. } => !fresh,
            Outcome::Deferred | Outcome::Altered { .. } | Outcome::Failed { .. } => false,
        }
    }
}

/// What every version writes in a record.
#[derive(Deserialize)]
struct OfAnyVersion {
    #[serde(rename = "record")]
    _kind: String,
}

impl Record {
    /// The line of the file: CRC-32 of the JSON in 8 hexadecimal digits, a space, the JSON, a line
    /// feed.
    pub fn to_line(&self) -> Vec<u8> {
        let json = serde_json::to_string(self).expect("records have no map with other keys than text");
        format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes())).into_bytes()
    }

    /// Reads one line without its line feed; `None` if the sum is wrong, or if it is no record. One with the right sum is not
    /// damaged: what this version does not know in it is a later version's.
    pub fn from_line(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?;
        let (sum, json) = line.split_once(' ')?;
        let valid = sum.len() == 8 && sum.bytes().all(|b| b.is_ascii_hexdigit());
        let sum = u32::from_str_radix(sum, 16).ok().filter(|_| valid)?;
        if sum != crc32fast::hash(json.as_bytes()) {
            return None;
        }
        let is_record = || serde_json::from_str::<OfAnyVersion>(json).is_ok();
        serde_json::from_str(json).ok().or_else(|| is_record().then_some(Self::Unknown))
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Record};

    #[test]
    fn a_line_is_its_sum_and_its_json() {
        let record = Record::Undone { seq: 3, outcome: Outcome::Drift { live: "4-7".into(), fresh: false } };
        let line = record.to_line();
        let text = String::from_utf8(line.clone()).expect("text");
        assert!(
            text.ends_with(" {\"record\":\"undone\",\"seq\":3,\"outcome\":\"drift\",\"live\":\"4-7\"}\n")
        );
        assert_eq!(Record::from_line(&line[..line.len() - 1]), Some(record));
    }

    /// As version 0.1.0 wrote them: its transactions may be open when this version is installed.
    #[test]
    fn earlier_names_are_read() {
        let read = |json: &str| serde_json::from_str::<Record>(json).expect("a record");
        let away = r#"{"record":"undone","seq":3,"outcome":"away"}"#;
        assert_eq!(read(away), Record::Undone { seq: 3, outcome: Outcome::Deferred });
        let then = read(r#"{"record":"surroundings","online":"0-7","devices":[]}"#);
        assert!(matches!(then, Record::Environment(then) if then.online.is_some()));
    }

    /// Such a line once counted as damaged, and the user was told to restore its values by hand.
    #[test]
    fn what_a_later_version_added_is_not_damage() {
        for (json, read) in [
            (r#"{"record":"undone","seq":1,"outcome":"postponed","until":9}"#, Some(Record::Unknown)),
            (r#"{"record":"intent","seq":2,"knob":"rps","target":{"port":7}}"#, Some(Record::Unknown)),
            (r#"{"record":"signed","by":"a"}"#, Some(Record::Unknown)),
            (r#"{"outcome":"restored"}"#, None),
            ("7", None),
        ] {
            let line = format!("{:08x} {json}", crc32fast::hash(json.as_bytes()));
            assert_eq!(Record::from_line(line.as_bytes()), read, "{json}");
        }
    }

    #[test]
    fn one_flipped_bit_is_noticed() {
        let line = Record::Done { seq: 1, kept: "2-7".into() }.to_line();
        let line = &line[..line.len() - 1];
        for at in 0..line.len() {
            let mut bad = line.to_vec();
            bad[at] ^= 1;
            assert_eq!(Record::from_line(&bad), None, "byte {at}");
        }
    }
}
