//! Workload of the slots: the built-in load, here or at other places, an external command, or the machine's own traffic.

#![allow(clippy::disallowed_methods)] // Starts the user's command.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::guards::{Trouble, Watch};
use super::metrics::{Throughput, Work, name};
use rxlab_base::parse::{self, LoadToolReport};
use rxlab_load::{self as load, ClientError, Clients, Interval, Session, SoFar};

/// Requests in a slot from which its p99 can trip a guard: ten lie beyond it. A metric needs ten times
/// as many, but a limit that is silent in short slots protects nothing.
const ENOUGH_TO_GUARD: u64 = 1000;

/// Longest output of a command, in bytes.
const LONGEST: u64 = 4 << 20;

pub enum Driver {
    /// The built-in load; it continues between the slots.
    Load(Session),
    /// The same at other places, usually other machines.
    Clients(Clients),
    /// A shell command for each slot.
    Command(String),
    /// rxlab sends no load: traffic comes from elsewhere.
    Live {
        /// The interfaces also count packets dropped by a backlog, as devices do.
        drops_counted: bool,
    },
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WorkloadError {
    #[error("the workload command {0}")]
    Command(String),
    /// A client on another machine failed.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl Driver {
    /// Unit of its work per second.
    pub fn work_unit(spec: &super::spec::Workload) -> &'static str {
        match &spec.load {
            Some(load) => load.url.protocol.work_unit(),
            None if spec.live => "pkt/s",
            None => "",
        }
    }

    /// Discards earlier counts, and what a paced load has not kept up with. Must be called after each flip: a washout
    /// begins.
    pub fn discard(&mut self) -> Result<(), WorkloadError> {
        match self {
            Driver::Load(session) => {
                session.skip_overdue();
                session.cut();
            }
            Driver::Clients(clients) => clients.discard()?,
            Driver::Command(_) | Driver::Live { .. } => {}
        }
        Ok(())
    }

    /// Does the same, and asks a sink for its own counts. Must be called after the washout: a measured interval begins.
    pub fn begin(&mut self) -> Result<(), WorkloadError> {
        match self {
            Driver::Load(session) => {
                session.skip_overdue();
                session.mark();
            }
            Driver::Clients(clients) => clients.begin()?,
            Driver::Command(_) | Driver::Live { .. } => {}
        }
        Ok(())
    }

    /// Counts of the built-in load in the unfinished interval; `None` for other workloads.
    pub(super) fn so_far(&self, limit: Option<Duration>) -> Result<Option<SoFar>, ClientError> {
        match self {
            Driver::Load(session) => Ok(Some(session.so_far(limit))),
            Driver::Clients(clients) => clients.so_far(limit).map(Some),
            Driver::Command(_) | Driver::Live { .. } => Ok(None),
        }
    }

    /// Lets `length` pass, or runs the command once, ending early if `watch` says so.
    pub fn wait(&self, length: Duration, watch: &mut Watch) -> Result<Option<String>, WorkloadError> {
        if let Driver::Command(command) = self {
            return run_command(command, &mut || watch.ends(None)).map(Some);
        }
        self.settle(length, watch);
        Ok(None)
    }

    /// Lets `length` pass, ending early if `watch` says so.
    pub fn settle(&self, length: Duration, watch: &mut Watch) {
        let end = Instant::now() + length;
        while !watch.ends(Some(self)) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
    }

    /// Ends the measured interval. `printed` must be the result of [`Driver::wait`] in this interval.
    pub fn end(&mut self, printed: Option<&str>) -> Result<(Work, Trouble), WorkloadError> {
        match self {
            Driver::Load(session) => {
                let interval = session.mark();
                let limit = load::Saturation::judge(&interval).reason;
                Ok(of_load(&interval, session.arrivals_are_told(), limit))
            }
            Driver::Clients(clients) => {
                let joint = clients.end()?;
                Ok(of_load(&joint.interval, false, joint.limit))
            }
            Driver::Command(_) => of_command(printed.unwrap_or_default()),
            Driver::Live { drops_counted } => {
                let packets = Throughput::Packets { drops_counted: *drops_counted };
                let work = Work { throughput: Some(packets), ..Work::default() };
                Ok((work, Trouble::default()))
            }
        }
    }
}

