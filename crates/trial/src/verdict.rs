//! Ranking of conclusions. Thresholds and reasons are in `docs/statistics.md`.
//!
//! The rules judge facts; the runner collects them.

mod sentence;

use super::harm::may_hurt;
use super::record::{Better, Call, Capacity, MetricResult, Verdict};
use super::runner::Ending;
use rxlab_stats::planning::pairs_to_plan;
use rxlab_stats::{mean, sd};

/// A server whose busiest relevant CPU is below this fraction of wall time is idle.
pub const IDLE_BELOW: f64 = 0.70;
/// A CPU that is busy for more than this fraction of wall time is full: it takes no more work.
pub const FULL_FROM: f64 = 0.95;
/// Pairs to ask for if too few were measured to estimate any: the fewest that can decide early.
const PAIRS_AT_LEAST: usize = 9;

/// Facts about the run in addition to the metrics. By default nothing is known: then the primary
/// metric alone decides.
#[derive(Debug, Clone, Default)]
pub struct Circumstances<'a> {
    /// CPU share that the receive path takes from the victim in arm A, 0 to 1.
    pub receive_share: Option<f64>,
    /// Busiest relevant CPU of the server in either arm, fraction of wall time.
    pub busiest_cpu: Option<f64>,
    pub ending: Ending,
    /// Softirq time of the CPU with the most in arm A, fraction of wall time.
    pub hottest_before: Option<f64>,
    /// The same in arm B; possibly another CPU.
    pub hottest_after: Option<f64>,
    /// Result of the metric for the hottest CPU's load.
    pub hottest: Option<&'a MetricResult>,
    pub throughput: Option<&'a MetricResult>,
    /// The metric that stands against keeping the change: felt by users and proven worse.
    pub harm: Option<&'a MetricResult>,
    /// In arm A a CPU was full or a part of what was offered was lost, so that more capacity would have raised throughput.
    pub saturated: bool,
    /// Result of total softirq time per packet.
    pub softirq_per_packet: Option<&'a MetricResult>,
}

/// A verdict, and the outranked facts that a reader should know.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    pub verdict: Verdict,
    /// Remarks, one sentence each.
    pub notes: Vec<String>,
}

/// Ranks the primary metric's result at `margin` (0.03 = 3 %) among the circumstances.
///
/// Harm that is proven hurts, however much the primary metric gains. Only a value changed from outside, a tripped guard
/// and a change that did not take hold outrank that and a proven effect: the coins alone decided the order, so an idle
/// server, a small ceiling, a saturated client or an early stop by the user cannot have caused a difference between the
/// arms. They can hide one, and so outrank every result that proves none. A claim that all is well does not outrank an
/// interval that includes harm beyond the margin.
pub fn rank(primary: &MetricResult, margin: f64, around: &Circumstances) -> Ranking {
    let mut claims = claims(primary, margin, around);
    let is_primary = |result: &MetricResult| result.metric.name == primary.metric.name;
    let harm = around.harm.filter(|harm| !is_primary(harm));
    let loses = harm.is_some();
    let proven = loses || matches!(primary.call, Call::Helps | Call::Hurts);
    // A cooler hottest CPU is the spreading itself: it does not prove capacity.
    let only_cooler = !loses && primary.call == Call::Helps && around.hottest.is_some_and(is_primary);
    let harmless = !may_hurt(primary, margin);
    let keeps_throughput = around.throughput.is_none_or(|throughput| !may_hurt(throughput, margin));
    let winner = claims.iter().position(|claim| match claim.rank {
        Rank::Absolute => true,
        Rank::Unproven => !proven,
        Rank::Harmless => !proven && harmless,
        Rank::Spread => (!proven && harmless && keeps_throughput) || only_cooler,
    });
    let verdict = match winner {
        Some(index) => claims.remove(index).verdict,
        None if loses => Verdict::Hurts,
        None => metric_verdict(primary, margin),
    };
    let mut notes: Vec<String> = claims.into_iter().map(|claim| claim.note).collect();
    if winner.is_some() || loses {
        notes.extend(sentence::measured("Primary metric: ", primary));
    }
    let decisive = harm.filter(|_| winner.is_none());
    notes.extend(decisive.and_then(|result| sentence::measured("Outranked by: ", result)));
    Ranking { verdict, notes }
}

/// Upper bound on the gain in throughput, f / (1 - f), if the receive path takes `receive_share` of the victim's CPU.
/// `None` if a gain beyond `margin` is possible.
///
/// Holds only for work per time. Latency has no such bound: a short burst on the wrong CPU is a
/// small share and all of p99.
pub fn ceiling(receive_share: f64, margin: f64) -> Option<f64> {
    let share = receive_share.max(0.0);
    let ceiling = share / (1.0 - share);
    (receive_share.is_finite() && share < 1.0 && ceiling < margin).then_some(ceiling)
}

