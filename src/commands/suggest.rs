//! Suggestions for a mistyped subcommand if clap has none of its own.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Maximum edit distance of a suggestion.
const EDITS: usize = 2;

/// Adds the subcommands nearest to the mistyped one, from the command that the arguments lead to.
pub(super) fn suggest(error: &mut clap::Error, root: &Command, arguments: impl Iterator<Item = String>) {
    if error.kind() != ErrorKind::InvalidSubcommand || error.get(ContextKind::SuggestedSubcommand).is_some() {
        return;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else { return };
    let mut command = root;
    for argument in arguments.skip(1).take_while(|argument| argument != typed) {
        command = command.find_subcommand(&argument).unwrap_or(command);
    }
    let names = command.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name);
    let near: Vec<String> = names
        .filter(|name| strsim::osa_distance(typed, name) <= EDITS.min(typed.len() / 2 + 1))
        .map(str::to_owned)
        .collect();
    if !near.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(near));
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::suggest;
    use crate::commands::Cli;

    fn said(words: &[&str]) -> String {
        let arguments = || std::iter::once("rxlab").chain(words.iter().copied()).map(str::to_owned);
        let mut error = Cli::try_parse_from(arguments()).expect_err("mistyped");
        suggest(&mut error, &Cli::command(), arguments());
        error.render().to_string()
    }

    #[test]
    fn a_mistyped_subcommand_of_a_subcommand_gets_a_suggestion() {
        assert!(said(&["trial", "rnu"]).contains("similar subcommand exists: 'run'"));
        assert!(said(&["--json", "trial", "rnu"]).contains("similar subcommand exists: 'run'"));
        assert!(said(&["trial", "lst"]).contains("'list'"), "clap's own");
        assert!(!said(&["trial", "xyzzy"]).contains("similar"));
    }
}
