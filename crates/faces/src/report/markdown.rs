//! A report as Markdown, for a ticket: the story of the page in short.

use super::document::{Document, Part, Trial};
use super::findings::{Answer, Bar, worst_first};
use super::fleet::Fleet;
use super::interference::{by, losers, who};
use super::summary::Summary;
use super::words::Span;
use super::{html, status, validity, words};
use rxlab_advise::doctor::DoctorReport;
use rxlab_base::grammar::terminal;
use rxlab_base::number::{self, capitalized};
use rxlab_base::units::Fact;
use rxlab_probe::Interference;
use rxlab_trial::effect::Effect;
use rxlab_trial::outcome;
use rxlab_trial::recommendation::Recommendation;
use rxlab_trial::record::{AS_IS, MetricResult};

/// Processes of a table of lost time.
const VICTIMS: usize = 8;

/// The whole text; ends with a line break. `program` is the start of commands: `rxlab` with its global options.
pub fn render(document: &Document, program: &str) -> String {
    let mut out = format!("# {}\n", escape(&html::title(document)));
    if let Some(line) = html::place(document) {
        out += &format!("\n{}\n", escape(&line));
    }
    side_by_side(&mut out, document);
    for part in &document.parts {
        let summary = Summary::new(part);
        out += &format!(
            "\n## {}: {}\n\n{}\n",
            escape(&summary.name),
            escape(&summary.call),
            prose(&summary.sentence)
        );
        match part {
            Part::Trial(found) => trial(&mut out, found, program),
            Part::Doctor(report) => doctor(&mut out, report),
            Part::Interference(sample) => lost(&mut out, sample),
            Part::Status(report) => fence(&mut out, status::all(&report.transactions).trim_end()),
            Part::Blocks(_) | Part::Comparison(_) | Part::Trace(_) | Part::Tune(_) => {}
        }
    }
    out
}

/// Many hosts: each section with its statements, then its table.
pub fn fleet(fleet: &Fleet) -> String {
    let mut out = format!("# {}\n", escape(&fleet.title()));
    for section in fleet.sections() {
        out += &format!("\n## {}\n\n", prose(&section.heading));
        section.lines.iter().for_each(|(_, line)| out += &format!("- {}\n", prose(line)));
        if !section.rows.is_empty() {
            let rows = section.rows.into_iter().map(|row| row.cells);
            out += &format!("\n{}", table(section.heads, rows));
        }
    }
    out
}

/// One row for each of several trials.
fn side_by_side(out: &mut String, document: &Document) {
    if document.trials().count() < 2 {
        return;
    }
    let rows = document.trials().map(|trial| {
        let record = &trial.record;
        let primary = record.analysis.as_ref().and_then(|analysis| analysis.metrics.first());
        let change = primary.and_then(|result| result.effect.as_ref());
        [
            record.host.hostname.clone(),
            record.name.clone(),
            primary.map_or("-".to_owned(), |result| result.metric.title.clone()),
            change.map_or("-".to_owned(), Effect::in_words),
            words::headline(record).to_owned(),
        ]
    });
    *out += &format!("\n{}", table(&["Host", "Trial", "Judged by", "Change", "Verdict"], rows));
}

