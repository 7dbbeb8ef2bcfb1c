//! The machine that the command line names, opened and described: this one, another root, or a snapshot.

#![allow(clippy::disallowed_methods)] // Opens the snapshot that the command line names.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::record::recorded;
use super::when::parse_when;
use super::{Global, files, output};
use crate::error::{CommandError, Kind, Result};
use rxlab_base::grammar::sh;
use rxlab_base::units::{CpuMask, NicName, parse_size, rfc3339};
use rxlab_path::model::{Identity, Model, Nic, Rates};
use rxlab_path::sample::{Counters, Inventory, Scope};
use rxlab_record::snapshot::{ArchiveError, Snapshot};
use rxlab_sys::{Host, LiveHost, Namespace, OpenError, OtherView, netns_path};

pub(crate) struct Machine {
    pub(crate) host: LiveHost,
    /// Its CPUs, interfaces and settings.
    pub(crate) inventory: Inventory,
    pub(crate) model: Model,
    /// The selected network namespace, unless it is our own.
    pub(crate) netns: Option<Namespace>,
}

/// Opens the machine and network namespace that the command line selects.
pub(super) fn open(global: &Global) -> Result<Machine> {
    let host = host(global)?;
    let inventory = Inventory::take(&host, Scope::Counters);
    let model = describe(&inventory)?;
    let netns = global.netns.as_deref().and_then(|name| Namespace::open(&netns_path(name)).ok());
    Ok(Machine { host, inventory, model, netns })
}

/// Returns the machine's files, as seen from the selected network namespace.
pub(super) fn host(global: &Global) -> Result<LiveHost> {
    let opened = match &global.netns {
        Some(name) => LiveHost::open_in_namespace(&global.root, &netns_path(name)),
        None => LiveHost::open(&global.root),
    };
    opened.map_err(|error| match error {
        OpenError::Confinement { .. } => CommandError::new(Kind::Denied, error)
            .hint("a seccomp filter forbids it: that of RestrictSUIDSGID= in a systemd unit, or of an old container engine"),
        _ if error.is_denied() => CommandError::new(Kind::Denied, error).hint(privilege("another network namespace")),
        _ => CommandError::usage(error),
    })
}

/// Returns the machine's files for a command that only reads, and warns if they may be of another network namespace than
/// its sockets.
pub(super) fn readable(global: &Global) -> Result<LiveHost> {
    let host = host(global)?;
    warn_of_view(&host);
    Ok(host)
}

/// Warns if the files of a machine may be of another network namespace than its sockets.
pub(super) fn warn_of_view(host: &LiveHost) {
    if let Err(view @ OtherView::Namespace(_)) = host.check_view() {
        // If even standard error is closed, nothing can be reported.
        let _ = writeln!(output::stderr(), "rxlab: warning: {view}");
    }
}

/// Returns the machine as seen from our own network namespace, and its identity.
pub(super) fn own(global: &Global) -> Result<(LiveHost, Identity)> {
    let own = host(&Global { netns: None, ..global.clone() })?;
    let identity = describe(&Inventory::take(&own, Scope::Path))?.identity;
    Ok((own, identity))
}

/// Hint for a denial: `what` needs root, or capabilities that root lacks here.
pub(super) fn privilege(what: &str) -> String {
    if rustix::process::geteuid().is_root() {
        format!("{what} needs capabilities that root has outside of containers")
    } else {
        format!("{what} needs root")
    }
}

/// Returns the receive path of a machine, or an error if none is found.
pub(super) fn describe(inventory: &Inventory) -> Result<Model> {
    if inventory.cpus.known().is_none() && inventory.nics.known().is_none() {
        return Err(CommandError::usage("no CPUs or interfaces found")
            .hint("a root needs proc/ and sys/, as on a running machine"));
    }
    Ok(Model::new(inventory))
}

/// Returns the interface `name`, or an error that lists the existing ones.
pub(super) fn nic<'a>(model: &'a Model, name: &NicName) -> Result<&'a Nic> {
    model.nic(name).ok_or_else(|| {
        let names: Vec<&str> = model.nics.iter().map(|nic| nic.name.as_str()).collect();
        CommandError::usage(format!("no interface `{name}`"))
            .hint(format!("interfaces here: {}", names.join(", ")))
    })
}

/// Returns `cpus`, or an error that lists the existing ones.
pub(super) fn cpus<'a>(model: &Model, cpus: &'a CpuMask) -> Result<&'a CpuMask> {
    let there: CpuMask = model.cpus.iter().map(|cpu| cpu.id).collect();
    let missing = cpus.difference(&there);
    let message = match missing.len() {
        _ if cpus.is_empty() => "the list of CPUs is empty".to_owned(),
        0 => return Ok(cpus),
        1 => format!("no CPU {missing}"),
        _ => format!("no CPUs {missing}"),
    };
    Err(CommandError::usage(message).hint(format!("CPUs here: {there}")))
}

/// Arguments of every command that only reads.
#[derive(Debug, clap::Args)]
pub(crate) struct From {
    #[command(flatten)]
    file: SnapshotFile,
    /// Read the machine as `rxlab record` has recorded it at this time: '10 minutes ago', '14:05:30' or '2026-01-31
    /// 14:05' (UTC)
    #[arg(long, value_name = "TIME", conflicts_with = "snapshot", value_parser = parse_when)]
    pub(super) at: Option<Timestamp>,
}

