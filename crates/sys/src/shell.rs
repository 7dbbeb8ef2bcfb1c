//! Shell commands that change the machine: run to their end, with the result in one line.

#![allow(clippy::disallowed_methods)] // Starts the user's commands.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::fs::{MemfdFlags, OFlags, memfd_create};
use rustix::io::Errno;
use rustix::process::{Signal, fchdir, getpid, getppid, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::HostError;
use super::signals::end_by_faults;

/// Bytes at the end of a command's output in which its last line is looked for.
const END: u64 = 4096;

/// Identity of a directory: one that another user has made since under its name differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DirectoryId {
    pub inode: u64,
    /// User ID.
    pub owner: u32,
}

impl DirectoryId {
    /// The identity of an existing directory.
    pub fn of(path: &str) -> io::Result<Self> {
        Self::of_open(&open_directory(path)?)
    }

    fn of_open(directory: &File) -> io::Result<Self> {
        let about = directory.metadata()?;
        Ok(Self { inode: about.ino(), owner: about.uid() })
    }
}

fn open_directory(path: &str) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Runs `command`; an error has its end status and the last line of its standard error.
///
/// Waits for the shell, not for its background processes: standard error is a file in memory, so a daemon
/// may keep it open. A directory that is no longer `id` is not entered: what it holds may be another user's.
pub(super) fn run(
    command: &str,
    (directory, id): (Option<&str>, Option<DirectoryId>),
    interruptible: bool,
) -> Result<(), HostError> {
    let failed = |said: String| HostError::of_command(command, said);
    let not_started = |error: io::Error| match directory {
        Some(directory) => failed(format!("cannot be started in {directory}: {error}")),
        None => failed(format!("cannot be started: {error}")),
    };
    let said = memfd_create("stderr", MemfdFlags::CLOEXEC).map_err(|errno| not_started(errno.into()))?;
    let said = File::from(said);
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null());
    shell.stderr(said.try_clone().map_err(not_started)?);
    if let Some(path) = directory {
        let opened = open_directory(path).map_err(not_started)?;
        if id.is_some() && id != DirectoryId::of_open(&opened).ok() {
            return Err(failed(format!(
                "is not run in {path}, which is another directory by now: run it by hand where it belongs"
            )));
        }
        begin_in(&mut shell, opened);
    }
    end_by_faults(&mut shell);
    if interruptible {
        // Else its effect could come after the rollback.
        signal_at_our_end(&mut shell, Signal::KILL);
    } else {
        shell.process_group(0);
    }
    let status = shell.status().map_err(not_started)?;
    if status.success() {
        return Ok(());
    }
    let last = last_line(&said).map_or_else(String::new, |line| format!(": {line}"));
    Err(failed(format!("ended with {status}{last}")))
}

/// Has a command run in an open directory: its name may lead elsewhere at any moment.
#[allow(unsafe_code)]
fn begin_in(command: &mut Command, directory: File) {
    // SAFETY: between fork and exec only fchdir(2) is called, which takes no lock and no memory.
    unsafe { command.pre_exec(move || Ok(fchdir(&directory)?)) };
}

/// Has the process of a command get `signal` when the thread that starts it ends, however it does.
#[allow(unsafe_code)]
pub fn signal_at_our_end(command: &mut Command, signal: Signal) {
    let us = getpid();
    // SAFETY: between fork and exec only prctl(2) and getppid(2) are called, which take no lock and no
    // memory.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(signal))?;
            // This process died before the kernel had the request.
            if getppid() == Some(us) { Ok(()) } else { Err(Errno::SRCH.into()) }
        })
    };
}

/// Has the process of a command begin with its standard streams only: a lock that the caller of this process holds by an open
/// file (`flock 9`) ends with this process. Before Linux 5.11 it does not.
#[allow(unsafe_code)]
pub fn inherit_no_files(command: &mut Command) {
    let close = || {
        // SAFETY: one system call, with numbers only. The standard library's own pipe closes with the start of the program too.
        unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        Ok(())
    };
    // SAFETY: between fork and exec only close_range(2) is called, which takes no lock and no memory.
    unsafe { command.pre_exec(close) };
}

