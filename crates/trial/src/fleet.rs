//! One answer from the trials of one change on several hosts. The method is in `docs/fleet.md`.
//!
//! Trials are pooled if they compare the same values under the same load, judged by the same metric: only names of
//! interfaces, processes and servers may differ. Each host counts once, with the pairs of its first planned look. What
//! stands against the change on one host is never averaged away.

pub(crate) mod exceptions;
mod portable;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::analysis::first_look;
use super::effect::Effect;
use super::harm::{Harm, harms, includes_harm, is_felt, is_worse};
use super::metrics::name::THROUGHPUT;
use super::monitor::judge;
use super::recommendation::{Advice, comes_late};
use super::record::{Call, Metric, TrialRecord, Verdict};
use super::spec::Kind;
pub use exceptions::Exception;
use portable::Portable;
use rxlab_base::number::plural;
use rxlab_path::model::Identity;
use rxlab_stats::holm;
use rxlab_stats::interval::Ratios;
use rxlab_stats::looks::{ERROR, Look};
use rxlab_stats::pool::{self, Estimate, FEWEST, LACK};

/// Trials of one change on several hosts, and the answer of all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pool {
    /// Settings of arm A, with `NIC` for the name of an interface, or its command; empty = the machines as they were.
    pub against: Vec<String>,
    /// Settings of arm B, or its command.
    pub change: Vec<String>,
    /// The load, with `HOST` for the name of its server.
    pub workload: String,
    /// The metric that decides.
    pub metric: Metric,
    /// The smallest margin of the trials.
    pub margin: f64,
    /// The hosts, by name.
    pub hosts: Vec<Tried>,
    /// The pooled effects, that of the deciding metric first. Empty below three hosts: then each host answers for itself.
    pub pooled: Vec<Pooled>,
    /// How much the hosts differ; `None` below three hosts.
    pub spread: Option<Spread>,
    /// Groups of hosts whose effect differs from that of the others, the surest first.
    pub exceptions: Vec<Exception>,
    /// What to do on the hosts together; `None` below three hosts unless something stands against the change.
    pub advice: Option<Advice>,
    /// Its reason, in one or two sentences.
    pub reason: String,
}

/// One host and its trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tried {
    /// The host.
    pub host: Identity,
    /// Drivers of the interfaces concerned; empty = unknown.
    pub drivers: BTreeSet<String>,
    /// Model of its CPUs.
    pub cpu_model: Option<String>,
    /// Id of the trial: the first on this host, because whether one is repeated depends on its result.
    pub trial: String,
    /// Start of the trial, RFC 3339 in UTC.
    pub started: String,
    /// Verdict of the trial; `None` before its end.
    pub verdict: Option<Verdict>,
    /// Effect on the deciding metric by all its pairs.
    pub effect: Option<Effect>,
    /// The part of it that is pooled; `None` if it is left out.
    pub first_look: Option<FirstLook>,
    /// Reason why it is not pooled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
    /// What is proven against the change in any trial on this host, and guards that tripped with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub against: Vec<String>,
    /// What is open in any trial on this host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<String>,
    /// Later trials of the same change on this host.
    pub repeated: usize,
    /// Boots of which there are trials: several may also be several machines of one name.
    pub boots: usize,
}

/// Effect of a host in the pairs of the first planned look of its trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FirstLook {
    /// Mean of the log ratios.
    pub mid: f64,
    /// Standard error of the mean.
    pub error: f64,
    /// Pairs.
    pub pairs: usize,
}

/// The effect on one metric, over all hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pooled {
    /// The metric.
    pub metric: Metric,
    /// Hosts whose trials have it.
    pub hosts: usize,
    /// Mean over the hosts, with its interval.
    pub effect: Effect,
    /// The call against the margin.
    pub call: Call,
}

/// How much the effect on the deciding metric differs between hosts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// Standard deviation of the true effects between hosts, as a log ratio; 0 if the noise of the pairs explains all of it.
    pub between: f64,
    /// Its share of the variance that the hosts show.
    pub share: f64,
    /// p-value of the test that they do not differ.
    pub p: f64,
    /// True if they are proven to differ: p is at most 5 %.
    pub differs: bool,
    /// Interval in which the trial of one more such host would show its effect, in 19 of 20 cases.
    pub next: Effect,
}

impl Pool {
    /// The pooled effect on the deciding metric.
    pub fn primary(&self) -> Option<&Pooled> {
        self.pooled.first()
    }

    /// Pooled hosts whose own trial shows that the change helps.
    pub fn helped(&self) -> usize {
        self.hosts.iter().filter(|tried| tried.first_look.is_some() && tried.helps()).count()
    }

