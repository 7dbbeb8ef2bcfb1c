//! Verdicts and calls in words, for all reports.
//!
//! Sentences are plain ASCII and complete: each names the trial, the metric and the figures, so that it can be quoted
//! alone.

use rxlab_trial::effect::Effect;
use std::time::Duration;

use jiff::Timestamp;

use super::text::{clean, paragraph};
use rxlab_advise::diagnose::Severity;
use rxlab_base::number;
use rxlab_base::units::format_duration;
use rxlab_setting::Setting;
use rxlab_stats as stats;
use rxlab_stats::design::Arm;
use rxlab_trial::analysis::SOUND_REJECTIONS;
use rxlab_trial::check::Check;
use rxlab_trial::checkpoint::{Checkpoint, State};
use rxlab_trial::harm::{self, Harm};
use rxlab_trial::metrics::covariate;
use rxlab_trial::outcome;
use rxlab_trial::prior::Planned;
use rxlab_trial::query::Query;
use rxlab_trial::record::{Call, Capacity, Metric, MetricResult, TrialRecord, Verdict};
use rxlab_trial::schedule::{Scheduled, Standing};
use rxlab_trial::spec::Kind;

/// Tone of a verdict. Never the only sign: the words have the same meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Good,
    Bad,
    /// Decided, no action needed.
    Neutral,
    /// Undecided, or not reliable as it is.
    Caution,
}

/// Name for a trial without an analysis.
pub const UNFINISHED: &str = "no verdict yet";

/// A verdict in a few words.
pub fn verdict(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Helps => "helps",
        Verdict::Hurts => "hurts",
        Verdict::NoMeasurableEffect { negligible: false } => "no measurable effect",
        Verdict::NoMeasurableEffect { negligible: true } => "real but negligible effect",
        Verdict::Unproven { apparent: Call::Helps } => "better after the change, not proven",
        Verdict::Unproven { apparent: Call::Hurts } => "worse after the change, not proven",
        Verdict::Unproven { apparent: Call::NoEffect | Call::Negligible } => {
            "the same after the change, not proven"
        }
        Verdict::Unproven { apparent: Call::Inconclusive | Call::Unmeasured }
        | Verdict::Inconclusive { .. } => "inconclusive",
        Verdict::CannotMatter { .. } => "cannot matter here",
        Verdict::ServerIdle { .. } => "server idle",
        Verdict::ClientLimited { .. } => "client-limited",
        Verdict::SpreadsOnly { capacity: Capacity::Same, .. } => "spreads the load, adds no capacity",
        Verdict::SpreadsOnly { .. } => "spreads the load",
        Verdict::GuardTripped { .. } => "guard tripped, reverted",
        Verdict::NotApplied { .. } => "did not take hold",
        Verdict::MachineChanged { .. } => "stopped, changed from outside",
        Verdict::Interrupted => "interrupted",
    }
}

/// The verdict of a record in a few words, or [`UNFINISHED`].
pub fn headline(record: &TrialRecord) -> &'static str {
    if record.tripped_without_change() {
        return "guard tripped without the change";
    }
    record.analysis.as_ref().map_or(UNFINISHED, |analysis| verdict(&analysis.verdict))
}

/// `trial rps`; only `trial` where that is all that its name says.
pub fn title(name: &str) -> String {
    let name = clean(name);
    if name == "trial" { name } else { format!("trial {name}") }
}

/// Each check of a record, with how many of its requests failed in each arm.
pub fn checks(record: &TrialRecord) -> Vec<String> {
    let failed = |check: &Check, arm: Arm| {
        let slots = record.slots.iter().filter(|slot| slot.arm == arm);
        let counts = slots.filter_map(|slot| check.counts(&slot.values));
        let (all, failed) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        format!("{} of {}", number::grouped(failed), number::grouped(all))
    };
    let words = |check: &Check| {
        let (a, b) = (failed(check, Arm::A), failed(check, Arm::B));
        let every = format_duration(check.every);
        format!("{}, {} every {every}; failed: {a} in A, {b} in B", check.name, check.url)
    };
    record.checks.iter().map(words).collect()
}