/// The last nonempty line of a file.
fn last_line(file: &File) -> Option<String> {
    let length = file.metadata().ok()?.len();
    let mut end = vec![0; usize::try_from(length.min(END)).ok()?];
    file.read_exact_at(&mut end, length.saturating_sub(END)).ok()?;
    let text = String::from_utf8_lossy(&end);
    text.trim().lines().last().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{DirectoryId, HostError};

    fn run(command: &str, directory: Option<&str>, interruptible: bool) -> Result<(), HostError> {
        super::run(command, (directory, None), interruptible)
    }

    fn error(command: &str) -> String {
        run(command, None, true).expect_err(command).to_string()
    }

    /// `undo` once ran, as root, what a user had put where a trial had been started.
    #[test]
    fn another_directory_of_that_name_is_not_entered() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("trial");
        let path = path.to_str().expect("text");
        std::fs::create_dir(path).expect("created");
        let then = DirectoryId::of(path).expect("there");
        let run = |id| super::run("echo x > here", (Some(path), Some(id)), false);
        assert_eq!(run(then), Ok(()));
        let other = DirectoryId { owner: then.owner + 1, ..then };
        let error = run(other).expect_err("of another user").to_string();
        assert_eq!(
            error,
            format!(
                "`echo x > here` is not run in {path}, which is another directory by now: run it by hand where it belongs"
            )
        );
        std::fs::rename(path, folder.path().join("old")).expect("renamed");
        std::fs::create_dir(path).expect("created");
        run(then).expect_err("made again");
        assert!(!std::path::Path::new(path).join("here").exists());
    }

    #[test]
    fn a_failure_says_how_it_ended_and_the_last_line() {
        assert_eq!(run("true", None, true), Ok(()));
        assert_eq!(error("exit 3"), "`exit 3` ended with exit status: 3");
        assert_eq!(error("echo x; echo y >&2; echo >&2; exit 1").split("status: ").last(), Some("1: y"));
        let long = "i=0; while [ $i -lt 2000 ]; do echo $i long >&2; i=$((i+1)); done; exit 1";
        assert!(error(long).ends_with(": 1999 long"));
        assert!(error("kill -9 $$").ends_with("ended with signal: 9 (SIGKILL)"));
    }

    /// A guard ignores the signals of its own faults, and its commands once survived theirs.
    #[test]
    #[allow(unsafe_code)]
    fn a_fault_ends_it_whatever_is_ignored_here() {
        // SAFETY: no handler is installed. Nothing in this process has such a fault.
        unsafe { libc::signal(libc::SIGFPE, libc::SIG_IGN) };
        let error = error("kill -FPE $$");
        unsafe { libc::signal(libc::SIGFPE, libc::SIG_DFL) };
        assert!(error.ends_with("ended with signal: 8 (SIGFPE)"), "{error}");
    }

    #[test]
    fn it_runs_where_it_is_told() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().to_str().expect("text");
        assert_eq!(run("echo x > here", Some(path), false), Ok(()));
        assert!(folder.path().join("here").exists());
        let error = run("true", Some("/nowhere"), false).expect_err("no such directory").to_string();
        assert!(error.starts_with("`true` cannot be started in /nowhere: No such file"), "{error}");
    }

    /// A command that starts a daemon once held the trial until the daemon ended.
    #[test]
    fn what_stays_in_the_background_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let pid = folder.path().join("pid");
        let begun = std::time::Instant::now();
        let command = format!("sleep 60 & echo $! > '{}'", pid.display());
        assert_eq!(run(&command, None, true), Ok(()));
        let waited = begun.elapsed();
        let pid: i32 = std::fs::read_to_string(pid).expect("written").trim().parse().expect("a number");
        let pid = rustix::process::Pid::from_raw(pid).expect("a process");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it runs on");
        assert!(waited < std::time::Duration::from_secs(30), "{waited:?}");
    }

    #[test]
    fn a_command_that_must_not_be_interrupted_has_a_group_of_its_own() {
        let group = |interruptible| {
            let folder = tempfile::tempdir().expect("a temporary directory");
            let path = folder.path().join("stat");
            run(&format!("cat /proc/$$/stat > '{}'", path.display()), None, interruptible).expect("read");
            let stat = std::fs::read_to_string(path).expect("written");
            let field = |at: usize| stat.rsplit(')').next()?.split_whitespace().nth(at)?.parse::<i32>().ok();
            field(2).expect("a process group")
        };
        let ours = rustix::process::getpgrp().as_raw_nonzero().get();
        assert_eq!(group(true), ours);
        assert_ne!(group(false), ours);
    }
}
