//! The command line tree, and only that: each command's arguments live with the command.

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

use crate::commands;
use crate::plan::export::shell;

/// Find the CPU that is drowning in network receive work, try a fix on the live machine, keep it only if
/// it is proven to help.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 80, after_help = EXIT_CODES)]
pub struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
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
    /// Where the journal and the trial records are kept
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL,
        value_name = "DIR",
        env = "RXLAB_STATE_DIR",
        default_value = STATE_DIR
    )]
    pub state_dir: PathBuf,
    /// Where the lock of this machine is, empty after a boot
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
    /// `rxlab` with those of the options that it was called with which say where: the beginning of a next command.
    pub fn program(&self) -> String {
        let mut words = vec!["rxlab".to_owned()];
        if self.root != Path::new("/") {
            words.extend(["--root".to_owned(), shell(&self.root.to_string_lossy())]);
        }
        if let Some(netns) = &self.netns {
            words.extend(["--netns".to_owned(), shell(netns)]);
        }
        // The environment names it for the next command too.
        let is_named = std::env::var_os("RXLAB_STATE_DIR").is_some();
        if !is_named && self.state_dir != Path::new(STATE_DIR) {
            words.extend(["--state-dir".to_owned(), shell(&self.state_dir.to_string_lossy())]);
        }
        words.join(" ")
    }
}

/// Where the journal and the trial records are unless said otherwise.
const STATE_DIR: &str = "/var/lib/rxlab";

/// Where help lists what every command takes.
const GLOBAL: &str = "Global options";

const EXIT_CODES: &str = "Exit codes:
  0    fine: nothing to do, or done
  1    findings were made, a trial proved that its change hurts, or a guard of it tripped
  2    the command line, a file or a value is wrong
  3    a permission or a kernel feature is missing
  4    the machine is not what the command assumes (drift, NIC gone, other host)
  5    it could not be done (target down before or at the end, disk full)
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
