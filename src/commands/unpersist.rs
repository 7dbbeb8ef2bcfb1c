//! `rxlab unpersist`: removes what `rxlab persist` has installed.

use std::io::Write;

use serde_json::json;

use super::persist::{Etc, boot};
use super::{Global, output};
use crate::error::Result;
use rxlab_change::persist::{Folder, Restore, files};
use rxlab_setting::Plan;

/// Remove what persist has installed; current values are unchanged
///
/// If a file was edited since, nothing is removed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print what would be removed, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    etc: Etc,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result {
    let etc = args.etc.path(global)?;
    boot::check_links(global, &etc)?;
    let files = files(&Plan::new("", &[]), &Restore::only_paths(&etc));
    let folder = Folder::new(etc);
    let removed = if args.dry_run { folder.preview_removal(&files) } else { folder.remove(&files) }?;
    if global.json {
        return output::json(
            &json!({ "schema": "rxlab.unpersist/1", "removed": removed, "dry_run": args.dry_run }),
        );
    }
    let mut out = output::plain_stdout();
    let done = if args.dry_run { "would remove" } else { "removed" };
    for path in &removed {
        writeln!(out, "{done} {}", path.display())?;
    }
    if removed.is_empty() {
        writeln!(out, "nothing is persisted")?
    } else if args.dry_run {
        writeln!(out, "nothing was changed")?
    } else {
        writeln!(out, "current values are unchanged; `rxlab undo` restores what is applied")?
    }
    Ok(())
}
