//! udev rules (udev(7)): a value ends at its double quote, with `\"` inside; in a match `*`, `?`, `[` and `|` are patterns,
//! and `$` and `%` begin a substitution in an assignment.

/// A match value that means only `text`; `None` if a character of it has another meaning.
pub fn literal(text: &str) -> Option<&str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.:@".contains(c);
    (!text.is_empty() && text.chars().all(is_plain)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::literal;

    #[test]
    fn patterns_and_quotes_are_refused() {
        assert_eq!(literal("pci-0000:00:03.0"), Some("pci-0000:00:03.0"));
        for text in ["", "a*", "a?", "[a]", "a|b", "a\"", "a\\", "$name", "%k", "a b", "a\nb", "\u{435}"] {
            assert_eq!(literal(text), None, "{text:?}");
        }
    }
}
