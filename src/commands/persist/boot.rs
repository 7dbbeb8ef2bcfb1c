//! Paths that the boot runs and reads as root, on the machine that boots. Those that users other than root can change
//! are refused.

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::process::{geteuid, umask};

use crate::commands::{Global, output, place};
use crate::error::{CommandError, Result};
use rxlab_change::persist::{PLAN, Restore, Walked, walk};

/// Returns the command line of the units and the paths on it, as seen from the machine whose root is `--root`: that
/// directory is its `/`, and this program has the same path there.
pub(crate) fn restore(global: &Global, etc: &Path) -> Result<Restore> {
    let program = std::env::current_exe()
        .map_err(|error| CommandError::failed(format!("cannot tell where this program is: {error}")))?;
    let state = std::path::absolute(&global.state_dir)?;
    let root = std::path::absolute(&global.root)?;
    let real = place::root(global)?;
    let below = |path: &Path| {
        let rest = path.strip_prefix(&root).or_else(|_| path.strip_prefix(&real));
        rest.ok().map(|rest| Path::new("/").join(rest))
    };
    let Some(etc) = below(etc) else {
        let message = format!("--etc {} is not below --root {}", etc.display(), root.display());
        return Err(
            CommandError::usage(message).hint("the units are for the machine that boots from that root")
        );
    };
    let program = below(&program).unwrap_or(program);
    let state = below(&state).unwrap_or(state);
    if let Some(path) = [&program, &state, &etc].into_iter().find(|path| path.to_str().is_none()) {
        let message = format!("{} is not UTF-8: a systemd unit cannot name it", path.display());
        return Err(CommandError::usage(message));
    }
    let mut options = Vec::new();
    if state != Path::new("/var/lib/rxlab") {
        options.extend(["--state-dir".to_owned(), state.to_string_lossy().into_owned()]);
    }
    Ok(Restore { program, options, etc, state })
}

/// Refuses units that would run `when`, as in "at each boot", what users other than root can change, or that cannot be
/// installed below another root. Directories created from here on are writable for their owner only.
pub(crate) fn ready(global: &Global, etc: &Path, restore: &Restore, when: &str) -> Result {
    check_links(global, etc)?;
    check_program(global, restore, when)?;
    check_files(global, restore)?;
    restrict_umask();
    Ok(())
}

/// Refuses units that would run, `when` as in "at each boot", a program which users other than root can change.
fn check_program(global: &Global, restore: &Restore, when: &str) -> Result {
    let program = &restore.program;
    let install = if global.root == Path::new("/") {
        "`make install` puts the program where only root can change it: run that one".to_owned()
    } else {
        format!(
            "`make install DESTDIR={0}` puts the program below that root: run {0}/usr/local/bin/rxlab",
            global.root.display()
        )
    };
    match walked(global, program)? {
        Walked::Trusted => Ok(()),
        Walked::Missing(path) => {
            let (program, path) = (program.display(), path.display());
            let message = format!("root would run {program} {when}, but there is no {path}");
            refuse(CommandError::usage(message).hint(install))
        }
        Walked::Exposed(exposed) => {
            let error = refusal(&format!("run {} {when}", program.display()), &exposed).hint(install);
            let remedy = exposed.remedy().map(|remedy| format!("or: {remedy}"));
            refuse(error.hint_all(remedy))
        }
    }
}

/// Refuses a plan, or a directory of the journal, that users other than root can change. A missing path is fine if only
/// root can create it.
pub(crate) fn check_files(global: &Global, restore: &Restore) -> Result {
    let plan = restore.etc.join(PLAN);
    let uses = [
        (plan.clone(), format!("apply {}", plan.display()), "name another directory with --etc"),
        (
            restore.state.clone(),
            format!("keep its journal in {}", restore.state.display()),
            "name another directory with --state-dir or RXLAB_STATE_DIR",
        ),
    ];
    for (path, purpose, elsewhere) in uses {
        if let Walked::Exposed(exposed) = walked(global, &path)? {
            let hint = exposed.remedy().unwrap_or_else(|| elsewhere.to_owned());
            refuse(refusal(&purpose, &exposed).hint(hint))?;
        }
    }
    Ok(())
}

/// Refuses another root whose configuration directories lead out of it: on the machine that boots from it such a link
/// stays below the root, but files written here would end up on this machine.
pub(crate) fn check_links(global: &Global, etc: &Path) -> Result {
    let root = place::root(global)?;
    let wants = ["systemd/system/multi-user.target.wants", "systemd/system/timers.target.wants"];
    for directory in ["rxlab", "udev/rules.d"].into_iter().chain(wants) {
        let directory = etc.join(directory);
        // Missing directories are created below the last existing one.
        let Some(real) = directory.ancestors().find_map(|path| path.canonicalize().ok()) else { continue };
        if !real.starts_with(&root) && etc.starts_with(std::path::absolute(&global.root)?) {
            let message = format!("{} leads to {}, out of the root", directory.display(), real.display());
            return Err(
                CommandError::usage(message).hint("make its links relative, or run rxlab after chroot(8)")
            );
        }
    }
    Ok(())
}

/// Makes all directories created from here on writable for their owner only, whatever the shell's umask:
/// `rxlab restore` would refuse others.
fn restrict_umask() {
    let mask = umask(Mode::RWXU | Mode::RWXG | Mode::RWXO);
    umask(mask | Mode::WGRP | Mode::WOTH);
}

fn walked(global: &Global, path: &Path) -> Result<Walked> {
    walk(&global.root, path).map_err(|error| {
        let path: PathBuf =
            path.strip_prefix("/").map_or_else(|_| path.to_owned(), |rest| global.root.join(rest));
        CommandError::failed(format!("cannot tell who can change {}: {error}", path.display()))
    })
}

/// A usage error: the user chose these files. No permission is missing, so root gets the same error.
fn refusal(purpose: &str, exposed: &dyn Display) -> CommandError {
    CommandError::usage(format!("root would {purpose}, but {exposed}"))
}

/// An error for root. An ordinary user writes to their own directory, from which no machine boots yet: a warning is
/// enough.
fn refuse(error: CommandError) -> Result {
    if geteuid().is_root() {
        return Err(error);
    }
    // If standard error is closed, the warning is lost.
    let _ = writeln!(output::stderr(), "rxlab: {}", error.message);
    Ok(())
}
