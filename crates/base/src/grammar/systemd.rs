//! Unit files of systemd (systemd.syntax(7), systemd.service(5) "Command lines", systemd.unit(5) "Specifiers"):
//! a line break ends a setting, and a backslash before it continues it; words may be quoted, and a backslash in quotes is
//! for the next character, in command lines also for the escapes of C; `%` begins a specifier; in a command line, but
//! for the program, `$` begins a variable.

use std::fmt::Write;

/// The program of `ExecStart=`. systemd runs none with control characters, quotes or backslashes in its name.
pub fn program(text: &str) -> String {
    quoted(text)
}

/// One argument of `ExecStart=`.
pub fn argument(text: &str) -> String {
    quoted(text).replace('$', "$$")
}

/// One word of a setting that takes paths, such as `RequiresMountsFor=`. `None` if that cannot say `text`: such a setting
/// has no escapes of C.
pub fn path(text: &str) -> Option<String> {
    (!text.contains(char::is_control)).then(|| quoted(text))
}

fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@,+=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '%' => out += "%%",
            c if c.is_ascii_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out + "\""
}

/// The whole of a setting that takes the rest of its line, such as `Description=` or `ConditionPathExists=`. `None` if that
/// cannot say `text`: such a setting has no quotes.
pub fn value(text: &str) -> Option<String> {
    let is_sayable =
        text.trim() == text && !text.is_empty() && !text.ends_with('\\') && !text.contains(char::is_control);
    is_sayable.then(|| text.replace('%', "%%"))
}

#[cfg(test)]
mod tests {
    use super::{argument, path, program, value};

    #[test]
    fn words_are_quoted_and_lines_are_refused() {
        assert_eq!(program("/usr/bin/rxlab"), "/usr/bin/rxlab");
        assert_eq!(program("/srv/100% $x\\\n"), "\"/srv/100%% $x\\\\\\x0a\"");
        assert_eq!(path("/srv/$x \\").as_deref(), Some("\"/srv/$x \\\\\""));
        assert_eq!(path("/srv/a\tb"), None);
        assert_eq!(argument("$x"), "\"$$x\"");
        assert_eq!(value("a 100%").as_deref(), Some("a 100%%"));
        for text in ["", " a", "a ", "a\\", "a\nb", "a\u{85}b"] {
            assert_eq!(value(text), None, "{text:?}");
        }
    }
}
