//! Detects whether the generator was the limit: if so, the result says nothing about the target.

use serde::{Deserialize, Serialize};

use super::error_class::{self, ErrorClass};
use super::interval::{Interval, NotSent, ThreadCpu};
use super::server::ServerCpu;
use rxlab_base::number::plural;

/// Part of the offered requests that may stay unsent.
const SHORTFALL: f64 = 0.02;
/// Share of a thread's time from which it counts as full.
const FULL_THREAD: f64 = 0.90;
/// Share of a thread's time from which waiting for its CPU alone makes it the limit: responses then lie unread for most
/// of the time, so no connection is free, and the target idles.
const STARVED: f64 = 0.50;
/// Unsent part of the offered requests up to which a schedule counts as kept.
const KEPT: f64 = 0.001;
/// Send lag as a fraction of the latency, both at the same quantile.
const LAG_SHARE: f64 = 0.10;
/// Sends required beyond the quantile at which lag is judged: a single hiccup is not a limit.
const BEYOND: f64 = 10.0;

/// Verdict on the generator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Saturation {
    /// The generator was the limit, alone or together with the target.
    pub limited: bool,
    /// Signs of it in words, separated by semicolons, followed by the load of the server if known.
    pub reason: Option<String>,
    /// Signs that the limit was elsewhere, in words: the target, the path to it, or too few connections.
    #[serde(default)]
    pub elsewhere: Option<String>,
}

impl Saturation {
    /// Judges whether the generator limited the load.
    pub fn judge(interval: &Interval) -> Self {
        let full = full_thread(interval);
        let local = local(interval);
        let shortfall = Shortfall::new(interval, full.is_some() || local.is_some());
        let own = (shortfall.own > SHORTFALL)
            .then(|| format!("{:.1} % of the due requests were not sent in time", 100.0 * shortfall.own));
        let reason = joined([local, full, lag(interval), overflow(interval), own]);
        Self { limited: reason.is_some(), reason, elsewhere: shortfall.elsewhere() }
    }

    /// Adds the load of the server: next to a full client, a full server is a limit as well.
    #[must_use]
    pub fn merged_with(mut self, server: &ServerCpu) -> Self {
        let busy = server.busiest.unwrap_or(server.cpus).min(1.0);
        let mut sentence = format!("the server was {:.0} % busy", 100.0 * busy);
        let signs = if self.limited {
            if busy > FULL_THREAD {
                sentence += " and a limit as well";
            }
            &mut self.reason
        } else if busy > FULL_THREAD {
            &mut self.elsewhere
        } else {
            return self;
        };
        *signs = joined([signs.take(), Some(sentence)]);
        self
    }
}

/// The signs that were found, separated by semicolons; `None` without any.
fn joined<const N: usize>(signs: [Option<String>; N]) -> Option<String> {
    signs.into_iter().flatten().reduce(|all, sign| format!("{all}; {sign}"))
}

/// Part of the offered requests that was not sent; `None` outside the open loop.
fn missing(interval: &Interval) -> Option<f64> {
    let due = interval.offered? * interval.seconds;
    let missing = due - interval.sent as f64;
    // Requests that became due at the very moment of the cut are not missing.
    let slack = interval.client_cpu.len() as f64;
    Some(if missing > slack { missing / due } else { 0.0 })
}

/// Offered requests that were not sent, by cause: fractions of the offered ones.
#[derive(Debug, Default)]
struct Shortfall {
    /// No connection was free: all waited for the target, or could not be opened.
    blocked: f64,
    /// The kernel refused to send them.
    refused: f64,
    /// The generator did not send them although it could have.
    own: f64,
}

impl Shortfall {
    /// `is_own`: the generator was too busy to read responses, or could not open connections, so it may itself be the
    /// reason that none was free.
    fn new(interval: &Interval, is_own: bool) -> Self {
        let Some(missing) = missing(interval) else { return Self::default() };
        let due = (interval.offered.unwrap_or(0.0) * interval.seconds).max(1.0);
        let NotSent { blocked, waiting, .. } = interval.not_sent;
        let refused = interval.errors.get(&ErrorClass::Send).copied().unwrap_or(0);
        let part = |count: u64, left: f64| (count as f64 / due).min(left);
        let refused = part(refused, missing);
        let blocked = part(if is_own { 0 } else { blocked + waiting }, missing - refused);
        Self { blocked, refused, own: missing - refused - blocked }
    }

