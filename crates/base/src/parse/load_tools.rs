//! Reports of load tools: wrk (wrk2 prints the same), h2load of nghttp2, and k6.

use super::ParseError;

/// One run of a load tool.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadToolReport {
    /// Completed requests per second.
    pub rate: f64,
    pub requests: f64,
    /// Fraction of the requests that failed: errors, timeouts, error statuses. 1 if none was completed.
    pub error_rate: f64,
    pub mean_us: Option<f64>,
    /// Latency in microseconds by quantile in percent, as far as the tool was told to print quantiles.
    pub quantiles_us: Vec<(f64, f64)>,
}

/// Parses what a load tool printed; `None` if it is not the report of a known tool.
///
/// Tried with wrk 4.1.0, h2load 1.52.0 and k6 1.8.1.
pub fn load_tool_report(text: &str) -> Option<Result<LoadToolReport, ParseError>> {
    let report = Report { text };
    if report.after("Requests/sec:").is_some() {
        Some(report.wrk())
    } else if report.after("finished in ").is_some() && report.after("requests: ").is_some() {
        Some(report.h2load())
    } else if report.after("http_reqs.").is_some() {
        Some(report.k6())
    } else {
        None
    }
}

struct Report<'a> {
    text: &'a str,
}

impl<'a> Report<'a> {
    /// Number and rest of the first line that begins with `start`, spaces aside.
    fn after(&self, start: &str) -> Option<(usize, &'a str)> {
        (1..).zip(self.text.lines()).find_map(|(at, line)| Some((at, line.trim_start().strip_prefix(start)?)))
    }

