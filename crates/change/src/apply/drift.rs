//! Suspects for a changed value of ours, each with the evidence against it.
//!
//! Nothing on a machine records who wrote a file. Only later events and running programs are visible, so
//! no suspect is named without evidence; without any suspect the cause is unknown.
//! Reads only.

#[cfg(test)]
mod scene;
mod suspects;

use serde::{Deserialize, Serialize};
use suspects::SUSPECTS;

use super::locate::is_as_old;
use crate::journal::{DeviceThen, Environment, Touched};
use crate::knob::Knob;
use rxlab_base::display_as;
use rxlab_path::model::{Model, Nic};
use rxlab_setting::Target;
use rxlab_sys::Host;

/// Possible causes of a change we did not make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Culprit {
    /// The device is gone, and its values with it.
    DeviceGone,
    /// The driver recreated the interface or its queues.
    NewQueues,
    /// The link went down and up, or the driver reset the device.
    LinkReset,
    /// CPUs went offline or came online.
    CpuHotplug,
    /// A later transaction wrote a value that replaces or resets this one.
    LaterTransaction,
    /// irqbalance, which moves interrupts.
    Irqbalance,
    /// Another rxlab with its own journal.
    AnotherRxlab,
}

display_as! { Culprit:
    DeviceGone => "the device is gone",
    NewQueues => "new queues created by the driver",
    LinkReset => "a link reset",
    CpuHotplug => "CPU hotplug",
    LaterTransaction => "a later transaction",
    Irqbalance => "irqbalance",
    AnotherRxlab => "another rxlab process",
}

/// Strength of the evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Likelihood {
    /// An event that changes such values this way has happened.
    Probable,
    /// The value matches, or a possible cause is running; no more.
    Possible,
}

/// A possible cause and its evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Suspect {
    pub who: Culprit,
    /// Strength of the evidence.
    pub likelihood: Likelihood,
    /// Observations, each in a few words; never empty.
    pub evidence: Vec<String>,
}

/// A value that differs from ours, with its context.
pub(super) struct Scene<'a> {
    pub(super) host: &'a dyn Host,
    pub(super) model: &'a Model,
    /// The transaction that set it.
    pub(super) id: &'a str,
    /// When that began, in nanoseconds since boot; `None` if not recorded.
    pub(super) began: Option<u64>,
    pub(super) knob: &'static dyn Knob,
    pub(super) touched: &'a Touched,
    /// By current names; `None` when the device is gone.
    pub(super) target: Option<&'a Target>,
    /// `None` when the target is gone.
    pub(super) live: Option<&'a str>,
    /// The newest write of an open later transaction that may have reset the value, and the transaction's id.
    pub(super) later: Option<(&'a str, &'a Touched)>,
    /// State when the values were set; `None` if not recorded.
    pub(super) then: Option<&'a Environment>,
    pub(super) now: &'a Environment,
}

/// Probable suspects; the possible ones if there are no probable ones; empty without
/// evidence.
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
        // The address of a virtual interface is a name, which another one may have by now.
        let (then, now) = (self.touched.device.as_ref()?, &self.nic()?.address);
        Some((self.then?.device(then)?, self.now.device(now)?))
    }

    fn nic(&self) -> Option<&Nic> {
        self.model.nic(self.target?.nic()?)
    }

    /// True if the value is that of a recreated queue, interrupt or thread.
    fn is_fresh(&self) -> bool {
        let is_old = |target| is_as_old(self.knob, self.knob.site(self.host, self.model, target), self.began);
        self.live.is_some_and(|live| self.knob.is_fresh(self.host, live)) && !self.target.is_some_and(is_old)
    }
}

impl Suspect {
    /// A suspect; `None` without evidence.
    fn from_evidence(who: Culprit, probable: bool, evidence: Vec<String>) -> Option<Self> {
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
    let all: Vec<String> =
        suspects.iter().map(|suspect| format!("{}: {}", suspect.who, suspect.evidence.join(", "))).collect();
    format!("{adverb} {}", all.join("; or "))
}

#[cfg(test)]
mod tests {
    use super::in_words;
    use super::scene::Case;

    #[test]
    fn without_evidence_it_is_unknown() {
        let suspects = Case::new("rps eth0/rx-0 = 2").live("4").suspects();
        assert_eq!(suspects, []);
        assert_eq!(in_words(&suspects), "cause unknown");
    }

    /// A value that only matches the driver's default is weaker than an observed link loss.
    #[test]
    fn the_probable_leave_no_room_for_the_possible() {
        let case = Case::new("irq_affinity eth0/rx-0 = 2").live("0-6");
        let possible = "possibly new queues created by the driver: 0-6 is the value of a new queue; \
                        or CPU hotplug: all online CPUs, as the kernel sets when the last CPU of a value goes offline";
        assert_eq!(in_words(&case.suspects()), possible);
        let probable = case.downs(2, 3).suspects();
        assert_eq!(in_words(&probable), "probably a link reset: eth0 lost its link once since it was set");
    }
}
