//! Cheap random numbers that are the same in every run; they need not be unpredictable.

/// Step of the state between two numbers.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64 of Steele, Lea and Flood.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The generator of seed 0 after `count` numbers.
    pub(crate) fn after(count: u64) -> Self {
        Self(count.wrapping_mul(STEP))
    }

    /// The next number: uniform over all 64-bit values.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 up to but not including `bound`, which is above 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // The high word of the product: no division, and a bias of bound / 2^64.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}
