//! rxlab command lines for settings, ready to be copied into a shell.

use super::Setting;
use rxlab_base::grammar::sh;
use rxlab_base::units::NicName;

/// `--set 'rps eth0/rx-0 = 2-7'`, once for each setting.
pub fn set_flags<'a>(settings: impl IntoIterator<Item = &'a Setting>) -> String {
    let flag = |setting: &Setting| format!("--set {}", sh::word(&setting.to_string()));
    settings.into_iter().map(flag).collect::<Vec<_>>().join(" ")
}

/// The trial of `settings` on the live traffic of `nic`.
pub fn trial_of<'a>(program: &str, settings: impl IntoIterator<Item = &'a Setting>, nic: &NicName) -> String {
    format!("{program} trial run {} --live --nic {}", set_flags(settings), sh::word(nic.as_str()))
}

/// The same for a plan in a file.
pub fn trial_of_file(program: &str, path: &str, nic: &NicName) -> String {
    format!("{program} trial run --plan {} --live --nic {}", sh::word(path), sh::word(nic.as_str()))
}

/// The same for a plan for `nics` that is written to a file first, on the traffic of the first of them: for plans with
/// too many settings for one line.
pub fn trial_of_plan(program: &str, plan: &str, nics: &[NicName]) -> String {
    let flags: Vec<String> = nics.iter().map(|nic| format!("--nic {}", sh::word(nic.as_str()))).collect();
    let file = format!("{plan}.toml");
    let make = format!("{program} plan {} {} -o {}", sh::word(plan), flags.join(" "), sh::word(&file));
    format!("{make} && {}", trial_of_file(program, &file, &nics[0]))
}

#[cfg(test)]
mod tests {
    use super::{set_flags, trial_of, trial_of_plan};
    use crate::Setting;

    #[test]
    fn a_shell_takes_them_as_they_are() {
        let settings: Vec<Setting> = ["rps eth0/rx-0 = 2-7", "rfs_entries host = 8192"]
            .map(|text| text.parse().expect("a setting"))
            .into();
        assert_eq!(set_flags(&settings), "--set 'rps eth0/rx-0 = 2-7' --set 'rfs_entries host = 8192'");
        let nics = ["eth0", "eth1"].map(|name| name.parse().expect("a name"));
        assert_eq!(
            trial_of("rxlab", &settings[..1], &nics[0]),
            "rxlab trial run --set 'rps eth0/rx-0 = 2-7' --live --nic eth0"
        );
        assert_eq!(
            trial_of_plan("rxlab --netns web", "rps+rfs", &nics[..1]),
            "rxlab --netns web plan rps+rfs --nic eth0 -o rps+rfs.toml && \
             rxlab --netns web trial run --plan rps+rfs.toml --live --nic eth0"
        );
        assert_eq!(
            trial_of_plan("rxlab", "spread.irq", &nics),
            "rxlab plan spread.irq --nic eth0 --nic eth1 -o spread.irq.toml && \
             rxlab trial run --plan spread.irq.toml --live --nic eth0"
        );
    }
}
