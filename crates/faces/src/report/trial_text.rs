//! Trial records on a terminal: for each trial the verdict, one row per metric, and the data behind it.

use anstyle::Style;

use super::predicted;
use super::probe_words;
use super::text::{
    BAD, CAUTION, Cell, FAINT, GOOD, STRONG, Table, clean, columns, command_lines, left, paragraph,
    paragraphs, styled, width, wrapping,
};
use super::words::{self, Tone};
use rxlab_base::number;
use rxlab_trial::outcome;
use rxlab_trial::recommendation::{Advice, Recommendation};
use rxlab_trial::record::{MetricResult, TrialRecord, Verdict};

/// The whole report, at most 80 columns wide; ends with a line break. `program` starts the commands of the advice; without
/// it there are none.
pub fn render(record: &TrialRecord, program: Option<&str>) -> String {
    let mut out = headline(record);
    out += &before_and_after(record);
    out += &words::price(record).map_or_else(String::new, |price| paragraph("  price: ", &price));
    out += &advice(record, program);
    if let Some(analysis) = record.analysis.as_ref().filter(|analysis| !analysis.metrics.is_empty()) {
        out.push('\n');
        out += &metrics(&analysis.metrics, record.margin);
        out.push('\n');
    }
    for (arm, lines) in ["A", "B"].into_iter().zip(record.arms()) {
        if !record.against.is_empty() {
            out += &paragraphs(&format!("  arm {arm}: "), lines);
        } else if arm == "B" {
            out += &paragraphs("  B sets: ", lines);
        }
    }
    if let Some(both) = predicted::compare(record) {
        out += &paragraph("  predicted: ", &both.predicted);
        out += &paragraph("  measured:  ", &both.measured);
    }
    out += &paragraphs("  probe: ", probe_words::of_record(record));
    out += &paragraphs("  check: ", words::checks(record));
    out += &paragraphs("  query: ", words::queries(record));
    out += &paragraph("  based on: ", &words::basis(record));
    if let Some(planned) = &record.planned {
        out += &paragraph("  planned: ", &words::planned(planned, record.margin));
    }
    if record.calibration.is_some() {
        out += &paragraph("  A/A calibration: ", &words::calibration(record));
    }
    out += &paragraphs("  adjusted: ", words::adjustments(record));
    out + &paragraphs("  note: ", record.analysis.iter().flat_map(|analysis| &analysis.notes))
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Good => GOOD,
        Tone::Bad => BAD,
        Tone::Neutral => STRONG,
        Tone::Caution => CAUTION,
    }
}

/// `trial rps: HELPS. 53 % more packets get through [33 to 76]`, in colour; wrapped if too long.
fn headline(record: &TrialRecord) -> String {
    let verdict = match record.verdict() {
        Some(Verdict::Helps | Verdict::Hurts) => words::headline(record).to_uppercase(),
        _ => words::headline(record).to_owned(),
    };
    let name = format!("{}:", words::title(&record.name));
    let figure = number::capitalized(&clean(&words::figure(record)));
    if width(&name) + width(&verdict) + width(&figure) + 3 > columns() {
        return paragraph("", &format!("{name} {verdict}. {figure}"));
    }
    format!("{} {}. {figure}\n", styled(STRONG, &name), styled(style(words::tone(record)), &verdict))
}

/// Means and what they rest on, apart from each other if they fit on one line.
fn before_and_after(record: &TrialRecord) -> String {
    let parts = words::before_and_after(record);
    let line = format!("  {}", parts.join("   "));
    match parts.as_slice() {
        [] => String::new(),
        _ if width(&line) <= columns() => line + "\n",
        parts => paragraph("  ", &parts.join(", ")),
    }
}

/// What to do, the command for it, and the reason.
fn advice(record: &TrialRecord, program: Option<&str>) -> String {
    let Recommendation { advice, reason, command, in_spite } =
        Recommendation::new(record, program.unwrap_or("rxlab"));
    let advised = format!("  {}: ", advice.in_words());
    match command.filter(|_| program.is_some()) {
        Some(command) if advice == Advice::Keep => {
            command_lines(&advised, &command) + &paragraph("  because: ", &reason)
        }
        Some(command) => {
            let in_spite = in_spite.filter(|_| program.is_some());
            let in_spite = in_spite.map(|keep| command_lines("  keep it all the same: ", &keep));
            paragraph(&advised, &reason)
                + &command_lines("  next: ", &command)
                + &in_spite.unwrap_or_default()
        }
        None => paragraph(&advised, &reason),
    }
}

fn metrics(results: &[MetricResult], margin: f64) -> String {
    let means = results.iter().map(|result| match (result.pairs, outcome::means(result)) {
        (0, _) => ("-".to_owned(), "-".to_owned()),
        (_, (a, b)) => (number::value(a), number::value(b)),
    });
    let (arms, means) = aligned(&means.collect::<Vec<_>>());
    let columns = [wrapping("metric"), left(&arms), left("change [interval]"), wrapping("effect")];
    let mut table = Table::new(columns).indented(2);
    for ((result, mean), (call, tone)) in results.iter().zip(means).zip(words::calls(results, margin)) {
        let change = match &result.effect {
            Some(effect) => Cell::from(effect.in_words()),
            None => Cell::styled(FAINT, "-"),
        };
        table.row([
            words::metric(&result.metric).into(),
            mean.into(),
            change,
            Cell::styled(style(tone), words::short(call)),
        ]);
    }
    table.render()
}

