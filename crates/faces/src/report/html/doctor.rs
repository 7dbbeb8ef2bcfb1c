//! Findings of a machine: the answer, then each with evidence and cause.

use super::markup::{Markup, typeset};
use super::{commands, path, tone_class};
use crate::report::findings::{Answer, Fix, mark, worst_first};
use crate::report::words::severity_tone;
use rxlab_advise::diagnose::Finding;
use rxlab_advise::doctor::{DoctorReport, NicQueues};
use rxlab_base::number::capitalized;
use rxlab_setting::Setting;

/// The article below its heading: the answer as the terminal has it, without its picture, then everything else.
pub(super) fn article(m: &mut Markup, report: &DoctorReport, program: Option<&str>) {
    let answer = Answer::new(report);
    m.sentence("p", &[("class", "basis")], &capitalized(&answer.basis));
    m.element("dl", &[("class", "settings")], |m| {
        for fact in &answer.facts {
            m.leaf("dt", &[], &capitalized(fact.label));
            m.sentence("dd", &[], &fact.text);
        }
    });
    if !answer.fixes.is_empty() {
        m.leaf("h3", &[], "What to do");
        m.element("ol", &[], |m| answer.fixes.iter().for_each(|fix| one_fix(m, fix, program.is_some())));
    }
    for path in &report.paths {
        m.element("p", &[("class", "path")], |m| {
            m.inline("strong", &[], path.nic.as_str());
            m.text(" ");
            m.prose(&path.summary);
        });
    }
    for finding in worst_first(&report.findings) {
        one(m, report, finding);
    }
    receive_path(m, report);
}

fn one_fix(m: &mut Markup, fix: &Fix, has_commands: bool) {
    m.element("li", &[], |m| {
        let risk = fix.risk.map_or(String::new(), |risk| format!(" (risk: {risk})"));
        m.sentence("p", &[], &format!("{}{risk}", capitalized(&fix.action)));
        if let Some(rough) = &fix.rough {
            m.sentence("p", &[("class", "basis")], &format!("Rough: {rough}"));
        }
        if let Some(next) = fix.command.as_ref().filter(|_| has_commands) {
            commands(m, std::slice::from_ref(&next.line));
            next.about.iter().for_each(|about| m.sentence("p", &[("class", "basis")], &capitalized(about)));
        }
    });
}

/// The receive path as it is, and with the first plan of each interface.
fn receive_path(m: &mut Markup, report: &DoctorReport) {
    let now: Vec<NicQueues> = report
        .paths
        .iter()
        .map(|path| NicQueues { nic: path.nic.clone(), queues: path.queues.clone() })
        .collect();
    let planned = |nic: &NicQueues| {
        let first = report.plans.iter().find(|proposal| proposal.nic == nic.nic);
        let settings = first.iter().flat_map(|proposal| &proposal.plan.settings);
        nic.with(&settings.map(|planned| planned.set.clone()).collect::<Vec<Setting>>())
    };
    let after = now.iter().map(planned).collect();
    let caption = "Interface, queues, CPUs of their interrupts, CPUs that RPS hands packets to; now, and with the first \
                   plan. What it moves is drawn thick.";
    let sides = [
        path::Side { title: "Now", class: "a", nics: now },
        path::Side { title: "With the plan", class: "b", nics: after },
    ];
    path::section(m, caption, &sides);
}

fn one(m: &mut Markup, report: &DoctorReport, finding: &Finding) {
    let class = format!("finding {}", tone_class(severity_tone(finding.severity)));
    m.element("section", &[("class", &class)], |m| {
        m.element("h3", &[], |m| {
            m.inline("span", &[("class", "badge"), ("aria-hidden", "true")], mark(finding.severity));
            m.text(" ");
            m.text(&typeset(&finding.title));
            m.text(" ");
            m.inline("small", &[], &finding.id);
        });
        m.element("ul", &[], |m| {
            finding.seen().into_iter().for_each(|line| m.sentence("li", &[], line));
        });
        // Where a plan answers, the list of what to do has it.
        let fix = Some(("Fix", &finding.remedy)).filter(|_| !report.has_plan(finding));
        for (name, text) in [("Why", &finding.why)].into_iter().chain(fix) {
            m.element("p", &[], |m| {
                m.inline("strong", &[], name);
                m.text(": ");
                m.prose(text);
            });
        }
    });
}
