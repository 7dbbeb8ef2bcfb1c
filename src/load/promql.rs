//! What a Prometheus says of the time in which a load ran: one query over that time, by HTTP, and
//! nothing installed anywhere.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::url::{Protocol, Url};

/// How long a Prometheus may take for each step of an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest answer that is read.
const LONGEST: u64 = 16 << 20;
/// Most points of a series that are asked for.
const POINTS: u64 = 500;

/// The answer to a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Promql {
    /// The query.
    pub query: String,
    /// One for each set of labels.
    pub series: Vec<PromqlSeries>,
    /// Why there is no answer.
    pub error: Option<String>,
}

/// One series over the time of the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PromqlSeries {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// How many values it has, without those that are no number.
    pub values: usize,
    /// Their mean.
    pub mean: Option<f64>,
    /// The highest.
    pub max: Option<f64>,
}

#[derive(Deserialize)]
struct Answer {
    status: String,
    error: Option<String>,
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    result: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    metric: BTreeMap<String, String>,
    /// Time and value, the value as text.
    values: Vec<(f64, String)>,
}

impl Promql {
    /// Asks the Prometheus at `url` for `query` from `start` to now.
    pub fn ask(url: &Url, query: &str, start: SystemTime) -> Self {
        let answer = body(url, query, start, SystemTime::now()).and_then(|body| read(&body));
        let (series, error) = match answer {
            Ok(series) => (series, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        Self { query: query.to_owned(), series, error }
    }
}

/// The series of an answer of `/api/v1/query_range`, or the reason for which there are none.
fn read(body: &str) -> Result<Vec<PromqlSeries>, String> {
    let answer: Answer =
        serde_json::from_str(body).map_err(|error| format!("not an answer of Prometheus: {error}"))?;
    if answer.status != "success" {
        return Err(answer.error.unwrap_or_else(|| answer.status.clone()));
    }
    let result = answer.data.map(|data| data.result).unwrap_or_default();
    Ok(result.into_iter().map(series).collect())
}

fn series(Series { metric, values }: Series) -> PromqlSeries {
    let numbers =
        values.iter().filter_map(|(_, text)| text.parse::<f64>().ok().filter(|value| value.is_finite()));
    let numbers: Vec<f64> = numbers.collect();
    let mean = (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64);
    PromqlSeries { labels: metric, values: numbers.len(), mean, max: numbers.into_iter().reduce(f64::max) }
}

fn body(url: &Url, query: &str, start: SystemTime, end: SystemTime) -> Result<String, String> {
    if url.protocol != Protocol::Http || url.tls {
        return Err("only http:// is spoken to a Prometheus".to_owned());
    }
    let at = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let seconds = end.duration_since(start).unwrap_or_default().as_secs();
    let step = seconds.div_ceil(POINTS).max(1);
    let base = url.path.trim_end_matches('/');
    // HTTP/1.0: the answer ends with the connection and is in one piece.
    let request = format!(
        "GET {base}/api/v1/query_range?query={}&start={:.3}&end={:.3}&step={step} HTTP/1.0\r\n\
         Host: {}\r\nAccept: application/json\r\n\r\n",
        escaped(query),
        at(start),
        at(end),
        url.authority()
    );
    let failed = |error: std::io::Error| format!("{}: {error}", url.authority());
    let talk = || -> std::io::Result<Vec<u8>> {
        let mut addresses = (url.host.as_str(), url.port).to_socket_addrs()?;
        let address = addresses.next().ok_or(std::io::ErrorKind::NotFound)?;
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(LONGEST).read_to_end(&mut answer)?;
        Ok(answer)
    };
    let answer = talk().map_err(failed)?;
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Response::new(&mut headers);
    let Ok(httparse::Status::Complete(length)) = head.parse(&answer) else {
        return Err(format!("{} does not speak HTTP", url.authority()));
    };
    // An error of Prometheus is JSON as well, with the reason in it.
    let text = String::from_utf8_lossy(&answer[length..]).into_owned();
    match head.code {
        Some(200 | 400 | 422 | 503) => Ok(text),
        code => Err(format!("{} answers with status {}", url.authority(), code.unwrap_or(0))),
    }
}

/// The query as a part of a URL.
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
    use std::net::TcpListener;
    use std::time::{Duration, SystemTime};

    use proptest::prelude::{any, proptest};

    use super::{Promql, escaped, read};

    /// As Prometheus 2.53 writes it.
    const ANSWER: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[
        {"metric":{"cpu":"0","mode":"softirq"},"values":[[1700000000,"0.25"],[1700000001.5,"0.75"],[1700000002,"NaN"]]},
        {"metric":{},"values":[]}]}}"#;

    #[test]
    fn series_have_a_mean_and_a_maximum() {
        let series = read(ANSWER).expect("an answer");
        assert_eq!((series[0].values, series[0].mean, series[0].max), (2, Some(0.5), Some(0.75)));
        assert_eq!(series[0].labels["mode"], "softirq");
        assert_eq!((series[1].values, series[1].mean), (0, None));
        let refused = r#"{"status":"error","errorType":"bad_data","error":"parse error: unexpected end"}"#;
        assert_eq!(read(refused), Err("parse error: unexpected end".to_owned()));
        assert!(read("<html>").is_err_and(|error| error.starts_with("not an answer of Prometheus")));
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
        let nobody = Promql::ask(&url, "up", start);
        assert!(nobody.error.is_some_and(|error| error.contains("refused")) && nobody.series.is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_an_answer_or_a_reason(text in any::<String>(), cut in any::<usize>()) {
            let _ = read(&text);
            let _ = read(&String::from_utf8_lossy(&ANSWER.as_bytes()[..cut % ANSWER.len()]));
            assert!(escaped(&text).bytes().all(|b| b.is_ascii_graphic()));
        }
    }
}
