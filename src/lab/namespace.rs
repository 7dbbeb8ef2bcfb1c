//! An unnamed network namespace, and `ip` run inside it.

#![allow(clippy::disallowed_methods)] // Opens a namespace file and starts `ip`.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use thiserror::Error;

use rxlab_sys::{OpenError, in_netns, new_netns};

/// The range could not be built.
#[derive(Debug, Error)]
pub enum LabError {
    /// Creating a namespace failed; it needs CAP_SYS_ADMIN.
    #[error("cannot create a network namespace: {0}")]
    Namespace(Errno),
    /// The new namespace cannot be entered.
    #[error(transparent)]
    Enter(#[from] OpenError),
    /// `ip` is not installed or cannot be started.
    #[error("cannot run `ip`: {0}")]
    Start(std::io::Error),
    #[error("`ip {command}` failed: {message}")]
    Ip {
        /// The arguments of `ip`.
        command: String,
        message: String,
    },
    /// No socket could be made in a namespace.
    #[error("cannot create a socket in the test network: {0}")]
    Socket(std::io::Error),
    /// One CPU cannot show a hotspot next to an idle CPU.
    #[error("the test network needs two CPUs, but this process may use only {0}")]
    Cpus(usize),
}

impl LabError {
    /// True if a privilege is missing.
    pub fn is_denied(&self) -> bool {
        matches!(self, LabError::Namespace(errno) if *errno == Errno::PERM || *errno == Errno::ACCESS)
    }
}

/// A network namespace that lives as long as this value, or at most as long as this process.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// Creates a namespace that holds only a loopback interface, which is down.
    pub fn new() -> Result<Self, LabError> {
        let made = std::thread::scope(|scope| {
            // A separate thread: only it moves into the new namespace, and it ends here.
            scope.spawn(new_netns).join().expect("the namespace thread does not panic")
        });
        made.map(|file| Self { file }).map_err(LabError::Namespace)
    }

    /// Path of the namespace for this process and its children.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()))
    }

    /// Runs `ip ARGUMENTS` inside. Arguments are split at white space, so none may contain any.
    pub fn ip(&self, arguments: &str) -> Result<(), LabError> {
        self.run(arguments, "")
    }

    /// Runs the commands of `lines` inside, with one `ip` process.
    pub fn ip_batch(&self, lines: &str) -> Result<(), LabError> {
        self.run("-batch -", lines)
    }

    fn run(&self, arguments: &str, input: &str) -> Result<(), LabError> {
        let run = || {
            let mut command = Command::new("ip");
            command.args(arguments.split_whitespace()).stdin(Stdio::piped());
            let mut child =
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(LabError::Start)?;
            if let Some(mut stdin) = child.stdin.take() {
                // If `ip` exits early, its own message says why.
                let _ = stdin.write_all(input.as_bytes());
            }
            child.wait_with_output().map_err(LabError::Start)
        };
        // A child starts in the namespace of the thread that starts it. `ip -n` would need a name below /run/netns.
        let output = in_netns(&self.path(), run)??;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(LabError::Ip { command: arguments.to_owned(), message })
    }
}
