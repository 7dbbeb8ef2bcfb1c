//! `rxlab snapshot`: records the machine in a file.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::machine::{self, Machine};
use super::{Global, files, look, output, place, progress};
use crate::error::{CommandError, Result};
use rxlab_base::units::parse_duration;
use rxlab_change::apply::status;
use rxlab_change::journal::{Disk, Folder, History, Open, Storage};
use rxlab_record::snapshot::Snapshot;
use rxlab_sys::{Host, Namespace};

/// Record the machine in a file, to attach to a bug report or to examine elsewhere
///
/// Commands such as `show` and `doctor` give the same results with `--snapshot FILE` as on the machine.
/// Host name, boot id, IP and MAC addresses and RSS hash keys are replaced unless --unredacted is given;
/// interface, process and control group names and port numbers are kept. Without privileges it records
/// what it can read.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    file: SnapshotFile,
    /// Time between the two samples of the counters
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    length: Duration,
}

/// The file of a snapshot, and what it may show.
#[derive(Debug, clap::Args)]
pub(super) struct SnapshotFile {
    /// File to write
    #[arg(short, long, value_name = "FILE", default_value = "host.tar.zst")]
    output: PathBuf,
    /// Keep addresses, host name and boot id as they are
    #[arg(long)]
    unredacted: bool,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

pub(super) fn run(global: &Global, args: &Args) -> Result {
    args.file.check()?;
    let machine = machine::open(global)?;
    machine::warn_of_view(&machine.host);
    let open = open_transactions(global, &machine)?;
    let stop = place::stop_flag()?;
    // Knobs read the values that `status` compares with.
    let more = |host: &dyn Host| {
        let histories: Vec<_> = open.iter().map(|(id, (_, history))| (id.clone(), history.clone())).collect();
        for (index, (_, history)) in histories.iter().enumerate() {
            drop(status(history, &histories[index + 1..], host, &machine.model));
        }
    };
    let mut snapshot =
        Snapshot::take(&machine.host, || progress::wait("sampling the counters", args.length, &stop), more);
    snapshot.journal = open.into_iter().map(|(id, (bytes, _))| (id, bytes)).collect();
    args.file.write(global, snapshot)?;
    look::ended(&stop, Ok(()))
}

impl SnapshotFile {
    /// Returns an error if the file exists and is not to be replaced, or cannot be written: known before the sample, which takes a while.
    pub(super) fn check(&self) -> Result {
        redacted_name(&self.output)?;
        if !self.force {
            files::check_new(&self.output)?;
        }
        files::check(&self.output)
    }

    /// Writes a snapshot, redacted unless that is not wanted, and says so.
    pub(super) fn write(&self, global: &Global, mut snapshot: Snapshot) -> Result {
        if !self.unredacted {
            snapshot = snapshot.redacted(&redacted_name(&self.output)?);
        }
        let mut bytes = Vec::new();
        snapshot.write(&mut bytes)?;
        let manifest = &snapshot.manifest;
        if manifest.redacted {
            files::write(&self.output, &bytes)?;
        } else {
            files::write_private(&self.output, &bytes)?;
        }
        let path = self.output.display().to_string();
        let value = json!({ "file": path, "bytes": bytes.len(), "manifest": manifest });
        output::print(global, &value, || {
            let kept = if manifest.redacted { "redacted" } else { "with addresses and names as they are" };
            let size = bytes.len().div_ceil(1024);
            format!("{path}: {size} KiB, {kept}\nview it with `rxlab show --snapshot {path}`\n")
        })
    }
}

/// Returns the open transactions of the selected network namespace, raw and parsed. What cannot be read is left out with a
/// notice: the rest is still useful.
fn open_transactions(global: &Global, machine: &Machine) -> Result<BTreeMap<String, (Vec<u8>, History)>> {
    let root = place::root(global)?.to_string_lossy().into_owned();
    let boot_id = &machine.model.identity.boot_id;
    let open = match place::store(global).open(&root, boot_id) {
        Ok(Open { transactions, unreadable }) => {
            place::warn(&unreadable);
            transactions
        }
        Err(error) => {
            // The rest is useful whether or not standard error accepts this.
            let _ = writeln!(output::stderr(), "rxlab: the journal is not in the snapshot: {error}");
            return Ok(BTreeMap::new());
        }
    };
    let inode = |namespace: &Namespace| namespace.inode;
    let here = machine.netns.as_ref().map(inode);
    let here =
        |history: &History| history.begin().is_some_and(|begin| begin.netns.as_ref().map(inode) == here);
    let disk = Disk::new(&global.state_dir);
    let bytes = |id: &str| disk.read(Folder::Open, id).ok();
    let open = open.into_iter().filter(|(_, history)| here(history));
    Ok(open.filter_map(|(id, history)| Some((id.clone(), (bytes(&id)?, history)))).collect())
}

/// Name of a redacted machine: the file's name up to its first dot.
fn redacted_name(path: &Path) -> Result<String> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default();
    if stem.is_empty() {
        return Err(CommandError::usage(format!("`{}` is not a valid name for a snapshot", path.display()))
            .hint("write -o NAME.tar.zst"));
    }
    Ok(stem.to_owned())
}
