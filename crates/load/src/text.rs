//! Text report of a load, within 80 columns.

use std::fmt::Write;

use super::datagrams::Datagrams;
use super::histogram::together;
use super::http_version::HttpVersion;
use super::interval::ThreadCpu;
use super::report::{LatencyReport, Limit, Percentile, Report};
use super::saturation::Saturation;
use super::spec::Spec;
use rxlab_base::number::{percent, plural};
use rxlab_base::units::{format_duration, words_in_lines};

/// Reasons shown of each class of errors.
const REASONS: usize = 3;
/// Columns of a text behind a label.
const WIDTH: usize = 66;

/// Renders the report for people.
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write(report, &mut out);
    out
}

fn write(report: &Report, out: &mut String) -> std::fmt::Result {
    let spec = &report.spec;
    let noun = spec.url.protocol.noun();
    writeln!(out, "{}", spec.url)?;
    writeln!(out, "  {}", shape(spec))?;
    writeln!(out)?;
    let unit = if spec.url.protocol.is_one_way() { "pkt/s" } else { "req/s" };
    row(out, "rate", &format!("{} {unit}", grouped(report.rate)))?;
    let early = if report.interrupted { ", interrupted" } else { "" };
    row(out, noun, &format!("{} in {:.2} s{early}", grouped(report.requests as f64), report.seconds))?;
    if let Some(received) = report.received {
        let share = 100.0 * received as f64 / report.requests.max(1) as f64;
        row(out, "arrived", &format!("{} ({share:.1} %), counted by the sink", grouped(received as f64)))?;
    } else if spec.url.protocol.is_one_way() {
        row(out, "arrived", "unknown: nothing counts the arrivals of this load alone")?;
    }
    if let Some(datagrams) = &report.datagrams {
        datagram_rows(report, datagrams, out)?;
    }
    if let Some(offered) = report.offered {
        row(out, "offered", &format!("{} {unit}, sent {}", grouped(offered), grouped(report.achieved)))?;
    }
    let counted = |count: u64, what: &str| {
        let rate = count as f64 / report.seconds.max(f64::MIN_POSITIVE);
        format!("{} {what}, {}/s", grouped(count as f64), grouped(rate))
    };
    if let Some(opened) = report.opened.filter(|opened| *opened > 0) {
        row(out, "connections", &counted(opened, "opened during the load"))?;
    }
    if let Some(allowed) = report.streams_allowed {
        let asked = report.spec.pipeline;
        row(out, "streams", &format!("the server allows {allowed} on a connection, not {asked}"))?;
    }
    if let Some(handshakes) = report.handshakes {
        let resumed = report.resumed.map_or_else(String::new, |n| format!(", {} resumed", grouped(n as f64)));
        row(out, "TLS", &(counted(handshakes, "handshakes") + &resumed))?;
    }
    if report.bytes_received > 0 {
        let (all, rate) = (report.bytes_received as f64, report.bytes_per_second);
        row(out, "received", &format!("{}, {}/s", bytes(all), bytes(rate)))?;
    }
    if !report.statuses.is_empty() {
        row(out, "statuses", &statuses(report))?;
    }
    if report.errors.is_empty() {
        row(out, "errors", "none")?;
    }
    for (index, (class, count)) in report.errors.iter().enumerate() {
        row(out, if index == 0 { "errors" } else { "" }, &format!("{} {class}", grouped(*count as f64)))?;
        for (reason, count) in report.reasons.of(*class).into_iter().take(REASONS) {
            let line = format!("  {} {reason}", grouped(count as f64));
            let cut = line.chars().count() > WIDTH;
            let line: String = line.chars().take(if cut { WIDTH - 3 } else { WIDTH }).collect();
            row(out, "", &(line + if cut { "..." } else { "" }))?;
        }
    }
    for (index, (event, count)) in report.events.iter().enumerate() {
        row(out, if index == 0 { "no request" } else { "" }, &format!("{} {event}", grouped(*count as f64)))?;
    }
    if let Some(open) = unanswered(report) {
        row(out, "at the end", &open)?;
    }
    for (index, Limit { limit, value, kept }) in report.limits.iter().enumerate() {
        let measured = match value {
            None => "unknown: too few good responses".to_owned(),
            Some(share) if limit.starts_with("errors") => percent(*share),
            Some(us) => duration(*us),
        };
        let verdict = match kept {
            Some(true) => "kept",
            Some(false) => "missed",
            None => "too few requests to tell",
        };
        row(out, if index == 0 { "slo" } else { "" }, &format!("{limit} {verdict}: {measured}"))?;
    }
    if !spec.url.protocol.is_one_way() {
        writeln!(out)?;
        latency(report, out)?;
    }
    writeln!(out)?;
    client(report, out)
}

