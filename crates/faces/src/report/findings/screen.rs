//! An answer as lines of a terminal. Where there are too few lines, detail is left out, the least important first.

use anstyle::Style;

use super::answer::{Answer, Command, Fix, Rank};
use super::bars::Bar;
use super::{LABEL, mark, mark_style};
use crate::report::text::{BAD, CAUTION, columns, command_lines, paragraph, styled, units, width, wrap};
use crate::report::words::Tone;
use rxlab_advise::diagnose::Severity;
use rxlab_base::number::plural;
use rxlab_path::evidence::{DROWNING, FULL};

/// Column of the text after `   why    `.
const INDENT: usize = 10;

/// Lines that stay or go together.
struct Block {
    text: String,
    rank: Rank,
    /// True for a finding, which is counted where it is left out.
    is_finding: bool,
}

/// At most `rows` lines, or all of them; ends with a line break. `more` is the command that shows the rest, if any.
pub(super) fn screen(answer: &Answer, rows: usize, more: Option<&str>) -> String {
    let mut blocks = blocks(answer);
    let footer = |left_out: usize| {
        let about = (left_out > 0).then(|| plural(left_out, "more finding"));
        more.map_or_else(String::new, |more| command("more", more, about.as_deref()))
    };
    let mut left_out = 0;
    loop {
        let foot = footer(left_out);
        let lines = blocks.iter().map(|block| block.text.lines().count()).sum::<usize>();
        // Of equals, the last goes.
        let least = (0..blocks.len())
            .filter(|at| blocks[*at].rank > Rank::Headline)
            .max_by_key(|at| blocks[*at].rank);
        match least.filter(|_| lines + foot.lines().count() > rows) {
            Some(at) => left_out += usize::from(blocks.remove(at).is_finding),
            None => return blocks.iter().map(|block| block.text.as_str()).collect::<String>() + &foot,
        }
    }
}

fn blocks(answer: &Answer) -> Vec<Block> {
    let block = |rank, text| Block { text, rank, is_finding: false };
    let mut blocks = vec![block(Rank::Headline, headline(answer))];
    blocks.push(block(Rank::Picture, picture(&answer.cpus, answer.packets.as_deref())));
    blocks.extend(answer.facts.iter().map(|fact| block(fact.rank, labelled(fact.label, &fact.text))));
    let tried = answer.fixes.iter().position(|fix| fix.command.is_some()).unwrap_or_default();
    for (index, fix) in answer.fixes.iter().enumerate() {
        let leads = index <= tried;
        blocks.push(block(if leads { Rank::Action } else { Rank::Alternative }, action(index + 1, fix)));
        if index != tried {
            continue;
        }
        blocks.extend(fix.rough.iter().map(|rough| block(Rank::Prediction, labelled("rough", rough))));
        blocks.extend(fix.command.iter().map(|next| block(Rank::Command, next_command(next))));
    }
    blocks.extend(answer.others.iter().map(|other| Block {
        text: title(other.severity, &other.title, &other.id)
            + &other.command.as_ref().map_or_else(String::new, next_command),
        rank: if other.severity > Severity::Note { Rank::Worst } else { Rank::Note },
        is_finding: true,
    }));
    blocks.push(block(Rank::Note, labelled("basis", &answer.basis)));
    blocks
}

fn headline(answer: &Answer) -> String {
    let style = match (answer.severity, answer.tone) {
        (None, Tone::Caution) => Style::new(),
        (severity, _) => mark_style(severity),
    };
    styled_title(style, answer.severity, &answer.headline, answer.id.as_deref())
}

/// A finding and its rule. The rule never has a line of its own: the last words of the title come with it.
pub(super) fn title(severity: Severity, title: &str, id: &str) -> String {
    styled_title(mark_style(Some(severity)), Some(severity), title, Some(id))
}

fn styled_title(style: Style, severity: Option<Severity>, title: &str, id: Option<&str>) -> String {
    let mark = severity.map_or("", mark);
    let indent = if mark.is_empty() { 0 } else { mark.len() + 1 };
    let room = columns() - indent;
    let id = id.unwrap_or_default();
    let mut lines = wrap(title, room);
    let fits = |line: &String| width(line) + 2 + id.len() <= room;
    if !id.is_empty() && !lines.last().is_some_and(fits) {
        let words = units(title);
        let part = |words: &[String]| words.join(" ");
        // After a clause, if the rest is not too long, else before the last words.
        let is_end = |at: &usize| words[at - 1].ends_with([';', ':', ',']);
        let cuts: Vec<usize> = (1..words.len()).filter(|at| fits(&part(&words[*at..]))).collect();
        let cut =
            cuts.iter().rfind(|at| is_end(at)).or(cuts.get(cuts.len() / 2)).copied().unwrap_or(words.len());
        lines = wrap(&part(&words[..cut]), room);
        lines.extend((cut < words.len()).then(|| part(&words[cut..])));
    }
    let count = lines.len();
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        let mark = if index == 0 { mark } else { &"  "[..mark.len()] };
        let space = if mark.is_empty() { "" } else { " " };
        text += &styled(style, &format!("{mark}{space}{line}"));
        if index + 1 == count && !id.is_empty() && fits(line) {
            text += &format!("{:gap$}{LABEL}{id}{LABEL:#}", "", gap = room - width(line) - id.len());
        }
        text.push('\n');
    }
    text
}

