//! `rxlab completions`: scripts by which a shell asks this program what can follow on a command line.

mod candidates;

use clap::Command;
use clap_complete::env::{CompleteEnv, Shells};
use clap_complete::{ArgValueCandidates, Shell};
use serde_json::json;

use super::{Global, output, tree};
use crate::error::{CommandError, Result};

/// Print the completion script of a shell
///
/// Source it from the shell's start-up file, or write it where the shell looks for completions. It completes commands,
/// options, interfaces, network namespaces, findings, trials, transactions and formats.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// The script calls the program with this variable set to the shell's name.
const VARIABLE: &str = "RXLAB_COMPLETE";

pub(super) fn run(global: &Global, args: &Args) -> Result {
    let script = script(args.shell)?;
    let value = json!({ "schema": "rxlab.completions/1", "shell": args.shell.to_string(), "script": script });
    output::print(global, &value, || script)
}

fn script(shell: Shell) -> Result<String> {
    let name = shell.to_string();
    let shells = Shells::builtins();
    let completer =
        shells.completer(&name).ok_or_else(|| CommandError::usage(format!("no completions for {name}")))?;
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "rxlab", "rxlab", "rxlab", &mut script)?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// Answers the shell, if it asks. True if it did: the program has nothing else to do.
pub(super) fn answered() -> bool {
    let directory = std::env::current_dir().ok();
    let asked = CompleteEnv::with_factory(command).var(VARIABLE);
    // A shell that cannot be answered gets nothing, as from a program without completions.
    asked.try_complete(std::env::args_os(), directory.as_deref()).unwrap_or(true)
}

/// The command tree with what can follow each option and argument.
fn command() -> Command {
    with_candidates(tree::command())
}

fn with_candidates(command: Command) -> Command {
    let name = command.get_name().to_owned();
    let command = command.mut_args(|arg| {
        let value = arg.get_value_names().and_then(|names| names.first()).map(|name| name.to_string());
        match value.as_deref().and_then(|value| candidates::of(&name, value)) {
            Some(candidates) => arg.add(ArgValueCandidates::new(candidates)),
            None => arg,
        }
    });
    command.mut_subcommands(with_candidates)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap_complete::Shell;
    use clap_complete::engine::complete;

    use super::{command, script};

    fn offered(line: &str) -> Vec<String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let last = words.len() - 1;
        let found = complete(&mut command(), words, last, None).expect("completed");
        found
            .iter()
            .filter(|one| !one.is_hide_set())
            .map(|one| one.get_value().to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn each_value_has_its_candidates() {
        for (typed, expected) in [
            ("rxlab doc", "doctor"),
            ("rxlab trial r", "run"),
            ("rxlab doctor --f", "--for"),
            ("rxlab explain one-c", "one-core-hotspot"),
            ("rxlab export --to sys", "systemd-link"),
            ("rxlab plan num", "numa-local"),
            ("rxlab help exit", "exit-codes"),
            ("rxlab help doc", "doctor"),
        ] {
            assert!(offered(typed).iter().any(|value| value == expected), "{typed}: {:?}", offered(typed));
        }
        assert!(offered("rxlab show --nic ").contains(&"lo".to_owned()), "every machine has it");
        assert!(offered("rxlab show l").contains(&"lo".to_owned()));
    }

    #[test]
    fn what_is_hidden_is_not_offered() {
        for typed in ["rxlab --", "rxlab status --", "rxlab "] {
            let offered = offered(typed);
            assert!(!offered.is_empty());
            for hidden in ["--run-dir", "guard", "version"] {
                assert!(!offered.iter().any(|value| value == hidden), "{typed}: {offered:?}");
            }
        }
    }

    #[test]
    fn each_script_asks_the_program() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            assert!(script(shell).expect("a script").contains("RXLAB_COMPLETE"), "{shell}");
        }
    }
}
