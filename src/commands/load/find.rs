//! `rxlab load --find-max`: runs at the rates of the search until it ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::server_watch::ServerWatch;
use super::watch::joined;
use crate::commands::progress::Bar;
use crate::commands::{Global, output, place};
use crate::error::{CommandError, Kind, Result};
use rxlab_load::{Interval, LoadError, Rate, ServerCpu, Session, Spec};
use rxlab_sys::LiveHost;
use rxlab_trial::search::found::{Found, Request, Step, render};
use rxlab_trial::search::margins::{good, length, settling};
use rxlab_trial::search::slo::Slo;
use rxlab_trial::search::{Purpose, ROUNDS, Search};

/// Interval between checks for a first response.
const FIRST_RESPONSE_POLL: Duration = Duration::from_millis(20);

/// Searches, and prints the result. Runs last `least` or longer; those that confirm the answer are spread over `confirm`.
pub(super) fn run(
    global: &Global,
    spec: &Spec,
    slo: &Slo,
    least: Duration,
    confirm: Duration,
    stop: &AtomicBool,
) -> Result {
    let one_way = spec.url.protocol.is_one_way();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seed = now.map_or(1, |time| time.as_nanos() as u64);
    let bar = Bar::spinner();
    let say = |text: String| {
        bar.set_message(&text);
        bar.tick();
    };

    say("closed loop".to_owned());
    let closed = Spec { rate: None, poisson: false, ..spec.clone() };
    let mut runs = Runs::new(spec, stop);
    let settle = |length, usual| settling(slo, length, usual, spec.timeout);
    // For a whole timeout there may be no response, and then many at once.
    let first = runs.measure(&closed, settle(least, Duration::ZERO), least, spec.timeout)?;
    if stop.load(Ordering::Relaxed) {
        return Err(CommandError::silent(Kind::Interrupted));
    }
    if one_way && !first.told {
        return Err(CommandError::failed(format!("{} does not report what arrives", spec.url))
            .hint("the result would be only what this client can send; use `rxlab target --udp-sink`"));
    }
    let closed_loop = good(&first.interval) / first.interval.seconds.max(f64::MIN_POSITIVE);
    if closed_loop <= 0.0 {
        return Err(CommandError::failed(format!("no successful response from {}", spec.url)));
    }
    let usual = Duration::from_nanos(first.interval.latency.value_at_quantile(0.99));
    let mut search = Search::new(closed_loop, seed);
    let mut steps: Vec<Step> = Vec::new();
    let begun = Instant::now();
    let mut attempt = (0, begun);
    while let Some(rate) = search.ask() {
        let what = match search.purpose() {
            Purpose::Explores => ", exploring".to_owned(),
            Purpose::Selects => String::new(),
            Purpose::Confirms => format!(", confirming ({ROUNDS} rounds)"),
        };
        say(format!("run {}: {rate:.0}/s{what}", steps.len() + 1));
        if let Some(due) = search.due() {
            if due.attempt != attempt.0 {
                attempt = (due.attempt, Instant::now());
            }
            place::sleep(confirm.mul_f64(due.after).saturating_sub(attempt.1.elapsed()), stop);
        }
        let request = Request { rate, start_s: begun.elapsed().as_secs_f64(), purpose: search.purpose() };
        // Different random arrivals in each run: repeated ones are no evidence.
        let run = (seed as u32).wrapping_add(steps.len() as u32);
        let open = Spec { rate: Some(Rate::steady(rate)), seed: run, ..spec.clone() };
        let length = length(slo, rate, least);
        let step = match runs.measure(&open, settle(length, usual), length, Duration::ZERO) {
            // Too busy even to report its losses.
            Ok(run) if one_way && run.interval.received.is_none() => Step::refused(slo, request),
            Ok(run) => Step::new(slo, request, &run.interval, run.server.as_ref()),
            // It accepted connections in the closed loop: this rate is too high for it.
            Err(LoadError::Down { .. }) => Step::refused(slo, request),
            Err(error) => return Err(error.into()),
        };
        if stop.load(Ordering::Relaxed) {
            break;
        }
        search.tell(step.kept());
        steps.push(step);
    }
    bar.finish_and_clear();
    let interrupted = stop.load(Ordering::Relaxed);
    let found = Found { interrupted, ..Found::new(spec, slo, seed, closed_loop, &search, steps) };
    let ended = match (interrupted, found.holds) {
        (true, _) => Err(CommandError::silent(Kind::Interrupted)),
        (false, None) => Err(CommandError::failed(format!("found no rate that keeps {slo}"))),
        (false, Some(_)) => Ok(()),
    };
    CommandError::after_output(ended, output::print(global, &found, || render(&found)))
}

/// Load runs against one target.
struct Runs<'a> {
    host: Option<LiveHost>,
    server: Option<ServerWatch>,
    stop: &'a AtomicBool,
}

struct Run {
    interval: Interval,
    server: Option<ServerCpu>,
    /// True if the target reports what arrives.
    told: bool,
}

impl<'a> Runs<'a> {
    fn new(spec: &Spec, stop: &'a AtomicBool) -> Self {
        let host = LiveHost::open("/".as_ref()).ok();
        let server = host.as_ref().and_then(|host| ServerWatch::find(host, spec));
        Self { host, server, stop }
    }

    /// Measures a new load for `time`, after it has settled; without a response in that time for up to `patience`
    /// longer.
    fn measure(
        &mut self,
        spec: &Spec,
        settling: Duration,
        time: Duration,
        patience: Duration,
    ) -> Result<Run, LoadError> {
        let mut session = Session::start(spec)?;
        session.reset_at_end();
        place::sleep(settling, self.stop);
        session.forget();
        let begun = Instant::now();
        self.host.iter().zip(&mut self.server).for_each(|(host, server)| server.begin(host));
        place::sleep(time, self.stop);
        let mut measured = None;
        let is_silent = |measured: &Option<Interval>| measured.as_ref().is_none_or(|all| all.requests == 0);
        while is_silent(&measured) && begun.elapsed() < time + patience && !self.stop.load(Ordering::Relaxed)
        {
            measured = Some(joined(measured, session.cut()));
            place::sleep(FIRST_RESPONSE_POLL, self.stop);
        }
        let server = self.host.as_ref().zip(self.server.as_ref()).and_then(|(host, server)| server.end(host));
        let told = session.arrivals_are_told();
        let (last, arrivals) = session.finish();
        Ok(Run { interval: joined(measured, last).with_arrivals(arrivals), server, told })
    }
}
