//! Response codes of name servers (RFC 1035 4.1.1, RFC 2136, RFC 6895), and those that count as good.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use rxlab_base::serde_as_text;
use rxlab_base::units::digits;

/// Names by number.
const NAMES: [&str; 11] = [
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET",
    "NOTAUTH", "NOTZONE",
];
/// Numbers in a header have four bits.
const COUNT: u16 = 16;

/// The name of a code; without one its number.
pub(super) fn name(rcode: u16) -> String {
    NAMES.get(usize::from(rcode)).map_or_else(|| format!("RCODE{rcode}"), |name| (*name).to_owned())
}

/// Codes of good responses: `NOERROR`, or several separated by commas.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct Rcodes {
    /// Bit N stands for code N.
    bits: u16,
}

/// Not a list of codes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid response code `{0}`: must be NOERROR, NXDOMAIN, RCODE9, or several separated by commas")]
pub struct RcodeError(String);

impl Rcodes {
    /// True if `rcode` is one of them.
    pub fn has(&self, rcode: u16) -> bool {
        rcode < COUNT && self.bits & 1 << rcode != 0
    }

    /// True for the default, `NOERROR`.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Rcodes {
    fn default() -> Self {
        Self { bits: 1 }
    }
}

impl FromStr for Rcodes {
    type Err = RcodeError;

    fn from_str(text: &str) -> Result<Self, RcodeError> {
        let code = |part: &str| {
            let part = part.trim().to_ascii_uppercase();
            let known = NAMES.iter().position(|name| *name == part).map(|at| at as u16);
            known.or_else(|| part.strip_prefix("RCODE").and_then(digits)).filter(|code| *code < COUNT)
        };
        let codes: Option<Vec<u16>> = text.split(',').map(code).collect();
        let codes = codes.ok_or_else(|| RcodeError(text.to_owned()))?;
        Ok(Self { bits: codes.into_iter().fold(0, |bits, code| bits | 1 << code) })
    }
}

impl fmt::Display for Rcodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let codes = (0..COUNT).filter(|code| self.has(*code)).map(name);
        f.write_str(&codes.collect::<Vec<_>>().join(","))
    }
}

serde_as_text!(Rcodes);

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::Rcodes;

    #[test]
    fn codes_read_as_they_are_written() {
        let some: Rcodes = "nxdomain, NOERROR,RCODE15".parse().expect("codes");
        assert_eq!(some.to_string(), "NOERROR,NXDOMAIN,RCODE15");
        assert!(some.has(0) && some.has(3) && some.has(15) && !some.has(2) && !some.has(16));
        assert!(Rcodes::default().is_default());
        for bad in ["", "x", "RCODE16", "RCODE", "NOERROR,", "0"] {
            assert!(bad.parse::<Rcodes>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_codes_or_none(text in "((NX|NOERROR|RCODE1?[0-9]|NXDOMAIN),?){0,4}.{0,2}") {
            if let Ok(codes) = text.parse::<Rcodes>() {
                prop_assert_eq!(codes.to_string().parse::<Rcodes>(), Ok(codes));
            }
        }
    }
}
