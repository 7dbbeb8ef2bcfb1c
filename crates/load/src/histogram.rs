//! Histograms of nanoseconds, all with the same bounds, so that any two add up exactly.

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

/// Values beyond a quantile with fewer of which it is not exact.
const EXACT: f64 = 100.0;

/// Quantile `q` (0 to 1), or `None` with fewer than a hundred values beyond it.
pub fn quantile(histogram: &Histogram<u64>, q: f64) -> Option<u64> {
    quantile_of_few(histogram, q).and_then(|(value, is_exact)| is_exact.then_some(value))
}

/// Quantile `q` (0 to 1), and if at least a hundred values lie beyond it; `None` without values. See [`is_told`].
pub(super) fn quantile_of_few(histogram: &Histogram<u64>, q: f64) -> Option<(u64, bool)> {
    // The product, not the quotient: 100 / (1 - 0.99) is 10000.000000000002.
    let beyond = histogram.len() as f64 * (1.0 - q) + 1e-6;
    (!histogram.is_empty()).then(|| (histogram.value_at_quantile(q), beyond >= EXACT))
}

/// Values beyond a quantile with fewer of which it is the maximum under another name.
const MIN_BEYOND: f64 = 10.0;

/// True if quantile `q` of `count` values differs from the maximum by enough values to be shown without a mark.
pub(super) fn is_told(count: u64, q: f64) -> bool {
    count as f64 * (1.0 - q) + 1e-6 >= MIN_BEYOND
}

/// Joins latencies of `answered` requests and ages of `unanswered` ones.
pub(super) fn together(answered: &Histogram<u64>, unanswered: &Histogram<u64>) -> Histogram<u64> {
    let mut all = answered.clone();
    add(&mut all, unanswered);
    all
}

/// Quantile of the answered requests that an unanswered one has to exceed to count as unusual.
const USUAL: f64 = 0.9;
/// Factor by which a quantile may grow and still count as known.
const KNOWN: f64 = 1.1;

/// True if quantile `q` of `answered` and `unanswered` requests together is only a lower bound: it would be
/// more than a tenth higher if no request older than nine tenths of the answered ones were ever answered.
/// Younger ones are in flight at the end of any load.
pub(super) fn is_lower_bound(answered: &Histogram<u64>, unanswered: &Histogram<u64>, q: f64) -> bool {
    if unanswered.is_empty() {
        return false;
    }
    let usual = if answered.is_empty() { 0 } else { answered.value_at_quantile(USUAL) };
    let mut finite = answered.clone();
    for age in unanswered.iter_recorded().filter(|age| age.value_iterated_to() <= usual) {
        finite.saturating_record_n(age.value_iterated_to(), age.count_at_value());
    }
    let all = together(answered, unanswered);
    let rank = (q * all.len() as f64).ceil();
    if rank > finite.len() as f64 {
        return true;
    }
    let highest = finite.value_at_quantile(rank / finite.len().max(1) as f64);
    highest as f64 > KNOWN * all.value_at_quantile(q) as f64
}

/// Adds the counts of `more`.
pub(super) fn add(sum: &mut Histogram<u64>, more: &Histogram<u64>) {
    sum.add(more).expect("all histograms have the same bounds");
}

/// Encodes a histogram in the exchange format of HdrHistogram: version 2, compressed, base64.
pub(super) fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).expect("a vector takes what is written");
    STANDARD.encode(bytes)
}

