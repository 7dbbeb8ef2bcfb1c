//! The active profile of TuneD and those that it includes. TuneD sets its values at its start and when the profile changes.

use super::{Effect, OtherOwner, Wanted, assignment, is_sysctl, owner};
use rxlab_base::parse::{ConfigurationEntry, configuration_entries, has_word};
use rxlab_path::model::Model;
use rxlab_setting::{Owner, tunable};
use rxlab_sys::Host;

/// Directories in which TuneD looks for profiles.
const PROFILES: [&str; 4] = ["etc/tuned", "etc/tuned/profiles", "usr/lib/tuned", "usr/lib/tuned/profiles"];

/// Profiles include each other; no chain of them is this long.
const INCLUDED: usize = 16;

/// Values that TuneD takes for false.
const FALSE: [&str; 5] = ["0", "n", "no", "f", "false"];

/// Path and text of a profile.
type Profile = (String, String);

/// A profile's entries. Its sections are named by their plugin unless they have a `type`.
struct Section<'a> {
    path: &'a str,
    plugin: &'a str,
    entries: Vec<ConfigurationEntry<'a>>,
}

/// Lines of the profiles that set wanted values.
pub(super) fn owners(host: &dyn Host, model: &Model, wanted: &[Wanted<'_>]) -> Vec<OtherOwner> {
    let profiles = profiles(host, model);
    let sections: Vec<Section<'_>> = profiles.iter().flat_map(sections).collect();
    let mut found = Vec::new();
    for section in &sections {
        for &(knob, _) in wanted {
            let effects = section
                .entries
                .iter()
                .filter_map(|entry| Some((entry, effect(&sections, section, entry, knob)?)));
            found.extend(
                effects.map(|(entry, effect)| owner(knob, "TuneD", section.path, assignment(entry), effect)),
            );
        }
    }
    found
}

/// The active profiles, each before those that it includes, whose options it overrides.
fn profiles(host: &dyn Host, model: &Model) -> Vec<Profile> {
    let names = model.settings.tuned_profile.known().map(|names| names.split_whitespace());
    let mut names: Vec<String> = names.into_iter().flatten().map(str::to_owned).collect();
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(name) = names.get(at).filter(|_| at < INCLUDED).cloned() {
        at += 1;
        let mut paths = PROFILES.iter().map(|directory| format!("{directory}/{name}/tuned.conf"));
        let Some((path, text)) = paths.find_map(|path| host.read_text(&path).ok().map(|text| (path, text)))
        else {
            continue;
        };
        let entries = configuration_entries(&text);
        let included = entries.iter().filter(|entry| entry.section == "main" && entry.key == "include");
        let included = included.flat_map(|entry| entry.value.split(',').map(|name| name.trim().to_owned()));
        names.extend(included.filter(|name| !names.contains(name)).collect::<Vec<_>>());
        found.push((path, text));
    }
    found
}

fn sections((path, text): &Profile) -> Vec<Section<'_>> {
    let mut found: Vec<Section<'_>> = Vec::new();
    for entry in configuration_entries(text) {
        match found.last_mut() {
            Some(section) if section.entries[0].section == entry.section => section.entries.push(entry),
            _ => found.push(Section { path, plugin: entry.section, entries: vec![entry] }),
        }
    }
    for section in &mut found {
        section.plugin = section.option("type").unwrap_or(section.plugin);
    }
    found
}

impl<'a> Section<'a> {
    fn option(&self, key: &str) -> Option<&'a str> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| entry.value)
    }
}

