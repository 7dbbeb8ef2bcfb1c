//! Limits that a rate has to keep, on latency and on errors, as people write them.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use rxlab_base::serde_as_text;
use rxlab_base::units::{format_duration, parse_duration, parse_share};

/// A figure that an SLO limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limited {
    /// A quantile of the latency (0 to 1, 1 = the longest); the limit is in nanoseconds.
    Latency(f64),
    /// The fraction of requests that fail; the limit is a fraction.
    Errors,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    pub on: Limited,
    /// It must be below this.
    pub below: f64,
}

/// Limits, all of which must hold: `p99<5ms`, or several separated by commas.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct Slo {
    limits: Vec<Limit>,
}

/// Not a list of limits.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid limit `{0}`: expected p50, p90, p99, p99.9 or max below a time (p99<5ms), or errors<0.1%")]
pub struct SloError(String);

const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

impl Slo {
    /// The limits, at least one.
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// True if a limit is on latency.
    pub fn needs_latency(&self) -> bool {
        self.limits.iter().any(|limit| limit.on != Limited::Errors)
    }
}

impl Limit {
    /// Requests needed for a judgement: ten lie beyond the limit.
    pub fn enough(&self) -> f64 {
        match self.on {
            Limited::Latency(q) if q < 1.0 => 10.0 / (1.0 - q),
            Limited::Latency(_) => 100.0,
            Limited::Errors => 10.0 / self.below,
        }
    }
}

impl FromStr for Limit {
    type Err = SloError;

    fn from_str(text: &str) -> Result<Self, SloError> {
        let bad = || SloError(text.to_owned());
        let (name, below) = text.split_once('<').ok_or_else(bad)?;
        let (name, below) = (name.trim(), below.trim());
        if name == "errors" {
            // A number alone may be a count or a percentage.
            let percentage = Some(below).filter(|below| below.ends_with('%')).ok_or_else(bad)?;
            let share = parse_share(percentage).ok().filter(|share| *share >= 1e-6).ok_or_else(bad)?;
            return Ok(Self { on: Limited::Errors, below: share });
        }
        let (_, q) = QUANTILES.iter().find(|(known, _)| *known == name).ok_or_else(bad)?;
        let below = parse_duration(below).ok().filter(|time| !time.is_zero()).ok_or_else(bad)?;
        Ok(Self { on: Limited::Latency(*q), below: below.as_nanos() as f64 })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = match self.on {
            // As written: 100 times a fraction has extra digits.
            Limited::Errors => format!("{}%", (self.below * 1e8).round() / 1e6),
            Limited::Latency(_) => format_duration(std::time::Duration::from_nanos(self.below as u64)),
        };
        write!(f, "{}<{limit}", self.on)
    }
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Limited::Errors => "errors",
            Limited::Latency(q) => {
                QUANTILES.iter().find(|(_, known)| known == q).map_or("latency", |(name, _)| name)
            }
        };
        f.pad(name)
    }
}

impl FromStr for Slo {
    type Err = SloError;

    fn from_str(text: &str) -> Result<Self, SloError> {
        let limits: Vec<Limit> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        // A repeated limit is a mistake.
        let twice =
            |(index, limit): (usize, &Limit)| limits[..index].iter().any(|other| other.on == limit.on);
        if limits.iter().enumerate().any(twice) {
            return Err(SloError(text.to_owned()));
        }
        Ok(Self { limits })
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits: Vec<String> = self.limits.iter().map(Limit::to_string).collect();
        f.write_str(&limits.join(","))
    }
}

serde_as_text!(Slo);

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::{Limited, Slo};

    #[test]
    fn limits_read_as_they_are_written() {
        let slo: Slo = "p99<5ms, errors<0.1%".parse().expect("limits");
        assert_eq!(slo.to_string(), "p99<5ms,errors<0.1%");
        assert_eq!((slo.limits()[0].on, slo.limits()[0].below), (Limited::Latency(0.99), 5e6));
        assert!((slo.limits()[1].below - 0.001).abs() < 1e-12);
        assert!((slo.limits()[0].enough() - 1000.0).abs() < 1e-6);
        for bad in [
            "",
            "p99",
            "p99<5",
            "p98<5ms",
            "errors<1",
            "errors<0%",
            "errors<-1%",
            "p99<0s",
            "p99<1ms,p99<2ms",
            "p99>1ms",
            "errors<nan%",
        ] {
            assert!(bad.parse::<Slo>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_limit_or_none(text in "((p50|p90|p99|p99.9|max|errors|x)<[0-9.]{1,6}(us|ms|s|%|)[,]?){0,3}.{0,3}") {
            if let Ok(slo) = text.parse::<Slo>() {
                prop_assert_eq!(slo.to_string().parse::<Slo>(), Ok(slo));
            }
        }
    }
}
