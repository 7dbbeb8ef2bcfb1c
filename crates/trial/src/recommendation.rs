//! The recommendation from a trial: keep the change, do not keep it, or measure more; with reason and command.

use serde::{Deserialize, Serialize};

use crate::checkpoint::Checkpoint;
use crate::harm::{Harm, harms};
use crate::metrics::name;
use crate::record::{Call, Capacity, Effect, MetricResult, TrialRecord, Verdict};
use crate::schedule::Scheduled;
use crate::verdict::IDLE_BELOW;
use rxlab_base::grammar::sh;
use rxlab_base::number::{self, capitalized};
use rxlab_setting::{Setting, set_flags};
use rxlab_stats::design::Arm;

/// Advice on the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// Apply it.
    Keep,
    /// Leave the machine as it was.
    DoNotKeep,
    /// Run the same trial with more pairs.
    MeasureLonger,
    /// Run another trial, under the condition that the reason names.
    MeasureAgain,
}

impl Advice {
    pub fn in_words(self) -> &'static str {
        match self {
            Advice::Keep => "keep it",
            Advice::DoNotKeep => "do not keep it",
            Advice::MeasureLonger => "measure longer",
            Advice::MeasureAgain => "measure again",
        }
    }
}

/// Advice with its reason and the command to follow it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Recommendation {
    /// The advice.
    pub advice: Advice,
    /// Its reason, in one or two sentences with figures.
    pub reason: String,
    /// The next command; `None` if there is no single one.
    pub command: Option<String>,
    /// The command that keeps the change in spite of the advice: its benefit is shown, and only what it costs, or what it does beside
    /// it, is open. `None` elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_spite: Option<String>,
}

/// A trial record with its recommendation: the output of `--json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialReport {
    /// The record.
    #[serde(flatten)]
    pub record: TrialRecord,
    /// The recommendation from the record.
    pub recommendation: Recommendation,
    /// Checkpoints so far, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<Checkpoint>,
    /// Scheduled checkpoints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scheduled: Vec<Scheduled>,
}

impl TrialReport {
    /// Adds the recommendation to a record.
    pub fn new(record: TrialRecord, program: &str) -> Self {
        let recommendation = Recommendation::new(&record, program);
        Self { record, recommendation, checkpoints: Vec::new(), scheduled: Vec::new() }
    }
}

impl Recommendation {
    /// Derives it from a record, finished or not. `program` is the start of the command: `rxlab` with global options.
    pub fn new(record: &TrialRecord, program: &str) -> Self {
        let (advice, reason) = advise(record);
        let verdict = record.verdict();
        let program = &in_namespace(program, record);
        let again = || format!("{program} trial run --again {}", sh::word(&record.id));
        let command = match (advice, verdict) {
            (Advice::Keep, _) => keep(record, program),
            (Advice::DoNotKeep, _) => Some(format!("{program} doctor")),
            (Advice::MeasureLonger, Some(Verdict::Inconclusive { pairs_needed, .. })) => {
                Some(format!("{} --pairs {pairs_needed}", again()))
            }
            (Advice::MeasureLonger, Some(Verdict::Helps | Verdict::SpreadsOnly { .. })) => {
                Some(format!("{} --min-pairs {}", again(), more_pairs(record)))
            }
            (Advice::MeasureLonger, _) => Some(format!("{program} trial resume {}", sh::word(&record.id))),
            // The same comparison again would prove no more.
            (Advice::MeasureAgain, Some(Verdict::Unproven { .. })) => None,
            // As it was, it would end the same.
            (Advice::MeasureAgain, Some(Verdict::Inconclusive { .. })) if comes_late(record) => None,
            (Advice::MeasureAgain, Some(Verdict::Inconclusive { pairs_needed, .. }))
                if record.idle_slots().is_none() && seconds_of(record, *pairs_needed) > WORTH_S =>
            {
                None
            }
            (Advice::MeasureAgain, _) => Some(again()),
        };
        let shown = matches!(verdict, Some(Verdict::Helps | Verdict::SpreadsOnly { .. }));
        let in_spite = if shown && advice == Advice::MeasureLonger { keep(record, program) } else { None };
        Self { advice, reason, command, in_spite }
    }

    /// `keep it. Throughput +18 %, hottest CPU 69 -> 97 % in softirq.`
    pub fn sentence(&self) -> String {
        format!("{}. {}", self.advice.in_words(), self.reason)
    }
}

