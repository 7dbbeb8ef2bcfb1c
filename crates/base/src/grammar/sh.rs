//! POSIX shell (IEEE 1003.1, Shell Command Language, 2.2.2): between single quotes every character is itself; a single
//! quote ends them.

/// One word. NUL, which no argument can contain, is the caller's to exclude.
pub fn word(text: &str) -> String {
    // A tilde or an equals sign can be special in front, and no character is safe in an empty word.
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./:@,+%".contains(c)) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // Runs the shell.
mod tests {
    use std::process::Command;

    use proptest::prelude::{prop_assert_eq, proptest};

    use super::super::HOSTILE;
    use super::word;

    #[test]
    fn only_what_means_itself_is_left_bare() {
        assert_eq!(word("eth0"), "eth0");
        assert_eq!(word("a b"), "'a b'");
        assert_eq!(word("$(reboot)'s"), r"'$(reboot)'\''s'");
        assert_eq!(word(""), "''");
    }

    /// The words as the shell passes them to a command.
    fn read(texts: &[&str]) -> Vec<String> {
        let words: Vec<String> = texts.iter().map(|text| word(text)).collect();
        let script = format!("printf '%s\\0' {}", words.join(" "));
        let out = Command::new("sh").args(["-c", &script]).output().expect("sh runs");
        assert!(out.status.success(), "{out:?}");
        let out = String::from_utf8(out.stdout).expect("text");
        out.split_terminator('\0').map(str::to_owned).collect()
    }

    #[test]
    fn the_shell_reads_hostile_words() {
        assert_eq!(read(HOSTILE), HOSTILE);
    }

    proptest! {
        #[test]
        fn the_shell_reads_any_words(text in "[^\0]{0,12}", odd in "[ -/:-@\\[-`{-~\n\t\r~=]{0,12}") {
            prop_assert_eq!(read(&[&text, &odd]), [text, odd]);
        }
    }
}