    /// Causes outside the generator, in words.
    fn elsewhere(&self) -> Option<String> {
        let blocked = (self.blocked > SHORTFALL).then(|| {
            format!(
                "no connection was free for {:.1} % of the due requests; the target or --connections is the limit",
                100.0 * self.blocked
            )
        });
        let refused = (self.refused > SHORTFALL).then(|| {
            format!(
                "the kernel refused to send {:.1} % of the due requests; the device or its queue is the limit",
                100.0 * self.refused
            )
        });
        joined([blocked, refused])
    }
}

/// Finds a full thread: one that uses its whole CPU, or that has work and is kept from doing it.
/// In the closed loop it is the limit. With a schedule that was kept it is not: its time is then spent
/// polling for the next send, or on receive work that the kernel billed to it.
fn full_thread(interval: &Interval) -> Option<String> {
    if missing(interval).is_some_and(|missing| missing <= KEPT) {
        return None;
    }
    let on_cpu = |thread: &ThreadCpu| thread.share - thread.spinning;
    // Runnable: a thread kept from checking its sockets is no freer than one at work.
    let full = |thread: &ThreadCpu| (on_cpu(thread) + thread.waiting).max(thread.busy).min(1.0);
    let busiest = interval.client_cpu.iter().max_by(|a, b| full(a).total_cmp(&full(b)))?;
    if full(busiest) <= FULL_THREAD && busiest.waiting <= STARVED {
        return None;
    }
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let mut text = format!("thread {} at {} CPU", busiest.thread, percent(on_cpu(busiest)));
    if on_cpu(busiest) <= FULL_THREAD {
        text += &format!(", and it had work for {}", percent(full(busiest)));
        if busiest.waiting > LAG_SHARE {
            text += &format!("; it waited {} of the time for its CPU", percent(busiest.waiting));
        }
        if let Some((softirq, cpu)) = busiest.softirq.zip(busiest.cpu_pinned)
            && softirq > LAG_SHARE
        {
            text += &format!("; CPU {cpu} spent {} in softirqs", percent(softirq));
        }
    }
    Some(text)
}

/// Connections that this machine could not open, with what it lacks and what to do.
fn local(interval: &Interval) -> Option<String> {
    let failed = *interval.errors.get(&ErrorClass::Local)?;
    let (what, _) = *interval.reasons.of(ErrorClass::Local).first()?;
    let remedy = error_class::remedy(what).map_or_else(String::new, |remedy| format!(" ({remedy})"));
    Some(format!("{} failed here: {what}{remedy}", plural(failed as usize, "attempt")))
}

/// Judged at the 99th percentile; with few requests, at the highest that has ten of them beyond it.
fn lag(interval: &Interval) -> Option<String> {
    let q = (1.0 - BEYOND / interval.send_lag.len().max(1) as f64).min(0.99);
    if q < 0.5 {
        return None;
    }
    let lag = interval.send_lag.value_at_quantile(q);
    if lag <= interval.pacing.own_lag() {
        return None;
    }
    let late = format!("sends were late by {:.0} us at p{:.0}", lag as f64 / 1000.0, (100.0 * q).floor());
    let latencies = interval.latencies();
    if latencies.is_empty() {
        return missing(interval).is_some_and(|missing| missing > SHORTFALL).then_some(late);
    }
    let share = lag as f64 / latencies.value_at_quantile(q).max(1) as f64;
    (share > LAG_SHARE).then(|| format!("{late}, {:.0} % of the latency", 100.0 * share))
}

/// Responses dropped for lack of room in the client's own sockets: they were not lost on the way. A train
/// is dropped or received whole.
fn overflow(interval: &Interval) -> Option<String> {
    let dropped = interval.datagrams.client_dropped;
    let share = dropped as f64 / (interval.datagrams.receives + dropped).max(1) as f64;
    (share > SHORTFALL)
        .then(|| format!("the client's own sockets dropped {:.1} % of the responses", 100.0 * share))
}