impl From {
    /// True if the machine is not read as it is now.
    pub(super) fn is_recorded(&self) -> bool {
        !self.options().is_empty()
    }

    /// The same machine as options of the next command, each after a space; empty for this machine.
    pub(super) fn options(&self) -> String {
        let file = self
            .file
            .snapshot
            .as_ref()
            .map(|path| format!(" --snapshot {}", sh::word(&path.to_string_lossy())));
        file.or_else(|| self.at.map(|at| format!(" --at {at}"))).unwrap_or_default()
    }
}

/// The snapshot that a command reads instead of a machine.
#[derive(Debug, clap::Args)]
pub(crate) struct SnapshotFile {
    /// Read the machine from a snapshot file of `rxlab snapshot` instead of this one
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Refuse a snapshot that unpacks to more than this; a machine with 128 CPUs needs 3M
    #[arg(long, value_name = "SIZE", default_value = "64M", requires = "snapshot", value_parser = parse_size)]
    snapshot_limit: u64,
}

/// The machine to read.
pub(super) enum Source {
    /// A running machine, or another root.
    Live(Box<LiveHost>),
    /// A machine at two moments: of a file, or of a recording.
    Snapshot(Box<Snapshot>),
}

impl std::convert::From<Snapshot> for Source {
    fn from(snapshot: Snapshot) -> Self {
        Self::Snapshot(Box::new(snapshot))
    }
}

impl Source {
    /// Opens the machine, snapshot or recording that the command line selects; of a recording, the stretch of `length`
    /// that ends at the time.
    pub(super) fn open(global: &Global, from: &From, length: Duration) -> Result<Self> {
        match from.at {
            Some(at) => recorded(global, at, length).map(Self::from),
            None => Self::open_file(global, &from.file),
        }
    }

    /// Opens the machine or snapshot that the command line selects.
    pub(super) fn open_file(global: &Global, from: &SnapshotFile) -> Result<Self> {
        let Some(path) = &from.snapshot else { return Ok(Self::Live(Box::new(readable(global)?))) };
        if global.netns.is_some() || global.root != Path::new("/") {
            return Err(CommandError::usage("--snapshot cannot be combined with --root or --netns")
                .hint("take the snapshot with --netns to include another namespace's interfaces"));
        }
        let failed =
            |why: String| CommandError::usage(format!("cannot read the snapshot {}: {why}", path.display()));
        let file = File::open(path).map_err(|error| files::cannot_read("snapshot", path, &error))?;
        if file.metadata().is_ok_and(|data| data.is_dir()) {
            return Err(failed("it is a directory; give the file that `rxlab snapshot` wrote".to_owned()));
        }
        let snapshot = Snapshot::read_within(BufReader::new(file), from.snapshot_limit).map_err(|error| {
            let is_limit = matches!(error, ArchiveError::TooLarge { .. });
            failed(if is_limit {
                format!("{error}; --snapshot-limit SIZE raises the limit")
            } else {
                error.to_string()
            })
        })?;
        Ok(Self::Snapshot(Box::new(snapshot)))
    }

    /// The machine as it is now; for a snapshot, at its second moment.
    pub(super) fn host(&self) -> &dyn Host {
        match self {
            Source::Live(host) => &**host,
            Source::Snapshot(snapshot) => snapshot.last(),
        }
    }

    /// Time of the machine's last counters, and whether it is a recording.
    pub(super) fn taken(&self) -> (Option<String>, bool) {
        match self {
            Source::Live(_) => (Some(rfc3339(Timestamp::now())), false),
            Source::Snapshot(snapshot) => (Some(snapshot.manifest.taken.clone()), true),
        }
    }

    /// Returns an error if there is no interface `name`.
    pub(super) fn check_nic(&self, name: Option<&NicName>) -> Result {
        let Some(name) = name else { return Ok(()) };
        nic(&describe(&Inventory::take(self.host(), Scope::Path))?, name).map(|_| ())
    }

    /// True if names, addresses and hash keys of the machine were removed.
    pub(super) fn is_redacted(&self) -> bool {
        matches!(self, Source::Snapshot(snapshot) if snapshot.manifest.redacted)
    }

    /// Returns its receive path and environment, with all details of `nic`.
    pub(super) fn model(&self, nic: Option<&NicName>) -> Result<Model> {
        // Details that were not recorded in the snapshot would read as unsupported.
        let in_full = match self {
            Source::Live(_) => true,
            Source::Snapshot(snapshot) => snapshot.manifest.virtual_in_full,
        };
        let scope = Scope::Environment { nic: nic.filter(|_| in_full) };
        let inventory = Inventory::take(self.host(), scope);
        let mut model = describe(&inventory)?;
        let counted = match self {
            Source::Live(host) => Some(Rates::since_boot(&Counters::take(&**host, &inventory))),
            Source::Snapshot(snapshot) => snapshot.interval().ok().map(|(_, rates)| rates),
        };
        if let Some(rates) = counted {
            model.refute(&rates);
        }
        Ok(model)
    }
}
