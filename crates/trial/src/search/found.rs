//! The result of a search: its runs, the verdict on each rate, and the answer, as a value and as text.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use statrs::distribution::{Beta, ContinuousCDF};

use super::margins::{failed, good, latency, margins, refused};
use super::slo::{Limited, Slo};
use super::{Purpose, ROUNDS, Search, Verdict};
use rxlab_base::units::grouped;
use rxlab_load::{self as load, Interval, Saturation, ServerCpu};
use rxlab_stats::lag1;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// Requests per second offered.
    pub rate: f64,
    /// Its start, in seconds since that of the search.
    pub start_s: f64,
    pub purpose: Purpose,
}

/// One run at one rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// Requests per second offered.
    pub rate: f64,
    /// When it began, seconds since the search did.
    pub start_s: f64,
    /// Its length in seconds.
    pub seconds: f64,
    /// Successful requests per second; one way, datagrams per second that arrived.
    pub answered: f64,
    /// The limited figures, in the order of the limits: latency in microseconds, of all requests that were
    /// due (absent if too many were unanswered), or the fraction that failed.
    pub values: Vec<Option<f64>>,
    /// Above 0: kept. First the fraction answered minus 0.99; then for each limit the log ratio of limit and
    /// latency, or the limit minus the fraction that failed.
    pub margins: Vec<f64>,
    /// Purpose of the run.
    pub purpose: Purpose,
    /// Signs that the client was the limit.
    pub client_limited: Option<String>,
    /// Signs of another limit.
    #[serde(default)]
    pub elsewhere: Option<String>,
}

/// A rate and its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tried {
    /// Requests per second.
    pub rate: f64,
    /// Runs, including single ones.
    pub runs: usize,
    /// Runs that kept all limits.
    pub kept: usize,
    /// The verdict.
    pub verdict: Verdict,
}

/// Fresh runs at the rate that holds, none of which missed a limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Confirmed {
    /// Number of runs.
    pub runs: usize,
    /// Seconds from the start of the first to the end of the last.
    pub seconds: f64,
    /// Independent runs that they are worth: n (1 - r) / (1 + r), with the largest correlation r of neighbouring runs in
    /// any margin.
    pub independent: f64,
    /// At least this fraction of runs keeps the limits, with 95 % confidence, as far as the machine showed all its states in
    /// that time.
    pub share: f64,
}

/// The highest rate that keeps its limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Found {
    /// `rxlab.find-max/3`.
    pub schema: String,
    /// The offered load, except the rate.
    pub spec: load::Spec,
    /// The limits.
    pub slo: Slo,
    /// Seed of the order of the runs.
    pub seed: u64,
    /// Requests per second of the closed loop, the start of the search.
    pub closed_loop: f64,
    /// The highest rate that holds, in at least nine of ten runs; absent if none does.
    pub holds: Option<f64>,
    /// The lowest rate that fails; absent if none does.
    pub fails: Option<f64>,
    /// Fresh runs at the rate that holds; absent if they did not confirm the answer.
    pub confirmed: Option<Confirmed>,
    /// Signs that the client was the limit, in half of the runs at the failing rate or, without one, above
    /// the holding one: the target may then do more.
    pub client_limited: Option<String>,
    /// Signs of another limit, in half of those runs.
    #[serde(default)]
    pub elsewhere: Option<String>,
    /// The search ended before it had an answer.
    pub interrupted: bool,
    /// Every rate, lowest first.
    pub rates: Vec<Tried>,
    /// Every run, in time order.
    pub steps: Vec<Step>,
}

impl Step {
    /// The run of `interval` by `request`, with the concurrent `server` CPU time if known.
    pub fn new(slo: &Slo, request: Request, interval: &Interval, server: Option<&ServerCpu>) -> Self {
        let Request { rate, start_s, purpose } = request;
        let saturation = Saturation::judge(interval);
        let saturation = match server {
            Some(server) => saturation.merged_with(server),
            None => saturation,
        };
        let values = slo.limits().iter().map(|limit| match limit.on {
            Limited::Errors => Some(failed(interval)),
            Limited::Latency(q) => latency(interval, q, limit.below).map(|ns| ns / 1000.0),
        });
        Self {
            rate,
            start_s,
            seconds: interval.seconds,
            answered: good(interval) / interval.seconds.max(f64::MIN_POSITIVE),
            values: values.collect(),
            margins: margins(slo, interval),
            purpose,
            client_limited: saturation.reason,
            elsewhere: saturation.elsewhere,
        }
    }

