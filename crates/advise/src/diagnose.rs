//! Findings: problems on the receive path, each with figures, a cause and a remedy.
//!
//! One rule per file; [`RULES`] is the only registry. A rule is a function from a [`Model`] and its
//! [`Rates`] to findings. It never sees a host and does not choose values (`plan` does). A quiet
//! machine gets no finding.

mod elsewhere;
pub mod figures;
mod places;
#[cfg(test)]
mod reference;
pub mod regime;
#[cfg(test)]
pub mod sketch;
#[cfg(test)]
mod table;
mod workload;

mod app_on_irq_cpu;
mod arfs_pointless;
mod arfs_possible;
mod backlog_drops;
mod conntrack_full;
mod costly_packets;
mod deep_idle_states;
mod gro_off;
mod hash_imbalance;
mod interface_drops;
mod interrupt_rate;
mod irq_on_isolated_cpu;
mod irq_on_wrong_node;
mod irqbalance_fights_manual_affinity;
mod limited_by_the_host;
mod limited_elsewhere;
mod listen_overflow;
mod moderation_hurts_latency;
mod not_packets;
mod one_core_hotspot;
mod packets_of_no_device;
mod paravirtual_nic;
mod queues_share_a_cpu;
mod queues_without_default_mask;
mod receive_interference;
mod restricted_process;
mod rfs_half_configured;
mod ring_overruns;
mod rps_mask_contains_irq_cpu;
mod rps_mask_contains_irq_sibling;
mod rps_mask_crosses_nodes;
mod rps_mask_unusable_cpus;
mod rps_masks_overlap;
mod rps_redundant;
mod single_queue_no_rps;
mod single_thread_limit;
mod slow_clocksource;
mod socket_drops;
mod softirq_not_receive;
mod threaded_napi_with_rps;
mod throttled_server;
mod time_squeeze;
mod too_few_queues;
mod tunnel_one_flow;
mod untouched_containers;
mod xdp_before_stack;
mod xps_mismatch;

pub(crate) use deep_idle_states::{DeepIdle, deep_idle};
pub(crate) use hash_imbalance::{is_alone as is_alone_on_its_device, maybe_one_flow};
pub(crate) use interrupt_rate::{INTERRUPTS, is_off as moderation_is_off};
pub(crate) use limited_by_the_host::bound as host_limit;
pub(crate) use places::{Loaded, against_rfs, without_reader};
pub(crate) use queues_share_a_cpu::{crowded_with, crowds};
pub(crate) use rps_redundant::EVEN as EVEN_QUEUES;
use serde::{Deserialize, Serialize, Serializer};
pub(crate) use slow_clocksource::{FAST as FAST_CLOCK, SLOW as SLOW_CLOCKS};
pub(crate) use tunnel_one_flow::one_outer_flow;
pub(crate) use workload::processing;
pub(crate) use xdp_before_stack::before_steering;

use crate::family::PlanName;
use rxlab_base::display_as;
use rxlab_base::units::{CpuId, NicName};
use rxlab_path::model::{Model, Nic, NicKind, Rates};

pub use figures::{Evidence, Figure, Subject, Unit};
pub use single_thread_limit::{ThreadRoom, thread_room};

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; nothing is lost today.
    Note,
    /// Costs throughput or latency under the current load.
    Warning,
    /// A CPU has no headroom left, or packets are being lost.
    Critical,
}

display_as! { Severity:
    Note => "note",
    Warning => "warning",
    Critical => "critical",
}

/// One problem, with the figures that show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Name of the rule, such as `one-core-hotspot`.
    pub id: String,
    /// How much it matters.
    pub severity: Severity,
    /// The interface concerned, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<NicName>,
    /// The CPU concerned, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuId>,
    /// One line with the figure that matters.
    pub title: String,
    /// The figures, with units and the way they were measured.
    pub evidence: Vec<Evidence>,
    /// The cause.
    pub why: String,
    /// The remedy, in words.
    pub remedy: String,
    /// Names of the plans that address it, such as `rps`; empty when no plan does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plans: Vec<PlanName>,
    /// Command that shows more of the cause, if there is one; it changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspect: Option<String>,
}

impl Finding {
    /// True if the finding calls for attention: a note that no plan addresses does not.
    pub fn needs_attention(&self) -> bool {
        self.severity > Severity::Note || !self.plans.is_empty()
    }

