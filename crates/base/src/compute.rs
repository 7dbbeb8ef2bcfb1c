//! A fixed amount of computation, counted in rounds: it takes longer when something takes the CPU away.

use std::hint::black_box;

/// Pure computation, without a system call and with almost no memory: a chain of dependent operations that the compiler
/// cannot shorten, `rounds` long.
pub fn compute(rounds: u64) {
    let mut state = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..rounds {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
}
