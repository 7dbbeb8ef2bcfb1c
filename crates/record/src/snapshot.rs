//! A machine in a file: everything that the commands read, at two moments, so that they give
//! the same answers elsewhere. It is the bug report and the fixture format.
//!
//! `sample` decides what is recorded: a snapshot holds the operations of a sample, no more. Its
//! file is a zstd-compressed tar archive (docs/snapshots.md). Opening files does not belong here.

mod archive;
mod redact;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use rxlab_base::units::rfc3339;
use rxlab_path::model::{IntervalError, Model, Rates};
use rxlab_path::sample::{Counters, Inventory, Scope, busiest, losing_sockets};
use rxlab_sys::{Host, RecordedHost, RecordingHost};

pub use archive::ArchiveError;

/// Description of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// `rxlab.snapshot/1`; a reader must refuse any other.
    pub schema: String,
    /// The version of rxlab that took it.
    pub rxlab: String,
    /// Time of the second moment, in UTC.
    pub taken: String,
    /// True if addresses, host name and boot ID were replaced.
    pub redacted: bool,
    /// `little` or `big`: byte order of the machine and of its netlink answers.
    pub endian: String,
    /// True if virtual interfaces were queried in full too; those of earlier snapshots were not.
    #[serde(default)]
    pub virtual_in_full: bool,
}

/// A machine at two moments.
#[derive(Debug)]
pub struct Snapshot {
    pub manifest: Manifest,
    /// Files of the machine's open transactions, by ID.
    pub journal: BTreeMap<String, Vec<u8>>,
    first: RecordedHost,
    last: RecordedHost,
}

/// The byte order of this machine.
pub(crate) const ENDIAN: &str = if cfg!(target_endian = "little") { "little" } else { "big" };

impl Snapshot {
    pub const SCHEMA: &'static str = "rxlab.snapshot/1";

    /// Samples the machine twice, with `wait` in between. `more` reads additional data at the
    /// second moment. It must use the host passed to it, else its data is not in the snapshot.
    pub fn take(host: &dyn Host, wait: impl FnOnce(), more: impl FnOnce(&dyn Host)) -> Self {
        let (first, before) = moment(host, |_, _| ());
        wait();
        let (last, _) = moment(host, |host, after| {
            busiest(host, &before, after);
            losing_sockets(host, &before, after);
            more(host);
        });
        Self::between(first, last, jiff::Timestamp::now())
    }

    /// The machine at two moments that were recorded earlier, the second of them at `taken`.
    pub fn between(first: RecordedHost, last: RecordedHost, taken: jiff::Timestamp) -> Self {
        let manifest = Manifest {
            schema: Self::SCHEMA.to_owned(),
            rxlab: env!("CARGO_PKG_VERSION").to_owned(),
            taken: rfc3339(taken),
            redacted: false,
            endian: ENDIAN.to_owned(),
            virtual_in_full: true,
        };
        Self { manifest, journal: BTreeMap::new(), first, last }
    }

    /// Replaces what identifies the machine and its peers; `name` becomes the host name.
    #[must_use]
    pub fn redacted(self, name: &str) -> Self {
        // One for both moments: the same address keeps the same stand-in.
        let mut redaction = redact::Redaction::new(name);
        let first = redaction.machine(self.first);
        let last = redaction.machine(self.last);
        let manifest = Manifest { redacted: true, ..self.manifest };
        let journal = redaction.journals(self.journal);
        Self { manifest, journal, first, last }
    }

    /// The receive path at the second moment, and the rates between the two.
    pub fn interval(&self) -> Result<(Model, Rates), IntervalError> {
        let first = Inventory::take(&self.first, Scope::Load);
        let last = Inventory::take(&self.last, Scope::Load);
        let before = Counters::take(&self.first, &first);
        let after = Counters::take(&self.last, &last);
        let rates = Rates::between(&before, &after)?.accounted(&last);
        let processes = busiest(&self.last, &before, &after);
        let losing = losing_sockets(&self.last, &before, &after);
        let mut model = Model::new(&last);
        model.refute(&rates);
        Ok((model, Rates { processes, losing, ..rates }))
    }

    /// The machine at the first moment.
    pub fn first(&self) -> &RecordedHost {
        &self.first
    }

    /// The machine at the second moment, which counts as the present.
    pub fn last(&self) -> &RecordedHost {
        &self.last
    }
}

/// Everything that one sample reads, including the counters.
fn moment(host: &dyn Host, more: impl FnOnce(&dyn Host, &Counters)) -> (RecordedHost, Counters) {
    let recording = RecordingHost::new(host);
    let inventory = Inventory::take(&recording, Scope::All);
    let counters = Counters::take(&recording, &inventory);
    more(&recording, &counters);
    (recording.finish(), counters)
}

#[cfg(test)]
mod tests {
    use super::Snapshot;
    use rxlab_path::model::Model;
    use rxlab_path::sample::Sample;
    use rxlab_sys::{Host, RecordedHost};

    fn machine() -> RecordedHost {
        RecordedHost::new()
            .with("proc/sys/kernel/hostname", "web1\n")
            .with("proc/sys/kernel/osrelease", "6.1.0\n")
            .with("proc/sys/kernel/random/boot_id", "473d721b-2896-4eb5-a890-2cb48c991713\n")
            .with("proc/never/read", "secret")
            .with("sys/devices/system/cpu/online", "0-1\n")
            .with_link("sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth0")
            .with("sys/class/net/eth0/queues/rx-0/rps_cpus", "3\n")
            .at_ns(9)
    }

    fn model(host: &dyn Host) -> Model {
        Model::new(&Sample::take(host).inventory)
    }

    #[test]
    fn a_snapshot_says_what_the_machine_said() {
        let machine = machine();
        let snapshot = Snapshot::take(&machine, || (), |_| ());
        let mut bytes = Vec::new();
        snapshot.write(&mut bytes).expect("written");
        let back = Snapshot::read(bytes.as_slice()).expect("a snapshot");
        assert_eq!(back.manifest, snapshot.manifest);
        assert_eq!(Sample::take(back.last()), Sample::take(&machine));
        assert_eq!(model(back.first()), model(&machine));
        assert!(back.last().read("proc/never/read").is_err());
    }

    #[test]
    fn a_redacted_snapshot_has_no_names() {
        let snapshot = Snapshot::take(&machine(), || (), |_| ()).redacted("sample");
        assert!(snapshot.manifest.redacted);
        let seen = model(snapshot.last());
        assert_eq!(seen.identity.hostname, "sample");
        assert_ne!(seen.identity.boot_id, model(&machine()).identity.boot_id);
        assert_eq!(seen.nics, model(&machine()).nics);
    }
}
