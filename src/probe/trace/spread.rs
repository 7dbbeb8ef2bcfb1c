//! Many lengths of time in little memory.

use hdrhistogram::Histogram;

use super::summary::Spread;

/// Lengths, kept as a count of each.
#[derive(Debug)]
pub(super) struct Lengths {
    histogram: Histogram<u64>,
    longest: u64,
}

impl Default for Lengths {
    fn default() -> Self {
        // Grows with the values.
        let histogram = Histogram::new(2).expect("2 digits are among those that it can keep");
        Self { histogram, longest: 0 }
    }
}

impl Lengths {
    /// Takes one, in nanoseconds.
    pub(super) fn add(&mut self, ns: u64) {
        self.longest = self.longest.max(ns);
        // Clamped: anything longer than a year counts as a year.
        self.histogram.record(ns.min(1 << 55)).expect("the histogram grows");
    }

    /// The same, if the length is known.
    pub(super) fn add_known(&mut self, ns: Option<u64>) {
        if let Some(ns) = ns {
            self.add(ns);
        }
    }

    /// Their distribution.
    pub(super) fn spread(&self) -> Spread {
        let at = |quantile| self.histogram.value_at_quantile(quantile).min(self.longest);
        Spread { count: self.histogram.len(), p50_ns: at(0.5), p99_ns: at(0.99), max_ns: self.longest }
    }
}

#[cfg(test)]
mod tests {
    use super::{Lengths, Spread};

    #[test]
    fn a_hundred_lengths() {
        let mut lengths = Lengths::default();
        (1..=100).for_each(|length| lengths.add(length * 1_000));
        let spread = lengths.spread();
        assert_eq!((spread.count, spread.max_ns), (100, 100_000));
        assert!((49_500..=50_500).contains(&spread.p50_ns), "{spread:?}");
        assert!((98_000..=100_000).contains(&spread.p99_ns), "{spread:?}");
    }

    #[test]
    fn none_and_the_longest_there_is() {
        assert_eq!(Lengths::default().spread(), Spread::default());
        let mut lengths = Lengths::default();
        lengths.add(u64::MAX);
        assert_eq!(lengths.spread().max_ns, u64::MAX);
    }
}
