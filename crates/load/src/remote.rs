//! Loads that run elsewhere, such as on other machines, each behind a command like `ssh gen1 rxlab client`. They are
//! told what to do line by line, and answer each line with one; both are JSON.

#![allow(clippy::disallowed_methods)] // Starts the user's commands.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::interval::Interval;
use super::merge::{MergeError, impossible, sum};
use super::report::Report;
use super::session::Session;
use super::spec::Spec;
use super::tally::SoFar;

/// A login and the connections of the load may take this long.
const START: Duration = Duration::from_secs(30);
/// Time for any other answer: an overloaded sink is asked for two seconds.
const ANSWER: Duration = Duration::from_secs(10);
/// Time for a client to end before it is killed.
const END: Duration = Duration::from_secs(2);
/// Longest answer in bytes: a report has a few hundred kilobytes.
const LONGEST: u64 = 16 << 20;
/// Bytes at the end of a client's errors that are kept.
const COMPLAINTS: usize = 4096;
/// Fraction of an interval by which its beginning may differ between clients.
const SKEW: f64 = 0.1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    /// Starts this load on the client.
    Start(Box<Spec>),
    /// Forget what was counted.
    Discard,
    /// The measured interval begins.
    Begin,
    End,
    /// Counts of the unfinished interval, and of latencies from this one on.
    SoFar(Option<Duration>),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Done,
    Report(Box<Report>),
    SoFar(SoFar),
    Failed(String),
}

/// A client that cannot be used. Names the command that started it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("client `{run}` {why}")]
pub struct ClientError {
    run: String,
    why: String,
}

/// Obeys orders until they end.
pub fn serve(orders: impl BufRead, mut answers: impl Write) -> io::Result<()> {
    let mut load = None;
    for order in orders.lines() {
        let answer = match serde_json::from_str(&order?) {
            Ok(order) => obey(order, &mut load),
            Err(error) => Answer::Failed(format!("does not understand this version: {error}")),
        };
        writeln!(answers, "{}", serde_json::to_string(&answer)?)?;
        answers.flush()?;
    }
    Ok(())
}

fn obey(order: Order, load: &mut Option<(Spec, Session)>) -> Answer {
    match (order, load) {
        (Order::Start(spec), load) => match Session::start(&spec) {
            Ok(session) => {
                *load = Some((*spec, session));
                Answer::Done
            }
            Err(error) => Answer::Failed(error.to_string()),
        },
        (_, None) => Answer::Failed("has no load".to_owned()),
        (Order::Discard, Some((_, session))) => {
            session.skip_overdue();
            session.cut();
            Answer::Done
        }
        (Order::Begin, Some((_, session))) => {
            session.skip_overdue();
            session.mark();
            Answer::Done
        }
        (Order::End, Some((spec, session))) => Answer::Report(Box::new(Report::new(spec, &session.mark()))),
        (Order::SoFar(limit), Some((_, session))) => Answer::SoFar(session.so_far(limit)),
    }
}

/// What clients measured together.
#[derive(Debug)]
pub struct Joint {
    /// The load that all of them offered.
    pub spec: Spec,
    /// Their sum.
    pub interval: Interval,
    /// Sign that a client was the limit, which it names, or that they did not begin together.
    pub limit: Option<String>,
}

/// Clients that offer a load together. Dropping ends them.
#[derive(Debug)]
pub struct Clients {
    clients: Vec<Client>,
    /// Upper bound of the time between the beginnings of the interval at two clients: the slowest answer.
    skew: Duration,
}