/// Effect of an entry on a knob. Plugins have options with words of ethtool, and sysfs paths as keys.
fn effect(
    all: &[Section<'_>],
    section: &Section<'_>,
    entry: &ConfigurationEntry<'_>,
    knob: &str,
) -> Option<Effect> {
    let in_value = |word: &str| has_word(entry.value, word);
    let sets = match tunable(knob).map(|row| row.owner)? {
        Owner::Sysctl(..) => is_sysctl(entry.key, knob),
        Owner::Ethtool(group, word, _) => {
            let key = match group.set {
                "-G" => "ring",
                "-C" => "coalesce",
                "-K" => "features",
                _ => return None,
            };
            entry.key == key && in_value(word)
        }
        Owner::Words(..) => entry.key == "channels",
        Owner::NicFile(file, _) | Owner::QueueFile(_, file, _) => entry.key.ends_with(&format!("/{file}")),
        Owner::HostFile(path, _) => {
            return match knob {
                _ if entry.key == path => Some(Effect::Sets),
                "default_smp_affinity" => default_affinity(all, section, entry),
                _ => None,
            };
        }
        Owner::IrqAffinity => {
            return match (section.plugin, entry.key) {
                ("scheduler", "isolated_cores") if moves_interrupts(all) => Some(Effect::MaySet),
                // Interrupts by number.
                ("irq", "affinity") if section.option("devices").is_some() => Some(Effect::MaySet),
                ("irq", "affinity") => Some(Effect::Sets),
                (_, key) => key.ends_with("/smp_affinity").then_some(Effect::Sets),
            };
        }
        _ => false,
    };
    sets.then_some(Effect::Sets)
}

/// True if the plugin `scheduler` moves all interrupts away from its isolated CPUs, which `irq_process` turns off.
fn moves_interrupts(all: &[Section<'_>]) -> bool {
    scheduler(all, "irq_process").is_none_or(|value| !FALSE.contains(&value.to_ascii_lowercase().as_str()))
}

/// The default affinity is moved away from the isolated CPUs too, unless it has an option of its own. The plugin `irq` calls it
/// `DEFAULT`, one of its devices.
fn default_affinity(
    all: &[Section<'_>],
    section: &Section<'_>,
    entry: &ConfigurationEntry<'_>,
) -> Option<Effect> {
    const OPTION: &str = "default_irq_smp_affinity";
    match (section.plugin, entry.key) {
        ("scheduler", "isolated_cores") => {
            let is_calculated = scheduler(all, OPTION).is_none_or(|value| value == "calc");
            (is_calculated && moves_interrupts(all)).then_some(Effect::MaySet)
        }
        ("scheduler", OPTION) => {
            let is_list = !["calc", "ignore"].contains(&entry.value);
            (is_list && moves_interrupts(all)).then_some(Effect::Sets)
        }
        ("irq", "affinity") => {
            let is_included = section.option("devices").is_none_or(|devices| has_word(devices, "DEFAULT"));
            is_included.then_some(Effect::Sets)
        }
        _ => None,
    }
}

/// The value of an option of the plugin `scheduler`, from the first profile that has it.
fn scheduler<'a>(all: &[Section<'a>], key: &str) -> Option<&'a str> {
    all.iter().filter(|section| section.plugin == "scheduler").find_map(|section| section.option(key))
}

#[cfg(test)]
mod tests {
    use super::super::other_owners;
    use crate::knob::testbed::model;
    use rxlab_base::units::Fact;
    use rxlab_setting::Setting;
    use rxlab_sys::RecordedHost;