fn trial(out: &mut String, trial: &Trial, program: &str) {
    let record = &trial.record;
    let recommended = Recommendation::new(record, program);
    let means = words::before_and_after(record).join(", ");
    if !means.is_empty() {
        *out += &format!("\n{}\n", escape(&capitalized(&means)));
    }
    words::price(record).iter().for_each(|price| *out += &format!("\nPrice: {}\n", escape(price)));
    *out += &format!("\n**Recommended:** {}\n", prose(&recommended.sentence()));
    recommended.command.iter().for_each(|command| fence(out, command));
    if let Some(keep) = &recommended.in_spite {
        *out += "\nTo keep it all the same:\n";
        fence(out, keep);
    }
    out.push('\n');
    for (arm, lines) in ["A", "B"].into_iter().zip(record.arms()) {
        let words = |line: &String| if line == AS_IS { line.clone() } else { code(line) };
        let lines: Vec<String> = lines.iter().map(words).collect();
        *out += &format!("- {arm}: {}\n", lines.join(", "));
    }
    *out += &format!("- Load: {}\n", code(&record.workload));
    if let Some(analysis) = &record.analysis {
        *out += "\n";
        let heads = ["Metric", "A", "B", "Change [interval]", "Effect"];
        let calls = words::calls(&analysis.metrics, record.margin);
        *out += &table(
            &heads,
            analysis.metrics.iter().zip(calls).map(|(result, (call, _))| metric(result, call)),
        );
    }
    for checkpoint in &trial.checkpoints {
        let change = checkpoint.from_a.as_ref().map(|change| format!(", {}", change.in_words()));
        *out += &format!(
            "\n{}: {}{}\n",
            escape(&capitalized(&words::later(record, checkpoint))),
            words::state(checkpoint.state),
            change.unwrap_or_default()
        );
    }
    *out += "\n<details><summary>Validity</summary>\n\n";
    let rows = validity::rows(record).into_iter().map(|(name, words)| [name.to_owned(), words]);
    *out += &table(&["Condition", "Found"], rows);
    for note in record.analysis.iter().flat_map(|analysis| &analysis.notes) {
        *out += &format!("\n{}\n", prose(note));
    }
    *out += "\n</details>\n";
}

fn metric(result: &MetricResult, call: &str) -> [String; 5] {
    let mean = |value: f64| if result.pairs > 0 { number::value(value) } else { "-".to_owned() };
    let title = words::metric(&result.metric);
    let change = result.effect.as_ref().map_or("-".to_owned(), Effect::in_words);
    let (a, b) = outcome::means(result);
    [title, mean(a), mean(b), change, call.to_owned()]
}

fn doctor(out: &mut String, report: &DoctorReport) {
    let answer = Answer::new(report);
    let bars: Vec<String> = answer.cpus.iter().map(Bar::text).chain(answer.packets.clone()).collect();
    fence(out, &bars.join("  "));
    out.push('\n');
    for fact in &answer.facts {
        *out += &format!("- {}: {}\n", fact.label, prose(&fact.text));
    }
    *out += &format!("- basis: {}\n", prose(&answer.basis));
    for (index, fix) in answer.fixes.iter().enumerate() {
        let risk = fix.risk.map_or(String::new(), |risk| format!(" (risk: {risk})"));
        *out += &format!("\n{}. {}{risk}\n", index + 1, prose(&capitalized(&fix.action)));
        fix.rough.iter().for_each(|rough| *out += &format!("\n   Rough: {}\n", prose(rough)));
        fix.command.iter().for_each(|next| fence(out, &next.line));
    }
    for finding in worst_first(&report.findings) {
        *out += &format!("\n### {}\n\n{}\n\n", escape(&finding.title), prose(&capitalized(&finding.why)));
        finding.seen().into_iter().for_each(|line| *out += &format!("- {}\n", prose(line)));
        // Where a plan answers, the list of what to do has it.
        if !report.has_plan(finding) {
            *out += &format!("\nFix: {}\n", prose(&finding.remedy));
        }
    }
    for path in &report.paths {
        *out += &format!("\n{}: {}\n", code(path.nic.as_str()), prose(&path.summary));
    }
}

fn lost(out: &mut String, sample: &Interference) {
    let Fact::Known(victims) = &sample.victims else { return };
    let losers = losers(sample, victims);
    if !losers.is_empty() {
        let rows = losers.into_iter().take(VICTIMS).map(|victim| {
            let lost = number::share(sample.share(victim.lost_ns()));
            [who(victim), lost, by(sample, victim)]
        });
        *out += "\n";
        *out += &table(&["Process", "Lost, of a CPU", "By"], rows);
    }
}

