//! Profiles of TuneD: Python's configparser with `=` only and comments after ` #`, then TuneD's own variables `${...}`
//! (tuned/profiles/loader.py and variables.py of TuneD 2.20). A value has no quoting, so what it cannot say is replaced.

/// A value that is text for people, in one line.
pub fn value(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || " _-.,/=".contains(c);
    text.chars().map(|c| if plain(c) { c } else { '-' }).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn no_value_is_a_function_or_a_comment() {
        assert_eq!(value("a ${f:exec:reboot} # b\n[c]"), "a --f-exec-reboot- - b--c-");
    }
}
