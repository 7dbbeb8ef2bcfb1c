//! The conclusion of a finished trial: the metrics, ranked among the circumstances. A pure
//! function of the record and of how the run ended.

use super::analysis;
use super::harm;
use super::metrics::{KEPT, name};
use super::probed;
use super::record::{Analysis, Call, MetricResult, TrialRecord, Verdict};
use super::runner::Ending;
use super::spec::Kind;
use super::verdict::{Circumstances, FULL_FROM, rank};
use rxlab_base::number;
use rxlab_stats::design::Arm;
use rxlab_stats::mean;

/// Remark on every comparison before and after.
const BEFORE_AFTER: &str = "Nothing was randomised: all slots of arm A came first. Traffic, temperature and other \
    programs that changed in between are part of the differences. The intervals allow for slots that depend on the \
    ones before them, not for that.";

/// Analyses `record` and ranks the verdict by circumstances outside the metrics. `steers`: the change
/// affects the receive path, whose share of the CPU bounds the gain. `offered`: the rate of a paced load.
pub fn conclude(record: &TrialRecord, ending: &Ending, steers: bool, offered: Option<f64>) -> Analysis {
    let mut analysis = analysis::analyse(record);
    let Some(primary) = analysis.metrics.first() else { return analysis };
    let result = |name: &str| analysis.metrics.iter().find(|result| result.metric.name == name);
    let through = got_through(record, result(name::THROUGHPUT), offered);
    let around = Circumstances {
        receive_share: share(record, name::HOTTEST_SOFTIRQ, Arm::A).filter(|_| steers),
        busiest_cpu: [Arm::A, Arm::B]
            .into_iter()
            .filter_map(|arm| share(record, name::BUSIEST, arm))
            .reduce(f64::max),
        ending: ending.clone(),
        hottest_before: share(record, name::HOTTEST_SOFTIRQ, Arm::A),
        hottest_after: share(record, name::HOTTEST_SOFTIRQ, Arm::B),
        hottest: hottest(&analysis.metrics),
        throughput: result(name::THROUGHPUT),
        harm: harm::worse(&analysis.metrics, record.margin).first().copied(),
        saturated: match through {
            Some(through) => through < KEPT,
            None => share(record, name::BUSIEST, Arm::A).is_some_and(|busy| busy >= FULL_FROM),
        },
        // The measured value if there is one, else the sampled one.
        softirq_per_packet: result(probed::NET_RX_PER_PACKET).or_else(|| result(name::SOFTIRQ_PER_PACKET)),
    };
    let ranking = rank(primary, record.margin, &around);
    analysis.verdict = ranking.verdict;
    let lost = through.filter(|through| *through < KEPT).map(|through| {
        format!("{} of what was offered was lost without the change.", number::share(1.0 - through))
    });
    analysis.notes.extend(lost);
    match record.design {
        Kind::BeforeAfter => unproven(&mut analysis, ending.interrupted),
        _ => analysis.notes.extend(ranking.notes),
    }
    analysis
}

/// Takes back every claim: without coins, whatever else changed between the halves is in the differences too.
fn unproven(analysis: &mut Analysis, interrupted: bool) {
    let apparent = analysis.metrics.first().map_or(Call::Unmeasured, |primary| primary.call);
    for result in &mut analysis.metrics {
        if result.call != Call::Unmeasured {
            result.call = Call::Inconclusive;
        }
        (result.p, result.detectable) = (None, None);
    }
    let stays = matches!(
        analysis.verdict,
        Verdict::GuardTripped { .. } | Verdict::NotApplied { .. } | Verdict::MachineChanged { .. }
    );
    if !stays {
        analysis.verdict = if interrupted { Verdict::Interrupted } else { Verdict::Unproven { apparent } };
    }
    analysis.notes.insert(0, BEFORE_AFTER.to_owned());
}

/// What got through in arm A as a fraction of what was offered; `None` where nothing counts the latter. Of live traffic
/// that is what reached the interfaces.
fn got_through(record: &TrialRecord, throughput: Option<&MetricResult>, rate: Option<f64>) -> Option<f64> {
    let arrivals: Vec<f64> = record.values(name::ARRIVALS, Arm::A).collect();
    let offered = rate.or_else(|| mean(&arrivals)).filter(|offered| *offered > 0.0)?;
    Some(throughput?.mean_a / offered)
}

/// Softirq time of the hottest CPU, not its packet count, which the change itself moves.
/// `None` where time is only sampled by ticks: there the record lists the count first.
fn hottest(metrics: &[MetricResult]) -> Option<&MetricResult> {
    let of = |name: &str| metrics.iter().position(|result| result.metric.name == name);
    let probed = of(probed::NET_RX_MAX_CPU);
    let is_timed = of(name::HOTTEST_SOFTIRQ) < of(name::HOTTEST_SHARE);
    let at = probed.or_else(|| of(name::HOTTEST_SOFTIRQ).filter(|_| is_timed))?;
    metrics.get(at).filter(|result| result.effect.is_some())
}

/// Mean of a percentage over the valid comparison slots of an arm, as a fraction.
fn share(record: &TrialRecord, name: &str, arm: Arm) -> Option<f64> {
    let values: Vec<f64> = record.values(name, arm).map(|value| value / 100.0).collect();
    mean(&values)
}
