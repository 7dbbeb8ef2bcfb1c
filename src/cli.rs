//! The command line tree. Each command's arguments are defined with the command.

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

use crate::commands;
use crate::plan::export::shell;

/// Find the CPU that is drowning in network receive work, try a fix on the live machine, keep it only if
/// it is proven to help.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 80, after_help = EXIT_CODES)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, clap::Args)]
pub struct Global {
    /// Print JSON instead of text
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub json: bool,
    /// Read the machine below DIR instead of this one
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "DIR", default_value = "/", hide_default_value = true)]
    pub root: PathBuf,
    /// Use the interfaces of another network namespace: a name of `ip netns`, a process id, or a file
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "NS")]
    pub netns: Option<String>,
    /// Directory of the journal and the trial records
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL,
        value_name = "DIR",
        env = "RXLAB_STATE_DIR",
        default_value = STATE_DIR
    )]
    pub state_dir: PathBuf,
    /// Directory of this machine's lock, empty after a boot
    #[arg(
        long,
        global = true,
        hide = true,
        value_name = "DIR",
        env = "RXLAB_RUN_DIR",
        default_value = "/run/rxlab"
    )]
    pub run_dir: PathBuf,
}

impl Global {
    /// `rxlab` with the given options that select a machine or a journal: the start of the next command line.
    pub fn program(&self) -> String {
        let mut words = vec!["rxlab".to_owned()];
        if self.root != Path::new("/") {
            words.extend(["--root".to_owned(), shell(&self.root.to_string_lossy())]);
        }
        if let Some(netns) = &self.netns {
            words.extend(["--netns".to_owned(), shell(netns)]);
        }
        // The environment variable applies to the next command too.
        let is_named = std::env::var_os("RXLAB_STATE_DIR").is_some();
        if !is_named && self.state_dir != Path::new(STATE_DIR) {
            words.extend(["--state-dir".to_owned(), shell(&self.state_dir.to_string_lossy())]);
        }
        words.join(" ")
    }
}

/// Default directory of the journal and the trial records.
const STATE_DIR: &str = "/var/lib/rxlab";

/// Help section of the global options.
const GLOBAL: &str = "Global options";

const EXIT_CODES: &str = "Exit codes:
  0    success: done, or nothing to do
  1    the doctor has findings, a trial proved that its change hurts, or a guard tripped
  2    the command line, a file or a value is wrong
  3    a permission or a kernel feature is missing
  4    the machine is not what the command assumes (drift, NIC gone, other host)
  5    the work could not be done (target down before or at the end, disk full)
  130  interrupted, after putting everything back";

/// The commands. Help comes from the arguments of each.
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
pub enum Command {
    Show(commands::show::Args),
    Doctor(commands::doctor::Args),
    Explain(commands::explain::Args),
    Interference(commands::interference::Args),
    Trace(commands::trace::Args),
    Snapshot(commands::snapshot::Args),
    Plan(commands::plan::Args),
    Apply(commands::apply::Args),
    Confirm(commands::confirm::Args),
    Undo(commands::undo::Args),
    Status(commands::status::Args),
    History(commands::history::Args),
    Reapply(commands::reapply::Args),
    Persist(commands::persist::Args),
    Unpersist(commands::unpersist::Args),
    Restore(commands::restore::Args),
    Export(commands::export::Args),
    Trial(commands::trial::Args),
    Demo(commands::demo::Args),
    Target(commands::target::Args),
    Load(Box<commands::load::Args>),
    Merge(commands::merge::Args),
    #[command(hide = true)]
    Guard(commands::guard::Args),
}