    /// A run in which the target accepted no connection.
    pub fn refused(slo: &Slo, request: Request) -> Self {
        let Request { rate, start_s, purpose } = request;
        let values = slo.limits().iter().map(|limit| (limit.on == Limited::Errors).then_some(1.0));
        let (values, margins) = (values.collect(), refused(slo));
        let (client_limited, elsewhere) = (None, None);
        let (seconds, answered) = (0.0, 0.0);
        Self { rate, start_s, seconds, answered, values, margins, purpose, client_limited, elsewhere }
    }

    /// True if it kept all limits.
    pub fn kept(&self) -> bool {
        self.margins.iter().all(|margin| *margin > 0.0)
    }
}

impl Found {
    pub const SCHEMA: &'static str = "rxlab.find-max/3";

    /// The result of `search` after `steps`.
    pub fn new(
        spec: &load::Spec,
        slo: &Slo,
        seed: u64,
        closed_loop: f64,
        search: &Search,
        steps: Vec<Step>,
    ) -> Self {
        let (holds, fails) = (search.holds(), search.fails());
        let mut rates: Vec<Tried> = Vec::new();
        for step in &steps {
            let at = rates.iter().position(|tried| same(tried.rate, step.rate)).unwrap_or_else(|| {
                let verdict = search.verdicts().find(|(rate, _)| same(*rate, step.rate));
                let verdict = verdict.map_or(Verdict::Undecided, |(_, verdict)| verdict);
                rates.push(Tried { rate: step.rate, runs: 0, kept: 0, verdict });
                rates.len() - 1
            });
            rates[at].runs += 1;
            rates[at].kept += usize::from(step.kept());
        }
        rates.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        let confirmed = holds.filter(|_| search.is_confirmed()).and_then(|holds| confirmed(&steps, holds));
        let at_the_limit = at_the_limit(&steps, holds, fails);
        let client_limited = mostly(&at_the_limit, |step| step.client_limited.as_ref());
        let elsewhere = mostly(&at_the_limit, |step| step.elsewhere.as_ref());
        Self {
            schema: Self::SCHEMA.to_owned(),
            spec: spec.clone(),
            slo: slo.clone(),
            seed,
            closed_loop,
            holds,
            fails,
            confirmed,
            client_limited,
            elsewhere,
            interrupted: false,
            rates,
            steps,
        }
    }
}

fn same(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-6
}

/// What the last fresh runs at the rate that holds are worth.
fn confirmed(steps: &[Step], holds: f64) -> Option<Confirmed> {
    let is_fresh = |step: &&Step| step.purpose == Purpose::Confirms && same(step.rate, holds);
    let fresh: Vec<&Step> = steps.iter().filter(is_fresh).collect();
    let fresh = &fresh[fresh.len().saturating_sub(ROUNDS)..];
    let (first, last) = (fresh.first()?, fresh.last()?);
    let series = |index: usize| -> Vec<f64> {
        fresh.iter().filter_map(|step| step.margins.get(index).copied()).collect()
    };
    let correlations = (0..first.margins.len()).filter_map(|index| lag1(&series(index)));
    let correlation = correlations.fold(0.0, f64::max);
    let independent = (fresh.len() as f64 * (1.0 - correlation) / (1.0 + correlation)).max(1.0);
    let missed = fresh.iter().filter(|step| !step.kept()).count() as f64;
    // Clopper and Pearson; fewer runs than have missed are none.
    let kept = (independent - missed).max(f64::MIN_POSITIVE);
    let share = Beta::new(kept, missed + 1.0).ok()?.inverse_cdf(0.05);
    let seconds = last.start_s + last.seconds - first.start_s;
    Some(Confirmed { runs: fresh.len(), seconds, independent, share })
}

