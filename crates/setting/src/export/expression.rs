//! Kernel and tool form of each setting.

use super::nic_of;
use crate::tunable::{Encoding, EthtoolGroup, Owner, tunable};
use crate::{Setting, Target, interrupts, set_of};
use rxlab_base::units::{CpuMask, NicName};
use rxlab_path::model::{Irq, Model, Nic, NicKind};

/// A setting in a form that no export format owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expression {
    /// A key of sysctl(8).
    Sysctl { key: &'static str, value: Text },
    /// A file below `/`, written whole.
    File { path: String, value: Text },
    /// Values that ethtool(8) sets in one go.
    Ethtool { nic: NicName, group: EthtoolGroup, values: Vec<(Word, String)> },
    /// CPUs of the interrupts of a device: the action name of each, and its CPUs.
    Irqs { nic: NicName, pci: Option<String>, irqs: Vec<(String, CpuMask)> },
    /// irqbalance leaves every interrupt of a device alone.
    Banned { pci: String },
}

/// A value as it is written, and as it is shown, without commas and leading zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) written: String,
    pub(super) shown: String,
}

/// One value of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word {
    /// Name of the value when it is set: `rx`.
    pub(super) word: &'static str,
    /// Text before it when it is shown, as a basic regular expression; the last such line counts.
    pub(super) label: &'static str,
}

/// Returns the form of a setting, or why it has none.
pub(super) fn express(setting: &Setting, model: &Model) -> Result<Expression, String> {
    let row = tunable(&setting.knob).ok_or("unknown knob")?;
    let text = |encoding| text(encoding, &setting.value).ok_or_else(|| bad_value(setting));
    let nic = || match &setting.target {
        Target::Nic(nic) => Ok(nic.clone()),
        _ => Err(bad_target(setting)),
    };
    match row.owner {
        Owner::Sysctl(key, encoding) => {
            row.owner.file(&setting.target).ok_or_else(|| bad_target(setting))?;
            Ok(Expression::Sysctl { key, value: text(encoding)? })
        }
        Owner::HostFile(_, encoding) | Owner::NicFile(_, encoding) | Owner::QueueFile(_, _, encoding) => {
            let path = row.owner.file(&setting.target).ok_or_else(|| bad_target(setting))?;
            Ok(Expression::File { path, value: text(encoding)? })
        }
        Owner::Ethtool(group, word, label) => {
            let number = text_of_number(&setting.value).filter(|_| setting.value != "off");
            let value = number
                .or_else(|| ["on", "off"].contains(&setting.value.as_str()).then(|| setting.value.clone()))
                .ok_or_else(|| bad_value(setting))?;
            Ok(Expression::Ethtool { nic: nic()?, group, values: vec![(Word { word, label }, value)] })
        }
        Owner::Words(group, known) => {
            let values = words(&setting.value, known).ok_or_else(|| bad_value(setting))?;
            Ok(Expression::Ethtool { nic: nic()?, group, values })
        }
        Owner::IrqAffinity => match setting.target {
            Target::Queue { .. } | Target::Irq { .. } => irqs(setting, model),
            _ => Err(bad_target(setting)),
        },
        Owner::Irqbalance => match setting.value.as_str() {
            "banned" => {
                nic()?;
                let why = "irqbalance can tell apart only the interrupts of a PCI device";
                Ok(Expression::Banned { pci: pci(setting, model).ok_or(why)? })
            }
            _ => Err("irqbalance manages interrupts by default".to_owned()),
        },
        Owner::Other(_, why) => Err(why.to_owned()),
    }
}

fn bad_value(setting: &Setting) -> String {
    format!("invalid value `{}`", setting.value)
}

fn bad_target(setting: &Setting) -> String {
    format!("it does not act on {}", setting.target)
}

/// Words and numbers in turn, such as `rx 2 tx 2`.
fn words(value: &str, known: &[(&'static str, &'static str)]) -> Option<Vec<(Word, String)>> {
    let words: Vec<&str> = value.split_whitespace().collect();
    let pair = |pair: &[&str]| {
        let [word, number] = pair else { return None };
        let (word, label) = known.iter().find(|(known, _)| known == word)?;
        let number = text_of_number(number).filter(|text| text == number)?;
        Some((Word { word, label }, number))
    };
    words.chunks(2).map(pair).collect::<Option<Vec<_>>>().filter(|pairs| !pairs.is_empty())
}

/// A value as a file takes it and shows it; `None` if it is not a value of this form.
fn text(encoding: Encoding, value: &str) -> Option<Text> {
    let same = |text: String| Text { written: text.clone(), shown: text };
    match encoding {
        Encoding::Number => text_of_number(value).map(same),
        Encoding::Flows => {
            let written = text_of_number(value)?;
            let flows: u64 = written.parse().ok()?;
            let shown = if flows == 0 { 0 } else { flows.checked_next_power_of_two()? };
            Some(Text { written, shown: shown.to_string() })
        }
        Encoding::Switch => match value {
            "on" => Some(same("1".to_owned())),
            "off" => Some(same("0".to_owned())),
            _ => None,
        },
        Encoding::Mask => set_of(value).map(|set| mask(&set)),
        // Names of the kernel's own.
        Encoding::Text => value.chars().all(|c| c.is_ascii_graphic()).then(|| same(value.to_owned())),
    }
}

