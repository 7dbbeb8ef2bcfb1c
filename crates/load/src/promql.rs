//! Queries a Prometheus via HTTP: over the time of a load, or for the current value.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::protocol::Protocol;
use super::url::Url;

/// Bounds of one query.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Time for everything: name resolution, connection, request and the whole response.
    time: Duration,
    /// Bytes of the response.
    bytes: usize,
}

const BOUNDS: Bounds = Bounds { time: Duration::from_secs(5), bytes: 16 << 20 };
/// Most points requested per series.
const POINTS: u64 = 500;

/// Response to a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Promql {
    /// The query.
    pub query: String,
    /// One per set of labels.
    pub series: Vec<PromqlSeries>,
    /// Reason for a missing response.
    pub error: Option<String>,
}

/// One series over the time of the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PromqlSeries {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Number of values, NaN excluded.
    pub values: usize,
    /// Mean of the values.
    pub mean: Option<f64>,
    /// Maximum.
    pub max: Option<f64>,
}

#[derive(Deserialize)]
struct Answer<T> {
    status: String,
    error: Option<String>,
    data: Option<T>,
}

#[derive(Deserialize)]
struct Range {
    result: Vec<Series>,
}

/// The current value of a query.
#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "snake_case")]
enum Current {
    Vector(Vec<Sample>),
    Scalar((f64, String)),
    Matrix(serde::de::IgnoredAny),
    String(serde::de::IgnoredAny),
}

#[derive(Deserialize)]
struct Sample {
    value: (f64, String),
}

#[derive(Deserialize)]
struct Series {
    metric: BTreeMap<String, String>,
    /// Time and value, the value as text.
    values: Vec<(f64, String)>,
}

impl Promql {
    /// Runs `query` on the Prometheus at `url`, from `start` to now.
    ///
    /// Takes at most 5 s, whatever the server does.
    pub fn ask(url: &Url, query: &str, start: SystemTime) -> Self {
        Self::ask_within(BOUNDS, url, query, start)
    }

    fn ask_within(bounds: Bounds, url: &Url, query: &str, start: SystemTime) -> Self {
        let end = SystemTime::now();
        let step = end.duration_since(start).unwrap_or_default().as_secs().div_ceil(POINTS).max(1);
        let at = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let (query_text, start, end) = (escaped(query), at(start), at(end));
        let path = format!("query_range?query={query_text}&start={start:.3}&end={end:.3}&step={step}");
        let answer = body(bounds, url, &path).and_then(|body| Self::series(&body));
        let (series, error) = match answer {
            Ok(series) => (series, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        Self { query: query.to_owned(), series, error }
    }

    /// The current value of `query` on the Prometheus at `url`, or why there is not exactly one. Takes at most
    /// `time`.
    pub fn current(url: &Url, query: &str, time: Duration) -> Result<f64, String> {
        let bounds = Bounds { time, ..BOUNDS };
        body(bounds, url, &format!("query?query={}", escaped(query))).and_then(|body| Self::value(&body))
    }

    /// Series of a response of `/api/v1/query_range`, or the reason why there are none.
    pub fn series(body: &str) -> Result<Vec<PromqlSeries>, String> {
        let range: Option<Range> = data(body)?;
        let result = range.map(|range| range.result).unwrap_or_default();
        Ok(result.into_iter().map(PromqlSeries::from).collect())
    }

    /// The only value of a response of `/api/v1/query`, or the reason why there is not one.
    pub fn value(body: &str) -> Result<f64, String> {
        let value = match data(body)? {
            Some(Current::Scalar((_, value))) => value,
            Some(Current::Vector(samples)) => match <[Sample; 1]>::try_from(samples) {
                Ok([sample]) => sample.value.1,
                Err(samples) if samples.is_empty() => return Err("no sample".to_owned()),
                Err(samples) => {
                    return Err(format!(
                        "{} samples: reduce them to one with sum(...) or max(...)",
                        samples.len()
                    ));
                }
            },
            Some(Current::Matrix(_)) => {
                return Err("a range of samples: reduce it to one value with rate(...)".to_owned());
            }
            Some(Current::String(_)) => return Err("text instead of a number".to_owned()),
            None => return Err("no sample".to_owned()),
        };
        match value.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(format!("{value} instead of a number")),
        }
    }
}

fn data<T: serde::de::DeserializeOwned>(body: &str) -> Result<Option<T>, String> {
    let answer: Answer<T> =
        serde_json::from_str(body).map_err(|error| format!("not a response of Prometheus: {error}"))?;
    if answer.status != "success" {
        return Err(answer.error.unwrap_or(answer.status));
    }
    Ok(answer.data)
}

impl From<Series> for PromqlSeries {
    fn from(Series { metric, values }: Series) -> Self {
        let numbers =
            values.iter().filter_map(|(_, text)| text.parse::<f64>().ok().filter(|value| value.is_finite()));
        let numbers: Vec<f64> = numbers.collect();
        let mean = (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64);
        Self { labels: metric, values: numbers.len(), mean, max: numbers.into_iter().reduce(f64::max) }
    }
}

/// Response of the API to `path` with its query.
fn body(bounds: Bounds, url: &Url, path: &str) -> Result<String, String> {
    if url.protocol != Protocol::Http || url.tls {
        return Err("Prometheus is queried over http:// only".to_owned());
    }
    let base = url.path.trim_end_matches('/');
    // HTTP/1.0: the response ends with the connection and is in one piece.
    let request = format!(
        "GET {base}/api/v1/{path} HTTP/1.0\r\nHost: {}\r\nAccept: application/json\r\n\r\n",
        url.host_header()
    );
    let answer = talk(bounds, url, request.as_bytes()).map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            format!("{}: no complete response within {} s", url.authority(), bounds.time.as_secs_f64())
        }
        _ => format!("{}: {error}", url.authority()),
    })?;
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Response::new(&mut headers);
    let Ok(httparse::Status::Complete(length)) = head.parse(&answer) else {
        return Err(format!("{} does not speak HTTP", url.authority()));
    };
    // Errors of Prometheus are JSON as well and contain the reason.
    let text = String::from_utf8_lossy(&answer[length..]).into_owned();
    match head.code {
        Some(200 | 400 | 422 | 503) => Ok(text),
        code => Err(format!("{} returned status {}", url.authority(), code.unwrap_or(0))),
    }
}

