//! A machine's receive path in about ten lines, and the commands to type next.

use super::{LEVELS, Page};
use crate::report::text::{STRONG, paragraph, styled};
use rxlab_advise::doctor::{DoctorReport, ReceivePath};
use rxlab_base::number::plural;

/// Findings that are named; the others are counted.
const FINDINGS: usize = 3;

/// Renders the overview; ends with a line break. `paths` are the interfaces that receive most, `applied` is the number
/// of changes by rxlab that are in force, and `program` begins the suggested commands.
pub fn overview(report: &DoctorReport, paths: &[ReceivePath], applied: usize, program: &str) -> String {
    let identity = &report.identity;
    let hostname = format!("{}  ", styled(STRONG, &identity.hostname));
    let mut text = paragraph(&hostname, &format!("Linux {}", identity.kernel));
    for path in paths.iter().filter(|path| !report.paths.iter().any(|headed| headed.nic == path.nic)) {
        text += &paragraph(&format!("{}  ", styled(STRONG, path.nic.as_str())), &path.summary);
    }
    let titles = LEVELS.last().expect("there are levels");
    let mut page = Page::new(report, titles, FINDINGS, "");
    if report.findings.len() > FINDINGS {
        page.labelled("more", &plural(report.findings.len() - FINDINGS, "more finding"));
    }
    text += &page.text;
    if applied > 0 {
        text += &paragraph("", &format!("{} by rxlab in force", plural(applied, "change")));
    }
    text.push('\n');
    for (command, what) in next(report, applied) {
        text += &paragraph(&format!("  {program} {command:<7} "), what);
    }
    text
}

/// The commands that a user is likely to want next, each with what it shows.
fn next(report: &DoctorReport, applied: usize) -> Vec<(&'static str, &'static str)> {
    let doctor = if report.findings.is_empty() {
        "the figures behind this, sampled for 5 s"
    } else {
        "evidence, causes and what to try, sampled for 5 s"
    };
    let mut commands = vec![("doctor", doctor), ("show", "queues, interrupts, CPUs and RPS masks")];
    if applied > 0 {
        commands.push(("status", "what is applied, and whether it still holds"));
    }
    commands.push(("help", "all commands"));
    commands
}

#[cfg(test)]
mod tests {
    use super::overview;
    use crate::report::text::plain;
    use rxlab_advise::doctor::{busiest_paths, doctor};
    use rxlab_path::sketch::Sketch;

    fn shown(sketch: Sketch, applied: usize) -> String {
        let (model, rates) = sketch.build();
        plain(&overview(&doctor(&model, &rates, "rxlab"), &busiest_paths(&model, &rates), applied, "rxlab"))
    }

    #[test]
    fn a_hot_machine_in_ten_lines() {
        insta::assert_snapshot!(shown(Sketch::case_a(), 1));
    }

    #[test]
    fn a_healthy_machine_in_ten_lines() {
        let idle = Sketch::new(4).device("eth0", &[0, 1, 2, 3]).traffic("eth0", 2000.0);
        insta::assert_snapshot!(shown(idle, 0));
    }
}
