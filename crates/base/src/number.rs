//! Figures as text: grouped thousands, percent, scaled rates, multiples, plurals.
//!
//! Plain ASCII, so that terminals, logs and diffs show the same.

pub use crate::units::{CpuMask, grouped};

/// A measured value with about four significant digits: `0.012`, `3.25`, `99.8`, `270,123`, `18.16 M`. Values that
/// are not finite are `unknown`.
pub fn value(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        "unknown".to_owned()
    } else if size == 0.0 {
        "0".to_owned()
    } else if !(0.0005..1e15).contains(&size) {
        format!("{value:.1e}")
    } else if size >= 9_999_999.5 {
        scaled(value)
    } else {
        let decimals = match size {
            999.95.. => 0,
            9.995.. => 1,
            0.9995.. => 2,
            _ => 3,
        };
        fixed(value, decimals)
    }
}

/// Events a second, scaled: `950/s`, `12.3 k/s`, `1.2 M/s`.
pub fn rate(per_second: f64) -> String {
    if !per_second.is_finite() {
        return "unknown".to_owned();
    }
    let (divisor, prefix) = match per_second.abs() {
        size if size >= 999.95e6 => (1e9, " G"),
        size if size >= 999.95e3 => (1e6, " M"),
        size if size >= 999.5 => (1e3, " k"),
        _ => (1.0, ""),
    };
    let decimals = usize::from(!prefix.is_empty());
    format!("{}{prefix}/s", fixed(per_second / divisor, decimals))
}

/// A share or a margin, without a sign: `0.034` is `3.4 %`, `0.51` is `51 %`.
pub fn share(fraction: f64) -> String {
    if !fraction.is_finite() {
        return "unknown".to_owned();
    }
    let percent = fraction * 100.0;
    let whole = percent.abs() >= 9.95 || (percent - percent.round()).abs() < 0.005;
    format!("{} %", fixed(percent, usize::from(!whole)))
}

/// A number to one decimal: `2.1`.
pub fn decimal(factor: f64) -> String {
    if factor.is_finite() { fixed(factor, 1) } else { "unknown".to_owned() }
}

/// A change, with its sign: `0.006` is `+0.6 %`.
pub fn change(fraction: f64) -> String {
    if !fraction.is_finite() {
        return "unknown".to_owned();
    }
    let percent = fraction * 100.0;
    format!("{} %", signed(percent, usize::from(percent.abs() < 9.95)))
}

/// A label of an axis, from percent, as short as possible: `+2.5 %`, `-50 %`, `+900 %`.
pub fn tick(percent: f64) -> String {
    let whole = (percent - percent.round()).abs() < 0.005;
    format!("{} %", signed(percent, usize::from(!whole)))
}

/// With its sign, `+` included, and fixed decimals: `+1,200`; a value that rounds to 0 has no sign.
pub fn signed(value: f64, decimals: usize) -> String {
    let text = fixed(value, decimals);
    let zero = !text.contains(|c: char| c.is_ascii_digit() && c != '0');
    if zero || value < 0.0 { text } else { format!("+{text}") }
}

/// Fixed decimals with grouped thousands; never `-0`.
fn fixed(value: f64, decimals: usize) -> String {
    if value.abs() >= 1e15 {
        return format!("{value:.1e}");
    }
    let plain = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = plain.split_once('.').map_or((plain.as_str(), ""), |parts| parts);
    // Below 1e15 the whole part always fits; values that round to 0 lose their sign.
    let mut text = grouped(whole.parse().unwrap_or(u64::MAX));
    if !fraction.is_empty() {
        text = format!("{text}.{fraction}");
    }
    let zero = !text.contains(|c: char| c.is_ascii_digit() && c != '0');
    if value < 0.0 && !zero { format!("-{text}") } else { text }
}

fn scaled(value: f64) -> String {
    let (divisor, prefix) = match value.abs() {
        size if size >= 999.95e9 => (1e12, "T"),
        size if size >= 999.95e6 => (1e9, "G"),
        _ => (1e6, "M"),
    };
    format!("{} {prefix}", fixed(value / divisor, 2))
}

/// A fraction as whole percent: `0.957` is `96 %`.
pub fn percent(fraction: f64) -> String {
    format!("{:.0} %", fraction * 100.0)
}

