//! Findings of a machine: each with evidence, cause and remedy, then the plans that address them.

use super::markup::{Markup, typeset};
use super::{commands, path, remarks, tone_class};
use crate::report::action::action;
use crate::report::findings::{mark, worst_first};
use crate::report::words::severity_tone;
use rxlab_advise::diagnose::Finding;
use rxlab_advise::doctor::{DoctorReport, NicQueues};
use rxlab_base::number::capitalized;
use rxlab_setting::Setting;

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
    receive_path(m, report);
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
    let notes: Vec<&String> = report.refused.iter().chain(&report.notes).chain(&report.gaps).collect();
    remarks(m, "Notes", &notes);
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

fn one(m: &mut Markup, finding: &Finding) {
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
