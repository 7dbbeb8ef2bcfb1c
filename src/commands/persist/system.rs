//! The running systemd.

#![allow(clippy::disallowed_methods)] // Starts `systemctl`.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::commands::Global;
use crate::error::{CommandError, Result};

/// True if systemd runs the machine below the root (sd_booted(3)).
pub(crate) fn is_running(global: &Global) -> bool {
    global.root.join("run/systemd/system").exists()
}

/// True if systemd runs this machine, and files are installed into its root.
pub(crate) fn is_ours(global: &Global) -> bool {
    is_running(global) && global.root == Path::new("/")
}

/// Runs `systemctl` on this machine.
pub(crate) fn ctl(arguments: &[&str]) -> Result {
    let failed = |why: String| {
        CommandError::failed(format!("`systemctl {}` {why}", arguments.join(" ")))
            .hint("the files are in place: run it by hand")
    };
    let out = Command::new("systemctl").args(arguments).stdin(Stdio::null()).output();
    let out = out.map_err(|error| failed(format!("cannot be started: {error}")))?;
    if out.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    Err(failed(format!("ended with {}: {}", out.status, said.trim().replace('\n', " "))))
}
