//! Findings of a machine: each with evidence, cause and remedy, then the plans that address them.

use super::markup::{Markup, typeset};
use super::{commands, tone_class};
use crate::diagnose::{Finding, Severity};
use crate::doctor::DoctorReport;
use crate::plan::Setting;
use crate::report::action::{action, capitalized};
use crate::report::findings::{mark, worst_first};
use crate::report::words::Tone;

/// The article below its heading.
pub(super) fn article(m: &mut Markup, report: &DoctorReport, program: Option<&str>) {
    let basis = format!("Sampled for {:.1} s; receive time is {}", report.seconds, report.load.tier);
    m.leaf("p", &[("class", "basis")], &typeset(&basis));
    report.since.iter().for_each(|since| m.leaf("p", &[], &typeset(&capitalized(&since.in_words()))));
    for path in &report.paths {
        m.element("p", &[("class", "path")], |m| {
            m.inline("strong", &[], path.nic.as_str());
            m.text(" ");
            m.text(&typeset(&path.summary));
        });
    }
    for finding in worst_first(&report.findings) {
        one(m, finding);
    }
    if !report.plans.is_empty() {
        m.leaf("h3", &[], "What to try");
    }
    for proposal in &report.plans {
        let settings: Vec<Setting> =
            proposal.plan.settings.iter().map(|planned| planned.set.clone()).collect();
        m.leaf("p", &[], &typeset(&format!("{}.", capitalized(&action(&settings)))));
        if let Some(prediction) = &proposal.plan.prediction {
            m.leaf("p", &[("class", "basis")], &typeset(&format!("Predicted: {prediction}")));
        }
        if let (Some(command), Some(_)) = (&proposal.next, program) {
            commands(m, std::slice::from_ref(command));
        }
    }
    if let Some(regime) = &report.regime {
        m.leaf("h3", &[], "What there is to gain");
        m.leaf("p", &[], &typeset(&format!("{}.", capitalized(regime.summary.trim_end_matches('.')))));
    }
    let remarks: Vec<&String> = report.refused.iter().chain(&report.notes).chain(&report.gaps).collect();
    if !remarks.is_empty() {
        m.leaf("h3", &[], "Notes");
        m.element("ul", &[], |m| remarks.iter().for_each(|remark| m.leaf("li", &[], &typeset(remark))));
    }
}

fn one(m: &mut Markup, finding: &Finding) {
    let tone = match finding.severity {
        Severity::Critical => Tone::Bad,
        Severity::Warning => Tone::Caution,
        Severity::Note => Tone::Neutral,
    };
    m.element("section", &[("class", &format!("finding {}", tone_class(tone)))], |m| {
        m.element("h3", &[], |m| {
            m.inline("span", &[("class", "badge"), ("aria-hidden", "true")], mark(finding.severity));
            m.text(" ");
            m.text(&typeset(&finding.title));
            m.text(" ");
            m.inline("small", &[], &finding.id);
        });
        m.element("ul", &[], |m| {
            finding.seen().into_iter().for_each(|line| m.leaf("li", &[], &typeset(line)));
        });
        for (name, text) in [("Why", &finding.why), ("Fix", &finding.remedy)] {
            m.element("p", &[], |m| {
                m.inline("strong", &[], name);
                m.text(": ");
                m.text(&typeset(text));
            });
        }
    });
}