/// The runs that show the limit: those at the failing rate. Without one, those above the
/// holding rate: they did not keep it, or were disturbed.
fn at_the_limit(steps: &[Step], holds: Option<f64>, fails: Option<f64>) -> Vec<&Step> {
    let is_there = |step: &&Step| match (holds, fails) {
        (_, Some(fails)) => same(step.rate, fails),
        (Some(holds), None) => step.rate > holds && !same(step.rate, holds),
        (None, None) => true,
    };
    let there = |deciding: bool| -> Vec<&Step> {
        let is_single = |step: &&Step| step.purpose == Purpose::Explores;
        steps.iter().filter(is_there).filter(|step| !deciding || !is_single(step)).collect()
    };
    let decided: Vec<&Step> = there(true);
    if decided.is_empty() { there(false) } else { decided }
}

/// The latest sign in these runs, if at least half of them have one.
fn mostly<'a>(steps: &[&'a Step], sign: impl Fn(&'a Step) -> Option<&'a String>) -> Option<String> {
    let signs: Vec<&String> = steps.iter().filter_map(|step| sign(step)).collect();
    signs.last().filter(|_| 2 * signs.len() >= steps.len()).map(|sign| (*sign).clone())
}

/// The result for people, within 80 columns.
pub fn render(found: &Found) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write(found, &mut out);
    out
}

fn write(found: &Found, out: &mut String) -> std::fmt::Result {
    writeln!(out, "{}", found.spec.url)?;
    writeln!(out, "  {}", load::shape(&found.spec).replace("closed loop", "open loop"))?;
    writeln!(out, "  limits: {}; 99 % of due requests answered\n", found.slo)?;
    write!(out, "  {:>12} {:>5} {:>5}", "rate", "runs", "kept")?;
    found.slo.limits().iter().try_for_each(|limit| write!(out, " {:>10}", limit.on))?;
    writeln!(out, "  {:>8}", "answered")?;
    for tried in &found.rates {
        write!(out, "  {:>10}/s {:>5} {:>5}", number(tried.rate), tried.runs, tried.kept)?;
        let steps: Vec<&Step> = found.steps.iter().filter(|step| same(step.rate, tried.rate)).collect();
        for (index, limit) in found.slo.limits().iter().enumerate() {
            // The median; an unanswered value is longer than any.
            let mut values: Vec<f64> =
                steps.iter().map(|step| step.values[index].unwrap_or(f64::INFINITY)).collect();
            write!(out, " {:>10}", shown(limit.on, middle(&mut values)))?;
        }
        let mut answered: Vec<f64> = steps.iter().map(|step| step.answered / step.rate).collect();
        let verdict = match tried.verdict {
            Verdict::Holds => "  holds",
            Verdict::Fails => "  fails",
            Verdict::Undecided => "",
        };
        writeln!(out, "  {:>6.1} %{verdict}", 100.0 * middle(&mut answered))?;
    }
    writeln!(out, "  (values: median of the runs)\n")?;
    match (found.holds, found.fails) {
        (Some(holds), Some(fails)) => {
            writeln!(out, "  highest rate  {}/s holds, {}/s fails", number(holds), number(fails))?;
        }
        (Some(holds), None) => {
            writeln!(out, "  highest rate  at least {}/s; no failing rate found", number(holds))?;
        }
        (None, Some(fails)) => {
            writeln!(out, "  highest rate  below {}/s; no holding rate found", number(fails))?;
        }
        (None, None) => writeln!(out, "  highest rate  unknown: the runs are inconclusive")?,
    }
    match found.confirmed {
        Some(confirmed) => {
            let Confirmed { runs, seconds, independent, share } = confirmed;
            writeln!(
                out,
                "  confirmed     by {runs} fresh runs in {seconds:.0} s, worth {independent:.0} independent ones:"
            )?;
            writeln!(
                out,
                "                at least {:.0} % of runs keep the limits (95 % sure)",
                100.0 * share
            )?;
            writeln!(out, "                unless the machine changes more slowly than that: docs/load.md")?;
        }
        None if found.holds.is_some() => {
            writeln!(out, "  not confirmed: fresh runs did not agree, or the search ended before them")?;
        }
        None => {}
    }
    if found.interrupted {
        writeln!(out, "                ended early: more runs would narrow it")?;
    }
    match found.client_limited {
        None => writeln!(out, "  limit         no sign that this client was the limit")?,
        Some(_) => writeln!(out, "  limit         client-limited: the target may do more")?,
    }
    let signs = [&found.client_limited, &found.elsewhere].into_iter().flatten();
    signs.flat_map(|text| text.split("; ")).try_for_each(|sign| writeln!(out, "                {sign}"))
}

