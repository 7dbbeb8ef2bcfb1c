//! Verdicts in plain words: one sentence for people who read nothing else.

use crate::trial::record::{Analysis, Call, Effect, MetricResult, Verdict};

/// One sentence for the verdict of `analysis`, made at `margin` (0.03 = 3 %).
pub fn sentence(analysis: &Analysis, margin: f64) -> String {
    let Some(primary) = analysis.metrics.first() else { return remark(&analysis.verdict, margin) };
    let title = &primary.metric.title;
    let pairs = count(primary.pairs, "pair");
    match (&analysis.verdict, &primary.effect) {
        (Verdict::Helps, Some(effect)) => format!("It helps: {title} {} after {pairs}.", change(effect)),
        (Verdict::Hurts, Some(effect)) => format!("It hurts: {title} {} after {pairs}.", change(effect)),
        (Verdict::NoMeasurableEffect { negligible: true }, Some(effect)) => format!(
            "Real but negligible: {title} {} after {pairs}, all of it within the margin of {}.",
            change(effect),
            percent(margin)
        ),
        (Verdict::NoMeasurableEffect { negligible: false }, Some(effect)) => format!(
            "No measurable effect: {title} {} after {pairs}, all of it within the margin of {}.",
            change(effect),
            percent(margin)
        ),
        (verdict, _) => remark(verdict, margin),
    }
}

/// A verdict without figures of the primary metric.
fn remark(verdict: &Verdict, margin: f64) -> String {
    match verdict {
        Verdict::Helps => "It helps.".to_owned(),
        Verdict::Hurts => "It hurts.".to_owned(),
        Verdict::NoMeasurableEffect { negligible: true } => "Real but negligible.".to_owned(),
        Verdict::NoMeasurableEffect { negligible: false } => "No measurable effect.".to_owned(),
        Verdict::Inconclusive { detectable, pairs_needed } if detectable.is_finite() => format!(
            "Inconclusive: so many pairs would have found an effect of {} or more; a decision needs about {pairs_needed} pairs.",
            percent(*detectable)
        ),
        Verdict::Inconclusive { pairs_needed, .. } => {
            format!("Inconclusive: too few valid pairs to say anything; run at least {pairs_needed}.")
        }
        Verdict::CannotMatter { ceiling } => format!(
            "It cannot matter here: the receive path takes so little CPU time that removing all of it would gain at most {}, \
             below the margin of {}.",
            percent(*ceiling),
            percent(margin)
        ),
        Verdict::ServerIdle { busiest } => format!(
            "The server was idle: its busiest CPU was {} busy, so there was nothing for a change to relieve.",
            percent(*busiest)
        ),
        Verdict::ClientLimited { reason } => {
            format!("The load generator was the limit ({reason}): this result says nothing about the server.")
        }
        Verdict::SpreadsOnly { headroom_before, headroom_after } => format!(
            "It spreads the load and adds no capacity: the hottest CPU has room for {headroom_after:.1} times today's traffic, \
             {headroom_before:.1} times before, and a packet is not proven to cost less softirq time."
        ),
        Verdict::GuardTripped { reason } => {
            format!("A guard tripped and the change was rolled back at once: {reason}.")
        }
        Verdict::NotApplied { reason } => {
            format!("The change did not take hold, so nothing was compared: {reason}.")
        }
        Verdict::Interrupted => "Interrupted before a decision.".to_owned(),
    }
}

/// What is left to say of a claim that another verdict outranks: the fact, without the conclusion
/// that did not prevail.
pub(super) fn aside(claim: &Verdict, margin: f64) -> String {
    match claim {
        Verdict::CannotMatter { ceiling } => format!(
            "By the CPU time that the receive path takes, a gain would be at most {}, below the margin of {}.",
            percent(*ceiling),
            percent(margin)
        ),
        Verdict::ServerIdle { busiest } => {
            format!("The busiest CPU of the server was {} busy.", percent(*busiest))
        }
        Verdict::ClientLimited { reason } => {
            format!("The load generator was at its limit ({reason}), which can hide part of an effect.")
        }
        Verdict::SpreadsOnly { headroom_before, headroom_after } => format!(
            "Work moved off the hottest CPU, which has room for {headroom_after:.1} times today's traffic, \
             {headroom_before:.1} times before; a packet is not proven to cost less softirq time."
        ),
        other => remark(other, margin),
    }
}

