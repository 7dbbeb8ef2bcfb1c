//! `rxlab help`: the help of commands, and topics.

use std::io::Write;

use clap::Command;

use super::tree::TOPICS;
use super::{output, tree};
use crate::error::{CommandError, Result};

/// Print the help of a command, or of a topic
///
/// Topics: settings, environment, exit-codes. `rxlab explain TERM` explains terms and findings.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// One line for each command, the global options, and the exit codes
    #[arg(long, conflicts_with = "topic")]
    all: bool,
    /// A command, such as doctor or trial run, or a topic
    #[arg(value_name = "TOPIC")]
    topic: Vec<String>,
}

pub(super) fn run(args: &Args) -> Result {
    let topic: Vec<&str> = args.topic.iter().map(String::as_str).collect();
    let text = match topic.as_slice() {
        [] if args.all => tree::in_full().render_help().ansi().to_string(),
        [] => tree::command().render_help().ansi().to_string(),
        path => topic_text(path).map_or_else(|| of_command(path), Ok)?,
    };
    let mut out = output::text_stdout();
    writeln!(out, "{}", text.trim_end())?;
    Ok(out.flush()?)
}

/// The text of a topic that is not a command.
fn topic_text(path: &[&str]) -> Option<String> {
    let [wanted] = path else { return None };
    TOPICS.iter().find(|(name, _)| name == wanted).map(|(_, text)| text())
}

/// The long help of the command at `path`.
fn of_command(path: &[&str]) -> Result<String> {
    let mut root = tree::command();
    root.build();
    let mut command = &root;
    for name in path {
        command = command.find_subcommand(name).ok_or_else(|| unknown(command, name))?;
    }
    Ok(command.clone().render_long_help().ansi().to_string())
}

fn unknown(above: &Command, name: &str) -> CommandError {
    let names = above.get_subcommands().filter(|below| !below.is_hide_set()).map(Command::get_name);
    let near: Vec<&str> = names
        .chain(TOPICS.map(|(name, _)| name))
        .filter(|known| strsim::osa_distance(name, known) <= 2)
        .collect();
    CommandError::usage(format!("no command or topic `{name}`"))
        .hint_all((!near.is_empty()).then(|| format!("nearest: {}", near.join(", "))))
        .hint("`rxlab help` lists the commands; `rxlab explain` explains terms and findings")
}

pub(super) fn version() -> Result {
    let mut out = output::text_stdout();
    write!(out, "{}", tree::command().render_version())?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::of_command;
    use rxlab_faces::report::text::plain;

    #[test]
    fn commands_have_help_and_mistakes_a_suggestion() {
        assert!(plain(&of_command(&["trial", "run"]).expect("help")).contains("Usage: rxlab trial run"));
        let error = of_command(&["docter"]).expect_err("mistyped");
        assert_eq!(
            (error.message.as_str(), error.hints[0].as_str()),
            ("no command or topic `docter`", "nearest: doctor")
        );
        assert_eq!(of_command(&["exit-code"]).expect_err("mistyped").hints[0], "nearest: exit-codes");
        assert!(of_command(&["rps"]).expect_err("a term").hints[0].contains("rxlab explain"));
    }
}