/// Bars side by side, and the rate after them.
fn picture(bars: &[Bar], packets: Option<&str>) -> String {
    let indent = 3;
    let has_other = bars.iter().any(|bar| bar.marks().1 > 0);
    let legend = if has_other { "# receive work  - other" } else { "" };
    let end: Vec<&str> =
        [legend, packets.unwrap_or_default()].into_iter().filter(|part| !part.is_empty()).collect();
    let end = end.join("   ");
    let mut lines: Vec<(usize, String)> = Vec::new();
    for bar in bars {
        let (plain, shown) = (bar.text(), shown(bar));
        match lines.last_mut() {
            Some((used, line)) if *used + 2 + width(&plain) <= columns() => {
                *line += &format!("  {shown}");
                *used += 2 + width(&plain);
            }
            _ => lines.push((indent + width(&plain), format!("{:indent$}{shown}", ""))),
        }
    }
    match lines.last_mut() {
        Some((used, line)) if *used + 2 + width(&end) <= columns() => {
            *line += &format!("{:gap$}{end}", "", gap = columns() - *used - width(&end));
        }
        _ => lines.push((0, format!("{:indent$}{end}", ""))),
    }
    let trimmed = |(_, line): (usize, String)| line.trim_end().to_owned() + "\n";
    lines.into_iter().map(trimmed).filter(|line| line.trim() != "").collect()
}

/// A bar in the colour of its heat.
fn shown(bar: &Bar) -> String {
    let text = bar.text();
    match bar.receive {
        full if full >= FULL => styled(BAD, &text),
        high if high >= DROWNING => styled(CAUTION, &text),
        _ => text,
    }
}

fn action(number: usize, fix: &Fix) -> String {
    let text = paragraph(&format!("{number:>2} "), &fix.action);
    let Some(risk) = fix.risk.map(|risk| format!("risk: {risk}")) else { return text };
    let used = text.lines().last().map_or(0, width);
    let (text, used) =
        if used + 2 + width(&risk) <= columns() { (text.trim_end_matches('\n'), used) } else { (&*text, 0) };
    format!("{text}{:gap$}{LABEL}{risk}{LABEL:#}\n", "", gap = columns() - used - width(&risk))
}

fn next_command(next: &Command) -> String {
    command(next.label, &next.line, next.about.as_deref())
}

/// A command to copy, and what is to say about it.
fn command(label: &str, command: &str, about: Option<&str>) -> String {
    let lines = command_lines(&format!("   {LABEL}{label:<6}{LABEL:#} "), command);
    let about = about.map(|about| format!("({about})")).unwrap_or_default();
    let last = lines.lines().last().map_or(0, |line| width(&anstream::adapter::strip_str(line).to_string()));
    if about.is_empty() {
        lines
    } else if last + 4 + width(&about) <= columns() {
        format!("{}    {about}\n", lines.trim_end_matches('\n'))
    } else {
        lines + &paragraph(&" ".repeat(INDENT), &about)
    }
}

/// A label and its text; continued lines are indented to the text.
fn labelled(label: &str, text: &str) -> String {
    paragraph(&format!("   {LABEL}{label:<6}{LABEL:#} "), text)
}

#[cfg(test)]
mod tests {
    use super::title;
    use crate::report::text::plain;
    use rxlab_advise::diagnose::Severity;

    /// The rule of a finding once had a line of its own.
    #[test]
    fn a_rule_is_never_alone_on_a_line() {
        for words in 2..40 {
            for length in 1..9 {
                let text = vec!["x".repeat(length); words].join(" ");
                let shown = plain(&title(Severity::Critical, &text, "rps-mask-contains-irq-cpu"));
                let last = shown.lines().last().expect("a line");
                let (before, _) = last.split_once("rps-mask").expect("the rule");
                assert!(before.trim_start_matches('!').contains('x'), "{shown}");
                assert_eq!(shown.matches(&"x".repeat(length)).count(), words, "{shown}");
            }
        }
    }
}
