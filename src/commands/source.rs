//! The machine to read: this one, another root, or a snapshot.

#![allow(clippy::disallowed_methods)] // Opens the snapshot that the command line names.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use super::{Global, files, machine};
use crate::error::CommandError;
use crate::host::{Host, LiveHost};
use crate::model::Model;
use crate::sample::{Inventory, Scope};
use crate::snapshot::{ArchiveError, Snapshot};
use crate::units::{NicName, parse_size};

/// Arguments of every command that only reads.
#[derive(Debug, clap::Args)]
pub(crate) struct From {
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
    Live(LiveHost),
    /// A machine at two moments.
    Snapshot(Box<Snapshot>),
}

/// Opens the machine or snapshot that the command line selects.
pub(super) fn open(global: &Global, from: &From) -> Result<Source, CommandError> {
    let Some(path) = &from.snapshot else { return Ok(Source::Live(machine::host(global)?.0)) };
    if global.netns.is_some() || global.root != Path::new("/") {
        return Err(CommandError::usage("--snapshot cannot be combined with --root or --netns")
            .hint("take the snapshot with --netns to include another namespace's interfaces"));
    }
    let failed =
        |why: String| CommandError::usage(format!("cannot read the snapshot {}: {why}", path.display()));
    let file = File::open(path).map_err(|error| files::cannot_read("snapshot", path, &error))?;
    let snapshot = Snapshot::read_within(BufReader::new(file), from.snapshot_limit).map_err(|error| {
        let is_limit = matches!(error, ArchiveError::TooLarge { .. });
        failed(if is_limit {
            format!("{error}; --snapshot-limit SIZE raises the limit")
        } else {
            error.to_string()
        })
    })?;
    Ok(Source::Snapshot(Box::new(snapshot)))
}

impl Source {
    /// The machine as it is now; for a snapshot, at its second moment.
    pub(super) fn host(&self) -> &dyn Host {
        match self {
            Source::Live(host) => host,
            Source::Snapshot(snapshot) => snapshot.last(),
        }
    }

    /// Returns its receive path and surroundings, with all details of `nic`.
    pub(super) fn model(&self, nic: Option<&NicName>) -> Result<Model, CommandError> {
        // Details that were not recorded in the snapshot would read as unsupported.
        let in_full = match self {
            Source::Live(_) => true,
            Source::Snapshot(snapshot) => snapshot.manifest.virtual_in_full,
        };
        let scope = Scope::Surroundings { nic: nic.filter(|_| in_full) };
        machine::describe(&Inventory::take(self.host(), scope))
    }
}