#[cfg(test)]
mod tests {
    use super::{NotSent, Saturation};
    use crate::clock::SECOND;
    use crate::interval::Interval;
    use crate::tally::{Cut, Taken, Tally};
    use crate::{ErrorClass, Pacing, ServerCpu};
    use rxlab_base::units::CpuId;

    fn measured(tally: Tally, cpu_percent: u64, due: Option<u64>) -> Interval {
        let taken = Taken { cpu: cpu_percent * SECOND / 100, ..Taken::default() };
        let cut = Cut { taken, due, ..Cut::second(tally) };
        Interval::from_cuts(&[cut], &[Some(CpuId(1))])
    }

    fn tally(requests: u64, latency: u64, lag: u64) -> Tally {
        let mut tally = Tally::new();
        for _ in 0..requests {
            tally.complete(latency);
            tally.lag.saturating_record(lag);
        }
        tally.sent = tally.completed;
        tally
    }

    fn interval(latency: u64, lag: u64, cpu_percent: u64, spun_percent: u64, due: Option<u64>) -> Interval {
        let mut tally = tally(10_000, latency, lag);
        tally.spun = spun_percent * SECOND / 100;
        measured(tally, cpu_percent, due)
    }

    fn reason(interval: &Interval) -> String {
        Saturation::judge(interval).reason.unwrap_or_default()
    }

    /// Checks the signs of an interval, those elsewhere by how they begin.
    fn assert_signs(interval: &Interval, reason: Option<&str>, elsewhere: Option<&str>) {
        let found = Saturation::judge(interval);
        assert_eq!((found.limited, found.reason.as_deref()), (reason.is_some(), reason));
        match elsewhere {
            None => assert_eq!(found.elsewhere, None),
            Some(sign) => assert!(found.elsewhere.is_some_and(|found| found.starts_with(sign)), "{sign}"),
        }
    }

    fn server(busiest: f64) -> ServerCpu {
        ServerCpu { processes: Vec::new(), seconds: busiest, cpus: busiest, busiest: Some(busiest) }
    }

    #[test]
    fn coarse_pacing_is_late_by_design() {
        let mut interval = interval(1_900_000, 1_100_000, 10, 0, Some(10_000));
        assert!(Saturation::judge(&interval).limited);
        interval.pacing = Pacing::Coarse;
        assert!(!Saturation::judge(&interval).limited);
    }

    #[test]
    fn each_sign_is_seen_and_named() {
        assert_eq!(reason(&interval(100_000, 9_000, 89, 0, Some(10_100))), "");
        assert_eq!(reason(&interval(100_000, 0, 95, 0, None)), "thread 0 at 95 % CPU");
        assert_eq!(reason(&interval(100_000, 0, 95, 0, Some(10_100))), "thread 0 at 95 % CPU");
        assert_eq!(reason(&interval(100_000, 0, 95, 0, Some(10_005))), "", "the schedule was kept");
        assert_eq!(reason(&interval(100_000, 0, 95, 90, None)), "", "polling is not work");
        assert_eq!(reason(&interval(100_000, 30_000, 0, 0, None)), "", "a wake-up takes that long");
        assert_eq!(
            reason(&interval(1_000_000, 200_000, 0, 0, None)),
            "sends were late by 200 us at p99, 20 % of the latency"
        );
    }

    /// Connections without a local port were once "connection failed": the target seemed to be down.
    #[test]
    fn what_this_machine_lacks_is_the_clients_limit() {
        let mut short = tally(10_000, 100_000, 0);
        let error = std::io::Error::from_raw_os_error(rustix::io::Errno::ADDRNOTAVAIL.raw_os_error());
        (0..87).for_each(|_| short.failed(ErrorClass::of_connect(&error), &error, 1));
        assert_eq!((short.unreached, short.errors_of(ErrorClass::Local)), (0, 87));
        let short = measured(short, 0, None);
        assert_eq!((short.failed(), short.error_count()), (0, 87), "the target answered all that reached it");
        assert_eq!(
            reason(&short),
            "87 attempts failed here: no free local port (more addresses: --source; more ports: \
             net.ipv4.ip_local_port_range)"
        );
    }

