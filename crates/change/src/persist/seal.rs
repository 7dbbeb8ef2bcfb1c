//! The first line of every installed file: its owner, and the checksum of the rest. A file with a
//! wrong checksum was edited, and belongs to its editor.

const MARK: &str = "# rxlab persist ";
const ADVICE: &str = ": `rxlab unpersist` removes this file unless it was edited";
/// Advice in the files of checkpoints.
pub(super) const CHECKPOINT: &str =
    ": `rxlab trial checkpoint ID --cancel` removes this file unless it was edited";

/// Advice in the unit of the recorder.
pub(super) const RECORD: &str = ": `rxlab record remove` removes this file unless it was edited";

/// `text` after its first line.
pub(super) fn sealed(text: &str) -> String {
    sealed_with(text, ADVICE)
}

/// The same with other advice.
pub(super) fn sealed_with(text: &str, advice: &str) -> String {
    format!("{MARK}{:08x}{advice}\n{text}", crc32fast::hash(text.as_bytes()))
}

/// True if these are the unedited bytes of a file from [`sealed`].
pub(super) fn is_ours(bytes: &[u8]) -> bool {
    let ours = || {
        let (first, text) = std::str::from_utf8(bytes).ok()?.split_once('\n')?;
        let rest = first.strip_prefix(MARK)?;
        let sum = [ADVICE, CHECKPOINT, RECORD].iter().find_map(|advice| rest.strip_suffix(advice))?;
        Some(sum == format!("{:08x}", crc32fast::hash(text.as_bytes())))
    };
    ours().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, proptest};

    use super::{is_ours, sealed};

    #[test]
    fn any_edit_breaks_the_seal() {
        let bytes = sealed("a = 1\nb = 2\n").into_bytes();
        assert!(is_ours(&bytes));
        for at in 0..bytes.len() {
            let mut edited = bytes.clone();
            edited[at] ^= 1;
            assert!(!is_ours(&edited), "byte {at}");
            assert!(!is_ours(&bytes[..at]), "cut at {at}");
        }
        assert!(!is_ours(&[&bytes[..], b"\n"].concat()));
    }

    proptest! {
        #[test]
        fn what_is_sealed_is_ours_and_other_bytes_are_not(text in "(?s).{0,60}", bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            prop_assert!(is_ours(sealed(&text).as_bytes()));
            prop_assert!(!is_ours(&bytes));
        }
    }
}