fn table(heads: &[&str], rows: impl Iterator<Item = impl IntoIterator<Item = String>>) -> String {
    let mut out = format!("| {} |\n|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
    for row in rows {
        let cells: Vec<String> = row.into_iter().map(|cell| escape(&cell)).collect();
        out += &format!("| {} |\n", cells.join(" | "));
    }
    out
}

/// A sentence of the program.
fn prose(text: &str) -> String {
    let part = |part| match part {
        Span::Words(words) => escape(words),
        Span::Code(text) => code(text),
    };
    words::spans(text).map(part).collect()
}

/// Text without meaning in Markdown or HTML, on one line. What reads the same without a backslash has none: intervals,
/// and names such as `NET_RX`.
fn escape(text: &str) -> String {
    let mut out = String::new();
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let next = rest.peek().copied().unwrap_or(' ');
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '\\' | '`' | '*' | '|' | '~' => out.extend(['\\', c]),
            '_' if !(before.is_alphanumeric() && next.is_alphanumeric()) => out.push_str("\\_"),
            // A link, or the definition of one.
            ']' if ['(', '[', ':'].contains(&next) => out.push_str("\\]"),
            '#' | '+' | '-' | '>' | '=' if out.is_empty() && !next.is_ascii_digit() => out.extend(['\\', c]),
            // A mention would notify people.
            '@' => out.push_str("&#64;"),
            // As on the screen; the backslash is doubled for Markdown.
            c if c.is_control() => out.extend(["\\", &terminal::shown(&c.to_string())]),
            c => out.push(c),
        }
        before = c;
    }
    out
}

/// Code in a line. Its fence is longer than any row of backticks inside.
fn code(text: &str) -> String {
    let text = text.replace(char::is_control, " ").replace('|', "\u{2758}");
    let fence = "`".repeat(longest_fence(&text) + 1);
    let room = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{room}{text}{room}{fence}")
}

/// A command on lines of its own.
fn fence(out: &mut String, command: &str) {
    let fence = "`".repeat(longest_fence(command).max(2) + 1);
    *out +=
        &format!("\n{fence}sh\n{}\n{fence}\n", command.replace(|c: char| c.is_control() && c != '\n', " "));
}

fn longest_fence(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::{code, escape, render};
    use crate::report::document::{Document, Part, Trial};
    use crate::report::sample_interference;
    use rxlab_advise::doctor::diagnosed;
    use rxlab_path::sketch::Sketch;
    use rxlab_trial::sample_record;

    #[test]
    fn the_story_of_a_machine() {
        let document = Document::new(vec![
            Part::Doctor(Box::new(diagnosed(Sketch::case_a()))),
            Part::Trial(Box::new(Trial::new(sample_record::rps()))),
            Part::Trial(Box::new(Trial::new(sample_record::rfs()))),
            Part::Interference(Box::new(sample_interference::measured())),
        ]);
        insta::assert_snapshot!(render(&document, "rxlab"));
    }

    #[test]
    fn names_have_no_meaning() {
        assert_eq!(
            escape("a|b *c* <i> `d` [e](f)\n@g"),
            "a\\|b \\*c\\* &lt;i> \\`d\\` [e\\](f)\\\\u{a}&#64;g"
        );
        assert_eq!(escape("# > +"), "\\# > +");
        assert_eq!(escape("_a_ NET_RX +2 % [-1, +3]"), "\\_a\\_ NET_RX +2 % [-1, +3]");
        assert_eq!(escape("+0.8 %"), "+0.8 %");
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("`a|"), "`` `a\u{2758} ``");
    }

    proptest! {
        #[test]
        fn no_name_makes_a_line_an_element_or_a_column(name in "(\n|\r|<script>|`{1,4}|\\||\\PC){0,20}") {
            let mut record = sample_record::rfs();
            let lines = |name: &str, record: &mut rxlab_trial::record::TrialRecord| {
                record.name = name.to_owned();
                record.host.hostname = name.to_owned();
                record.workload = name.to_owned();
                record.change = vec![name.to_owned()];
                record.analysis.as_mut().expect("an analysis").metrics[0].metric.title = name.to_owned();
                let document = Document::new(vec![Part::Trial(Box::new(Trial::new(record.clone())))]);
                render(&document, "rxlab")
            };
            let (plain, text) = (lines("x", &mut record), lines(&name, &mut record));
            // In code it is text.
            let mut outside = text.lines().filter(|line| line.starts_with(['#', '|']));
            prop_assert!(outside.all(|line| !line.contains("<s")), "{text}");
            let columns = |text: &str| -> Vec<usize> {
                let rows = text.lines().filter(|line| line.starts_with("| "));
                rows.map(|row| row.replace("\\|", "").matches('|').count()).collect()
            };
            prop_assert!(columns(&plain) == columns(&text), "{text}");
        }
    }
}