    /// A rule of this machine's own firewall: without a reason the client was no limit, and with a schedule "the target or
    /// --connections" was.
    #[test]
    fn datagrams_and_schedules_know_what_is_missing_too() {
        let mut refused = tally(10_000, 100_000, 0);
        refused.unsendable(Some(rustix::io::Errno::PERM), 2_500);
        let mut refused = measured(refused, 20, Some(12_500));
        refused.not_sent = NotSent { blocked: 1_000, waiting: 1_500, late: 0 };
        let found = Saturation::judge(&refused);
        let reason = found.reason.expect("limited");
        assert!(reason.starts_with("2,500 attempts failed here: not permitted (see this"), "{reason}");
        assert_eq!(found.elsewhere, None);
    }

    #[test]
    fn a_socket_that_overflowed_is_the_client_s() {
        let dropping = |dropped| {
            let mut tally = tally(10_000, 100_000, 0);
            (tally.datagrams.receives, tally.datagrams.client_dropped) = (10_000, dropped);
            reason(&measured(tally, 0, None))
        };
        assert_eq!(dropping(200), "");
        assert_eq!(dropping(300), "the client's own sockets dropped 2.9 % of the responses");
    }

    /// Above a target's capacity requests wait for its connections, however idle the client is.
    #[test]
    fn what_found_no_connection_is_the_clients_fault_only_with_a_sign_of_it() {
        let blocked = |lag, cpu_percent| {
            let latency = if lag > 0 { 1_000_000 } else { 100_000 };
            let mut interval = interval(latency, lag, cpu_percent, 0, Some(12_500));
            interval.not_sent = NotSent { blocked: 1_000, waiting: 1_500, late: 0 };
            interval
        };
        let busy =
            "no connection was free for 20.0 % of the due requests; the target or --connections is the limit";
        assert_signs(&blocked(0, 20), None, Some(busy));
        // It may have been too busy to read the responses that free them.
        let deaf = "thread 0 at 99 % CPU; 20.0 % of the due requests were not sent in time";
        assert_signs(&blocked(0, 99), Some(deaf), None);
        // Late sends where a connection was free do not explain that none was.
        let slow = "sends were late by 200 us at p99, 20 % of the latency";
        assert_signs(&blocked(200_000, 20), Some(slow), Some(busy));
        let mut late = blocked(0, 20);
        late.not_sent = NotSent { blocked: 0, waiting: 1_250, late: 1_250 };
        let unsent = "10.0 % of the due requests were not sent in time";
        assert_signs(&late, Some(unsent), Some("no connection was free for 10.0 %"));
        let mut refused = tally(10_000, 100_000, 0);
        refused.error(ErrorClass::Send, 2_500);
        let refused = measured(refused, 20, Some(12_500));
        assert_signs(&refused, None, Some("the kernel refused to send 20.0 %"));
    }

    /// A server that stops 450 ms before the end of 3 s: sends were late by more than a tenth of its earlier
    /// latency, but not of its latency since.
    #[test]
    fn a_frozen_server_is_no_limit_of_the_client() {
        let mut frozen = interval(1_000_000, 200_000, 6, 0, Some(11_800));
        (frozen.not_sent.waiting, frozen.in_flight) = (1_800, 64);
        let ages = (0..1_864).map(|n: u64| n * 241_000);
        ages.for_each(|age| frozen.unanswered.saturating_record(age));
        assert_signs(&frozen, None, Some("no connection was free for 15.3 %"));
    }

