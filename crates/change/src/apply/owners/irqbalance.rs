//! A running irqbalance, which moves interrupts that are not banned in it, and the lines that configure it.

use std::collections::BTreeSet;

use super::{Effect, OtherOwner, first_of_each_name, is_ours, owner, running};
use rxlab_base::parse::{configuration_lines, has_word};
use rxlab_base::units::NicName;
use rxlab_path::model::{Fact, Model};
use rxlab_setting::{Setting, interrupts};
use rxlab_sys::Host;

/// Files with its environment, which has its arguments, and its unit.
const FILES: [&str; 8] = [
    "usr/lib/irqbalance/defaults.env",
    "etc/default/irqbalance",
    "etc/sysconfig/irqbalance",
    "etc/irqbalance.env",
    "etc/systemd/system/irqbalance.service",
    "run/systemd/system/irqbalance.service",
    "usr/lib/systemd/system/irqbalance.service",
    "lib/systemd/system/irqbalance.service",
];

/// Directories with drop-ins of its unit, by precedence.
const DROP_INS: [&str; 3] = [
    "etc/systemd/system/irqbalance.service.d",
    "run/systemd/system/irqbalance.service.d",
    "usr/lib/systemd/system/irqbalance.service.d",
];

/// Variables that decide which interrupts it moves, and where to.
const VARIABLES: [&str; 3] = ["IRQBALANCE_ARGS", "IRQBALANCE_BANNED_CPULIST", "IRQBALANCE_BANNED_CPUS"];

/// Options that do, in both forms.
const OPTIONS: [&str; 6] = ["--policyscript", "-l", "--banirq", "-i", "--banmod", "-m"];

const KNOB: &str = "irq_affinity";
const BY: &str = "irqbalance";

/// The process and the lines of its policy, if it may move an interrupt that `settings` place: one that neither it nor
/// `settings` ban.
pub(super) fn owners(host: &dyn Host, model: &Model, settings: &[Setting]) -> Vec<OtherOwner> {
    let Fact::Known(Some(irqbalance)) = &model.irqbalance else { return Vec::new() };
    let banned_nics: BTreeSet<&NicName> = settings
        .iter()
        .filter(|setting| setting.knob == "irqbalance" && setting.value == "banned")
        .filter_map(|setting| setting.target.nic())
        .collect();
    let may_move = |setting: &Setting| {
        let Some(nic) = setting.target.nic().and_then(|name| model.nic(name)) else { return false };
        let irqs = interrupts(nic, &setting.target);
        !banned_nics.contains(&nic.name) && irqs.iter().any(|irq| !irqbalance.leaves(irq.number, &irq.action))
    };
    if !settings.iter().any(|setting| setting.knob == KNOB && may_move(setting)) {
        return Vec::new();
    }
    let drop_ins = first_of_each_name(host, &DROP_INS, "", ".conf").into_iter();
    let drop_ins = drop_ins.filter(|(name, _)| !is_ours(name)).map(|(_, path)| path);
    let files = FILES.into_iter().map(str::to_owned).chain(drop_ins);
    let lines = files.flat_map(|path| {
        let text = host.read_text(&path).unwrap_or_default();
        let policy = configuration_lines(&text).filter(|(_, line)| is_policy(line));
        let found =
            policy.map(|(line, text)| owner(KNOB, BY, &path, (line, text.to_owned()), Effect::MaySet));
        found.collect::<Vec<_>>()
    });
    let process = running(KNOB, BY, irqbalance.pid, "it moves interrupts that are not banned");
    [process].into_iter().chain(lines).collect()
}

/// True if a line says which interrupts irqbalance moves, or where to.
fn is_policy(line: &str) -> bool {
    let is_set = |variable: &&str| {
        let value = line.split_once(&format!("{variable}=")).map(|(_, value)| value.trim());
        value.is_some_and(|value| !value.trim_matches(['"', '\'']).trim().is_empty())
    };
    VARIABLES.iter().any(is_set) || OPTIONS.iter().any(|option| has_word(line, option))
}