/// Heading and cells of a column of means in A and in B, with their arrows below each other.
pub(super) fn aligned(means: &[(String, String)]) -> (String, Vec<String>) {
    let (a, b): (Vec<usize>, Vec<usize>) = means.iter().map(|(a, b)| (width(a), width(b))).unzip();
    let [a, b] = [a, b].map(|widths| widths.into_iter().max().unwrap_or(1));
    let cells = means.iter().map(|(in_a, in_b)| format!("{in_a:>a$} -> {in_b:>b$}"));
    (format!("{:>a$} -> {:>b$}", "A", "B"), cells.collect())
}

#[cfg(test)]
mod tests {
    use super::render;
    use crate::report::text::WIDTH;
    use proptest::prelude::{Strategy, any, prop_assert, proptest};
    use rxlab_stats::design::Arm;
    use rxlab_trial::metrics::{describe, name};
    use rxlab_trial::record::{Call, Capacity, Effect, TrialRecord, Verdict};
    use rxlab_trial::sample_record;

    fn plain(records: &[TrialRecord]) -> String {
        let texts: Vec<String> = records.iter().map(|record| render(record, Some("rxlab"))).collect();
        anstream::adapter::strip_str(&texts.join("\n")).to_string()
    }

    #[test]
    fn two_trials() {
        insta::assert_snapshot!(plain(&[sample_record::rps(), sample_record::rfs()]));
    }

    #[test]
    fn every_verdict_has_its_words() {
        insta::assert_snapshot!(plain(&sample_record::every_verdict()));
    }

    /// The change is not blamed for what happened without it.
    #[test]
    fn a_guard_that_trips_without_the_change_says_so() {
        let verdict = |record: &TrialRecord| record.analysis.as_ref().map(|a| a.verdict.clone());
        let mut records = sample_record::every_verdict();
        records.retain(|record| matches!(verdict(record), Some(Verdict::GuardTripped { .. })));
        let record = &mut records[0];
        for (arm, headline) in [(Arm::A, "guard tripped without the change"), (Arm::B, "reverted")] {
            record.slots.last_mut().expect("a slot").arm = arm;
            let text = plain(std::slice::from_ref(record));
            assert!(text.contains(headline), "{text}");
            assert_eq!(text.contains("  measure again: "), arm == Arm::A, "{text}");
        }
    }

    /// A trial that said `helps` once had a red `hurts` below it, for its price.
    #[test]
    fn only_what_decides_helps_or_hurts() {
        let mut record = sample_record::every_verdict().remove(0);
        let metrics = &mut record.analysis.as_mut().expect("analysed").metrics;
        let mut price = metrics[0].clone();
        (price.metric, price.call) = (describe(name::MACHINE_CPU, "req/s"), Call::Hurts);
        price.effect = Some(Effect { mid: 0.06, low: 0.04, high: 0.08 });
        let mut felt = price.clone();
        felt.metric = describe(name::P99, "req/s");
        metrics.push(price);
        let text = plain(std::slice::from_ref(&record));
        assert!(text.starts_with("trial rps: HELPS. 9 % more requests get through [8 to 10]\n"), "{text}");
        assert!(text.contains("  price: CPU time per request +6.0 %\n"), "{text}");
        assert!(text.contains(" up\n") && !text.contains("hurts"), "{text}");
        record.analysis.as_mut().expect("analysed").metrics.push(felt);
        let text = plain(&[record]);
        assert!(
            text.contains(" hurts\n") && text.contains(" up\n"),
            "what users feel stands against it: {text}"
        );
    }

    #[test]
    fn the_verdict_has_colour_and_words() {
        let records = sample_record::every_verdict();
        assert!(render(&records[0], None).contains("\u{1b}[32mHELPS"));
    }

    fn record() -> impl Strategy<Value = TrialRecord> {
        let words = "[a-z0-9 ,%\u{1b}]{0,200}";
        let number = any::<f64>();
        ((words, words, words, words), (number, number, number), any::<u64>(), 0..7_usize).prop_map(
            |((name, title, unit, note), (mid, low, high), seed, call)| {
                let mut record = sample_record::rps();
                record.change = vec![note.clone()];
                record.seed = seed;
                record.margin = high;
                let analysis = record.analysis.as_mut().expect("an analysis");
                analysis.verdict = match call {
                    0 => Verdict::GuardTripped { reason: note.clone() },
                    1 => Verdict::Inconclusive { detectable: low, pairs_needed: usize::MAX },
                    2 => Verdict::SpreadsOnly {
                        headroom_before: mid,
                        headroom_after: low,
                        headroom_interval: (low, high),
                        capacity: Capacity::Undecided,
                    },
                    _ => Verdict::Helps,
                };
                analysis.notes = vec![note];
                let result = &mut analysis.metrics[0];
                result.metric.title = title;
                result.metric.unit = unit;
                result.mean_a = mid;
                result.mean_b = high;
                result.effect = Some(Effect { mid, low, high });
                result.call = [
                    Call::Helps,
                    Call::Hurts,
                    Call::NoEffect,
                    Call::Negligible,
                    Call::Inconclusive,
                    Call::Unmeasured,
                    Call::Helps,
                ][call];
                record.name = name;
                record
            },
        )
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal(record in record()) {
            // A command is not broken within a word.
            let text = render(&record, None);
            for line in anstream::adapter::strip_str(&text).to_string().lines() {
                prop_assert!(line.chars().count() <= WIDTH, "{line}");
            }
        }
    }
}