/// Longest trial that is advised, seconds: machines and traffic change, and other ways decide sooner.
const WORTH_S: f64 = 3600.0;

/// True if the primary metric shows an effect that nothing is concluded from, since most of it comes in the next slot.
pub(crate) fn comes_late(record: &TrialRecord) -> bool {
    let primary = record.analysis.as_ref().and_then(|analysis| analysis.metrics.first());
    primary.is_some_and(|primary| {
        let excludes_zero = primary.effect.is_some_and(|effect| effect.low > 0.0 || effect.high < 0.0);
        primary.call == Call::Inconclusive && excludes_zero
    })
}

/// Pairs of a repetition of a trial whose effect is shown and whose harm is not excluded: it would decide for the effect as
/// soon again if it could.
fn more_pairs(record: &TrialRecord) -> usize {
    2 * record.analysis.as_ref().map_or(record.max_pairs, |analysis| analysis.pairs)
}

/// How long that takes, as a sentence after another.
fn longer(record: &TrialRecord) -> String {
    let pairs = more_pairs(record);
    format!(" {} take {}.", number::plural(pairs, "pair"), number::about(seconds_of(record, pairs)))
}

/// Seconds that `pairs` pairs of this trial take.
fn seconds_of(record: &TrialRecord, pairs: usize) -> f64 {
    2.0 * pairs as f64 * (record.washout_s + record.measure_s)
}

/// The start of commands on the interfaces that the trial measured.
fn in_namespace(program: &str, record: &TrialRecord) -> String {
    match &record.netns {
        Some(netns) if !program.contains(" --netns ") => format!("{program} --netns {}", sh::word(netns)),
        _ => program.to_owned(),
    }
}

/// The command that applies arm B permanently, with an armed rollback.
fn keep(record: &TrialRecord, program: &str) -> Option<String> {
    let settings: Option<Vec<Setting>> = record.change.iter().map(|line| line.parse().ok()).collect();
    match (&record.plan, settings) {
        (Some(plan), _) => Some(format!("{program} apply {} --confirm 60s", sh::word(plan))),
        (None, Some(settings)) if settings.is_empty() => None,
        (None, Some(settings)) => Some(format!("{program} apply {} --confirm 60s", set_flags(&settings))),
        // A pair of commands: the one of arm B.
        (None, None) => record.change.first().cloned(),
    }
}

