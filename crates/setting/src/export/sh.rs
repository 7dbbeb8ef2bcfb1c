//! A POSIX shell script: sets each value that differs, reads it back, continues after a failure and then
//! exits with 1.

use super::expression::{Expression, mask};
use super::{Draft, ExportFile, Said};
use rxlab_base::grammar::sh::word;
use rxlab_base::grammar::terminal::shown;

/// Functions called by the lines of [`lines`].
pub(super) const PRELUDE: &str = include_str!("prelude.sh");

pub(super) fn files(draft: &mut Draft<'_>) -> Vec<ExportFile> {
    let said = script(draft);
    if said.is_empty() {
        return Vec::new();
    }
    let head = draft.head("sets the values of the plan and reads them back");
    let text = format!("#!/bin/sh\n{head}#\nset -eu\n\n{PRELUDE}\n{}exit $failed\n", lines(&said));
    vec![ExportFile { name: "rxlab.sh".to_owned(), text, executable: true }]
}

/// Picks what a script supports and leaves out the rest.
pub(super) fn script<'a>(draft: &mut Draft<'a>) -> Vec<Said<'a>> {
    let picked = draft.pick(|said| match &said.expression {
        Expression::Banned { .. } => {
            Err("a script cannot configure irqbalance; try the format irqbalance-policy".to_owned())
        }
        // It takes no `--` in front of the name.
        Expression::Ethtool { nic, .. } if nic.as_str().starts_with('-') => {
            Err("ethtool would read the name of the interface as an option".to_owned())
        }
        _ => Ok(()),
    });
    picked.into_iter().map(|(said, ())| said).collect()
}

/// A line with the name of each setting and one or more that make it.
pub(super) fn lines(said: &[Said<'_>]) -> String {
    said.iter().map(line).collect()
}

fn line(said: &Said<'_>) -> String {
    let mut text = format!("setting={}\n", word(&shown(&said.setting.to_string())));
    let mut call = |words: &[&str]| {
        text += &words.iter().map(|text| word(text)).collect::<Vec<_>>().join(" ");
        text += "\n";
    };
    match &said.expression {
        Expression::Sysctl { key, value } => {
            let path = format!("/proc/sys/{}", key.replace('.', "/"));
            call(&["file", &path, &value.written, &value.shown]);
        }
        Expression::File { path, value } => call(&["file", path, &value.written, &value.shown]),
        Expression::Ethtool { nic, group, values } => {
            let mut words = vec!["option", nic.as_str(), group.set, group.show];
            values.iter().for_each(|(word, value)| words.extend([word.word, word.label, value.as_str()]));
            call(&words);
        }
        Expression::Irqs { nic, irqs, .. } => {
            for (action, cpus) in irqs {
                let mask = mask(cpus);
                call(&["irq", nic.as_str(), action, &mask.written, &mask.shown]);
            }
        }
        // Left out by `script`.
        Expression::Banned { .. } => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::sketch::{exported, text};

    #[test]
    fn each_setting_is_a_line() {
        let text = text(
            Format::Sh,
            &[
                "rfs_entries host = 3000",
                "rps eth0/rx-0 = 1",
                "irq_affinity eth0/rx-0 = 1",
                "rx_usecs eth0 = 50",
                "channels eth0 = rx 2 tx 2",
                "ntuple_rule eth0/rule-1 = x",
            ],
        );
        let (head, _) = text.split_once("set -eu").expect("a shell script");
        assert!(
            head.contains("# Left out:\n#   ntuple_rule eth0/rule-1 = x: a flow rule is not a single value")
        );
        let (_, lines) = text.split_once("(is its link up?)\"\n}\n\n").expect("the prelude");
        insta::assert_snapshot!(lines);
    }

    /// An interface may have any name that has no slash, colon or white space, and a plan any value.
    #[test]
    fn no_name_is_run() {
        let text = text(Format::Sh, &["rps $(reboot)/rx-0 = 1", "clocksource host = a\nreboot"]);
        assert!(text.contains("file '/sys/class/net/$(reboot)/queues/rx-0/rps_cpus' 2 2\n"), "{text}");
        assert!(!text.lines().any(|line| line.trim_start().starts_with("reboot")), "{text}");
    }

    /// ethtool would take it for an option.
    #[test]
    fn no_name_is_an_option() {
        let export = exported(Format::Sh, &["rx_usecs -C = 50", "rps -C/rx-0 = 1"]);
        let lines: Vec<&str> = export.files[0].text.lines().filter(|line| line.contains("-C")).collect();
        assert!(lines.iter().all(|line| !line.starts_with("option ")), "{lines:?}");
        assert_eq!(export.left_out.len(), 1);
    }

    #[test]
    fn nothing_is_no_file() {
        let export = exported(Format::Sh, &["affinity pid:1 = 2"]);
        assert!(export.files.is_empty() && export.left_out.len() == 1);
    }
}