impl Clients {
    /// Starts `spec` at each client that a command of `runs` starts. Random arrivals get a seed for each.
    pub fn start<'a>(runs: impl IntoIterator<Item = &'a str>, spec: &Spec) -> Result<Self, ClientError> {
        let clients = runs.into_iter().map(Client::run).collect::<Result<Vec<_>, _>>()?;
        for (seed, client) in (spec.seed..).zip(&clients) {
            client.tell(&Order::Start(Box::new(Spec { seed, ..spec.clone() })))?;
        }
        clients.iter().try_for_each(|client| client.is_done(START))?;
        Ok(Self { clients, skew: Duration::ZERO })
    }

    /// Forgets what was counted, and what an open loop has not sent.
    pub fn discard(&mut self) -> Result<(), ClientError> {
        self.tell(&Order::Discard)?;
        self.clients.iter().try_for_each(|client| client.is_done(ANSWER))
    }

    /// Begins the measured interval at all clients; [`Clients::end`] must follow.
    pub fn begin(&mut self) -> Result<(), ClientError> {
        let told = Instant::now();
        self.tell(&Order::Begin)?;
        self.clients.iter().try_for_each(|client| client.is_done(ANSWER))?;
        self.skew = told.elapsed();
        Ok(())
    }

    /// Counts of all since then; the interval continues. `limit` as for [`Session::so_far`].
    pub fn so_far(&self, limit: Option<Duration>) -> Result<SoFar, ClientError> {
        self.tell(&Order::SoFar(limit))?;
        let counts = self.clients.iter().map(|client| match client.answer(ANSWER)? {
            Answer::SoFar(counts) => {
                match impossible("so_far", &serde_json::to_value(counts).unwrap_or_default()) {
                    None => Ok(counts),
                    Some(name) => Err(client.impossible(&MergeError::Impossible(name))),
                }
            }
            other => Err(client.unexpected(other)),
        });
        counts.reduce(|sum, counts| Ok(sum?.and(counts?))).unwrap_or(Ok(SoFar::default()))
    }

    /// Ends the interval.
    pub fn end(&mut self) -> Result<Joint, ClientError> {
        self.tell(&Order::End)?;
        let reports = self.clients.iter().map(|client| match client.answer(ANSWER)? {
            Answer::Report(report) => Ok(*report),
            other => Err(client.unexpected(other)),
        });
        let reports: Vec<Report> = reports.collect::<Result<_, _>>()?;
        let limits = self.clients.iter().zip(&reports).find_map(|(client, report)| {
            Some(format!("client `{}`: {}", client.run, report.saturation.reason.as_ref()?))
        });
        let (spec, interval) = sum(&reports).map_err(|(at, error)| self.clients[at].impossible(&error))?;
        let late = (self.skew.as_secs_f64() > SKEW * interval.seconds).then(|| {
            format!(
                "clients took {:.1} s to begin an interval of {:.1} s",
                self.skew.as_secs_f64(),
                interval.seconds
            )
        });
        Ok(Joint { spec, interval, limit: limits.or(late) })
    }

    fn tell(&self, order: &Order) -> Result<(), ClientError> {
        self.clients.iter().try_for_each(|client| client.tell(order))
    }
}

#[derive(Debug)]
struct Client {
    run: String,
    child: Child,
    /// `None` once it was told to end.
    orders: Option<ChildStdin>,
    /// `None` for one that is too long; nothing is read after it.
    answers: Receiver<Option<String>>,
    /// Its standard error, once it has ended.
    complaints: Receiver<String>,
}

impl Client {
    fn run(run: &str) -> Result<Self, ClientError> {
        let mut child = Command::new("sh")
            .args(["-c", run])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C is for the trial, which then ends its clients.
            .process_group(0)
            .spawn()
            .map_err(|error| ClientError { run: run.to_owned(), why: format!("cannot start: {error}") })?;
        // One answer for each order: a client that says more is not read further.
        let (sender, answers) = sync_channel(1);
        let mut stdout = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        std::thread::spawn(move || {
            while let Some(line) = next_line(&mut stdout)
                && sender.send(line.clone()).is_ok()
                && line.is_some()
            {}
        });
        let stderr = child.stderr.take().expect("standard error is a pipe");
        let (sender, complaints) = channel();
        std::thread::spawn(move || sender.send(last_bytes(stderr, COMPLAINTS)));
        let orders = child.stdin.take();
        Ok(Self { run: run.to_owned(), child, orders, answers, complaints })
    }

    fn error(&self, why: impl Into<String>) -> ClientError {
        ClientError { run: self.run.clone(), why: why.into() }
    }

    fn impossible(&self, why: &MergeError) -> ClientError {
        self.error(format!("gave an impossible result: {why}"))
    }

