//! The command line: its tree, and one file per command with its arguments and `run`. The logic is in other modules.

mod answer;
pub mod apply;
pub mod client;
pub mod completions;
mod config;
pub mod confirm;
pub mod demo;
pub mod doctor;
mod elsewhere;
pub mod explain;
pub mod export;
pub mod exporter;
mod files;
pub mod flow;
pub mod guard;
pub mod help;
pub mod history;
pub mod interference;
mod leftovers;
mod listen;
pub mod load;
mod look;
mod lost_time;
mod machine;
pub mod man;
pub mod mcp;
pub mod merge;
mod output;
mod overview;
pub mod persist;
mod place;
pub mod plan;
mod progress;
pub mod reapply;
pub mod record;
pub mod report;
pub mod restore;
pub mod serve;
pub mod show;
pub mod snapshot;
pub mod status;
mod suggest;
pub mod target;
pub mod top;
pub mod trace;
mod tree;
pub mod trial;
pub mod tune;
mod typed;
pub mod undo;
pub mod unpersist;
mod when;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{FromArgMatches, Parser, Subcommand};
use signal_hook::consts::{SIGXCPU, SIGXFSZ};

use crate::error::{CommandError, Kind, Result};
use rxlab_base::grammar::sh;
use rxlab_sys::{allow_files, await_children, use_capabilities_of_file};

/// Find the CPU that is overloaded with network receive work, try a fix on the live machine, keep it only if
/// it is proven to help.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 80, disable_help_subcommand = true)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// The command; without one, an overview.
    #[command(subcommand)]
    pub command: Option<Command>,
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
    /// Use the interfaces of another network namespace: a name of `ip netns`, a PID, or a file
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "NS", value_parser = typed::netns)]
    pub netns: Option<String>,
    /// Directory of the journal and the trial records
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL,
        value_name = "DIR",
        env = "RXLAB_STATE_DIR",
        hide_env_values = true,
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
            words.extend(["--root".to_owned(), sh::word(&self.root.to_string_lossy())]);
        }
        if let Some(netns) = &self.netns {
            words.extend(["--netns".to_owned(), sh::word(netns)]);
        }
        // The environment variable applies to the next command too.
        let is_named = std::env::var_os("RXLAB_STATE_DIR").is_some();
        if !is_named && self.state_dir != Path::new(STATE_DIR) {
            words.extend(["--state-dir".to_owned(), sh::word(&self.state_dir.to_string_lossy())]);
        }
        words.join(" ")
    }
}

/// Default directory of the journal and the trial records.
const STATE_DIR: &str = "/var/lib/rxlab";

/// Help section of the global options.
const GLOBAL: &str = "Global options";

/// The commands. Help comes from the arguments of each.
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
pub enum Command {
    Show(show::Args),
    Flow(flow::Args),
    Doctor(doctor::Args),
    Top(top::Args),
    Serve(serve::Args),
    Explain(explain::Args),
    Interference(interference::Args),
    Trace(trace::Args),
    Snapshot(snapshot::Args),
    Record(record::Args),
    Tune(Box<tune::Args>),
    Plan(plan::Args),
    Apply(apply::Args),
    Confirm(confirm::Args),
    Undo(undo::Args),
    Status(status::Args),
    History(history::Args),
    Reapply(reapply::Args),
    Persist(persist::Args),
    Unpersist(unpersist::Args),
    Restore(restore::Args),
    Export(export::Args),
    Exporter(exporter::Args),
    Trial(trial::Args),
    Report(report::Args),
    Demo(demo::Args),
    Target(target::Args),
    Load(Box<load::Args>),
    Merge(merge::Args),
    Mcp(mcp::Args),
    Client(client::Args),
    Help(help::Args),
    Completions(completions::Args),
    Man(man::Args),
    #[command(hide = true)]
    Guard(guard::Args),
    /// Print the version
    #[command(hide = true)]
    Version,
}

/// Parses the command line, runs the command, prints its error, if any, and returns the exit code.
pub fn main() -> ExitCode {
    if completions::answered() {
        return ExitCode::SUCCESS;
    }
    output::fit_terminal();
    survive_limits();
    use_capabilities_of_file();
    await_children();
    let mut command = match config::with_defaults(tree::command()) {
        Ok(command) => command,
        Err(error) => return failed(&error),
    };
    let parsed = command.try_get_matches_from_mut(std::env::args_os());
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(mut answer) => {
            let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
            suggest::suggest(&mut answer, &command, arguments);
            return answered(&answer);
        }
    };
    match cli.command {
        Some(chosen) => ended(check_files().and_then(|()| run(cli.global, chosen))),
        None => ended(overview::run(&cli.global)),
    }
}