fn datagram_rows(report: &Report, datagrams: &Datagrams, out: &mut String) -> std::fmt::Result {
    if let Some(reordered) = datagrams.reordered.filter(|count| *count > 0) {
        row(
            out,
            "reordered",
            &format!("{} arrived after a later one of their flow", grouped(reordered as f64)),
        )?;
    }
    if datagrams.over_tcp > 0 {
        let count = grouped(datagrams.over_tcp as f64);
        row(out, "over TCP", &format!("{count} responses did not fit into a datagram"))?;
    }
    if datagrams.surplus > 0 {
        let count = grouped(datagrams.surplus as f64);
        row(out, "surplus", &format!("{count} responses arrived twice or after the timeout"))?;
    }
    if datagrams.client_dropped > 0 {
        let count = grouped(datagrams.client_dropped as f64);
        row(out, "dropped", &format!("{count} by this client: its socket buffers were full"))?;
    }
    if report.spec.batch > 1 {
        let each = |count: u64, calls: u64| grouped(count as f64 / calls.max(1) as f64);
        let mut text = format!("{} datagrams per send", each(report.sent, datagrams.sends));
        if datagrams.receives > 0 {
            text += &format!(", {} per receive", each(report.requests, datagrams.receives));
        }
        row(out, "trains", &text)?;
    }
    match &datagrams.no_trains {
        Some(why) => row(out, "", &format!("sent one by one: trains not possible on this path ({why})")),
        None => Ok(()),
    }
}

/// Bars of the latencies of a report, each for twice the time of the one before, and their share: within 80 columns. Requests
/// without a response count with their age, as in the percentiles.
pub fn distribution(report: &Report) -> String {
    /// Columns of the longest bar.
    const BAR: usize = 40;
    let [answered, unfinished] = report.times();
    let latency = together(&answered, &unfinished);
    if latency.is_empty() {
        return String::new();
    }
    // From a power of two of nanoseconds, so that loads can be compared.
    let first = latency.min().max(1).next_power_of_two();
    let mut bins: Vec<(u64, [u64; 2])> = Vec::new();
    let mut below = first;
    while bins.last().is_none_or(|_| below / 2 <= latency.max()) {
        let from = if bins.is_empty() { 0 } else { below / 2 };
        bins.push((below, [&answered, &unfinished].map(|part| part.count_between(from, below - 1))));
        below *= 2;
    }
    let most = bins.iter().map(|(_, counts)| counts.iter().sum::<u64>()).max().unwrap_or(1);
    let whose = if unfinished.is_empty() {
        "of requests with a good response"
    } else {
        "of all requests; +: without a response, at least this long"
    };
    let mut out = format!("  {:<12}{whose}\n", "latency");
    for (below, counts) in bins {
        let [length, behind] = counts.map(|count| (count * BAR as u64).div_ceil(most.max(1)) as usize);
        let share = 100.0 * counts.iter().sum::<u64>() as f64 / latency.len() as f64;
        let line = format!(
            "  {:>12} {share:>8.3} % {}{}",
            format!("< {}", duration(below as f64 / 1e3)),
            "#".repeat(length),
            "+".repeat(behind)
        );
        out += line.trim_end();
        out.push('\n');
    }
    out
}

/// Describes the load in one line: `64 connections, 1 thread, closed loop, timeout 2s`.
pub fn shape(spec: &Spec) -> String {
    let protocol = spec.url.protocol;
    let mode = match &spec.rate {
        Some(rate) => {
            let random = if spec.poisson { ", Poisson arrivals" } else { "" };
            match rate.is_steady() {
                Some(rate) => format!("open loop at {}/s{random}", exact(rate)),
                None => format!("open loop at {rate}{random}"),
            }
        }
        None if protocol.is_one_way() => "flat out".to_owned(),
        None => "closed loop".to_owned(),
    };
    let what = if protocol.is_stream() { "connection" } else { "flow" };
    let mut parts = vec![plural(spec.connections, what)];
    if spec.no_keepalive {
        parts.push("one request each".to_owned());
    }
    if spec.method != "GET" {
        parts.push(spec.method.clone());
    }
    if spec.announce {
        parts.push("announces".to_owned());
    }
    if !spec.paths.is_empty() {
        parts.push(plural(spec.paths.len(), protocol.definition().path_noun()));
    }
    if !spec.targets.is_empty() {
        parts.push(plural(spec.targets.len(), "target"));
    }
    if spec.http_version != HttpVersion::Http1 {
        parts.push(format!("{}, {} each", spec.http_version, plural(spec.pipeline, "stream")));
    } else if spec.pipeline > 1 {
        parts.push(format!("depth {}", spec.pipeline));
    }
    if spec.batch > 1 {
        parts.push(format!("trains of {}", spec.batch));
    }
    parts.push(plural(spec.threads, "thread"));
    if protocol.takes("--size") {
        parts.push(format!("{} bytes", spec.size));
    }
    parts.push(mode);
    parts.extend(spec.requests.map(|requests| format!("{} requests", rxlab_base::units::grouped(requests))));
    parts.push(format!("timeout {}", format_duration(spec.timeout)));
    parts.join(", ")
}

