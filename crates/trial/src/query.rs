//! Queries to a Prometheus during a trial: context of the slots, and guards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::check::is_name;
use super::record::{Better, Metric};
use rxlab_load::{Promql, Protocol, Url};

/// A query. Its value in each slot is context; it is judged if `primary` or `metrics` names it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// Part of the name of its metric, `query.NAME`: letters, digits, `-` and `_`.
    pub name: String,
    /// The Prometheus, `http://HOST:PORT`.
    pub prometheus: Url,
    /// PromQL with one number as its result.
    pub expr: String,
    /// Guard: the largest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// Guard: the smallest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Direction that is better, if it is judged.
    #[serde(default = "lower")]
    pub better: Better,
}

fn lower() -> Better {
    Better::Lower
}

/// Time between two answers to a query that guards.
const EVERY: Duration = Duration::from_secs(2);
/// Longest wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// A query that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QueryError {
    /// The name becomes part of the name of a metric.
    #[error("[[query]] name = `{0}`: must be 1 to 40 letters, digits, `-` or `_`")]
    Name(String),
    #[error("[[query]] name = `{0}`: used twice")]
    Twice(String),
    #[error("[[query]] {0}: prometheus: {1}: http://HOST:PORT expected")]
    Url(String, Url),
}

/// A query without a usable answer before the trial begins.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AskError {
    /// Not exactly one number.
    #[error("query {name}: `{expr}`: {why}")]
    Answer { name: String, expr: String, why: String },
    #[error("{0}, before anything was changed")]
    Beyond(String),
    /// No thread for it.
    #[error("query {0}: cannot start a thread: {1}")]
    Thread(String, String),
}

impl Query {
    /// Checks that all `queries` can be run.
    pub fn check_all(queries: &[Self]) -> Result<(), QueryError> {
        let mut names = BTreeSet::new();
        for Query { name, prometheus, .. } in queries {
            if !is_name(name) {
                return Err(QueryError::Name(name.clone()));
            }
            if !names.insert(name) {
                return Err(QueryError::Twice(name.clone()));
            }
            if prometheus.protocol != Protocol::Http || prometheus.tls {
                return Err(QueryError::Url(name.clone(), prometheus.clone()));
            }
        }
        Ok(())
    }

    /// The metric that the query adds to the trial.
    pub fn metric(&self) -> Metric {
        Metric { better: self.better, ..metric(&self.name) }
    }

    fn is_guard(&self) -> bool {
        self.max.is_some() || self.min.is_some()
    }

    /// The limit that `value` is beyond, in words.
    fn beyond(&self, value: f64) -> Option<String> {
        let name = &self.name;
        let above = self.max.filter(|max| value > *max).map(|max| format!("above its max = {max}"));
        above
            .or_else(|| self.min.filter(|min| value < *min).map(|min| format!("below its min = {min}")))
            .map(|limit| format!("query {name} was {value}, {limit}"))
    }
}

const PREFIX: &str = "query.";

fn metric(query: &str) -> Metric {
    let (name, title) = (format!("{PREFIX}{query}"), format!("query {query}"));
    Metric { name, title, unit: String::new(), better: Better::Lower }
}

/// The metric of a query by its name, such as `query.temperature`; `None` for other names.
pub fn describe(name: &str) -> Option<Metric> {
    name.strip_prefix(PREFIX).map(metric)
}

/// Answers at the end of a slot.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Asked {
    /// Values by the metrics' names.
    pub values: BTreeMap<String, f64>,
    /// Reasons for values that are missing, by the metrics' names.
    pub absent: BTreeMap<String, String>,
    /// The guard that one of the values trips.
    pub tripped: Option<String>,
}

type Answer = Result<f64, String>;

/// The queries of a trial. Each has a thread, so that a slow Prometheus does not hold up a slot.
#[derive(Debug, Default)]
pub struct Queries(Vec<Running>);

#[derive(Debug)]
struct Running {
    query: Query,
    ask: Sender<()>,
    answers: Receiver<Answer>,
    /// Questions without an answer yet.
    open: usize,
    /// Time of the next question of a guard.
    next: Instant,
}

impl Queries {
    /// Asks each query once: it must have one value, within its limits.
    pub fn start(queries: &[Query]) -> Result<Self, AskError> {
        let running = queries.iter().map(|query| {
            let Query { name, prometheus, expr, .. } = query;
            let value = Promql::current(prometheus, expr, 5 * ANSWER_TIMEOUT)
                .map_err(|why| AskError::Answer { name: name.clone(), expr: expr.clone(), why })?;
            if let Some(beyond) = query.beyond(value) {
                return Err(AskError::Beyond(beyond));
            }
            Running::start(query).map_err(|error| AskError::Thread(name.clone(), error.to_string()))
        });
        running.collect::<Result<_, _>>().map(Self)
    }

    /// The first guard that an answer since the last call trips. Does not wait.
    pub fn tripped(&mut self) -> Option<String> {
        self.0.iter_mut().filter(|running| running.query.is_guard()).find_map(Running::tripped)
    }

