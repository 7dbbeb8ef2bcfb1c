//! Comparison of two setups as text: the one that disturbs less, by how much, and the data behind it.

use super::text::{
    BAD, CAUTION, Cell, FAINT, GOOD, STRONG, Table, left, paragraph, paragraphs, styled, wrapping,
};
use super::trial_text::aligned;
use super::{probe_words, words};
use rxlab_base::number;
use rxlab_stats::design::Arm;
use rxlab_trial::compare::{Answer, Comparison, Difference, Measure};
use rxlab_trial::effect::Effect;
use rxlab_trial::probed;
use rxlab_trial::record::{Better, Call};

/// The whole report; ends with a line break.
pub fn text(comparison: &Comparison) -> String {
    let mut out = format!("{}\n", styled(STRONG, headline(comparison)));
    out += &paragraph("  per second: ", &said(&comparison.per_second, "lost CPU time", comparison.margin));
    out += &paragraph("  per packet: ", &said(&comparison.per_packet, "lost time", comparison.margin));
    out += &paragraph("  verdict on B against A: ", words::verdict(&comparison.verdict));
    if !comparison.measures.is_empty() {
        out += &format!("\n{}\n", table(&comparison.measures));
    }
    for (arm, lines) in [("  A: ", &comparison.a), ("  B: ", &comparison.b)] {
        out += &paragraphs(arm, lines);
    }
    if let Some(probe) = &comparison.probe {
        out += &paragraph("  probe: ", &probe_words::in_words(probe, comparison.probe_cost));
    }
    out += &paragraph("  based on: ", &basis(comparison));
    out + &paragraphs("  note: ", &comparison.notes)
}

/// The setup that disturbs less, in a few words.
pub fn headline(comparison: &Comparison) -> &'static str {
    match (comparison.per_second.less, comparison.per_packet.less) {
        (Some(Arm::A), Some(Arm::A)) => "A disturbs less",
        (Some(Arm::B), Some(Arm::B)) => "B disturbs less",
        (Some(Arm::A), Some(Arm::B)) => "A disturbs less per second, B per packet",
        (Some(Arm::B), Some(Arm::A)) => "B disturbs less per second, A per packet",
        (Some(Arm::A), None) => "A disturbs less per second; not proven per packet",
        (Some(Arm::B), None) => "B disturbs less per second; not proven per packet",
        (None, Some(Arm::A)) => "A disturbs less per packet; not proven per second",
        (None, Some(Arm::B)) => "B disturbs less per packet; not proven per second",
        (None, None) => "neither is proven to disturb less",
    }
}

/// Time lost per second and per packet, in one sentence each.
pub fn sentence(comparison: &Comparison) -> String {
    let second = said(&comparison.per_second, "lost CPU time", comparison.margin);
    let packet = said(&comparison.per_packet, "lost time", comparison.margin);
    format!("Per second, {second}. Per packet, {packet}.")
}

fn said(answer: &Answer, what: &str, margin: f64) -> String {
    let figures = answer.change.as_ref().map(Effect::in_words).unwrap_or_default();
    match (answer.call, answer.less) {
        (_, Some(arm)) => format!("{arm:?} disturbs less: {what} in B {figures}"),
        (Call::NoEffect | Call::Negligible, None) => {
            format!(
                "no difference that matters: {what} in B {figures}, the margin is {}",
                number::share(margin)
            )
        }
        (Call::Unmeasured, None) => "not measured".to_owned(),
        (_, None) => format!("undecided: {what} in B {figures}"),
    }
}

fn table(measures: &[Measure]) -> String {
    let means = measures.iter().map(|measure| (number::value(measure.a), number::value(measure.b)));
    let (arms, means) = aligned(&means.collect::<Vec<_>>());
    let columns = [wrapping("measure"), left(&arms), left("B - A [interval]"), wrapping("B is")];
    let mut table = Table::new(columns).indented(2);
    for (measure, mean) in measures.iter().zip(means) {
        let difference = measure.difference.as_ref().filter(|difference| difference.mid.is_finite());
        let (word, style) = verdict_on_b(measure);
        table.row([
            format!("{}, {}", measure.metric.title, measure.metric.unit).into(),
            mean.into(),
            difference.map_or_else(|| Cell::styled(FAINT, "-"), |difference| in_words(difference).into()),
            Cell::styled(style, word),
        ]);
    }
    table.render()
}

/// Measures that answer a question; only these are better or worse.
const DECIDES: [&str; 2] = [probed::INTERFERENCE, probed::INTERFERENCE_PER_PACKET];

/// Based on the interval of the difference, which is shown next to it; "the same" only within the margin.
fn verdict_on_b(measure: &Measure) -> (&'static str, anstyle::Style) {
    if matches!(measure.call, Call::NoEffect | Call::Negligible) {
        return ("the same", STRONG);
    }
    let Some(difference) = measure.difference else { return ("not measured", CAUTION) };
    let decides = DECIDES.contains(&measure.metric.name.as_str());
    let style = |better: Better| {
        if !decides {
            STRONG
        } else if measure.metric.better == better {
            GOOD
        } else {
            BAD
        }
    };
    match (difference.low, difference.high) {
        (Some(low), _) if low > 0.0 => ("more", style(Better::Higher)),
        (_, Some(high)) if high < 0.0 => ("less", style(Better::Lower)),
        _ => ("undecided", CAUTION),
    }
}

/// Text such as `-31.2 [-33.0, -29.4]`.
fn in_words(difference: &Difference) -> String {
    let signed = |value: f64| {
        let text = number::value(value);
        if value > 0.0 { format!("+{text}") } else { text }
    };
    let end = |bound: Option<f64>| bound.map_or_else(|| "no bound".to_owned(), signed);
    match (difference.low, difference.high) {
        (None, None) => format!("{}, too early", signed(difference.mid)),
        (low, high) => format!("{} [{}, {}]", signed(difference.mid), end(low), end(high)),
    }
}

fn basis(comparison: &Comparison) -> String {
    let voids = match comparison.voids {
        0 => String::new(),
        voids => format!(", {}", number::plural(voids, "void slot")),
    };
    format!(
        "{} of slots of {} s{voids}, seed {}, margin {}; trial {}",
        number::plural(comparison.pairs, "pair"),
        comparison.measure_s,
        comparison.seed,
        number::share(comparison.margin),
        comparison.trial,
    )
}

#[cfg(test)]
mod tests {
    use super::text;
    use crate::report::sample_compare::{fewer_packets, steered, undecided};
    use rxlab_trial::compare::Comparison;

    fn plain(comparison: &Comparison) -> String {
        crate::report::text::plain(&text(comparison))
    }

    #[test]
    fn one_interferes_and_the_other_does_not() {
        insta::assert_snapshot!(plain(&steered()));
    }

    #[test]
    fn less_in_the_same_time_and_more_for_a_packet() {
        insta::assert_snapshot!(plain(&fewer_packets()));
    }

    #[test]
    fn nothing_is_proven_yet() {
        insta::assert_snapshot!(plain(&undecided()));
    }
}
