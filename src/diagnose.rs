//! Findings: what is wrong on the receive path, shown by figures, with a cause and a remedy.
//!
//! One rule a file; [`RULES`] is the only registry. Rules are functions from a [`Model`] and the
//! [`Rates`] on it to findings: they never see a host, and they do not choose values (that is
//! `plan`). A quiet machine gets no finding.

pub mod evidence;
pub mod figures;
mod places;
#[cfg(test)]
mod reference;
pub mod regime;
#[cfg(test)]
pub(crate) mod sketch;
#[cfg(test)]
mod table;
mod workload;

mod app_on_irq_cpu;
mod arfs_pointless;
mod arfs_possible;
mod backlog_drops;
mod gro_off;
mod hash_imbalance;
mod interrupt_rate;
mod irq_on_wrong_node;
mod irqbalance_fights_manual_affinity;
mod limited_elsewhere;
mod moderation_hurts_latency;
mod one_core_hotspot;
mod paravirtual_nic;
mod queues_share_a_cpu;
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
mod slow_clocksource;
mod stolen_cpu;
mod threaded_napi_beside_rps;
mod time_squeeze;
mod too_few_queues;
mod untouched_containers;
mod xps_mismatch;

use serde::{Deserialize, Serialize};

use crate::model::{Model, Rates};
use crate::units::{CpuId, NicName};

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; nothing is lost today.
    Note,
    /// Costs throughput or latency under today's load.
    Warning,
    /// A CPU has no room left, or packets are being lost.
    Critical,
}

/// One thing found, with the figures that show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// Name of the rule, such as `one-core-hotspot`.
    pub id: String,
    /// How much it matters.
    pub severity: Severity,
    /// The interface concerned, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<NicName>,
    /// The CPU concerned, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuId>,
    /// One line with the figure that matters.
    pub title: String,
    /// The figures, with units and with how they were measured.
    pub evidence: Vec<String>,
    /// The cause.
    pub why: String,
    /// What to do about it, in words.
    pub remedy: String,
    /// Names of the plans that address it, such as `rps`; empty when no plan does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plans: Vec<String>,
}

/// One rule: what it asks, when it fires and when it stays silent (its false positives), and the check itself.
pub struct Rule {
    /// The id of its findings.
    pub id: &'static str,
    /// What it looks for, in one sentence.
    pub asks: &'static str,
    /// When it fires, with the thresholds in force.
    pub fires: fn() -> String,
    /// When it stays silent although it looks alike.
    pub silent: &'static str,
    /// The figures that its findings show.
    pub evidence: &'static str,
    /// How it comes about.
    pub cause: &'static str,
    /// What it advises.
    pub remedy: &'static str,
    /// Where that is published: kernel documentation or source, a manual, a field case.
    pub source: &'static str,
    /// The check.
    pub check: fn(&Model, &Rates) -> Vec<Finding>,
}

/// Every rule, most telling first.
pub const RULES: &[Rule] = &[
    one_core_hotspot::RULE,
    backlog_drops::RULE,
    too_few_queues::RULE,
    queues_share_a_cpu::RULE,
    ring_overruns::RULE,
    hash_imbalance::RULE,
    interrupt_rate::RULE,
    time_squeeze::RULE,
    stolen_cpu::RULE,
    app_on_irq_cpu::RULE,
    restricted_process::RULE,
    single_queue_no_rps::RULE,
    rps_mask_contains_irq_cpu::RULE,
    rps_mask_contains_irq_sibling::RULE,
    rps_masks_overlap::RULE,
    rfs_half_configured::RULE,
    gro_off::RULE,
    rps_redundant::RULE,
    threaded_napi_beside_rps::RULE,
    irq_on_wrong_node::RULE,
    rps_mask_crosses_nodes::RULE,
    rps_mask_unusable_cpus::RULE,
    irqbalance_fights_manual_affinity::RULE,
    moderation_hurts_latency::RULE,
    limited_elsewhere::RULE,
    untouched_containers::RULE,
    xps_mismatch::RULE,
    arfs_possible::RULE,
    arfs_pointless::RULE,
    paravirtual_nic::RULE,
    slow_clocksource::RULE,
];

/// What a finding of the first says already of the same interface: saying it twice adds nothing, or contradicts.
const TOLD: &[(&Rule, &[&Rule])] = &[
    // The hotspot of a one-queue interface names the missing RPS as its cause.
    (&one_core_hotspot::RULE, &[&single_queue_no_rps::RULE]),
    // Masks that should not be there need no mending.
    (
        &rps_redundant::RULE,
        &[
            &rps_mask_contains_irq_cpu::RULE,
            &rps_mask_contains_irq_sibling::RULE,
            &rps_mask_crosses_nodes::RULE,
            &threaded_napi_beside_rps::RULE,
        ],
    ),
];

/// Runs every rule. Most severe first; rules of equal severity in the order of [`RULES`].
pub fn diagnose(model: &Model, rates: &Rates) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| (rule.check)(model, rates)).collect();
    for (first, told) in TOLD {
        let of_first = findings.iter().filter(|finding| finding.id == first.id);
        let nics: Vec<NicName> = of_first.filter_map(|finding| finding.nic.clone()).collect();
        findings.retain(|finding| {
            let again = told.iter().any(|rule| rule.id == finding.id);
            !again || finding.nic.as_ref().is_none_or(|nic| !nics.contains(nic))
        });
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

#[cfg(test)]
mod tests {
    use super::sketch::Sketch;
    use super::{RULES, Severity, diagnose};

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

    /// A rule file that nobody registered would be a rule that never runs.
    #[test]
    #[allow(clippy::disallowed_methods)] // Looks at the source tree.
    fn every_rule_has_a_file_and_every_file_a_rule() {
        let helpers = [
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
        let mut ids: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
        ids.sort_unstable();
        assert_eq!(files, ids);
    }
}
