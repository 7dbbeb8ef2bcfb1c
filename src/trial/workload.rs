//! What runs during the slots: the built-in load, an external command, or the machine's own traffic.

#![allow(clippy::disallowed_methods)] // Starts the user's command.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::guards::Trouble;
use super::metrics::Work;
use super::stats::planning::quantile_allowed;
use crate::load::{self, Interval, Protocol, Session};

/// Requests of a slot from which its p99 can trip a guard: ten lie beyond it. A metric needs ten times
/// as many, but a limit that is silent in short slots protects nobody.
const ENOUGH_TO_GUARD: u64 = 1000;

/// A workload in progress.
pub enum Driver {
    /// The built-in load; it runs on between the slots.
    Load(Session),
    /// A shell command for each slot.
    Command(String),
    /// Nothing is driven.
    Live,
}

/// The command failed or said nothing that can be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the workload command {0}")]
pub struct CommandFailed(String);

impl Driver {
    /// What one unit of its work is called, a second.
    pub fn work_unit(spec: &super::spec::Workload) -> &'static str {
        match &spec.load {
            Some(load) if load.url.protocol == Protocol::Http => "req/s",
            Some(load) if load.url.protocol == Protocol::UdpEcho => "trips/s",
            Some(_) => "pkt/s",
            None if spec.live => "pkt/s",
            None => "",
        }
    }

    /// Forgets what came before: a measured interval begins.
    pub fn begin(&mut self) {
        if let Driver::Load(session) = self {
            session.mark();
        }
    }

    /// Lets `length` pass, or runs the command once, ending early when `stop` says so.
    pub fn wait(&self, length: Duration, stop: &dyn Fn() -> bool) -> Result<Option<String>, CommandFailed> {
        match self {
            Driver::Command(command) => run_command(command, stop).map(Some),
            Driver::Load(_) | Driver::Live => {
                pause(length, stop);
                Ok(None)
            }
        }
    }

    /// Ends the measured interval. `printed` is what [`Driver::wait`] gave.
    pub fn end(&mut self, printed: Option<&str>) -> Result<(Work, Trouble), CommandFailed> {
        match self {
            Driver::Load(session) => Ok(of_load(&session.mark(), session.arrivals_are_told())),
            Driver::Command(_) => Ok((of_command(printed.unwrap_or_default())?, Trouble::default())),
            Driver::Live => Ok((Work::default(), Trouble::default())),
        }
    }
}

/// Sleeps in short steps, so that a stop is seen at once.
pub(super) fn pause(length: Duration, stop: &dyn Fn() -> bool) {
    let end = Instant::now() + length;
    while !stop() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(Duration::from_millis(20)));
    }
}

fn of_load(interval: &Interval, told: bool) -> (Work, Trouble) {
    let mut values = BTreeMap::new();
    for (name, q) in [("p50_us", 0.5), ("p99_us", 0.99), ("p99_9_us", 0.999)] {
        let quantile = interval.latency_quantile(q).filter(|_| quantile_allowed(q, interval.latency.len()));
        values.extend(quantile.map(|ns| (name.to_owned(), ns as f64 / 1000.0)));
    }
    // One way, what counts is what arrived; the sender's own count says only what left, and stands
    // in only where nobody ever tells: arrived in one slot must not be compared with sent in another.
    let done = interval.received.or((!told).then_some(interval.requests));
    let throughput = done.map(|done| done as f64 / interval.seconds);
    let p99 = interval.latency_quantile(0.99).filter(|_| interval.latency.len() >= ENOUGH_TO_GUARD);
    let trouble = Trouble {
        error_rate: interval.error_share(),
        p99_us: p99.map(|ns| ns as f64 / 1000.0),
        client_limited: load::Saturation::of(interval).reason,
    };
    let client_cpu = interval.client_cpu.iter().map(|thread| thread.share).sum();
    (Work { throughput, values, client_cpu: Some(client_cpu) }, trouble)
}

fn run_command(command: &str, stop: &dyn Fn() -> bool) -> Result<String, CommandFailed> {
    let failed = |why: String| CommandFailed(format!("`{command}` {why}"));
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // A group of its own, so that all of a pipeline can be ended.
        .process_group(0)
        .spawn()
        .map_err(|error| failed(format!("cannot be started: {error}")))?;
    let mut stdout = child.stdout.take().expect("standard output is a pipe");
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut stdout, &mut text).map(|_| text)
    });
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => break,
            Ok(Some(status)) => return Err(failed(format!("ended with {status}"))),
            Ok(None) if stop() => {
                // The trial is over; what the command has begun must not outlive it.
                if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                    let _ = kill_process_group(group, Signal::KILL);
                }
                let _ = child.wait();
                return Ok(String::new());
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => return Err(failed(format!("cannot be waited for: {error}"))),
        }
    }
    let text = reader.join().expect("the reader does not panic");
    text.map_err(|error| failed(format!("printed what is not text: {error}")))
}

/// One number, or one JSON object with numbers.
fn of_command(printed: &str) -> Result<Work, CommandFailed> {
    let text = printed.trim();
    if let Ok(number) = text.parse::<f64>() {
        return Ok(Work { throughput: Some(number), ..Work::default() });
    }
    match serde_json::from_str::<BTreeMap<String, serde_json::Value>>(text) {
        Ok(object) => {
            let mut values: BTreeMap<String, f64> =
                object.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?))).collect();
            Ok(Work { throughput: values.remove("throughput"), values, client_cpu: None })
        }
        Err(_) => {
            let shown: String = text.chars().take(60).collect();
            Err(CommandFailed(format!("printed `{shown}`: one number or one JSON object is expected")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{of_command, run_command};

    #[test]
    fn a_command_prints_a_number_or_an_object() {
        assert_eq!(of_command(" 123.5\n").expect("a number").throughput, Some(123.5));
        let work = of_command(r#"{"throughput": 10, "p99_us": 7.5, "note": "x"}"#).expect("an object");
        assert_eq!((work.throughput, work.values["p99_us"], work.values.len()), (Some(10.0), 7.5, 1));
        let error = of_command("Requests/sec: 12").expect_err("neither").to_string();
        assert!(error.contains("printed `Requests/sec: 12`"), "{error}");
    }

    #[test]
    fn a_failing_command_is_named() {
        assert_eq!(run_command("echo 5", &|| false).expect("printed").trim(), "5");
        let error = run_command("exit 3", &|| false).expect_err("fails").to_string();
        assert_eq!(error, "the workload command `exit 3` ended with exit status: 3");
        assert_eq!(run_command("sleep 60; sleep 60", &|| true).expect("stopped"), "");
    }
}
