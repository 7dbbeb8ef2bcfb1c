//! Text of configuration files that may set values of the network: sysctl.d, files of sections and keys (systemd,
//! NetworkManager, TuneD), and scripts. A line in an unknown form is left out.

/// A key that a line sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Number of the line, from 1.
    pub line: usize,
    /// Name of the section; empty before the first one.
    pub section: &'a str,
    pub key: &'a str,
    pub value: &'a str,
}

/// Keys of a file of sections (`[Link]`) and `key = value`, also without sections as in sysctl.d.
pub fn configuration_entries(text: &str) -> Vec<Entry<'_>> {
    let (mut found, mut section) = (Vec::new(), "");
    for (line, text) in configuration_lines(text) {
        if let Some(name) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.trim();
        } else if let Some((key, value)) = text.split_once('=') {
            // In sysctl.d, `-` before a key ignores errors.
            let key = key.trim().trim_start_matches('-');
            found.push(Entry { line, section, key, value: value.trim() });
        }
    }
    found
}

/// Lines with their numbers from 1, without empty ones and comments.
pub fn configuration_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_comment = |text: &str| text.is_empty() || text.starts_with(['#', ';']);
    (1..).zip(text.lines().map(str::trim)).filter(move |(_, text)| !is_comment(text))
}

/// True if a line has this word: no letter, digit, `_` or `-` is next to it.
pub fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// True if a name matches a pattern of the shell with `*` and `?`.
pub fn matches_glob(pattern: &str, name: &str) -> bool {
    let (mut pattern_rest, mut rest) = (pattern.chars(), name.chars());
    match (pattern_rest.next(), rest.next()) {
        (None, None) => true,
        (Some('*'), None) => matches_glob(pattern_rest.as_str(), name),
        (Some('*'), Some(_)) => {
            matches_glob(pattern_rest.as_str(), name) || matches_glob(pattern, rest.as_str())
        }
        (Some(wanted), Some(found)) => {
            (wanted == '?' || wanted == found) && matches_glob(pattern_rest.as_str(), rest.as_str())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

    use super::{Entry, configuration_entries, configuration_lines, has_word, matches_glob};

    #[test]
    fn keys_with_section_and_line() {
        let text = "# a comment\n-net.core.netdev_budget = 600\n\n[Link]\n;x=1\nRxBufferSize=max\n[ethtool]\nno key\n";
        let of = |line, section, key, value| Entry { line, section, key, value };
        let expected = [of(2, "", "net.core.netdev_budget", "600"), of(6, "Link", "RxBufferSize", "max")];
        assert_eq!(configuration_entries(text), expected);
        assert_eq!(configuration_lines("\n# a\n  b\n").collect::<Vec<_>>(), [(3, "b")]);
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("echo f > /sys/class/net/eth0/queues/rx-0/rps_cpus", "rps_cpus"));
        assert!(has_word("ethtool -G eth0 rx 512", "-G"));
        assert!(!has_word("echo > my_rps_cpus", "rps_cpus") && !has_word("x rx-usecs-irq 1", "rx-usecs"));
    }

    #[test]
    fn patterns_of_the_shell() {
        for (pattern, name, is_match) in [
            ("eth*", "eth0", true),
            ("*", "", true),
            ("e?h0", "eth0", true),
            ("en*", "eth0", false),
            ("eth0", "eth01", false),
        ] {
            assert_eq!(matches_glob(pattern, name), is_match, "{pattern} {name}");
        }
    }

    proptest! {
        #[test]
        fn what_is_found_is_there(text in "[\\PC\n]{0,80}", word in "\\PC{1,4}") {
            let lines: Vec<&str> = text.lines().collect();
            for entry in configuration_entries(&text) {
                let line = lines[entry.line - 1];
                prop_assert!(line.contains(entry.key) && line.contains(entry.value), "{line}");
            }
            for (number, line) in configuration_lines(&text) {
                prop_assert_eq!(lines[number - 1].trim(), line);
            }
            prop_assert!(!has_word(&text, &word) || text.contains(&word));
            let alone = format!("{text} {word} {text}");
            prop_assert!(has_word(&alone, &word));
        }

        #[test]
        fn every_name_matches_itself(name in "[a-z0-9.-]{0,15}", at in any::<prop::sample::Index>()) {
            prop_assert!(matches_glob(&name, &name));
            let (head, _) = name.split_at(at.index(name.len() + 1));
            let pattern = format!("{head}*");
            prop_assert!(matches_glob(&pattern, &name));
        }
    }
}
