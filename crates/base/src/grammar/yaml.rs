//! YAML 1.1, which Ansible reads (yaml.org/spec/1.1, 5.7 and 7.1): U+0085, U+2028 and U+2029 end a line, also in a block;
//! in double quotes a character can be `\x..`, `\u....` or `\U........`.

/// A double-quoted scalar in ASCII: no character of `text` can end the line or the scalar.
pub fn scalar(text: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::scalar;

    #[test]
    fn a_scalar_is_one_line_of_ascii() {
        assert_eq!(scalar("a\"\\\n\u{2028}\u{1f600}"), "\"a\\\"\\\\\\n\\u2028\\U0001f600\"");
    }
}
