//! Arbitrary words, for files in which some characters have a meaning.

/// Removes line ends and other control characters, for a comment or a name. U+2028 and U+2029 end a line in YAML 1.1,
/// and text of the other direction can look like another line.
pub(super) fn one_line(text: &str) -> String {
    let is_odd = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.chars().map(|c| if is_odd(c) { ' ' } else { c }).collect()
}

/// Text as a double-quoted scalar of YAML 1.1, in ASCII: no character of it can end the line or the scalar.
pub(super) fn yaml(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out += "\\n",
            ' '..='~' => out.push(c),
            c if (c as u32) < 0x10000 => out += &format!("\\u{:04x}", c as u32),
            c => out += &format!("\\U{:08x}", c as u32),
        }
    }
    out + "\""
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

    use super::{is_plain_name, one_line, shell, yaml};

    #[test]
    fn only_what_means_itself_is_left_bare() {
        assert_eq!(shell("eth0"), "eth0");
        assert_eq!(shell("a b"), "'a b'");
        assert_eq!(shell("$(reboot)'s"), r"'$(reboot)'\''s'");
        assert_eq!(shell(""), "''");
        assert_eq!(one_line("a\nb\u{1b}"), "a b ");
        assert_eq!(one_line("a\u{2028}b\u{85}c\u{202e}d"), "a b c d");
        assert_eq!(yaml("a\"\\\n\u{2028}\u{1f600}"), "\"a\\\"\\\\\\n\\u2028\\U0001f600\"");
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
