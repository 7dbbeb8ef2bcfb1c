//! `/proc/cmdline`: the arguments of the kernel.

/// Returns true when `argument` is one of the words. Quotes keep blanks together and are not part of a word,
/// as in the kernel's own `next_arg`.
pub fn has_kernel_argument(text: &str, argument: &str) -> bool {
    words(text).any(|word| word == argument)
}

/// Returns the value of the last `NAME=VALUE`, the one that counts.
pub fn kernel_argument(text: &str, name: &str) -> Option<String> {
    words(text).filter_map(|word| Some(word.strip_prefix(name)?.strip_prefix('=')?.to_owned())).last()
}

/// The words of a command line, without quotes.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut is_quoted = false;
    let ends_word = move |c: char| {
        is_quoted ^= c == '"';
        c.is_ascii_whitespace() && !is_quoted
    };
    text.split(ends_word).map(|word| word.replace('"', ""))
}

#[cfg(test)]
mod tests {
    use super::{has_kernel_argument, kernel_argument};

    #[test]
    fn the_last_value_counts() {
        let text = "irqaffinity=0-3 quiet xirqaffinity=9 irqaffinity=\"0,2\"\n";
        assert_eq!(kernel_argument(text, "irqaffinity").as_deref(), Some("0,2"));
        assert_eq!(kernel_argument(text, "quiet"), None);
    }

    #[test]
    fn a_word_is_found_whole() {
        for text in [
            "rxlab=off\n",
            "BOOT_IMAGE=/vmlinuz root=/dev/vda1 rxlab=off quiet\n",
            "quiet \"rxlab=off\"",
            "quiet rxlab=\"off\"\n",
            "dyndbg=\"file a.c +p\" rxlab=off",
        ] {
            assert!(has_kernel_argument(text, "rxlab=off"), "{text}");
        }
        for text in
            ["", "\n", "rxlab", "rxlab=off1", "norxlab=off", "rxlab=on", "x=\"a rxlab=off b\"", "rxlab= off"]
        {
            assert!(!has_kernel_argument(text, "rxlab=off"), "{text}");
        }
    }
}
