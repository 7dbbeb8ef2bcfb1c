//! Requests that differ in more than their path, as files of vegeta's targets have them.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::body::Body;
use super::header::{Header, is_method};
use super::url::Url;

/// One of the requests that a load sends in turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Method.
    pub method: String,
    /// Path and query, starting with `/`.
    pub path: String,
    /// Header lines in addition to those of the load, which they replace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Header>,
    /// Body.
    #[serde(default, skip_serializing_if = "Body::is_empty")]
    pub body: Body,
}

/// A line of a file of targets that is not part of one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {why}")]
pub struct TargetError {
    line: usize,
    why: String,
}

/// A target in vegeta's JSON format.
#[derive(Deserialize)]
struct Written {
    method: String,
    url: String,
    #[serde(default)]
    header: BTreeMap<String, Vec<String>>,
    /// In base64.
    #[serde(default)]
    body: String,
}

/// True for `GET http://...`: a header has a colon behind its name.
fn begins(line: &str) -> bool {
    line.split_once([' ', '\t']).is_some_and(|(method, _)| method.bytes().all(|b| b.is_ascii_uppercase()))
}

/// Parses vegeta's targets, in its HTTP format (`METHOD URL`, then header lines and at most one `@FILE` with the body) or
/// its JSON format (one object a line). URLs have the host and port of `url`, or are paths. Empty lines and lines that
/// begin with `#` are skipped. `read` returns the contents of a file, or why it cannot.
pub fn parse_targets(
    text: &str,
    url: &Url,
    read: impl Fn(&str) -> Result<Body, String>,
) -> Result<Vec<Target>, TargetError> {
    let mut targets: Vec<Target> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let failed = |why: String| TargetError { line: index + 1, why };
        let target = |method: &str, at: &str| {
            let path = url.protocol.definition().listed_path(at.trim(), url);
            let path = path
                .ok_or_else(|| failed(format!("`{at}` is not a path or a URL on the same host and port")))?;
            let method = Some(method.to_owned()).filter(|method| is_method(method));
            let method = method.ok_or_else(|| failed("invalid method".to_owned()))?;
            Ok(Target { method, path, headers: Vec::new(), body: Body::default() })
        };
        let header = |text: &str| text.parse::<Header>().map_err(|error| failed(error.to_string()));
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with('{') {
            let written: Written = serde_json::from_str(line).map_err(|error| failed(error.to_string()))?;
            let mut target = target(&written.method, &written.url)?;
            for (name, values) in &written.header {
                let lines = values.iter().map(|value| header(&format!("{name}: {value}")));
                target.headers.extend(lines.collect::<Result<Vec<_>, _>>()?);
            }
            let body = BASE64_STANDARD.decode(&written.body);
            target.body = body.map_err(|error| failed(format!("invalid body: {error}")))?.into();
            targets.push(target);
        } else if begins(line) {
            let (method, at) = line.split_once([' ', '\t']).unwrap_or((line, ""));
            targets.push(target(method, at)?);
        } else {
            let first = || failed(format!("`{line}` is not METHOD URL"));
            let target = targets.last_mut().ok_or_else(first)?;
            match line.strip_prefix('@') {
                Some(path) => target.body = read(path.trim()).map_err(failed)?,
                None => target.headers.push(header(line)?),
            }
        }
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, proptest};

    use super::{Target, TargetError, Url, parse_targets};

    fn parse(text: &str) -> Result<Vec<Target>, TargetError> {
        let url: Url = "http://goku:9090/".parse().expect("a URL");
        parse_targets(text, &url, |path| {
            if path == "body" { Ok("a body".into()) } else { Err(format!("{path}: no such file")) }
        })
    }

    /// The examples of vegeta's manual.
    #[test]
    fn targets_of_vegeta() {
        let text = "# comment\nGET http://goku:9090/path/to/dragon?item=ball\nX-Account-ID: 8675309\n\n\
                    POST http://goku:9090/things\nX-Account-ID: 8675309\nContent-Type: text/plain\n@body\nDELETE /x\n";
        let targets = parse(text).expect("targets");
        let methods: Vec<_> = targets.iter().map(|target| (&*target.method, &*target.path)).collect();
        assert_eq!(methods, [("GET", "/path/to/dragon?item=ball"), ("POST", "/things"), ("DELETE", "/x")]);
        assert_eq!([0, 1, 2].map(|n| targets[n].headers.len()), [1, 2, 0]);
        assert_eq!((targets[0].body.bytes(), targets[1].body.bytes()), (&b""[..], &b"a body"[..]));
        let json =
            r#"{"method":"POST","url":"http://goku:9090/a","body":"aGVsbG8=","header":{"X-A":["1","2"]}}"#;
        let target = &parse(json).expect("a target")[0];
        assert_eq!((target.headers.len(), target.body.bytes()), (2, &b"hello"[..]));
        for (bad, line) in [
            ("X-A: 1", 1),
            ("GET http://other/\n", 1),
            ("GET /a\n\n@nowhere", 3),
            ("GET /a\nContent-Length: 3", 2),
            ("GET /a\nno header", 2),
            ("CONNECT /a", 1),
            ("{\"method\":1}", 1),
            ("{\"method\":\"GET\",\"url\":\"/a\",\"body\":\"!\"}", 1),
        ] {
            assert_eq!(parse(bad).map_err(|error| error.line), Err(line), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_targets_or_none(text in "((GET|POST|get) (/|http://goku:9090)[a-z]{0,3}|X-A: b|@body|#|\\{)?\n?.{0,5}", more in any::<String>()) {
            for target in parse(&(text + &more)).unwrap_or_default() {
                prop_assert!(target.path.starts_with('/'));
            }
        }
    }
}
