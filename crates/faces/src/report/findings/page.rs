//! Everything that a report has, in lines: each finding with its evidence, cause and plans, then limits, notes and gaps.

use anstyle::Style;

use super::answer::NOT_PLANNED;
use super::{LABEL, screen, worst_first};
use crate::report::action::action;
use crate::report::text::{columns, command_lines, paragraph};
use rxlab_advise::diagnose::Finding;
use rxlab_advise::doctor::DoctorReport;
use rxlab_advise::plan::Proposal;
use rxlab_base::units::NicName;
use rxlab_setting::{Prediction, Setting};

/// Column of the text after `  why   `.
const INDENT: usize = 8;

const HEADING: Style = Style::new().bold();

/// Renders the report; `program` is the start of commands, empty for none.
pub(super) fn page(report: &DoctorReport, program: &str) -> String {
    let mut page = Page { program, ..Page::default() };
    for finding in worst_first(&report.findings) {
        page.head(report, finding);
        page.finding(report, finding);
    }
    page.notes(report);
    page.text
}

/// Lines of a report.
#[derive(Default)]
struct Page<'a> {
    text: String,
    /// Start of commands; empty = none are shown.
    program: &'a str,
    /// Interfaces whose path was shown.
    headed: Vec<&'a NicName>,
    /// Interface of the previous finding.
    current: Option<&'a NicName>,
    /// Plans already shown: each appears once, under the first finding that refers to it.
    told: Vec<&'a Proposal>,
    /// Commands already shown.
    commands: Vec<String>,
}

impl<'a> Page<'a> {
    fn raw(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// A label and its text; continued lines are indented to the text.
    fn labelled(&mut self, label: &str, text: &str) {
        self.text += &paragraph(&format!("  {LABEL}{label:<5}{LABEL:#} "), text);
    }

    /// The interface if it differs from the previous one; with its path the first time.
    fn head(&mut self, report: &'a DoctorReport, finding: &'a Finding) {
        let Some(nic) = &finding.nic else {
            self.current = None;
            return;
        };
        if self.current == Some(nic) {
            return;
        }
        self.current = Some(nic);
        let path = report.paths.iter().find(|path| path.nic == *nic).filter(|_| !self.headed.contains(&nic));
        self.headed.push(nic);
        match path {
            Some(path) => {
                self.text += &paragraph(&format!("{HEADING}{nic}{HEADING:#}  "), &path.summary);
            }
            None => self.raw(&format!("{HEADING}{nic}{HEADING:#}")),
        }
    }

    fn finding(&mut self, report: &'a DoctorReport, finding: &'a Finding) {
        self.text += &screen::title(finding.severity, &finding.title, &finding.id);
        finding.seen().into_iter().for_each(|line| self.labelled("seen", line));
        self.labelled("why", &finding.why);
        let asked: Vec<&Proposal> =
            report.plans.iter().filter(|proposal| proposal.addresses(finding)).collect();
        if asked.is_empty() {
            self.labelled("fix", &finding.remedy);
            match &finding.inspect {
                Some(command) => self.next(command),
                None if self.program.is_empty() => {}
                None => self.next(&format!("{} explain {}", self.program, finding.id)),
            }
        }
        for proposal in asked {
            // Of two interfaces whose queues share a CPU, one move is the plan of both.
            let is_same = |told: &&Proposal| {
                told.plan.name == proposal.plan.name
                    && (told.nic == proposal.nic || told.plan.settings == proposal.plan.settings)
            };
            if self.told.iter().any(is_same) {
                self.labelled("fix", &format!("{} as above", proposal.plan.name))
            } else {
                self.proposal(proposal)
            }
            self.told.push(proposal);
        }
    }

    /// Limits of the first plan with a prediction, notes of the others, and what was lost or is unknown.
    fn notes(&mut self, report: &'a DoctorReport) {
        let mut predicted = report
            .plans
            .iter()
            .filter_map(|proposal| Some((&proposal.plan.name, proposal.plan.prediction.as_ref()?)));
        if let Some((name, prediction)) = predicted.next() {
            self.labelled("limit", &prediction.room(name));
        }
        // Plans without a prediction state their limits themselves.
        let unpredicted = report.plans.iter().filter(|proposal| proposal.plan.prediction.is_none());
        let mut notes: Vec<&String> = unpredicted
            .filter(|proposal| self.told.iter().any(|told| std::ptr::eq(*told, *proposal)))
            .flat_map(|proposal| &proposal.plan.notes)
            .collect();
        notes.extend(report.notes.iter().filter(|note| note.starts_with(NOT_PLANNED)));
        notes.dedup();
        notes.into_iter().for_each(|note| self.labelled("note", note));
        report.load.ledger.in_lines().iter().for_each(|line| self.labelled("lost", line));
        report.load.ledger.gaps().iter().for_each(|gap| self.labelled("gap", gap));
    }

    /// A plan in words, its prediction, and the command to try it.
    fn proposal(&mut self, proposal: &Proposal) {
        let settings: Vec<Setting> =
            proposal.plan.settings.iter().map(|planned| planned.set.clone()).collect();
        self.fix(&action(&settings), proposal.plan.prediction.as_ref());
        if let Some(command) = &proposal.next {
            self.next(command);
        }
    }

    /// Shows a command, once: one search tries several plans.
    fn next(&mut self, command: &str) {
        if self.commands.iter().any(|shown| shown == command) {
            return;
        }
        self.commands.push(command.to_owned());
        self.text += &command_lines(&format!("  {LABEL}next{LABEL:#}  "), command);
    }

    fn fix(&mut self, change: &str, prediction: Option<&Prediction>) {
        let Some(prediction) = prediction else {
            return self.labelled("fix", change);
        };
        let prediction = match prediction.to_string() {
            unknown if unknown.starts_with("cannot") => unknown,
            known => format!("predicted: {known}"),
        };
        // On one line if both fit, with the prediction at the right.
        let room = columns() - INDENT;
        let used = change.chars().count() + prediction.chars().count();
        if used + 2 <= room {
            self.raw(&format!("  {LABEL}fix {LABEL:#}  {change}{:gap$}{prediction}", "", gap = room - used));
        } else {
            self.labelled("fix", change);
            self.labelled("", &prediction);
        }
    }
}