/// Sends `request` and returns everything up to the end of the connection.
fn talk(bounds: Bounds, url: &Url, request: &[u8]) -> io::Result<Vec<u8>> {
    let deadline = Deadline(Instant::now() + bounds.time);
    let mut stream = connect(&resolve(url, deadline)?, deadline)?;
    let mut rest = request;
    while !rest.is_empty() {
        stream.set_write_timeout(Some(deadline.left()?))?;
        match stream.write(rest) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            length => rest = &rest[length?..],
        }
    }
    let mut answer = Vec::new();
    let mut part = [0; 16 << 10];
    loop {
        stream.set_read_timeout(Some(deadline.left()?))?;
        let length = match stream.read(&mut part) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            length => length?,
        };
        if length == 0 {
            return Ok(answer);
        }
        answer.extend_from_slice(&part[..length]);
        if answer.len() > bounds.bytes {
            let why = format!("response is longer than {} MiB", bounds.bytes as f64 / f64::from(1 << 20));
            return Err(io::Error::other(why));
        }
    }
}

/// Moment after which a query is given up.
#[derive(Debug, Clone, Copy)]
struct Deadline(Instant);

impl Deadline {
    /// Time until then, above zero: sockets take 0 for no limit.
    fn left(self) -> io::Result<Duration> {
        let left = self.0.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

/// Addresses of the server. The resolver has no deadline of its own, so a thread waits for it; if it is
/// late, the thread ends with the program.
fn resolve(url: &Url, deadline: Deadline) -> io::Result<Vec<SocketAddr>> {
    let (host, port) = (url.host.clone(), url.port);
    let (sender, receiver) = mpsc::channel();
    std::thread::Builder::new().name("resolver".to_owned()).spawn(move || {
        let addresses = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
        // The caller may have given up.
        let _ = sender.send(addresses);
    })?;
    receiver.recv_timeout(deadline.left()?).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Connects to the first address that accepts.
fn connect(addresses: &[SocketAddr], deadline: Deadline) -> io::Result<TcpStream> {
    let mut failed = io::ErrorKind::NotFound.into();
    for address in addresses {
        match TcpStream::connect_timeout(address, deadline.left()?) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Percent-encodes the query for a URL.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant, SystemTime};

    use proptest::prelude::{any, prop_assert, proptest};

    use super::{BOUNDS, Bounds, Promql, escaped};
    use crate::Url;

    /// As written by Prometheus 2.53.
    const ANSWER: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[
        {"metric":{"cpu":"0","mode":"softirq"},"values":[[1700000000,"0.25"],[1700000001.5,"0.75"],[1700000002,"NaN"]]},
        {"metric":{},"values":[]}]}}"#;

    #[test]
    fn series_have_a_mean_and_a_maximum() {
        let series = Promql::series(ANSWER).expect("a response");
        assert_eq!((series[0].values, series[0].mean, series[0].max), (2, Some(0.5), Some(0.75)));
        assert_eq!(series[0].labels["mode"], "softirq");
        assert_eq!((series[1].values, series[1].mean), (0, None));
        let refused = r#"{"status":"error","errorType":"bad_data","error":"parse error: unexpected end"}"#;
        assert_eq!(Promql::series(refused), Err("parse error: unexpected end".to_owned()));
        assert!(
            Promql::series("<html>").is_err_and(|error| error.starts_with("not a response of Prometheus"))
        );
    }

    /// As written by Prometheus 2.42.
    #[test]
    fn the_current_value_is_exactly_one_number() {
        let vector = |samples: &str| {
            let data = format!(r#"{{"resultType":"vector","result":[{samples}]}}"#);
            Promql::value(&format!(r#"{{"status":"success","data":{data}}}"#))
        };
        let sample = |value: &str| format!(r#"{{"metric":{{"a":"b"}},"value":[1700000000.5,"{value}"]}}"#);
        assert_eq!(vector(&sample("2.5")), Ok(2.5));
        assert_eq!(vector(""), Err("no sample".to_owned()));
        let two = vector(&[sample("1"), sample("2")].join(","));
        assert_eq!(two, Err("2 samples: reduce them to one with sum(...) or max(...)".to_owned()));
        assert_eq!(vector(&sample("NaN")), Err("NaN instead of a number".to_owned()));
        assert_eq!(vector(&sample("+Inf")), Err("+Inf instead of a number".to_owned()));
        let value = |kind: &str, result: &str| {
            let data = format!(r#"{{"resultType":"{kind}","result":{result}}}"#);
            Promql::value(&format!(r#"{{"status":"success","data":{data}}}"#))
        };
        assert_eq!(value("scalar", r#"[1700000000,"7"]"#), Ok(7.0));
        assert!(value("matrix", "[]").is_err() && value("string", r#"[1,"x"]"#).is_err());
        let refused = r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#;
        assert_eq!(Promql::value(refused), Err("parse error".to_owned()));
    }

    #[test]
    fn the_query_is_asked_over_the_time_of_the_load() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let url = format!("http://{}/prom/", listener.local_addr().expect("bound")).parse().expect("a URL");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("asked");
            let mut text = [0; 2000];
            let length = stream.read(&mut text).expect("asked");
            let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", ANSWER.len());
            stream.write_all(format!("{head}{ANSWER}").as_bytes()).expect("answered");
            String::from_utf8_lossy(&text[..length]).into_owned()
        });
        let start = SystemTime::now() - Duration::from_secs(1200);
        let answer = Promql::ask(&url, "rate(x{a=\"b\"}[1m])", start);
        assert_eq!((answer.error, answer.series.len()), (None, 2));
        let asked = server.join().expect("asked");
        assert!(
            asked.starts_with(
                "GET /prom/api/v1/query_range?query=rate%28x%7Ba%3D%22b%22%7D%5B1m%5D%29&start=1"
            ),
            "{asked}"
        );
        assert!(asked.contains("&step=3 HTTP/1.0\r\n"), "{asked}");
        let failed = Promql::ask(&url, "up", start);
        assert!(failed.error.is_some_and(|error| error.contains("refused")) && failed.series.is_empty());
    }

    /// Reason for which the client gives up a server that repeats `act` on its one connection until that fails.
    fn given_up(bounds: Bounds, mut act: impl FnMut(&mut TcpStream) -> std::io::Result<()> + Send) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let url: Url = format!("http://{address}").parse().expect("a URL");
        let answer = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("asked");
                // Its last failure is the end of the connection.
                while act(&mut stream).is_ok() {}
            });
            Promql::ask_within(bounds, &url, "up", SystemTime::now())
        });
        let error = answer.error.expect("no answer");
        error.strip_prefix(&format!("{address}: ")).expect("the server is named").to_owned()
    }

    /// A server that sent a byte now and then once kept a query going indefinitely.
    #[test]
    fn a_server_that_drips_is_given_up_in_time() {
        let bounds = Bounds { time: Duration::from_secs(2), ..BOUNDS };
        let begun = Instant::now();
        let why = given_up(bounds, |stream| {
            std::thread::sleep(Duration::from_millis(100));
            stream.write_all(b"H")
        });
        let took = begun.elapsed();
        assert_eq!(why, "no complete response within 2 s");
        assert!(took >= bounds.time && took < Duration::from_secs(60), "{took:?}");
    }

    #[test]
    fn a_server_that_never_answers_is_given_up_in_time() {
        let bounds = Bounds { time: Duration::from_millis(200), ..BOUNDS };
        let why = given_up(bounds, |stream| match stream.read(&mut [0; 100])? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        });
        assert_eq!(why, "no complete response within 0.2 s");
    }

    #[test]
    fn an_answer_without_end_is_given_up() {
        let bounds = Bounds { time: Duration::from_secs(60), bytes: 1 << 20 };
        let why = given_up(bounds, |stream| stream.write_all(&[b'x'; 4096]));
        assert_eq!(why, "response is longer than 1 MiB");
    }

    proptest! {
        #[test]
        fn no_other_text_is_an_answer(text in any::<String>(), cut in any::<usize>()) {
            prop_assert!(Promql::series(&text).is_err() && Promql::value(&text).is_err());
            prop_assert!(Promql::series(&ANSWER[..cut % ANSWER.len()]).is_err(), "cut short");
            prop_assert!(escaped(&text).bytes().all(|b| b.is_ascii_graphic()));
        }
    }
}
