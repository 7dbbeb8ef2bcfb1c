//! `rxlab snapshot`: the machine in a file.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::json;

use super::{files, machine, progress};
use crate::cli::Global;
use crate::error::CommandError;
use crate::snapshot::Snapshot;
use crate::units::parse_duration;

/// Keep what the reading commands read in a file: for a bug report, or to look at it elsewhere
///
/// `show`, `doctor` and the like give the same answers with `--snapshot FILE` as on the machine. Host
/// name, boot id, IP and MAC addresses and RSS hash keys are replaced, unless asked otherwise;
/// interface, process and control group names and port numbers are not. Works without privileges as
/// far as it can.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = "host.tar.zst")]
    output: PathBuf,
    /// Time between the two looks at the counters
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    length: Duration,
    /// Keep addresses, host name and boot id as they are
    #[arg(long)]
    unredacted: bool,
    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
}

pub(super) fn run(global: &Global, args: &Args) -> Result<(), CommandError> {
    let name = stem(&args.output)?;
    if args.output.exists() && !args.force {
        return Err(CommandError::usage(format!("{} is there already", args.output.display()))
            .hint("give another name with -o, or --force"));
    }
    let (host, _) = machine::host(global)?;
    machine::describe(&host, &global.root.display().to_string())?;
    let wait = || progress::wait("looking at the counters", args.length, &AtomicBool::new(false));
    let mut snapshot = Snapshot::take(&host, wait);
    if !args.unredacted {
        snapshot = snapshot.redacted(&name);
    }
    let mut bytes = Vec::new();
    snapshot.write(&mut bytes)?;
    files::replace(&args.output, &bytes)?;
    let manifest = &snapshot.manifest;
    let mut out = anstream::stdout().lock();
    if global.json {
        let path = args.output.display().to_string();
        let value = json!({ "file": path, "bytes": bytes.len(), "manifest": manifest });
        writeln!(out, "{}", super::json(&value)?)?;
    } else {
        let kept = if manifest.redacted { "redacted" } else { "with addresses and names as they are" };
        writeln!(out, "{}: {} KiB, {kept}", args.output.display(), bytes.len().div_ceil(1024))?;
        writeln!(out, "look at it with `rxlab show --snapshot {0}`", args.output.display())?;
    }
    Ok(())
}

/// What a redacted machine is called: the file's name up to its first dot.
fn stem(path: &Path) -> Result<String, CommandError> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default();
    if stem.is_empty() {
        return Err(CommandError::usage(format!("`{}` is no name for a snapshot", path.display()))
            .hint("write -o NAME.tar.zst"));
    }
    Ok(stem.to_owned())
}