    /// True if it refers to a plan for an interface.
    pub fn asks(&self, nic: &NicName, plan: PlanName) -> bool {
        self.nic.as_ref() == Some(nic) && self.plans.contains(&plan)
    }

    /// Its evidence in words.
    pub fn seen(&self) -> Vec<&str> {
        self.evidence.iter().map(|seen| seen.text.as_str()).collect()
    }
}

/// One rule: its question, when it fires, when it stays silent (its false positives), and the check itself.
///
/// A check must stay silent where a figure that it needs is unknown, and must show the figures it judged by as
/// [`Evidence`].
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rule {
    /// The id of its findings.
    pub id: &'static str,
    /// The question it answers, in one sentence.
    pub asks: &'static str,
    /// When it fires, with the thresholds in force.
    #[serde(serialize_with = "said")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub fires: fn() -> String,
    /// Similar cases in which it stays silent.
    pub silent: &'static str,
    /// The figures its findings show.
    pub evidence: &'static str,
    /// The usual cause of a finding.
    pub cause: &'static str,
    /// The advice of a finding.
    pub remedy: &'static str,
    /// Its published source: kernel documentation or source, or a manual; else [`OWN_RULE`].
    pub source: &'static str,
    #[serde(skip)]
    pub check: Check,
}

fn said<S: Serializer>(says: &fn() -> String, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&says())
}

/// The check of a rule, by what it looks at.
#[derive(Clone, Copy)]
pub enum Check {
    /// Judges the whole machine: any number of findings.
    Machine(fn(&Model, &Rates) -> Vec<Finding>),
    /// Each interface; at most one finding for each, which is then about it.
    Nic(fn(&Model, &Rates, &Nic) -> Option<Finding>),
    /// The same for devices on a bus only.
    Device(fn(&Model, &Rates, &Nic) -> Option<Finding>),
}

impl Rule {
    /// Findings on this machine.
    pub fn findings(&self, model: &Model, rates: &Rates) -> Vec<Finding> {
        let (devices_only, check) = match self.check {
            Check::Machine(check) => return check(model, rates),
            Check::Nic(check) => (false, check),
            Check::Device(check) => (true, check),
        };
        let nics = model.nics.iter().filter(|nic| !devices_only || nic.kind == NicKind::Device);
        let of_nic = |nic: &Nic| {
            let finding = check(model, rates, nic)?;
            let nic = finding.nic.clone().unwrap_or_else(|| nic.name.clone());
            Some(Finding { nic: Some(nic), ..finding })
        };
        nics.filter_map(of_nic).collect()
    }

    /// A finding of this rule that is still empty: no interface, CPU, text or plan. The check must fill in at least
    /// title, evidence, cause and remedy.
    pub fn finding(&self) -> Finding {
        Finding {
            id: self.id.to_owned(),
            severity: Severity::Note,
            nic: None,
            cpu: None,
            title: String::new(),
            evidence: Vec::new(),
            why: String::new(),
            remedy: String::new(),
            plans: Vec::new(),
            inspect: None,
        }
    }
}

/// Source of a rule that is not published elsewhere.
const OWN_RULE: &str = "a rule of rxlab's own, published nowhere else";

/// All rules, most informative first.
pub const RULES: &[Rule] = &[
    one_core_hotspot::RULE,
    backlog_drops::RULE,
    interface_drops::RULE,
    conntrack_full::RULE,
    socket_drops::RULE,
    listen_overflow::RULE,
    too_few_queues::RULE,
    queues_share_a_cpu::RULE,
    limited_by_the_host::RULE,
    ring_overruns::RULE,
    hash_imbalance::RULE,
    tunnel_one_flow::RULE,
    packets_of_no_device::RULE,
    interrupt_rate::RULE,
    time_squeeze::RULE,
    softirq_not_receive::RULE,
    costly_packets::RULE,
    not_packets::RULE,
    receive_interference::RULE,
    app_on_irq_cpu::RULE,
    restricted_process::RULE,
    throttled_server::RULE,
    single_thread_limit::RULE,
    single_queue_no_rps::RULE,
    rps_mask_contains_irq_cpu::RULE,
    rps_mask_contains_irq_sibling::RULE,
    rps_masks_overlap::RULE,
    rfs_half_configured::RULE,
    gro_off::RULE,
    rps_redundant::RULE,
    threaded_napi_with_rps::RULE,
    irq_on_wrong_node::RULE,
    irq_on_isolated_cpu::RULE,
    rps_mask_crosses_nodes::RULE,
    rps_mask_unusable_cpus::RULE,
    irqbalance_fights_manual_affinity::RULE,
    moderation_hurts_latency::RULE,
    deep_idle_states::RULE,
    limited_elsewhere::RULE,
    untouched_containers::RULE,
    queues_without_default_mask::RULE,
    xps_mismatch::RULE,
    xdp_before_stack::RULE,
    arfs_possible::RULE,
    arfs_pointless::RULE,
    paravirtual_nic::RULE,
    slow_clocksource::RULE,
];