/// Decodes what [`encode`] wrote; `None` for anything else, or other bounds.
pub(super) fn decode(text: &str) -> Option<Histogram<u64>> {
    let bytes = STANDARD.decode(text).ok()?;
    let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).ok()?;
    let bounds = (histogram.low(), histogram.high(), histogram.sigfig());
    (bounds == (SHORTEST, LONGEST, DIGITS)).then_some(histogram)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{
        Histogram, add, decode, encode, is_lower_bound, new_histogram, quantile, quantile_of_few, together,
    };

    fn filled(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut histogram = new_histogram();
        values.into_iter().for_each(|value| histogram.saturating_record(value));
        histogram
    }

    #[test]
    fn a_quantile_needs_100_requests_beyond_it() {
        let with = |n: u64| filled(0..n);
        assert_eq!(quantile(&with(9_999), 0.99), None);
        assert!(quantile(&with(10_000), 0.99).is_some());
        assert_eq!(quantile(&with(10_000), 0.999), None);
        assert_eq!(quantile(&with(199), 0.5), None);
        assert!(quantile(&with(200), 0.5).is_some());
        assert_eq!(quantile(&with(0), 0.0), None);
        let few = |n, q| quantile_of_few(&with(n), q).map(|(_, is_exact)| is_exact);
        assert_eq!(
            [999, 1_000, 9_999, 10_000].map(|n| few(n, 0.99)),
            [Some(false), Some(false), Some(false), Some(true)]
        );
        assert_eq!((few(1, 0.5), few(200, 0.5), few(0, 0.0)), (Some(false), Some(true), None));
    }

    /// A server that stops responding 450 ms before the end of a run at 10,000/s.
    #[test]
    fn what_lies_among_unanswered_requests_is_a_lower_bound() {
        let answered = filled((0..25_500).map(|n| 50_000 + n * 40));
        let unanswered = filled((0..4_500).map(|n| n * 100_000));
        let bounds = |q| is_lower_bound(&answered, &unanswered, q);
        assert_eq!([0.5, 0.9, 0.99, 1.0].map(bounds), [false, true, true, true]);
        let p99 = together(&answered, &unanswered).value_at_quantile(0.99);
        assert!((419_000_000..421_000_000).contains(&p99), "{p99} ns");
        assert!(!is_lower_bound(&answered, &new_histogram(), 1.0), "all were answered");
        assert!(is_lower_bound(&new_histogram(), &unanswered, 0.5), "none was answered");
    }

    /// A server that stalls twice: its responses after the first stall say nothing about the second.
    #[test]
    fn an_earlier_freeze_does_not_vouch_for_the_last() {
        let answered = filled((0..2_000).map(|n| 100_000 + n).chain((0..500).map(|n| n * 1_000_000)));
        assert!(is_lower_bound(&answered, &filled((0..450).map(|n| n * 1_000_000)), 0.99));
    }

    /// Every load has requests in flight when it ends, most of them younger than the usual latency.
    #[test]
    fn what_is_under_way_in_any_load_bounds_nothing() {
        let answered = filled((0..20_000).map(|n| 400_000 + n * 50));
        let unanswered = filled((0..64).map(|n| n * 15_000));
        for q in [0.5, 0.9, 0.99] {
            assert!(!is_lower_bound(&answered, &unanswered, q), "{q}");
        }
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
            let histogram = filled(values);
            prop_assert_eq!(decode(&encode(&histogram)), Some(histogram));
        }

        /// Without the checksum at its end it is still the same.
        #[test]
        fn a_part_of_a_histogram_is_the_whole_or_none(cut in any::<usize>()) {
            let histogram = filled(0..50);
            let whole = encode(&histogram);
            let part = decode(&whole[..cut % whole.len()]);
            prop_assert!(part.is_none_or(|part| part == histogram));
        }

        /// Whatever else is accepted is a histogram that can be written.
        #[test]
        fn a_damaged_histogram_is_one_or_none(at in any::<usize>(), by in "[A-Za-z0-9+/]{1,3}") {
            let whole = encode(&filled(0..50));
            let at = at % (whole.len() - by.len());
            let damaged = format!("{}{by}{}", &whole[..at], &whole[at + by.len()..]);
            if let Some(histogram) = decode(&damaged) {
                prop_assert_eq!(decode(&encode(&histogram)), Some(histogram));
            }
        }

        /// Adding two decoded histograms equals adding the originals.
        #[test]
        fn sums_are_exact(a in proptest::collection::vec(1u64..1 << 40, 0..100), b in proptest::collection::vec(1u64..1 << 40, 0..100)) {
            let mut sum = decode(&encode(&filled(a.clone()))).expect("ours");
            add(&mut sum, &decode(&encode(&filled(b.clone()))).expect("ours"));
            prop_assert_eq!(sum, filled(a.into_iter().chain(b)));
        }
    }
}