/// Digits; `off` is 0.
fn text_of_number(value: &str) -> Option<String> {
    if value == "off" {
        return Some("0".to_owned());
    }
    let number: u64 = value.bytes().all(|b| b.is_ascii_digit()).then(|| value.parse().ok()).flatten()?;
    Some(number.to_string())
}

/// A set as the kernel's files accept it, and as the script of the sh format compares it.
pub(super) fn mask(set: &CpuMask) -> Text {
    let written = set.to_hex();
    let digits = written.replace(',', "");
    let shown = digits.trim_start_matches('0');
    Text { shown: if shown.is_empty() { "0".to_owned() } else { shown.to_owned() }, written }
}

/// The address of the PCI function behind a setting's interface.
pub(super) fn pci(setting: &Setting, model: &Model) -> Option<String> {
    nic_of(setting, model)?.address.pci_function().map(str::to_owned)
}

/// Interrupts are identified by their action names: their numbers change at each boot.
fn irqs(setting: &Setting, model: &Model) -> Result<Expression, String> {
    let nic = nic_of(setting, model)
        .ok_or_else(|| format!("{} is not on this machine, so its interrupts are unknown", setting.target))?;
    let irqs = interrupts(nic, &setting.target);
    if irqs.is_empty() || nic.kind != NicKind::Device {
        return Err(match setting.target {
            Target::Irq { .. } => format!("{} has no interrupt of that name", nic.name),
            _ => "no interrupt is known to belong to this queue".to_owned(),
        });
    }
    if let Some(irq) = irqs.iter().find(|irq| irq.action.is_empty()) {
        return Err(format!("interrupt {} has no name to find it by", irq.number));
    }
    // One list for all of them, or one for each in the order of their numbers.
    let lists: Option<Vec<CpuMask>> = setting
        .value
        .split(';')
        .map(|part| part.parse().ok().filter(|mask: &CpuMask| !mask.is_empty()))
        .collect();
    let lists = lists.filter(|lists| lists.len() == 1 || lists.len() == irqs.len());
    let lists = lists.ok_or_else(|| bad_value(setting))?;
    let lists: Vec<(&Irq, &CpuMask)> = irqs.iter().copied().zip(lists.iter().cycle()).collect();
    if let Some((irq, _)) = lists.iter().find(|(irq, cpus)| has_namesake(nic, irq, cpus, &lists)) {
        return Err(format!("other interrupts of {} have the name `{}` too", nic.name, irq.action));
    }
    let irqs = lists.into_iter().map(|(irq, cpus)| (irq.action.clone(), cpus.clone())).collect();
    Ok(Expression::Irqs { nic: nic.name.clone(), pci: pci(setting, model), irqs })
}

/// True if another interrupt of the device has the same name and should not go to the same CPUs: a script moves all of one
/// name.
fn has_namesake(nic: &Nic, irq: &Irq, cpus: &CpuMask, lists: &[(&Irq, &CpuMask)]) -> bool {
    let goes_along =
        |other: &Irq| lists.iter().any(|(irq, list)| irq.number == other.number && *list == cpus);
    let own = nic.rx.iter().flat_map(|queue| &queue.irqs).chain(&nic.other_irqs);
    own.filter(|other| other.action == irq.action).any(|other| !goes_along(other))
}

#[cfg(test)]
mod tests {
    use super::super::sketch::model;
    use super::{Expression, Text, express};
    use crate::Setting;
    use rxlab_base::units::IrqId;
    use rxlab_path::model::{Irq, Model};

    fn say(setting: &str) -> Result<Expression, String> {
        express(&setting.parse::<Setting>().expect(setting), &model())
    }

    fn file(setting: &str) -> [String; 3] {
        match say(setting) {
            Ok(Expression::File { path, value: Text { written, shown } }) => [path, written, shown],
            other => panic!("{setting}: {other:?}"),
        }
    }