/// A rate as given, fractions included.
fn exact(rate: f64) -> String {
    if rate.fract() == 0.0 { grouped(rate) } else { rate.to_string() }
}

/// Requests unanswered when the measurement ended; `None` without any.
fn unanswered(report: &Report) -> Option<String> {
    let not_sent = report.not_sent.map_or(0, |not_sent| not_sent.waiting + not_sent.late);
    let parts = [(report.in_flight, "in flight"), (not_sent, "due but not sent")];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, what)| format!("{} {what}", grouped(count as f64))).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn latency(report: &Report, out: &mut String) -> std::fmt::Result {
    let latency = &report.latency_us;
    let (mut names, mut values) = (String::new(), String::new());
    for percentile in Percentile::ALL {
        let few = if latency.few.contains(&percentile) { "~" } else { "" };
        let bound = if latency.at_least.contains(&percentile) { ">=" } else { few };
        let value = latency.get(percentile).map_or_else(|| "-".to_owned(), duration);
        write!(names, "{percentile:>12}")?;
        write!(values, "{:>12}", format!("{bound}{value}"))?;
    }
    writeln!(out, "  {:<10}{names}", "latency")?;
    writeln!(out, "  {:<10}{values}", "")?;
    if let Some(mean) = latency.mean {
        let bound = if latency.at_least.is_empty() { "" } else { ">=" };
        row(out, "mean", &format!("{bound}{}", duration(mean)))?;
    }
    if latency.few.iter().any(|few| !latency.at_least.contains(few)) {
        writeln!(out, "  (~: fewer than 100 requests beyond it, so another run may differ a lot)")?;
    }
    if !latency.at_least.is_empty() {
        let parts = [(report.unanswered, "unanswered at the end"), (report.given_up, "given up")];
        let parts = parts.into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> =
            parts.map(|(count, what)| format!("{} {what}", grouped(count as f64))).collect();
        writeln!(out, "  (>=: at least; {} count with their age)", parts.join(" and "))?;
    }
    if report.offered.is_some() {
        writeln!(out, "  (counted from the intended send time)")?;
    }
    Ok(())
}