/// Each query of a record, with its mean in each arm.
pub fn queries(record: &TrialRecord) -> Vec<String> {
    let mean = |metric: &str, arm: Arm| {
        let slots = record.slots.iter().filter(|slot| slot.arm == arm && slot.void.is_none());
        let values: Vec<f64> = slots.filter_map(|slot| slot.values.get(metric).copied()).collect();
        stats::mean(&values).map_or_else(|| "-".to_owned(), number::value)
    };
    let words = |query: &Query| {
        let metric = query.metric().name;
        let (a, b) = (mean(&metric, Arm::A), mean(&metric, Arm::B));
        let reasons: Vec<&String> = record.slots.iter().filter_map(|slot| slot.absent.get(&metric)).collect();
        let absent = reasons.last().map_or_else(String::new, |why| {
            format!("; missing in {}: {why}", number::plural(reasons.len(), "slot"))
        });
        format!("{}, `{}`: mean {a} in A, {b} in B{absent}", query.name, query.expr)
    };
    record.queries.iter().map(words).collect()
}

pub fn tone(record: &TrialRecord) -> Tone {
    record.verdict().map_or(Tone::Caution, verdict_tone)
}

pub fn verdict_tone(verdict: &Verdict) -> Tone {
    match verdict {
        Verdict::Helps => Tone::Good,
        Verdict::Hurts | Verdict::GuardTripped { .. } => Tone::Bad,
        Verdict::NoMeasurableEffect { .. } | Verdict::CannotMatter { .. } | Verdict::SpreadsOnly { .. } => {
            Tone::Neutral
        }
        Verdict::Inconclusive { .. }
        | Verdict::Unproven { .. }
        | Verdict::ServerIdle { .. }
        | Verdict::ClientLimited { .. }
        | Verdict::NotApplied { .. }
        | Verdict::MachineChanged { .. }
        | Verdict::Interrupted => Tone::Caution,
    }
}

pub fn severity_tone(severity: Severity) -> Tone {
    match severity {
        Severity::Critical => Tone::Bad,
        Severity::Warning => Tone::Caution,
        Severity::Note => Tone::Neutral,
    }
}

/// Title of a metric with its unit.
pub fn metric(metric: &Metric) -> String {
    match metric.unit.as_str() {
        "" => metric.title.clone(),
        unit => format!("{}, {unit}", metric.title),
    }
}

/// Result of each metric in words, in the order of the metrics. `helps` and `hurts` are said only of the first, which
/// decides, and of those that stand against the change; the others go up or down.
pub fn calls(results: &[MetricResult], margin: f64) -> Vec<(&'static str, Tone)> {
    let against = harm::worse(results, margin);
    let each = results.iter().enumerate().map(|(at, result)| {
        let decides = at == 0 || against.iter().any(|worse| worse.metric.name == result.metric.name);
        match (result.call, &result.effect) {
            (call, Some(effect)) if !decides => (direction(call, effect), quiet_tone(call)),
            (call, _) => (self::call(call), call_tone(call)),
        }
    });
    each.collect()
}

/// Result of an effect that decides nothing: `up` or `down` where it is shown.
pub fn direction(call: Call, effect: &Effect) -> &'static str {
    match call {
        Call::Helps | Call::Hurts => {
            if effect.mid > 0.0 {
                "up"
            } else {
                "down"
            }
        }
        other => self::call(other),
    }
}

/// Tone of such an effect: neither good nor bad.
fn quiet_tone(call: Call) -> Tone {
    match call {
        Call::Helps | Call::Hurts => Tone::Neutral,
        other => call_tone(other),
    }
}

/// Result of one metric in words.
pub fn call(call: Call) -> &'static str {
    match call {
        Call::Helps => "helps",
        Call::Hurts => "hurts",
        Call::NoEffect => "no measurable effect",
        Call::Negligible => "negligible",
        Call::Inconclusive => "inconclusive",
        Call::Unmeasured => "not measured",
    }
}

