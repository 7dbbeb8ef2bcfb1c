//! Contents of the files: the plan, a unit for the boot, a unit for an interface that appears, and the
//! udev rule that starts the latter. Pure.

use std::path::{Path, PathBuf};

use super::folder::{Installed, wanted_by};
use super::seal::sealed;
use rxlab_base::grammar::systemd::{self, argument};
use rxlab_base::grammar::terminal::shown;
use rxlab_base::grammar::udev;
use rxlab_path::model::DeviceAddress;
use rxlab_setting::{Plan, Target};

/// The plan, below the configuration directory.
pub const PLAN: &str = "rxlab/plan.toml";

/// The kernel argument that disables restoring at boot.
pub const OFF: &str = "rxlab=off";

/// Program and paths of the units.
#[derive(Debug, Clone)]
pub struct Restore {
    /// Absolute path of this program.
    pub program: PathBuf,
    /// Options before the subcommand: the journal's directory, if not the default.
    pub options: Vec<String>,
    /// The configuration directory, absolute.
    pub etc: PathBuf,
    /// The journal directory, absolute.
    pub state: PathBuf,
}

impl Restore {
    /// The program and its options, as words of a unit's line.
    pub(super) fn command(&self) -> String {
        let options = self.options.iter().map(|option| argument(option));
        std::iter::once(systemd::program(&self.program.to_string_lossy()))
            .chain(options)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// With everything that has to be quoted.
    #[cfg(test)]
    pub(super) fn sample() -> Self {
        Self {
            program: "/opt/my tools/rxlab".into(),
            options: vec!["--state-dir".to_owned(), "/srv/100%".to_owned()],
            etc: "/etc".into(),
            state: "/srv/100%".into(),
        }
    }

    /// For the paths of files to remove: they do not depend on what the files say.
    pub fn only_paths(etc: &Path) -> Self {
        Self { program: PathBuf::new(), options: Vec::new(), etc: etc.to_owned(), state: PathBuf::new() }
    }
}

/// Longest wait of a unit for interfaces, queues and interrupts: links come up in the meantime.
const WAIT: &str = "60s";

/// The files of a plan, in the order of installation: a file comes before those that refer to it.
pub fn files(plan: &Plan, restore: &Restore) -> Vec<Installed> {
    let file = |path: &str, text: String| Installed::File { path: path.to_owned(), text: sealed(&text) };
    vec![
        file(PLAN, plan.to_toml()),
        file("systemd/system/rxlab.service", unit("", "", restore)),
        file("systemd/system/rxlab@.service", unit(" of %i", "--nic %i ", restore)),
        file("udev/rules.d/90-rxlab.rules", rules(plan)),
        wanted_by("multi-user.target", "rxlab.service"),
    ]
}

fn unit(of: &str, nic: &str, restore: &Restore) -> String {
    let plan = restore.etc.join(PLAN);
    let etc = if restore.etc == Path::new("/etc") {
        String::new()
    } else {
        format!("--etc {} ", argument(&restore.etc.to_string_lossy()))
    };
    let mut text = format!(
        "[Unit]\nDescription=Receive path settings{of} kept by rxlab\n\
         {}ConditionKernelCommandLine=!{OFF}\n{}\
         # Interrupts exist only once the link is up, so no network unit waits for this one.\n\
         After=sysinit.target network-pre.target irqbalance.service\n\n\
         [Service]\nType=oneshot\nExecStart={} restore {etc}{nic}--wait {WAIT}\nTimeoutStartSec=120\n",
        condition("ConditionPathExists", &plan),
        mounts(&[&restore.etc, &restore.state]),
        restore.command(),
    );
    if nic.is_empty() {
        text += "\n[Install]\nWantedBy=multi-user.target\n";
    }
    text
}

/// A line of a unit with a condition on `path`; none for a path that such a line cannot say.
pub(super) fn condition(kind: &str, path: &Path) -> String {
    systemd::value(&path.to_string_lossy()).map(|path| format!("{kind}={path}\n")).unwrap_or_default()
}

/// A line that waits for the file systems of `paths`; none for paths that such a line cannot say.
pub(super) fn mounts(paths: &[&Path]) -> String {
    let said: Vec<String> = paths.iter().filter_map(|path| systemd::path(&path.to_string_lossy())).collect();
    if said.is_empty() { String::new() } else { format!("RequiresMountsFor={}\n", said.join(" ")) }
}

/// A line for each interface of the plan. `systemctl` only queues the unit: a rule must not wait. `$name` is
/// the name that udev is about to assign, if it assigns one.
fn rules(plan: &Plan) -> String {
    let mut lines: Vec<String> = Vec::new();
    for planned in &plan.settings {
        let Some((device, nic)) = planned.device.as_ref().zip(planned.set.target.nic()) else { continue };
        let line = match matched(device, &planned.set.target) {
            Some(matched) => format!(
                "ACTION==\"add|move\", SUBSYSTEM==\"net\", {matched}, \
                 RUN+=\"/bin/systemctl --no-block start rxlab@$name.service\"\n"
            ),
            None => format!("# No rule can name {}: it is restored at boot only.\n", shown(nic.as_str())),
        };
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    format!("# Start the unit of a persisted interface that appears or is renamed.\n{}", lines.concat())
}

/// The udev match for a device; `None` if a rule cannot name it.
fn matched(device: &DeviceAddress, target: &Target) -> Option<String> {
    let (kind, rest) = device.0.split_once(':')?;
    Some(match kind {
        "mac" => format!("ATTR{{address}}==\"{}\"", udev::literal(rest)?),
        // Further ports of a function share its path; `restore` tells them apart.
        "pci" => format!("ENV{{ID_PATH}}==\"pci-{}\"", udev::literal(rest.split('/').next()?)?),
        _ => format!("KERNEL==\"{}\"", udev::literal(target.nic()?.as_str())?),
    })
}

#[cfg(test)]
mod tests {
    use super::{Installed, Restore, files};
    use crate::persist::folder::shown;
    use rxlab_path::model::DeviceAddress;
    use rxlab_setting::{Plan, PlannedSetting};

    fn plan(settings: &[(&str, &str)]) -> Plan {
        let mut plan = Plan::new("spread", &[]);
        plan.settings = settings
            .iter()
            .map(|(set, device)| {
                let device = (!device.is_empty()).then(|| DeviceAddress((*device).to_owned()));
                PlannedSetting::new(set.parse().expect("a setting"), "", device)
            })
            .collect();
        plan
    }

    fn restore() -> Restore {
        Restore {
            program: "/usr/local/bin/rxlab".into(),
            state: "/var/lib/rxlab".into(),
            ..Restore::only_paths("/etc".as_ref())
        }
    }

    fn text(plan: &Plan, restore: &Restore, ending: &str) -> String {
        let found = files(plan, restore).into_iter().find_map(|file| match file {
            Installed::File { path, text } if path.ends_with(ending) => Some(text),
            _ => None,
        });
        found.expect(ending)
    }

    #[test]
    fn the_files_of_a_plan() {
        let plan = plan(&[
            ("rps eth0/rx-0 = 1", "pci:0000:00:03.0"),
            ("rps eth0/rx-1 = 1", "pci:0000:00:03.0"),
            ("rps eth1/rx-0 = 1", "pci:0000:00:04.0/port-1"),
            ("rps eth2/rx-0 = 1", "mac:52:54:00:98:00:01"),
            ("rps veth0/rx-0 = 1", "virtual:veth0"),
            ("rfs_entries host = 32768", ""),
        ]);
        insta::assert_snapshot!(shown(&files(&plan, &restore())));
    }

    #[test]
    fn paths_are_words_of_the_unit() {
        let mut restore = restore();
        restore.program = "/opt/my tools/100%/rxlab".into();
        restore.options = vec!["--state-dir".to_owned(), "/srv/$state".to_owned()];
        restore.etc = "/srv/etc".into();
        let unit = text(&plan(&[("rfs_entries host = 1", "")]), &restore, "/rxlab.service");
        let line = "ExecStart=\"/opt/my tools/100%%/rxlab\" --state-dir \"/srv/$$state\" restore --etc /srv/etc --wait 60s\n";
        assert!(unit.contains(line), "{unit}");
    }

    /// A name with a quote would end the string of the rule; such an interface has no rule.
    #[test]
    fn no_name_is_a_rule() {
        let odd = plan(&[("rps a\",OPTIONS-\"x/rx-0 = 1", "virtual:a")]);
        let rules = text(&odd, &restore(), ".rules");
        assert!(
            rules.contains("# No rule can name a\",OPTIONS-\"x: it is restored at boot only.\n"),
            "{rules}"
        );
        assert!(rules.lines().all(|line| line.starts_with('#')), "{rules}");
    }
}