fn client(report: &Report, out: &mut String) -> std::fmt::Result {
    let seconds: f64 = report.client_cpu.iter().map(|thread| thread.seconds).sum();
    let cost = report.client_us_per_request.map_or_else(String::new, |us| format!(", {us:.2} us each"));
    row(out, "client CPU", &format!("{seconds:.2} s{cost}"))?;
    /// Threads shown one by one; the others are summarized.
    const SHOWN: usize = 8;
    for thread in report.client_cpu.iter().take(SHOWN) {
        let place = thread.cpu_pinned.map_or_else(String::new, |cpu| format!(" on CPU {cpu}"));
        let spinning = match (thread.spinning * 100.0).round() {
            0.0 => String::new(),
            percent => format!(", {percent:.0} % polling"),
        };
        let (share, modes) = (percent(thread.share), modes(thread));
        row(out, "", &format!("thread {}{place}: {share}{modes}{spinning}", thread.thread))?;
        let is_shown = |part: &f64| *part >= 0.01;
        let waited = Some(thread.waiting).filter(is_shown).map(|part| format!("waited {}", percent(part)));
        let softirq = thread.softirq.filter(is_shown);
        let softirq = softirq.map(|part| format!("its CPU spent {} in softirqs", percent(part)));
        let detail: Vec<String> = [waited, softirq].into_iter().flatten().collect();
        if !detail.is_empty() {
            row(out, "", &format!("  {}", detail.join(", ")))?;
        }
    }
    if let Some(rest) = report.client_cpu.get(SHOWN..).filter(|rest| !rest.is_empty()) {
        let busiest = rest.iter().map(|thread| thread.share).fold(0.0, f64::max);
        row(out, "", &format!("{} more threads, busiest {:.0} %", rest.len(), busiest * 100.0))?;
    }
    let at = |late: &LatencyReport| {
        let few = if late.few.contains(&Percentile::P99) { "~" } else { "" };
        let p99 = late.p99.map_or_else(String::new, |us| format!("{few}{} at p99, ", duration(us)));
        format!("{p99}{} max", late.max.map_or_else(|| "-".to_owned(), duration))
    };
    // The thread with the highest maximum stands for all; JSON has each.
    let latest = report.event_loop.iter().filter(|thread| thread.lag_us.max.is_some());
    if let Some(thread) =
        latest.max_by(|a, b| a.lag_us.max.partial_cmp(&b.lag_us.max).expect("times are numbers"))
    {
        let of =
            if report.event_loop.len() > 1 { format!(", thread {}", thread.thread) } else { String::new() };
        row(out, "event loop", &format!("late by {}{of}", at(&thread.lag_us)))?;
    }
    if let Some(pacing) = &report.pacing {
        let rate = 100.0 * pacing.rate_error;
        // Less than half a step of the last digit is 0 without a sign.
        let rate = if rate.abs() < 0.005 { 0.0 } else { rate };
        row(out, "pacing", &format!("{}, rate off by {rate:.2} %", pacing.mode))?;
        row(out, "", &format!("late by {}", at(&pacing.error_us)))?;
        row(out, "send lag", &at(&pacing.send_lag_us))?;
    }
    server(report, out)?;
    let Saturation { reason, elsewhere, .. } = &report.saturation;
    let client = reason.as_ref().map(|reason| format!("client-limited: {reason}"));
    let signs: Vec<&str> =
        [&client, elsewhere].into_iter().flatten().flat_map(|text| text.split("; ")).collect();
    if client.is_none() {
        row(out, "limit", "no sign that this client was the limit")?;
    }
    for (index, line) in signs.iter().flat_map(|sign| words_in_lines(sign, WIDTH)).enumerate() {
        row(out, if index == 0 && client.is_some() { "limit" } else { "" }, &line)?;
    }
    Ok(())
}

/// User and system share of a thread's CPU time, as far as the clock of its modes resolves them.
fn modes(thread: &ThreadCpu) -> String {
    let both = thread.user + thread.system;
    if both <= 0.0 {
        return String::new();
    }
    let part = |mode: f64| percent(thread.share * mode / both);
    format!(" (user {}, system {})", part(thread.user), part(thread.system))
}

fn server(report: &Report, out: &mut String) -> std::fmt::Result {
    /// Processes and series named; JSON has all.
    const NAMED: usize = 2;
    if let Some(server) = &report.server_cpu {
        let names = server.processes.iter().take(NAMED).map(|p| format!("{} {}", p.command, p.pid));
        let more = server.processes.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let names = names.collect::<Vec<_>>().join(", ") + &more;
        let (seconds, cpus) = (server.seconds, percent(server.cpus));
        let busiest = server.busiest.map(|share| format!("; busiest thread {}", percent(share)));
        row(out, "server CPU", &format!("{seconds:.2} s, {cpus} of a CPU{}", busiest.unwrap_or_default()))?;
        row(out, "", &names)?;
    }
    let Some(prometheus) = &report.prometheus else { return Ok(()) };
    let cut = |text: &str| text.chars().take(60).collect::<String>();
    row(out, "prometheus", &cut(&prometheus.query))?;
    match &prometheus.error {
        Some(error) => return row(out, "", &cut(error)),
        None if prometheus.series.is_empty() => return row(out, "", "no series during the load"),
        None => {}
    }
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
    for series in prometheus.series.iter().take(4 * NAMED) {
        let labels = series.labels.iter().map(|(name, value)| format!("{name}={value}"));
        let labels: String = labels.collect::<Vec<_>>().join(" ").chars().take(30).collect();
        row(out, "", &format!("mean {}, max {}  {labels}", number(series.mean), number(series.max)))?;
    }
    match prometheus.series.len().saturating_sub(4 * NAMED) {
        0 => Ok(()),
        more => row(out, "", &format!("{more} more series")),
    }
}

fn row(out: &mut String, label: &str, value: &str) -> std::fmt::Result {
    writeln!(out, "  {label:<12}{value}")
}

