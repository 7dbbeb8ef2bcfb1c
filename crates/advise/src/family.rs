//! Families of settings, and the plans that set them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::plan::{Policy, Variable};
use rxlab_base::serde_as_text;

/// A family of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// A virtual function of the NIC instead of a paravirtual device.
    VirtualFunction,
    /// Interrupt moderation.
    Moderation,
    /// An even RSS table.
    Rss,
    /// More receive queues.
    Queues,
    /// Assignment of interrupts to CPUs.
    IrqPlacement,
    /// Receive packet steering.
    Rps,
    /// Receive flow steering.
    Rfs,
}

impl Family {
    /// Every family. Of equals, those that remove work come before those that move it, and of the latter hardware before
    /// software: field case C gained in this order, 95k to 120k by a virtual function, 250k by moderation, 670k by RPS.
    pub const ALL: [Family; 7] = [
        Family::VirtualFunction,
        Family::Moderation,
        Family::Rss,
        Family::Queues,
        Family::IrqPlacement,
        Family::Rps,
        Family::Rfs,
    ];

    /// The family's name in text.
    pub fn name(self) -> &'static str {
        match self {
            Family::VirtualFunction => "VF",
            Family::Moderation => "moderation",
            Family::Rss => "even RSS table",
            Family::Queues => "more queues",
            Family::IrqPlacement => "IRQ pinning",
            Family::Rps => "RPS",
            Family::Rfs => "RFS",
        }
    }
}

/// A plan that the doctor may offer. Its text is the name that `rxlab plan` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub enum PlanName {
    /// Interrupts are delayed adaptively.
    Moderation,
    /// The RSS table leads to all queues alike.
    EvenTable,
    /// As many queues as are of use.
    MoreQueues,
    /// Interrupts come to the node of their device.
    NearIrqs,
    /// Busy queues whose interrupts share a CPU get one each.
    SeparateIrqs,
    /// Interrupts leave isolated CPUs.
    IsolateIrqs,
    /// Fewer queues, where the other CPUs have no vectors left for interrupts that leave isolated CPUs.
    IsolateQueues,
    /// RPS is switched off where every CPU has a queue.
    RpsOff,
    /// Masks of RPS.
    Rps,
    /// Tables of RFS.
    Rfs,
    /// Both.
    RpsAndRfs,
}

impl PlanName {
    /// Every plan, in the order to try those that reset no link.
    pub const ALL: [PlanName; 11] = [
        PlanName::Moderation,
        PlanName::EvenTable,
        PlanName::MoreQueues,
        PlanName::NearIrqs,
        PlanName::SeparateIrqs,
        PlanName::IsolateIrqs,
        PlanName::IsolateQueues,
        PlanName::RpsOff,
        PlanName::Rps,
        PlanName::Rfs,
        PlanName::RpsAndRfs,
    ];

    /// The family that it is a gain of; `None` if it makes room for something other than packets, or is of two.
    pub fn family(self) -> Option<Family> {
        match self {
            PlanName::Moderation => Some(Family::Moderation),
            PlanName::EvenTable => Some(Family::Rss),
            PlanName::MoreQueues => Some(Family::Queues),
            PlanName::NearIrqs | PlanName::SeparateIrqs => Some(Family::IrqPlacement),
            PlanName::Rps | PlanName::RpsOff => Some(Family::Rps),
            PlanName::Rfs => Some(Family::Rfs),
            PlanName::IsolateIrqs | PlanName::IsolateQueues | PlanName::RpsAndRfs => None,
        }
    }

    /// The plans that it consists of.
    pub fn parts(&self) -> &[PlanName] {
        match self {
            PlanName::RpsAndRfs => &[PlanName::Rps, PlanName::Rfs],
            one => std::slice::from_ref(one),
        }
    }

    /// The policy that makes it, and the variable; `None` if the spreading planner does.
    pub fn policy(self) -> Option<(Policy, Variable)> {
        match self {
            PlanName::Moderation => Some((Policy::Full, Variable::Moderation)),
            PlanName::EvenTable => Some((Policy::Full, Variable::Rss)),
            PlanName::MoreQueues => Some((Policy::Full, Variable::Channels)),
            PlanName::NearIrqs => Some((Policy::NumaLocal, Variable::Irq)),
            PlanName::SeparateIrqs => Some((Policy::Spread, Variable::Irq)),
            PlanName::IsolateIrqs => Some((Policy::Isolate, Variable::Irq)),
            PlanName::IsolateQueues => Some((Policy::Isolate, Variable::Channels)),
            PlanName::RpsOff => Some((Policy::Minimal, Variable::Rps)),
            PlanName::Rps | PlanName::Rfs | PlanName::RpsAndRfs => None,
        }
    }
}

impl fmt::Display for PlanName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.policy(), self) {
            (Some((policy, variable)), _) => f.pad(&format!("{policy}.{variable}")),
            (None, PlanName::Rps) => f.pad("rps"),
            (None, PlanName::Rfs) => f.pad("rfs"),
            (None, _) => f.pad("rps+rfs"),
        }
    }
}

impl FromStr for PlanName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = PlanName::ALL.into_iter().find(|name| name.to_string() == text);
        found.ok_or_else(|| format!("the doctor has no plan `{text}`"))
    }
}

serde_as_text!(PlanName);

#[cfg(test)]
mod tests {
    use super::PlanName;

    #[test]
    fn each_plan_is_named_as_the_command_takes_it() {
        let names = PlanName::ALL.map(|name| name.to_string()).join(" ");
        assert_eq!(
            names,
            "full.moderation full.rss full.channels numa-local.irq spread.irq isolate.irq isolate.channels minimal.rps rps \
             rfs rps+rfs"
        );
        for name in PlanName::ALL {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        assert_eq!("RPS".parse::<PlanName>(), Err("the doctor has no plan `RPS`".to_owned()));
    }
}
