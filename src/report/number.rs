//! Readable numbers: grouped thousands, scaled rates, effects with their interval.
//!
//! Plain ASCII, so that terminals, logs and diffs show the same.

use crate::trial::record::Effect;
pub use crate::units::grouped;

/// A measured value with about four significant digits: `0.012`, `3.25`, `99.8`, `270,123`, `18.16 M`. Values that
/// are not finite are `unknown`.
pub fn value(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => "unknown".to_owned(),
        0.0 => "0".to_owned(),
        _ if !(0.0005..1e15).contains(&size) => format!("{value:.1e}"),
        _ if size >= 9_999_999.5 => scaled(value),
        _ if size >= 999.95 => fixed(value, 0),
        _ if size >= 9.995 => fixed(value, 1),
        _ if size >= 0.9995 => fixed(value, 2),
        _ => fixed(value, 3),
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

/// A factor to one decimal: `2.1`.
pub fn times(factor: f64) -> String {
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

/// A change with its interval: `-51 % [-53, -49]`, or `no bound yet` if the interval has none.
pub fn effect(effect: &Effect) -> String {
    if !effect.mid.is_finite() {
        return "unknown".to_owned();
    }
    let estimate = estimate(effect);
    match interval(effect) {
        Some(interval) => format!("{estimate} {interval}"),
        None => format!("{estimate}, no bound yet"),
    }
}

/// Only the estimate of an effect, with the decimals that its interval supports: `-51 %`.
pub fn estimate(effect: &Effect) -> String {
    if effect.mid.is_finite() {
        format!("{} %", signed(effect.mid * 100.0, effect_decimals(effect)))
    } else {
        "unknown".to_owned()
    }
}

/// Only the interval of an effect, in percent: `[-53, -49]`; `None` if neither end has a bound.
pub fn interval(effect: &Effect) -> Option<String> {
    let decimals = effect_decimals(effect);
    let low = has_low(effect).then(|| signed(effect.low * 100.0, decimals));
    let high = effect.high.is_finite().then(|| signed(effect.high * 100.0, decimals));
    match (low, high) {
        (None, None) => None,
        (low, high) => {
            let end = |bound: Option<String>| bound.unwrap_or_else(|| "no bound".to_owned());
            Some(format!("[{}, {}]", end(low), end(high)))
        }
    }
}

/// True if an effect has a lower bound; -1 in a record means none.
pub fn has_low(effect: &Effect) -> bool {
    effect.low.is_finite() && effect.low > -1.0
}

/// Decimals that the interval supports: more for a narrow one, none for a wide one of large values.
fn effect_decimals(effect: &Effect) -> usize {
    let bounded = has_low(effect) && effect.high.is_finite();
    let (low, high) = if bounded { (effect.low, effect.high) } else { (effect.mid, effect.mid) };
    let largest = [low, effect.mid, high].into_iter().map(|end| (end * 100.0).abs()).fold(0.0, f64::max);
    let width = (high - low) * 100.0;
    match bounded {
        true if width < 0.2 && largest < 10.0 => 2,
        true if width < 2.5 => 1,
        _ => usize::from(largest < 9.95),
    }
}

fn signed(value: f64, decimals: usize) -> String {
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

#[cfg(test)]
mod tests {
    use super::{change, effect, rate, share, value};
    use crate::trial::record::Effect;

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
    fn an_effect_has_the_decimals_its_interval_supports() {
        let text = |mid, low, high| effect(&Effect { mid, low, high });
        assert_eq!(text(-0.51, -0.53, -0.49), "-51 % [-53, -49]");
        assert_eq!(text(0.006, -0.002, 0.014), "+0.6 % [-0.2, +1.4]");
        assert_eq!(text(0.123, 0.118, 0.128), "+12.3 % [+11.8, +12.8]");
        assert_eq!(text(0.0004, -0.0001, 0.0009), "+0.04 % [-0.01, +0.09]");
        assert_eq!(text(12.0, 9.0, 15.5), "+1,200 % [+900, +1,550]");
    }

    #[test]
    fn a_missing_bound_is_named() {
        let text = |mid, low, high| effect(&Effect { mid, low, high });
        assert_eq!(text(-0.51, -1.0, f64::INFINITY), "-51 %, no bound yet");
        assert_eq!(text(0.05, 0.01, f64::INFINITY), "+5.0 % [+1.0, no bound]");
        assert_eq!(text(f64::NAN, -1.0, f64::INFINITY), "unknown");
    }
}
