//! A playbook of builtin modules: sysctls go into /etc/sysctl.d for the next boot, and the script of the sh
//! format sets everything now. In check mode the script reports what it would change.

use super::sh::{self, PRELUDE};
use super::{Draft, ExportFile, Said, sysctl};
use rxlab_base::grammar::yaml;

pub(super) fn files(draft: &mut Draft<'_>) -> Vec<ExportFile> {
    let said = sh::script(draft);
    if said.is_empty() {
        return Vec::new();
    }
    let head = draft.head("playbook; --check says what would change");
    // Ansible expands templates in names, on the controller.
    let name = yaml::scalar(&format!("Receive path: {}", draft.name).replace(['{', '}'], "|"));
    let mut text =
        format!("{head}---\n- name: {name}\n  hosts: all\n  become: true\n  gather_facts: false\n  tasks:\n");
    let keys: String = said.iter().filter_map(sysctl::key).collect();
    if !keys.is_empty() {
        text += "    - name: Sysctls for the next boot\n      ansible.builtin.copy:\n        \
                 dest: /etc/sysctl.d/90-rxlab.conf\n        mode: \"0644\"\n        content: ";
        text += &scalar(&keys, 10);
    }
    text += "    - name: Current values\n      ansible.builtin.shell:\n        cmd: !unsafe ";
    text += &scalar(&script(&said), 10);
    text += "      environment:\n        RXLAB_CHECK: \"{{ '1' if ansible_check_mode else '' }}\"\n      \
             check_mode: false\n      register: rxlab\n      changed_when: rxlab.stdout | length > 0\n";
    vec![ExportFile { name: "rxlab.yml".to_owned(), text, executable: false }]
}

fn script(said: &[Said<'_>]) -> String {
    format!("set -eu\n{PRELUDE}\n{}exit $failed\n", sh::lines(said))
}

/// Text as a block, if all of it is plain; else quoted.
fn scalar(text: &str, by: usize) -> String {
    if text.chars().all(|c| matches!(c, '\n' | ' '..='~')) {
        format!("|\n{}", indented(text, by))
    } else {
        format!("{}\n", yaml::scalar(text))
    }
}

/// A block of YAML: empty lines stay empty.
fn indented(text: &str, by: usize) -> String {
    text.lines()
        .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("{:by$}{line}\n", "") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::sketch::text;

    /// YAML 1.1 ends a line at these characters.
    #[test]
    fn no_value_is_a_task() {
        for end in ["\u{2028}", "\u{2029}", "\u{85}"] {
            let value = format!("tsc{end}      ignore_errors: true{end}    - name: injected");
            let export = super::super::sketch::exported(
                Format::Ansible,
                &[&format!("clocksource host = {value}"), "rps eth0/rx-0 = 1"],
            );
            let text = &export.files[0].text;
            assert!(!text.contains(end), "{text}");
            assert!(!text.lines().any(|line| line.trim_start().starts_with("- name: injected")), "{text}");
        }
    }

    #[test]
    fn a_play_of_two_tasks() {
        let text = text(Format::Ansible, &["rfs_entries host = 32768", "rps eth0/rx-0 = 1-3"]);
        let (top, rest) = text.split_once("set -eu\n").expect("the script");
        let (_, bottom) = rest.split_once("          setting=").expect("the lines");
        insta::assert_snapshot!(format!("{top}[...]\n          setting={bottom}"));
    }
}