/// `told`: a sink reports arrivals. `limit`: sign that a client was the limit.
fn of_load(interval: &Interval, told: bool, limit: Option<String>) -> (Work, Trouble) {
    let us = |ns: u64| ns as f64 / 1000.0;
    let latencies = interval.latencies();
    let mut values = BTreeMap::new();
    let mut at_least = Vec::new();
    for (name, q) in [("p50_us", 0.5), ("p99_us", 0.99), ("p99_9_us", 0.999)] {
        let Some(latency) = load::quantile(&latencies, q) else { continue };
        values.insert(name.to_owned(), us(latency));
        at_least.extend(interval.is_lower_bound(q).then(|| name.to_owned()));
    }
    // One way, arrivals count; the sender's own count only has departures, and is used only if arrivals are
    // never reported: arrivals of one slot must not be compared with departures of another.
    let done = interval.arrival_rate().or((!told).then(|| interval.rate()));
    let throughput = done.map(Throughput::Counted);
    let trouble = Trouble {
        error_rate: interval.error_share(),
        p99_us: (latencies.len() >= ENOUGH_TO_GUARD).then(|| us(latencies.value_at_quantile(0.99))),
        client_limited: limit,
    };
    let client_cpu = interval.client_cpu.iter().map(|thread| thread.share).sum();
    (Work { throughput, values, at_least, client_cpu: Some(client_cpu) }, trouble)
}

/// Runs `command` until it ends, or kills its process group when `ends` returns true: then nothing is printed.
fn run_command(command: &str, ends: &mut dyn FnMut() -> bool) -> Result<String, WorkloadError> {
    let failed = |why: String| WorkloadError::Command(format!("`{command}` {why}"));
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // A separate group, so that all of a pipeline can be ended.
        .process_group(0)
        .spawn()
        .map_err(|error| failed(format!("cannot be started: {error}")))?;
    let mut stdout = child.stdout.take().expect("standard output is a pipe");
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        let read = (&mut stdout).take(LONGEST).read_to_string(&mut text);
        // The rest is read and dropped: the command is not to wait for it.
        let rest = std::io::copy(&mut stdout, &mut std::io::sink())?;
        if rest > 0 {
            return Err(std::io::Error::other(format!("it is longer than {} MiB", LONGEST >> 20)));
        }
        read.map(|_| text)
    });
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a child has a pid");
    // Waits without reaping: until it is reaped, no other process gets the group's id.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let ended = loop {
        match waitid(WaitId::Pid(group), options) {
            Ok(Some(_)) => break false,
            Ok(None) if ends() => break true,
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(failed(format!("cannot be waited for: {errno}"))),
        }
    };
    // Children of the command must not outlive its slot, nor hold its output open.
    let _ = kill_process_group(group, Signal::KILL);
    let status = child.wait().map_err(|error| failed(format!("cannot be waited for: {error}")))?;
    // Ctrl-C just as the command starts still reaches it in our group.
    if ended || (!status.success() && ends()) {
        return Ok(String::new());
    }
    if !status.success() {
        return Err(failed(format!("ended with {status}")));
    }
    let text = reader.join().expect("the reader does not panic");
    text.map_err(|error| failed(format!("printed unreadable output: {error}")))
}

/// Reads what a command printed: one number, one JSON object with numbers, or the report of a load tool. Guards check
/// `p99_us` and `error_rate` (a fraction). All numbers of the result are finite: a record has no others.
pub fn of_command(printed: &str) -> Result<(Work, Trouble), WorkloadError> {
    let (work, trouble) = figures(printed.trim())?;
    let counted = match work.throughput {
        Some(Throughput::Counted(number)) => Some(number),
        _ => None,
    };
    let mut all =
        work.values.values().copied().chain(counted).chain(trouble.p99_us).chain([trouble.error_rate]);
    match all.find(|number| !number.is_finite()) {
        Some(number) => Err(WorkloadError::Command(format!("printed figures that lead to `{number}`"))),
        None => Ok((work, trouble)),
    }
}

fn figures(text: &str) -> Result<(Work, Trouble), WorkloadError> {
    if let Some(report) = parse::load_tool_report(text) {
        let report =
            report.map_err(|error| WorkloadError::Command(format!("printed an unknown report: {error}")))?;
        return Ok(of_tool(&report));
    }
    if let Ok(number) = text.parse::<f64>() {
        let work = Work { throughput: Some(Throughput::Counted(number)), ..Work::default() };
        return Ok((work, Trouble::default()));
    }
    let Ok(object) = serde_json::from_str::<BTreeMap<String, serde_json::Value>>(text) else {
        let shown: String = text.chars().take(60).collect();
        let expected = "expected one number, one JSON object, or the report of wrk, h2load or k6";
        return Err(WorkloadError::Command(format!("printed `{shown}`: {expected}")));
    };
    let numbers = object.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?)));
    let mut values: BTreeMap<String, f64> = numbers.collect();
    let trouble = Trouble {
        error_rate: values.get("error_rate").copied().unwrap_or(0.0),
        p99_us: values.get("p99_us").copied(),
        client_limited: None,
    };
    let throughput = values.remove(name::THROUGHPUT).map(Throughput::Counted);
    Ok((Work { throughput, values, ..Work::default() }, trouble))
}

