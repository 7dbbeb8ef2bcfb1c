//! Checks from outside the process under test: requests on a fixed schedule during the whole trial, each
//! check by a thread of its own. They are measured by slot, and failures in a row trip a guard.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::record::{Better, Metric};
use rxlab_base::units::{duration_text, format_duration};
use rxlab_load::{
    self as load, Body, Header, Interval, LoadError, Protocol, Rate, Session, SoFar, Statuses, Url,
};

/// A check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Part of the names of its metrics: letters, digits, `-` and `_`.
    pub name: String,
    /// Target of the requests.
    pub url: Url,
    /// Time from one request to the next.
    #[serde(default = "every", with = "duration_text")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub every: Duration,
    /// Time limit for a request; later responses count as failed.
    #[serde(default = "timeout", with = "duration_text")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub timeout: Duration,
    /// Failures in a row that trip a guard; 0 = none do.
    #[serde(default = "failures")]
    pub failures: u64,
    /// HTTP: header lines, such as `Host: www.example.org`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Header>,
    /// HTTP: statuses of good responses.
    #[serde(default, skip_serializing_if = "Statuses::is_default")]
    pub expect_status: Statuses,
    /// HTTP: body of every good response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_body: Option<Body>,
    /// HTTPS: file of root certificates (PEM), instead of those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// HTTPS: accept any certificate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// Network namespace file from which the requests are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<PathBuf>,
}

impl Check {
    /// A check with the usual times.
    pub fn new(name: &str, url: Url) -> Self {
        Self {
            name: name.to_owned(),
            url,
            every: every(),
            timeout: timeout(),
            failures: failures(),
            headers: Vec::new(),
            expect_status: Statuses::default(),
            expect_body: None,
            ca: None,
            insecure: false,
            netns: None,
        }
    }
}

fn every() -> Duration {
    Duration::from_millis(200)
}

fn timeout() -> Duration {
    Duration::from_secs(1)
}

fn failures() -> u64 {
    3
}

/// Shortest time between two requests: a check is not a load.
const EVERY_AT_LEAST: Duration = Duration::from_millis(10);
/// Most requests of one check under way at the same time.
const UNDER_WAY_AT_MOST: u128 = 256;
/// Requests of a slot from which the median is a metric. Further quantiles never are: a slot has few requests.
const ENOUGH_FOR_MEDIAN: u64 = 3;

/// A check that cannot be run.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum CheckError {
    /// The name becomes part of the names of metrics.
    #[error("[[check]] name = `{0}`: must be 1 to 40 letters, digits, `-` or `_`")]
    Name(String),
    #[error("[[check]] name = `{0}`: used twice")]
    Twice(String),
    #[error("[[check]] {0}: {1} has no responses to check")]
    OneWay(String, Url),
    #[error("[[check]] {name}: every = {}: must be at least {}", format_duration(*.every), format_duration(EVERY_AT_LEAST))]
    Every { name: String, every: Duration },
    #[error("[[check]] {0}: timeout: must be at most {UNDER_WAY_AT_MOST} times `every`")]
    Timeout(String),
    /// Options that do not fit the target.
    #[error("[[check]] {0}: {1}")]
    Load(String, load::SpecError),
}

/// A check that fails before the trial begins.
#[derive(Debug, Error)]
pub enum StartError {
    #[error("check {0}: {1}")]
    Load(String, LoadError),
    #[error("check {name}: {url} failed: {why}")]
    Failed {
        name: String,
        url: Url,
        /// Class of the failure.
        why: String,
    },
}

