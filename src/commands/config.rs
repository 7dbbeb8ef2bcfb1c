//! The configuration file: defaults for options, by command.

use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{ArgAction, Command};
use rustix::process::geteuid;
use toml::{Table, Value};

use super::files;
use crate::error::{CommandError, Result};
use rxlab_change::persist::{Walked, walk};

/// Names another file; empty = none.
pub(super) const VARIABLE: &str = "RXLAB_CONFIG";

/// Read if it exists and [`VARIABLE`] is not set.
const FILE: &str = "/etc/rxlab/config.toml";

/// The command tree with the defaults of the configuration file.
pub(super) fn with_defaults(command: Command) -> Result<Command> {
    let path = match std::env::var_os(VARIABLE) {
        Some(named) if named.is_empty() => return Ok(command),
        Some(named) => PathBuf::from(named),
        None if !PathBuf::from(FILE).exists() => return Ok(command),
        None => PathBuf::from(FILE),
    };
    check_owner(&path)?;
    let text = files::read("configuration", &path)?;
    let wrong = |why: String| {
        CommandError::usage(format!("{}: {why}", path.display()))
            .hint(format!("`{VARIABLE}= rxlab ...` ignores the file"))
    };
    let table: Table = text.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
    let mut defaults = Vec::new();
    collect(&table, &mut Vec::new(), &mut defaults).map_err(wrong)?;
    defaults.iter().try_fold(command, |command, default| default.set(command)).map_err(wrong)
}

/// Refuses options for root from a file that other users can change.
fn check_owner(path: &Path) -> Result {
    let walked = std::path::absolute(path).and_then(|path| walk(Path::new("/"), &path));
    match walked {
        Ok(Walked::Exposed(exposed)) if geteuid().is_root() => {
            let error = CommandError::usage(format!(
                "root would take options from {}, but {exposed}",
                path.display()
            ));
            Err(error.hint_all(exposed.remedy()))
        }
        // A file that is missing or unreadable is an error of its own.
        _ => Ok(()),
    }
}

struct Default {
    /// The command: empty for options of every command, two names for a command of a command.
    path: Vec<String>,
    /// Long name of the option, without hyphens.
    option: String,
    /// Its values as on a command line.
    values: Vec<String>,
}

/// Adds the defaults of `table`, which belongs to the command at `path`.
fn collect(table: &Table, path: &mut Vec<String>, defaults: &mut Vec<Default>) -> Result<(), String> {
    for (key, value) in table {
        let values = match value {
            Value::Table(below) => {
                path.push(key.clone());
                collect(below, path, defaults)?;
                path.pop();
                continue;
            }
            Value::Array(values) => values.iter().map(text).collect(),
            value => text(value).map(|value| vec![value]),
        };
        let values = values.ok_or_else(|| format!("`{key}` must be a string, a number, true or false"))?;
        defaults.push(Default { path: path.clone(), option: key.clone(), values });
    }
    Ok(())
}

/// A value as on a command line; `None` for dates, tables and arrays.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => Some(value.to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

impl Default {
    fn set(&self, root: Command) -> Result<Command, String> {
        let command = self.command(&root)?;
        let arg = command.get_arguments().find(|arg| arg.get_long() == Some(self.option.as_str()));
        let arg = arg.ok_or_else(|| format!("{} has no option --{}", self.name(), self.option))?;
        let id = arg.get_id().clone();
        if matches!(arg.get_action(), ArgAction::SetTrue) {
            let is_flag = matches!(self.values.as_slice(), [value] if value == "true" || value == "false");
            is_flag.then_some(()).ok_or_else(|| format!("`{}` must be true or false", self.option))?;
        } else {
            self.check(&root)?;
        }
        let values = self.values.clone();
        Ok(change(root, &self.path, |command| command.mut_arg(id, |arg| arg.default_values(values))))
    }

    fn name(&self) -> String {
        if self.path.is_empty() { "rxlab".to_owned() } else { format!("`{}`", self.path.join(" ")) }
    }

    fn command<'a>(&self, root: &'a Command) -> Result<&'a Command, String> {
        self.path.iter().try_fold(root, |command, name| {
            command
                .find_subcommand(name)
                .ok_or_else(|| format!("there is no command `{}`", self.path.join(" ")))
        })
    }

    /// Returns an error if the option does not take the values. Other errors of such a command line, such as a missing
    /// argument, do not matter here.
    fn check(&self, root: &Command) -> Result<(), String> {
        let words = std::iter::once("rxlab".to_owned()).chain(self.path.iter().cloned());
        let options = self.values.iter().map(|value| format!("--{}={value}", self.option));
        match root.clone().try_get_matches_from(words.chain(options)) {
            Err(error) if matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) => {
                let text = error.to_string();
                let first = text.lines().next().unwrap_or_default();
                Err(first.strip_prefix("error: ").unwrap_or(first).to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// Changes the command at `path` below `root`.
fn change(root: Command, path: &[String], act: impl FnOnce(Command) -> Command) -> Command {
    match path.split_first() {
        None => act(root),
        Some((name, rest)) => root.mut_subcommand(name, |below| change(below, rest, act)),
    }
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::{Default, collect};
    use crate::commands::{Cli, Command as Chosen, tree};

    fn tree_with(text: &str) -> Result<clap::Command, String> {
        let mut defaults: Vec<Default> = Vec::new();
        collect(&text.parse().expect("TOML"), &mut Vec::new(), &mut defaults)?;
        defaults.iter().try_fold(tree::command(), |command, default| default.set(command))
    }

    fn parsed(text: &str, line: &str) -> Cli {
        let matches = tree_with(text).expect("valid").try_get_matches_from(line.split(' ')).expect("parsed");
        Cli::from_arg_matches(&matches).expect("a command line")
    }

    #[test]
    fn defaults_apply_and_the_command_line_takes_precedence() {
        let text = "state-dir = '/srv/rxlab'\njson = true\n[doctor]\nfor = '9s'\nverbose = true\n[trial.run]\npairs = 60";
        let cli = parsed(text, "rxlab doctor");
        assert!(cli.global.json);
        assert_eq!(cli.global.state_dir, std::path::Path::new("/srv/rxlab"));
        let Some(Chosen::Doctor(args)) = cli.command else { panic!("doctor") };
        assert!(
            format!("{args:?}").contains(
                "length: 9s, nic: None, interface: None, plan_out: None, html: None, verbose: true"
            ),
            "{args:?}"
        );
        let cli = parsed(text, "rxlab --state-dir /x doctor --for 2s --watch");
        assert_eq!(cli.global.state_dir, std::path::Path::new("/x"));
        assert!(format!("{:?}", cli.command).contains("length: 2s"), "a default conflicts with nothing");
        assert!(format!("{:?}", parsed(text, "rxlab trial run").command).contains("pairs: Some(60)"));
    }

    #[test]
    fn mistakes_are_named() {
        let wrong = |text: &str| tree_with(text).expect_err("wrong");
        assert_eq!(wrong("[doctr]\nfor = '1s'"), "there is no command `doctr`");
        assert_eq!(wrong("[doctor]\nfro = '1s'"), "`doctor` has no option --fro");
        assert_eq!(wrong("colour = true"), "rxlab has no option --colour");
        assert_eq!(wrong("[doctor]\nverbose = 'very'"), "`verbose` must be true or false");
        assert_eq!(wrong("[doctor]\nfor = 1979-05-27"), "`for` must be a string, a number, true or false");
        let found = wrong("[doctor]\nfor = 'soon'");
        assert!(found.starts_with("invalid value 'soon' for '--for <TIME>'"), "{found}");
    }
}
