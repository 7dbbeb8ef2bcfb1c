//! The doctor's report for a terminal of 80 columns: evidence first, then cause, then what to try.
//!
//! Colours are always in the text; the stream at the edge takes them out where they do not belong.

use anstyle::{AnsiColor, Style};

use super::DoctorReport;
use crate::diagnose::figures::{count, percent};
use crate::diagnose::{Finding, Severity};
use crate::plan::{Plan, Proposal};
use crate::units::NicName;

const WIDTH: usize = 80;
/// Where the text behind `  why   ` begins.
const INDENT: usize = 8;

const HEADING: Style = Style::new().bold();
const LABEL: Style = Style::new().dimmed();
const FINE: Style = AnsiColor::Green.on_default();

/// Renders the report; ends with a line break.
pub fn text(report: &DoctorReport) -> String {
    let mut page = Page::default();
    if report.findings.is_empty() {
        page.raw(&format!("{FINE}{}{FINE:#}", nothing_to_do(report)));
    }
    for (index, group) in groups(report).iter().enumerate() {
        if index > 0 {
            page.raw("");
        }
        page.group(report, group.0, &group.1);
    }
    for note in &report.notes {
        page.labelled("note", note);
    }
    for gap in &report.gaps {
        page.labelled("gap", gap);
    }
    page.text
}

fn nothing_to_do(report: &DoctorReport) -> String {
    let load = &report.load;
    let drops = match load.dropped {
        rate if rate > 0.0 => format!("{} drops/s", count(rate)),
        _ => "no drops".to_owned(),
    };
    format!(
        "nothing to do: busiest CPU {} in softirq, {} packets/s, {drops} ({:.1} s)",
        percent(load.receive_time),
        count(load.packets),
        report.seconds
    )
}