fn number(rate: f64) -> String {
    if rate < 100.0 { format!("{rate:.1}") } else { grouped(rate.round() as u64) }
}

fn shown(on: Limited, value: f64) -> String {
    match on {
        _ if value.is_infinite() => "unanswered".to_owned(),
        Limited::Errors => format!("{:.2} %", 100.0 * value),
        Limited::Latency(_) if value < 1000.0 => format!("{value:.0} us"),
        Limited::Latency(_) if value < 1e6 => format!("{:.2} ms", value / 1e3),
        Limited::Latency(_) => format!("{:.2} s", value / 1e6),
    }
}

/// The lower median; 0 if empty.
fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::{Confirmed, Found, Purpose, Search, Step, at_the_limit, confirmed, mostly, render};

    #[test]
    fn the_whole_text() {
        let spec = rxlab_load::Spec::new("http://10.0.0.2:8080/compute?us=100".parse().expect("a URL"));
        let slo = "p99<5ms,errors<0.1%".parse().expect("limits");
        let mut search = Search::new(10_000.0, 1);
        let mut steps = Vec::new();
        while let Some(rate) = search.ask() {
            let late = rate / 9000.0;
            let margins = [0.01, -late.ln() * 3.0, 0.0005];
            let values = vec![(late < 2.0).then_some(5000.0 * late.powi(3)), Some(0.0005)];
            let client_limited =
                (rate > 9000.0).then(|| "thread 0 at 95 % CPU; the server was 22 % busy".to_owned());
            let start_s = 4.0 * steps.len() as f64;
            let step = Step { start_s, values, client_limited, ..step(rate, &margins, search.purpose()) };
            search.tell(step.kept());
            steps.push(step);
        }
        let found = Found::new(&spec, &slo, 1, 10_000.0, &search, steps);
        let text = render(&found);
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert!(found.rates.iter().map(|tried| tried.runs).sum::<usize>() == found.steps.len());
        insta::assert_snapshot!(text);
    }

    fn step(rate: f64, margins: &[f64], purpose: Purpose) -> Step {
        Step {
            rate,
            start_s: 0.0,
            seconds: 1.0,
            answered: rate,
            values: vec![Some(1.0)],
            margins: margins.to_vec(),
            purpose,
            client_limited: (rate > 9000.0).then(|| "thread 0 at 95 % CPU".to_owned()),
            elsewhere: None,
        }
    }

    /// A search that found no failing rate, because the client was at its limit, once reported "no sign".
    #[test]
    fn a_client_at_its_limit_is_named_though_no_rate_is_proven_to_fail() {
        let steps = [8000.0, 9500.0, 9500.0].map(|rate| step(rate, &[0.5], Purpose::Selects));
        let sign = mostly(&at_the_limit(&steps, Some(8000.0), None), |step| step.client_limited.as_ref());
        assert_eq!(sign.as_deref(), Some("thread 0 at 95 % CPU"));
    }

    /// Without one that missed in n runs, the share p has p^n = 5 %.
    #[test]
    fn fresh_runs_that_agree_are_worth_less() {
        let runs = |margin: &dyn Fn(usize) -> f64| -> Confirmed {
            let steps: Vec<Step> =
                (0..30).map(|turn| step(8000.0, &[0.01, margin(turn)], Purpose::Confirms)).collect();
            confirmed(&steps, 8000.0).expect("fresh runs")
        };
        let alternating = runs(&|turn| if turn % 2 == 0 { 0.5 } else { 0.6 });
        assert_eq!(alternating.independent, 30.0);
        assert!((alternating.share - 0.05f64.powf(1.0 / 30.0)).abs() < 1e-3, "{alternating:?}");
        let two_states = runs(&|turn| if turn < 15 { 0.5 } else { 0.6 });
        assert!(two_states.independent < 3.0 && two_states.share < 0.5, "{two_states:?}");
        assert_eq!(confirmed(&[step(8000.0, &[0.5], Purpose::Selects)], 8000.0), None);
    }
}
