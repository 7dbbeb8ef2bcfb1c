//! Target of a setting in its text form, and the interrupts that it stands for.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::{Setting, SettingError};
use rxlab_base::serde_as_text;
use rxlab_base::units::{CpuId, Direction, IrqId, NicName, QueueId};
use rxlab_path::model::{Irq, Model, Nic};

/// Target of a knob.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub enum Target {
    /// The whole machine; written `host`.
    Host,
    /// One CPU; written `cpu:2`.
    Cpu(CpuId),
    /// One interface; written `eth0`, or `nic:host` for one that is named like the machine.
    Nic(NicName),
    /// One queue of one interface; written `eth0/rx-0`.
    Queue {
        /// Current name of the interface.
        nic: NicName,
        /// The queue.
        queue: QueueId,
    },
    /// One slot in the table of flow rules of an interface; written `eth0/rule-7`.
    Rule {
        /// Current name of the interface.
        nic: NicName,
        /// The slot.
        location: u32,
    },
    /// One additional RSS context of an interface; written `eth0/context-1`.
    Context {
        /// Current name of the interface.
        nic: NicName,
        /// The context; 0 is the interface's own table and not an additional one.
        id: u32,
    },
    /// The interrupts of one interface that have this name in `/proc/interrupts` and belong to no queue;
    /// written `eth0/irq-virtio0-config`.
    Irq {
        /// Current name of the interface.
        nic: NicName,
        /// The name.
        name: String,
    },
    /// All threads of one process; written `pid:1234`.
    Process(u32),
    /// One control group by its canonical path, as [`Target::cgroup`] makes it; written
    /// `cgroup:/system.slice/nginx.service`.
    Cgroup(String),
    /// One systemd unit by its full name; written `unit:nginx.service`, and read without `.service` too.
    Unit(String),
}

/// Endings of the names of units (systemd.unit(5)); a name without one is that of a service.
const UNITS: [&str; 11] = [
    "service",
    "scope",
    "slice",
    "socket",
    "mount",
    "swap",
    "device",
    "automount",
    "target",
    "path",
    "timer",
];

impl Target {
    /// The control group of a path, which may have spare slashes and dots. `None` for a relative path, one with `..`,
    /// and one that cannot be written in a setting.
    pub fn cgroup(path: &str) -> Option<Self> {
        let is_plain = is_plain(path) && path.starts_with('/');
        let parts: Vec<&str> = path.split('/').filter(|part| !["", "."].contains(part)).collect();
        (is_plain && !parts.contains(&"..")).then(|| Self::Cgroup(format!("/{}", parts.join("/"))))
    }

    /// The unit of a name; `None` if that cannot be written in a setting.
    fn unit(name: &str) -> Option<Self> {
        let is_full = name.rsplit_once('.').is_some_and(|(_, kind)| UNITS.contains(&kind));
        let name = if is_full { name.to_owned() } else { format!("{name}.service") };
        (is_plain(&name) && !name.starts_with('.') && !name.contains('/')).then_some(Self::Unit(name))
    }

    /// The interface, if it is part of one.
    pub fn nic(&self) -> Option<&NicName> {
        match self {
            Target::Nic(nic)
            | Target::Queue { nic, .. }
            | Target::Rule { nic, .. }
            | Target::Context { nic, .. }
            | Target::Irq { nic, .. } => Some(nic),
            _ => None,
        }
    }

    pub fn queue(nic: &NicName, queue: QueueId) -> Self {
        Target::Queue { nic: nic.clone(), queue }
    }

    /// The interrupts of `nic` of that name; `None` for a name that cannot be written in a setting.
    pub fn irq(nic: NicName, name: &str) -> Option<Self> {
        is_plain(name).then(|| Target::Irq { nic, name: name.to_owned() })
    }

    /// The same target of an interface under its current name; itself if it is not part of one.
    #[must_use]
    pub fn of_nic(&self, nic: &NicName) -> Self {
        let nic = nic.clone();
        match self {
            Target::Nic(_) => Target::Nic(nic),
            Target::Queue { queue, .. } => Target::Queue { nic, queue: *queue },
            Target::Rule { location, .. } => Target::Rule { nic, location: *location },
            Target::Context { id, .. } => Target::Context { nic, id: *id },
            Target::Irq { name, .. } => Target::Irq { nic, name: name.clone() },
            other => other.clone(),
        }
    }

