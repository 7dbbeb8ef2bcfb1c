//! Optional parts of a request: header lines, method, other paths. All are fully checked, so that
//! nothing can break out of its line.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::url::Url;
use rxlab_base::serde_as_text;

/// A header line: `Name: value`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct Header {
    name: String,
    value: String,
}

/// Reason why a header line is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// Not of the form `Name: value`.
    #[error("invalid header `{0}`: must be `Name: value`")]
    Form(String),
    /// The load writes this header by itself.
    #[error("cannot set {0}: it follows from the body")]
    Length(String),
}

impl Header {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn value(&self) -> &str {
        &self.value
    }
}

/// True if all characters are valid in header names and methods.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// True if `text` is a method whose request has a response of its own.
pub(super) fn is_method(text: &str) -> bool {
    // After CONNECT the connection no longer carries HTTP.
    is_token(text) && text != "CONNECT"
}

impl FromStr for Header {
    type Err = HeaderError;

    fn from_str(text: &str) -> Result<Self, HeaderError> {
        let (name, value) = text.split_once(':').ok_or_else(|| HeaderError::Form(text.to_owned()))?;
        let value = value.trim_matches([' ', '\t']);
        if !is_token(name) || value.chars().any(|c| c.is_control() && c != '\t') {
            return Err(HeaderError::Form(text.to_owned()));
        }
        if ["content-length", "transfer-encoding"].contains(&&*name.to_ascii_lowercase()) {
            return Err(HeaderError::Length(name.to_owned()));
        }
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.value)
    }
}

serde_as_text!(Header);

/// A line of a file of paths that is not a path of the target.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "line {line}: invalid `{text}`: must be a path such as /a?b or a URL on the same host and port; \
     for a name server, a name"
)]
pub struct PathError {
    line: usize,
    text: String,
}

/// Parses paths, one per line, as paths or whole URLs with the host and port of `url`; for a name server,
/// names, each alone or with its type (`example.com AAAA`). Empty lines and lines that begin with `#` are
/// skipped.
pub fn parse_paths(text: &str, url: &Url) -> Result<Vec<String>, PathError> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let path = |(number, line): (usize, &str)| {
        let path = url.protocol.definition().listed_path(line, url);
        path.ok_or_else(|| PathError { line: number, text: line.to_owned() })
    };
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).map(path).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{Header, Url, is_method, parse_paths};

    #[test]
    fn header_lines() {
        let text = |line: &str| line.parse::<Header>().map(|header| header.to_string()).ok();
        assert_eq!(text("X-A:  b c ").as_deref(), Some("X-A: b c"));
        assert_eq!(text("X-A:").as_deref(), Some("X-A: "));
        for bad in
            ["X", ": y", "X Y: z", "X: a\r\nY: b", "X: \u{7f}", "Content-length: 4", "Transfer-Encoding: x"]
        {
            assert_eq!(text(bad), None, "{bad:?}");
        }
        assert!(is_method("PATCH") && !is_method("GET /x") && !is_method("") && !is_method("CONNECT"));
    }

    #[test]
    fn lists_of_paths() {
        let url: Url = "http://h:8080/first".parse().expect("a URL");
        let paths = parse_paths("# two\n/a?b\n\n  http://h:8080/c  \nhttp://h:8080\n", &url);
        assert_eq!(paths, Ok(vec!["/a?b".to_owned(), "/c".to_owned(), "/".to_owned()]));
        for bad in ["a", "http://other:8080/", "http://h/", "udp://h:8080", "https://h:8080/", "/a b"] {
            assert!(parse_paths(bad, &url).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn lists_of_names() {
        let url: Url = "dns://h".parse().expect("a URL");
        let paths = parse_paths("# two\na.example\n\n b.example  AAAA\n", &url);
        assert_eq!(paths, Ok(vec!["/a.example".to_owned(), "/b.example?type=AAAA".to_owned()]));
        assert!(parse_paths("/a.example", &url).is_err() && parse_paths("a b c", &url).is_err());
    }

    proptest! {
        #[test]
        fn a_header_stays_on_its_line(text in any::<String>()) {
            if let Ok(header) = text.parse::<Header>() {
                let line = header.to_string();
                prop_assert!(!line.contains(['\r', '\n']));
                prop_assert_eq!(line.parse::<Header>(), Ok(header));
            }
        }

        #[test]
        fn any_list_parses_or_errs(text in any::<String>()) {
            let url: Url = "http://h/".parse().expect("a URL");
            for path in parse_paths(&text, &url).unwrap_or_default() {
                prop_assert!(path.starts_with('/') && path.bytes().all(|b| b.is_ascii_graphic()));
            }
        }
    }
}
