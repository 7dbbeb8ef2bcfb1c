//! Terminals, and readers: what a line of output may contain.
//!
//! Terminals act on C0 and C1 control characters (ECMA-48). Readers cannot tell text apart that is reordered (Unicode
//! Bidirectional Algorithm, UAX #9), invisible, or in letters of other scripts that look the same (Unicode Technical
//! Standard #39). So only printable ASCII and the letters of Latin-1 are shown as they are, which all look different; any
//! other character is shown as `\u{202e}`.

use std::borrow::Cow;
use std::fmt::Write;

/// True for a character that is shown as it is.
pub fn is_plain(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{ff}')
}

/// `text` in one line of plain characters. Backslashes before `u{` are doubled, so different texts stay different.
pub fn shown(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_plain) && !text.contains("\\u{") {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c == '\\' {
            let after = rest.trim_start_matches('\\');
            let run = &rest[..rest.len() - after.len()];
            out.push_str(run);
            if after.starts_with("u{") || after.starts_with(|c| !is_plain(c)) {
                out.push_str(run);
            }
            rest = after;
            continue;
        }
        push(c, &mut out);
        rest = &rest[c.len_utf8()..];
    }
    out.into()
}

/// Adds `c`, or its escaped form.
pub fn push(c: char, out: &mut String) {
    if is_plain(c) {
        out.push(c);
    } else {
        let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::super::HOSTILE;
    use super::{is_plain, shown};

    /// What was shown, if it was shown by this rule.
    fn read(shown: &str) -> String {
        let mut out = String::new();
        let mut rest = shown;
        while let Some(c) = rest.chars().next() {
            let after = rest.trim_start_matches('\\');
            let run = rest.len() - after.len();
            if run == 0 {
                out.push(c);
                rest = &rest[c.len_utf8()..];
                continue;
            }
            // An odd run before `u{` ends with the backslash of a form, and the rest was doubled.
            let Some(form) = after.strip_prefix("u{") else {
                out += &"\\".repeat(run);
                rest = after;
                continue;
            };
            out += &"\\".repeat(run / 2);
            rest = if run % 2 == 1 {
                let (digits, after) = form.split_once('}').expect("a form");
                out.push(u32::from_str_radix(digits, 16).ok().and_then(char::from_u32).expect("a character"));
                after
            } else {
                out += "u{";
                form
            };
        }
        out
    }

    #[test]
    fn what_looks_like_something_else_is_escaped() {
        assert_eq!(shown("eth0 Gr\u{f6}\u{df}e"), "eth0 Gr\u{f6}\u{df}e");
        assert_eq!(shown("\u{435}th0"), "\\u{435}th0");
        assert_eq!(shown("a\nb\t\u{1b}[1m"), "a\\u{a}b\\u{9}\\u{1b}[1m");
        assert_eq!(shown("a\\b\\"), "a\\b\\");
        assert_eq!(shown("\\u{41}"), "\\\\u{41}");
        assert_eq!(shown("\\\u{202e}"), "\\\\\\u{202e}");
        let all: BTreeSet<_> = HOSTILE.iter().map(|text| shown(text)).collect();
        assert_eq!(all.len(), HOSTILE.len(), "no two look the same");
    }

    proptest! {
        #[test]
        fn different_texts_look_different(text in "(\\\\|u\\{|41\\}|[a-z]|\u{435}|\u{202e}|\u{1b}|\n){0,12}", any in any::<String>()) {
            for text in [text, any] {
                let shown = shown(&text);
                prop_assert!(shown.chars().all(is_plain));
                prop_assert_eq!(read(&shown), text);
            }
        }
    }
}