#[cfg(test)]
mod tests {
    use super::super::other_owners;
    use super::is_policy;
    use crate::knob::testbed::{balanced, model};
    use rxlab_base::units::IrqId;
    use rxlab_path::model::{Fact, Model};
    use rxlab_setting::Setting;
    use rxlab_sys::RecordedHost;

    fn found(host: &RecordedHost, model: &Model, settings: &[&str]) -> Vec<String> {
        let settings: Vec<Setting> = settings.iter().map(|text| text.parse().expect("a setting")).collect();
        other_owners(host, model, &settings).iter().map(ToString::to_string).collect()
    }

    fn banning(irqs: &[u32]) -> Model {
        let mut model = balanced();
        let Fact::Known(Some(irqbalance)) = &mut model.irqbalance else { unreachable!("it runs") };
        irqbalance.banned_irqs = Fact::Known(irqs.iter().copied().map(IrqId).collect());
        model
    }

    const RUNS: &str =
        "irqbalance (/proc/70) may change irq_affinity: it moves interrupts that are not banned";

    #[test]
    fn the_process_and_the_lines_of_its_policy() {
        let host = RecordedHost::new()
            .with(
                "etc/default/irqbalance",
                "#IRQBALANCE_ARGS=\"-i 3\"\nIRQBALANCE_ARGS=\"--policyscript=/etc/p.sh\"\n",
            )
            .with("etc/sysconfig/irqbalance", "IRQBALANCE_ONESHOT=\nIRQBALANCE_BANNED_CPULIST=0-3\n")
            .with(
                "usr/lib/systemd/system/irqbalance.service",
                "[Service]\nExecStart=irqbalance $IRQBALANCE_ARGS\n",
            )
            .with(
                "etc/systemd/system/irqbalance.service.d/ban.conf",
                "[Service]\nEnvironment=\"IRQBALANCE_ARGS=--banirq=60\"\n",
            );
        let expected = [
            RUNS,
            "/etc/default/irqbalance:2 (irqbalance) may change irq_affinity: IRQBALANCE_ARGS=\"--policyscript=/etc/p.sh\"",
            "/etc/sysconfig/irqbalance:2 (irqbalance) may change irq_affinity: IRQBALANCE_BANNED_CPULIST=0-3",
            "/etc/systemd/system/irqbalance.service.d/ban.conf:2 (irqbalance) may change irq_affinity: \
             Environment=\"IRQBALANCE_ARGS=--banirq=60\"",
        ];
        assert_eq!(found(&host, &balanced(), &["irq_affinity eth0/rx-0 = 1"]), expected);
        assert_eq!(found(&host, &model(), &["irq_affinity eth0/rx-0 = 1"]), [""; 0], "it does not run");
        assert_eq!(found(&host, &balanced(), &["rps eth0/rx-0 = 1"]), [""; 0], "it moves interrupts only");
    }

    /// The queue 0 has interrupt 24, queue 1 has 25 and 26.
    #[test]
    fn banned_interrupts_stay() {
        let host = RecordedHost::new();
        let (first, second) = (["irq_affinity eth0/rx-0 = 1"], ["irq_affinity eth0/rx-1 = 1"]);
        assert_eq!(found(&host, &banning(&[24]), &first), [""; 0]);
        assert_eq!(found(&host, &banning(&[24, 25]), &second), [RUNS]);
        assert_eq!(found(&host, &banning(&[24, 25, 26]), &second), [""; 0]);
        assert_eq!(found(&host, &banning(&[]), &["irqbalance eth0 = banned", first[0]]), [""; 0]);
    }

    #[test]
    fn lines_without_a_policy() {
        for line in [
            "IRQBALANCE_ARGS=",
            "IRQBALANCE_ARGS=\"\"",
            "IRQBALANCE_ONESHOT=1",
            "ExecStart=/usr/sbin/irqbalance --foreground $IRQBALANCE_ARGS",
            "Description=irqbalance daemon",
        ] {
            assert!(!is_policy(line), "{line}");
        }
        assert!(is_policy("ExecStart=/usr/sbin/irqbalance -i 24"));
        assert!(is_policy("OPTIONS=\"--banmod=ixgbe\""));
        assert!(is_policy("IRQBALANCE_BANNED_CPUS=f0"));
    }
}