fn advise(record: &TrialRecord) -> (Advice, String) {
    use Advice::{DoNotKeep, Keep, MeasureAgain, MeasureLonger};
    let Some(analysis) = &record.analysis else {
        return (MeasureLonger, "The trial has not ended.".to_owned());
    };
    let metrics = &analysis.metrics[..];
    let harms = harms(record);
    let cost = cost(metrics, &harms);
    let gained = |lead: &str| sentence(&[lead.to_owned(), outcome(metrics, &harms), cost.clone()]);
    // What stands against it comes first, whatever else it brings.
    let against = || gained(&harms.iter().map(Harm::in_words).collect::<Vec<_>>().join("; "));
    let is_lacking = harms.iter().any(|harm| matches!(harm, Harm::Missing { .. }));
    let margin = number::share(record.margin);
    match &analysis.verdict {
        Verdict::Hurts if !harms.is_empty() => (DoNotKeep, against()),
        Verdict::Hurts => (DoNotKeep, gained("")),
        Verdict::Helps | Verdict::SpreadsOnly { .. } | Verdict::Inconclusive { .. } if is_lacking => {
            (MeasureAgain, against())
        }
        Verdict::Helps | Verdict::SpreadsOnly { .. } if !harms.is_empty() => {
            (MeasureLonger, against() + &longer(record))
        }
        Verdict::Helps => (Keep, gained("") + &clean(record)),
        Verdict::NoMeasurableEffect { .. } => {
            (DoNotKeep, gained(&format!("The primary metric stays within the margin of {margin}")))
        }
        Verdict::Inconclusive { .. } if record.idle_slots().is_some() => {
            (MeasureAgain, "While there is traffic.".to_owned())
        }
        Verdict::Inconclusive { .. }
            if metrics.first().is_some_and(|primary| primary.call == Call::Unmeasured) =>
        {
            (MeasureAgain, "With another primary metric: this one could not be judged.".to_owned())
        }
        Verdict::Inconclusive { .. } if comes_late(record) => {
            (MeasureAgain, "With a longer washout: the effect lasts into the next slot.".to_owned())
        }
        Verdict::Inconclusive { pairs_needed, .. } => {
            let (seconds, pairs) = (seconds_of(record, *pairs_needed), number::plural(*pairs_needed, "pair"));
            if seconds <= WORTH_S {
                (
                    MeasureLonger,
                    format!("{} would decide ({pairs}).", number::capitalized(&number::about(seconds))),
                )
            } else {
                let instead =
                    "steadier traffic, a wider margin, or a metric that varies less would decide sooner";
                (
                    MeasureAgain,
                    format!(
                        "A longer trial is not worth it: {} would decide; {instead}.",
                        number::about(seconds)
                    ),
                )
            }
        }
        Verdict::Unproven { .. } => (
            MeasureAgain,
            "As a trial in pairs: this comparison cannot tell the change from anything else that changed."
                .to_owned(),
        ),
        Verdict::CannotMatter { ceiling } => {
            let most = number::share(*ceiling);
            (DoNotKeep, format!("Receiving takes so little time that at most {most} can be gained."))
        }
        Verdict::ServerIdle { .. } => {
            let busy = number::share(IDLE_BELOW);
            (MeasureAgain, format!("Under a load that keeps a CPU of the server at least {busy} busy."))
        }
        Verdict::ClientLimited { .. } => {
            (MeasureAgain, "With more load: another client, or more threads and CPUs for it.".to_owned())
        }
        Verdict::SpreadsOnly { capacity: Capacity::Undecided, .. } => {
            (MeasureLonger, gained("Its effect on throughput is undecided") + &longer(record))
        }
        Verdict::SpreadsOnly { .. } if cost.is_empty() => {
            (Keep, gained("The hottest CPU gets room for bursts, at no measured cost") + &clean(record))
        }
        Verdict::SpreadsOnly { capacity: Capacity::Same, .. } => {
            (DoNotKeep, gained("No more gets through, and every packet costs more"))
        }
        Verdict::SpreadsOnly { .. } => {
            (MeasureAgain, gained("At peak traffic: capacity was not the limit here, so no gain could show"))
        }
        Verdict::GuardTripped { .. } if record.tripped_without_change() => {
            (MeasureAgain, "Find the cause first: the guard tripped while the change was not set.".to_owned())
        }
        Verdict::GuardTripped { reason } => (DoNotKeep, sentence(std::slice::from_ref(reason))),
        Verdict::NotApplied { .. } => {
            (DoNotKeep, "It has no effect on where packets are received.".to_owned())
        }
        Verdict::MachineChanged { .. } => (MeasureAgain, "Stop what changes these values first.".to_owned()),
        Verdict::Interrupted => (MeasureLonger, "The trial resumes where it stopped.".to_owned()),
    }
}

/// What slots without a sign of harm leave open: one that shows in a part q of all slots stays hidden in n of them with
/// the chance (1 - q)^n, which is 5 % at the figure given.
fn clean(record: &TrialRecord) -> String {
    let slots = record.compared().filter(|slot| slot.arm == Arm::B).count();
    if slots == 0 {
        return String::new();
    }
    let rarer = number::share(1.0 - 0.05_f64.powf(1.0 / slots as f64));
    format!(" {} may miss harm that shows in fewer than {rarer} of slots.", number::plural(slots, "slot"))
}

/// Non-empty parts, joined to a sentence.
fn sentence(parts: &[String]) -> String {
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { String::new() } else { capitalized(&parts.join("; ")) + "." }
}

fn find<'a>(metrics: &'a [MetricResult], name: &str) -> Option<&'a MetricResult> {
    metrics.iter().find(|result| result.metric.name == name)
}

