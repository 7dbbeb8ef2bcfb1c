//! HTML (html.spec.whatwg.org, 13.1.2 and 13.2.5): in text and in double-quoted attributes only `&`, `<`, `>` and the quotes
//! have a meaning, and control characters are errors.
//!
//! A page is also read by people: what [`terminal`](super::terminal) escapes is escaped here too, but for the signs that
//! the pages themselves use.

use super::terminal;

/// Signs of the pages: typographic ones, and the marks of figures.
const SIGNS: &str = "\u{a0}\u{ab}\u{b1}\u{b7}\u{bb}\u{d7}\u{2013}\u{2026}\u{2192}\u{2212}\u{25b2}\u{25b3}\u{25c6}\u{25cb}\u{25cf}";

/// Adds `text` as content of an element or of a double-quoted attribute.
pub fn push_text(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if SIGNS.contains(c) => out.push(c),
            c => terminal::push(c, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::push_text;

    #[test]
    fn text_has_no_markup_and_no_direction() {
        let mut out = String::new();
        push_text("<b>&'\"\u{0}\u{202e}\u{435} \u{2212}1\n", &mut out);
        assert_eq!(out, "&lt;b&gt;&amp;&#39;&quot;\\u{0}\\u{202e}\\u{435} \u{2212}1\n");
    }
}
