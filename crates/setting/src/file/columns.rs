//! Fits the text of a plan file to a terminal: a long string continues in the next line, and stays the same
//! string.
//!
//! TOML has multi-line strings, in which a backslash at the end of a line removes the line break and the
//! blanks after it.

/// Columns of a line.
const WIDTH: usize = 80;
/// Indentation of the continuation lines of a string.
const INDENT: &str = "    ";
/// End of the last of them.
const END: &str = "\"\"\",";

/// The same document in lines of at most 80 columns, as far as its strings have blanks or commas to break at.
pub(super) fn fit(text: &str) -> String {
    // Multi-line strings occur if their text has line breaks: what looks like a key may be part of one.
    if text.contains("\"\"\"") || text.contains("'''") {
        return text.to_owned();
    }
    text.lines().map(|line| fitted(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

/// Splits a long line that is a key and a string, or a string of a list.
fn fitted(line: &str) -> Option<String> {
    if line.chars().count() <= WIDTH {
        return None;
    }
    // A list of one string is written in one line.
    if let Some((key, string)) = line.strip_suffix(']').and_then(|line| line.split_once(" = ["))
        && is_key(key)
    {
        let string = format!("{INDENT}{string},");
        return Some(format!("{key} = [\n{}\n]", fitted(&string).unwrap_or(string)));
    }
    let key = line.find(['"', '\''])?;
    let (head, string) = line.split_at(key);
    let has_key = head.strip_suffix(" = ").is_some_and(is_key);
    if !has_key && !head.trim().is_empty() {
        return None;
    }
    let (string, comma) = string.strip_suffix(',').map_or((string, ""), |string| (string, ","));
    let quote = string.chars().next()?;
    let body = string.strip_prefix(quote)?.strip_suffix(quote)?;
    let body = if quote == '\'' { body.replace('\\', "\\\\").replace('"', "\\\"") } else { body.to_owned() };
    // The last line ends in quotes and a comma.
    let lines = broken(&body, WIDTH - INDENT.len() - END.len());
    // Blanks at the beginning would be removed with the line break.
    (lines.len() > 1 && !body.starts_with([' ', '\t'])).then(|| {
        let joined = lines.join(&format!("\\\n{INDENT}"));
        format!("{head}\"\"\"\\\n{INDENT}{joined}\"\"\"{comma}")
    })
}

fn is_key(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

/// Parts of an escaped string. No part begins with a blank, which would be removed.
fn broken(body: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for piece in pieces(body) {
        let length = piece.chars().count();
        if used > 0 && used + length > width && !piece.starts_with([' ', '\t']) {
            lines.push(String::new());
            used = 0;
        }
        lines.last_mut().expect("begins with one line").push_str(piece);
        used += length;
    }
    lines
}

/// Cuts after each blank and comma.
fn pieces(body: &str) -> impl Iterator<Item = &str> {
    body.split_inclusive([' ', ','])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::fit;

    #[test]
    fn long_strings_go_on_in_the_next_line() {
        let why =
            "CPUs of the same memory domain without CPU 16, which takes the interrupt, nor its siblings";
        let list = (0..40).map(|cpu| (cpu * 2).to_string()).collect::<Vec<_>>().join(",");
        let text = format!(
            "name = \"x\"\nwhy = \"{why}\"\nset = \"rps eth0/rx-0 = {list}\"\nnotes = [\n    \"{why}\",\n]\n"
        );
        let fitted = fit(&text);
        assert!(fitted.lines().all(|line| line.chars().count() <= 80), "{fitted}");
        assert!(fitted.starts_with("name = \"x\"\nwhy = \"\"\"\\\n    CPUs of"), "{fitted}");
        let one = fit(&format!("notes = [\"{why}\"]\n"));
        assert!(
            one.starts_with("notes = [\n    \"\"\"\\\n    CPUs of") && one.ends_with("\"\"\",\n]\n"),
            "{one}"
        );
        let table = |text: &str| text.parse::<toml::Table>().expect("a document");
        assert_eq!(table(&fitted), table(&text));
    }

    /// The quotes at the end were once beyond the last column.
    #[test]
    fn the_end_fits_as_well() {
        for length in 60..240 {
            let text = "ab ".repeat(length / 3) + &"c".repeat(length % 3 + 1);
            let fitted = fit(&format!("notes = [\n    \"{text}\",\n]\n"));
            assert!(fitted.lines().all(|line| line.chars().count() <= 80), "{fitted}");
        }
    }

    proptest! {
        #[test]
        fn the_document_stays_the_same(
            why in "([a-z,]{0,9}[ ]{0,2}|[\"'\\\\\t\n\u{1}#=]|ü){0,60}",
            notes in proptest::collection::vec("([a-z,]{0,9}[ ]{0,2}|[\"'\\\\]){0,30}", 0..3),
        ) {
            let mut table = toml::Table::new();
            table.insert("why".to_owned(), why.into());
            table.insert("notes".to_owned(), notes.into());
            let text = toml::to_string_pretty(&table).expect("text and lists");
            prop_assert_eq!(fit(&text).parse::<toml::Table>(), Ok(table));
        }
    }
}