/// A fraction as percent with one decimal: `0.031` is `3.1 %`.
pub fn precise_percent(fraction: f64) -> String {
    format!("{:.1} %", fraction * 100.0)
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

/// A length of time: `8.5 s`, `50 s`, `1 min 50 s`, `2 h 5 min`.
pub fn time(seconds: f64) -> String {
    if seconds < 9.95 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    let with = |rest: u64, unit: &str| if rest > 0 { format!(" {rest} {unit}") } else { String::new() };
    match (hours, minutes) {
        (0, 0) => format!("{rest} s"),
        (0, _) => format!("{minutes} min{}", with(rest, "s")),
        _ => format!("{} h{}", grouped(hours), with(minutes, "min")),
    }
}

/// An estimate of a time, its minutes rounded up: `about 40 s`, `about 6 min`, `about 4.2 h`.
pub fn about(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("about {s:.0} s"),
        s if s < 7200.0 => format!("about {:.0} min", (s / 60.0).ceil()),
        s if s < 35_820.0 => format!("about {:.1} h", s / 3600.0),
        s => format!("about {} h", grouped((s / 3600.0).round() as u64)),
    }
}

/// `CPU 3`, `CPUs 0-3`.
pub fn cpus_text(cpus: &CpuMask) -> String {
    if cpus.len() == 1 { format!("CPU {cpus}") } else { format!("CPUs {cpus}") }
}

/// `1 RX queue`, `2,000 RX queues`.
pub fn plural(number: usize, thing: &str) -> String {
    format!("{} {thing}{}", grouped(number as u64), if number == 1 { "" } else { "s" })
}

/// `text` with its first letter in upper case.
pub fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().to_string() + letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::{about, change, count, percent, plural, precise_percent, rate, share, time, times, value};

    #[test]
    fn times_have_two_units_and_estimates_one() {
        for (seconds, text) in [
            (0.4, "0.4 s"),
            (50.2, "50 s"),
            (60.0, "1 min"),
            (110.0, "1 min 50 s"),
            (3600.0, "1 h"),
            (7_530.0, "2 h 5 min"),
        ] {
            assert_eq!(time(seconds), text);
        }
        for (seconds, text) in [
            (40.4, "about 40 s"),
            (360.0, "about 6 min"),
            (361.0, "about 7 min"),
            (15_120.0, "about 4.2 h"),
            (1e6, "about 278 h"),
        ] {
            assert_eq!(about(seconds), text);
        }
    }

    #[test]
    fn values_keep_four_digits_or_so() {
        for (number, text) in [
            (0.0, "0"),
            (0.0123, "0.012"),
            (3.2549, "3.25"),
            (99.84, "99.8"),
            (999.99, "1,000"),
            (270_123.4, "270,123"),
            (18_164_736.0, "18.16 M"),
            (-2_500.0, "-2,500"),
            (f64::NAN, "unknown"),
            (1e300, "1.0e300"),
        ] {
            assert_eq!(value(number), text);
        }
    }

    #[test]
    fn rates_are_scaled() {
        for (number, text) in
            [(950.0, "950/s"), (12_345.0, "12.3 k/s"), (1.25e6, "1.2 M/s"), (999.7, "1.0 k/s")]
        {
            assert_eq!(rate(number), text);
        }
    }

    #[test]
    fn shares_and_changes() {
        assert_eq!(share(0.03), "3 %");
        assert_eq!(share(0.034), "3.4 %");
        assert_eq!(share(0.5123), "51 %");
        assert_eq!(change(0.006), "+0.6 %");
        assert_eq!(change(-0.512), "-51 %");
        assert_eq!(change(-0.0001), "0.0 %");
    }

    #[test]
    fn figures_read_well() {
        assert_eq!((percent(0.957), precise_percent(0.031)), ("96 %".to_owned(), "3.1 %".to_owned()));
        assert_eq!(
            [count(0.0), count(0.4), count(9.97), count(999.6), count(1_234_567.0)].join(" "),
            "0 0.4 10 1,000 1,234,567"
        );
        assert_eq!([times(1.23), times(12.3), times(f64::INFINITY)].join(" "), "1.2x 12x over 99x");
        assert_eq!([plural(1, "CPU"), plural(7, "CPU")].join(" "), "1 CPU 7 CPUs");
    }
}
