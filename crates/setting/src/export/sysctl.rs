//! A file of /etc/sysctl.d.

use super::expression::Expression;
use super::{Draft, ExportFile, Said};

pub(super) fn files(draft: &mut Draft<'_>) -> Vec<ExportFile> {
    let keys = draft.pick(|said| {
        key(said).ok_or_else(|| "not a sysctl; try the formats sh, tuned or ansible".to_owned())
    });
    if keys.is_empty() {
        return Vec::new();
    }
    let lines: String = keys.iter().map(|(_, line)| line.as_str()).collect();
    let text = format!("{}\n{lines}", draft.head("sysctls, for /etc/sysctl.d"));
    vec![ExportFile { name: "90-rxlab.conf".to_owned(), text, executable: false }]
}

/// `KEY = VALUE` of a setting that is a sysctl, with the value as the kernel shows it: readers compare.
pub(super) fn key(said: &Said<'_>) -> Option<String> {
    let Expression::Sysctl { key, value } = &said.expression else { return None };
    Some(format!("{key} = {}\n", value.shown))
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::sketch::{exported, text};

    #[test]
    fn sysctls_are_lines_and_the_rest_is_named() {
        let settings = ["busy_poll host = 50", "rps eth0/rx-0 = 1", "rfs_entries host = off"];
        insta::assert_snapshot!(text(Format::Sysctl, &settings));
        assert_eq!(exported(Format::Sysctl, &settings).left_out.len(), 1);
        assert!(exported(Format::Sysctl, &["rps eth0/rx-0 = 1"]).files.is_empty());
    }
}