    /// The part that survives renaming its interface: everything else.
    pub fn lasting(&self) -> String {
        match self {
            Target::Nic(_) => "nic".to_owned(),
            Target::Queue { queue, .. } => queue.to_string(),
            Target::Rule { location, .. } => format!("rule-{location}"),
            Target::Context { id, .. } => format!("context-{id}"),
            Target::Irq { name, .. } => format!("irq-{name}"),
            other => other.to_string(),
        }
    }
}

/// The interrupts of a queue of `nic`, or those of a name, in the order of their numbers; none if the target
/// has none or is not such a part of an interface.
pub fn interrupts<'m>(nic: &'m Nic, target: &Target) -> Vec<&'m Irq> {
    let mut irqs: Vec<&Irq> = match target {
        Target::Queue { queue, .. } if queue.direction == Direction::Rx => {
            nic.rx.iter().filter(|rx| rx.index == queue.index).flat_map(|rx| &rx.irqs).collect()
        }
        Target::Queue { queue, .. } => nic.tx_irqs(queue.index).collect(),
        Target::Irq { name, .. } => nic.queueless_irqs().filter(|irq| irq.action == *name).collect(),
        _ => Vec::new(),
    };
    irqs.sort_by_key(|irq| irq.number);
    irqs
}

/// An interrupt that two targets have in common, also of two interfaces: ports of one function, devices on one line.
pub fn common_interrupt(model: &Model, one: &Target, other: &Target) -> Option<IrqId> {
    let of = |target: &Target| {
        let nic = target.nic().and_then(|name| model.nic(name));
        nic.map(|nic| interrupts(nic, target)).unwrap_or_default()
    };
    let others = of(other);
    of(one).into_iter().map(|irq| irq.number).find(|number| others.iter().any(|irq| irq.number == *number))
}

/// The first of these settings that sends an interrupt of another one elsewhere, and the interrupt.
pub fn sent_elsewhere<'s>(
    model: &Model,
    settings: impl IntoIterator<Item = &'s Setting>,
    setting: &Setting,
) -> Option<(&'s Setting, IrqId)> {
    let is_other = |other: &&Setting| other.knob == setting.knob && other.value != setting.value;
    let others = settings.into_iter().filter(|other| setting.knob == "irq_affinity" && is_other(other));
    others
        .into_iter()
        .find_map(|other| Some((other, common_interrupt(model, &other.target, &setting.target)?)))
}

/// The interrupts of an interface that belong to no queue, each name once.
pub fn queueless_targets(nic: &Nic) -> Vec<Target> {
    let names: BTreeSet<&str> = nic.queueless_irqs().map(|irq| irq.action.as_str()).collect();
    names.into_iter().filter_map(|name| Target::irq(nic.name.clone(), name)).collect()
}

impl FromStr for Target {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        let bad = || SettingError::Target(text.to_owned());
        if text == "host" {
            return Ok(Target::Host);
        }
        // An interface's name has no colon, and that of an interrupt may have one.
        if let Some((nic, part)) = text.split_once('/').filter(|(nic, _)| !nic.contains(':')) {
            return nic.parse().ok().and_then(|nic| of_part(nic, part)).ok_or_else(bad);
        }
        if let Some((kind, rest)) = text.split_once(':') {
            return match kind {
                "cpu" => number(rest).map(|n| Target::Cpu(CpuId(n))),
                "nic" => rest.parse().ok().map(Target::Nic),
                "pid" => number(rest).map(Target::Process),
                "cgroup" => Target::cgroup(rest),
                "unit" => Target::unit(rest),
                _ => None,
            }
            .ok_or_else(bad);
        }
        text.parse().map(Target::Nic).map_err(|_| bad())
    }
}