    /// Where the change helps less than on the other hosts, and no trial shows that it helps: groups, or all hosts but a group.
    pub fn unhelped(&self) -> Vec<String> {
        let unhelped = |one: &Exception| match one.is_less(self.metric.better) {
            true => (!one.helps_some).then(|| one.group.clone()),
            false => (!one.helps_rest).then(|| format!("hosts other than {}", one.group)),
        };
        self.exceptions.iter().filter_map(unhelped).collect()
    }

    /// True if something is proven against the change: on a host, or over all of them.
    pub fn is_harmful(&self) -> bool {
        let pooled = self.primary().is_some_and(|primary| primary.call == Call::Hurts);
        pooled || !self.worse().is_empty() || self.hosts.iter().any(|tried| !tried.against.is_empty())
    }

    /// What users feel and is proven worse over all hosts.
    pub fn worse(&self) -> Vec<&Pooled> {
        let is_worse = |one: &&Pooled| is_worse(&one.metric, one.call, Some(one.effect), self.margin);
        self.pooled.iter().filter(is_worse).collect()
    }

    /// Hosts on which an effect may have been hidden: a limited client, an idle server, or too little time spent on receiving.
    pub fn hidden(&self) -> usize {
        let is_hidden = |tried: &&Tried| {
            matches!(
                tried.verdict,
                Some(
                    Verdict::ClientLimited { .. } | Verdict::ServerIdle { .. } | Verdict::CannotMatter { .. }
                )
            )
        };
        self.hosts.iter().filter(is_hidden).count()
    }
}

impl Tried {
    /// True if its own trial shows that the change helps.
    pub fn helps(&self) -> bool {
        self.verdict == Some(Verdict::Helps)
    }

    fn estimate(&self) -> Option<Estimate> {
        self.first_look.map(|look| Estimate {
            mid: look.mid,
            variance: look.error.powi(2),
            pairs: look.pairs,
        })
    }
}

/// Name by which records of one host are joined: its own name, or its boot where that is unknown.
pub fn name_of(host: &Identity) -> &str {
    if host.hostname.is_empty() { &host.boot_id } else { &host.hostname }
}

/// The pools of these records, in the order of their first ones. A record that is there twice counts once.
pub fn pools(records: &[&TrialRecord]) -> Vec<Pool> {
    let mut groups: Vec<(Portable, Vec<&TrialRecord>)> = Vec::new();
    for record in records {
        let Some(key) = Portable::new(record) else { continue };
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(record),
            None => groups.push((key, vec![record])),
        }
    }
    groups.into_iter().map(|(key, group)| pool(key, &group)).collect()
}

fn pool(key: Portable, records: &[&TrialRecord]) -> Pool {
    let mut by_host: BTreeMap<&str, Vec<&TrialRecord>> = BTreeMap::new();
    for record in records {
        let known = by_host.entry(name_of(&record.host)).or_default();
        // The record of a trial grows: that of the end, or the longest, is the latest. Machines of one name may have trials of
        // one number and second.
        let of = |one: &TrialRecord| (one.id.clone(), one.started.clone(), one.host.boot_id.clone());
        let age = |one: &TrialRecord| (one.analysis.is_some(), one.slots.len());
        match known.iter_mut().find(|one| of(one) == of(record)) {
            Some(one) if age(one) < age(record) => *one = record,
            Some(_) => {}
            None => known.push(record),
        }
    }
    let metric = key.metric.clone();
    let counting: Vec<(&TrialRecord, Tried)> =
        by_host.into_values().filter_map(|trials| tried(trials, &metric)).collect();
    let margin = records.iter().map(|record| record.margin).fold(f64::INFINITY, f64::min);
    let pooled = pooled(&counting, &metric, margin);
    let hosts: Vec<Tried> = counting.into_iter().map(|(_, tried)| tried).collect();
    let estimates: Vec<Estimate> = hosts.iter().filter_map(Tried::estimate).collect();
    let mut pool = Pool {
        against: key.against,
        change: key.change,
        workload: key.workload,
        margin,
        spread: (!pooled.is_empty()).then(|| spread(&estimates)).flatten(),
        exceptions: if pooled.is_empty() { Vec::new() } else { exceptions::find(&hosts) },
        pooled,
        metric,
        hosts,
        advice: None,
        reason: String::new(),
    };
    (pool.advice, pool.reason) = advise(&pool);
    pool
}

