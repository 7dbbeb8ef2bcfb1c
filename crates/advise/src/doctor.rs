//! Findings, plans that address them, and the figures behind a clean result, as one value.

mod alerts;
mod left_out;
mod path;
mod queues;

use serde::{Deserialize, Serialize};

pub use alerts::{Alert, Alerts, Change};
pub use left_out::CpusLeftOut;

pub use path::{ReceivePath, busiest_paths};
pub use queues::{NicQueues, QueuePath};

use crate::decision::Decisions;
use crate::diagnose::regime::{Regime, regime};
use crate::diagnose::{Finding, Severity, ThreadRoom, diagnose, host_limit, is_about_a_hot_cpu, thread_room};
use crate::family::{Family, PlanName};
use crate::plan::Proposal;
use rxlab_base::grammar::sh;
use rxlab_base::number::{count, percent};
use rxlab_base::units::{CpuId, NicName};
use rxlab_path::evidence::{
    Headroom, TRAFFIC, busy, headroom, loopback_share, receive_time, received, through_lo, tier,
};
use rxlab_path::ledger::Ledger;
use rxlab_path::model::{Identity, Model, Nic, NicKind, Rates};
use rxlab_setting::{Plan, PlannedSetting, Risk};

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
    /// Packets per second that interfaces other than `lo` receive.
    #[serde(default)]
    pub received: f64,
    /// Packets per second that went up the stack on all CPUs; `None` if they are not counted.
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
    /// Limit that the host sets to the traffic of an interface, in words. Until it is lifted, nothing here makes room for more
    /// packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_limit: Option<String>,
    /// Headroom of the program whose one thread is saturated, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadRoom>,
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
    /// ``since `apply rps` 12 min ago: CPU 2 98 -> 49 % receiving, 9,559 -> 10,972 packets/s``.
    pub fn in_words(&self) -> String {
        let age = match self.seconds {
            seconds if seconds < 120.0 => format!("{seconds:.0} s"),
            seconds if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
            seconds => format!("{:.0} h", seconds / 3600.0),
        };
        format!(
            "since `{}` {age} ago: CPU {} {:.0} -> {:.0} % receiving, {} -> {} packets/s",
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
    /// The schema of this version.
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
    fn prefer_search(&mut self, program: &str) {
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

/// Diagnoses a machine and plans changes, only for interfaces with a finding that needs a plan. `program` begins the
/// commands that try them: `rxlab` with its global options; empty = no commands.
pub fn doctor(model: &Model, rates: &Rates, program: &str) -> DoctorReport {
    let (mut findings, mut decisions) = (diagnose(model, rates), Decisions::new(model, rates));
    let regime = regime(model, rates, &findings, &mut decisions);
    regime.iter().for_each(|regime| rank(&mut findings, regime));
    let (mut plans, mut notes): (Vec<Proposal>, Vec<String>) = (Vec::new(), Vec::new());
    for nic in concerned(&findings) {
        let is_asked = |name: &PlanName| findings.iter().any(|finding| finding.asks(nic, *name));
        let asked = PlanName::ALL.into_iter().filter(|name| name.parts().iter().all(is_asked));
        let asked: Vec<PlanName> = asked.collect();
        if !asked.is_empty() {
            plans.extend(asked.iter().filter_map(|name| decisions.of(nic, *name).proposal(program)));
            notes.extend(decisions.unplanned(nic).iter().map(|reason| format!("not planned: {reason}")));
        }
    }
    plans.sort_by_key(|proposal| resets_link(&proposal.plan));
    for finding in &mut findings {
        settle(finding, &plans, &mut decisions);
    }
    // A plan that helps no finding is none.
    plans.retain(|made| {
        let is_asked = |part: &PlanName| findings.iter().any(|finding| finding.asks(&made.nic, *part));
        made.name().is_some_and(|name| name.parts().iter().all(is_asked))
    });
    let paths = concerned(&findings).into_iter().filter_map(|name| model.nic(name));
    let refused = refused(model, rates);
    let mut report = DoctorReport {
        schema: DoctorReport::SCHEMA.to_owned(),
        identity: model.identity.clone(),
        seconds: rates.seconds,
        taken: None,
        recorded: false,
        load: load(model, rates),
        since: None,
        regime,
        paths: paths.map(|nic| ReceivePath::new(nic, model, rates)).collect(),
        findings,
        left_out: left_out::of_plans(model, rates, &plans),
        plans,
        tune: None,
        elsewhere: elsewhere(model, rates, refused.is_some()),
        refused,
        notes,
        gaps: rates.gaps.clone(),
    };
    report.prefer_search(program);
    report
}

/// True if a plan resets a link: of several, it is tried last.
fn resets_link(plan: &Plan) -> bool {
    plan.settings.iter().any(|planned| planned.risk == Some(Risk::LinkReset))
}

/// Keeps the plans of a finding that are proposed, in the order of the proposals, without those that leave its hot CPU as hot
/// by their own prediction. A note that is left without plans asks for nothing, and says why.
fn settle(finding: &mut Finding, proposals: &[Proposal], decisions: &mut Decisions<'_>) {
    let Some(nic) = &finding.nic else { return };
    let hot = finding.cpu.filter(|_| is_about_a_hot_cpu(finding));
    let own = proposals.iter().filter(|made| made.addresses(finding));
    let helps = own.filter(|made| hot.is_none_or(|cpu| cools(&made.plan, cpu)));
    let plans: Vec<PlanName> = helps.filter_map(Proposal::name).collect();
    if plans.is_empty() && finding.severity == Severity::Note {
        let mut asked = finding.plans.iter();
        let why_not = asked.find_map(|name| decisions.of(nic, *name).why_not().map(str::to_owned));
        finding.remedy +=
            &why_not.map(|why| format!("; rxlab has no plan for it ({why})")).unwrap_or_default();
    }
    finding.plans = plans;
}

/// Receive time of a CPU that a prediction has to take away to count.
const COOLER: f64 = 0.01;

/// True if a plan may make a CPU cooler, or does not say.
fn cools(plan: &Plan, cpu: CpuId) -> bool {
    let predicted =
        plan.prediction.as_ref().and_then(|prediction| prediction.cpus.iter().find(|load| load.cpu == cpu));
    predicted.is_none_or(|load| load.range.map_or(load.after, |[least, _]| least) <= load.before - COOLER)
}

/// Findings that RPS would remedy on the hottest CPU get the plans that are worth a trial before it.
fn rank(findings: &mut [Finding], regime: &Regime) {
    let hot = regime.cpus.first().map(|cpu| cpu.cpu);
    let ranked = regime.knobs.iter().filter_map(|gain| gain.plan);
    let first: Vec<PlanName> =
        ranked.filter(|name| !matches!(name.family(), Some(Family::Rps | Family::Rfs))).collect();
    for finding in findings.iter_mut().filter(|finding| finding.cpu == hot) {
        if finding.plans.contains(&PlanName::Rps) {
            finding.plans.retain(|plan| !first.contains(plan));
            finding.plans.splice(0..0, first.iter().copied());
        }
    }
}

/// Reason for no verdict on steering: receive time is not visible, or is the sender's.
fn refused(model: &Model, rates: &Rates) -> Option<String> {
    if let Some(why) = &rates.masked {
        return Some(format!("CPU times are unknown: {why}"));
    }
    let unseen = rates.unseen.first();
    let unseen =
        unseen.map(|nic| format!("packets of {nic} are received by threads whose time is not visible"));
    unseen.or_else(|| {
        let share = percent(loopback_share(model, rates)?);
        Some(format!(
            "{share} of the packets are on lo, which receives inside the sender's system call, and no device accounts \
             for the busiest CPU"
        ))
    })
}

/// Packets per second that go up the stack, and neither an interface of this namespace nor `lo` receives.
fn elsewhere(model: &Model, rates: &Rates, is_refused: bool) -> Option<Elsewhere> {
    let all: f64 = rates.cpus.iter().map(|cpu| cpu.packets).sum();
    let here = received(model, rates);
    let packets = all - here - through_lo(model, rates);
    (!is_refused && here < TRAFFIC && packets >= TRAFFIC).then_some(Elsewhere {
        packets,
        place: None,
        next: None,
    })
}

/// The interfaces that findings name, in order of appearance.
fn concerned(findings: &[Finding]) -> Vec<&NicName> {
    let mut names: Vec<&NicName> = Vec::new();
    for name in findings.iter().filter_map(|finding| finding.nic.as_ref()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn load(model: &Model, rates: &Rates) -> Load {
    let busiest = rates.cpus.iter().max_by(|a, b| receive_time(a).total_cmp(&receive_time(b)));
    let is_counted = !rates.uncounted && busiest.is_some();
    let ledger = Ledger::new(model, rates);
    Load {
        busiest: busiest.map(|cpu| cpu.cpu),
        receive_time: busiest.map(receive_time),
        cpus: rates
            .cpus
            .iter()
            .map(|cpu| CpuUse {
                cpu: cpu.cpu,
                receive: receive_time(cpu),
                busy: busy(cpu).max(receive_time(cpu)),
            })
            .collect(),
        tier: tier(rates).to_owned(),
        received: received(model, rates),
        packets: is_counted.then(|| rates.cpus.iter().map(|cpu| cpu.packets).sum()),
        dropped: ledger.per_second,
        ledger,
        headroom: busiest.map(|_| headroom(rates)),
        unseen: rates.unseen.clone(),
        host_limit: model
            .nics
            .iter()
            .filter(|nic| nic.kind == NicKind::Device)
            .find_map(|nic| host_limit(rates, nic)),
        thread: thread_room(model, rates),
    }
}

#[cfg(any(test, feature = "testing"))]
pub fn diagnosed(sketch: rxlab_path::sketch::Sketch) -> DoctorReport {
    let (model, rates) = sketch.build();
    doctor(&model, &rates, "rxlab")
}

#[cfg(test)]
mod tests {
    use super::{DoctorReport, PlanName, diagnosed, doctor, settle};
    use crate::decision::Decisions;
    use crate::family::Family;
    use crate::plan::{Options, Policy, spread};
    use rxlab_path::model::{Fact, Function};
    use rxlab_path::sketch::Sketch;
    use rxlab_setting::Plan;

    fn plans(report: &DoctorReport) -> Vec<&str> {
        report.plans.iter().map(|proposal| proposal.plan.name.as_str()).collect()
    }

    fn settings(plan: &Plan) -> Vec<String> {
        plan.settings.iter().map(|planned| planned.set.to_string()).collect()
    }

    #[test]
    fn plans_come_from_findings_only() {
        assert_eq!(plans(&diagnosed(Sketch::case_a())), ["rps", "rfs", "rps+rfs"]);
        assert_eq!(plans(&diagnosed(Sketch::new(8).device("eth0", &[2]))), Vec::<&str>::new());
        let spread = |sketch: Sketch, cpu| sketch.receives(cpu, if cpu == 2 { 0.45 } else { 0.3 }, 5e3);
        let only_rps = (0..8).fold(Sketch::new(8).device("eth0", &[2]).traffic("eth0", 4e4), spread);
        assert_eq!(plans(&diagnosed(only_rps.rps("eth0", "0-7"))), ["rps"], "RFS was not asked for");
    }

    #[test]
    fn a_search_is_the_answer_where_a_plan_hands_packets_over() {
        let to_tune = |sketch| {
            let report = diagnosed(sketch);
            report.plans.into_iter().next().and_then(|first| first.next).or(report.tune)
        };
        assert_eq!(to_tune(Sketch::case_a()).as_deref(), Some("rxlab tune --nic eth0"));
        let next = diagnosed(Sketch::case_a()).plans.into_iter().filter_map(|plan| plan.next);
        assert_eq!(next.collect::<Vec<_>>(), ["rxlab tune --nic eth0"; 3], "one command tries all of them");
        assert_eq!(to_tune(Sketch::new(8).device("eth0", &[2])), None, "no traffic");
        let cheap = Sketch::new(8).device("eth0", &[0]).traffic("eth0", 4e4).receives(0, 0.05, 4e4);
        assert_eq!(to_tune(cheap), None, "receive work cannot matter");
        let two = Sketch::new(64).device("eth0", &[0, 1]).queue_traffic("eth0", &[2e5; 2]);
        let two = two.driver("eth0", "virtio_net").queues_at_most("eth0", 32).all_receive("0-1", 0.95, 2e5);
        let report = diagnosed(two);
        let next = "rxlab trial run --set 'channels eth0 = combined 32' --live --nic eth0";
        assert_eq!(report.plans[0].next.as_deref(), Some(next), "a search does not stop traffic");
        assert_eq!(report.tune, None);
    }

    /// The plan that `gain` ranks first must be offered first.
    fn first(report: &DoctorReport) -> (&str, String) {
        let regime = report.regime.as_ref().expect("there is traffic");
        let plan = &report.plans.first().expect("there is a plan").plan;
        let best = regime.knobs.first().filter(|worth| worth.trial).map(|worth| worth.knob);
        let name: PlanName = plan.name.parse().expect("a plan of the doctor");
        assert_eq!((best, report.findings[0].plans[0]), (name.family(), name), "{regime:?}");
        (&plan.name, settings(plan).join(", "))
    }

    #[test]
    fn interrupts_on_isolated_cpus_get_a_plan_that_moves_them() {
        let host = Sketch::new(8).device("eth0", &[1, 5]).queue_traffic("eth0", &[2e3; 2]).isolate("4-7");
        let report = diagnosed(host.interrupts("eth0", 1.5e3).works(5, 0.9));
        assert_eq!(plans(&report), ["isolate.irq"], "{:?}", report.findings);
        let settings = settings(&report.plans[0].plan);
        assert_eq!(settings.len(), 1, "rx-0 stays: {settings:?}");
        let cpu = settings[0].strip_prefix("irq_affinity eth0/rx-1 = ").expect("of rx-1");
        assert!(["0", "2", "3"].contains(&cpu), "{settings:?}");
    }

    /// RPS was once offered first, and nothing at all where every CPU takes some interrupt.
    #[test]
    fn one_of_two_busy_queues_on_a_cpu_moves_first() {
        let free = || {
            let sketch = Sketch::new(8).device("eth0", &[2, 2]).queue_traffic("eth0", &[1.7e5; 2]);
            sketch.receives(2, 0.92, 3.4e5)
        };
        let moves = ("spread.irq", "irq_affinity eth0/rx-1 = 0".to_owned());
        let report = diagnosed(free());
        assert_eq!(first(&report), moves);
        assert_eq!(report.plans[0].next.as_deref(), Some("rxlab tune --nic eth0"));
        assert_eq!(plans(&report), ["spread.irq", "rps", "rfs", "rps+rfs"]);
        assert_eq!(
            first(&diagnosed(free().queues_at_most("eth0", 8))),
            moves,
            "those that there are come first"
        );
        let quiet = Sketch::new(8).device("eth0", &[2, 2, 0, 1, 3, 4, 5, 6, 7]);
        let packets = [1.7e5, 1.7e5, 4e3, 4e3, 4e3, 4e3, 2e3, 4e3, 4e3];
        let quiet =
            quiet.queue_traffic("eth0", &packets).each("0-1,3-7", |host, cpu| host.receives(cpu, 0.02, 4e3));
        let report = diagnosed(quiet.receives(2, 0.92, 3.4e5));
        assert_eq!(first(&report), ("spread.irq", "irq_affinity eth0/rx-1 = 5".to_owned()));
        let shared = report.findings.iter().find(|finding| finding.id == "queues-share-a-cpu");
        assert_eq!(shared.map(|finding| finding.plans.clone()), Some(vec![PlanName::SeparateIrqs]));
    }

    /// RPS to the node of the interrupts once came first, and their own node was never planned.
    #[test]
    fn interrupts_come_to_their_node_before_their_packets_are_handed_on() {
        let sketch = Sketch::new(16).nodes(2).device("eth0", &[0, 1]).queue_traffic("eth0", &[2e5; 2]);
        let far = sketch.on_node("eth0", 1).all_receive("0-1", 0.75, 2e5);
        let near = ("numa-local.irq", "irq_affinity eth0/rx-0 = 8, irq_affinity eth0/rx-1 = 12".to_owned());
        assert_eq!(first(&diagnosed(far)), near);
    }

    /// It once counted as a finding, and nothing could be planned.
    #[test]
    fn a_note_whose_plan_changes_nothing_asks_for_nothing() {
        let far = |readable: bool| {
            let sketch =
                Sketch::new(16).nodes(2).device("eth0", &[0]).traffic("eth0", 4e4).on_node("eth0", 1);
            let sketch = sketch.receives(0, 0.3, 4e4).edit("eth0", |nic| {
                if !readable {
                    nic.rx[0].irqs[0].affinity = Fact::Unsupported;
                }
            });
            let mut findings = diagnosed(sketch).findings;
            findings.retain(|finding| finding.id == "irq-on-wrong-node");
            findings.pop().expect("it is on the other node")
        };
        assert_eq!(far(true).plans, [PlanName::NearIrqs]);
        let fixed = far(false);
        assert!(!fixed.needs_attention() && fixed.remedy.contains("cannot be read)"), "{fixed:?}");
    }

    /// A virtual function once came first, and the first plan was another.
    #[test]
    fn what_no_plan_sets_comes_last() {
        let sketch = Sketch::case_a().driven_by("eth0", "xen_netfront", Function::Paravirtual);
        let report = diagnosed(sketch);
        assert_eq!(first(&report).0, "rps");
        let regime = report.regime.expect("there is traffic");
        assert!(regime.summary.ends_with("then VF by hand, in this order"), "{}", regime.summary);
    }

    #[test]
    fn an_even_table_comes_first_where_it_leaves_queues_out() {
        let sketch =
            Sketch::new(8).device("eth0", &[0, 1, 2, 3]).queue_traffic("eth0", &[3e5, 9e4, 0.0, 0.0]);
        let report = diagnosed(sketch.table("eth0", &[0, 1].repeat(64)).receives(0, 0.92, 3e5));
        assert_eq!(first(&report), ("full.rss", "rss eth0 = default".to_owned()));
    }

    /// Two equal queues: the finding named the CPU of one, the gain that of the other, and more queues were not offered.
    #[test]
    fn equal_cpus_are_named_alike() {
        let sketch = Sketch::new(8).device("eth0", &[0, 1]).queue_traffic("eth0", &[1e5; 2]);
        let report = diagnosed(sketch.queues_at_most("eth0", 8).all_receive("0-1", 0.72, 1e5));
        assert_eq!(first(&report), ("full.channels", "channels eth0 = combined 8".to_owned()));
    }

    /// The finding once had no plan.
    #[test]
    fn an_uneven_hash_gets_plans() {
        let host = |table: &[u32]| {
            let packets = [2e4, 2e4, 3e5, 2e4];
            let sketch = Sketch::new(8).device("eth0", &[0, 1, 2, 3]).queue_traffic("eth0", &packets);
            let report = diagnosed(sketch.table("eth0", table).receives(2, 0.72, 3e5));
            let found = report.findings.iter().find(|finding| finding.id == "hash-imbalance");
            (found.expect("it is one").plans.clone(), plans(&report).join(" "))
        };
        let spread = [PlanName::Rps, PlanName::Rfs];
        assert_eq!(host(&[0, 1, 2, 3].repeat(32)), (spread.to_vec(), "rps rfs rps+rfs".to_owned()));
        let uneven = [&[PlanName::EvenTable], spread.as_slice()].concat();
        let planned = "full.rss rps rfs rps+rfs".to_owned();
        assert_eq!(host(&[2, 2, 2, 2, 2, 2, 0, 1, 2, 3].repeat(8)), (uneven, planned));
    }

    /// RPS was once offered first, as each device for itself has a CPU for each queue.
    #[test]
    fn queues_of_two_devices_on_the_same_cpus_move_first() {
        let sketch = Sketch::new(16).device("eth0", &[0, 1, 2, 3]).device("eth1", &[0, 1, 2, 3]);
        let sketch = sketch.traffic("eth0", 8.4e5).traffic("eth1", 8.4e5).queues_at_most("eth0", 16);
        let report = diagnosed(sketch.all_receive("0-3", 0.84, 4.2e5));
        let moved: Vec<String> =
            (0..4).map(|queue| format!("irq_affinity eth1/rx-{queue} = {}", queue + 4)).collect();
        assert_eq!(first(&report), ("spread.irq", moved.join(", ")));
        let regime = report.regime.expect("there is traffic");
        assert_eq!(regime.knobs[0].why, "2 busy queues share CPU 0");
    }

    /// Quiet queues of one device once took all free CPUs, and both busy queues stayed.
    #[test]
    fn a_plan_is_for_all_devices_of_a_crowd() {
        let queues = [1.1e5, 1.3e4, 1.3e4, 1.3e4, 1.3e4, 1.3e4, 1.3e4, 1.3e4];
        let sketch = Sketch::new(8).device("eth0", &[0, 5, 2, 2, 5, 0, 3, 5]).device("eth1", &[0, 0]);
        let sketch = sketch.queue_traffic("eth0", &queues).queue_traffic("eth1", &queues[..2]);
        let sketch = sketch.receives(2, 0.08, 2.6e4).receives(3, 0.04, 1.3e4).receives(5, 0.12, 3.9e4);
        let report = diagnosed(sketch.receives(0, 0.75, 2.46e5));
        let (plan, settings) = first(&report);
        assert_eq!(plan, "spread.irq");
        assert!(settings.contains("irq_affinity eth1/rx-0 = 1"), "{settings}");
        let next = "rxlab plan spread.irq --nic eth0 --nic eth1 -o spread.irq.toml && \
                    rxlab trial run --plan spread.irq.toml --live --nic eth0";
        assert_eq!(report.plans[0].next.as_deref(), Some(next));
    }

    /// Only RPS was once offered to a device with 4 of 32 queues.
    #[test]
    fn more_queues_come_first_where_there_are_more() {
        let queues = |packets: &[f64]| {
            let irqs: Vec<u32> = (0..packets.len() as u32).collect();
            let sketch = Sketch::new(64).device("eth0", &irqs).queue_traffic("eth0", packets);
            (0..).zip(packets).fold(
                sketch.driver("eth0", "virtio_net").queues_at_most("eth0", 32),
                |sketch, (cpu, packets)| sketch.receives(cpu, 0.05 + packets * 4.5e-6, *packets),
            )
        };
        let more = ("full.channels", "channels eth0 = combined 32".to_owned());
        for packets in [&[2e5; 4][..], &[2e5; 1], &[1.9e5, 1.2e5, 2e5]] {
            let report = diagnosed(queues(packets));
            assert_eq!(first(&report), more, "{packets:?}");
            let next = "rxlab trial run --set 'channels eth0 = combined 32' --live --nic eth0";
            assert_eq!(report.plans[0].next.as_deref(), Some(next));
            assert!(plans(&report).contains(&"rps"), "the next to try");
        }
        let elephant = diagnosed(queues(&[2e5, 1e3, 1e3, 1e3]));
        assert_eq!(first(&elephant).0, "rps", "one flow stays on one of many queues");
    }

    /// A trial of more queues was once the first advice for ixgbe, whose link goes down for it.
    #[test]
    fn what_keeps_the_link_comes_first() {
        let sketch = Sketch::new(8).device("eth0", &[0, 1]).queue_traffic("eth0", &[1e5; 2]);
        let sketch = sketch.driver("eth0", "i40e").queues_at_most("eth0", 8);
        let report = diagnosed(sketch.all_receive("0-1", 0.72, 1e5));
        assert_eq!(first(&report).0, "rps");
        assert_eq!(plans(&report).last(), Some(&"full.channels"));
        assert_eq!(report.findings[0].plans, [PlanName::Rps, PlanName::MoreQueues]);
    }

    #[test]
    fn a_plan_that_leaves_the_hot_cpu_hot_is_no_fix() {
        let (model, rates) = Sketch::case_a().build();
        let report = doctor(&model, &rates, "rxlab");
        let fixes = |after: f64, id: &str| {
            let (mut finding, mut proposals) = (report.findings[0].clone(), report.plans.clone());
            finding.id = id.to_owned();
            let rps = proposals.iter_mut().find(|proposal| proposal.plan.name == "rps").expect("planned");
            let prediction = rps.plan.prediction.as_mut().expect("predicted");
            for load in prediction.cpus.iter_mut().filter(|load| load.cpu.0 == 2) {
                (load.after, load.range) = (after, None);
            }
            settle(&mut finding, &proposals, &mut Decisions::new(&model, &rates));
            finding.plans
        };
        assert_eq!(fixes(0.5, "one-core-hotspot"), [PlanName::Rps, PlanName::Rfs]);
        assert_eq!(fixes(0.98, "one-core-hotspot"), [PlanName::Rfs]);
        assert_eq!(fixes(0.98, "rps-mask-crosses-nodes"), [PlanName::Rps, PlanName::Rfs], "not for the load");
    }

    /// mt76: its NAPIs belong to no interface, whose `threaded` is off.
    #[test]
    fn what_threads_receive_is_not_steered() {
        let sketch = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 9e4).polls(3, 0.93);
        let (model, rates) = sketch.receives(3, 0.03, 9e4).receives(0, 0.05, 200.0).build();
        let plan = Policy::Spread.plan(&model, &rates, &Options::default(), None).plan;
        assert_eq!(settings(&plan), [""; 0]);
        let why =
            "rps: kernel threads receive packets of eth0 on CPU 3: RPS does not move them, but their CPUs do";
        assert!(plan.notes.contains(&why.to_owned()), "{:?}", plan.notes);
    }

    /// The table once had "RPS yes" where there was nothing to plan, and "redundant" where there was.
    #[test]
    fn the_table_says_of_rps_what_the_planner_does() {
        let hot = |sketch: Sketch| sketch.traffic("eth0", 3e5).receives(0, 0.95, 3e5);
        let full = || hot(Sketch::new(8).nodes(2).device("eth0", &[0, 1, 2, 3]));
        let rps = |sketch: Sketch| {
            let (model, rates) = sketch.build();
            let report = doctor(&model, &rates, "rxlab");
            let proposals = spread(&model, &rates, None).proposals;
            let planned = proposals.iter().any(|made| made.name() == Some(PlanName::Rps));
            let named = report.findings.iter().any(|finding| finding.plans.contains(&PlanName::Rps));
            assert_eq!(named, planned, "a finding names what is planned: {:?}", report.findings);
            let regime = report.regime.expect("there is traffic");
            let worth =
                regime.knobs.into_iter().find(|worth| worth.knob == Family::Rps).expect("it is judged");
            assert_eq!((worth.trial, regime.summary.contains("RPS")), (planned, planned), "{worth:?}");
            worth.why
        };
        assert!(rps(full()).starts_with("the queues of eth0 are quiet, or"), "{}", rps(full()));
        rps(hot(Sketch::new(8).device("eth0", &[0; 8])));
        rps(hot(Sketch::new(8).device("eth0", &[0])));
        rps(hot(Sketch::new(2).device("eth0", &[0])).isolate("1"));
        rps(hot(Sketch::new(4).device("eth0", &[0, 1, 2, 3])));
        rps(Sketch::case_a().rps("eth0", "0-1,3-7"));
    }

    /// A virtual function below a paravirtual device, which counts the packets of both, and is idle itself.
    fn accelerated() -> Sketch {
        let name = |name: &str| name.parse().expect("a name");
        let sketch = Sketch::case_a().driven_by("eth0", "mlx5_core", Function::Virtual { physical: None });
        sketch
            .device("eth9", &[7])
            .traffic("eth9", 42_000.0)
            .driven_by("eth9", "hv_netvsc", Function::Paravirtual)
            .edit("eth9", |nic| {
                nic.stack.lower = vec![name("eth0")];
                nic.rx[0].irqs.clear();
            })
    }

    #[test]
    fn a_name_means_the_device_and_what_carries_its_packets() {
        let (model, rates) = accelerated().build();
        let nic = model.nic(&"eth9".parse().expect("a name")).expect("there");
        let mut report = doctor(&model, &rates, "rxlab");
        report.only(&model, nic);
        assert!(report.findings.iter().any(|finding| finding.needs_attention()), "{:?}", report.findings);
        assert_eq!(report.notes[0], "packets of eth9 are carried by eth0, included here");
        assert!(!report.plans.is_empty() && report.plans.iter().all(|plan| plan.nic == model.nics[0].name));
        let other = model.nic(&"eth0".parse().expect("a name")).expect("there");
        let count = report.notes.len();
        report.only(&model, other);
        assert_eq!(report.notes.len(), count, "nothing is below it");
    }

    /// Its masks have no effect on packets of the function, and a function that is there is no advice.
    #[test]
    fn nothing_is_planned_for_the_device_above() {
        let (model, rates) = accelerated().build();
        for policy in [Policy::Spread, Policy::Minimal, Policy::Full] {
            let policed = policy.plan(&model, &rates, &Options::default(), None);
            let settings = settings(&policed.plan);
            assert!(settings.iter().all(|set| !set.contains("eth9")), "{policy:?}: {settings:?}");
            assert!(policed.reasons.iter().all(|why| !why.contains("SR-IOV")), "{:?}", policed.reasons);
        }
    }

    #[test]
    fn loopback_traffic_is_named_as_the_reason_for_silence() {
        let report = diagnosed(Sketch::new(2).loopback().traffic("lo", 3e5).receives(0, 0.6, 3e5));
        assert_eq!(report.findings, []);
        let refused = report.refused.expect("no verdict");
        assert!(refused.starts_with("100 % of the packets are on lo"), "{refused}");
        assert_eq!(
            diagnosed(Sketch::case_a().loopback().traffic("lo", 3e5)).refused,
            None,
            "eth0 accounts for it"
        );
    }

    #[test]
    fn json_round_trips() {
        let report = diagnosed(Sketch::case_a());
        let json = serde_json::to_value(&report).expect("a report is a JSON value");
        assert_eq!(json["schema"], "rxlab.findings/2");
        let packets = &json["findings"][0]["evidence"][1];
        assert_eq!(packets["subject"], serde_json::json!({ "cpu": 2 }));
        let figure =
            serde_json::json!({ "name": "packets", "value": 42_000.0, "unit": "packets_per_second" });
        assert_eq!(packets["figures"][0], figure, "{packets}");
        assert_eq!(json["plans"][0]["schema"], "rxlab.plan/1", "each entry is a plan");
        assert_eq!(json["plans"][0]["settings"][0]["set"], "rps eth0/rx-0 = 0-1,3-7");
        assert_eq!(json["plans"][0]["next"], "rxlab tune --nic eth0");
        let again: DoctorReport = serde_json::from_str(&json.to_string()).expect("it reads back");
        // Only figures may change, by their last bit: JSON is decimal.
        assert_eq!(again.findings, report.findings);
        assert_eq!(again.plans[2].plan, report.plans[2].plan);
        assert!(
            (again.load.headroom.expect("kept").machine - report.load.headroom.expect("measured").machine)
                .abs()
                < 1e-9
        );
    }
}
