//! Who probably changed a value of ours: suspects, each with the evidence that speaks for it.
//!
//! Nothing on a machine says who wrote a file. What can be seen is what has happened since, and what
//! goes about: so nobody is named without evidence, and where nothing speaks for anybody the answer is
//! that it is unknown. One suspect a file; [`SUSPECTS`] is the only list. Reads only.

mod device;
mod hotplug;
mod irqbalance;
mod link;
mod queues;
mod rxlab;
#[cfg(test)]
mod scene;

use std::fmt;

use serde::Serialize;

use crate::host::Host;
use crate::journal::{DeviceThen, Surroundings, Touched};
use crate::knob::Knob;
use crate::model::{Model, Nic};
use crate::plan::Target;

/// Who, or what, changes values behind our back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Culprit {
    /// The device is gone, and its values with it.
    DeviceGone,
    /// The driver made the interface or its queues anew.
    NewQueues,
    /// The link went down and up, or the driver reset the device.
    LinkReset,
    /// CPUs went offline or came online.
    CpuHotplug,
    /// irqbalance moves interrupts.
    Irqbalance,
    /// Another rxlab, with a journal of its own.
    AnotherRxlab,
}

impl fmt::Display for Culprit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Culprit::DeviceGone => "the device is gone",
            Culprit::NewQueues => "new queues created by the driver",
            Culprit::LinkReset => "a link reset",
            Culprit::CpuHotplug => "CPU hotplug",
            Culprit::Irqbalance => "irqbalance",
            Culprit::AnotherRxlab => "another rxlab process",
        })
    }
}

/// How much the evidence says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Likelihood {
    /// Something has happened that does such a thing to such a value.
    Probable,
    /// The value looks like it, or somebody goes about who could have done it; no more.
    Possible,
}

/// Who may have done it, and what speaks for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Suspect {
    /// Who.
    pub who: Culprit,
    /// How much the evidence says.
    pub likelihood: Likelihood,
    /// What was seen, each in a few words; never empty.
    pub evidence: Vec<String>,
}

/// One value that is not what we set, and what there is to know about it.
pub(super) struct Scene<'a> {
    pub(super) host: &'a dyn Host,
    pub(super) model: &'a Model,
    /// The transaction that set it.
    pub(super) id: &'a str,
    pub(super) knob: &'static dyn Knob,
    pub(super) touched: &'a Touched,
    /// By the names of now; `None` when the device is gone.
    pub(super) target: Option<&'a Target>,
    /// `None` when the target is gone.
    pub(super) live: Option<&'a str>,
    /// When the values were set; `None` when nobody wrote it down.
    pub(super) then: Option<&'a Surroundings>,
    pub(super) now: &'a Surroundings,
}

/// Every suspect, those who take most along first.
static SUSPECTS: &[fn(&Scene<'_>) -> Option<Suspect>] =
    &[device::suspect, queues::suspect, link::suspect, hotplug::suspect, irqbalance::suspect, rxlab::suspect];

/// Who probably did it; who possibly did it, when nobody probably did; empty when nothing speaks for
/// anybody.
pub(super) fn suspects(scene: &Scene<'_>) -> Vec<Suspect> {
    let mut all: Vec<Suspect> = SUSPECTS.iter().filter_map(|suspect| suspect(scene)).collect();
    if all.iter().any(|suspect| suspect.likelihood == Likelihood::Probable) {
        all.retain(|suspect| suspect.likelihood == Likelihood::Probable);
    }
    all
}

impl Scene<'_> {
    /// The target's device then and now.
    fn device(&self) -> Option<(&DeviceThen, &DeviceThen)> {
        let address = self.touched.device.as_ref()?;
        Some((self.then?.device(address)?, self.now.device(address)?))
    }

    /// The target's interface.
    fn nic(&self) -> Option<&Nic> {
        self.model.nic(self.target?.nic()?)
    }

    /// Whether the value is the one that a queue or an interrupt made anew has.
    fn is_fresh(&self) -> bool {
        self.live.is_some_and(|live| self.knob.is_fresh(self.host, live))
    }
}

impl Suspect {
    /// `None` without evidence.
    fn of(who: Culprit, probable: bool, evidence: Vec<String>) -> Option<Self> {
        let likelihood = if probable { Likelihood::Probable } else { Likelihood::Possible };
        (!evidence.is_empty()).then_some(Self { who, likelihood, evidence })
    }
}

/// The suspects in words, without a line break: `probably irqbalance: ...; or CPU hotplug: ...`.
pub fn in_words(suspects: &[Suspect]) -> String {
    let Some(first) = suspects.first() else { return "cause unknown".to_owned() };
    let adverb = match first.likelihood {
        Likelihood::Probable => "probably",
        Likelihood::Possible => "possibly",
    };
    let one = |suspect: &Suspect| format!("{}: {}", suspect.who, suspect.evidence.join(", "));
    let all: Vec<String> = suspects.iter().map(one).collect();
    format!("{adverb} {}", all.join("; or "))
}

#[cfg(test)]
mod tests {
    use super::scene::Case;
    use super::{Culprit, Likelihood, in_words};

    #[test]
    fn without_evidence_it_is_unknown() {
        let suspects = Case::new("rps eth0/rx-0 = 2").live("4").suspects();
        assert_eq!(suspects, []);
        assert_eq!(in_words(&suspects), "cause unknown");
    }

    /// A value that only looks like the work of the driver is no match for a link that was seen to go.
    #[test]
    fn the_probable_leave_no_room_for_the_possible() {
        let case = Case::new("irq_affinity eth0/rx-0 = 2").live("0-6");
        let possible = case.suspects();
        assert_eq!(
            possible.iter().map(|suspect| suspect.who).collect::<Vec<_>>(),
            [Culprit::NewQueues, Culprit::CpuHotplug]
        );
        assert!(possible.iter().all(|suspect| suspect.likelihood == Likelihood::Possible));
        let words = in_words(&possible);
        assert!(
            words.starts_with("possibly new queues created by the driver: ")
                && words.contains("; or CPU hotplug: "),
            "{words}"
        );
        let case = Case::new("irq_affinity eth0/rx-0 = 2").live("0-6").downs(2, 3);
        let probable = case.suspects();
        assert_eq!(in_words(&probable), "probably a link reset: eth0 lost its link once since it was set");
    }
}