/// Rules whose findings are dropped when the first rule has one for the same interface (and the same CPU, if
/// both name one): they would repeat or contradict it.
const SUPERSEDED: &[(&Rule, &[&Rule])] = &[
    // The hotspot of a one-queue interface names the missing RPS as its cause.
    (&one_core_hotspot::RULE, &[&single_queue_no_rps::RULE]),
    // More queues do not help while most of the present ones are idle.
    (&hash_imbalance::RULE, &[&too_few_queues::RULE]),
    // Masks that should not exist need no repair.
    (
        &rps_redundant::RULE,
        &[
            &rps_mask_contains_irq_cpu::RULE,
            &rps_mask_contains_irq_sibling::RULE,
            &rps_mask_crosses_nodes::RULE,
            &rps_mask_unusable_cpus::RULE,
            &threaded_napi_with_rps::RULE,
        ],
    ),
];

/// Rules that advise to spread receive work before a CPU is full of it: to no effect on an interface whose traffic the host or
/// the link limits.
const FOR_GROWTH: &[&Rule] = &[
    &one_core_hotspot::RULE,
    &too_few_queues::RULE,
    &queues_share_a_cpu::RULE,
    &hash_imbalance::RULE,
    &single_queue_no_rps::RULE,
];

/// Rules about a CPU that receives too much.
const HOT: &[&Rule] =
    &[&one_core_hotspot::RULE, &hash_imbalance::RULE, &too_few_queues::RULE, &tunnel_one_flow::RULE];

/// True if a finding is about a CPU that receives too much: a plan for it has to make that CPU cooler.
pub(crate) fn is_about_a_hot_cpu(finding: &Finding) -> bool {
    HOT.iter().any(|rule| rule.id == finding.id)
}

/// Runs every rule. Most severe first; rules of equal severity in the order of [`RULES`].
pub fn diagnose(model: &Model, rates: &Rates) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule.findings(model, rates)).collect();
    drop_superseded(&mut findings);
    let is_bound =
        |name: &NicName| model.nic(name).is_some_and(|nic| limited_by_the_host::bound(rates, nic).is_some());
    findings.retain(|finding| {
        let for_growth = FOR_GROWTH.iter().any(|rule| rule.id == finding.id);
        !for_growth || finding.severity == Severity::Critical || !finding.nic.as_ref().is_some_and(is_bound)
    });
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// Drops the findings that others make superfluous.
fn drop_superseded(findings: &mut Vec<Finding>) {
    for (first, told) in SUPERSEDED {
        let of_first = findings.iter().filter(|finding| finding.id == first.id && finding.nic.is_some());
        let said: Vec<(Option<NicName>, Option<CpuId>)> =
            of_first.map(|finding| (finding.nic.clone(), finding.cpu)).collect();
        findings.retain(|finding| {
            !(told.iter().any(|rule| rule.id == finding.id)
                && said.iter().any(|(nic, cpu)| {
                    *nic == finding.nic && (cpu.is_none() || finding.cpu.is_none() || *cpu == finding.cpu)
                }))
        });
    }
}

/// Rules about where interrupts and masks are, and nothing else.
const PLACEMENT: &[Rule] = &[
    queues_share_a_cpu::RULE,
    rps_masks_overlap::RULE,
    rps_mask_contains_irq_cpu::RULE,
    rps_mask_contains_irq_sibling::RULE,
    rps_mask_crosses_nodes::RULE,
    rps_mask_unusable_cpus::RULE,
    irq_on_wrong_node::RULE,
    xps_mismatch::RULE,
];

/// Findings that depend on where interrupts and masks are: a plan should bring none.
pub(crate) fn about_placement(model: &Model, rates: &Rates) -> Vec<Finding> {
    // Of masks that should not exist, that is said and nothing else.
    let rules = PLACEMENT.iter().chain([&rps_redundant::RULE]);
    let mut findings: Vec<Finding> = rules.flat_map(|rule| rule.findings(model, rates)).collect();
    drop_superseded(&mut findings);
    findings.retain(|finding| finding.id != rps_redundant::RULE.id);
    findings
}

