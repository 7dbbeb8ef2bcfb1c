//! The findings of a report as lines, for a level of detail.

use anstyle::{AnsiColor, Style};

use crate::report::action::action;
use crate::report::text::{BAD, CAUTION, NOTE, columns, command_lines, paragraph};
use rxlab_advise::diagnose::{Finding, Severity, ThreadRoom};
use rxlab_advise::doctor::DoctorReport;
use rxlab_advise::plan::Proposal;
use rxlab_base::number::{count, percent, times};
use rxlab_base::units::{NicName, words_in_lines};
use rxlab_path::evidence::{TRAFFIC, room};
use rxlab_setting::{Prediction, Setting};

/// Column of the text after `  why   `.
const INDENT: usize = 8;

const HEADING: Style = Style::new().bold();
const LABEL: Style = Style::new().dimmed();
const FINE: Style = AnsiColor::Green.on_default();

/// Parts of a finding that are shown.
pub(super) struct Shown {
    pub(super) evidence: usize,
    pub(super) why: bool,
    /// Remedies, each with its command.
    pub(super) fixes: usize,
    pub(super) notes: bool,
    /// Each setting that is worth a trial, and each line and gap of the ledger of lost packets.
    pub(super) knobs: bool,
}

/// Lines of a report.
#[derive(Default)]
pub(super) struct Page<'a> {
    pub(super) text: String,
    /// Start of commands; empty = none are shown.
    program: &'a str,
    /// Interfaces whose path was shown.
    headed: Vec<&'a NicName>,
    /// Interface of the previous finding.
    current: Option<&'a NicName>,
    /// Plans already shown: each appears once, under the first finding that refers to it.
    told: Vec<(&'a NicName, &'a str)>,
}

impl<'a> Page<'a> {
    /// Renders the first `findings` findings.
    pub(super) fn new(report: &'a DoctorReport, shown: &Shown, findings: usize, program: &'a str) -> Self {
        let mut page = Self { program, ..Self::default() };
        if let Some(since) = &report.since {
            page.text += &paragraph("", &since.in_words());
        }
        if report.findings.is_empty() {
            let style =
                if report.refused.is_some() || report.is_worth_a_trial() { Style::new() } else { FINE };
            page.styled(style, &nothing(report));
            report.refused.iter().for_each(|why| page.labelled("why", why));
        }
        for finding in worst_first(&report.findings).into_iter().take(findings) {
            page.head(report, finding);
            page.finding(report, finding, shown);
        }
        page.room(report, shown);
        if shown.notes {
            let refused = report.refused.iter().filter(|_| !report.findings.is_empty());
            refused.for_each(|why| page.labelled("note", &format!("no further verdict: {why}")));
            report.notes.iter().for_each(|note| page.labelled("note", note));
            report.gaps.iter().for_each(|gap| page.labelled("gap", gap));
        }
        if shown.knobs {
            report.load.ledger.in_lines().iter().for_each(|line| page.labelled("lost", line));
            report.load.ledger.gaps().iter().for_each(|gap| page.labelled("gap", gap));
        }
        page
    }

