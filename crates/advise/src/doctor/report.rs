//! The report of the doctor as a value, and its next commands.

use serde::{Deserialize, Serialize};

use super::{CpusLeftOut, ReceivePath};
use crate::diagnose::regime::Regime;
use crate::diagnose::{Finding, ThreadRoom};
use crate::family::{Family, PlanName};
use crate::plan::Proposal;
use rxlab_base::grammar::sh;
use rxlab_base::number::count;
use rxlab_base::units::{CpuId, NicName};
use rxlab_path::evidence::{Headroom, TRAFFIC};
use rxlab_path::ledger::Ledger;
use rxlab_path::model::{Identity, Model, Nic};
use rxlab_setting::{PlannedSetting, Risk};

/// All results of one sample of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DoctorReport {
    /// `rxlab.findings/2`.
    pub schema: String,
    /// The machine.
    pub identity: Identity,
    /// Length of the sample in seconds.
    pub seconds: f64,
    /// End of the sample, in UTC; `None` in reports of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<String>,
    /// True if the machine was read from a snapshot or a recording.
    #[serde(default)]
    pub recorded: bool,
    /// Load of the machine.
    pub load: Load,
    /// Effect of the last applied change; `None` without a change that recorded the state before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Since>,
    /// Most severe first; empty = nothing to do.
    pub findings: Vec<Finding>,
    /// Receive paths of the interfaces with findings.
    pub paths: Vec<ReceivePath>,
    /// Possible gain, and the settings worth a trial; `None` without traffic.
    #[serde(default)]
    pub regime: Option<Regime>,
    /// Plans that findings refer to and that would change something.
    pub plans: Vec<Proposal>,
    /// Command that searches for the best setting on live traffic, where settings are worth a trial and no finding has a
    /// plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tune: Option<String>,
    /// CPUs that masks of these plans leave out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<CpusLeftOut>,
    /// Reason for no verdict on steering, if there is none: the absence of findings then proves nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Where packets arrive, if the interfaces of this network namespace receive hardly any of the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<Elsewhere>,
    /// Remarks, such as plans that were not made.
    pub notes: Vec<String>,
    /// Sources that were missing or broken, and what is unknown as a result.
    pub gaps: Vec<String>,
}

/// Receive load of the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Load {
    /// The CPU with the most receive time; `None` if CPU times are unknown.
    pub busiest: Option<CpuId>,
    /// Its receive time, as a fraction of wall time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_time: Option<f64>,
    /// Use of each CPU; empty if CPU times are unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<CpuUse>,
    /// Accuracy of the receive time: `exact`, `tick-sampled`, `accuracy unknown`.
    pub tier: String,
    /// Packets per second that interfaces other than `lo` receive, without those that count again what others received.
    #[serde(default)]
    pub received: f64,
    /// Packets per second that went up the stack on all CPUs, again in each VLAN, bond and bridge; `None` if they are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<f64>,
    /// Packets and connections lost per second: `per_second` of the ledger.
    pub dropped: f64,
    /// Losses from the wire to the program, and what was not read of them.
    #[serde(default = "Ledger::unasked")]
    pub ledger: Ledger,
    /// Capacity as a multiple of today's load; `None` if CPU times are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headroom: Option<Headroom>,
    /// Interfaces whose receive work is not included, because threads do it whose time is not visible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<NicName>,
    /// Limit that the host or the link sets to the traffic of the device that receives most, in words. Until it is lifted, nothing
    /// here makes room for more packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_limit: Option<String>,
    /// Headroom of the program whose one thread is saturated, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadRoom>,
}

/// Multiple of what interfaces receive from which the stack counts other packets as well, or the same again.
const AGAIN: f64 = 1.1;

impl Load {
    /// `6,239 packets/s`; `in the stack` if it counts far more than the interfaces.
    pub fn packets_in_words(&self) -> Option<String> {
        let packets = self.packets?;
        Some(format!("{} packets/s{}", count(packets), place_of(packets, self.received)))
    }
}

/// ` in the stack` for packets/s of CPUs that are far more than the interfaces receive.
pub(crate) fn place_of(packets: f64, received: f64) -> &'static str {
    if packets >= (received * AGAIN).max(received + TRAFFIC) { " in the stack" } else { "" }
}

/// Use of a CPU, as fractions of wall time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuUse {
    /// The CPU.
    pub cpu: CpuId,
    /// Receive time, without hard interrupts.
    pub receive: f64,
    /// Time in which it was not idle.
    pub busy: f64,
}

/// Packets that arrive in another network namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Elsewhere {
    /// Packets per second of the machine that no interface of this namespace receives.
    pub packets: f64,
    /// The network namespace and the interface that receive most, if they were found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Command that examines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Receive work before an applied change, and in this sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Since {
    /// The transaction.
    pub transaction: String,
    /// Purpose of the transaction, such as `apply rps`.
    pub what: String,
    /// Seconds since it began.
    pub seconds: f64,
    /// The CPU that the change takes work from.
    pub cpu: CpuId,
    /// Receive time of that CPU before, as a fraction of wall time.
    pub receive_before: f64,
    /// The same in this sample.
    pub receive: f64,
    /// Packets per second of its interfaces before.
    pub packets_before: f64,
    /// The same in this sample.
    pub packets: f64,
}

