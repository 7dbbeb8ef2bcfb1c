//! Remarks on facts that did not become the verdict. The report has the verdict's own sentence.

use crate::record::{Call, MetricResult, Verdict};
use rxlab_base::number::plural;

/// Remark on an outranked claim: the fact, without the conclusion
/// that did not prevail.
pub(super) fn aside(claim: &Verdict, margin: f64) -> String {
    match claim {
        Verdict::CannotMatter { ceiling } => format!(
            "Given the CPU time of the receive path, a gain would be at most {}, below the margin of {}.",
            percent(*ceiling),
            percent(margin)
        ),
        Verdict::ServerIdle { busiest } => {
            format!("The server's busiest CPU was {} busy.", percent(*busiest))
        }
        Verdict::ClientLimited { reason } => {
            format!("The load generator was at its limit ({reason}), which can hide part of an effect.")
        }
        Verdict::SpreadsOnly { headroom_before, headroom_after, .. } => format!(
            "Work moved off the hottest CPU, which has room for {headroom_after:.1} times its receive work \
             ({headroom_before:.1} before)."
        ),
        Verdict::NotApplied { reason } => {
            format!("The change did not take hold in the last slots: {reason}.")
        }
        Verdict::MachineChanged { reason } => format!("Changed from outside: {reason}."),
        Verdict::Interrupted => "The trial was interrupted.".to_owned(),
        Verdict::GuardTripped { reason } => format!("A guard tripped: {reason}."),
        // The primary metric's result is never a claim in addition to itself.
        Verdict::Helps
        | Verdict::Hurts
        | Verdict::NoMeasurableEffect { .. }
        | Verdict::Unproven { .. }
        | Verdict::Inconclusive { .. } => String::new(),
    }
}

/// A result, for a reader of a verdict that it alone does not explain. `role` opens the sentence.
pub(super) fn measured(role: &str, result: &MetricResult) -> Option<String> {
    let effect = result.effect.as_ref()?;
    let what = match result.call {
        Call::Helps => "better",
        Call::Hurts => "worse",
        Call::NoEffect | Call::Negligible => "within the margin",
        Call::Inconclusive | Call::Unmeasured => "undecided",
    };
    let pairs = plural(result.pairs, "pair");
    Some(format!("{role}{} {} after {pairs}, {what}.", result.metric.title, effect.in_words()))
}

/// Without a trailing `.0`, as people write margins.
fn percent(ratio: f64) -> String {
    format!("{} %", (ratio * 1000.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::{aside, percent};
    use crate::record::Verdict;

    #[test]
    fn a_share_has_no_trailing_zero() {
        assert_eq!(percent(0.03), "3 %");
        assert_eq!(percent(0.125), "12.5 %");
    }

    #[test]
    fn an_aside_states_the_fact_without_the_conclusion() {
        assert_eq!(
            aside(&Verdict::ServerIdle { busiest: 0.42 }, 0.03),
            "The server's busiest CPU was 42 % busy."
        );
    }
}
