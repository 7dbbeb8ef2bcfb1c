//! `rxlab record install` and `remove`: the systemd unit of the recorder.

use std::io::Write;
use std::path::Path;

use serde_json::json;

use super::{Etc, Global, RingArgs};
use crate::commands::output;
use crate::commands::persist::{boot, say_installed, system};
use crate::error::{CommandError, Kind, Result};
use rxlab_base::private;
use rxlab_base::units::format_duration;
use rxlab_change::persist::{Folder, RECORD_UNIT, Restore, record_files};

/// Record from now on and from each boot: a systemd unit
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    ring: RingArgs,
    #[command(flatten)]
    etc: Etc,
}

pub(super) fn run(global: &Global, args: &Args) -> Result {
    if global.netns.is_some() {
        return Err(CommandError::usage("a network namespace does not survive a reboot"));
    }
    let limits = args.ring.limits()?;
    let etc = args.etc.path(global)?;
    let restore = boot::restore(global, &etc)?;
    boot::ready(global, &etc, &restore, "at each boot")?;
    let arguments =
        ["--every".to_owned(), format_duration(limits.every), "--size".to_owned(), limits.size.to_string()];
    let written = Folder::new(&etc).install(&record_files(&arguments, &restore))?;
    let is_running = system::is_ours(global);
    if is_running {
        // The unit may write there and nowhere else.
        make_private(&restore.state)?;
        system::ctl(&["daemon-reload"])?;
        system::ctl(&["restart", RECORD_UNIT])?;
    }
    if global.json {
        return output::json(&json!({
            "schema": "rxlab.record-unit/1", "unit": RECORD_UNIT, "started": is_running, "files": written,
        }));
    }
    let mut out = output::text_stdout();
    say_installed(&mut out, &written)?;
    if is_running {
        writeln!(out, "{RECORD_UNIT} runs; `rxlab record remove` ends it")?
    } else {
        writeln!(out, "{RECORD_UNIT} starts at the next boot; `rxlab record remove` undoes this")?
    }
    Ok(())
}

/// Makes the state directory, unless it is there.
fn make_private(state: &Path) -> Result {
    match private::create_directory(state) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(CommandError::new(Kind::from(&error), format!("cannot create {}: {error}", state.display())))
        }
        _ => Ok(()),
    }
}

pub(super) fn remove(global: &Global, etc: &Etc) -> Result {
    let etc = etc.path(global)?;
    boot::check_links(global, &etc)?;
    let is_running = system::is_ours(global);
    if is_running {
        // A unit that does not run has nothing to stop.
        let _ = system::ctl(&["stop", RECORD_UNIT]);
    }
    let removed = Folder::new(&etc).remove(&record_files(&[], &Restore::only_paths(&etc)))?;
    if is_running {
        system::ctl(&["daemon-reload"])?;
    }
    if global.json {
        return output::json(&json!({ "schema": "rxlab.record-unit/1", "removed": removed }));
    }
    let mut out = output::text_stdout();
    removed.iter().try_for_each(|path| writeln!(out, "removed {}", path.display()))?;
    if removed.is_empty() {
        writeln!(out, "no unit is installed")?
    } else {
        writeln!(out, "what was recorded stays: {}", global.state_dir.join("record").display())?
    }
    Ok(())
}