    /// The rest of that line as `read` parses it.
    fn read<T>(&self, start: &str, read: impl Fn(&'a str) -> Option<T>) -> Result<T, ParseError> {
        let Some((at, rest)) = self.after(start) else {
            return Err(ParseError::at(self.text.lines().count(), format!("no line `{start}`")));
        };
        read(rest).ok_or_else(|| ParseError::at(at, format!("`{start}`: cannot read `{}`", rest.trim())))
    }

    /// Like [`Report::read`], for a line that the tool prints only sometimes; `None` without it.
    fn read_if_any<T>(
        &self,
        start: &str,
        read: impl Fn(&'a str) -> Option<T>,
    ) -> Result<Option<T>, ParseError> {
        self.after(start).map(|_| self.read(start, read)).transpose()
    }

    fn wrk(&self) -> Result<LoadToolReport, ParseError> {
        let rate = self.read("Requests/sec:", number)?;
        let requests = (1..).zip(self.text.lines()).find_map(|(at, line)| {
            let (count, _) = line.split_once(" requests in ")?;
            Some(number(count).ok_or_else(|| ParseError::at(at, format!("cannot read `{}`", line.trim()))))
        });
        let requests = requests.unwrap_or_else(|| self.read(" requests in ", number))?;
        // Counts of connections, reads, writes and timeouts.
        let lost = self.read_if_any("Socket errors:", |rest| {
            rest.split(',').map(|part| number(part.trim().rsplit_once(' ')?.1)).sum::<Option<f64>>()
        })?;
        let refused = self.read_if_any("Non-2xx or 3xx responses:", number)?;
        let mean_us = self.read_if_any("Latency  ", |rest| time_us(rest.split_whitespace().next()?))?;
        let quantiles = self.text.lines().filter_map(|line| {
            let (percent, time) = line.trim().split_once("% ")?;
            Some((number(percent)?, time_us(time.trim())?))
        });
        let lost = lost.unwrap_or(0.0);
        Ok(LoadToolReport {
            rate,
            requests,
            error_rate: fraction(lost + refused.unwrap_or(0.0), requests + lost),
            mean_us,
            quantiles_us: quantiles.collect(),
        })
    }

    fn h2load(&self) -> Result<LoadToolReport, ParseError> {
        let rate =
            self.read("finished in ", |rest| number(rest.split(", ").nth(1)?.strip_suffix(" req/s")?))?;
        // `failed` has the errors, timeouts and error statuses.
        let count = |what: &'static str| {
            self.read("requests: ", move |rest| {
                rest.split(", ").find_map(|part| number(part.trim().strip_suffix(what)?.trim_end()))
            })
        };
        let (requests, failed) = (count(" done")?, count(" failed")?);
        let mean_us = self.read("time for request:", |rest| time_us(rest.split_whitespace().nth(2)?))?;
        Ok(LoadToolReport {
            rate,
            requests,
            error_rate: if requests > 0.0 { fraction(failed, requests.max(failed)) } else { 1.0 },
            mean_us: (requests > 0.0).then_some(mean_us),
            quantiles_us: Vec::new(),
        })
    }

    fn k6(&self) -> Result<LoadToolReport, ParseError> {
        let (requests, rate) = self.read("http_reqs.", |rest| {
            let mut values = after_dots(rest)?.split_whitespace();
            Some((number(values.next()?)?, number(values.next()?.strip_suffix("/s")?)?))
        })?;
        let failed = self.read_if_any("http_req_failed.", |rest| {
            number(after_dots(rest)?.split_whitespace().next()?.strip_suffix('%')?)
        })?;
        let times = self.read_if_any("http_req_duration.", |rest| {
            let values = after_dots(rest)?.split_whitespace().filter_map(|part| part.split_once('='));
            Some(values.map(|(name, time)| (name, time_us(time))).collect::<Vec<_>>())
        })?;
        let times = times.unwrap_or_default();
        let quantile = |name: &str| match name {
            "med" => Some(50.0),
            _ => number(name.strip_prefix("p(")?.strip_suffix(')')?),
        };
        Ok(LoadToolReport {
            rate,
            requests,
            error_rate: if requests > 0.0 { failed.unwrap_or(0.0) / 100.0 } else { 1.0 },
            mean_us: times.iter().find(|(known, _)| *known == "avg").and_then(|(_, time)| *time),
            quantiles_us: times.iter().filter_map(|(name, time)| Some((quantile(name)?, (*time)?))).collect(),
        })
    }
}

/// The values of a line of k6, whose name is filled up with dots.
fn after_dots(rest: &str) -> Option<&str> {
    rest.trim_start_matches('.').strip_prefix(':')
}

fn fraction(part: f64, all: f64) -> f64 {
    if all > 0.0 { part / all } else { 1.0 }
}

/// A count or rate.
fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)
}