/// The trial of a host that counts, from all of that host.
fn tried<'a>(mut trials: Vec<&'a TrialRecord>, metric: &Metric) -> Option<(&'a TrialRecord, Tried)> {
    trials.sort_by(|a, b| (&a.started, &a.id).cmp(&(&b.started, &b.id)));
    let record = *trials.iter().find(|record| left_out(record, metric).is_none()).or(trials.first())?;
    let left_out = left_out(record, metric);
    let look = first_look(record, metric).filter(|_| left_out.is_none());
    let primary = record.analysis.as_ref().and_then(|analysis| analysis.metrics.first());
    let boots: BTreeSet<&str> = trials.iter().map(|record| record.host.boot_id.as_str()).collect();
    let tried = Tried {
        host: record.host.clone(),
        drivers: record.drivers.clone(),
        cpu_model: record.cpu_model.clone(),
        trial: record.id.clone(),
        started: record.started.clone(),
        verdict: record.verdict().cloned(),
        effect: primary.and_then(|result| result.effect),
        first_look: look.map(|look| FirstLook {
            mid: look.mid,
            error: look.variance.sqrt(),
            pairs: look.pairs,
        }),
        left_out,
        against: trials.iter().flat_map(|record| proven(record)).collect(),
        open: trials.iter().flat_map(|record| open(record)).collect(),
        repeated: trials.len() - 1,
        boots: boots.len(),
    };
    Some((record, tried))
}

/// Reason why a trial is not pooled. That it shows no effect, or is not decided yet, is none: leaving such trials out would
/// make an effect. An effect that lasts into the next slot may have the wrong sign on every host.
fn left_out(record: &TrialRecord, metric: &Metric) -> Option<String> {
    let why = match record.verdict() {
        _ if record.design == Kind::BeforeAfter => "nothing was randomised",
        Some(Verdict::MachineChanged { .. }) => "values were changed from outside",
        Some(Verdict::NotApplied { .. }) => "the change did not take hold",
        _ if comes_late(record) => "the effect lasts into the next slot",
        _ if first_look(record, metric).is_none() => "too few pairs have a value",
        _ => return None,
    };
    Some(why.to_owned())
}

/// What a trial proves against the change.
fn proven(record: &TrialRecord) -> Vec<String> {
    match record.verdict() {
        Some(Verdict::GuardTripped { reason }) if !record.tripped_without_change() => vec![reason.clone()],
        Some(Verdict::Hurts) => {
            let harms: Vec<String> = harms(record).iter().map(Harm::in_words).collect();
            let primary = record.analysis.as_ref().and_then(|analysis| analysis.metrics.first());
            let effect = primary.and_then(|result| Some((&result.metric.title, result.effect?.in_words())));
            match (harms.is_empty(), effect) {
                (true, Some((title, words))) => vec![format!("{title} {words}")],
                _ => harms,
            }
        }
        _ => Vec::new(),
    }
}

/// What a trial that does not hurt leaves open. A loss of throughput that one host does not exclude is left to the pool.
fn open(record: &TrialRecord) -> Vec<String> {
    match record.verdict() {
        Some(Verdict::GuardTripped { reason }) if record.tripped_without_change() => {
            vec![format!("guard tripped without the change: {reason}")]
        }
        Some(Verdict::Hurts) => Vec::new(),
        _ => {
            let is_open =
                |harm: &&Harm| matches!(harm, Harm::Worse(_) | Harm::FromZero { .. } | Harm::Missing { .. });
            harms(record).iter().filter(is_open).map(Harm::in_words).collect()
        }
    }
}

/// The pooled effects: the deciding metric with all of its error, the others with Holm's shares of another one.
fn pooled(counting: &[(&TrialRecord, Tried)], metric: &Metric, margin: f64) -> Vec<Pooled> {
    let counts = |(record, tried): &(&TrialRecord, Tried)| {
        let estimates = tried.first_look.is_some();
        estimates.then(|| {
            record
                .metrics
                .iter()
                .filter_map(|metric| Some((metric.clone(), first_look(record, metric)?.mid)))
                .collect()
        })
    };
    let found: Vec<Vec<(Metric, f64)>> = counting.iter().filter_map(counts).collect();
    let mids_of = |metric: &Metric| -> Vec<f64> {
        let of_host = |host: &Vec<(Metric, f64)>| {
            host.iter().find(|(known, _)| known.name == metric.name).map(|(_, mid)| *mid)
        };
        found.iter().filter_map(of_host).collect()
    };
    let mut metrics: Vec<(Metric, Vec<f64>)> = vec![(metric.clone(), mids_of(metric))];
    for (other, _) in found.iter().flatten() {
        if !metrics.iter().any(|(known, _)| known.name == other.name) {
            metrics.push((other.clone(), mids_of(other)));
        }
    }
    metrics.retain(|(_, mids)| mids.len() >= FEWEST);
    if metrics.first().is_none_or(|(first, _)| first.name != metric.name) {
        return Vec::new();
    }
    let look = Look::Planned(ERROR);
    let p: Vec<f64> =
        metrics[1..].iter().filter_map(|(_, mids)| Ratios::from(&mids[..]).p_value(look)).collect();
    let parts = std::iter::once(1).chain(holm::divisors(&p, ERROR));
    let judged = metrics.into_iter().zip(parts).filter_map(|((metric, mids), parts)| {
        let ratios = Ratios::from(&mids[..]);
        let effect = ratios.interval(look, parts)?;
        let inside = ratios.student(2.0 * LACK / parts as f64)?;
        let (call, shown) = judge(effect, inside, margin, metric.better);
        Some(Pooled { metric, hosts: mids.len(), effect: shown.into(), call })
    });
    judged.collect()
}

