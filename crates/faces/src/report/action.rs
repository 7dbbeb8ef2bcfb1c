//! Changes in a network administrator's terms: headings of trials, remedies of findings.

use rxlab_base::number::capitalized;
use rxlab_setting::{Setting, Target};
use rxlab_trial::record::TrialRecord;

/// `hand packets of eth0/rx-0 to CPUs 0-1,3-7 (RPS)`. Settings of one knob are one action; unknown knobs and mixed
/// settings are shown as written.
pub fn action(settings: &[Setting]) -> String {
    let [first, rest @ ..] = settings else { return String::new() };
    let is_rfs = |setting: &Setting| ["rfs", "rfs_entries"].contains(&setting.knob.as_str());
    if settings.iter().all(is_rfs) {
        let off = settings.iter().all(|setting| ["0", "off"].contains(&setting.value.as_str()));
        let verb = if off { "stop handing" } else { "hand" };
        return format!("{verb} packets{} to the CPU that reads them (RFS)", of_targets(settings));
    }
    if settings.iter().filter(|setting| !is_rfs(setting)).all(|setting| setting.knob == "rps")
        && settings.iter().any(is_rfs)
    {
        let parts = settings.iter().partition::<Vec<&Setting>, _>(|setting| is_rfs(setting));
        let rps: Vec<Setting> = parts.1.into_iter().cloned().collect();
        return action(&rps).replace("(RPS)", "(RPS), near their reader (RFS)");
    }
    let (bans, others): (Vec<Setting>, Vec<Setting>) = settings
        .iter()
        .cloned()
        .partition(|setting| setting.knob == "irqbalance" && setting.value == "banned");
    if !bans.is_empty() && !others.is_empty() {
        return format!("{}, banned in irqbalance", action(&others));
    }
    if rest.iter().any(|setting| setting.knob != first.knob) {
        return match settings.len() {
            2 => format!("set {first} and {}", settings[1]),
            more => format!("set {first} and {} more", more - 1),
        };
    }
    let same = settings.iter().all(|setting| setting.value == first.value);
    let to = if same { cpus(&first.value) } else { "CPUs of their own".to_owned() };
    match first.knob.as_str() {
        "rps" if same && first.value == "off" => {
            format!("stop handing packets{} to other CPUs (RPS off)", of_targets(settings))
        }
        "rps" => format!("hand packets{} to {to} (RPS)", of_targets(settings)),
        "irq_affinity" if rest.is_empty() => format!("move the interrupt{} to {to}", of_targets(settings)),
        "irq_affinity" => format!("move the interrupts{} to {to}", of_targets(settings)),
        _ if rest.is_empty() => format!("set {first}"),
        _ => format!("set {first} and {} more", rest.len()),
    }
}

/// The same for a reader in a hurry: `RPS to CPUs 0-1,3-7`.
pub fn short(settings: &[Setting]) -> String {
    let [first, rest @ ..] = settings else { return String::new() };
    let is_same = rest.iter().all(|setting| setting.value == first.value);
    let knobs = |names: &[&str]| settings.iter().all(|setting| names.contains(&setting.knob.as_str()));
    let value = first.value.as_str();
    if knobs(&["rps"]) {
        let queues = if rest.is_empty() { String::new() } else { format!(" for {} queues", settings.len()) };
        return match value {
            "off" if is_same => format!("RPS off{queues}"),
            _ if is_same => format!("RPS{queues} to {}", cpus(value)),
            _ => format!("RPS{queues} to CPUs of their own"),
        };
    }
    if knobs(&["irq_affinity"])
        && let (false, Some(nic)) = (rest.is_empty(), first.target.nic())
        && rest.iter().all(|setting| setting.target.nic() == Some(nic))
    {
        let to = if is_same { cpus(value) } else { "CPUs of their own".to_owned() };
        return format!("move {} IRQs of {nic} to {to}", settings.len());
    }
    let is_off = settings.iter().any(|setting| ["0", "off"].contains(&setting.value.as_str()));
    if knobs(&["rfs", "rfs_entries"]) && !is_off {
        return "RFS: packets to the CPU of the program that reads".to_owned();
    }
    action(settings)
}

/// `CPU 1`, `CPUs 2-3`.
fn cpus(list: &str) -> String {
    let many = if list.contains([',', '-']) { "s" } else { "" };
    format!("CPU{many} {list}")
}

/// The action of arm B, capitalized; commands are unchanged.
pub fn heading(record: &TrialRecord) -> String {
    let [_, b] = record.arms();
    let settings: Option<Vec<Setting>> = b.iter().map(|line| line.parse().ok()).collect();
    match settings {
        Some(settings) if !settings.is_empty() => capitalized(&action(&settings)),
        _ => b.join("; "),
    }
}

