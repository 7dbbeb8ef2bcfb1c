//! Findings as lines: one each in a list; evidence, cause and plan when open.

use ratatui::text::{Line, Span};

use super::app::App;
use super::look::Look;
use crate::report::action::action;
use crate::report::findings::mark;
use crate::report::live::LiveFrame;
use crate::report::text::wrap;
use rxlab_advise::diagnose::Finding;
use rxlab_advise::plan::Proposal;
use rxlab_setting::Setting;

/// Columns before the text of a labelled line.
const INDENT: usize = 8;

/// A finding in one line: `!! eth0: CPU 2 does 96 % of receive work`, and its rule if there is room.
pub(super) fn line(finding: &Finding, width: usize, look: Look) -> Line<'static> {
    let title = format!("{:<2} {}", mark(finding.severity), headline(finding));
    let gap = width.saturating_sub(title.chars().count() + finding.id.len());
    let mut spans = vec![Span::styled(title, look.severity(finding.severity))];
    if gap >= 2 {
        spans.push(Span::styled(format!("{:gap$}{}", "", finding.id), look.faint()));
    }
    Line::from(spans)
}

/// Findings of a frame as lines, or the reason why there are none.
pub(super) fn list(app: &App, frame: &LiveFrame, width: usize, look: Look) -> Vec<Line<'static>> {
    let findings = app.findings(frame);
    if findings.is_empty() {
        return wrap(&frame.verdict, width).into_iter().map(Line::from).collect();
    }
    findings.into_iter().map(|finding| line(finding, width, look)).collect()
}

/// Everything about a finding.
pub(super) fn whole(
    finding: &Finding,
    plans: &[&Proposal],
    chosen: usize,
    width: usize,
    look: Look,
) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = title(finding, width)
        .into_iter()
        .map(|line| Line::styled(line, look.severity(finding.severity)))
        .collect();
    for (number, text) in finding.seen().into_iter().enumerate() {
        labelled(&mut lines, if number == 0 { "seen" } else { "" }, text, width, look);
    }
    labelled(&mut lines, "why", &finding.why, width, look);
    if plans.is_empty() {
        labelled(&mut lines, "fix", &finding.remedy, width, look);
    }
    for (number, proposal) in plans.iter().enumerate() {
        let settings: Vec<Setting> =
            proposal.plan.settings.iter().map(|planned| planned.set.clone()).collect();
        let label = match plans.len() {
            1 => "plan",
            _ if number == chosen => "plan *",
            _ => "plan",
        };
        labelled(&mut lines, label, &format!("{}: {}", proposal.plan.name, action(&settings)), width, look);
        if let Some(prediction) = &proposal.plan.prediction {
            labelled(&mut lines, "", &format!("predicted: {prediction}"), width, look);
        }
        proposal.plan.notes.iter().for_each(|note| labelled(&mut lines, "", note, width, look));
        // One search may try several plans.
        let is_told = plans[..number].iter().any(|earlier| earlier.next == proposal.next);
        if let Some(next) = proposal.next.as_ref().filter(|_| !is_told) {
            labelled(&mut lines, "try", next, width, look);
        }
    }
    labelled(&mut lines, "rule", &format!("`rxlab explain {}`", finding.id), width, look);
    lines
}

/// Lines that the title of a finding takes.
pub(super) fn title_lines(finding: &Finding, width: usize) -> usize {
    title(finding, width).len()
}

fn title(finding: &Finding, width: usize) -> Vec<String> {
    wrap(&format!("{} {}", mark(finding.severity), headline(finding)), width)
}

/// The title, after its interface unless it names that itself.
fn headline(finding: &Finding) -> String {
    let is_named = |nic: &str| finding.title.split([' ', '/', ';', ',']).any(|word| word == nic);
    let nic = finding.nic.as_ref().filter(|nic| !is_named(nic.as_str()));
    nic.map_or_else(String::new, |nic| format!("{nic}: ")) + &finding.title
}

fn labelled(lines: &mut Vec<Line<'static>>, label: &str, text: &str, width: usize, look: Look) {
    for (number, part) in wrap(text, width.saturating_sub(INDENT)).into_iter().enumerate() {
        let label = if number == 0 { label } else { "" };
        lines.push(Line::from(vec![Span::styled(format!(" {label:<7}"), look.faint()), Span::raw(part)]));
    }
}
