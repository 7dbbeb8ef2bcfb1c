//! rxlab command lines for settings, ready to be copied into a shell.

use super::Setting;
use super::export::shell;
use crate::units::NicName;

/// `--set 'rps eth0/rx-0 = 2-7'`, once for each setting.
pub fn set_flags<'a>(settings: impl IntoIterator<Item = &'a Setting>) -> String {
    let flag = |setting: &Setting| format!("--set {}", shell(&setting.to_string()));
    settings.into_iter().map(flag).collect::<Vec<_>>().join(" ")
}

/// The trial of `settings` on the live traffic of `nic`.
pub fn trial_of<'a>(program: &str, settings: impl IntoIterator<Item = &'a Setting>, nic: &NicName) -> String {
    format!("{program} trial run {} --live --nic {}", set_flags(settings), shell(nic.as_str()))
}

/// The same for a plan that is written to a file first: for plans with too many settings for one line.
pub fn trial_of_plan(program: &str, plan: &str, nic: &NicName) -> String {
    let (nic, file) = (shell(nic.as_str()), shell(&format!("{plan}.toml")));
    format!(
        "{program} plan {} --nic {nic} -o {file} && {program} trial run --plan {file} --live --nic {nic}",
        shell(plan)
    )
}

#[cfg(test)]
mod tests {
    use super::{set_flags, trial_of, trial_of_plan};
    use crate::plan::Setting;

    #[test]
    fn a_shell_takes_them_as_they_are() {
        let settings: Vec<Setting> = ["rps eth0/rx-0 = 2-7", "rfs_entries host = 8192"]
            .map(|text| text.parse().expect("a setting"))
            .into();
        assert_eq!(set_flags(&settings), "--set 'rps eth0/rx-0 = 2-7' --set 'rfs_entries host = 8192'");
        let nic = "eth0".parse().expect("a name");
        assert_eq!(
            trial_of("rxlab", &settings[..1], &nic),
            "rxlab trial run --set 'rps eth0/rx-0 = 2-7' --live --nic eth0"
        );
        assert_eq!(
            trial_of_plan("rxlab --netns web", "rps+rfs", &nic),
            "rxlab --netns web plan rps+rfs --nic eth0 -o rps+rfs.toml && \
             rxlab --netns web trial run --plan rps+rfs.toml --live --nic eth0"
        );
    }
}