impl Since {
    /// ``since `apply rps` 12 min ago: CPU 2: 98 -> 49 % receiving; 9,559 -> 10,972 packets/s``.
    pub fn in_words(&self) -> String {
        let age = match self.seconds {
            seconds if seconds < 120.0 => format!("{seconds:.0} s"),
            seconds if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
            seconds => format!("{:.0} h", seconds / 3600.0),
        };
        format!(
            "since `{}` {age} ago: CPU {}: {:.0} -> {:.0} % receiving; {} -> {} packets/s",
            self.what,
            self.cpu,
            self.receive_before * 100.0,
            self.receive * 100.0,
            count(self.packets_before),
            count(self.packets)
        )
    }
}

impl DoctorReport {
    pub const SCHEMA: &'static str = "rxlab.findings/2";

    /// True if one of the plans is for a finding.
    pub fn has_plan(&self, finding: &Finding) -> bool {
        self.plans.iter().any(|proposal| proposal.addresses(finding))
    }

    /// True if the search on live traffic tries settings of this family.
    fn searches(&self, family: Family) -> bool {
        let is_searched = matches!(family, Family::Rps | Family::Rfs | Family::IrqPlacement);
        let mut worth = self.regime.iter().flat_map(|regime| &regime.knobs).filter(|gain| gain.trial);
        is_searched && worth.any(|gain| gain.knob == family)
    }

    /// True if the search on live traffic tries what a plan sets: it tries nothing that stops traffic, and nothing on two
    /// interfaces at once.
    fn covers(&self, proposal: &Proposal) -> bool {
        let families = proposal.name().into_iter().flat_map(|name| name.parts().to_vec());
        let mut families = families.map(PlanName::family);
        let is_safe = |planned: &PlannedSetting| {
            planned.set.target.nic().is_none_or(|nic| *nic == proposal.nic)
                && planned.risk.is_none_or(|risk| risk == Risk::Safe)
        };
        families.all(|family| family.is_some_and(|family| self.searches(family)))
            && proposal.plan.settings.iter().all(is_safe)
    }

    /// True if the next command of a plan tries it: it names the plan or each of its settings, or is the search, which tries the
    /// families that are worth a trial.
    #[cfg(any(test, feature = "testing"))]
    pub fn tries(&self, proposal: &Proposal) -> bool {
        let next = proposal.next.as_deref().unwrap_or_default();
        if next == format!("rxlab tune --nic {}", proposal.nic) {
            let worth = || self.regime.iter().flat_map(|regime| &regime.knobs).filter(|gain| gain.trial);
            let families = proposal.name().into_iter().flat_map(|name| name.parts().to_vec());
            let mut families = families.map(PlanName::family);
            return families.all(|family| worth().any(|gain| Some(gain.knob) == family));
        }
        let is_set = |planned: &PlannedSetting| next.contains(&planned.set.to_string());
        next.contains(&format!(" plan {} ", proposal.plan.name)) || proposal.plan.settings.iter().all(is_set)
    }

    /// Names the search as the next command of every plan that it covers: how many CPUs are best, and which, depends on what a
    /// packet costs. `program` begins the command.
    pub(super) fn prefer_search(&mut self, program: &str) {
        if program.is_empty() {
            return;
        }
        let search = |nic: &NicName| format!("{program} tune --nic {}", sh::word(nic.as_str()));
        let covered: Vec<bool> = self.plans.iter().map(|proposal| self.covers(proposal)).collect();
        for (proposal, _) in self.plans.iter_mut().zip(covered).filter(|(_, is_covered)| *is_covered) {
            proposal.next = Some(search(&proposal.nic));
        }
        let is_worth_it =
            [Family::Rps, Family::Rfs, Family::IrqPlacement].map(|family| self.searches(family));
        self.tune = (self.plans.is_empty() && is_worth_it.contains(&true)).then(|| format!("{program} tune"));
    }

    /// Keeps what concerns an interface and the devices that carry its packets, with a note that names these.
    pub fn only(&mut self, model: &Model, nic: &Nic) {
        let carriers: Vec<&NicName> = model.carriers(nic).into_iter().map(|carrier| &carrier.name).collect();
        let concerns = |name: &NicName| nic.name == *name || carriers.contains(&name);
        self.findings.retain(|finding| finding.nic.as_ref().is_none_or(concerns));
        self.plans.retain(|proposal| concerns(&proposal.nic));
        self.paths.retain(|path| concerns(&path.nic));
        self.left_out.retain(|left_out| concerns(&left_out.nic));
        if !carriers.is_empty() {
            let names = carriers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            self.notes.insert(0, format!("packets of {} are carried by {names}, included here", nic.name));
        }
    }
}
