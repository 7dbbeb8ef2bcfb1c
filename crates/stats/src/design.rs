//! The order of the arms: coins drawn only from the recorded seed.
//!
//! A coin depends only on the seed, the phase and the pair number, so a trial resumed
//! after a kill continues in the same order.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

/// The arm that a slot ran with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Arm {
    /// The machine without the change.
    A,
    /// With the change.
    B,
}

impl Arm {
    /// Index of the arm: 0 or 1.
    pub fn index(self) -> usize {
        usize::from(self == Self::B)
    }
}

/// Purpose of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Both slots of the pair ran arm A: they show the noise.
    Calibration,
    /// One slot of each arm.
    Comparison,
}

/// Uses of the random numbers of one seed. Each has its own ChaCha stream, so that more
/// draws for one never shift those of another. The numbers are part of the record's meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Order of the arms.
    Coins = 1,
    /// Relabelling the calibration pairs.
    Relabel = 2,
    /// Monte Carlo sign flips.
    SignFlip = 3,
    /// Noise of simulated slots.
    Noise = 4,
    /// Order of the runs of a search.
    Rounds = 5,
    /// Order of the arms within a block.
    Blocks = 6,
}

/// The random numbers of `seed` for `purpose`, from the start. Each use must have its own purpose.
pub fn stream(seed: u64, purpose: Purpose) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(purpose as u64);
    rng
}

/// The arms of the first and the second slot of pair `pair`, a pure function of its arguments.
/// Both are A in the calibration phase.
pub fn order(seed: u64, phase: Phase, pair: usize) -> [Arm; 2] {
    let mut rng = stream(seed, Purpose::Coins);
    rng.set_word_pos(pair as u128);
    arms(phase, rng.next_u32())
}

/// Words of random numbers of a block: one for each arm but the first.
const BLOCK_WORDS: u128 = 64;

/// The arms of block `block` in the order of its slots, each of `0..arms` once; a pure function of its arguments.
/// `arms` must be at most 65, else blocks share random numbers.
pub fn block(seed: u64, block: usize, arms: usize) -> Vec<usize> {
    let mut rng = stream(seed, Purpose::Blocks);
    rng.set_word_pos(block as u128 * BLOCK_WORDS);
    let mut order: Vec<usize> = (0..arms).collect();
    for last in (1..arms).rev() {
        // From 0 to `last`; uneven by less than 2^-25.
        let at = (u64::from(rng.next_u32()) * (last as u64 + 1)) >> 32;
        order.swap(last, at as usize);
    }
    order
}

/// The orders of all pairs of a phase from pair 0 on: `order` without seeking for each.
pub fn orders(seed: u64, phase: Phase) -> impl Iterator<Item = [Arm; 2]> {
    let mut rng = stream(seed, Purpose::Coins);
    std::iter::repeat_with(move || arms(phase, rng.next_u32()))
}

fn arms(phase: Phase, word: u32) -> [Arm; 2] {
    match (phase, word & 1) {
        (Phase::Calibration, _) => [Arm::A, Arm::A],
        (Phase::Comparison, 0) => [Arm::A, Arm::B],
        (Phase::Comparison, _) => [Arm::B, Arm::A],
    }
}

#[cfg(test)]
mod tests {
    use super::{Arm, Phase, block, order, orders};

    fn letters(seed: u64, pairs: usize) -> String {
        (0..pairs)
            .map(|pair| if order(seed, Phase::Comparison, pair)[0] == Arm::A { 'A' } else { 'B' })
            .collect()
    }

    /// A record holds the seed, not the coins: another order for the same seed would invalidate every
    /// old record.
    #[test]
    fn the_coins_of_a_seed_never_change() {
        assert_eq!(letters(1, 32), "BBABABBABAABBBABAABAABBABBBBABAB");
        assert_eq!(letters(2, 32), "BBAABABABBAABABAAAAAABBABBBBBAAA");
    }

    #[test]
    fn every_order_of_a_block_is_equally_likely_and_never_changes() {
        let mut counts = std::collections::BTreeMap::new();
        for number in 0..6000 {
            *counts.entry(block(5, number, 3)).or_insert(0) += 1;
        }
        // Four standard deviations of 6000 draws with a chance of 1 in 6 are 115.
        assert!(counts.len() == 6 && counts.values().all(|count| (885..=1115).contains(count)), "{counts:?}");
        assert_eq!(block(5, 17, 8), block(5, 17, 8));
        assert_ne!(block(5, 17, 8), block(6, 17, 8));
    }

    #[test]
    fn sought_coins_equal_drawn_ones() {
        for (pair, arms) in orders(7, Phase::Comparison).take(300).enumerate() {
            assert_eq!(arms, order(7, Phase::Comparison, pair), "pair {pair}");
        }
    }

    #[test]
    fn every_comparison_pair_has_both_arms_and_every_calibration_pair_only_a() {
        for pair in 0..50 {
            let [first, second] = order(3, Phase::Comparison, pair);
            assert_ne!(first, second);
            assert_eq!(order(3, Phase::Calibration, pair), [Arm::A; 2]);
        }
    }

    #[test]
    fn the_coin_is_fair_and_has_no_memory() {
        let coins: Vec<bool> =
            orders(11, Phase::Comparison).take(10_000).map(|arms| arms[0] == Arm::A).collect();
        let heads = coins.iter().filter(|&&coin| coin).count();
        let repeats = coins.windows(2).filter(|pair| pair[0] == pair[1]).count();
        // Four standard deviations of 10,000 fair coins are 200.
        assert!((4800..=5200).contains(&heads), "{heads}");
        assert!((4800..=5200).contains(&repeats), "{repeats}");
    }
}