/// ` of eth0/rx-0`, ` of 16 queues of eth0`; empty if all settings are machine-wide.
fn of_targets(settings: &[Setting]) -> String {
    let targets: Vec<&Target> =
        settings.iter().map(|setting| &setting.target).filter(|target| target.nic().is_some()).collect();
    match targets[..] {
        [] => String::new(),
        [one] => format!(" of {one}"),
        [first, ..] => {
            let nic = first.nic();
            match (nic, targets.iter().all(|target| target.nic() == nic)) {
                (Some(nic), true) => format!(" of {} queues of {nic}", targets.len()),
                _ => format!(" of {} queues", targets.len()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{action, heading};
    use rxlab_trial::sample_record;

    fn said(texts: &[&str]) -> String {
        let settings: Vec<_> = texts.iter().map(|text| text.parse().expect("a setting")).collect();
        action(&settings)
    }

    #[test]
    fn settings_in_words() {
        assert_eq!(said(&["rps eth0/rx-0 = 0-1,3-7"]), "hand packets of eth0/rx-0 to CPUs 0-1,3-7 (RPS)");
        assert_eq!(said(&["rps eth0/rx-0 = 1"]), "hand packets of eth0/rx-0 to CPU 1 (RPS)");
        assert_eq!(
            said(&["rps eth0/rx-0 = off"]),
            "stop handing packets of eth0/rx-0 to other CPUs (RPS off)"
        );
        assert_eq!(
            said(&["rps eth0/rx-0 = 1", "rps eth0/rx-1 = 2"]),
            "hand packets of 2 queues of eth0 to CPUs of their own (RPS)"
        );
        assert_eq!(
            said(&["rfs_entries host = 32768", "rfs eth0/rx-0 = 32768"]),
            "hand packets of eth0/rx-0 to the CPU that reads them (RFS)"
        );
        assert_eq!(
            said(&["rfs_entries host = 32768", "rps eth0/rx-0 = 2-7", "rfs eth0/rx-0 = 32768"]),
            "hand packets of eth0/rx-0 to CPUs 2-7 (RPS), near their reader (RFS)"
        );
        assert_eq!(said(&["irq_affinity eth0/rx-0 = 3"]), "move the interrupt of eth0/rx-0 to CPU 3");
        assert_eq!(
            said(&["irqbalance eth0 = banned", "irq_affinity eth0/rx-0 = 3", "irq_affinity eth0/rx-1 = 4"]),
            "move the interrupts of 2 queues of eth0 to CPUs of their own, banned in irqbalance"
        );
        assert_eq!(said(&["ring_rx eth0 = 512"]), "set ring_rx eth0 = 512");
        assert_eq!(
            said(&["ring_rx eth0 = 512", "gro eth0 = off", "lro eth0 = off"]),
            "set ring_rx eth0 = 512 and 2 more"
        );
    }

    #[test]
    fn settings_in_few_words() {
        let short = |texts: &[&str]| {
            let settings: Vec<_> = texts.iter().map(|text| text.parse().expect("a setting")).collect();
            super::short(&settings)
        };
        assert_eq!(short(&["rps eth0/rx-0 = 0-1,3-7"]), "RPS to CPUs 0-1,3-7");
        assert_eq!(short(&["rps eth0/rx-0 = 1", "rps eth0/rx-1 = 1"]), "RPS for 2 queues to CPU 1");
        assert_eq!(
            short(&["rps eth0/rx-0 = 1", "rps eth0/rx-1 = 2"]),
            "RPS for 2 queues to CPUs of their own"
        );
        assert_eq!(short(&["rps eth0/rx-0 = off"]), "RPS off");
        assert_eq!(
            short(&["rfs_entries host = 32768", "rfs eth0/rx-0 = 32768"]),
            "RFS: packets to the CPU of the program that reads"
        );
        assert_eq!(short(&["irq_affinity eth0/rx-0 = 3"]), "move the interrupt of eth0/rx-0 to CPU 3");
        assert_eq!(
            short(&["irq_affinity eth0/rx-0 = 3", "irq_affinity eth0/rx-1 = 4"]),
            "move 2 IRQs of eth0 to CPUs of their own"
        );
    }

    #[test]
    fn a_trial_is_headed_by_its_action() {
        let mut record = sample_record::rps();
        assert_eq!(heading(&record), "Hand packets of veth0/rx-0 to CPU 1 (RPS)");
        record.against = vec!["cpupower -g schedutil".into()];
        record.change = vec!["cpupower -g performance".into()];
        assert_eq!(heading(&record), "cpupower -g performance");
    }
}
