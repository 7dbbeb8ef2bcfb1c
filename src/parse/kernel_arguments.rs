//! `/proc/cmdline`: the arguments of the kernel.

/// Returns true when `argument` is one of the words. Quotes keep blanks together and are not part of a word,
/// as in the kernel's own `next_arg`.
pub fn has_kernel_argument(text: &str, argument: &str) -> bool {
    let mut is_quoted = false;
    text.split(|c: char| {
        is_quoted ^= c == '"';
        c.is_ascii_whitespace() && !is_quoted
    })
    .any(|word| word.replace('"', "") == argument)
}

#[cfg(test)]
mod tests {
    use super::has_kernel_argument;

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