/// Parses the part after the interface and the slash.
fn of_part(nic: NicName, part: &str) -> Option<Target> {
    if let Some(location) = part.strip_prefix("rule-") {
        return Some(Target::Rule { nic, location: number(location)? });
    }
    if let Some(id) = part.strip_prefix("context-") {
        return Some(Target::Context { nic, id: number(id).filter(|id| *id > 0)? });
    }
    if let Some(name) = part.strip_prefix("irq-") {
        return Target::irq(nic, name);
    }
    Some(Target::Queue { nic, queue: part.parse().ok()? })
}

/// True if it can be written in a setting, left of the equals sign.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '=')
}

/// Digits only: no sign, and one spelling for each number.
fn number(text: &str) -> Option<u32> {
    text.parse::<u32>().ok().filter(|n| n.to_string() == text)
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Host => f.write_str("host"),
            Target::Cpu(cpu) => write!(f, "cpu:{cpu}"),
            Target::Nic(nic) if nic.as_str() == "host" => write!(f, "nic:{nic}"),
            Target::Nic(nic) => write!(f, "{nic}"),
            Target::Queue { nic, queue } => write!(f, "{nic}/{queue}"),
            Target::Rule { nic, location } => write!(f, "{nic}/rule-{location}"),
            Target::Context { nic, id } => write!(f, "{nic}/context-{id}"),
            Target::Irq { nic, name } => write!(f, "{nic}/irq-{name}"),
            Target::Process(pid) => write!(f, "pid:{pid}"),
            Target::Cgroup(path) => write!(f, "cgroup:{path}"),
            Target::Unit(name) => write!(f, "unit:{name}"),
        }
    }
}

serde_as_text!(Target);

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::Target;

    #[test]
    fn every_kind_reads_as_it_is_written() {
        for text in [
            "host",
            "cpu:2",
            "eth0",
            "nic:host",
            "eth0/rx-0",
            "eth0/tx-3",
            "eth0/rule-7",
            "eth0/context-1",
            "eth0/irq-virtio0-config",
            "ens1/irq-mlx5_async0@pci:0000:d8:00.0",
            "pid:1234",
            "cgroup:/system.slice/nginx.service",
            "unit:nginx@a.service",
        ] {
            let target: Target = text.parse().expect(text);
            assert_eq!(target.to_string(), text);
        }
    }

    /// Two spellings once hid that a newer transaction had changed the same target.
    #[test]
    fn a_target_has_one_spelling() {
        for (text, canonical) in [
            ("nic:eth0", "eth0"),
            ("cgroup:/a/", "cgroup:/a"),
            ("cgroup://a//./b/.", "cgroup:/a/b"),
            ("cgroup:/", "cgroup:/"),
            ("cgroup:/a/...", "cgroup:/a/..."),
            ("unit:nginx", "unit:nginx.service"),
            ("unit:web.app", "unit:web.app.service"),
            ("unit:user.slice", "unit:user.slice"),
        ] {
            assert_eq!(text.parse::<Target>().expect(text).to_string(), canonical);
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "",
            "cpu:",
            "cpu:x",
            "cpu:02",
            "pid:-1",
            "cgroup:a",
            "cgroup:/a/../b",
            "cgroup:",
            "unit:a/b",
            "unit:",
            "unit:.service",
            "eth0/context-0",
            "a:b",
            "eth0/",
            "eth0/rule-",
            "eth0/irq-",
            "eth0/irq-a b",
            "eth0/irq-a=b",
            "a:b/irq-c",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_renamed_interface_keeps_its_parts() {
        let lan = "lan0".parse().expect("a name");
        for (before, after) in [
            ("eth0", "lan0"),
            ("eth0/rx-1", "lan0/rx-1"),
            ("eth0/irq-eth0", "lan0/irq-eth0"),
            ("pid:1", "pid:1"),
        ] {
            let target: Target = before.parse().expect(before);
            assert_eq!(target.of_nic(&lan).to_string(), after);
            assert_eq!(target.lasting(), target.of_nic(&lan).lasting());
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_target_that_reads_back_or_an_error(text in "([a-z]{1,3}/irq-)?[a-z:/0-9 =-]{0,20}") {
            if let Ok(target) = text.parse::<Target>() {
                prop_assert_eq!(target.to_string().parse::<Target>(), Ok(target));
            }
        }
    }
}