/// Findings by interface, those without one last; the order of findings is kept.
fn groups(report: &DoctorReport) -> Vec<(Option<&NicName>, Vec<&Finding>)> {
    let mut groups: Vec<(Option<&NicName>, Vec<&Finding>)> = Vec::new();
    for finding in &report.findings {
        let nic = finding.nic.as_ref();
        match groups.iter_mut().find(|(other, _)| *other == nic) {
            Some((_, findings)) => findings.push(finding),
            None => groups.push((nic, vec![finding])),
        }
    }
    groups.sort_by_key(|(nic, _)| nic.is_none());
    groups
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn raw(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// A label and its text, wrapped under itself.
    fn labelled(&mut self, label: &str, text: &str) {
        for (index, line) in wrap(text, WIDTH - INDENT).iter().enumerate() {
            if index == 0 {
                self.raw(&format!("  {LABEL}{label:<4}{LABEL:#}  {line}"));
            } else {
                self.raw(&format!("{:INDENT$}{line}", ""));
            }
        }
    }

    fn group(&mut self, report: &DoctorReport, nic: Option<&NicName>, findings: &[&Finding]) {
        if let Some(path) = report.paths.iter().find(|path| Some(&path.nic) == nic) {
            self.raw(&format!("{HEADING}{}{HEADING:#}  {}", path.nic, path.summary));
        }
        // A plan is told once, under the first finding that asks for it.
        let mut told: Vec<&str> = Vec::new();
        for finding in findings {
            self.title(finding);
            for line in &finding.evidence {
                self.labelled("seen", line);
            }
            self.labelled("why", &finding.why);
            let of_nic = report.plans.iter().filter(|proposal| Some(&proposal.nic) == nic);
            let asked: Vec<&Proposal> =
                of_nic.filter(|proposal| finding.plans.contains(&proposal.plan.name)).collect();
            if asked.is_empty() {
                self.labelled("try", &finding.remedy);
            }
            for proposal in asked {
                match told.contains(&proposal.plan.name.as_str()) {
                    true => self.labelled("try", &format!("{} as above", proposal.plan.name)),
                    false => self.proposal(proposal),
                }
                told.push(&proposal.plan.name);
            }
        }
        let predictions = report.plans.iter().filter(|proposal| Some(&proposal.nic) == nic);
        if let Some(prediction) = predictions.filter_map(|proposal| proposal.prediction.as_ref()).next() {
            self.labelled("note", &prediction.regime());
        }
        // Plans without a prediction say themselves what they do not do.
        let unpredicted = report.plans.iter().filter(|proposal| proposal.prediction.is_none());
        let mut notes: Vec<&String> = unpredicted
            .filter(|proposal| Some(&proposal.nic) == nic && told.contains(&proposal.plan.name.as_str()))
            .flat_map(|proposal| &proposal.plan.notes)
            .collect();
        notes.dedup();
        notes.into_iter().for_each(|note| self.labelled("note", note));
    }

    fn title(&mut self, finding: &Finding) {
        let (mark, style) = match finding.severity {
            Severity::Critical => ('!', AnsiColor::Red.on_default().bold()),
            Severity::Warning => ('!', AnsiColor::Yellow.on_default()),
            Severity::Note => ('-', AnsiColor::Cyan.on_default()),
        };
        let (title, id) = (&finding.title, &finding.id);
        let used = 2 + title.chars().count() + id.len();
        if used + 2 <= WIDTH {
            let gap = WIDTH - used;
            self.raw(&format!("{style}{mark} {title}{style:#}{:gap$}{LABEL}{id}{LABEL:#}", ""));
        } else {
            let lines = wrap(title, WIDTH - 2);
            for (index, line) in lines.iter().enumerate() {
                let mark = if index == 0 { mark } else { ' ' };
                self.raw(&format!("{style}{mark} {line}{style:#}"));
            }
            self.raw(&format!("{:gap$}{LABEL}{id}{LABEL:#}", "", gap = WIDTH - id.len()));
        }
    }

    fn proposal(&mut self, proposal: &Proposal) {
        let change = change(&proposal.plan);
        let Some(prediction) = &proposal.prediction else {
            return self.labelled("try", &change);
        };
        let prediction = format!("predicted: {prediction}");
        // On one line when both fit, with the prediction at the right.
        let room = WIDTH - INDENT;
        let used = change.chars().count() + prediction.chars().count();
        if used + 2 <= room {
            self.raw(&format!("  {LABEL}try {LABEL:#}  {change}{:gap$}{prediction}", "", gap = room - used));
        } else {
            self.labelled("try", &change);
            self.labelled("", &prediction);
        }
    }
}

/// A plan's settings in one phrase: all of them while few, else the first and how many more.
fn change(plan: &Plan) -> String {
    const SHOWN: usize = 3;
    let texts = plan.settings.iter().map(|setting| setting.set.to_string());
    let first: Vec<String> =
        texts.take(if plan.settings.len() <= SHOWN { SHOWN } else { SHOWN - 1 }).collect();
    match plan.settings.len() - first.len() {
        0 => first.join(" + "),
        more => format!("{} + {more} more", first.join(" + ")),
    }
}

/// Breaks at spaces; a word longer than `width` gets a line of its own.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{WIDTH, text};
    use crate::diagnose::sketch::Sketch;
    use crate::report::findings::doctor;

    fn plain(sketch: Sketch) -> String {
        let (model, rates) = sketch.build();
        let text = anstream::adapter::strip_str(&text(&doctor(&model, &rates))).to_string();
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "too wide: {line}");
            assert_eq!(line.trim_end(), line, "ends in spaces");
        }
        text
    }

    #[test]
    fn field_case_a() {
        insta::assert_snapshot!(plain(Sketch::case_a()));
    }

    #[test]
    fn two_cpus_and_a_veth() {
        let sketch = Sketch::new(2).veth("veth0").traffic("veth0", 5.4e5).works(0, 0.54);
        insta::assert_snapshot!(plain(sketch.receives(0, 0.45, 5.4e5).works(1, 0.8).receives(1, 0.0, 0.0)));
    }

    #[test]
    fn many_queues_and_several_findings() {
        let irqs: Vec<u32> = (0..16).collect();
        let mut sketch = Sketch::new(128).device("eth0", &irqs).traffic("eth0", 3e6).rps("eth0", "0-127");
        for cpu in irqs {
            sketch = sketch.receives(cpu, 0.4, 1e5);
        }
        insta::assert_snapshot!(plain(sketch.rfs(32768, "eth0", 0).drops(3, 120.0).receives(3, 0.85, 1e5)));
    }

    #[test]
    fn a_quiet_machine() {
        let (model, mut rates) = Sketch::new(4).device("eth0", &[1]).build();
        rates.gaps.push("no /proc/net/softnet_stat: drops and time squeezes are not known".into());
        let text = text(&doctor(&model, &rates));
        insta::assert_snapshot!(anstream::adapter::strip_str(&text).to_string());
        assert!(text.starts_with('\u{1b}'), "coloured before the edge strips it");
    }

    #[test]
    fn refused_on_loopback() {
        insta::assert_snapshot!(plain(Sketch::new(2).loopback().traffic("lo", 3e5).receives(0, 0.6, 3e5)));
    }
}
