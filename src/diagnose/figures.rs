//! Figures as text. No judgement.

use crate::units::grouped;

/// A fraction as whole percent: `0.957` is `96 %`.
pub fn percent(fraction: f64) -> String {
    format!("{:.0} %", fraction * 100.0)
}

/// A rate with thousands separators, and one decimal below 10: `45,210`, `0.4`.
pub fn count(rate: f64) -> String {
    if rate < 9.95 && rate.fract() != 0.0 {
        return format!("{rate:.1}");
    }
    grouped(rate.round() as u64)
}

/// A multiple: `1.2x`, `12x`, and `over 99x` where a figure would be false precision.
pub fn times(factor: f64) -> String {
    match factor {
        f if f > 99.0 => "over 99x".to_owned(),
        f if f >= 9.95 => format!("{f:.0}x"),
        f => format!("{f:.1}x"),
    }
}

/// `1 RX queue`, `2 RX queues`.
pub fn plural(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::{count, percent, plural, times};

    #[test]
    fn figures_read_well() {
        assert_eq!(percent(0.957), "96 %");
        assert_eq!(
            [count(0.0), count(0.4), count(9.97), count(999.6), count(1_234_567.0)].join(" "),
            "0 0.4 10 1,000 1,234,567"
        );
        assert_eq!([times(1.23), times(12.3), times(f64::INFINITY)].join(" "), "1.2x 12x over 99x");
        assert_eq!([plural(1, "CPU"), plural(7, "CPU")].join(" "), "1 CPU 7 CPUs");
    }
}