    /// Asks each query. Takes at most a little over a second.
    pub fn end(&mut self) -> Asked {
        self.0.iter_mut().for_each(Running::ask);
        let end = Instant::now() + ANSWER_TIMEOUT + ANSWER_TIMEOUT / 4;
        let mut asked = Asked::default();
        for running in &mut self.0 {
            let metric = running.query.metric().name;
            match running.last_answer(end) {
                Ok(value) => {
                    asked.tripped = asked.tripped.or_else(|| running.query.beyond(value));
                    asked.values.insert(metric, value);
                }
                Err(why) => {
                    asked.absent.insert(metric, why);
                }
            }
        }
        asked
    }
}

impl Running {
    fn start(query: &Query) -> std::io::Result<Self> {
        let (ask, asked) = channel::<()>();
        let (answer, answers) = channel();
        let Query { prometheus, expr, .. } = query.clone();
        std::thread::Builder::new().name(format!("query-{}", query.name)).spawn(move || {
            // Ends when the trial drops its side.
            while asked.recv().is_ok() {
                if answer.send(Promql::current(&prometheus, &expr, ANSWER_TIMEOUT)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { query: query.clone(), ask, answers, open: 0, next: Instant::now() + EVERY })
    }

    fn ask(&mut self) {
        // The thread ends only after this side does.
        let _ = self.ask.send(());
        self.open += 1;
        self.next = Instant::now() + EVERY;
    }

    fn tripped(&mut self) -> Option<String> {
        if self.open == 0 && self.next <= Instant::now() {
            self.ask();
        }
        let mut tripped = None;
        while let Ok(answer) = self.answers.try_recv() {
            self.open -= 1;
            // Without a value there is nothing to compare; the end of the slot records the reason.
            tripped = tripped.or_else(|| self.query.beyond(answer.ok()?));
        }
        tripped
    }

    /// The answer to the last question, if it comes until `end`.
    fn last_answer(&mut self, end: Instant) -> Answer {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(answer) = self.answers.recv_timeout(left) else {
                return Err(format!("{}: no answer in time", self.query.prometheus.authority()));
            };
            self.open -= 1;
            if self.open == 0 {
                return answer;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, Instant};

    use super::{AskError, Queries, Query, describe};

    /// A Prometheus whose only value can be set; `None` = it answers with an error.
    fn prometheus(value: Option<&str>) -> (Query, Arc<Mutex<Option<String>>>) {
        let value = Arc::new(Mutex::new(value.map(str::to_owned)));
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let current = Arc::clone(&value);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 2000]);
                let sample = current.lock().expect("not poisoned").clone();
                let body = match sample {
                    Some(value) => format!(
                        r#"{{"status":"success","data":{{"resultType":"scalar","result":[1,"{value}"]}}}}"#
                    ),
                    None => r#"{"status":"error","error":"out of order"}"#.to_owned(),
                };
                let _ = stream.write_all(format!("HTTP/1.0 200 OK\r\n\r\n{body}").as_bytes());
            }
        });
        let text =
            format!("name = 'heat'\nprometheus = 'http://{address}'\nexpr = 'temperature'\nmax = 80.5");
        (toml::from_str(&text).expect("a query"), value)
    }

    #[test]
    fn a_query_is_asked_at_the_end_of_a_slot_and_guards_in_between() {
        let (query, value) = prometheus(Some("60"));
        let mut queries = Queries::start(std::slice::from_ref(&query)).expect("one value");
        let asked = queries.end();
        assert_eq!((asked.values["query.heat"], asked.tripped.as_deref()), (60.0, None));
        *value.lock().expect("not poisoned") = None;
        let asked = queries.end();
        assert_eq!(asked.absent["query.heat"], "out of order");
        assert_eq!((asked.values.len(), queries.tripped()), (0, None));
        *value.lock().expect("not poisoned") = Some("81".to_owned());
        let begun = Instant::now();
        let why = loop {
            if let Some(why) = queries.tripped() {
                break why;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "it never trips");
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(why, "query heat was 81, above its max = 80.5");
        assert_eq!(queries.end().tripped, Some(why));
    }

    #[test]
    fn before_the_trial_there_must_be_one_value_within_the_limits() {
        let (mut query, _value) = prometheus(Some("90"));
        let error = |query: &Query| Queries::start(std::slice::from_ref(query)).expect_err("refused");
        assert_eq!(
            error(&query).to_string(),
            "query heat was 90, above its max = 80.5, before anything was changed"
        );
        (query.max, query.min) = (None, Some(91.0));
        assert!(matches!(error(&query), AskError::Beyond(why) if why.contains("below its min = 91")));
        let (query, _value) = prometheus(Some("NaN"));
        assert_eq!(error(&query).to_string(), "query heat: `temperature`: NaN instead of a number");
    }

    #[test]
    fn what_cannot_be_asked_is_refused() {
        let (query, _value) = prometheus(None);
        let refused = |queries: &[Query]| Query::check_all(queries).expect_err("refused").to_string();
        assert_eq!(refused(&[query.clone(), query.clone()]), "[[query]] name = `heat`: used twice");
        let url = "https://h:1/".parse().expect("a URL");
        assert_eq!(
            refused(&[Query { prometheus: url, ..query.clone() }]),
            "[[query]] heat: prometheus: https://h:1/: http://HOST:PORT expected"
        );
        assert!(refused(&[Query { name: "a.b".to_owned(), ..query.clone() }]).contains("letters, digits"));
        assert_eq!(describe("query.heat"), Some(query.metric()));
        assert_eq!(describe("check.heat.failed"), None);
    }
}
