//! The error type of the commands: what went wrong, what to do about it, and the exit code.
//!
//! The crates have their own typed errors; this one is for users and scripts.

use std::fmt;

pub use rxlab_base::error::Kind;
use rxlab_base::grammar::terminal::shown;

/// Result of a command, and of what only commands call.
pub type Result<T = (), E = CommandError> = std::result::Result<T, E>;

/// One line that says what failed and where, hints that say what to do, and a kind that selects the exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandError {
    /// Selects the exit code.
    pub kind: Kind,
    /// The failure and its place, without a final full stop. Empty if everything was already printed.
    pub message: String,
    /// Advice, one line each.
    pub hints: Vec<String>,
}

impl CommandError {
    /// An error of `kind` with `message`.
    pub fn new(kind: Kind, message: impl fmt::Display) -> Self {
        Self { kind, message: message.to_string(), hints: Vec::new() }
    }

    /// Wrong input: exit code 2.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// The work could not be done: exit code 5.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::new(Kind::Failed, message)
    }

    /// Exit code of `kind` without a message: the output already has it.
    pub fn silent(kind: Kind) -> Self {
        Self::new(kind, "")
    }

    /// Result of a command that acted and then printed the outcome. The exit code is that of the action, even if
    /// printing failed; both errors are reported.
    pub fn after_output(done: Result, printed: Result) -> Result {
        let (mut done, printed) = match (done, printed) {
            (Err(done), Err(printed)) => (done, printed),
            (done, printed) => return done.and(printed),
        };
        if done.message.is_empty() {
            done.message = printed.message;
        } else {
            done.hints.push(printed.message);
        }
        done.hints.extend(printed.hints);
        Err(done)
    }

    pub fn hint_all(self, hints: impl IntoIterator<Item = impl fmt::Display>) -> Self {
        hints.into_iter().fold(self, Self::hint)
    }

    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hints.push(hint.to_string());
        self
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A value with a line break must not look like a hint.
        f.write_str(&shown(&self.message))?;
        self.hints.iter().try_for_each(|hint| write!(f, "\n  hint: {}", shown(hint)))
    }
}

impl std::error::Error for CommandError {}

/// Output errors. A closed pipe is not one: `commands::output` drops the rest.
impl From<std::io::Error> for CommandError {
    fn from(error: std::io::Error) -> Self {
        Self::failed(format!("cannot write the output: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{CommandError, Kind};

    #[test]
    fn a_line_break_in_a_value_does_not_start_a_hint() {
        let error = CommandError::usage("bad value `a\n  hint: b`").hint("c\nd");
        assert_eq!(error.to_string(), "bad value `a\\u{a}  hint: b`\n  hint: c\\u{a}d");
    }

    #[test]
    fn the_exit_code_is_that_of_the_action() {
        let drifted = || Err(CommandError::silent(Kind::Changed));
        let stuck = || Err(CommandError::failed("not every value could be restored").hint("again"));
        let full = || Err(CommandError::failed("cannot write the output: disk full"));
        assert_eq!(CommandError::after_output(Ok(()), Ok(())), Ok(()));
        assert_eq!(CommandError::after_output(drifted(), Ok(())), drifted());
        assert_eq!(CommandError::after_output(Ok(()), full()), full());
        let both = CommandError::after_output(drifted(), full()).expect_err("two errors");
        assert_eq!(
            (both.kind, both.to_string()),
            (Kind::Changed, "cannot write the output: disk full".to_owned())
        );
        let both = CommandError::after_output(stuck(), full()).expect_err("two errors");
        assert_eq!(both.message, "not every value could be restored");
        assert_eq!(both.hints, ["again", "cannot write the output: disk full"]);
    }
}
