//! Pure computation: no system call, almost no memory.

use std::hint::black_box;

/// A chain of dependent operations that the compiler cannot shorten, `rounds` long.
pub fn compute(rounds: u64) {
    let mut state = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..rounds {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
}
