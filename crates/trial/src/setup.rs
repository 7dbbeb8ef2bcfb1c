//! One of two setups to compare, as written on the command line.

use std::str::FromStr;

use thiserror::Error;

use super::spec::Change;
use rxlab_setting::{Setting, SettingError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setup {
    /// Settings, separated by `;`; none of them for `as-is`.
    Settings(Vec<Setting>),
    /// `cmd: COMMAND`: a shell command that switches to it and exits.
    Command(String),
}

/// Prefix of a setup that is a command.
const COMMAND: &str = "cmd:";
const AS_IS: &str = "as-is";

/// Text that is not a setup, or two setups that do not form a pair.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SetupError {
    #[error(
        "expected `as-is`, settings such as `rps eth0/rx-0 = 2-7; rfs eth0/rx-0 = 4096`, or `cmd: COMMAND`"
    )]
    Empty,
    /// One of the settings is invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Neither changes the machine.
    #[error("neither setup changes anything")]
    Same,
    #[error("a command on one side needs one on the other, to switch back")]
    Mixed,
}

impl FromStr for Setup {
    type Err = SetupError;

    fn from_str(text: &str) -> Result<Self, SetupError> {
        let text = text.trim();
        if text == AS_IS {
            return Ok(Self::Settings(Vec::new()));
        }
        if let Some(command) = text.strip_prefix(COMMAND).map(str::trim) {
            return if command.is_empty() {
                Err(SetupError::Empty)
            } else {
                Ok(Self::Command(command.into()))
            };
        }
        let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
        let settings = parts.map(str::parse).collect::<Result<Vec<Setting>, _>>()?;
        if settings.is_empty() { Err(SetupError::Empty) } else { Ok(Self::Settings(settings)) }
    }
}

/// The change between `a` and `b`.
pub fn change(a: &Setup, b: &Setup) -> Result<Change, SetupError> {
    match (a, b) {
        (Setup::Command(a), Setup::Command(b)) => {
            Ok(Change { a: Some(a.clone()), b: Some(b.clone()), ..Change::default() })
        }
        (Setup::Settings(a), Setup::Settings(b)) if a.is_empty() && b.is_empty() => Err(SetupError::Same),
        (Setup::Settings(a), Setup::Settings(b)) => {
            Ok(Change { against: a.clone(), set: b.clone(), ..Change::default() })
        }
        _ => Err(SetupError::Mixed),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::{Setup, SetupError, change};

    fn setup(text: &str) -> Setup {
        text.parse().expect("a setup")
    }

    #[test]
    fn the_three_forms() {
        let Setup::Settings(settings) = setup(" rps eth0/rx-0 = 0; rfs eth0/rx-0 = 64; ") else {
            panic!("settings")
        };
        assert_eq!(settings[1].to_string(), "rfs eth0/rx-0 = 64");
        assert_eq!(setup("cmd: tc qdisc add; true"), Setup::Command("tc qdisc add; true".into()));
        assert_eq!(setup("as-is"), Setup::Settings(Vec::new()));
        for empty in ["", " ; ", "cmd: "] {
            assert_eq!(empty.parse::<Setup>(), Err(SetupError::Empty), "{empty:?}");
        }
        assert!(matches!("rps".parse::<Setup>(), Err(SetupError::Setting(_))));
    }

    #[test]
    fn two_setups_are_of_one_kind() {
        let (as_is, rps, command) = (setup("as-is"), setup("rps a/rx-0 = 0"), setup("cmd: true"));
        let flipped = change(&rps, &as_is).expect("a change");
        assert_eq!((flipped.against.len(), flipped.set.len()), (1, 0));
        assert_eq!(change(&command, &command).expect("a change").a.as_deref(), Some("true"));
        assert_eq!(change(&as_is, &as_is), Err(SetupError::Same));
        assert_eq!(change(&command, &as_is), Err(SetupError::Mixed));
        assert_eq!(change(&rps, &command), Err(SetupError::Mixed));
    }

    proptest! {
        #[test]
        fn settings_come_back(cpus in proptest::collection::vec(0..99_u32, 1..4)) {
            let texts: Vec<String> = cpus.iter().map(|cpu| format!("rps eth{cpu}/rx-0 = {cpu}")).collect();
            let Setup::Settings(settings) = setup(&texts.join(" ; ")) else { panic!("settings") };
            prop_assert_eq!(settings.iter().map(ToString::to_string).collect::<Vec<_>>(), texts);
        }

        #[test]
        fn a_setup_comes_back(text in "(cmd:|as-is|;| |rps a/rx-0 = 1|rps|=|\\PC){0,12}") {
            let Ok(setup) = text.parse::<Setup>() else { return Ok(()) };
            let written = match &setup {
                Setup::Command(command) => format!("cmd: {command}"),
                Setup::Settings(settings) if settings.is_empty() => "as-is".to_owned(),
                Setup::Settings(settings) => settings.iter().map(|setting| format!("; {setting}")).collect(),
            };
            prop_assert_eq!(written.parse(), Ok(setup));
        }
    }
}