/// Microseconds in a unit that keeps three or four digits.
fn duration(us: f64) -> String {
    match us {
        us if us < 1_000.0 => format!("{us:.1} us"),
        us if us < 1_000_000.0 => format!("{:.2} ms", us / 1_000.0),
        us => format!("{:.2} s", us / 1_000_000.0),
    }
}

/// Bytes in a unit that keeps three or four digits.
fn bytes(count: f64) -> String {
    match count {
        count if count < 1e3 => format!("{count:.0} B"),
        count if count < 1e6 => format!("{:.2} kB", count / 1e3),
        count if count < 1e9 => format!("{:.2} MB", count / 1e6),
        count => format!("{:.2} GB", count / 1e9),
    }
}

/// The most frequent statuses with their counts.
fn statuses(report: &Report) -> String {
    /// Statuses that fit in a line.
    const SHOWN: usize = 3;
    let mut all: Vec<(u16, u64)> = report.statuses.iter().map(|(status, count)| (*status, *count)).collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let shown =
        all.iter().take(SHOWN).map(|(status, count)| format!("{} x {status}", grouped(*count as f64)));
    let mut parts: Vec<String> = shown.collect();
    if all.len() > SHOWN {
        parts.push(format!("{} more", all.len() - SHOWN));
    }
    parts.join(", ")
}

/// A count with thousands separators; fractions only below 100.
fn grouped(value: f64) -> String {
    if value < 100.0 && value.fract() != 0.0 {
        return format!("{value:.1}");
    }
    rxlab_base::units::grouped(value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::{WIDTH, bytes, distribution, duration, grouped, render, words_in_lines};
    use crate::interval::Interval;
    use crate::tally::{Cut, Taken, Tally, Unanswered};
    use crate::{ErrorClass, Rate, Report, Spec};
    use rxlab_base::units::CpuId;

    #[test]
    fn numbers_for_people() {
        assert_eq!(grouped(1_234_567.2), "1,234,567");
        assert_eq!(grouped(999.6), "1,000");
        assert_eq!(grouped(0.5), "0.5");
        assert_eq!(grouped(64.0), "64");
        assert_eq!([999.0, 1_500.0, 2.5e6, 3e9].map(bytes), ["999 B", "1.50 kB", "2.50 MB", "3.00 GB"]);
        let late = "client-limited: sends were late by 5325 us at p99, 357 % of the latency";
        assert_eq!(words_in_lines(late, WIDTH), [&late[..late.len() - 8], "latency"]);
        assert_eq!((duration(12.34), duration(1_500.0)), ("12.3 us".to_owned(), "1.50 ms".to_owned()));
    }

    #[test]
    fn the_bars_have_every_request() {
        let mut tally = Tally::new();
        (0..900).for_each(|i| tally.complete(50_000 + i));
        (0..100).for_each(|_| tally.complete(3_000_000));
        tally.timed_out(20, 20_000_000);
        let report = Report::new(
            &Spec::new("http://h:1/".parse().expect("a URL")),
            &Interval::from_cuts(&[Cut::second(tally)], &[None]),
        );
        let text = distribution(&report);
        insta::assert_snapshot!(text);
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn the_whole_text() {
        let mut spec = Spec::new("http://10.0.0.2:8080/simple".parse().expect("a URL"));
        (spec.pipeline, spec.rate) = (16, Some(Rate::steady(13_000.0)));
        let mut tally = Tally::new();
        (0..10_000).for_each(|i| tally.complete(50_000 + i * 100));
        (0..10_020).for_each(|i| tally.scheduled(0, i * 4, i * 5));
        tally.sent = 10_020;
        tally.error(ErrorClass::Status5xx, 20);
        for (status, count) in [(200, 10_000), (503, 16), (500, 2), (502, 1), (504, 1)] {
            tally.status(status, count);
        }
        tally.bytes = 1_550_000;
        let mut unanswered = Unanswered::new();
        unanswered.add_sent(60, 0, 400_000);
        unanswered.add_due((0..2_920).map(|i| (i * 100_000, 1)), false, 400_000_000);
        let taken = Taken { cpu: 950_000_000, user: 250_000_000, system: 700_000_000, waited: 30_000_000 };
        let cut = Cut { taken, due: Some(13_000), unanswered, ..Cut::second(tally) };
        let text = render(&Report::new(&spec, &Interval::from_cuts(&[cut], &[Some(CpuId(1))])));
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }
}
