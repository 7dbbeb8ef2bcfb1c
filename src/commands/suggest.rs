//! What a mistyped subcommand may have meant, where clap has no suggestion of its own.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Edits between a word and what it may have meant, at most.
const EDITS: usize = 2;

/// Adds the subcommands that differ least from the mistyped one, of the command that the arguments lead to.
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
        .filter(|name| edits(typed, name) <= EDITS.min(typed.len() / 2 + 1))
        .map(str::to_owned)
        .collect();
    if !near.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(near));
    }
}

/// Characters to insert, delete, replace or exchange with their neighbour to make `to` of `from`.
fn edits(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=to.len()).collect()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::{edits, suggest};
    use crate::cli::Cli;

    fn said(words: &[&str]) -> String {
        let arguments = || std::iter::once("rxlab").chain(words.iter().copied()).map(str::to_owned);
        let mut error = Cli::try_parse_from(arguments()).expect_err("mistyped");
        suggest(&mut error, &Cli::command(), arguments());
        error.render().to_string()
    }

    #[test]
    fn words_differ_by_edits() {
        assert_eq!((edits("rnu", "run"), edits("show", "show"), edits("", "run")), (1, 0, 3));
        assert_eq!((edits("resum", "resume"), edits("lost", "list"), edits("xyz", "run")), (1, 1, 3));
    }

    #[test]
    fn a_mistyped_subcommand_of_a_subcommand_gets_a_suggestion() {
        assert!(said(&["trial", "rnu"]).contains("similar subcommand exists: 'run'"));
        assert!(said(&["--json", "trial", "rnu"]).contains("similar subcommand exists: 'run'"));
        assert!(said(&["trial", "lst"]).contains("'list'"), "clap's own");
        assert!(!said(&["trial", "xyzzy"]).contains("similar"));
    }
}