/// Throughput, latency and the hottest CPU, as far as the trial was conclusive and `harms` do not name them.
fn outcome(metrics: &[MetricResult], harms: &[Harm]) -> String {
    let mut parts = Vec::new();
    if let Some(result) = find(metrics, name::THROUGHPUT).filter(|result| !is_named(result, harms)) {
        match (result.call, &result.effect) {
            (Call::Helps, Some(effect)) => {
                parts.push(format!("throughput {}", effect.estimate()));
            }
            (Call::Negligible, Some(effect)) => {
                parts.push(format!("throughput {} (within the margin)", effect.estimate()));
            }
            (Call::NoEffect | Call::Negligible, _) => parts.push("throughput unchanged".to_owned()),
            _ => parts.push("throughput undecided".to_owned()),
        }
    }
    for result in metrics.iter().filter(|result| is_latency(result) && result.call == Call::Helps) {
        parts.push(changed(result));
    }
    let hottest = find(metrics, name::HOTTEST_SOFTIRQ).map(|result| (result, "in softirq"));
    let hottest = hottest.or_else(|| Some((find(metrics, name::HOTTEST_SHARE)?, "of NET_RX runs")));
    if let Some((result, of)) = hottest {
        let (a, b) = (result.mean_a, result.mean_b);
        let figures = format!("hottest CPU {a:.0} -> {b:.0} % {of}");
        match result.call {
            Call::Helps | Call::Hurts => parts.push(figures),
            Call::Inconclusive => parts.push(figures + " (unproven)"),
            Call::Negligible => parts.push(figures + " (within the margin)"),
            Call::NoEffect => parts.push("hottest CPU unchanged".to_owned()),
            Call::Unmeasured => {}
        }
    }
    parts.join(", ")
}

/// `latency p99 -40 %`.
fn changed(result: &MetricResult) -> String {
    let effect = result.effect.as_ref().map(Effect::estimate).unwrap_or_default();
    format!("{} {effect}", result.metric.title)
}

fn is_latency(result: &MetricResult) -> bool {
    ["p50_us", "p99_us", "p99_9_us"].contains(&result.metric.name.as_str())
}

/// True if `harms` name this metric.
fn is_named(result: &MetricResult, harms: &[Harm]) -> bool {
    harms.iter().any(|harm| harm.metric().name == result.metric.name)
}