/// Words of [`call()`] or [`direction`] for a narrow column.
pub fn short(words: &'static str) -> &'static str {
    if words == call(Call::NoEffect) { "none measurable" } else { words }
}

pub fn call_tone(call: Call) -> Tone {
    match call {
        Call::Helps => Tone::Good,
        Call::Hurts => Tone::Bad,
        Call::NoEffect | Call::Negligible => Tone::Neutral,
        Call::Inconclusive | Call::Unmeasured => Tone::Caution,
    }
}

/// The verdict of a record as one or two sentences with its figures.
pub fn sentence(record: &TrialRecord) -> String {
    format!("{}: {}. {}.", record.name, headline(record), number::capitalized(&figure(record)))
}

/// What the verdict rests on, with its figures and without a final full stop.
pub fn figure(record: &TrialRecord) -> String {
    let Some(analysis) = &record.analysis else {
        let slots = number::plural(record.slots.len(), "slot");
        return format!("the record holds {slots} and no analysis");
    };
    let primary = analysis.metrics.first();
    let metric = primary.map_or("the primary metric", |result| result.metric.title.as_str());
    let figures = primary.and_then(moved).unwrap_or_default();
    let change = || format!("{metric} {figures}");
    let margin = number::share(record.margin);
    match &analysis.verdict {
        Verdict::Helps => outcome::gain(record).unwrap_or_else(change),
        Verdict::Hurts => {
            let harms: Vec<String> = harm::harms(record).iter().map(Harm::in_words).collect();
            if harms.is_empty() { change() } else { harms.join("; ") }
        }
        Verdict::NoMeasurableEffect { .. } => format!("{}, inside the margin of {margin}", change()),
        Verdict::Unproven { apparent } => {
            let size = match apparent {
                Call::NoEffect | Call::Negligible => ", inside the margin",
                _ => "",
            };
            format!("{} after the change{size}, and nothing was randomised", change())
        }
        Verdict::Inconclusive { .. } if record.idle_slots().is_some() => {
            let (idle, all) = record.idle_slots().unwrap_or_default();
            let stopped = if idle < all { "the traffic stopped" } else { "there was no traffic" };
            format!("nothing arrived in {idle} of {}: {stopped}", number::plural(all, "slot"))
        }
        Verdict::Inconclusive { .. } if primary.is_some_and(|result| result.call == Call::Unmeasured) => {
            format!("no value for {metric} in {}", number::plural(analysis.pairs, "pair"))
        }
        Verdict::Inconclusive { detectable, .. } => {
            format!("{}; a change below {} could be missed", change(), number::share(*detectable))
        }
        Verdict::CannotMatter { ceiling } => format!(
            "receiving takes so little time that the gain is at most {}, below the margin of {margin}",
            number::share(*ceiling),
        ),
        Verdict::ServerIdle { busiest } => {
            format!(
                "the busiest CPU was busy {} of the time, so no effect could show",
                number::share(*busiest)
            )
        }
        Verdict::ClientLimited { reason } => {
            format!("the load generator was the limit ({reason}): this says nothing about the server")
        }
        Verdict::SpreadsOnly { headroom_before, headroom_after, headroom_interval, capacity } => format!(
            "{}the hottest CPU has room for {} times [{}, {}] its softirq work, {} times before{}",
            spread(&analysis.metrics),
            number::decimal(*headroom_after),
            number::decimal(headroom_interval.0),
            number::decimal(headroom_interval.1),
            number::decimal(*headroom_before),
            match capacity {
                Capacity::Same => "",
                Capacity::Undecided =>
                    "; whether it adds capacity is undecided: the throughput varies too much",
                Capacity::Hidden =>
                    "; capacity was not the limit before, so this trial cannot show whether it adds any",
            },
        ),
        Verdict::GuardTripped { reason } if record.tripped_without_change() => reason.clone(),
        Verdict::GuardTripped { reason } => format!("{reason}; the change was reverted at once"),
        Verdict::NotApplied { reason } => format!("nothing was compared: {reason}"),
        Verdict::MachineChanged { reason } => {
            format!("another program, or the kernel, changed {reason}, and that was left alone")
        }
        Verdict::Interrupted => {
            let done = match record.design {
                Kind::BeforeAfter => number::plural(record.slots.len(), "slot"),
                _ => number::plural(analysis.pairs, "pair"),
            };
            format!("after {done}, before a decision")
        }
    }
}

/// Means of the deciding metric in both arms, and what they rest on: `before 155,284 pkt/s`, `after 243,917 pkt/s`, `12
/// pairs in 1 min 50 s`. Empty without a value.
pub fn before_and_after(record: &TrialRecord) -> Vec<String> {
    let Some(analysis) = &record.analysis else { return Vec::new() };
    let Some(primary) = analysis.metrics.first().filter(|primary| primary.pairs > 0) else {
        return Vec::new();
    };
    let (a, b) = outcome::means(primary);
    let mean = |when: &str, mean: f64| format!("{when} {} {}", number::value(mean), primary.metric.unit);
    let count = match record.design {
        Kind::BeforeAfter => format!("{} + {} slots", slots_of(record, Arm::A), slots_of(record, Arm::B)),
        _ => number::plural(analysis.pairs, "pair"),
    };
    let in_all = match record.done_s() {
        0.0 => count,
        seconds => format!("{count} in {}", number::time(seconds)),
    };
    [mean("before", a), mean("after", b), in_all].map(|part| clean(part.trim_end())).to_vec()
}

/// The price of a change that brings something; `None` for other verdicts.
pub fn price(record: &TrialRecord) -> Option<String> {
    let brings = matches!(record.verdict(), Some(Verdict::Helps | Verdict::SpreadsOnly { .. }));
    brings.then(|| outcome::price(record))
}

/// The first metric that improved when the load was spread.
fn spread(results: &[MetricResult]) -> String {
    let better = results.iter().find(|result| result.call == Call::Helps);
    better
        .and_then(|result| Some(format!("{} {}; ", result.metric.title, moved(result)?)))
        .unwrap_or_default()
}

/// `+12 % [+11, +13]`; `None` without an estimate.
fn moved(result: &MetricResult) -> Option<String> {
    result.effect.as_ref().map(Effect::in_words)
}

/// Slots of an arm that count.
fn slots_of(record: &TrialRecord, arm: Arm) -> usize {
    record.slots.iter().filter(|slot| slot.arm == arm && slot.void.is_none()).count()
}

/// Pairs, void slots, seed and margin in one line.
pub fn basis(record: &TrialRecord) -> String {
    let mut parts = Vec::new();
    if record.design == Kind::BeforeAfter {
        parts.push(format!(
            "{} before, {} after",
            number::plural(slots_of(record, Arm::A), "slot"),
            slots_of(record, Arm::B)
        ));
        parts.push("not randomised".to_owned());
    } else {
        if let Some(analysis) = &record.analysis {
            parts.push(number::plural(analysis.pairs, "pair"));
            if analysis.voids > 0 {
                parts.push(number::plural(analysis.voids, "void slot"));
            }
        }
        parts.push(format!("seed {}", record.seed));
    }
    parts.push(format!("margin {}", number::share(record.margin)));
    parts.join(", ")
}

/// The noise before a trial, and the pairs that it takes to show a change as large as the margin, in one line.
pub fn planned(planned: &Planned, margin: f64) -> String {
    let takes = match planned.pairs {
        Some(pairs) => {
            format!(
                "{} would show a change of {} in 4 of 5 trials",
                number::plural(pairs, "pair"),
                number::share(margin)
            )
        }
        None => format!("no number of pairs would show a change of {}", number::share(margin)),
    };
    let sampled = format_duration(Duration::from_secs_f64(planned.sampled_s));
    let noise = number::share(planned.noise);
    let slot = format_duration(Duration::from_secs_f64(planned.measure_s));
    format!("slots of {slot} differ by {noise} without a change (sampled for {sampled}): {takes}")
}

/// What a trial of `pairs` pairs can prove within `time`, in one line; `None` without a sample.
pub fn within(time: Duration, pairs: usize, planned: Option<&Planned>) -> Option<String> {
    let planned = planned?;
    let (time, slot) = (format_duration(time), format_duration(Duration::from_secs_f64(planned.measure_s)));
    let shows = match planned.detectable {
        Some(least) => format!("4 of 5 such trials show a change of {}", number::share(least)),
        None => "too few to show even a change of 100 %".to_owned(),
    };
    Some(format!("room for {} in {time}, with slots of {slot}: {shows}", number::plural(pairs, "pair")))
}

/// The time with each length of slots that was compared, in one line; `None` if there was no choice.
pub fn lengths(planned: &Planned, margin: f64) -> Option<String> {
    let each = planned.lengths.iter().map(|length| {
        let slot = format_duration(Duration::from_secs_f64(length.measure_s));
        length.takes_s.map_or(format!("{slot}: too many pairs"), |takes| format!("{slot}: {takes:.0} s"))
    });
    let each: Vec<String> = each.collect();
    let (margin, twice) = (number::share(margin), number::share(2.0 * margin));
    (!each.is_empty()).then(|| format!("{} (mean time to show {margin} and {twice})", each.join(", ")))
}

/// Covariates that each metric is adjusted for, with the change as measured.
pub fn adjustments(record: &TrialRecord) -> Vec<String> {
    let words = |result: &MetricResult| {
        let adjustment = result.adjustment.as_ref()?;
        let names: Vec<&str> = adjustment.covariates.iter().map(|name| covariate(name)).collect();
        Some(format!(
            "{}, for {}, which explain {} of what the pairs differ by; as measured {}",
            result.metric.title,
            names.join(" and "),
            number::share(adjustment.explained),
            adjustment.unadjusted.in_words(),
        ))
    };
    record.analysis.iter().flat_map(|analysis| &analysis.metrics).filter_map(words).collect()
}

/// Result of a checkpoint in a few words.
pub fn state(state: State) -> &'static str {
    match state {
        State::Holds => "the effect holds",
        State::Weaker => "the effect is weaker",
        State::Gone => "the effect is gone",
        State::StillNone => "still no effect",
        State::Unclear => "unclear",
        State::NotSet => "the change is not set",
    }
}