    #[test]
    fn values_are_written_as_the_kernel_takes_them_and_compared_as_it_shows_them() {
        let queue = |file: &str| format!("/sys/class/net/eth0/queues/{file}");
        assert_eq!(file("rps eth0/rx-1 = 4-5,33"), [&queue("rx-1/rps_cpus"), "2,00000030", "200000030"]);
        assert_eq!(file("rps eth0/rx-0 = off"), [&queue("rx-0/rps_cpus"), "0", "0"]);
        assert_eq!(file("xps_rxqs eth0/tx-0 = 1"), [&queue("tx-0/xps_rxqs"), "2", "2"]);
        assert_eq!(file("rfs eth0/rx-0 = 3000"), [&queue("rx-0/rps_flow_cnt"), "3000", "4096"]);
        assert_eq!(file("rfs eth0/rx-0 = off"), [&queue("rx-0/rps_flow_cnt"), "0", "0"]);
        assert_eq!(file("threaded eth0 = on"), ["/sys/class/net/eth0/threaded", "1", "1"]);
        let words = |setting: &str| match say(setting) {
            Ok(Expression::Ethtool { group, values, .. }) => {
                let words = values.iter().map(|(word, value)| format!(" {} {value}", word.word));
                format!("{}{}", group.set, words.collect::<String>())
            }
            other => panic!("{setting}: {other:?}"),
        };
        assert_eq!(words("adaptive_rx eth0 = off"), "-C adaptive-rx off");
        assert_eq!(words("rx_usecs eth0 = 50"), "-C rx-usecs 50");
        assert_eq!(words("ring_tx eth0 = 512"), "-G tx 512");
        assert_eq!(words("channels eth0 = rx 2 tx 3"), "-L rx 2 tx 3");
        let Ok(Expression::Irqs { pci, irqs, .. }) = say("irq_affinity eth0/rx-1 = 2;0-1") else { panic!() };
        let irqs: Vec<_> = irqs.iter().map(|(action, cpus)| (action.as_str(), cpus.to_string())).collect();
        assert_eq!(irqs, [("eth0-TxRx-1", "2".to_owned()), ("eth0-rx-1", "0-1".to_owned())]);
        assert_eq!(pci.as_deref(), Some("0000:00:03.0"));
        for (target, name) in [("eth0/tx-0", "eth0-tx-0"), ("eth0/irq-eth0", "eth0")] {
            let Ok(Expression::Irqs { irqs, .. }) = say(&format!("irq_affinity {target} = 3")) else {
                panic!("{target}")
            };
            assert_eq!(irqs, [(name.to_owned(), "3".parse().expect("a list"))]);
        }
    }

    /// Interrupts of one name, of which one is the queue's: the script moved them all.
    #[test]
    fn a_name_of_several_interrupts_moves_all_or_none() {
        let mut model = model();
        let say = |model: &Model, setting: &str| {
            express(&setting.parse::<Setting>().expect(setting), model).map(|_| ())
        };
        let named =
            |number, action: &str| Irq { number: IrqId(number), action: action.to_owned(), ..Irq::default() };
        model.nics[0].other_irqs.push(named(30, "eth0-TxRx-0"));
        let why = "other interrupts of eth0 have the name `eth0-TxRx-0` too";
        assert_eq!(say(&model, "irq_affinity eth0/rx-0 = 3"), Err(why.to_owned()));
        model.nics[0].other_irqs.push(named(31, "eth0"));
        assert_eq!(say(&model, "irq_affinity eth0/irq-eth0 = 3"), Ok(()), "all of this name go there");
        assert_eq!(say(&model, "irq_affinity eth0/rx-1 = 3"), Ok(()));
    }

    #[test]
    fn what_cannot_be_said_has_a_reason() {
        for (setting, why) in [
            ("speed eth0 = 5", "unknown knob"),
            ("rps eth0 = 2", "it does not act on eth0"),
            ("rps eth0/tx-0 = 2", "it does not act on eth0/tx-0"),
            ("rfs_entries eth0 = 2", "it does not act on eth0"),
            ("rps eth0/rx-0 = x", "invalid value `x`"),
            ("rfs eth0/rx-0 = +5", "invalid value `+5`"),
            ("rfs eth0/rx-0 = 18446744073709551615", "invalid value `18446744073709551615`"),
            ("channels eth0 = 4", "invalid value `4`"),
            ("channels eth0 = rx 2 tx", "invalid value `rx 2 tx`"),
            ("ring_rx eth0 = rx 2", "invalid value `rx 2`"),
            ("gro eth0 = maybe", "invalid value `maybe`"),
            ("irq_affinity eth9/rx-0 = 2", "eth9/rx-0 is not on this machine, so its interrupts are unknown"),
            ("irq_affinity veth0/rx-0 = 2", "no interrupt is known to belong to this queue"),
            ("irq_affinity eth0/tx-1 = 2", "no interrupt is known to belong to this queue"),
            ("irq_affinity eth0/irq-eth1 = 2", "eth0 has no interrupt of that name"),
            ("irq_affinity eth0 = 2", "it does not act on eth0"),
            ("irq_affinity eth0/rx-1 = 0;1;2", "invalid value `0;1;2`"),
            ("irqbalance veth0 = banned", "irqbalance can tell apart only the interrupts of a PCI device"),
        ] {
            assert_eq!(say(setting), Err(why.to_owned()), "{setting}");
        }
    }
}