/// Proven costs of the change that neither [`outcome`] nor `harms` name.
fn cost(metrics: &[MetricResult], harms: &[Harm]) -> String {
    let told = [name::HOTTEST_SOFTIRQ, name::HOTTEST_SHARE];
    let costs = metrics.iter().filter(|result| {
        let is_told = told.contains(&result.metric.name.as_str()) || is_named(result, harms);
        result.call == Call::Hurts && !is_told
    });
    let costs: Vec<String> = costs.map(changed).collect();
    if costs.is_empty() { String::new() } else { format!("cost: {}", costs.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::{Advice, Recommendation, TrialReport};
    use crate::metrics::describe;
    use crate::record::{Call, Capacity, Effect, MetricResult, TrialRecord, Verdict};
    use crate::sample_record;

    fn result(name: &str, (mean_a, mean_b): (f64, f64), call: Call) -> MetricResult {
        let mid = mean_b / mean_a - 1.0;
        MetricResult {
            metric: describe(name, "pkt/s"),
            pairs: 12,
            mean_a,
            mean_b,
            effect: Some(Effect { mid, low: mid - 0.05, high: mid + 0.05 }),
            p: None,
            call,
            detectable: None,
            adjustment: None,
            ratios: Vec::new(),
        }
    }

    fn record(verdict: Verdict, metrics: Vec<MetricResult>) -> TrialRecord {
        let mut record = sample_record::rps();
        let analysis = record.analysis.as_mut().expect("an analysis");
        (analysis.verdict, analysis.metrics) = (verdict, metrics);
        record
    }

    fn recommend(record: &TrialRecord) -> Recommendation {
        Recommendation::new(record, "rxlab")
    }

    /// The demo's first trial: higher throughput at a higher cost per packet.
    #[test]
    fn helpful_changes_are_kept_and_their_cost_is_named() {
        let metrics = vec![
            result("throughput", (373_000.0, 440_000.0), Call::Helps),
            result("hottest_cpu_softirq", (69.4, 97.3), Call::Hurts),
            result("machine_cpu", (2.76, 4.62), Call::Hurts),
        ];
        let told = recommend(&record(Verdict::Helps, metrics));
        assert_eq!(
            told.sentence(),
            "keep it. Throughput +18 %, hottest CPU 69 -> 97 % in softirq; cost: CPU time per packet +67 %. \
             21 slots may miss harm that shows in fewer than 13 % of slots."
        );
        assert_eq!(told.command.as_deref(), Some("rxlab apply --set 'rps veth0/rx-0 = 1' --confirm 60s"));
    }

    #[test]
    fn spreading_depends_on_its_cost_and_on_what_could_show() {
        let spreads = |capacity| Verdict::SpreadsOnly {
            headroom_before: 1.9,
            headroom_after: 3.3,
            headroom_interval: (3.0, 3.7),
            capacity,
        };
        let advice = |capacity, throughput, cost: bool| {
            let mut metrics = vec![
                result("throughput", (100.0, 100.0), throughput),
                result("hottest_cpu_softirq", (54.0, 31.0), Call::Helps),
            ];
            metrics.extend(cost.then(|| result("machine_cpu", (5.4, 6.5), Call::Hurts)));
            recommend(&record(spreads(capacity), metrics)).advice
        };
        assert_eq!(advice(Capacity::Hidden, Call::NoEffect, false), Advice::Keep);
        assert_eq!(advice(Capacity::Hidden, Call::NoEffect, true), Advice::MeasureAgain);
        assert_eq!(advice(Capacity::Same, Call::NoEffect, true), Advice::DoNotKeep);
        assert_eq!(advice(Capacity::Undecided, Call::Inconclusive, false), Advice::MeasureLonger);
    }

    /// A reader had a proven benefit on the screen, and no command that kept it.
    #[test]
    fn a_shown_benefit_can_be_kept_in_spite_of_what_is_open() {
        let kept = |p99| {
            let metrics = vec![
                result("throughput", (100.0, 150.0), Call::Helps),
                result("p99_us", (900.0, 1100.0), p99),
            ];
            let told = recommend(&record(Verdict::Helps, metrics));
            (told.advice, told.in_spite)
        };
        let keep = "rxlab apply --set 'rps veth0/rx-0 = 1' --confirm 60s".to_owned();
        assert_eq!(kept(Call::Hurts), (Advice::MeasureLonger, Some(keep)));
        assert_eq!(kept(Call::NoEffect), (Advice::Keep, None));
    }

    #[test]
    fn every_verdict_has_a_recommendation() {
        let told = |record: TrialRecord| {
            let told = recommend(&record);
            format!("{}\n  {}", told.sentence(), told.command.unwrap_or_default())
        };
        let all: Vec<String> = sample_record::every_verdict().into_iter().map(told).collect();
        insta::assert_snapshot!(all.join("\n"));
    }

    /// `--pairs 126840` was once advised.
    #[test]
    fn longer_is_advised_with_its_time_and_not_above_an_hour() {
        let told = |pairs_needed| {
            let mut record = record(Verdict::Inconclusive { detectable: 0.045, pairs_needed }, Vec::new());
            (record.washout_s, record.measure_s) = (0.5, 2.0);
            recommend(&record)
        };
        let short = told(72);
        assert_eq!(short.sentence(), "measure longer. About 6 min would decide (72 pairs).");
        assert!(short.command.is_some_and(|command| command.ends_with(" --pairs 72")));
        let long = told(126_840);
        assert_eq!((long.advice, long.command), (Advice::MeasureAgain, None));
        assert!(
            long.reason.starts_with("A longer trial is not worth it: about 176 h would decide; "),
            "{}",
            long.reason
        );
    }

    #[test]
    fn the_command_has_the_namespace_of_the_trial() {
        let mut record = record(Verdict::Helps, Vec::new());
        record.netns = Some("web 1".to_owned());
        let command = |program| Recommendation::new(&record, program).command.expect("one");
        assert!(command("rxlab").starts_with("rxlab --netns 'web 1' apply "), "{}", command("rxlab"));
        assert!(command("rxlab --netns x").starts_with("rxlab --netns x apply "));
    }

    #[test]
    fn the_command_is_that_of_the_plan_or_of_arm_b() {
        let mut record = record(Verdict::Helps, Vec::new());
        record.plan = Some("my plans/rps.toml".to_owned());
        let command = |record: &TrialRecord| recommend(record).command;
        assert_eq!(command(&record).as_deref(), Some("rxlab apply 'my plans/rps.toml' --confirm 60s"));
        record.plan = None;
        record.against = vec!["governor slow".into()];
        record.change = vec!["governor fast".into()];
        assert_eq!(command(&record).as_deref(), Some("governor fast"));
    }

    #[test]
    fn json_has_it_as_a_field() {
        let report = TrialReport::new(sample_record::rps(), "rxlab");
        let json = serde_json::to_value(&report).expect("JSON");
        assert_eq!(
            (&json["schema"], &json["recommendation"]["advice"]),
            (&"rxlab.trial/3".into(), &"keep".into())
        );
    }
}
