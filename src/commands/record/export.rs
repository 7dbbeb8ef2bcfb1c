//! `rxlab record export`: a stretch of a recording as a snapshot file.

use jiff::Timestamp;

use super::{Global, recorded};
use crate::commands::snapshot::SnapshotFile;
use crate::commands::when::parse_when;
use crate::error::{CommandError, Result};

/// Write part of the recording as a snapshot file, for a bug report
///
/// Commands such as `show` and `doctor` read it with `--snapshot FILE`. It holds the machine at the beginning and at the
/// end, and is redacted like the files of `rxlab snapshot`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Beginning and end: '10 minutes ago', '14:05:30' or '2026-01-31 14:05' (UTC)
    #[arg(long, num_args = 2, value_names = ["FROM", "TO"], required = true, value_parser = parse_when)]
    between: Vec<Timestamp>,
    #[command(flatten)]
    file: SnapshotFile,
}

pub(super) fn run(global: &Global, args: &Args) -> Result {
    args.file.check()?;
    let [from, to] = args.between[..] else { return Err(CommandError::usage("--between takes two times")) };
    let Ok(length) = to.duration_since(from).try_into() else {
        return Err(CommandError::usage("--between: the second time is before the first"));
    };
    args.file.write(global, recorded(global, to, length)?)
}