    /// A CPU shared with others or with softirqs: little CPU time, and always work to do.
    #[test]
    fn a_client_that_is_kept_from_its_cpu_is_full() {
        let mut starved = tally(10_000, 100_000, 0);
        starved.busy = SECOND * 97 / 100;
        let mut starved = measured(starved, 39, None);
        (starved.client_cpu[0].waiting, starved.client_cpu[0].softirq) = (0.5, Some(0.41));
        assert_eq!(
            reason(&starved),
            "thread 0 at 39 % CPU, and it had work for 97 %; it waited 50 % of the time for its CPU; \
             CPU 1 spent 41 % in softirqs"
        );
        starved.client_cpu[0].busy = 0.8;
        assert_eq!(reason(&starved), "");
        // Waiting to get to its sockets is not work either.
        starved.client_cpu[0].waiting = 0.53;
        assert!(reason(&starved).starts_with("thread 0 at 39 % CPU, and it had work for 92 %"));
    }

    /// Busy programs share the client's CPU: it sleeps for a seventh of the time, because its connections are all
    /// with a server that answers as soon as it is asked. That server was once called the limit.
    #[test]
    fn a_client_that_waits_for_its_cpu_most_of_the_time_is_the_limit() {
        let mut starved = tally(25_000, 2_000_000, 0);
        starved.busy = SECOND / 7;
        let mut starved = measured(starved, 20, Some(72_000));
        starved.not_sent = NotSent { blocked: 0, waiting: 47_000, late: 0 };
        starved.client_cpu[0].waiting = 0.49;
        assert_eq!(reason(&starved), "");
        starved.client_cpu[0].waiting = 0.63;
        let text = reason(&starved);
        assert!(text.starts_with("thread 0 at 20 % CPU, and it had work for 83 %; it waited 63 %"), "{text}");
    }

    /// A few hundred requests are enough to see that all of them were late; one late request is not.
    #[test]
    fn few_requests_are_judged_as_far_as_they_go() {
        assert_eq!(
            reason(&measured(tally(200, 1_000_000, 300_000), 5, Some(200))),
            "sends were late by 300 us at p95, 30 % of the latency"
        );
        assert_eq!(reason(&measured(tally(19, 1_000_000, 300_000), 5, Some(19))), "");
        let mut once = tally(200, 1_000_000, 0);
        (0..9).for_each(|_| once.lag.saturating_record(300_000));
        assert_eq!(reason(&measured(once, 5, Some(200))), "");
    }

    /// Without latency (one way) lateness matters when the sender falls short.
    #[test]
    fn one_way_a_late_sender_is_the_limit_when_it_falls_short() {
        let sent = || {
            let mut tally = Tally::new();
            (0..10_000).for_each(|_| tally.lag.saturating_record(900_000_000));
            (tally.sent, tally.completed) = (10_000, 10_000);
            tally
        };
        assert_eq!(reason(&measured(sent(), 5, Some(10_050))), "");
        assert!(reason(&measured(sent(), 5, Some(12_500))).starts_with("sends were late by 900"));
        // There is no connection to wait for: unsent requests are due to the sender or the kernel.
        let short = || Tally { lag: Tally::new().lag, ..sent() };
        assert_eq!(
            reason(&measured(short(), 5, Some(12_500))),
            "20.0 % of the due requests were not sent in time"
        );
        let mut refused = short();
        refused.error(ErrorClass::Send, 2_500);
        assert_eq!(reason(&measured(refused, 5, Some(12_500))), "");
    }

    #[test]
    fn the_server_is_named_with_the_client() {
        let limited = || Saturation::judge(&interval(100_000, 0, 99, 0, None));
        let reason = |saturation: Saturation| saturation.reason.unwrap_or_default();
        assert_eq!(
            reason(limited().merged_with(&server(0.22))),
            "thread 0 at 99 % CPU; the server was 22 % busy"
        );
        assert_eq!(
            reason(limited().merged_with(&server(1.0))),
            "thread 0 at 99 % CPU; the server was 100 % busy and a limit as well"
        );
        let idle = || Saturation::judge(&interval(100_000, 0, 10, 0, None));
        assert_eq!(idle().merged_with(&server(0.5)), idle());
        let saturation = idle().merged_with(&server(0.97));
        assert_eq!(
            (saturation.limited, saturation.elsewhere.as_deref()),
            (false, Some("the server was 97 % busy"))
        );
    }
}
