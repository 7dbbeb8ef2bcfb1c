//! The last step before a terminal: text with no control sequences except the program's own styles, in characters that
//! look like no others.
//!
//! Interfaces, processes, plans, journals and servers choose names and values freely. Renderers pass them through
//! [`clean`](super::clean) before they lay them out; all output passes this filter, which escapes what is left. It cannot
//! tell a backslash of the program from that of a name, so only `clean` keeps all names apart.

use std::borrow::Cow;
use std::fmt::Write;

use rxlab_base::grammar::terminal;

/// Parameters of the styles in use: plain, bold, dim, underlined, red, green, yellow, cyan. A name that contains one of
/// these sequences can style the rest of its line, and nothing else.
const STYLES: [&str; 8] = ["0", "1", "2", "4", "31", "32", "33", "36"];

/// Escape sequence that ends a style.
const PLAIN: &str = "\u{1b}[0m";

/// `text` with every character that is not plain, except line breaks and tabs, in its escaped form. The program's own
/// styles are kept up to the end of their line if `styles` is true, else removed.
pub fn for_screen(text: &str, styles: bool) -> Cow<'_, str> {
    let Some(first) = text.find(is_odd) else { return text.into() };
    let mut out = String::with_capacity(text.len());
    let (plain, mut rest) = text.split_at(first);
    out.push_str(plain);
    let mut is_styled = false;
    while let Some(at) = rest.find(|c| is_odd(c) || (is_styled && c == '\n')) {
        let (plain, from) = rest.split_at(at);
        out.push_str(plain);
        let mut chars = from.chars();
        match (chars.next(), style(from)) {
            (_, Some(sequence)) => {
                if styles {
                    out.push_str(sequence);
                    is_styled = sequence != PLAIN;
                }
                rest = &from[sequence.len()..];
                continue;
            }
            (Some('\n'), None) => {
                out.push_str(PLAIN);
                out.push('\n');
                is_styled = false;
            }
            (Some(c), None) => terminal::push(c, &mut out),
            (None, None) => {}
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    out.into()
}

/// JSON `text` in ASCII, with the rest as escapes: the same values.
pub fn for_json(text: &str) -> Cow<'_, str> {
    let is_odd = |c: char| !matches!(c, ' '..='~' | '\n' | '\t');
    if !text.contains(is_odd) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_odd(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out.into()
}

/// True for what a terminal is not shown as it is.
pub fn is_odd(c: char) -> bool {
    !terminal::is_plain(c) && c != '\n' && c != '\t'
}

/// The style at the beginning of `text`.
fn style(text: &str) -> Option<&str> {
    let body = text.strip_prefix("\u{1b}[")?;
    let parameter =
        STYLES.iter().find(|style| body.strip_prefix(*style).is_some_and(|end| end.starts_with('m')))?;
    text.get(.."\u{1b}[".len() + parameter.len() + "m".len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{for_json, for_screen, is_odd};
    use crate::report::text::{BAD, CAUTION, FAINT, GOOD, NOTE, STRONG, styled};

    #[test]
    fn only_the_programs_own_styles_pass() {
        for style in [STRONG, FAINT, GOOD, BAD, CAUTION, NOTE] {
            let text = styled(style, "eth0");
            assert_eq!(for_screen(&text, true), text);
            assert_eq!(for_screen(&text, false), "eth0");
        }
        assert_eq!(for_screen("a\u{1b}]0;x\u{7}b", true), "a\\u{1b}]0;x\\u{7}b");
        assert_eq!(for_screen("\u{1b}[8m\u{1b}[2J\u{1b}[1", true), "\\u{1b}[8m\\u{1b}[2J\\u{1b}[1");
        assert_eq!(for_screen("a\rb\u{7f}\u{9b}2J\n\tc", false), "a\\u{d}b\\u{7f}\\u{9b}2J\n\tc");
    }

    /// Regression: a name could dim all text after it.
    #[test]
    fn no_style_goes_on_in_the_next_line() {
        let name = "e\u{1b}[2m\nnext\n";
        assert_eq!(for_screen(name, true), "e\u{1b}[2m\u{1b}[0m\nnext\n");
        assert_eq!(for_screen(name, false), "e\nnext\n");
    }

    #[test]
    fn json_keeps_its_values() {
        let value = serde_json::json!({ "name": "a\u{1b}\u{7f}\u{9b}2J\u{e9}" });
        let text = serde_json::to_string_pretty(&value).expect("JSON");
        let shown = for_json(&text);
        assert!(shown.is_ascii() && !shown.contains(is_odd), "{shown:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).expect("JSON"), value);
    }

    proptest! {
        #[test]
        fn no_control_character_is_left(text in "([\u{0}-\u{9f}m\\[0-9]|\u{1b}\\[[0-9]{0,2}m?){0,40}") {
            prop_assert!(!for_screen(&text, false).contains(is_odd));
            prop_assert!(!for_json(&text).contains(is_odd));
            let styled = for_screen(&text, true);
            let other = styled.chars().find(|c| *c != '\u{1b}' && is_odd(*c));
            prop_assert_eq!(other, None);
            prop_assert_eq!(for_screen(&styled, true), styled.clone());
        }

        #[test]
        fn values_of_json_stay(text in any::<String>()) {
            let json = serde_json::to_string(&text).expect("JSON");
            prop_assert_eq!(serde_json::from_str::<String>(&for_json(&json)).expect("JSON"), text);
        }
    }
}