/// True for a name that may become part of the name of a metric.
pub(super) fn is_name(name: &str) -> bool {
    (1..=40).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

impl Check {
    /// Checks that all `checks` can be run.
    pub fn check_all(checks: &[Self]) -> Result<(), CheckError> {
        let mut names = BTreeSet::new();
        for check in checks {
            check.check()?;
            if !names.insert(&check.name) {
                return Err(CheckError::Twice(check.name.clone()));
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), CheckError> {
        let name = || self.name.clone();
        if !is_name(&self.name) {
            return Err(CheckError::Name(name()));
        }
        if self.url.protocol.is_one_way() {
            return Err(CheckError::OneWay(name(), self.url.clone()));
        }
        if self.every < EVERY_AT_LEAST {
            return Err(CheckError::Every { name: name(), every: self.every });
        }
        if self.under_way() > UNDER_WAY_AT_MOST {
            return Err(CheckError::Timeout(name()));
        }
        self.load().check().map_err(|error| CheckError::Load(name(), error))
    }

    /// Requests that are under way at the same time if none is answered before its timeout.
    fn under_way(&self) -> u128 {
        self.timeout.as_nanos().div_ceil(self.every.as_nanos().max(1)) + 1
    }

    /// The check as a load: open loop, with a connection or flow for every request that can be under way, so
    /// that a slow response delays no later request.
    fn load(&self) -> load::Spec {
        load::Spec {
            connections: self.under_way() as usize,
            no_keepalive: self.url.protocol == Protocol::Http,
            rate: Some(Rate::steady(1.0 / self.every.as_secs_f64())),
            timeout: self.timeout,
            headers: self.headers.clone(),
            expect_status: self.expect_status.clone(),
            expect_body: self.expect_body.clone(),
            ca: self.ca.clone(),
            insecure: self.insecure,
            netns: self.netns.clone(),
            ..load::Spec::new(self.url.clone())
        }
    }

    /// The metric of this check whose name ends with `key`.
    fn metric(&self, key: &str) -> String {
        format!("{PREFIX}{}.{key}", self.name)
    }

    /// Metrics that are judged without being asked for.
    pub fn judged(&self) -> [String; 2] {
        [MEDIAN, WORST].map(|key| self.metric(key))
    }

    /// True for the name of one of its metrics.
    pub fn measures(&self, metric: &str) -> bool {
        METRICS.iter().any(|(key, ..)| self.metric(key) == metric)
    }

    /// Requests of a slot with these values, and how many of them failed.
    pub fn counts(&self, values: &BTreeMap<String, f64>) -> Option<(u64, u64)> {
        let requests = *values.get(&self.metric(REQUESTS))?;
        let share = values.get(&self.metric(FAILED)).copied().unwrap_or_default();
        Some((requests as u64, (requests * share / 100.0).round() as u64))
    }
}

const PREFIX: &str = "check.";

const MEDIAN: &str = "p50_us";
const WORST: &str = "worst_us";
const FAILED: &str = "failed";
const REQUESTS: &str = "requests";

/// Metrics of a check in a slot: the end of the name, title and unit of each.
const METRICS: [(&str, &str, &str); 4] = [
    (MEDIAN, "latency p50", "us"),
    (WORST, "worst latency", "us"),
    (FAILED, "failed requests", "%"),
    (REQUESTS, "requests", ""),
];

/// The metric of a check by its name, such as `check.front.p50_us`; `None` for other names.
pub fn describe(metric: &str) -> Option<Metric> {
    let (check, key) = metric.strip_prefix(PREFIX)?.split_once('.')?;
    let (_, title, unit) = METRICS.into_iter().find(|(known, ..)| *known == key)?;
    let title = format!("check {check}, {title}");
    Some(Metric { name: metric.to_owned(), title, unit: unit.to_owned(), better: Better::Lower })
}

/// Values of one slot.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Checked {
    /// By the metrics' names.
    pub values: BTreeMap<String, f64>,
    /// Names of the values that are lower bounds.
    pub at_least: Vec<String>,
}

/// The checks of a trial, running.
#[derive(Debug, Default)]
pub struct Checks(Vec<Running>);

#[derive(Debug)]
struct Running {
    check: Check,
    session: Session,
    /// Counts of the last look, since the last mark.
    seen: SoFar,
    /// Failures since the last good response.
    in_a_row: u64,
}

impl Checks {
    /// Starts the checks, and waits for the first response to each.
    pub fn start(checks: &[Check]) -> Result<Self, StartError> {
        let mut all = Self::default();
        for check in checks {
            let session =
                Session::start(&check.load()).map_err(|error| StartError::Load(check.name.clone(), error))?;
            all.0.push(Running { check: check.clone(), session, seen: SoFar::default(), in_a_row: 0 });
        }
        for running in &mut all.0 {
            running.first()?;
        }
        Ok(all)
    }

    /// Discards earlier measurements: a measured interval begins.
    pub fn begin(&mut self) {
        self.0.iter_mut().for_each(|running| drop(running.mark()));
    }

    /// The first check with as many failures in a row as trip it, in words.
    pub fn tripped(&mut self) -> Option<String> {
        self.0.iter_mut().find_map(|running| {
            running.look();
            let (row, limit) = (running.in_a_row, running.check.failures);
            let (name, why) = (&running.check.name, running.why());
            (limit > 0 && row >= limit)
                .then(|| format!("check {name} failed {row} times in a row: {why} (limit {limit})"))
        })
    }

    /// Returns the measurements since [`Checks::begin`], which must come first.
    pub fn end(&mut self) -> Checked {
        let mut all = Checked::default();
        for running in &mut self.0 {
            let interval = running.mark();
            put(&mut all, &running.check, &interval);
        }
        all
    }
}

impl Running {
    /// Counts failures in a row, up to now.
    fn look(&mut self) {
        let now = self.session.so_far(None);
        self.seen = self.count(now);
    }

    /// Measurements since the last mark.
    fn mark(&mut self) -> Interval {
        let interval = self.session.cut();
        let most = interval.errors.iter().max_by_key(|(_, count)| **count).map(|(class, _)| *class);
        let (requests, failed) = (interval.requests, interval.failed());
        let class = self.count(SoFar { requests, failed, class: most, ..SoFar::default() }).class;
        self.seen = SoFar { class, ..SoFar::default() };
        interval
    }

    /// Counts the failures in a row up to `now`, a later look than the last.
    fn count(&mut self, now: SoFar) -> SoFar {
        // A check whose good and failed responses came between two looks is not down.
        let answered = now.requests > self.seen.requests;
        self.in_a_row = if answered { 0 } else { self.in_a_row + now.failed - self.seen.failed };
        SoFar { class: now.class.or(self.seen.class), ..now }
    }

    /// Class of the last failures.
    fn why(&self) -> String {
        self.seen.class.map_or_else(|| "no response".to_owned(), |class| class.to_string())
    }

    /// Waits until a first request has ended.
    fn first(&mut self) -> Result<(), StartError> {
        let end = Instant::now() + self.check.every + 2 * self.check.timeout;
        loop {
            self.look();
            let failed = |why: String| StartError::Failed {
                name: self.check.name.clone(),
                url: self.check.url.clone(),
                why,
            };
            if self.in_a_row > 0 {
                return Err(failed(self.why()));
            }
            if self.seen.requests > 0 {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(failed("no response".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Failed requests count as slower than all others, with the timeout as the least that they took.
fn put(all: &mut Checked, check: &Check, interval: &Interval) {
    let failed = interval.failed();
    let ended = interval.requests + failed;
    let mut latencies = interval.latencies();
    if failed > 0 {
        // The histogram would take a value with a count of 0 for its maximum.
        latencies.saturating_record_n(check.timeout.as_nanos() as u64, failed);
    }
    let quantiles = [(MEDIAN, 0.5, ENOUGH_FOR_MEDIAN), (WORST, 1.0, 1)];
    for (key, q, _) in quantiles.into_iter().filter(|(.., least)| latencies.len() >= *least) {
        let name = check.metric(key);
        if failed > 0 || interval.is_lower_bound(q) {
            all.at_least.push(name.clone());
        }
        all.values.insert(name, latencies.value_at_quantile(q) as f64 / 1000.0);
    }
    if ended > 0 {
        all.values.insert(check.metric(FAILED), 100.0 * failed as f64 / ended as f64);
    }
    all.values.insert(check.metric(REQUESTS), ended as f64);
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::{Duration, Instant};

    use super::{Check, CheckError, Checks, StartError, describe};
    use rxlab_load::servers::{self as target, Target};

    fn check(text: &str) -> Check {
        toml::from_str(text).expect("a check")
    }

    #[test]
    fn defaults_and_limits() {
        let plain = check("name = 'front'\nurl = 'http://h:1/health'");
        assert_eq!((plain.every.as_millis(), plain.timeout.as_millis(), plain.failures), (200, 1000, 3));
        assert_eq!(plain.load().connections, 6, "a slow response delays no later request");
        assert_eq!(Check::check_all(std::slice::from_ref(&plain)), Ok(()));
        assert_eq!(Check::check_all(&[plain.clone(), plain]), Err(CheckError::Twice("front".to_owned())));
        for (name, rest, wanted) in [
            ("a.b", "url = 'udp://h:1'", "name = `a.b`: must be 1 to 40 letters, digits, `-` or `_`"),
            ("a", "url = 'udp-sink://h:1'", "a: udp-sink://h:1 has no responses to check"),
            ("a", "url = 'http://h:1/'\nevery = '1ms'", "a: every = 1ms: must be at least 10ms"),
            ("a", "url = 'http://h:1/'\ntimeout = '1m'", "a: timeout: must be at most 256 times `every`"),
            (
                "a",
                "url = 'http://h:1/'\ninsecure = true",
                "a: --ca, --insecure, --cert and --tls-resume are for https:// only",
            ),
        ] {
            let check = check(&format!("name = '{name}'\n{rest}"));
            let error = Check::check_all(&[check]).expect_err("refused").to_string();
            assert_eq!(error, format!("[[check]] {wanted}"));
        }
    }

    #[test]
    fn metrics_have_the_name_of_their_check() {
        let plain = check("name = 'front-1'\nurl = 'http://h:1/'");
        assert_eq!(plain.judged(), ["check.front-1.p50_us", "check.front-1.worst_us"]);
        assert!(plain.measures("check.front-1.failed") && !plain.measures("check.front.failed"));
        let metric = describe("check.front-1.failed").expect("known");
        assert_eq!((metric.title.as_str(), metric.unit.as_str()), ("check front-1, failed requests", "%"));
        assert_eq!((describe("check.front-1.p99_us"), describe("p99_us")), (None, None));
    }

    /// A target on loopback, and a check of each of its protocols.
    fn checked(every: &str) -> (Target, Vec<Check>) {
        let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let spec = target::Spec { http: any, udp_echo: any, udp_tracker: any, ..Default::default() };
        let target = Target::start(&spec).expect("started");
        let addresses = target.addresses();
        let urls = [
            ("http", addresses.http.map(|address| format!("http://{address}/simple"))),
            ("echo", addresses.udp_echo.map(|address| format!("udp://{address}"))),
            ("tcp", addresses.http.map(|address| format!("tcp://{address}"))),
            ("tracker", addresses.udp_tracker.map(|address| format!("udp-tracker://{address}/announce"))),
        ];
        let check = |(name, url): (&str, Option<String>)| {
            let url = url.expect("served");
            check(&format!("name = '{name}'\nurl = '{url}'\nevery = '{every}'\ntimeout = '500ms'"))
        };
        (target, urls.map(check).to_vec())
    }

    #[test]
    fn a_server_is_measured_until_it_is_gone() {
        let (target, checks) = checked("10ms");
        let mut running = Checks::start(&checks).expect("it responds");
        running.begin();
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(running.tripped(), None);
        let all = running.end();
        for check in &checks {
            let name = &check.name;
            let (requests, failed) = check.counts(&all.values).expect("counted");
            assert!(requests > 0 && failed == 0, "{name}: {all:?}");
            let worst = all.values[&format!("check.{name}.worst_us")];
            assert!(worst > 0.0, "{all:?}");
            assert!(all.values.get(&format!("check.{name}.p50_us")).is_none_or(|p50| *p50 <= worst));
        }
        drop(target);
        let gone = Instant::now();
        let why = loop {
            if let Some(why) = running.tripped() {
                break why;
            }
            assert!(gone.elapsed() < Duration::from_secs(30), "it never trips");
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(why.contains(" times in a row: ") && why.ends_with(" (limit 3)"), "{why}");
        // Each request fails once, whatever was attempted for it.
        running.begin();
        std::thread::sleep(Duration::from_millis(300));
        let elapsed = gone.elapsed().as_millis() as u64;
        let all = running.end();
        let (requests, failed) = checks[0].counts(&all.values).expect("counted");
        assert!(failed == requests && requests <= elapsed / 10 + 2, "{requests} in {elapsed} ms");
        assert!(all.at_least.contains(&"check.http.worst_us".to_owned()), "{all:?}");
    }

    #[test]
    fn a_check_has_to_pass_before_anything_begins() {
        // The first request is due at once, and the next one only long after other tests have let this one go on.
        let (target, mut checks) = checked("3s");
        checks.truncate(1);
        checks[0].expect_status = "404".parse().expect("a status");
        let error = Checks::start(&checks).expect_err("the status is 200");
        let StartError::Failed { why, .. } = &error else { panic!("{error:?}") };
        assert!(why.contains("2xx"), "{why}");
        checks[0].expect_status = Default::default();
        checks[0].expect_body = Some("something else".into());
        let error = Checks::start(&checks).expect_err("another body").to_string();
        assert!(error.starts_with("check http: http://127.0.0.1:"), "{error}");
        drop(target);
        assert!(matches!(Checks::start(&checks), Err(StartError::Load(..))));
    }
}