/// Results that a claim can outrank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    /// Outranks every other result.
    Absolute,
    /// All but a proven effect.
    Unproven,
    /// All but a proven effect, and an interval that includes harm.
    Harmless,
    /// The same, and a throughput that may have fallen; the spread itself is no other effect.
    Spread,
}

struct Claim {
    rank: Rank,
    verdict: Verdict,
    /// The fact behind it, reported if another verdict wins.
    note: String,
}

/// All claims of the circumstances, highest first.
fn claims(primary: &MetricResult, margin: f64, around: &Circumstances) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut claim = |rank, verdict: Option<Verdict>| {
        if let Some(verdict) = verdict {
            let note = sentence::aside(&verdict, margin);
            claims.push(Claim { rank, verdict, note });
        }
    };
    let Ending { changed, guard, not_applied, interrupted, client_limited } = around.ending.clone();
    claim(Rank::Absolute, changed.map(|reason| Verdict::MachineChanged { reason }));
    claim(Rank::Absolute, guard.map(|reason| Verdict::GuardTripped { reason }));
    claim(Rank::Absolute, not_applied.map(|reason| Verdict::NotApplied { reason }));
    let undecided = matches!(primary.call, Call::Inconclusive | Call::Unmeasured);
    claim(Rank::Unproven, (interrupted && undecided).then_some(Verdict::Interrupted));
    claim(Rank::Unproven, client_limited.map(|reason| Verdict::ClientLimited { reason }));
    let bounded = around.receive_share.filter(|_| primary.metric.better == Better::Higher);
    let too_small = bounded.and_then(|share| ceiling(share, margin));
    claim(Rank::Harmless, too_small.map(|ceiling| Verdict::CannotMatter { ceiling }));
    // A hottest CPU that is proven cooler is more than an idle server: something moved.
    claim(Rank::Spread, spread(margin, around));
    claim(Rank::Harmless, idle(around));
    claims
}

fn idle(around: &Circumstances) -> Option<Verdict> {
    let busiest = around.busiest_cpu.filter(|busy| *busy < IDLE_BELOW)?;
    Some(Verdict::ServerIdle { busiest })
}

/// The hottest CPU is proven cooler, by more than cheaper packets can explain; higher throughput is not proven.
fn spread(margin: f64, around: &Circumstances) -> Option<Verdict> {
    let hottest = around.hottest.filter(|hottest| hottest.call == Call::Helps)?;
    let (change, per_packet) = (hottest.effect?, around.softirq_per_packet?.effect?);
    let moved = change.high < per_packet.low;
    let gains = around.throughput.is_some_and(|throughput| throughput.call == Call::Helps);
    let bounded = |result: &MetricResult| result.effect.is_some_and(|effect| effect.high < margin);
    let capacity = if !around.saturated {
        Capacity::Hidden
    } else if around.throughput.is_some_and(bounded) {
        Capacity::Same
    } else {
        Capacity::Undecided
    };
    let headroom = |busy: Option<f64>| busy.filter(|busy| *busy > 0.0).map(|busy| 1.0 / busy);
    let (before, after) = (headroom(around.hottest_before)?, headroom(around.hottest_after)?);
    let verdict = Verdict::SpreadsOnly {
        headroom_before: before,
        headroom_after: after,
        headroom_interval: (before / (1.0 + change.high), before / (1.0 + change.low)),
        capacity,
    };
    (moved && !gains).then_some(verdict)
}

/// Verdict of the primary metric when nothing outranks it.
pub fn metric_verdict(primary: &MetricResult, margin: f64) -> Verdict {
    match primary.call {
        Call::Helps => Verdict::Helps,
        Call::Hurts => Verdict::Hurts,
        Call::NoEffect => Verdict::NoMeasurableEffect { negligible: false },
        Call::Negligible => Verdict::NoMeasurableEffect { negligible: true },
        Call::Inconclusive | Call::Unmeasured => Verdict::Inconclusive {
            detectable: primary.detectable.unwrap_or(f64::INFINITY),
            pairs_needed: pairs_needed(primary, margin),
        },
    }
}

/// Pairs for a decision, if the truth is at the estimate: the distance to 0 or, for an estimate
/// inside the margin, to its nearer side, whichever is longer and so cleared sooner.
fn pairs_needed(primary: &MetricResult, margin: f64) -> usize {
    let d: Vec<f64> = primary.ratios.iter().map(|(_, d)| *d).collect();
    let (Some(mid), Some(spread)) = (mean(&d), sd(&d)) else { return PAIRS_AT_LEAST };
    let delta = mid.abs().max(margin.ln_1p() - mid.abs());
    pairs_to_plan(spread, delta).max(d.len() + 1).max(PAIRS_AT_LEAST)
}

#[cfg(test)]
mod tests;