/// Tone of what a checkpoint shows.
pub fn state_tone(state: State) -> Tone {
    match state {
        State::Holds => Tone::Good,
        State::Gone => Tone::Bad,
        State::StillNone => Tone::Neutral,
        State::Weaker | State::Unclear | State::NotSet => Tone::Caution,
    }
}

/// Time of a checkpoint: `24.0 h later`.
pub fn later(record: &TrialRecord, checkpoint: &Checkpoint) -> String {
    match checkpoint.after_s(record) {
        Some(after) if after < 7200.0 => format!("{:.0} min later", after / 60.0),
        Some(after) => format!("{:.1} h later", after / 3600.0),
        None => checkpoint.taken.clone(),
    }
}

/// A checkpoint as one paragraph: `checkpoint 24.0 h later: the effect holds; ...`.
pub fn checkpoint(record: &TrialRecord, checkpoint: &Checkpoint) -> String {
    let title = record.metrics.first().map_or("the primary metric", |primary| primary.title.as_str());
    let mut parts = vec![state(checkpoint.state).to_owned()];
    for (arm, change) in [("A", &checkpoint.from_a), ("B", &checkpoint.from_b)] {
        parts
            .extend(change.as_ref().map(|change| format!("{title} {} against arm {arm}", change.in_words())));
    }
    parts.extend(checkpoint.drifted.iter().map(|found| format!("found {found}")));
    if record.change.iter().any(|line| line.parse::<Setting>().is_err()) {
        parts.push("whether the change is still in effect was not checked: it is a shell command".to_owned());
    }
    parts.push("not randomised: the traffic may differ".to_owned());
    paragraph(&format!("checkpoint {}: ", later(record, checkpoint)), &parts.join("; "))
}