    fn tell(&self, order: &Order) -> Result<(), ClientError> {
        let line = serde_json::to_string(order).map_err(|error| self.error(error.to_string()))? + "\n";
        let mut orders = self.orders.as_ref().ok_or_else(|| self.error("has ended"))?;
        // If it has ended, what it said last comes with the answer.
        let _ = orders.write_all(line.as_bytes());
        Ok(())
    }

    fn answer(&self, time: Duration) -> Result<Answer, ClientError> {
        match self.answers.recv_timeout(time) {
            Ok(None) => Err(self.error(format!("printed more than {} MiB in one line", LONGEST >> 20))),
            Ok(Some(line)) => serde_json::from_str(&line).map_err(|_| {
                let shown: String = line.chars().take(60).collect();
                self.error(format!("printed `{shown}`: it has to run `rxlab client` of this version"))
            }),
            Err(RecvTimeoutError::Timeout) => {
                Err(self.error(format!("did not answer within {} s", time.as_secs())))
            }
            Err(RecvTimeoutError::Disconnected) => {
                let said = self.complaints.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
                let last = said.lines().rfind(|line| !line.trim().is_empty());
                Err(self.error(last.map_or("ended".to_owned(), |line| format!("ended: {}", line.trim()))))
            }
        }
    }

    fn is_done(&self, time: Duration) -> Result<(), ClientError> {
        match self.answer(time)? {
            Answer::Done => Ok(()),
            other => Err(self.unexpected(other)),
        }
    }

    fn unexpected(&self, answer: Answer) -> ClientError {
        match answer {
            Answer::Failed(why) => self.error(why),
            Answer::Done | Answer::Report(_) | Answer::SoFar(_) => {
                self.error("answered another order than the last one")
            }
        }
    }
}

/// Reads a line; `Some(None)` if it is longer than [`LONGEST`], `None` at the end.
fn next_line(input: &mut impl BufRead) -> Option<Option<String>> {
    let mut line = Vec::new();
    let length = input.take(LONGEST).read_until(b'\n', &mut line).ok().filter(|length| *length > 0)?;
    if line.pop_if(|last| *last == b'\n').is_none() && length as u64 == LONGEST {
        return Some(None);
    }
    Some(Some(String::from_utf8_lossy(&line).into_owned()))
}

/// Reads to the end, and keeps about the last `most` bytes.
fn last_bytes(mut input: impl Read, most: usize) -> String {
    let (mut kept, mut part) = (Vec::new(), [0; 4096]);
    while let Ok(length) = input.read(&mut part)
        && length > 0
    {
        kept.extend_from_slice(&part[..length]);
        kept.drain(..kept.len().saturating_sub(most));
    }
    String::from_utf8_lossy(&kept).into_owned()
}

