//! The scale of heatmaps, on screen and on paper.

/// Colours of the scale, from none to most.
pub const LEVELS: usize = 8;

/// The colours `--l0` to `--l7` of pages, in light and in dark.
pub const CSS: &str = include_str!("heat.css");

/// Level of `value` on a square-root scale up to `max`, so that a hotspot spread over many CPUs remains visible.
pub fn level(value: f64, max: f64) -> usize {
    (((value / max).max(0.0).sqrt() * LEVELS as f64) as usize).min(LEVELS - 1)
}

/// The smallest part of the maximum that has this level.
pub fn least(level: usize) -> f64 {
    (level as f64 / LEVELS as f64).powi(2)
}

#[cfg(test)]
mod tests {
    use super::{LEVELS, least, level};

    #[test]
    fn each_level_begins_at_its_least_value() {
        for each in 0..LEVELS {
            assert_eq!(level(least(each) + 1e-9, 1.0), each);
        }
        assert_eq!((level(-0.1, 1.0), level(1.0, 1.0), level(0.9, 0.45)), (0, LEVELS - 1, LEVELS - 1));
    }
}
