//! What a good body has in it: a match of a regular expression, or a value at a JSON pointer (RFC 6901).

use std::fmt;
use std::str::FromStr;

use regex::bytes::Regex;
use serde_json::Value;
use thiserror::Error;

use rxlab_base::serde_as_text;

/// A regular expression that matches somewhere in a body.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct Pattern(Regex);

/// Not a regular expression.
#[derive(Debug, Clone, Error)]
#[error("invalid regular expression: {0}")]
pub struct PatternError(String);

impl Pattern {
    /// Why `body` does not match; `None` if it does.
    pub(super) fn failure(&self, body: &[u8]) -> Option<String> {
        (!self.0.is_match(body)).then(|| "no match in".to_owned())
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        // The library's message is a drawing of several lines.
        let short =
            |error: regex::Error| error.to_string().lines().last().unwrap_or_default().trim().to_owned();
        Regex::new(text).map(Self).map_err(|error| PatternError(short(error)))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

serde_as_text!(Pattern);

/// A value in a JSON body: `/a/0/b=VALUE`, or `/a/0/b` for any.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct Pointed {
    /// Empty for the whole body.
    pointer: String,
    value: Option<Value>,
}

/// Not a pointer with a value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid JSON pointer `{0}`: must be /KEY/... or /KEY/...=VALUE, such as /status=\"ok\"")]
pub struct PointedError(String);

impl Pointed {
    /// Why `body` does not have the value; `None` if it has.
    pub(super) fn failure(&self, body: &[u8]) -> Option<String> {
        let Ok(body) = serde_json::from_slice::<Value>(body) else { return Some("not JSON:".to_owned()) };
        match (body.pointer(&self.pointer), &self.value) {
            (None, _) => Some(format!("no {} in", self.pointer)),
            (Some(found), Some(value)) if found != value => Some(format!("another {} in", self.pointer)),
            _ => None,
        }
    }
}

impl FromStr for Pointed {
    type Err = PointedError;

    fn from_str(text: &str) -> Result<Self, PointedError> {
        let (pointer, value) = match text.split_once('=') {
            // What is no JSON is a string, so that a shell needs no quotes in quotes.
            Some((pointer, value)) => {
                let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
                (pointer, Some(value))
            }
            None => (text, None),
        };
        let is_pointer = pointer.is_empty() && value.is_some() || pointer.starts_with('/');
        let pointer = pointer.to_owned();
        is_pointer.then_some(Self { pointer, value }).ok_or_else(|| PointedError(text.to_owned()))
    }
}

impl fmt::Display for Pointed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pointer)?;
        self.value.as_ref().map_or(Ok(()), |value| write!(f, "={value}"))
    }
}

serde_as_text!(Pointed);

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::{Pattern, Pointed};

    #[test]
    fn a_pattern_matches_somewhere() {
        let pattern: Pattern = "ok|fine$".parse().expect("a pattern");
        assert_eq!(pattern.failure(b"not ok\xff"), None);
        assert!(pattern.failure(b"fine, no").is_some());
        let error = "(a".parse::<Pattern>().expect_err("not closed").to_string();
        assert!(error.starts_with("invalid regular expression: ") && !error.contains('\n'), "{error}");
    }

    #[test]
    fn a_pointer_finds_a_value() {
        let body = br#"{"status": "ok", "a": [1, {"b": true}], "x~y": null}"#;
        for (text, reason) in [
            ("/status=ok", None),
            ("/status=\"ok\"", None),
            ("/a/1/b=true", None),
            ("/a/0=1", None),
            ("/x~0y", None),
            ("/a/0=2", Some("another /a/0 in")),
            ("/status=fine", Some("another /status in")),
            ("/b", Some("no /b in")),
        ] {
            let pointed: Pointed = text.parse().expect("a pointer");
            assert_eq!(pointed.failure(body).as_deref(), reason, "{text}");
        }
        let any: Pointed = "/b".parse().expect("a pointer");
        assert_eq!(any.failure(b"<html>").as_deref(), Some("not JSON:"));
        assert_eq!("=5".parse::<Pointed>().expect("a pointer").failure(b"5"), None, "the whole body");
        for bad in ["", "a", "a=b"] {
            assert!(bad.parse::<Pointed>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_pointer_or_none(text in "/?[a-c/~=\"0-9{}.]{0,12}") {
            if let Ok(pointed) = text.parse::<Pointed>() {
                prop_assert_eq!(pointed.to_string().parse::<Pointed>(), Ok(pointed));
            }
        }
    }
}
