//! Histograms of nanoseconds: all with the same bounds, so that any two add up exactly.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use super::clock::{Nanos, SECOND};

const SHORTEST: Nanos = 64;
const LONGEST: Nanos = 3600 * SECOND;
const DIGITS: u8 = 3;

/// Nanoseconds with three significant digits, from 64 ns to one hour; longer counts as one hour.
pub(super) fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(SHORTEST, LONGEST, DIGITS).expect("the bounds are valid")
}

/// The quantile `q` (0 to 1), or `None` when there are fewer than `100 / (1 - q)` values to tell it
/// from: a p99.9 out of 500 requests is the maximum under another name.
pub fn quantile(histogram: &Histogram<u64>, q: f64) -> Option<u64> {
    // The product, not the quotient: 100 / (1 - 0.99) is 10000.000000000002.
    let enough = histogram.len() as f64 * (1.0 - q) >= 100.0 - 1e-6;
    (enough && !histogram.is_empty()).then(|| histogram.value_at_quantile(q))
}

/// Adds the counts of `more`.
pub(super) fn add(sum: &mut Histogram<u64>, more: &Histogram<u64>) {
    sum.add(more).expect("all histograms have the same bounds");
}

/// A histogram as the tools of HdrHistogram exchange it: version 2, compressed, in base64.
pub(super) fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).expect("a vector takes what is written");
    STANDARD.encode(bytes)
}

/// Reads what [`encode`] wrote; `None` when it is something else, or has other bounds.
pub(super) fn decode(text: &str) -> Option<Histogram<u64>> {
    let bytes = STANDARD.decode(text).ok()?;
    let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).ok()?;
    let bounds = (histogram.low(), histogram.high(), histogram.sigfig());
    (bounds == (SHORTEST, LONGEST, DIGITS)).then_some(histogram)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{Histogram, add, decode, encode, new_histogram, quantile};

    fn of(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut histogram = new_histogram();
        values.into_iter().for_each(|value| histogram.saturating_record(value));
        histogram
    }

    #[test]
    fn a_quantile_needs_100_requests_beyond_it() {
        let with = |n: u64| of(0..n);
        assert_eq!(quantile(&with(9_999), 0.99), None);
        assert!(quantile(&with(10_000), 0.99).is_some());
        assert_eq!(quantile(&with(10_000), 0.999), None);
        assert_eq!(quantile(&with(199), 0.5), None);
        assert!(quantile(&with(200), 0.5).is_some());
        assert_eq!(quantile(&with(0), 0.0), None);
    }

    #[test]
    fn what_is_no_histogram_of_ours_is_refused() {
        assert_eq!(decode(""), None);
        assert_eq!(decode("no base64!"), None);
        assert_eq!(decode("aGVsbG8="), None);
        let other = Histogram::new_with_bounds(1, 1000, 2).expect("valid bounds");
        assert_eq!(decode(&encode(&other)), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(values in proptest::collection::vec(0u64..u64::MAX, 0..200)) {
            let histogram = of(values);
            prop_assert_eq!(decode(&encode(&histogram)), Some(histogram));
        }

        #[test]
        fn any_text_is_a_histogram_or_none(text in "[A-Za-z0-9+/]{0,80}={0,2}", cut in any::<usize>()) {
            let _ = decode(&text);
            let whole = encode(&of(0..50));
            let _ = decode(&whole[..cut % whole.len()]);
        }

        /// Two written and read are as good as one.
        #[test]
        fn sums_are_exact(a in proptest::collection::vec(1u64..1 << 40, 0..100), b in proptest::collection::vec(1u64..1 << 40, 0..100)) {
            let mut sum = decode(&encode(&of(a.clone()))).expect("ours");
            add(&mut sum, &decode(&encode(&of(b.clone()))).expect("ours"));
            prop_assert_eq!(sum, of(a.into_iter().chain(b)));
        }
    }
}