#[cfg(test)]
mod tests {
    use super::regime::regime;
    use super::{RULES, Severity, diagnose};
    use crate::decision::Decisions;
    use crate::diagnose::sketch::Sketch;
    use crate::family::{Family, PlanName};

    #[test]
    fn a_quiet_machine_gets_no_finding() {
        let (model, rates) = Sketch::new(8).device("eth0", &[2]).irqbalance().build();
        assert_eq!(diagnose(&model, &rates), []);
    }

    #[test]
    fn one_cause_is_told_once_and_the_worst_comes_first() {
        let (model, rates) = Sketch::case_a().drops(2, 40.0).build();
        let findings = diagnose(&model, &rates);
        let ids: Vec<&str> = findings.iter().map(|finding| finding.id.as_str()).collect();
        assert_eq!(ids, ["one-core-hotspot", "backlog-drops"]);
        assert!(findings.is_sorted_by_key(|finding| std::cmp::Reverse(finding.severity)));
        assert_eq!(findings[0].severity, Severity::Critical);
    }

    /// Past bugs: "no mask splits one flow" next to an RPS plan with an even spread, "no RPS here" next to
    /// advice on its masks, and an estimate of the gain that ignored both.
    #[test]
    fn no_advice_contradicts_another() {
        let ids = |sketch: Sketch| {
            let (model, rates) = sketch.build();
            let findings = diagnose(&model, &rates);
            let is_rps = |plan: &PlanName| plan.family() == Some(Family::Rps);
            let found = findings.iter().flat_map(|finding| &finding.plans).any(is_rps);
            let regime = regime(&model, &rates, &findings, &mut Decisions::new(&model, &rates))
                .expect("there is traffic");
            let gains = regime.knobs.iter().any(|worth| worth.knob == Family::Rps && worth.trial);
            assert_eq!(found, gains, "{findings:?} {regime:?}");
            findings.into_iter().map(|finding| finding.id).collect::<Vec<_>>()
        };
        let one_queue = || {
            let sketch =
                Sketch::new(8).device("eth0", &[0, 1, 2, 3]).queue_traffic("eth0", &[9e3, 1e4, 2e5, 1e4]);
            sketch.table("eth0", &[0, 1, 2, 3].repeat(32)).receives(2, 0.95, 2e5)
        };
        assert_eq!(ids(one_queue()), ["one-core-hotspot", "hash-imbalance"], "it may be many flows");
        let elephant = || one_queue().rps("eth0", "4-7").receives(5, 0.6, 2e5);
        assert_eq!(ids(elephant()), ["hash-imbalance"], "it is one");
        assert_eq!(ids(elephant().receives(2, 0.4, 0.0).receives(5, 0.95, 2e5)), ["one-core-hotspot"]);
        let threads = Sketch::new(8).device("eth0", &[0]).traffic("eth0", 4e5).receives(3, 0.0, 4e5);
        assert_eq!(ids(threads.polls(3, 0.98)), ["one-core-hotspot"]);
        assert_eq!(ids(Sketch::case_a()), ["one-core-hotspot"]);
        let each = Sketch::new(4).device("eth0", &[0, 1, 2, 3]).queue_traffic("eth0", &[2e4; 4]);
        let each = each.all_receive("0-3", 0.3, 2e4).rps("eth0", "0-3,7");
        let each = (0..4).fold(each, |sketch, cpu| sketch.ipis(cpu, 4e3));
        assert_eq!(ids(each), ["rps-redundant"]);
    }

    /// An unregistered rule file would be a rule that never runs.
    #[test]
    #[allow(clippy::disallowed_methods)] // Looks at the source tree.
    fn every_rule_has_a_file_and_every_file_a_rule() {
        let helpers = [
            "elsewhere",
            "evidence",
            "figures",
            "places",
            "reference",
            "regime",
            "sketch",
            "snapshots",
            "table",
            "workload",
        ];
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/diagnose");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .expect("the folder is there")
            .map(|entry| entry.expect("it can be listed").file_name().into_string().expect("UTF-8"))
            .map(|name| name.trim_end_matches(".rs").replace('_', "-"))
            .filter(|name| !helpers.contains(&name.as_str()))
            .collect();
        files.sort();
        files.dedup();
        let mut ids: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
        ids.sort_unstable();
        assert_eq!(files, ids);
    }
}