    fn found(host: &RecordedHost, profile: Option<&str>, settings: &[&str]) -> Vec<String> {
        let mut model = model();
        model.settings.tuned_profile = profile.map_or(Fact::Unsupported, |name| Fact::Known(name.to_owned()));
        let settings: Vec<Setting> = settings.iter().map(|text| text.parse().expect("a setting")).collect();
        other_owners(host, &model, &settings).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_active_profile_and_those_that_it_includes() {
        const SETTINGS: [&str; 3] =
            ["netdev_budget host = 600", "rx_usecs eth0 = 50", "channels eth0 = combined 2"];
        let host = RecordedHost::new()
            .with(
                "etc/tuned/mine/tuned.conf",
                "[main]\ninclude=network-throughput, mine\n[net]\nchannels=combined 4\n",
            )
            .with(
                "usr/lib/tuned/profiles/network-throughput/tuned.conf",
                "[net]\ncoalesce=adaptive-rx on rx-usecs 30\n[sysctl]\nnet.core.netdev_budget=800\n",
            )
            .with("usr/lib/tuned/other/tuned.conf", "[net]\nring=rx 512\n");
        let expected = [
            "/etc/tuned/mine/tuned.conf:4 (TuneD) also sets channels: channels = combined 4",
            "/usr/lib/tuned/profiles/network-throughput/tuned.conf:2 (TuneD) also sets rx_usecs: coalesce = adaptive-rx on rx-usecs 30",
            "/usr/lib/tuned/profiles/network-throughput/tuned.conf:4 (TuneD) also sets netdev_budget: net.core.netdev_budget = 800",
        ];
        assert_eq!(found(&host, Some("mine"), &SETTINGS), expected);
        assert_eq!(found(&host, None, &SETTINGS), [""; 0], "no profile is active");
    }

    /// What is said of the interrupts under this profile: the words after the path, of `irq_affinity` and of
    /// `default_smp_affinity`.
    fn of_interrupts(child: &str) -> Vec<String> {
        let host = RecordedHost::new()
            .with("etc/tuned/mine/tuned.conf", format!("[main]\ninclude=parent\n{child}"))
            .with("usr/lib/tuned/parent/tuned.conf", "[scheduler]\nisolated_cores=${isolated_cores}\n");
        let settings = ["irq_affinity eth0/rx-0 = 1", "default_smp_affinity host = 1"];
        let lines = found(&host, Some("mine"), &settings);
        lines.iter().map(|line| line.replace("/tuned.conf:", " ").replace(" (TuneD)", "")).collect()
    }

    #[test]
    fn isolated_cpus_lose_their_interrupts() {
        let isolated = |knob: &str| {
            format!("/usr/lib/tuned/parent 2 may change {knob}: isolated_cores = ${{isolated_cores}}")
        };
        let (default, each) = (isolated("default_smp_affinity"), isolated("irq_affinity"));
        assert_eq!(of_interrupts(""), [default.clone(), each.clone()]);
        assert_eq!(of_interrupts("[scheduler]\nirq_process=False\n"), [""; 0]);
        assert_eq!(
            of_interrupts("[mine]\ntype=scheduler\nirq_process=true\n"),
            [default.clone(), each.clone()]
        );
        assert_eq!(
            of_interrupts("[scheduler]\ndefault_irq_smp_affinity=ignore\n"),
            std::slice::from_ref(&each)
        );
        assert_eq!(of_interrupts("[scheduler]\ndefault_irq_smp_affinity=calc\n"), [default, each.clone()]);
        let own = "/etc/tuned/mine 4 also sets default_smp_affinity: default_irq_smp_affinity = 0-1";
        assert_eq!(of_interrupts("[scheduler]\ndefault_irq_smp_affinity=0-1\n"), [own, &each]);
    }

    #[test]
    fn the_plugin_of_interrupts() {
        let own = |text: &str| -> Vec<String> {
            let text = format!("[scheduler]\nirq_process=0\n{text}");
            let lines = of_interrupts(&text).into_iter();
            lines.map(|line| line.trim_start_matches("/etc/tuned/mine ").to_owned()).collect()
        };
        let both =
            ["6 also sets default_smp_affinity: affinity = 0", "6 also sets irq_affinity: affinity = 0"];
        assert_eq!(own("[irq]\naffinity=0\n"), both);
        let devices = ["8 may change irq_affinity: affinity = 2"];
        assert_eq!(own("[special]\ntype=irq\ndevices=irq24\naffinity=2\n"), devices);
        let default = "8 also sets default_smp_affinity: affinity = 2";
        let devices = [default, devices[0]];
        assert_eq!(own("[special]\ntype=irq\ndevices=DEFAULT,irq24\naffinity=2\n"), devices);
        assert_eq!(
            own("[sysfs]\n/proc/irq/default_smp_affinity=3\n"),
            ["6 also sets default_smp_affinity: /proc/irq/default_smp_affinity = 3"]
        );
    }
}