    fn raw(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Wraps `text` into lines of one style.
    fn styled(&mut self, style: Style, text: &str) {
        words_in_lines(text, columns()).iter().for_each(|line| self.raw(&format!("{style}{line}{style:#}")));
    }

    /// A label and its text; continued lines are indented to the text.
    pub(super) fn labelled(&mut self, label: &str, text: &str) {
        for (index, line) in words_in_lines(text, columns() - INDENT).iter().enumerate() {
            if index == 0 {
                self.raw(&format!("  {LABEL}{label:<5}{LABEL:#} {line}"));
            } else {
                self.raw(&format!("{:INDENT$}{line}", ""));
            }
        }
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

    fn finding(&mut self, report: &'a DoctorReport, finding: &'a Finding, shown: &Shown) {
        self.title(finding);
        for line in finding.seen().into_iter().take(shown.evidence) {
            self.labelled("seen", line);
        }
        if shown.why {
            self.labelled("why", &finding.why);
        }
        let asked: Vec<&Proposal> =
            report.plans.iter().filter(|proposal| proposal.addresses(finding)).collect();
        if asked.is_empty() && shown.fixes > 0 {
            self.labelled("fix", &finding.remedy);
            if !self.program.is_empty() {
                self.next(&format!("{} explain {}", self.program, finding.id));
            }
        }
        for proposal in asked.into_iter().take(shown.fixes) {
            let plan = (&proposal.nic, proposal.plan.name.as_str());
            if self.told.contains(&plan) {
                self.labelled("fix", &format!("{} as above", proposal.plan.name))
            } else {
                self.proposal(proposal)
            }
            self.told.push(plan);
        }
    }

    /// Headroom of the CPUs, now and after the first plan, and the plans' notes.
    fn room(&mut self, report: &'a DoctorReport, shown: &Shown) {
        // A report without findings has this in its first line.
        let seen = if report.findings.is_empty() {
            String::new()
        } else {
            format!("; sampled for {}", look(report))
        };
        let first =
            report.plans.iter().find_map(|proposal| Some((proposal, proposal.plan.prediction.as_ref()?)));
        let thread = report.load.thread.as_ref().map(thread_room);
        if let Some((proposal, prediction)) = first {
            thread.into_iter().for_each(|line| self.labelled("limit", &line));
            let room = prediction.room(&proposal.plan.name);
            self.labelled("limit", &(room + &seen));
        } else if let Some(regime) = &report.regime
            && let Some(cpu) = regime.cpus.first()
        {
            let machine =
                report.load.headroom.map_or_else(|| "unknown".to_owned(), |room| times(room.machine));
            let hottest = times(room(cpu.receive));
            let cpu = cpu.cpu;
            let line = match thread {
                Some(thread) => {
                    format!("{thread}; CPU {cpu} only at {hottest}, the whole machine at {machine}{seen}")
                }
                None => format!(
                    "CPU {cpu} saturates at {hottest} today's traffic, the whole machine at {machine}{seen}"
                ),
            };
            self.labelled("limit", &line);
        } else if !report.findings.is_empty() {
            let quiet = || format!("the interfaces receive fewer than {} packets/s", count(TRAFFIC));
            let why = report.refused.clone().unwrap_or_else(quiet);
            self.labelled("limit", &format!("unknown: {why}{seen}"));
        }
        if !shown.notes {
            return;
        }
        // Plans without a prediction state their limits themselves.
        let unpredicted = report.plans.iter().filter(|proposal| proposal.plan.prediction.is_none());
        let mut notes: Vec<&String> = unpredicted
            .filter(|proposal| self.told.contains(&(&proposal.nic, proposal.plan.name.as_str())))
            .flat_map(|proposal| &proposal.plan.notes)
            .collect();
        notes.dedup();
        notes.into_iter().for_each(|note| self.labelled("note", note));
    }

    fn title(&mut self, finding: &Finding) {
        let mark = mark(finding.severity);
        let style = match finding.severity {
            Severity::Critical => BAD,
            Severity::Warning => CAUTION,
            Severity::Note => NOTE,
        };
        let (title, id) = (&finding.title, &finding.id);
        let used = mark.len() + 1 + title.chars().count() + id.len();
        if used + 2 <= columns() {
            let gap = columns() - used;
            self.raw(&format!("{style}{mark} {title}{style:#}{:gap$}{LABEL}{id}{LABEL:#}", ""));
        } else {
            let lines = words_in_lines(title, columns() - 1 - mark.len());
            for (index, line) in lines.iter().enumerate() {
                let mark = if index == 0 { mark } else { &"  "[..mark.len()] };
                self.raw(&format!("{style}{mark} {line}{style:#}"));
            }
            // At the end of the last line if it fits, else below it.
            let mut taken = lines.last().map_or(0, |line| mark.len() + 1 + line.chars().count());
            if taken + 2 + id.len() <= columns() {
                self.text.pop();
            } else {
                taken = 0;
            }
            self.raw(&format!("{:gap$}{LABEL}{id}{LABEL:#}", "", gap = columns() - taken - id.len()));
        }
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

    fn next(&mut self, command: &str) {
        self.text += &command_lines(&format!("  {LABEL}next{LABEL:#}  "), command);
    }

    fn fix(&mut self, change: &str, prediction: Option<&Prediction>) {
        let Some(prediction) = prediction else {
            return self.labelled("fix", change);
        };
        let prediction = format!("predicted: {prediction}");
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

/// The mark before the title of a finding.
pub fn mark(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "!!",
        Severity::Warning => "!",
        Severity::Note => "-",
    }
}

/// Headroom of the program whose one thread is saturated.
fn thread_room(thread: &ThreadRoom) -> String {
    let (program, room) = (&thread.program, times(thread.headroom));
    format!("one thread of {program} saturates at {room} today's traffic")
}

/// The result without findings, with the figures behind it.
pub fn nothing(report: &DoctorReport) -> String {
    let load = &report.load;
    let figures = [
        load.receive_time.map(|time| format!("busiest CPU {} in softirq", percent(time))),
        load.packets.map(|packets| format!("{} packets/s", count(packets))),
        Some(load.ledger.in_words()),
    ];
    let figures: Vec<String> = figures.into_iter().flatten().collect();
    let colon = if figures.is_empty() { "" } else { ": " };
    format!("{}{colon}{} ({})", report.verdict(), figures.join(", "), look(report))
}

/// Length of the sample.
fn look(report: &DoctorReport) -> String {
    format!("{:.1} s", report.seconds)
}

/// Findings by severity; within a severity, grouped by interface.
pub fn worst_first(all: &[Finding]) -> Vec<&Finding> {
    let first_of_nic = |finding: &&Finding| all.iter().position(|first| first.nic == finding.nic);
    let mut findings: Vec<&Finding> = all.iter().collect();
    findings.sort_by_key(|finding| (std::cmp::Reverse(finding.severity), first_of_nic(finding)));
    findings
}