/// A quantile is a metric if 100 requests lie beyond it, and can trip a guard if ten do.
fn of_tool(report: &LoadToolReport) -> (Work, Trouble) {
    // Rounded, as 99.9 has no exact binary form.
    let beyond = |percent: f64| (report.requests * (100.0 - percent) * 1e3).round() / 1e5;
    let values = report.quantiles_us.iter().filter(|(percent, _)| beyond(*percent) >= 100.0);
    let named = values.map(|(percent, us)| (format!("p{percent}_us").replace('.', "_"), *us));
    let p99 = report.quantiles_us.iter().find(|(percent, _)| *percent == 99.0 && beyond(99.0) >= 10.0);
    let trouble =
        Trouble { error_rate: report.error_rate, p99_us: p99.map(|(_, us)| *us), client_limited: None };
    let mean = report.mean_us.map(|us| ("mean_us".to_owned(), us));
    let throughput = Some(Throughput::Counted(report.rate));
    (Work { throughput, values: named.chain(mean).collect(), ..Work::default() }, trouble)
}

#[cfg(test)]
mod tests {
    use super::{Throughput, of_command, run_command};

    #[test]
    fn a_command_prints_a_number_or_an_object() {
        let (work, _) = of_command(" 123.5\n").expect("a number");
        assert_eq!(work.throughput, Some(Throughput::Counted(123.5)));
        let printed = r#"{"throughput": 10, "p99_us": 7.5, "error_rate": 0.5, "note": "x"}"#;
        let (work, trouble) = of_command(printed).expect("an object");
        assert_eq!((work.throughput, work.values.len()), (Some(Throughput::Counted(10.0)), 2));
        assert_eq!((trouble.p99_us, trouble.error_rate), (Some(7.5), 0.5), "guards see them");
        for printed in ["nan", "inf", "-infinity", "1e999"] {
            let error = of_command(printed).expect_err(printed).to_string();
            assert!(error.starts_with("the workload command printed figures that lead to `"), "{error}");
        }
        let error = of_command("12 requests").expect_err("neither").to_string();
        assert!(error.contains("printed `12 requests`"), "{error}");
    }

    #[test]
    fn a_command_prints_the_report_of_a_load_tool() {
        let report = |requests: u32| {
            format!(
                "     50%   44.00us\n     99%    8.98ms\n  {requests} requests in 1.01s\nRequests/sec:  620.5\n"
            )
        };
        let (work, trouble) = of_command(&report(10_000)).expect("read");
        assert_eq!(work.throughput, Some(Throughput::Counted(620.5)));
        let values: Vec<_> = work.values.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        assert_eq!((values, trouble.p99_us), (vec![("p50_us", 44.0), ("p99_us", 8980.0)], Some(8980.0)));
        let (work, trouble) = of_command(&report(1000)).expect("read");
        assert_eq!((work.values.len(), trouble.p99_us), (1, Some(8980.0)), "too few for a metric");
        assert_eq!(of_command(&report(999)).expect("read").1.p99_us, None, "too few for a guard");
        let error = of_command("Requests/sec:  many\n").expect_err("no number").to_string();
        assert_eq!(
            error,
            "the workload command printed an unknown report: line 1: `Requests/sec:`: cannot read `many`"
        );
    }

    #[test]
    fn a_failing_command_is_named() {
        assert_eq!(run_command("echo 5", &mut || false).expect("printed").trim(), "5");
        let error = run_command("exit 3", &mut || false).expect_err("fails").to_string();
        assert_eq!(error, "the workload command `exit 3` ended with exit status: 3");
        let error =
            run_command("head -c 9000000 /dev/zero", &mut || false).expect_err("too long").to_string();
        assert!(error.ends_with("printed unreadable output: it is longer than 4 MiB"), "{error}");
        assert_eq!(run_command("sleep 60; sleep 60", &mut || true).expect("stopped"), "");
    }

    /// A background process once held the output open, and the trial with it.
    #[test]
    fn what_a_command_leaves_behind_ends_with_it() {
        let begun = std::time::Instant::now();
        assert_eq!(run_command("sleep 60 & echo 5", &mut || false).expect("printed").trim(), "5");
        assert!(begun.elapsed() < std::time::Duration::from_secs(30));
    }
}
