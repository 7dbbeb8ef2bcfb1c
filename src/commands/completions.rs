//! `rxlab completions`: scripts that complete commands and options in a shell.

use clap_complete::{Shell, generate};
use serde_json::json;

use super::{Global, output, tree};
use crate::error::Result;

/// Print the completion script of a shell
///
/// Source it from the shell's start-up file, or write it where the shell looks for completions.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(super) fn run(global: &Global, args: &Args) -> Result {
    let script = script(args.shell);
    let value = json!({ "schema": "rxlab.completions/1", "shell": args.shell.to_string(), "script": script });
    output::print(global, &value, || script)
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    generate(shell, &mut tree::command(), "rxlab", &mut script);
    String::from_utf8(script).expect("made of names in ASCII")
}

#[cfg(test)]
mod tests {
    use clap_complete::Shell;

    use super::script;

    #[test]
    fn scripts_complete_commands_and_options() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            assert!(script.contains("interference") && script.contains("keep-clean"), "{shell}");
        }
    }
}