/// A scheduled checkpoint as one paragraph: `checkpoint due at 2026-11-25 10:00 UTC: waits`.
pub fn scheduled(scheduled: &Scheduled, now: Timestamp) -> String {
    let due = scheduled.due.get(..16).unwrap_or(&scheduled.due).replace('T', " ");
    let standing = match scheduled.standing(now) {
        Standing::Waiting => "waits".to_owned(),
        Standing::Missed => "MISSED: it was not taken; see `systemctl list-timers`".to_owned(),
        Standing::Taken(state) => format!("taken, {}", self::state(state)),
        Standing::Failed(why) => format!("FAILED: {why}"),
    };
    paragraph(&format!("checkpoint due at {due} UTC: "), &standing)
}

/// The calibration in one line.
pub fn calibration(record: &TrialRecord) -> String {
    let Some(noise) = &record.calibration else { return "not run".to_owned() };
    let is_sound = SOUND_REJECTIONS.contains(&noise.rejection_rate);
    format!(
        "{} with nothing flipped; CV {}, spread of a pair {}, rejection {}{}",
        number::plural(noise.pairs, "pair"),
        number::share(noise.cv),
        number::share(noise.sd_d),
        number::share(noise.rejection_rate),
        if is_sound { "" } else { " (sound is 3 to 7 %)" },
    )
}
/// A part of a sentence.
pub(super) enum Span<'a> {
    /// Plain text.
    Words(&'a str),
    /// What stands between backquotes: a command, a setting, a value.
    Code(&'a str),
}

/// The sentence in its parts. A backquote without its other half is a character of a name.
pub(super) fn spans(text: &str) -> impl Iterator<Item = Span<'_>> {
    let is_balanced = text.matches('`').count().is_multiple_of(2);
    let part = |(index, text)| if index % 2 == 0 { Span::Words(text) } else { Span::Code(text) };
    text.splitn(if is_balanced { usize::MAX } else { 1 }, '`').enumerate().map(part)
}