impl Drop for Client {
    fn drop(&mut self) {
        // A client ends with its orders, and a remote one cannot be killed from here.
        self.orders = None;
        let end = Instant::now() + END;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
            && matches!(self.child.try_wait(), Ok(None))
        {
            let _ = kill_process_group(group, Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::{Answer, Clients, Joint, Order, serve};
    use crate::clock::SECOND;
    use crate::interval::Interval;
    use crate::tally::{Cut, SoFar, Taken, Tally};
    use crate::{Report, Spec};

    fn spec() -> Spec {
        Spec::new("http://127.0.0.1:1/".parse().expect("a URL"))
    }

    #[test]
    fn orders_are_answered_line_by_line() {
        let start = serde_json::to_string(&Order::Start(Box::new(spec()))).expect("JSON");
        let mut answers = Vec::new();
        serve(format!("\"end\"\n{start}\nhello\n").as_bytes(), &mut answers).expect("written");
        let text = String::from_utf8(answers).expect("text");
        let answers: Vec<Answer> =
            text.lines().map(|line| serde_json::from_str(line).expect("an answer")).collect();
        let [Answer::Failed(idle), Answer::Failed(down), Answer::Failed(unknown)] = &answers[..] else {
            panic!("{answers:?}")
        };
        assert_eq!(idle, "has no load");
        assert!(down.starts_with("cannot reach the target http://127.0.0.1:1/"), "{down}");
        assert!(unknown.starts_with("does not understand this version: "), "{unknown}");
    }

    #[test]
    fn a_client_that_cannot_be_used_is_named() {
        let error = |run: &str| Clients::start([run], &spec()).expect_err("no client").to_string();
        assert_eq!(error("echo denied >&2; exit 255"), "client `echo denied >&2; exit 255` ended: denied");
        let other = "client `echo hello; cat` printed `hello`: it has to run `rxlab client` of this version";
        assert_eq!(error("echo hello; cat"), other);
    }

    #[test]
    fn a_client_that_floods_is_refused() {
        let error = |run: &str| Clients::start([run], &spec()).expect_err("no client").to_string();
        assert_eq!(error("cat /dev/zero"), "client `cat /dev/zero` printed more than 16 MiB in one line");
        assert!(error("yes").contains("printed `y`"));
        let errors =
            super::last_bytes(std::io::repeat(b'x').take(1 << 20).chain(&b"end"[..]), super::COMPLAINTS);
        assert!(errors.len() == super::COMPLAINTS && errors.ends_with("end"));
    }

    /// Their sum was a panic, and wrapped in an optimized build.
    #[test]
    fn impossible_counts_of_a_running_load_are_refused() {
        let so_far = |failed: u64| {
            let counts = serde_json::json!({ "so_far": SoFar { requests: 9, failed, ..SoFar::default() } });
            let run = format!(
                "while read -r order; do case $order in *so_far*) echo '{counts}';; *) echo '\"done\"';; esac; done"
            );
            let clients = Clients::start([run.as_str(), &run], &spec()).expect("both start");
            clients.so_far(None).map_err(|error| error.to_string())
        };
        assert_eq!(so_far(1).map(|sum| (sum.requests, sum.failed)), Ok((18, 2)));
        let error = so_far(u64::MAX).expect_err("not a count");
        assert!(error.ends_with("gave an impossible result: `failed` is larger than 2^53"), "{error}");
    }

    /// A client that always gives the same result: two seconds with these latencies.
    fn canned(directory: &std::path::Path, latencies: std::ops::Range<u64>, limit: Option<&str>) -> String {
        let mut tally = Tally::new();
        latencies.clone().for_each(|latency| tally.complete(latency * 1000));
        let taken = Taken { cpu: 500_000_000, ..Taken::default() };
        let cut = Cut { span: 2 * SECOND, taken, ..Cut::second(tally) };
        let mut report = Report::new(&spec(), &Interval::from_cuts(&[cut], &[None]));
        report.saturation.reason = limit.map(str::to_owned);
        let file = directory.join(latencies.start.to_string());
        std::fs::write(&file, serde_json::to_string(&Answer::Report(Box::new(report))).expect("JSON"))
            .expect("written");
        let file = file.display();
        format!(
            "while read -r order; do case $order in '\"end\"') cat {file}; echo;; *) echo '\"done\"';; esac; done"
        )
    }

    #[test]
    fn results_add_up_exactly_and_a_full_client_is_named() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let fast = canned(directory.path(), 1..101, None);
        let full = canned(directory.path(), 101..401, Some("thread 0 used 97 % of its CPU"));
        let mut clients = Clients::start([fast.as_str(), &full], &spec()).expect("both start");
        for _ in 0..2 {
            clients.discard().expect("both answer");
            clients.begin().expect("both answer");
            let Joint { spec, interval, limit } = clients.end().expect("both answer");
            assert_eq!(spec.connections, 128, "64 each");
            assert_eq!((interval.requests, interval.rate()), (400, 200.0));
            assert_eq!(
                interval.latency.value_at_quantile(0.5) / 1000,
                200,
                "of all 400, not a mean of medians"
            );
            let expected = format!("client `{full}`: thread 0 used 97 % of its CPU");
            assert_eq!(limit, Some(expected));
        }
        let error = clients.so_far(None).expect_err("they know no such order").to_string();
        assert!(error.ends_with("answered another order than the last one"), "{error}");
    }
}