fn spread(hosts: &[Estimate]) -> Option<Spread> {
    let pool::Spread { between, share, p } = pool::spread(hosts)?;
    Some(Spread { between, share, p, differs: p <= ERROR, next: pool::next(hosts, ERROR)?.into() })
}

/// Advice on all hosts: the gate of one trial, over all metrics and all hosts.
fn advise(pool: &Pool) -> (Option<Advice>, String) {
    use Advice::{DoNotKeep, Keep, MeasureAgain, MeasureLonger};
    let names = |is_one: &dyn Fn(&&Tried) -> bool| {
        let hosts: Vec<&str> = pool.hosts.iter().filter(is_one).map(|tried| name_of(&tried.host)).collect();
        match hosts.len() {
            0..=3 => hosts.join(", "),
            more => format!("{} and {} more", hosts[..2].join(", "), more - 2),
        }
    };
    if pool.hosts.iter().any(|tried| !tried.against.is_empty()) {
        let hosts = names(&|tried| !tried.against.is_empty());
        return (Some(DoNotKeep), format!("It does harm on {hosts}: first find what is different there."));
    }
    let Some(primary) = pool.primary() else {
        return (None, format!("Fewer than {FEWEST} hosts can be pooled: each one answers for itself."));
    };
    if let Some(worse) = pool.worse().first() {
        let figures = worse.effect.in_words();
        return (Some(DoNotKeep), format!("Over all hosts it does harm: {} {figures}.", worse.metric.title));
    }
    let (advice, reason) = match primary.call {
        Call::Hurts => (DoNotKeep, "Over all hosts it does harm.".to_owned()),
        Call::NoEffect | Call::Negligible if pool.hidden() > 0 => {
            let hidden = plural(pool.hidden(), "host");
            (MeasureAgain, format!("With more load: on {hidden} no effect could show."))
        }
        Call::NoEffect | Call::Negligible => {
            (DoNotKeep, "On average over the hosts, the effect stays within the margin.".to_owned())
        }
        Call::Inconclusive | Call::Unmeasured => {
            (MeasureLonger, "More hosts would decide; where they differ little, more pairs.".to_owned())
        }
        Call::Helps if pool.hosts.iter().any(|tried| !tried.open.is_empty()) => {
            let hosts = names(&|tried| !tried.open.is_empty());
            (MeasureLonger, format!("It helps, and may do harm on {hosts}: first look there."))
        }
        Call::Helps if !is_felt(&pool.metric) => (
            MeasureAgain,
            format!("By throughput or latency: {} alone does not show that users gain.", pool.metric.title),
        ),
        Call::Helps if may_fall(pool) => (
            MeasureLonger,
            "It helps, and a loss of throughput is not excluded: more hosts, or more pairs.".to_owned(),
        ),
        Call::Helps if pool.spread.is_some_and(|spread| spread.differs && loses(pool, spread.next)) => (
            MeasureAgain,
            "On each further host before it is kept there: the hosts differ, and it may do harm on some."
                .to_owned(),
        ),
        Call::Helps => match &pool.unhelped()[..] {
            [] => (Keep, "Over all hosts it helps, and harm was found on none.".to_owned()),
            except => (Keep, format!("Leave out {}.", except.join(", "))),
        },
    };
    (Some(advice), reason)
}

/// True if the pooled throughput is undecided and may be lower, beyond the margin.
fn may_fall(pool: &Pool) -> bool {
    let is_throughput = |one: &&Pooled| one.metric.name == THROUGHPUT && one.call == Call::Inconclusive;
    pool.pooled.iter().find(is_throughput).is_some_and(|one| loses_by(one.effect, &one.metric, pool.margin))
}

fn loses(pool: &Pool, effect: Effect) -> bool {
    loses_by(effect, &pool.metric, pool.margin)
}

fn loses_by(effect: Effect, metric: &Metric, margin: f64) -> bool {
    includes_harm(effect, metric.better, margin)
}

#[cfg(test)]
mod tests;
