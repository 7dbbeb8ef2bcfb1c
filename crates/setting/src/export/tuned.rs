//! A profile directory of TuneD: what its plugins support, and a script for the rest.

use std::collections::BTreeMap;

use super::expression::Expression;
use super::sh::{self, PRELUDE};
use super::{Draft, ExportFile, Said, nic_of, sysctl};
use rxlab_base::grammar::{is_plain_name, tuned};
use rxlab_base::units::NicName;
use rxlab_path::model::{Model, NicKind};

/// The net plugin's names for ethtool's options.
const OPTIONS: [(&str, &str); 4] =
    [("-G", "ring"), ("-L", "channels"), ("-C", "coalesce"), ("-K", "features")];

pub(super) fn files(draft: &mut Draft<'_>, model: &Model) -> Vec<ExportFile> {
    let said = sh::script(draft);
    if said.is_empty() {
        return Vec::new();
    }
    let mut text = draft.head("profile directory, for /etc/tuned");
    text += &format!("\n[main]\nsummary={}\n", tuned::value(&draft.name));
    let keys: String = said.iter().filter_map(sysctl::key).map(|line| line.replace(" = ", "=")).collect();
    if !keys.is_empty() {
        text += &format!("\n[sysctl]\n{keys}");
    }
    for (nic, options) in plugin(&said, model) {
        text += &format!("\n[net_{nic}]\ntype=net\ndevices={nic}\n");
        options.iter().for_each(|(name, values)| text += &format!("{name}={}\n", values.join(" ")));
    }
    let scripted: Vec<Said<'_>> = said
        .into_iter()
        .filter(|said| sysctl::key(said).is_none() && in_plugin(said, model).is_none())
        .collect();
    let mut files = Vec::new();
    if !scripted.is_empty() {
        text += "\n# After the sections above. What it sets stays when the profile is switched off.\n\
                 [script]\nscript=${i:PROFILE_DIR}/script.sh\n";
        files.push(ExportFile {
            name: "script.sh".to_owned(),
            text: script(draft, &scripted),
            executable: true,
        });
    }
    files.insert(0, ExportFile { name: "tuned.conf".to_owned(), text, executable: false });
    files
}

/// TuneD calls it with `start`, `verify` or `stop`.
fn script(draft: &Draft<'_>, said: &[Said<'_>]) -> String {
    let head = format!("# {}: the script of a TuneD profile, made by rxlab from a plan.\n", draft.name);
    format!(
        "#!/bin/sh\n{head}set -eu\n\n{PRELUDE}\n\
         case ${{1:-}} in\nstart) ;;\nverify) check=1 ;;\n*) exit 0 ;;\nesac\n\n{}\n\
         [ \"${{1:-}}\" != verify ] || [ $changed = 0 ] || failed=1\nexit $failed\n",
        sh::lines(said)
    )
}

/// The option of the net plugin for a setting. The plugin skips virtual interfaces.
fn in_plugin(said: &Said<'_>, model: &Model) -> Option<(NicName, &'static str, String)> {
    let Expression::Ethtool { nic, group, values } = &said.expression else { return None };
    let device = nic_of(said.setting, model)?.kind == NicKind::Device;
    let (_, name) = OPTIONS.iter().find(|(set, _)| *set == group.set)?;
    let words = values.iter().map(|(word, value)| format!("{} {value}", word.word)).collect::<Vec<_>>();
    (device && is_plain_name(nic.as_str())).then(|| (nic.clone(), *name, words.join(" ")))
}

/// The net plugin's options, by interface.
fn plugin(said: &[Said<'_>], model: &Model) -> BTreeMap<NicName, Vec<(&'static str, Vec<String>)>> {
    let mut nics: BTreeMap<NicName, Vec<(&str, Vec<String>)>> = BTreeMap::new();
    for (nic, name, value) in said.iter().filter_map(|said| in_plugin(said, model)) {
        let options = nics.entry(nic).or_default();
        match options.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value),
            None => options.push((name, vec![value])),
        }
    }
    nics
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::sketch::exported;

    #[test]
    fn plugins_come_first_and_the_script_has_the_rest() {
        let settings = [
            "rfs_entries host = 32768",
            "adaptive_rx eth0 = off",
            "rx_usecs eth0 = 50",
            "gro eth0 = off",
            "gro veth0 = off",
            "rps eth0/rx-0 = 1-3",
        ];
        let files = exported(Format::Tuned, &settings).files;
        let [conf, script] = &files[..] else { panic!("{files:?}") };
        insta::assert_snapshot!(conf.text);
        let calls: Vec<&str> = script.text.lines().filter(|line| line.starts_with("setting=")).collect();
        assert_eq!(calls, ["setting='gro veth0 = off'", "setting='rps eth0/rx-0 = 1-3'"]);
        assert!(script.executable && !conf.executable);
        let only = exported(Format::Tuned, &["rfs_entries host = 32768"]).files;
        assert!(only.len() == 1 && !only[0].text.contains("[script]"));
    }
}
