//! Arbitrary words, for files in which some characters have a meaning.

/// Removes line ends and other control characters, for a comment or a name.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Quotes any text as one word of the shell.
pub fn shell(word: &str) -> String {
    if !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-./:@,+%".contains(c)) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// True for a name that needs no quoting in any format: no wildcard, no specifier. Kernels allow stranger
/// ones.
pub(super) fn is_plain_name(name: &str) -> bool {
    !name.starts_with('-') && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.@".contains(c))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::{is_plain_name, one_line, shell};

    #[test]
    fn only_what_means_itself_is_left_bare() {
        assert_eq!(shell("eth0"), "eth0");
        assert_eq!(shell("a b"), "'a b'");
        assert_eq!(shell("$(reboot)'s"), r"'$(reboot)'\''s'");
        assert_eq!(shell(""), "''");
        assert_eq!(one_line("a\nb\u{1b}"), "a b ");
        assert!(is_plain_name("enp3s0f1np1") && !is_plain_name("eth*") && !is_plain_name("-a"));
    }

    proptest! {
        /// The shell itself reads a quoted word as the word.
        #[test]
        #[allow(clippy::disallowed_methods)]
        fn the_shell_reads_the_word(word in "[^\0]{0,12}") {
            let script = format!("printf %s {}", shell(&word));
            let out = std::process::Command::new("sh").args(["-c", &script]).output().expect("sh runs");
            prop_assert_eq!(out.stdout, word.into_bytes());
        }
    }
}
