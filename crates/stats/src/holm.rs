//! Holm's step-down rule for several metrics at once, in a form that intervals can use.

/// For each p-value the number by which its error `alpha` is divided.
///
/// In rising order of p the divisors are k, k - 1, ... 1. At the first p above alpha / divisor the
/// rule stops, and the rest keep that divisor. So an interval at the divided level
/// excludes 0 exactly when Holm's test rejects, and the chance of one or more false rejections is
/// at most `alpha`, however the metrics depend on each other. `p` must hold every p-value that is judged
/// together.
pub fn divisors(p: &[f64], alpha: f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut result = vec![p.len(); p.len()];
    let mut divisor = p.len();
    let mut stopped = false;
    for index in order {
        result[index] = divisor;
        stopped |= p[index] > alpha / divisor as f64;
        if !stopped {
            divisor -= 1;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::divisors;

    #[test]
    fn steps_down_until_the_first_that_does_not_reject() {
        assert_eq!(divisors(&[0.20, 0.001, 0.02], 0.05), [1, 3, 2]);
        // 0.03 > 0.05 / 2: it stops there, although 0.04 alone would be below 0.05.
        assert_eq!(divisors(&[0.04, 0.001, 0.03], 0.05), [2, 3, 2]);
        assert_eq!(divisors(&[0.9, 0.8], 0.05), [2, 2]);
        assert_eq!(divisors(&[], 0.05), [0usize; 0]);
    }

    proptest! {
        /// Against the textbook's adjusted p: running maximum of (k - j) p_(j).
        #[test]
        fn rejects_what_adjusted_p_values_reject(p in proptest::collection::vec(0.0f64..0.1, 0..9)) {
            let divisors = divisors(&p, 0.05);
            let mut order: Vec<usize> = (0..p.len()).collect();
            order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
            let mut adjusted = 0.0f64;
            for (rank, &index) in order.iter().enumerate() {
                adjusted = adjusted.max(p[index] * (p.len() - rank) as f64);
                // At the exact boundary rounding may decide either way.
                if (adjusted - 0.05).abs() > 1e-12 {
                    prop_assert_eq!(p[index] <= 0.05 / divisors[index] as f64, adjusted <= 0.05);
                }
            }
        }
    }
}