/// What the primary metric showed, for a reader whose verdict is another one.
pub(super) fn measured(primary: &MetricResult) -> Option<String> {
    let effect = primary.effect.as_ref()?;
    let what = match primary.call {
        Call::Helps => "better",
        Call::Hurts => "worse",
        Call::NoEffect | Call::Negligible => "within the margin",
        Call::Inconclusive | Call::Unmeasured => "undecided",
    };
    let pairs = count(primary.pairs, "pair");
    Some(format!("Measured all the same: {} {} after {pairs}, {what}.", primary.metric.title, change(effect)))
}

/// `+12.3 % (+10.1 % to +14.6 %)`.
fn change(effect: &Effect) -> String {
    if effect.high.is_finite() {
        format!("{} ({} to {})", signed(effect.mid), signed(effect.low), signed(effect.high))
    } else {
        format!("{} (no bounds yet)", signed(effect.mid))
    }
}

fn signed(ratio: f64) -> String {
    // A change that rounds to nothing has no sign.
    let rounded = (ratio * 1000.0).round() / 10.0;
    if rounded == 0.0 { "0.0 %".to_owned() } else { format!("{rounded:+.1} %") }
}

/// Without a trailing `.0`, as people write margins.
fn percent(ratio: f64) -> String {
    format!("{} %", (ratio * 1000.0).round() / 10.0)
}

fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

#[cfg(test)]
mod tests {
    use super::{percent, sentence, signed};
    use crate::trial::record::{Analysis, Better, Call, Effect, Metric, MetricResult, Verdict};

    fn analysis(verdict: Verdict, mid: f64, low: f64, high: f64) -> Analysis {
        let metric = Metric {
            name: "throughput".into(),
            title: "throughput".into(),
            unit: "req/s".into(),
            better: Better::Higher,
        };
        let primary = MetricResult {
            metric,
            pairs: 19,
            mean_a: 1000.0,
            mean_b: 1100.0,
            effect: Some(Effect { mid, low, high }),
            p: None,
            call: Call::Helps,
            detectable: Some(0.02),
            ratios: Vec::new(),
        };
        Analysis { verdict, metrics: vec![primary], pairs: 19, voids: 0, notes: Vec::new() }
    }

    #[test]
    fn sentences_as_people_read_them() {
        let say = |verdict, mid, low, high| sentence(&analysis(verdict, mid, low, high), 0.03);
        assert_eq!(
            say(Verdict::Helps, 0.1234, 0.101, 0.146),
            "It helps: throughput +12.3 % (+10.1 % to +14.6 %) after 19 pairs."
        );
        assert_eq!(
            say(Verdict::NoMeasurableEffect { negligible: false }, 0.0004, -0.008, 0.011),
            "No measurable effect: throughput 0.0 % (-0.8 % to +1.1 %) after 19 pairs, all of it within the margin of 3 %."
        );
        assert_eq!(
            say(Verdict::CannotMatter { ceiling: 0.0124 }, 0.0, -0.1, 0.1),
            "It cannot matter here: the receive path takes so little CPU time that removing all of it would gain at most 1.2 %, below the margin of 3 %."
        );
        assert_eq!(
            say(Verdict::Inconclusive { detectable: 0.0512, pairs_needed: 74 }, 0.0, -1.0, f64::INFINITY),
            "Inconclusive: so many pairs would have found an effect of 5.1 % or more; a decision needs about 74 pairs."
        );
        assert_eq!(
            say(Verdict::Inconclusive { detectable: f64::INFINITY, pairs_needed: 9 }, 0.0, 0.0, 0.0),
            "Inconclusive: too few valid pairs to say anything; run at least 9."
        );
    }

    #[test]
    fn rounding_leaves_no_minus_zero() {
        assert_eq!(signed(-0.0001), "0.0 %");
        assert_eq!(signed(-0.5), "-50.0 %");
        assert_eq!(percent(0.03), "3 %");
        assert_eq!(percent(0.125), "12.5 %");
    }
}