/// A time such as `44.00us`, `1.2ms`, `3s` or `1.50m`, in microseconds.
fn time_us(text: &str) -> Option<f64> {
    let at = text.find(|c: char| c != '.' && !c.is_ascii_digit())?;
    let (value, unit) = text.split_at(at);
    let unit_us = match unit {
        "ns" => 1e-3,
        "us" | "\u{b5}s" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 6e7,
        "h" => 3.6e9,
        _ => return None,
    };
    Some(number(value)? * unit_us)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{LoadToolReport, load_tool_report};

    fn read(text: &str) -> LoadToolReport {
        load_tool_report(text).expect("a known tool").expect("readable")
    }

    const WRK: &str = "Running 1s test @ http://127.0.0.1:8089/simple
  1 threads and 4 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   327.12us    1.49ms  17.00ms   95.72%
    Req/Sec    63.40k     7.37k   68.27k    90.00%
  Latency Distribution
     50%   44.00us
     75%   50.00us
     90%   69.00us
     99%    8.98ms
  63356 requests in 1.01s, 4.77MB read
Requests/sec:  62719.71
Transfer/sec:      4.73MB
";

    #[test]
    fn wrk() {
        let expected = LoadToolReport {
            rate: 62_719.71,
            requests: 63_356.0,
            error_rate: 0.0,
            mean_us: Some(327.12),
            quantiles_us: vec![(50.0, 44.0), (75.0, 50.0), (90.0, 69.0), (99.0, 8980.0)],
        };
        assert_eq!(read(WRK), expected);
        let errors =
            "  Socket errors: connect 0, read 1, write 0, timeout 3\n  Non-2xx or 3xx responses: 12\n";
        let failing = read(&WRK.replace("Requests/sec", &format!("{errors}Requests/sec")));
        assert_eq!(failing.error_rate, 16.0 / 63_360.0);
    }

    const H2LOAD: &str = "starting benchmark...
finished in 35.09ms, 56997.92 req/s, 7.83MB/s
requests: 2000 total, 2000 started, 2000 done, 500 succeeded, 1500 failed, 0 errored, 0 timeout
status codes: 500 2xx, 0 3xx, 1500 4xx, 0 5xx
traffic: 281.25KB (288000) total, 74.22KB (76000) headers (space savings 0.00%), 140.63KB (144000) data
                     min         max         mean         sd        +/- sd
time for request:       22us      2.10ms        68us        95us    99.55%
time for connect:       72us       567us       304us       235us    75.00%
";

    #[test]
    fn h2load() {
        let expected = LoadToolReport {
            rate: 56_997.92,
            requests: 2000.0,
            error_rate: 0.75,
            mean_us: Some(68.0),
            quantiles_us: Vec::new(),
        };
        assert_eq!(read(H2LOAD), expected);
        // A server that refuses connections: with a duration, h2load counts no error.
        let refused = read(
            "finished in 1.01s, 0.00 req/s, 0B/s\nrequests: 0 total, 0 started, 0 done, 0 succeeded, 0 failed, \
             0 errored, 0 timeout\ntime for request:        0us         0us         0us         0us     0.00%\n",
        );
        assert_eq!((refused.rate, refused.error_rate, refused.mean_us), (0.0, 1.0, None));
    }

    #[test]
    fn k6() {
        let text = "  \u{2588} TOTAL RESULTS

    HTTP
    http_req_duration..............: avg=98.55\u{b5}s  med=66.97\u{b5}s p(99)=759.72\u{b5}s
      { expected_response:true }...: avg=98.55\u{b5}s  med=66.97\u{b5}s p(99)=759.72\u{b5}s
    http_req_failed................: 25.00%  5 out of 20
    http_reqs......................: 16765  16745.938283/s
";
        let expected = LoadToolReport {
            rate: 16_745.938_283,
            requests: 16_765.0,
            error_rate: 0.25,
            mean_us: Some(98.55),
            quantiles_us: vec![(50.0, 66.97), (99.0, 759.72)],
        };
        assert_eq!(read(text), expected);
    }

    #[test]
    fn a_report_that_cannot_be_read_is_an_error() {
        assert_eq!(load_tool_report("5\n"), None);
        let error = load_tool_report(&WRK.replace("62719.71", "many")).expect("wrk").expect_err("no number");
        assert_eq!(error.to_string(), "line 12: `Requests/sec:`: cannot read `many`");
        let error = load_tool_report(&WRK.replace("requests in", "answers in")).expect("wrk");
        assert!(error.is_err(), "{error:?}");
    }

    proptest! {
        #[test]
        fn any_text(text in ".{0,200}") {
            if let Some(Ok(report)) = load_tool_report(&format!("{text}\nRequests/sec: 5\n{text}")) {
                prop_assert!(report.error_rate.is_finite());
            }
        }

        #[test]
        fn counts_of_wrk(requests in 1u32.., refused in any::<u16>()) {
            let text = WRK.replace("63356", &requests.to_string());
            let text = format!("{text}  Non-2xx or 3xx responses: {refused}\n");
            let report = read(&text);
            prop_assert_eq!(report.requests, f64::from(requests));
            prop_assert_eq!(report.error_rate, f64::from(refused) / f64::from(requests));
        }
    }
}