/// Has a write beyond a limit fail instead of ending the program between two steps. Handlers, unlike ignored signals, are
/// not inherited by programs that it starts.
fn survive_limits() {
    for signal in [SIGXFSZ, SIGXCPU] {
        // Never fails for a signal that can be handled.
        let _ = signal_hook::flag::register(signal, Arc::default());
    }
}

/// Open files that every command needs, with a margin.
const FEWEST_FILES: u64 = 32;

/// Refuses to run with so few files that missing ones would be taken for things that are not there.
fn check_files() -> Result {
    match allow_files(FEWEST_FILES) {
        Err(most) if most < FEWEST_FILES => Err(CommandError::new(
            Kind::Denied,
            format!("this process may open {most} files, and rxlab needs {FEWEST_FILES}"),
        )
        .hint(format!("raise the limit: ulimit -n {FEWEST_FILES}"))),
        _ => Ok(()),
    }
}

fn ended(result: Result) -> ExitCode {
    result.map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS)
}

/// Prints an error, if it has a message, and returns its exit code.
fn failed(error: &CommandError) -> ExitCode {
    if !error.message.is_empty() {
        output::complain(error);
    }
    ExitCode::from(error.kind.exit_code())
}

/// Prints clap's answer instead of running a command: help, the version, or a parse error, which quotes the
/// command line.
fn answered(answer: &clap::Error) -> ExitCode {
    let text = answer.render();
    if answer.use_stderr() {
        output::complain_of_usage(&text.ansi().to_string());
        return ExitCode::from(Kind::Usage.exit_code());
    }
    let _ = write!(output::text_stdout(), "{}", text.ansi());
    ExitCode::SUCCESS
}

fn run(mut global: Global, command: Command) -> Result {
    // Another spelling of `/` is the same machine. A path that cannot be resolved is an error where it is opened.
    if let Ok(root) = global.root.canonicalize() {
        global.root = root;
    }
    // A guard keeps its journal if a link leads elsewhere later.
    if let Some(state) = place::without_links(&global.state_dir) {
        global.state_dir = state;
    }
    let global = &global;
    // The output of these goes to a log.
    let is_logged =
        matches!(command, Command::Guard(_) | Command::Restore(_) | Command::Exporter(_) | Command::Mcp(_));
    let notices = if is_logged { Vec::new() } else { leftovers::pass_on_notices(global) };
    match command {
        Command::Demo(args) => demo::run(global, &args),
        Command::Show(args) => show::run(global, &args),
        Command::Flow(args) => flow::run(global, &args),
        Command::Snapshot(args) => snapshot::run(global, &args),
        Command::Record(args) => record::run(global, &args),
        Command::Doctor(args) => doctor::run(global, &args),
        Command::Top(args) => top::run(global, &args),
        Command::Serve(args) => serve::run(global, &args),
        Command::Explain(args) => explain::run(global, &args),
        Command::Tune(args) => tune::run(global, &args),
        Command::Plan(args) => plan::run(global, &args),
        Command::Apply(args) => apply::run(global, args),
        Command::Confirm(args) => confirm::run(global, args),
        Command::Undo(args) => undo::run(global, args),
        Command::Reapply(args) => reapply::run(global, &args),
        Command::Status(args) => status::run(global, &args).and_then(|()| leftovers::verdict(&notices)),
        Command::History(args) => history::run(global, &args),
        Command::Persist(args) => persist::run(global, &args),
        Command::Unpersist(args) => unpersist::run(global, &args),
        Command::Restore(args) => restore::run(global, &args),
        Command::Export(args) => export::run(global, &args),
        Command::Exporter(args) => exporter::run(global, &args),
        Command::Interference(args) => interference::run(global, &args),
        Command::Trace(args) => trace::run(global, &args),
        Command::Trial(args) => trial::run(global, args),
        Command::Report(args) => report::run(global, &args),
        Command::Target(args) => target::run(global, &args),
        Command::Load(args) => load::run(global, &args),
        Command::Merge(args) => merge::run(global, &args),
        Command::Client(args) => client::run(global, &args),
        Command::Mcp(args) => mcp::run(global, &args),
        Command::Help(args) => help::run(&args),
        Command::Completions(args) => completions::run(global, &args),
        Command::Man(args) => man::run(global, &args),
        Command::Guard(args) => guard::run(global, args),
        Command::Version => help::version(),
    }
}
