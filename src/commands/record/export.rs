//! `rxlab record export`: a stretch of a recording as a snapshot file.

use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::json;

use super::{Global, recorded};
use crate::commands::snapshot::{check_output, redacted_name};
use crate::commands::when::parse_when;
use crate::commands::{files, output};
use crate::error::CommandError;

/// Write a stretch of the recording as a snapshot file, for a bug report
///
/// Commands such as `show` and `doctor` read it with `--snapshot FILE`. It holds the machine at both ends, and is redacted
/// like the files of `rxlab snapshot`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Both ends: '10 minutes ago', '14:05:30' or '2026-01-31 14:05' (UTC)
    #[arg(long, num_args = 2, value_names = ["FROM", "TO"], required = true, value_parser = parse_when)]
    between: Vec<Timestamp>,
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

pub(super) fn run(global: &Global, args: &Args) -> Result<(), CommandError> {
    let name = redacted_name(&args.output)?;
    check_output(&args.output, args.force)?;
    let [from, to] = args.between[..] else { return Err(CommandError::usage("--between takes two times")) };
    let Ok(length) = to.duration_since(from).try_into() else {
        return Err(CommandError::usage("--between: the second time is before the first"));
    };
    let mut snapshot = recorded(global, to, length)?;
    if !args.unredacted {
        snapshot = snapshot.redacted(&name);
    }
    let mut bytes = Vec::new();
    snapshot.write(&mut bytes)?;
    files::write(&args.output, &bytes)?;
    let path = args.output.display().to_string();
    let value = json!({ "file": path, "bytes": bytes.len(), "manifest": snapshot.manifest });
    output::print(global, &value, || {
        let kept = if args.unredacted { "with addresses and names as they are" } else { "redacted" };
        let size = bytes.len().div_ceil(1024);
        format!("{path}: {size} KiB, {kept}\nview it with `rxlab show --snapshot {path}`\n")
    })
}
